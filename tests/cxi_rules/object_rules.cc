// Domains, endpoints, event queues: how they are opened, bound, enabled and closed.
#include "tests/cxi_rules/node.h"

namespace lanyard::cxi_rules {

namespace {

constexpr char kAllocate[] = "cxip_ep.c: cxip_alloc_endpoint()";
constexpr char kBind[] = "cxip_ep.c: cxip_ep_bind()";
constexpr char kControl[] = "cxip_ep.c: cxip_ep_control()";

void domain_traffic_class(Trial& t) {
  Node node(t, {.enable = false});
  node.info->domain_attr->tclass = 0x1000;
  fid_domain* domain = nullptr;
  t.code("a class that is none", fi_domain(node.fabric.get(), node.info.get(), &domain, nullptr), -FI_EINVAL);
}

void domain_limits(Trial& t) {
  Node node(t, {.enable = false});
  node.info->domain_attr->cntr_cnt = 17;
  fid_domain* domain = nullptr;
  t.code("17 counters", fi_domain(node.fabric.get(), node.info.get(), &domain, nullptr), -FI_EINVAL);
}

void domain_busy(Trial& t) {
  Node node(t);
  t.code("with an endpoint", fi_close(&node.domain->fid), -FI_EBUSY);
}

void domain_busy_region(Trial& t) {
  Node node(t, {.enable = false});
  node.ep.reset();
  node.av.reset();
  uint64_t word = 0;
  const auto region = node.raw_region(&word, sizeof word);
  t.code("with a region", fi_close(&node.domain->fid), -FI_EBUSY);
}

void two_domains(Trial& t) {
  Node node(t, {.enable = false});
  fid_domain* domain = nullptr;
  t.code("a second one", fi_domain(node.fabric.get(), node.info.get(), &domain, nullptr), 0);
  if (domain != nullptr)
    t.code("closing it", fi_close(&domain->fid), 0);
}

void domain_control(Trial& t) {
  Node node(t, {.enable = false});
  int argument = 0;
  t.code("FI_QUEUE_WORK of nothing", fi_control(&node.domain->fid, FI_QUEUE_WORK, nullptr), -FI_EINVAL);
  t.code("FI_GETFIDFLAG", fi_control(&node.domain->fid, FI_GETFIDFLAG, &argument), -FI_EINVAL);
}

void endpoint_needs_info(Trial& t) {
  Node node(t, {.enable = false});
  fid_ep* ep = nullptr;
  t.code("no info", node.domain->ops->endpoint(node.domain.get(), nullptr, &ep, nullptr), -FI_EINVAL);
}

void endpoint_transmit_size(Trial& t) {
  Node node(t, {.enable = false});
  fid_ep* ep = nullptr;
  node.info->tx_attr->size = 16385;
  t.code("16385 slots", fi_endpoint(node.domain.get(), node.info.get(), &ep, nullptr), -FI_EINVAL);
}

void endpoint_traffic_class(Trial& t) {
  Node node(t, {.enable = false});
  fid_ep* ep = nullptr;
  node.info->tx_attr->tclass = 0x1000;
  t.code("a class that is none", fi_endpoint(node.domain.get(), node.info.get(), &ep, nullptr), -FI_EINVAL);
}

// An endpoint with nothing bound.
Owned<fid_ep> bare(Node& node) {
  fid_ep* ep = nullptr;
  node.trial.need("fi_endpoint()", fi_endpoint(node.domain.get(), node.info.get(), &ep, nullptr));
  return Owned<fid_ep>(ep, Close{&node.trial});
}

void enable_needs_vector(Trial& t) {
  Node node(t, {.enable = false});
  const auto ep = bare(node);
  t.need("binding a queue", fi_ep_bind(ep.get(), &node.cq->fid, FI_TRANSMIT));
  t.code("without a vector", fi_enable(ep.get()), -FI_ENOAV);
}

void enable_needs_queue(Trial& t) {
  Node node(t, {.enable = false});
  const auto ep = bare(node);
  t.need("binding a vector", fi_ep_bind(ep.get(), &node.av->fid, 0));
  t.code("without a queue", fi_enable(ep.get()), -FI_ENOCQ);
}

void receive_needs_queue(Trial& t) {
  Node node(t, {.caps = FI_MSG | FI_TAGGED, .enable = false});
  const auto ep = bare(node);
  t.need("binding a vector", fi_ep_bind(ep.get(), &node.av->fid, 0));
  t.need("binding a queue", fi_ep_bind(ep.get(), &node.cq->fid, FI_TRANSMIT));
  t.code("without a queue for receives", fi_enable(ep.get()), -FI_ENOCQ);
}

void enable_twice(Trial& t) {
  Node node(t);
  t.code("again", fi_enable(node.ep.get()), 0);
}

void name_before_enable(Trial& t) {
  Node node(t, {.enable = false});
  std::array<std::byte, 256> name;
  size_t bytes = name.size();
  t.code("fi_getname()", fi_getname(&node.ep->fid, name.data(), &bytes), -FI_EOPBADSTATE);
}

void name_too_small(Trial& t) {
  Node node(t);
  std::byte name = {};
  size_t bytes = 1;
  t.code("into one byte", fi_getname(&node.ep->fid, &name, &bytes), -FI_ETOOSMALL);
  t.holds("the size is told", bytes > 1);
}

void names_differ(Trial& t) {
  Node node(t);
  const auto second = node.endpoint();
  node.enable(second);
  t.holds("two endpoints have two addresses", node.know(second) != node.self);
}

void operations_before_enable(Trial& t) {
  Node node(t, {.enable = false});
  uint64_t word = 0;
  t.code("fi_write()", fi_write(node.ep.get(), &word, 8, nullptr, 0, 0, 0, nullptr), -FI_ENOSYS);
  t.code("fi_atomic()", fi_atomic(node.ep.get(), &word, 1, nullptr, 0, 0, 0, FI_UINT64, FI_SUM, nullptr), -FI_ENOSYS);
}

void second_queue(Trial& t) {
  Node node(t, {.enable = false});
  t.code("a second queue", fi_ep_bind(node.ep.get(), &node.cq->fid, FI_TRANSMIT), -FI_EINVAL);
}

void second_counter(Trial& t) {
  Node node(t, {.enable = false});
  const auto first = node.counter(), second = node.counter();
  t.code("the first FI_WRITE counter", fi_ep_bind(node.ep.get(), &first->fid, FI_WRITE), 0);
  t.code("a second", fi_ep_bind(node.ep.get(), &second->fid, FI_WRITE), -FI_EINVAL);
  t.code("one for FI_READ", fi_ep_bind(node.ep.get(), &second->fid, FI_READ), 0);
  node.ep.reset();
}

void counter_after_enable(Trial& t) {
  Node node(t);
  const auto counter = node.counter();
  t.code("fi_ep_bind() after fi_enable()", fi_ep_bind(node.ep.get(), &counter->fid, FI_WRITE), 0);
  node.ep.reset();
}

void bind_flags(Trial& t) {
  Node node(t, {.enable = false});
  const auto counter = node.counter();
  t.code("FI_WRITE for a queue", fi_ep_bind(node.ep.get(), &node.cq->fid, FI_WRITE), -FI_EBADFLAGS);
  t.code("FI_TRANSMIT for a counter", fi_ep_bind(node.ep.get(), &counter->fid, FI_TRANSMIT), -FI_EBADFLAGS);
  t.code("FI_RECV for a vector", fi_ep_bind(node.ep.get(), &node.av->fid, FI_RECV), -FI_EBADFLAGS);
}

void bind_other_class(Trial& t) {
  Node node(t, {.enable = false});
  t.code("a domain", fi_ep_bind(node.ep.get(), &node.domain->fid, 0), -FI_EINVAL);
}

void bind_other_domain(Trial& t) {
  Node node(t, {.enable = false}), other(t, {.enable = false});
  const auto ep = bare(node);
  const auto counter = other.counter();
  t.code("a vector", fi_ep_bind(ep.get(), &other.av->fid, 0), -FI_EINVAL);
  t.code("a queue", fi_ep_bind(ep.get(), &other.cq->fid, FI_TRANSMIT), -FI_EINVAL);
  t.code("a counter", fi_ep_bind(ep.get(), &counter->fid, FI_WRITE), -FI_EINVAL);
}

void busy_with_region(Trial& t) {
  Node node(t);
  uint64_t word = 0;
  const auto region = node.region(&word, sizeof word);
  t.code("closing the endpoint", fi_close(&node.ep->fid), -FI_EBUSY);
}

void busy_with_endpoint(Trial& t) {
  Node node(t, {.enable = false});
  const auto counter = node.counter();
  t.need("binding a counter", fi_ep_bind(node.ep.get(), &counter->fid, FI_WRITE));
  t.code("closing the queue", fi_close(&node.cq->fid), -FI_EBUSY);
  t.code("closing the vector", fi_close(&node.av->fid), -FI_EBUSY);
  t.code("closing the counter", fi_close(&counter->fid), -FI_EBUSY);
  node.ep.reset();
}

void alias_closes(Trial& t) {
  Node node(t);
  fid_ep* alias = nullptr;
  const int code = fi_ep_alias(node.ep.get(), &alias, FI_TRANSMIT | FI_COMPLETION);
  t.code("fi_ep_alias()", code, 0);
  if (code != 0)
    return;
  t.code("closing the endpoint before it", fi_close(&node.ep->fid), -FI_EBUSY);
  t.code("closing the alias", fi_close(&alias->fid), 0);
}

void alias_flags(Trial& t) {
  Node node(t);
  fid_ep* alias = nullptr;
  t.code("no direction", fi_ep_alias(node.ep.get(), &alias, 0), -FI_EINVAL);
  t.code("both directions", fi_ep_alias(node.ep.get(), &alias, FI_TRANSMIT | FI_RECV), -FI_EINVAL);
}

void alias_completes(Trial& t) {
  Node node(t);
  uint64_t from = 5, to = 0;
  const auto region = node.region(&to, sizeof to);
  fid_ep* alias = nullptr;
  t.need("fi_ep_alias()", fi_ep_alias(node.ep.get(), &alias, FI_TRANSMIT | FI_COMPLETION));
  const Remote here = node.here(region);
  t.code("fi_write() by an alias with FI_COMPLETION", fi_write(alias, &from, 8, nullptr, here.to, 0, here.key, &from),
         0);
  t.holds("its entry has its context", node.next_entry("the write").op_context == &from);
  t.code("closing the alias", fi_close(&alias->fid), 0);
}

void operation_flags(Trial& t) {
  Node node(t);
  uint64_t flags = FI_TRANSMIT | FI_DELIVERY_COMPLETE;
  t.code("FI_SETOPSFLAG", fi_control(&node.ep->fid, FI_SETOPSFLAG, &flags), 0);
  flags = FI_TRANSMIT;
  t.code("FI_GETOPSFLAG", fi_control(&node.ep->fid, FI_GETOPSFLAG, &flags), 0);
  t.value("flags", flags, FI_DELIVERY_COMPLETE);
  flags = FI_TRANSMIT | FI_COMPLETION;
  t.need("FI_SETOPSFLAG", fi_control(&node.ep->fid, FI_SETOPSFLAG, &flags));
  flags = FI_TRANSMIT;
  t.need("FI_GETOPSFLAG", fi_control(&node.ep->fid, FI_GETOPSFLAG, &flags));
  t.value("without a level", flags, FI_COMPLETION | FI_TRANSMIT_COMPLETE);
}

void operation_flags_direction(Trial& t) {
  Node node(t);
  uint64_t flags = 0;
  t.code("reading without a direction", fi_control(&node.ep->fid, FI_GETOPSFLAG, &flags), -FI_EINVAL);
  flags = FI_TRANSMIT | FI_RECV;
  t.code("setting both", fi_control(&node.ep->fid, FI_SETOPSFLAG, &flags), -FI_EINVAL);
  t.code("no argument", fi_control(&node.ep->fid, FI_SETOPSFLAG, nullptr), -FI_EINVAL);
}

void endpoint_control(Trial& t) {
  Node node(t);
  int argument = 0;
  t.code("FI_GETFIDFLAG", fi_control(&node.ep->fid, FI_GETFIDFLAG, &argument), -FI_EINVAL);
}

void options(Trial& t) {
  Node node(t);
  size_t least = 0, bytes = sizeof least;
  t.code("reading", fi_getopt(&node.ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &least, &bytes), 0);
  t.value("FI_OPT_MIN_MULTI_RECV", least, 64);
  least = size_t{1} << 24;
  t.code("2^24", fi_setopt(&node.ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &least, sizeof least), -FI_EINVAL);
  least = 128;
  t.code("128", fi_setopt(&node.ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &least, sizeof least), 0);
}

void unknown_options(Trial& t) {
  Node node(t);
  size_t value = 0, bytes = sizeof value;
  t.code("another level", fi_getopt(&node.ep->fid, 99, FI_OPT_MIN_MULTI_RECV, &value, &bytes), -FI_ENOPROTOOPT);
  t.code("another name", fi_getopt(&node.ep->fid, FI_OPT_ENDPOINT, FI_OPT_CM_DATA_SIZE, &value, &bytes),
         -FI_ENOPROTOOPT);
}

void cancels(Trial& t) {
  Node node(t);
  int context = 0;
  t.code("without receives", fi_cancel(&node.ep->fid, &context), -FI_ENOENT);
}

void no_contexts(Trial& t) {
  Node node(t);
  fid_ep* context = nullptr;
  t.code("fi_tx_context()", fi_tx_context(node.ep.get(), 0, nullptr, &context, nullptr), -FI_ENOSYS);
  t.code("fi_rx_context()", fi_rx_context(node.ep.get(), 0, nullptr, &context, nullptr), -FI_ENOSYS);
}

void no_passive(Trial& t) {
  Node node(t, {.enable = false});
  fid_pep* pep = nullptr;
  t.code("fi_passive_ep()", fi_passive_ep(node.fabric.get(), node.info.get(), &pep, nullptr), -FI_ENOSYS);
  t.code("fi_connect()", fi_connect(node.ep.get(), nullptr, nullptr, 0), -FI_ENOSYS);
}

fid_eq* event_queue(Node& node) {
  fi_eq_attr attributes = {};
  attributes.wait_obj = FI_WAIT_NONE;
  fid_eq* eq = nullptr;
  node.trial.need("fi_eq_open()", fi_eq_open(node.fabric.get(), &attributes, &eq, nullptr));
  return eq;
}

void event_queues(Trial& t) {
  Node node(t, {.enable = false});
  fid_eq* eq = event_queue(node);
  uint32_t event = 0;
  std::array<std::byte, 256> buffer;
  t.code("fi_eq_read() of an empty one", fi_eq_read(eq, &event, buffer.data(), buffer.size(), 0), -FI_EAGAIN);
  t.code("closing it", fi_close(&eq->fid), 0);
}

void event_queue_busy(Trial& t) {
  Node node(t, {.enable = false});
  fid_eq* eq = event_queue(node);
  t.code("fi_ep_bind()", fi_ep_bind(node.ep.get(), &eq->fid, 0), 0);
  t.code("closing it while it is bound", fi_close(&eq->fid), -FI_EBUSY);
  node.ep.reset();
  t.code("and then", fi_close(&eq->fid), 0);
}

}  // namespace

Group object_rules() {
  return {"domains, endpoints, event queues",
          {
              {"DomainTrafficClass", "A traffic class that is none is refused.", "cxip_dom.c: cxip_domain()", kAll,
               domain_traffic_class},
              {"DomainLimits", "A domain is refused what fi_getinfo() would not have offered.",
               "cxip_dom.c: cxip_domain()", kAll, domain_limits},
              {"DomainBusy", "A domain with an endpoint does not close.", "cxip_dom.c: cxip_dom_close()", kAll,
               domain_busy},
              {"DomainBusyWithRegion", "A domain with a region does not close.", "cxip_dom.c: cxip_dom_close()", kAll,
               domain_busy_region},
              {"DomainsAreMany", "A process opens several domains on a card.", "cxip_dom.c: cxip_domain()", kAll,
               two_domains},
              {"DomainControl", "Commands without their argument and unknown ones are refused.",
               "cxip_dom.c: cxip_dom_control()", kAll, domain_control},
              {"EndpointNeedsInfo", "Endpoints need an fi_info.", kAllocate, kAll, endpoint_needs_info},
              {"EndpointTransmitSize", "An endpoint has at most 16384 transmit slots.", kAllocate, kAll,
               endpoint_transmit_size},
              {"EndpointTrafficClass", "A traffic class that is none is refused.", "cxip_ep.c: cxip_set_tclass()", kAll,
               endpoint_traffic_class},
              {"EnableNeedsVector", "An endpoint is enabled with an address vector.", "cxip_ep.c: cxip_ep_enable()",
               kAll, enable_needs_vector},
              {"EnableNeedsQueue", "An endpoint is enabled with a queue for what it sends.",
               "cxip_txc.c: cxip_txc_enable()", kAll, enable_needs_queue},
              {"ReceivesNeedQueue", "Who may receive messages needs a queue for them.", "cxip_rxc.c: cxip_rxc_enable()",
               kAll, receive_needs_queue},
              {"EnableTwice", "Enabling again is no error.", "cxip_ep.c: cxip_ep_enable()", kAll, enable_twice},
              {"NameBeforeEnable", "An endpoint has its address once it is enabled.", "cxip_ep.c: cxip_ep_cm_getname()",
               kAll, name_before_enable},
              {"NameTooSmall", "A buffer too small for the address is told the size.",
               "cxip_ep.c: cxip_ep_cm_getname()", kAll, name_too_small},
              {"NamesDiffer", "Endpoints of a domain have addresses of their own.", "cxip_ep.c: cxip_ep_enable()", kAll,
               names_differ},
              {"OperationsBeforeEnable", "Before fi_enable() operations are -FI_ENOSYS.", "cxip_ep.c: cxip_endpoint()",
               kAll, operations_before_enable},
              {"SecondQueue", "A direction has one queue.", "cxip_ep.c: cxip_ep_bind_cq()", kAll, second_queue},
              {"SecondCounter", "A kind of operation has one counter.", "cxip_ep.c: cxip_ep_bind_cntr()", kAll,
               second_counter},
              {"CounterAfterEnable", "Counters may be bound after fi_enable().", "cxip_ep.c: cxip_ep_bind_cntr()", kAll,
               counter_after_enable},
              {"BindFlags", "Flags that do not belong to what is bound are -FI_EBADFLAGS.",
               "cxip_ep.c: cxip_ep_bind(), libfabric's ofi_ep_bind_valid()", kAll, bind_flags},
              {"BindOtherClass", "Other objects are not bound.", kBind, kAll, bind_other_class},
              {"BindOtherDomain", "Objects of another domain are not bound.", kBind, kAll, bind_other_domain},
              {"EndpointBusy", "An endpoint does not close while a region is bound to it.",
               "cxip_ep.c: cxip_free_endpoint()", kAll, busy_with_region},
              {"BusyWithEndpoint", "Queue, vector and counter do not close before the endpoint they are bound to.",
               "cxip_cq.c, cxip_av.c, cxip_cntr.c: close", kAll, busy_with_endpoint},
              {"AliasCloses", "An alias closes before its endpoint does.", "cxip_ep.c: cxip_ep_close()", kAll,
               alias_closes},
              {"AliasFlags", "An alias is for one direction.", kControl, kAll, alias_flags},
              {"AliasCompletes", "An alias has operation flags of its own.", kControl, kAll, alias_completes},
              {"OperationFlags", "Operation flags are set, and read back with a completion level.",
               "cxip_ep.c: cxip_setopflags()", kAll, operation_flags},
              {"OperationFlagsDirection", "Operation flags are those of one direction.",
               "cxip_ep.c: cxip_getopflags(), cxip_setopflags()", kAll, operation_flags_direction},
              {"EndpointControl", "Unknown commands are refused.", kControl, kAll, endpoint_control},
              {"OptionMultiReceive", "FI_OPT_MIN_MULTI_RECV is 64 and goes below 2^24.",
               "cxip_ep.c: cxip_ep_setopt_priv()", kAll, options},
              {"OptionUnknown", "Other options are -FI_ENOPROTOOPT.", "cxip_ep.c: cxip_ep_getopt_priv()", kAll,
               unknown_options},
              {"CancelFindsNothing", "Without receives there is nothing to cancel.", "cxip_ep.c: cxip_ep_cancel()",
               kAll, cancels},
              {"NoScalableEndpoints", "Contexts are -FI_ENOSYS.", "cxip_ep.c: cxip_ep_ops", kAll, no_contexts},
              {"NoConnections", "Connections are -FI_ENOSYS.", "cxip_fabric.c: cxip_fab_ops", kAll, no_passive},
              {"EventQueue", "An event queue opens, is empty, and closes.", "cxip_eq.c: cxip_eq_open()", kAll,
               event_queues},
              {"EventQueueBusy", "An event queue does not close before the endpoint bound to it.",
               "cxip_eq.c: cxip_eq_close()", kAll, event_queue_busy},
          }};
}

}  // namespace lanyard::cxi_rules
