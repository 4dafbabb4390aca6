// Chooser: the only source of nondeterminism of the deterministic engine. Every scheduler is one.
// Random: the random numbers that make schedules and programs.
#ifndef LANYARD_NICSIM_DETERMINISTIC_CHOOSER_H_
#define LANYARD_NICSIM_DETERMINISTIC_CHOOSER_H_

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <utility>
#include <vector>

namespace lanyard::nicsim {

enum class ChoiceKind : uint8_t {
  kStep,       // which of the enabled steps is next; `agents` names them
  kCoalesce,   // how many of n rings in flight to one counter land as one: choice + 1
  kFailure,    // 1: an operation does not land, or its acknowledgement is lost, or libfabric refuses it
  kLostRing,   // 1: a ring never lands (no NIC may do that: a canary)
  kNoRoom,     // 1: the NIC refuses a post for lack of entries, though it has enough
  kStale,      // 1: a read of a counter returns the value of the last read
  kFreeze,     // 1: from now on, reads of a counter return the value of the last read
  kSteal,      // 1: another process takes one of the NIC's free entries; 2: it gives one back
  kTorn,       // how many of n bytes (mail: words) are read or land in this step, the rest in another; 0: all at once
  kLateAck,    // 1: an acknowledgement of a process that has ended arrives after the loss was noticed
  kEarlyAck,   // 1: an operation without kDelivery is acknowledged before it lands
  kKill,       // 1: the process whose agent was chosen dies
  kMail,       // which of n senders with match cards in flight: its oldest card arrives
  kLeave,      // 1: after a reported failure a program goes on before its streams have drained
  kScarce,     // 1: the NIC refuses a counter or a region for now
  kLateEvent,  // 1: the driver polls its completion queue and sees none of the events in it
  kMeanwhile,  // 1: while a driver's thread drives, another thread of its process rings or starts
  kKinds,
};
inline constexpr uint32_t kChoiceKinds = static_cast<uint32_t>(ChoiceKind::kKinds);

class Chooser {
 public:
  virtual ~Chooser() = default;
  // Returns a number below n; n >= 2. `agents`: the n agents of a kStep, in no order; else null.
  // For every other kind, 0 means that nothing goes wrong. Runs in a scope of the world's arena: a
  // chooser allocates what it keeps Outside (arena.h).
  virtual uint32_t choose(uint32_t n, ChoiceKind kind, const uint32_t* agents) = 0;
};

// Random numbers, equal on all platforms (SplitMix64: Steele, Lea and Flood, OOPSLA 2014).
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t next() {
    uint64_t z = state_ += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  // Returns a number below n, n > 0. As uniform as 32 bits allow.
  uint32_t below(uint32_t n) { return static_cast<uint32_t>(((next() >> 32) * n) >> 32); }
  // Returns true with this chance in percent.
  bool percent(uint32_t chance) { return below(100) < chance; }
  template <typename T>
  T one_of(std::initializer_list<T> choices) {
    return choices.begin()[below(static_cast<uint32_t>(choices.size()))];
  }
  template <typename T>
  void shuffle(std::vector<T>& items) {
    for (size_t i = items.size(); i > 1; --i)
      std::swap(items[i - 1], items[below(static_cast<uint32_t>(i))]);
  }

 private:
  uint64_t state_;
};

}  // namespace lanyard::nicsim

#endif  // LANYARD_NICSIM_DETERMINISTIC_CHOOSER_H_
