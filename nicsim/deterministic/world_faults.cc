// What goes wrong in a world beyond single operations: a process that is killed, faults that last, kernels that see old
// data.
#include <utility>

#include "nicsim/deterministic/world.h"

namespace lanyard::nicsim {

// Its host, streams and NIC stop where they are. What its NIC had sent still arrives; what it had not read yet is lost,
// and so is whatever it would have been told. What goes to it fails.
void World::kill(Process& process) {
  process.killed = true;
  state_->killed = process.rank;
  for (uint32_t which = 0; which < stride_; ++which)
    disable(agent(process.rank, which));
  process.firing.clear();
  for (uint32_t place = 0; place < state_->transits.size(); ++place) {
    const Transit& transit = state_->transits[place];
    if (transit.from == process.rank &&
        (transit.stage == Transit::Stage::kRead || transit.stage == Transit::Stage::kAck))
      give_back(place);
  }
}

// Nothing moves any more: lasting faults end, so that a protocol that only waited for that goes on.
void World::end_faults() {
  if (!options_.frozen_reads && !options_.stolen_entries)
    return;
  if (std::exchange(state_->faults_have_ended, true))
    return;
  for (const auto& process : state_->processes) {
    process->nic.end_faults();
    nic_changed(*process);
  }
}

// What a kernel of the receive's stream finds in its buffer.
const std::vector<std::byte>& World::seen_by_kernel(Side& side) {
  if (!options_.stale_lines)
    return side.buffer;
  if (side.last_read.empty())
    side.last_read.resize(side.buffer.size());
  if (!chance(ChoiceKind::kStaleLine))
    side.last_read = side.buffer;
  return side.last_read;
}

}  // namespace lanyard::nicsim
