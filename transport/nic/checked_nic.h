// CheckedNic: checks that the caller and the driver keep the contract of nic.h. For debug
// builds and tests.
//
// The caller gets the Status that nic.h documents, even where a driver need not notice the error:
// closed ids, bad descriptors (driver.h), kinds that caps() does not list. Such a call does not
// reach the driver.
//
// It checks the driver by LANYARD_CHECK:
//  - Counters stay within 48 and 7 bits and fall only after a reset. While neither a doorbell nor a
//    region adds to a counter, it counts no more than was added.
//  - No more entries are free than exist. A refused post() takes none, and kAgain means that too
//    few were free.
//  - A failed call has not changed the counters it names, as far as the two rules above tell (N9).
//  - No object that a prepared operation names is closed. Each of these can be released (N14).
//  - Ids are unique among open objects, keys forever (N8). No more are open than caps() allows.
//  - Doorbells are complete and of the requested kind. usage() is right. failures() never falls.
//
// Cost: an entry for every key ever made, and one lock in every overridden call except attend() and
// leave(). deregister_region() does not hold it while the driver waits.
#ifndef LANYARD_TRANSPORT_NIC_CHECKED_NIC_H_
#define LANYARD_TRANSPORT_NIC_CHECKED_NIC_H_

#include <atomic>
#include <cstdint>
#include <mutex>
#include <unordered_map>
#include <unordered_set>

#include "transport/nic/nic.h"

namespace lanyard::nic {

// Threads: any. It knows only objects that were opened through it, and nobody else may use the NIC.
class CheckedNic final : public ForwardingNic {
 public:
  using ForwardingNic::ForwardingNic;

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
    CounterValue seen;       // at the latest read
    uint64_t falls_due = 0;  // resets: each may cause one fall
    uint64_t added = 0;      // upper limit of reached(), if bounded
    bool bounded = true;     // until a doorbell or a region adds to it
    uint32_t regions = 0;
    uint32_t prepared = 0;  // prepared operations that name it
  };
  struct Region {
    std::byte* base = nullptr;
    uint64_t bytes = 0;
    CounterId remote_write;
    RemoteKey key;
    uint32_t prepared = 0;
  };

  // These require lock_.
  bool is_open(CounterId counter) const { return counters_.contains(counter.value); }
  Counter& at(CounterId counter) { return counters_.at(counter.value); }
  template <typename Call>
  Status grow(CounterId counter, uint64_t value, uint64_t most, Call call);
  struct Open;
  template <typename... Descriptor>
  Status judge(const Descriptor&... descriptor) const;
  // kInvalidArgument if its kind, atomic or level does not exist.
  Status check_kind(const Op& op) const;
  const Op* find(PreparedId id) const;
  void name(const Op& op, int delta);
  template <typename Post>
  Status post_batch(size_t entries, Post post);
  CounterValue sample(CounterId counter);
  void account(const Op& op, CounterId trigger, bool taken);
  uint32_t sample_free_entries() const;

  mutable std::mutex lock_;
  std::unordered_map<uint32_t, Counter> counters_;
  std::unordered_map<uint32_t, Region> regions_;
  std::unordered_set<uint64_t> keys_ever_;
  std::unordered_map<uint64_t, Op> prepared_;  // by index and generation
  std::vector<bool> peers_;                    // by rank: true if the address is known
  mutable uint64_t failures_seen_ = 0;
  std::atomic<uint64_t> attending_{0};
};

}  // namespace lanyard::nic

#endif  // LANYARD_TRANSPORT_NIC_CHECKED_NIC_H_
