#include "nicsim/fi/info.h"

#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>

#include <cstring>
#include <string_view>

#include "nicsim/fi/provider.h"
#include "nicsim/fi/settings.h"
#include "nicsim/model/nic_model.h"

namespace lanyard::nicsim::fi {

namespace {

constexpr uint64_t kDirections = FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE;
constexpr uint64_t kPlaces = FI_LOCAL_COMM | FI_REMOTE_COMM;
constexpr uint64_t kCaps = FI_RMA | FI_ATOMIC | FI_RMA_EVENT | FI_TRIGGER | kDirections | kPlaces;
constexpr uint64_t kTransmitCaps = FI_RMA | FI_ATOMIC | FI_TRIGGER | FI_READ | FI_WRITE;
constexpr uint64_t kReceiveCaps = FI_RMA | FI_ATOMIC | FI_TRIGGER | FI_RMA_EVENT | FI_REMOTE_READ | FI_REMOTE_WRITE;
constexpr int kMemoryModes = FI_MR_ENDPOINT | FI_MR_ALLOCATED | FI_MR_HMEM;

bool within(uint64_t asked, uint64_t offered) { return (asked & ~offered) == 0; }
bool named(const char* asked, const char* offered) { return asked == nullptr || std::string_view(asked) == offered; }

// Returns why the hints cannot be met, or null.
const char* objection(const fi_info& hints, const Settings& settings) {
  if ((hints.caps & FI_HMEM) != 0 && !settings.device_memory)
    return "device memory is not offered (see LANYARD_FI_HMEM)";
  if (!within(hints.caps, kCaps | FI_HMEM))
    return "the hints name a capability that is not simulated";
  if (hints.addr_format != FI_FORMAT_UNSPEC && hints.addr_format != FI_ADDR_CXI)
    return "the address format must be FI_ADDR_CXI";
  if (const fi_ep_attr* endpoint = hints.ep_attr) {
    if (endpoint->type != FI_EP_UNSPEC && endpoint->type != FI_EP_RDM)
      return "the endpoint type must be FI_EP_RDM";
    if (endpoint->protocol != FI_PROTO_UNSPEC && endpoint->protocol != FI_PROTO_CXI)
      return "the protocol must be FI_PROTO_CXI";
    if (endpoint->max_msg_size > settings.limits().max_message_bytes)
      return "max_msg_size is too large";
    if (endpoint->max_order_raw_size + endpoint->max_order_war_size + endpoint->max_order_waw_size > 0)
      return "nothing keeps messages in order";
  }
  if (const fi_tx_attr* transmit = hints.tx_attr) {
    if (!within(transmit->caps, kTransmitCaps | kPlaces | kReceiveCaps))
      return "tx_attr names a capability that is not simulated";
    if (transmit->msg_order != 0 || transmit->comp_order != 0)
      return "nothing keeps messages in order";
    if (transmit->op_flags != 0)
      return "default op_flags are not simulated";
    if (transmit->size > kMaxTransmitSize || transmit->inject_size > 0 || transmit->iov_limit > 1 ||
        transmit->rma_iov_limit > 1)
      return "a limit in tx_attr is too large";
  }
  if (const fi_rx_attr* receive = hints.rx_attr) {
    if (!within(receive->caps, kTransmitCaps | kPlaces | kReceiveCaps))
      return "rx_attr names a capability that is not simulated";
    if (receive->msg_order != 0)
      return "nothing keeps messages in order";
  }
  if (const fi_domain_attr* domain = hints.domain_attr) {
    if (!named(domain->name, kDomainName))
      return "the domain has another name";
    if ((domain->mr_mode & FI_MR_ENDPOINT) == 0)
      return "mr_mode must have FI_MR_ENDPOINT";
    if (domain->cq_data_size > 0)
      return "remote completion data is not simulated";
  }
  if (hints.fabric_attr != nullptr && !named(hints.fabric_attr->name, kFabricName))
    return "the fabric has another name";
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

}  // namespace

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

}  // namespace lanyard::nicsim::fi
