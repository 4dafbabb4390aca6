// Requests of a World that hosts do not start one by one: merged ones (transport/core/exchange.h),
// and standing ones, which graphs or kernels start (transport/core/standing.h).
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "nicsim/deterministic/world.h"
#include "transport/base/check.h"
#include "transport/core/standing.h"

namespace lanyard::nicsim {

namespace {

// True if a message of the other set goes back, between the same two exchanges.
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

// Returns the stream item of a kernel's start of a request (`starts`), or of its wait.
StepItem by_kernel(RequestName request, const core::Request& core, bool starts) {
  using Kind = gpu::StreamOp::Kind;
  const core::Standing& standing = *core.standing;
  StepItem item;
  (starts ? item.start : item.request) = request.index;
  item.number = core.number;
  if (starts ? !standing.has_bell : !core.done.valid()) {
    item.kind = StepItem::Kind::kMark;
    return item;
  }
  item.kind = starts ? StepItem::Kind::kRing : StepItem::Kind::kWait;
  item.op.kind = !starts                                             ? Kind::kWaitNext64
                 : standing.rings != nullptr                         ? Kind::kWriteNext64
                 : standing.bell.kind == nic::DoorbellKind::kMmioAdd ? Kind::kWrite64
                                                                     : Kind::kAdd64;
  item.op.word = starts ? standing.bell.word : core.done.address;
  item.op.count = starts ? standing.rings : standing.count;
  item.op.value = 1;
  return item;
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
  return implied;  // an implied message has an implied answer in the other set
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

// Makes exchanges of the merged ones. Requires fresh requests of one rank, not yet being matched.
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
  }
}

// ---- Standing requests

void World::launch_captured(Process& process, uint32_t queue) {
  StepStream& stream = process.streams[queue]->stream;
  const size_t before = stream.mark();
  stream.launch();
  const std::span<StepItem> items = stream.since(before);
  for (const StepItem& item : items) {
    const uint32_t request = item.kind == StepItem::Kind::kWait ? item.request : item.start;
    if (request != StepItem::kNothing && !state_->sides[request].standing)
      return find(Finding::kUser, "lifetime",
                  "a graph is launched that starts the " + scenario_.describe({request}) + ", which was freed");
  }
  enter(queue, items);
}

// MPIX_Device_requests_create and _free. Programs free a set only when it has completed. Returns
// false if the program was told of a failure and ends.
bool World::change_set(Process& process, const Action& action) {
  if (!collect(process, action))
    return true;
  core::Queue& queue = *process.streams[action.queue]->queue;
  const bool stand = action.kind == Action::Kind::kStand;
  if (action.refused && !stand &&
      all_of(action, [&](const Side& side) { return process.endpoint.standing().is_complete(*side.core); }))
    return true;  // it has completed meanwhile: no mistake any more
  const Status status =
      insist(process, [&] { return stand ? queue.stand(process.scratch) : queue.dismiss(process.scratch); });
  if (status.code() == Code::kFailed && is_told_of_failure(action)) {
    give_up(process);
    return false;
  }
  const auto refusal = [&](Finding finding, const std::string& what) {
    find(finding, "refusal", process, describe(action) + ": " + what);
    return true;
  };
  if (action.refused) {
    const bool none_dismissed = all_of(action, [](const Side& side) { return side.core->standing != nullptr; });
    return (!status.ok() && none_dismissed) ||
           refusal(Finding::kOrder, std::string("is a mistake, as its last start has not completed, and is ") +
                                        (status.ok() ? "not refused" : "refused, but some are dismissed"));
  }
  // The refusal is right if a request is in flight, has failed, or is in that state already.
  if (!status.ok()) {
    const bool right = all_of(action, [stand](const Side& side) {
      return side.starts == side.waits && side.waited >= side.waits && side.failed == 0 && side.standing != stand;
    });
    return refusal(right ? Finding::kOrder : Finding::kUser, status.message());
  }
  for (const RequestName request : action.requests) {
    Side& side = state_->sides[request.index];
    side.queue = action.queue;
    if (stand)
      stands_now(process, side);
    else if (!stands_no_more(process, action, request))
      return true;
  }
  nic_changed(process);
  return true;
}

// As the functions of lanyard_device.h: rings each bell in turn, or waits for each request in turn.
void World::launch_kernel(Process& process, const Action& action) {
  if (!collect(process, action))
    return;
  StepStream& stream = process.streams[action.queue]->stream;
  const size_t before = stream.mark();
  for (const RequestName request : action.requests) {
    const core::Request& core = *state_->sides[request.index].core;
    if (core.standing == nullptr || !core.standing->in_kernels)
      return find(Finding::kUser, "lifetime",
                  "a kernel is launched with the " + scenario_.describe(request) + ", which is not the kernels'");
    stream.push(by_kernel(request, core, action.kind == Action::Kind::kKernelStart));
  }
  enter(action.queue, stream.since(before));
}

void World::stands_now(Process& process, Side& side) {
  process.kept_up = process.kept_up && side.standing;
  side.standing = true;
}

// Entries posted ahead have been cancelled, except those already due: clear-to-sends of a released
// receive make entries due without a start. The counts for graphs and kernels are gone. Returns
// false if a stream still has an item that uses them, which the core cannot see.
bool World::stands_no_more(Process& process, const Action& action, RequestName request) {
  Side& side = state_->sides[request.index];
  side.standing = process.kept_up = false;  // more entries may be posted for others now
  const NicModel& model = process.nic.model();
  uint64_t writes = side.data_fired, words = side.done_fired;
  for (auto entry = model.first_ready(); entry; entry = model.next_ready(*entry)) {
    const nic::Op& op = model.op_of(*entry);
    if (op.context != side.number)
      continue;
    const Transit::Role role = role_of(process, op);
    writes += role == Transit::Role::kData ? 1 : 0;
    words += role == Transit::Role::kDone ? 1 : 0;
  }
  const uint64_t due = std::max(writes / std::max<uint64_t>(side.pieces, 1), words);
  side.ahead = std::max(side.ahead, due - std::min(due, side.starts));
  const bool used = std::any_of(process.streams.begin(), process.streams.end(),
                                [&](const auto& queued) { return queued->stream.counts_for(request.index); });
  if (used)
    find(Finding::kUser, "lifetime", process,
         fmt::format("{}: the stream has a graph or a kernel to run yet that uses the {}", describe(action),
                     scenario_.describe(request)));
  return !used;
}

// Completed iterations of its standing requests; nothing if it has none.
std::optional<uint64_t> World::standing_done(const Process& process) const {
  std::optional<uint64_t> done;
  for (const Side& side : state_->sides)
    if (side.rank == process.rank && side.standing)
      done = done.value_or(0) + side.core->iterations_done();
  return done;
}

void World::take_keep_up(Process& process) {
  const size_t handed_over = process.endpoint.standing().keep_up();
  process.standing_done = standing_done(process).value_or(0);
  // Try again if the card refused entries although it has room.
  const auto is_refused = [&](const Side& side) {
    return side.rank == process.rank && side.standing && !side.core->plan.empty() &&
           side.core->standing->posted == side.core->iterations_done() &&
           side.core->plan.size() <= process.nic.free_entries();
  };
  process.kept_up = !options_.no_room || std::none_of(state_->sides.begin(), state_->sides.end(), is_refused);
  handed_over > 0 ? nic_changed(process) : standing_changed(process);
}

// Enables kKeepUp if there may be entries to post.
void World::standing_changed(Process& process) {
  const std::optional<uint64_t> done = standing_done(process);
  set_enabled(process.rank, StepKind::kKeepUp, done && (*done != process.standing_done || !process.kept_up));
}

}  // namespace lanyard::nicsim
