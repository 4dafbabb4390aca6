#include "nicsim/deterministic/smaller_programs.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace lanyard::nicsim {

namespace {

using Kind = Action::Kind;

bool is_kernel(const Action& action) { return action.kind == Kind::kPack || action.kind == Kind::kUnpack; }
bool of_message(const Action& action) { return is_of_message(action.kind); }
bool names(const Action& action, RequestName request) {
  return std::find(action.requests.begin(), action.requests.end(), request) != action.requests.end();
}
// Whether the action is about that side of that message.
bool concerns(const Action& action, RequestName request) {
  if (!of_message(action))
    return names(action, request);
  const bool by_receiver = action.kind == Kind::kUnpack || action.kind == Kind::kPromise;
  return action.message == request.message() && by_receiver == request.receive();
}

// Takes the side out of the action; an action about nobody goes.
bool take_out(Action& action, RequestName request) {
  if (of_message(action))
    return true;
  std::erase(action.requests, request);
  return action.requests.empty();
}

template <typename Which>
void drop(Scenario& scenario, RequestName request, Which which) {
  std::vector<Action>& actions = scenario.rank(scenario.rank_of(request)).actions();
  size_t place = 0;
  std::erase_if(actions, [&](Action& action) {
    return which(place++, action) && concerns(action, request) && take_out(action, request);
  });
}

const std::vector<Action>& actions_of(const Scenario& scenario, RequestName request) {
  return scenario.program(scenario.rank_of(request)).actions();
}

// The place of the last action of that kind about the request that is no mistake.
std::optional<size_t> last(const Scenario& scenario, RequestName request, Kind kind) {
  const std::vector<Action>& actions = actions_of(scenario, request);
  for (size_t place = actions.size(); place-- > 0;)
    if (actions[place].kind == kind && !actions[place].refused && names(actions[place], request))
      return place;
  return std::nullopt;
}

// Without the message: names of those behind it move up.
Scenario without_message(const Scenario& scenario, uint32_t message) {
  Scenario smaller(scenario.ranks());
  for (uint32_t i = 0; i < scenario.messages().size(); ++i)
    if (i != message)
      smaller.message(scenario.messages()[i].from, scenario.messages()[i].to, scenario.messages()[i].options);
  Scenario rest = scenario;
  for (const RequestName request : {RequestName{2 * message}, RequestName{2 * message + 1}})
    drop(rest, request, [](size_t, const Action&) { return true; });
  for (uint32_t rank = 0; rank < scenario.ranks(); ++rank) {
    for (Action action : rest.program(rank).actions()) {
      if (of_message(action) && action.message > message)
        --action.message;
      for (RequestName& request : action.requests)
        request.index -= request.message() > message ? 2 : 0;
      smaller.rank(rank).on(action.queue).actions().push_back(std::move(action));
    }
  }
  return smaller;
}

// Without what both sides do with the message from its last start on, up to where it is freed.
std::optional<Scenario> without_last_start(const Scenario& scenario, uint32_t message) {
  Scenario smaller = scenario;
  for (const RequestName request : {RequestName{2 * message}, RequestName{2 * message + 1}}) {
    const std::optional<size_t> start = last(scenario, request, Kind::kStart);
    if (!start)
      return std::nullopt;
    const std::vector<Action>& actions = actions_of(scenario, request);
    // What prepares the start stands before it: the last of each kind.
    std::optional<size_t> pack, await;
    for (size_t place = 0; place < *start; ++place) {
      if (concerns(actions[place], request) && actions[place].kind == Kind::kPack)
        pack = place;
      if (concerns(actions[place], request) && actions[place].kind == Kind::kAwait)
        await = place;
    }
    drop(smaller, request, [&](size_t place, const Action& action) {
      const bool freed = action.kind == Kind::kFree || action.kind == Kind::kMatch || action.kind == Kind::kMatched;
      return place == pack || place == await || (place >= *start && !freed);
    });
  }
  return smaller;
}

// Without its last match anew, and the free before it: the request goes on.
std::optional<Scenario> without_last_match(const Scenario& scenario, uint32_t message) {
  Scenario smaller = scenario;
  for (const RequestName request : {RequestName{2 * message}, RequestName{2 * message + 1}}) {
    const std::optional<size_t> match = last(scenario, request, Kind::kMatch);
    if (!match)
      return std::nullopt;
    const std::vector<Action>& actions = actions_of(scenario, request);
    std::optional<size_t> freed, matched;
    for (size_t place = 0; place < actions.size(); ++place) {
      if (place < *match && actions[place].kind == Kind::kFree && names(actions[place], request))
        freed = place;
      if (place > *match && !matched && actions[place].kind == Kind::kMatched && names(actions[place], request))
        matched = place;
    }
    drop(smaller, request,
         [&](size_t place, const Action&) { return place == *match || place == freed || place == matched; });
  }
  return smaller;
}

Scenario without_kernels(const Scenario& scenario, uint32_t message) {
  Scenario smaller = scenario;
  for (const RequestName request : {RequestName{2 * message}, RequestName{2 * message + 1}})
    drop(smaller, request, [](size_t, const Action& action) { return is_kernel(action); });
  return smaller;
}

std::optional<Scenario> without_last_rank(const Scenario& scenario) {
  const uint32_t rank = scenario.ranks() - 1;
  for (const Scenario::Message& message : scenario.messages())
    if (message.from == rank || message.to == rank)
      return std::nullopt;
  Scenario smaller(rank);
  for (const Scenario::Message& message : scenario.messages())
    smaller.message(message.from, message.to, message.options);
  for (uint32_t each = 0; each < rank; ++each)
    for (const Action& action : scenario.program(each).actions())
      smaller.rank(each).on(action.queue).actions().push_back(action);
  return smaller;
}

}  // namespace

std::vector<Scenario> smaller_programs(const Scenario& scenario) {
  std::vector<Scenario> all;
  const auto add = [&](std::optional<Scenario> smaller) {
    if (smaller && smaller->validate().ok() && smaller->to_string() != scenario.to_string())
      all.push_back(std::move(*smaller));
  };
  const auto messages = static_cast<uint32_t>(scenario.messages().size());
  for (uint32_t message = 0; message < messages && messages > 1; ++message)
    add(without_message(scenario, message));
  if (scenario.ranks() > 1)
    add(without_last_rank(scenario));
  for (uint32_t message = 0; message < messages; ++message)
    add(without_last_start(scenario, message));
  for (uint32_t message = 0; message < messages; ++message)
    add(without_last_match(scenario, message));
  for (uint32_t message = 0; message < messages; ++message)
    add(without_kernels(scenario, message));
  for (uint32_t rank = 0; rank < scenario.ranks(); ++rank) {
    const std::vector<Action>& actions = scenario.program(rank).actions();
    for (size_t place = 0; place < actions.size(); ++place) {
      if (!actions[place].refused && actions[place].kind != Kind::kSync)
        continue;
      Scenario smaller = scenario;
      std::vector<Action>& rest = smaller.rank(rank).actions();
      rest.erase(rest.begin() + static_cast<ptrdiff_t>(place));
      add(std::move(smaller));
    }
  }
  return all;
}

}  // namespace lanyard::nicsim
