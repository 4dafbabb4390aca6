#include "nicsim/deterministic/draw_merged.h"

#include <map>
#include <optional>
#include <vector>

namespace lanyard::nicsim {

namespace {

// The actions by which a program matches, starts and waits for a request; nothing where they may not be shared.
std::optional<std::vector<size_t>> calls_of(const HostProgram& program, RequestName request) {
  using Kind = Action::Kind;
  std::vector<size_t> calls;
  bool captured = false;
  for (size_t i = 0; i < program.actions().size(); ++i) {
    const Action& action = program.actions()[i];
    captured = action.kind == Kind::kCapture || (captured && action.kind != Kind::kCaptured);
    bool named = false;
    for (const RequestName each : action.requests)
      named = named || each == request;
    if (!named || action.refused)
      continue;
    switch (action.kind) {
      case Kind::kStart:
      case Kind::kWait:
        if (captured)
          return std::nullopt;
        calls.push_back(i);
        break;
      case Kind::kMatch: calls.push_back(i); break;
      case Kind::kMatched:
      case Kind::kComplete:
      case Kind::kFree: break;
      default: return std::nullopt;  // withdrawn, given to kernels
    }
  }
  return calls.empty() ? std::nullopt : std::optional(calls);
}

}  // namespace

void draw_merged(Exchange& exchange, Random& random) {
  constexpr uint32_t kMembers = 80;  // of those that could be: percent
  std::map<std::pair<uint32_t, std::vector<size_t>>, std::vector<RequestName>> alike;  // by rank and calls
  for (uint32_t index = 0; index < 2 * exchange.messages().size(); ++index) {
    const RequestName request{index};
    const uint32_t rank = exchange.rank_of(request);
    if (auto calls = calls_of(exchange.program(rank), request))
      alike[{rank, std::move(*calls)}].push_back(request);
  }
  uint32_t number = 0;
  for (const auto& [calls, requests] : alike) {
    ++number;
    for (const RequestName request : requests)
      if (random.below(100) < kMembers)
        exchange.merge(request, number);
  }
}

}  // namespace lanyard::nicsim
