// Chooser: the only source of nondeterminism of the deterministic engine. Every scheduler is one.
#ifndef LANYARD_NICSIM_DETERMINISTIC_CHOOSER_H_
#define LANYARD_NICSIM_DETERMINISTIC_CHOOSER_H_

#include <cstdint>

namespace lanyard::nicsim {

enum class ChoiceKind : uint8_t {
  kStep,       // which of the enabled steps is next; `agents` names them
  kCoalesce,   // how many of n rings under way to one counter land as one: choice + 1
  kFailure,    // 1: the operation that was about to land fails
  kLostRing,   // 1: a ring never lands (no NIC may do that: a canary)
  kNoRoom,     // 1: the NIC says that it has no room for a post, though it has
  kStale,      // 1: a counter is read as it was when last read
  kFreeze,     // 1: from now on a counter is always read as it was when last read
  kSteal,      // 1: another process takes one of the NIC's free entries; 2: it gives one back
  kTorn,       // so many of n bytes are read, or land, in this step, and the rest in another; 0: all in one
  kLateAck,    // 1: an acknowledgement of a process that has ended comes after the loss was noticed
  kEarlyAck,   // 1: the initiator hears of an operation before it lands, where it did not ask for delivery
  kKill,       // 1: the process whose agent was to go dies
  kMail,       // whose oldest matching card arrives next, of n processes with some under way
  kLeave,      // 1: a program that was told of a failure goes on before its streams have run all
  kScarce,     // 1: the NIC has no counter or region left for now
  kLateEvent,  // 1: the driver looks for events, and of those that there are none is to be seen yet
  kMeanwhile,  // 1: while a driver's thread drives, another thread of its process rings or starts
  kKinds,
};
inline constexpr uint32_t kChoiceKinds = static_cast<uint32_t>(ChoiceKind::kKinds);

class Chooser {
 public:
  virtual ~Chooser() = default;
  // A number below n, n >= 2. `agents`: the n agents of a kStep, in no order that means anything; else null. The 0 of
  // every other kind is what happens where nothing goes wrong. Called with the world's arena in scope: what the chooser
  // keeps it allocates Outside (arena.h).
  virtual uint32_t choose(uint32_t n, ChoiceKind kind, const uint32_t* agents) = 0;
};

}  // namespace lanyard::nicsim

#endif  // LANYARD_NICSIM_DETERMINISTIC_CHOOSER_H_
