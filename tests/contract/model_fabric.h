// ModelFabric: the simulator's bare model as the NICs of one job, without threads. Nothing happens
// except in single steps, and between them nothing changes.
//
// A test may take all steps, except for packets that it holds back, and check what must or must not
// have happened. Or each caller of progress() takes some steps, of any NIC, in an order that only
// the seed decides. So firing an entry, reading a payload, placing bytes, counting and answering
// come in every order that N1-N9 allow.
//
// To test the protocol in random orders use nicsim::World, which runs and checks programs. This
// class is for the NIC alone, and for calls into the core in states that no program reaches.
#ifndef LANYARD_TESTS_MODEL_FABRIC_H_
#define LANYARD_TESTS_MODEL_FABRIC_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <span>
#include <vector>

#include "nicsim/model/nic_model.h"
#include "transport/nic/nic.h"

namespace lanyard {

class ModelFabric;

// One NIC of a ModelFabric, which owns it. Threads: any; one lock guards the whole fabric.
class ModelNic final : public nic::Nic {
 public:
  ModelNic(ModelFabric& fabric, uint32_t rank, const nicsim::ModelLimits& limits);

  const nic::Caps& caps() const override { return caps_; }
  nic::Address address() const override { return {{std::byte{'M'}, std::byte(rank_)}}; }
  Status set_peers(std::span<const nic::Address> peers, uint32_t self) override;
  Status add_peer(uint32_t peer, const nic::Address& address) override;

  Result<nic::CounterId> open_counter() override;
  Status close_counter(nic::CounterId counter) override;
  Result<nic::CounterValue> read(nic::CounterId counter) override;
  Status add(nic::CounterId counter, uint64_t value) override;
  Status add_error(nic::CounterId counter, uint32_t value) override;
  Status reset(nic::CounterId counter) override;
  Result<nic::Doorbell> doorbell(nic::CounterId counter, nic::DoorbellKind kind) override;

  Result<nic::RegionId> register_region(void* base, uint64_t bytes, nic::CounterId remote_write = {}) override;
  Status deregister_region(nic::RegionId region) override;
  Result<nic::RemoteKey> key(nic::RegionId region) const override;

  Status post(std::span<const nic::DeferredOp> ops) override;
  Result<nic::PreparedId> prepare(const nic::Op& op) override;
  Status post_prepared(std::span<const nic::Posting> postings) override;
  Status release(nic::PreparedId prepared) override;
  Status issue(const nic::Op& op) override;
  uint32_t free_entries() const override;
  Status cancel(nic::CounterId trigger) override;
  Status flush() override;

  size_t progress() override;
  uint64_t activity() const override { return activity_.load(); }
  void wait_since(uint64_t seen, Nanoseconds timeout) override;
  std::optional<nic::FailureRecord> take_failure() override;
  nic::Usage usage() const override;
  uint64_t failures() const override;

  // For tests that need a NIC with other abilities.
  nic::Caps& mutable_caps() { return caps_; }

 private:
  friend class ModelFabric;

  Status check(const nic::Op& op) const;
  Status check_room(size_t entries) const;
  // How much a counter's doorbell word has grown since it was last read.
  uint64_t unseen(uint32_t counter) const { return words_[counter].load() - seen_[counter]; }
  uint64_t look(uint32_t counter) {
    const uint64_t grown = unseen(counter);
    seen_[counter] += grown;
    return grown;
  }

  ModelFabric& fabric_;
  const uint32_t rank_;
  nic::Caps caps_;
  nicsim::NicModel model_;
  const std::unique_ptr<std::atomic<uint64_t>[]> words_;  // doorbell words, one per counter, never reset
  std::vector<uint64_t> seen_;
  std::vector<uint32_t> armed_;  // counters whose word was handed out
  std::vector<bool> peers_;      // by rank: true if the address is known
  std::atomic<uint64_t> activity_{0};
};

class ModelFabric {
 public:
  // A packet between two NICs, or from a NIC to itself.
  struct Transit {
    enum class Stage : uint8_t { kStart, kRead, kPlaced };  // kPlaced: the bytes are in memory but not counted
    uint32_t from = 0;
    uint32_t to = 0;
    nicsim::Packet packet;
    const std::byte* payload = nullptr;
    Stage stage = Stage::kStart;
    std::vector<std::byte> bytes = {};  // kRead: the payload as it was read
  };

  // If not `connected`, the test calls set_peers().
  explicit ModelFabric(size_t nics, const nicsim::ModelLimits& limits = {}, bool connected = true, uint64_t seed = 0);

  size_t size() const { return nics_.size(); }
  bool is_address(const nic::Address& address) const {
    return address.bytes.size() == 2 && address.bytes[0] == std::byte{'M'} &&
           static_cast<size_t>(address.bytes[1]) < size();
  }
  ModelNic& nic(size_t rank) { return *nics_[rank]; }

  // A packet stays where it is while this returns true for it.
  std::function<bool(const Transit&)> held;

  // Takes steps, in a fixed order, until none is left. Returns their number.
  size_t quiesce();
  // Takes one to four steps that the seed draws, fewer if there are fewer. Returns their number.
  size_t take_some();
  size_t under_way() const { return transits_.size(); }

 private:
  friend class ModelNic;
  struct Step {
    enum class Kind { kBell, kFire, kCarry } kind;
    uint32_t rank = 0;   // unused by kCarry
    uint32_t which = 0;  // counter, entry, or index in transits_
  };

  void collect_steps();
  void collect_steps_of(const ModelNic& nic);
  void take(const Step& step);
  void carry(uint32_t place);
  void place_bytes(uint32_t place);
  void count(uint32_t place);
  void answer(uint32_t place, Code code);
  void launch(uint32_t from, const std::optional<nicsim::Launch>& launch);

  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<ModelNic>> nics_;
  std::vector<Transit> transits_;  // oldest first
  std::vector<Step> steps_;        // scratch space
  std::mt19937_64 random_;
};

}  // namespace lanyard

#endif  // LANYARD_TESTS_MODEL_FABRIC_H_
