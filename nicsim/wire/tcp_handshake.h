// How the two ends of a connection of the TCP wire prove to each other that they belong to one job,
// before a packet travels. README.md has the messages and says what a proof is worth.
#ifndef LANYARD_NICSIM_WIRE_TCP_HANDSHAKE_H_
#define LANYARD_NICSIM_WIRE_TCP_HANDSHAKE_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "nicsim/model/packet.h"
#include "nicsim/wire/shm_segment.h"

namespace lanyard::nicsim {

// Where a NIC of the TCP wire listens.
struct TcpPlace {
  uint32_t port = 0;
  uint32_t socket_bytes = 0;
  uint8_t socket[28] = {};  // sockaddr_in or sockaddr_in6
  friend bool operator==(const TcpPlace&, const TcpPlace&) = default;
};

struct TcpSecret {
  std::array<std::byte, 32> bytes{};
  static TcpSecret random();
};

struct TcpAddress : PlainAddress<TcpAddress> {
  static constexpr uint32_t kByteOrder = 0x01020304;
  static constexpr uint32_t kVersion = 6;  // of the protocol on connections

  uint32_t tag = 0x31504354;         // "TCP1"
  uint32_t byte_order = kByteOrder;  // packets travel as they lie in memory
  uint32_t version = kVersion;
  TcpPlace place;
  TcpSecret secret;  // this NIC's own; differs for an earlier NIC on the same port
};

using TcpChallenge = std::array<std::byte, 16>;
using TcpProof = std::array<std::byte, 32>;

inline constexpr std::byte kTcpWelcome{0x57};
// Sent before the listener closes the connection of a peer that may live but cannot be reached.
inline constexpr std::byte kTcpUnreachable{0x55};

struct TcpHello {
  static constexpr uint32_t kMagic = 0x484e4c54;  // "TLNH"

  uint32_t magic = kMagic;
  uint32_t byte_order = TcpAddress::kByteOrder;
  uint32_t version = TcpAddress::kVersion;
  uint32_t packet_bytes = sizeof(Packet);
  uint32_t source = 0;            // rank
  uint32_t listeners_secret = 1;  // 1: the listener's secret is used for the proofs; 0: the connector's
  TcpPlace place{};               // the connector's
  TcpChallenge challenge{};

  // Whether the other end has this process's packet layout.
  bool fits() const {
    return magic == kMagic && byte_order == TcpAddress::kByteOrder && version == TcpAddress::kVersion &&
           packet_bytes == sizeof(Packet);
  }
};

struct TcpAnswer {
  TcpChallenge challenge{};
  TcpProof proof{};
};
static_assert(sizeof(TcpHello) == 76 && sizeof(TcpAnswer) == 48);

// The facts of one connection that both ends know. The source has connected and will send.
struct TcpMeeting {
  TcpHello hello{};  // the source's
  uint32_t target = 0;
  TcpChallenge target_challenge{};
};

enum class TcpRole : uint32_t { kConnector = 1, kListener = 2 };

TcpChallenge new_challenge();
TcpProof prove(const TcpSecret& secret, TcpRole role, const TcpMeeting& meeting);
// Compares in constant time.
bool is_same(const TcpProof& one, const TcpProof& other);

}  // namespace lanyard::nicsim

#endif  // LANYARD_NICSIM_WIRE_TCP_HANDSHAKE_H_
