// Doorbell words of the threaded engine: only ever read, and looked at while something waits for a ring.
#include "nicsim/threaded/doorbell_words.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <thread>
#include <vector>

#include "tests/local_fabric.h"
#include "transport/nic/nic.h"

namespace lanyard {
namespace {

using nic::CounterId;
using nicsim::DoorbellWords;
using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

void add(uint64_t* word, uint64_t value) { std::atomic_ref<uint64_t>(*word).fetch_add(value); }
uint64_t load(uint64_t* word) { return std::atomic_ref<uint64_t>(*word).load(); }

std::map<uint32_t, uint64_t> read(DoorbellWords& words) {
  std::map<uint32_t, uint64_t> rung;
  words.read([&](CounterId counter, uint64_t value) { rung[counter.value] += value; });
  return rung;
}

using Rung = std::map<uint32_t, uint64_t>;

TEST(DoorbellWords, RingTheDifference) {
  DoorbellWords words(100);
  uint64_t* const three = words.hand_out({3});
  uint64_t* const seven = words.hand_out({7});
  EXPECT_EQ(words.hand_out({3}), three);
  EXPECT_EQ(words.handed_out(), 2u);
  EXPECT_EQ(read(words), Rung{});
  add(three, 5);
  add(seven, 1);
  add(three, 2);
  EXPECT_EQ(words.hand_out({3}), three) << "and what has been rung is not forgotten";
  EXPECT_EQ(read(words), (Rung{{3, 7}, {7, 1}}));
  EXPECT_EQ(read(words), Rung{});
  EXPECT_EQ(load(three), 7u) << "they are not written";
}

TEST(DoorbellWords, CountOnWhenHandedOutAgain) {
  DoorbellWords words(10);
  uint64_t* const word = words.hand_out({0});
  add(word, 5);
  words.take_back({0});
  EXPECT_EQ(read(words), Rung{});
  add(word, 3);
  EXPECT_EQ(words.hand_out({0}), word);
  EXPECT_EQ(read(words), Rung{}) << "rings of a closed counter vanish";
  add(word, 2);
  EXPECT_EQ(read(words), (Rung{{0, 2}}));
  EXPECT_EQ(load(word), 10u);
}

TEST(DoorbellWords, Wrap) {
  DoorbellWords words(10);
  uint64_t* const word = words.hand_out({9});
  words.take_back({9});
  add(word, UINT64_MAX - 1);
  words.hand_out({9});
  add(word, 5);
  EXPECT_EQ(read(words), (Rung{{9, 5}}));
  EXPECT_EQ(load(word), 3u);
}

// Of totals that are stored on two ways, the smaller may come last.
TEST(DoorbellWords, ATotalThatComesLateRingsNothing) {
  DoorbellWords words(10);
  uint64_t* const word = words.hand_out({4});
  std::atomic_ref<uint64_t>(*word).store(3);
  EXPECT_EQ(read(words), (Rung{{4, 3}}));
  std::atomic_ref<uint64_t>(*word).store(2);
  EXPECT_EQ(read(words), Rung{});
  std::atomic_ref<uint64_t>(*word).store(5);
  EXPECT_EQ(read(words), (Rung{{4, 2}}));
}

TEST(DoorbellWords, HaveWholePages) {
  const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  DoorbellWords words(3);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(words.hand_out({0})) % page, 0u);
  EXPECT_EQ(words.hand_out({2}), words.hand_out({0}) + 2);
}

// ---- Who looks at them

struct Bell {
  explicit Bell(milliseconds spin_for) : fabric(1, options(spin_for)) {
    operand = flag = 0;
    operand_region = nic().register_region(&operand, 8, {}).value();
    flag_region = nic().register_region(&flag, 8, {}).value();
    trigger = nic().open_counter().value();
    word = nic().doorbell(trigger, nic::DoorbellKind::kAtomicAdd).value().word;
  }
  static LocalOptions options(milliseconds spin_for) {
    LocalOptions options;
    options.spin_for = spin_for;
    return options;
  }
  nic::Nic& nic() { return fabric.nic(0); }
  // An entry that waits for the i-th ring, and sets the flag to 1.
  void post(uint64_t i) {
    operand = 1;
    flag = 0;
    nic::Op op;
    op.kind = nic::OpKind::kAtomic;
    op.atomic = nic::AtomicKind::kReplace;
    op.local = {operand_region, 0};
    op.remote = {0, nic().key(flag_region).value(), 0};
    const nic::DeferredOp deferred{.op = op, .trigger = trigger, .threshold = i};
    EXPECT_TRUE(nic().post({&deferred, 1}).ok());
  }

  alignas(8) uint64_t operand;
  alignas(8) uint64_t flag;
  LocalFabric fabric;
  nic::RegionId operand_region, flag_region;
  CounterId trigger;
  uint64_t* word = nullptr;
};

std::chrono::nanoseconds processor_time() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto of = [](const timeval& time) { return std::chrono::seconds(time.tv_sec) + microseconds(time.tv_usec); };
  return of(usage.ru_utime) + of(usage.ru_stime);
}

// Nothing here is said of how fast a busy machine is; the figures are printed.
TEST(Polling, FromARingToItsEffect) {
  for (const milliseconds spin_for : {milliseconds(20), milliseconds(0)}) {
    Bell bell(spin_for);
    std::vector<double> times;
    for (uint64_t i = 1; i <= 200; ++i) {
      bell.post(i);
      std::this_thread::sleep_for(milliseconds(1));
      const auto before = steady_clock::now();
      add(bell.word, 1);
      while (load(&bell.flag) == 0 && steady_clock::now() - before < std::chrono::seconds(20))
        std::this_thread::yield();
      ASSERT_EQ(load(&bell.flag), 1u);
      times.push_back(std::chrono::duration<double, std::micro>(steady_clock::now() - before).count());
    }
    std::sort(times.begin(), times.end());
    std::printf("from a ring to its effect, spinning for %d ms: median %.2f us, a tenth above %.2f us\n",
                static_cast<int>(spin_for.count()), times[times.size() / 2], times[times.size() * 9 / 10]);
  }
}

// With an entry that waits for a ring that does not come.
TEST(Polling, DoesNotBurnACoreForEver) {
  Bell bell(milliseconds(20));
  bell.post(1);
  std::this_thread::sleep_for(milliseconds(200));
  const auto before = processor_time();
  std::this_thread::sleep_for(milliseconds(500));
  const double share = std::chrono::duration<double>(processor_time() - before).count() / 0.5;
  std::printf("processor time while it waits for long: %.0f %%\n", share * 100);
  EXPECT_LT(share, 0.8);
  add(bell.word, 1);
  const auto deadline = steady_clock::now() + std::chrono::seconds(20);
  while (load(&bell.flag) == 0 && steady_clock::now() < deadline)
    std::this_thread::sleep_for(milliseconds(1));
  EXPECT_EQ(load(&bell.flag), 1u);
}

// A late thread sees the words grow and nothing else.
TEST(Polling, TheNicNeverWritesAWord) {
  Bell bell(milliseconds(20));
  uint64_t* const word = bell.word;
  for (int i = 0; i < 1000; ++i) {
    add(word, 3);
    bell.nic().progress();
  }
  EXPECT_EQ(load(word), 3000u);
  EXPECT_EQ(bell.nic().read(bell.trigger).value().success, 3000u);
  ASSERT_TRUE(bell.nic().close_counter(bell.trigger).ok());
  const CounterId next = bell.nic().open_counter().value();
  EXPECT_EQ(next, bell.trigger) << "ids are used again";
  EXPECT_EQ(load(word), 3000u);
  EXPECT_EQ(bell.nic().doorbell(next, nic::DoorbellKind::kAtomicAdd).value().word, word);
  bell.nic().progress();
  EXPECT_EQ(bell.nic().read(next).value(), nic::CounterValue{});
  add(word, 2);
  bell.nic().progress();
  EXPECT_EQ(bell.nic().read(next).value().success, 2u);
}

}  // namespace
}  // namespace lanyard
