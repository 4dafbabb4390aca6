#include "tests/interleaving/workloads.h"

#include <algorithm>
#include <iterator>

#include "tests/interleaving/programs.h"

namespace lanyard::interleaving {

namespace {

constexpr Workload kWorkloads[] = {
    {"posting", false, programs::posting},
    {"doorbell_words", true, programs::doorbell_words},
    {"arming_while_attending", true, programs::arming_while_attending},
    {"ringing", false, programs::ringing},
    {"reading", false, programs::reading},
    {"full_ring", false, programs::full_ring},
    {"releasing", false, programs::releasing},
    {"listening", false, programs::listening},
    {"coming_and_going", false, programs::coming_and_going},
    {"deregistering", true, programs::deregistering},
    {"canceling", false, programs::canceling},
    {"attending", false, programs::attending},
    {"waiting", false, programs::waiting},
    {"full_inboxes", false, programs::full_inboxes},
    {"long_messages", true, programs::long_messages},
    {"due_when_posted", true, programs::due_when_posted},
    {"handing_over", false, programs::handing_over},
    {"posting_while_attending", false, programs::posting_while_attending},
    {"going_to_sleep", false, programs::going_to_sleep},
    {"coming_out_of_sleep", true, programs::coming_out_of_sleep},
    {"locking", false, programs::locking},
    {"lanes", false, programs::lanes},
    {"lanes_in_chunks", false, programs::lanes_in_chunks},
    {"lanes_by_slots", false, programs::lanes_by_slots},
    {"lanes_waited_for_in_turn", false, programs::lanes_waited_for_in_turn},
    {"lanes_by_blocks", false, programs::lanes_by_blocks},
    {"lanes_raised", false, programs::lanes_raised},
};

}  // namespace

std::span<const Workload> workloads() { return kWorkloads; }

const Workload* find_workload(const std::string& name) {
  const auto* found =
      std::find_if(std::begin(kWorkloads), std::end(kWorkloads), [&](const Workload& row) { return row.name == name; });
  return found == std::end(kWorkloads) ? nullptr : found;
}

}  // namespace lanyard::interleaving
