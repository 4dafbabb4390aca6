// Transit: an operation of a NIC that is under way.
#ifndef LANYARD_NICSIM_DETERMINISTIC_TRANSIT_H_
#define LANYARD_NICSIM_DETERMINISTIC_TRANSIT_H_

#include <cstdint>
#include <vector>

#include "nicsim/model/packet.h"

namespace lanyard::nicsim {

struct Transit {
  // kFlag: a sender raises the receive's done word; kMail: of the control channel, of no request.
  enum class Role : uint8_t { kData, kClear, kDone, kFlag, kMail };
  // What comes next. kLateAck: its initiator's NIC has given it up.
  enum class Stage : uint8_t { kFree, kRead, kEarlyAck, kLand, kCount, kAck, kLateAck };

  Stage stage = Stage::kFree;
  Role role = Role::kData;
  bool delivery = false;  // its initiator hears of it when it is visible
  bool acked = false;     // its initiator has heard of it though it has not landed
  bool landed = false;    // its bytes are there, whatever its initiator will hear
  uint32_t from = 0, to = 0;
  uint32_t request = 0;    // RequestName::index: whose operation it is; of a kMail nobody's
  uint64_t owner = 0;      // the core's number for that request
  uint64_t iteration = 0;  // from 1
  uint64_t number = 0;     // among all operations of the world
  Packet packet;
  uint64_t part = 0;             // kRead, kLand: bytes that were read, or have landed, in a step of their own; 0: none
  std::byte* landing = nullptr;  // of a kLand of which a part has landed: where it begins
  Code code = Code::kOk;         // what its initiator will hear
  uint64_t old = 0;              // what an atomic found
  nic::CounterId counter;        // of the target, that will count what lands; none: nothing will
  const std::byte* payload = nullptr;
  std::vector<std::byte> bytes;  // as read from the source
};

}  // namespace lanyard::nicsim

#endif  // LANYARD_NICSIM_DETERMINISTIC_TRANSIT_H_
