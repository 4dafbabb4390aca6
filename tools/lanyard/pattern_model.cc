#include "tools/lanyard/pattern_model.h"

#include <algorithm>
#include <map>
#include <vector>

#include "nicsim/modelled/lowering.h"

namespace lanyard::tools {

using bench::patterns::Message;
using bench::patterns::Pattern;
using bench::patterns::Plan;

Result<modelled::Job> make_pattern_job(const Plan& plan, uint32_t ranks, const modelled::Machine& machine,
                                       const PatternModel& model) {
  // Of a rank, whose entries and counters are numbered by 16 bits.
  constexpr size_t kMostRequests = 10'000;
  constexpr auto kMemory = modelled::Memory::kCoarse;
  std::vector<modelled::StepBuilder> builders(ranks, modelled::StepBuilder(model.strategy, model.exchange));
  for (const Pattern& step : plan.steps()) {
    std::vector<std::vector<uint32_t>> requests(ranks);
    std::vector<uint64_t> combined(ranks);  // bytes
    for (const Message& m : step.messages()) {
      const auto source = static_cast<uint32_t>(m.source), destination = static_cast<uint32_t>(m.destination);
      modelled::StepBuilder &sender = builders[source], &receiver = builders[destination];
      const auto send = static_cast<uint32_t>(sender.links().size());
      const auto receive = static_cast<uint32_t>(receiver.links().size() + (source == destination ? 1 : 0));
      requests[source].push_back(sender.send(m.bytes, model.ready, {destination, receive}));
      requests[destination].push_back(receiver.receive(m.bytes, model.ready, {source, send}));
      combined[destination] += m.combines ? m.bytes : 0;
    }
    for (uint32_t rank = 0; rank < ranks; ++rank) {
      if (builders[rank].links().size() > kMostRequests)
        return Status(Code::kInvalidArgument, "more than " + std::to_string(kMostRequests) + " messages of a rank");
      if (requests[rank].empty())
        continue;
      builders[rank].start(requests[rank]);
      builders[rank].wait(requests[rank]);
      if (combined[rank] > 0)  // two numbers are read, and one is written
        builders[rank].kernel(machine.time("kernel.copy") +
                              modelled::times(machine.each("kernel.byte"), 3 * combined[rank]));
    }
  }
  modelled::JobBuilder job(machine.costs(kMemory, model.placement.ranks_per_node), model.placement);
  for (const modelled::StepBuilder& builder : builders)
    LANYARD_RETURN_IF_ERROR(job.add(builder));
  return job.take();
}

modelled::Picoseconds least_time(const Plan& plan, const modelled::Machine& machine,
                                 const modelled::Placement& placement) {
  modelled::Picoseconds least = 0;
  for (const Pattern& step : plan.steps()) {
    std::map<uint32_t, uint64_t> sent, received;  // by card
    uint64_t most = 0;
    for (const Message& m : step.messages()) {
      const uint32_t from = placement.nic(static_cast<uint32_t>(m.source));
      const uint32_t to = placement.nic(static_cast<uint32_t>(m.destination));
      most = std::max({most, sent[from] += m.bytes, received[to] += m.bytes});
    }
    least += modelled::times(machine.each("nic.byte"), most);
  }
  return least;
}

}  // namespace lanyard::tools
