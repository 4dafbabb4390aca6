// The provider's extension of domains and endpoints, and its variables.
#include "tests/cxi_rules/node.h"

namespace lanyard::cxi_rules {

namespace {

constexpr char kOps[] = "cxip_dom.c: cxip_dom_ops_open()";

// fi_cxi_ext.h's fi_cxi_dom_ops.
struct DomainOps {
  int (*cntr_read)(struct fid* domain, unsigned counter, uint64_t* value, struct timespec* when);
  int (*topology)(struct fid* domain, unsigned* group, unsigned* node_switch, unsigned* port);
  int (*enable_hybrid_mr_desc)(struct fid* domain, bool enable);
  size_t (*ep_get_unexp_msgs)(struct fid_ep* endpoint, struct fi_cq_tagged_entry* entries, size_t count,
                              fi_addr_t* sources, size_t* waiting);
  int (*get_dwq_depth)(struct fid* domain, size_t* depth);
  int (*enable_mr_match_events)(struct fid* domain, bool enable);
  int (*enable_optimized_mrs)(struct fid* domain, bool enable);
};

// fi_cxi_ext.h's numbers for fi_control() and fi_set_val().
enum Option : int {
  kSetTrafficClass = -(0xccc << 16),
  kSetMessageOrder,
  kRefreshNic,
  kSetMatchEvents,
  kGetMatchEvents,
  kSetOptimized,
  kGetOptimized,
  kSetKeyCache,
  kGetKeyCache,
};

DomainOps& ops_of(Trial& t, Node& node) {
  void* ops = nullptr;
  t.need("fi_open_ops(dom_ops_v6)", fi_open_ops(&node.domain->fid, "dom_ops_v6", 0, &ops, nullptr));
  return *static_cast<DomainOps*>(ops);
}

void names(Trial& t) {
  Node node(t);
  void* first = nullptr;
  t.need("dom_ops_v1", fi_open_ops(&node.domain->fid, "dom_ops_v1", 0, &first, nullptr));
  for (const char* name : {"dom_ops_v1", "dom_ops_v2", "dom_ops_v3", "dom_ops_v4", "dom_ops_v5", "dom_ops_v6"}) {
    void* ops = nullptr;
    t.code(name, fi_open_ops(&node.domain->fid, name, 0, &ops, nullptr), 0);
    t.holds("the same table", ops == first);
  }
  void* ops = nullptr;
  t.code("dom_ops_v99", fi_open_ops(&node.domain->fid, "dom_ops_v99", 0, &ops, nullptr), -FI_EINVAL);
}

void depth(Trial& t) {
  Node node(t);
  size_t depth = 0;
  t.code("get_dwq_depth()", ops_of(t, node).get_dwq_depth(&node.domain->fid, &depth), 0);
  t.holds("entries", depth > 0);
  t.code("of a counter's fid", ops_of(t, node).get_dwq_depth(&node.cq->fid, &depth), -FI_EINVAL);
}

void topology(Trial& t) {
  Node node(t);
  unsigned group = 0, node_switch = 0, port = 0;
  t.code("topology()", ops_of(t, node).topology(&node.domain->fid, &group, &node_switch, &port), 0);
  t.code("of a part", ops_of(t, node).topology(&node.domain->fid, nullptr, nullptr, &port), 0);
  t.code("of a queue's fid", ops_of(t, node).topology(&node.cq->fid, &group, &node_switch, &port), -FI_EINVAL);
}

void hybrid(Trial& t) {
  Node node(t, {.enable = false});
  t.code("on", ops_of(t, node).enable_hybrid_mr_desc(&node.domain->fid, true), 0);
  t.code("off", ops_of(t, node).enable_hybrid_mr_desc(&node.domain->fid, false), 0);
  t.code("of a queue's fid", ops_of(t, node).enable_hybrid_mr_desc(&node.cq->fid, true), -FI_EINVAL);
}

void descriptors_ignored(Trial& t) {
  Node node(t);
  uint64_t from = 4, to = 0;
  const auto region = node.region(&to, sizeof to);
  const auto local = node.raw_region(&from, sizeof from, 0, FI_WRITE);
  void* descriptor = fi_mr_desc(local.get());
  const Remote here = node.here(region);
  const iovec piece{&from, 8};
  const fi_rma_iov target{0, 8, here.key};
  const fi_msg_rma message{&piece, &descriptor, 1, here.to, &target, 1, nullptr, 0};
  t.code("a write with a descriptor", fi_writemsg(node.ep.get(), &message, FI_COMPLETION), 0);
  node.next_entry("it");
}

void unexpected(Trial& t) {
  Options options;
  options.caps = FI_TAGGED;
  Info info;
  if (get_info(hints_of(options).get(), info) != 0)
    t.not_offered("no messages");
  Node node(t, options);
  size_t waiting = 7;
  t.value("messages", ops_of(t, node).ep_get_unexp_msgs(node.ep.get(), nullptr, 0, nullptr, &waiting), 0);
  t.value("waiting", waiting, 0);
  t.code("without a count",
         static_cast<int64_t>(ops_of(t, node).ep_get_unexp_msgs(node.ep.get(), nullptr, 0, nullptr, nullptr)),
         -FI_EINVAL);
}

void domain_options(Trial& t) {
  Node node(t, {.enable = false});
  for (const auto& [name, set, get] : {std::tuple("match events", kSetMatchEvents, kGetMatchEvents),
                                       std::tuple("optimized regions", kSetOptimized, kGetOptimized),
                                       std::tuple("cached keys", kSetKeyCache, kGetKeyCache)}) {
    for (bool wanted : {true, false}) {
      bool is = !wanted;
      t.code(std::string("setting ") + name, fi_control(&node.domain->fid, set, &wanted), 0);
      t.code("reading it", fi_control(&node.domain->fid, get, &is), 0);
      t.value("it is", is, wanted);
    }
  }
}

void domain_options_need_keys(Trial& t) {
  Node node(t, {.mr_mode = kUserKeys, .enable = false});
  bool wanted = false;
  t.code("optimized regions", fi_control(&node.domain->fid, kSetOptimized, &wanted), -FI_EINVAL);
  t.code("cached keys", fi_control(&node.domain->fid, kSetKeyCache, &wanted), -FI_EINVAL);
}

void unoptimized_work(Trial& t) {
  ::setenv("FI_CXI_OPTIMIZED_MRS", "0", 1);
  Node node(t);
  uint64_t from = 1, to = 0;
  const auto trigger = node.counter(), completion = node.counter();
  const auto region = node.region(&to, sizeof to);
  t.code("a deferred write of an uncounted region",
         defer_write(node, &from, 8, node.here(region), {trigger.get(), 1, completion.get()}), 0);
  t.need("adding", fi_cntr_add(trigger.get(), 1));
  counts(t, "completions", completion, 1);
}

void endpoint_options(Trial& t) {
  Node node(t);
  uint64_t order = FI_ORDER_RMA_WAW;
  t.code("an order that is kept", fi_set_val(&node.ep->fid, kSetMessageOrder, &order), 0);
  order = FI_ORDER_RMA_RAW;
  t.code("one that is not", fi_set_val(&node.ep->fid, kSetMessageOrder, &order), -FI_EINVAL);
  uint32_t tclass = FI_TC_BEST_EFFORT;
  t.code("a traffic class", fi_set_val(&node.ep->fid, kSetTrafficClass, &tclass), 0);
  tclass = 0x1000;
  t.code("one that is none", fi_set_val(&node.ep->fid, kSetTrafficClass, &tclass), -FI_EINVAL);
  t.code("an unknown value", fi_set_val(&node.ep->fid, -1, &order), -FI_EINVAL);
}

void default_sizes(Trial& t) {
  ::setenv("FI_CXI_DEFAULT_TX_SIZE", "128", 1);
  ::setenv("FI_CXI_DEFAULT_RX_SIZE", "64", 1);
  Info info;
  t.need("fi_getinfo()", get_info(hints_of({}).get(), info));
  t.value("tx_attr->size", info->tx_attr->size, 128);
  t.value("rx_attr->size", info->rx_attr->size, 64);
}

void bad_default_size(Trial& t) {
  ::setenv("FI_CXI_DEFAULT_TX_SIZE", "8", 1);
  Info info;
  t.need("fi_getinfo()", get_info(hints_of({}).get(), info));
  t.holds("8 is too few: the default stays, " + std::to_string(info->tx_attr->size),
          info->tx_attr->size == 512 || info->tx_attr->size == 1024);
}

void device_name(Trial& t) {
  ::setenv("FI_CXI_DEVICE_NAME", "cxi99", 1);
  Info info;
  t.code("FI_CXI_DEVICE_NAME=cxi99", get_info(hints_of({}).get(), info), -FI_ENODATA);
}

void no_ops_elsewhere(Trial& t) {
  Node node(t);
  void* ops = nullptr;
  t.code("of a queue", fi_open_ops(&node.cq->fid, "cxi_counter_ops", 0, &ops, nullptr), -FI_ENOSYS);
  t.code("of an endpoint", fi_open_ops(&node.ep->fid, "cxi_counter_ops", 0, &ops, nullptr), -FI_ENOSYS);
}

}  // namespace

Group extension_rules() {
  return {
      "extensions and variables",
      {
          {"DomainOps", "A domain's extension is one table under the names dom_ops_v1 to v6.", kOps, kAll, names},
          {"DomainDepth", "get_dwq_depth() is for domains.", "cxip_dom.c: cxip_domain_get_dwq_depth()", kAll, depth},
          {"DomainTopology", "topology() tells group, switch and port.", "cxip_dom.c: cxip_domain_topology()", kAll,
           topology},
          {"DomainHybrid", "Descriptors of the user's are turned on and off.",
           "cxip_dom.c: cxip_domain_enable_hybrid_mr_desc()", kAll, hybrid},
          {"DescriptorsIgnored", "Until then they are ignored.", "cxip_rma.c: cxip_rma_emit_dma()", kAll,
           descriptors_ignored},
          {"UnexpectedMessages", "ep_get_unexp_msgs() counts messages that wait.",
           "cxip_ep.c: cxip_ep_get_unexp_msgs()", kAll, unexpected},
          {"DomainOptions", "Match events, optimized regions and cached keys are set by fi_control().",
           "cxip_dom.c: cxip_dom_control()", kAll, domain_options},
          {"DomainOptionsNeedKeys", "The last two are for keys of the provider's.",
           "cxip_dom.c: cxip_domain_enable_optimized_mrs(), cxip_domain_enable_prov_key_cache()", kAll,
           domain_options_need_keys},
          {"UnoptimizedWork", "With FI_CXI_OPTIMIZED_MRS=0 all regions serve deferred work.",
           "cxip_rma.c: cxip_rma_is_unrestricted()", kAll, unoptimized_work},
          {"EndpointOptions", "An endpoint's order and traffic class are set by fi_set_val().",
           "cxip_ep.c: cxip_ep_set_val()", kAll, endpoint_options},
          {"DefaultSizes", "FI_CXI_DEFAULT_TX_SIZE and _RX_SIZE are the sizes without hints.",
           "cxip_info.c: cxip_env_init()", kAll, default_sizes},
          {"DefaultSizeRange", "Fewer than 16 slots are none.", "cxip_info.c: cxip_env_init()", kAll, bad_default_size},
          {"DeviceName", "FI_CXI_DEVICE_NAME names the cards that are offered.", "cxip_if.c: cxip_if_init()", kAll,
           device_name},
          {"NoOtherOps", "Queues and endpoints have no extension.", "cxip_cq.c, cxip_ep.c: fi_no_ops_open", kAll,
           no_ops_elsewhere},
      }};
}

}  // namespace lanyard::cxi_rules
