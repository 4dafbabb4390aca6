#include "nicsim/fi/transfer.h"

#include <cstring>
#include <optional>

#include "nicsim/fi/address_vector.h"
#include "nicsim/fi/provider.h"
#include "nicsim/fi/remote_key.h"

namespace lanyard::nicsim::fi {

namespace {

Status bad(const char* why) { return {Code::kInvalidArgument, why}; }

Status check(Endpoint& endpoint) {
  if (!endpoint.enabled())
    return {Code::kInvalidState, "the endpoint is not enabled"};
  return endpoint.domain().peers().complete();
}

// cxip_rma.c: cxip_rma_emit_dma(): either flushes at the target.
nic::CompletionLevel level_of(uint64_t flags) {
  return (flags & (FI_DELIVERY_COMPLETE | FI_MATCH_COMPLETE)) != 0 ? nic::CompletionLevel::kDelivery
                                                                   : nic::CompletionLevel::kTransmit;
}

// Where the operation goes. What is to be delivered says so to a target whose data may be late (LateWire).
Result<nic::RemoteSpan> target_of(Domain& domain, uint32_t peer, uint64_t key, uint64_t offset,
                                  nic::CompletionLevel level) {
  nic::RemoteSpan target{.peer = peer, .key = {key}, .offset = offset};
  if (!domain.settings().late_data || peer == domain.peers().self())
    return target;
  if ((offset & kDeliveryMark) != 0)
    return bad("no region is so long");
  if (level == nic::CompletionLevel::kDelivery)
    target.offset |= kDeliveryMark;
  return target;
}

bool is_one(const fi_ioc* list, size_t count) {
  return list != nullptr && count == 1 && list[0].count == 1 && list[0].addr != nullptr;
}

}  // namespace

int objection(const Transfer& transfer, uint64_t flags) {
  Endpoint& endpoint = *transfer.request.endpoint;
  const RemoteKey key(transfer.op.remote.key.value);
  // cxip_rma.c: cxip_rma_common()
  if (transfer.op.kind == nic::OpKind::kWrite && transfer.op.bytes > endpoint.domain().settings().max_message_bytes)
    return refuse(FI_EMSGSIZE, FI_LOG_EP_DATA, "messages are not so long");
  if (!key.valid())
    return refuse(FI_EKEYREJECTED, FI_LOG_EP_DATA, "no region has such a key");
  // cxip_atomic.c: cxip_amo_emit_idc(), cxip_amo_emit_dma(): it takes two commands, both of which would be counted.
  if (transfer.fetches() && (flags & (FI_DELIVERY_COMPLETE | FI_MATCH_COMPLETE)) != 0 && key.events(endpoint.caps()))
    return refuse(FI_EINVAL, FI_LOG_EP_DATA, "no fetching with delivery from a region that counts");
  return 0;
}

bool is_restricted(Endpoint& endpoint, uint64_t key) {
  return RemoteKey(key).optimized() && !RemoteKey(key).events(endpoint.caps()) &&
         (endpoint.message_order() & (FI_ORDER_WAW | FI_ORDER_RMA_WAW)) == 0;
}

Result<Transfer> write_of(Endpoint& endpoint, const fi_msg_rma& message, uint64_t flags) {
  if (const Status status = check(endpoint); !status.ok())
    return status;
  if (message.iov_count > 1 || (message.iov_count == 1 && message.msg_iov == nullptr) ||
      (message.iov_count == 1 && message.msg_iov[0].iov_len > 0 && message.msg_iov[0].iov_base == nullptr) ||
      message.rma_iov == nullptr || message.rma_iov_count != 1)
    return bad("a write has at most one local and exactly one remote piece");
  if (message.iov_count == 1 && message.msg_iov[0].iov_base == nullptr && message.msg_iov[0].iov_len > 0)
    return bad("a write without memory");
  const std::optional<uint32_t> peer = endpoint.vector().peer(message.addr);
  if (!peer.has_value())
    return bad("no such address");

  Transfer transfer;
  nic::Op& op = transfer.op;
  op.kind = nic::OpKind::kWrite;
  op.level = level_of(flags);
  if (message.iov_count == 1 && message.msg_iov[0].iov_len > 0) {
    op.bytes = message.msg_iov[0].iov_len;
    op.local = endpoint.domain().local(message.msg_iov[0].iov_base);
  } else {
    op.local = endpoint.domain().local(&transfer);  // of no bytes
  }
  const Result<nic::RemoteSpan> target =
      target_of(endpoint.domain(), *peer, message.rma_iov[0].key, message.rma_iov[0].addr, op.level);
  if (!target.ok())
    return target.status();
  op.remote = target.value();
  transfer.request = {.endpoint = &endpoint,
                      .context = message.context,
                      .flags = FI_RMA | FI_WRITE,
                      .bytes = op.bytes,
                      .visible = endpoint.reports(flags)};
  return transfer;
}

Result<Transfer> atomic_of(Endpoint& endpoint, AtomicForm form, const fi_msg_atomic& message,
                           const AtomicOperands& operands, uint64_t flags) {
  if (const Status status = check(endpoint); !status.ok())
    return status;
  if (!is_one(message.msg_iov, message.iov_count) || message.rma_iov == nullptr || message.rma_iov_count != 1 ||
      message.rma_iov[0].count != 1)
    return bad("an atomic has one operand and one target");
  if (form != AtomicForm::kPlain && !is_one(operands.result, operands.result_count))
    return bad("a fetching atomic has one result");
  if (form == AtomicForm::kCompare && !is_one(operands.compare, operands.compare_count))
    return bad("a comparing atomic has one value to compare with");
  if (!is_known_atomic(message.datatype, message.op))
    return bad("no such atomic");
  const std::optional<nic::AtomicKind> kind = atomic_kind(form, message.datatype, message.op);
  if (!kind.has_value())
    return Status(Code::kUnsupported, "this atomic is not simulated: 64-bit SUM, WRITE, CSWAP are");
  const std::optional<uint32_t> peer = endpoint.vector().peer(message.addr);
  if (!peer.has_value())
    return bad("no such address");

  Transfer transfer;
  nic::Op& op = transfer.op;
  op.kind = nic::OpKind::kAtomic;
  op.atomic = *kind;
  op.level = level_of(flags);
  op.local = endpoint.domain().local(message.msg_iov[0].addr);
  const Result<nic::RemoteSpan> target =
      target_of(endpoint.domain(), *peer, message.rma_iov[0].key, message.rma_iov[0].addr, op.level);
  if (!target.ok())
    return target.status();
  op.remote = target.value();
  // What no card takes at its target fails there.
  if (message.rma_iov[0].addr % sizeof(uint64_t) != 0)
    op.remote = {.peer = *peer, .key = {RemoteKey::kNowhere}};
  if (form != AtomicForm::kPlain)
    op.fetch = endpoint.domain().local(operands.result[0].addr);
  if (form == AtomicForm::kCompare)
    std::memcpy(&op.compare, operands.compare[0].addr, sizeof op.compare);
  transfer.request = {.endpoint = &endpoint,
                      .context = message.context,
                      .flags = FI_ATOMIC | (form == AtomicForm::kPlain ? FI_WRITE : FI_READ),
                      .bytes = sizeof(uint64_t),
                      .visible = endpoint.reports(flags)};
  return transfer;
}

}  // namespace lanyard::nicsim::fi
