// DeterministicFabric: the simulator's model under the NIC contract, without a device's threads: whoever calls
// progress() takes some of the steps that the model allows, of whichever NIC, in an order that the seed alone decides.
// So an entry that fires, a payload that is read, bytes that land, their count and the answer come in every order that
// N1-N9 leave open.
#ifndef LANYARD_TESTS_DETERMINISTIC_FABRIC_H_
#define LANYARD_TESTS_DETERMINISTIC_FABRIC_H_

#include <sched.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tests/core_step_fabric.h"
#include "tests/nic_contract_fixture.h"
#include "transport/base/check.h"
#include "transport/nic/checked_nic.h"
#include "transport/nic/forwarding_nic.h"

namespace lanyard::nic_contract {

// Threads: any, one after the other. A row that starts threads is therefore no replay of itself, others are.
class DeterministicFabric final : public NicFabric {
 public:
  DeterministicFabric(const FabricOptions& wish, uint64_t seed, bool checked)
      : steps_(wish.nics,
               {.deferred_depth = wish.deferred_depth,
                .max_counters = wish.max_counters,
                .max_regions = wish.max_regions,
                .max_message_bytes = wish.max_message_bytes},
               false),
        random_(seed) {
    steps_.stages = true;
    for (size_t rank = 0; rank < wish.nics; ++rank) {
      std::unique_ptr<Nic> nic = std::make_unique<OneNic>(*this, rank);
      if (checked)
        nic = std::make_unique<nic::CheckedNic>(std::move(nic));
      nics_.push_back(std::move(nic));
    }
    std::vector<nic::Address> addresses;
    for (const std::unique_ptr<Nic>& nic : nics_)
      addresses.push_back(nic->address());
    for (uint32_t rank = 0; wish.connected && rank < nics_.size(); ++rank)
      LANYARD_CHECK(nics_[rank]->set_peers(addresses, rank).ok(), "they are its own NICs");
  }

  size_t size() override { return nics_.size(); }
  Nic& nic(size_t rank) override { return *nics_[rank]; }
  bool works_alone() const override { return false; }

 private:
  class OneNic final : public nic::ForwardingNic {
   public:
    OneNic(DeterministicFabric& fabric, size_t rank) : ForwardingNic(fabric.steps_.nic(rank)), fabric_(fabric) {}
    size_t progress() override { return fabric_.take_some(); }
    void wait_since(uint64_t seen, Nanoseconds) override {
      if (activity() == seen && fabric_.take_some() == 0)
        sched_yield();
    }

   private:
    DeterministicFabric& fabric_;
  };

  // One to four steps, as long as there are any.
  size_t take_some() {
    const std::lock_guard lock(mutex_);
    const size_t most = 1 + draw(4);
    size_t taken = 0;
    while (taken < most && steps_.step([&](size_t enabled) { return draw(enabled); }))
      ++taken;
    return taken;
  }
  // The same on every machine, which the standard's distributions are not. A bias of 2^-50 does no harm.
  size_t draw(size_t n) { return static_cast<size_t>(random_() % n); }

  StepFabric steps_;
  std::mutex mutex_;
  std::mt19937_64 random_;  // guarded by mutex_
  std::vector<std::unique_ptr<Nic>> nics_;
};

inline NicMaker over_steps(std::string name, uint64_t seed, bool checked) {
  return {std::move(name), [seed, checked](const FabricOptions& wish) {
            return std::make_unique<DeterministicFabric>(wish, seed, checked);
          }};
}

}  // namespace lanyard::nic_contract

#endif  // LANYARD_TESTS_DETERMINISTIC_FABRIC_H_
