// OfiCounter: a counter of nic.h on a libfabric counter. It holds 48 bits of
// success and 7 bits of failure.
//
// Threads: one caller at a time, except is_open(), which may run beside any call.
#ifndef LANYARD_TRANSPORT_CXI_OFI_COUNTER_H_
#define LANYARD_TRANSPORT_CXI_OFI_COUNTER_H_

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>

#include <atomic>
#include <cstdint>

#include "transport/base/status.h"
#include "transport/cxi/fabric.h"
#include "transport/nic/nic.h"

namespace lanyard::ofi {

class OfiCounter {
 public:
  // Opens the counter at {0, 0}. Requires !is_open().
  Status open(fid_domain* domain);
  void close();
  bool is_open() const { return open_.load(std::memory_order_acquire); }

  fid_cntr* fid() const { return fid_.get(); }
  nic::CounterValue read() const;
  uint64_t reached() const { return read().reached(); }
  // Wraps like a 48-bit register; the caller checks the range.
  void add(uint64_t success);
  // Stops at kMaxFailure.
  void add_error(uint32_t failures);
  void set(uint64_t success);  // sets failures to 0

  // Entries, operations and regions that name it.
  uint32_t uses = 0;

 private:
  Fid<fid_cntr> fid_;
  std::atomic<bool> open_{false};
};

}  // namespace lanyard::ofi

#endif  // LANYARD_TRANSPORT_CXI_OFI_COUNTER_H_
