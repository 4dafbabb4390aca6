// The counter. The host does not read the counter itself. It reads a word that the NIC writes back
// when the host asks, and when the counter is set.
#ifndef LANYARD_NICSIM_FI_COUNTER_H_
#define LANYARD_NICSIM_FI_COUNTER_H_

#include <rdma/fabric.h>
#include <rdma/fi_eq.h>

#include <atomic>
#include <cstdint>
#include <mutex>

#include "nicsim/fi/domain.h"
#include "transport/base/status.h"
#include "transport/nic/nic.h"

namespace lanyard::nicsim::fi {

class Counter : public fid_cntr {
 public:
  // Requires a counter just opened on the domain's NIC.
  Counter(Domain& domain, nic::CounterId id, const nic::Doorbell& bell)
      : fid_cntr(), domain_(domain), id_(id), bell_(bell) {}
  ~Counter();

  Domain& domain() { return domain_; }
  nic::CounterId id() const { return id_; }

  // The value that fi_cntr_read() returns. By default the word before this call, while the
  // NIC writes a new one; with `fresh`, waits for the new one. The word does not change while
  // the trigger queue stalls.
  nic::CounterValue read();
  // Adds to success, like a posted store: reports no overflow. kInvalidArgument if value
  // needs more than 48 bits.
  Status add(uint64_t value);
  Status add_error(uint64_t value);
  Status set(uint64_t value);
  Status set_error(uint64_t value);
  // Returns a page where a plain 64-bit store adds (mmio_page.h).
  int registers(void** address, size_t* bytes);

  std::atomic<int> bound{0};  // endpoints and regions that count here

 private:
  nic::CounterValue refresh();
  nic::CounterValue cached();

  Domain& domain_;
  const nic::CounterId id_;
  const nic::Doorbell bell_;
  std::mutex mutex_;        // guards what follows
  nic::CounterValue word_;  // the last value written back
  void* page_ = nullptr;    // its page of registers
};

// As fi_ops_domain::cntr_open. fi_close() returns -FI_EBUSY while the counter is bound. Otherwise
// it cancels work that waits for the counter; other operations that name it go on.
int open_counter(struct fid_domain* domain, struct fi_cntr_attr* attributes, struct fid_cntr** counter, void* context);

}  // namespace lanyard::nicsim::fi

#endif  // LANYARD_NICSIM_FI_COUNTER_H_
