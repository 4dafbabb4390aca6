// StepNic: one NIC of a World, the simulator's model as a nic::Nic. Calls act on the model at once.
// Only posted entries and rings reach it later, each by a step of its own, as on a real device.
#ifndef LANYARD_NICSIM_DETERMINISTIC_STEP_NIC_H_
#define LANYARD_NICSIM_DETERMINISTIC_STEP_NIC_H_

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "gpu/stream.h"
#include "nicsim/deterministic/oracles/shadow_nic.h"
#include "nicsim/model/nic_model.h"
#include "transport/nic/nic.h"

namespace lanyard::nicsim {

class World;

class StepNic final : public nic::Nic {
 public:
  // `world` and `shadow` must outlive it. Calls report changes of counters and entries to `shadow`.
  StepNic(World& world, ShadowNic& shadow, uint32_t rank, const ModelLimits& limits);

  const nic::Caps& caps() const override { return caps_; }
  nic::Address address() const override { return {{std::byte{'W'}}}; }
  Status set_peers(std::span<const nic::Address>, uint32_t) override {
    return {Code::kInvalidState, "a world's NICs know each other"};
  }
  Status add_peer(uint32_t, const nic::Address&) override { return {}; }

  Result<nic::CounterId> open_counter() override;
  Status close_counter(nic::CounterId counter) override;
  Result<nic::CounterValue> read(nic::CounterId counter) override;
  Status add(nic::CounterId counter, uint64_t value) override;
  Status add_error(nic::CounterId counter, uint32_t value) override;
  Status reset(nic::CounterId counter) override;
  Result<nic::Doorbell> doorbell(nic::CounterId counter, nic::DoorbellKind kind) override;

  Result<nic::RegionId> register_region(void* base, uint64_t bytes, nic::CounterId remote_write) override {
    return open_region(base, bytes, remote_write, {});
  }
  // As register_region(), with options.
  Result<nic::RegionId> open_region(void* base, uint64_t bytes, nic::CounterId remote_write,
                                    const RegionOptions& options);
  Status deregister_region(nic::RegionId region) override;
  Result<nic::RemoteKey> key(nic::RegionId region) const override { return model_.key(region); }

  Status post(std::span<const nic::DeferredOp> ops) override;
  Result<nic::PreparedId> prepare(const nic::Op& op) override;
  Status post_prepared(std::span<const nic::Posting> postings) override;
  Status release(nic::PreparedId prepared) override { return model_.release(prepared); }
  Status issue(const nic::Op& op) override;
  uint32_t free_entries() const override;
  Status flush() override {
    model_.flush();
    return {};
  }

  // The world's steps make all progress, and no thread sleeps.
  size_t progress() override { return 0; }
  uint64_t activity() const override { return 0; }
  void wait_since(uint64_t, Nanoseconds) override {}
  std::optional<nic::FailureRecord> take_failure() override { return model_.take_failure(); }
  nic::Usage usage() const override { return {.counters = model_.open_counters(), .regions = model_.open_regions()}; }
  uint64_t failures() const override { return model_.failures(); }
  Status cancel(nic::CounterId trigger) override;
  uint64_t lost_peers() const override { return lost_.size(); }
  bool is_lost(uint32_t peer) const override { return std::find(lost_.begin(), lost_.end(), peer) != lost_.end(); }

  // ---- For the world's steps
  NicModel& model() { return model_; }
  const NicModel& model() const { return model_; }
  // The number of posted entries that have not reached the model.
  size_t posting() const { return posting_.size() - first_posting_; }
  const nic::DeferredOp& next_posting() const { return posting_[first_posting_]; }
  std::span<const nic::DeferredOp> postings() const { return std::span(posting_).subspan(first_posting_); }
  // True if there is room for the oldest of them.
  bool can_arrive() const { return posting() > 0 && model_.free_entries() > stolen_; }
  // Gives the oldest of them to the model. Requires can_arrive().
  void arrive();
  // The entry that has been ready longest among those of the counter: the next to fire (N2).
  std::optional<uint32_t> first_to_fire(nic::CounterId counter) const;
  uint32_t rings_under_way(uint32_t counter) const { return rings_[counter]; }
  // Puts a ring in flight.
  void put_under_way(uint32_t counter, uint64_t value);
  // Drops the counter's rings in flight, because it will be closed.
  void drop_rings(nic::CounterId counter);
  // Runs a stream operation that rings a doorbell of this NIC.
  void take_ring(const gpu::StreamOp& op);
  // The counter that the operation rings.
  nic::CounterId rung_by(const gpu::StreamOp& op) const;
  // Lands this many of the counter's rings in flight. Each adds ring_value().
  void rings_land(uint32_t counter, uint32_t rings);
  uint32_t ring_value(uint32_t counter) const { return ring_values_[counter]; }
  void set_ring_value(nic::CounterId counter, uint64_t value) {
    ring_values_[counter.value] = static_cast<uint32_t>(value);
  }
  // The value that a stale read of the counter returns.
  const nic::CounterValue& last_read(uint32_t counter) const { return last_read_[counter]; }
  // With WorldOptions::stolen_entries: another process on the node may take an entry or return one.
  void others_want_entries();
  // The number of entries that other processes hold.
  uint32_t stolen() const { return stolen_; }
  bool frozen(uint32_t counter) const { return frozen_[counter]; }
  // Other processes return all entries, and no counter is frozen any more.
  void end_faults();
  // The NIC finds out that this peer has ended (N12).
  void lose(uint32_t peer);
  // While true, no counter or region is refused as scarce.
  void have_plenty(bool plenty) { plenty_ = plenty; }
  // Starts the issued operation that waits for room in flight, if there is room.
  void start_held();
  bool holds() const { return held_.has_value(); }
  // True if a read has returned an old value since the last call. Then poll again.
  bool gave_stale_value() { return std::exchange(gave_stale_value_, false); }

 private:
  bool is_scarce();
  Status check(const nic::Op& op) const;
  Status take_in(std::span<const nic::DeferredOp> ops);
  template <typename Names>
  bool is_posting(Names names) const {
    return std::any_of(postings().begin(), postings().end(), names);
  }

  World& world_;
  ShadowNic& shadow_;
  const uint32_t rank_;
  nic::Caps caps_;
  NicModel model_;
  std::vector<uint32_t> rings_;               // in flight, by counter
  std::vector<uint32_t> ring_values_;         // by counter
  std::vector<uint64_t> bell_words_;          // by counter
  std::vector<nic::CounterValue> last_read_;  // by counter
  std::vector<bool> frozen_;                  // by counter: reads repeat the last value
  uint32_t stolen_ = 0;
  std::vector<uint32_t> lost_;  // peers
  std::vector<nic::DeferredOp> posting_;
  size_t first_posting_ = 0;
  std::vector<nic::DeferredOp> posted_;  // scratch
  std::optional<nic::Op> held_;          // the model holds it too
  bool gave_stale_value_ = false;
  bool plenty_ = false;
};

}  // namespace lanyard::nicsim

#endif  // LANYARD_NICSIM_DETERMINISTIC_STEP_NIC_H_
