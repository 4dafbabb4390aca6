// The counter, with the word that the NIC writes back.
//
// The host does not see the counter itself but a word that the NIC writes on certain events alone:
// when the host asks for it, when the counter is set, when its failures leave zero, and after work
// that was posted for it (kCounterWriteback).
#ifndef LANYARD_NICSIM_FI_COUNTER_H_
#define LANYARD_NICSIM_FI_COUNTER_H_

#include <rdma/fabric.h>
#include <rdma/fi_eq.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "nicsim/fi/domain.h"
#include "nicsim/fi/mmio_page.h"
#include "transport/base/status.h"
#include "transport/nic/nic.h"

namespace lanyard::nicsim::fi {

class Endpoint;

class Counter : public fid_cntr {
 public:
  struct Options {
    bool cached = true;   // reads do not wait for the NIC
    bool waiting = true;  // fi_cntr_wait() is allowed
  };
  // Requires that the counter has just been opened on the domain's NIC.
  Counter(Domain& domain, nic::CounterId id, const nic::Doorbell& bell, const Options& options)
      : fid_cntr(), domain_(domain), id_(id), bell_(bell), options_(options) {}

  Domain& domain() { return domain_; }
  nic::CounterId id() const { return id_; }

  // The value that fi_cntr_read() gives: as the options say the word from before the call, while
  // the NIC writes a new one, or the new one, for which the call waits. While the trigger queue
  // stalls no new one comes. Reads the events of the endpoints that are bound to it.
  nic::CounterValue read();
  // Adds to success as a posted store does: nobody hears whether it wraps. kInvalidArgument past 48
  // bits.
  Status add(uint64_t value);
  Status add_error(uint64_t value);
  Status set(uint64_t value);
  Status set_error(uint64_t value);
  // Blocks until success has reached the threshold (0), a failure is counted (-FI_EAVAIL) or the
  // time is over (-FI_ETIMEDOUT; -1 milliseconds: never). Sees the written-back word alone, and so
  // takes one deferred-work entry, for which it waits, and which it leaves behind where the time is
  // over. -FI_EINVAL where waiting was not asked for.
  int wait(uint64_t threshold, int milliseconds);

  // Whose events its reads read. -FI_EBUSY keeps it from being closed.
  void bind(Endpoint& endpoint);
  void unbind(const Endpoint& endpoint);

  // CXI's extensions (cxi_ext.h).
  int set_writeback_buffer(void* buffer, size_t bytes);
  int registers(void** address, size_t* bytes);

  // Requires the domain's events lock.
  void write_back(nic::CounterValue value);

  std::atomic<int> bound{0};  // endpoints and regions that count here

 private:
  void refresh();
  void progress();

  Domain& domain_;
  const nic::CounterId id_;
  const nic::Doorbell bell_;
  const Options options_;
  std::vector<Endpoint*> endpoints_;  // once for each direction; the events lock guards it
  std::atomic<uint64_t> word_{0};
  uint64_t* buffer_ = nullptr;        // the user's copy of the word; the events lock guards it
  std::atomic<uint64_t> written_{0};  // how often; written under the events lock
  std::unique_ptr<MmioPage> page_;    // the events lock guards it
};

// As struct fi_ops_domain's cntr_open. Closed by fi_close(): -FI_EBUSY while it is bound. Work that waits for it is
// taken back then; what else names it goes on, and counts where nobody looks.
int open_counter(struct fid_domain* domain, struct fi_cntr_attr* attributes, struct fid_cntr** counter, void* context);

}  // namespace lanyard::nicsim::fi

#endif  // LANYARD_NICSIM_FI_COUNTER_H_
