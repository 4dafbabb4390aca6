#include "transport/cxi/ofi_nic.h"

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "transport/base/service_thread.h"
#include "transport/cxi/cxi_extension.h"
#include "transport/cxi/library.h"
#include "transport/nic/driver.h"

namespace lanyard::ofi {

using nic::CounterId;
using nic::kMaxFailure;
using nic::kMaxSuccess;
using nic::no_counter;
using nic::no_region;
using nic::RegionId;

namespace {

// The entries that a Slingshot NIC's default service leaves to jobs (512 less 8), if the provider
// does not tell.
constexpr uint32_t kUsualDepth = 504;
constexpr uint32_t kMostDepth = 2048;  // all the trigger entries of a Cassini NIC
constexpr uint32_t kRingsAnIssue = 4;  // room for so many rings per operation in the queue of commands
constexpr uint32_t kKeptFailures = 1024;

// The longest wait for the end of a fired operation, or until a counter's reading shows that
// it has fired.
constexpr std::chrono::milliseconds kPatience{1000};
constexpr std::chrono::milliseconds kReadingsLag{2};

// The longest sleep of wait_since(), since nothing wakes it.
constexpr std::chrono::microseconds kNap{50};

Status invalid(const char* what) { return {Code::kInvalidArgument, what}; }

// The error for an object that could not be opened. A full card reports "again", but
// waiting frees nothing.
Status not_opened(const Status& status) {
  return status.code() == Code::kAgain ? Status(Code::kExhausted, status.message()) : status;
}

// The registers of a counter, if the provider maps them.
Result<std::byte*> registers_of(fid_cntr* counter) {
  CxiCounterOps* operations = nullptr;
  LANYARD_RETURN_IF_ERROR(ofi_status(
      fi_open_ops(&counter->fid, kCxiCounterOps, 0, reinterpret_cast<void**>(&operations), nullptr), "fi_open_ops"));
  void* address = nullptr;
  size_t bytes = 0;
  LANYARD_RETURN_IF_ERROR(ofi_status(operations->get_mmio_addr(&counter->fid, &address, &bytes), "get_mmio_addr"));
  return static_cast<std::byte*>(address);
}

// Opens it in a thread that blocks the application's signals; the provider's threads inherit that.
Result<std::unique_ptr<Fabric>> open_fabric(const OfiOptions& options, size_t operations) {
  const auto open = [&] {
    return Fabric::open(options.domain, operations, options.device_memory != nullptr, options.library);
  };
  if (!options.own_thread)
    return open();
  Result<std::unique_ptr<Fabric>> fabric = Status(Code::kFailed, "the card was not opened");
  LANYARD_ASSIGN_OR_RETURN(std::thread opener, start_service_thread("lanyard-ofi", [&] { fabric = open(); }));
  opener.join();
  return fabric;
}

}  // namespace

// ---- Opening and closing

Result<std::unique_ptr<OfiNic>> OfiNic::open(const OfiOptions& options) {
  if (options.device_memory != nullptr)
    LANYARD_RETURN_IF_ERROR(MemoryKind::of_device(*options.device_memory, 0).status());
  const uint32_t most = options.deferred_depth > 0 ? options.deferred_depth : kMostDepth;
  LANYARD_ASSIGN_OR_RETURN(std::unique_ptr<Fabric> fabric, open_fabric(options, most + options.max_issued));
  const uint32_t queried = fabric->queried_depth();
  const uint32_t depth = std::min(queried > 0 ? queried : kUsualDepth, most);
  std::unique_ptr<OfiNic> nic(new OfiNic(std::move(fabric), options, depth));
  LANYARD_RETURN_IF_ERROR(nic->start());
  return nic;
}

OfiNic::OfiNic(std::unique_ptr<Fabric> fabric, const OfiOptions& options, uint32_t depth)
    : fabric_(std::move(fabric)),
      device_memory_(options.device_memory),
      own_thread_(options.own_thread),
      work_count_(depth + options.max_issued),
      works_(std::make_unique<Work[]>(work_count_)),
      failure_log_(kKeptFailures),
      commands_(depth + (1 + kRingsAnIssue) * options.max_issued),
      free_entries_(depth),
      free_issues_(options.max_issued) {
  fill_caps(options, depth);
  counters_ = std::vector<OfiCounter>(caps_.max_counters);
  regions_ = std::vector<OfiRegion>(caps_.max_regions);
  for (uint32_t i = caps_.max_counters; i-- > 0;)
    free_counters_.push_back(i);
  for (uint32_t i = caps_.max_regions; i-- > 0;)
    free_regions_.push_back(i);
  for (uint32_t i = work_count_; i-- > 0;) {
    works_[i].next_free = free_work_;
    free_work_ = &works_[i];
  }
  held_.reserve(work_count_);
}

void OfiNic::fill_caps(const OfiOptions& options, uint32_t depth) {
  const fi_info& info = fabric_->info();
  caps_.name = std::string("ofi/") + kProvider;
  caps_.provider = "libfabric " + fabric_->version() + ", domain " + info.domain_attr->name;
  caps_.deferred_depth = depth;
  // cntr_cnt and mr_cnt are what the provider thinks best (16 and 100 on Slingshot), not limits.
  caps_.max_counters = options.max_counters;
  caps_.max_regions = options.max_regions;
  caps_.max_message_bytes = std::min<uint64_t>(options.max_message_bytes, info.ep_attr->max_msg_size);
  caps_.doorbell_host_call = true;
  caps_.flush = true;
  caps_.device_memory = options.device_memory != nullptr && fabric_->takes_device_memory();
  // No documentation promises it for Slingshot.
  caps_.target_count_means_visible = false;
  // fi_endpoint(3) and fi_mr(3) allow any counter for each kind of event, and in fi_cntr(3)
  // one counts sends and receives. The provider binds both to one counting event of the
  // card (cxip_mr_bind, cxip_cntr).
  caps_.counters_count_both = options.counts_both;
  // The card counts failures itself and fires their chains before the host reads of them.
  caps_.failures_lag = true;
}

Status OfiNic::start() {
  LANYARD_ASSIGN_OR_RETURN(const Fid<fid_cntr> probe, open_provider_counter(fabric_->domain()));
  caps_.doorbell_mmio_add = registers_of(probe.get()).ok();
  for (uint32_t i = 0; i < work_count_; ++i)
    works_[i].prepare(*fabric_);
  if (own_thread_) {
    LANYARD_ASSIGN_OR_RETURN(owner_, start_service_thread("lanyard-ofi", [this] { run_owner(); }));
  }
  return {};
}

OfiNic::~OfiNic() {
  stopping_.store(true);
  if (owner_.joinable())
    owner_.join();
  (void)flush();
  // Regions are bound to the endpoint, so close them first.
  for (OfiRegion& region : regions_)
    region.close();
  fabric_->close_endpoint();
}

Status OfiNic::set_peers(std::span<const nic::Address> peers, uint32_t self) {
  Driving driving(*this);
  if (peer_count_.load() != 0)
    return {Code::kInvalidState, "set_peers() was called before"};
  if (self >= peers.size() || peers[self].bytes != fabric_->address().bytes)
    return invalid("the address at index self is not this NIC's");
  LANYARD_RETURN_IF_ERROR(fabric_->set_peers(peers));
  lost_ = std::make_unique<std::atomic<int>[]>(peers.size());
  known_ = std::make_unique<std::atomic<bool>[]>(peers.size());
  for (size_t rank = 0; rank < peers.size(); ++rank)
    known_[rank].store(!peers[rank].bytes.empty());
  peer_count_.store(static_cast<uint32_t>(peers.size()));
  return {};
}

Status OfiNic::add_peer(uint32_t peer, const nic::Address& address) {
  Driving driving(*this);
  if (peer >= peer_count_.load())
    return invalid("no such peer");
  if (known_[peer].load())
    return {Code::kInvalidState, "the peer's address is known already"};
  LANYARD_RETURN_IF_ERROR(fabric_->add_peer(peer, address));
  known_[peer].store(true);
  return {};
}

// libfabric does not distinguish a process that has ended from a broken network.
std::string OfiNic::why_lost(uint32_t peer) const {
  return "cannot be reached or has ended: " + ofi_status(-lost_[peer].load(), "libfabric").message();
}

// ---- Counters

Result<CounterId> OfiNic::open_counter() {
  Driving driving(*this);
  if (free_counters_.empty())
    return Status(Code::kExhausted, "all " + std::to_string(caps_.max_counters) + " counters are open");
  const CounterId id{free_counters_.back()};
  if (const Status status = counters_[id.value].open(fabric_->domain()); !status.ok())
    return not_opened(status);
  free_counters_.pop_back();
  return id;
}

template <typename Call, typename Uses, typename Names>
Status OfiNic::once_over(Call call, Uses uses, Names names) {
  const auto begin = std::chrono::steady_clock::now();
  while (true) {
    {
      Driving driving(*this);
      Status status = call();
      if (status.code() != Code::kInvalidState || !own_thread_)
        return status;
      uint32_t fired = 0;
      for (uint32_t i = 0; i < work_count_; ++i)
        if (works_[i].state != Work::State::kFree && is_due(works_[i]))
          fired += names(works_[i]);
      const auto patience = fired < uses() ? kReadingsLag : kPatience;
      if (std::chrono::steady_clock::now() - begin > patience)
        return status;
    }
    sched_yield();
  }
}

Status OfiNic::close_counter(CounterId id) {
  const auto close = [&]() -> Status {
    if (!is_open(id))
      return no_counter();
    OfiCounter& counter = counters_[id.value];
    if (counter.uses > 0)
      return {Code::kInvalidState, "the counter is named by " + std::to_string(counter.uses) +
                                       " entries, operations or regions, or by a listener"};
    counter.close();
    right_.assert_held();
    free_counters_.push_back(id.value);
    return {};
  };
  return once_over(
      close, [&] { return counters_[id.value].uses; },
      [&](const Work& work) { return (work.trigger == id) + (work.home == nullptr && work.op.completion == id); });
}

Result<nic::CounterValue> OfiNic::read(CounterId id) {
  Driving driving(*this);
  if (!is_open(id))
    return no_counter();
  return counters_[id.value].read();
}

Status OfiNic::add(CounterId id, uint64_t value) {
  Driving driving(*this);
  if (!is_open(id))
    return no_counter();
  if (value > kMaxSuccess - counters_[id.value].read().success)
    return invalid("a counter holds 48 bits of success");
  counters_[id.value].add(value);
  return {};
}

Status OfiNic::add_error(CounterId id, uint32_t value) {
  Driving driving(*this);
  if (!is_open(id))
    return no_counter();
  if (value > kMaxFailure - counters_[id.value].read().failure)
    return invalid("a counter holds 7 bits of failure");
  counters_[id.value].add_error(value);
  return {};
}

Status OfiNic::reset(CounterId id) {
  Driving driving(*this);
  if (!is_open(id))
    return no_counter();
  counters_[id.value].reset();
  heard_ = id == listened_ ? 0 : heard_;
  return {};
}

// The caller of a listener has the right to drive, so the listener is not running now.
Status OfiNic::listen(CounterId id, nic::Listener listener) {
  Driving driving(*this);
  if (!is_open(id))
    return no_counter();
  if (listener.call != nullptr && listener_.call != nullptr)
    return {Code::kInvalidState, "the NIC has a listener already"};
  if (listened_.valid())
    --counters_[listened_.value].uses;
  listened_ = listener.call != nullptr ? id : CounterId();
  listener_ = listener;
  if (listened_.valid()) {
    ++counters_[id.value].uses;
    heard_ = counters_[id.value].reached();
    next_look_ = {};
  }
  return {};
}

Result<nic::Doorbell> OfiNic::doorbell(CounterId id, nic::DoorbellKind kind) {
  Driving driving(*this);
  if (!is_open(id))
    return no_counter();
  nic::Doorbell bell{.kind = kind, .counter = id.value};
  switch (kind) {
    case nic::DoorbellKind::kMmioAdd: {
      if (!caps_.doorbell_mmio_add)
        break;
      LANYARD_ASSIGN_OR_RETURN(std::byte* const registers, registers_of(counters_[id.value].fid()));
      bell.word = reinterpret_cast<uint64_t*>(registers + kCxiAddOffset);
      return bell;
    }
    case nic::DoorbellKind::kAtomicAdd: break;
    case nic::DoorbellKind::kHostCall:
      bell.object = this;
      bell.call = [](void* object, uint32_t which, uint64_t value) {
        auto* nic = static_cast<OfiNic*>(object);
        nic->push([which, value](Command& command) {
          command.kind = Command::Kind::kRing;
          command.deferred.trigger = {which};
          command.deferred.threshold = value;
        });
        nic->progress();
      };
      return bell;
  }
  return Status(Code::kUnsupported,
                kind == nic::DoorbellKind::kMmioAdd
                    ? "the provider maps no counter registers: use a host-call doorbell"
                    : "this device has doorbells by registers or host calls, not by atomics on memory");
}

// ---- Regions

Result<MemoryKind> OfiNic::kind_of(const void* base, uint64_t bytes) const {
  if (device_memory_ == nullptr || bytes == 0)
    return MemoryKind{};
  LANYARD_ASSIGN_OR_RETURN(const int device, device_memory_->device_of(base, bytes));
  if (device == DeviceMemory::kHost)
    return MemoryKind{};
  if (!caps_.device_memory)
    return Status(Code::kUnsupported,
                  "the buffer is memory of " + std::string(device_memory_->kind()) + " device " +
                      std::to_string(device) + ", but provider \"" + kProvider + "\" of libfabric " +
                      fabric_->version() +
                      " takes none here (no FI_HMEM): use a buffer in host memory, or a libfabric built for that GPU");
  return MemoryKind::of_device(*device_memory_, device);
}

Result<RegionId> OfiNic::register_region(void* base, uint64_t bytes, CounterId remote_write) {
  Driving driving(*this);
  if (base == nullptr && bytes > 0)
    return invalid("a region that is not empty needs an address");
  if (remote_write.valid() && !is_open(remote_write))
    return no_counter();
  if (free_regions_.empty())
    return Status(Code::kExhausted, "all " + std::to_string(caps_.max_regions) + " regions are registered");
  LANYARD_ASSIGN_OR_RETURN(const MemoryKind kind, kind_of(base, bytes));
  LANYARD_ASSIGN_OR_RETURN(const nic::RemoteKey key, keys_.next(base));
  const RegionId id{free_regions_.back()};
  OfiCounter* counter = remote_write.valid() ? &counters_[remote_write.value] : nullptr;
  if (const Status status = regions_[id.value].open(*fabric_, {base, bytes, kind}, key, counter); !status.ok())
    return not_opened(status);
  free_regions_.pop_back();
  if (counter != nullptr)
    ++counter->uses;
  return id;
}

Status OfiNic::deregister_region(RegionId id) {
  const auto deregister = [&]() -> Status {
    if (!is_open(id))
      return no_region();
    OfiRegion& region = regions_[id.value];
    if (region.uses > 0)
      return {Code::kInvalidState, "the region is named by " + std::to_string(region.uses) + " entries or operations"};
    OfiCounter* counter = region.remote_write();
    region.close();
    if (counter != nullptr)
      --counter->uses;
    right_.assert_held();
    free_regions_.push_back(id.value);
    return {};
  };
  return once_over(
      deregister, [&] { return regions_[id.value].uses; },
      [&](const Work& work) { return work.home == nullptr && work.op.local.region == id ? 1 : 0; });
}

Result<nic::RemoteKey> OfiNic::key(RegionId id) const {
  if (!is_open(id))
    return no_region();
  return regions_[id.value].key();
}

// ---- State that other threads read

void OfiNic::wait_since(uint64_t seen, Nanoseconds timeout) {
  if (activity() == seen && timeout > Nanoseconds::zero())
    std::this_thread::sleep_for(std::min<Nanoseconds>(timeout, kNap));
}

std::optional<nic::FailureRecord> OfiNic::take_failure() {
  Driving driving(*this);
  return failure_log_.take();
}

bool OfiNic::confirms(std::span<const nic::ContextStarts> starts) {
  Driving driving(*this);
  return std::none_of(works_.get(), works_.get() + work_count_, [&](const Work& work) {
    return work.state != Work::State::kFree && std::any_of(starts.begin(), starts.end(), [&](const auto& asked) {
             return work.op.context == asked.context && work.op.start <= asked.starts;
           });
  });
}

nic::Usage OfiNic::usage() const {
  Driving driving(const_cast<OfiNic&>(*this));
  return {.counters = static_cast<uint32_t>(counters_.size() - free_counters_.size()),
          .regions = static_cast<uint32_t>(regions_.size() - free_regions_.size())};
}

}  // namespace lanyard::ofi
