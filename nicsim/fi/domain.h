// The domain: one simulated NIC and the objects opened on it.
//
// The model tells it of each operation that ends. The domain then puts an event into the
// completion queue of the operation's endpoint.
#ifndef LANYARD_NICSIM_FI_DOMAIN_H_
#define LANYARD_NICSIM_FI_DOMAIN_H_

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <vector>

#include "nicsim/fi/address_vector.h"
#include "nicsim/fi/late_wire.h"
#include "nicsim/fi/provider.h"
#include "nicsim/fi/settings.h"
#include "nicsim/fi/trigger_queue.h"
#include "nicsim/threaded/threaded_nic.h"
#include "transport/base/status.h"
#include "transport/nic/nic.h"

namespace lanyard::nicsim::fi {

class CompletionQueue;
class Endpoint;

// The host's record of an operation in flight, to make an event from.
struct Request {
  Endpoint* endpoint = nullptr;  // null once it has been closed
  void* context = nullptr;       // the user's
  uint64_t flags = 0;            // of the completion entry: FI_RMA | FI_WRITE, ...
  size_t bytes = 0;
  bool visible = false;  // success makes a completion entry; failure always does
};

// It cannot be closed while an object that was opened on it is open.
class Domain final : public Object<fid_domain>, private Witness {
 public:
  // kFailed if the system has no memory or sockets for the wire.
  static Result<std::unique_ptr<Domain>> create(Fabric& fabric, const fi_info& info, const Settings& settings);
  ~Domain() override;

  const Settings& settings() const { return settings_; }
  ThreadedNic& nic() { return nic_; }
  PeerTable& peers() { return peers_; }
  TriggerQueue& trigger_queue() { return trigger_queue_; }
  uint64_t caps() const { return caps_; }

  // The NIC's name for memory of this process. The memory need not be registered,
  // because CXI maps it by itself.
  nic::LocalSpan local(const void* address) const;

  // Writes the bytes of all messages that have been counted. Afterwards the NIC no longer touches a
  // deregistered region.
  void deliver_late_data() {
    if (late_wire_ != nullptr)
      late_wire_->settle();
  }
  // Does the NIC's work while the host looks at it.
  void progress();

  // ---- Requests: each holds one of its endpoint's transmit slots until its event has been read
  // Returns the request's number, or nothing if the endpoint has no free slot.
  std::optional<uint64_t> begin(const Request& request);
  // Removes a request that makes no event: the NIC has refused or canceled its operation.
  void drop(uint64_t number);
  // The endpoint is being closed. Its operations go on without events.
  void forget(Endpoint& endpoint);
  // The number of requests in flight.
  size_t in_flight();

  // ---- Counters and queues
  // Cancels the work that waits for the counter, and closes it once nothing counts there any more.
  void retire(nic::CounterId counter);
  void close_retired();
  void add_queue(CompletionQueue& queue);
  void remove_queue(CompletionQueue& queue);
  // Reads the events of every queue.
  void read_all_events();

  // Guards requests and events. Call no function of the NIC while holding it.
  std::mutex& events_mutex() { return events_mutex_; }

 private:
  Domain(Fabric& fabric, const fi_info& info, const Settings& settings, std::unique_ptr<Wire> wire, LateWire* late_wire,
         std::unique_ptr<SharedPool> pool);

  void ended(const nic::Op& op, Code code) override;
  void canceled(const nic::Op& op) override;
  void report(const nic::Op& op, Code code);

  const Used<Fabric> fabric_;
  const Settings settings_;
  const uint64_t caps_;

  std::mutex retired_mutex_;
  std::vector<nic::CounterId> retired_;  // not closed yet

  std::mutex events_mutex_;                         // guards the members up to queues_
  std::unordered_map<uint64_t, Request> requests_;  // by nic::Op::context
  uint64_t next_request_ = 0;
  std::vector<CompletionQueue*> queues_;

  // Destroyed in reverse order: the queue's thread uses the NIC, whose
  // thread uses everything above.
  LateWire* const late_wire_;  // the NIC's wire if data is late, else null
  ThreadedNic nic_;
  nic::RegionId window_;  // all memory of this process, for the NIC's own reads
  PeerTable peers_;
  TriggerQueue trigger_queue_;
};

// As fi_ops_fabric::domain.
int open_domain(struct fid_fabric* fabric, struct fi_info* info, struct fid_domain** domain, void* context);

// As in fi_ops_domain and fi_ops_mr.
int open_address_vector(struct fid_domain* domain, struct fi_av_attr* attributes, struct fid_av** vector,
                        void* context);
int open_queue(struct fid_domain* domain, struct fi_cq_attr* attributes, struct fid_cq** queue, void* context);
int open_endpoint(struct fid_domain* domain, struct fi_info* info, struct fid_ep** endpoint, void* context);
int open_counter(struct fid_domain* domain, struct fi_cntr_attr* attributes, struct fid_cntr** counter, void* context);
int open_region(struct fid* domain, const struct fi_mr_attr* attributes, uint64_t flags, struct fid_mr** region);

}  // namespace lanyard::nicsim::fi

#endif  // LANYARD_NICSIM_FI_DOMAIN_H_
