// Programs of the two sides of a lane (gpu/lane.h). A side is a stream: its kernels run one after
// another. A block of a kernel is a thread.
#include <array>
#include <cstdint>
#include <functional>
#include <memory>

#include "tests/interleaving/copies/gpu/lane_protocol.h"
#include "tests/interleaving/pair.h"
#include "tests/interleaving/primitives.h"

namespace lanyard::interleaving::programs {

namespace {

using namespace gpu;  // the steps of a lane

constexpr uint64_t kWord = sizeof(uint64_t);
constexpr uint64_t kChunkWords = 2;
constexpr uint64_t kMostWords = 2 * kChunkWords;

// A block. A fence orders what follows it, until the block copies again.
class LaneTeam {
 public:
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
  // The block that adds last fences, and so sees all that the others wrote before their fences.
  uint64_t add(uint64_t address, uint64_t value) {
    return word(address).fetch_add(value, fenced_ ? std::memory_order_acq_rel : std::memory_order_acquire);
  }
  bool leads() const { return true; }
  uint64_t share(uint64_t value) const { return value; }
  void copy(uint64_t to, uint64_t from, uint64_t bytes) {
    fenced_ = false;
    for (uint64_t at = 0; at < bytes; at += kWord) {
      touch(reinterpret_cast<const void*>(from + at), "the send buffer");
      touch(reinterpret_cast<const void*>(to + at), "the receive buffer");
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
  Atomic<uint64_t> begun{0};
  Atomic<uint64_t> done{0};
  Atomic<uint64_t> gone{0};

  uint64_t address() const { return reinterpret_cast<uint64_t>(&end); }
};
static_assert(sizeof(Atomic<uint64_t>) == kWord);

class LanePair {
 public:
  // A message of `chunks` chunks, with `blocks` blocks on each side.
  LanePair(uint64_t chunks, uint32_t blocks) : chunks_(chunks), blocks_(blocks) {
    connect(send, receive, true);
    connect(receive, send, false);
    Scheduler::running()->set_off();
  }

  Side send, receive;

  void start(Side& side) {
    run_blocks([&](uint32_t block) {
      LaneTeam team;
      const LaneView lane = view_lane(team, side.address(), true);
      if (block == 0)
        tell_host(team, lane);
      if (lane.chunks > 1 || block == 0)
        start_lane(team, lane, block, lane.chunks > 1 ? blocks_ : 1);
    });
    LaneTeam last;
    end_start(last, view_lane(last, side.address(), true), chunks_ > 1 ? blocks_ : 1);
  }
  void wait(Side& side) {
    run_blocks([&](uint32_t) {
      LaneTeam team;
      const LaneView lane = view_lane(team, side.address(), false);
      bool eager = true;
      for (LaneLook look; (look = look_at_lane(team, lane, eager)) != LaneLook::kComplete; eager = !eager)
        if (look == LaneLook::kNothing || !copy_chunks(team, lane))
          yield();
    });
    LaneTeam last;
    tell_host(last, view_lane(last, side.address(), false));
  }
  void fill(uint64_t iteration) {
    for (uint64_t i = 0; i < chunks_ * kChunkWords; ++i) {
      touch(&send.buffer[i], "the send buffer");
      send.buffer[i] = 10 * iteration + i;
    }
  }
  void look(uint64_t iteration) {
    for (uint64_t i = 0; i < chunks_ * kChunkWords; ++i) {
      touch(&receive.buffer[i], "the receive buffer");
      expect(receive.buffer[i] == 10 * iteration + i, "the buffer holds part of a message or another iteration's");
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
    set(offsetof(LaneEnd, begun), reinterpret_cast<uint64_t>(&side.begun));
    set(offsetof(LaneEnd, done), reinterpret_cast<uint64_t>(&side.done));
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

}  // namespace

// Each side launches start and wait kernels without waiting for the other side.
void lanes_in_chunks() {
  constexpr uint64_t kIterations = 3;
  const auto pair = std::make_unique<LanePair>(2, 2);
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
  for (const Side* side : {&pair->send, &pair->receive})
    expect(side->begun.load() == kIterations && side->done.load() == kIterations, "the host's words miss an iteration");
}

// The wait kernels of the two sides need both starts but not each other: they run in turn.
void lanes_waited_for_in_turn() {
  constexpr uint64_t kIterations = 4;
  const auto pair = std::make_unique<LanePair>(1, 1);
  const auto until = [](const Atomic<uint64_t>& word, uint64_t value) {
    while (word.load() < value)
      yield();
  };
  Thread receiver("receiver", [&] {
    for (uint64_t i = 1; i <= kIterations; ++i) {
      pair->start(pair->receive);
      if (i % 2 == 0)
        until(pair->send.done, i);
      pair->wait(pair->receive);
      pair->look(i);
    }
  });
  for (uint64_t i = 1; i <= kIterations; ++i) {
    pair->fill(i);
    pair->start(pair->send);
    if (i % 2 == 1)
      until(pair->receive.done, i);
    pair->wait(pair->send);
  }
  receiver.join();
}

}  // namespace lanyard::interleaving::programs
