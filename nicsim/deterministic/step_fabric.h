// StepFabric: libfabric as the driver (transport/cxi) finds it in a World: one domain with one endpoint, straight on a
// StepNic, with the rules of the CXI provider (nicsim/README.md). It has no thread and waits for nobody; what a call
// asks of the card is steps of the world.
//
// The model's counters have the driver's numbers, as both give away last what came back last. What the driver opens
// while it is opened itself, the endpoint's counter, is none of the model's.
#ifndef LANYARD_NICSIM_DETERMINISTIC_STEP_FABRIC_H_
#define LANYARD_NICSIM_DETERMINISTIC_STEP_FABRIC_H_

#include <rdma/fabric.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_trigger.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "nicsim/deterministic/step_nic.h"
#include "nicsim/model/nic_model.h"
#include "transport/cxi/library.h"
#include "transport/cxi/objects.h"

namespace lanyard::nicsim {

class World;

class StepFabric final : public Witness {
 public:
  static constexpr const char* kCard = "card0";

  // Both outlive it. It becomes the model's witness.
  StepFabric(World& world, StepNic& nic, uint32_t rank);
  StepFabric(const StepFabric&) = delete;
  StepFabric& operator=(const StepFabric&) = delete;

  // What the driver is to take for libfabric. Its objects live where they are made: in the arena.
  ofi::Library library();

  // The driver is open: counters are the core's from now on.
  void driver_is_open() { opening_ = false; }

  // Completions that the driver has not read.
  bool has_news() const { return !events_.empty(); }
  // Failures, of that context or of all, that the driver has not counted: it has not read of them,
  // or has yet to say that what was refused is due.
  uint64_t unread_failures(std::optional<uint64_t> context = std::nullopt) const;
  // Whether the driver's thread has to look from time to time though the queue holds nothing for it.
  bool wants_looks() const { return refused_ || !doomed_.empty(); }
  // Whether it was refused anything for want of room since this was asked last: it keeps it and tries again.
  bool was_refused() const { return refused_; }
  // ... of which there was enough: the same will do another time.
  bool was_refused_falsely() const { return refused_falsely_; }
  void forget_refusals() { refused_ = refused_falsely_ = false; }
  // An operation that was refused for good, is due, and has not been told of; none where all is well.
  std::optional<nic::Op> overdue() const;
  // What the operations that have ended and the messages that were counted make of that counter.
  nic::CounterValue caused(nic::CounterId counter) const;
  // So many operations or messages have ended that are to be counted there.
  void cause(nic::CounterId counter, Code code, uint64_t times);
  // Whether it has changed anything about the card or its queue since this was asked last.
  bool take_changed() { return std::exchange(changed_, false); }

  // What the driver has opened, and not closed.
  nic::Usage usage() const;

  // ---- As the model's witness
  void ended(const nic::Op& op, Code code) override;
  void canceled(const nic::Op& op) override;

 private:
  // Of objects of libfabric's the fabric is the context.
  struct Counter : fid_cntr {
    nic::CounterId id;  // none: the endpoint's
  };
  struct Region : fid_mr {
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
  // An operation that it has refused for good.
  struct Doomed {
    nic::Op op;
    nic::CounterId completion;  // that counts it in the end, whoever does it
    nic::CounterId trigger;     // none: it was to run at once
    uint64_t threshold = 0;
  };
  // The tables of libfabric's functions.
  struct Tables;
  void fill_tables();

  // ---- Libfabric's functions
  int open_counter(fid_domain*, fi_cntr_attr*, fid_cntr** out, void*);
  int close_counter(fid* counter);
  uint64_t read(fid_cntr* counter, bool failures);
  int add(fid_cntr* counter, uint64_t value);
  int add_failures(fid_cntr* counter, uint64_t value);
  int set(fid_cntr* counter, uint64_t value);
  int set_failures(fid_cntr* counter, uint64_t value);
  int open_region(fid*, const fi_mr_attr* attributes, uint64_t flags, fid_mr** out);
  int bind_region(fid* region, fid* to, uint64_t flags);
  int enable_region(fid* region, int command, void*);
  int close_region(fid* region);
  int enable_endpoint(fid*, int command, void*);
  int name_endpoint(fid*, void* buffer, size_t* bytes);
  int insert(fid_av*, const void* names, size_t count, fi_addr_t* addresses, uint64_t flags, void*);
  int queue_work(fid*, int command, void* work);
  template <typename Message>
  ssize_t start_now(fid_ep*, const Message* message, uint64_t flags) {
    return take_in(lower(*message, flags), nullptr);
  }
  ssize_t read_queue(fid_cq*, void* entries, size_t count);
  ssize_t read_error(fid_cq*, fi_cq_err_entry* entry, uint64_t flags);

  // Objects that the driver has asked for.
  void make_counter(Counter& counter);
  void make_region(Region& region);
  // Of a Counter.
  template <typename Base>
  static nic::CounterId id_of(const Base* counter) {
    return reinterpret_cast<const Counter*>(counter)->id;
  }

  Result<nic::Op> lower(const fi_msg_rma& message, uint64_t flags) const;
  Result<nic::Op> lower(const fi_msg_atomic& message, uint64_t flags) const;
  template <typename Message>
  Result<nic::Op> lower(nic::Op op, const Message& message, const void* local, uint64_t flags) const;
  // `work`: null where it is to run at once.
  int take_in(const Result<nic::Op>& op, const fi_deferred_work* work);
  bool refuses(const nic::Op& op) const;
  void tell_due(nic::CounterId counter, uint64_t reached);
  void fails(const Doomed& doomed);
  static bool is_said(const Doomed& failed);
  int doom(const Doomed& doomed);
  int refuse(int error);
  int mistake(const std::string& what);

  World& world_;
  StepNic& nic_;
  const uint32_t rank_;
  fid_fabric fabric_{};
  fid_domain domain_{};
  fid_av vector_{};
  fid_cq queue_{};
  fid_ep endpoint_{};
  bool enabled_ = false, opening_ = true;
  std::vector<uint32_t> peers_;   // ranks, by fi_addr_t
  std::vector<Region*> regions_;  // that are open
  std::vector<Event> events_;     // oldest first
  std::vector<Doomed> doomed_;
  std::vector<Doomed> unsaid_;  // that were due when their counter was read, and with the driver are still to come
  std::vector<nic::CounterValue> caused_;  // by counter
  // The successes that the driver has read last, while it has not read the failures.
  struct {
    nic::CounterId id;
    uint64_t success = 0;
  } read_;
  const uint32_t slots_;
  uint32_t slots_held_ = 0;
  // The operations that have not ended.
  struct Given {
    uint64_t note = 0;  // its address
    nic::CounterId completion;
  };
  std::vector<Given> given_;

  bool refused_ = false;
  bool refused_falsely_ = false;
  bool changed_ = false;
};

}  // namespace lanyard::nicsim

#endif  // LANYARD_NICSIM_DETERMINISTIC_STEP_FABRIC_H_
