// Memory regions: keys, the order of bind and enable, access, counting, closing.
#include "tests/cxi_rules/node.h"

namespace lanyard::cxi_rules {

namespace {

constexpr char kRegister[] = "cxip_mr.c: cxip_regattr()";
constexpr char kBind[] = "cxip_mr.c: cxip_mr_bind()";
constexpr char kControl[] = "cxip_mr.c: cxip_mr_control()";
constexpr char kKeys[] = "cxip_mr.c: cxip_mr_domain_insert()";
Options user_keys() { return {.mr_mode = kUserKeys}; }
constexpr uint64_t kRemote = FI_REMOTE_WRITE | FI_REMOTE_READ;

int registering(Node& node, const fi_mr_attr& attributes, uint64_t flags) {
  fid_mr* region = nullptr;
  const int code = fi_mr_regattr(node.domain.get(), &attributes, flags, &region);
  if (code == 0)
    node.trial.code("closing it", fi_close(&region->fid), 0);
  return code;
}

fi_mr_attr attributes_of(const iovec* pieces, size_t count) {
  fi_mr_attr attributes = {};
  attributes.mr_iov = pieces;
  attributes.iov_count = count;
  attributes.access = kRemote;
  return attributes;
}

void pieces(Trial& t) {
  Node node(t);
  uint64_t words[2] = {};
  const iovec both[] = {{&words[0], 8}, {&words[1], 8}};
  t.code("two pieces", registering(node, attributes_of(both, 2), 0), -FI_ENOSYS);
  t.code("none", registering(node, attributes_of(both, 0), 0), -FI_EINVAL);
  t.code("one", registering(node, attributes_of(both, 1), 0), 0);
}

void flags(Trial& t) {
  Node node(t);
  uint64_t word = 0;
  const iovec piece{&word, 8};
  t.code("FI_DIRECTED_RECV", registering(node, attributes_of(&piece, 1), FI_DIRECTED_RECV), -FI_EINVAL);
  t.code("FI_RMA_EVENT", registering(node, attributes_of(&piece, 1), FI_RMA_EVENT), 0);
  t.code("FI_RMA_PMEM", registering(node, attributes_of(&piece, 1), FI_RMA_PMEM), 0);
}

void offset(Trial& t) {
  Node node(t);
  uint64_t word = 0;
  const iovec piece{&word, 8};
  fi_mr_attr attributes = attributes_of(&piece, 1);
  attributes.offset = 4096;
  t.code("offset 4096", registering(node, attributes, 0), 0);
}

void no_length(Trial& t) {
  Node node(t);
  uint64_t word = 0;
  const auto count = node.counter();
  const auto region = node.region(&word, 0, count.get());
  t.code("a write of 0 bytes", node.write(nullptr, 0, node.here(region), FI_COMPLETION), 0);
  node.next_entry("it");
  counts(t, "count", count, 1);
}

void enable_needs_endpoint(Trial& t) {
  Node node(t);
  uint64_t word = 0;
  const auto region = node.raw_region(&word, sizeof word);
  t.code("fi_mr_enable() before fi_mr_bind()", fi_mr_enable(region.get()), -FI_EINVAL);
}

void bind_needs_enabled(Trial& t) {
  Node node(t);
  uint64_t word = 0;
  const auto late = node.endpoint();
  const auto region = node.raw_region(&word, sizeof word);
  t.code("to an endpoint before fi_enable()", fi_mr_bind(region.get(), &late->fid, 0), -FI_EINVAL);
  node.enable(late);
  t.code("after it", fi_mr_bind(region.get(), &late->fid, 0), 0);
}

void bind_once(Trial& t) {
  Node node(t);
  uint64_t word = 0;
  const auto region = node.raw_region(&word, sizeof word);
  t.code("first", fi_mr_bind(region.get(), &node.ep->fid, 0), 0);
  t.code("again", fi_mr_bind(region.get(), &node.ep->fid, 0), -FI_EINVAL);
}

void bind_other_class(Trial& t) {
  Node node(t);
  uint64_t word = 0;
  const auto region = node.raw_region(&word, sizeof word);
  t.code("to a queue", fi_mr_bind(region.get(), &node.cq->fid, 0), -FI_EINVAL);
}

void bind_other_domain(Trial& t) {
  Node node(t), other(t);
  uint64_t word = 0;
  const auto region = node.raw_region(&word, sizeof word);
  const auto counter = other.counter();
  t.code("an endpoint", fi_mr_bind(region.get(), &other.ep->fid, 0), -FI_EINVAL);
  t.code("a counter", fi_mr_bind(region.get(), &counter->fid, FI_REMOTE_WRITE), -FI_EINVAL);
}

void counter_flags(Trial& t) {
  Node node(t);
  uint64_t word = 0;
  const auto counter = node.counter();
  const auto region = node.raw_region(&word, sizeof word);
  t.code("FI_REMOTE_READ alone", fi_mr_bind(region.get(), &counter->fid, FI_REMOTE_READ), -FI_EINVAL);
  t.code("none", fi_mr_bind(region.get(), &counter->fid, 0), -FI_EINVAL);
  t.code("both", fi_mr_bind(region.get(), &counter->fid, FI_REMOTE_WRITE | FI_REMOTE_READ), 0);
}

void counter_once(Trial& t) {
  Node node(t);
  uint64_t word = 0;
  const auto first = node.counter(), second = node.counter();
  const auto region = node.raw_region(&word, sizeof word);
  t.code("first", fi_mr_bind(region.get(), &first->fid, FI_REMOTE_WRITE), 0);
  t.code("second", fi_mr_bind(region.get(), &second->fid, FI_REMOTE_WRITE), -FI_EINVAL);
}

void counter_before_endpoint(Trial& t) {
  Node node(t);
  uint64_t from = 1, to = 0;
  const auto counter = node.counter();
  const auto region = node.raw_region(&to, sizeof to);
  t.code("the counter first", fi_mr_bind(region.get(), &counter->fid, FI_REMOTE_WRITE), 0);
  t.code("then the endpoint", fi_mr_bind(region.get(), &node.ep->fid, 0), 0);
  t.code("fi_mr_enable()", fi_mr_enable(region.get()), 0);
  t.need("fi_writemsg()", node.write(&from, 8, node.here(region)));
  counts(t, "count", counter, 1);
}

void counter_after_enable(Trial& t) {
  Node node(t);
  uint64_t word = 0;
  const auto counter = node.counter();
  const auto region = node.region(&word, sizeof word);
  t.code("after fi_mr_enable()", fi_mr_bind(region.get(), &counter->fid, FI_REMOTE_WRITE), -FI_EINVAL);
}

void enable_again(Trial& t) {
  Node node(t);
  uint64_t word = 0;
  const auto region = node.region(&word, sizeof word);
  t.code("again", fi_mr_enable(region.get()), 0);
}

void other_control(Trial& t) {
  Node node(t);
  uint64_t word = 0;
  const auto region = node.raw_region(&word, sizeof word);
  t.code("FI_GETOPSFLAG", fi_control(&region->fid, FI_GETOPSFLAG, &word), -FI_EINVAL);
}

void events_need_caps(Trial& t) {
  Node node(t, {.caps = FI_RMA | FI_ATOMIC | FI_TRIGGER});
  uint64_t word = 0;
  fid_mr* made = nullptr;
  t.need("fi_mr_reg() with FI_RMA_EVENT",
         fi_mr_reg(node.domain.get(), &word, 8, kRemote, 0, 0, FI_RMA_EVENT, &made, nullptr));
  const Owned<fid_mr> region(made, Close{&t});
  t.code("fi_mr_bind() to an endpoint without it", fi_mr_bind(region.get(), &node.ep->fid, 0), -FI_EINVAL);
}

void provider_key_late(Trial& t) {
  Node node(t);
  uint64_t word = 0;
  const auto region = node.raw_region(&word, sizeof word, 77);
  t.value("before fi_mr_enable()", fi_mr_key(region.get()), FI_KEY_NOTAVAIL);
  t.need("fi_mr_bind()", fi_mr_bind(region.get(), &node.ep->fid, 0));
  t.need("fi_mr_enable()", fi_mr_enable(region.get()));
  t.holds("a key after it", fi_mr_key(region.get()) != FI_KEY_NOTAVAIL);
  t.holds("not the one asked for", fi_mr_key(region.get()) != 77);
}

void provider_keys_differ(Trial& t) {
  Node node(t);
  uint64_t words[2] = {};
  const auto counter = node.counter();
  const auto first = node.region(&words[0], 8, counter.get()), second = node.region(&words[1], 8, counter.get());
  t.holds("two regions have two keys", fi_mr_key(first.get()) != fi_mr_key(second.get()));
}

void provider_key_new(Trial& t) {
  Node node(t);
  uint64_t word = 0;
  const auto counter = node.counter();
  uint64_t before = 0;
  {
    const auto region = node.region(&word, 8, counter.get());
    before = fi_mr_key(region.get());
  }
  const auto region = node.region(&word, 8, counter.get());
  t.holds("a closed region's key is not the next one's", fi_mr_key(region.get()) != before);
}

void user_key_early(Trial& t) {
  Node node(t, user_keys());
  uint64_t word = 0;
  const auto region = node.raw_region(&word, sizeof word, 77);
  t.value("before fi_mr_enable()", fi_mr_key(region.get()), 77);
}

void user_key_range(Trial& t) {
  Node node(t, user_keys());
  uint64_t word = 0;
  fid_mr* made = nullptr;
  t.code("2^32", fi_mr_reg(node.domain.get(), &word, 8, kRemote, 0, uint64_t{1} << 32, 0, &made, nullptr),
         -FI_EKEYREJECTED);
  const auto region = node.raw_region(&word, sizeof word, 0xffffffff);
  t.value("2^32 - 1", fi_mr_key(region.get()), 0xffffffff);
}

void user_key_taken(Trial& t) {
  Node node(t, user_keys());
  uint64_t word = 0;
  fid_mr* made = nullptr;
  {
    const auto region = node.raw_region(&word, sizeof word, 3);
    t.code("while it is in use", fi_mr_reg(node.domain.get(), &word, 8, kRemote, 0, 3, 0, &made, nullptr), -FI_ENOKEY);
  }
  const auto again = node.raw_region(&word, sizeof word, 3);
  t.value("after it was closed", fi_mr_key(again.get()), 3);
}

void local_has_no_key(Trial& t) {
  Node node(t, user_keys());
  uint64_t word = 0;
  const auto first = node.raw_region(&word, sizeof word, 3, FI_READ | FI_WRITE);
  t.value("key of a local region", fi_mr_key(first.get()), FI_KEY_NOTAVAIL);
  const auto second = node.raw_region(&word, sizeof word, 3, FI_READ | FI_WRITE);
  t.holds("another may ask for the same", second != nullptr);
}

void descriptor(Trial& t) {
  Node node(t);
  uint64_t word = 0;
  const auto region = node.raw_region(&word, sizeof word);
  t.holds("fi_mr_desc() is there", fi_mr_desc(region.get()) != nullptr);
}

void no_write_access(Trial& t) {
  Node node(t, user_keys());
  uint64_t from = 1, to = 0;
  const auto region = node.region(&to, sizeof to, nullptr, 3, FI_REMOTE_READ);
  t.need("fi_writemsg()", node.write(&from, 8, node.here(region), FI_COMPLETION));
  t.value("err", static_cast<uint64_t>(node.next_error("a write").err), FI_EIO);
  t.value("the bytes stay", to, 0);
}

void no_read_access(Trial& t) {
  Node node(t, user_keys());
  uint64_t to = 1, from = 2;
  const auto region = node.region(&from, sizeof from, nullptr, 3, FI_REMOTE_WRITE);
  t.need("fi_readmsg()", node.read(&to, 8, node.here(region), FI_COMPLETION));
  t.value("err", static_cast<uint64_t>(node.next_error("a read").err), FI_EIO);
  t.value("the bytes stay", to, 1);
}

void counts_messages(Trial& t) {
  Node node(t);
  std::vector<uint8_t> from(100000), to(100000);
  const auto counter = node.counter();
  const auto region = node.region(to.data(), to.size(), counter.get());
  uint64_t expected = 0;
  for (const size_t bytes : {size_t{0}, size_t{1}, size_t{192}, size_t{4096}, size_t{100000}}) {
    t.need("fi_writemsg()", node.write(from.data(), bytes, node.here(region), FI_COMPLETION));
    node.next_entry("a write of " + std::to_string(bytes));
    counts(t, "count", counter, ++expected);
  }
}

void counts_atomics(Trial& t) {
  Node node(t);
  uint64_t one = 1, word = 0, old = 0;
  const auto counter = node.counter();
  const auto region = node.region(&word, sizeof word, counter.get());
  t.need("fi_atomicmsg()", atomic(node, {.operand = &one}, node.here(region)));
  counts(t, "after a sum", counter, 1);
  t.need("fi_fetch_atomicmsg()", atomic(node, {.operand = &one, .result = &old}, node.here(region), FI_COMPLETION));
  node.next_entry("a fetching sum");
  counts(t, "after a fetching one", counter, 2);
}

void counts_no_failures(Trial& t) {
  Node node(t, user_keys());
  uint64_t from = 1, to = 0;
  const auto counter = node.counter();
  const auto region = node.region(&to, sizeof to, counter.get(), 3);
  t.need("fi_writemsg()", node.write(&from, 8, {node.self, 3, 4096}, FI_COMPLETION));
  node.next_error("a write beyond the end");
  t.never("success", [&] { return fi_cntr_read(counter.get()) != 0; });
}

void gone(Trial& t) {
  Node node(t, user_keys());
  uint64_t from = 1, to = 0;
  Remote remote;
  {
    const auto region = node.region(&to, sizeof to, nullptr, 3);
    remote = node.here(region);
  }
  t.need("fi_writemsg()", node.write(&from, 8, remote, FI_COMPLETION));
  t.value("err", static_cast<uint64_t>(node.next_error("a write to a closed region").err), FI_EIO);
  t.value("the bytes stay", to, 0);
}

void busy_counter(Trial& t) {
  Node node(t);
  uint64_t word = 0;
  const auto counter = node.counter();
  auto region = node.raw_region(&word, sizeof word);
  t.need("fi_mr_bind()", fi_mr_bind(region.get(), &counter->fid, FI_REMOTE_WRITE));
  t.code("closing the counter", fi_close(&counter->fid), -FI_EBUSY);
}

}  // namespace

Group region_rules() {
  return {
      "memory regions",
      {
          {"RegionPieces", "A region is one piece of memory.", kRegister, kAll, pieces},
          {"RegionFlags", "FI_DIRECTED_RECV is refused, other flags are taken.", kRegister, kAll, flags},
          {"RegionOffset", "An offset is taken and ignored.", "cxip_mr.c: cxip_reg(), cxip_regattr()", kAll, offset},
          {"RegionNoLength", "A region may have no bytes, and counts all the same.", kRegister, kAll, no_length},
          {"RegionEnableNeedsEndpoint", "A region is bound to an endpoint before it is enabled.", kControl, kAll,
           enable_needs_endpoint},
          {"RegionBindNeedsEnabled", "A region is bound to an enabled endpoint.", kBind, kAll, bind_needs_enabled},
          {"RegionBindOnce", "A region has one endpoint.", kBind, kAll, bind_once},
          {"RegionBindOtherClass", "Only endpoints and counters are bound.", kBind, kAll, bind_other_class},
          {"RegionBindOtherDomain", "Endpoint and counter are of the region's domain.", kBind, kAll, bind_other_domain},
          {"RegionCounterFlags", "A counter is bound with FI_REMOTE_WRITE, perhaps among others.", kBind, kAll,
           counter_flags},
          {"RegionCounterOnce", "A region has one counter.", kBind, kAll, counter_once},
          {"RegionCounterFirst", "The counter may be bound before the endpoint.", kBind, kAll, counter_before_endpoint},
          {"RegionCounterLate", "An enabled region takes no counter.", kBind, kAll, counter_after_enable},
          {"RegionEnableAgain", "Enabling again is no error.", "cxip_mr.c: cxip_mr_enable()", kAll, enable_again},
          {"RegionControl", "Other commands are refused.", kControl, kAll, other_control},
          {"RegionEventsNeedCaps", "A region with FI_RMA_EVENT needs an endpoint with it.", kBind, kAll,
           events_need_caps},
          {"ProviderKeyLate", "The provider's key is there after fi_mr_enable().", "cxip_mr.c: cxip_mr_init()", kAll,
           provider_key_late},
          {"ProviderKeysDiffer", "Regions with counters have keys of their own.", "cxip_mr.c: cxip_prov_init_mr_key()",
           kAll, provider_keys_differ},
          {"ProviderKeyNew", "A closed region's key is not given again at once.",
           "cxip_dom.c: cxip_domain_prov_mr_id_alloc()", kAll, provider_key_new},
          {"UserKeyEarly", "The user's key is there at once.", kRegister, kAll, user_key_early},
          {"UserKeyRange", "The user's key has 32 bits.", kKeys, kAll, user_key_range},
          {"UserKeyTaken", "A key that is in use is -FI_ENOKEY, a closed region's is free.", kKeys, kAll,
           user_key_taken},
          {"LocalHasNoKey", "A region for local access has no key, and asks for any.", kKeys, kAll, local_has_no_key},
          {"RegionDescriptor", "A region has a descriptor.", "cxip_mr.c: cxip_mr_init()", kAll, descriptor},
          {"RegionNoWriteAccess", "A write without FI_REMOTE_WRITE fails.",
           "cxip_mr.c: cxip_mr_enable_std(), cxip_mr_enable_opt()", kAll, no_write_access},
          {"RegionNoReadAccess", "A read without FI_REMOTE_READ fails.",
           "cxip_mr.c: cxip_mr_enable_std(), cxip_mr_enable_opt()", kAll, no_read_access},
          {"RegionCounts", "Each write that lands counts 1, whatever its size.",
           "cxip_mr.c: cxip_mr_enable_std() (C_LE_EVENT_CT_COMM)", kAll, counts_messages},
          {"RegionCountsAtomics", "So does each atomic.", "cxip_mr.c: cxip_mr_enable_std() (C_LE_EVENT_CT_COMM)", kAll,
           counts_atomics},
          {"RegionCountsNoFailures", "What fails does not count as success.", "cxip/test/rma.c: writemsg_bounds", kAll,
           counts_no_failures},
          {"RegionGone", "A write to a closed region fails.", "cxip_mr.c: cxip_mr_close()", kAll, gone},
          {"RegionKeepsCounter", "A bound counter does not close before its region.", kBind, kAll, busy_counter},
      }};
}

}  // namespace lanyard::cxi_rules
