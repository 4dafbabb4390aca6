// What fi_getinfo() offers and refuses.
#include <cstring>

#include "tests/cxi_rules/node.h"

namespace lanyard::cxi_rules {

namespace {

constexpr char kTable[] = "cxip_info.c: cxip_infos";
constexpr char kGetInfo[] = "cxip_info.c: cxip_getinfo()";
constexpr char kDomain[] = "cxip_info.c: cxip_prov_key_domain_attr";

// What is offered to whoever asks for one-sided operations.
Info offered(Trial& t, const Options& options = {}) {
  Info info;
  t.need("fi_getinfo()", get_info(hints_of(options).get(), info));
  return info;
}

int asking(const std::function<void(fi_info&)>& change, uint64_t caps = kOneSided, int mr_mode = kProviderKeys) {
  Info info;
  return get_info(hints_of({.caps = caps, .mr_mode = mr_mode, .change = change}).get(), info);
}

void names(Trial& t) {
  const Info info = offered(t);
  t.holds("the provider is cxi", std::strcmp(info->fabric_attr->prov_name, "cxi") == 0);
  t.holds("the fabric is cxi", std::strcmp(info->fabric_attr->name, "cxi") == 0);
}

void domain_name(Trial& t) {
  const Info info = offered(t);
  const std::string name = info->domain_attr->name;
  t.holds("the domain is cxi and a number",
          name.size() > 3 && name.substr(0, 3) == "cxi" && name[3] >= '0' && name[3] <= '9');
}

void version(Trial& t) {
  const uint32_t version = offered(t)->fabric_attr->prov_version;
  t.value("major", FI_MAJOR(version), 0);
  if (t.is_2x())
    t.one_of("minor", FI_MINOR(version), {1, 2});
  else
    t.value("minor", FI_MINOR(version), 1);
}

void endpoint_type(Trial& t) {
  const Info info = offered(t);
  t.value("type", info->ep_attr->type, FI_EP_RDM);
  t.value("protocol", info->ep_attr->protocol, FI_PROTO_CXI);
  t.value("protocol version", info->ep_attr->protocol_version, 1);
  t.code("FI_EP_MSG", asking([](fi_info& hints) { hints.ep_attr->type = FI_EP_MSG; }), -FI_ENODATA);
  t.code("FI_EP_DGRAM", asking([](fi_info& hints) { hints.ep_attr->type = FI_EP_DGRAM; }), -FI_ENODATA);
}

void other_protocol(Trial& t) {
  t.code("FI_PROTO_SOCK_TCP", asking([](fi_info& hints) { hints.ep_attr->protocol = FI_PROTO_SOCK_TCP; }), -FI_ENODATA);
}

void address(Trial& t) {
  const Info info = offered(t);
  t.value("format", info->addr_format, FI_ADDR_CXI);
  t.holds("src_addr is there", info->src_addr != nullptr && info->src_addrlen > 0);
}

void nic(Trial& t) {
  const Info info = offered(t);
  t.holds("nic is there", info->nic != nullptr);
  if (info->nic != nullptr)
    t.holds("with device attributes and a name",
            info->nic->device_attr != nullptr && info->nic->device_attr->name != nullptr);
}

void message_size(Trial& t) {
  t.value("max_msg_size", offered(t)->ep_attr->max_msg_size, kMaxMessage);
  t.code("more", asking([](fi_info& hints) { hints.ep_attr->max_msg_size = kMaxMessage + 1; }), -FI_ENODATA);
}

void inject_size(Trial& t) {
  t.value("inject_size", offered(t)->tx_attr->inject_size, kInjectSize);
  t.code("more", asking([](fi_info& hints) { hints.tx_attr->inject_size = kInjectSize + 1; }), -FI_ENODATA);
}

void default_sizes(Trial& t) {
  const Info info = offered(t);
  // 2.0 and 2.1 are as 1.22 here.
  const int64_t later = t.is_2x() ? 1024 : 512;
  t.one_of("tx_attr->size", static_cast<int64_t>(info->tx_attr->size), {512, later});
  t.one_of("rx_attr->size", static_cast<int64_t>(info->rx_attr->size), {512, later});
}

void size_kept(Trial& t) {
  const Info info = offered(t, {.tx_size = 16});
  t.value("tx_attr->size", info->tx_attr->size, 16);
  t.value("the largest", offered(t, {.tx_size = 16384})->tx_attr->size, 16384);
}

void transmit_size(Trial& t) {
  t.code("16385", asking([](fi_info& hints) { hints.tx_attr->size = 16385; }), -FI_ENODATA);
}

void receive_size(Trial& t) {
  t.code("15361", asking([](fi_info& hints) { hints.rx_attr->size = 15361; }), -FI_ENODATA);
  t.code("15360", asking([](fi_info& hints) { hints.rx_attr->size = 15360; }), 0);
}

void pieces(Trial& t) {
  const Info info = offered(t);
  t.value("tx iov_limit", info->tx_attr->iov_limit, 1);
  t.value("rma_iov_limit", info->tx_attr->rma_iov_limit, 1);
  t.value("rx iov_limit", info->rx_attr->iov_limit, 1);
  t.code("two", asking([](fi_info& hints) { hints.tx_attr->iov_limit = 2; }), -FI_ENODATA);
  t.code("two at the target", asking([](fi_info& hints) { hints.tx_attr->rma_iov_limit = 2; }), -FI_ENODATA);
}

void counter_count(Trial& t) {
  t.value("cntr_cnt", offered(t)->domain_attr->cntr_cnt, 16);
  t.code("17", asking([](fi_info& hints) { hints.domain_attr->cntr_cnt = 17; }), -FI_ENODATA);
}

void region_count(Trial& t) {
  const Info info = offered(t);
  t.value("mr_cnt", info->domain_attr->mr_cnt, 100);
  t.value("mr_iov_limit", info->domain_attr->mr_iov_limit, 1);
  t.code("101", asking([](fi_info& hints) { hints.domain_attr->mr_cnt = 101; }), -FI_ENODATA);
}

void object_counts(Trial& t) {
  const Info info = offered(t);
  t.value("cq_cnt", info->domain_attr->cq_cnt, 32);
  t.value("ep_cnt", info->domain_attr->ep_cnt, 128);
  t.value("max_ep_tx_ctx", info->domain_attr->max_ep_tx_ctx, 1);
}

void needs_endpoint_mode(Trial& t) {
  t.code("FI_MR_ALLOCATED | FI_MR_PROV_KEY", asking(nullptr, kOneSided, FI_MR_ALLOCATED | FI_MR_PROV_KEY), -FI_ENODATA);
}

bool pages_on_demand() {
  for (const char* name : {"FI_CXI_ODP", "FI_CXI_FORCE_ODP"}) {
    if (std::getenv(name) != nullptr)
      return true;
  }
  return false;
}

void needs_allocated(Trial& t) {
  if (pages_on_demand())
    t.not_offered("FI_CXI_ODP is set");
  t.code("FI_MR_ENDPOINT | FI_MR_PROV_KEY", asking(nullptr, kOneSided, FI_MR_ENDPOINT | FI_MR_PROV_KEY), -FI_ENODATA);
}

void endpoint_mode_alone(Trial& t) {
  const Info info = offered(t, {.mr_mode = FI_MR_ENDPOINT});
  t.value("mr_key_size", info->domain_attr->mr_key_size, 4);
}

void old_modes(Trial& t) {
  t.code("FI_MR_BASIC", asking(nullptr, kOneSided, FI_MR_BASIC), -FI_ENODATA);
  t.code("FI_MR_SCALABLE", asking(nullptr, kOneSided, FI_MR_SCALABLE), -FI_ENODATA);
}

void key_sizes(Trial& t) {
  t.value("the provider's", offered(t)->domain_attr->mr_key_size, 8);
  t.value("the user's", offered(t, {.mr_mode = kUserKeys})->domain_attr->mr_key_size, 4);
}

void progress(Trial& t) {
  const Info info = offered(t);
  t.value("control", info->domain_attr->control_progress, FI_PROGRESS_MANUAL);
  t.value("data", info->domain_attr->data_progress, FI_PROGRESS_MANUAL);
  t.code("FI_PROGRESS_AUTO", asking([](fi_info& hints) { hints.domain_attr->data_progress = FI_PROGRESS_AUTO; }),
         -FI_ENODATA);
}

void threading(Trial& t) {
  t.code("FI_THREAD_SAFE", asking([](fi_info& hints) { hints.domain_attr->threading = FI_THREAD_SAFE; }), 0);
  const Info info = offered(t, {.change = [](fi_info& hints) { hints.domain_attr->threading = FI_THREAD_DOMAIN; }});
  t.value("FI_THREAD_DOMAIN is kept", info->domain_attr->threading, FI_THREAD_DOMAIN);
}

void resources(Trial& t) { t.value("resource_mgmt", offered(t)->domain_attr->resource_mgmt, FI_RM_ENABLED); }

void orders(Trial& t) {
  const uint64_t kept = FI_ORDER_SAS | FI_ORDER_WAW | FI_ORDER_RMA_WAW | FI_ORDER_ATOMIC_WAW | FI_ORDER_ATOMIC_WAR |
                        FI_ORDER_ATOMIC_RAW | FI_ORDER_ATOMIC_RAR;
  const auto order = [](uint64_t asked) { return [asked](fi_info& hints) { hints.tx_attr->msg_order = asked; }; };
  t.code("all that are kept", asking(order(kept)), 0);
  t.code("FI_ORDER_RMA_RAW", asking(order(FI_ORDER_RMA_RAW)), -FI_ENODATA);
  t.code("FI_ORDER_RMA_WAR", asking(order(FI_ORDER_RMA_WAR)), -FI_ENODATA);
}

void order_sizes(Trial& t) {
  const Info info = offered(t);
  t.value("write after write", info->ep_attr->max_order_waw_size, UINT64_MAX);
  // 2.0 is as 1.22 here.
  const auto either = [&](size_t size) { return size == UINT64_MAX || (t.is_2x() && size == 0); };
  t.holds("read after write " + std::to_string(info->ep_attr->max_order_raw_size),
          either(info->ep_attr->max_order_raw_size));
  t.holds("write after read " + std::to_string(info->ep_attr->max_order_war_size),
          either(info->ep_attr->max_order_war_size));
}

void completion_data(Trial& t) {
  t.value("cq_data_size", offered(t)->domain_attr->cq_data_size, 8);
  t.code("9", asking([](fi_info& hints) { hints.domain_attr->cq_data_size = 9; }), -FI_ENODATA);
}

void tag_bits(Trial& t) {
  t.value("mem_tag_format", offered(t, {.caps = FI_TAGGED})->ep_attr->mem_tag_format, 0xaaaaaaaaaaaa);
}

void offers(Trial& t, const char* name, uint64_t caps) {
  Info info;
  const int code = get_info(hints_of({.caps = caps}).get(), info);
  t.code(name, code, 0);
  if (info != nullptr)
    t.value("of what was asked is missing", caps & ~info->caps, 0);
}

void caps_messages(Trial& t) { offers(t, "FI_MSG | FI_TAGGED", FI_MSG | FI_TAGGED | FI_RMA | FI_ATOMIC); }
void caps_source(Trial& t) { offers(t, "FI_SOURCE | FI_DIRECTED_RECV", FI_TAGGED | FI_SOURCE | FI_DIRECTED_RECV); }
void caps_multi(Trial& t) { offers(t, "FI_MULTI_RECV", FI_MSG | FI_MULTI_RECV); }
void caps_fence(Trial& t) { offers(t, "FI_FENCE", kOneSided | FI_FENCE); }
void caps_collective(Trial& t) { offers(t, "FI_COLLECTIVE", FI_MSG | FI_COLLECTIVE); }

void caps_device(Trial& t) {
  t.code("FI_HMEM in caps, tx and rx caps",
         asking(
             [](fi_info& hints) {
               hints.tx_attr->caps = FI_RMA | FI_HMEM;
               hints.rx_attr->caps = FI_RMA | FI_HMEM;
             },
             kOneSided | FI_HMEM, kProviderKeys | FI_MR_HMEM),
         0);
}

void caps_unknown(Trial& t) { t.code("FI_MULTICAST", asking(nullptr, kOneSided | FI_MULTICAST), -FI_ENODATA); }

void no_hints(Trial& t) {
  Info list;
  t.need("fi_getinfo() without hints", get_info(nullptr, list));
  for (const fi_info* info = list.get(); info != nullptr; info = info->next) {
    if (std::strcmp(info->fabric_attr->prov_name, "cxi") == 0) {
      t.value("FI_SOURCE", info->caps & FI_SOURCE, 0);
      t.holds("messages and tagged messages", (info->caps & (FI_MSG | FI_TAGGED)) == (FI_MSG | FI_TAGGED));
      return;
    }
  }
  t.holds("a cxi without hints", false);
}

void domain_by_name(Trial& t) {
  const Info info = offered(t);
  const std::string name = info->domain_attr->name;
  t.code("its own", asking([&](fi_info& hints) { hints.domain_attr->name = ::strdup(name.c_str()); }), 0);
  t.code("another", asking([](fi_info& hints) { hints.domain_attr->name = ::strdup("cxi99"); }), -FI_ENODATA);
}

void unknown_node(Trial& t) {
  const Info hints = hints_of({});
  fi_info* info = nullptr;
  const int code = fi_getinfo(FI_VERSION(1, 15), "no-such-card", nullptr, FI_SOURCE, hints.get(), &info);
  t.code("node no-such-card", code, -FI_ENODATA);
  if (code == 0)
    fi_freeinfo(info);
}

void service_range(Trial& t) {
  const Info hints = hints_of({});
  const std::string name = offered(t)->domain_attr->name;
  for (const auto& [service, expected] :
       {std::pair("7", 0), std::pair("511", -FI_ENODATA), std::pair("x", -FI_ENODATA)}) {
    fi_info* info = nullptr;
    const int code = fi_getinfo(FI_VERSION(1, 15), name.c_str(), service, FI_SOURCE, hints.get(), &info);
    t.code(std::string("service ") + service, code, expected);
    if (code == 0)
      fi_freeinfo(info);
  }
}

void mode_bits(Trial& t) { t.value("mode", offered(t)->mode, 0); }

void vector_types(Trial& t) {
  for (const fi_av_type type : {FI_AV_TABLE, FI_AV_MAP}) {
    const Info info = offered(t, {.change = [type](fi_info& hints) { hints.domain_attr->av_type = type; }});
    t.value(type == FI_AV_TABLE ? "FI_AV_TABLE is kept" : "FI_AV_MAP is kept", info->domain_attr->av_type, type);
  }
}

}  // namespace

Group info_rules() {
  return {
      "fi_getinfo and attributes",
      {
          {"InfoNames", "Provider and fabric are called cxi.", kTable, kAll, names},
          {"InfoDomainName", "A domain is called by its card: cxi and a number.", "cxip_info.c: cxip_info_alloc()",
           kAll, domain_name},
          {"InfoVersion", "The provider's own version is 0.1, 0.2 from 2.5.", "cxip.h: CXIP_PROV_VERSION",
           "0.1 to 2.4, 0.2 from 2.5", version},
          {"InfoEndpointType", "Endpoints are FI_EP_RDM of protocol FI_PROTO_CXI 1, nothing else.",
           "cxip_info.c: cxip_ep_attr", kAll, endpoint_type},
          {"InfoOtherProtocol", "Another protocol is not offered.", kGetInfo, kAll, other_protocol},
          {"InfoAddress", "Addresses are FI_ADDR_CXI, and the card's own is in src_addr.",
           "cxip_info.c: cxip_info_alloc()", kAll, address},
          {"InfoNic", "The card is described (fi_nic).", "cxip_nic.c: cxip_nic_alloc()", kAll, nic},
          {"InfoMessageSize", "A message has up to 2^32 - 1 bytes.", "cxip.h: CXIP_EP_MAX_MSG_SZ", kAll, message_size},
          {"InfoInjectSize", "Up to 192 bytes can be injected.", "cxip.h: CXIP_INJECT_SIZE", kAll, inject_size},
          {"InfoDefaultSizes", "Without hints a context has 512 slots, 1024 from 2.2.",
           "cxip_info.c: cxip_alter_tx_attr(), cxip_alter_rx_attr()", "512 to 2.1, 1024 from 2.2", default_sizes},
          {"InfoSizeKept", "The number of transmit slots asked for is what one gets.",
           "cxip_info.c: cxip_alter_tx_attr()", kAll, size_kept},
          {"InfoTransmitSize", "More than 16384 transmit slots are not offered.", "cxip.h: CXIP_MAX_TX_SIZE", kAll,
           transmit_size},
          {"InfoReceiveSize", "More than 15360 receive slots are not offered.", "cxip.h: CXIP_MAX_RX_SIZE", kAll,
           receive_size},
          {"InfoPieces", "An operation is one piece, here and there.", "cxip_info.c: cxip_tx_attr", kAll, pieces},
          {"InfoCounterCount", "16 counters are offered, a 17th asked for is not.", kDomain, kAll, counter_count},
          {"InfoRegionCount", "100 regions of one piece are offered, a 101st asked for is not.", kDomain, kAll,
           region_count},
          {"InfoObjectCounts", "32 queues, 128 endpoints, no scalable ones.", kDomain, kAll, object_counts},
          {"InfoNeedsEndpointMode", "One-sided operations need FI_MR_ENDPOINT.", kDomain, kAll, needs_endpoint_mode},
          {"InfoNeedsAllocated", "FI_MR_PROV_KEY needs FI_MR_ALLOCATED too, unless paging on demand is on.", kGetInfo,
           kAll, needs_allocated},
          {"InfoEndpointModeAlone", "FI_MR_ENDPOINT alone is enough for keys of the user's.", kGetInfo, kAll,
           endpoint_mode_alone},
          {"InfoOldModes", "FI_MR_BASIC and FI_MR_SCALABLE are not offered.", kDomain, kAll, old_modes},
          {"InfoKeySizes", "Keys are 8 bytes with FI_MR_PROV_KEY, else 4.",
           "cxip.h: CXIP_MR_PROV_KEY_SIZE, CXIP_MR_KEY_SIZE", kAll, key_sizes},
          {"InfoProgress", "Progress is manual; automatic progress is not offered.", kDomain, kAll, progress},
          {"InfoThreading", "FI_THREAD_SAFE is offered, and a weaker promise is kept as asked.", kDomain, kAll,
           threading},
          {"InfoResources", "Resources are managed: FI_RM_ENABLED.", kDomain, kAll, resources},
          {"InfoOrders", "Write after write and orders of atomics are kept; no read of RMA has an order.",
           "cxip.h: CXIP_MSG_ORDER", kAll, orders},
          {"InfoOrderSizes", "Writes are ordered whatever their size; the two read sizes were -1, then 0.",
           "cxip_info.c: cxip_ep_attr", "-1 to 2.0, 0 from 2.1", order_sizes},
          {"InfoCompletionData", "Messages carry 8 bytes of completion data.", kDomain, kAll, completion_data},
          {"InfoTagBits", "Tags have 48 bits.", "cxip_info.c: cxip_ep_attr", kAll, tag_bits},
          {"InfoMessages", "Messages are offered beside one-sided operations.", "cxip.h: CXIP_EP_PRI_CAPS", kAll,
           caps_messages},
          {"InfoSource", "Sources and directed receives are offered.", "cxip.h: CXIP_EP_SEC_CAPS", kAll, caps_source},
          {"InfoMultiReceive", "Receives of many messages are offered.", "cxip.h: CXIP_EP_SEC_CAPS", kAll, caps_multi},
          {"InfoFence", "FI_FENCE is offered.", "cxip.h: CXIP_EP_SEC_CAPS", kAll, caps_fence},
          {"InfoCollective", "FI_COLLECTIVE is offered.", "cxip.h: CXIP_EP_PRI_CAPS", kAll, caps_collective},
          {"InfoDeviceMemory", "FI_HMEM is offered, also in the caps of both directions.", "cxip.h: CXIP_EP_PRI_CAPS",
           kAll, caps_device},
          {"InfoUnknownCaps", "FI_MULTICAST is not offered.", "cxip.h: CXIP_CAPS", kAll, caps_unknown},
          {"InfoNoHints", "Without hints messages are offered and FI_SOURCE is left out.",
           "cxip_info.c: cxip_alter_info()", kAll, no_hints},
          {"InfoDomainByName", "A domain can be asked for by name.", kGetInfo, kAll, domain_by_name},
          {"InfoUnknownNode", "A node that is no card, address or number has none.", kGetInfo, kAll, unknown_node},
          {"InfoServiceRange", "With FI_SOURCE a service is a port below 511.", kGetInfo, kAll, service_range},
          {"InfoModeBits", "No mode bit is asked of the user.", kTable, kAll, mode_bits},
          {"InfoVectorTypes", "Either kind of address vector is kept as asked.", "fi_cxi(7), Address Vectors", kAll,
           vector_types},
      }};
}

}  // namespace lanyard::cxi_rules
