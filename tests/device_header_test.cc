// lanyard_device.h on the host: every way to ring, and sets of every size, without a card; and lanes in host memory.
#include <lanyard/lanyard_device.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

namespace lanyard::gpu {
namespace {

using namespace std::chrono_literals;

constexpr uint64_t kMark = uint64_t{1} << 63;  // of a word that a card writes: not a part of the count

// A set with a bell of each kind and `completions` completions, of which every other one counts two a start.
class Set {
 public:
  explicit Set(uint64_t completions)
      : words(completions),
        counts(completions),
        memory_((sizeof(MPIX_Device_requests) + (3 + completions) * sizeof(MPIX_Device_request)) / sizeof(uint64_t)) {
    for (uint64_t i = 0; i < completions; ++i)
      words[i] = kMark | (counts[i] = 10 * i);
    head().requests = 3 + completions;
    head().released = address(&released);
    for (const uint64_t how : {LANYARD_STORE_ONE, LANYARD_ADD_ONE, LANYARD_STORE_TOTAL})
      row(how).bell = {address(&bells[how]), how, how == LANYARD_STORE_TOTAL ? address(&total) : 0};
    for (uint64_t i = 0; i < completions; ++i)
      row(3 + i).completion = {address(&words[i]), address(&counts[i]), step(i)};
  }
  Set(const Set&) = delete;

  const MPIX_Device_requests* get() const { return reinterpret_cast<const MPIX_Device_requests*>(memory_.data()); }
  static uint64_t step(uint64_t i) { return 1 + i % 2; }
  void complete(uint64_t i) { words[i] += step(i); }

  std::vector<uint64_t> words, counts;
  uint64_t released = 0;
  uint64_t bells[3] = {7, 7, 7};
  uint64_t total = 40;

 private:
  static uint64_t address(uint64_t* word) { return reinterpret_cast<uint64_t>(word); }
  MPIX_Device_requests& head() { return *reinterpret_cast<MPIX_Device_requests*>(memory_.data()); }
  MPIX_Device_request& row(uint64_t i) { return reinterpret_cast<MPIX_Device_request*>(&head() + 1)[i]; }

  std::vector<uint64_t> memory_;
};

TEST(DeviceHeader, AStartRingsEachBellInItsWay) {
  Set set(0);
  for (uint64_t i = 1; i <= 3; ++i) {
    MPIX_Device_startall(set.get());
    EXPECT_EQ(set.bells[LANYARD_STORE_ONE], 1u);
    EXPECT_EQ(set.bells[LANYARD_ADD_ONE], 7 + i);
    EXPECT_EQ(set.bells[LANYARD_STORE_TOTAL], 40 + i);
    EXPECT_EQ(set.total, 40 + i);
    EXPECT_TRUE(MPIX_Device_testall(set.get())) << "there is nothing to wait for";
  }
}

// More completions than are looked at together, and each of them the last one.
TEST(DeviceHeader, ATestPassesOnceAllHaveCompleted) {
  for (uint64_t completions = 1; completions <= 2 * LANYARD_LOOKS_AT_ONCE + 1; ++completions) {
    Set set(completions);
    for (uint64_t last = 0; last < completions; ++last) {
      const std::vector<uint64_t> before = set.counts;
      for (uint64_t i = 0; i < completions; ++i)
        if (i != last)
          set.complete(i);
      EXPECT_FALSE(MPIX_Device_testall(set.get())) << last << " of " << completions;
      EXPECT_EQ(set.counts, before);
      if (Set::step(last) == 2) {
        ++set.words[last];
        EXPECT_FALSE(MPIX_Device_testall(set.get())) << "half of it";
        --set.words[last];
      }
      set.complete(last);
      if (last % 2 == 0) {
        EXPECT_TRUE(MPIX_Device_testall(set.get()));
      } else {
        MPIX_Device_waitall(set.get());
      }
      for (uint64_t i = 0; i < completions; ++i)
        EXPECT_EQ(set.counts[i], before[i] + Set::step(i));
    }
  }
}

// Every request but number 1, whose bell adds.
TEST(DeviceHeader, OneRequestIsStartedAlone) {
  Set set(0);
  MPIX_Device_start(set.get(), 1);
  MPIX_Device_raise(set.get(), 1);
  EXPECT_EQ(set.bells[LANYARD_ADD_ONE], 9u);
  EXPECT_EQ(set.bells[LANYARD_STORE_ONE], 7u);
  EXPECT_EQ(set.total, 40u);
  EXPECT_EQ(MPIX_Device_remote(set.get(), 1), nullptr);
  EXPECT_FALSE(MPIX_Device_may_store(set.get(), 1));
}

TEST(DeviceHeader, WhatIsReleasedIsLetPassAndStartsNoMore) {
  for (const bool tests : {false, true}) {
    Set set(1);
    std::thread releases([&] {
      std::this_thread::sleep_for(2ms);
      lanyard_store(reinterpret_cast<uint64_t>(&set.released), 1);
    });
    if (tests) {
      while (MPIX_Device_testall(set.get()) == 0)
        std::this_thread::yield();
    } else {
      MPIX_Device_waitall(set.get());
    }
    releases.join();
    EXPECT_EQ(set.counts[0], 0u);
    MPIX_Device_startall(set.get());
    EXPECT_EQ(set.bells[LANYARD_ADD_ONE], 7u);
    MPIX_Device_waitall(set.get());
  }
}

// The ends of pairs of lanes, as they are connected: messages of so many bytes in so many chunks, or by slots.
class Pairs {
 public:
  static constexpr uint64_t kBySlots = 0;

  Pairs(size_t count, uint64_t bytes, uint64_t chunks, bool ready = false) {
    for (size_t i = 0; i < count; ++i)
      pairs_.emplace_back(std::make_unique<Pair>(bytes));
    for (const std::unique_ptr<Pair>& pair : pairs_) {
      connect(pair->send, pair->receive, bytes, chunks, ready);
      connect(pair->receive, pair->send, bytes, chunks, ready);
      pair->send.end.sends = 1;
      if (chunks == kBySlots)
        pair->send.end.slots = pair->receive.end.slots = address(pair->receive.slots.data());
    }
  }
  struct Side {
    explicit Side(uint64_t bytes) : buffer(bytes + 1), slots(2 * slot_bytes(bytes) / sizeof(uint64_t)) {}
    LaneEnd end{};
    std::vector<uint8_t> buffer;
    std::vector<uint64_t> slots;
    uint64_t gone = 0;

    void fill(uint64_t iteration) {
      for (size_t i = 0; i + 1 < buffer.size(); ++i)
        buffer[i] = static_cast<uint8_t>(3 * i + 7 * iteration + i / 250);
    }
    size_t mistakes(uint64_t iteration) const {
      size_t wrong = buffer.back() != 0 ? 1 : 0;
      for (size_t i = 0; i + 1 < buffer.size(); ++i)
        wrong += buffer[i] != static_cast<uint8_t>(3 * i + 7 * iteration + i / 250) ? 1 : 0;
      return wrong;
    }
  };
  struct Pair {
    explicit Pair(uint64_t bytes) : send(bytes), receive(bytes) {}
    Side send, receive;
  };
  size_t size() const { return pairs_.size(); }
  Side& send(size_t i = 0) { return pairs_[i]->send; }
  Side& receive(size_t i = 0) { return pairs_[i]->receive; }

 private:
  static uint64_t address(const void* of) { return reinterpret_cast<uint64_t>(of); }
  static void connect(Side& side, const Side& other, uint64_t bytes, uint64_t chunks, bool ready) {
    LaneEnd& end = side.end;
    end.buffer = address(side.buffer.data());
    end.peer_buffer = address(other.buffer.data());
    end.peer = address(&other.end);
    end.bytes = bytes;
    end.chunks = std::max(chunks, uint64_t{1});
    end.chunk_bytes = (bytes + end.chunks - 1) / end.chunks;
    end.ready = ready ? 1 : 0;
    end.gone = address(&side.gone);
  }
  std::vector<std::unique_ptr<Pair>> pairs_;
};

// A set of lanes, as kernels see it; and as host threads do that stand for the blocks of one.
class LaneSet {
 public:
  explicit LaneSet(const std::vector<LaneEnd*>& ends)
      : memory_((sizeof(MPIX_Device_requests) + ends.size() * sizeof(MPIX_Device_request)) / sizeof(uint64_t)) {
    auto* const head = reinterpret_cast<MPIX_Device_requests*>(memory_.data());
    head->requests = head->lanes = ends.size();
    head->released = reinterpret_cast<uint64_t>(&released_);
    for (size_t i = 0; i < ends.size(); ++i)
      reinterpret_cast<MPIX_Device_request*>(head + 1)[i].lane = reinterpret_cast<uint64_t>(ends[i]);
  }
  LaneSet(const LaneSet&) = delete;
  const MPIX_Device_requests* get() const { return reinterpret_cast<const MPIX_Device_requests*>(memory_.data()); }
  void release() { lanyard_store(reinterpret_cast<uint64_t>(&released_), 1); }

  void start(uint32_t which, uint32_t blocks) {
    ThreadTeam team{};
    LaneGroup<2> group;
    start_set(team, group, get(), 0, get()->requests, which, blocks);
  }
  void raise(uint32_t blocks) {
    ThreadTeam team{};
    LaneGroup<2> group;
    raise_set(team, group, get(), 0, get()->requests, blocks);
  }
  void wait(uint32_t blocks) {
    ThreadTeam team{};
    LaneGroup<2> group;
    wait_for_set(team, group, get(), blocks);
  }

 private:
  uint64_t released_ = 0;
  std::vector<uint64_t> memory_;
};

// Each side's ends, in turn sends and receives.
struct TwoSets {
  explicit TwoSets(Pairs& pairs) : one(ends(pairs, 0)), other(ends(pairs, 1)) {}
  static std::vector<LaneEnd*> ends(Pairs& pairs, size_t side) {
    std::vector<LaneEnd*> all;
    for (size_t i = 0; i < pairs.size(); ++i)
      all.push_back(i % 2 == side ? &pairs.send(i).end : &pairs.receive(i).end);
    return all;
  }
  LaneSet one, other;
};

// Both ways, more lanes than a thread has in hand at a time, by tests and by waits.
TEST(DeviceHeaderLanes, AThreadStartsAndWaits) {
  for (const uint64_t chunks : {Pairs::kBySlots, uint64_t{1}, uint64_t{3}}) {
    Pairs pairs(5, 1000, chunks);
    TwoSets sets(pairs);
    const auto run = [&](const MPIX_Device_requests* set, size_t side) {
      size_t wrong = 0;
      for (uint64_t iteration = 1; iteration <= 200; ++iteration) {
        for (size_t i = side; i < pairs.size(); i += 2)
          pairs.send(i).fill(iteration);
        if (iteration % 3 == 0) {
          for (size_t i = 0; i < pairs.size(); ++i)
            MPIX_Device_start(set, i);
        } else {
          MPIX_Device_startall(set);
        }
        if (iteration % 2 == 0) {
          MPIX_Device_waitall(set);
        } else {
          while (MPIX_Device_testall(set) == 0)
            std::this_thread::yield();
        }
        for (size_t i = 1 - side; i < pairs.size(); i += 2)
          wrong += pairs.receive(i).mistakes(iteration);
      }
      return wrong;
    };
    size_t wrong[2] = {};
    std::thread other([&] { wrong[1] = run(sets.other.get(), 1); });
    wrong[0] = run(sets.one.get(), 0);
    other.join();
    EXPECT_EQ(wrong[0] + wrong[1], 0u);
    EXPECT_EQ(pairs.send(0).end.started, 200u);
    EXPECT_EQ(pairs.receive(4).end.waited, 200u);
  }
}

// Blocks are not at the same place: one is a start ahead, or several waits behind.
TEST(DeviceHeaderLanes, SeveralBlocksShareStartsAndWaits) {
  constexpr uint32_t kBlocks = 3;
  for (const uint64_t chunks : {Pairs::kBySlots, uint64_t{1}, uint64_t{7}}) {
    Pairs pairs(4, 2001, chunks);
    TwoSets sets(pairs);
    std::atomic<size_t> wrong{0};
    const auto block = [&](LaneSet& set, size_t side, uint32_t which) {
      for (uint64_t iteration = 1; iteration <= 100; ++iteration) {
        if (which == iteration % kBlocks)
          for (size_t i = side; i < pairs.size(); i += 2)
            pairs.send(i).fill(iteration);
        if (which == (iteration + 1) % kBlocks && iteration % 10 == 0)
          std::this_thread::sleep_for(200us);
        set.start(which, kBlocks);
        set.wait(kBlocks);
        if (which == iteration % kBlocks)
          for (size_t i = 1 - side; i < pairs.size(); i += 2)
            wrong += pairs.receive(i).mistakes(iteration);
      }
    };
    std::vector<std::thread> blocks;
    for (uint32_t which = 0; which < kBlocks; ++which) {
      blocks.emplace_back([&, which] { block(sets.one, 0, which); });
      blocks.emplace_back([&, which] { block(sets.other, 1, which); });
    }
    for (std::thread& each : blocks)
      each.join();
    EXPECT_EQ(wrong, 0u);
  }
}

// A message that the sender's kernel stores itself, once it may.
TEST(DeviceHeaderLanes, WhatIsStoredAtTheReceiverIsRaised) {
  for (const auto& [ready, chunks] : {std::pair{false, 3u}, {true, 3u}, {false, 1u}, {true, 1u}}) {
    Pairs pairs(2, 3000, chunks, ready);
    LaneSet sends({&pairs.send(0).end, &pairs.send(1).end}), receives({&pairs.receive(0).end, &pairs.receive(1).end});
    const MPIX_Device_requests* const set = sends.get();
    EXPECT_EQ(MPIX_Device_remote(receives.get(), 0), nullptr);
    EXPECT_FALSE(MPIX_Device_may_store(receives.get(), 0));
    for (uint64_t iteration = 1; iteration <= 5; ++iteration) {
      ASSERT_EQ(MPIX_Device_remote(set, 1), pairs.receive(1).buffer.data());
      EXPECT_EQ(MPIX_Device_may_store(set, 0) != 0, ready);
      MPIX_Device_startall(receives.get());
      EXPECT_TRUE(MPIX_Device_may_store(set, 0));
      pairs.receive(0).fill(iteration);
      pairs.receive(1).fill(iteration);
      if (iteration % 2 == 0) {
        MPIX_Device_raise(set, 1);
        MPIX_Device_raise(set, 0);
      } else {
        MPIX_Device_raiseall(set);
      }
      EXPECT_TRUE(MPIX_Device_testall(set));
      EXPECT_TRUE(MPIX_Device_testall(receives.get()));
      EXPECT_EQ(pairs.receive(0).mistakes(iteration) + pairs.receive(1).mistakes(iteration), 0u);
    }
    EXPECT_EQ(pairs.send(0).end.started, 5u);
    EXPECT_EQ(pairs.receive(1).end.waited, 5u);
  }
}

// Where messages go by slots a start is faster: it waits for no receiver.
TEST(DeviceHeaderLanes, WhatGoesBySlotsIsNotStored) {
  Pairs pairs(1, 100, Pairs::kBySlots);
  LaneSet sends({&pairs.send().end}), receives({&pairs.receive().end});
  MPIX_Device_startall(receives.get());
  EXPECT_EQ(MPIX_Device_remote(sends.get(), 0), nullptr);
  EXPECT_FALSE(MPIX_Device_may_store(sends.get(), 0));
  EXPECT_FALSE(lanyard_agree_to_store(sends.get(), 0));
}

// Blocks that each store a part, at the receiver where they may: who asks first decides for all of a start.
TEST(DeviceHeaderLanes, SeveralBlocksRaise) {
  constexpr uint32_t kBlocks = 2;
  Pairs pairs(1, 1001, 2);
  LaneSet sends({&pairs.send().end}), receives({&pairs.receive().end});
  std::atomic<uint64_t> raised{0};
  std::vector<std::thread> blocks;
  for (uint32_t which = 0; which < kBlocks; ++which)
    blocks.emplace_back([&, which] {
      for (uint64_t iteration = 1; iteration <= 200; ++iteration) {
        const bool may = lanyard_agree_to_store(sends.get(), 0) != 0;
        uint8_t* const to =
            may ? static_cast<uint8_t*>(MPIX_Device_remote(sends.get(), 0)) : pairs.send().buffer.data();
        for (size_t i = which; i < 1001; i += kBlocks)
          to[i] = static_cast<uint8_t>(3 * i + 7 * iteration + i / 250);
        raised += may ? 1 : 0;
        if (may)
          sends.raise(kBlocks);
        else
          sends.start(which, kBlocks);
        if (iteration % 7 == 0)
          std::this_thread::sleep_for(50us);
        sends.wait(kBlocks);
      }
    });
  size_t wrong = 0;
  for (uint64_t iteration = 1; iteration <= 200; ++iteration) {
    MPIX_Device_startall(receives.get());
    MPIX_Device_waitall(receives.get());
    wrong += pairs.receive().mistakes(iteration);
  }
  for (std::thread& each : blocks)
    each.join();
  EXPECT_EQ(wrong, 0u);
  EXPECT_EQ(raised % kBlocks, 0u) << "the blocks are not of one mind";
}

// By a lane that was let go of, or all at once; whether its blocks wait for messages or for each other.
TEST(DeviceHeaderLanes, WhatIsReleasedIsLetPass) {
  for (const bool all : {false, true})
    for (const uint32_t blocks : {1u, 2u}) {
      Pairs pairs(3, 100, 1);
      LaneSet receives({&pairs.receive(0).end, &pairs.receive(1).end, &pairs.receive(2).end});
      std::vector<std::thread> threads;
      for (uint32_t which = 0; which < blocks; ++which)
        threads.emplace_back([&, which] {
          receives.start(which, blocks);
          receives.wait(blocks);
          receives.start(which, blocks);
          receives.wait(blocks);
        });
      while (lanyard_load(reinterpret_cast<uint64_t>(&pairs.send(2).end.opened)) == 0)
        std::this_thread::yield();
      std::this_thread::sleep_for(2ms);
      if (all)
        receives.release();
      else
        lanyard_store(reinterpret_cast<uint64_t>(&pairs.receive(2).gone), 1);
      for (std::thread& each : threads)
        each.join();
      EXPECT_EQ(pairs.receive(0).end.waited, 0u);
      EXPECT_EQ(pairs.send(0).end.opened, 1u) << "what has given up starts nothing";
      EXPECT_TRUE(MPIX_Device_testall(receives.get()));
    }
  Pairs pairs(1, 100, 1);
  LaneSet receives({&pairs.receive().end});
  std::thread alone([&] { receives.start(0, 2); });  // and the other block does not come
  std::this_thread::sleep_for(2ms);
  receives.release();
  alone.join();
  EXPECT_EQ(pairs.send().end.opened, 0u);
}

// A start of both kinds, and a wait that needs both.
TEST(DeviceHeaderLanes, CardAndLanesMix) {
  Pairs pairs(1, 500, 2);
  LaneSet sends({&pairs.send().end});
  uint64_t bell = 0, done = 0, count = 0;
  std::array<uint64_t, (sizeof(MPIX_Device_requests) + 3 * sizeof(MPIX_Device_request)) / sizeof(uint64_t)> memory{};
  auto* const set = reinterpret_cast<MPIX_Device_requests*>(memory.data());
  auto* const rows = reinterpret_cast<MPIX_Device_request*>(set + 1);
  uint64_t released = 0;
  set->requests = 3;
  set->lanes = 1;
  set->released = reinterpret_cast<uint64_t>(&released);
  rows[0].bell = {reinterpret_cast<uint64_t>(&bell), LANYARD_ADD_ONE, 0};
  rows[1].lane = reinterpret_cast<uint64_t>(&pairs.receive().end);
  rows[2].completion = {reinterpret_cast<uint64_t>(&done), reinterpret_cast<uint64_t>(&count), 2};
  for (uint64_t iteration = 1; iteration <= 4; ++iteration) {
    MPIX_Device_startall(set);
    EXPECT_EQ(bell, iteration);
    const auto by_card = [&] { done += 2; };
    const auto by_lane = [&] {
      pairs.send().fill(iteration);
      MPIX_Device_startall(sends.get());
      MPIX_Device_waitall(sends.get());
    };
    EXPECT_FALSE(MPIX_Device_testall(set));
    iteration % 2 == 0 ? by_card() : by_lane();
    EXPECT_FALSE(MPIX_Device_testall(set));
    EXPECT_EQ(count, 2 * (iteration - 1));
    iteration % 2 == 0 ? by_lane() : by_card();
    EXPECT_TRUE(MPIX_Device_testall(set));
    EXPECT_EQ(count, 2 * iteration);
    EXPECT_EQ(pairs.receive().mistakes(iteration), 0u);
  }
}

}  // namespace
}  // namespace lanyard::gpu
