// How the two ends of a connection of the TCP wire prove to each other that they belong to one job, before a packet
// travels:
//
//   connector -> listener   TcpHello: how it lays packets out, its rank, a challenge
//   listener -> connector   TcpAnswer: a challenge of its own, and its proof
//   connector -> listener   TcpProof: the connector's
//   listener -> connector   kTcpWelcome, one byte: packets may come
//
// A proof is an HMAC-SHA-256 under the job's secret, of who proves (listener or connector), both ranks, both challenges
// and the nonces of both addresses. Secret and nonces never travel here: the MPI has carried them. The challenges are
// new for each connection, so what somebody has overheard proves nothing later; and an end's proof is none for the
// other end, nor for the connection in the other direction. Without a secret the nonces alone have to be known.
//
// What this does not do: packets are neither encrypted nor signed, so whoever can change what travels between two hosts
// can change packets.
#ifndef LANYARD_NICSIM_WIRE_TCP_HANDSHAKE_H_
#define LANYARD_NICSIM_WIRE_TCP_HANDSHAKE_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "nicsim/model/packet.h"
#include "nicsim/wire/shm_segment.h"
#include "transport/base/job_secret.h"

namespace lanyard::nicsim {

// Where a NIC of the TCP wire listens.
struct TcpAddress : PlainAddress<TcpAddress> {
  static constexpr uint32_t kByteOrder = 0x01020304;
  static constexpr uint32_t kVersion = 4;  // of what travels on connections

  uint32_t tag = 0x31504354;         // "TCP1"
  uint32_t byte_order = kByteOrder;  // packets travel as they lie in memory
  uint32_t version = kVersion;
  uint32_t port = 0;
  uint32_t socket_bytes = 0;
  uint8_t socket[28] = {};  // sockaddr_in or sockaddr_in6
  uint64_t nonce = 0;       // tells this NIC from an earlier one on the same port; secret
};

using TcpChallenge = std::array<std::byte, 16>;
using TcpProof = std::array<std::byte, 32>;

inline constexpr std::byte kTcpWelcome{0x57};
// Later, before the listener closes a connection of a peer that lives for all it knows, and that it cannot reach.
inline constexpr std::byte kTcpUnreachable{0x55};

struct TcpHello {
  static constexpr uint32_t kMagic = 0x484e4c54;  // "TLNH"

  uint32_t magic = kMagic;
  uint32_t byte_order = TcpAddress::kByteOrder;
  uint32_t version = TcpAddress::kVersion;
  uint32_t packet_bytes = sizeof(Packet);
  uint32_t source = 0;  // rank
  uint32_t unused = 0;
  TcpChallenge challenge{};

  // Whether whoever says this lays packets out as this process does.
  bool fits() const {
    return magic == kMagic && byte_order == TcpAddress::kByteOrder && version == TcpAddress::kVersion &&
           packet_bytes == sizeof(Packet);
  }
};

struct TcpAnswer {
  TcpChallenge challenge{};
  TcpProof proof{};
};
static_assert(sizeof(TcpHello) == 40 && sizeof(TcpAnswer) == 48);

// What both ends know of one connection. The source is who has connected and will send.
struct TcpMeeting {
  uint32_t source = 0;
  uint32_t target = 0;
  uint64_t source_nonce = 0;
  uint64_t target_nonce = 0;
  TcpChallenge source_challenge{};
  TcpChallenge target_challenge{};
};

enum class TcpRole : uint32_t { kConnector = 1, kListener = 2 };

TcpChallenge new_challenge();
TcpProof prove(const JobSecret& secret, TcpRole role, const TcpMeeting& meeting);
// Takes as long for any two.
bool is_same(const TcpProof& one, const TcpProof& other);

}  // namespace lanyard::nicsim

#endif  // LANYARD_NICSIM_WIRE_TCP_HANDSHAKE_H_
