// Messages and tagged messages, of an endpoint to itself.
#include <numeric>

#include "tests/cxi_rules/node.h"

namespace lanyard::cxi_rules {

namespace {

constexpr char kSend[] = "cxip_msg_hpc.c: cxip_send_common()";
constexpr char kReceive[] = "cxip_msg_hpc.c: cxip_recv_common()";
constexpr char kFlags[] = "cxip_msg.c: cxip_tsendmsg(), cxip_trecvmsg()";
constexpr uint64_t kMessages = FI_MSG | FI_TAGGED | FI_RMA | FI_ATOMIC | FI_TRIGGER | FI_RMA_EVENT;

// Every operation has an entry here.
struct Stage {
  explicit Stage(Trial& given, uint64_t caps = kMessages, size_t bytes = 64)
      : t(given), node(given, options_of(given, caps)), from(bytes), to(bytes) {
    std::iota(from.begin(), from.end(), uint8_t{1});
  }
  // No messages at all is one difference, not one for each row.
  static Options options_of(Trial& t, uint64_t caps) {
    Options options;
    options.caps = caps;
    options.selective = false;
    Info info;
    if (get_info(hints_of(options).get(), info) == -FI_ENODATA)
      t.not_offered("no messages");
    return options;
  }
  ssize_t send(uint64_t tag, size_t bytes, void* context = nullptr) {
    return fi_tsend(node.ep.get(), from.data(), bytes, nullptr, node.self, tag, context);
  }
  ssize_t receive(uint64_t tag, size_t bytes, void* context = nullptr, uint64_t ignore = 0) {
    return fi_trecv(node.ep.get(), to.data(), bytes, nullptr, FI_ADDR_UNSPEC, tag, ignore, context);
  }
  // The entry of a receive, whatever comes before it.
  fi_cq_tagged_entry received(const std::string& what) {
    fi_cq_tagged_entry entry = {};
    do
      entry = node.next_entry(what);
    while ((entry.flags & FI_RECV) == 0);
    return entry;
  }

  Trial& t;
  Node node;
  std::vector<uint8_t> from, to;
};

void tagged_sizes(Trial& t) {
  Stage s(t, kMessages, size_t{1} << 20);
  for (const size_t bytes : {size_t{0}, size_t{1}, size_t{192}, size_t{2048}, size_t{20000}, size_t{1} << 20}) {
    std::fill(s.to.begin(), s.to.end(), uint8_t{0});
    t.need("fi_trecv()", s.receive(7, bytes));
    t.need("fi_tsend()", s.send(7, bytes));
    const fi_cq_tagged_entry entry = s.received("a message");
    t.value("len", entry.len, bytes);
    t.holds("its bytes", std::equal(s.from.begin(), s.from.begin() + static_cast<ptrdiff_t>(bytes), s.to.begin()));
    while (s.node.read_queue().code == 1) {
    }
  }
}

void entries(Trial& t) {
  Stage s(t);
  t.need("fi_trecv()", s.receive(7, 8, &s.to));
  t.need("fi_tsend()", s.send(7, 8, &s.from));
  for (int i = 0; i < 2; ++i) {
    const fi_cq_tagged_entry entry = s.node.next_entry("a message");
    if ((entry.flags & FI_RECV) != 0) {
      t.value("flags of the receive", entry.flags & (FI_TAGGED | FI_RECV | FI_MSG), FI_TAGGED | FI_RECV);
      t.value("its tag", entry.tag, 7);
      t.holds("its context", entry.op_context == &s.to);
    } else {
      t.value("flags of the send", entry.flags & (FI_TAGGED | FI_SEND | FI_MSG), FI_TAGGED | FI_SEND);
      t.holds("its context", entry.op_context == &s.from);
    }
  }
}

void untagged(Trial& t) {
  Stage s(t);
  t.need("fi_recv()", fi_recv(s.node.ep.get(), s.to.data(), 64, nullptr, FI_ADDR_UNSPEC, &s.to));
  t.need("fi_send()", fi_send(s.node.ep.get(), s.from.data(), 64, nullptr, s.node.self, &s.from));
  const fi_cq_tagged_entry entry = s.received("a message");
  t.value("flags", entry.flags & (FI_TAGGED | FI_RECV | FI_MSG), FI_MSG | FI_RECV);
  t.value("len", entry.len, 64);
  t.holds("its bytes", s.from == s.to);
}

void unexpected(Trial& t) {
  Stage s(t, kMessages, 20000);
  t.need("fi_tsend()", s.send(7, 20000));
  t.never("entry of a receive", [&] { return (s.node.read_queue().entry.flags & FI_RECV) != 0; });
  t.need("fi_trecv()", s.receive(7, 20000));
  s.received("an unexpected message");
  t.holds("its bytes", s.from == s.to);
}

void in_order(Trial& t) {
  Stage s(t);
  for (size_t bytes = 1; bytes <= 5; ++bytes)
    t.need("fi_tsend()", s.send(7, bytes));
  for (size_t bytes = 1; bytes <= 5; ++bytes) {
    t.need("fi_trecv()", s.receive(7, 8));
    t.value("len", s.received("a message").len, bytes);
  }
}

void tags_match(Trial& t) {
  Stage s(t);
  t.need("fi_trecv() of 8", s.receive(8, 8, &s.to));
  t.need("fi_tsend() of 9", s.send(9, 8));
  t.never("match of 8 and 9", [&] { return (s.node.read_queue().entry.flags & FI_RECV) != 0; });
  t.need("fi_trecv() of 1 that ignores all but bit 0", s.receive(1, 8, &s, ~uint64_t{1} & ((uint64_t{1} << 48) - 1)));
  const fi_cq_tagged_entry entry = s.received("a message");
  t.holds("the wildcard has it", entry.op_context == &s);
  t.value("its tag", entry.tag, 9);
  t.code("cancelling the other", fi_cancel(&s.node.ep->fid, &s.to), 0);
  t.value("err", static_cast<uint64_t>(s.node.next_error("it").err), FI_ECANCELED);
}

void tag_range(Trial& t) {
  Stage s(t);
  t.code("sending with a tag of 49 bits", s.send(uint64_t{1} << 48, 8), -FI_EINVAL);
  t.code("receiving with it", s.receive(uint64_t{1} << 48, 8), -FI_EINVAL);
  t.code("ignoring bit 48", s.receive(0, 8, nullptr, uint64_t{1} << 48), -FI_EINVAL);
}

void truncates(Trial& t) {
  Stage s(t);
  t.need("fi_trecv() of 8 bytes", s.receive(7, 8, &s));
  t.need("fi_tsend() of 64", s.send(7, 64));
  Entry read;
  t.soon("-FI_EAVAIL", [&] {
    read = s.node.read_queue();
    return read.code == -FI_EAVAIL;
  });
  fi_cq_err_entry error = {};
  t.need("fi_cq_readerr()", fi_cq_readerr(s.node.cq.get(), &error, 0), 1);
  t.value("err", static_cast<uint64_t>(error.err), FI_ETRUNC);
  t.value("len", error.len, 8);
  t.value("olen", error.olen, 56);
}

void injects(Trial& t) {
  Stage s(t, kMessages, 256);
  t.code("193 bytes", fi_tinject(s.node.ep.get(), s.from.data(), 193, s.node.self, 7), -FI_EMSGSIZE);
  t.need("fi_trecv()", s.receive(7, 192));
  std::vector<uint8_t> buffer = s.from;
  t.code("192 bytes", fi_tinject(s.node.ep.get(), buffer.data(), 192, s.node.self, 7), 0);
  std::fill(buffer.begin(), buffer.end(), uint8_t{0});
  s.received("an injected message");
  t.holds("what was in the buffer", std::equal(s.from.begin(), s.from.begin() + 192, s.to.begin()));
  t.never("entry of the send", [&] { return s.node.read_queue().code == 1; });
}

void data(Trial& t) {
  Stage s(t);
  t.need("fi_trecv()", s.receive(7, 8));
  t.need("fi_tsenddata()",
         fi_tsenddata(s.node.ep.get(), s.from.data(), 8, nullptr, 0x1234567890, s.node.self, 7, nullptr));
  const fi_cq_tagged_entry entry = s.received("a message");
  t.holds("FI_REMOTE_CQ_DATA", (entry.flags & FI_REMOTE_CQ_DATA) != 0);
  t.value("data", entry.data, 0x1234567890);
}

void peeks(Trial& t) {
  Stage s(t);
  fi_msg_tagged message = {};
  message.addr = FI_ADDR_UNSPEC;
  message.tag = 7;
  message.context = &s;
  t.code("FI_PEEK where nothing is", fi_trecvmsg(s.node.ep.get(), &message, FI_PEEK), 0);
  t.value("err", static_cast<uint64_t>(s.node.next_error("the peek").err), FI_ENOMSG);
}

void flags(Trial& t) {
  Stage s(t);
  iovec piece{s.from.data(), 8};
  fi_msg_tagged message = {};
  message.msg_iov = &piece;
  message.iov_count = 1;
  message.addr = s.node.self;
  t.code("a send with FI_PEEK", fi_tsendmsg(s.node.ep.get(), &message, FI_PEEK), -FI_EBADFLAGS);
  t.code("a receive with FI_FENCE", fi_trecvmsg(s.node.ep.get(), &message, FI_FENCE), -FI_EBADFLAGS);
  t.code("a send with FI_FENCE without the capability", fi_tsendmsg(s.node.ep.get(), &message, FI_FENCE), -FI_EINVAL);
}

void two_pieces(Trial& t) {
  Stage s(t);
  const iovec pieces[] = {{s.from.data(), 8}, {s.from.data(), 8}};
  t.code("fi_tsendv()", fi_tsendv(s.node.ep.get(), pieces, nullptr, 2, s.node.self, 7, nullptr), -FI_EINVAL);
  t.code("fi_trecvv()", fi_trecvv(s.node.ep.get(), pieces, nullptr, 2, FI_ADDR_UNSPEC, 7, 0, nullptr), -FI_EINVAL);
  t.code("fi_tsend() of nothing", fi_tsend(s.node.ep.get(), nullptr, 8, nullptr, s.node.self, 7, nullptr), -FI_EINVAL);
}

void cancels(Trial& t) {
  Stage s(t);
  t.need("fi_trecv()", s.receive(7, 8, &s));
  t.code("fi_cancel()", fi_cancel(&s.node.ep->fid, &s), 0);
  t.value("err", static_cast<uint64_t>(s.node.next_error("it").err), FI_ECANCELED);
  t.code("again", fi_cancel(&s.node.ep->fid, &s), -FI_ENOENT);
}

void without_caps(Trial& t) {
  Node node(t);
  uint64_t word = 0;
  t.code("fi_tsend()", fi_tsend(node.ep.get(), &word, 8, nullptr, node.self, 7, nullptr), -FI_ENOSYS);
  t.code("fi_trecv()", fi_trecv(node.ep.get(), &word, 8, nullptr, FI_ADDR_UNSPEC, 7, 0, nullptr), -FI_ENOSYS);
  t.code("fi_send()", fi_send(node.ep.get(), &word, 8, nullptr, node.self, nullptr), -FI_ENOSYS);
  t.code("fi_recv()", fi_recv(node.ep.get(), &word, 8, nullptr, FI_ADDR_UNSPEC, nullptr), -FI_ENOSYS);
}

// A deferred send or receive of 64 bytes.
int defer(Stage& s, fi_op_type type, const When& when, uint64_t flags = 0) {
  const bool send = type == FI_OP_TSEND;
  iovec piece{send ? s.from.data() : s.to.data(), 64};
  fi_op_tagged op = {};
  op.ep = s.node.ep.get();
  op.msg.msg_iov = &piece;
  op.msg.iov_count = 1;
  op.msg.addr = send ? s.node.self : FI_ADDR_UNSPEC;
  op.msg.tag = 7;
  op.flags = flags;
  fi_deferred_work work = work_of(when, type);
  work.op.tagged = &op;
  return s.node.queue(work);
}

void deferred_send(Trial& t) {
  Stage s(t);
  const auto trigger = s.node.counter(), completion = s.node.counter();
  t.need("fi_trecv()", s.receive(7, 64));
  t.need("queueing FI_OP_TSEND", defer(s, FI_OP_TSEND, {trigger.get(), 1, completion.get()}));
  t.never("message before its time", [&] { return s.node.read_queue().code == 1; });
  t.need("adding", fi_cntr_add(trigger.get(), 1));
  s.received("the message");
  t.holds("its bytes", s.from == s.to);
  t.soon("the send counts", [&] {
    s.node.read_queue();
    return successes(completion) == 1;
  });
}

void deferred_receive(Trial& t) {
  Stage s(t);
  const auto trigger = s.node.counter(), completion = s.node.counter();
  t.code("FI_OP_TRECV at threshold 1", defer(s, FI_OP_TRECV, {trigger.get(), 1, completion.get()}), -FI_EINVAL);
  t.code("at threshold 0", defer(s, FI_OP_TRECV, {trigger.get(), 0, completion.get()}), 0);
  t.need("fi_tsend()", s.send(7, 64));
  t.soon("the receive counts", [&] {
    s.node.read_queue();
    return successes(completion) == 1;
  });
  t.holds("its bytes", s.from == s.to);
}

void deferred_inject(Trial& t) {
  Stage s(t);
  const auto trigger = s.node.counter();
  t.code("FI_OP_TSEND with FI_INJECT", defer(s, FI_OP_TSEND, {trigger.get(), 1}, FI_INJECT), -FI_EINVAL);
}

void counters(Trial& t) {
  Stage s(t);
  const auto sends = s.node.counter(), receives = s.node.counter();
  t.need("binding FI_SEND", fi_ep_bind(s.node.ep.get(), &sends->fid, FI_SEND));
  t.need("binding FI_RECV", fi_ep_bind(s.node.ep.get(), &receives->fid, FI_RECV));
  for (int i = 0; i < 3; ++i) {
    t.need("fi_trecv()", s.receive(7, 8));
    t.need("fi_tsend()", s.send(7, 8));
    s.received("a message");
  }
  t.soon("3 sends", [&] {
    s.node.read_queue();
    return successes(sends) == 3;
  });
  t.soon("3 receives", [&] { return successes(receives) == 3; });
  s.node.ep.reset();
}

}  // namespace

Group message_rules() {
  return {
      "messages",
      {
          {"TaggedSizes", "Tagged messages of all sizes arrive whole, eager or by rendezvous.", kSend, kAll,
           tagged_sizes},
          {"TaggedEntries", "Entries tell direction, tag and context.", "cxip_msg.c: recv_req_report()", kAll, entries},
          {"Untagged", "Untagged messages have FI_MSG.", kSend, kAll, untagged},
          {"Unexpected", "A message may come before its receive.", "fi_cxi(7), Messaging", kAll, unexpected},
          {"MessageOrder", "Messages match in the order in which they were sent.", "fi_cxi(7), Message Ordering", kAll,
           in_order},
          {"TagsMatch", "Tags match but for the bits that are ignored.", kReceive, kAll, tags_match},
          {"TagRange", "Tags have 48 bits.", "cxip_msg_hpc.c: cxip_send_common(), cxip_recv_common()", kAll, tag_range},
          {"Truncation", "A message too long for its receive is FI_ETRUNC, and tells by how much.",
           "cxip_msg.c: recv_req_report()", "unless FI_CXI_TRUNC_OK is set", truncates},
          {"MessageInject", "Up to 192 bytes are injected, and have no entry.", kSend, kAll, injects},
          {"MessageData", "8 bytes of data come with a message.", kSend, kAll, data},
          {"Peek", "FI_PEEK where nothing waits is FI_ENOMSG.", "cxip_msg.c: recv_req_peek_complete()", kAll, peeks},
          {"MessageFlags", "Flags that do not belong are -FI_EBADFLAGS.", kFlags, kAll, flags},
          {"MessagePieces", "A message is one piece.", "cxip_msg.c: cxip_tsendv(), cxip_trecvv()", kAll, two_pieces},
          {"Cancel", "A receive that is cancelled is FI_ECANCELED.", "cxip_ep.c: cxip_rxc_cancel()", kAll, cancels},
          {"MessagesWithoutCaps", "Without the capabilities messages are -FI_ENOSYS.", "cxip_ep.c: cxip_ep_enable()",
           kAll, without_caps},
          {"DeferredSend", "Tagged sends can be deferred.", "cxip_dom.c: cxip_dom_dwq_op_tsend()", kAll, deferred_send},
          {"DeferredReceive", "Receives have threshold 0.", "cxip_dom.c: cxip_dom_dwq_op_trecv()", kAll,
           deferred_receive},
          {"DeferredInject", "Deferred sends are not injected.", "cxip_dom.c: cxip_dom_dwq_op_tsend()", kAll,
           deferred_inject},
          {"MessageCounters", "Counters bound with FI_SEND and FI_RECV count messages.",
           "cxip_ep.c: cxip_ep_bind_cntr()", kAll, counters},
      }};
}

}  // namespace lanyard::cxi_rules
