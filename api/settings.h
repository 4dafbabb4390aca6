// Settings: the values of the environment variables (see lanyard(7)), read once at MPI_Init.
#ifndef LANYARD_API_SETTINGS_H_
#define LANYARD_API_SETTINGS_H_

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "transport/base/status.h"
#include "transport/core/transfer.h"

namespace lanyard::api {

struct Settings {
  std::string nic = "sim";                         // LANYARD_NIC: sim, cxi
  bool checked = false;                            // LANYARD_CHECK: on, off
  bool overflow = true;                            // LANYARD_OVERFLOW: on, off
  std::string fault;                               // LANYARD_SIM_FAULT: stale-device-data
  bool gpu_blocking = false;                       // LANYARD_GPU_BLOCKING: on, off
  std::string gpu_shared = "auto";                 // LANYARD_GPU_SHARED: auto, yes, no
  std::string peer = "off";                        // LANYARD_PEER: off, auto
  std::chrono::microseconds gpu_linger{200};       // LANYARD_GPU_LINGER_US: 0 to 50000
  std::optional<core::Strategy> strategy;          // LANYARD_STRATEGY: strategy_name(); auto: empty
  std::chrono::milliseconds deadline{0};           // LANYARD_DEADLINE_S: such as 2.5; 0: none
  std::chrono::milliseconds warn_after{10'000};    // LANYARD_WARN_S: as above
  std::string wire = "shm";                        // LANYARD_SIM_WIRE: shm, tcp
  uint32_t dwq_depth = 504;                        // LANYARD_SIM_DWQ_DEPTH: 1 to 65536
  uint32_t counters = 4096;                        // LANYARD_SIM_COUNTERS: 1 to 1000000
  uint32_t regions = 16384;                        // LANYARD_SIM_REGIONS: 1 to 1000000
  uint64_t max_message_bytes = uint64_t{1} << 30;  // LANYARD_SIM_MAX_MESSAGE: bytes, at least 1
  bool cma = true;                                 // LANYARD_SIM_CMA: on, off
  std::string ofi_domain;                          // LANYARD_OFI_DOMAIN: a card; empty: choose
  bool ofi_counts_both = true;                     // LANYARD_OFI_COUNTS_BOTH: on, off
  uint32_t ofi_dwq_depth = 0;                      // LANYARD_OFI_DWQ_DEPTH: 1 to 65536; 0: all
  std::string interface;  // LANYARD_SIM_INTERFACE: IP address or interface for tcp; empty: choose

  // On a wrong value kInvalidArgument: the message names the variable, its value and the allowed
  // values. The same for an unknown variable LANYARD_*; the message suggests the nearest known one.
  static Result<Settings> from_environment();
  // True if a part of Lanyard reads the variable, or if it is left to build systems.
  static bool is_known(std::string_view name);
};

}  // namespace lanyard::api

#endif  // LANYARD_API_SETTINGS_H_
