/* Lanyard inside kernels: starts and waits that a running kernel makes itself. CUDA, HIP, C11 and C++ (on host
 * streams).
 *
 * A set of matched requests is made by MPIX_Device_requests_create (lanyard.h), which gives the pointer that these
 * functions take. Requests by the card and by lanes (from GPU to GPU, without a card) may be in one set.
 *
 * By one thread, for the whole kernel; what others wrote before, or read afterwards, is ordered by the kernel's own
 * barriers around the call:
 *
 *     pack(...); __syncthreads();
 *     if (threadIdx.x == 0) { MPIX_Device_startall(set); MPIX_Device_waitall(set); }
 *     __syncthreads(); unpack(...);
 *
 * By all threads of a block, which then copy what goes by lanes together; each call begins with a barrier of the
 * block's, tests and waits end with one, and they take some 2 KiB of its shared memory:
 *
 *     pack(...); MPIX_Device_block_startall(set, 0, 1); MPIX_Device_block_waitall(set, 1); unpack(...);
 *
 * By several blocks, which share the work: block `which` of `blocks`, from 0, each of them once a call.
 *
 * Without a copy, packing straight into the receiver's buffer, where a lane allows that:
 *
 *     int direct = MPIX_Device_block_may_store(set, 0);
 *     pack(direct ? MPIX_Device_remote(set, 0) : mine);
 *     if (direct) MPIX_Device_block_raiseall(set, 1); else MPIX_Device_block_startall(set, 0, 1);
 *
 * A kernel that waits occupies its multiprocessors: all blocks that the transfer depends on must be resident at once.
 * Once a wait was let pass, because a request by a lane has failed (MPIX_Queue_wait tells) or the process ends, all
 * that the set's kernels call does nothing and returns at once; data is then missing.
 *
 * Needs C++17 where it is compiled for a device. On a host stream a block is the thread that calls, and the only one.
 * Source: Bridges et al., section VI (kernel-triggered communication as future work).
 */
#ifndef LANYARD_LANYARD_DEVICE_H_
#define LANYARD_LANYARD_DEVICE_H_

#include "lanyard/detail/device_requests.h"
#include "lanyard/detail/device_set.h"

/* ---- By one thread at a time */

/* Starts every request of the set, once everything that the calling thread has seen is visible to whoever carries the
 * message. Requires that the last start was waited for. Does not block; the thread copies what goes by a lane whose
 * receiver has started, and has been told so. */
LANYARD_DEVICE_FUNCTION void MPIX_Device_startall(const MPIX_Device_requests* set) {
  lanyard_start(set, 0, set->requests);
}

/* The same of one request: number i of the array that the set was made of. All are to be started before the next wait,
 * by this call or another, and each once. Different ones may be started by different threads at the same time. */
LANYARD_DEVICE_FUNCTION void MPIX_Device_start(const MPIX_Device_requests* set, uint64_t i) {
  lanyard_start(set, i, i + 1);
}

/* Nonzero once the last start of every request has completed, which then counts as waited for: what was received is
 * there, and what was sent may be overwritten. To be called no more until the next start. Does not block; the thread
 * copies what nobody has copied yet. */
LANYARD_DEVICE_FUNCTION int MPIX_Device_testall(const MPIX_Device_requests* set) { return lanyard_test(set); }

/* Blocks the calling thread until MPIX_Device_testall would say so. A stall shows in MPIX_Queue_wait's report. */
LANYARD_DEVICE_FUNCTION void MPIX_Device_waitall(const MPIX_Device_requests* set) { lanyard_wait(set); }

/* ---- Messages that the kernel stores itself */

/* Where the message of request i can be stored at its receiver, from the beginning: the receive's buffer as this device
 * reaches it. NULL: nowhere, since it is a receive, or goes by the card, or has 16 KiB or less: to start a short
 * message is faster, as it waits for no receiver. The same for as long as the set. Requires, before anything is stored
 * there, MPIX_Device_may_store. Any thread. */
LANYARD_DEVICE_FUNCTION void* MPIX_Device_remote(const MPIX_Device_requests* set, uint64_t i) {
  return lanyard_remote(set, i);
}

/* Nonzero once the message of the next start of send i may be stored at MPIX_Device_remote: its receiver has started,
 * or it is a ready send's; until that start is made it stays so. Zero: store it in the send's own buffer, and start it
 * (or ask again; but a receiver may be waiting for what comes behind). Does not block. Any thread; those that store
 * come behind one that has asked. */
LANYARD_DEVICE_FUNCTION int MPIX_Device_may_store(const MPIX_Device_requests* set, uint64_t i) {
  return lanyard_may_store(set, i);
}

/* As MPIX_Device_start, but nothing is copied: the message of send i has been stored at MPIX_Device_remote by this
 * thread or those that it has seen. Requires MPIX_Device_may_store. A receive, or what has no such place, is started.
 */
LANYARD_DEVICE_FUNCTION void MPIX_Device_raise(const MPIX_Device_requests* set, uint64_t i) {
  lanyard_raise(set, i, i + 1);
}

/* MPIX_Device_raise for every request of the set. */
LANYARD_DEVICE_FUNCTION void MPIX_Device_raiseall(const MPIX_Device_requests* set) {
  lanyard_raise(set, 0, set->requests);
}

/* ---- By all threads of a block, or of each of several blocks */

/* MPIX_Device_startall by `blocks` blocks, this one being number `which` of them, of which each calls once; a large
 * message is copied by all of them. What any of their threads has written before is sent: blocks wait until all have
 * called, and for nothing else. */
LANYARD_DEVICE_FUNCTION void MPIX_Device_block_startall(const MPIX_Device_requests* set, uint32_t which,
                                                        uint32_t blocks) {
  lanyard_block_start(set, 0, set->requests, which, blocks);
}

/* MPIX_Device_start by one block. One call of one block at a time for request i, of different blocks for others. */
LANYARD_DEVICE_FUNCTION void MPIX_Device_block_start(const MPIX_Device_requests* set, uint64_t i) {
  lanyard_block_start(set, i, i + 1, 0, 1);
}

/* MPIX_Device_raiseall by `blocks` blocks, of which each calls once: the messages that any of their threads have stored
 * are sent once the last one calls. No block waits for another. */
LANYARD_DEVICE_FUNCTION void MPIX_Device_block_raiseall(const MPIX_Device_requests* set, uint32_t blocks) {
  lanyard_block_raise(set, blocks);
}

/* MPIX_Device_may_store for each block that will store a part of the message: the same to all their threads, until the
 * next start of send i. It is decided by whoever asks first; where it is zero, asking again before that start is of no
 * use. */
LANYARD_DEVICE_FUNCTION int MPIX_Device_block_may_store(const MPIX_Device_requests* set, uint64_t i) {
  return lanyard_block_may_store(set, i);
}

/* MPIX_Device_testall by one block; the same to all its threads. */
LANYARD_DEVICE_FUNCTION int MPIX_Device_block_testall(const MPIX_Device_requests* set) {
  return lanyard_block_test(set);
}

/* MPIX_Device_waitall by `blocks` blocks, of which each calls once. Blocks each until all have called and all has
 * completed. */
LANYARD_DEVICE_FUNCTION void MPIX_Device_block_waitall(const MPIX_Device_requests* set, uint32_t blocks) {
  lanyard_block_wait(set, blocks);
}

#endif /* LANYARD_LANYARD_DEVICE_H_ */
