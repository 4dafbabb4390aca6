#include "nicsim/fi/immediate.h"

#include <optional>

#include "nicsim/fi/counter.h"
#include "nicsim/fi/endpoint.h"
#include "nicsim/fi/provider.h"
#include "nicsim/fi/remote_key.h"
#include "nicsim/fi/transfer.h"

namespace lanyard::nicsim::fi {

namespace {

// A fence costs nothing here: what goes to one peer stays in order, and is done in order.
constexpr uint64_t kFlags =
    FI_COMPLETION | FI_TRANSMIT_COMPLETE | FI_DELIVERY_COMPLETE | FI_MATCH_COMPLETE | FI_MORE | FI_FENCE;

Endpoint& endpoint_of(struct fid_ep* endpoint) { return *static_cast<Endpoint*>(endpoint); }

// cxip_rma.c: cxip_rma_writemsg(), cxip_atomic.c: cxip_ep_atomic_writemsg(), which look at the flags first.
int check(Endpoint& endpoint, uint64_t caps, uint64_t flags) {
  if (endpoint.enabled() && (endpoint.caps() & caps) != caps)
    return refuse(FI_ENOSYS, FI_LOG_EP_DATA, "the endpoint was opened without this capability");
  if ((flags & ~kFlags) != 0)
    return refuse(FI_EBADFLAGS, FI_LOG_EP_DATA, "no flag of such operations");
  if ((flags & FI_FENCE) != 0 && (endpoint.caps() & FI_FENCE) == 0)
    return refuse(FI_EINVAL, FI_LOG_EP_DATA, "the endpoint was opened without FI_FENCE");
  return 0;
}

// cxip_rma.c: cxip_rma_is_idc(), cxip_atomic.c: cxip_amo_is_idc()
bool fits_into_command(Endpoint& endpoint, const Transfer& transfer) {
  constexpr uint64_t kOrdered = 192, kUnordered = 224;
  const uint64_t key = transfer.op.remote.key.value;
  if (!RemoteKey(key).optimized())
    return false;
  return transfer.op.kind == nic::OpKind::kAtomic
             ? !transfer.fetches()
             : transfer.op.bytes <= (is_restricted(endpoint, key) ? kUnordered : kOrdered);
}

ssize_t begin(Endpoint& endpoint, Result<Transfer> transfer, uint64_t flags) {
  if (!transfer.ok())
    return error_of(transfer.status(), FI_LOG_EP_DATA);
  if (const int error = objection(transfer.value(), flags); error != 0)
    return error;
  if (!transfer.value().request.visible && fits_into_command(endpoint, transfer.value())) {
    // Nothing but its failure is ever heard of it, and that in the name of the endpoint.
    transfer.value().request.holds_slot = false;
    transfer.value().request.context = endpoint.fid.context;
  }
  Domain& domain = endpoint.domain();
  nic::Op& op = transfer.value().op;
  Counter* counter = transfer.value().fetches() ? endpoint.read_counter() : endpoint.write_counter();
  if (counter != nullptr)
    op.completion = counter->id();
  const std::optional<uint64_t> number = domain.begin(transfer.value().request);
  if (!number.has_value())
    return -FI_EAGAIN;
  op.context = *number;
  if (const Status status = endpoint.issue(op, (flags & FI_MORE) != 0); !status.ok()) {
    domain.drop(*number);
    return error_of(status, FI_LOG_EP_DATA);
  }
  domain.nic().progress();
  return 0;
}

// ---- Remote memory access

ssize_t write_message(struct fid_ep* fid, const struct fi_msg_rma* message, uint64_t flags) {
  if (message == nullptr)
    return -FI_EINVAL;
  Endpoint& endpoint = endpoint_of(fid);
  if (const int error = check(endpoint, FI_RMA, flags); error != 0)
    return error;
  return begin(endpoint, write_of(endpoint, *message, flags), flags);
}

ssize_t write_vector(struct fid_ep* fid, const struct iovec* pieces, void**, size_t count, fi_addr_t to,
                     uint64_t offset, uint64_t key, void* context) {
  const fi_rma_iov target{.addr = offset, .len = pieces != nullptr && count > 0 ? pieces[0].iov_len : 0, .key = key};
  fi_msg_rma message = {};
  message.msg_iov = pieces;
  message.iov_count = count;
  message.addr = to;
  message.rma_iov = &target;
  message.rma_iov_count = 1;
  message.context = context;
  return write_message(fid, &message, endpoint_of(fid).op_flags());
}

ssize_t write(struct fid_ep* fid, const void* from, size_t bytes, void*, fi_addr_t to, uint64_t offset, uint64_t key,
              void* context) {
  const iovec piece{.iov_base = const_cast<void*>(from), .iov_len = bytes};
  return write_vector(fid, &piece, nullptr, 1, to, offset, key, context);
}

// ---- Atomics

ssize_t atomic(struct fid_ep* fid, AtomicForm form, const fi_msg_atomic* message, const AtomicOperands& operands,
               uint64_t flags) {
  if (message == nullptr)
    return -FI_EINVAL;
  Endpoint& endpoint = endpoint_of(fid);
  if (const int error = check(endpoint, FI_ATOMIC, flags); error != 0)
    return error;
  return begin(endpoint, atomic_of(endpoint, form, *message, operands, flags), flags);
}

// The functions without a message: one is made of their arguments.
ssize_t atomic(struct fid_ep* fid, AtomicForm form, const fi_ioc* operand, size_t count, const AtomicOperands& operands,
               fi_addr_t to, uint64_t offset, uint64_t key, enum fi_datatype type, enum fi_op op, void* context) {
  const fi_rma_ioc target{.addr = offset, .count = 1, .key = key};
  fi_msg_atomic message = {};
  message.msg_iov = operand;
  message.iov_count = count;
  message.addr = to;
  message.rma_iov = &target;
  message.rma_iov_count = 1;
  message.datatype = type;
  message.op = op;
  message.context = context;
  return atomic(fid, form, &message, operands, endpoint_of(fid).op_flags());
}

fi_ioc one(const void* address, size_t count) { return {.addr = const_cast<void*>(address), .count = count}; }

ssize_t atomic_message(struct fid_ep* fid, const struct fi_msg_atomic* message, uint64_t flags) {
  return atomic(fid, AtomicForm::kPlain, message, {}, flags);
}

ssize_t atomic_vector(struct fid_ep* fid, const struct fi_ioc* operand, void**, size_t count, fi_addr_t to,
                      uint64_t offset, uint64_t key, enum fi_datatype type, enum fi_op op, void* context) {
  return atomic(fid, AtomicForm::kPlain, operand, count, {}, to, offset, key, type, op, context);
}

ssize_t atomic_plain(struct fid_ep* fid, const void* operand, size_t count, void*, fi_addr_t to, uint64_t offset,
                     uint64_t key, enum fi_datatype type, enum fi_op op, void* context) {
  const fi_ioc piece = one(operand, count);
  return atomic(fid, AtomicForm::kPlain, &piece, 1, {}, to, offset, key, type, op, context);
}

ssize_t fetch_message(struct fid_ep* fid, const struct fi_msg_atomic* message, struct fi_ioc* result, void**,
                      size_t result_count, uint64_t flags) {
  return atomic(fid, AtomicForm::kFetch, message, {.result = result, .result_count = result_count}, flags);
}

ssize_t fetch_plain(struct fid_ep* fid, const void* operand, size_t count, void*, void* result, void*, fi_addr_t to,
                    uint64_t offset, uint64_t key, enum fi_datatype type, enum fi_op op, void* context) {
  const fi_ioc piece = one(operand, count);
  const fi_ioc into = one(result, count);
  return atomic(fid, AtomicForm::kFetch, &piece, 1, {.result = &into, .result_count = 1}, to, offset, key, type, op,
                context);
}

ssize_t fetch_vector(struct fid_ep* fid, const struct fi_ioc* operand, void**, size_t count, struct fi_ioc* result,
                     void**, size_t result_count, fi_addr_t to, uint64_t offset, uint64_t key, enum fi_datatype type,
                     enum fi_op op, void* context) {
  return atomic(fid, AtomicForm::kFetch, operand, count, {.result = result, .result_count = result_count}, to, offset,
                key, type, op, context);
}

ssize_t compare_vector(struct fid_ep* fid, const struct fi_ioc* operand, void**, size_t count,
                       const struct fi_ioc* compare, void**, size_t compare_count, struct fi_ioc* result, void**,
                       size_t result_count, fi_addr_t to, uint64_t offset, uint64_t key, enum fi_datatype type,
                       enum fi_op op, void* context) {
  return atomic(fid, AtomicForm::kCompare, operand, count,
                {.result = result, .result_count = result_count, .compare = compare, .compare_count = compare_count},
                to, offset, key, type, op, context);
}

ssize_t compare_message(struct fid_ep* fid, const struct fi_msg_atomic* message, const struct fi_ioc* compare, void**,
                        size_t compare_count, struct fi_ioc* result, void**, size_t result_count, uint64_t flags) {
  return atomic(fid, AtomicForm::kCompare, message,
                {.result = result, .result_count = result_count, .compare = compare, .compare_count = compare_count},
                flags);
}

ssize_t compare_plain(struct fid_ep* fid, const void* operand, size_t count, void*, const void* compare, void*,
                      void* result, void*, fi_addr_t to, uint64_t offset, uint64_t key, enum fi_datatype type,
                      enum fi_op op, void* context) {
  const fi_ioc piece = one(operand, count);
  const fi_ioc into = one(result, count);
  const fi_ioc with = one(compare, count);
  return atomic(fid, AtomicForm::kCompare, &piece, 1,
                {.result = &into, .result_count = 1, .compare = &with, .compare_count = 1}, to, offset, key, type, op,
                context);
}

template <AtomicForm form>
int valid(struct fid_ep*, enum fi_datatype type, enum fi_op op, size_t* count) {
  if (!atomic_kind(form, type, op).has_value())
    return -FI_EOPNOTSUPP;
  if (count != nullptr)
    *count = 1;
  return 0;
}

}  // namespace

fi_ops_rma& rma_ops() {
  static fi_ops_rma ops = {
      .size = sizeof(fi_ops_rma),
      .read = not_simulated,
      .readv = not_simulated,
      .readmsg = not_simulated,
      .write = write,
      .writev = write_vector,
      .writemsg = write_message,
      .inject = not_simulated,
      .writedata = not_simulated,
      .injectdata = not_simulated,
  };
  return ops;
}

fi_ops_atomic& atomic_ops() {
  static fi_ops_atomic ops = {
      .size = sizeof(fi_ops_atomic),
      .write = atomic_plain,
      .writev = atomic_vector,
      .writemsg = atomic_message,
      .inject = not_simulated,
      .readwrite = fetch_plain,
      .readwritev = fetch_vector,
      .readwritemsg = fetch_message,
      .compwrite = compare_plain,
      .compwritev = compare_vector,
      .compwritemsg = compare_message,
      .writevalid = valid<AtomicForm::kPlain>,
      .readwritevalid = valid<AtomicForm::kFetch>,
      .compwritevalid = valid<AtomicForm::kCompare>,
  };
  return ops;
}

}  // namespace lanyard::nicsim::fi
