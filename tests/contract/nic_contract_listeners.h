// The NIC contract: who listens to a counter is told of messages though its process does nothing (N11).
#ifndef LANYARD_TESTS_NIC_CONTRACT_LISTENERS_H_
#define LANYARD_TESTS_NIC_CONTRACT_LISTENERS_H_

#include "tests/contract/nic_contract_fixture.h"

namespace lanyard::nic_contract {

// Counts its calls.
struct Ear {
  std::atomic<uint64_t> calls{0};
  nic::Listener listener() {
    return {[](void* object) { static_cast<Ear*>(object)->calls.fetch_add(1); }, this};
  }
};

// The target makes no call at all: its NIC's own thread takes the message in and calls.
TEST_P(NicContract, Listener_IsCalledWhileItsProcessDoesNothing) {
  if (!start())
    return;
  Ear ear;
  const CounterId done = counter();
  const CounterId arrivals = counter(1);
  const Status listening = nic(1).listen(arrivals, ear.listener());
  if (listening.code() == Code::kUnsupported)
    return skip(listening.message());
  ASSERT_TRUE(is_ok(listening));
  Memory& source = memory(0, 64);
  Memory& target = memory(1, 64, arrivals);
  for (uint64_t message = 1; message <= 20; ++message) {
    const uint64_t before = ear.calls.load();
    source.store(message);
    issue(message % 2 == 0 ? sum_op(source, 0, target, 8, done) : write_op(source, 0, target, 0, 8, done));
    ASSERT_TRUE(happens_without_us([&] { return ear.calls.load() > before; })) << "message " << message;
    ASSERT_EQ(value(arrivals, 1).success, message);
    ASSERT_TRUE(reaches(done, message));  // only then may the source be written
    if (message % 5 == 0)                 // long enough for a thread to go to sleep
      std::this_thread::sleep_for(std::chrono::milliseconds(120));
  }
  EXPECT_TRUE(is_ok(nic(1).listen(arrivals, {})));
}

TEST_P(NicContract, Listener_IsCalledOnceMoreAfterTheLastOfMany) {
  if (!start())
    return;
  constexpr uint64_t kMessages = 500;
  struct Reader {
    Nic* nic;
    CounterId arrivals;
    std::atomic<uint64_t> calls{0};
  } reader{&nic(1), counter(1)};
  const Status listening =
      nic(1).listen(reader.arrivals, {[](void* object) { static_cast<Reader*>(object)->calls.fetch_add(1); }, &reader});
  if (listening.code() == Code::kUnsupported)
    return skip(listening.message());
  Memory& source = memory(0, 64);
  Memory& target = memory(1, 64, reader.arrivals);
  std::thread sender([&] {
    for (uint64_t i = 0; i < kMessages; ++i)
      issue(write_op(source, 0, target, 0, 8));
  });
  // Who looks at the counter whenever it is called, and then only, sees all in the end.
  uint64_t seen_calls = 0;
  uint64_t seen = 0;
  const bool all = happens_without_us([&] {
    const uint64_t calls = reader.calls.load();
    if (calls != seen_calls) {
      seen_calls = calls;
      seen = value(reader.arrivals, 1).success;
    }
    return seen == kMessages;
  });
  sender.join();
  EXPECT_TRUE(all) << seen << " of " << kMessages;
  EXPECT_TRUE(is_ok(nic(1).listen(reader.arrivals, {})));
}

TEST_P(NicContract, Listener_IsNotCalledForOthersCountersNorOnceItHasGone) {
  if (!start())
    return;
  Ear ear;
  const CounterId arrivals = counter(1);
  const CounterId other = counter(1);
  const Status listening = nic(1).listen(arrivals, ear.listener());
  if (listening.code() == Code::kUnsupported)
    return skip(listening.message());
  Memory& source = memory(0, 64);
  Memory& target = memory(1, 64, arrivals);
  Memory& elsewhere = memory(1, 64, other);
  const CounterId done = counter();
  issue(write_op(source, 0, target, 0, 8, done));
  ASSERT_TRUE(reaches(arrivals, 1, 1));
  ASSERT_TRUE(eventually([&] { return ear.calls.load() > 0; }));
  settle();
  const uint64_t before = ear.calls.load();
  issue(write_op(source, 0, elsewhere, 0, 8, done));
  ASSERT_TRUE(reaches(other, 1, 1));
  settle();
  EXPECT_EQ(ear.calls.load(), before);
  ASSERT_TRUE(is_ok(nic(1).listen(arrivals, {})));
  issue(write_op(source, 0, target, 0, 8, done));
  ASSERT_TRUE(reaches(arrivals, 2, 1));
  settle();
  EXPECT_EQ(ear.calls.load(), before);
}

TEST_P(NicContract, Listener_OneANicAndOfAnOpenCounter) {
  if (!start())
    return;
  Ear first, second;
  const CounterId arrivals = counter();
  const Status listening = nic().listen(arrivals, first.listener());
  if (listening.code() == Code::kUnsupported)
    return skip(listening.message());
  ASSERT_TRUE(is_ok(listening));
  refused({Code::kInvalidState}, "a second listener", [&] { return nic().listen(arrivals, second.listener()); });
  refused({Code::kInvalidState}, "closing a counter that is listened to",
          [&] { return nic().close_counter(arrivals); });
  ASSERT_TRUE(is_ok(nic().listen(arrivals, {})));
  refused({Code::kNotFound}, "a counter that is not open", [&] { return nic().listen({}, second.listener()); });
  EXPECT_TRUE(is_ok(nic().listen(arrivals, second.listener())));
  EXPECT_TRUE(is_ok(nic().listen(arrivals, {})));
  EXPECT_EQ(second.calls.load(), 0u);
}

}  // namespace lanyard::nic_contract

#endif  // LANYARD_TESTS_NIC_CONTRACT_LISTENERS_H_
