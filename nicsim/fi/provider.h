// Used by every object of the provider: the provider itself, its log, and the conversion of errors.
//
// Our objects derive from libfabric's structs (fid_domain, fid_cntr, ...), whose first member is
// the fid. So a fid can be cast to our object. Functions that are not simulated return -FI_ENOSYS.
//
// Threads: any, for every function of every object (FI_THREAD_SAFE), except
// when it closes the object.
#ifndef LANYARD_NICSIM_FI_PROVIDER_H_
#define LANYARD_NICSIM_FI_PROVIDER_H_

#include <rdma/fabric.h>
#include <rdma/fi_errno.h>
#include <rdma/providers/fi_log.h>
#include <rdma/providers/fi_prov.h>

#include <atomic>

#include "transport/base/status.h"

namespace lanyard::nicsim::fi {

// The names of the provider's fabric and of its only device.
inline constexpr char kFabricName[] = "cxi";
inline constexpr char kDomainName[] = "cxi0";

// fi_close() returns -FI_EBUSY while domains are open.
class Fabric : public fid_fabric {
 public:
  std::atomic<int> domains{0};  // open domains
};

// For libfabric's log.
const struct fi_provider& provider();

// Returns the negative error number for a status, 0 if ok. Logs the message, except for kAgain.
int error_of(const Status& status, fi_log_subsys subsystem);
// Logs `why` and returns -error.
int refuse(int error, fi_log_subsys subsystem, const char* why);

// Fills a slot of a function table that is not simulated.
template <typename R, typename... Arguments>
R not_simulated(Arguments...) {
  return -FI_ENOSYS;
}

// The functions of every fid.
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

// Casts a fid to our object. The fid must belong to an Object.
template <typename Object, typename Base>
Object* object_of(struct fid* fid) {
  return &static_cast<Object&>(*reinterpret_cast<Base*>(fid));
}

}  // namespace lanyard::nicsim::fi

#endif  // LANYARD_NICSIM_FI_PROVIDER_H_
