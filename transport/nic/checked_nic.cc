#include "transport/nic/checked_nic.h"

#include <algorithm>

#include "transport/base/check.h"
#include "transport/nic/driver.h"

namespace lanyard::nic {

namespace {

constexpr uint64_t kWord = sizeof(uint64_t);

using Lock = std::lock_guard<std::mutex>;

Status invalid(const char* what) { return {Code::kInvalidArgument, what}; }

uint64_t name_of(PreparedId id) { return uint64_t{id.index} << 32 | id.generation; }

bool lists(const Caps& caps, DoorbellKind kind) {
  switch (kind) {
    case DoorbellKind::kMmioAdd: return caps.doorbell_mmio_add;
    case DoorbellKind::kAtomicAdd: return caps.doorbell_atomic_add;
    case DoorbellKind::kHostCall: return caps.doorbell_host_call;
  }
  return false;
}

uint64_t saturating_add(uint64_t a, uint64_t b) { return a + b < a ? UINT64_MAX : a + b; }

}  // namespace

Status CheckedNic::set_peers(std::span<const Address> peers, uint32_t self) {
  Lock lock(lock_);
  if (!peers_.empty())
    return {Code::kInvalidState, "set_peers() was called before"};
  if (self >= peers.size())
    return invalid("self must be less than the number of peers");
  for (const Address& peer : peers)
    if (peer.bytes.size() > Address::kMaxBytes)
      return invalid("a peer's address is longer than 128 bytes");
  if (peers[self].bytes != inner().address().bytes)
    return invalid("the address at index self is not this NIC's");
  LANYARD_RETURN_IF_ERROR(inner().set_peers(peers, self));
  for (const Address& peer : peers)
    peers_.push_back(!peer.bytes.empty());
  return {};
}

Status CheckedNic::add_peer(uint32_t peer, const Address& address) {
  Lock lock(lock_);
  if (peer >= peers_.size())
    return invalid("no such peer");
  if (peers_[peer])
    return {Code::kInvalidState, "the peer's address is known already"};
  if (address.bytes.empty() || address.bytes.size() > Address::kMaxBytes)
    return invalid("an address has 1 to 128 bytes");
  LANYARD_RETURN_IF_ERROR(inner().add_peer(peer, address));
  peers_[peer] = true;
  return {};
}

// ---- Counters

Result<CounterId> CheckedNic::open_counter() {
  Lock lock(lock_);
  Result<CounterId> opened = inner().open_counter();
  if (!opened.ok())
    return opened;
  LANYARD_CHECK(opened.value().valid(), "driver: a counter without an id");
  LANYARD_CHECK(counters_.try_emplace(opened.value().value).second, "driver: two open counters with one id");
  LANYARD_CHECK(counters_.size() <= caps().max_counters, "driver: more counters open than caps() says");
  const CounterValue value = sample(opened.value());
  LANYARD_CHECK(value == CounterValue{}, "driver: a new counter is not at zero");
  return opened;
}

Status CheckedNic::close_counter(CounterId counter) {
  Lock lock(lock_);
  if (!is_open(counter))
    return no_counter();
  Status status = inner().close_counter(counter);
  if (!status.ok()) {
    sample(counter);
    return status;
  }
  LANYARD_CHECK(at(counter).regions == 0, "driver: closed a counter that a region names");
  LANYARD_CHECK(at(counter).prepared == 0, "driver: closed a counter that a prepared operation names");
  counters_.erase(counter.value);
  return status;
}

Result<CounterValue> CheckedNic::read(CounterId counter) {
  Lock lock(lock_);
  if (!is_open(counter))
    return no_counter();
  return sample(counter);
}

// Reads an open counter and checks the value.
CounterValue CheckedNic::sample(CounterId counter) {
  const Result<CounterValue> read = inner().read(counter);
  LANYARD_CHECK(read.ok(), "driver: an open counter cannot be read");
  const CounterValue& value = read.value();
  Counter& known = at(counter);
  LANYARD_CHECK(value.success <= kMaxSuccess && value.failure <= kMaxFailure, "driver: a counter left its range");
  if (value.success < known.seen.success || value.failure < known.seen.failure) {
    LANYARD_CHECK(known.falls_due > 0, "driver: a counter fell without reset");
    --known.falls_due;
  }
  LANYARD_CHECK(!known.bounded || value.reached() <= known.added, "driver: a counter counted more than was added");
  known.seen = value;
  return value;
}

// Makes `call`, which adds `value`, at most `most`.
template <typename Call>
Status CheckedNic::grow(CounterId counter, uint64_t value, uint64_t most, Call call) {
  Lock lock(lock_);
  if (!is_open(counter))
    return no_counter();
  if (value > most)
    return invalid("a counter holds 48 bits of success and 7 bits of failure");
  Status status = call();
  if (status.ok())
    at(counter).added = saturating_add(at(counter).added, value);
  sample(counter);
  return status;
}

Status CheckedNic::add(CounterId counter, uint64_t value) {
  return grow(counter, value, kMaxSuccess, [&] { return inner().add(counter, value); });
}

Status CheckedNic::add_error(CounterId counter, uint32_t value) {
  return grow(counter, value, kMaxFailure, [&] { return inner().add_error(counter, value); });
}

Status CheckedNic::reset(CounterId counter) {
  Lock lock(lock_);
  if (!is_open(counter))
    return no_counter();
  Status status = inner().reset(counter);
  if (status.ok())
    ++at(counter).falls_due;
  sample(counter);
  return status;
}

Result<Doorbell> CheckedNic::doorbell(CounterId counter, DoorbellKind kind) {
  Lock lock(lock_);
  if (!is_open(counter))
    return no_counter();
  if (!lists(caps(), kind))
    return Status(Code::kUnsupported, "caps() lists no such doorbell");
  Result<Doorbell> bell = inner().doorbell(counter, kind);
  if (!bell.ok()) {
    sample(counter);
    return bell;
  }
  LANYARD_CHECK(bell.value().kind == kind, "driver: a doorbell of another kind");
  if (kind == DoorbellKind::kHostCall) {
    LANYARD_CHECK(bell.value().call != nullptr, "driver: a doorbell without its call");
  } else {
    const uint64_t* word = bell.value().word;
    LANYARD_CHECK(word != nullptr && reinterpret_cast<uintptr_t>(word) % kWord == 0,
                  "driver: a doorbell without its word");
  }
  at(counter).bounded = false;
  return bell;
}

// ---- Regions

Result<RegionId> CheckedNic::register_region(void* base, uint64_t bytes, CounterId remote_write) {
  Lock lock(lock_);
  if (base == nullptr && bytes > 0)
    return invalid("a region that is not empty needs an address");
  if (reinterpret_cast<uintptr_t>(base) + bytes < bytes)
    return invalid("the region exceeds the address space");
  if (remote_write.valid() && !is_open(remote_write))
    return no_counter();
  Result<RegionId> made = inner().register_region(base, bytes, remote_write);
  if (!made.ok()) {
    if (remote_write.valid())
      sample(remote_write);
    return made;
  }
  const RegionId id = made.value();
  LANYARD_CHECK(id.valid(), "driver: a region without an id");
  const auto [at_id, is_new] =
      regions_.try_emplace(id.value, Region{static_cast<std::byte*>(base), bytes, remote_write, {}, 0});
  LANYARD_CHECK(is_new, "driver: two registered regions with one id");
  LANYARD_CHECK(regions_.size() <= caps().max_regions, "driver: more regions registered than caps() says");
  const Result<RemoteKey> key = inner().key(id);
  LANYARD_CHECK(key.ok(), "driver: a region without a key");
  LANYARD_CHECK(keys_ever_.insert(key.value().value).second, "driver: a key that was given before");
  at_id->second.key = key.value();
  if (remote_write.valid()) {
    ++at(remote_write).regions;
    at(remote_write).bounded = false;
  }
  return made;
}

// It may wait for a peer that copies into the region, so not under the lock of all other calls.
Status CheckedNic::deregister_region(RegionId region) {
  decltype(regions_)::node_type known;
  {
    Lock lock(lock_);
    known = regions_.extract(region.value);
  }
  if (known.empty())
    return no_region();
  Status status = inner().deregister_region(region);
  Lock lock(lock_);
  LANYARD_CHECK(!status.ok() || known.mapped().prepared == 0,
                "driver: deregistered a region that a prepared operation names");
  if (!status.ok())
    regions_.insert(std::move(known));
  else if (known.mapped().remote_write.valid())
    --at(known.mapped().remote_write).regions;
  return status;
}

Result<RemoteKey> CheckedNic::key(RegionId region) const {
  Lock lock(lock_);
  const auto known = regions_.find(region.value);
  if (known == regions_.end())
    return no_region();
  Result<RemoteKey> key = inner().key(region);
  LANYARD_CHECK(key.ok() && key.value() == known->second.key, "driver: a region's key has changed");
  return key;
}

// ---- Operations

// Tells DescriptorCheck what is open here.
struct CheckedNic::Open {
  bool has_counter(CounterId counter) const { return nic.is_open(counter); }
  bool has_peer(uint32_t peer) const { return peer < nic.peers_.size() && nic.peers_[peer]; }
  static bool misaligned(RemoteKey) { return false; }
  Extent extent(RegionId region) const {
    const auto known = nic.regions_.find(region.value);
    return known == nic.regions_.end() ? Extent{} : Extent{known->second.base, known->second.bytes, true};
  }
  uint64_t max_message_bytes() const { return nic.caps().max_message_bytes; }

  const CheckedNic& nic;
};

template <typename... Descriptor>
Status CheckedNic::judge(const Descriptor&... descriptor) const {
  return DescriptorCheck(Open{*this}).of(descriptor...);
}

Status CheckedNic::check_kind(const Op& op) const {
  if (op.kind > OpKind::kAtomic || op.atomic > AtomicKind::kReplace || op.level > CompletionLevel::kDelivery)
    return invalid("no such operation, atomic or completion level");
  return {};
}

// Posts a batch of valid operations by `post`.
template <typename Post>
Status CheckedNic::post_batch(size_t entries, Post post) {
  if (entries > caps().deferred_depth)
    return {Code::kExhausted, "the batch has more operations than the NIC has entries"};
  const uint32_t free_before = sample_free_entries();
  Status status = post();
  const uint32_t free_after = sample_free_entries();
  if (status.ok())
    return status;
  LANYARD_CHECK(free_after >= free_before, "driver: a refused post() took entries");
  LANYARD_CHECK(status.code() != Code::kAgain || free_before < entries,
                "driver: post() gave kAgain though enough entries were free");
  return status;
}

// Records what an operation that was `taken` may do to its counter, now or later. A refused one
// must have changed none of its counters.
void CheckedNic::account(const Op& op, CounterId trigger, bool taken) {
  if (!taken && trigger.valid())
    sample(trigger);
  if (!op.completion.valid())
    return;
  if (taken)
    at(op.completion).added = saturating_add(at(op.completion).added, 1);
  else
    sample(op.completion);
}

Status CheckedNic::post(std::span<const DeferredOp> ops) {
  Lock lock(lock_);
  for (const DeferredOp& op : ops) {
    LANYARD_RETURN_IF_ERROR(check_kind(op.op));
    LANYARD_RETURN_IF_ERROR(judge(op));
  }
  Status status = post_batch(ops.size(), [&] { return inner().post(ops); });
  for (const DeferredOp& op : ops)
    account(op.op, op.trigger, status.ok());
  return status;
}

// ---- Prepared operations

const Op* CheckedNic::find(PreparedId id) const {
  const auto known = prepared_.find(name_of(id));
  return known == prepared_.end() ? nullptr : &known->second;
}

// Adds `delta` to the number of prepared operations that name each of op's counters and regions.
void CheckedNic::name(const Op& op, int delta) {
  const auto count = static_cast<uint32_t>(delta);
  if (op.completion.valid())
    at(op.completion).prepared += count;
  regions_.at(op.local.region.value).prepared += count;
}

Result<PreparedId> CheckedNic::prepare(const Op& op) {
  Lock lock(lock_);
  LANYARD_RETURN_IF_ERROR(check_kind(op));
  LANYARD_RETURN_IF_ERROR(judge(op));
  Result<PreparedId> prepared = inner().prepare(op);
  if (!prepared.ok())
    return prepared;
  LANYARD_CHECK(prepared.value().valid(), "driver: a prepared operation without an id");
  LANYARD_CHECK(prepared_.try_emplace(name_of(prepared.value()), op).second,
                "driver: two prepared operations of one id");
  name(op, 1);
  return prepared;
}

Status CheckedNic::post_prepared(std::span<const Posting> postings) {
  Lock lock(lock_);
  for (const Posting& posting : postings)
    LANYARD_RETURN_IF_ERROR(judge(posting, find(posting.prepared)));
  Status status = post_batch(postings.size(), [&] { return inner().post_prepared(postings); });
  for (const Posting& posting : postings)
    account(*find(posting.prepared), posting.trigger, status.ok());
  return status;
}

Status CheckedNic::release(PreparedId prepared) {
  Lock lock(lock_);
  const Op* op = find(prepared);
  if (op == nullptr)
    return no_prepared();
  const Status status = inner().release(prepared);
  LANYARD_CHECK(status.ok(), "driver: a prepared operation cannot be released");
  name(*op, -1);
  prepared_.erase(name_of(prepared));
  return status;
}

Status CheckedNic::issue(const Op& op) {
  Lock lock(lock_);
  LANYARD_RETURN_IF_ERROR(check_kind(op));
  LANYARD_RETURN_IF_ERROR(judge(op));
  Status status = inner().issue(op);
  account(op, {}, status.ok());
  return status;
}

uint32_t CheckedNic::sample_free_entries() const {
  const uint32_t free = inner().free_entries();
  LANYARD_CHECK(free <= caps().deferred_depth, "driver: more entries free than exist");
  return free;
}

uint32_t CheckedNic::free_entries() const {
  Lock lock(lock_);
  return sample_free_entries();
}

Status CheckedNic::cancel(CounterId trigger) {
  Lock lock(lock_);
  if (!is_open(trigger))
    return no_counter();
  if (!caps().cancel)
    return {Code::kUnsupported, "caps() lists no cancel"};
  const uint32_t free_before = sample_free_entries();
  Status status = inner().cancel(trigger);
  LANYARD_CHECK(sample_free_entries() >= free_before, "driver: cancel() took entries");
  return status;
}

Status CheckedNic::flush() {
  Lock lock(lock_);
  if (!caps().flush)
    return {Code::kUnsupported, "caps() lists no flush"};
  return inner().flush();
}

// ---- Progress and failures

void CheckedNic::attend() {
  attending_.fetch_add(1);
  inner().attend();
}

void CheckedNic::leave() {
  LANYARD_CHECK(attending_.fetch_sub(1) > 0, "leave() without attend()");
  inner().leave();
}

std::optional<FailureRecord> CheckedNic::take_failure() {
  Lock lock(lock_);
  std::optional<FailureRecord> record = inner().take_failure();
  LANYARD_CHECK(!record || record->code != Code::kOk, "driver: the record of a failure says kOk");
  return record;
}

Usage CheckedNic::usage() const {
  Lock lock(lock_);
  const Usage usage = inner().usage();
  LANYARD_CHECK(usage.counters == counters_.size() && usage.regions == regions_.size(),
                "driver: usage() is not what is open");
  return usage;
}

uint64_t CheckedNic::failures() const {
  Lock lock(lock_);
  const uint64_t failures = inner().failures();
  LANYARD_CHECK(failures >= failures_seen_, "driver: failures() fell");
  failures_seen_ = failures;
  return failures;
}

}  // namespace lanyard::nic
