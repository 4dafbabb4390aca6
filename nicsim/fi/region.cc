// The memory region, with CXI's order of calls: register, bind to an enabled endpoint and perhaps
// to a counter, enable. The user chooses the key; it is valid once the region is enabled.
#include <mutex>

#include "nicsim/fi/endpoint.h"

namespace lanyard::nicsim::fi {

namespace {

class Region : public Object<fid_mr> {
 public:
  // The user owns the memory. It must live until the region is closed.
  Region(Domain& domain, const iovec& memory, uint64_t access)
      : domain_(use(domain)), memory_(memory), access_(access) {}
  // Returns once the NIC no longer touches the memory.
  ~Region() {
    // Only messages use the region, and this waits for them. The NIC's own reads go
    // through the domain's window.
    if (id_.valid())
      static_cast<void>(domain_->nic().deregister_region(id_).ok());
    domain_->deliver_late_data();
  }

  // As fi_mr_bind() and fi_mr_enable(). -FI_EINVAL if the order is wrong.
  int bind(Endpoint& endpoint) {
    const std::lock_guard lock(mutex_);
    if (endpoint_ != nullptr)
      return refuse(FI_EINVAL, FI_LOG_MR, "the region is already bound to an endpoint");
    if (&endpoint.domain() != domain_.get() || !endpoint.enabled())
      return refuse(FI_EINVAL, FI_LOG_MR, "a region can only be bound to an enabled endpoint of its domain");
    endpoint_ = use(endpoint);
    return 0;
  }

  int bind(Counter& counter, uint64_t flags) {
    const std::lock_guard lock(mutex_);
    if (&counter.domain() != domain_.get() || flags != FI_REMOTE_WRITE)
      return refuse(FI_EINVAL, FI_LOG_MR,
                    "a region can only be bound to a counter of its domain, with FI_REMOTE_WRITE");
    if ((domain_->caps() & FI_RMA_EVENT) == 0)
      return refuse(FI_EINVAL, FI_LOG_MR, "to count messages, open the domain with FI_RMA_EVENT");
    if (counter_ != nullptr || id_.valid())
      return refuse(FI_EINVAL, FI_LOG_MR, "bind one counter only, and before fi_mr_enable()");
    counter_ = use(counter);
    return 0;
  }

  int enable() {
    const std::lock_guard lock(mutex_);
    if (id_.valid())
      return 0;
    if (endpoint_ == nullptr)
      return refuse(FI_EINVAL, FI_LOG_MR, "bind the region to an endpoint before fi_mr_enable()");
    const RegionOptions options{.remote = (access_ & (FI_REMOTE_WRITE | FI_REMOTE_READ)) != 0, .key = key};
    const Result<nic::RegionId> id = domain_->nic().register_region(
        memory_.iov_base, memory_.iov_len, counter_ == nullptr ? nic::CounterId() : counter_->id(), options);
    if (!id.ok()) {
      if (id.status().code() == Code::kInvalidState)
        return -FI_EADDRINUSE;
      return error_of(id.status(), FI_LOG_MR);
    }
    id_ = id.value();
    return 0;
  }

 private:
  const Used<Domain> domain_;
  const iovec memory_;
  const uint64_t access_;
  std::mutex mutex_;  // guards what follows
  Used<Endpoint> endpoint_;
  Used<Counter> counter_;
  nic::RegionId id_;  // valid once enabled
};

int bind_region(struct fid* fid, struct fid* to, uint64_t flags) {
  if (to->fclass == FI_CLASS_EP)
    return object_of<Region>(fid)->bind(*object_of<Endpoint>(to));
  if (to->fclass == FI_CLASS_CNTR)
    return object_of<Region>(fid)->bind(*object_of<Counter>(to), flags);
  return -FI_EINVAL;
}

int control_region(struct fid* fid, int command, void*) {
  return command == FI_ENABLE ? object_of<Region>(fid)->enable() : -FI_EINVAL;
}

fi_ops region_fid_ops = fid_ops<Region>(bind_region, control_region);

}  // namespace

int open_region(struct fid* fid, const struct fi_mr_attr* attributes, uint64_t flags, struct fid_mr** out) {
  if (fid->fclass != FI_CLASS_DOMAIN || attributes == nullptr || attributes->mr_iov == nullptr ||
      attributes->offset != 0)
    return -FI_EINVAL;
  auto* domain = object_of<Domain>(fid);
  if (attributes->iov_count != 1)
    return refuse(FI_ENOSYS, FI_LOG_MR, "a region must be one piece of memory");
  const bool is_device = attributes->iface == FI_HMEM_CUDA || attributes->iface == FI_HMEM_ROCR;
  if (attributes->iface != FI_HMEM_SYSTEM && !(is_device && (domain->caps() & FI_HMEM) != 0))
    return refuse(FI_ENOSYS, FI_LOG_MR,
                  "device memory must be CUDA's or ROCm's and needs a domain with FI_HMEM (see LANYARD_FI_HMEM)");
  if ((flags & ~FI_RMA_EVENT) != 0)
    return -FI_EINVAL;
  if (attributes->requested_key > kMaxUserKey)
    return refuse(FI_EINVAL, FI_LOG_MR, "a key has at most 4 bytes");
  auto* region = new Region(*domain, attributes->mr_iov[0], attributes->access);
  region->mem_desc = region;
  region->key = attributes->requested_key;
  return hand_out(region, FI_CLASS_MR, attributes->context, region_fid_ops, out);
}

}  // namespace lanyard::nicsim::fi
