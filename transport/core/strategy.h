// Strategy: who tells a receive's stream that the data is there. The same for all processes of a job.
#ifndef LANYARD_TRANSPORT_CORE_STRATEGY_H_
#define LANYARD_TRANSPORT_CORE_STRATEGY_H_

#include <cstdint>

#include "transport/nic/caps.h"

namespace lanyard::core {

enum class Strategy : uint8_t {
  kTargetCounter,  // A: the receiver's NIC, which counts what lands (Bridges et al., section V)
  kSenderFlag,     // B: the sender's NIC, once the write is delivered
};

inline const char* strategy_name(Strategy strategy) {
  return strategy == Strategy::kTargetCounter ? "target-counter" : "sender-flag";
}

// A needs a count that means that the data is visible, and has one trip less.
inline Strategy strategy_for(const nic::Caps& caps) {
  return caps.target_count_means_visible ? Strategy::kTargetCounter : Strategy::kSenderFlag;
}

}  // namespace lanyard::core

#endif  // LANYARD_TRANSPORT_CORE_STRATEGY_H_
