// What every object of the provider uses: the provider itself, its log, and how our errors become libfabric's.
//
// Objects derive from libfabric's structs (fid_domain, fid_cntr, ...), whose first member is the fid, so that a fid
// that comes in is the object of ours behind it. libfabric's functions are filled into static tables; whatever is not
// simulated says -FI_ENOSYS. Threads: every function of every object from any thread (FI_THREAD_SAFE), unless it closes
// the object.
#ifndef LANYARD_NICSIM_FI_PROVIDER_H_
#define LANYARD_NICSIM_FI_PROVIDER_H_

#include <rdma/fabric.h>
#include <rdma/fi_errno.h>
#include <rdma/providers/fi_log.h>
#include <rdma/providers/fi_prov.h>

#include <atomic>

#include "transport/base/status.h"

namespace lanyard::nicsim::fi {

// The names of the provider's fabric and of its one device.
inline constexpr char kFabricName[] = "cxi";
inline constexpr char kDomainName[] = "cxi0";

// Closed by fi_close(): -FI_EBUSY while it has domains.
class Fabric : public fid_fabric {
 public:
  std::atomic<int> domains{0};  // open
};

// Only its address and name are needed, for logs.
const struct fi_provider& provider();

// The negative error number for a status, 0 where it is ok; writes what went wrong into libfabric's log.
int error_of(const Status& status, fi_log_subsys subsystem);
// The same for what never was a Status: logs `why` and returns -error.
int refuse(int error, fi_log_subsys subsystem, const char* why);

// Goes into any slot of a table whose function is not simulated.
template <typename R, typename... Arguments>
R not_simulated(Arguments...) {
  return -FI_ENOSYS;
}

// The functions that an object of any class has.
inline fi_ops fid_ops(int (*close)(fid*), int (*bind)(fid*, fid*, uint64_t) = not_simulated,
                      int (*control)(fid*, int, void*) = not_simulated,
                      int (*open_ops)(fid*, const char*, uint64_t, void**, void*) = not_simulated) {
  return {.size = sizeof(fi_ops),
          .close = close,
          .bind = bind,
          .control = control,
          .ops_open = open_ops,
          .tostr = nullptr,
          .ops_set = nullptr};
}

// The object behind a fid that has the class libfabric says it has.
template <typename Object, typename Base>
Object* object_of(struct fid* fid) {
  return &static_cast<Object&>(*reinterpret_cast<Base*>(fid));
}

}  // namespace lanyard::nicsim::fi

#endif  // LANYARD_NICSIM_FI_PROVIDER_H_
