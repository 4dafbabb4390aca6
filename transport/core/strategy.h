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
};
inline constexpr Strategy kStrategies[] = {Strategy::kTargetCounter, Strategy::kSenderFlag, Strategy::kWriteBack};

inline const char* strategy_name(Strategy strategy) {
  switch (strategy) {
    case Strategy::kTargetCounter: return "target-counter";
    case Strategy::kSenderFlag: return "sender-flag";
    case Strategy::kWriteBack: return "write-back";
  }
  return "";
}

// Whether senders raise their receives' done words.
constexpr bool raises_flags(Strategy strategy) { return strategy != Strategy::kTargetCounter; }
// What keeps the NIC from following it, or null.
inline const char* obstacle(Strategy strategy, const nic::Caps& caps) {
  return strategy == Strategy::kWriteBack && !caps.counter_write_back ? "does not write counters back to memory"
                                                                      : nullptr;
}

// A needs a count that means that the data is visible, and has one trip less. C has fewer entries than B where the
// copies cost none.
inline Strategy strategy_for(const nic::Caps& caps) {
  if (caps.target_count_means_visible)
    return Strategy::kTargetCounter;
  return caps.counter_write_back && caps.write_back_entries == 0 ? Strategy::kWriteBack : Strategy::kSenderFlag;
}

}  // namespace lanyard::core

#endif  // LANYARD_TRANSPORT_CORE_STRATEGY_H_
