#include "transport/core/control_channel.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "transport/base/check.h"

namespace lanyard::core {

struct ControlChannel::Slot {
  uint64_t number = 0;  // counts the slots of this link, from 1
  uint64_t bytes = 0;   // of the payload
  uint64_t more = 0;    // 1: the message continues in the next slot
  std::byte payload[kPayloadBytes] = {};
  // The last word: if it is right, the whole slot has landed (P15). Bytes that land later would
  // overwrite the slot's next content.
  uint64_t checksum = 0;

  // The hash of all words, the payload padded with zeros. Each step is a bijection. So it detects
  // any change of one word, and misses one in 2^64 of the changes of several.
  uint64_t sum() const {
    uint64_t hash = 0;
    const auto add = [&hash](uint64_t word) {
      hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
      hash ^= hash >> 32;
    };
    for (const uint64_t word : {number, bytes, more})
      add(word);
    for (size_t at = 0; at < bytes; at += sizeof(uint64_t)) {
      uint64_t word = 0;
      std::memcpy(&word, payload + at, sizeof word);
      add(word);
    }
    return hash;
  }
};

uint32_t ControlChannel::slots_for(uint32_t ranks) {
  constexpr uint32_t kSlotsForAll = (1 << 20) / kSlotBytes;
  return std::bit_floor(std::clamp(kSlotsForAll / ranks, kLeastSlots, kMostSlots));
}

Result<std::unique_ptr<ControlChannel>> ControlChannel::open(nic::Nic& nic, uint32_t self, uint32_t ranks,
                                                             uint32_t slots, uint64_t* memory) {
  LANYARD_CHECK(slots > 0, "a link has slots");
  std::unique_ptr<ControlChannel> channel(new ControlChannel(nic, self, ranks, slots));
  LANYARD_RETURN_IF_ERROR(channel->enroll(memory));
  return channel;
}

size_t ControlChannel::words_for(uint32_t ranks, uint32_t slots) {
  return (slots_offset(ranks, slots) + uint64_t{ranks} * slots * kSlotBytes) / sizeof(uint64_t);
}

ControlChannel::ControlChannel(nic::Nic& nic, uint32_t self, uint32_t ranks, uint32_t slots)
    : nic_(nic),
      self_(self),
      ranks_(ranks),
      slots_(slots),
      most_in_write_(std::clamp<uint64_t>(nic.caps().max_message_bytes / kSlotBytes, 1, kMostInWrite)),
      slots_offset_(slots_offset(ranks, slots)),
      keys_(ranks),
      links_(ranks),
      taken_(ranks) {
  static_assert(sizeof(Slot) == kSlotBytes && kPayloadBytes % sizeof(uint64_t) == 0);
}

Status ControlChannel::enroll(uint64_t* memory) {
  const size_t words = words_for(ranks_, static_cast<uint32_t>(slots_));
  owns_memory_ = memory == nullptr;
  memory_ = owns_memory_ ? static_cast<uint64_t*>(std::calloc(words, sizeof(uint64_t))) : memory;
  if (memory_ == nullptr)
    return {Code::kExhausted, "no memory for the control channel"};
  for (uint64_t n = 0; n <= slots_; ++n)
    memory_[amount_offset(n) / sizeof(uint64_t)] = n;
  LANYARD_ASSIGN_OR_RETURN(arrivals_, nic_.open_counter());
  LANYARD_ASSIGN_OR_RETURN(region_, nic_.register_region(memory_, words * sizeof(uint64_t), arrivals_));
  LANYARD_ASSIGN_OR_RETURN(key_, nic_.key(region_));
  keys_[self_] = key_;
  return {};
}

ControlChannel::~ControlChannel() {
  if (!close())
    for (Link& link : links_)
      if (link.region.valid())
        (void)link.slots.release();
  if (!region_.valid() && owns_memory_)
    std::free(memory_);
  if (arrivals_.valid())
    (void)nic_.close_counter(arrivals_);
}

bool ControlChannel::has_sent_all() const {
  return std::ranges::none_of(sending_, [this](uint32_t peer) { return knows(peer) && !lost(peer); });
}

bool ControlChannel::close() {
  closed_ = true;
  const auto deregister = [this](nic::RegionId& region) {
    if (region.valid() && nic_.deregister_region(region).ok())
      region = {};
    return !region.valid();
  };
  bool all = true;
  for (Link& link : links_)
    all = deregister(link.region) && all;
  return deregister(region_) && all;
}

void ControlChannel::introduce(uint32_t peer, nic::RemoteKey key) {
  LANYARD_CHECK(peer < ranks_ && !knows(peer), "each peer once");
  keys_[peer] = key;
  if (!links_[peer].sending || !hand_on(peer))
    return;
  links_[peer].sending = false;
  std::erase(sending_, peer);
}

size_t ControlChannel::progress() {
  const bool arrived =
      !closed_ && noticed_.load(std::memory_order_relaxed) && noticed_.exchange(false, std::memory_order_acq_rel);
  if (closed_ || (!arrived && !pending_))
    return 0;
  pending_ = false;
  size_t steps = 0;
  for (uint32_t peer = 0; peer < ranks_; ++peer)
    if (word(announced_offset(peer)) != taken_[peer])
      steps += take_in(peer);
  std::erase_if(sending_, [&](uint32_t peer) {
    steps += 1;
    links_[peer].sending = !hand_on(peer);
    return !links_[peer].sending;
  });
  return steps;
}

// ---- Out

void ControlChannel::send(uint32_t to, std::span<const std::byte> message) {
  LANYARD_CHECK(to < ranks_ && message.size() <= kMaxMessageBytes, "a message for a rank of the job");
  Link& link = links_[to];
  if (closed_ || lost(to))
    return;
  link.queue.emplace_back(message.begin(), message.end());
  wants_to_send(to);
}

// Sends what waits for the peer. Lists the peer in sending_ if something is left.
void ControlChannel::wants_to_send(uint32_t peer) {
  Link& link = links_[peer];
  if (link.sending)
    return;
  link.sending = !hand_on(peer);
  if (link.sending)
    sending_.push_back(peer);
}

// Sends what waits for the peer. False if something is left. If the NIC was full, sets pending_:
// nothing tells when it has room again. A credit from the peer arrives like a message.
bool ControlChannel::hand_on(uint32_t peer) {
  Link& link = links_[peer];
  if (lost(peer)) {
    link.queue.clear();
    return true;
  }
  if (!knows(peer))
    return false;
  if (taken_[peer] > link.credited) {
    const uint64_t amount = taken_[peer] - link.credited;
    if (!sum(peer, credit_offset(self_), amount).ok())
      return false;
    link.credited += amount;
  }
  while (!link.queue.empty() || link.filled > 0) {
    const uint64_t untaken = link.announced - word(credit_offset(peer));
    if (untaken >= slots_)
      return false;
    if (!link.region.valid() && !ready(link).ok()) {
      fail(peer, "cannot be told anything: the NIC has no region left for that");
      return true;
    }
    if (Status status = write_next(peer, slots_ - untaken); !status.ok()) {
      pending_ = true;
      return false;
    }
  }
  return true;
}

// Registers the slots that the NIC sends from, before the first message to a peer.
Status ControlChannel::ready(Link& link) {
  auto slots = std::make_unique<Slot[]>(slots_);
  LANYARD_ASSIGN_OR_RETURN(link.region, nic_.register_region(slots.get(), slots_ * sizeof(Slot)));
  link.slots = std::move(slots);
  return {};
}

// Puts the next part of the first message into the next slot.
void ControlChannel::fill_next(Link& link) {
  const uint64_t place = link.announced + link.filled++;
  Slot& slot = link.slots[place % slots_];
  const std::vector<std::byte>& message = link.queue.front();
  const size_t bytes = std::min(kPayloadBytes, message.size() - link.sent_bytes);
  slot.number = place + 1;
  slot.bytes = bytes;
  slot.more = link.sent_bytes + bytes < message.size() ? 1 : 0;
  std::copy_n(message.begin() + static_cast<ptrdiff_t>(link.sent_bytes), bytes, slot.payload);
  std::fill_n(slot.payload + bytes, -bytes % sizeof(uint64_t), std::byte{0});
  slot.checksum = slot.sum();
  link.sent_bytes += bytes;
  if (slot.more == 0) {
    link.queue.pop_front();
    link.sent_bytes = 0;
  }
}

// Writes and announces the next slots: at most `room`, and none beyond the end of `slots`.
// kAgain, kExhausted: call again.
Status ControlChannel::write_next(uint32_t peer, uint64_t room) {
  Link& link = links_[peer];
  const uint64_t first = link.announced % slots_;
  if (link.filled == 0) {
    const uint64_t most = std::min({room, slots_ - first, most_in_write_});
    while (link.filled < most && !link.queue.empty())
      fill_next(link);
  }
  const nic::Op write{.kind = nic::OpKind::kWrite,
                      .local = {link.region, first * sizeof(Slot)},
                      .remote = {peer, *keys_[peer], slot_offset(self_, first)},
                      .bytes = link.filled * sizeof(Slot),
                      .context = kContext};
  if (!link.written)
    LANYARD_RETURN_IF_ERROR(nic_.issue(write));
  link.written = true;
  LANYARD_RETURN_IF_ERROR(sum(peer, announced_offset(self_), link.filled));
  link.announced += link.filled;
  link.filled = 0;
  link.written = false;
  return {};
}

Status ControlChannel::sum(uint32_t peer, uint64_t offset, uint64_t amount) {
  Status status = nic_.issue({.kind = nic::OpKind::kAtomic,
                              .atomic = nic::AtomicKind::kSum,
                              .local = {region_, amount_offset(amount)},
                              .remote = {peer, *keys_[peer], offset},
                              .context = kContext});
  pending_ = pending_ || !status.ok();
  return status;
}

void ControlChannel::fail(uint32_t peer, std::string why) {
  if (peer >= ranks_ || std::exchange(links_[peer].lost, true))
    return;
  ++failed_;
  links_[peer].why_lost = std::move(why);
  links_[peer].queue.clear();
}

bool ControlChannel::has_taken_all(uint32_t peer) const {
  const Link& link = links_[peer];
  return lost(peer) || (link.queue.empty() && link.filled == 0 && link.announced == word(credit_offset(peer)));
}

std::string ControlChannel::why_lost(uint32_t peer) const {
  const std::string rank = "rank " + std::to_string(peer);
  if (nic_.is_lost(peer))
    return rank + " " + nic_.why_lost(peer);
  return rank + " " + (links_[peer].why_lost.empty() ? "cannot be reached" : links_[peer].why_lost);
}

// ---- In

size_t ControlChannel::take_in(uint32_t peer) {
  Link& link = links_[peer];
  size_t steps = 0;
  // A correct peer announces no more than slots_ slots ahead. Ignore other counts.
  while (word(announced_offset(peer)) - taken_[peer] - 1 < slots_ && take_slot(peer))
    ++steps;
  if (taken_[peer] > link.credited)
    wants_to_send(peer);
  return steps;
}

// False if the slot is not visible yet, or would make the message longer than allowed.
bool ControlChannel::take_slot(uint32_t peer) {
  Link& link = links_[peer];
  Slot slot;
  std::memcpy(&slot, reinterpret_cast<const std::byte*>(memory_) + slot_offset(peer, taken_[peer]), sizeof slot);
  const bool whole = slot.number == taken_[peer] + 1 && slot.bytes <= kPayloadBytes && slot.checksum == slot.sum();
  if (!whole || link.partial.size() + slot.bytes > kMaxMessageBytes) {
    pending_ = true;
    return false;
  }
  ++taken_[peer];
  link.partial.insert(link.partial.end(), slot.payload, slot.payload + slot.bytes);
  if (slot.more == 0)
    received_.push_back({peer, std::exchange(link.partial, {})});
  return true;
}

std::optional<ControlChannel::Message> ControlChannel::receive() {
  if (received_.empty())
    return std::nullopt;
  Message message = std::move(received_.front());
  received_.pop_front();
  return message;
}

}  // namespace lanyard::core
