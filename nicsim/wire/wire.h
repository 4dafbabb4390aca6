// The wire carries packets and payloads between the NICs of the threaded engine. Idle threads
// sleep in it.
//
//  W1  Packets from one NIC to another arrive in the order of send(), each exactly once.
//  W2  send() always accepts: what does not fit waits inside. The payload stays valid and unchanged
//      until the initiator has the packet's ack, and the wire does not read it afterwards. A
//      refusal may come before all of the payload has been sent.
//  W3  Only poll() calls the sink's functions, and give_up_stalled() calls abandoned(). One thread
//      at a time, which drives the NIC, calls these two and send(). Any thread may call the rest.
//  W4  A write's bytes go straight to where the sink places them, at most kPortionBytes in one
//      poll(), so that no call lasts long.
//  W5  A packet that arrives while a thread attends causes no system call in the sender. Otherwise
//      it wakes one sleeping helper or, if there is none, the owner.
//  W6  A peer that has ended or cannot be reached is reported to the sink once, and what waits for
//      it is dropped. This includes a peer that has only ever sent. Polling, with sleep in between,
//      finds it even if nothing is in flight.
//  W7  A write that give_up_stalled() gives up is abandoned() in that call. The wire reports
//      nothing more of it and no longer touches its memory. What the same peer sends later arrives.
//  W8  A NIC that knows this one's address may send before this one knows its address. What it
//      sends arrives and can be answered.
#ifndef LANYARD_NICSIM_WIRE_WIRE_H_
#define LANYARD_NICSIM_WIRE_WIRE_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "nicsim/model/packet.h"
#include "transport/base/status.h"
#include "transport/nic/nic.h"

namespace lanyard::nicsim {

class Sink {
 public:
  virtual ~Sink() = default;
  // The head of a kWrite has arrived. Returns where its `bytes` go, or null to discard them. The
  // memory stays valid until landed() or abandoned(). Also called for zero bytes: then any
  // non-null pointer accepts.
  virtual std::byte* place(const Packet& packet) = 0;
  // The bytes of a kWrite are where place() said (`placed`), or were discarded.
  virtual void landed(const Packet& packet, bool placed) = 0;
  // A placed write will never be complete. The sink sends `code` to its initiator. If the initiator
  // has ended, the code is kFailed and peer_lost() comes next.
  virtual void abandoned(const Packet& packet, Code code) = 0;
  // Any other packet. `loan` is for a kPull: kLoanBytes, valid during the call. Do not trust them.
  virtual void arrived(const Packet& packet, const std::byte* loan) = 0;
  // `why`: as nic::Nic::why_lost().
  virtual void peer_lost(uint32_t peer, const std::string& why) = 0;
};

class Wire {
 public:
  static constexpr uint64_t kPortionBytes = 1024 * 1024;
  using Nanoseconds = std::chrono::nanoseconds;
  using Idle = std::function<bool()>;

  // Two kinds of sleepers: the NIC's own thread, and a thread that waits for something
  // and polls meanwhile.
  enum class Sleeper { kOwner, kHelper };

  virtual ~Wire() = default;
  virtual const char* name() const = 0;  // "shm", "tcp"
  virtual nic::Address address() const = 0;
  // Sets the addresses of all NICs by rank, once. An empty one is not known yet. Connections are
  // made at the first send. kInvalidArgument if this wire cannot reach an address; the message
  // names the peer and the remedy.
  virtual Status set_peers(std::span<const nic::Address> peers, uint32_t self) = 0;
  // Sets an address that set_peers() left empty, once. Errors as above, and kInvalidArgument if
  // another NIC has already sent as that peer (W8).
  virtual Status add_peer(uint32_t peer, const nic::Address& address) = 0;

  // Whether the peer runs on this host, as far as the wire can tell. Its address must be known.
  virtual bool shares_host(uint32_t peer) const = 0;

  // `payload`: payload_bytes(packet) bytes, null if that is 0. Never to this NIC itself. The peer's
  // address must be known, or the peer must have sent something (W8).
  virtual void send(uint32_t peer, const Packet& packet, const std::byte* payload) = 0;
  // Sends and receives what is ready; returns the number of steps.
  virtual size_t poll(Sink& sink) = 0;
  // Gives up placed writes to this key's region that have not grown since the last such call; the
  // first call for a write only records its length. Each is abandoned() with kNotFound, and the
  // rest is discarded. False if the peer itself may be copying into one, so that it cannot be given
  // up. Called as poll() is, never from within it.
  virtual bool give_up_stalled(uint64_t key, Sink& sink) = 0;

  // Between attend() and leave() a thread polls in a loop, and packets wake nobody (W5).
  // Calls are counted.
  virtual void attend() = 0;
  virtual void leave() = 0;
  // Sleeps until something arrives, wake() is called or `timeout` has passed. Returns at once if
  // something waits to be polled, or if idle(), called once the sleeper is visible to wakers, is
  // false. No `idle` stands for true.
  virtual void sleep(Sleeper who, Nanoseconds timeout, const Idle& idle = {}) = 0;
  // Wakes every sleeping helper of this process, or the owner. A system call only if one sleeps.
  virtual void wake(Sleeper who) = 0;
};

}  // namespace lanyard::nicsim

#endif  // LANYARD_NICSIM_WIRE_WIRE_H_
