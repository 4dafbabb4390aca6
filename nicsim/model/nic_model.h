// NicModel: the triggered NIC as a pure state machine. It has no thread and no clock, and touches
// memory only for atomics. It allocates only in its constructor, for prepared operations and for
// chosen keys. Two engines drive it: nicsim/threaded in real time, and nicsim/deterministic under a
// scheduler. So both simulate the same NIC.
//
// The engine applies inputs (post, add, locate, landed, complete) and takes steps. While ready()
// returns an entry, fire() may be called. The engine carries the resulting Launch to the peer,
// whose ack goes to complete(). The engine chooses the order of all this; rules N1 to N9 of
// transport/nic/nic.h hold in every order.
//
// Models: libfabric fi_trigger(3), fi_cntr(3), fi_cxi(7).
//
// Threads: one caller at a time, except validate() and prepared(). These may run beside calls that
// open or prepare other objects.
#ifndef LANYARD_NICSIM_MODEL_NIC_MODEL_H_
#define LANYARD_NICSIM_MODEL_NIC_MODEL_H_

#include <boost/circular_buffer.hpp>
#include <cstdint>
#include <optional>
#include <vector>

#include "nicsim/model/packet.h"
#include "nicsim/model/tables.h"
#include "transport/nic/driver.h"
#include "transport/nic/nic.h"

namespace lanyard::nicsim {

struct ModelLimits {
  uint32_t deferred_depth = 504;  // what Slingshot's default service leaves (512 less 8)
  uint32_t max_counters = 4096;
  uint32_t max_regions = 16384;
  uint32_t max_in_flight = 1024;  // operations fired and not yet acknowledged
  uint32_t max_held = 256;        // issued operations that wait for room in flight
  uint32_t kept_failures = 1024;  // records for take_failure(); the oldest stay
  uint64_t max_message_bytes = uint64_t{1} << 30;
  // A choice that real hardware may make differently. The default follows transport/nic/nic.h.
  bool newest_tie_first = false;  // among equal thresholds, the last posted fires first
};

// Learns how operations end, as from a device's event queue. The engine's thread calls it in the
// middle of a step: it must not call the model, nor wait for a thread that may.
class Witness {
 public:
  virtual ~Witness() = default;
  // The operation has ended and its completion counter has advanced.
  virtual void ended(const nic::Op& op, Code code) = 0;
  // flush() or cancel() has removed the operation before it fired.
  virtual void canceled(const nic::Op& op) = 0;
};

// A fired operation for the engine to carry to the peer. `payload` is null unless it is a write of
// > 0 bytes.
struct Launch {
  uint32_t peer = 0;
  Packet packet = {};
  const std::byte* payload = nullptr;
};

// Where an arriving packet goes, or the reason to refuse it.
struct Landing {
  Code code = Code::kOk;
  std::byte* address = nullptr;  // not null if code is kOk
  nic::CounterId counter = {};   // the target's counter for it; may be none
  nic::RegionId region = {};     // the region of `address`
};

class NicModel {
 public:
  explicit NicModel(const ModelLimits& limits, uint32_t self);

  const ModelLimits& limits() const { return limits_; }
  void set_self(uint32_t self) { self_ = self; }
  // At most one. It must outlive the model or be removed by passing null.
  void set_witness(Witness* witness) { witness_ = witness; }

  // ---- Counters and regions: as in nic::Nic.
  Result<nic::CounterId> open_counter() { return counters_.add(); }
  Status close_counter(nic::CounterId counter) { return counters_.remove(counter); }
  Result<nic::CounterValue> read(nic::CounterId counter) const {
    return is_open(counter) ? Result(counters_[counter].value) : Result<nic::CounterValue>(nic::no_counter());
  }
  Status add(nic::CounterId counter, uint64_t value) { return change(counter, value, false, true); }
  Status add_error(nic::CounterId counter, uint64_t value) { return change(counter, value, true, true); }
  Status reset(nic::CounterId counter);
  // Sets success, or failure, to value and keeps the other. Errors as add() and add_error().
  Status set(nic::CounterId counter, uint64_t value) { return change(counter, value, false, false); }
  Status set_error(nic::CounterId counter, uint64_t value) { return change(counter, value, true, false); }
  // A doorbell has landed. Adds modulo 2^48. Ignored if the counter is closed.
  void ring(nic::CounterId counter, uint64_t value);
  // kInvalidState if a region has options.key already. A chosen key allocates.
  Result<nic::RegionId> register_region(void* base, uint64_t bytes, nic::CounterId remote_write,
                                        const RegionOptions& options = {});
  // Refuses further arrivals at once. kAgain while messages are landing, or while the engine is
  // `busy` with the memory: call again after they have landed.
  Status deregister_region(nic::RegionId region, bool busy = false);
  // Accepts arrivals again after deregister_region() returned kAgain.
  void keep_region(nic::RegionId region) { regions_.reopen(region); }
  Result<nic::RemoteKey> key(nic::RegionId region) const;
  bool is_open(nic::CounterId counter) const { return counters_.is_open(counter); }

  // ---- Entries
  // Checks the descriptor. Reads only the objects that it names.
  Status validate(const nic::Op& op) const { return nic::DescriptorCheck(Open{*this}).of(op); }
  Status validate(const nic::DeferredOp& op) const { return nic::DescriptorCheck(Open{*this}).of(op); }
  // Requires a valid op and a free entry.
  void post(const nic::DeferredOp& op);

  // ---- Prepared operations: as in nic::Nic. Only prepare() allocates.
  Result<nic::PreparedId> prepare(const nic::Op& op);
  Status release(nic::PreparedId id);
  // The prepared operation, or null. May be called by the same threads as validate().
  const nic::Op* prepared(nic::PreparedId id) const { return prepared_.find(id); }
  Status validate(const nic::Posting& posting) const {
    return nic::DescriptorCheck(Open{*this}).of(posting, prepared(posting.prepared));
  }
  uint32_t free_entries() const { return entries_.free(); }
  // Cancels every entry that waits for the counter. Requires an open counter.
  void cancel(nic::CounterId counter);
  // Cancels every entry that has not fired.
  void flush();

  // ---- Steps
  // ready() is the entry that has been ready longest, if there is room in flight; first_ready()
  // ignores the room. next_ready() walks the others in that order. Fire the entries of one counter
  // in that order (N2).
  std::optional<uint32_t> ready() const { return room_in_flight() ? first_ready() : std::nullopt; }
  std::optional<uint32_t> first_ready() const { return entries_.first_ready(); }
  std::optional<uint32_t> next_ready(uint32_t entry) const { return entries_.next(entry); }
  nic::CounterId trigger_of(uint32_t entry) const { return entries_[entry].trigger; }
  uint64_t threshold_of(uint32_t entry) const { return entries_[entry].threshold; }
  const nic::Op& op_of(uint32_t entry) const { return entries_[entry].op; }
  // first_waiting() is the entry of this counter with the lowest threshold; next_waiting() the one
  // after a waiting entry.
  std::optional<uint32_t> first_waiting(nic::CounterId counter) const {
    return is_open(counter) ? EntryTable::first_of(counters_[counter].waiting) : std::nullopt;
  }
  std::optional<uint32_t> next_waiting(uint32_t entry) const { return entries_.next(entry); }
  // Frees the entry and starts its operation. Returns no Launch if the peer is lost: it has failed.
  std::optional<Launch> fire(uint32_t entry);
  // Holds an operation without an entry until start_held(), in order. From now on the objects that
  // it names count as used. Requires a valid op and held() < max_held.
  void hold(const nic::Op& op);
  uint32_t held() const { return static_cast<uint32_t>(held_.size()); }
  // Requires held() > 0 and room_in_flight().
  std::optional<Launch> start_held();
  bool room_in_flight() const { return !free_flights_.empty(); }
  uint32_t in_flight() const { return free_flights_.taken(); }

  // ---- Arrivals
  // Checks the target of a kWrite, kPull or kAtomic. Pins its region until landed() or abandoned().
  Landing locate(const Packet& packet);
  // The packet, accepted by locate(), is in memory. Counts it (N4).
  void landed(const Packet& packet);
  void abandoned(const Packet& packet);
  // The remote-write counter of the packet's region; may be none. Requires that locate() accepted
  // the packet.
  nic::CounterId counter_of(const Packet& packet) const { return regions_[regions_.pinned(packet.key)].remote_write; }
  // True if the ack answers an operation in flight to the ack's source. An ack from a wire may
  // be wrong.
  bool awaits(const Packet& ack) const;
  // An operation in flight.
  const nic::Op& under_way(uint32_t token) const { return flights_[token].op; }
  // Its completion counter; may be none.
  nic::CounterId completion_of(uint32_t token) const { return flights_[token].op.completion; }
  // The operation has ended (N5). Requires awaits(ack).
  void complete(const Packet& ack);
  // Fails every operation in flight to the peer, and every later one.
  void lose_peer(uint32_t peer);

  // ---- Failures
  std::optional<nic::FailureRecord> take_failure() { return failures_.take(); }
  uint64_t failures() const { return failures_.total(); }
  uint32_t open_counters() const { return counters_.open(); }
  uint32_t open_regions() const { return regions_.open(); }

 private:
  static constexpr uint32_t kNone = UINT32_MAX;
  using Counter = CounterTable::Counter;

  struct InFlight {
    nic::Op op;
    bool busy = false;
  };

  // Answers DescriptorCheck's questions. The engine checks the peers.
  struct Open {
    const NicModel& model;
    bool has_counter(nic::CounterId id) const { return model.is_open(id); }
    bool has_peer(uint32_t) const { return true; }
    bool misaligned(nic::RemoteKey) const { return false; }
    nic::Extent extent(nic::RegionId id) const {
      const RegionTable::Region* region = model.regions_.find(id);
      return region == nullptr ? nic::Extent{} : nic::Extent{region->base, region->bytes, true};
    }
    uint64_t max_message_bytes() const { return model.limits_.max_message_bytes; }
  };

  const std::byte* local_address(nic::LocalSpan span) const;
  Status change(nic::CounterId counter, uint64_t value, bool of_failures, bool adds);
  void use(const nic::Op& op, int delta);
  void advance(nic::CounterId counter, uint64_t success, uint32_t failure);
  void release_ready(nic::CounterId counter);
  void take_back(uint32_t entry);
  void free_entry(uint32_t entry);
  std::optional<Launch> start(const nic::Op& op);
  void finish(const nic::Op& op, Code code);

  ModelLimits limits_;
  uint32_t self_;
  Witness* witness_ = nullptr;
  CounterTable counters_;
  RegionTable regions_;
  EntryTable entries_;
  std::vector<InFlight> flights_;
  FreePlaces free_flights_;
  boost::circular_buffer<nic::Op> held_;
  nic::PreparedTable<nic::Op> prepared_;
  nic::FailureLog failures_;
  std::vector<uint32_t> lost_peers_;
};

// Applies the packet's atomic to the 8 bytes at `target`. Atomic against every other atomic access.
void apply_atomic(std::byte* target, const Packet& packet);

}  // namespace lanyard::nicsim

#endif  // LANYARD_NICSIM_MODEL_NIC_MODEL_H_
