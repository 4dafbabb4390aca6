// StepNic: one NIC of a World: the simulator's model behind the interface that the core uses. Calls take effect on the
// model at once, but for two that a real device is slower at: an entry that was posted reaches the model by a step of
// its own, and so does a ring.
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
  // `world` and `shadow` outlive it. The shadow learns what calls do to counters and entries.
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
  // The same, of a region that differs.
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

  // A world's NICs do nothing by themselves and nobody sleeps.
  size_t progress() override { return 0; }
  uint64_t activity() const override { return 0; }
  void wait_since(uint64_t, Nanoseconds) override {}
  std::optional<nic::FailureRecord> take_failure() override { return model_.take_failure(); }
  nic::Usage usage() const override { return {.counters = model_.open_counters(), .regions = model_.open_regions()}; }
  uint64_t failures() const override { return model_.failures(); }
  Status cancel(nic::CounterId trigger) override;
  uint64_t lost_peers() const override { return lost_.size(); }
  bool is_lost(uint32_t peer) const override { return std::find(lost_.begin(), lost_.end(), peer) != lost_.end(); }

  // ---- For the world's steps.
  NicModel& model() { return model_; }
  const NicModel& model() const { return model_; }
  // Entries on their way from the host into the model.
  size_t posting() const { return posting_.size() - first_posting_; }
  const nic::DeferredOp& next_posting() const { return posting_[first_posting_]; }
  std::span<const nic::DeferredOp> postings() const { return std::span(posting_).subspan(first_posting_); }
  // Whether the oldest of them finds a free entry.
  bool can_arrive() const { return posting() > 0 && model_.free_entries() > stolen_; }
  // The oldest of them arrives. Requires can_arrive().
  void arrive();
  // Of the ready entries of that counter the oldest, which may fire (N2).
  std::optional<uint32_t> first_to_fire(nic::CounterId counter) const;
  uint32_t rings_under_way(uint32_t counter) const { return rings_[counter]; }
  // A ring of that counter sets out.
  void put_under_way(uint32_t counter, uint64_t value);
  // Those under way never land: their counter is closed.
  void drop_rings(nic::CounterId counter);
  // The stream has come to an operation that rings one of this NIC's doorbells.
  void take_ring(const gpu::StreamOp& op);
  // The counter that it rings.
  nic::CounterId rung_by(const gpu::StreamOp& op) const;
  // So many of its rings under way land; what a ring adds.
  void rings_land(uint32_t counter, uint32_t rings);
  uint32_t ring_value(uint32_t counter) const { return ring_values_[counter]; }
  void set_ring_value(nic::CounterId counter, uint64_t value) {
    ring_values_[counter.value] = static_cast<uint32_t>(value);
  }
  // What a stale read of it would say.
  const nic::CounterValue& last_read(uint32_t counter) const { return last_read_[counter]; }
  // Somewhere else on the node a process takes an entry or gives one back, where the world has that fault.
  void others_want_entries();
  // Entries that other processes hold.
  uint32_t stolen() const { return stolen_; }
  bool frozen(uint32_t counter) const { return frozen_[counter]; }
  // Other processes give back what they hold, and counters are read as they are.
  void end_faults();
  // It has found out that this peer has ended.
  void lose(uint32_t peer);
  // Whether counters and regions are there for whoever asks.
  void have_plenty(bool plenty) { plenty_ = plenty; }
  // What was issued while too much was under way goes once there is room.
  void start_held();
  bool holds() const { return held_.has_value(); }
  // Whether a counter was read as it is no more since this was asked last: who waits for it may look again.
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
  std::vector<uint32_t> rings_;               // under way, by counter
  std::vector<uint32_t> ring_values_;         // by counter
  std::vector<uint64_t> bell_words_;          // by counter
  std::vector<nic::CounterValue> last_read_;  // by counter
  std::vector<bool> frozen_;                  // by counter: reads say what the last one said
  uint32_t stolen_ = 0;
  std::vector<uint32_t> lost_;  // peers
  std::vector<nic::DeferredOp> posting_;
  size_t first_posting_ = 0;
  std::vector<nic::DeferredOp> posted_;  // scratch
  std::optional<nic::Op> held_;          // by the model, too
  bool gave_stale_value_ = false;
  bool plenty_ = false;
};

}  // namespace lanyard::nicsim

#endif  // LANYARD_NICSIM_DETERMINISTIC_STEP_NIC_H_
