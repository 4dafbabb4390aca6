// Requests of a World that the core has merged (transport/core/exchange.h): which they are, and what stands in a stream
// for all of them.
#include <algorithm>
#include <array>
#include <map>

#include "nicsim/deterministic/oracles/oracles.h"
#include "nicsim/deterministic/world.h"
#include "transport/base/check.h"

namespace lanyard::nicsim {

namespace {

// Whether a message of the other set goes the other way, between the same two exchanges.
bool has_answer(const Scenario& exchange, RequestName send) {
  const RequestName receive{send.index | 1};
  for (uint32_t index = 0; index < 2 * exchange.messages().size(); ++index) {
    const RequestName back{index}, from{index ^ 1};
    if (back.receive() && !exchange.messages()[back.message()].options.nobody &&
        exchange.rank_of(back) == exchange.rank_of(send) && exchange.rank_of(from) == exchange.rank_of(receive) &&
        exchange.merged(back) == exchange.merged(send) && exchange.merged(from) == exchange.merged(receive) &&
        exchange.set(back) == 3 - exchange.set(send) && exchange.set(from) == exchange.set(back))
      return true;
  }
  return false;
}

}  // namespace

std::vector<bool> World::find_implied(const Scenario& exchange) {
  std::vector<bool> implied;
  for (uint32_t message = 0; message < exchange.messages().size(); ++message) {
    const RequestName send{2 * message};
    implied.push_back(exchange.set(send) != 0 && exchange.set(send) == exchange.set({send.index | 1}) &&
                      !exchange.messages()[message].options.nobody && has_answer(exchange, send));
  }
  return implied;
}

bool World::takes_turns(uint32_t request) const {
  bool implied = false;
  for_each_of_other_set(request, [&](uint32_t other) { implied = implied || is_implied(other); });
  return implied;  // what is implied has its answer in the other set, which is implied, too
}

bool World::is_given(uint32_t receive, uint64_t iteration) const {
  const Side& side = state_->sides[receive];
  const uint64_t start = iteration - side.before;
  const bool first = scenario_.set({receive}) == 1;
  if (start <= 1 || side.started >= iteration)
    return true;
  uint64_t reached = 0;
  for_each_of_other_set(receive, [&](uint32_t other) {
    reached = std::max(reached, state_->sides[other].started - state_->sides[other].before);
  });
  return reached >= (first ? start - 1 : start) && (!side.checked || side.filled + 1 >= iteration);
}

// Fresh requests of one rank, whose matches begin next: those that are merged become exchanges.
void World::merge(Process& process, std::span<const RequestName> requests) {
  std::map<uint32_t, std::array<std::vector<core::Request*>, 2>> exchanges;
  for (const RequestName request : requests)
    if (const uint32_t which = scenario_.merged(request); which != 0)
      exchanges[which][scenario_.set(request) == 2 ? 1 : 0].push_back(state_->sides[request.index].core);
  for (auto& [number, sets] : exchanges) {
    if (sets[0].empty())
      std::swap(sets[0], sets[1]);
    const Status status = insist(process, [&, name = std::to_string(number), &sets = sets] {
      return process.endpoint.make_exchange(name, sets[0], sets[1]);
    });
    LANYARD_CHECK(status.ok(), status.message().c_str());
    for (const std::vector<core::Request*>& set : sets) {
      if (set.empty())
        continue;
      const core::Resources& shared = set.front()->exchange->shared;
      for (const nic::CounterId counter : {shared.trigger, shared.completion})
        if (counter.valid())
          process.opened(counter, process.nic.model().read(counter).value());
    }
  }
}

// Why the start of that request is not its set's turn; null where it is.
const char* World::mistake_in_turn(const Action& action, RequestName request) const {
  if (!takes_turns(request.index))
    return nullptr;
  const Side& side = this->side(request);
  const char* mistake = nullptr;
  for_each_of_other_set(request.index, [&](uint32_t index) {
    const Side& other = state_->sides[index];
    const uint64_t mine = side.starts - side.before, theirs = other.starts - other.before;
    const bool complete = RequestName{index}.receive()
                              ? (other.data_landed >= other.starts * other.pieces ||
                                 oracle::is_told_falsely(*this, index, other.starts)) &&
                                    other.done_landed >= other.starts && oracle::has_moved(*this, RequestName{index})
                              : other.data_acked >= other.starts * other.pieces;
    if (other.failed > unread_failures(other))
      mistake = "an operation of the other set has failed";
    else if ((scenario_.set(request) == 1) != (mine == theirs))
      mistake = "it is the other set's turn";
    else if (other.starts != other.waits)
      mistake = "the other set's last start was not waited for";
    else if (other.queue != action.queue && !complete)
      mistake = "the other set's last start is on another queue and goes on";
  });
  return mistake;
}

// The ring of an exchange's trigger is the place of all its members' starts, and its wait that of all their waits.
void World::mark_merged(const Action& action, StepStream& stream, std::span<StepItem> items) {
  if (!scenario_.merges())
    return;
  for (StepItem& item : items) {
    const uint32_t lead = item.kind == StepItem::Kind::kWait ? item.request : item.start;
    const core::Exchange* exchange = lead == StepItem::kNothing ? nullptr : state_->sides[lead].core->exchange;
    if (exchange == nullptr)
      continue;
    // Rings may go on when the exchange has been let go of and freed.
    process(scenario_.rank_of({lead})).ring_values[exchange->shared.trigger.value] =
        static_cast<uint32_t>(exchange->ring_value());
    item.first_start = static_cast<uint32_t>(stream.started.size());
    for (const RequestName request : action.requests)
      if (request.index != lead && state_->sides[request.index].core->exchange == exchange)
        stream.started.push_back(request.index);
    item.starts = static_cast<uint32_t>(stream.started.size()) - item.first_start;
  }
}

}  // namespace lanyard::nicsim
