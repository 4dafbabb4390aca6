// StepFabric: the libfabric of the driver (transport/cxi) in a World. It has one domain with one
// endpoint on a StepNic, and the rules of the CXI provider (nicsim/README.md). It has no thread and
// never waits; steps of the world do the card's work.
//
// The model's counters have the driver's numbers, because both reuse the last freed number first.
// The model lacks the endpoint's counter, which the driver opens while it is itself being opened.
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

  // `world` and `nic` must outlive it. It becomes the model's witness.
  StepFabric(World& world, StepNic& nic, uint32_t rank);
  StepFabric(const StepFabric&) = delete;
  StepFabric& operator=(const StepFabric&) = delete;

  // Returns the libfabric for the driver. Its objects live in the arena.
  ofi::Library library();

  // The driver has opened. Later counters are the core's.
  void driver_is_open() { opening_ = false; }

  // True if the driver has completions to read.
  bool has_news() const { return !events_.empty(); }
  // The number of failures, of one context or of all, that the driver has not counted: errors that
  // it has not read, and refused operations that are due.
  uint64_t unread_failures(std::optional<uint64_t> context = std::nullopt) const;
  // True if the driver must drive again though there is no completion to read.
  bool wants_looks() const { return refused_ || !doomed_.empty(); }
  // True if an operation was refused, for now or for good, since forget_refusals().
  bool was_refused() const { return refused_; }
  // ... though there was room. Then the driver only needs to try again.
  bool was_refused_falsely() const { return refused_falsely_; }
  void forget_refusals() { refused_ = refused_falsely_ = false; }
  // Returns an operation that was refused for good and is due, if the driver has not noticed.
  std::optional<nic::Op> overdue() const;
  // The value that the counter must have: the sum of all calls of cause().
  nic::CounterValue caused(nic::CounterId counter) const;
  // Notes that the counter must count `times` operations or messages that have ended.
  void cause(nic::CounterId counter, Code code, uint64_t times);
  // True if a call has changed the card or its queue since the last take_changed().
  bool take_changed() { return std::exchange(changed_, false); }

  // The counters and regions that the driver has open.
  nic::Usage usage() const;

  // ---- As the model's witness
  void ended(const nic::Op& op, Code code) override;
  void canceled(const nic::Op& op) override;

 private:
  // The context of every libfabric object is the StepFabric.
  struct Counter : fid_cntr {
    nic::CounterId id;  // invalid: the endpoint's counter
  };
  struct Region : fid_mr {
    void* base = nullptr;
    uint64_t bytes = 0;
    nic::CounterId counts;
    bool bound = false;  // to the endpoint
    nic::RegionId id;
  };
  // A completion, or an error, for the driver to read.
  struct Event {
    void* context = nullptr;  // libfabric's
    uint64_t owner = 0;       // nic::Op::context
    int err = 0;
  };
  // An operation that was refused for good.
  struct Doomed {
    nic::Op op;
    nic::CounterId completion;  // counts its failure, by the driver's own call
    nic::CounterId trigger;     // invalid: due at once
    uint64_t threshold = 0;
  };
  // libfabric's tables of functions.
  struct Tables;
  void fill_tables();

  // ---- libfabric's functions
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

  // Fill in libfabric's part of an object.
  void make_counter(Counter& counter);
  void make_region(Region& region);
  // The id of a Counter, from a pointer to its base.
  template <typename Base>
  static nic::CounterId id_of(const Base* counter) {
    return reinterpret_cast<const Counter*>(counter)->id;
  }

  Result<nic::Op> lower(const fi_msg_rma& message, uint64_t flags) const;
  Result<nic::Op> lower(const fi_msg_atomic& message, uint64_t flags) const;
  template <typename Message>
  Result<nic::Op> lower(nic::Op op, const Message& message, const void* local, uint64_t flags) const;
  // Queues the operation as `work`, or runs it now if `work` is null.
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
  std::vector<uint32_t> peers_;            // ranks, by fi_addr_t
  std::vector<Region*> regions_;           // open
  std::vector<Event> events_;              // oldest first
  std::vector<Doomed> doomed_;             // not due when the driver last read their triggers
  std::vector<Doomed> unsaid_;             // due, and perhaps not yet counted as failed by the driver
  std::vector<nic::CounterValue> caused_;  // by counter
  // The successes that the driver has read, until it reads the failures.
  struct {
    nic::CounterId id;
    uint64_t success = 0;
  } read_;
  const uint32_t slots_;
  uint32_t slots_held_ = 0;
  // An operation in flight.
  struct Given {
    uint64_t note = 0;  // libfabric's context of it
    nic::CounterId completion;
  };
  std::vector<Given> given_;

  bool refused_ = false;
  bool refused_falsely_ = false;
  bool changed_ = false;
};

}  // namespace lanyard::nicsim

#endif  // LANYARD_NICSIM_DETERMINISTIC_STEP_FABRIC_H_
