#include "nicsim/fi/domain.h"

#include <rdma/fi_domain.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "nicsim/fi/address_vector.h"
#include "nicsim/fi/counter.h"
#include "nicsim/fi/endpoint.h"
#include "nicsim/fi/provider.h"
#include "nicsim/fi/queue.h"
#include "nicsim/fi/region.h"
#include "nicsim/fi/transfer.h"
#include "transport/cxi/cxi_extension.h"

namespace lanyard::nicsim::fi {

namespace {

// No memory is ever mapped below this address.
constexpr uintptr_t kWindowBase = 4096;

}  // namespace

Domain::Domain(Fabric& fabric, const fi_info& info, const Settings& settings, std::unique_ptr<Wire> wire,
               LateWire* late_wire)
    : fid_domain(),
      fabric_(fabric),
      settings_(settings),
      counts_remote_writes_((info.caps & FI_RMA_EVENT) != 0),
      takes_device_memory_((info.caps & FI_HMEM) != 0),
      late_wire_(late_wire),
      nic_(std::make_unique<ThreadedNic>(settings.limits(), std::move(wire))) {
  fabric_.domains.fetch_add(1);
}

Domain::~Domain() {
  nic_->set_witness(nullptr);
  fabric_.domains.fetch_sub(1);
}

Result<std::unique_ptr<Domain>> Domain::create(Fabric& fabric, const fi_info& info, const Settings& settings) {
  Result<std::unique_ptr<Wire>> wire = settings.open_wire();
  if (!wire.ok())
    return wire.status();
  LateWire* late_wire = nullptr;
  if (settings.late_data) {
    auto late = std::make_unique<LateWire>(std::move(wire.value()));
    late_wire = late.get();
    wire.value() = std::move(late);
  }
  std::unique_ptr<Domain> domain(new Domain(fabric, info, settings, std::move(wire.value()), late_wire));
  LANYARD_RETURN_IF_ERROR(domain->prepare());
  return domain;
}

Status Domain::prepare() {
  std::unique_ptr<SharedPool> pool;
  if (settings_.shared_depth > 0) {
    Result<std::unique_ptr<SharedPool>> opened = SharedPool::open(settings_.job, settings_.shared_depth);
    if (!opened.ok())
      return opened.status();
    pool = std::move(opened.value());
  }
  const Result<nic::RegionId> window =
      nic_->register_region(reinterpret_cast<void*>(kWindowBase), UINT64_MAX - kWindowBase, {}, {.remote = false});
  if (!window.ok())
    return window.status();
  window_ = window.value();
  peers_ = std::make_unique<PeerTable>(*nic_, settings_.numbering);
  trigger_queue_ = std::make_unique<TriggerQueue>(*nic_, std::move(pool), settings_.refuses_without_entry,
                                                  [this](const nic::Op& op) { report(op, Code::kNotFound); });
  nic_->set_witness(this);
  return {};
}

nic::LocalSpan Domain::local(const void* address) const {
  return {.region = window_, .offset = reinterpret_cast<uintptr_t>(address) - kWindowBase};
}

void Domain::progress() {
  (void)peers_->complete_if_whole(1);  // a caller that needs the table gets the error itself
  nic_->progress();
  trigger_queue_->give_back_what_fired();
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
  trigger_queue_->give_back_what_fired();
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
  for (const nic::Op& op : trigger_queue_->cancel(counter))
    drop(op.context);
  (void)nic_->cancel(counter);
  trigger_queue_->give_back_what_fired();
  {
    const std::lock_guard lock(retired_mutex_);
    retired_.push_back(counter);
  }
  close_retired();
}

void Domain::close_retired() {
  const std::lock_guard lock(retired_mutex_);
  std::erase_if(retired_, [this](nic::CounterId counter) { return nic_->close_counter(counter).ok(); });
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

Domain* domain_of(struct fid* fid) { return object_of<Domain, fid_domain>(fid); }

int close_domain(struct fid* fid) {
  Domain* domain = domain_of(fid);
  if (domain->has_children())
    return -FI_EBUSY;
  delete domain;
  return 0;
}

int control_domain(struct fid* fid, int command, void* argument) {
  if (command == FI_FLUSH_WORK)
    return flush_work(*domain_of(fid));
  if (command != FI_QUEUE_WORK || argument == nullptr)
    return -FI_EINVAL;
  return queue_work(*domain_of(fid), *static_cast<struct fi_deferred_work*>(argument));
}

int get_dwq_depth(struct fid* fid, size_t* depth) {
  if (fid->fclass != FI_CLASS_DOMAIN)
    return -FI_EINVAL;
  // Like the CXI provider: it stores an int and widens it.
  *depth = static_cast<size_t>(static_cast<int>(domain_of(fid)->settings().dwq_depth));
  return 0;
}

ofi::CxiDomainOps cxi_domain_ops = {
    .cntr_read = not_simulated,
    .topology = not_simulated,
    .enable_hybrid_mr_desc = not_simulated,
    .ep_get_unexp_msgs = not_simulated,
    .get_dwq_depth = get_dwq_depth,
    .enable_mr_match_events = not_simulated,
    .enable_optimized_mrs = not_simulated,
};

// "dom_ops_v1" to "dom_ops_v6" name one table, which only grew at its end.
int open_domain_ops(struct fid*, const char* name, uint64_t, void** ops, void*) {
  constexpr std::string_view kPrefix = "dom_ops_v";
  const std::string_view all(name);
  if (!all.starts_with(kPrefix) || all.size() != kPrefix.size() + 1 || all.back() < '1' || all.back() > '6')
    return -FI_EINVAL;
  *ops = &cxi_domain_ops;
  return 0;
}

fi_ops domain_fid_ops = fid_ops(close_domain, not_simulated, control_domain, open_domain_ops);

fi_ops_domain domain_ops = {
    .size = sizeof(fi_ops_domain),
    .av_open = open_address_vector,
    .cq_open = open_queue,
    .endpoint = open_endpoint,
    .scalable_ep = not_simulated,
    .cntr_open = open_counter,
    .poll_open = not_simulated,
    .stx_ctx = not_simulated,
    .srx_ctx = not_simulated,
    .query_atomic = not_simulated,
    .query_collective = not_simulated,
    .endpoint2 = nullptr,
};

fi_ops_mr region_ops = {
    .size = sizeof(fi_ops_mr),
    .reg = not_simulated,
    .regv = not_simulated,
    .regattr = open_region,
};

}  // namespace

int open_domain(struct fid_fabric* fabric, struct fi_info* info, struct fid_domain** out, void* context) {
  if (info == nullptr || info->domain_attr == nullptr || info->domain_attr->name == nullptr ||
      std::string_view(info->domain_attr->name) != kDomainName)
    return refuse(FI_EINVAL, FI_LOG_DOMAIN, "fi_domain() needs an fi_info from this provider's fi_getinfo()");
  const Result<Settings> settings = Settings::from_environment();
  if (!settings.ok())
    return error_of(settings.status(), FI_LOG_DOMAIN);
  Result<std::unique_ptr<Domain>> domain = Domain::create(*static_cast<Fabric*>(fabric), *info, settings.value());
  if (!domain.ok())
    return error_of(domain.status(), FI_LOG_DOMAIN);
  Domain* made = domain.value().release();
  made->fid = {.fclass = FI_CLASS_DOMAIN, .context = context, .ops = &domain_fid_ops};
  made->ops = &domain_ops;
  made->mr = &region_ops;
  *out = made;
  return 0;
}

}  // namespace lanyard::nicsim::fi
