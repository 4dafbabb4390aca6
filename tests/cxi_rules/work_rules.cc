// Deferred work: what it does, when, and what it leaves in counters and queues.
#include <cstring>
#include <numeric>

#include "tests/cxi_rules/node.h"

namespace lanyard::cxi_rules {

namespace {

constexpr char kQueue[] = "cxip_dom.c: cxip_dom_dwq_queue_work()";
constexpr char kWrite[] = "cxip_dom.c: cxip_dom_dwq_op_rma()";
constexpr char kCounter[] = "cxip_dom.c: cxip_dom_dwq_op_cntr()";
constexpr char kFlush[] = "cxip_dom.c: cxip_dom_dwq_flush_work()";

// A counted region: deferred operations are taken by all versions there (WorkUncountedRegion).
struct Stage {
  explicit Stage(Trial& trial, const Options& options = {}, size_t bytes = 64)
      : node(trial, options),
        from(bytes),
        to(bytes),
        arrivals(node.counter()),
        trigger(node.counter()),
        completion(node.counter()),
        region(node.region(to.data(), bytes, arrivals.get(), 3)),
        here(node.here(region)) {
    std::iota(from.begin(), from.end(), uint8_t{1});
  }
  uint64_t word(size_t index = 0) const {
    uint64_t value = 0;
    std::memcpy(&value, to.data() + 8 * index, 8);
    return value;
  }
  When when(uint64_t threshold = 1) const { return {trigger.get(), threshold, completion.get()}; }
  int fire(uint64_t count = 1) { return fi_cntr_add(trigger.get(), count); }

  Node node;
  std::vector<uint8_t> from, to;
  Owned<fid_cntr> arrivals, trigger, completion;
  Owned<fid_mr> region;
  Remote here;
};

void at_threshold(Trial& t) {
  Stage s(t);
  t.need("queueing", defer_write(s.node, s.from.data(), 8, s.here, s.when(3)));
  t.need("adding 2", s.fire(2));
  t.never("arrival below the threshold", [&] { return successes(s.arrivals) != 0; });
  t.need("adding 1", s.fire(1));
  counts(t, "completions at it", s.completion, 1);
  counts(t, "arrivals", s.arrivals, 1);
}

void at_once(Trial& t) {
  Stage s(t);
  t.need("adding 5", s.fire(5));
  t.need("queueing for 3", defer_write(s.node, s.from.data(), 8, s.here, s.when(3)));
  counts(t, "completions", s.completion, 1);
}

void threshold_zero(Trial& t) {
  Stage s(t);
  t.need("queueing for 0", defer_write(s.node, s.from.data(), 8, s.here, s.when(0)));
  counts(t, "completions", s.completion, 1);
}

void jump(Trial& t) {
  Stage s(t);
  for (uint64_t threshold = 1; threshold <= 5; ++threshold)
    t.need("queueing", defer_write(s.node, s.from.data(), 8, s.here, s.when(threshold)));
  t.need("adding 3 at once", s.fire(3));
  counts(t, "completions of thresholds to 3", s.completion, 3);
  t.need("adding 100", s.fire(100));
  counts(t, "of all", s.completion, 5);
}

void by_set(Trial& t) {
  Stage s(t);
  t.need("queueing", defer_write(s.node, s.from.data(), 8, s.here, s.when(7)));
  t.need("setting", fi_cntr_set(s.trigger.get(), 7));
  counts(t, "completions", s.completion, 1);
}

void after_reset(Trial& t) {
  Stage s(t);
  t.need("adding", s.fire(4));
  t.need("queueing", defer_write(s.node, s.from.data(), 8, s.here, s.when(5)));
  t.need("resetting", fi_cntr_set(s.trigger.get(), 0));
  t.need("adding", s.fire(4));
  t.never("completion at 4 of 5", [&] { return successes(s.completion) != 0; });
  t.need("adding", s.fire(1));
  counts(t, "completions at 5", s.completion, 1);
}

void largest(Trial& t) {
  Stage s(t);
  t.need("queueing for 2^48 - 1", defer_write(s.node, s.from.data(), 8, s.here, s.when(kMaxSuccess)));
  t.need("adding 2^48 - 2", s.fire(kMaxSuccess - 1));
  t.never("completion", [&] { return successes(s.completion) != 0; });
  t.need("adding 1", s.fire(1));
  counts(t, "completions", s.completion, 1);
}

void write_sizes(Trial& t) {
  const size_t largest = size_t{1} << 20;
  Stage s(t, {}, largest);
  uint64_t done = 0;
  for (const size_t bytes : {size_t{1}, size_t{8}, size_t{193}, size_t{4096}, largest}) {
    std::fill(s.to.begin(), s.to.end(), uint8_t{0});
    t.need("queueing", defer_write(s.node, s.from.data(), bytes, s.here, s.when(++done), FI_DELIVERY_COMPLETE));
    t.need("adding", s.fire());
    counts(t, "completions", s.completion, done);
    t.holds(std::to_string(bytes) + " bytes",
            std::equal(s.from.begin(), s.from.begin() + static_cast<ptrdiff_t>(bytes), s.to.begin()) &&
                (bytes == largest || s.to[bytes] == 0));
  }
}

void write_nothing(Trial& t) {
  Stage s(t);
  t.need("queueing 0 bytes", defer_write(s.node, s.from.data(), 0, s.here, s.when()));
  t.need("adding", s.fire());
  counts(t, "completions", s.completion, 1);
  counts(t, "arrivals", s.arrivals, 1);
}

void reads(Trial& t) {
  Stage s(t);
  std::iota(s.to.begin(), s.to.end(), uint8_t{100});
  t.need("queueing", defer_rma(s.node, FI_OP_READ, s.from.data(), 64, s.here, s.when()));
  t.never("read before its time", [&] { return s.from == s.to; });
  t.need("adding", s.fire());
  counts(t, "completions", s.completion, 1);
  t.holds("the bytes are here", s.from == s.to);
}

void sums(Trial& t) {
  Stage s(t);
  const uint64_t seven = 7;
  t.need("queueing", defer_atomic(s.node, {.operand = &seven}, s.here, s.when(), FI_DELIVERY_COMPLETE));
  t.need("adding", s.fire());
  counts(t, "completions", s.completion, 1);
  t.value("the sum", s.word(), 7);
}

void fetches(Trial& t) {
  Stage s(t);
  s.to[0] = 5;
  const uint64_t seven = 7;
  uint64_t old = 0;
  t.need("queueing", defer_atomic(s.node, {.operand = &seven, .result = &old}, s.here, s.when()));
  t.need("adding", s.fire());
  counts(t, "completions", s.completion, 1);
  t.value("returned", old, 5);
  t.value("the sum", s.word(), 12);
}

void compares(Trial& t) {
  Stage s(t);
  s.to[0] = 5;
  const uint64_t nine = 9, five = 5;
  uint64_t old = 0;
  t.need("queueing",
         defer_atomic(s.node, {.op = FI_CSWAP, .operand = &nine, .result = &old, .compare = &five}, s.here, s.when()));
  t.need("adding", s.fire());
  counts(t, "completions", s.completion, 1);
  t.value("returned", old, 5);
  t.value("what is there", s.word(), 9);
}

void counter_adds(Trial& t) {
  Stage s(t);
  t.need("queueing", defer_counter(s.node, FI_OP_CNTR_ADD, s.completion.get(), 5, {s.trigger.get(), 1}));
  t.need("adding 1 itself", fi_cntr_add(s.completion.get(), 1));
  t.need("adding", s.fire());
  counts(t, "after an addition of 5", s.completion, 6);
}

void counter_sets(Trial& t) {
  Stage s(t);
  t.need("queueing", defer_counter(s.node, FI_OP_CNTR_SET, s.completion.get(), 5, {s.trigger.get(), 1}));
  t.need("adding 100 itself", fi_cntr_add(s.completion.get(), 100));
  t.need("adding", s.fire());
  counts(t, "after setting 5", s.completion, 5);
}

void counter_of_itself(Trial& t) {
  Stage s(t);
  t.need("queueing", defer_counter(s.node, FI_OP_CNTR_ADD, s.trigger.get(), 10, {s.trigger.get(), 1}));
  t.need("adding", s.fire());
  counts(t, "the trigger after adding 10 to itself", s.trigger, 11);
}

void chains(Trial& t) {
  Stage s(t);
  const auto middle = s.node.counter();
  t.need("queueing the last", defer_write(s.node, s.from.data() + 16, 8, {s.here.to, s.here.key, 16},
                                          {middle.get(), 2, s.completion.get()}));
  t.need("queueing an addition between", defer_counter(s.node, FI_OP_CNTR_ADD, middle.get(), 1, {middle.get(), 1}));
  t.need("queueing the first", defer_write(s.node, s.from.data(), 8, s.here, {s.trigger.get(), 1, middle.get()}));
  t.need("adding", s.fire());
  counts(t, "completions of the last of three", s.completion, 1);
  counts(t, "arrivals", s.arrivals, 2);
}

void arrival_triggers(Trial& t) {
  Stage s(t);
  t.need("queueing", defer_counter(s.node, FI_OP_CNTR_ADD, s.completion.get(), 1, {s.arrivals.get(), 2}));
  for (int i = 0; i < 2; ++i)
    t.need("fi_writemsg()", s.node.write(s.from.data(), 8, s.here));
  counts(t, "what two arrivals fired", s.completion, 1);
}

void no_completion(Trial& t) {
  Stage s(t);
  t.need("queueing without a completion counter", defer_write(s.node, s.from.data(), 8, s.here, {s.trigger.get(), 1}));
  t.need("adding", s.fire());
  counts(t, "arrivals", s.arrivals, 1);
}

void no_entry(Trial& t) {
  Stage s(t, {.selective = false});
  t.need("queueing a write", defer_write(s.node, s.from.data(), 8, s.here, s.when()));
  t.need("adding", s.fire());
  counts(t, "completions", s.completion, 1);
  t.never("entry without FI_COMPLETION", [&] { return s.node.read_queue().code != -FI_EAGAIN; });
}

void no_entry_of_atomic(Trial& t) {
  Stage s(t, {.selective = false});
  const uint64_t one = 1;
  t.need("queueing a sum", defer_atomic(s.node, {.operand = &one}, s.here, s.when()));
  t.need("adding", s.fire());
  counts(t, "completions", s.completion, 1);
  t.never("entry without FI_COMPLETION", [&] { return s.node.read_queue().code != -FI_EAGAIN; });
}

void entry(Trial& t) {
  Stage s(t);
  t.need("queueing a write", defer_write(s.node, s.from.data(), 8, s.here, s.when(), FI_COMPLETION, &s));
  t.never("entry before its time", [&] { return s.node.read_queue().code != -FI_EAGAIN; });
  t.need("adding", s.fire());
  const fi_cq_tagged_entry entry = s.node.next_entry("the write");
  t.holds("its context", entry.op_context == &s);
  t.value("flags", entry.flags, FI_RMA | FI_WRITE);
}

void endpoint_counter(Trial& t) {
  Stage s(t);
  const auto writes = s.node.counter();
  t.need("binding a counter", fi_ep_bind(s.node.ep.get(), &writes->fid, FI_WRITE));
  t.need("queueing", defer_write(s.node, s.from.data(), 8, s.here, s.when()));
  t.need("adding", s.fire());
  counts(t, "completions", s.completion, 1);
  t.value("the endpoint's counter", successes(writes), 0);
  s.region.reset();
  s.node.ep.reset();
}

void payload_late(Trial& t) {
  Stage s(t);
  t.need("queueing", defer_write(s.node, s.from.data(), 8, s.here, s.when(), FI_DELIVERY_COMPLETE));
  std::fill(s.from.begin(), s.from.end(), uint8_t{0x55});
  t.need("adding", s.fire());
  counts(t, "completions", s.completion, 1);
  t.value("what lands is what is there when it fires", s.word(), 0x5555555555555555);
}

void operand_late(Trial& t) {
  Stage s(t);
  uint64_t operand = 1;
  t.need("queueing", defer_atomic(s.node, {.operand = &operand}, s.here, s.when(), FI_DELIVERY_COMPLETE));
  operand = 1000;
  t.need("adding", s.fire());
  counts(t, "completions", s.completion, 1);
  t.value("what is added is what is there when it fires", s.word(), 1000);
}

void comparison_early(Trial& t) {
  Stage s(t);
  s.to[0] = 5;
  const uint64_t nine = 9;
  uint64_t compare = 5, old = 0;
  t.need("queueing", defer_atomic(s.node, {.op = FI_CSWAP, .operand = &nine, .result = &old, .compare = &compare},
                                  s.here, s.when()));
  compare = 6;
  t.need("adding", s.fire());
  counts(t, "completions", s.completion, 1);
  t.value("it compares with what was there when it was queued", s.word(), 9);
}

void failure(Trial& t) {
  Stage s(t, {.mr_mode = kUserKeys});
  t.need("queueing", defer_write(s.node, s.from.data(), 8, {s.here.to, s.here.key, 4096}, s.when(), 0, &s));
  t.need("adding", s.fire());
  t.soon("a failure at the completion counter", [&] { return failures(s.completion) == 1; });
  t.value("success", successes(s.completion), 0);
  const fi_cq_err_entry error = s.node.next_error("the write");
  t.value("err", static_cast<uint64_t>(error.err), FI_EIO);
  t.holds("its context", error.op_context == &s);
}

void more(Trial& t) {
  Stage s(t);
  t.need("queueing with FI_MORE", defer_write(s.node, s.from.data(), 8, s.here, s.when(), FI_MORE));
  t.need("adding", s.fire());
  counts(t, "completions", s.completion, 1);
}

void flags(Trial& t) {
  Stage s(t);
  uint64_t done = 0;
  const std::pair<const char*, uint64_t> taken[] = {{"FI_TRANSMIT_COMPLETE", FI_TRANSMIT_COMPLETE},
                                                    {"FI_DELIVERY_COMPLETE", FI_DELIVERY_COMPLETE},
                                                    {"FI_MATCH_COMPLETE", FI_MATCH_COMPLETE},
                                                    {"FI_CXI_CNTR_WB", kCounterWriteback}};
  for (const auto& [name, flag] : taken) {
    t.code(name, defer_write(s.node, s.from.data(), 8, s.here, s.when(++done), flag), 0);
    t.need("adding", s.fire());
  }
  counts(t, "completions", s.completion, done);
}

void fetch_delivered(Trial& t) {
  Stage s(t);
  const uint64_t one = 1;
  uint64_t old = 0, word = 0;
  t.code("of a counted region",
         defer_atomic(s.node, {.operand = &one, .result = &old}, s.here, s.when(), FI_DELIVERY_COMPLETE), -FI_EINVAL);
  const auto uncounted = s.node.region(&word, sizeof word);
  t.code(
      "of another, on an empty command queue",
      defer_atomic(s.node, {.operand = &one, .result = &old}, s.node.here(uncounted), s.when(), FI_DELIVERY_COMPLETE),
      -FI_EAGAIN);
}

void uncounted(Trial& t) {
  Node node(t);
  uint64_t from = 1, to = 0;
  const auto trigger = node.counter();
  const auto region = node.region(&to, sizeof to);
  const int expected = t.is_2x() ? 0 : -FI_EINVAL;
  t.code("a write", defer_write(node, &from, 8, node.here(region), {trigger.get(), 1}), expected);
  t.code("a read", defer_rma(node, FI_OP_READ, &from, 8, node.here(region), {trigger.get(), 1}), expected);
}

void uncounted_in_order(Trial& t) {
  Node node(t, {.change = [](fi_info& hints) { hints.tx_attr->msg_order = FI_ORDER_RMA_WAW; }});
  uint64_t from = 1, to = 0;
  const auto trigger = node.counter(), completion = node.counter();
  const auto region = node.region(&to, sizeof to);
  t.code("a write", defer_write(node, &from, 8, node.here(region), {trigger.get(), 1, completion.get()}), 0);
  t.need("adding", fi_cntr_add(trigger.get(), 1));
  counts(t, "completions", completion, 1);
}

void user_keys(Trial& t) {
  Stage s(t, {.mr_mode = kUserKeys});
  t.need("queueing", defer_write(s.node, s.from.data(), 8, s.here, s.when()));
  t.need("adding", s.fire());
  counts(t, "completions", s.completion, 1);
}

void flush_cancels(Trial& t) {
  Stage s(t);
  for (uint64_t threshold = 1; threshold <= 10; ++threshold)
    t.need("queueing", defer_write(s.node, s.from.data(), 8, s.here, s.when(threshold)));
  t.code("FI_FLUSH_WORK", s.node.flush(), 0);
  t.need("adding", s.fire(100));
  t.never("arrival of what was flushed", [&] { return successes(s.arrivals) != 0; });
  t.value("completions", successes(s.completion), 0);
}

void flush_keeps_counters(Trial& t) {
  Stage s(t);
  t.need("adding", s.fire(3));
  t.need("queueing", defer_write(s.node, s.from.data(), 8, s.here, s.when(9)));
  t.code("FI_FLUSH_WORK", s.node.flush(), 0);
  counts(t, "the trigger", s.trigger, 3);
}

void flush_and_again(Trial& t) {
  Stage s(t);
  t.need("queueing", defer_write(s.node, s.from.data(), 8, s.here, s.when()));
  t.need("FI_FLUSH_WORK", s.node.flush());
  t.need("queueing again", defer_write(s.node, s.from.data(), 8, s.here, s.when()));
  t.need("adding", s.fire());
  counts(t, "completions", s.completion, 1);
}

void flush_all_counters(Trial& t) {
  Stage s(t);
  const auto other = s.node.counter();
  t.need("queueing", defer_write(s.node, s.from.data(), 8, s.here, s.when()));
  t.need("queueing for another counter",
         defer_counter(s.node, FI_OP_CNTR_ADD, s.completion.get(), 1, {other.get(), 1}));
  t.need("FI_FLUSH_WORK", s.node.flush());
  t.need("adding", s.fire());
  t.need("adding", fi_cntr_add(other.get(), 1));
  t.never("completion", [&] { return successes(s.completion) != 0; });
}

void flush_other_domain(Trial& t) {
  Stage s(t);
  Node other(t);
  const auto counter = other.counter();
  t.need("queueing", defer_write(s.node, s.from.data(), 8, s.here, s.when()));
  t.need("FI_FLUSH_WORK of another domain", other.flush());
  t.need("adding", s.fire());
  counts(t, "completions", s.completion, 1);
}

void flush_nothing(Trial& t) {
  Node node(t, {.enable = false});
  t.code("without a counter", node.flush(), 0);
}

void closes(Trial& t) {
  Stage s(t);
  t.need("queueing", defer_write(s.node, s.from.data(), 8, s.here, s.when()));
  t.need("FI_FLUSH_WORK", s.node.flush());
  t.code("closing the completion counter", fi_close(&s.completion.release()->fid), 0);
  t.code("closing the trigger", fi_close(&s.trigger.release()->fid), 0);
}

}  // namespace

Group work_rules() {
  return {
      "deferred work",
      {
          {"WorkAtThreshold", "Work fires when its counter comes to the threshold, not before.",
           "fi_trigger(3); cxip_dom.c: cxip_domain_dwq_emit_dma()", kAll, at_threshold},
          {"WorkAtOnce", "Work whose threshold is met fires when it is queued.", "fi_trigger(3)", kAll, at_once},
          {"WorkThresholdZero", "A threshold of 0 is met.", "fi_trigger(3)", kAll, threshold_zero},
          {"WorkJump", "One addition fires all that it passes.", "fi_trigger(3)", kAll, jump},
          {"WorkBySet", "Setting a counter fires.", "cxip_cntr.c: cxip_cntr_mod()", kAll, by_set},
          {"WorkAfterReset", "After a reset work waits for its threshold from 0 on.", "cxip_cntr.c: cxip_cntr_mod()",
           kAll, after_reset},
          {"WorkLargest", "Thresholds go to 2^48 - 1.", "cxip/test/cntr.c", kAll, largest},
          {"WorkWriteSizes", "A deferred write lands whole.", kWrite, kAll, write_sizes},
          {"WorkWriteNothing", "A deferred write of no bytes counts at both ends.", kWrite, kAll, write_nothing},
          {"WorkReads", "Reads can be deferred.", kWrite, kAll, reads},
          {"WorkSums", "Atomics can.", "cxip_dom.c: cxip_dom_dwq_op_atomic()", kAll, sums},
          {"WorkFetches", "Fetching ones, too.", "cxip_dom.c: cxip_dom_dwq_op_fetch_atomic()", kAll, fetches},
          {"WorkCompares", "And comparing ones.", "cxip_dom.c: cxip_dom_dwq_op_comp_atomic()", kAll, compares},
          {"WorkCounterAdds", "FI_OP_CNTR_ADD adds.", kCounter, kAll, counter_adds},
          {"WorkCounterSets", "FI_OP_CNTR_SET replaces.", kCounter, kAll, counter_sets},
          {"WorkCounterItself", "A counter may be its own trigger and target.", kCounter, kAll, counter_of_itself},
          {"WorkChains", "Completion counters trigger further work.", kQueue, kAll, chains},
          {"WorkByArrival", "So do counters of regions.", "cxip_mr.c: cxip_mr_enable_std()", kAll, arrival_triggers},
          {"WorkNoCompletion", "A completion counter may be missing.", kQueue, kAll, no_completion},
          {"WorkNoEntry", "Without FI_COMPLETION there is no entry, also where the queue is not selective.", kWrite,
           kAll, no_entry},
          {"WorkNoEntryOfAtomic", "Nor of an atomic.", "cxip_dom.c: cxip_dom_dwq_op_atomic()", kAll,
           no_entry_of_atomic},
          {"WorkEntry", "With it there is one, when the work is done.", "cxip_rma.c: cxip_rma_cb()", kAll, entry},
          {"WorkEndpointCounter", "Deferred work does not count at the endpoint's counter.",
           "cxip_rma.c: cxip_rma_emit_dma()", kAll, endpoint_counter},
          {"WorkPayloadLate", "A payload is read when the work fires.", "cxip_rma.c: cxip_rma_emit_dma()", kAll,
           payload_late},
          {"WorkOperandLate", "So is an operand.", "cxip_atomic.c: cxip_amo_emit_dma()", kAll, operand_late},
          {"WorkComparisonEarly", "What is compared with is read when the work is queued.",
           "cxip_atomic.c: cxip_amo_emit_dma()", kAll, comparison_early},
          {"WorkFailure", "Work that fails is a failure at its counter and an error in the queue.",
           "cxip_rma.c: cxip_rma_cb()", kAll, failure},
          {"WorkMore", "FI_MORE holds nothing back.", kWrite, kAll, more},
          {"WorkFlags", "Completion levels and FI_CXI_CNTR_WB are taken.", "cxip_dom.c: SUPPORTED_DWQ_FLAGS", kAll,
           flags},
          {"WorkFetchDelivered",
           "A fetching atomic with FI_DELIVERY_COMPLETE is -FI_EINVAL for a counted region, else -FI_EAGAIN while the "
           "command queue has room.",
           "cxip_atomic.c: cxip_amo_emit_dma(), cxip_dom.c: cxip_domain_dwq_emit_amo()", kAll, fetch_delivered},
          {"WorkUncountedRegion",
           "To 1.22 a deferred write or read of an uncounted region with a provider's key, without "
           "FI_ORDER_RMA_WAW, is refused.",
           "cxip_rma.c: cxip_rma_common() (restricted), cxip_dom.c: cxip_domain_dwq_emit_validate()",
           "-FI_EINVAL to 1.22, taken from 2.0", uncounted},
          {"WorkUncountedInOrder", "With FI_ORDER_RMA_WAW a deferred write of it is taken.",
           "cxip_rma.c: cxip_rma_is_unrestricted()", kAll, uncounted_in_order},
          {"WorkUserKeys", "Keys of the user's serve deferred work.", kWrite, kAll, user_keys},
          {"FlushCancels", "FI_FLUSH_WORK cancels what waits.", kFlush, kAll, flush_cancels},
          {"FlushKeepsCounters", "Counters keep their values.", kFlush, kAll, flush_keeps_counters},
          {"FlushAndAgain", "Work may be queued after it.", kFlush, kAll, flush_and_again},
          {"FlushAll", "It is for all counters of the domain.", kFlush, kAll, flush_all_counters},
          {"FlushOtherDomain", "It is for no other domain.", kFlush, kAll, flush_other_domain},
          {"FlushNothing", "Without a counter there is nothing to flush.", kFlush, kAll, flush_nothing},
          {"FlushThenClose", "After it counters close.", "cxip_cntr.c: cxip_cntr_close()", kAll, closes},
      }};
}

}  // namespace lanyard::cxi_rules
