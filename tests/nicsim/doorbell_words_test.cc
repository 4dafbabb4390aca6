// Doorbell words of the threaded engine: the NIC only reads them, and only while an entry
// waits for a ring.
#include "nicsim/threaded/doorbell_words.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <ctime>
#include <map>
#include <thread>

#include "tests/contract/local_fabric.h"
#include "transport/nic/nic.h"

namespace lanyard {
namespace {

using nic::CounterId;
using nicsim::DoorbellWords;
using std::chrono::milliseconds;

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
  EXPECT_EQ(words.hand_out({3}), three) << "a second hand_out() must keep earlier rings";
  EXPECT_EQ(read(words), (Rung{{3, 7}, {7, 1}}));
  EXPECT_EQ(read(words), Rung{});
  EXPECT_EQ(load(three), 7u) << "read() must not write the word";
}

TEST(DoorbellWords, CountAfreshWhenHandedOutAgain) {
  DoorbellWords words(10);
  uint64_t* const word = words.hand_out({0});
  add(word, 5);
  words.take_back({0});
  EXPECT_EQ(read(words), Rung{});
  add(word, 3);
  EXPECT_EQ(words.hand_out({0}), word);
  EXPECT_EQ(read(words), Rung{}) << "rings of a closed counter must not count";
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

// Two totals stored by different paths may arrive in the wrong order.
TEST(DoorbellWords, ALateSmallerTotalRingsNothing) {
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

// ---- Polling of the words

struct Bell {
  nic::Nic& nic() { return fabric.nic(0); }

  LocalFabric fabric = LocalFabric(1);
  const CounterId trigger = nic().open_counter().value();
  uint64_t* const word = nic().doorbell(trigger, nic::DoorbellKind::kAtomicAdd).value().word;
};

// With an entry whose ring never comes.
TEST(Polling, DoesNotKeepACoreBusy) {
  Bell bell;
  nic::DeferredOp waits{.op = {}, .trigger = bell.trigger, .threshold = 1};
  waits.op.local = {bell.nic().register_region(nullptr, 0).value()};
  ASSERT_TRUE(bell.nic().post({&waits, 1}).ok());
  std::this_thread::sleep_for(milliseconds(200));
  const std::clock_t before = std::clock();  // of all threads
  std::this_thread::sleep_for(milliseconds(500));
  EXPECT_LT(static_cast<double>(std::clock() - before) / CLOCKS_PER_SEC, 0.4);
}

}  // namespace
}  // namespace lanyard
