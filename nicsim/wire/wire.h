// The wire: carries packets and payloads between the NICs of the threaded engine, and puts idle threads to sleep.
//
//  W1  Packets from one NIC to another arrive in the order of send(), each exactly once.
//  W2  send() always accepts: what does not fit waits inside. The payload stays valid and unchanged until the initiator
//      has the packet's ack; the wire does not read it afterwards, though the ack may come (a refusal) before all of it
//      has gone out.
//  W3  poll() runs the sink's functions, and give_up_stalled() abandoned(); nothing else does. These and send() are
//      called by one thread at a time, which drives the NIC; the other functions by any.
//  W4  A write's bytes go straight to where the sink places them, in bounded portions a poll() (at most
//      kPortionBytes), so that no call lasts long.
//  W5  A packet that arrives while someone attends causes no system call in the sender. Otherwise it wakes one sleeping
//      helper or, where there is none, the owner.
//  W6  A peer that has gone, or cannot be reached, is reported to the sink once; what was for it is dropped. That
//      includes one that has only ever sent: whoever polls, and sleeps in between, learns of it though nothing is under
//      way.
//  W7  A write that give_up_stalled() gives up is abandoned() in that call. The wire reports nothing more of it and
//      touches its memory no more. What the same peer sends later arrives.
//  W8  A NIC that knows this one's address may send before this one knows it. What it sends arrives, and
//      can be answered.
#ifndef LANYARD_NICSIM_WIRE_WIRE_H_
#define LANYARD_NICSIM_WIRE_WIRE_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "nicsim/model/packet.h"
#include "transport/base/status.h"
#include "transport/nic/nic.h"

namespace lanyard::nicsim {

class Sink {
 public:
  virtual ~Sink() = default;
  // The head of a kWrite has arrived: where its `bytes` go, or null to have them thrown away. The memory stays valid
  // until landed() or abandoned(). Called for zero bytes too (any non-null pointer then means accepted).
  virtual std::byte* place(const Packet& packet) = 0;
  // The bytes of a kWrite are where place() said (`placed`), or were thrown away.
  virtual void landed(const Packet& packet, bool placed) = 0;
  // A placed write will never be whole. Its initiator is to be told the code, unless it has gone: then the code is
  // kFailed, and peer_lost() comes next.
  virtual void abandoned(const Packet& packet, Code code) = 0;
  virtual void atomic_arrived(const Packet& packet) = 0;
  virtual void ack_arrived(const Packet& packet) = 0;
  // A kPull, with its kLoanBytes, which are valid during the call and not to be trusted.
  virtual void pull_arrived(const Packet& packet, const std::byte* loan) = 0;
  virtual void pull_refused(const Packet& packet) = 0;  // a kCannotPull
  // `why`: as nic::Nic::why_lost().
  virtual void peer_lost(uint32_t peer, const std::string& why) = 0;
};

class Wire {
 public:
  static constexpr uint64_t kPortionBytes = 1024 * 1024;
  using Nanoseconds = std::chrono::nanoseconds;

  // Who sleeps: the NIC's own thread, or a thread that waits for something and helps meanwhile.
  enum class Sleeper { kOwner, kHelper };

  virtual ~Wire() = default;
  virtual const char* name() const = 0;  // "shm", "tcp"
  virtual nic::Address address() const = 0;
  // Addresses of all NICs by rank, once. An empty one is not known yet. kInvalidArgument for one that
  // this wire cannot reach (the message says which and what to do). Connections are made at the first
  // send.
  virtual Status set_peers(std::span<const nic::Address> peers, uint32_t self) = 0;
  // The address of one that set_peers() left open, once. Errors as above, and kInvalidArgument where
  // another NIC has already sent as that peer (W8).
  virtual Status add_peer(uint32_t peer, const nic::Address& address) = 0;

  // Whether the peer runs on this host, as far as the wire can tell. Requires that it is known.
  virtual bool shares_host(uint32_t peer) const = 0;

  // `payload`: payload_bytes(packet) bytes, null where that is 0. Never to self. The peer is known, or
  // has sent something (W8).
  virtual void send(uint32_t peer, const Packet& packet, const std::byte* payload) = 0;
  // Moves things on in both directions; returns the number of steps done.
  virtual size_t poll(Sink& sink) = 0;
  // Gives up the placed writes to the region of this key that have not grown since the last such call (the first of a
  // write only looks): abandoned() with kNotFound, and what still comes is thrown away. False where there is one that
  // the peer itself may be copying into, so that it cannot be given up. Called as poll() is, and not from within.
  virtual bool give_up_stalled(uint64_t key, Sink& sink) = 0;

  // While at least one thread attends (polls in a loop), arriving packets wake nobody (W5). Counted.
  virtual void attend() = 0;
  virtual void leave() = 0;
  // Sleeps until something arrives, wake() is called, or the timeout; returns at once where something is waiting to be
  // polled. `idle` is asked once more after the sleeper is visible to wakers: false returns at once.
  virtual void sleep(Sleeper who, Nanoseconds timeout, bool (*idle)(void*), void* object) = 0;
  // Wakes every sleeping helper of this process, or the owner; a system call only where one sleeps.
  virtual void wake(Sleeper who) = 0;
};

}  // namespace lanyard::nicsim

#endif  // LANYARD_NICSIM_WIRE_WIRE_H_
