// The completion queue: events that the NIC has written, and the entries that reading them makes.
//
// As on CXI an event is nothing until somebody reads the queue: only then does its operation give
// its transmit slot back, and only then is it seen whether the user wants an entry for it.
#ifndef LANYARD_NICSIM_FI_QUEUE_H_
#define LANYARD_NICSIM_FI_QUEUE_H_

#include <rdma/fabric.h>
#include <rdma/fi_eq.h>

#include <atomic>
#include <deque>

#include "nicsim/fi/domain.h"
#include "transport/base/status.h"

namespace lanyard::nicsim::fi {

class CompletionQueue : public fid_cq {
 public:
  CompletionQueue(Domain& domain, enum fi_cq_format format) : fid_cq(), domain_(domain), format_(format) {}

  Domain& domain() { return domain_; }

  // As struct fi_ops_cq's functions of these names.
  ssize_t read(void* buffer, size_t count);
  ssize_t read_error(struct fi_cq_err_entry& entry);

  // ---- Requires the domain's events lock.
  // An operation has ended.
  void arrived(const Request& request, Code code) { events_.push_back({request, code}); }
  // Makes entries of the events, and gives their slots back.
  void read_events();
  void forget(const Endpoint& endpoint);

  std::atomic<int> endpoints{0};  // bound

 private:
  struct Event {
    Request request;
    Code code = Code::kOk;
  };

  size_t entry_bytes() const;

  Domain& domain_;
  const enum fi_cq_format format_;
  std::deque<Event> events_;
  std::deque<Event> entries_;
};

// As struct fi_ops_domain's cq_open. Closed by fi_close(): -FI_EBUSY while endpoints are bound.
int open_queue(struct fid_domain* domain, struct fi_cq_attr* attributes, struct fid_cq** queue, void* context);

}  // namespace lanyard::nicsim::fi

#endif  // LANYARD_NICSIM_FI_QUEUE_H_
