#include "api/backends.h"

#include <cstdlib>

#include "nicsim/threaded/lagging_memory.h"
#include "nicsim/threaded/threaded_nic.h"
#include "nicsim/wire/shm_wire.h"
#include "nicsim/wire/tcp_wire.h"
#include "transport/cxi/ofi_nic.h"
#include "transport/nic/checked_nic.h"

namespace lanyard::api {

namespace {

Result<std::unique_ptr<nicsim::Wire>> open_wire(const Settings& settings) {
  return settings.wire == "tcp" ? nicsim::make_tcp_wire({.interface = settings.interface})
                                : nicsim::make_shm_wire({.use_cma = settings.cma});
}

Result<std::unique_ptr<nic::Nic>> open_simulated(const Settings& settings, DeviceMemory* memory) {
  LANYARD_ASSIGN_OR_RETURN(std::unique_ptr<nicsim::Wire> wire, open_wire(settings));
  nicsim::ModelLimits limits;
  limits.deferred_depth = settings.dwq_depth;
  limits.max_counters = settings.counters;
  limits.max_regions = settings.regions;
  limits.max_message_bytes = settings.max_message_bytes;
  return std::unique_ptr<nic::Nic>(
      std::make_unique<nicsim::ThreadedNic>(limits, std::move(wire), nicsim::ThreadedOptions{.memory = memory}));
}

Result<std::unique_ptr<nic::Nic>> open_ofi(const Settings& settings, DeviceMemory* memory) {
  Result<std::unique_ptr<ofi::OfiNic>> nic = ofi::OfiNic::open({.domain = settings.ofi_domain,
                                                                .device_memory = memory,
                                                                .deferred_depth = settings.ofi_dwq_depth,
                                                                .counts_both = settings.ofi_counts_both});
  if (nic.ok())
    return std::unique_ptr<nic::Nic>(std::move(nic.value()));
  const bool may_simulate = ::getenv("FI_PROVIDER_PATH") == nullptr;
  return Status(
      nic.status().code(),
      nic.status().message() +
          (may_simulate ? "; without Slingshot, set FI_PROVIDER_PATH to use the simulated NIC: see lanyard(7)" : ""));
}

}  // namespace

Result<std::unique_ptr<gpu::Backend>> open_gpus(const Settings& settings) {
  using gpu::Sharing;
  const Sharing sharing = settings.gpu_shared == "yes"  ? Sharing::kShared
                          : settings.gpu_shared == "no" ? Sharing::kAlone
                                                        : Sharing::kAsk;
  LANYARD_ASSIGN_OR_RETURN(std::unique_ptr<gpu::Driver> driver, gpu::open_driver());
  return gpu::Backend::make(std::move(driver), {.sharing = sharing,
                                                .copy_linger = settings.gpu_linger,
                                                .only_met_waits = settings.gpu_blocking,
                                                .foreign_writes = settings.nic != "sim"});
}

Result<std::unique_ptr<DeviceMemory>> faulty_memory(const Settings& settings, DeviceMemory& memory) {
  constexpr std::chrono::microseconds kLag{500};
  if (settings.fault != "stale-device-data")
    return std::unique_ptr<DeviceMemory>();
  return nicsim::make_lagging_memory(memory, kLag);
}

Result<std::unique_ptr<nic::Nic>> open_nic(const Settings& settings, DeviceMemory* memory) {
  Result<std::unique_ptr<nic::Nic>> nic =
      settings.nic == "sim" ? open_simulated(settings, memory) : open_ofi(settings, memory);
  if (nic.ok() && settings.checked)
    return std::unique_ptr<nic::Nic>(std::make_unique<nic::CheckedNic>(std::move(nic.value())));
  return nic;
}

}  // namespace lanyard::api
