// Requests of a World that the core has merged (transport/core/exchange.h): which they are, and what stands in a stream
// for all of them.
#include <algorithm>
#include <map>

#include "nicsim/deterministic/world.h"
#include "transport/base/check.h"

namespace lanyard::nicsim {

// Fresh requests of one rank, whose matches begin next: those that are merged become exchanges.
void World::merge(Process& process, std::span<const RequestName> requests) {
  std::map<uint32_t, std::vector<core::Request*>> exchanges;
  for (const RequestName request : requests)
    if (const uint32_t which = exchange_.merged(request); which != 0)
      exchanges[which].push_back(state_->sides[request.index].core);
  for (const auto& each : exchanges) {
    const std::vector<core::Request*>& members = each.second;
    const Status status =
        insist(process, [&] { return process.endpoint.make_exchange(std::to_string(each.first), members); });
    LANYARD_CHECK(status.ok(), status.message().c_str());
    const core::Resources& shared = members.front()->exchange->shared;
    for (const nic::CounterId counter : {shared.trigger, shared.completion})
      process.opened(counter, process.nic.model().read(counter).value());
  }
}

// The ring of an exchange's trigger is the place of all its members' starts, and its wait that of all their waits.
void World::mark_merged(const Action& action, StepStream& stream, std::span<StepItem> items) {
  if (!exchange_.merges())
    return;
  for (StepItem& item : items) {
    const uint32_t lead = item.kind == StepItem::Kind::kWait ? item.request : item.start;
    const core::Exchange* exchange = lead == StepItem::kNothing ? nullptr : state_->sides[lead].core->exchange;
    if (exchange == nullptr)
      continue;
    // Rings may go on when the exchange has been let go of and freed.
    process(exchange_.rank_of({lead})).ring_values[exchange->shared.trigger.value] =
        static_cast<uint32_t>(exchange->ring_value());
    item.first_start = static_cast<uint32_t>(stream.started.size());
    for (const RequestName request : action.requests)
      if (request.index != lead && state_->sides[request.index].core->exchange == exchange)
        stream.started.push_back(request.index);
    item.starts = static_cast<uint32_t>(stream.started.size()) - item.first_start;
  }
}

}  // namespace lanyard::nicsim
