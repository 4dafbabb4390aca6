// The abstract triggered NIC: the one interface between the protocol (transport/core) and every driver.
//
// It models what libfabric calls deferred work (fi_trigger(3)) with the CXI provider's extensions (fi_cxi(7)):
// counters, memory regions whose arriving messages are counted, and operations that the NIC runs by itself once a
// counter reaches a threshold. tests/contract/nic_contract.h holds every implementation to the rules below.
//
// The rules (the contract suite cites the numbers):
//  N1  An entry fires once success + failure of its triggering counter >= threshold; a condition that is already met
//      when the entry is posted fires at once. It fires exactly once. A failed operation therefore fires its chain too.
//  N2  Among the waiting entries of one counter, lower thresholds fire first, equal ones in the order of posting.
//  N3  Payloads and atomic operands are read when the operation runs, not when it is posted.
//  N4  A message that lands in a region bound to a counter adds exactly 1 to its success, whatever its length, zero
//      included, and atomics too. Where caps().target_count_means_visible, the data is visible by then.
//  N5  An operation adds exactly 1 to its completion counter: to success when the target has taken it, to failure when
//      it could not be done; a failure also leaves a record for take_failure(). Nothing fails silently.
//  N6  An entry occupies one place of caps().deferred_depth from post() until it fires. post() of a batch takes all
//      the places it needs or none.
//  N7  Between two operations of one NIC to one peer there is no order but the one that counters make.
//  N8  A key is valid until its region is deregistered, and never again: what arrives later fails at its initiator.
//  N9  A call that returns an error has changed nothing.
//  N11 The listener of a counter (listen) is called soon after a message has been counted there (N4), by the thread
//      that drives. No call of this process is needed: the NIC's own thread takes messages in when nobody drives.
//  N12 If a peer's process ends, or its NIC is closed, every NIC that has had an operation with it in either direction
//      learns it (is_lost). Operations under way to it fail, and threads in wait_since() wake. A NIC that learns of it
//      only by failing operations says so (caps().watches_peers). A peer that lives and cannot be reached is lost, too,
//      to who has tried: why_lost() tells the two apart.
//  N13 A failure counts (failures()) before anything that its operation's chain does is visible; where
//      caps().failures_lag, it counts once confirms() has said so of its context.
//  N14 A prepared operation holds what it names: its counters and regions of this NIC stay open until release(). A
//      posting of it makes an entry like another (N1 to N7), with trigger, threshold and start of its own, which goes
//      on to its end though the operation has been released meanwhile.
//
// Threads: every call may come from any thread. post(), post_prepared(), issue() and Doorbell::call never block and,
// once warm, neither allocate nor enter the kernel unless the device sleeps. The other calls may block for the length
// of one progress().
#ifndef LANYARD_TRANSPORT_NIC_NIC_H_
#define LANYARD_TRANSPORT_NIC_NIC_H_

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "transport/base/status.h"
#include "transport/nic/caps.h"

namespace lanyard::nic {

// What Nic::why_lost() says of a peer that is no more, and how it begins of one that may live.
inline constexpr const char* kHasEnded = "has ended";
inline constexpr const char* kCannotBeReached = "cannot be reached: ";

// Names a counter of one NIC. Ids of closed counters are used again.
struct CounterId {
  uint32_t value = UINT32_MAX;
  bool valid() const { return value != UINT32_MAX; }
  friend bool operator==(CounterId, CounterId) = default;
};

// Names a registered region of one NIC, locally.
struct RegionId {
  uint32_t value = UINT32_MAX;
  bool valid() const { return value != UINT32_MAX; }
  friend bool operator==(RegionId, RegionId) = default;
};

// A NIC's own name for itself, to be carried to the others out of band (fi_getname(3)). Opaque, at most kMaxBytes.
struct Address {
  static constexpr size_t kMaxBytes = 128;
  std::vector<std::byte> bytes;
};

// What another NIC needs to write into a region (fi_mr_key(3)). Plain data: may be carried to other processes.
struct RemoteKey {
  uint64_t value = 0;
  friend bool operator==(RemoteKey, RemoteKey) = default;
};

struct CounterValue {
  uint64_t success = 0;                                   // 48 bits
  uint32_t failure = 0;                                   // 7 bits, stays at kMaxFailure when it would pass it
  uint64_t reached() const { return success + failure; }  // what thresholds compare with
  friend bool operator==(CounterValue, CounterValue) = default;
};

// How a stream or a kernel adds to a counter. Never "a store to memory": a plain word polled for stores loses rings.
enum class DoorbellKind {
  kMmioAdd,  // a store of v to *word adds v (Slingshot)
  // An atomic add of v to *word adds v. A GPU's add need not be atomic towards the host: a word is added to by the
  // streams of one device or by host threads, never by both at once; the NIC only reads it. It has a page with nothing
  // but such words in it, for drivers that make whole pages known to the device. Where caps().doorbell_totals the NIC
  // counts what the word has grown by, modulo 2^64: whoever alone rings it may store the sum instead of adding.
  kAtomicAdd,
  kHostCall,  // call(object, counter, v) from a host thread adds v; never blocks
};

struct Doorbell {
  DoorbellKind kind = DoorbellKind::kHostCall;
  uint64_t* word = nullptr;
  void (*call)(void* object, uint32_t counter, uint64_t value) = nullptr;
  void* object = nullptr;
  uint32_t counter = 0;
};

// Whether it may be rung by storing the sum of its rings, by whoever alone rings it.
inline bool takes_totals(const Caps& caps, const Doorbell& bell) {
  return bell.kind == DoorbellKind::kAtomicAdd && caps.doorbell_totals;
}
// That sum, of rings that have all landed; 0 for what is no memory and not to be read.
inline uint64_t total_of(const Doorbell& bell) {
  return bell.kind == DoorbellKind::kAtomicAdd ? std::atomic_ref(*bell.word).load(std::memory_order_relaxed) : 0;
}

// Called for messages that arrive (N11).
struct Listener {
  void (*call)(void* object) = nullptr;
  void* object = nullptr;
};

enum class OpKind : uint8_t {
  kWrite,       // bytes from local memory to remote memory (fi_writemsg)
  kAtomic,      // one 64-bit atomic on remote memory (fi_atomicmsg, FI_UINT64)
  kCounterAdd,  // adds value to a counter of this NIC
  kCounterSet,  // sets a counter of this NIC to value, failures to 0
};

enum class AtomicKind : uint8_t {
  kSum,      // target += operand
  kReplace,  // target = operand (FI_ATOMIC_WRITE)
};

enum class CompletionLevel : uint8_t {
  kTransmit,  // the target NIC has accepted the operation; says nothing on visibility
  kDelivery,  // the data is visible at the target
};

// Memory of this process inside a registered region. Offsets are bytes from the region's start.
struct LocalSpan {
  RegionId region;
  uint64_t offset = 0;
};

// Memory of a peer. `peer` indexes the table given to set_peers; this NIC's own index is allowed.
struct RemoteSpan {
  uint32_t peer = 0;
  RemoteKey key;
  uint64_t offset = 0;
};

struct Op {
  OpKind kind = OpKind::kWrite;
  AtomicKind atomic = AtomicKind::kSum;
  CompletionLevel level = CompletionLevel::kTransmit;
  CounterId completion;  // +1 on completion (N5); none where invalid; must be none for counter ops
  LocalSpan local;       // kWrite: source; kAtomic: the operand's 8 bytes, 8-aligned
  RemoteSpan remote;     // kWrite, kAtomic; atomics need 8-aligned targets
  uint64_t bytes = 0;    // kWrite: length, 0 to caps().max_message_bytes
  CounterId counter;     // counter ops: which
  uint64_t value = 0;    // counter ops: what
  uint64_t context = 0;  // the caller's own word, given back in FailureRecord
  uint64_t start = 0;    // likewise: which start of the context's it belongs to, for confirms()

  // Whether it goes to `remote` (else it is a counter op).
  bool moves_data() const { return kind == OpKind::kWrite || kind == OpKind::kAtomic; }
};

struct DeferredOp {
  Op op;
  CounterId trigger;
  uint64_t threshold = 0;  // <= kMaxSuccess; 0 is met at once
};

// Names an operation that one NIC has been handed to be posted again and again. Never used again after release().
struct PreparedId {
  uint32_t index = UINT32_MAX;
  uint32_t generation = 0;
  bool valid() const { return index != UINT32_MAX; }
  friend bool operator==(PreparedId, PreparedId) = default;
};

// One start of a prepared operation: what is different each time.
struct Posting {
  PreparedId prepared;
  CounterId trigger;
  uint64_t threshold = 0;  // as DeferredOp's
  uint64_t start = 0;      // in place of Op::start
};

// The deferred operation that a posting of `op` stands for.
inline DeferredOp deferred(const Op& op, const Posting& posting) {
  DeferredOp deferred{.op = op, .trigger = posting.trigger, .threshold = posting.threshold};
  deferred.op.start = posting.start;
  return deferred;
}

// Operations of one context: those of its starts up to this one (Op::start), or all.
struct ContextStarts {
  uint64_t context = 0;
  uint64_t starts = UINT64_MAX;
};

// What is open at this moment.
struct Usage {
  uint32_t counters = 0;
  uint32_t regions = 0;
};

// One operation that failed (N5).
struct FailureRecord {
  uint64_t context = 0;
  Code code = Code::kFailed;
  uint32_t peer = 0;
};

class Nic {
 public:
  using Nanoseconds = std::chrono::nanoseconds;

  virtual ~Nic() = default;

  virtual const Caps& caps() const = 0;
  virtual Address address() const = 0;

  // The job's NICs in rank order, once, before any operation. An empty address is that of a NIC that
  // add_peer() names later; until then operations for it are refused with kNotFound. kInvalidState the
  // second time; kInvalidArgument for an address that no NIC of this kind has, or where `self` does not
  // name this NIC. Connections are made when needed.
  virtual Status set_peers(std::span<const Address> peers, uint32_t self) = 0;
  // The address of a peer that set_peers() left open. kInvalidState where it is known; kInvalidArgument
  // for a peer that is none, or an address as above. A peer that knows this NIC may send to it before.
  virtual Status add_peer(uint32_t peer, const Address& address) = 0;

  // A counter at {0, 0}. kExhausted when caps().max_counters are open.
  virtual Result<CounterId> open_counter() = 0;
  // kInvalidState while a waiting entry, an operation under way, a region or a listener names it. kNotFound.
  virtual Status close_counter(CounterId counter) = 0;
  // The value may lag behind the NIC but converges when nothing more happens. Where caps().cancel, what was added to
  // the counter's doorbell word before the call is in it: whoever takes work back knows what has been started.
  // kNotFound.
  virtual Result<CounterValue> read(CounterId counter) = 0;
  // success += value. kInvalidArgument where it would pass kMaxSuccess. kNotFound.
  virtual Status add(CounterId counter, uint64_t value) = 0;
  // failure += value. kInvalidArgument where it would pass kMaxFailure. kNotFound.
  virtual Status add_error(CounterId counter, uint32_t value) = 0;
  // Back to {0, 0}. Waiting entries stay and wait for the new count. kNotFound.
  virtual Status reset(CounterId counter) = 0;
  // Calls `listener` as N11 says, until it is replaced by a null one: on return of that call it is not being called any
  // more. One a NIC. The listener must neither block nor call the NIC. kInvalidState where there is one already;
  // kNotFound; kUnsupported where the NIC has no thread of its own: look at the counter instead.
  virtual Status listen(CounterId, Listener) { return {Code::kUnsupported, "the NIC has no thread that could call"}; }
  // Valid until the counter is closed. kUnsupported for a kind that caps() does not list. kNotFound.
  virtual Result<Doorbell> doorbell(CounterId counter, DoorbellKind kind) = 0;

  // Registers [base, base + bytes), owned by the caller, for local and remote use; bytes may be 0. Arriving messages
  // add to `remote_write` where valid (N4); a counter may serve several regions. kExhausted, kNotFound;
  // kInvalidArgument for device memory of more than one allocation.
  virtual Result<RegionId> register_region(void* base, uint64_t bytes, CounterId remote_write = {}) = 0;
  // Returns when the NIC will touch the memory no more. A message that is landing is waited for, unless its sender
  // stands still: then it fails. kInvalidState while a waiting entry or an operation of this NIC under way names it.
  // kTimedOut where a process that stands still may be writing there by itself. kNotFound.
  virtual Status deregister_region(RegionId region) = 0;
  virtual Result<RemoteKey> key(RegionId region) const = 0;

  // Hands deferred operations to the NIC, all or none (N6); they are copied. kAgain when not enough entries are free;
  // kExhausted when there are not so many at all; kNotFound, kInvalidArgument for a bad descriptor; kUnsupported for an
  // atomic with an operand in device memory.
  virtual Status post(std::span<const DeferredOp> ops) = 0;
  // Hands over, once, what is the same at every start of an operation (N14), and looks once whether it is right: its
  // postings are looked at for no more than what they bring. Takes no entry; op.start has no meaning. May allocate.
  // Errors as post().
  virtual Result<PreparedId> prepare(const Op& op) = 0;
  // As post(): all or none. kNotFound for what is not prepared, or has been released, and for a trigger that is not
  // open; kInvalidArgument for a threshold of more than 48 bits.
  virtual Status post_prepared(std::span<const Posting> postings) = 0;
  // It will not be posted again, and what it names may be closed. kNotFound. No other thread may be posting it.
  virtual Status release(PreparedId prepared) = 0;
  // Runs an operation now, outside deferred_depth. kAgain when too many are under way. Else as post().
  virtual Status issue(const Op& op) = 0;
  // Entries free at this moment.
  virtual uint32_t free_entries() const = 0;
  // Takes back every entry that waits for this counter; it completes nowhere. What has fired goes on. kNotFound;
  // kUnsupported unless caps().cancel.
  virtual Status cancel(CounterId) { return {Code::kUnsupported, "the NIC cannot take deferred work back"}; }
  // Cancels every waiting entry of this NIC; operations under way finish, canceled ones complete nowhere.
  // kUnsupported unless caps().flush.
  virtual Status flush() = 0;

  // Does what is ready to be done and returns how many steps that was; 0 when idle or when another thread is at it.
  virtual size_t progress() = 0;
  // Grows whenever anybody's progress() does a step.
  virtual uint64_t activity() const = 0;
  // Sleeps until there may be something to do or to see, at most `timeout`; returns at once where activity() is not
  // `seen` any more. May return early. Who reads activity(), then looks in vain for what it wants, and then sleeps
  // since that reading, cannot miss it.
  virtual void wait_since(uint64_t seen, Nanoseconds timeout) = 0;
  // Between attend() and leave() the calling thread calls progress() in a loop, so that the device need wake nobody.
  // Counted. A thread leaves before it sleeps.
  virtual void attend() {}
  virtual void leave() {}
  // The oldest failure not yet taken. A device keeps a limited number of records (the simulator 1,024); failures beyond
  // are only counted.
  virtual std::optional<FailureRecord> take_failure() = 0;
  virtual Usage usage() const = 0;
  // How many peers have been lost so far: one load, for hot paths. And whether this one has (N12).
  virtual uint64_t lost_peers() const { return 0; }
  virtual bool is_lost(uint32_t) const { return false; }
  // What is known of it, to be read after its name: "has ended". Requires is_lost().
  virtual std::string why_lost(uint32_t) const { return kHasEnded; }
  // Failures since the start: one load, for hot paths. When a failure counts: N13.
  virtual uint64_t failures() const = 0;
  // Whether all of these that was posted or issued has ended and failures() counts what of it failed. Asked by who has
  // seen that it has ended, where caps().failures_lag, again and again until it is true; may block for the length of
  // one progress(). Elsewhere there is nothing to ask. Later starts may have to wait for whoever asks, who then names
  // those before alone.
  virtual bool confirms(std::span<const ContextStarts>) { return true; }
};

}  // namespace lanyard::nic

#endif  // LANYARD_TRANSPORT_NIC_NIC_H_
