// StepFabric: a fake keeps the contract too, or what is tested on it means nothing.
#include "tests/core_step_fabric.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <memory>
#include <stop_token>
#include <thread>

#include "tests/nic_contract.h"

namespace lanyard::nic_contract {
namespace {

nicsim::ModelLimits limits_for(const FabricOptions& options) {
  return {.deferred_depth = options.deferred_depth,
          .max_counters = options.max_counters,
          .max_regions = options.max_regions,
          .max_message_bytes = options.max_message_bytes};
}

// With a thread that takes steps, since a device works while nobody calls.
struct RunningStepFabric final : NicFabric {
  explicit RunningStepFabric(const FabricOptions& options)
      : fabric(options.nics, limits_for(options), options.connected), device([this](std::stop_token stop) {
          while (!stop.stop_requested())
            if (fabric.quiesce() == 0)
              sched_yield();
        }) {}
  size_t size() override { return fabric.size(); }
  Nic& nic(size_t rank) override { return fabric.nic(rank); }

  StepFabric fabric;
  std::jthread device;
};

INSTANTIATE_TEST_SUITE_P(Step, NicContract,
                         ::testing::Values(NicMaker{"Step",
                                                    [](const FabricOptions& options) {
                                                      return std::make_unique<RunningStepFabric>(options);
                                                    }}),
                         maker_name);

}  // namespace
}  // namespace lanyard::nic_contract
