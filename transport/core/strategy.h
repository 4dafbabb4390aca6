// Strategy: who tells the two streams of a pair that a transfer is complete. The same for all processes of a job.
#ifndef LANYARD_TRANSPORT_CORE_STRATEGY_H_
#define LANYARD_TRANSPORT_CORE_STRATEGY_H_

#include <cstdint>

#include "transport/nic/caps.h"

namespace lanyard::core {

enum class Strategy : uint8_t {
  kTargetCounter,  // A: the receiver's NIC, which counts what lands (Bridges et al., section V)
  kSenderFlag,     // B: the sender's NIC, once the write is delivered
  kWriteBack,      // C: as B; and the sender's own stream reads its completion counter, which the NIC copies to memory
  kLoopbackFlush,  // D: as A, where counts do not mean visible; a fetch of the receiver's from itself comes between
};
inline constexpr Strategy kStrategies[] = {Strategy::kTargetCounter, Strategy::kSenderFlag, Strategy::kWriteBack,
                                           Strategy::kLoopbackFlush};

inline const char* strategy_name(Strategy strategy) {
  switch (strategy) {
    case Strategy::kTargetCounter: return "target-counter";
    case Strategy::kSenderFlag: return "sender-flag";
    case Strategy::kWriteBack: return "write-back";
    case Strategy::kLoopbackFlush: return "loopback-flush";
  }
  return "";
}

// Whether senders raise their receives' done words.
constexpr bool raises_flags(Strategy strategy) {
  return strategy == Strategy::kSenderFlag || strategy == Strategy::kWriteBack;
}
// Whether receivers push what has landed to memory before they tell their streams.
constexpr bool flushes(Strategy strategy) { return strategy == Strategy::kLoopbackFlush; }
// What keeps the NIC from following it, or null.
inline const char* obstacle(Strategy strategy, const nic::Caps& caps) {
  if (strategy == Strategy::kWriteBack && !caps.counter_write_back)
    return "does not write counters back to memory";
  if (flushes(strategy) && !caps.fetching_atomics)
    return "has no fetching atomics";
  return nullptr;
}

// A needs a count that means that the data is visible, and has one trip less. C has fewer entries than B where the
// copies cost none. D is for who asks for it: no card promises what it relies on.
inline Strategy strategy_for(const nic::Caps& caps) {
  if (caps.target_count_means_visible)
    return Strategy::kTargetCounter;
  return caps.counter_write_back && caps.write_back_entries == 0 ? Strategy::kWriteBack : Strategy::kSenderFlag;
}

}  // namespace lanyard::core

#endif  // LANYARD_TRANSPORT_CORE_STRATEGY_H_
