// The drivers of a World: the tables of functions that make a StepFabric a libfabric with one card,
// the steps in which drivers drive, and what other threads do meanwhile.
#include <fmt/format.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_errno.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <string_view>
#include <utility>

#include "nicsim/deterministic/world.h"
#include "transport/base/check.h"
#include "transport/cxi/cxi_extension.h"

namespace lanyard::nicsim {

namespace {

// Makes a table with the functions that the driver calls.
template <typename Table, typename Fill>
Table table_of(Fill fill) {
  Table functions{};
  functions.size = sizeof functions;
  fill(functions);
  return functions;
}

}  // namespace

struct StepFabric::Tables {
  template <typename Object>
  static StepFabric& fabric_of(Object* object) {
    return *static_cast<StepFabric*>(reinterpret_cast<fid*>(object)->context);
  }
  // Calls kMethod of the object's fabric.
  template <auto kMethod, typename Returned, typename Object, typename... Arguments>
  static Returned call(Object* object, Arguments... arguments) {
    return (fabric_of(object).*kMethod)(object, arguments...);
  }
  // Opens a part that lives as long as the fabric.
  template <auto kPart, typename Object, typename Attributes, typename Part>
  static int give(Object* object, Attributes*, Part** out, void*) {
    *out = &(fabric_of(object).*kPart);
    return 0;
  }
  static int stays(fid*) { return 0; }
  static int depth(fid* domain, size_t* depth) {
    *depth = fabric_of(domain).nic_.caps().deferred_depth;
    return 0;
  }
  static int open_domain_ops(fid*, const char* name, uint64_t, void** operations, void*) {
    static ofi::CxiDomainOps table = [] {
      ofi::CxiDomainOps functions{};
      functions.get_dwq_depth = depth;
      return functions;
    }();
    if (std::string_view(name) != ofi::kCxiDomainOps[0])
      return -FI_EINVAL;
    *operations = &table;
    return 0;
  }

  static inline fi_ops stays_fid = table_of<fi_ops>([](fi_ops& ops) { ops.close = stays; });
  static inline fi_ops_fabric fabric =
      table_of<fi_ops_fabric>([](fi_ops_fabric& ops) { ops.domain = give<&StepFabric::domain_>; });
  static inline fi_ops domain_fid = table_of<fi_ops>([](fi_ops& ops) {
    ops.close = stays;
    ops.control = call<&StepFabric::queue_work>;
    ops.ops_open = open_domain_ops;
  });
  static inline fi_ops_domain domain = table_of<fi_ops_domain>([](fi_ops_domain& ops) {
    ops.av_open = give<&StepFabric::vector_>;
    ops.cq_open = give<&StepFabric::queue_>;
    ops.endpoint = give<&StepFabric::endpoint_>;
    ops.cntr_open = call<&StepFabric::open_counter>;
  });
  static inline fi_ops_mr regions =
      table_of<fi_ops_mr>([](fi_ops_mr& ops) { ops.regattr = call<&StepFabric::open_region>; });
  static inline fi_ops region_fid = table_of<fi_ops>([](fi_ops& ops) {
    ops.close = call<&StepFabric::close_region>;
    ops.bind = call<&StepFabric::bind_region>;
    ops.control = call<&StepFabric::enable_region>;
  });
  static inline fi_ops_av vector = table_of<fi_ops_av>([](fi_ops_av& ops) { ops.insert = call<&StepFabric::insert>; });
  static inline fi_ops_cq queue = table_of<fi_ops_cq>([](fi_ops_cq& ops) {
    ops.read = call<&StepFabric::read_queue>;
    ops.readerr = call<&StepFabric::read_error>;
  });
  // Counters have no registers to ring: host streams ring by calls.
  static inline fi_ops counter_fid = table_of<fi_ops>([](fi_ops& ops) {
    ops.close = call<&StepFabric::close_counter>;
    ops.ops_open = [](fid*, const char*, uint64_t, void**, void*) { return -FI_ENOSYS; };
  });
  static inline fi_ops_cntr counter = table_of<fi_ops_cntr>([](fi_ops_cntr& ops) {
    ops.read = [](fid_cntr* counter) { return fabric_of(counter).read(counter, false); };
    ops.readerr = [](fid_cntr* counter) { return fabric_of(counter).read(counter, true); };
    ops.add = call<&StepFabric::add>;
    ops.adderr = call<&StepFabric::add_failures>;
    ops.set = call<&StepFabric::set>;
    ops.seterr = call<&StepFabric::set_failures>;
  });
  static inline fi_ops endpoint_fid = table_of<fi_ops>([](fi_ops& ops) {
    ops.close = stays;
    ops.bind = [](fid*, fid*, uint64_t) { return 0; };
    ops.control = call<&StepFabric::enable_endpoint>;
  });
  static inline fi_ops_cm names =
      table_of<fi_ops_cm>([](fi_ops_cm& ops) { ops.getname = call<&StepFabric::name_endpoint>; });
  static inline fi_ops_rma writes =
      table_of<fi_ops_rma>([](fi_ops_rma& ops) { ops.writemsg = call<&StepFabric::start_now<fi_msg_rma>>; });
  static inline fi_ops_atomic atomics =
      table_of<fi_ops_atomic>([](fi_ops_atomic& ops) { ops.writemsg = call<&StepFabric::start_now<fi_msg_atomic>>; });
};

void StepFabric::fill_tables() {
  fabric_.fid = {.fclass = FI_CLASS_FABRIC, .context = this, .ops = &Tables::stays_fid};
  fabric_.ops = &Tables::fabric;
  domain_.fid = {.fclass = FI_CLASS_DOMAIN, .context = this, .ops = &Tables::domain_fid};
  domain_.ops = &Tables::domain;
  domain_.mr = &Tables::regions;
  vector_.fid = {.fclass = FI_CLASS_AV, .context = this, .ops = &Tables::stays_fid};
  vector_.ops = &Tables::vector;
  queue_.fid = {.fclass = FI_CLASS_CQ, .context = this, .ops = &Tables::stays_fid};
  queue_.ops = &Tables::queue;
  endpoint_.fid = {.fclass = FI_CLASS_EP, .context = this, .ops = &Tables::endpoint_fid};
  endpoint_.cm = &Tables::names;
  endpoint_.rma = &Tables::writes;
  endpoint_.atomic = &Tables::atomics;
}

void StepFabric::make_counter(Counter& counter) {
  counter.fid = {.fclass = FI_CLASS_CNTR, .context = this, .ops = &Tables::counter_fid};
  counter.ops = &Tables::counter;
}

void StepFabric::make_region(Region& region) {
  region.fid = {.fclass = FI_CLASS_MR, .context = this, .ops = &Tables::region_fid};
}

// ---- The library

namespace {

std::string card_name = StepFabric::kCard;

// An fi_info with all its parts.
struct WholeInfo : fi_info {
  fi_tx_attr transmits{};
  fi_rx_attr receives{};
  fi_ep_attr endpoint{};
  fi_domain_attr domain{};
  fi_fabric_attr fabric{};
};

// Copies all but the provider's name, which the original keeps.
fi_info* dup_info(const fi_info* info) {
  auto* copy = info == nullptr ? new WholeInfo{} : new WholeInfo(*static_cast<const WholeInfo*>(info));
  copy->tx_attr = &copy->transmits;
  copy->rx_attr = &copy->receives;
  copy->ep_attr = &copy->endpoint;
  copy->domain_attr = &copy->domain;
  copy->fabric_attr = &copy->fabric;
  copy->fabric.prov_name = nullptr;
  return copy;
}

void free_info(fi_info* info) {
  std::free(info->fabric_attr->prov_name);  // allocated by the driver, for hints
  delete static_cast<WholeInfo*>(info);
}

int get_info(uint32_t, const char*, const char*, uint64_t, const fi_info* hints, fi_info** out) {
  fi_info* found = *out = dup_info(nullptr);
  found->caps = hints->caps;
  found->addr_format = FI_ADDR_CXI;
  found->ep_attr->type = FI_EP_RDM;
  found->ep_attr->max_msg_size = SIZE_MAX;
  found->domain_attr->name = card_name.data();
  found->domain_attr->mr_mode = FI_MR_ENDPOINT | FI_MR_ALLOCATED;
  return 0;
}

}  // namespace

ofi::Library StepFabric::library() {
  ofi::Library library;
  library.getinfo = get_info;
  library.freeinfo = free_info;
  library.dupinfo = dup_info;
  library.fabric = [](fi_fabric_attr*, fid_fabric** out, void* context) {
    *out = &static_cast<StepFabric*>(context)->fabric_;
    return 0;
  };
  library.version_number = [] { return static_cast<uint32_t>(FI_VERSION(1, 15)); };
  library.context = this;
  return library;
}

// ---- Driving

Process::Driver::Driver(World& world, StepNic& card, uint32_t rank, const ModelLimits& limits)
    : fabric(world, card, rank) {
  auto opened = ofi::OfiNic::open({.domain = StepFabric::kCard,
                                   .deferred_depth = limits.deferred_depth,
                                   .max_counters = limits.max_counters,
                                   .max_regions = limits.max_regions,
                                   .max_message_bytes = limits.max_message_bytes,
                                   .max_issued = limits.max_in_flight,
                                   .own_thread = false,
                                   .library = fabric.library()});
  LANYARD_CHECK(opened.ok(), opened.status().message().c_str());
  nic = std::move(opened.value());
  fabric.driver_is_open();
}

void World::introduce_drivers() {
  std::vector<nic::Address> all;
  for (const auto& process : state_->processes)
    all.push_back(process->card().address());
  for (const auto& process : state_->processes) {
    const Status status = process->card().set_peers(all, process->rank);
    LANYARD_CHECK(status.ok(), status.message().c_str());
  }
}

void World::take_drive(Process& process) {
  Process::Driver& driver = *process.driver;
  driver.fabric.forget_refusals();
  (void)process.nic.gave_stale_value();
  state_->driving = process.rank;
  const uint64_t failures = driver.nic->failures();
  const size_t steps = driver.nic->progress();
  state_->driving = kNone;
  // A refused operation that came due when others read its counter makes no libfabric event.
  if (steps > 0 || driver.nic->failures() != failures)
    nic_changed(process);
  // After a stale counter value or a false refusal the driver must look again.
  driver.idle = steps == 0 && !process.nic.gave_stale_value() && !driver.fabric.was_refused_falsely();
}

// Called when the driver's thread reads its queue. Streams may ring and the host may start
// requests. They find that another thread drives, and leave their commands to it.
void World::act_meanwhile(uint32_t rank) {
  if (state_->driving != rank)
    return;
  Process& process = *state_->processes[rank];
  for (uint32_t queue = 0; queue < process.streams.size(); ++queue) {
    const StepStream& stream = process.streams[queue]->stream;
    const bool goes_on = !stream.empty() &&
                         (stream.front().kind == StepItem::Kind::kRing || stream.front().kind == StepItem::Kind::kMove);
    if (goes_on && chance(ChoiceKind::kMeanwhile))
      take_stream(process, queue);
  }
  if (may_start_meanwhile(process) && chance(ChoiceKind::kMeanwhile))
    take_host(process);
}

// True if the host's next action is a start that reads no counter and prepares no operation: those
// calls would wait for the right to drive.
bool World::may_start_meanwhile(const Process& process) {
  if (options_.failures || options_.kills || process.card().failures() > 0 || !process.endpoint.overflow().empty() ||
      !is_enabled(agent(process.rank, StepKind::kHost)))
    return false;
  const Action& action = process.program[process.next_action];
  return action.kind == Action::Kind::kStart && all_of(action, [&](const Side& side) {
           return side.core != nullptr && side.core->matched() && side.core->is_prepared() &&
                  (!side.core->trigger.valid() ||
                   side.core->bell.queue == process.streams[action.queue]->queue->number());
         });
}

void World::drivers_changed() {
  for (const auto& process : state_->processes) {
    if (process->killed)
      continue;
    Process::Driver& driver = *process->driver;
    if (driver.fabric.take_changed())
      nic_changed(*process);
    set_enabled(process->rank, StepKind::kDrive,
                driver.fabric.has_news() || (driver.fabric.wants_looks() && !driver.idle));
  }
}

// Lands what has begun to land in the region. The close of a region cannot wait for it.
void World::finish_landing(uint32_t rank, uint64_t key) {
  for (uint32_t place = 0; place < state_->transits.size(); ++place) {
    const Transit& transit = state_->transits[place];
    if (!transit.is_landing() || transit.to != rank || transit.packet.key != key)
      continue;
    if (!options_.failures && !options_.kills)
      find(Finding::kUser, "lifetime",
           fmt::format("rank {} frees a request while the other side's next start writes to it", rank));
    while (transit.is_landing())
      take_transit(place);
  }
}

// Returns how many failed operations of the request its driver has not read yet.
uint64_t World::unread_failures(const Side& side) const {
  const Process& process = *state_->processes[side.rank];
  return process.driver == nullptr ? 0 : process.driver->fabric.unread_failures(side.number);
}

}  // namespace lanyard::nicsim
