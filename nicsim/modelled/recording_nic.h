// RecordingNic: a card that keeps what is posted and does nothing, so that what the shipped protocol asks of a card can
// be looked at.
#ifndef LANYARD_NICSIM_MODELLED_RECORDING_NIC_H_
#define LANYARD_NICSIM_MODELLED_RECORDING_NIC_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <vector>

#include "transport/nic/nic.h"
#include "transport/nic/prepared_table.h"

namespace lanyard::modelled {

// One thread. Counters and regions are numbered from 0 in the order of their opening.
class RecordingNic final : public nic::Nic {
 public:
  struct Region {
    std::byte* base = nullptr;
    nic::CounterId counter;  // of what lands there
  };

  explicit RecordingNic(uint64_t max_message_bytes);

  // Since the last call.
  std::vector<nic::DeferredOp> take_posted();
  uint32_t counters() const { return static_cast<uint32_t>(bells_.size()); }
  const Region& region(nic::RegionId region) const { return regions_[region.value]; }
  // The address of memory of this process that a key names.
  std::byte* address_of(nic::RemoteKey key, uint64_t offset) const { return regions_[key.value].base + offset; }
  // Whose doorbell the word is.
  nic::CounterId counter_of_bell(const uint64_t* word) const;

  const nic::Caps& caps() const override { return caps_; }
  nic::Address address() const override { return {}; }
  Status set_peers(std::span<const nic::Address>, uint32_t) override { return {}; }
  Result<nic::CounterId> open_counter() override;
  Status close_counter(nic::CounterId) override { return {}; }
  Result<nic::CounterValue> read(nic::CounterId) override { return nic::CounterValue{}; }
  Status add(nic::CounterId, uint64_t) override { return {}; }
  Status add_error(nic::CounterId, uint32_t) override { return {}; }
  Status reset(nic::CounterId) override { return {}; }
  Result<nic::Doorbell> doorbell(nic::CounterId counter, nic::DoorbellKind kind) override;
  Result<nic::RegionId> register_region(void* base, uint64_t bytes, nic::CounterId remote_write) override;
  Status deregister_region(nic::RegionId) override { return {}; }
  Result<nic::RemoteKey> key(nic::RegionId region) const override { return nic::RemoteKey{region.value}; }
  Status post(std::span<const nic::DeferredOp> ops) override;
  Result<nic::PreparedId> prepare(const nic::Op& op) override { return prepared_.add(op); }
  Status post_prepared(std::span<const nic::Posting> postings) override;
  Status release(nic::PreparedId prepared) override;
  Status issue(const nic::Op&) override;
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
  std::deque<uint64_t> bells_;  // a counter's doorbell word each; in a deque, so that they stay where they are
  std::vector<Region> regions_;
  nic::PreparedTable<nic::Op> prepared_;
  std::vector<nic::DeferredOp> posted_;
};

}  // namespace lanyard::modelled

#endif  // LANYARD_NICSIM_MODELLED_RECORDING_NIC_H_
