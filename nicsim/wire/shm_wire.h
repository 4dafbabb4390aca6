// The wire between the NICs of one host: an inbox for each in shared memory (inbox.h), and one copy
// of bulk data from the sender's memory to the receiver's. README.md says which way each payload
// takes.
//
// Order (W1): place() and arrived() come in the order of send(). landed() of
// a write of more than 4 KiB may come after those of later packets, so small packets overtake bulk
// data. Rule N7 of nic.h allows that.
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
