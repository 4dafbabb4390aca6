// Immediate writes and reads of remote memory.
#include <numeric>

#include "tests/cxi_rules/node.h"

namespace lanyard::cxi_rules {

namespace {

constexpr char kCommon[] = "cxip_rma.c: cxip_rma_common()";
constexpr char kWrite[] = "cxip_rma.c: cxip_rma_writemsg()";
constexpr char kRead[] = "cxip_rma.c: cxip_rma_readmsg()";
Options user_keys() { return {.mr_mode = kUserKeys}; }

// Memory at both ends.
struct Both {
  Both(Node& node, size_t bytes, fid_cntr* counter = nullptr, uint64_t key = 0)
      : from(bytes), to(bytes), region(node.region(to.data(), bytes, counter, key)), here(node.here(region)) {
    std::iota(from.begin(), from.end(), uint8_t{1});
  }
  std::vector<uint8_t> from, to;
  Owned<fid_mr> region;
  Remote here;
};

void write_sizes(Trial& t) {
  Node node(t);
  Both both(node, size_t{1} << 20);
  for (const size_t bytes : {size_t{1}, size_t{8}, size_t{192}, size_t{193}, size_t{4096}, size_t{1} << 20}) {
    std::fill(both.to.begin(), both.to.end(), uint8_t{0});
    t.need("fi_writemsg()", node.write(both.from.data(), bytes, both.here, FI_COMPLETION | FI_DELIVERY_COMPLETE));
    node.next_entry("a write");
    t.holds(std::to_string(bytes) + " bytes",
            std::equal(both.from.begin(), both.from.begin() + static_cast<ptrdiff_t>(bytes), both.to.begin()) &&
                (bytes == both.to.size() || both.to[bytes] == 0));
  }
}

void write_nothing(Trial& t) {
  Node node(t);
  Both both(node, 8);
  t.code("fi_write() of 0 bytes at no address",
         fi_write(node.ep.get(), nullptr, 0, nullptr, both.here.to, 0, both.here.key, nullptr), 0);
  t.code("fi_writemsg() of 0 bytes", node.write(nullptr, 0, both.here, FI_COMPLETION), 0);
  node.next_entry("it");
}

void write_no_pieces(Trial& t) {
  Node node(t);
  Both both(node, 8);
  t.code("fi_writev() of no pieces",
         fi_writev(node.ep.get(), nullptr, nullptr, 0, both.here.to, 0, both.here.key, nullptr), 0);
  t.code("fi_readv() of no pieces",
         fi_readv(node.ep.get(), nullptr, nullptr, 0, both.here.to, 0, both.here.key, nullptr), 0);
}

void write_two_pieces(Trial& t) {
  Node node(t);
  Both both(node, 16);
  const iovec pieces[] = {{both.from.data(), 8}, {both.from.data() + 8, 8}};
  t.code("fi_writev()", fi_writev(node.ep.get(), pieces, nullptr, 2, both.here.to, 0, both.here.key, nullptr),
         -FI_EINVAL);
  t.code("fi_readv()", fi_readv(node.ep.get(), pieces, nullptr, 2, both.here.to, 0, both.here.key, nullptr),
         -FI_EINVAL);
}

void write_two_targets(Trial& t) {
  Node node(t);
  Both both(node, 16);
  const iovec piece{both.from.data(), 16};
  const fi_rma_iov targets[] = {{0, 8, both.here.key}, {8, 8, both.here.key}};
  fi_msg_rma message = {};
  message.msg_iov = &piece;
  message.iov_count = 1;
  message.addr = both.here.to;
  message.rma_iov = targets;
  message.rma_iov_count = 2;
  t.code("fi_writemsg() to two", fi_writemsg(node.ep.get(), &message, 0), -FI_EINVAL);
  t.code("fi_readmsg() from two", fi_readmsg(node.ep.get(), &message, 0), -FI_EINVAL);
  message.rma_iov_count = 0;
  t.code("to none", fi_writemsg(node.ep.get(), &message, 0), -FI_EINVAL);
}

void write_no_message(Trial& t) {
  Node node(t);
  t.code("fi_writemsg()", fi_writemsg(node.ep.get(), nullptr, 0), -FI_EINVAL);
  t.code("fi_readmsg()", fi_readmsg(node.ep.get(), nullptr, 0), -FI_EINVAL);
}

void write_no_buffer(Trial& t) {
  Node node(t);
  Both both(node, 8);
  t.code("fi_write()", fi_write(node.ep.get(), nullptr, 8, nullptr, both.here.to, 0, both.here.key, nullptr),
         -FI_EINVAL);
  t.code("fi_read()", fi_read(node.ep.get(), nullptr, 8, nullptr, both.here.to, 0, both.here.key, nullptr), -FI_EINVAL);
}

void write_flags(Trial& t) {
  Node node(t);
  Both both(node, 8);
  for (const auto& [name, flag] :
       {std::pair("FI_MULTI_RECV", FI_MULTI_RECV), std::pair("FI_PEEK", FI_PEEK), std::pair("FI_CLAIM", FI_CLAIM)})
    t.code(name, node.write(both.from.data(), 8, both.here, flag), -FI_EBADFLAGS);
}

void read_flags(Trial& t) {
  Node node(t);
  Both both(node, 8);
  t.code("FI_INJECT", node.read(both.from.data(), 8, both.here, FI_INJECT), -FI_EBADFLAGS);
  t.code("FI_PEEK", node.read(both.from.data(), 8, both.here, FI_PEEK), -FI_EBADFLAGS);
}

void fence(Trial& t) {
  Node node(t);
  Both both(node, 8);
  t.code("FI_FENCE in fi_writemsg()", node.write(both.from.data(), 8, both.here, FI_FENCE), -FI_EINVAL);
}

void fence_offered(Trial& t) {
  Node node(t, {.caps = kOneSided | FI_FENCE});
  Both both(node, 8);
  t.code("FI_FENCE", node.write(both.from.data(), 8, both.here, FI_FENCE | FI_COMPLETION), 0);
  node.next_entry("it");
}

void write_too_long(Trial& t) {
  Node node(t);
  Both both(node, 8);
  t.code("2^32 bytes", node.write(both.from.data(), kMaxMessage + 1, both.here), -FI_EMSGSIZE);
  t.code("a read of so many", node.read(both.from.data(), kMaxMessage + 1, both.here), -FI_EMSGSIZE);
}

void inject_too_long(Trial& t) {
  Node node(t);
  Both both(node, 256);
  t.code("193 bytes", fi_inject_write(node.ep.get(), both.from.data(), 193, both.here.to, 0, both.here.key),
         -FI_EMSGSIZE);
  t.code("with FI_INJECT", node.write(both.from.data(), 193, both.here, FI_INJECT), -FI_EMSGSIZE);
}

void inject_lands(Trial& t) {
  Node node(t);
  Both both(node, 192);
  std::vector<uint8_t> buffer = both.from;
  t.code("192 bytes", fi_inject_write(node.ep.get(), buffer.data(), 192, both.here.to, 0, both.here.key), 0);
  std::fill(buffer.begin(), buffer.end(), uint8_t{0xff});
  t.soon("what the buffer held at the call lands", [&] {
    node.read_queue();
    return both.to == both.from;
  });
}

void inject_flag(Trial& t) {
  Node node(t);
  Both both(node, 64);
  std::vector<uint8_t> buffer = both.from;
  t.code("FI_INJECT | FI_COMPLETION", node.write(buffer.data(), 64, both.here, FI_INJECT | FI_COMPLETION), 0);
  std::fill(buffer.begin(), buffer.end(), uint8_t{0xff});
  node.next_entry("it");
  t.soon("what the buffer held at the call lands", [&] { return both.to == both.from; });
}

void bad_key(Trial& t) {
  Node node(t);
  Both both(node, 8);
  const Remote bad{both.here.to, uint64_t{1} << 40, 0};
  t.code("a write", node.write(both.from.data(), 8, bad), -FI_EKEYREJECTED);
  t.code("a read", node.read(both.from.data(), 8, bad), -FI_EKEYREJECTED);
}

void unknown_key(Trial& t) {
  Node node(t, user_keys());
  uint64_t from = 1;
  t.code("fi_writemsg() with a key that nobody has", node.write(&from, 8, {node.self, 1234, 0}, FI_COMPLETION), 0);
  t.value("err", static_cast<uint64_t>(node.next_error("it").err), FI_EIO);
}

void offsets(Trial& t) {
  Node node(t);
  Both both(node, 64);
  t.need("fi_writemsg()",
         node.write(both.from.data(), 8, {both.here.to, both.here.key, 24}, FI_COMPLETION | FI_DELIVERY_COMPLETE));
  node.next_entry("it");
  t.holds("8 bytes at offset 24", std::equal(both.from.begin(), both.from.begin() + 8, both.to.begin() + 24));
  t.value("byte 23", both.to[23], 0);
  t.value("byte 32", both.to[32], 0);
}

void beyond_end(Trial& t) {
  Node node(t, user_keys());
  Both both(node, 64, nullptr, 3);
  t.need("fi_writemsg()", node.write(both.from.data(), 8, {both.here.to, both.here.key, 60}, FI_COMPLETION));
  t.value("err", static_cast<uint64_t>(node.next_error("8 bytes at 60 of 64").err), FI_EIO);
}

void read_beyond_end(Trial& t) {
  Node node(t, user_keys());
  Both both(node, 64, nullptr, 3);
  t.need("fi_readmsg()", node.read(both.from.data(), 8, {both.here.to, both.here.key, 60}, FI_COMPLETION));
  t.value("err", static_cast<uint64_t>(node.next_error("8 bytes at 60 of 64").err), FI_EIO);
}

void read_sizes(Trial& t) {
  Node node(t);
  Both both(node, size_t{1} << 20);
  std::iota(both.to.begin(), both.to.end(), uint8_t{9});
  for (const size_t bytes : {size_t{1}, size_t{8}, size_t{4096}, size_t{1} << 20}) {
    std::fill(both.from.begin(), both.from.end(), uint8_t{0});
    t.need("fi_readmsg()", node.read(both.from.data(), bytes, both.here, FI_COMPLETION));
    node.next_entry("a read");
    t.holds(std::to_string(bytes) + " bytes",
            std::equal(both.from.begin(), both.from.begin() + static_cast<ptrdiff_t>(bytes), both.to.begin()));
  }
}

void read_nothing(Trial& t) {
  Node node(t);
  Both both(node, 8);
  t.code("fi_readmsg() of 0 bytes", node.read(nullptr, 0, both.here, FI_COMPLETION), 0);
  node.next_entry("it");
}

void write_counter(Trial& t) {
  Node node(t, {.enable = false});
  const auto counter = node.counter();
  t.need("binding it", fi_ep_bind(node.ep.get(), &counter->fid, FI_WRITE));
  node.enable(node.ep);
  node.self = node.know(node.ep);
  {
    Both both(node, 8);
    for (int i = 0; i < 5; ++i)
      t.need("fi_writemsg()", node.write(both.from.data(), 8, both.here));
    counts(t, "after 5 writes", counter, 5);
  }
  node.ep.reset();
}

void read_counter(Trial& t) {
  Node node(t, {.enable = false});
  const auto counter = node.counter();
  t.need("binding it", fi_ep_bind(node.ep.get(), &counter->fid, FI_READ));
  node.enable(node.ep);
  node.self = node.know(node.ep);
  {
    Both both(node, 8);
    for (int i = 0; i < 5; ++i)
      t.need("fi_readmsg()", node.read(both.from.data(), 8, both.here));
    t.need("fi_writemsg()", node.write(both.from.data(), 8, both.here, FI_COMPLETION));
    node.next_entry("a write");
    counts(t, "after 5 reads and a write", counter, 5);
  }
  node.ep.reset();
}

void failed_counts(Trial& t) {
  Node node(t, {.mr_mode = kUserKeys, .enable = false});
  const auto counter = node.counter();
  t.need("binding it", fi_ep_bind(node.ep.get(), &counter->fid, FI_WRITE));
  node.enable(node.ep);
  node.self = node.know(node.ep);
  uint64_t from = 1;
  t.need("fi_writemsg()", node.write(&from, 8, {node.self, 1234, 0}, FI_COMPLETION));
  t.soon("a failure", [&] { return failures(counter) == 1; });
  t.value("success", successes(counter), 0);
  node.next_error("the write");
  node.ep.reset();
}

void more(Trial& t) {
  Node node(t);
  Both both(node, 16);
  t.need("fi_writemsg() with FI_MORE", node.write(both.from.data(), 8, both.here, FI_COMPLETION | FI_MORE));
  t.never("entry of the write with FI_MORE", [&] { return node.read_queue().code != -FI_EAGAIN; });
  t.value("its bytes", both.to[0], 0);
  t.need("fi_writemsg() without",
         node.write(both.from.data() + 8, 8, {both.here.to, both.here.key, 8}, FI_COMPLETION | FI_DELIVERY_COMPLETE));
  node.next_entry("one of them");
  node.next_entry("the other");
  t.soon("both have landed", [&] { return both.to == both.from; });
}

void no_data(Trial& t) {
  Node node(t);
  Both both(node, 8);
  t.code("fi_writedata()",
         fi_writedata(node.ep.get(), both.from.data(), 8, nullptr, 1, both.here.to, 0, both.here.key, nullptr),
         -FI_ENOSYS);
  t.code("fi_inject_writedata()",
         fi_inject_writedata(node.ep.get(), both.from.data(), 8, 1, both.here.to, 0, both.here.key), -FI_ENOSYS);
}

void without_caps(Trial& t) {
  Node node(t, {.caps = FI_ATOMIC | FI_TRIGGER});
  uint64_t word = 0;
  t.code("fi_write() without FI_RMA", fi_write(node.ep.get(), &word, 8, nullptr, node.self, 0, 0, nullptr), -FI_ENOSYS);
}

void atomics_without_caps(Trial& t) {
  Node node(t, {.caps = FI_RMA | FI_TRIGGER});
  uint64_t word = 0;
  t.code("fi_atomic() without FI_ATOMIC",
         fi_atomic(node.ep.get(), &word, 1, nullptr, node.self, 0, 0, FI_UINT64, FI_SUM, nullptr), -FI_ENOSYS);
}

void ordered(Trial& t) {
  Node node(t, {.change = [](fi_info& hints) { hints.tx_attr->msg_order = FI_ORDER_RMA_WAW; }});
  Both both(node, 8);
  for (uint64_t i = 1; i <= 200; ++i) {
    const uint64_t last = i * 2, before = i * 2 - 1;
    t.need("fi_writemsg()", node.write(&before, 8, both.here, FI_INJECT));
    t.need("fi_writemsg()", node.write(&last, 8, both.here, FI_INJECT | FI_COMPLETION | FI_DELIVERY_COMPLETE));
    node.next_entry("the second write");
    uint64_t there = 0;
    std::copy_n(both.to.begin(), 8, reinterpret_cast<uint8_t*>(&there));
    if (there != last)
      return t.holds("the later write is the one that stays", false);
  }
  t.holds("200 times the later write was the one that stayed", true);
}

}  // namespace

Group write_rules() {
  return {
      "writes and reads",
      {
          {"WriteSizes", "A write lands whole, whatever its size.", kCommon, kAll, write_sizes},
          {"WriteNothing", "A write of no bytes needs no buffer.", kCommon, kAll, write_nothing},
          {"WriteNoPieces", "No piece is a message of no bytes.", "cxip_rma.c: cxip_rma_writev(), cxip_rma_readv()",
           kAll, write_no_pieces},
          {"WriteTwoPieces", "Two pieces are refused.", "cxip_rma.c: cxip_rma_writev(), cxip_rma_readv()", kAll,
           write_two_pieces},
          {"WriteTargets", "There is one target.", kWrite, kAll, write_two_targets},
          {"WriteNoMessage", "There is a message.", kWrite, kAll, write_no_message},
          {"WriteNoBuffer", "Bytes need a buffer.", kCommon, kAll, write_no_buffer},
          {"WriteFlags", "Flags that a write does not have are -FI_EBADFLAGS.", kWrite, kAll, write_flags},
          {"ReadFlags", "So are those that a read does not have, FI_INJECT among them.", kRead, kAll, read_flags},
          {"FenceNeedsCaps", "FI_FENCE needs its capability.", kWrite, kAll, fence},
          {"FenceWithCaps", "With it, FI_FENCE is taken.", kWrite, kAll, fence_offered},
          {"WriteTooLong", "Beyond 2^32 - 1 bytes it is -FI_EMSGSIZE.", kCommon, kAll, write_too_long},
          {"InjectTooLong", "Beyond 192 bytes an injection is -FI_EMSGSIZE.", kCommon, kAll, inject_too_long},
          {"InjectLands", "An injected buffer is free after the call.", "cxip_rma.c: cxip_rma_inject()", kAll,
           inject_lands},
          {"InjectFlag", "FI_INJECT does so with a message, and completes where asked.", kWrite, kAll, inject_flag},
          {"KeyRejected", "A key that cannot be one is -FI_EKEYREJECTED.", kCommon, kAll, bad_key},
          {"KeyUnknown", "A key that nobody has fails with FI_EIO.", "cxip_rma.c: cxip_rma_cb()", kAll, unknown_key},
          {"WriteOffsets", "Addresses are offsets into the region.", "fi_cxi(7), Memory registration modes", kAll,
           offsets},
          {"WriteBeyond", "A write beyond the region's end fails with FI_EIO.", "cxip/test/rma.c: writemsg_bounds",
           kAll, beyond_end},
          {"ReadBeyond", "So does a read.", "cxip/test/rma.c: readmsg_bounds", kAll, read_beyond_end},
          {"ReadSizes", "A read brings what is there.", kCommon, kAll, read_sizes},
          {"ReadNothing", "A read of no bytes completes.", kCommon, kAll, read_nothing},
          {"WriteCounter", "The endpoint's FI_WRITE counter counts writes, with entries or not.",
           "cxip_rma.c: cxip_rma_emit_dma(), cxip_rma_emit_idc()", kAll, write_counter},
          {"ReadCounter", "Its FI_READ counter counts reads.", "cxip_rma.c: cxip_rma_emit_dma()", kAll, read_counter},
          {"FailureCounts", "A write that failed is a failure at the counter.",
           "cxip_rma.c: cxip_rma_emit_dma() (event_ct_ack)", kAll, failed_counts},
          {"More", "FI_MORE holds a write back until one without it.", "cxip.h: cxip_txq_ring()", kAll, more},
          {"NoData", "Writes carry no completion data.", "cxip_rma.c: cxip_ep_rma_ops",
           "by default; 2.6 has it by FI_CXI_ENABLE_WRITEDATA", no_data},
          {"WriteWithoutCaps", "Without FI_RMA writes are -FI_ENOSYS.", "cxip_ep.c: cxip_ep_enable()", kAll,
           without_caps},
          {"AtomicWithoutCaps", "Without FI_ATOMIC atomics are.", "cxip_ep.c: cxip_ep_enable()", kAll,
           atomics_without_caps},
          {"WriteOrder", "With FI_ORDER_RMA_WAW the later of two writes stays.",
           "cxip_rma.c: cxip_rma_is_unrestricted()", kAll, ordered},
      }};
}

}  // namespace lanyard::cxi_rules
