// Transfer: what a request transfers, as MPI_*_init was told, in bytes. Strategy: who tells the streams that it is
// complete.
#ifndef LANYARD_TRANSPORT_CORE_TRANSFER_H_
#define LANYARD_TRANSPORT_CORE_TRANSFER_H_

#include <cstdint>
#include <memory>
#include <string>

#include "gpu/stream.h"
#include "transport/nic/nic.h"

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
  std::string describe() const {
    const auto or_any = [](int value) { return value < 0 ? std::string("any") : std::to_string(value); };
    const char* what = direction == Direction::kReceive ? "recv" : ready ? "rsend" : "send";
    return std::string(what) + ", peer " + (peer == kNobody ? "none" : or_any(peer)) + ", tag " + or_any(tag) + ", " +
           std::to_string(bytes) + " B" + (part_of == nullptr ? "" : ", of " + *part_of);
  }
};

enum class Strategy : uint8_t {
  kTargetCounter,  // A: the receiver's NIC, which counts what lands (Bridges et al., section V)
  kSenderFlag,     // B: the sender's NIC, once the write is delivered
};
inline constexpr Strategy kStrategies[] = {Strategy::kTargetCounter, Strategy::kSenderFlag};

inline const char* strategy_name(Strategy strategy) {
  switch (strategy) {
    case Strategy::kTargetCounter: return "target-counter";
    case Strategy::kSenderFlag: return "sender-flag";
  }
  return "";
}

// Whether senders raise their receives' done words.
constexpr bool raises_flags(Strategy strategy) { return strategy == Strategy::kSenderFlag; }

// A has one trip less, but needs a count that means that the data is visible.
inline Strategy strategy_for(const nic::Caps& caps) {
  return caps.target_count_means_visible ? Strategy::kTargetCounter : Strategy::kSenderFlag;
}

}  // namespace lanyard::core

#endif  // LANYARD_TRANSPORT_CORE_TRANSFER_H_
