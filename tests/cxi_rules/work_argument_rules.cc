// Deferred work that is refused: flags, counters, pieces, keys, operations.
#include "tests/cxi_rules/node.h"

namespace lanyard::cxi_rules {

namespace {

constexpr char kValidate[] = "cxip_dom.c: cxip_dom_dwq_queue_work_validate()";
constexpr char kFlags[] = "cxip_dom.c: cxip_domain_dwq_emit_validate()";
constexpr char kWrite[] = "cxip_dom.c: cxip_dom_dwq_op_rma()";
constexpr char kCounter[] = "cxip_dom.c: cxip_dom_dwq_op_cntr()";

struct Stage {
  explicit Stage(Trial& trial, const Options& options = {})
      : node(trial, options),
        arrivals(node.counter()),
        trigger(node.counter()),
        completion(node.counter()),
        region(node.region(&to, sizeof to, arrivals.get(), 3)),
        here(node.here(region)) {}
  When when(uint64_t threshold = 1) const { return {trigger.get(), threshold, completion.get()}; }

  Node node;
  uint64_t from = 1, to = 0, old = 0;
  Owned<fid_cntr> arrivals, trigger, completion;
  Owned<fid_mr> region;
  Remote here;
};

constexpr std::pair<const char*, uint64_t> kRefused[] = {{"FI_INJECT", FI_INJECT},
                                                         {"FI_FENCE", FI_FENCE},
                                                         {"FI_REMOTE_CQ_DATA", FI_REMOTE_CQ_DATA},
                                                         {"FI_INJECT_COMPLETE", FI_INJECT_COMPLETE}};

void write_flags(Trial& t) {
  Stage s(t);
  for (const auto& [name, flag] : kRefused)
    t.code(name, defer_write(s.node, &s.from, 8, s.here, s.when(), flag), -FI_EINVAL);
}

void read_flags(Trial& t) {
  Stage s(t);
  t.code("FI_FENCE", defer_rma(s.node, FI_OP_READ, &s.from, 8, s.here, s.when(), FI_FENCE), -FI_EINVAL);
}

void atomic_flags(Trial& t) {
  Stage s(t);
  t.code("FI_FENCE", defer_atomic(s.node, {.operand = &s.from}, s.here, s.when(), FI_FENCE), -FI_EINVAL);
  t.code("FI_INJECT", defer_atomic(s.node, {.operand = &s.from}, s.here, s.when(), FI_INJECT), -FI_EINVAL);
  t.code("FI_FENCE of a fetching one",
         defer_atomic(s.node, {.operand = &s.from, .result = &s.old}, s.here, s.when(), FI_FENCE), -FI_EINVAL);
}

void nothing_left_behind(Trial& t) {
  Stage s(t);
  t.need("a refused write", defer_write(s.node, &s.from, 8, s.here, s.when(), FI_FENCE), -FI_EINVAL);
  t.need("adding", fi_cntr_add(s.trigger.get(), 1));
  t.never("completion of what was refused", [&] { return successes(s.completion) != 0; });
  t.value("arrivals", successes(s.arrivals), 0);
}

void no_trigger(Trial& t) {
  Stage s(t);
  t.code("a write", defer_write(s.node, &s.from, 8, s.here, {nullptr, 1}), -FI_EINVAL);
  t.code("an addition", defer_counter(s.node, FI_OP_CNTR_ADD, s.completion.get(), 1, {nullptr, 1}), -FI_EINVAL);
}

void unknown_type(Trial& t) {
  Stage s(t);
  fi_deferred_work work = work_of(s.when(), static_cast<fi_op_type>(99));
  t.code("operation 99", s.node.queue(work), -FI_EINVAL);
}

void counter_with_completion(Trial& t) {
  Stage s(t);
  t.code("FI_OP_CNTR_ADD", defer_counter(s.node, FI_OP_CNTR_ADD, s.arrivals.get(), 1, s.when()), -FI_EINVAL);
  t.code("FI_OP_CNTR_SET", defer_counter(s.node, FI_OP_CNTR_SET, s.arrivals.get(), 1, s.when()), -FI_EINVAL);
}

void counter_missing(Trial& t) {
  Stage s(t);
  t.code("no target", defer_counter(s.node, FI_OP_CNTR_ADD, nullptr, 1, {s.trigger.get(), 1}), -FI_EINVAL);
  fi_deferred_work work = work_of({s.trigger.get(), 1}, FI_OP_CNTR_ADD);
  t.code("no operation", s.node.queue(work), -FI_EINVAL);
}

// A write that may be spoilt.
struct Write {
  explicit Write(Stage& stage) : s(stage) {
    op.ep = s.node.ep.get();
    op.msg.msg_iov = pieces;
    op.msg.iov_count = 1;
    op.msg.addr = s.here.to;
    op.msg.rma_iov = targets;
    op.msg.rma_iov_count = 1;
  }
  int queue() {
    fi_deferred_work work = work_of(s.when(), FI_OP_WRITE);
    work.op.rma = &op;
    return s.node.queue(work);
  }
  Stage& s;
  iovec pieces[2] = {{&s.from, 8}, {&s.from, 8}};
  fi_rma_iov targets[2] = {{0, 8, s.here.key}, {0, 8, s.here.key}};
  fi_op_rma op = {};
};

void no_pieces(Trial& t) {
  Stage s(t);
  Write write(s);
  write.op.msg.msg_iov = nullptr;
  t.code("msg_iov null", write.queue(), -FI_EINVAL);
  write.op.msg.iov_count = 0;
  t.code("though it has none", write.queue(), -FI_EINVAL);
}

void two_pieces(Trial& t) {
  Stage s(t);
  Write write(s);
  write.op.msg.iov_count = 2;
  t.code("two pieces", write.queue(), -FI_EINVAL);
}

void targets(Trial& t) {
  Stage s(t);
  Write write(s);
  write.op.msg.rma_iov_count = 2;
  t.code("two", write.queue(), -FI_EINVAL);
  write.op.msg.rma_iov_count = 0;
  t.code("none", write.queue(), -FI_EINVAL);
  write.op.msg.rma_iov_count = 1;
  write.op.msg.rma_iov = nullptr;
  t.code("rma_iov null", write.queue(), -FI_EINVAL);
}

void no_buffer(Trial& t) {
  Stage s(t);
  t.code("8 bytes of nothing", defer_write(s.node, nullptr, 8, s.here, s.when()), -FI_EINVAL);
}

void too_long(Trial& t) {
  Stage s(t);
  t.code("2^32 bytes", defer_write(s.node, &s.from, kMaxMessage + 1, s.here, s.when()), -FI_EMSGSIZE);
}

void keys(Trial& t) {
  Stage s(t);
  const Remote bad{s.here.to, uint64_t{1} << 40, 0};
  t.code("a write", defer_write(s.node, &s.from, 8, bad, s.when()), -FI_EKEYREJECTED);
  t.code("a sum", defer_atomic(s.node, {.operand = &s.from}, bad, s.when()), -FI_EKEYREJECTED);
}

void unsupported(Trial& t) {
  Stage s(t);
  t.code("FI_PROD", defer_atomic(s.node, {.op = FI_PROD, .operand = &s.from}, s.here, s.when()), -FI_EOPNOTSUPP);
  t.code("FI_BOR of double",
         defer_atomic(s.node, {.op = FI_BOR, .type = FI_DOUBLE, .operand = &s.from}, s.here, s.when()), -FI_EOPNOTSUPP);
}

void operands(Trial& t) {
  Stage s(t);
  t.code("no operand", defer_atomic(s.node, {}, s.here, s.when()), -FI_EINVAL);
  fi_op_fetch_atomic op = {};
  fi_ioc operand{&s.from, 1};
  fi_rma_ioc target{0, 1, s.here.key};
  op.ep = s.node.ep.get();
  op.msg.msg_iov = &operand;
  op.msg.iov_count = 1;
  op.msg.addr = s.here.to;
  op.msg.rma_iov = &target;
  op.msg.rma_iov_count = 1;
  op.msg.datatype = FI_UINT64;
  op.msg.op = FI_SUM;
  fi_deferred_work work = work_of(s.when(), FI_OP_FETCH_ATOMIC);
  work.op.fetch_atomic = &op;
  t.code("no result", s.node.queue(work), -FI_EINVAL);
  operand.count = 2;
  fi_op_atomic plain{op.ep, op.msg, 0};
  work = work_of(s.when(), FI_OP_ATOMIC);
  work.op.atomic = &plain;
  t.code("two values", s.node.queue(work), -FI_EINVAL);
}

void traffic_class(Trial& t) {
  Options options;
  options.change = [](fi_info& hints) { hints.tx_attr->msg_order = FI_ORDER_RMA_WAW; };
  options.enable = false;
  Node node(t, options);
  node.info->tx_attr->tclass = FI_TC_LOW_LATENCY;
  const auto ep = node.endpoint();
  node.enable(ep);
  const fi_addr_t self = node.know(ep);
  uint64_t from = 1, to = 0;
  const auto trigger = node.counter();
  const auto region = node.raw_region(&to, sizeof to);
  t.need("fi_mr_bind()", fi_mr_bind(region.get(), &ep->fid, 0));
  t.need("fi_mr_enable()", fi_mr_enable(region.get()));
  iovec piece{&from, 8};
  fi_rma_iov target{0, 8, fi_mr_key(region.get())};
  fi_op_rma op = {};
  op.ep = ep.get();
  op.msg.msg_iov = &piece;
  op.msg.iov_count = 1;
  op.msg.addr = self;
  op.msg.rma_iov = &target;
  op.msg.rma_iov_count = 1;
  fi_deferred_work work = work_of({trigger.get(), 1}, FI_OP_WRITE);
  work.op.rma = &op;
  t.code("a write of an endpoint with FI_TC_LOW_LATENCY", node.queue(work), -FI_EINVAL);
}

void cancel(Trial& t) {
  Stage s(t);
  fi_deferred_work work = work_of(s.when(), FI_OP_CNTR_ADD);
  t.code("FI_CANCEL_WORK", fi_control(&s.node.domain->fid, FI_CANCEL_WORK, &work), -FI_EINVAL);
}

}  // namespace

Group work_argument_rules() {
  return {
      "deferred work that is refused",
      {
          {"WorkFlagsOfWrites", "Injection, fence, data and FI_INJECT_COMPLETE are refused.", kFlags, kAll,
           write_flags},
          {"WorkFlagsOfReads", "So is a fence of a read.", kFlags, kAll, read_flags},
          {"WorkFlagsOfAtomics", "And of an atomic.", kFlags, kAll, atomic_flags},
          {"WorkRefusedLeavesNothing", "What was refused never fires.", kFlags, kAll, nothing_left_behind},
          {"WorkNeedsTrigger", "Work has a triggering counter.", kValidate, kAll, no_trigger},
          {"WorkUnknownType", "An unknown operation is refused.", kValidate, kAll, unknown_type},
          {"WorkCounterWithCompletion", "Work on counters has no completion counter.", kCounter, kAll,
           counter_with_completion},
          {"WorkCounterMissing", "It has a counter to work on.", kCounter, kAll, counter_missing},
          {"WorkNoPieces", "A deferred write has a msg_iov, also of no piece.", kWrite, kAll, no_pieces},
          {"WorkTwoPieces", "It has one piece.", kWrite, kAll, two_pieces},
          {"WorkTargets", "It has one target.", kWrite, kAll, targets},
          {"WorkNoBuffer", "Bytes need a buffer.", "cxip_rma.c: cxip_rma_common()", kAll, no_buffer},
          {"WorkTooLong", "Beyond 2^32 - 1 bytes it is -FI_EMSGSIZE.", "cxip_rma.c: cxip_rma_common()", kAll, too_long},
          {"WorkKeys", "A key that cannot be one is -FI_EKEYREJECTED.",
           "cxip_rma.c: cxip_rma_common(), cxip_atomic.c: cxip_amo_common()", kAll, keys},
          {"WorkUnsupported", "Atomics that are not there are -FI_EOPNOTSUPP.", "cxip_atomic.c: _cxip_atomic_opcode()",
           kAll, unsupported},
          {"WorkOperands", "Deferred atomics have their operands, of one value.", "cxip_atomic.c: cxip_amo_common()",
           kAll, operands},
          {"WorkTrafficClass", "Work is of the domain's traffic class.", kFlags, kAll, traffic_class},
          {"WorkCancel", "FI_CANCEL_WORK is refused.", "cxip_dom.c: cxip_dom_control()", kAll, cancel},
      }};
}

}  // namespace lanyard::cxi_rules
