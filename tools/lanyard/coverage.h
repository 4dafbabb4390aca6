// Coverage: which kinds of steps, choices and faults occurred in runs of the deterministic engine, and how often.
#ifndef LANYARD_TOOLS_LANYARD_COVERAGE_H_
#define LANYARD_TOOLS_LANYARD_COVERAGE_H_

#include <array>
#include <cstdint>
#include <string>

#include "nicsim/deterministic/chooser.h"
#include "nicsim/deterministic/schedulers.h"
#include "nicsim/deterministic/world.h"

namespace lanyard::tools {

struct Coverage {
  static constexpr uint32_t kStepKinds = nicsim::kStepKinds;

  std::array<uint64_t, kStepKinds> steps{};              // by StepKind
  std::array<uint64_t, nicsim::kChoiceKinds> choices{};  // by ChoiceKind: how often another than 0 was chosen

  // Runs the schedule from the beginning and counts what occurs in it.
  void add(nicsim::World& world, const nicsim::Schedule& schedule);
  Coverage& operator+=(const Coverage& other);
  // "steps 10/10, coalesced rings, failures; never: no-room"
  std::string to_string() const;
};

}  // namespace lanyard::tools

#endif  // LANYARD_TOOLS_LANYARD_COVERAGE_H_
