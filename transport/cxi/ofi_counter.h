// OfiCounter: a counter of nic.h on one of libfabric's.
//
// Where the provider's counters are wide it is theirs. Where they are narrow (31 bits, no failures)
// the provider's holds success + failure, which is what thresholds compare with, and this object
// the number of failures and whatever passes 30 bits ("far"). An entry waits in the provider only
// for what the provider's counter can reach; the driver hands the others over when they are due.
//
// Threads: one caller at a time, but for is_open(), which may run beside anything.
#ifndef LANYARD_TRANSPORT_CXI_OFI_COUNTER_H_
#define LANYARD_TRANSPORT_CXI_OFI_COUNTER_H_

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>

#include <atomic>
#include <cstdint>

#include "transport/base/status.h"
#include "transport/cxi/fid.h"
#include "transport/nic/nic.h"

namespace lanyard::ofi {

// A bare counter of the provider's at 0.
Result<Fid<fid_cntr>> open_provider_counter(fid_domain* domain);

class OfiCounter {
 public:
  // Of narrow ones: far below what 31 bits hold, so that arrivals never pass that.
  static constexpr uint64_t kReach = uint64_t{1} << 30;

  // At {0, 0}. Requires !is_open().
  Status open(fid_domain* domain, bool wide);
  void close();
  bool is_open() const { return open_.load(std::memory_order_acquire); }

  fid_cntr* fid() const { return fid_.get(); }
  nic::CounterValue read() const;
  uint64_t reached() const { return read().reached(); }
  // Like a register of 48 bits, which wraps: the ranges of nic.h are the caller's to check.
  void add(uint64_t success);
  void add_error(uint32_t failures);
  void set(uint64_t success);  // failures to 0

  // Whether the provider itself can tell when this threshold is reached.
  bool waits_in_provider(uint64_t threshold) const { return wide_ || (base_ == 0 && threshold <= kReach); }

  // An operation failed, and nobody has counted it yet.
  void fail() { add_error(1); }

  // Entries, operations and regions that name it.
  uint32_t uses = 0;

 private:
  uint64_t provider_value() const;

  Fid<fid_cntr> fid_;
  bool wide_ = false;
  uint64_t base_ = 0;  // narrow: what is counted beyond the provider's value; once not 0 nothing waits there
  uint32_t failures_ = 0;
  std::atomic<bool> open_{false};
};

}  // namespace lanyard::ofi

#endif  // LANYARD_TRANSPORT_CXI_OFI_COUNTER_H_
