// Counters by the provider's extension: written back to memory of the user's, and added to by stores.
#include "tests/cxi_rules/node.h"

namespace lanyard::cxi_rules {

namespace {

constexpr char kBuffer[] = "cxip_cntr.c: cxip_set_wb_buffer()";
constexpr char kRegisters[] = "cxip_cntr.c: cxip_get_mmio_addr()";

// fi_cxi_ext.h's fi_cxi_cntr_ops.
struct CounterOps {
  int (*set_wb_buffer)(struct fid* fid, void* buffer, size_t bytes);
  int (*get_mmio_addr)(struct fid* fid, void** address, size_t* bytes);
};

CounterOps& ops_of(Trial& t, const Owned<fid_cntr>& counter) {
  void* ops = nullptr;
  t.need("fi_open_ops(cxi_counter_ops)", fi_open_ops(&counter->fid, "cxi_counter_ops", 0, &ops, nullptr));
  return *static_cast<CounterOps*>(ops);
}

// Where a counter is written back to.
struct Word {
  alignas(8) volatile uint64_t value = 0;
  void* address() { return const_cast<uint64_t*>(&value); }
  uint64_t success() const { return value & kMaxSuccess; }
  uint64_t failure() const { return (value >> 48) & kMaxFailure; }
  bool valid() const { return (value >> 63) != 0; }
};

// Adding 8 bytes at a time, as the registers are declared.
volatile uint64_t* registers(Trial& t, const Owned<fid_cntr>& counter) {
  void* address = nullptr;
  size_t bytes = 0;
  const int code = ops_of(t, counter).get_mmio_addr(&counter->fid, &address, &bytes);
  if (code == -FI_ENOSYS)
    t.not_offered("get_mmio_addr() gives -FI_ENOSYS");
  t.need("get_mmio_addr()", code);
  return static_cast<volatile uint64_t*>(address);
}

void opens(Trial& t) {
  Node node(t);
  const auto counter = node.counter();
  void* ops = nullptr;
  t.code("cxi_counter_ops", fi_open_ops(&counter->fid, "cxi_counter_ops", 0, &ops, nullptr), 0);
  t.code("another name", fi_open_ops(&counter->fid, "other", 0, &ops, nullptr), -FI_EINVAL);
}

void buffer_arguments(Trial& t) {
  Node node(t);
  const auto counter = node.counter();
  Word word;
  const CounterOps& ops = ops_of(t, counter);
  t.code("no buffer", ops.set_wb_buffer(&counter->fid, nullptr, 8), -FI_EINVAL);
  t.code("7 bytes", ops.set_wb_buffer(&counter->fid, word.address(), 7), -FI_EINVAL);
  t.code("8 bytes", ops.set_wb_buffer(&counter->fid, word.address(), 8), 0);
}

void buffer_at_once(Trial& t) {
  Node node(t);
  const auto counter = node.counter();
  Word word;
  t.need("adding", fi_cntr_add(counter.get(), 3));
  t.need("set_wb_buffer()", ops_of(t, counter).set_wb_buffer(&counter->fid, word.address(), 8));
  t.soon("it is written without a read", [&] { return word.valid() && word.success() == 3; });
}

void buffer_word(Trial& t) {
  Node node(t);
  const auto counter = node.counter();
  Word word;
  t.need("set_wb_buffer()", ops_of(t, counter).set_wb_buffer(&counter->fid, word.address(), 8));
  t.need("adding", fi_cntr_add(counter.get(), 0x123456));
  t.need("failing", fi_cntr_adderr(counter.get(), 5));
  t.soon("48 bits of success, 7 of failure, valid in bit 63", [&] {
    fi_cntr_read(counter.get());
    return word.value == ((uint64_t{1} << 63) | (uint64_t{5} << 48) | 0x123456);
  });
}

void buffer_on_failure(Trial& t) {
  Node node(t);
  const auto counter = node.counter();
  Word word;
  t.need("set_wb_buffer()", ops_of(t, counter).set_wb_buffer(&counter->fid, word.address(), 8));
  t.soon("the first word", [&] { return word.valid(); });
  t.need("failing", fi_cntr_adderr(counter.get(), 1));
  t.soon("the first failure is written by itself", [&] { return word.failure() == 1; });
}

void buffer_not_on_addition(Trial& t) {
  Node node(t);
  const auto counter = node.counter();
  Word word;
  t.need("set_wb_buffer()", ops_of(t, counter).set_wb_buffer(&counter->fid, word.address(), 8));
  t.soon("the first word", [&] { return word.valid(); });
  t.need("adding", fi_cntr_add(counter.get(), 1));
  t.never("addition is written by itself", [&] { return word.success() == 1; });
}

void buffer_on_read(Trial& t) {
  Node node(t);
  const auto counter = node.counter();
  Word word;
  t.need("set_wb_buffer()", ops_of(t, counter).set_wb_buffer(&counter->fid, word.address(), 8));
  t.need("adding", fi_cntr_add(counter.get(), 6));
  t.soon("a read has it written", [&] {
    fi_cntr_read(counter.get());
    return word.success() == 6;
  });
}

void buffer_on_wait(Trial& t) {
  Node node(t);
  const auto counter = node.counter();
  Word word;
  t.need("set_wb_buffer()", ops_of(t, counter).set_wb_buffer(&counter->fid, word.address(), 8));
  t.need("adding", fi_cntr_add(counter.get(), 2));
  t.code("fi_cntr_wait()", fi_cntr_wait(counter.get(), 2, 1000), 0);
  t.value("the word then", word.success(), 2);
}

void buffer_replaced(Trial& t) {
  Node node(t);
  const auto counter = node.counter();
  Word first, second;
  const CounterOps& ops = ops_of(t, counter);
  t.need("set_wb_buffer()", ops.set_wb_buffer(&counter->fid, first.address(), 8));
  t.need("set_wb_buffer() again", ops.set_wb_buffer(&counter->fid, second.address(), 8));
  t.need("adding", fi_cntr_add(counter.get(), 4));
  t.soon("the new word is written", [&] {
    fi_cntr_read(counter.get());
    return second.success() == 4;
  });
  t.value("the old one", first.success(), 0);
}

// FI_CXI_CNTR_WB: at threshold + 1, as the work's completion would have it when both counters are one.
void buffer_by_flag(Trial& t) {
  Node node(t);
  const auto counter = node.counter();
  Word word;
  uint64_t from = 1, to = 0;
  const auto region = node.region(&to, sizeof to);
  t.need("set_wb_buffer()", ops_of(t, counter).set_wb_buffer(&counter->fid, word.address(), 8));
  t.need("queueing",
         defer_write(node, &from, 8, node.here(region), {counter.get(), 1, counter.get()}, kCounterWriteback));
  t.need("adding", fi_cntr_add(counter.get(), 1));
  t.soon("threshold + 1 is written without a read", [&] { return word.success() == 2; });
}

void registers_size(Trial& t) {
  Node node(t);
  const auto counter = node.counter();
  void* address = nullptr;
  size_t bytes = 0;
  const int code = ops_of(t, counter).get_mmio_addr(&counter->fid, &address, &bytes);
  if (code == -FI_ENOSYS)
    t.not_offered("get_mmio_addr() gives -FI_ENOSYS");
  t.code("get_mmio_addr()", code, 0);
  t.value("bytes that it says", bytes, 8);
  t.holds("there is an address", address != nullptr);
}

void registers_add(Trial& t) {
  Node node(t);
  const auto counter = node.counter();
  volatile uint64_t* const at = registers(t, counter);
  for (int i = 0; i < 10; ++i)
    *at = 3;
  counts(t, "success after storing 3 ten times", counter, 30);
}

void registers_fail(Trial& t) {
  Node node(t);
  const auto counter = node.counter();
  volatile uint64_t* const at = registers(t, counter);
  *(at + 8) = 2;
  *(at + 8) = 1;
  t.soon("3 failures after storing 2 and 1 at 64", [&] { return failures(counter) == 3; });
}

void registers_reset(Trial& t) {
  Node node(t);
  const auto counter = node.counter();
  volatile uint64_t* const at = registers(t, counter);
  t.need("adding", fi_cntr_add(counter.get(), 9));
  t.need("failing", fi_cntr_adderr(counter.get(), 9));
  *(at + 16) = 0;
  counts(t, "success after storing 0 at 128", counter, 0);
  t.value("failures stay", failures(counter), 9);
  *(at + 24) = 0;
  t.soon("no failure after storing 0 at 192", [&] { return failures(counter) == 0; });
}

void registers_fire(Trial& t) {
  Node node(t);
  const auto trigger = node.counter(), target = node.counter();
  volatile uint64_t* const at = registers(t, trigger);
  t.need("queueing", defer_counter(node, FI_OP_CNTR_ADD, target.get(), 1, {trigger.get(), 1}));
  *at = 1;
  counts(t, "what the store fired", target, 1);
}

}  // namespace

Group counter_extension_rules() {
  return {
      "counters by extension",
      {
          {"CounterOps", "A counter's extension is called cxi_counter_ops.", "cxip_cntr.c: cxip_cntr_ops_open()", kAll,
           opens},
          {"WritebackArguments", "The word is 8 bytes at least.", kBuffer, kAll, buffer_arguments},
          {"WritebackAtOnce", "Setting the word has it written.", kBuffer, kAll, buffer_at_once},
          {"WritebackWord", "The word has successes in bits 0 to 47, failures in 48 to 54, validity in 63.",
           "fi_cxi_ext.h: fi_cxi_cntr_wb_read()", kAll, buffer_word},
          {"WritebackOnFailure", "The first failure is written by itself.", "fi_cxi(7), CXI Counter Writeback Flag",
           kAll, buffer_on_failure},
          {"WritebackNotOnAddition", "Additions are not written by themselves.",
           "fi_cxi(7), CXI Counter Writeback Flag", kAll, buffer_not_on_addition},
          {"WritebackOnRead", "Reads have it written.", "cxip_cntr.c: cxip_cntr_get()", kAll, buffer_on_read},
          {"WritebackOnWait", "What ends a wait has been written.", "cxip_cntr.c: cxip_cntr_emit_trig_event_cmd()",
           kAll, buffer_on_wait},
          {"WritebackReplaced", "A new word takes the old one's place.", kBuffer, kAll, buffer_replaced},
          {"WritebackByFlag", "FI_CXI_CNTR_WB has the triggering counter written at threshold + 1.",
           "cxip_dom.c: cxip_dom_dwq_queue_work()", kAll, buffer_by_flag},
          {"RegistersSize", "The registers are said to be 8 bytes.", kRegisters, kAll, registers_size},
          {"RegistersAdd", "A store to the first adds.", "fi_cxi_ext.h: fi_cxi_cntr_add()", kAll, registers_add},
          {"RegistersFail", "A store at 64 adds failures.", "fi_cxi_ext.h: fi_cxi_cntr_adderr()", kAll, registers_fail},
          {"RegistersReset", "A store of 0 at 128 resets successes, at 192 failures.",
           "fi_cxi_ext.h: fi_cxi_cntr_set(), fi_cxi_cntr_seterr()", kAll, registers_reset},
          {"RegistersFire", "A store fires work.", "fi_cxi_ext.h: fi_cxi_cntr_add()", kAll, registers_fire},
      }};
}

}  // namespace lanyard::cxi_rules
