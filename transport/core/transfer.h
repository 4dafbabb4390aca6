// Transfer: the arguments of MPI_*_init, in bytes. Strategy: how a completed message is reported to
// the receiver's stream.
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
  void* buffer = nullptr;  // the user's or the packing's, `bytes` long, valid until it is freed
  uint64_t bytes = 0;
  uint64_t communicator = 0;  // names the communicator, the same on all its members
  int rank = 0;               // of this process, in the communicator
  int peer = 0;               // rank of the peer, in the communicator; kAnySource; kNobody
  uint32_t peer_nic = 0;      // the peer's NIC; undefined for kAnySource and kNobody
  int tag = 0;                // or kAnyTag
  bool by_card = false;       // always by the NIC, never by a lane
  // Set if the user's memory has gaps: the stream packs it at each start of a send, or unpacks it
  // after each wait for a receive.
  std::shared_ptr<gpu::Packing> packing{};
  // Set for a message of a collective: "MPI_Allreduce of 4 processes".
  std::shared_ptr<const std::string> part_of{};
  bool in_turn = false;  // alternates with another message; graphs and kernels cannot start it

  // "recv, peer 2, tag 7, 16384 B"; wildcards are "any".
  std::string describe() const {
    const auto or_any = [](int value) { return value < 0 ? std::string("any") : std::to_string(value); };
    const char* what = direction == Direction::kReceive ? "recv" : ready ? "rsend" : "send";
    return std::string(what) + ", peer " + (peer == kNobody ? "none" : or_any(peer)) + ", tag " + or_any(tag) + ", " +
           std::to_string(bytes) + " B" + (part_of == nullptr ? "" : ", of " + *part_of);
  }
};

enum class Strategy : uint8_t {
  kTargetCounter,  // A: the receiver's NIC counts what lands (Bridges et al., section V)
  kSenderFlag,     // B: the sender's NIC raises a flag once the write is delivered
};
inline constexpr Strategy kStrategies[] = {Strategy::kTargetCounter, Strategy::kSenderFlag};

inline const char* strategy_name(Strategy strategy) {
  switch (strategy) {
    case Strategy::kTargetCounter: return "target-counter";
    case Strategy::kSenderFlag: return "sender-flag";
  }
  return "";
}

// True if the sender raises a flag at the receiver.
constexpr bool raises_flags(Strategy strategy) { return strategy == Strategy::kSenderFlag; }

// A saves one trip, but requires that data is visible once it is counted.
inline Strategy strategy_for(const nic::Caps& caps) {
  return caps.target_count_means_visible ? Strategy::kTargetCounter : Strategy::kSenderFlag;
}

}  // namespace lanyard::core

#endif  // LANYARD_TRANSPORT_CORE_TRANSFER_H_
