// The domain: one simulated NIC, with everything that was opened on it.
//
// It is the model's witness: whatever ends on the NIC becomes an event for the completion queue of
// the endpoint that began it.
#ifndef LANYARD_NICSIM_FI_DOMAIN_H_
#define LANYARD_NICSIM_FI_DOMAIN_H_

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <vector>

#include "nicsim/fi/late_wire.h"
#include "nicsim/fi/peer_table.h"
#include "nicsim/fi/settings.h"
#include "nicsim/fi/trigger_queue.h"
#include "nicsim/threaded/threaded_nic.h"
#include "transport/base/status.h"
#include "transport/nic/nic.h"

namespace lanyard::nicsim::fi {

class CompletionQueue;
class Endpoint;
class Fabric;

// What the host still owes an operation that the NIC has, so that its event can be given a meaning.
struct Request {
  Endpoint* endpoint = nullptr;  // null once it has been closed
  void* context = nullptr;       // the user's
  uint64_t flags = 0;            // of the completion entry: FI_RMA | FI_WRITE, ...
  size_t bytes = 0;
  bool visible = false;  // success makes a completion entry; failure always does
};

class Domain final : public fid_domain, private Witness {
 public:
  // kFailed where the system has no memory or sockets for the wire.
  static Result<std::unique_ptr<Domain>> create(Fabric& fabric, const fi_info& info, const Settings& settings);
  // Requires that nothing is open on it.
  ~Domain() override;

  const Settings& settings() const { return settings_; }
  ThreadedNic& nic() { return *nic_; }
  PeerTable& peers() { return *peers_; }
  TriggerQueue& trigger_queue() { return *trigger_queue_; }
  bool counts_remote_writes() const { return counts_remote_writes_; }
  bool takes_device_memory() const { return takes_device_memory_; }

  // Memory of this process as the NIC names it; it need not be registered (CXI maps it by itself).
  nic::LocalSpan local(const void* address) const;

  // What has been counted is in memory: the NIC touches that of a region that has been deregistered no more.
  void settle() {
    if (late_wire_ != nullptr)
      late_wire_->settle();
  }
  // What the NIC does while the host looks at it.
  void progress();

  // ---- Requests. A request holds one of its endpoint's transmit slots until its event has been
  // read. The request's number, or nothing while the endpoint's slots are all held.
  std::optional<uint64_t> begin(const Request& request);
  // The operation has not been taken by the NIC, or has been taken back: there is no event.
  void drop(uint64_t number);
  // An endpoint is closed: what it has begun goes on without events.
  void forget(Endpoint& endpoint);
  // How many requests have not ended.
  size_t under_way();

  // ---- What must be found when something ends
  // Takes back what waits for the counter, and closes it as soon as nothing counts there any more.
  void retire(nic::CounterId counter);
  void close_retired();
  void add_queue(CompletionQueue& queue);
  void remove_queue(CompletionQueue& queue);
  // Reads every queue's events.
  void read_all_events();

  // Guards requests and events. Who holds it calls nothing of the NIC.
  std::mutex& events_mutex() { return events_mutex_; }

  // Counts what is open on the domain, which can be closed at 0.
  void open_child() { children_.fetch_add(1); }
  void close_child() { children_.fetch_sub(1); }
  bool has_children() const { return children_.load() > 0; }

 private:
  Domain(Fabric& fabric, const fi_info& info, const Settings& settings, std::unique_ptr<Wire> wire,
         LateWire* late_wire);
  Status prepare();

  void ended(const nic::Op& op, Code code) override;
  void canceled(const nic::Op& op) override;
  void report(const nic::Op& op, Code code);

  Fabric& fabric_;
  const Settings settings_;
  const bool counts_remote_writes_;
  const bool takes_device_memory_;
  std::atomic<int> children_{0};

  std::mutex retired_mutex_;
  std::vector<nic::CounterId> retired_;  // not closed yet

  std::mutex events_mutex_;                         // guards what follows, up to the queues
  std::unordered_map<uint64_t, Request> requests_;  // by nic::Op::context
  uint64_t next_request_ = 0;
  std::vector<CompletionQueue*> queues_;

  // In this order: the queue's thread uses the NIC, whose thread uses all of the above.
  LateWire* const late_wire_;  // the NIC's, where data is late; else null
  std::unique_ptr<ThreadedNic> nic_;
  nic::RegionId window_;  // all of this process's memory, for the NIC's own use
  std::unique_ptr<PeerTable> peers_;
  std::unique_ptr<TriggerQueue> trigger_queue_;
};

// As struct fi_ops_fabric's domain. Closed by fi_close(): -FI_EBUSY while something is open on it.
int open_domain(struct fid_fabric* fabric, struct fi_info* info, struct fid_domain** domain, void* context);

}  // namespace lanyard::nicsim::fi

#endif  // LANYARD_NICSIM_FI_DOMAIN_H_
