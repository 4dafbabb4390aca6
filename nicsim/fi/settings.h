// The settings of the simulated CXI provider, one copy per domain. They give the size of the
// simulated card and an answer to each question that only Slingshot can answer. README.md lists the
// variables and their rules.
#ifndef LANYARD_NICSIM_FI_SETTINGS_H_
#define LANYARD_NICSIM_FI_SETTINGS_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "nicsim/fi/address_vector.h"
#include "nicsim/model/nic_model.h"
#include "nicsim/wire/wire.h"
#include "transport/base/status.h"

namespace lanyard::nicsim::fi {

struct Settings {
  bool tcp = false;                             // LANYARD_SIM_WIRE: shm, tcp
  std::string interface;                        // LANYARD_SIM_INTERFACE: tcp's IP address
  uint32_t dwq_depth = 504;                     // LANYARD_FI_DWQ_DEPTH: 1 to 65536
  uint32_t shared_depth = 0;                    // LANYARD_FI_SHARED_DEPTH: 1 to 32767; 0: not shared
  std::string job;                              // LANYARD_FI_JOB: the job that shares them
  bool fresh_reads = false;                     // LANYARD_FI_CNTR_READ: cached, fresh
  bool refuses_without_entry = false;           // LANYARD_FI_POOL: stall, enospc
  bool traps_stores = false;                    // LANYARD_FI_MMIO: refused, trap
  bool newest_tie_first = false;                // LANYARD_FI_TIES: oldest, newest
  bool device_memory = false;                   // LANYARD_FI_HMEM: refused, accepted
  bool late_data = false;                       // LANYARD_FI_VISIBILITY: ordered, late
  std::chrono::milliseconds flush_pause{1000};  // LANYARD_FI_FLUSH_MS: 0 to 60000
  Numbering numbering;                          // from the launcher of Open MPI or MPICH

  // kInvalidArgument names the variable, its value and the allowed values.
  static Result<Settings> from_environment();

  ModelLimits limits() const;
  // Opens a wire of the chosen kind. Errors as make_shm_wire() and make_tcp_wire().
  Result<std::unique_ptr<Wire>> open_wire() const;
};

}  // namespace lanyard::nicsim::fi

#endif  // LANYARD_NICSIM_FI_SETTINGS_H_
