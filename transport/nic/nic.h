// The abstract triggered NIC: the one interface between the protocol (transport/core) and drivers.
//
// It models libfabric's deferred work (fi_trigger(3)) with the CXI provider's extensions
// (fi_cxi(7)). It has counters, and memory regions that count arriving messages. It runs deferred
// operations by itself once a counter reaches a threshold. tests/contract/nic_contract.h checks
// every implementation against these rules:
//
//  N1  An entry fires exactly once, when success + failure of its trigger counter is at least its
//      threshold. If that is already true when the entry is posted, it fires at once. So a failed
//      operation also fires its chain.
//  N2  Among the waiting entries of one counter, lower thresholds fire first, equal ones in the
//      order of posting. (Tested where it can be seen: tests/nicsim/nic_model_test.cc.)
//  N3  Payloads and atomic operands are read when the operation runs, not when it is posted.
//  N4  A message or atomic that lands in a region bound to a counter adds exactly 1 to its
//      success, whatever its length, even zero. If caps().target_count_means_visible, the data is
//      visible by then.
//  N5  An operation adds exactly 1 to its completion counter: to success when the target has
//      accepted it, to failure when it could not be done. A failure also leaves a record for
//      take_failure(). Nothing fails silently.
//  N6  An entry takes one place of caps().deferred_depth from post() until it fires. post() of a
//      batch takes all the places it needs, or none.
//  N7  Two operations of one NIC to one peer have no order except the one that counters make.
//  N8  A key is valid until its region is deregistered, and never again. What arrives later fails
//      at its initiator.
//  N9  A call that returns an error has changed nothing.
//  N11 The listener of a counter (listen) is called soon after a message has been counted there
//      (N4), by the thread that drives the NIC. This needs no call of this process: if no thread
//      drives, the NIC's own thread does.
//  N12 If a peer's process ends or its NIC is closed, every NIC that has had an operation with it,
//      in either direction, finds out (is_lost). Its operations in flight to that peer fail, and
//      threads in wait_since() wake. If caps().watches_peers is false, a NIC finds out only when
//      operations fail. A peer that lives but cannot be reached is also lost to a NIC that has
//      tried: see why_lost().
//  N13 A failure counts (failures()) before anything that its operation's chain does is visible. If
//      caps().failures_lag, it counts once confirms() has returned true for its context.
//  N14 The counters and regions of this NIC that a prepared operation names stay open until
//      release(). A posting of it makes an ordinary entry (N1 to N7) with its own trigger,
//      threshold and start. That entry runs to its end even if the operation is released first.
//
// Threads: any thread may make any call. post(), post_prepared(), issue() and Doorbell::call never
// block. Once warm they do not allocate, nor enter the kernel unless the device sleeps. Other calls
// may block for the length of one progress().
#ifndef LANYARD_TRANSPORT_NIC_NIC_H_
#define LANYARD_TRANSPORT_NIC_NIC_H_

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "transport/base/status.h"

namespace lanyard::nic {

// A counter has 48 bits of success and 7 of failure, as on Slingshot (fi_cxi(7), writeback word).
inline constexpr uint64_t kMaxSuccess = (uint64_t{1} << 48) - 1;
inline constexpr uint32_t kMaxFailure = 127;

// The abilities and limits of a NIC. The protocol chooses by these and never by the driver's name.
struct Caps {
  std::string name;      // implementation, for people: "sim/shm", "ofi/cxi"
  std::string provider;  // version or provider string, for people

  uint32_t deferred_depth = 0;     // deferred-work entries, shared by all users of the NIC
  uint32_t max_counters = 0;       // counters open at once
  uint32_t max_regions = 0;        // regions registered at once
  uint64_t max_message_bytes = 0;  // longest write; the caller cuts longer messages
  bool doorbell_mmio_add = false;  // see DoorbellKind
  bool doorbell_atomic_add = false;
  bool doorbell_totals = false;  // kAtomicAdd: the ringer may store the sum instead
  bool doorbell_host_call = false;
  bool flush = false;   // Nic::flush works
  bool cancel = false;  // Nic::cancel works
  // When a remote-write counter has counted a message, every reader of the memory sees its data.
  // Strategy A (target counter) requires this.
  bool target_count_means_visible = false;
  // One counter may count both completed operations and messages that land in regions.
  bool counters_count_both = false;
  bool device_memory = false;  // writes may use GPU memory; atomics there are kUnsupported
  bool watches_peers = false;  // N12 holds even without an operation in flight
  // The chain of a failed operation may be visible before the failure counts (N13): ask confirms().
  bool failures_lag = false;
};

// Results of Nic::why_lost(): for a peer that has ended, and the prefix for one that may live.
inline constexpr const char* kHasEnded = "has ended";
inline constexpr const char* kCannotBeReached = "cannot be reached: ";

// Names a counter of one NIC. The id of a closed counter may be used again.
struct CounterId {
  uint32_t value = UINT32_MAX;
  bool valid() const { return value != UINT32_MAX; }
  friend bool operator==(CounterId, CounterId) = default;
};

// Names a registered region of one NIC, in this process.
struct RegionId {
  uint32_t value = UINT32_MAX;
  bool valid() const { return value != UINT32_MAX; }
  friend bool operator==(RegionId, RegionId) = default;
};

// The opaque address of a NIC. Carry it to the other NICs out of band (fi_getname(3)).
struct Address {
  static constexpr size_t kMaxBytes = 128;
  std::vector<std::byte> bytes;
};

// Lets other NICs write into a region (fi_mr_key(3)). Plain data: may be sent to other processes.
struct RemoteKey {
  uint64_t value = 0;
  friend bool operator==(RemoteKey, RemoteKey) = default;
};

struct CounterValue {
  uint64_t success = 0;                                   // 48 bits
  uint32_t failure = 0;                                   // 7 bits, saturates at kMaxFailure
  uint64_t reached() const { return success + failure; }  // compared with thresholds
  friend bool operator==(CounterValue, CounterValue) = default;
};

// How a stream or a kernel adds to a counter. A plain store to a polled word would lose rings.
enum class DoorbellKind {
  kMmioAdd,  // a store of v to *word adds v (Slingshot)
  // An atomic add of v to *word adds v. The NIC only reads the word. A GPU's add need not be atomic
  // towards the host, so either streams of one device or host threads add to a word, never both.
  // Its page holds only such words, because some drivers map whole pages to the device. If
  // caps().doorbell_totals, the NIC counts the growth of the word, modulo 2^64. So a single ringer
  // may store the sum instead of adding.
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

// True if a single ringer may ring by storing the sum of its rings.
inline bool takes_totals(const Caps& caps, const Doorbell& bell) {
  return bell.kind == DoorbellKind::kAtomicAdd && caps.doorbell_totals;
}
// The sum of all rings that have landed; 0 if the doorbell is not a word in memory.
inline uint64_t total_of(const Doorbell& bell) {
  return bell.kind == DoorbellKind::kAtomicAdd ? std::atomic_ref(*bell.word).load(std::memory_order_relaxed) : 0;
}

// Called when messages arrive (N11).
struct Listener {
  void (*call)(void* object) = nullptr;
  void* object = nullptr;
};

enum class OpKind : uint8_t {
  kWrite,   // bytes from local memory to remote memory (fi_writemsg)
  kAtomic,  // one 64-bit atomic on remote memory (fi_atomicmsg, FI_UINT64)
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
  CounterId completion = {};  // gets +1 on completion (N5); invalid: none
  LocalSpan local = {};       // kWrite: source; kAtomic: the operand's 8 bytes, 8-aligned
  RemoteSpan remote = {};     // atomics need 8-aligned targets
  uint64_t bytes = 0;         // kWrite: length, 0 to caps().max_message_bytes
  uint64_t context = 0;       // the caller's own word, returned in FailureRecord
  uint64_t start = 0;         // the caller's number of this start of the context, for confirms()
};

struct DeferredOp {
  Op op;
  CounterId trigger;
  uint64_t threshold = 0;  // <= kMaxSuccess; 0 is met at once
};

// Names a prepared operation of one NIC. Never used again after release().
struct PreparedId {
  uint32_t index = UINT32_MAX;
  uint32_t generation = 0;
  bool valid() const { return index != UINT32_MAX; }
  friend bool operator==(PreparedId, PreparedId) = default;
};

// One start of a prepared operation: the parts that differ each time.
struct Posting {
  PreparedId prepared;
  CounterId trigger;
  uint64_t threshold = 0;  // as in DeferredOp
  uint64_t start = 0;      // replaces Op::start
};

// The deferred operation that `posting` of `op` stands for.
inline DeferredOp deferred(const Op& op, const Posting& posting) {
  DeferredOp deferred{.op = op, .trigger = posting.trigger, .threshold = posting.threshold};
  deferred.op.start = posting.start;
  return deferred;
}

// Operations of one context whose Op::start is at most `starts`; by default all.
struct ContextStarts {
  uint64_t context = 0;
  uint64_t starts = UINT64_MAX;
};

// The number of objects that are open now.
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

  // Sets the job's NICs in rank order. Call once, before any operation. An empty address is unknown
  // until add_peer(); until then operations for that peer are refused with kNotFound. Connections
  // are made when needed. kInvalidState on a second call; kInvalidArgument if an address is not of
  // this kind of NIC or `self` is not this NIC.
  virtual Status set_peers(std::span<const Address> peers, uint32_t self) = 0;
  // Sets an address that set_peers() left empty. A peer that knows this NIC may send even before.
  // kInvalidState if the address is known; kInvalidArgument for a bad peer or address.
  virtual Status add_peer(uint32_t peer, const Address& address) = 0;

  // Opens a counter at {0, 0}. kExhausted if caps().max_counters are open.
  virtual Result<CounterId> open_counter() = 0;
  // kInvalidState while an entry, operation in flight, region or listener names it. kNotFound.
  virtual Status close_counter(CounterId counter) = 0;
  // The value may lag behind the NIC; it converges when nothing more happens. If caps().cancel, it
  // includes everything added to the counter's doorbell word before this call, so a caller that
  // cancels knows what has started. kNotFound.
  virtual Result<CounterValue> read(CounterId counter) = 0;
  // success += value. kInvalidArgument if the sum is above kMaxSuccess. kNotFound.
  virtual Status add(CounterId counter, uint64_t value) = 0;
  // failure += value. kInvalidArgument if the sum is above kMaxFailure. kNotFound.
  virtual Status add_error(CounterId counter, uint32_t value) = 0;
  // Sets it to {0, 0}. Waiting entries stay and wait for the new count. kNotFound.
  virtual Status reset(CounterId counter) = 0;
  // Calls the listener as N11 says, until a call of listen() with a null one returns. One per NIC.
  // The listener must neither block nor call the NIC. kInvalidState if there is one already;
  // kNotFound; kUnsupported if the NIC has no thread of its own (then poll the counter).
  virtual Status listen(CounterId, Listener) {
    return {Code::kUnsupported, "the NIC has no thread to call a listener"};
  }
  // Valid until the counter is closed. kUnsupported if caps() does not list the kind. kNotFound.
  virtual Result<Doorbell> doorbell(CounterId counter, DoorbellKind kind) = 0;

  // Registers [base, base + bytes) for local and remote use. The caller owns it; bytes may be 0.
  // Arriving messages add to `remote_write` if it is valid (N4); one counter may serve several
  // regions. kExhausted; kNotFound; kInvalidArgument for device memory of more than one allocation.
  virtual Result<RegionId> register_region(void* base, uint64_t bytes, CounterId remote_write = {}) = 0;
  // On return the NIC no longer touches the memory. Waits for a message that is landing; if its
  // sender makes no progress, the message fails. kInvalidState while a waiting entry or an
  // operation in flight of this NIC names it. kTimedOut if a peer that makes no progress may still
  // be copying into it. kNotFound.
  virtual Status deregister_region(RegionId region) = 0;
  virtual Result<RemoteKey> key(RegionId region) const = 0;

  // Posts deferred operations, all or none (N6), and copies them. kAgain if too few entries are
  // free now, kExhausted if the NIC has too few at all. kNotFound and kInvalidArgument for a bad
  // descriptor; kUnsupported for an atomic with an operand in device memory.
  virtual Status post(std::span<const DeferredOp> ops) = 0;
  // Prepares an operation for many postings (N14): checks the fixed part once, so each posting
  // checks only what is new. Takes no entry and ignores op.start. May allocate. Errors as post().
  virtual Result<PreparedId> prepare(const Op& op) = 0;
  // As post(), all or none. kNotFound if the operation is not prepared or the trigger not open;
  // kInvalidArgument for a threshold of more than 48 bits.
  virtual Status post_prepared(std::span<const Posting> postings) = 0;
  // Ends the use of a prepared operation. The objects that it names may then be closed. No other
  // thread may be posting it. kNotFound.
  virtual Status release(PreparedId prepared) = 0;
  // Runs an operation now, without an entry. kAgain if too many are in flight. Else as post().
  virtual Status issue(const Op& op) = 0;
  virtual uint32_t free_entries() const = 0;
  // Cancels every entry that waits for this counter; it completes nowhere. Fired entries go on.
  // kNotFound; kUnsupported unless caps().cancel.
  virtual Status cancel(CounterId) { return {Code::kUnsupported, "the NIC cannot cancel deferred work"}; }
  // Cancels every waiting entry of this NIC; they complete nowhere. Operations in flight finish.
  // kUnsupported unless caps().flush.
  virtual Status flush() = 0;

  // Does ready work and returns the number of steps: 0 if idle or if another thread drives.
  virtual size_t progress() = 0;
  // Grows with every step of any thread's progress().
  virtual uint64_t activity() const = 0;
  // Sleeps until there may be something to do or see, at most `timeout`; may return early. Returns
  // at once if activity() is no longer `seen`. Read activity(), check the condition, then sleep
  // with that value: no change is missed.
  virtual void wait_since(uint64_t seen, Nanoseconds timeout) = 0;
  // Between attend() and leave() the calling thread calls progress() in a loop, so the device need
  // not wake anyone. Calls are counted. A thread leaves before it sleeps.
  virtual void attend() {}
  virtual void leave() {}
  // Removes and returns the oldest failure. A device keeps a limited number of records (the
  // simulator 1,024) and only counts further failures.
  virtual std::optional<FailureRecord> take_failure() = 0;
  virtual Usage usage() const = 0;
  // The number of peers lost so far (one load, for hot paths), and whether this one is lost (N12).
  virtual uint64_t lost_peers() const { return 0; }
  virtual bool is_lost(uint32_t) const { return false; }
  // The reason, to be printed after the peer's name: "has ended". Requires is_lost().
  virtual std::string why_lost(uint32_t) const { return kHasEnded; }
  // Failures since the start: one load, for hot paths. N13 says when a failure counts.
  virtual uint64_t failures() const = 0;
  // Needed only if caps().failures_lag. Poll until true: then all these operations have ended and
  // failures() counts those that failed. Pass only starts already seen to complete, since later
  // ones may depend on the caller. May block for the length of one progress().
  virtual bool confirms(std::span<const ContextStarts>) { return true; }
};

// Passes every call to another NIC. Decorators derive from it and override the calls they change.
// Threads, errors and blocking: as the inner NIC, which must outlive this one or belong to it.
class ForwardingNic : public Nic {
 public:
  explicit ForwardingNic(Nic& inner) : inner_(&inner) {}
  explicit ForwardingNic(std::unique_ptr<Nic> inner) : owned_(std::move(inner)), inner_(owned_.get()) {}
  ForwardingNic(const ForwardingNic&) = delete;
  ForwardingNic& operator=(const ForwardingNic&) = delete;

  const Caps& caps() const override { return inner_->caps(); }
  Address address() const override { return inner_->address(); }
  Status set_peers(std::span<const Address> peers, uint32_t self) override { return inner_->set_peers(peers, self); }
  Status add_peer(uint32_t peer, const Address& address) override { return inner_->add_peer(peer, address); }

  Result<CounterId> open_counter() override { return inner_->open_counter(); }
  Status close_counter(CounterId counter) override { return inner_->close_counter(counter); }
  Result<CounterValue> read(CounterId counter) override { return inner_->read(counter); }
  Status add(CounterId counter, uint64_t value) override { return inner_->add(counter, value); }
  Status add_error(CounterId counter, uint32_t value) override { return inner_->add_error(counter, value); }
  Status reset(CounterId counter) override { return inner_->reset(counter); }
  Status listen(CounterId counter, Listener listener) override { return inner_->listen(counter, listener); }
  Result<Doorbell> doorbell(CounterId counter, DoorbellKind kind) override { return inner_->doorbell(counter, kind); }

  Result<RegionId> register_region(void* base, uint64_t bytes, CounterId remote_write = {}) override {
    return inner_->register_region(base, bytes, remote_write);
  }
  Status deregister_region(RegionId region) override { return inner_->deregister_region(region); }
  Result<RemoteKey> key(RegionId region) const override { return inner_->key(region); }

  Status post(std::span<const DeferredOp> ops) override { return inner_->post(ops); }
  Result<PreparedId> prepare(const Op& op) override { return inner_->prepare(op); }
  Status post_prepared(std::span<const Posting> postings) override { return inner_->post_prepared(postings); }
  Status release(PreparedId prepared) override { return inner_->release(prepared); }
  Status issue(const Op& op) override { return inner_->issue(op); }
  uint32_t free_entries() const override { return inner_->free_entries(); }
  Status cancel(CounterId trigger) override { return inner_->cancel(trigger); }
  Status flush() override { return inner_->flush(); }

  size_t progress() override { return inner_->progress(); }
  uint64_t activity() const override { return inner_->activity(); }
  void wait_since(uint64_t seen, Nanoseconds timeout) override { inner_->wait_since(seen, timeout); }
  void attend() override { inner_->attend(); }
  void leave() override { inner_->leave(); }
  std::optional<FailureRecord> take_failure() override { return inner_->take_failure(); }
  Usage usage() const override { return inner_->usage(); }
  uint64_t lost_peers() const override { return inner_->lost_peers(); }
  bool is_lost(uint32_t peer) const override { return inner_->is_lost(peer); }
  std::string why_lost(uint32_t peer) const override { return inner_->why_lost(peer); }
  uint64_t failures() const override { return inner_->failures(); }
  bool confirms(std::span<const ContextStarts> starts) override { return inner_->confirms(starts); }

 protected:
  Nic& inner() const { return *inner_; }

 private:
  std::unique_ptr<Nic> owned_;
  Nic* inner_;
};

}  // namespace lanyard::nic

#endif  // LANYARD_TRANSPORT_NIC_NIC_H_
