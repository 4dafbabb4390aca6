// Completion queues, their entries, and who gets one.
#include <cstring>

#include "tests/cxi_rules/node.h"

namespace lanyard::cxi_rules {

namespace {

constexpr char kAttributes[] = "cxip_cq.c: cxip_cq_verify_attr()";
constexpr char kSelective[] = "cxip_rma.c: cxip_rma_writemsg(), cxip_rma_cb()";

int opening(Node& node, const fi_cq_attr& given, fid_cq** kept = nullptr) {
  fi_cq_attr attributes = given;
  fid_cq* queue = nullptr;
  const int code = fi_cq_open(node.domain.get(), &attributes, &queue, nullptr);
  if (code == 0 && kept != nullptr)
    *kept = queue;
  else if (code == 0)
    node.trial.code("closing it", fi_close(&queue->fid), 0);
  return code;
}

fi_cq_attr attributes_of(fi_cq_format format, fi_wait_obj wait) {
  fi_cq_attr attributes = {};
  attributes.format = format;
  attributes.wait_obj = wait;
  return attributes;
}

void no_attributes(Trial& t) {
  Node node(t, {.enable = false});
  fid_cq* queue = nullptr;
  t.need("fi_cq_open() without attributes", fi_cq_open(node.domain.get(), nullptr, &queue, nullptr));
  fi_cq_entry entry = {};
  t.code("reading it", fi_cq_read(queue, &entry, 1), -FI_EAGAIN);
  t.code("closing it", fi_close(&queue->fid), 0);
}

void formats(Trial& t) {
  Node node(t, {.enable = false});
  for (const fi_cq_format format :
       {FI_CQ_FORMAT_UNSPEC, FI_CQ_FORMAT_CONTEXT, FI_CQ_FORMAT_MSG, FI_CQ_FORMAT_DATA, FI_CQ_FORMAT_TAGGED})
    t.code("format " + std::to_string(format), opening(node, attributes_of(format, FI_WAIT_NONE)), 0);
}

void unknown_format(Trial& t) {
  Node node(t, {.enable = false});
  t.code("format 99", opening(node, attributes_of(static_cast<fi_cq_format>(99), FI_WAIT_NONE)), -FI_ENOSYS);
}

void unspecified_is_context(Trial& t) {
  Node node(t, {.format = FI_CQ_FORMAT_UNSPEC});
  uint64_t from = 1, to = 0;
  const auto region = node.region(&to, sizeof to);
  t.need("fi_writemsg()", node.write(&from, 8, node.here(region), FI_COMPLETION, &from));
  fi_cq_tagged_entry entry;
  std::memset(static_cast<void*>(&entry), 0xee, sizeof entry);
  t.soon("an entry", [&] { return fi_cq_read(node.cq.get(), &entry, 1) == 1; });
  t.holds("it is the context", entry.op_context == &from);
  t.holds("and no more", entry.flags == 0xeeeeeeeeeeeeeeee);
}

void wait_objects(Trial& t) {
  Node node(t, {.enable = false});
  for (const auto& [name, object] : {std::pair("FI_WAIT_NONE", FI_WAIT_NONE), std::pair("FI_WAIT_FD", FI_WAIT_FD),
                                     std::pair("FI_WAIT_UNSPEC", FI_WAIT_UNSPEC)})
    t.code(name, opening(node, attributes_of(FI_CQ_FORMAT_CONTEXT, object)), 0);
}

void other_wait_objects(Trial& t) {
  Node node(t, {.enable = false});
  for (const auto& [name, object] :
       {std::pair("FI_WAIT_SET", FI_WAIT_SET), std::pair("FI_WAIT_MUTEX_COND", FI_WAIT_MUTEX_COND),
        std::pair("FI_WAIT_YIELD", FI_WAIT_YIELD)})
    t.code(name, opening(node, attributes_of(FI_CQ_FORMAT_CONTEXT, object)), -FI_ENOSYS);
}

void waits(Trial& t) {
  Node node(t, {.enable = false});
  fid_cq* queue = nullptr;
  t.code("FI_WAIT_FD", opening(node, attributes_of(FI_CQ_FORMAT_CONTEXT, FI_WAIT_FD), &queue), 0);
  if (queue == nullptr)
    return;
  fi_cq_entry entry = {};
  t.code("fi_cq_sread() for 10 ms", fi_cq_sread(queue, &entry, 1, nullptr, 10), -FI_EAGAIN);
  int fd = -1;
  t.code("FI_GETWAIT", fi_control(&queue->fid, FI_GETWAIT, &fd), 0);
  t.holds("a file descriptor", fd >= 0);
  t.code("closing it", fi_close(&queue->fid), 0);
}

void waits_without_object(Trial& t) {
  Node node(t, {.enable = false});
  fi_cq_tagged_entry entry = {};
  t.code("fi_cq_sread()", fi_cq_sread(node.cq.get(), &entry, 1, nullptr, 0), t.is_2x() ? -FI_EINVAL : -FI_ENOSYS);
}

void empty(Trial& t) {
  Node node(t);
  fi_cq_tagged_entry entry = {};
  fi_cq_err_entry error = {};
  t.code("fi_cq_read()", fi_cq_read(node.cq.get(), &entry, 1), -FI_EAGAIN);
  t.code("fi_cq_readerr()", fi_cq_readerr(node.cq.get(), &error, 0), -FI_EAGAIN);
}

// A word that is written to itself.
struct Word {
  explicit Word(Node& node, uint64_t key = 0)
      : region(node.region(&to, sizeof to, nullptr, key)), here(node.here(region)) {}
  uint64_t from = 7, to = 0;
  Owned<fid_mr> region;
  Remote here;
};

void write_entry(Trial& t) {
  Node node(t);
  Word word(node);
  t.need("fi_writemsg()", node.write(&word.from, 8, word.here, FI_COMPLETION, &word));
  const fi_cq_tagged_entry entry = node.next_entry("the write");
  t.holds("its context", entry.op_context == &word);
  t.value("flags", entry.flags, FI_RMA | FI_WRITE);
  t.value("len", entry.len, 0);
  t.value("data", entry.data, 0);
  t.value("tag", entry.tag, 0);
}

void read_entry(Trial& t) {
  Node node(t);
  Word word(node);
  t.need("fi_readmsg()", node.read(&word.from, 8, word.here, FI_COMPLETION, &word));
  const fi_cq_tagged_entry entry = node.next_entry("the read");
  t.holds("its context", entry.op_context == &word);
  t.value("flags", entry.flags, FI_RMA | FI_READ);
}

void atomic_entry(Trial& t) {
  Node node(t);
  Word word(node);
  t.need("fi_atomicmsg()", atomic(node, {.operand = &word.from}, word.here, FI_COMPLETION, &word));
  t.value("flags of an atomic", node.next_entry("the atomic").flags, FI_ATOMIC | FI_WRITE);
  uint64_t old = 0;
  t.need("fi_fetch_atomicmsg()", atomic(node, {.operand = &word.from, .result = &old}, word.here, FI_COMPLETION));
  t.value("flags of a fetching one", node.next_entry("the fetching atomic").flags, FI_ATOMIC | FI_READ);
}

void selective_silent(Trial& t) {
  Node node(t);
  Word word(node);
  t.need("fi_writemsg()", node.write(&word.from, 8, word.here));
  t.soon("it lands", [&] {
    t.need("the queue stays empty", node.read_queue().code, -FI_EAGAIN);
    return static_cast<volatile uint64_t&>(word.to) == 7;
  });
  t.never("entry", [&] { return node.read_queue().code != -FI_EAGAIN; });
}

void selective_default_flags(Trial& t) {
  Node node(t);
  Word word(node);
  t.need("fi_write()", fi_write(node.ep.get(), &word.from, 8, nullptr, word.here.to, 0, word.here.key, nullptr));
  t.never("entry of fi_write()", [&] { return node.read_queue().code != -FI_EAGAIN; });
}

void every_one(Trial& t) {
  Node node(t, {.selective = false});
  Word word(node);
  t.need("fi_writemsg() without flags", node.write(&word.from, 8, word.here, 0, &word));
  t.holds("an entry", node.next_entry("fi_writemsg()").op_context == &word);
  t.need("fi_write()", fi_write(node.ep.get(), &word.from, 8, nullptr, word.here.to, 0, word.here.key, &word.to));
  t.holds("another", node.next_entry("fi_write()").op_context == &word.to);
}

void inject_is_silent(Trial& t) {
  Node node(t, {.selective = false});
  Word word(node);
  t.code("fi_inject_write()", fi_inject_write(node.ep.get(), &word.from, 8, word.here.to, 0, word.here.key), 0);
  t.never("entry", [&] { return node.read_queue().code != -FI_EAGAIN; });
  t.value("it landed", word.to, 7);
}

void in_batches(Trial& t) {
  Node node(t);
  Word word(node);
  for (int i = 0; i < 3; ++i)
    t.need("fi_writemsg()", node.write(&word.from, 8, word.here, FI_COMPLETION));
  size_t read = 0;
  t.soon("three entries, up to two at once", [&] {
    std::array<fi_cq_tagged_entry, 2> entries;
    const ssize_t count = fi_cq_read(node.cq.get(), entries.data(), entries.size());
    t.need("at most two", count > 2, 0);
    read += count > 0 ? static_cast<size_t>(count) : 0;
    return read == 3;
  });
}

// Beyond the end of a region with a key of the user's.
Remote beyond(const Word& word) { return {word.here.to, word.here.key, 4096}; }

Options user_keys() { return {.mr_mode = kUserKeys}; }

void error_entry(Trial& t) {
  Node node(t, user_keys());
  Word word(node, 5);
  t.need("fi_writemsg()", node.write(&word.from, 8, beyond(word), FI_COMPLETION, &word));
  const fi_cq_err_entry error = node.next_error("a write beyond the region");
  t.value("err", static_cast<uint64_t>(error.err), FI_EIO);
  t.holds("its context", error.op_context == &word);
  t.value("flags", error.flags, FI_RMA | FI_WRITE);
  t.value("olen", error.olen, 0);
  t.holds("prov_errno is set", error.prov_errno != 0);
}

void error_without_asking(Trial& t) {
  Node node(t, user_keys());
  Word word(node, 5);
  t.need("fi_writemsg() without FI_COMPLETION", node.write(&word.from, 8, beyond(word)));
  t.value("err", static_cast<uint64_t>(node.next_error("the write").err), FI_EIO);
}

void error_comes_first(Trial& t) {
  Node node(t, user_keys());
  Word word(node, 5);
  t.need("fi_writemsg()", node.write(&word.from, 8, beyond(word), FI_COMPLETION));
  Entry read;
  t.soon("-FI_EAVAIL", [&] {
    read = node.read_queue();
    return read.code != -FI_EAGAIN;
  });
  t.code("fi_cq_read()", read.code, -FI_EAVAIL);
  t.code("again", node.read_queue().code, -FI_EAVAIL);
  fi_cq_err_entry error = {};
  t.code("fi_cq_readerr()", fi_cq_readerr(node.cq.get(), &error, 0), 1);
  t.code("fi_cq_readerr() again", fi_cq_readerr(node.cq.get(), &error, 0), -FI_EAGAIN);
  t.code("fi_cq_read() after it", node.read_queue().code, -FI_EAGAIN);
}

void error_text(Trial& t) {
  Node node(t, user_keys());
  Word word(node, 5);
  t.need("fi_writemsg()", node.write(&word.from, 8, beyond(word), FI_COMPLETION));
  const fi_cq_err_entry error = node.next_error("the write");
  const char* text = fi_cq_strerror(node.cq.get(), error.prov_errno, error.err_data, nullptr, 0);
  t.holds(std::string("a text: ") + (text == nullptr ? "" : text), text != nullptr && *text != '\0');
}

void levels(Trial& t) {
  Node node(t);
  Word word(node);
  for (const auto& [name, level] :
       {std::pair("FI_INJECT_COMPLETE", FI_INJECT_COMPLETE), std::pair("FI_TRANSMIT_COMPLETE", FI_TRANSMIT_COMPLETE),
        std::pair("FI_DELIVERY_COMPLETE", FI_DELIVERY_COMPLETE), std::pair("FI_MATCH_COMPLETE", FI_MATCH_COMPLETE)}) {
    t.code(name, node.write(&word.from, 8, word.here, FI_COMPLETION | level), 0);
    node.next_entry(name);
  }
}

void delivered(Trial& t) {
  Node node(t);
  std::vector<uint8_t> from(4096), to(4096);
  const auto region = node.region(to.data(), to.size());
  for (int round = 1; round <= 20; ++round) {
    std::fill(from.begin(), from.end(), static_cast<uint8_t>(round));
    t.need("fi_writemsg()",
           node.write(from.data(), from.size(), node.here(region), FI_COMPLETION | FI_DELIVERY_COMPLETE));
    node.next_entry("the write");
    if (to != from)
      return t.holds("the bytes are there when the entry is", false);
  }
  t.holds("20 times the bytes were there when the entry was", true);
}

void sources(Trial& t) {
  Node node(t);
  Word word(node);
  t.need("fi_writemsg()", node.write(&word.from, 8, word.here, FI_COMPLETION));
  fi_cq_tagged_entry entry = {};
  fi_addr_t source = 0;
  t.soon("an entry", [&] { return fi_cq_readfrom(node.cq.get(), &entry, 1, &source) == 1; });
  t.value("its source", source, FI_ADDR_NOTAVAIL);
}

void one_for_many(Trial& t) {
  Node node(t);
  Word word(node);
  const auto second = node.endpoint();
  node.enable(second);
  const iovec piece{&word.from, 8};
  const fi_rma_iov target{0, 8, word.here.key};
  const fi_msg_rma message{&piece, nullptr, 1, word.here.to, &target, 1, &word, 0};
  t.code("a write of the second endpoint", fi_writemsg(second.get(), &message, FI_COMPLETION), 0);
  t.holds("its entry in the shared queue", node.next_entry("it").op_context == &word);
}

}  // namespace

Group queue_rules() {
  return {
      "completion queues",
      {
          {"QueueNoAttributes", "A queue opens without attributes.", "cxip_cq.c: cxip_cq_open()", kAll, no_attributes},
          {"QueueFormats", "All formats are there.", kAttributes, kAll, formats},
          {"QueueUnknownFormat", "An unknown format is -FI_ENOSYS.", kAttributes, kAll, unknown_format},
          {"QueueUnspecified", "Without a format entries are contexts.", kAttributes, kAll, unspecified_is_context},
          {"QueueWaitObjects", "A queue has no wait object or a file descriptor.", kAttributes, kAll, wait_objects},
          {"QueueOtherWaitObjects", "Other wait objects are -FI_ENOSYS.", kAttributes, kAll, other_wait_objects},
          {"QueueWaits", "A queue with a descriptor can be waited on.", "cxip_cq.c: cxip_cq_sreadfrom()", kAll, waits},
          {"QueueWaitsWithout", "Waiting on a queue without an object is -FI_ENOSYS, -FI_EINVAL in 2.x.",
           "libfabric's util_cq.c; cxip_cq.c: cxip_cq_sreadfrom() from 2.0", "-FI_ENOSYS to 1.22, -FI_EINVAL in 2.x",
           waits_without_object},
          {"QueueEmpty", "An empty queue is -FI_EAGAIN either way.", "libfabric's util_cq.c", kAll, empty},
          {"EntryOfWrite", "A write's entry has context and FI_RMA | FI_WRITE, no length, data or tag.",
           "cxip_rma.c: cxip_rma_cb()", kAll, write_entry},
          {"EntryOfRead", "A read's entry has FI_RMA | FI_READ.", "cxip_rma.c: cxip_rma_cb()", kAll, read_entry},
          {"EntryOfAtomic", "An atomic's entry has FI_ATOMIC, and FI_READ if it fetches, else FI_WRITE.",
           "cxip_atomic.c: _cxip_amo_cb()", kAll, atomic_entry},
          {"SelectiveSilent", "With FI_SELECTIVE_COMPLETION only FI_COMPLETION gets an entry.", kSelective, kAll,
           selective_silent},
          {"SelectiveDefaultFlags", "Calls without flags get no entry then either.", "cxip_rma.c: cxip_rma_write()",
           kAll, selective_default_flags},
          {"NotSelective", "Without it every operation gets an entry.", "cxip_ep.c: cxip_ep_bind_cq()", kAll,
           every_one},
          {"InjectIsSilent", "Injected operations never get one.", "cxip_rma.c: cxip_rma_inject()", kAll,
           inject_is_silent},
          {"EntriesInBatches", "Up to so many entries are read as there is room for.", "libfabric's util_cq.c", kAll,
           in_batches},
          {"ErrorEntry", "An operation that failed has an entry with FI_EIO, its context and flags.",
           "cxip_cq.c: cxip_cq_req_error(), proverr2errno()", kAll, error_entry},
          {"ErrorWithoutAsking", "It has one though it did not ask.", "cxip_rma.c: cxip_rma_selective_completion_cb()",
           kAll, error_without_asking},
          {"ErrorComesFirst", "Until it is read, reads of the queue are -FI_EAVAIL.", "libfabric's util_cq.c", kAll,
           error_comes_first},
          {"ErrorText", "A provider's error has a text.", "cxip_cq.c: cxip_cq_strerror()", kAll, error_text},
          {"Levels", "All completion levels are accepted.", "cxip.h: CXIP_WRITEMSG_ALLOWED_FLAGS", kAll, levels},
          {"Delivered", "An entry of FI_DELIVERY_COMPLETE comes after the bytes.", "cxip_rma.c: cxip_rma_emit_dma()",
           kAll, delivered},
          {"SourceOfOneSided", "One-sided operations have no source.", "cxip_cq.c: cxip_cq_req_complete()", kAll,
           sources},
          {"QueueOfMany", "Endpoints may share a queue.", "cxip_ep.c: cxip_ep_bind_cq()", kAll, one_for_many},
      }};
}

}  // namespace lanyard::cxi_rules
