// The packets between two simulated NICs. Plain data of one size: processes share it unchanged.
#ifndef LANYARD_NICSIM_MODEL_PACKET_H_
#define LANYARD_NICSIM_MODEL_PACKET_H_

#include <cstdint>
#include <type_traits>

#include "transport/base/status.h"
#include "transport/nic/nic.h"

namespace lanyard::nicsim {

enum class PacketKind : uint8_t {
  kWrite,       // initiator to target: `bytes` of payload for key/offset
  kAtomic,      // initiator to target: operand for the 8 bytes at key/offset
  kAck,         // target to initiator: how operation `token` ended
  kPull,        // like kWrite, but the payload is a loan: the target copies the data itself
  kCannotPull,  // target to initiator: send operation `token`, a kPull, as a kWrite
};

// The size of a loan, a kPull's payload (transport/base/device_memory.h).
inline constexpr uint64_t kLoanBytes = 160;

struct Packet {
  PacketKind kind = PacketKind::kWrite;
  nic::AtomicKind atomic = nic::AtomicKind::kSum;
  Code code = Code::kOk;  // kAck: kOk, or why the target refused
  uint32_t source = 0;    // rank of the sender of this packet
  uint32_t token = 0;     // the initiator's name for the operation; the ack returns it
  uint64_t key = 0;       // the target region's key
  uint64_t offset = 0;    // bytes from that region's start
  uint64_t bytes = 0;     // kWrite, kPull: the message's length
  uint64_t operand = 0;   // kAtomic; kPull: the message's offset in the lent range
  uint64_t loan = 0;      // kPull: tells this loan from earlier loans of the same memory
};
static_assert(std::is_trivially_copyable_v<Packet> && sizeof(Packet) <= 64);

// The bytes of payload that follow the packet on a wire.
inline uint64_t payload_bytes(const Packet& packet) {
  return packet.kind == PacketKind::kWrite ? packet.bytes : packet.kind == PacketKind::kPull ? kLoanBytes : 0;
}

}  // namespace lanyard::nicsim

#endif  // LANYARD_NICSIM_MODEL_PACKET_H_
