// Settings: what the environment says, read once at MPI_Init.
#ifndef LANYARD_API_SETTINGS_H_
#define LANYARD_API_SETTINGS_H_

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "transport/base/status.h"
#include "transport/core/strategy.h"

namespace lanyard::api {

struct Settings {
  std::string nic = "sim";                         // LANYARD_NIC: sim, cxi
  bool checked = false;                            // LANYARD_CHECK: assert the NIC's contract at every call
  bool overflow = true;                            // LANYARD_OVERFLOW: on, off
  std::string fault;                               // LANYARD_SIM_FAULT: stale-device-data
  bool gpu_blocking = false;                       // LANYARD_GPU_BLOCKING: on, off
  std::string gpu_shared = "auto";                 // LANYARD_GPU_SHARED: auto, yes, no
  std::string peer = "off";                        // LANYARD_PEER: off, auto: GPUs of a host carry messages themselves
  std::chrono::microseconds gpu_linger{200};       // LANYARD_GPU_LINGER_US: 0 to 50000
  std::optional<core::Strategy> strategy;          // LANYARD_STRATEGY: auto, or a core::strategy_name(); none: auto
  std::chrono::milliseconds deadline{0};           // LANYARD_DEADLINE_S: seconds, fractions allowed; 0: none
  std::chrono::milliseconds warn_after{10'000};    // LANYARD_WARN_S: as above
  std::string wire = "shm";                        // LANYARD_SIM_WIRE: shm, tcp
  uint32_t dwq_depth = 504;                        // LANYARD_SIM_DWQ_DEPTH: 1 to 65536
  uint32_t counters = 4096;                        // LANYARD_SIM_COUNTERS: 1 to 1000000
  uint32_t regions = 16384;                        // LANYARD_SIM_REGIONS: 1 to 1000000
  uint64_t max_message_bytes = uint64_t{1} << 30;  // LANYARD_SIM_MAX_MESSAGE: bytes, at least 1
  bool cma = true;                                 // LANYARD_SIM_CMA: on, off: cross-memory attach on the shm wire
  std::string ofi_domain;                          // LANYARD_OFI_DOMAIN: which card; empty: choose
  bool ofi_counts_both = true;                     // LANYARD_OFI_COUNTS_BOTH: off, on; see OfiOptions::counts_both
  uint32_t ofi_dwq_depth = 0;                      // LANYARD_OFI_DWQ_DEPTH: 1 to 65536; 0: all that there are
  std::string interface;  // LANYARD_SIM_INTERFACE: the tcp wire's IP address, or an interface; empty: choose

  // kInvalidArgument names the variable, its value and what is allowed; or a variable LANYARD_* that is not known, and
  // the nearest one that something reads.
  static Result<Settings> from_environment();
  // Whether something of Lanyard's reads the variable, or it is for others to read.
  static bool is_known(std::string_view name);
};

}  // namespace lanyard::api

#endif  // LANYARD_API_SETTINGS_H_
