// PeerTable: the NICs whose addresses were inserted, in the order in which they came.
//
// The wires know a peer by its place in a table that every NIC of a job must have alike. libfabric
// knows no such table, but whoever inserts the addresses of a job in the order of its ranks, its
// own included, makes one. The table is complete when it is first needed, or when one call of
// fi_av_insert() has brought the own address together with others.
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

// Threads: any.
class PeerTable {
 public:
  // The NIC outlives the table.
  explicit PeerTable(ThreadedNic& nic) : nic_(nic), own_(nic.address()) {}

  // Its place; a NIC that is there already keeps its own. kInvalidState for a new one in a complete
  // table.
  Result<uint32_t> add(const nic::Address& address);
  // Completes the table. kInvalidState where the own address is missing; errors as Nic::set_peers.
  Status complete();
  // The same, where the own address is there and so are at least `nics`.
  Status complete_if_whole(size_t nics);
  // The own place. Requires a complete table.
  uint32_t self() const { return self_; }

 private:
  Status complete_locked();

  ThreadedNic& nic_;
  const nic::Address own_;
  std::atomic<bool> complete_{false};
  std::mutex mutex_;  // guards what follows
  std::vector<nic::Address> peers_;
  uint32_t self_ = UINT32_MAX;
};

}  // namespace lanyard::nicsim::fi

#endif  // LANYARD_NICSIM_FI_PEER_TABLE_H_
