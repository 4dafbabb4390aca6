#include "tests/fi_fuzz_world.h"

namespace lanyard {

FuzzWorld::FuzzWorld(uint64_t seed, History& history) : history_(history), state_(seed), memory_(4 * kMaxMessage) {
  const uint64_t caps[] = {FI_RMA | FI_ATOMIC | FI_RMA_EVENT | FI_TRIGGER, FI_RMA | FI_TRIGGER, 0,
                           FI_MSG | FI_TAGGED | FI_RMA | FI_ATOMIC | FI_RMA_EVENT | FI_TRIGGER};
  const int modes[] = {FI_MR_ENDPOINT | FI_MR_PROV_KEY, FI_MR_ENDPOINT};
  for (const uint64_t wanted : caps) {
    for (const int mode : modes) {
      if (Info info = get_info({.caps = wanted, .mr_mode = mode, .tx_size = one_in(2) ? 8u : 0u}))
        infos_.push_back(std::move(info));
    }
  }
}

void FuzzWorld::close_all() {
  close_each(regions);
  close_each(endpoints);
  close_each(vectors);
  close_each(queues);
  close_each(counters);
  close_each(domains);
  close_each(event_queues);
  close_each(fabrics);
}

// splitmix64
uint64_t FuzzWorld::random() {
  uint64_t z = state_ += 0x9e3779b97f4a7c15;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

uint64_t FuzzWorld::flags() {
  const uint64_t known[] = {FI_COMPLETION,
                            FI_TRANSMIT_COMPLETE,
                            FI_DELIVERY_COMPLETE,
                            FI_MORE,
                            FI_INJECT,
                            FI_MATCH_COMPLETE,
                            FI_TRANSMIT,
                            FI_RECV,
                            FI_REMOTE_CQ_DATA,
                            FI_FENCE,
                            FI_SELECTIVE_COMPLETION,
                            FI_WRITE,
                            FI_READ,
                            FI_REMOTE_WRITE,
                            FI_REMOTE_READ,
                            FI_PEEK,
                            FI_CLAIM,
                            FI_DISCARD,
                            FI_MULTI_RECV,
                            FI_TRIGGER,
                            FI_RMA_EVENT,
                            FI_HMEM_DEVICE_ONLY,
                            kWriteback};
  if (tame_)
    return pick({uint64_t{0}, uint64_t{FI_COMPLETION}, uint64_t{FI_COMPLETION | FI_DELIVERY_COMPLETE}});
  switch (below(20)) {
    case 0: return random();
    case 1: return uint64_t{1} << below(64);
    case 2:
    case 3: return pick(known) | pick(known);
    case 4:
    case 5:
    case 6: return pick(known);
    case 7:
    case 8:
    case 9: return FI_COMPLETION;
    default: return 0;
  }
}

uint64_t FuzzWorld::number() {
  const uint64_t wild[] = {UINT64_MAX,
                           UINT64_MAX - 1,
                           uint64_t{1} << 63,
                           kMaxSuccess,
                           kMaxSuccess + 1,
                           uint64_t{1} << 32,
                           UINT32_MAX,
                           INT64_MAX,
                           127,
                           128,
                           4096,
                           65536};
  return tame_ ? below(6) : one_in(8) ? pick(wild) : one_in(20) ? random() : below(12);
}

// Sizes that memory has not are longer than any message.
size_t FuzzWorld::size() {
  const size_t wild[] = {kMaxMessage, kMaxMessage + 1, size_t{1} << 31, size_t{1} << 62, SIZE_MAX, SIZE_MAX - 4095};
  switch (tame_ ? 2 + below(6) : below(8)) {
    case 0: return pick(wild);
    case 1: return 0;
    case 2: return below(kMaxMessage + 1);
    case 3: return below(256);
    default: return 8;
  }
}

fi_addr_t FuzzWorld::address() {
  const fi_addr_t wild[] = {FI_ADDR_UNSPEC, FI_ADDR_NOTAVAIL, 1000, uint64_t{1} << 32, UINT64_MAX - 1};
  return !tame_ && one_in(12) ? pick(wild) : one_in(4) ? below(tame_ ? 2 : 5) : 0;
}

uint64_t FuzzWorld::key() {
  fid_mr* const mr = region();
  return mr == nullptr || (!tame_ && one_in(8)) ? number() : fi_mr_key(mr);
}

uint64_t FuzzWorld::offset() {
  const uint64_t wild[] = {kMaxMessage,       UINT64_MAX,        UINT64_MAX - 7,
                           uint64_t{1} << 62, uint64_t{1} << 63, reinterpret_cast<uint64_t>(memory_.data())};
  return !tame_ && one_in(8) ? pick(wild) : !tame_ && one_in(4) ? below(256) : 8 * below(16);
}

fi_info* FuzzWorld::info() {
  if (!tame_ && one_in(40))
    return nullptr;
  fi_info* const whole = infos_[below(infos_.size())].get();
  if (tame_ || !one_in(4))
    return whole;
  drawn_ = {.info = *whole,
            .domain = *whole->domain_attr,
            .endpoint = *whole->ep_attr,
            .transmit = *whole->tx_attr,
            .receive = *whole->rx_attr};
  drawn_.info.domain_attr = or_null(&drawn_.domain, 10);
  drawn_.info.ep_attr = or_null(&drawn_.endpoint, 10);
  drawn_.info.tx_attr = or_null(&drawn_.transmit, 10);
  drawn_.info.rx_attr = or_null(&drawn_.receive, 10);
  switch (below(9)) {
    case 0: drawn_.info.caps = flags() | flags(); break;
    case 1: drawn_.info.mode = random(); break;
    case 2: drawn_.domain.mr_mode = static_cast<int>(random()); break;
    case 3: drawn_.domain.name = or_null(const_cast<char*>("cxi1"), 2); break;
    case 4: drawn_.endpoint.type = enumeration<fi_ep_type>(FI_EP_SOCK_DGRAM); break;
    case 5: drawn_.transmit.size = size(); break;
    case 6: drawn_.transmit.op_flags = flags() | flags(); break;
    case 7: drawn_.receive.size = size(); break;
    default: drawn_.transmit.caps = flags() | flags(); break;
  }
  return &drawn_.info;
}

iovec* FuzzWorld::pieces() {
  for (iovec& piece : pieces_)
    piece = {local(), size()};
  note("piece", pieces_[0].iov_base, pieces_[0].iov_len);
  return or_null(pieces_.data());
}

fi_rma_iov* FuzzWorld::remote_pieces() {
  for (fi_rma_iov& piece : remote_pieces_)
    piece = {offset(), tame_ || one_in(2) ? pieces_[0].iov_len : size(), key()};
  note("remote", remote_pieces_[0].addr, remote_pieces_[0].len, remote_pieces_[0].key);
  return or_null(remote_pieces_.data());
}

// A list of its own at three calls in a row.
fi_ioc* FuzzWorld::operands() {
  std::array<fi_ioc, kListed>& list = operands_[next_operands_++ % operands_.size()];
  for (fi_ioc& operand : list)
    operand = {local(), one_in(8) ? count() : 1};
  note("operand", list[0].addr, list[0].count);
  return or_null(list.data());
}

fi_rma_ioc* FuzzWorld::remote_operands() {
  for (fi_rma_ioc& operand : remote_operands_)
    operand = {offset(), one_in(8) ? count() : 1, key()};
  note("remote", remote_operands_[0].addr, remote_operands_[0].count, remote_operands_[0].key);
  return or_null(remote_operands_.data());
}

fi_msg* FuzzWorld::message() {
  message_ = {pieces(), descriptors(), count(), address(), wild_pointer(), number()};
  note("count", message_.iov_count, "addr", message_.addr);
  return or_null(&message_);
}

fi_msg_tagged* FuzzWorld::tagged_message() {
  tagged_message_ = {pieces(), descriptors(), count(), address(), number(), number(), wild_pointer(), number()};
  note("count", tagged_message_.iov_count, "addr", tagged_message_.addr, "tag", tagged_message_.tag);
  return or_null(&tagged_message_);
}

fi_msg_rma* FuzzWorld::rma_message() {
  rma_message_ = {pieces(), descriptors(), count(), address(), remote_pieces(), count(), wild_pointer(), number()};
  note("counts", rma_message_.iov_count, rma_message_.rma_iov_count, "addr", rma_message_.addr);
  return or_null(&rma_message_);
}

fi_msg_atomic* FuzzWorld::atomic_message() {
  atomic_message_ = {operands(), descriptors(), count(), address(),      remote_operands(),
                     count(),    datatype(),    op(),    wild_pointer(), number()};
  note("counts", atomic_message_.iov_count, atomic_message_.rma_iov_count, "addr", atomic_message_.addr, "type",
       atomic_message_.datatype, "op", atomic_message_.op);
  return or_null(&atomic_message_);
}

void FuzzWorld::move() {
  if (home_ == nullptr || one_in(6))
    home_ = domains.empty() ? nullptr : &domains[below(domains.size())].it->fid;
}

fid_domain* FuzzWorld::domain() {
  for (const Object<fid_domain>& object : domains) {
    if (&object.it->fid == home_ && !one_in(12))
      return object.it;
  }
  return domains.empty() ? nullptr : domains[below(domains.size())].it;
}

fid* FuzzWorld::object() {
  const auto of = [](auto* object) { return object == nullptr ? nullptr : &object->fid; };
  switch (below(8)) {
    case 0: return of(fabric());
    case 1: return of(domain());
    case 2: return of(endpoint());
    case 3: return of(vector());
    case 4: return of(queue());
    case 5: return of(counter());
    case 6: return of(region());
    default: return of(event_queue());
  }
}

}  // namespace lanyard
