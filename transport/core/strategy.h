// Strategy: who tells the two streams of a pair that a transfer is complete. The same for all processes of a job.
#ifndef LANYARD_TRANSPORT_CORE_STRATEGY_H_
#define LANYARD_TRANSPORT_CORE_STRATEGY_H_

#include <cstdint>

#include "transport/nic/caps.h"

namespace lanyard::core {

enum class Strategy : uint8_t {
  kTargetCounter,  // A: the receiver's NIC, which counts what lands (Bridges et al., section V)
  kSenderFlag,     // B: the sender's NIC, once the write is delivered
};
inline constexpr Strategy kStrategies[] = {Strategy::kTargetCounter, Strategy::kSenderFlag};

inline const char* strategy_name(Strategy strategy) {
  switch (strategy) {
    case Strategy::kTargetCounter: return "target-counter";
    case Strategy::kSenderFlag: return "sender-flag";
  }
  return "";
}

// Whether senders raise their receives' done words.
constexpr bool raises_flags(Strategy strategy) { return strategy == Strategy::kSenderFlag; }

// A has one trip less, but needs a count that means that the data is visible.
inline Strategy strategy_for(const nic::Caps& caps) {
  return caps.target_count_means_visible ? Strategy::kTargetCounter : Strategy::kSenderFlag;
}

}  // namespace lanyard::core

#endif  // LANYARD_TRANSPORT_CORE_STRATEGY_H_
