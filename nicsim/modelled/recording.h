// RecordingNic and RecordingStream record what the shipped protocol posts and
// enqueues, and do nothing else.
#ifndef LANYARD_NICSIM_MODELLED_RECORDING_H_
#define LANYARD_NICSIM_MODELLED_RECORDING_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "gpu/stream.h"
#include "transport/base/check.h"
#include "transport/nic/nic.h"
#include "transport/nic/prepared_table.h"

namespace lanyard::modelled {

// One thread only. Counters and regions get the numbers 0, 1, ... in the order of opening.
class RecordingNic final : public nic::Nic {
 public:
  struct Region {
    std::byte* base = nullptr;
    nic::CounterId counter;  // counts messages that land there
  };

  explicit RecordingNic(uint64_t max_message_bytes) {
    caps_.name = "recording";
    caps_.deferred_depth = UINT32_MAX;
    caps_.max_counters = UINT32_MAX;
    caps_.max_regions = UINT32_MAX;
    caps_.max_message_bytes = max_message_bytes;
    caps_.doorbell_mmio_add = true;  // as on Slingshot
    caps_.cancel = true;             // so triggers count from 0; Slingshot cannot cancel
    caps_.target_count_means_visible = true;
    caps_.counters_count_both = true;
  }

  // Returns the operations posted since the last call.
  std::vector<nic::DeferredOp> take_posted() { return std::exchange(posted_, {}); }
  uint32_t counters() const { return static_cast<uint32_t>(bells_.size()); }
  const Region& region(nic::RegionId region) const { return regions_[region.value]; }
  // The address in this process that the key and offset name.
  std::byte* address_of(nic::RemoteKey key, uint64_t offset) const { return regions_[key.value].base + offset; }
  // The counter that the doorbell word belongs to.
  nic::CounterId counter_of_bell(const uint64_t* word) const {
    for (uint32_t counter = 0; counter < counters(); ++counter)
      if (&bells_[counter] == word)
        return {counter};
    LANYARD_CHECK(false, "a ring must go to a doorbell of this NIC");
  }

  const nic::Caps& caps() const override { return caps_; }
  nic::Address address() const override { return {}; }
  Status set_peers(std::span<const nic::Address>, uint32_t) override { return {}; }
  Status add_peer(uint32_t, const nic::Address&) override { return {}; }
  Result<nic::CounterId> open_counter() override {
    bells_.push_back(0);
    return nic::CounterId{counters() - 1};
  }
  Status close_counter(nic::CounterId) override { return {}; }
  Result<nic::CounterValue> read(nic::CounterId) override { return nic::CounterValue{}; }
  Status add(nic::CounterId, uint64_t) override { return {}; }
  Status add_error(nic::CounterId, uint32_t) override { return {}; }
  Status reset(nic::CounterId) override { return {}; }
  Result<nic::Doorbell> doorbell(nic::CounterId counter, nic::DoorbellKind kind) override {
    LANYARD_CHECK(kind == nic::DoorbellKind::kMmioAdd, "the recording NIC has only MMIO doorbells");
    return nic::Doorbell{.kind = kind, .word = &bells_[counter.value], .counter = counter.value};
  }
  Result<nic::RegionId> register_region(void* base, uint64_t, nic::CounterId remote_write) override {
    regions_.push_back({static_cast<std::byte*>(base), remote_write});
    return nic::RegionId{static_cast<uint32_t>(regions_.size() - 1)};
  }
  Status deregister_region(nic::RegionId) override { return {}; }
  Result<nic::RemoteKey> key(nic::RegionId region) const override { return nic::RemoteKey{region.value}; }
  Status post(std::span<const nic::DeferredOp> ops) override {
    posted_.insert(posted_.end(), ops.begin(), ops.end());
    return {};
  }
  Result<nic::PreparedId> prepare(const nic::Op& op) override { return prepared_.add(op); }
  Status post_prepared(std::span<const nic::Posting> postings) override {
    for (const nic::Posting& posting : postings) {
      const nic::Op* op = prepared_.find(posting.prepared);
      if (op == nullptr)
        return {Code::kNotFound, "no such operation is prepared"};
      posted_.push_back(nic::deferred(*op, posting));
    }
    return {};
  }
  Status release(nic::PreparedId prepared) override {
    if (prepared_.find(prepared) == nullptr)
      return {Code::kNotFound, "no such operation is prepared"};
    prepared_.remove(prepared);
    return {};
  }
  Status issue(const nic::Op&) override { return {Code::kUnsupported, "the recording NIC runs no operations"}; }
  uint32_t free_entries() const override { return caps_.deferred_depth; }
  Status flush() override { return {}; }
  size_t progress() override { return 0; }
  uint64_t activity() const override { return 0; }
  void wait_since(uint64_t, Nanoseconds) override {}
  std::optional<nic::FailureRecord> take_failure() override { return std::nullopt; }
  nic::Usage usage() const override { return {}; }
  uint64_t failures() const override { return 0; }

 private:
  nic::Caps caps_;
  std::deque<uint64_t> bells_;  // one word a counter; a deque keeps addresses valid
  std::vector<Region> regions_;
  nic::PreparedTable<nic::Op> prepared_;
  std::vector<nic::DeferredOp> posted_;
};

class RecordingStream final : public gpu::Stream {
 public:
  // Returns the operations enqueued since the last call.
  std::vector<gpu::StreamOp> take_enqueued() { return std::exchange(enqueued_, {}); }

  const char* kind() const override { return "recording"; }
  bool can_call() const override { return false; }
  Status enqueue(std::span<const gpu::StreamOp> ops) override {
    enqueued_.insert(enqueued_.end(), ops.begin(), ops.end());
    return {};
  }
  bool poll() override { return true; }

 private:
  std::vector<gpu::StreamOp> enqueued_;
};

}  // namespace lanyard::modelled

#endif  // LANYARD_NICSIM_MODELLED_RECORDING_H_
