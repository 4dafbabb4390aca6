// Faults of a World beyond single operations: killed processes, and faults that last.
#include <algorithm>
#include <utility>
#include <vector>

#include "nicsim/deterministic/oracles/oracles.h"
#include "nicsim/deterministic/world.h"

namespace lanyard::nicsim {

// Stops the host, streams and NIC of the process. Operations whose source its NIC has read still
// arrive. Others are lost, and so are acks to it. Operations to it fail.
void World::kill(Process& process) {
  process.killed = true;
  ++state_->deaths;
  for (uint32_t which = 0; which < stride_; ++which)
    set_enabled(process.rank * stride_ + which, false);
  process.firing.clear();
  for (const auto& survivor : state_->processes) {
    if (survivor->killed)
      continue;
    survivor->unfound.push_back(process.rank);
    set_enabled(survivor->rank, StepKind::kLoss, true);
  }
  for (uint32_t place = 0; place < state_->transits.size(); ++place) {
    const Transit& transit = state_->transits[place];
    if (transit.from == process.rank &&
        (transit.stage == Transit::Stage::kRead || transit.stage == Transit::Stage::kAck ||
         transit.stage == Transit::Stage::kLateAck))
      give_back(place);
  }
}

// The NIC learns that a peer was killed. Operations to the peer fail; operations from it are lost.
void World::take_loss(Process& process) {
  const uint32_t dead = process.unfound.front();
  process.unfound.erase(process.unfound.begin());
  process.looks = 0;
  set_enabled(process.rank, StepKind::kLoss, !process.unfound.empty());
  process.mail.lose(dead);
  if (has_mail_)
    set_enabled(process.rank, StepKind::kMail, has_mail(process));
  std::vector<std::pair<uint32_t, nic::CounterId>> failing;  // places, completion counters
  for (uint32_t place = 0; place < state_->transits.size(); ++place) {
    Transit& transit = state_->transits[place];
    if (transit.stage == Transit::Stage::kFree || transit.stage == Transit::Stage::kLateAck)
      continue;
    if (transit.from == dead && transit.to == process.rank) {
      // A NIC counts a clear-to-send as it adds to the word, so nobody sees one without the other.
      // The same holds for writes of the control channel.
      if (transit.stage == Transit::Stage::kCount &&
          (transit.role == Transit::Role::kClear || transit.role == Transit::Role::kMail))
        count_landing(process, transit);
      else if (transit.is_landing())
        process.nic.model().abandoned(transit.packet);
      give_back(place);
    } else if (transit.from == process.rank && transit.to == dead) {
      if (transit.acked) {
        give_back(place);
        continue;
      }
      transit.code = Code::kFailed;
      failing.emplace_back(place, process.nic.model().completion_of(transit.packet.token));
    }
  }
  process.nic.lose(dead);
  for (const auto& [place, completion] : failing) {
    Transit& transit = state_->transits[place];
    put_down(process, transit, completion);
    if (transit.stage != Transit::Stage::kAck || !chance(ChoiceKind::kLateAck)) {
      give_back(place);
      continue;
    }
    transit.stage = Transit::Stage::kLateAck;
    enable_transit(place);
  }
  for (const auto& [place, completion] : failing)
    if (completion.valid())
      oracle::check_counter(*this, process, completion.value);
  note_failures_told(process, [&] {
    if (process.card_mail != nullptr)
      process.card_mail->has_lost();
    else
      process.matcher.lose_peer(dead, "rank " + std::to_string(dead) + " has ended");
  });
  nic_changed(process);
  streams_changed(process);
}

bool World::may_run_ahead(uint32_t rank, nic::CounterId trigger) const {
  for (uint32_t index = 0; index < state_->sides.size(); index += 2)
    if (const Side& send = state_->sides[index];
        send.rank == rank && send.core != nullptr && send.core->trigger == trigger)
      return state_->sides[index + 1].ever_released;
  return false;
}

bool World::has_news_of_losses(const Process& process) const {
  return process.looks < 2 || std::any_of(process.requests.begin(), process.requests.end(), [&](uint32_t request) {
           const core::Request* core = state_->sides[request].core;
           return core != nullptr && core->matched() && core->failures == 0 && !core->transferred() &&
                  process.card().is_lost(core->matched_nic);
         });
}

// Makes a call in which requests may fail without a failed operation of theirs. Records which.
void World::note_failures_told(Process& process, const std::function<void()>& call) {
  // A driver whose failures are taken makes progress and may record more failures.
  const auto collect = [&process] {
    uint64_t known;
    do {
      known = process.card().failures();
      process.endpoint.collect_failures();
    } while (process.card().failures() != known);
  };
  collect();
  const auto failures = [this](uint32_t request) {
    const Side& side = state_->sides[request];
    // Failures beyond those of its operations. A driver may read some of the unread ones meanwhile.
    return side.core == nullptr ? int64_t{0}
                                : static_cast<int64_t>(side.core->failures + unread_failures(side) - side.failed);
  };
  std::vector<int64_t> before;
  for (uint32_t request = 0; request < state_->sides.size(); ++request)
    before.push_back(failures(request));
  call();
  collect();
  for (uint32_t request = 0; request < state_->sides.size(); ++request) {
    Side& side = state_->sides[request];
    if (side.rank != process.rank || side.core == nullptr || failures(request) <= before[request])
      continue;
    ++side.failed;
    process.hears_of_failures = true;
    const Side& other = state_->sides[request ^ 1];
    const uint32_t peer = side.core->matched_nic;
    if ((is_killed(peer) && process.has_lost(peer)) || other.failed > 0 || are_cut(process.rank, peer))
      continue;
    if (other.core == nullptr && side.starts > other.before)
      return find(Finding::kUser, "lifetime", RequestName{request},
                  "fails: its other side was freed and takes no part in its last start");
    return find(Finding::kLeak, "honesty", RequestName{request}, "fails: its other side is there, and has not failed");
  }
}

// Fails requests whose peer has ended, and starts made after the other side was freed.
void World::find_losses(Process& process) {
  if (!has_mail_)
    return;
  (void)process.nic.gave_stale_value();
  note_failures_told(process, [&] { process.endpoint.fail_requests_of_lost_peers(); });
  // After a stale read of a counter, look again.
  process.looks = process.nic.gave_stale_value() ? 1 : process.looks + 1;
}

// Nothing moves any more: ends lasting faults, so that a protocol that only waits can continue.
void World::end_faults() {
  if ((!options_.frozen_reads && !options_.stolen_entries) || std::exchange(state_->faults_have_ended, true))
    return;
  for (const auto& process : state_->processes) {
    process->nic.end_faults();
    process->looks = std::min(process->looks, 1u);
    nic_changed(*process);
  }
  if (options_.driver)
    drivers_changed();
}

}  // namespace lanyard::nicsim
