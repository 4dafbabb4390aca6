// Used by every object of the provider: the provider itself, its log, the conversion of errors, and
// what all objects have in common.
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
#include <boost/pfr/core.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>

#include "transport/base/status.h"

namespace lanyard::nicsim::fi {

// The names of the provider's fabric and of its only device.
inline constexpr char kFabricName[] = "cxi";
inline constexpr char kDomainName[] = "cxi0";
inline constexpr size_t kMaxTransmitSize = 1024;     // operations in flight of an endpoint
inline constexpr uint64_t kMaxUserKey = UINT32_MAX;  // of a region

// For libfabric's log.
const struct fi_provider& provider();

// Returns the negative error number for a status, 0 if ok. Logs the message, except for kAgain.
int error_of(const Status& status, fi_log_subsys subsystem);
// Logs `why` and returns -error.
int refuse(int error, fi_log_subsys subsystem, const char* why);

// ---- Objects

// The base of every object that a user opens. fi_close() returns -FI_EBUSY while it has users.
template <typename Base>
class Object : public Base {
 public:
  using Fid = Base;
  Object() : Base() {}

  std::atomic<int> users{0};  // objects that name this one (use())
};

// Object T as long as the holder uses it.
struct EndUse {
  template <typename T>
  void operator()(T* object) const {
    object->users.fetch_sub(1);
  }
};
template <typename T>
using Used = std::unique_ptr<T, EndUse>;
template <typename T>
Used<T> use(T& object) {
  object.users.fetch_add(1);
  return Used<T>(&object);
}

// Casts a fid to our object. The fid must belong to a T, so the cast need not look for null.
template <typename T>
T* object_of(typename T::Fid* fid) {
  return &static_cast<T&>(*fid);
}
template <typename T>
T* object_of(struct fid* fid) {
  return object_of<T>(reinterpret_cast<typename T::Fid*>(fid));
}

// Gives a new object to the user.
template <typename T>
int hand_out(T* object, size_t fclass, void* context, fi_ops& ops, typename T::Fid** out) {
  object->fid = {.fclass = fclass, .context = context, .ops = &ops};
  *out = object;
  return 0;
}

// ---- Tables of functions

// Fills a slot of a table that is not simulated.
template <typename R, typename... Arguments>
R not_simulated(Arguments...) {
  if constexpr (std::is_pointer_v<R>)
    return nullptr;
  else
    return static_cast<R>(-FI_ENOSYS);
}

// A table of which only the slots that `fill` sets are simulated.
template <typename Ops>
Ops table_of(void (*fill)(Ops&) = [](Ops&) {}) {
  Ops ops = {};
  boost::pfr::for_each_field(ops, [](auto& slot) {
    if constexpr (std::is_pointer_v<std::remove_reference_t<decltype(slot)>>)
      slot = not_simulated;
    else
      slot = sizeof(Ops);
  });
  fill(ops);
  return ops;
}

template <typename T>
int close_object(struct fid* fid) {
  T* object = object_of<T>(fid);
  if (object->users.load() > 0)
    return -FI_EBUSY;
  delete object;
  return 0;
}

// The functions of every fid.
template <typename T>
fi_ops fid_ops(decltype(fi_ops::bind) bind = not_simulated, decltype(fi_ops::control) control = not_simulated,
               decltype(fi_ops::ops_open) open_ops = not_simulated) {
  return {.size = sizeof(fi_ops),
          .close = close_object<T>,
          .bind = bind,
          .control = control,
          .ops_open = open_ops,
          .tostr = nullptr,
          .ops_set = nullptr};
}

// Its users are the open domains.
class Fabric : public Object<fid_fabric> {};

}  // namespace lanyard::nicsim::fi

#endif  // LANYARD_NICSIM_FI_PROVIDER_H_
