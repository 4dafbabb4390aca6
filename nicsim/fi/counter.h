// The counter, with the word that the NIC writes back.
//
// The host does not see the counter itself but a word that the NIC writes when the host asks for it, and when the
// counter is set.
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
  // Requires that the counter has just been opened on the domain's NIC.
  Counter(Domain& domain, nic::CounterId id, const nic::Doorbell& bell)
      : fid_cntr(), domain_(domain), id_(id), bell_(bell) {}
  ~Counter();

  Domain& domain() { return domain_; }
  nic::CounterId id() const { return id_; }

  // The value that fi_cntr_read() gives: as the settings say the word from before the call, while
  // the NIC writes a new one, or the new one, for which the call waits. While the trigger queue
  // stalls no new one comes.
  nic::CounterValue read();
  // Adds to success as a posted store does: nobody hears whether it wraps. kInvalidArgument past 48
  // bits.
  Status add(uint64_t value);
  Status add_error(uint64_t value);
  Status set(uint64_t value);
  Status set_error(uint64_t value);
  // Where a plain store of 64 bits adds (mmio_page.h).
  int registers(void** address, size_t* bytes);

  std::atomic<int> bound{0};  // endpoints and regions that count here

 private:
  nic::CounterValue refresh();
  nic::CounterValue cached();

  Domain& domain_;
  const nic::CounterId id_;
  const nic::Doorbell bell_;
  std::mutex mutex_;        // guards what follows
  nic::CounterValue word_;  // written back last
  void* page_ = nullptr;    // of its registers
};

// As struct fi_ops_domain's cntr_open. Closed by fi_close(): -FI_EBUSY while it is bound. Work that waits for it is
// taken back then; what else names it goes on, and counts where nobody looks.
int open_counter(struct fid_domain* domain, struct fi_cntr_attr* attributes, struct fid_cntr** counter, void* context);

}  // namespace lanyard::nicsim::fi

#endif  // LANYARD_NICSIM_FI_COUNTER_H_
