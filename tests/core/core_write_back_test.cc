// Strategy C: words that a NIC copies counters to, over the lives of several requests.
#include <gtest/gtest.h>

#include <unistd.h>

#include <atomic>
#include <cstdint>

#include "tests/core/core_kept_memory.h"
#include "tests/core/core_local_job.h"
#include "transport/nic/forwarding_nic.h"

namespace lanyard {
namespace {

constexpr uint64_t kBytes = 64;

// One message from process 0 to process 1, whose content is of `seed`.
void iterate(LocalJob& job, Request& send, Request& receive, uint64_t seed) {
  Request* const sends[] = {&send};
  Request* const receives[] = {&receive};
  fill(send, seed);
  job[1].start(receives);
  job[0].start(sends);
  job[0].wait(sends);
  job[1].wait(receives);
  job[0].synchronize();
  job[1].synchronize();
  EXPECT_TRUE(holds(receive, seed));
}

class WriteBack : public ::testing::Test {
 protected:
  WriteBack() : job(2, {.strategy = core::Strategy::kWriteBack}) {}

  void iterate(Request& send, Request& receive, uint64_t seed) { lanyard::iterate(job, send, receive, seed); }

  LocalJob job;
};

// The next user of a word goes on counting from where the last came to: nobody who looks late is misled.
TEST_F(WriteBack, WordsGrowOverTheLivesOfRequests) {
  const uint64_t* word = nullptr;
  uint64_t last = 0;
  int again = 0;
  for (uint64_t life = 0; life < 20; ++life) {
    Request& send = job[0].send(1, 7, kBytes);
    Request& receive = job[1].receive(0, 7, kBytes);
    job.match();
    ASSERT_TRUE(send.written_back);
    EXPECT_FALSE(receive.written_back);
    again += send.done.address == word ? 1 : 0;
    EXPECT_TRUE(send.done.address != word || send.done.read() >= last);
    word = send.done.address;
    for (uint64_t i = 1; i <= 3; ++i) {
      iterate(send, receive, 100 * life + i);
      EXPECT_EQ(send.iterations_done(), i);
    }
    last = send.done.read();
    EXPECT_TRUE(works(job[0].endpoint.free_request(&send)));
    EXPECT_TRUE(works(job[1].endpoint.free_request(&receive)));
  }
  EXPECT_GT(again, 0) << "a word was used again";
}

// The wait of a send that failed does not pass, the program is told, and its word is nobody's any more.
TEST_F(WriteBack, AFailedSendIsTold) {
  Request& send = job[0].send(1, 7, kBytes);
  Request& receive = job[1].receive(0, 7, kBytes);
  job.match();
  iterate(send, receive, 1);
  Request* const sends[] = {&send};
  Request* const receives[] = {&receive};
  // Its target goes away under it.
  ASSERT_TRUE(works(job[1].endpoint.nic().deregister_region(receive.buffer)));
  receive.buffer = {};
  job[1].start(receives);
  job[0].start(sends);
  job[0].wait(sends);
  job[1].wait(receives);
  const core::Request* failed = nullptr;
  const auto end = LocalJob::Clock::now() + LocalJob::kBound;
  while (failed == nullptr && LocalJob::Clock::now() < end) {
    job[0].stream.poll();
    failed = job[0].endpoint.take_failed(*job[0].queue);
  }
  ASSERT_EQ(failed, &send);
  EXPECT_FALSE(job[0].stream.poll());
  EXPECT_FALSE(send.complete());
  EXPECT_EQ(job[0].endpoint.free_request(&send).code(), Code::kInvalidState);
  job[1].synchronize();  // the flag is raised all the same
  job[0].stream.halt();
}

// ---- Without an entry

// A NIC whose only entry never becomes free: the overflow issues everything by itself.
class WriteBackWithoutEntries : public ::testing::TestWithParam<bool> {
 protected:
  static LocalJobOptions options() {
    LocalJobOptions options{.overflow_thread = false, .strategy = core::Strategy::kWriteBack};
    options.local.limits.deferred_depth = 1;
    options.local.checked = GetParam();
    return options;
  }
  void take_the_entry(nic::Nic& nic) {
    nic::DeferredOp never{.op = {}, .trigger = nic.open_counter().value(), .threshold = 1};
    never.op.kind = nic::OpKind::kCounterAdd;
    never.op.counter = nic.open_counter().value();
    never.op.value = 1;
    ASSERT_TRUE(works(nic.post({&never, 1})));
    ASSERT_EQ(nic.free_entries(), 0u);
  }

  LocalJob job{2, options()};
};
INSTANTIATE_TEST_SUITE_P(Nic, WriteBackWithoutEntries, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "Checked" : "Plain"; });

// The copy that a deferred operation asks for is asked for by the operation that is issued in its place too.
TEST_P(WriteBackWithoutEntries, TheOverflowAsksForTheCopyToo) {
  Request& send = job[0].send(1, 7, kBytes);
  Request& receive = job[1].receive(0, 7, kBytes);
  job.match();
  ASSERT_TRUE(send.written_back);
  take_the_entry(job[0].endpoint.nic());
  for (uint64_t i = 1; i <= 3; ++i) {
    iterate(job, send, receive, i);
    EXPECT_EQ(send.iterations_done(), i);
    EXPECT_EQ(job[0].endpoint.overflow().by_software(), 2 * i) << "the write, and the flag with the copy";
    EXPECT_EQ(job[0].endpoint.nic().failures(), 0u);
  }
}

// ---- The end

// A NIC that has something to do with a counter for ever.
struct HoldingNic final : nic::ForwardingNic {
  using ForwardingNic::ForwardingNic;
  Status close_counter(nic::CounterId counter) override {
    return counter == held ? Status(Code::kInvalidState, "a test's refusal") : inner().close_counter(counter);
  }
  nic::CounterId held;
};

class WriteBackEnd : public ::testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(Request, WriteBackEnd, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "FreedBefore" : "NeverFreed"; });

// A counter that stays open is copied to its word whenever it is read, though the endpoint has gone.
TEST_P(WriteBackEnd, AWordThatTheNicMayWriteOutlivesTheEndpoint) {
  LocalFabric fabric(1);
  HoldingNic nic(fabric.nic(0));
  uint64_t* word = nullptr;
  {
    Mail mail(1);
    Process process(nic, 0, mail, {.overflow_thread = false, .strategy = core::Strategy::kWriteBack});
    Request& send = process.send(0, 7, kBytes);
    process.receive(0, 7, kBytes);
    while (mail.under_way() > 0)
      process.matcher.progress();
    ASSERT_TRUE(send.written_back);
    nic.held = send.completion;
    word = send.done.address;
    if (GetParam()) {
      EXPECT_TRUE(works(process.endpoint.free_request(&send)));
    }
  }
  ASSERT_TRUE(works(nic.add(nic.held, 5)));
  const uint64_t count = nic.read(nic.held).value().success;
  const auto end = LocalJob::Clock::now() + LocalJob::kBound;
  const auto seen = [&] { return nic::from_word(std::atomic_ref(*word).load()).success; };
  while (seen() < count && LocalJob::Clock::now() < end)
    nic.progress();
  EXPECT_EQ(seen(), count);
  EXPECT_TRUE(is_kept(word, 2 * static_cast<uint32_t>(::sysconf(_SC_PAGESIZE)) / sizeof(uint64_t)));
}

}  // namespace
}  // namespace lanyard
