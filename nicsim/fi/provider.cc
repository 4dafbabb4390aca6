#include "nicsim/fi/provider.h"

#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>

#include <cstring>
#include <string_view>

#include "nicsim/fi/domain.h"

// libfabric looks up this name in each shared object that it loads (fi_provider(3)). The macro in
// fi_prov.h would need a macro of libfabric's own build.
extern "C" __attribute__((visibility("default"))) struct fi_provider* fi_prov_ini(void);

namespace lanyard::nicsim::fi {

namespace {

// ---- fi_getinfo(3)

constexpr uint64_t kDirections = FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE;
constexpr uint64_t kPlaces = FI_LOCAL_COMM | FI_REMOTE_COMM;
constexpr uint64_t kCaps = FI_RMA | FI_ATOMIC | FI_RMA_EVENT | FI_TRIGGER | kDirections | kPlaces;
constexpr uint64_t kTransmitCaps = FI_RMA | FI_ATOMIC | FI_TRIGGER | FI_READ | FI_WRITE;
constexpr uint64_t kReceiveCaps = FI_RMA | FI_ATOMIC | FI_TRIGGER | FI_RMA_EVENT | FI_REMOTE_READ | FI_REMOTE_WRITE;
constexpr int kMemoryModes = FI_MR_ENDPOINT | FI_MR_ALLOCATED | FI_MR_HMEM;
constexpr char kUnordered[] = "nothing keeps messages in order";

bool within(uint64_t asked, uint64_t offered) { return (asked & ~offered) == 0; }
bool one_of(uint64_t asked, uint64_t any, uint64_t offered) { return asked == any || asked == offered; }
bool named(const char* asked, const char* offered) { return asked == nullptr || std::string_view(asked) == offered; }

// Returns why the hints cannot be met, or null.
const char* objection(const fi_info& hints, const Settings& settings) {
  const auto given = [](const auto* attributes, auto otherwise) { return attributes ? *attributes : otherwise; };
  const fi_ep_attr endpoint = given(hints.ep_attr, fi_ep_attr{});
  const fi_tx_attr transmit = given(hints.tx_attr, fi_tx_attr{});
  const fi_rx_attr receive = given(hints.rx_attr, fi_rx_attr{});
  const fi_domain_attr domain = given(hints.domain_attr, fi_domain_attr{});
  const fi_fabric_attr fabric = given(hints.fabric_attr, fi_fabric_attr{});
  constexpr uint64_t kAnyCaps = kTransmitCaps | kPlaces | kReceiveCaps;
  const struct {
    bool broken;
    const char* rule;
  } rules[] = {
      {(hints.caps & FI_HMEM) != 0 && !settings.device_memory, "device memory is not offered (see LANYARD_FI_HMEM)"},
      {!within(hints.caps, kCaps | FI_HMEM), "the hints name a capability that is not simulated"},
      {!one_of(hints.addr_format, FI_FORMAT_UNSPEC, FI_ADDR_CXI), "the address format must be FI_ADDR_CXI"},
      {!one_of(endpoint.type, FI_EP_UNSPEC, FI_EP_RDM), "the endpoint type must be FI_EP_RDM"},
      {!one_of(endpoint.protocol, FI_PROTO_UNSPEC, FI_PROTO_CXI), "the protocol must be FI_PROTO_CXI"},
      {endpoint.max_msg_size > settings.limits().max_message_bytes, "max_msg_size is too large"},
      {endpoint.max_order_raw_size + endpoint.max_order_war_size + endpoint.max_order_waw_size > 0, kUnordered},
      {!within(transmit.caps, kAnyCaps), "tx_attr names a capability that is not simulated"},
      {transmit.msg_order != 0 || transmit.comp_order != 0, kUnordered},
      {transmit.op_flags != 0, "default op_flags are not simulated"},
      {transmit.size > kMaxTransmitSize || transmit.inject_size > 0 || transmit.iov_limit > 1 ||
           transmit.rma_iov_limit > 1,
       "a limit in tx_attr is too large"},
      {!within(receive.caps, kAnyCaps), "rx_attr names a capability that is not simulated"},
      {receive.msg_order != 0, kUnordered},
      {!named(domain.name, kDomainName), "the domain has another name"},
      {hints.domain_attr != nullptr && (domain.mr_mode & FI_MR_ENDPOINT) == 0, "mr_mode must have FI_MR_ENDPOINT"},
      {domain.cq_data_size > 0, "remote completion data is not simulated"},
      {!named(fabric.name, kFabricName), "the fabric has another name"},
  };
  for (const auto& [broken, rule] : rules)
    if (broken)
      return rule;
  return nullptr;
}

uint64_t granted_caps(const fi_info* hints) {
  if (hints == nullptr || hints->caps == 0)
    return kCaps;
  // Without a direction in the hints, all are granted.
  return hints->caps | kPlaces | ((hints->caps & kDirections) == 0 ? kDirections : 0);
}

void describe_transfers(fi_info& info, const fi_info* hints) {
  info.tx_attr->caps = info.caps & kTransmitCaps;
  info.tx_attr->size = kMaxTransmitSize;
  info.tx_attr->iov_limit = 1;
  info.tx_attr->rma_iov_limit = 1;
  info.tx_attr->tclass = FI_TC_BEST_EFFORT;
  if (hints != nullptr && hints->tx_attr != nullptr && hints->tx_attr->size > 0)
    info.tx_attr->size = hints->tx_attr->size;
  info.rx_attr->caps = info.caps & kReceiveCaps;
  info.rx_attr->size = 1024;
  info.rx_attr->iov_limit = 1;
}

void describe_domain(fi_domain_attr& domain, const fi_domain_attr* hints) {
  domain.threading = FI_THREAD_SAFE;
  domain.control_progress = FI_PROGRESS_MANUAL;
  domain.data_progress = FI_PROGRESS_MANUAL;
  domain.resource_mgmt = FI_RM_ENABLED;
  domain.av_type = FI_AV_TABLE;
  domain.mr_mode = FI_MR_ENDPOINT;
  if (hints != nullptr) {
    // The NIC has its own thread, so both kinds of progress hold.
    if (hints->control_progress != FI_PROGRESS_UNSPEC)
      domain.control_progress = hints->control_progress;
    if (hints->data_progress != FI_PROGRESS_UNSPEC)
      domain.data_progress = hints->data_progress;
    if (hints->av_type != FI_AV_UNSPEC)
      domain.av_type = hints->av_type;
    domain.mr_mode = hints->mr_mode & kMemoryModes;
  }
  const ModelLimits limits;
  domain.mr_key_size = sizeof(uint32_t);
  domain.cq_cnt = 1024;
  domain.ep_cnt = 1024;
  domain.tx_ctx_cnt = domain.rx_ctx_cnt = 1;
  domain.max_ep_tx_ctx = domain.max_ep_rx_ctx = 1;
  domain.cntr_cnt = limits.max_counters;
  domain.mr_iov_limit = 1;
  domain.mr_cnt = limits.max_regions;
  domain.caps = kPlaces;
}

int get_info(uint32_t, const char* node, const char*, uint64_t, const struct fi_info* hints, struct fi_info** out) {
  const Result<Settings> settings = Settings::from_environment();
  if (!settings.ok()) {
    error_of(settings.status(), FI_LOG_FABRIC);
    return -FI_ENODATA;
  }
  if (!named(node, kDomainName))
    return -FI_ENODATA;
  if (hints != nullptr) {
    if (const char* why = objection(*hints, settings.value())) {
      FI_INFO(&provider(), FI_LOG_FABRIC, "hints not met: %s\n", why);
      return -FI_ENODATA;
    }
  }
  struct fi_info* info = fi_dupinfo(nullptr);
  if (info == nullptr)
    return -FI_ENOMEM;
  info->fabric_attr->name = strdup(kFabricName);
  info->domain_attr->name = strdup(kDomainName);
  if (info->fabric_attr->name == nullptr || info->domain_attr->name == nullptr) {
    fi_freeinfo(info);
    return -FI_ENOMEM;
  }
  info->fabric_attr->prov_version = provider().version;
  info->caps = granted_caps(hints);
  info->addr_format = FI_ADDR_CXI;
  info->ep_attr->type = FI_EP_RDM;
  info->ep_attr->protocol = FI_PROTO_CXI;
  info->ep_attr->protocol_version = 1;
  info->ep_attr->max_msg_size = settings.value().limits().max_message_bytes;
  info->ep_attr->tx_ctx_cnt = info->ep_attr->rx_ctx_cnt = 1;
  describe_transfers(*info, hints);
  describe_domain(*info->domain_attr, hints == nullptr ? nullptr : hints->domain_attr);
  *out = info;
  return 0;
}

// ---- The fabric

fi_ops fabric_fid_ops = fid_ops<Fabric>();

fi_ops_fabric fabric_ops = table_of<fi_ops_fabric>([](auto& ops) { ops.domain = open_domain; });

int open_fabric(struct fi_fabric_attr* attributes, struct fid_fabric** out, void* context) {
  if (attributes == nullptr || attributes->name == nullptr || std::string_view(attributes->name) != kFabricName)
    return -FI_ENODATA;
  auto* fabric = new Fabric;
  fabric->ops = &fabric_ops;
  fabric->api_version = attributes->api_version;
  return hand_out(fabric, FI_CLASS_FABRIC, context, fabric_fid_ops, out);
}

struct fi_provider& instance() {
  static struct fi_provider provider = [] {
    struct fi_provider made = {};
    made.name = "cxi";
    // libfabric refuses a provider whose version is older than the one that
    // the application asks for.
    made.version = FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION);
    made.fi_version = FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION);
    made.getinfo = get_info;
    made.fabric = open_fabric;
    made.cleanup = [] {};
    return made;
  }();
  return provider;
}

int errno_of(Code code) {
  switch (code) {
    case Code::kOk: return 0;
    case Code::kAgain: return FI_EAGAIN;
    case Code::kInvalidArgument: return FI_EINVAL;
    case Code::kInvalidState: return FI_EOPBADSTATE;
    case Code::kNotFound: return FI_EINVAL;
    case Code::kExhausted: return FI_ENOSPC;
    case Code::kUnsupported: return FI_EOPNOTSUPP;
    case Code::kTimedOut: return FI_ETIMEDOUT;
    case Code::kTruncated: return FI_ETRUNC;
    case Code::kUnmapped: return FI_EFAULT;
    case Code::kFailed: return FI_EIO;
  }
  return FI_EOTHER;
}

}  // namespace

const struct fi_provider& provider() { return instance(); }

int error_of(const Status& status, fi_log_subsys subsystem) {
  if (status.ok())
    return 0;
  // Back-pressure is frequent and no error: do not log it.
  if (status.code() == Code::kAgain)
    return -FI_EAGAIN;
  return refuse(errno_of(status.code()), subsystem, status.message().c_str());
}

int refuse(int error, fi_log_subsys subsystem, const char* why) {
  FI_WARN(&instance(), subsystem, "%s\n", why);
  return -error;
}

}  // namespace lanyard::nicsim::fi

struct fi_provider* fi_prov_ini(void) {
  return &lanyard::nicsim::fi::instance();
}
