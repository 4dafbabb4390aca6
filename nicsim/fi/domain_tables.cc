#include "nicsim/fi/domain_tables.h"

#include <rdma/fi_atomic.h>
#include <rdma/fi_domain.h>

#include <atomic>
#include <string_view>

#include "nicsim/fi/address_vector.h"
#include "nicsim/fi/atomic_kind.h"
#include "nicsim/fi/counter.h"
#include "nicsim/fi/cxi_ext.h"
#include "nicsim/fi/endpoint.h"
#include "nicsim/fi/provider.h"
#include "nicsim/fi/queue.h"
#include "nicsim/fi/region.h"
#include "nicsim/fi/work.h"

namespace lanyard::nicsim::fi {

namespace {

Domain* domain_of(struct fid* fid) { return object_of<Domain, fid_domain>(fid); }

int close_domain(struct fid* fid) {
  Domain* domain = domain_of(fid);
  if (domain->has_children())
    return -FI_EBUSY;
  delete domain;
  return 0;
}

// cxip_dom.c: cxip_domain_enable_optimized_mrs(), ..._prov_key_cache(), ..._mr_match_events()
int set_switch(struct fid* fid, std::atomic<bool> Domain::RegionRules::*which, bool value) {
  if (fid->fclass != FI_CLASS_DOMAIN)
    return -FI_EINVAL;
  if (which != &Domain::RegionRules::match_events && !domain_of(fid)->provider_keys())
    return refuse(FI_EINVAL, FI_LOG_DOMAIN, "only the provider's own keys can be switched");
  domain_of(fid)->region_rules().*which = value;
  return 0;
}

int control_domain(struct fid* fid, int command, void* argument) {
  using Rules = Domain::RegionRules;
  if (command == FI_FLUSH_WORK)
    return flush_work(*domain_of(fid));
  if (argument == nullptr)
    return -FI_EINVAL;
  if (command == FI_QUEUE_WORK)
    return queue_work(*domain_of(fid), *static_cast<struct fi_deferred_work*>(argument));
  auto& value = *static_cast<bool*>(argument);
  Rules& rules = domain_of(fid)->region_rules();
  switch (static_cast<RegionControl>(command)) {
    case RegionControl::kSetMatchEvents: return set_switch(fid, &Rules::match_events, value);
    case RegionControl::kSetOptimized: return set_switch(fid, &Rules::optimized, value);
    case RegionControl::kSetCachedKeys: return set_switch(fid, &Rules::cached_keys, value);
    case RegionControl::kGetMatchEvents: value = rules.match_events; return 0;
    case RegionControl::kGetOptimized: value = rules.optimized; return 0;
    case RegionControl::kGetCachedKeys: value = rules.cached_keys; return 0;
    default: return -FI_EINVAL;
  }
}

int query_atomic(struct fid_domain*, enum fi_datatype type, enum fi_op op, struct fi_atomic_attr* attributes,
                 uint64_t flags) {
  // cxip_dom.c: cxip_query_atomic()
  if (attributes == nullptr || (flags & (FI_COMPARE_ATOMIC | FI_FETCH_ATOMIC)) == (FI_COMPARE_ATOMIC | FI_FETCH_ATOMIC))
    return -FI_EINVAL;
  if (!is_known_atomic(type, op))
    return -FI_EINVAL;
  const AtomicForm form = (flags & FI_COMPARE_ATOMIC) != 0 ? AtomicForm::kCompare
                          : (flags & FI_FETCH_ATOMIC) != 0 ? AtomicForm::kFetch
                                                           : AtomicForm::kPlain;
  if (!atomic_kind(form, type, op).has_value())
    return -FI_EOPNOTSUPP;
  attributes->count = 1;
  attributes->size = sizeof(uint64_t);
  return 0;
}

// ---- CXI's table

// Nothing is sent, so nothing is unexpected.
size_t unexpected_messages(struct fid_ep*, struct fi_cq_tagged_entry*, size_t, fi_addr_t*, size_t* waiting) {
  if (waiting != nullptr)
    *waiting = 0;
  return 0;
}

int get_dwq_depth(struct fid* fid, size_t* depth) {
  if (fid->fclass != FI_CLASS_DOMAIN || depth == nullptr)
    return -FI_EINVAL;
  // The CXI provider keeps an int, and widens it as it is.
  *depth = static_cast<size_t>(static_cast<int>(domain_of(fid)->settings().dwq_depth));
  return 0;
}

// Descriptors spare a real card the mapping of memory; here nothing is mapped.
int enable_hybrid_descriptors(struct fid* fid, bool) { return fid->fclass == FI_CLASS_DOMAIN ? 0 : -FI_EINVAL; }
int enable_match_events(struct fid* fid, bool value) {
  return set_switch(fid, &Domain::RegionRules::match_events, value);
}
int enable_optimized_regions(struct fid* fid, bool value) {
  return set_switch(fid, &Domain::RegionRules::optimized, value);
}

CxiDomainOps cxi_domain_ops = {
    .cntr_read = not_simulated,
    .topology = not_simulated,
    .enable_hybrid_mr_desc = enable_hybrid_descriptors,
    .ep_get_unexp_msgs = unexpected_messages,
    .get_dwq_depth = get_dwq_depth,
    .enable_mr_match_events = enable_match_events,
    .enable_optimized_mrs = enable_optimized_regions,
};

int open_domain_ops(struct fid*, const char* name, uint64_t, void** ops, void*) {
  if (name == nullptr || ops == nullptr)
    return -FI_EINVAL;
  std::string_view rest(name);
  if (!rest.starts_with(kDomainOpsPrefix))
    return -FI_EINVAL;
  rest.remove_prefix(std::string_view(kDomainOpsPrefix).size());
  if (rest.size() != 1 || rest[0] < '1' || rest[0] > '6')
    return -FI_EINVAL;
  *ops = &cxi_domain_ops;
  return 0;
}

fi_ops domain_fid_ops = {
    .size = sizeof(fi_ops),
    .close = close_domain,
    .bind = not_simulated,
    .control = control_domain,
    .ops_open = open_domain_ops,
    .tostr = nullptr,
    .ops_set = nullptr,
};

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
    .query_atomic = query_atomic,
    .query_collective = not_simulated,
    .endpoint2 = nullptr,
};

fi_ops_mr region_ops = {
    .size = sizeof(fi_ops_mr),
    .reg = open_region,
    .regv = open_region_of_vector,
    .regattr = open_region_of_attributes,
};

}  // namespace

void fill_tables(Domain& domain, void* context) {
  domain.fid = {.fclass = FI_CLASS_DOMAIN, .context = context, .ops = &domain_fid_ops};
  domain.ops = &domain_ops;
  domain.mr = &region_ops;
}

}  // namespace lanyard::nicsim::fi
