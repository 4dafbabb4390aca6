// Fid: an object of libfabric's that closes when it goes.
#ifndef LANYARD_TRANSPORT_CXI_FID_H_
#define LANYARD_TRANSPORT_CXI_FID_H_

#include <rdma/fabric.h>

#include <memory>

namespace lanyard::ofi {

struct CloseFid {
  template <typename T>
  void operator()(T* object) const {
    (void)fi_close(&object->fid);  // in a destructor there is nobody to tell
  }
};

// Owns a fid_domain, fid_cntr, ... Whatever was opened through it must be gone before it.
template <typename T>
using Fid = std::unique_ptr<T, CloseFid>;

}  // namespace lanyard::ofi

#endif  // LANYARD_TRANSPORT_CXI_FID_H_
