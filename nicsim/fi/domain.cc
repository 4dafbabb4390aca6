#include "nicsim/fi/domain.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "nicsim/fi/endpoint.h"
#include "nicsim/fi/queue.h"
#include "transport/cxi/cxi_extension.h"

namespace lanyard::nicsim::fi {

namespace {

// No memory is ever mapped below this address.
constexpr uintptr_t kWindowBase = 4096;

}  // namespace

Domain::Domain(Fabric& fabric, const fi_info& info, const Settings& settings, std::unique_ptr<Wire> wire,
               LateWire* late_wire, std::unique_ptr<SharedPool> pool)
    : fabric_(use(fabric)),
      settings_(settings),
      caps_(info.caps),
      late_wire_(late_wire),
      nic_(settings.limits(), std::move(wire)),
      peers_(nic_, settings.numbering),
      trigger_queue_(nic_, std::move(pool), settings.refuses_without_entry,
                     [this](const nic::Op& op) { report(op, Code::kNotFound); }) {
  nic_.set_witness(this);
}

Domain::~Domain() { nic_.set_witness(nullptr); }

Result<std::unique_ptr<Domain>> Domain::create(Fabric& fabric, const fi_info& info, const Settings& settings) {
  LANYARD_ASSIGN_OR_RETURN(std::unique_ptr<Wire> wire, settings.open_wire());
  LateWire* late_wire = nullptr;
  if (settings.late_data) {
    auto late = std::make_unique<LateWire>(std::move(wire));
    late_wire = late.get();
    wire = std::move(late);
  }
  std::unique_ptr<SharedPool> pool;
  if (settings.shared_depth > 0) {
    LANYARD_ASSIGN_OR_RETURN(pool, SharedPool::open(settings.job, settings.shared_depth));
  }
  std::unique_ptr<Domain> domain(new Domain(fabric, info, settings, std::move(wire), late_wire, std::move(pool)));
  void* const base = reinterpret_cast<void*>(kWindowBase);
  LANYARD_ASSIGN_OR_RETURN(domain->window_,
                           domain->nic_.register_region(base, UINT64_MAX - kWindowBase, {}, {.remote = false}));
  return domain;
}

nic::LocalSpan Domain::local(const void* address) const {
  return {.region = window_, .offset = reinterpret_cast<uintptr_t>(address) - kWindowBase};
}

void Domain::progress() {
  (void)peers_.complete_if_whole(1);  // a caller that needs the table gets the error itself
  nic_.progress();
  trigger_queue_.give_back_what_fired();
}

// ---- Requests

std::optional<uint64_t> Domain::begin(const Request& request) {
  const std::lock_guard lock(events_mutex_);
  if (request.endpoint->slots_held == request.endpoint->slots())
    return std::nullopt;
  ++request.endpoint->slots_held;
  requests_.emplace(next_request_, request);
  return next_request_++;
}

void Domain::drop(uint64_t number) {
  const std::lock_guard lock(events_mutex_);
  if (const auto request = requests_.extract(number); request && request.mapped().endpoint != nullptr)
    --request.mapped().endpoint->slots_held;
}

void Domain::forget(Endpoint& endpoint) {
  const std::lock_guard lock(events_mutex_);
  for (auto& [number, request] : requests_) {
    if (request.endpoint == &endpoint)
      request.endpoint = nullptr;
  }
  for (CompletionQueue* queue : queues_)
    queue->forget(endpoint);
}

size_t Domain::in_flight() {
  const std::lock_guard lock(events_mutex_);
  return requests_.size();
}

// ---- Events

void Domain::ended(const nic::Op& op, Code code) {
  trigger_queue_.give_back_what_fired();
  report(op, code);
}

void Domain::report(const nic::Op& op, Code code) {
  const std::lock_guard lock(events_mutex_);
  const auto request = requests_.extract(op.context);
  if (request && request.mapped().endpoint != nullptr)
    request.mapped().endpoint->queue()->arrived(request.mapped(), code);
}

void Domain::canceled(const nic::Op& op) { drop(op.context); }

void Domain::retire(nic::CounterId counter) {
  for (const nic::Op& op : trigger_queue_.take_back(counter))
    drop(op.context);
  (void)nic_.cancel(counter);
  trigger_queue_.give_back_what_fired();
  {
    const std::lock_guard lock(retired_mutex_);
    retired_.push_back(counter);
  }
  close_retired();
}

void Domain::close_retired() {
  const std::lock_guard lock(retired_mutex_);
  std::erase_if(retired_, [this](nic::CounterId counter) { return nic_.close_counter(counter).ok(); });
}

void Domain::add_queue(CompletionQueue& queue) {
  const std::lock_guard lock(events_mutex_);
  queues_.push_back(&queue);
}

void Domain::remove_queue(CompletionQueue& queue) {
  const std::lock_guard lock(events_mutex_);
  std::erase(queues_, &queue);
}

void Domain::read_all_events() {
  const std::lock_guard lock(events_mutex_);
  for (CompletionQueue* queue : queues_)
    queue->read_events();
}

// ---- libfabric's interface

namespace {

int control_domain(struct fid* fid, int command, void* argument) {
  if (command == FI_FLUSH_WORK)
    return flush_work(*object_of<Domain>(fid));
  if (command != FI_QUEUE_WORK || argument == nullptr)
    return -FI_EINVAL;
  return queue_work(*object_of<Domain>(fid), *static_cast<struct fi_deferred_work*>(argument));
}

int get_dwq_depth(struct fid* fid, size_t* depth) {
  if (fid->fclass != FI_CLASS_DOMAIN)
    return -FI_EINVAL;
  // Like the CXI provider: it stores an int and widens it.
  *depth = static_cast<size_t>(static_cast<int>(object_of<Domain>(fid)->settings().dwq_depth));
  return 0;
}

ofi::CxiDomainOps cxi_domain_ops = table_of<ofi::CxiDomainOps>([](auto& ops) { ops.get_dwq_depth = get_dwq_depth; });

// "dom_ops_v1" to "dom_ops_v6" name one table, which only grew at its end.
int open_domain_ops(struct fid*, const char* name, uint64_t, void** ops, void*) {
  constexpr std::string_view kPrefix = "dom_ops_v";
  const std::string_view all(name);
  if (!all.starts_with(kPrefix) || all.size() != kPrefix.size() + 1 || all.back() < '1' || all.back() > '6')
    return -FI_EINVAL;
  *ops = &cxi_domain_ops;
  return 0;
}

fi_ops domain_fid_ops = fid_ops<Domain>(not_simulated, control_domain, open_domain_ops);

fi_ops_domain domain_ops = table_of<fi_ops_domain>([](auto& ops) {
  ops.av_open = open_address_vector;
  ops.cq_open = open_queue;
  ops.endpoint = open_endpoint;
  ops.cntr_open = open_counter;
});

fi_ops_mr region_ops = table_of<fi_ops_mr>([](auto& ops) { ops.regattr = open_region; });

}  // namespace

int open_domain(struct fid_fabric* fabric, struct fi_info* info, struct fid_domain** out, void* context) {
  if (info == nullptr || info->domain_attr == nullptr || info->domain_attr->name == nullptr ||
      std::string_view(info->domain_attr->name) != kDomainName)
    return refuse(FI_EINVAL, FI_LOG_DOMAIN, "fi_domain() needs an fi_info from this provider's fi_getinfo()");
  const Result<Settings> settings = Settings::from_environment();
  if (!settings.ok())
    return error_of(settings.status(), FI_LOG_DOMAIN);
  Result<std::unique_ptr<Domain>> domain = Domain::create(*object_of<Fabric>(fabric), *info, settings.value());
  if (!domain.ok())
    return error_of(domain.status(), FI_LOG_DOMAIN);
  Domain* made = domain.value().release();
  made->ops = &domain_ops;
  made->mr = &region_ops;
  return hand_out(made, FI_CLASS_DOMAIN, context, domain_fid_ops, out);
}

}  // namespace lanyard::nicsim::fi
