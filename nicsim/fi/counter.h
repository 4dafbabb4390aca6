// The counter. The host does not read the counter itself. It reads a word that the NIC writes back
// when the host asks, and when the counter is set. It may have a page of registers, where a store
// adds (README.md, "The registers").
#ifndef LANYARD_NICSIM_FI_COUNTER_H_
#define LANYARD_NICSIM_FI_COUNTER_H_

#include <rdma/fabric.h>
#include <rdma/fi_eq.h>

#include <cstdint>
#include <mutex>

#include "nicsim/fi/domain.h"
#include "transport/base/status.h"
#include "transport/nic/nic.h"

namespace lanyard::nicsim::fi {

// Its users are the endpoints and regions that count here. Closing it cancels work that waits for
// it; other operations that name it go on.
class Counter : public Object<fid_cntr> {
 public:
  // Requires a counter just opened on the domain's NIC.
  Counter(Domain& domain, nic::CounterId id, const nic::Doorbell& bell) : domain_(use(domain)), id_(id), bell_(bell) {}
  ~Counter();

  Domain& domain() { return *domain_; }
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
  // Returns its page of registers.
  int registers(void** address, size_t* bytes);

 private:
  nic::CounterValue refresh();
  Status written_back(Status set);

  const Used<Domain> domain_;
  const nic::CounterId id_;
  const nic::Doorbell bell_;
  std::mutex mutex_;        // guards what follows
  nic::CounterValue word_;  // the last value written back
  void* page_ = nullptr;    // its page of registers
};

}  // namespace lanyard::nicsim::fi

#endif  // LANYARD_NICSIM_FI_COUNTER_H_
