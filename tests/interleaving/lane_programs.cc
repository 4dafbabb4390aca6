// Programs of two sides of a lane (gpu/lane.h). A side is a stream, whose kernels come one after another; a block of
// one is a thread.
#include <array>
#include <cstdint>
#include <functional>
#include <memory>

#include "tests/interleaving/copies/api/include/lanyard/detail/device_set.h"
#include "tests/interleaving/pair.h"
#include "tests/interleaving/primitives.h"
#include "tests/interleaving/programs.h"

namespace lanyard::interleaving::programs {

namespace {

using namespace gpu;  // the steps

constexpr uint64_t kWord = sizeof(uint64_t);
constexpr uint64_t kChunkWords = 2;
constexpr uint64_t kMostWords = 2 * kChunkWords;

// A block. What is behind a fence is ordered behind what came before it, until the block copies again.
class LaneTeam {
 public:
  static constexpr uint32_t kEagerLooks = 1;

  uint64_t load(uint64_t address) { return word(address).load(std::memory_order_relaxed); }
  uint64_t acquire(uint64_t address) { return word(address).load(std::memory_order_acquire); }
  void store(uint64_t address, uint64_t value) {
    word(address).store(value, fenced_ ? std::memory_order_release : std::memory_order_relaxed);
  }
  void fence() { fenced_ = true; }
  uint64_t exchange(uint64_t address, uint64_t expected, uint64_t value) {
    uint64_t there = expected;
    word(address).compare_exchange_strong(there, value, std::memory_order_acq_rel);
    return there;
  }
  // Who comes last fences behind it, and so sees what the others have fenced before.
  uint64_t add(uint64_t address, uint64_t value) {
    return word(address).fetch_add(value, fenced_ ? std::memory_order_acq_rel : std::memory_order_acquire);
  }
  uint32_t members() const { return 1; }
  uint32_t member() const { return 0; }
  void barrier() const {}
  void pause() const { yield(); }
  bool leads() const { return true; }
  uint64_t share(uint64_t value) const { return value; }
  bool all(bool whether) const { return whether; }
  bool claim(uint64_t address, uint64_t expected, uint64_t value) {
    return exchange(address, expected, value) == expected;
  }
  uint64_t load_bytes(uint64_t from, uint64_t) {
    touch(reinterpret_cast<const void*>(from), "what is sent");
    return *reinterpret_cast<const uint64_t*>(from);
  }
  void store_bytes(uint64_t to, uint64_t value, uint64_t) {
    touch(reinterpret_cast<const void*>(to), "what is received");
    *reinterpret_cast<uint64_t*>(to) = value;
  }
  // The two in any order: each sees the other's words by itself.
  void load_unit(uint64_t address, uint64_t& first, uint64_t& second) {
    second = word(address + kWord).load(std::memory_order_relaxed);
    first = word(address).load(std::memory_order_relaxed);
  }
  void store_unit(uint64_t address, uint64_t first, uint64_t second) {
    fenced_ = false;
    word(address).store(first, std::memory_order_relaxed);
    word(address + kWord).store(second, std::memory_order_relaxed);
  }
  void copy(uint64_t to, uint64_t from, uint64_t bytes) {
    fenced_ = false;
    for (uint64_t at = 0; at < bytes; at += kWord) {
      touch(reinterpret_cast<const void*>(from + at), "what is sent");
      touch(reinterpret_cast<const void*>(to + at), "what is received");
      *reinterpret_cast<uint64_t*>(to + at) = *reinterpret_cast<const uint64_t*>(from + at);
      yield();
    }
  }

 private:
  static Atomic<uint64_t>& word(uint64_t address) { return *reinterpret_cast<Atomic<uint64_t>*>(address); }

  bool fenced_ = false;
};

struct Side {
  std::array<Atomic<uint64_t>, sizeof(LaneEnd) / kWord> end{};
  std::array<uint64_t, kMostWords> buffer{};
  std::array<Atomic<uint64_t>, 2 * slot_bytes(kMostWords* kWord) / kWord> slots{};
  Atomic<uint64_t> gone{0};

  uint64_t address() const { return reinterpret_cast<uint64_t>(&end); }
  Atomic<uint64_t>& word(size_t offset) { return end.at(offset / kWord); }
  // How many starts, and waits for them, the host would find.
  uint64_t started() { return word(offsetof(LaneEnd, started)).load(); }
  uint64_t waited() { return word(offsetof(LaneEnd, waited)).load(); }
};
static_assert(sizeof(Atomic<uint64_t>) == kWord);

// Of a word of a message; its halves come by themselves.
constexpr uint64_t content(uint64_t iteration, uint64_t word) { return (10 * iteration + word) * 0x1'0000'0001; }

class LanePair {
 public:
  // A message of so many chunks, each side with so many blocks; of one chunk by slots, too, where there are any.
  LanePair(uint64_t chunks, uint32_t blocks, bool slots = false) : chunks_(chunks), blocks_(blocks) {
    connect(send, receive, true);
    connect(receive, send, false);
    for (Side* side : {&send, &receive})
      side->word(offsetof(LaneEnd, slots)).store(slots ? reinterpret_cast<uint64_t>(&receive.slots) : 0);
    Scheduler::running()->set_off();
  }

  Side send, receive;

  void start(Side& side) {
    if (chunks_ == 1) {  // one block's alone
      LaneTeam team;
      const LaneView lane = view_lane(team, side.address(), true);
      start_lane(team, lane, 0, 1);
      return end_start(team, lane, 1);
    }
    run_blocks([&](uint32_t block) {
      LaneTeam team;
      start_lane(team, view_lane(team, side.address(), true), block, blocks_);
    });
    LaneTeam last;
    end_start(last, view_lane(last, side.address(), true), blocks_);
  }
  void wait(Side& side) {
    if (chunks_ == 1 && blocks_ == 1) {
      LaneTeam team;
      const LaneView lane = view_lane(team, side.address(), false);
      expect(wait_for_lane(team, lane, [] { return false; }), "a wait is let pass");
      return end_wait(team, lane);
    }
    run_blocks([&](uint32_t) {
      LaneTeam team;
      const LaneView lane = view_lane(team, side.address(), false);
      bool eager = true;
      for (LaneLook look; (look = look_at_lane(team, lane, eager)) != LaneLook::kComplete; eager = !eager) {
        if (looks_in_slot(lane) && empty_slot(team, lane))
          break;
        if (look == LaneLook::kNothing || !copy_chunks(team, lane))
          yield();
      }
    });
    LaneTeam last;
    end_wait(last, view_lane(last, side.address(), false));
  }
  void fill(uint64_t iteration) {
    for (uint64_t i = 0; i < chunks_ * kChunkWords; ++i) {
      touch(&send.buffer[i], "what is sent");
      send.buffer[i] = content(iteration, i);
    }
  }
  // A chunk of the message, at its sender or at its receiver.
  void fill_chunk(Side& side, uint64_t iteration, uint64_t chunk) {
    for (uint64_t i = chunk * kChunkWords; i < (chunk + 1) * kChunkWords; ++i) {
      touch(&side.buffer[i], &side == &send ? "what is sent" : "what is received");
      side.buffer[i] = content(iteration, i);
    }
  }
  void look(uint64_t iteration) {
    for (uint64_t i = 0; i < chunks_ * kChunkWords; ++i) {
      touch(&receive.buffer[i], "what is received");
      expect(receive.buffer[i] == content(iteration, i), "a message is another's, or comes in part");
    }
  }

 private:
  void connect(Side& side, const Side& other, bool sends) {
    const auto set = [&](size_t offset, uint64_t value) { side.end.at(offset / kWord).store(value); };
    set(offsetof(LaneEnd, buffer), reinterpret_cast<uint64_t>(side.buffer.data()));
    set(offsetof(LaneEnd, peer_buffer), reinterpret_cast<uint64_t>(other.buffer.data()));
    set(offsetof(LaneEnd, peer), other.address());
    set(offsetof(LaneEnd, bytes), chunks_ * kChunkWords * kWord);
    set(offsetof(LaneEnd, chunk_bytes), kChunkWords * kWord);
    set(offsetof(LaneEnd, chunks), chunks_);
    set(offsetof(LaneEnd, sends), sends ? 1 : 0);
    set(offsetof(LaneEnd, gone), reinterpret_cast<uint64_t>(&side.gone));
  }
  void run_blocks(const std::function<void(uint32_t)>& body) {
    if (blocks_ == 1)
      return body(0);
    Thread other("block", [&] { body(1); });
    body(0);
    other.join();
  }

  const uint64_t chunks_;
  const uint32_t blocks_;
};

// Each side starts and waits; whoever is ahead.
void run_iterations(uint64_t chunks, uint32_t blocks, bool slots = false) {
  const uint64_t kIterations = slots ? 4 : 3;
  const auto pair = std::make_unique<LanePair>(chunks, blocks, slots);
  Thread receiver("receiver", [&] {
    for (uint64_t i = 1; i <= kIterations; ++i) {
      pair->start(pair->receive);
      pair->wait(pair->receive);
      pair->look(i);
    }
  });
  for (uint64_t i = 1; i <= kIterations; ++i) {
    pair->fill(i);
    pair->start(pair->send);
    pair->wait(pair->send);
  }
  receiver.join();
  for (Side* side : {&pair->send, &pair->receive})
    expect(side->started() == kIterations && side->waited() == kIterations, "the host does not find all");
}

// A set of lanes, as the two blocks of a kernel see it that starts and waits by itself.
class LaneSet {
 public:
  static constexpr uint32_t kBlocks = 2;

  explicit LaneSet(std::initializer_list<const Side*> sides) {
    set_word(offsetof(MPIX_Device_requests, requests), sides.size());
    set_word(offsetof(MPIX_Device_requests, lanes), sides.size());
    set_word(offsetof(MPIX_Device_requests, released), reinterpret_cast<uint64_t>(&released_));
    size_t row = sizeof(MPIX_Device_requests);
    for (const Side* side : sides) {
      set_word(row + offsetof(MPIX_Device_request, lane), side->address());
      row += sizeof(MPIX_Device_request);
    }
  }
  void start(uint32_t which) { start_set(team_[which], group_[which], get(), 0, get()->requests, which, kBlocks); }
  void raise(uint32_t which) { raise_set(team_[which], group_[which], get(), 0, get()->requests, kBlocks); }
  void wait(uint32_t which) { wait_for_set(team_[which], group_[which], get(), kBlocks); }

 private:
  const MPIX_Device_requests* get() const { return reinterpret_cast<const MPIX_Device_requests*>(&memory_); }
  void set_word(size_t offset, uint64_t value) { memory_.at(offset / kWord).store(value); }

  std::array<Atomic<uint64_t>, (sizeof(MPIX_Device_requests) + 2 * sizeof(MPIX_Device_request)) / kWord> memory_{};
  Atomic<uint64_t> released_{0};
  std::array<LaneTeam, kBlocks> team_;
  std::array<LaneGroup<2>, kBlocks> group_;
};

// Two kernels of so many blocks.
void run_kernels(const std::function<void(uint32_t block)>& one, const std::function<void(uint32_t block)>& other) {
  Thread second("one's other block", [&] { one(1); });
  Thread third("the other's", [&] { other(0); });
  Thread fourth("the other's other block", [&] { other(1); });
  one(0);
  second.join();
  third.join();
  fourth.join();
}

}  // namespace

void lanes() { run_iterations(1, 1); }

void lanes_in_chunks() { run_iterations(2, 2); }

void lanes_by_slots() { run_iterations(1, 1, true); }

// A wait needs both starts and no wait: each side's comes when the other's has passed, in turn.
void lanes_waited_for_in_turn() {
  constexpr uint64_t kIterations = 4;
  const auto pair = std::make_unique<LanePair>(1, 1);
  const auto until_waited = [](Side& side, uint64_t value) {
    while (side.waited() < value)
      yield();
  };
  Thread receiver("receiver", [&] {
    for (uint64_t i = 1; i <= kIterations; ++i) {
      pair->start(pair->receive);
      if (i % 2 == 0)
        until_waited(pair->send, i);
      pair->wait(pair->receive);
      pair->look(i);
    }
  });
  for (uint64_t i = 1; i <= kIterations; ++i) {
    pair->fill(i);
    pair->start(pair->send);
    if (i % 2 == 1)
      until_waited(pair->receive, i);
    pair->wait(pair->send);
  }
  receiver.join();
}

// Each side sends a message and receives one, by a kernel whose blocks share that; what one of them has written the
// other may copy.
void lanes_by_blocks() {
  constexpr uint64_t kIterations = 3;
  const auto there = std::make_unique<LanePair>(2, LaneSet::kBlocks);
  const auto back = std::make_unique<LanePair>(1, LaneSet::kBlocks, true);
  const auto run = [&](LaneSet& set, LanePair& out, LanePair& in, uint32_t block) {
    for (uint64_t i = 1; i <= kIterations; ++i) {
      if (block == i % LaneSet::kBlocks)
        out.fill(i);
      set.start(block);
      set.wait(block);
      if (block != i % LaneSet::kBlocks)
        in.look(i);
    }
  };
  LaneSet one({&there->send, &back->receive}), other({&back->send, &there->receive});
  run_kernels([&](uint32_t block) { run(one, *there, *back, block); },
              [&](uint32_t block) { run(other, *back, *there, block); });
  for (Side* side : {&there->send, &back->receive})
    expect(side->started() == kIterations && side->waited() == kIterations, "the host does not find all");
}

// Messages that the sender's blocks store at the receiver themselves, each a part, where they may: the first in any
// case.
void lanes_raised() {
  constexpr uint64_t kIterations = 3;
  const auto pair = std::make_unique<LanePair>(2, LaneSet::kBlocks);
  LaneSet sends({&pair->send}), receives({&pair->receive});
  const auto send = [&](uint32_t block) {
    for (uint64_t i = 1; i <= kIterations; ++i) {
      LaneTeam team;
      while (i != 2 && !may_store(team, pair->send.address()))
        yield();
      const bool may = i != 2 || agree_to_store(team, pair->send.address());
      pair->fill_chunk(may ? pair->receive : pair->send, i, block);
      if (may)
        sends.raise(block);
      else
        sends.start(block);
      sends.wait(block);
    }
  };
  const auto receive = [&](uint32_t block) {
    for (uint64_t i = 1; i <= kIterations; ++i) {
      receives.raise(block);
      receives.wait(block);
      if (block == 1)
        pair->look(i);
    }
  };
  run_kernels(send, receive);
}

}  // namespace lanyard::interleaving::programs
