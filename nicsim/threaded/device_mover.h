// DeviceMover: moves the messages of one NIC that begin or end in device memory (nicsim/README.md).
// It knows which regions are device memory.
//
// Threads: the one that drives the NIC. Any thread may call device_of(), and is_device() for a
// region that it may name. Allocates only when more moves are in flight than ever before.
#ifndef LANYARD_NICSIM_THREADED_DEVICE_MOVER_H_
#define LANYARD_NICSIM_THREADED_DEVICE_MOVER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "nicsim/model/nic_model.h"
#include "nicsim/model/packet.h"
#include "transport/base/device_memory.h"
#include "transport/base/status.h"
#include "transport/nic/nic.h"

namespace lanyard::nicsim {

// Memory that other processes have lent to this NIC. It borrows each range once and keeps it while
// any region exists that has received data from it.
class Borrowings {
 public:
  explicit Borrowings(DeviceMemory& memory) : memory_(memory) {}
  // Gives everything back. Requires that no copy is in flight.
  ~Borrowings();
  Borrowings(const Borrowings&) = delete;
  Borrowings& operator=(const Borrowings&) = delete;

  // Returns the address of a range that `source` has lent, for one copy into `target`, until
  // ended(). Null if the range is out of reach. `device` is the target's device. `registration`
  // tells the loan from earlier loans of the same memory.
  std::byte* borrow(uint32_t source, uint64_t registration, const DeviceMemory::Loan& loan, nic::RegionId target,
                    int device);
  void ended(const std::byte* borrowed);
  // Requires that the region is deregistered and that all copies into it have ended.
  void forget(nic::RegionId target);

 private:
  struct Borrowing {
    uint32_t source = 0;
    uint64_t registration = 0;
    DeviceMemory::Loan loan;
    int device = DeviceMemory::kHost;  // the device that reaches it
    std::byte* memory = nullptr;
    uint32_t copies = 0;                 // in flight
    std::vector<nic::RegionId> targets;  // regions that have received data from it
  };

  DeviceMemory& memory_;
  std::vector<Borrowing> borrowings_;
};

class ThreadedNic;

class DeviceMover {
 public:
  // Both must outlive this object. poll() tells the NIC when moves end.
  DeviceMover(DeviceMemory& memory, const ModelLimits& limits, ThreadedNic& nic);
  // Waits for the copies in flight. Destroy the wire first: it may use staging memory.
  ~DeviceMover();
  DeviceMover(const DeviceMover&) = delete;
  DeviceMover& operator=(const DeviceMover&) = delete;

  // So many, of which none can copy from this process's memory.
  void set_peers(size_t peers) { pulls_.assign(peers, false); }
  // That peer runs on this host: it can.
  void shares_host(uint32_t peer) { pulls_[peer] = true; }

  // ---- Regions, also of host memory
  Result<int> device_of(const void* base, uint64_t bytes) const {
    return bytes == 0 ? DeviceMemory::kHost : memory_.device_of(base, bytes);
  }
  void add_region(nic::RegionId region, void* base, uint64_t bytes, int device);
  // True if a copy in flight touches the region.
  bool is_busy(nic::RegionId region) const { return regions_[region.value].moves > 0; }
  // Requires !is_busy(region).
  void remove_region(nic::RegionId region);
  bool is_device(nic::RegionId region) const { return regions_[region.value].device != DeviceMemory::kHost; }

  // ---- Out: kWrites of more than 0 bytes
  // Moves data from one region of this NIC to another. At least one is device memory.
  void move(const Packet& packet, nic::LocalSpan from, const Landing& landing);
  // Sends device memory to a peer.
  void send(uint32_t peer, const Packet& packet, nic::LocalSpan from);
  // True if the operation has not been sent yet, so that no valid ack can exist.
  bool is_staging(uint32_t token) const { return sent_[token].state == Sent::State::kStaging; }
  // The operation has ended.
  void acknowledged(uint32_t token) { end(sent_[token]); }
  // Handles a kCannotPull. Ignores one that answers no offer.
  void pull_refused(const Packet& packet);

  // ---- In
  // Returns staging memory for a kWrite that arrives for device memory. kExhausted.
  Result<std::byte*> place(const Packet& packet, const Landing& landing);
  // The wire has delivered the kWrite. Returns false if place() was not called for it.
  bool landed(const Packet& packet);
  void abandoned(const Packet& packet);
  // Starts a kPull that the model has accepted. Returns false if the
  // source's memory is out of reach.
  bool pull(const Packet& packet, const Landing& landing, const std::byte* loan);
  // Call it after the wire has abandoned its arrivals from the peer.
  void peer_lost(uint32_t peer);

  // ---- Steps
  bool busy() const { return !moves_.empty(); }
  // Takes the possible steps, reports ended moves, and returns the number of steps.
  // Never waits for the device.
  size_t poll();

 private:
  struct Region {
    int device = DeviceMemory::kHost;
    std::byte* base = nullptr;
    uint64_t bytes = 0;
    uint64_t registration = 0;
    uint32_t moves = 0;  // moves in flight that touch it
    bool lendable = true;
    std::unique_ptr<const DeviceMemory::Loan> loan;  // set once it has been lent
  };
  // An operation of this NIC from device memory, by token.
  struct Sent {
    enum class State : uint8_t { kNone, kOffered, kStaging, kSent } state = State::kNone;
    uint32_t peer = 0;
    Packet packet;
    nic::LocalSpan from;
    std::byte* staging = nullptr;  // kSent
  };
  // A write that the wire puts into staging.
  struct Arrival {
    Packet packet;
    Landing landing;
    std::byte* staging = nullptr;
  };
  struct Move {
    enum class Goal : uint8_t { kSend, kLand } goal = Goal::kLand;
    enum class Phase : uint8_t { kFill, kStart, kCopy, kSpread, kOver } phase = Phase::kStart;
    Code code = Code::kOk;
    bool dropped = false;  // its operation has failed already
    bool fills = false;    // the source is host memory of the user: go through staging
    bool spreads = false;  // the target is, likewise
    Packet packet = {};
    uint32_t peer = 0;  // kSend: the receiver
    const std::byte* from = nullptr;
    std::byte* to = nullptr;
    std::byte* staging = nullptr;
    const std::byte* borrowed = nullptr;  // the lent range of `from`, if a peer has lent it
    uint64_t done = 0;                    // bytes, during kFill and kSpread
    DeviceMemory::Copy copy = {};
    nic::RegionId source = {};  // a region of this NIC; may be none
    nic::RegionId target = {};  // likewise
  };

  std::byte* address(nic::LocalSpan span) const { return regions_[span.region.value].base + span.offset; }
  bool lend(Region& region);
  void stage(const Sent& sent);
  void end(Sent& sent);
  void begin(Move move);
  bool advance(Move& move, uint64_t& budget);
  bool start(Move& move);
  void finish(const Move& move);
  void touch(const Move& move, uint32_t delta);
  std::vector<Arrival>::iterator find(const Packet& packet);

  DeviceMemory& memory_;
  ThreadedNic& nic_;
  Borrowings borrowings_;
  std::vector<Region> regions_;
  std::vector<Sent> sent_;
  std::vector<bool> pulls_;  // by peer: may be offered a loan
  std::vector<Arrival> arrivals_;
  std::vector<Move> moves_;  // in flight, the oldest first
  std::vector<Move> over_;   // used inside poll()
  bool full_ = false;        // the device takes no more copies until the next poll()
  uint64_t registrations_ = 0;
};

}  // namespace lanyard::nicsim

#endif  // LANYARD_NICSIM_THREADED_DEVICE_MOVER_H_
