// Transfer: what a request transfers, as MPI_*_init was told, in bytes.
#ifndef LANYARD_TRANSPORT_CORE_TRANSFER_H_
#define LANYARD_TRANSPORT_CORE_TRANSFER_H_

#include <cstdint>
#include <memory>
#include <string>

#include "gpu/stream.h"

namespace lanyard::core {

inline constexpr int kAnySource = -1;
inline constexpr int kAnyTag = -1;
inline constexpr int kNobody = -2;  // MPI_PROC_NULL

enum class Direction : uint8_t { kSend, kReceive };

struct Transfer {
  Direction direction = Direction::kSend;
  bool ready = false;      // a ready send: the user promises that the receive was started
  void* buffer = nullptr;  // the user's, `bytes` long, valid while the request lives; or the packing's
  uint64_t bytes = 0;
  uint64_t communicator = 0;  // identity of the communicator, the same on all its members
  int rank = 0;               // this process in the communicator
  int peer = 0;               // the other in the communicator; kAnySource, kNobody
  uint32_t peer_nic = 0;      // the other's NIC; undefined for kAnySource and kNobody
  int tag = 0;                // or kAnyTag
  bool by_card = false;       // never by a lane
  // Where the user's memory has gaps: the stream packs at each start of a send, and unpacks after each wait for a
  // receive.
  std::shared_ptr<gpu::Packing> packing{};
  // Of one message of several: the name of the whole, "MPI_Allreduce of 4 processes".
  std::shared_ptr<const std::string> part_of{};
  bool in_turn = false;  // and another one takes turns with it, which no graph or kernel does

  // "recv, peer 2, tag 7, 16384 B"; what may be any is.
  std::string describe() const;
};

}  // namespace lanyard::core

#endif  // LANYARD_TRANSPORT_CORE_TRANSFER_H_
