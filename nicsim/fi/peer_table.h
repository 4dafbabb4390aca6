// PeerTable: the places of NICs whose addresses were inserted.
//
// The wires know a peer by its place in a table that every NIC of a job must have alike. libfabric knows
// no such table. Where the launcher numbers the processes, a NIC's place is its process's number, which is
// part of its address: addresses may be inserted at any time and in any order. Elsewhere the place is the
// order of insertion: all addresses, the own included, have to be inserted in the same order everywhere
// before the table is first needed, or before one call of fi_av_insert() brings the own address together
// with others.
#ifndef LANYARD_NICSIM_FI_PEER_TABLE_H_
#define LANYARD_NICSIM_FI_PEER_TABLE_H_

#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

#include "nicsim/threaded/threaded_nic.h"
#include "transport/base/status.h"
#include "transport/nic/nic.h"

namespace lanyard::nicsim::fi {

// This process's number in its job, and the size of the job; 0: the launcher numbers nobody.
struct Numbering {
  uint32_t number = 0;
  uint32_t processes = 0;
};

// Threads: any.
class PeerTable {
 public:
  // The NIC outlives the table.
  PeerTable(ThreadedNic& nic, const Numbering& numbering);

  // The own address: the wire's, and the number.
  const nic::Address& own() const { return own_; }
  // The place of a NIC; one that is there already keeps its own. kInvalidState for a new one in a table
  // that is complete; errors as Nic::add_peer.
  Result<uint32_t> add(const nic::Address& address);
  // Completes the table. kInvalidState where the own address is missing; errors as Nic::set_peers.
  Status complete();
  // The same, where the own address is there and so are at least `nics`.
  Status complete_if_whole(size_t nics);
  // The own place. Requires a complete table.
  uint32_t self() const { return self_; }

 private:
  static constexpr uint32_t kNoNumber = UINT32_MAX;

  Result<uint32_t> add_numbered(const nic::Address& address);
  Status complete_locked();

  ThreadedNic& nic_;
  const Numbering numbering_;
  const nic::Address own_;
  std::atomic<bool> complete_{false};
  std::mutex mutex_;  // guards what follows
  std::vector<nic::Address> peers_;
  uint32_t self_ = UINT32_MAX;
};

}  // namespace lanyard::nicsim::fi

#endif  // LANYARD_NICSIM_FI_PEER_TABLE_H_
