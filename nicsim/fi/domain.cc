#include "nicsim/fi/domain.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "nicsim/fi/counter.h"
#include "nicsim/fi/domain_tables.h"
#include "nicsim/fi/endpoint.h"
#include "nicsim/fi/fabric.h"
#include "nicsim/fi/provider.h"
#include "nicsim/fi/queue.h"

namespace lanyard::nicsim::fi {

namespace {

// No memory is ever mapped below.
constexpr uintptr_t kWindowBase = 4096;

}  // namespace

Domain::Domain(Fabric& fabric, const fi_info& info, const Settings& settings, std::unique_ptr<Wire> wire,
               LateWire* late_wire)
    : fid_domain(),
      fabric_(fabric),
      settings_(settings),
      counts_remote_writes_((info.caps & FI_RMA_EVENT) != 0),
      provider_keys_((info.domain_attr->mr_mode & FI_MR_PROV_KEY) != 0),
      takes_device_memory_((info.caps & FI_HMEM) != 0),
      traffic_class_(info.domain_attr->tclass == FI_TC_UNSPEC ? uint32_t{FI_TC_BEST_EFFORT} : info.domain_attr->tclass),
      region_rules_{settings.optimized_regions, settings.cached_keys, settings.match_events},
      counters_(settings.limits().max_counters),
      late_wire_(late_wire),
      nic_(std::make_unique<ThreadedNic>(settings.limits(), std::move(wire))) {
  fabric_.domains.fetch_add(1);
}

Domain::~Domain() {
  trigger_queue_.reset();
  nic_.reset();  // its thread may be giving entries back until then
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
  share_ = std::make_unique<EntryShare>(*nic_, std::move(pool));
  nic_->set_witness(this);
  const Result<nic::RegionId> window =
      nic_->register_region(reinterpret_cast<void*>(kWindowBase), UINT64_MAX - kWindowBase, {}, {.remote = false});
  if (!window.ok())
    return window.status();
  window_ = window.value();
  peers_ = std::make_unique<PeerTable>(*nic_);
  trigger_queue_ =
      std::make_unique<TriggerQueue>(*nic_, *share_, settings_.pool, [this](const nic::Op& op) { lost(op); });
  return {};
}

nic::LocalSpan Domain::local(const void* address) const {
  return {.region = window_, .offset = reinterpret_cast<uintptr_t>(address) - kWindowBase};
}

bool Domain::claim_key(uint64_t key) {
  const std::lock_guard lock(keys_mutex_);
  return claimed_keys_.insert(key).second;
}

void Domain::release_key(uint64_t key) {
  const std::lock_guard lock(keys_mutex_);
  claimed_keys_.erase(key);
}

void Domain::progress() {
  peers_->complete_if_whole(1);
  nic_->progress();
  share_->give_back_what_fired();
}

// ---- Requests

std::optional<uint64_t> Domain::begin(const Request& request) {
  const std::lock_guard lock(events_mutex_);
  if (request.holds_slot) {
    if (request.endpoint->slots_held == request.endpoint->slots())
      return std::nullopt;
    ++request.endpoint->slots_held;
  }
  return requests_.add(request);
}

void Domain::release(const Request& request) {
  if (request.endpoint != nullptr && request.holds_slot)
    --request.endpoint->slots_held;
}

void Domain::drop(uint64_t number) {
  const std::lock_guard lock(events_mutex_);
  if (const std::optional<Request> request = requests_.take(number))
    release(*request);
}

void Domain::forget(Endpoint& endpoint) {
  const std::lock_guard lock(events_mutex_);
  requests_.forget(&endpoint);
  for (CompletionQueue* queue : queues_)
    queue->forget(endpoint);
}

size_t Domain::under_way() {
  const std::lock_guard lock(events_mutex_);
  return requests_.size();
}

// ---- Events

void Domain::ended(const nic::Op& op, Code code, nic::CounterValue value) {
  share_->give_back_what_fired();
  // The answer has gone the way of the data, behind it. Nobody has seen the count yet, which goes with this step.
  if (nic::fetches(op) && op.remote.peer == peers_->self())
    settle();
  const std::lock_guard lock(events_mutex_);
  if (op.context == RequestTable::kWriteback) {
    if (Counter* counter = counters_[op.counter.value])
      counter->write_back(value);
    return;
  }
  // CXI writes a counter back when its failures leave zero.
  if (code != Code::kOk && value.failure == 1 && op.completion.valid()) {
    if (Counter* counter = counters_[op.completion.value])
      counter->write_back(value);
  }
  const std::optional<Request> request = requests_.take(op.context);
  if (request.has_value() && request->endpoint != nullptr)
    request->endpoint->queue()->arrived(*request, code);
}

void Domain::canceled(const nic::Op& op) { drop(op.context); }

void Domain::add_counter(Counter& counter) {
  const std::lock_guard lock(events_mutex_);
  counters_[counter.id().value] = &counter;
}

// Its number may have been given to a new counter by now.
void Domain::remove_counter(Counter& counter) {
  const std::lock_guard lock(events_mutex_);
  Counter*& place = counters_[counter.id().value];
  if (place == &counter)
    place = nullptr;
}

void Domain::retire(nic::CounterId counter) {
  for (const nic::Op& op : trigger_queue_->cancel(counter))
    drop(op.context);
  (void)nic_->cancel(counter);
  share_->give_back_what_fired();
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

int open_domain(struct fid_fabric* fabric, struct fi_info* info, struct fid_domain** out, void* context) {
  if (out == nullptr)
    return -FI_EINVAL;
  if (info == nullptr || info->domain_attr == nullptr || info->domain_attr->name == nullptr ||
      std::string_view(info->domain_attr->name) != kDomainName)
    return refuse(FI_EINVAL, FI_LOG_DOMAIN, "the info is not of this provider");
  // cxip_dom.c: cxip_domain()
  const uint32_t traffic_class = info->domain_attr->tclass;
  if (traffic_class != FI_TC_UNSPEC && (traffic_class < FI_TC_LABEL || traffic_class > FI_TC_SCAVENGER))
    return refuse(FI_EINVAL, FI_LOG_DOMAIN, "no such traffic class");
  const Result<Settings> settings = Settings::from_environment();
  if (!settings.ok())
    return error_of(settings.status(), FI_LOG_DOMAIN);
  Result<std::unique_ptr<Domain>> domain = Domain::create(*static_cast<Fabric*>(fabric), *info, settings.value());
  if (!domain.ok())
    return error_of(domain.status(), FI_LOG_DOMAIN);
  fill_tables(*domain.value(), context);
  *out = domain.value().release();
  return 0;
}

}  // namespace lanyard::nicsim::fi
