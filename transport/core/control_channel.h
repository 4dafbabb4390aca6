// ControlChannel: messages between the processes of a job over the NIC, without MPI: matching and
// everything else but data. The control thread (api/control_thread.h) takes them in, so they arrive
// whatever the program does.
//
// Rules, tested over every NIC by tests/contract/control_channel_contract.h:
//  C1 The messages of one process to another arrive unchanged, once, in the order of send().
//  C2 send() never blocks and takes any number of messages. They wait here if the peer has no room.
//  C3 The channel needs no order of NIC operations (N7), nor that counted data is visible (N4).
//     It uses no deferred-work entry.
//  C4 If an operation for a peer fails, or the peer is lost, lost(peer) is true and messages for it
//     are dropped.
//  C5 A process that takes in no messages delays only the messages sent to it.
//  C6 Waiting messages go in as few operations as the room and the NIC's longest message allow.
//  C7 A message for a peer whose key is unknown waits. Messages from such a peer do arrive.
//
// How it works: api/doc/protocol.md, P15. Threads: see Endpoint; any thread may call notice().
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
  // The context of all operations of the channel, also in their FailureRecord.
  static constexpr uint64_t kContext = UINT64_MAX;

  struct Message {
    uint32_t from = 0;
    std::vector<std::byte> bytes;
  };

  // The slots of each link in a job of `ranks` processes: one megabyte for all links, but within
  // kLeastSlots and kMostSlots.
  static uint32_t slots_for(uint32_t ranks);
  // Opens this process's end. `nic` must outlive it. `ranks` is the size of the job. All processes
  // must pass the same `slots`, the slots of each link. `memory`: words_for() zeros that outlive
  // the channel, or null to allocate them. kExhausted: no counter, region or memory.
  static Result<std::unique_ptr<ControlChannel>> open(nic::Nic& nic, uint32_t self, uint32_t ranks, uint32_t slots,
                                                      uint64_t* memory = nullptr);
  static size_t words_for(uint32_t ranks, uint32_t slots);
  // Leaks memory that the NIC still uses.
  ~ControlChannel();
  ControlChannel(const ControlChannel&) = delete;
  ControlChannel& operator=(const ControlChannel&) = delete;

  // What the peers need to send to this process.
  nic::RemoteKey key() const { return key_; }
  // Sets the key of a peer. Call once for each peer but oneself, after the NIC knows its address.
  void introduce(uint32_t peer, nic::RemoteKey key);
  bool knows(uint32_t peer) const { return keys_[peer].has_value(); }
  // Counts all that arrives. Pass it to Nic::listen() with a listener that calls notice().
  nic::CounterId arrivals() const { return arrivals_; }

  // Copies the message. Requires to < ranks and at most kMaxMessageBytes.
  void send(uint32_t to, std::span<const std::byte> message);
  // Removes and returns the oldest complete message that has been taken in.
  std::optional<Message> receive();
  // Takes in arrived messages and sends waiting ones. Returns the number of steps. Never blocks.
  // Costs one load if there was no notice().
  size_t progress();
  // Tells that a message may have arrived. Any thread.
  void notice() { noticed_.store(true); }
  bool noticed() const { return noticed_.load(); }
  // True if progress() must be called again even if nothing arrives: the NIC was full, or the bytes
  // of a message are not visible yet.
  bool pending() const { return pending_; }

  // Marks the peer as lost (C4): an operation for it has failed (its record has kContext), or it
  // cannot be reached. `why` is printed after the peer's name: "is on another host: ...".
  void fail(uint32_t peer, std::string why = "");
  bool lost(uint32_t peer) const { return links_[peer].lost || nic_.is_lost(peer); }
  // "rank 3 has ended". Requires lost().
  std::string why_lost(uint32_t peer) const;
  // The number of peers that fail() has marked.
  uint64_t failed() const { return failed_; }
  uint32_t ranks() const { return ranks_; }
  // True if the peer has taken in all messages sent to it, or is lost.
  bool has_taken_all(uint32_t peer) const;
  // True if no message or credit waits to be sent to a known peer that is not lost.
  bool has_sent_all() const;
  bool closed() const { return closed_; }
  // Deregisters the memory. False while the NIC uses some of it: call again. After the first call,
  // no message is sent or taken in.
  bool close();

 private:
  static constexpr size_t kSlotBytes = 256;
  static constexpr uint64_t kMostInWrite = 16;  // slots; the peer reads one write during the next
  struct Slot;
  static constexpr size_t kPayloadBytes = kSlotBytes - 4 * sizeof(uint64_t);

  // The messages to and from one peer.
  struct Link {
    bool lost = false;     // fail() was called
    std::string why_lost;  // as given to fail()
    bool sending = false;  // the peer is listed in sending_
    // Out.
    std::list<std::vector<std::byte>> queue;  // a list: most are empty, and take no memory
    size_t sent_bytes = 0;                    // of the first message: those already put into slots
    nic::RegionId region;                     // of `slots`
    std::unique_ptr<Slot[]> slots;            // the NIC reads one until its credit is back
    uint64_t announced = 0;                   // slots announced to the peer so far
    uint64_t filled = 0;                      // slots filled after these, without wrapping
    bool written = false;                     // their write has been issued
    // In.
    uint64_t credited = 0;           // slots whose credit was returned so far
    std::vector<std::byte> partial;  // the part of the next message that has been taken in
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

  // Byte offsets in the memory of every process. First come the operands of sums, n at
  // amount_offset(n); then the words and slots of its link with `rank`.
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
  const uint64_t slots_;  // of each link
  const uint64_t most_in_write_;
  const uint64_t slots_offset_;
  uint64_t* memory_ = nullptr;  // by calloc if owned: links without messages take no pages
  bool owns_memory_ = false;
  nic::CounterId arrivals_;
  nic::RegionId region_;
  nic::RemoteKey key_;
  std::vector<std::optional<nic::RemoteKey>> keys_;  // of the known peers
  std::vector<Link> links_;
  std::vector<uint64_t> taken_;    // slots taken in, by peer; side by side, as progress() reads all
  std::vector<uint32_t> sending_;  // peers with a message or a credit to send, each once
  std::deque<Message> received_;
  bool pending_ = false;
  bool closed_ = false;
  uint64_t failed_ = 0;
  std::atomic<bool> noticed_{false};
};

}  // namespace lanyard::core

#endif  // LANYARD_TRANSPORT_CORE_CONTROL_CHANNEL_H_
