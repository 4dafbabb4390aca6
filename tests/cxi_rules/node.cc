#include "tests/cxi_rules/node.h"

#include <cstring>

namespace lanyard::cxi_rules {

Info hints_of(const Options& options) {
  Info hints(fi_allocinfo());
  hints->caps = options.caps;
  hints->ep_attr->type = FI_EP_RDM;
  hints->domain_attr->mr_mode = options.mr_mode;
  hints->tx_attr->size = options.tx_size;
  hints->fabric_attr->prov_name = ::strdup("cxi");
  if (options.change)
    options.change(*hints);
  return hints;
}

int get_info(const fi_info* hints, Info& out) {
  fi_info* info = nullptr;
  const int code = fi_getinfo(FI_VERSION(1, 15), nullptr, nullptr, 0, hints, &info);
  out.reset(code == 0 ? info : nullptr);
  return code;
}

Node::Node(Trial& given, const Options& options) : trial(given) {
  const Close close{&trial};
  trial.need("fi_getinfo()", get_info(hints_of(options).get(), info));
  fid_fabric* new_fabric = nullptr;
  trial.need("fi_fabric()", fi_fabric(info->fabric_attr, &new_fabric, nullptr));
  fabric = Owned<fid_fabric>(new_fabric, close);
  fid_domain* new_domain = nullptr;
  trial.need("fi_domain()", fi_domain(fabric.get(), info.get(), &new_domain, nullptr));
  domain = Owned<fid_domain>(new_domain, close);
  fi_av_attr vector = {};
  vector.type = FI_AV_TABLE;
  fid_av* new_av = nullptr;
  trial.need("fi_av_open()", fi_av_open(domain.get(), &vector, &new_av, nullptr));
  av = Owned<fid_av>(new_av, close);
  fi_cq_attr completions = {};
  completions.format = options.format;
  completions.wait_obj = FI_WAIT_NONE;
  fid_cq* new_cq = nullptr;
  trial.need("fi_cq_open()", fi_cq_open(domain.get(), &completions, &new_cq, nullptr));
  cq = Owned<fid_cq>(new_cq, close);
  ep = endpoint(options);
  if (options.enable) {
    enable(ep);
    self = know(ep);
  }
}

Owned<fid_ep> Node::endpoint(const Options& options) {
  fid_ep* made = nullptr;
  trial.need("fi_endpoint()", fi_endpoint(domain.get(), info.get(), &made, nullptr));
  Owned<fid_ep> owned(made, Close{&trial});
  trial.need("fi_ep_bind() of a vector", fi_ep_bind(made, &av->fid, 0));
  const uint64_t selective = options.selective ? FI_SELECTIVE_COMPLETION : 0;
  trial.need("fi_ep_bind() of a queue", fi_ep_bind(made, &cq->fid, FI_TRANSMIT | selective));
  if ((options.caps & (FI_MSG | FI_TAGGED)) != 0)
    trial.need("fi_ep_bind() of a queue for receives", fi_ep_bind(made, &cq->fid, FI_RECV | selective));
  return owned;
}

void Node::enable(const Owned<fid_ep>& endpoint) { trial.need("fi_enable()", fi_enable(endpoint.get())); }

fi_addr_t Node::know(const Owned<fid_ep>& endpoint) {
  std::array<std::byte, 256> name;
  size_t bytes = name.size();
  trial.need("fi_getname()", fi_getname(&endpoint->fid, name.data(), &bytes));
  fi_addr_t place = FI_ADDR_NOTAVAIL;
  trial.need("fi_av_insert()", fi_av_insert(av.get(), name.data(), 1, &place, 0, nullptr), 1);
  return place;
}

Owned<fid_cntr> Node::counter(fi_cntr_attr* attributes) {
  fid_cntr* made = nullptr;
  trial.need("fi_cntr_open()", fi_cntr_open(domain.get(), attributes, &made, nullptr));
  return Owned<fid_cntr>(made, Close{&trial});
}

Owned<fid_mr> Node::raw_region(void* base, size_t bytes, uint64_t key, uint64_t access) {
  fid_mr* made = nullptr;
  trial.need("fi_mr_reg()", fi_mr_reg(domain.get(), base, bytes, access, 0, key, 0, &made, nullptr));
  return Owned<fid_mr>(made, Close{&trial});
}

Owned<fid_mr> Node::region(void* base, size_t bytes, fid_cntr* counter, uint64_t key, uint64_t access) {
  Owned<fid_mr> made = raw_region(base, bytes, key, access);
  trial.need("fi_mr_bind() to an endpoint", fi_mr_bind(made.get(), &ep->fid, 0));
  if (counter != nullptr)
    trial.need("fi_mr_bind() of a counter", fi_mr_bind(made.get(), &counter->fid, FI_REMOTE_WRITE));
  trial.need("fi_mr_enable()", fi_mr_enable(made.get()));
  return made;
}

Entry Node::read_queue() {
  Entry read;
  read.code = fi_cq_read(cq.get(), &read.entry, 1);
  return read;
}

fi_cq_tagged_entry Node::next_entry(const std::string& what) {
  Entry read;
  trial.soon("an entry of " + what, [&] {
    read = read_queue();
    return read.code != -FI_EAGAIN;
  });
  trial.need("fi_cq_read() of " + what, read.code, 1);
  return read.entry;
}

fi_cq_err_entry Node::next_error(const std::string& what) {
  Entry read;
  trial.soon("an error of " + what, [&] {
    read = read_queue();
    return read.code == -FI_EAVAIL;
  });
  fi_cq_err_entry error = {};
  trial.need("fi_cq_readerr() of " + what, fi_cq_readerr(cq.get(), &error, 0), 1);
  return error;
}

namespace {

// A message of one piece, which lives as long as the call.
struct Message {
  iovec piece;
  fi_rma_iov target;
  fi_msg_rma rma = {};
  Message(void* local, size_t bytes, const Remote& remote, void* context)
      : piece{local, bytes}, target{remote.offset, bytes, remote.key} {
    rma.msg_iov = &piece;
    rma.iov_count = 1;
    rma.addr = remote.to;
    rma.rma_iov = &target;
    rma.rma_iov_count = 1;
    rma.context = context;
  }
  Message(const Message&) = delete;
};

struct AtomicMessage {
  fi_ioc operand, result, compare;
  fi_rma_ioc target;
  fi_msg_atomic message = {};
  AtomicMessage(const Atomic& what, const Remote& remote, void* context)
      : operand{const_cast<void*>(what.operand), 1},
        result{what.result, 1},
        compare{const_cast<void*>(what.compare), 1},
        target{remote.offset, 1, remote.key} {
    message.msg_iov = &operand;
    message.iov_count = 1;
    message.addr = remote.to;
    message.rma_iov = &target;
    message.rma_iov_count = 1;
    message.datatype = what.type;
    message.op = what.op;
    message.context = context;
  }
  AtomicMessage(const AtomicMessage&) = delete;
};

}  // namespace

ssize_t Node::write(const void* from, size_t bytes, const Remote& remote, uint64_t flags, void* context) {
  const Message message(const_cast<void*>(from), bytes, remote, context);
  return fi_writemsg(ep.get(), &message.rma, flags);
}

ssize_t Node::read(void* to, size_t bytes, const Remote& remote, uint64_t flags, void* context) {
  const Message message(to, bytes, remote, context);
  return fi_readmsg(ep.get(), &message.rma, flags);
}

ssize_t atomic(Node& node, const Atomic& what, const Remote& remote, uint64_t flags, void* context) {
  AtomicMessage m(what, remote, context);
  if (what.compare != nullptr)
    return fi_compare_atomicmsg(node.ep.get(), &m.message, &m.compare, nullptr, 1, &m.result, nullptr, 1, flags);
  if (what.result != nullptr)
    return fi_fetch_atomicmsg(node.ep.get(), &m.message, &m.result, nullptr, 1, flags);
  return fi_atomicmsg(node.ep.get(), &m.message, flags);
}

fi_deferred_work work_of(const When& when, fi_op_type type) {
  fi_deferred_work work = {};
  work.triggering_cntr = when.trigger;
  work.threshold = when.threshold;
  work.completion_cntr = when.completion;
  work.op_type = type;
  return work;
}

int defer_atomic(Node& node, const Atomic& what, const Remote& remote, const When& when, uint64_t flags,
                 void* context) {
  AtomicMessage m(what, remote, context);
  fi_op_atomic plain{node.ep.get(), m.message, flags};
  fi_op_fetch_atomic fetch{node.ep.get(), m.message, {&m.result, nullptr, 1}, flags};
  fi_op_compare_atomic compare{node.ep.get(), m.message, {&m.result, nullptr, 1}, {&m.compare, nullptr, 1}, flags};
  fi_deferred_work work = work_of(when, FI_OP_ATOMIC);
  work.op.atomic = &plain;
  if (what.compare != nullptr) {
    work.op_type = FI_OP_COMPARE_ATOMIC;
    work.op.compare_atomic = &compare;
  } else if (what.result != nullptr) {
    work.op_type = FI_OP_FETCH_ATOMIC;
    work.op.fetch_atomic = &fetch;
  }
  return node.queue(work);
}

int defer_rma(Node& node, fi_op_type type, void* local, size_t bytes, const Remote& remote, const When& when,
              uint64_t flags, void* context) {
  const Message message(local, bytes, remote, context);
  fi_op_rma op = {};
  op.ep = node.ep.get();
  op.msg = message.rma;
  op.flags = flags;
  fi_deferred_work work = work_of(when, type);
  work.op.rma = &op;
  return node.queue(work);
}

int defer_write(Node& node, const void* from, size_t bytes, const Remote& remote, const When& when, uint64_t flags,
                void* context) {
  return defer_rma(node, FI_OP_WRITE, const_cast<void*>(from), bytes, remote, when, flags, context);
}

int defer_counter(Node& node, fi_op_type type, fid_cntr* counter, uint64_t value, const When& when) {
  fi_op_cntr op{counter, value};
  fi_deferred_work work = work_of(when, type);
  work.op.cntr = &op;
  return node.queue(work);
}

uint64_t successes(const Owned<fid_cntr>& counter) {
  fi_cntr_read(counter.get());
  return fi_cntr_read(counter.get());
}

uint64_t failures(const Owned<fid_cntr>& counter) {
  fi_cntr_readerr(counter.get());
  return fi_cntr_readerr(counter.get());
}

void counts(Trial& trial, const std::string& what, const Owned<fid_cntr>& counter, uint64_t expected) {
  uint64_t value = 0;
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(5);
  while ((value = successes(counter)) != expected && std::chrono::steady_clock::now() < end)
    std::this_thread::yield();
  trial.value(what, value, expected);
}

}  // namespace lanyard::cxi_rules
