// StepFabric: libfabric as the driver for Slingshot (transport/cxi) finds it in a World: one domain with one endpoint,
// straight on a StepNic. It has no thread and waits for nobody; what a call asks of the card is steps of the world.
//
// The rules are the CXI provider's where deferred work is concerned: regions are bound to the endpoint before they are
// enabled, and have keys of their user's; work that finds no entry is refused (-FI_ENOSPC), as is what finds no
// transmit slot (-FI_EAGAIN), which an operation holds until its event is read; failures count and stand in the queue;
// closing a region waits for what is landing in it. Of what the driver may not do the world is told: closing what an
// operation names, work that no card could do.
//
// The model's counters and regions have the driver's numbers, as both give away last what came back last. The
// endpoint's own counter, which nobody reads, is none of the model's.
#ifndef LANYARD_NICSIM_DETERMINISTIC_STEP_FABRIC_H_
#define LANYARD_NICSIM_DETERMINISTIC_STEP_FABRIC_H_

#include <rdma/fabric.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_trigger.h>

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "nicsim/deterministic/step_nic.h"
#include "nicsim/model/nic_model.h"
#include "transport/cxi/library.h"

namespace lanyard::nicsim {

class World;

class StepFabric final : public Witness {
 public:
  // Both outlive it. It becomes the model's witness.
  StepFabric(World& world, StepNic& nic, uint32_t rank);
  StepFabric(const StepFabric&) = delete;
  StepFabric& operator=(const StepFabric&) = delete;

  // What the driver is to take for libfabric. Its objects live where they are made: in the arena.
  ofi::Library library();

  // Completions that the driver has not read.
  bool has_news() const { return !events_.empty(); }
  // How many of them are failures of operations with that context.
  uint64_t unread_failures(uint64_t context) const;
  // Whether it was refused anything for want of room since this was asked last: it keeps it and tries again.
  bool was_refused() const { return refused_; }
  // ... of which there was enough: the same will do another time.
  bool was_refused_falsely() const { return refused_falsely_; }
  void forget_refusals() { refused_ = refused_falsely_ = false; }
  // Whether it has changed anything about the card or its queue since this was asked last.
  bool take_changed() { return std::exchange(changed_, false); }

  // ---- What libfabric's calls become
  int open_counter(fid_cntr** out);
  int close_counter(fid_cntr& counter);
  uint64_t read(const fid_cntr& counter, bool failures);
  int add(const fid_cntr& counter, uint64_t value);
  int add_error(const fid_cntr& counter, uint64_t value);
  int open_region(const fi_mr_attr& attributes, fid_mr** out);
  int bind_region(fid_mr& region, fid& to);
  int enable_region(fid_mr& region);
  int close_region(fid_mr& region);
  void enable_endpoint() { enabled_ = true; }
  int name_endpoint(void* buffer, size_t* bytes) const;
  int insert(std::span<const uint32_t> names, fi_addr_t* addresses);
  int queue(const fi_deferred_work& work);
  ssize_t write_now(const fi_msg_rma& message, uint64_t flags);
  ssize_t atomic_now(const fi_msg_atomic& message, uint64_t flags);
  ssize_t read_queue(fi_cq_entry* entries, size_t count);
  ssize_t read_error(fi_cq_err_entry& entry);
  size_t depth() const { return nic_.caps().deferred_depth; }

  // ---- As the model's witness
  void ended(const nic::Op& op, Code code, nic::CounterValue value) override;
  void canceled(const nic::Op& op) override;

 private:
  // An object of libfabric's, and whose it is.
  template <typename Base>
  struct Part : Base {
    StepFabric* fabric = nullptr;
  };
  struct Counter : Part<fid_cntr> {
    nic::CounterId id;  // none: the endpoint's own
  };
  struct Region : Part<fid_mr> {
    void* base = nullptr;
    uint64_t bytes = 0;
    nic::CounterId counts;
    bool bound = false;  // to the endpoint
    nic::RegionId id;
  };
  // What the driver reads of an operation that has ended.
  struct Event {
    void* context = nullptr;  // libfabric's
    uint64_t owner = 0;       // nic::Op::context
    int err = 0;
  };
  // The tables of libfabric's functions.
  struct Tables;
  void fill_tables();

  Result<nic::Op> lower(const fi_msg_rma& message, uint64_t flags) const;
  Result<nic::Op> lower(const fi_msg_atomic& message, uint64_t flags) const;
  Result<nic::Op> name(nic::Op op, void* context, const void* local, fi_addr_t peer) const;
  ssize_t start(const Result<nic::Op>& op);
  int refuse(int error);
  int mistake(const std::string& what);

  World& world_;
  StepNic& nic_;
  const uint32_t rank_;
  Part<fid_fabric> fabric_{};
  Part<fid_domain> domain_{};
  Part<fid_av> vector_{};
  Part<fid_cq> queue_{};
  Part<fid_ep> endpoint_{};
  bool enabled_ = false;
  std::vector<uint32_t> peers_;   // ranks, by fi_addr_t
  std::vector<Region*> regions_;  // by the model's number
  std::vector<Event> events_;     // oldest first
  const uint32_t slots_;
  uint32_t slots_held_ = 0;
  bool refused_ = false;
  bool refused_falsely_ = false;
  bool changed_ = false;
};

}  // namespace lanyard::nicsim

#endif  // LANYARD_NICSIM_DETERMINISTIC_STEP_FABRIC_H_
