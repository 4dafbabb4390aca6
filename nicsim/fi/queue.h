// The completion queue: events that the NIC has written, and the completion entries made from them.
//
// As on CXI, an event has no effect until the queue is read. Only then does its operation release
// its transmit slot and make an entry, if the user wants one.
#ifndef LANYARD_NICSIM_FI_QUEUE_H_
#define LANYARD_NICSIM_FI_QUEUE_H_

#include <rdma/fabric.h>
#include <rdma/fi_eq.h>

#include <deque>

#include "nicsim/fi/domain.h"
#include "transport/base/status.h"

namespace lanyard::nicsim::fi {

// Its users are the bound endpoints.
class CompletionQueue : public Object<fid_cq> {
 public:
  CompletionQueue(Domain& domain, enum fi_cq_format format) : domain_(use(domain)), format_(format) {
    domain.add_queue(*this);
  }
  ~CompletionQueue() { domain_->remove_queue(*this); }

  Domain& domain() { return *domain_; }

  // As the functions of fi_ops_cq.
  ssize_t read(void* buffer, size_t count);
  ssize_t read_error(struct fi_cq_err_entry& entry);

  // ---- Requires the domain's events lock
  // An operation has ended.
  void arrived(const Request& request, Code code) { events_.push_back({request, code}); }
  // Turns the events into entries and releases their transmit slots.
  void read_events();
  void forget(const Endpoint& endpoint);

 private:
  struct Event {
    Request request;
    Code code = Code::kOk;
  };

  size_t entry_bytes() const;

  const Used<Domain> domain_;
  const enum fi_cq_format format_;
  std::deque<Event> events_;
  std::deque<Event> entries_;
};

}  // namespace lanyard::nicsim::fi

#endif  // LANYARD_NICSIM_FI_QUEUE_H_
