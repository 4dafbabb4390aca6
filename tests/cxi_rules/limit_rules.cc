// What runs out: transmit slots and entries of deferred work.
#include "tests/cxi_rules/node.h"

namespace lanyard::cxi_rules {

namespace {

constexpr char kSlots[] = "cxip_txc.c: cxip_txc_can_emit_op()";
constexpr char kEntries[] = "cxip_dom.c: cxip_dom_dwq_queue_work() (enable_trig_op_limit)";

// fi_cxi_ext.h's fi_cxi_dom_ops, as far as it is needed.
struct DomainOps {
  void* others[4];
  int (*get_dwq_depth)(struct fid* domain, size_t* depth);
};

size_t depth_of(Trial& t, Node& node) {
  void* ops = nullptr;
  t.need("fi_open_ops(dom_ops_v2)", fi_open_ops(&node.domain->fid, "dom_ops_v2", 0, &ops, nullptr));
  size_t depth = 0;
  t.need("get_dwq_depth()", static_cast<DomainOps*>(ops)->get_dwq_depth(&node.domain->fid, &depth));
  return depth;
}

struct Stage {
  explicit Stage(Trial& trial, const Options& options = {})
      : node(trial, options),
        arrivals(node.counter()),
        trigger(node.counter()),
        completion(node.counter()),
        region(node.region(&to, sizeof to, arrivals.get(), 3)),
        here(node.here(region)) {}
  int write(uint64_t flags = 0) {
    return defer_write(node, &from, 8, here, {trigger.get(), 1, completion.get()}, flags);
  }
  int add() { return defer_counter(node, FI_OP_CNTR_ADD, completion.get(), 1, {trigger.get(), 1}); }

  Node node;
  uint64_t from = 1, to = 0;
  Owned<fid_cntr> arrivals, trigger, completion;
  Owned<fid_mr> region;
  Remote here;
};

void slots(Trial& t) {
  Stage s(t, {.tx_size = 16});
  for (int i = 0; i < 16; ++i)
    t.need("queueing", s.write());
  t.code("a 17th write of 16 slots", s.write(), -FI_EAGAIN);
  t.need("adding", fi_cntr_add(s.trigger.get(), 1));
  counts(t, "completions", s.completion, 16);
  s.node.read_queue();
  t.soon("reading the queue gives slots back", [&] {
    s.node.read_queue();
    return s.write() == 0;
  });
}

void slots_of_entries(Trial& t) {
  Stage s(t, {.tx_size = 16});
  for (int i = 0; i < 16; ++i)
    t.need("queueing", s.write(FI_COMPLETION));
  t.need("adding", fi_cntr_add(s.trigger.get(), 1));
  counts(t, "completions", s.completion, 16);
  for (int i = 0; i < 16; ++i)
    s.node.next_entry("write " + std::to_string(i));
  t.code("a write after all entries", s.write(), 0);
}

// A counter bound to an endpoint makes progress for it.
void slots_by_counter(Trial& t) {
  Stage s(t, {.tx_size = 16});
  const auto writes = s.node.counter();
  t.need("binding a counter", fi_ep_bind(s.node.ep.get(), &writes->fid, FI_WRITE));
  if (t.is_2x()) {
    s.region.reset();
    s.node.ep.reset();
    t.not_offered("from 2.2 on a counter makes progress for what counts at it alone");
  }
  for (int i = 0; i < 16; ++i)
    t.need("queueing", s.write());
  t.need("adding", fi_cntr_add(s.trigger.get(), 1));
  counts(t, "completions", s.completion, 16);
  t.soon("reading the bound counter gives slots back", [&] {
    fi_cntr_read(writes.get());
    return s.write() == 0;
  });
  s.region.reset();
  s.node.ep.reset();
}

void slots_of_counters(Trial& t) {
  Stage s(t, {.tx_size = 16});
  for (int i = 0; i < 40; ++i)
    t.need("queueing an addition", s.add());
  t.need("adding", fi_cntr_add(s.trigger.get(), 1));
  counts(t, "40 additions with 16 slots", s.completion, 40);
}

void slots_after_flush(Trial& t) {
  Stage s(t, {.tx_size = 16});
  for (int round = 0; round < 2; ++round) {
    for (int i = 0; i < 16; ++i)
      t.need("queueing", s.write());
    t.code("a 17th", s.write(), -FI_EAGAIN);
    t.need("FI_FLUSH_WORK", s.node.flush());
  }
  t.code("after a flush", s.write(), 0);
}

void slots_many_times(Trial& t) {
  Stage s(t, {.tx_size = 16});
  uint64_t done = 0;
  for (int round = 0; round < 50; ++round) {
    for (int i = 0; i < 16; ++i) {
      while (s.write() == -FI_EAGAIN)
        s.node.read_queue();
      ++done;
    }
    t.need("adding", fi_cntr_add(s.trigger.get(), 1));
  }
  counts(t, "completions of 800 writes over 16 slots", s.completion, done);
}

void immediate_slots(Trial& t) {
  Stage s(t, {.tx_size = 16});
  int taken = 0;
  t.soon("200 writes through 16 slots", [&] {
    const ssize_t code = s.node.write(&s.from, 8, s.here, FI_COMPLETION);
    if (code == -FI_EAGAIN)
      s.node.read_queue();
    else
      t.need("fi_writemsg()", code);
    taken += code == 0;
    return taken == 200;
  });
  counts(t, "arrivals", s.arrivals, 200);
}

void depth(Trial& t) {
  Node node(t);
  const size_t entries = depth_of(t, node);
  t.holds(std::to_string(entries) + " entries, which is from 1 to 2048", entries >= 1 && entries <= 2048);
}

// These need the card's entries for themselves.
struct LimitedStage : Stage {
  explicit LimitedStage(Trial& t) : Stage(t) {
    entries = depth_of(t, node);
    // Until one entry is left.
    for (used = 0; used + 1 < entries; ++used) {
      const int code = add();
      if (code == -FI_ENOSPC)
        t.not_offered("other processes hold entries of this card");
      t.need("queueing an addition", code);
    }
  }
  ~LimitedStage() { node.flush(); }
  size_t entries = 0, used = 0;
};

void limit() { ::setenv("FI_CXI_ENABLE_TRIG_OP_LIMIT", "1", 1); }

void limited(Trial& t) {
  limit();
  LimitedStage s(t);
  t.code("the last entry", s.add(), 0);
  t.code("one more", s.add(), -FI_ENOSPC);
  t.code("a write", s.write(), -FI_ENOSPC);
}

void limited_writeback(Trial& t) {
  limit();
  LimitedStage s(t);
  t.code("a write with FI_CXI_CNTR_WB where one entry is free", s.write(kCounterWriteback), -FI_ENOSPC);
  t.code("one without", s.write(), 0);
}

void limited_again(Trial& t) {
  limit();
  LimitedStage s(t);
  t.need("the last entry", s.add());
  t.need("one more", s.add(), -FI_ENOSPC);
  t.need("adding", fi_cntr_add(s.trigger.get(), 1));
  counts(t, "what has fired", s.completion, s.entries);
  t.need("FI_FLUSH_WORK", s.node.flush());
  t.code("entries are free once work has fired",
         defer_counter(s.node, FI_OP_CNTR_ADD, s.completion.get(), 1, {s.trigger.get(), 100}), 0);
}

void limited_after_flush(Trial& t) {
  limit();
  LimitedStage s(t);
  t.need("the last entry", s.add());
  t.need("one more", s.add(), -FI_ENOSPC);
  t.need("FI_FLUSH_WORK", s.node.flush());
  t.code("after a flush", s.add(), 0);
}

void as_yes(Trial& t) {
  ::setenv("FI_CXI_ENABLE_TRIG_OP_LIMIT", "yes", 1);
  LimitedStage s(t);
  t.need("the last entry", s.add());
  t.code("one more with FI_CXI_ENABLE_TRIG_OP_LIMIT=yes", s.add(), -FI_ENOSPC);
}

}  // namespace

Group limit_rules() {
  return {"limits",
          {
              {"Slots", "Deferred writes hold a transmit slot each, and get -FI_EAGAIN beyond tx_attr->size.", kSlots,
               kAll, slots},
              {"SlotsOfEntries", "Reading a write's entry gives its slot back.", "cxip_rma.c: cxip_rma_cb()", kAll,
               slots_of_entries},
              {"SlotsByCounter", "So does reading a counter bound to the endpoint.",
               "cxip_cntr.c: cxip_cntr_progress()", "1.21 to 2.1; from 2.2 on for what counts at it", slots_by_counter},
              {"SlotsOfCounterWork", "Work on counters holds no slot.", "cxip_dom.c: cxip_dom_dwq_op_cntr()", kAll,
               slots_of_counters},
              {"SlotsAfterFlush", "FI_FLUSH_WORK gives slots back.", "cxip_evtq.c: cxip_evtq_flush_trig_reqs()", kAll,
               slots_after_flush},
              {"SlotsManyTimes", "Slots are used again and again.", kSlots, kAll, slots_many_times},
              {"SlotsOfWrites", "Writes with entries hold slots, too.", kSlots, kAll, immediate_slots},
              {"EntriesDepth", "get_dwq_depth() tells the entries of the card's service.",
               "cxip_dom.c: cxip_domain_get_dwq_depth()", kAll, depth},
              {"EntriesLimited", "With FI_CXI_ENABLE_TRIG_OP_LIMIT work beyond the depth is -FI_ENOSPC.", kEntries,
               kAll, limited},
              {"EntriesOfWriteback", "FI_CXI_CNTR_WB takes two entries.", kEntries, kAll, limited_writeback},
              {"EntriesAgain", "Work that has fired gives its entry back.", kEntries, kAll, limited_again},
              {"EntriesAfterFlush", "So does work that was flushed.", kEntries, kAll, limited_after_flush},
              {"EntriesLimitedYes", "The variable is a boolean in all of libfabric's spellings.",
               "cxip_info.c: cxip_env_init() (FI_PARAM_BOOL)", kAll, as_yes},
          }};
}

}  // namespace lanyard::cxi_rules
