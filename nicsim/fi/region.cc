#include "nicsim/fi/region.h"

#include <new>

#include "nicsim/fi/counter.h"
#include "nicsim/fi/endpoint.h"
#include "nicsim/fi/provider.h"
#include "nicsim/fi/remote_key.h"

namespace lanyard::nicsim::fi {

Region::Region(Domain& domain, const fi_mr_attr& attributes, uint64_t flags)
    : fid_mr(),
      domain_(domain),
      memory_(attributes.mr_iov[0]),
      access_(attributes.access),
      requested_key_(attributes.requested_key),
      wants_events_((flags & FI_RMA_EVENT) != 0),
      match_events_(domain.region_rules().match_events) {}

// cxip_mr.c: cxip_mr_domain_insert()
int Region::claim_key() {
  if (!RemoteKey(requested_key_).valid())
    return refuse(FI_EKEYREJECTED, FI_LOG_MR, "a key of the user's has 4 bytes");
  if (!domain_.claim_key(requested_key_))
    return refuse(FI_ENOKEY, FI_LOG_MR, "the key is another region's");
  key_is_claimed_ = true;
  key = requested_key_;
  return 0;
}

// cxip_mr.c: cxip_mr_enable(), cxip_prov_cache_init_mr_key(). Memory is registered once for all regions that nobody
// counts.
uint64_t Region::provider_key() const {
  const Domain::RegionRules& rules = domain_.region_rules();
  RemoteKey::Made made{.number = domain_.next_key(), .optimized = rules.optimized};
  made.events = counter_ != nullptr || wants_events_ || match_events_;
  made.cached = rules.cached_keys && !made.events && memory_.iov_len > 0;
  return RemoteKey::make(made);
}

// cxip_mr.c: cxip_mr_bind()
int Region::bind(Endpoint& endpoint) {
  const std::lock_guard lock(mutex_);
  if (endpoint_ != nullptr)
    return refuse(FI_EINVAL, FI_LOG_MR, "the region is bound already");
  if (&endpoint.domain() != &domain_ || !endpoint.enabled())
    return refuse(FI_EINVAL, FI_LOG_MR, "regions are bound to enabled endpoints of their domain");
  if (wants_events_ && (endpoint.caps() & FI_RMA_EVENT) == 0)
    return refuse(FI_EINVAL, FI_LOG_MR, "a region with FI_RMA_EVENT is bound to an endpoint that has it");
  endpoint_ = &endpoint;
  endpoint.regions.fetch_add(1);
  return 0;
}

int Region::bind(Counter& counter, uint64_t flags) {
  const std::lock_guard lock(mutex_);
  if (&counter.domain() != &domain_ || (flags & FI_REMOTE_WRITE) == 0)
    return refuse(FI_EINVAL, FI_LOG_MR, "counters of the domain count FI_REMOTE_WRITE");
  if (!domain_.counts_remote_writes())
    return refuse(FI_EINVAL, FI_LOG_MR, "the domain was opened without FI_RMA_EVENT");
  if (counter_ != nullptr || id_.valid())
    return refuse(FI_EINVAL, FI_LOG_MR, "the counter is bound once, before the region is enabled");
  counter_ = &counter;
  counter.bound.fetch_add(1);
  return 0;
}

int Region::enable() {
  const std::lock_guard lock(mutex_);
  if (id_.valid())
    return 0;
  if (endpoint_ == nullptr)
    return refuse(FI_EINVAL, FI_LOG_MR, "a region is bound to an endpoint before it is enabled");
  if (!is_remote())
    return 0;
  const uint64_t chosen = domain_.provider_keys() ? provider_key() : requested_key_;
  RegionOptions options{.key = chosen};
  // cxip_mr.c: cxip_mr_enable_std(), cxip_mr_prov_cache_enable_std(): what is shared lets everything in.
  options.writable = (access_ & FI_REMOTE_WRITE) != 0 || RemoteKey(chosen).cached();
  const Result<nic::RegionId> id = domain_.nic().register_region(
      memory_.iov_base, memory_.iov_len, counter_ == nullptr ? nic::CounterId() : counter_->id(), options);
  if (!id.ok())
    return error_of(id.status(), FI_LOG_MR);
  id_ = id.value();
  key = chosen;
  return 0;
}

void Region::close() {
  const std::lock_guard lock(mutex_);
  // Nothing but messages uses it, and it is waited for them: the NIC's own accesses go through the
  // domain's window.
  if (id_.valid())
    static_cast<void>(domain_.nic().deregister_region(id_).ok());
  domain_.settle();
  if (key_is_claimed_)
    domain_.release_key(requested_key_);
  if (endpoint_ != nullptr)
    endpoint_->regions.fetch_sub(1);
  if (counter_ != nullptr)
    counter_->bound.fetch_sub(1);
}

namespace {

Region* region_of(struct fid* fid) { return object_of<Region, fid_mr>(fid); }

int close_region(struct fid* fid) {
  Region* region = region_of(fid);
  region->close();
  region->domain().close_child();
  delete region;
  return 0;
}

int bind_region(struct fid* fid, struct fid* to, uint64_t flags) {
  if (to == nullptr)
    return -FI_EINVAL;
  if (to->fclass == FI_CLASS_EP)
    return region_of(fid)->bind(*object_of<Endpoint, fid_ep>(to));
  if (to->fclass == FI_CLASS_CNTR)
    return region_of(fid)->bind(*object_of<Counter, fid_cntr>(to), flags);
  return -FI_EINVAL;
}

int control_region(struct fid* fid, int command, void*) {
  return command == FI_ENABLE ? region_of(fid)->enable() : -FI_EINVAL;
}

fi_ops region_fid_ops = {
    .size = sizeof(fi_ops),
    .close = close_region,
    .bind = bind_region,
    .control = control_region,
    .ops_open = not_simulated,
    .tostr = nullptr,
    .ops_set = nullptr,
};

}  // namespace

int open_region_of_attributes(struct fid* fid, const struct fi_mr_attr* attributes, uint64_t flags,
                              struct fid_mr** out) {
  if (fid->fclass != FI_CLASS_DOMAIN || attributes == nullptr || attributes->mr_iov == nullptr || out == nullptr)
    return -FI_EINVAL;
  auto* domain = object_of<Domain, fid_domain>(fid);
  if (attributes->iov_count != 1)
    return refuse(FI_ENOSYS, FI_LOG_MR, "regions are one piece of memory");
  const bool is_device = attributes->iface == FI_HMEM_CUDA || attributes->iface == FI_HMEM_ROCR;
  if (attributes->iface != FI_HMEM_SYSTEM && !(is_device && domain->takes_device_memory()))
    return refuse(FI_ENOSYS, FI_LOG_MR,
                  "device memory wants a domain with FI_HMEM (LANYARD_FI_HMEM), CUDA's or ROCm's");
  // cxip_mr.c: cxip_regattr() looks at no other flag, nor at the offset.
  if ((flags & FI_DIRECTED_RECV) != 0)
    return refuse(FI_EINVAL, FI_LOG_MR, "regions know no FI_DIRECTED_RECV");
  const iovec& memory = attributes->mr_iov[0];
  if (memory.iov_len > UINTPTR_MAX - reinterpret_cast<uintptr_t>(memory.iov_base))
    return refuse(FI_EINVAL, FI_LOG_MR, "no memory is so long");
  auto* region = new (std::nothrow) Region(*domain, *attributes, flags);
  if (region == nullptr)
    return -FI_ENOMEM;
  region->key = FI_KEY_NOTAVAIL;
  if (!domain->provider_keys() && region->is_remote()) {
    if (const int error = region->claim_key(); error != 0) {
      delete region;
      return error;
    }
  }
  region->fid = {.fclass = FI_CLASS_MR, .context = attributes->context, .ops = &region_fid_ops};
  region->mem_desc = region;
  domain->open_child();
  *out = region;
  return 0;
}

int open_region_of_vector(struct fid* fid, const struct iovec* memory, size_t count, uint64_t access, uint64_t offset,
                          uint64_t requested_key, uint64_t flags, struct fid_mr** out, void* context) {
  struct fi_mr_attr attributes = {};
  attributes.mr_iov = memory;
  attributes.iov_count = count;
  attributes.access = access;
  attributes.offset = offset;
  attributes.requested_key = requested_key;
  attributes.context = context;
  return open_region_of_attributes(fid, &attributes, flags, out);
}

int open_region(struct fid* fid, const void* base, size_t bytes, uint64_t access, uint64_t offset,
                uint64_t requested_key, uint64_t flags, struct fid_mr** out, void* context) {
  const iovec memory{.iov_base = const_cast<void*>(base), .iov_len = bytes};
  return open_region_of_vector(fid, &memory, 1, access, offset, requested_key, flags, out, context);
}

}  // namespace lanyard::nicsim::fi
