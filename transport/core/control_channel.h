// ControlChannel: messages between the processes of a job over the NIC itself, for what they have to tell each other
// besides data: matching, and what somebody waits for. The NIC's own thread takes messages in, so that they arrive
// whatever the receiving program does; no MPI is needed.
//
// Rules (tests/contract/control_channel_contract.h cites the numbers, over every NIC):
//  C1 What one process sends to another arrives unchanged, once, in the order of send().
//  C2 send() never blocks and takes any number of messages; what does not fit into the peer's memory waits here.
//  C3 Nothing is asked of the order of NIC operations (N7), nor that a count means that data is visible (N4). No
//     deferred-work entry is used.
//  C4 Once an operation for a peer has failed, or the peer is lost, what is for it is dropped, and lost(peer) says so.
//  C5 A process that takes nothing in holds up nobody but who sends to it, and of these only the messages to it.
//  C6 What has waited for room goes in as few operations as the room and the NIC's longest message allow.
//  C7 A message for a peer whose key is not known waits. A peer's messages arrive whether its key is known or not.
//
// How: api/doc/protocol.md, P15.
//
// Threads: see Endpoint; notice() alone may come from any.
#ifndef LANYARD_TRANSPORT_CORE_CONTROL_CHANNEL_H_
#define LANYARD_TRANSPORT_CORE_CONTROL_CHANNEL_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "transport/base/status.h"
#include "transport/nic/nic.h"

namespace lanyard::core {

class ControlChannel {
 public:
  static constexpr size_t kMaxMessageBytes = 64 * 1024;
  static constexpr uint32_t kLeastSlots = 4, kMostSlots = 64;
  // In the FailureRecord of every operation of the channel.
  static constexpr uint64_t kContext = UINT64_MAX;

  struct Message {
    uint32_t from = 0;
    std::vector<std::byte> bytes;
  };

  // Slots of a link in a job of so many processes: a megabyte for all links, and no less than the least for each.
  static uint32_t slots_for(uint32_t ranks);
  // Opens this process's end; `nic` outlives it. `ranks`: how many processes the job has. `slots`: of a link, the same
  // for all. kExhausted: no counter or region. `memory`: as many zeros as words_for(ranks, slots), that outlive it;
  // null: it takes what it needs.
  static Result<std::unique_ptr<ControlChannel>> open(nic::Nic& nic, uint32_t self, uint32_t ranks, uint32_t slots,
                                                      uint64_t* memory = nullptr);
  static size_t words_for(uint32_t ranks, uint32_t slots);
  // The NIC is done with its memory by then, or the memory stays for ever.
  ~ControlChannel();
  ControlChannel(const ControlChannel&) = delete;
  ControlChannel& operator=(const ControlChannel&) = delete;

  // What the others need to reach this end.
  nic::RemoteKey key() const { return key_; }
  // The key of a peer's end, once, after the NIC knows the peer. The own one is known.
  void introduce(uint32_t peer, nic::RemoteKey key);
  bool knows(uint32_t peer) const { return keys_[peer].has_value(); }
  // Counts what arrives; for Nic::listen, whose listener calls notice().
  nic::CounterId arrivals() const { return arrivals_; }

  // Takes a copy. Requires to < ranks and at most kMaxMessageBytes.
  void send(uint32_t to, std::span<const std::byte> message);
  // The next message that has arrived whole.
  std::optional<Message> receive();
  // Takes in what has arrived, hands on what has waited for room; returns how many steps that was. One load where
  // nothing has been noticed. Never blocks.
  size_t progress();
  // Something may have arrived. Any thread.
  void notice() { noticed_.store(true); }
  bool noticed() const { return noticed_.load(); }
  // Whether progress() is to be called again though nothing arrives: a NIC that was full, bytes that are not visible
  // yet.
  bool pending() const { return pending_; }

  // An operation for this peer has failed (its record has kContext); or it cannot be reached: "is on another host:
  // ...".
  void fail(uint32_t peer, std::string why = "");
  bool lost(uint32_t peer) const { return links_[peer].lost || nic_.is_lost(peer); }
  // "rank 3 has ended". Requires lost().
  std::string why_lost(uint32_t peer) const;
  // How many peers fail() has named.
  uint64_t failed() const { return failed_; }
  uint32_t ranks() const { return ranks_; }
  // Whether the peer has taken everything that was sent to it, or never will.
  bool has_taken_all(uint32_t peer) const;
  // Whether nothing waits to be sent to a peer that can be reached.
  bool has_sent_all() const;
  bool closed() const { return closed_; }
  // Deregisters its memory. False while an operation under way names some of it: to be called again. No
  // message is sent or taken in from the first call on.
  bool close();

 private:
  static constexpr size_t kSlotBytes = 256;
  static constexpr uint64_t kMostInWrite = 16;  // slots, so that the peer takes in some while others are on their way
  struct Slot;
  static constexpr size_t kPayloadBytes = kSlotBytes - 4 * sizeof(uint64_t);

  // To and from one peer.
  struct Link {
    bool lost = false;
    std::string why_lost;  // where fail() was told
    bool sending = false;  // stands in sending_
    // Out.
    std::list<std::vector<std::byte>> queue;  // empty it holds no memory: most links of a large job are
    size_t sent_bytes = 0;                    // of the first message
    nic::RegionId region;                     // of `slots`
    std::unique_ptr<Slot[]> slots;            // read by the NIC until the peer has given the credit back
    uint64_t announced = 0;                   // slots
    uint64_t filled = 0;                      // so many of the next stand in `slots`, none beyond its end,
    bool written = false;                     // and their write has been issued
    // In.
    uint64_t credited = 0;  // slots of `taken_` that the peer was told of
    std::vector<std::byte> partial;
  };

  ControlChannel(nic::Nic& nic, uint32_t self, uint32_t ranks, uint32_t slots);
  Status enroll(uint64_t* memory);
  bool hand_on(uint32_t peer);
  Status ready(Link& link);
  void fill_next(Link& link);
  Status write_next(uint32_t peer, uint64_t room);
  Status sum(uint32_t peer, uint64_t offset, uint64_t amount);
  size_t take_in(uint32_t peer);
  bool take_slot(uint32_t peer);
  void wants_to_send(uint32_t peer);

  // Offsets in everybody's memory. First the operands of sums, n at amount_offset(n); then what belongs to the link of
  // `rank`.
  static uint64_t amount_offset(uint64_t n) { return n * sizeof(uint64_t); }
  uint64_t announced_offset(uint32_t rank) const { return (slots_ + 1 + rank) * sizeof(uint64_t); }
  uint64_t credit_offset(uint32_t rank) const { return announced_offset(ranks_ + rank); }
  static uint64_t slots_offset(uint32_t ranks, uint32_t slots) {
    const uint64_t words = uint64_t{slots} + 1 + 2 * uint64_t{ranks};
    return (words * sizeof(uint64_t) + kSlotBytes - 1) / kSlotBytes * kSlotBytes;
  }
  uint64_t slot_offset(uint32_t rank, uint64_t slot) const {
    return slots_offset_ + (rank * slots_ + slot % slots_) * kSlotBytes;
  }
  uint64_t word(uint64_t offset) const {
    return std::atomic_ref(memory_[offset / sizeof(uint64_t)]).load(std::memory_order_acquire);
  }

  nic::Nic& nic_;
  const uint32_t self_;
  const uint32_t ranks_;
  const uint64_t slots_;  // of a link
  const uint64_t most_in_write_;
  const uint64_t slots_offset_;
  uint64_t* memory_ = nullptr;  // its own by calloc: of a job of many processes most links are never touched
  bool owns_memory_ = false;
  nic::CounterId arrivals_;
  nic::RegionId region_;
  nic::RemoteKey key_;
  std::vector<std::optional<nic::RemoteKey>> keys_;  // of the peers that are known
  std::vector<Link> links_;
  std::vector<uint64_t> taken_;    // slots, by peer: beside each other, as every arrival looks at all
  std::vector<uint32_t> sending_;  // peers with something in their link's queue, or a credit to be given; each once
  std::deque<Message> received_;
  bool pending_ = false;
  bool closed_ = false;
  uint64_t failed_ = 0;
  std::atomic<bool> noticed_{false};
};

}  // namespace lanyard::core

#endif  // LANYARD_TRANSPORT_CORE_CONTROL_CHANNEL_H_
