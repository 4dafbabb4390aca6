// StepLanes: the lanes (gpu/lane.h) of one process of a World, with their ends as plain state.
//
// A start is one step of its stream: it tells the other side, and whoever starts second copies the message, a ready
// send whenever it starts. A message of kMostInSlots bytes goes by a slot, if it is free, out of which the receive's
// wait takes it. (How kernels agree on who copies what is tried in tests/interleaving.) What is looked at
// here is who gives what memory away, and when:
//  - nobody is given an end while the other side may write there;
//  - nobody lets go of a lane, or of the other's memory, that its stream has still to come to;
//  - memory of others is unmapped only while no stream may wait.
#ifndef LANYARD_NICSIM_DETERMINISTIC_STEP_LANES_H_
#define LANYARD_NICSIM_DETERMINISTIC_STEP_LANES_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "gpu/lane.h"
#include "gpu/stream.h"
#include "transport/base/status.h"

namespace lanyard::nicsim {

class StepLanes;
class World;

struct StepLane final : gpu::Lane {
  StepLanes* owner = nullptr;
  std::byte* buffer = nullptr;
  bool sends = false;
  gpu::Lanes::Terms terms;
  // The other side's end, from connect() to disconnect().
  bool connected = false;
  uint32_t peer_rank = 0, peer_end = 0;
  uint64_t peer_use = 0;
  uint64_t gone_base = 0;
  uint64_t waited = 0;  // waits that have passed as the message was there
  // Of a receive, by odd and by even starts: what has come, of which start.
  struct Slot {
    uint64_t start = 0;
    std::vector<std::byte> content;
  };
  std::array<Slot, 2> slots;

  StepLane() = default;
  StepLane(const StepLane&) = delete;
  StepLane& operator=(const StepLane&) = delete;
  ~StepLane();
  // Whether a wait for its last start may pass: the message is there, or nobody waits for it any more.
  bool is_complete() const;
  bool is_gone() const;
  bool has_slots() const { return terms.bytes <= kMostInSlots; }
  Slot& slot_of(uint64_t start) { return slots[start % 2]; }

  static constexpr uint64_t kMostInSlots = 12;
};

// Of a start's or a wait's operation.
inline StepLane& lane_of(const gpu::StreamOp& op) {
  return *static_cast<StepLane*>(static_cast<gpu::Lane*>(op.object));
}

class StepLanes final : public gpu::Lanes {
 public:
  static constexpr int kDevice = 0;  // whose memory and streams a rank has

  StepLanes(World& world, uint32_t rank) : world_(world), rank_(rank) {}

  Result<Opened> open(bool sends, void* buffer, uint64_t bytes) override;
  Result<Opened> open_empty(bool sends, int) override { return open(sends, nullptr, 0); }
  Status connect(gpu::Lane& lane, const gpu::LaneOffer& other, const Terms& terms) override;
  void refresh() override {}  // the host's words are told at once
  void disconnect(gpu::Lane& lane) override;
  bool may_unmap() const override { return retired_ > 0; }
  void unmap() override;

  // The stream comes to a start. Whether it copies the message: then the other side's lane, else null; and whether it
  // does so into a slot.
  struct Copied {
    StepLane* other = nullptr;
    bool in_slot = false;
  };
  Copied start(StepLane& lane);
  // It comes to a wait that is complete. Whether that takes the message out of a slot.
  bool pass(StepLane& lane);

  // One end; the numbers are those of its iterations.
  struct End {
    StepLane* lane = nullptr;  // whose it is; null: nobody's
    uint64_t use = 0;          // how many have had it
    uint64_t started = 0;      // by this side
    uint64_t opened = 0;       // by the other side
    uint64_t completed = 0;    // copied
  };
  const std::vector<End>& ends() const { return ends_; }
  // Of others' memory that is mapped: what nobody touches any more.
  uint64_t retired() const { return retired_; }

 private:
  friend StepLane;
  void close(const StepLane& lane);
  void retire(StepLane& lane);
  End& own(const StepLane& lane) { return ends_[lane.end - 1]; }

  World& world_;
  const uint32_t rank_;
  std::vector<End> ends_;  // gpu::Lane::end is the place in it, from 1
  uint64_t retired_ = 0;
};

}  // namespace lanyard::nicsim

#endif  // LANYARD_NICSIM_DETERMINISTIC_STEP_LANES_H_
