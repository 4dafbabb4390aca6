// The wire between the NICs of one host. Each NIC has an inbox in shared memory (inbox.h).
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

#include <chrono>
#include <cstdint>
#include <memory>

#include "nicsim/wire/wire.h"
#include "transport/base/status.h"

namespace lanyard::nicsim {

struct ShmOptions {
  bool use_cma = true;   // copy directly from and to a peer's memory (cross memory attach)
  uint32_t slots = 256;  // of the inbox, a power of two from 2 to 65536; 4,224 bytes each
  // The interval of checks whether peers live. No sleep is longer once a peer has been reached.
  std::chrono::nanoseconds watch_period = std::chrono::milliseconds(100);
};

// Must not be used in a child made by fork(). Several wires in one process may be peers. Threads as
// wire.h says. send() and poll() make system calls only to wake a thread, copy bulk data or check a
// peer. They allocate only when more is queued or in flight than ever before. The destructor tells
// the peers that this NIC is closed, and waits for a peer that is copying a portion.
//
// kInvalidArgument for impossible options. kFailed if the system has no memfd or no memory, or its
// limit of file sizes is too small.
Result<std::unique_ptr<Wire>> make_shm_wire(const ShmOptions& options = {});

}  // namespace lanyard::nicsim

#endif  // LANYARD_NICSIM_WIRE_SHM_WIRE_H_
