// The triggered NIC as a pure state machine: no thread, no clock, no memory traffic but atomics on request, and no
// allocation after construction but where operations are prepared. Both engines drive it: threads in real time
// (nicsim/threaded), and a deterministic scheduler. So the meaning of the simulated NIC exists once.
//
// A caller applies inputs (post, add, locate, landed, complete) and takes steps: while ready() names an entry, fire()
// is enabled; its Launch is to be carried to the peer, which answers with an ack for complete(). What lies between, and
// in what order, is the engine's choice. Rules N1-N9 of transport/nic/nic.h hold for every such order.
//
// Models: libfabric fi_trigger(3), fi_cntr(3), fi_cxi(7). Threads: none; one caller at a time, but for validate()
// and prepared(), which may run beside calls that open or prepare other things.
#ifndef LANYARD_NICSIM_MODEL_NIC_MODEL_H_
#define LANYARD_NICSIM_MODEL_NIC_MODEL_H_

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "nicsim/model/counter_table.h"
#include "nicsim/model/entry_table.h"
#include "nicsim/model/packet.h"
#include "nicsim/model/region_table.h"
#include "transport/nic/descriptor.h"
#include "transport/nic/failure_log.h"
#include "transport/nic/nic.h"
#include "transport/nic/prepared_table.h"

namespace lanyard::nicsim {

struct ModelLimits {
  uint32_t deferred_depth = 504;  // what Slingshot's default service leaves (512 less 8)
  uint32_t max_counters = 4096;
  uint32_t max_regions = 16384;
  uint32_t max_in_flight = 1024;  // operations fired and not yet acknowledged
  uint32_t max_held = 256;        // operations issued without an entry that wait for room in flight
  uint32_t kept_failures = 1024;  // records for take_failure(); the oldest stay
  uint64_t max_message_bytes = uint64_t{1} << 30;
  // What real hardware leaves open or does otherwise, so that programs can be run on either answer. The defaults are
  // what transport/nic/nic.h says.
  bool newest_tie_first = false;    // of entries that wait for one threshold, the one posted last fires first
};

// Is told how operations end: what a device would write into an event queue. Called by whoever drives the model, in the
// middle of a step: it must not call the model, nor wait for anybody who may.
class Witness {
 public:
  virtual ~Witness() = default;
  // The operation has ended, and has advanced its completion counter (or, a counter operation, its counter).
  virtual void ended(const nic::Op& op, Code code) = 0;
  // flush() or cancel() has taken it back before it fired.
  virtual void canceled(const nic::Op& op) = 0;
};

// An operation that has left its entry: what the engine must carry. `payload` is null unless it is a write of > 0
// bytes.
struct Launch {
  uint32_t peer = 0;
  Packet packet;
  const std::byte* payload = nullptr;
};

// Where an arriving packet goes, or why it may not.
struct Landing {
  Code code = Code::kOk;
  std::byte* address = nullptr;  // not null where code is kOk
  nic::CounterId counter;        // of the target, that will count it; may be none
  nic::RegionId region;          // in which `address` lies
};

class NicModel {
 public:
  explicit NicModel(const ModelLimits& limits, uint32_t self);

  const ModelLimits& limits() const { return limits_; }
  void set_self(uint32_t self) { self_ = self; }
  // At most one, which outlives the model or is taken away (null).
  void set_witness(Witness* witness) { witness_ = witness; }

  // ---- Counters and regions: as the functions of nic::Nic with these names.
  Result<nic::CounterId> open_counter() { return counters_.add(); }
  Status close_counter(nic::CounterId counter) { return counters_.remove(counter); }
  Result<nic::CounterValue> read(nic::CounterId counter) const {
    return is_open(counter) ? Result(counters_[counter].value) : Result<nic::CounterValue>(no_counter());
  }
  Status add(nic::CounterId counter, uint64_t value);
  Status add_error(nic::CounterId counter, uint32_t value);
  Status reset(nic::CounterId counter);
  // success = value, or failure = value; the other part stays. Errors as add() and add_error().
  Status set(nic::CounterId counter, uint64_t value);
  Status set_error(nic::CounterId counter, uint32_t value);
  // A doorbell has landed: adds like a register of 48 bits. Rings of closed counters vanish.
  void ring(nic::CounterId counter, uint64_t value);
  // kInvalidState where there is a region of options.key. Regions with such keys allocate.
  Result<nic::RegionId> register_region(void* base, uint64_t bytes, nic::CounterId remote_write,
                                        const RegionOptions& options = {});
  // Refuses further arrivals at once. kAgain while arrivals are pinned, or the engine is `busy` with the memory itself:
  // repeat when they have landed.
  Status deregister_region(nic::RegionId region, bool busy = false);
  // Lets arrivals in again after a kAgain.
  void keep_region(nic::RegionId region) { regions_.reopen(region); }
  Result<nic::RemoteKey> key(nic::RegionId region) const;
  bool is_open(nic::CounterId counter) const { return counters_.is_open(counter); }

  // ---- Entries
  // Whether the descriptor could be run at all; reads only what it names.
  Status validate(const nic::Op& op) const;
  Status validate(const nic::DeferredOp& op) const;
  // Requires a valid op and a free entry.
  void post(const nic::DeferredOp& op);

  // ---- Prepared operations: as the functions of nic::Nic with these names. Only prepare() allocates.
  Result<nic::PreparedId> prepare(const nic::Op& op);
  Status release(nic::PreparedId id);
  // What a posting of it is worth: null where there is none. For any thread that validate() is for.
  const nic::Op* prepared(nic::PreparedId id) const { return prepared_.find(id); }
  Status validate(const nic::Posting& posting) const;
  uint32_t free_entries() const { return entries_.free(); }
  uint32_t waiting_on(nic::CounterId counter) const { return is_open(counter) ? counters_[counter].waiting.count : 0; }
  // Cancels what waits for the counter, which is open.
  void cancel(nic::CounterId counter);
  // Cancels what has not fired.
  void flush();

  // ---- Steps
  // The entry that has been ready for longest, where one may fire now; next_ready() walks the others in that order.
  // Entries of one counter must be fired in that order (N2).
  std::optional<uint32_t> ready() const { return room_in_flight() ? first_ready() : std::nullopt; }
  std::optional<uint32_t> first_ready() const { return entries_.first_ready(); }  // whether it may fire or not
  std::optional<uint32_t> next_ready(uint32_t entry) const { return entries_.next(entry); }
  nic::CounterId trigger_of(uint32_t entry) const { return entries_[entry].trigger; }
  uint64_t threshold_of(uint32_t entry) const { return entries_[entry].threshold; }
  const nic::Op& op_of(uint32_t entry) const { return entries_[entry].op; }
  // The entry of this counter that waits for the lowest threshold, and the one after an entry that waits.
  std::optional<uint32_t> first_waiting(nic::CounterId counter) const {
    return is_open(counter) ? EntryTable::first_of(counters_[counter].waiting) : std::nullopt;
  }
  std::optional<uint32_t> next_waiting(uint32_t entry) const { return entries_.next(entry); }
  // Frees the entry and starts its operation. No Launch for counter operations: they are done.
  std::optional<Launch> fire(uint32_t entry);
  // Starts an operation without an entry. Requires a valid op and room_in_flight().
  std::optional<Launch> issue(const nic::Op& op);
  // The same where there may be no room: the operation names what it names from now on, and starts by start_held(), in
  // order. Requires a valid op and held() < max_held.
  void hold(const nic::Op& op);
  uint32_t held() const { return held_count_; }
  // Requires held() > 0 and room_in_flight().
  std::optional<Launch> start_held();
  bool room_in_flight() const { return free_in_flight_ != kNone; }
  uint32_t in_flight() const { return in_flight_; }

  // ---- Arrivals
  // Checks a kWrite's, kPull's or kAtomic's target and pins its region until landed() or abandoned().
  Landing locate(const Packet& packet);
  // The effect on memory of a packet that locate() let in is done: counts it (N4).
  void landed(const Packet& packet);
  void abandoned(const Packet& packet);
  // What counts a packet that locate() let in, of the region it lands in; may be none.
  nic::CounterId counter_of(const Packet& packet) const { return regions_[regions_.pinned(packet.key)].remote_write; }
  // Whether the ack answers an operation under way to its source. Acks from a wire need not.
  bool awaits(const Packet& ack) const;
  // An operation under way.
  const nic::Op& under_way(uint32_t token) const { return flights_[token].op; }
  // Its counter; may be none.
  nic::CounterId completion_of(uint32_t token) const { return flights_[token].op.completion; }
  // The initiator's operation has ended (N5): packet is its kAck. Requires awaits(ack).
  void complete(const Packet& ack);
  // Every operation under way to the peer fails, as does every later one.
  void lose_peer(uint32_t peer);

  // ---- Failures
  std::optional<nic::FailureRecord> take_failure() { return failures_.take(); }
  uint64_t failures() const { return failures_.total(); }
  uint32_t open_counters() const { return counters_.open(); }
  uint32_t open_regions() const { return regions_.open(); }

 private:
  static constexpr uint32_t kNone = UINT32_MAX;
  static Status no_counter();
  using Counter = CounterTable::Counter;

  struct InFlight {
    nic::Op op;
    uint32_t next_free = kNone;
    bool busy = false;
  };

  // What DescriptorCheck asks. The engine knows the peers.
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
  std::vector<nic::Op> held_;  // a ring
  nic::PreparedTable<nic::Op> prepared_;
  nic::FailureLog failures_;
  std::vector<uint32_t> lost_peers_;
  uint32_t first_held_ = 0;
  uint32_t held_count_ = 0;
  uint32_t free_in_flight_ = 0;
  uint32_t in_flight_ = 0;
};

// What an atomic does to the 8 bytes at `target`. Indivisible against every other atomic access.
void apply_atomic(std::byte* target, const Packet& packet);

}  // namespace lanyard::nicsim

#endif  // LANYARD_NICSIM_MODEL_NIC_MODEL_H_
