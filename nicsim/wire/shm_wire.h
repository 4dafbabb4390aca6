// ShmWire: the wire between the NICs of one host. Each NIC has an inbox in shared memory (inbox.h).
// Bulk data takes one copy from the sender's memory to the receiver's: process_vm_readv(2) and
// process_vm_writev(2), or memcpy in one process.
//
// Payloads of up to 4 KiB travel in the inbox's slot. A longer one stays where it is and the packet
// travels as an offer. The receiver copies it, one portion per poll(), several writes in turn. If
// the system refuses that (or use_cma is false), the receiver asks for the payload. The sender then
// streams it through the inbox in chunks of 4 KiB.
//
// From 128 KiB on both sides copy, because one core does not use the full memory bandwidth. The
// receiver invites the sender to help and begins at the front. At its next poll the sender begins
// at the back. Both take portions by claims in the receiver's segment (inbox.h), so a sender that
// never polls, or is refused, delays nothing.
//
// When the sender finds no portion left or cannot go on, it answers how much it has copied. If it
// has taken a portion, the receiver waits for that answer, or for the sender's end, before it
// lands, abandons or streams the write. So nobody writes there afterwards. The claims are used
// again only after the answer.
//
// Order (W1): place(), atomic_arrived() and ack_arrived() come in the order of send(). landed() of
// a write of more than 4 KiB may come after those of later packets, so small packets overtake bulk
// data. Rule N7 of nic.h allows that.
//
// If an inbox is full, the sender queues frames, and its poll() sends them later. The receiver
// nudges it when there is room. poll() takes incoming frames even if outgoing ones are stuck, so
// two NICs that fill each other's inboxes both go on.
//
// A thread that polls or sleeps finds within about two watch periods that a peer has ended. This
// holds for peers that have sent or been sent anything, whether their process has ended or their
// wire was destroyed. What such a peer sent before is delivered first.
#ifndef LANYARD_NICSIM_WIRE_SHM_WIRE_H_
#define LANYARD_NICSIM_WIRE_SHM_WIRE_H_

#include <atomic>
#include <chrono>
#include <memory>

#include "nicsim/wire/inbox.h"
#include "nicsim/wire/shm_bulk.h"
#include "nicsim/wire/shm_peers.h"
#include "nicsim/wire/shm_segment.h"
#include "nicsim/wire/wire.h"

namespace lanyard::nicsim {

struct ShmOptions {
  bool use_cma = true;   // copy directly from and to a peer's memory (cross memory attach)
  uint32_t slots = 256;  // of the inbox, a power of two from 2 to 65536; 4,224 bytes each
  // The interval of checks whether peers live. No sleep is longer once a peer has been reached.
  std::chrono::nanoseconds watch_period = std::chrono::milliseconds(100);
};

// Must not be used in a child made by fork(). Several wires in one process may be peers. Threads as
// wire.h says. send() and poll() make system calls only to wake a thread, copy bulk data or check a
// peer. They allocate only when more is queued or in flight than ever before.
class ShmWire final : public Wire {
 public:
  static constexpr uint32_t kMaxPeers = InboxHeader::kMaxProducers;

  // kInvalidArgument for impossible options. kFailed if the system has no memfd or no memory, or
  // its limit of file sizes is too small.
  static Result<std::unique_ptr<ShmWire>> create(const ShmOptions& options = {});
  // Tells the peers that this NIC is closed. Waits for a peer that is copying a portion.
  ~ShmWire() override;

  const char* name() const override { return "shm"; }
  nic::Address address() const override { return segment_.address.encode(); }
  Status set_peers(std::span<const nic::Address> peers, uint32_t self) override;
  Status add_peer(uint32_t peer, const nic::Address& address) override;
  bool shares_host(uint32_t) const override { return true; }
  void send(uint32_t peer, const Packet& packet, const std::byte* payload) override;
  size_t poll(Sink& sink) override;
  bool give_up_stalled(uint64_t key, Sink& sink) override;
  void attend() override { inbox_.bell().attend(); }
  void leave() override;
  void sleep(Sleeper who, Nanoseconds timeout, const Idle& idle) override;
  void wake(Sleeper who) override { inbox_.bell().wake(who); }

 private:
  ShmWire(const ShmOptions& options, OwnSegment segment);

  Result<ShmAddress> check(uint32_t rank, const nic::Address& encoded) const;
  bool waiting() const;
  void set_more(bool more);

  size_t take_frames(Sink& sink);
  void take(Sink& sink, const Packet& packet, const Frame& frame);
  void take_packet(Sink& sink, const Packet& packet, const Frame& frame);
  void take_hello(const Packet& packet, const Frame& frame);

  void look_after_peers();
  size_t report_ended(Sink& sink);
  size_t step_over_unfinished();

  const ShmOptions options_;
  OwnSegment segment_;
  Inbox inbox_;
  std::atomic<bool> ready_{false};  // set_peers() has been called

  // The rest is for the driver only, except the atomics.
  ShmPeers peers_;
  ShmOffers offers_;
  ShmPulls pulls_;
  bool lost_any_ = false;
  uint32_t idle_polls_ = 0;
  std::chrono::steady_clock::time_point next_look_{};
  std::atomic<bool> more_{false};   // poll() has something to do even if nothing arrives
  std::atomic<bool> slept_{false};  // time may have passed since the last poll()
};

}  // namespace lanyard::nicsim

#endif  // LANYARD_NICSIM_WIRE_SHM_WIRE_H_
