// DeviceMover: moves the messages of one NIC that begin or end in device memory, and knows which of its regions are
// such.
//
// Nobody but the device copies there, and while it does the host goes on: a move is a short chain of steps that poll()
// takes as they become possible, and its end is told once the device has ended the last copy. What the host touches
// meanwhile is staging memory; host memory of the user's is copied to and from staging a portion at a time.
//
//   within this NIC        source -> target, or by staging where one of them is host memory
//   out, to a peer here    nothing: the peer gets a loan (kPull) and copies; where it cannot, as below from then on
//   out, elsewhere         source -> staging, which is the wire's payload until the ack
//   in, staged             the wire fills staging; -> target
//   in, pulled             what the peer has lent -> target, or by staging where that is host memory
//
// A peer that is lost may still have been copying from lent memory; that its process has ended is the only thing that
// is sure to stop it.
//
// Threads: whoever drives the NIC, but for device_of() and is_device(), which any may call, the latter of a region that
// it may name. Allocates only for what has never been so many before; staging comes from the DeviceMemory.
#ifndef LANYARD_NICSIM_THREADED_DEVICE_MOVER_H_
#define LANYARD_NICSIM_THREADED_DEVICE_MOVER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "nicsim/model/nic_model.h"
#include "nicsim/model/packet.h"
#include "nicsim/threaded/borrowings.h"
#include "transport/base/device_memory.h"
#include "transport/base/status.h"
#include "transport/nic/nic.h"

namespace lanyard::nicsim {

class DeviceMover {
 public:
  // The NIC that asks for moves. Told of their ends from within poll().
  class Client {
   public:
    virtual ~Client() = default;
    // Gives a packet to the wire. The payload is kept until acknowledged() or peer_lost(). From within send() too.
    virtual void transmit(uint32_t peer, const Packet& packet, const std::byte* payload) = 0;
    // A write of this NIC's cannot be read from the device.
    virtual void not_sent(uint32_t peer, const Packet& packet, Code code) = 0;
    // A message is where it was to go, or (not kOk) will never be.
    virtual void moved(const Packet& packet, Code code) = 0;
  };

  // Both outlive it.
  DeviceMover(DeviceMemory& memory, const ModelLimits& limits, Client& client);
  // Waits for the copies under way. Requires that the wire has gone, which may use staging memory.
  ~DeviceMover();
  DeviceMover(const DeviceMover&) = delete;
  DeviceMover& operator=(const DeviceMover&) = delete;

  // Which peers can be asked to pull.
  void set_peers(std::vector<bool> share_host) { pulls_ = std::move(share_host); }

  // ---- Regions, host memory too
  Result<int> device_of(const void* base, uint64_t bytes) const;
  void add_region(nic::RegionId region, void* base, uint64_t bytes, int device);
  // Whether a copy that is under way touches it.
  bool is_busy(nic::RegionId region) const { return regions_[region.value].moves > 0; }
  // Requires that it is not busy.
  void remove_region(nic::RegionId region);
  bool is_device(nic::RegionId region) const { return regions_[region.value].device != DeviceMemory::kHost; }

  // ---- Out: kWrites of more than 0 bytes
  // From one region of this NIC to another, of which one is device memory.
  void move(const Packet& packet, nic::LocalSpan from, const Landing& landing);
  // From device memory to a peer.
  void send(uint32_t peer, const Packet& packet, nic::LocalSpan from);
  // Whether the operation of this NIC has not been sent at all yet, so that nobody can have answered it.
  bool is_staging(uint32_t token) const { return sent_[token].state == Sent::State::kStaging; }
  // The operation has ended.
  void acknowledged(uint32_t token);
  // A kCannotPull; what answers nothing is dropped.
  void pull_refused(const Packet& packet);

  // ---- In
  // Where a kWrite into device memory is put meanwhile. kExhausted.
  Result<std::byte*> place(const Packet& packet, const Landing& landing);
  // The end of a kWrite on the wire. False where place() was not asked for it.
  bool landed(const Packet& packet);
  void abandoned(const Packet& packet);
  // A kPull that the model has let in. False where the source's memory is out of reach.
  bool pull(const Packet& packet, const Landing& landing, const std::byte* loan);
  // After the wire has given up its arrivals from there.
  void peer_lost(uint32_t peer);

  // ---- Steps
  bool busy() const { return !moves_.empty(); }
  // Moves things on, and tells the ends; returns the number of steps done. Never waits for the device.
  size_t poll();

 private:
  struct Region {
    int device = DeviceMemory::kHost;
    std::byte* base = nullptr;
    uint64_t bytes = 0;
    uint64_t registration = 0;
    uint32_t moves = 0;  // under way that touch it
    bool lendable = true;
    std::unique_ptr<const DeviceMemory::Loan> loan;  // once it has been lent
    std::vector<uint32_t> refused;                   // by these peers
  };
  // An operation of this NIC from device memory, by its token.
  struct Sent {
    enum class State : uint8_t { kNone, kOffered, kStaging, kSent } state = State::kNone;
    uint32_t peer = 0;
    Packet packet;
    nic::LocalSpan from;
    std::byte* staging = nullptr;  // kSent
  };
  // A write that comes over the wire into staging.
  struct Arrival {
    Packet packet;
    Landing landing;
    std::byte* staging = nullptr;
  };
  struct Move {
    enum class Goal : uint8_t { kSend, kLand } goal = Goal::kLand;
    enum class Phase : uint8_t { kFill, kStart, kCopy, kSpread, kOver } phase = Phase::kStart;
    Code code = Code::kOk;
    bool dropped = false;  // nobody waits for it any more
    bool fills = false;    // the source is host memory of the user's: through staging
    bool spreads = false;  // so is the target
    Packet packet;
    uint32_t peer = 0;  // kSend: to whom
    const std::byte* from = nullptr;
    std::byte* to = nullptr;
    std::byte* staging = nullptr;
    const std::byte* borrowed = nullptr;  // the range that `from` lies in, where a peer has lent it
    uint64_t done = 0;                    // of filling or spreading
    DeviceMemory::Copy copy;
    nic::RegionId source;  // of this NIC; may be none
    nic::RegionId target;  // the same
  };

  std::byte* address(nic::LocalSpan span) const { return regions_[span.region.value].base + span.offset; }
  bool lend(Region& region);
  void stage(const Sent& sent);
  void begin(Move move);
  bool advance(Move& move, uint64_t& budget);
  bool start(Move& move);
  void finish(const Move& move);
  void touch(const Move& move, uint32_t delta);
  std::vector<Arrival>::iterator find(const Packet& packet);

  DeviceMemory& memory_;
  Client& client_;
  Borrowings borrowings_;
  std::vector<Region> regions_;
  std::vector<Sent> sent_;
  std::vector<bool> pulls_;  // by peer: may be offered a loan
  std::vector<Arrival> arrivals_;
  std::vector<Move> moves_;  // under way, the oldest first
  std::vector<Move> over_;   // inside poll()
  bool full_ = false;        // the device takes no more copies until the next poll()
  uint64_t registrations_ = 0;
};

}  // namespace lanyard::nicsim

#endif  // LANYARD_NICSIM_THREADED_DEVICE_MOVER_H_
