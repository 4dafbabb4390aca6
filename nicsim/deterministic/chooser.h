// Chooser: the only source of nondeterminism of the deterministic engine. Every scheduler is one.
// Random: where schedules and programs are drawn from.
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

// A stream of random numbers that is the same everywhere (SplitMix64: Steele, Lea and Flood, OOPSLA 2014).
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t next() {
    uint64_t z = state_ += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  // Below n, n > 0; as even as 32 bits allow.
  uint32_t below(uint32_t n) { return static_cast<uint32_t>(((next() >> 32) * n) >> 32); }
  // True in so many of a hundred cases.
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
