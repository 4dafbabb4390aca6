// What makes a StepFabric libfabric: objects with tables of functions, and the list of its one card.
#include <rdma/fi_cm.h>
#include <rdma/fi_errno.h>

#include <cstdlib>
#include <memory>
#include <string_view>

#include "nicsim/deterministic/step_fabric.h"
#include "transport/cxi/cxi_extension.h"

namespace lanyard::nicsim {

namespace {

// A table with the functions that the driver calls.
template <typename Table, typename Fill>
Table table_of(Fill fill) {
  Table functions{};
  functions.size = sizeof functions;
  fill(functions);
  return functions;
}

}  // namespace

struct StepFabric::Tables {
  template <typename Base>
  static StepFabric& fabric_of(Base* object) {
    return *static_cast<Part<Base>*>(object)->fabric;
  }
  template <typename Base>
  static StepFabric& fabric_of(fid* object) {
    return fabric_of(reinterpret_cast<Base*>(object));
  }
  // Those that are there as long as the world is.
  static int stays(fid*) { return 0; }
  static int open_nothing(fid*, const char*, uint64_t, void**, void*) { return -FI_ENOSYS; }

  static int open_counter(fid_domain* domain, fi_cntr_attr*, fid_cntr** out, void*) {
    return fabric_of(domain).open_counter(out);
  }
  static int depth(fid* domain, size_t* depth) {
    *depth = fabric_of<fid_domain>(domain).depth();
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
  static int control_domain(fid* domain, int command, void* argument) {
    return command == FI_QUEUE_WORK ? fabric_of<fid_domain>(domain).queue(*static_cast<fi_deferred_work*>(argument))
                                    : -FI_ENOSYS;
  }
  static int control_region(fid* region, int, void*) {
    return fabric_of<fid_mr>(region).enable_region(reinterpret_cast<fid_mr&>(*region));
  }
  static int control_endpoint(fid* endpoint, int, void*) {
    fabric_of<fid_ep>(endpoint).enable_endpoint();
    return 0;
  }

  static inline fi_ops fabric_fid = table_of<fi_ops>([](fi_ops& ops) { ops.close = stays; });
  static inline fi_ops_fabric fabric = table_of<fi_ops_fabric>([](fi_ops_fabric& ops) {
    ops.domain = [](fid_fabric* fabric, fi_info*, fid_domain** out, void*) {
      *out = &fabric_of(fabric).domain_;
      return 0;
    };
  });
  static inline fi_ops domain_fid = table_of<fi_ops>([](fi_ops& ops) {
    ops.close = stays;
    ops.control = control_domain;
    ops.ops_open = open_domain_ops;
  });
  static inline fi_ops_domain domain = table_of<fi_ops_domain>([](fi_ops_domain& ops) {
    ops.av_open = [](fid_domain* domain, fi_av_attr*, fid_av** out, void*) {
      *out = &fabric_of(domain).vector_;
      return 0;
    };
    ops.cq_open = [](fid_domain* domain, fi_cq_attr*, fid_cq** out, void*) {
      *out = &fabric_of(domain).queue_;
      return 0;
    };
    ops.endpoint = [](fid_domain* domain, fi_info*, fid_ep** out, void*) {
      *out = &fabric_of(domain).endpoint_;
      return 0;
    };
    ops.cntr_open = open_counter;
  });
  static inline fi_ops_mr regions = table_of<fi_ops_mr>([](fi_ops_mr& ops) {
    ops.regattr = [](fid* domain, const fi_mr_attr* attributes, uint64_t, fid_mr** out) {
      return fabric_of<fid_domain>(domain).open_region(*attributes, out);
    };
  });
  static inline fi_ops region_fid = table_of<fi_ops>([](fi_ops& ops) {
    ops.close = [](fid* region) { return fabric_of<fid_mr>(region).close_region(reinterpret_cast<fid_mr&>(*region)); };
    ops.bind = [](fid* region, fid* to, uint64_t) {
      return fabric_of<fid_mr>(region).bind_region(reinterpret_cast<fid_mr&>(*region), *to);
    };
    ops.control = control_region;
  });
  static inline fi_ops_av vector = table_of<fi_ops_av>([](fi_ops_av& ops) {
    ops.insert = [](fid_av* vector, const void* names, size_t count, fi_addr_t* addresses, uint64_t, void*) {
      return fabric_of(vector).insert({static_cast<const uint32_t*>(names), count}, addresses);
    };
  });
  static inline fi_ops_cq queue = table_of<fi_ops_cq>([](fi_ops_cq& ops) {
    ops.read = [](fid_cq* queue, void* entries, size_t count) {
      return fabric_of(queue).read_queue(static_cast<fi_cq_entry*>(entries), count);
    };
    ops.readerr = [](fid_cq* queue, fi_cq_err_entry* entry, uint64_t) { return fabric_of(queue).read_error(*entry); };
  });
  // No registers: streams of the host ring by calls.
  static inline fi_ops counter_fid = table_of<fi_ops>([](fi_ops& ops) {
    ops.close = [](fid* counter) {
      return fabric_of<fid_cntr>(counter).close_counter(reinterpret_cast<fid_cntr&>(*counter));
    };
    ops.ops_open = open_nothing;
  });
  static inline fi_ops_cntr counter = table_of<fi_ops_cntr>([](fi_ops_cntr& ops) {
    ops.read = [](fid_cntr* counter) { return fabric_of(counter).read(*counter, false); };
    ops.readerr = [](fid_cntr* counter) { return fabric_of(counter).read(*counter, true); };
    ops.add = [](fid_cntr* counter, uint64_t value) { return fabric_of(counter).add(*counter, value); };
    ops.adderr = [](fid_cntr* counter, uint64_t value) { return fabric_of(counter).add_error(*counter, value); };
    ops.set = [](fid_cntr* counter, uint64_t value) { return fabric_of(counter).set(*counter, value); };
    ops.seterr = [](fid_cntr* counter, uint64_t value) { return fabric_of(counter).set_error(*counter, value); };
  });
  static inline fi_ops endpoint_fid = table_of<fi_ops>([](fi_ops& ops) {
    ops.close = stays;
    ops.bind = [](fid*, fid*, uint64_t) { return 0; };
    ops.control = control_endpoint;
  });
  static inline fi_ops_cm names = table_of<fi_ops_cm>([](fi_ops_cm& ops) {
    ops.getname = [](fid_t endpoint, void* buffer, size_t* bytes) {
      return fabric_of<fid_ep>(endpoint).name_endpoint(buffer, bytes);
    };
  });
  static inline fi_ops_rma writes = table_of<fi_ops_rma>([](fi_ops_rma& ops) {
    ops.writemsg = [](fid_ep* endpoint, const fi_msg_rma* message, uint64_t flags) {
      return fabric_of(endpoint).write_now(*message, flags);
    };
  });
  static inline fi_ops_atomic atomics = table_of<fi_ops_atomic>([](fi_ops_atomic& ops) {
    ops.writemsg = [](fid_ep* endpoint, const fi_msg_atomic* message, uint64_t flags) {
      return fabric_of(endpoint).atomic_now(*message, flags);
    };
  });
};

void StepFabric::fill_tables() {
  fabric_.fid = {.fclass = FI_CLASS_FABRIC, .context = nullptr, .ops = &Tables::fabric_fid};
  fabric_.ops = &Tables::fabric;
  domain_.fid = {.fclass = FI_CLASS_DOMAIN, .context = nullptr, .ops = &Tables::domain_fid};
  domain_.ops = &Tables::domain;
  domain_.mr = &Tables::regions;
  vector_.fid = {.fclass = FI_CLASS_AV, .context = nullptr, .ops = &Tables::fabric_fid};
  vector_.ops = &Tables::vector;
  queue_.fid = {.fclass = FI_CLASS_CQ, .context = nullptr, .ops = &Tables::fabric_fid};
  queue_.ops = &Tables::queue;
  endpoint_.fid = {.fclass = FI_CLASS_EP, .context = nullptr, .ops = &Tables::endpoint_fid};
  endpoint_.cm = &Tables::names;
  endpoint_.rma = &Tables::writes;
  endpoint_.atomic = &Tables::atomics;
  fabric_.fabric = domain_.fabric = vector_.fabric = queue_.fabric = endpoint_.fabric = this;
}

int StepFabric::open_counter(fid_cntr** out) {
  auto counter = std::make_unique<Counter>();
  if (!opening_) {
    const Result<nic::CounterId> id = nic_.open_counter();
    if (!id.ok())
      return -FI_ENOSPC;
    counter->id = id.value();
    caused_[counter->id.value] = {};
    changed_ = true;
  }
  counter->fid = {.fclass = FI_CLASS_CNTR, .context = nullptr, .ops = &Tables::counter_fid};
  counter->ops = &Tables::counter;
  counter->fabric = this;
  *out = counter.release();
  return 0;
}

int StepFabric::open_region(const fi_mr_attr& attributes, fid_mr** out) {
  auto region = std::make_unique<Region>();
  region->fid = {.fclass = FI_CLASS_MR, .context = nullptr, .ops = &Tables::region_fid};
  region->key = attributes.requested_key;
  region->base = attributes.mr_iov->iov_base;
  region->bytes = attributes.mr_iov->iov_len;
  region->fabric = this;
  *out = region.release();
  return 0;
}

// ---- The library

namespace {

std::string card_name = StepFabric::kCard;

// An info with all its parts.
struct WholeInfo {
  fi_info info{};
  fi_tx_attr transmits{};
  fi_rx_attr receives{};
  fi_ep_attr endpoint{};
  fi_domain_attr domain{};
  fi_fabric_attr fabric{};

  WholeInfo() = default;
  // The names stay whose they are.
  explicit WholeInfo(const fi_info& other)
      : info(other),
        transmits(*other.tx_attr),
        receives(*other.rx_attr),
        endpoint(*other.ep_attr),
        domain(*other.domain_attr),
        fabric(*other.fabric_attr) {
    fabric.prov_name = nullptr;
  }
  fi_info* whole() {
    info.tx_attr = &transmits;
    info.rx_attr = &receives;
    info.ep_attr = &endpoint;
    info.domain_attr = &domain;
    info.fabric_attr = &fabric;
    return &info;
  }
};

fi_info* dup_info(const fi_info* info) {
  return info == nullptr ? (new WholeInfo)->whole() : (new WholeInfo(*info))->whole();
}

void free_info(fi_info* info) {
  std::free(info->fabric_attr->prov_name);  // the caller's, as in hints
  delete reinterpret_cast<WholeInfo*>(info);
}

int get_info(uint32_t, const char*, const char*, uint64_t, const fi_info* hints, fi_info** out) {
  auto* found = new WholeInfo;
  found->info.caps = hints->caps;
  found->info.addr_format = FI_ADDR_CXI;
  found->endpoint.type = FI_EP_RDM;
  found->endpoint.max_msg_size = SIZE_MAX;
  found->domain.name = card_name.data();
  found->domain.mr_mode = FI_MR_ENDPOINT | FI_MR_ALLOCATED;
  *out = found->whole();
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

}  // namespace lanyard::nicsim
