// CheckedNic: holds both sides of nic.h to the contract, for debug builds and tests.
//
// To the caller it returns the Status that nic.h documents, also where a driver need not notice: closed ids, bad
// descriptors (descriptor.h), kinds that caps() does not list. Such a call does not reach the driver.
//
// Of the driver it checks, by LANYARD_CHECK:
//  - counters stay within 48 and 7 bits, fall only where a reset or a kCounterSet allows it, and count no more than was
//    added, which is known while neither a doorbell nor a region leads to the counter;
//  - no more entries are free than exist; a refused post() takes none, and is not told kAgain where enough were free;
//  - a call that failed has changed none of the counters it names, as far as the two rules above can tell (N9);
//  - nothing is closed that a prepared operation names, and each can be released (N14);
//  - ids are unique among what is open, keys for ever (N8), and there is no more of either than caps() says;
//  - doorbells are of the kind asked for and complete; usage() is what is open; failures() does not fall.
//
// Cost: one lock around every call but progress(), wait_since(), attend() and leave(), and an entry for each key ever
// given.
#ifndef LANYARD_TRANSPORT_NIC_CHECKED_NIC_H_
#define LANYARD_TRANSPORT_NIC_CHECKED_NIC_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <unordered_set>

#include "transport/nic/forwarding_nic.h"

namespace lanyard::nic {

struct CheckedOptions {
  // False where others take from the same entries, counters and regions: their number is not checked then.
  bool sole_user = true;
};

// Threads: any. Objects must be opened through it: it knows no others.
class CheckedNic final : public ForwardingNic {
 public:
  explicit CheckedNic(Nic& inner, CheckedOptions options = {}) : ForwardingNic(inner), options_(options) {}
  explicit CheckedNic(std::unique_ptr<Nic> inner, CheckedOptions options = {})
      : ForwardingNic(std::move(inner)), options_(options) {}

  Status set_peers(std::span<const Address> peers, uint32_t self) override;
  Status add_peer(uint32_t peer, const Address& address) override;

  Result<CounterId> open_counter() override;
  Status close_counter(CounterId counter) override;
  Result<CounterValue> read(CounterId counter) override;
  Status add(CounterId counter, uint64_t value) override;
  Status add_error(CounterId counter, uint32_t value) override;
  Status reset(CounterId counter) override;
  Result<Doorbell> doorbell(CounterId counter, DoorbellKind kind) override;

  Result<RegionId> register_region(void* base, uint64_t bytes, CounterId remote_write = {}) override;
  Status deregister_region(RegionId region) override;
  Result<RemoteKey> key(RegionId region) const override;

  Status post(std::span<const DeferredOp> ops) override;
  Result<PreparedId> prepare(const Op& op) override;
  Status post_prepared(std::span<const Posting> postings) override;
  Status release(PreparedId prepared) override;
  Status issue(const Op& op) override;
  uint32_t free_entries() const override;
  Status cancel(CounterId trigger) override;
  Status flush() override;

  void attend() override;
  void leave() override;
  std::optional<FailureRecord> take_failure() override;
  Usage usage() const override;
  uint64_t failures() const override;

 private:
  struct Counter {
    CounterValue seen;       // by the latest read
    uint64_t falls_due = 0;  // resets and sets: each may show as one fall, at any time from then on
    uint64_t added = 0;      // the most that reached() can be, where bounded
    bool bounded = true;     // until a doorbell or a region leads to it
    uint32_t regions = 0;
    uint32_t prepared = 0;  // operations that name it
  };
  struct Region {
    std::byte* base = nullptr;
    uint64_t bytes = 0;
    CounterId remote_write;
    RemoteKey key;
    uint32_t prepared = 0;
  };
  using PreparedOps = std::unordered_map<uint64_t, Op>;  // by index and generation

  // All of these require lock_.
  bool is_open(CounterId counter) const { return counters_.contains(counter.value); }
  Counter& at(CounterId counter) { return counters_.at(counter.value); }
  template <typename Call>
  Status grow(CounterId counter, uint64_t value, uint64_t most, Call call);
  struct Open;
  template <typename... Descriptor>
  Status judge(const Descriptor&... descriptor) const;
  // Whether the NIC has such operations. `deferred`: it is to be posted.
  Status check_kind(const Op& op) const;
  Status check_deferrable(const Op& op) const;
  const Op* find(PreparedId id) const;
  void name(const Op& op, int delta);
  template <typename Post>
  Status post_batch(size_t entries, Post post);
  CounterValue sample(CounterId counter);
  void sample_named(const Op& op);
  void account(const Op& op);
  void account_for(const Op& op, CounterId trigger, bool taken);
  uint32_t sample_free_entries() const;

  const CheckedOptions options_;
  mutable std::mutex lock_;
  std::unordered_map<uint32_t, Counter> counters_;
  std::unordered_map<uint32_t, Region> regions_;
  std::unordered_set<uint64_t> keys_ever_;
  PreparedOps prepared_;
  std::vector<bool> peers_;  // by rank: whether its address is known
  mutable uint64_t failures_seen_ = 0;
  std::atomic<uint64_t> attending_{0};
};

}  // namespace lanyard::nic

#endif  // LANYARD_TRANSPORT_NIC_CHECKED_NIC_H_
