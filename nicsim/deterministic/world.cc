#include "nicsim/deterministic/world.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <span>

#include "nicsim/deterministic/oracles/oracles.h"
#include "transport/base/check.h"
#include "transport/core/standing.h"

namespace lanyard::nicsim {

const char* finding_name(Finding finding) {
  static constexpr const char* kNames[] = {"NOTHING",  "INTEGRITY", "ORDER",          "DEADLOCK",
                                           "LIVELOCK", "LEAK",      "NONDETERMINISM", "USER ERROR"};
  return kNames[static_cast<size_t>(finding)];
}

const char* role_name(Transit::Role role) {
  static constexpr const char* kNames[] = {"write", "clear-to-send", "done word", "flag", "mail"};
  return kNames[static_cast<size_t>(role)];
}

const char* step_name(StepKind kind) {
  static constexpr const char* kNames[kStepKinds] = {"host",    "post", "overflow", "stream", "ring", "fire",  "drive",
                                                     "keep up", "loss", "mail",     "read",   "land", "count", "ack"};
  return kNames[static_cast<size_t>(kind)];
}

void World::restore(const Arena::Image& image) {
  arena_.restore(image);
  report_ = stillborn_;
}

// ---- Agents

void World::toggle(uint32_t agent) {
  std::vector<uint32_t>& enabled = state_->enabled;
  uint32_t& place = state_->place[agent];
  if (place == kNone) {
    place = static_cast<uint32_t>(enabled.size());
    return enabled.push_back(agent);
  }
  // The last one takes its place.
  enabled[place] = enabled.back();
  state_->place[enabled.back()] = place;
  enabled.pop_back();
  place = kNone;
}

StepKind World::kind_of(uint32_t agent) const {
  if (agent < first_transit_) {
    // A kind without agents has the same first agent as the next kind: upper_bound() passes it by.
    const auto next = std::upper_bound(first_agent_.begin(), first_agent_.end(), agent % stride_);
    return static_cast<StepKind>(next - first_agent_.begin() - 1);
  }
  switch (state_->transits[agent - first_transit_].stage) {
    case Transit::Stage::kRead: return StepKind::kRead;
    case Transit::Stage::kLand: return StepKind::kLand;
    case Transit::Stage::kCount: return StepKind::kCount;
    default: return StepKind::kAck;
  }
}

uint32_t World::rank_of(uint32_t agent) const {
  if (agent < first_transit_)
    return agent / stride_;
  const Transit& transit = state_->transits[agent - first_transit_];
  const bool at_target = transit.stage == Transit::Stage::kLand || transit.stage == Transit::Stage::kCount;
  return at_target ? transit.to : transit.from;
}

Transit::Role World::role_of(const Process& process, const nic::Op& op) const {
  if (is_mail(op))
    return Transit::Role::kMail;
  if (op.kind == nic::OpKind::kWrite)
    return Transit::Role::kData;
  const core::WordPool::Word& done = process.done_words[op.context - 1];
  const nic::RemoteKey counted = process.counted_words[op.context - 1];
  const bool own = op.remote.peer == process.rank;
  if (own && ((op.remote.key == done.key && op.remote.offset == done.offset) || op.remote.key == counted))
    return Transit::Role::kDone;
  return RequestName{process.requests[op.context - 1]}.receive() ? Transit::Role::kClear : Transit::Role::kFlag;
}

bool World::finished() const {
  return std::all_of(state_->processes.begin(), state_->processes.end(), [](const auto& process) {
    return process->killed || (process->next_action >= process->program.size() &&
                               std::all_of(process->streams.begin(), process->streams.end(),
                                           [](const auto& queued) { return queued->stream.empty(); }));
  });
}

// ---- Running

void World::take_all(const std::function<void()>& steps) {
  const Arena::Scope scope(arena_);
  const ChecksThrow throws;
  try {
    steps();
  } catch (const CheckFailed& failure) {
    chooser_ = nullptr;
    find(Finding::kOrder, "invariant", failure.what());
  }
}

bool World::step(Chooser& chooser) {
  bool goes_on = false;
  take_all([&] { goes_on = take_one(chooser); });
  return goes_on;
}

bool World::take_one(Chooser& chooser) {
  const std::vector<uint32_t>& enabled = state_->enabled;
  if (enabled.empty() || !report_.ok())
    return false;
  uint32_t agent = enabled.front();
  if (enabled.size() > 1)
    agent = enabled[chooser.choose(static_cast<uint32_t>(enabled.size()), ChoiceKind::kStep, enabled.data())];
  chooser_ = &chooser;
  ++state_->steps;
  note(agent);
  if (options_.kills && state_->deaths < most_deaths() && chance(ChoiceKind::kKill))
    kill(*state_->processes[rank_of(agent)]);
  else
    take(agent);
  if (options_.driver)
    drivers_changed();
  if (enabled.empty() && report_.ok())
    end_faults();
  chooser_ = nullptr;
  if (state_->steps > options_.max_steps)
    find(Finding::kLivelock, "liveness", std::to_string(state_->steps) + " steps, and no end");
  return report_.ok();
}

const Report& World::run(Chooser& chooser) {
  take_all([&] {
    while (take_one(chooser)) {
    }
    if (report_.ok())
      finished() ? oracle::judge_quiescence(*this) : oracle::judge_stall(*this);
  });
  return report_;
}

uint32_t World::draw(uint32_t n, ChoiceKind kind) {
  if (chooser_ == nullptr)
    return 0;
  const uint32_t choice = chooser_->choose(n, kind, nullptr);
  note(choice);
  return choice;
}

void World::find(Finding finding, const char* oracle, const std::string& text) {
  if (!report_.ok())
    return;
  const Arena::Outside outside;
  report_ = {finding, oracle, std::string(text.data(), text.size()), state_->steps};
}

void World::find(Finding finding, const char* oracle, RequestName request, const std::string& text) {
  find(finding, oracle, fmt::format("the {} {}", scenario_.describe(request), text));
}

void World::find(Finding finding, const char* oracle, const Process& process, const std::string& text) {
  find(finding, oracle, fmt::format("rank {}: {}", process.rank, text));
}

Status World::insist(Process& process, const std::function<Status()>& call) {
  const uint32_t before = process.nic.model().open_counters();
  Status status = call();
  if (status.code() != Code::kExhausted || !options_.scarce)
    return status;
  if (process.nic.model().open_counters() > before)
    find(Finding::kLeak, "lifetime", process, "counters stay open after a refusal: " + status.message());
  process.nic.have_plenty(true);
  status = call();
  process.nic.have_plenty(false);
  return status;
}

// ---- Descriptions

std::string World::describe(uint32_t agent) const {
  const StepKind kind = kind_of(agent);
  const uint32_t rank = rank_of(agent);
  const std::string who = fmt::format("rank {}: ", rank);
  if (agent >= first_transit_) {
    const Transit& transit = state_->transits[agent - first_transit_];
    const bool rest = transit.part > 0;
    const char* step = kind == StepKind::kRead    ? (rest ? "the rest of the source is read" : "the source is read")
                       : kind == StepKind::kLand  ? (rest ? "the rest lands" : "lands")
                       : kind == StepKind::kCount ? "is counted"
                                                  : "its initiator hears of it";
    if (transit.role == Transit::Role::kMail)
      return fmt::format("{}{} of mail of rank {} to rank {}: {}", who,
                         transit.packet.kind == PacketKind::kWrite ? "a slot" : "a sum", transit.from, transit.to,
                         step);
    return fmt::format("{}{} of ({}) iteration {}: {}", who, role_name(transit.role),
                       scenario_.describe({transit.request}), transit.iteration, step);
  }
  const Process& process = *state_->processes[rank];
  const uint32_t index = index_of(agent);
  switch (kind) {
    case StepKind::kHost: return who + "host: " + describe(process.program[process.next_action]);
    case StepKind::kPost: return who + "an entry reaches the NIC, " + describe(process, process.nic.next_posting().op);
    case StepKind::kOverflow: return who + "the overflow is handed over";
    case StepKind::kStream: return who + "stream: " + describe(process.streams[index]->stream.front());
    case StepKind::kKeepUp: return who + "standing requests get more entries";
    case StepKind::kDrive: return who + "the thread of the driver drives";
    case StepKind::kMail: return who + (options_.mail_by_card ? "the control thread looks" : "a matching card arrives");
    case StepKind::kLoss: return fmt::format("{}its NIC finds that rank {} has ended", who, process.unfound.front());
    case StepKind::kRing: return who + "a ring lands on " + describe(process, nic::CounterId{index});
    default: {
      const std::optional<uint32_t> entry = process.nic.first_to_fire({index});
      return who + describe(process, nic::CounterId{index}) + " fires " +
             (entry ? describe(process, process.nic.model().op_of(*entry)) : "");
    }
  }
}

std::string World::describe(const Action& action) const {
  static constexpr const char* kNames[] = {"pack",
                                           "unpack",
                                           "start",
                                           "wait",
                                           "sync",
                                           "promise",
                                           "await",
                                           "complete",
                                           "free",
                                           "match",
                                           "be matched",
                                           "withdraw",
                                           "capture",
                                           "end of the capture",
                                           "launch",
                                           "give to kernels",
                                           "kernel: start",
                                           "kernel: wait",
                                           "take from kernels"};
  std::string text = kNames[static_cast<size_t>(action.kind)];
  if (is_of_message(action.kind))
    return text + " (" + scenario_.describe({2 * action.message}) + ")";
  for (const RequestName request : action.requests)
    text += " (" + scenario_.describe(request) + ")";
  return text;
}

std::string World::describe(const StepItem& item) const {
  const auto about = [&](const char* before, uint32_t request, const char* after) {
    return fmt::format("{} ({}){}", before, scenario_.describe({request}), after);
  };
  const auto is_for = [&](uint32_t request) { return request != StepItem::kNothing; };
  switch (item.kind) {
    case StepItem::Kind::kKernel:
      return describe(Action{.kind = item.action, .queue = 0, .message = item.message, .requests = {}});
    case StepItem::Kind::kMove:
      return about(item.op.kind == gpu::StreamOp::Kind::kPack     ? "packs for"
                   : item.op.kind == gpu::StreamOp::Kind::kUnpack ? "unpacks for"
                                                                  : "has packed or unpacked for",
                   item.request, "");
    case StepItem::Kind::kRing:
      return is_for(item.start) ? about("rings for", item.start, "") : "rings for all that share the queue's trigger";
    default:
      return is_for(item.start)     ? about("start", item.start, " is reached")
             : is_for(item.request) ? about("wait", item.request, " passes")
                                    : "the promise was kept";
  }
}

std::string World::describe(const Process& process, const nic::Op& op) const {
  return fmt::format("{} of ({})", role_name(role_of(process, op)),
                     scenario_.describe({process.requests[op.context - 1]}));
}

std::string World::describe(const Process& process, nic::CounterId counter) const {
  for (const uint32_t request : process.requests) {
    const core::Request* core = state_->sides[request].core;
    if (core == nullptr)
      continue;
    for (const auto& [which, name] : {std::pair(core->trigger, "trigger"), std::pair(core->written, "writes'"),
                                      std::pair(core->completion, "completion")})
      if (which == counter)
        return fmt::format("the {} counter of ({})", name, scenario_.describe({request}));
  }
  return "the queue's shared trigger";
}

// ---- Fingerprints: hashes of all that matters for later steps or for an oracle. They leave out
// how the world got there (places in lists, addresses, numbers of steps).

namespace {

uint64_t scramble(uint64_t x) {
  x = (x ^ (x >> 32)) * 0xd6e8feb86659fd93u;
  x = (x ^ (x >> 32)) * 0xd6e8feb86659fd93u;
  return x ^ (x >> 32);
}

// Two independent hashes of a sequence of numbers.
class Digest {
 public:
  void add(uint64_t value) {
    low_ = scramble(low_ ^ value);
    high_ = (high_ + value + 0x9e3779b97f4a7c15u) * 0xff51afd7ed558ccdu;
    high_ ^= high_ >> 29;
  }
  // Adds one of several things that have no order among themselves.
  void add_one_of_many(const Digest& thing) {
    low_sum_ += scramble(thing.low_);
    high_sum_ += scramble(thing.high_ + 1);
  }
  World::Fingerprint finish() {
    add(low_sum_);
    add(high_sum_);
    return {low_, scramble(high_)};
  }
  void add_bytes(std::span<const std::byte> bytes) {
    uint64_t word = 0;
    for (size_t at = 0; at < bytes.size(); at += sizeof word) {
      word = 0;
      std::memcpy(&word, &bytes[at], std::min(sizeof word, bytes.size() - at));
      add(word);
    }
  }

 private:
  uint64_t low_ = 0, high_ = 0;
  uint64_t low_sum_ = 0, high_sum_ = 0;
};

void add_entry(Digest& digest, uint64_t trigger, uint64_t threshold, const nic::Op& op) {
  digest.add(trigger);
  digest.add(threshold);
  digest.add(op.context << 2 | static_cast<uint64_t>(op.kind));
  digest.add(op.remote.offset ^ op.remote.key.value);
}

void add_nic(Digest& digest, const StepNic& nic, bool stale_reads) {
  digest.add(nic.stolen());
  const NicModel& model = nic.model();
  for (uint32_t counter = 0; counter < model.limits().max_counters; ++counter) {
    const Result<nic::CounterValue> value = model.read({counter});
    if (!value.ok())
      continue;
    digest.add(value.value().success << 8 | value.value().failure);
    digest.add(nic.rings_under_way(counter));
    if (stale_reads)
      digest.add(nic.last_read(counter).reached() << 1 | (nic.frozen(counter) ? 1 : 0));
    uint64_t waiting = 0;
    for (auto entry = model.first_waiting({counter}); entry; entry = model.next_waiting(*entry), ++waiting)
      add_entry(digest, counter, model.threshold_of(*entry), model.op_of(*entry));
    digest.add(waiting);
  }
  // Only ready entries of one counter have an order: by threshold, except those that were ready
  // when posted. So add the place of each among those of its counter.
  for (auto entry = model.ready(); entry; entry = model.next_ready(*entry)) {
    uint64_t place = 0;
    for (auto before = model.ready(); before != entry; before = model.next_ready(*before))
      place += model.trigger_of(*before) == model.trigger_of(*entry) ? 1 : 0;
    Digest one;
    one.add(place);
    add_entry(one, model.trigger_of(*entry).value, model.threshold_of(*entry), model.op_of(*entry));
    digest.add_one_of_many(one);
  }
  digest.add(nic.holds() ? 1 : 0);
  digest.add(nic.posting());  // separates these entries from those that have arrived
  for (const nic::DeferredOp& op : nic.postings())
    add_entry(digest, op.trigger.value, op.threshold, op.op);
}

void add_side(Digest& digest, const Side& side) {
  const Counts& counts = side;
  digest.add_bytes(std::as_bytes(std::span(&counts, 1)));
  digest.add((side.released ? 2 : 0) | (side.ever_released ? 1 : 0));
  digest.add_bytes(side.buffer);
  if (side.core == nullptr)
    return;
  digest.add(side.core->starts << 2 | static_cast<uint64_t>(side.core->state));
  digest.add(side.core->waits);
  digest.add(side.core->failures);
  digest.add(side.core->peer_starts);
  if (side.core->packing != nullptr) {
    digest.add(side.core->moved.count());
    digest.add_bytes({side.core->packing->packed.get(), side.layout->bytes()});
  }
  digest.add(side.core->asked);
  digest.add(side.core->assured);
  if (const core::Standing* standing = side.core->standing.get()) {
    digest.add(standing->posted << 1 | 1);
    digest.add(standing->count == nullptr ? 0 : *standing->count);
    digest.add(standing->rings == nullptr ? 0 : *standing->rings);
  }
}

}  // namespace

World::Fingerprint World::fingerprint() const {
  Digest digest;
  digest.add(uint64_t{state_->deaths} << 1 | (state_->faults_have_ended ? 1 : 0));
  for (const auto& process : state_->processes) {
    digest.add(process->next_free << 6 | process->nic.lost_peers() << 3 | std::min(process->looks, 2u) << 1 |
               (process->gave_up ? 1 : 0));
    digest.add(process->standing_done << 1 | (process->kept_up ? 1 : 0));
    digest.add(process->failures_seen << 2 | (process->killed ? 2 : 0) | (process->hears_of_failures ? 1 : 0));
    digest.add((process->endpoint.has_questions() ? 4 : 0) | process->matcher.owes() << 3 |
               (process->knows_nothing ? 1 : 0));
    digest.add(process->failures_announced << 1 | (process->asked == process->next_action ? 1 : 0));
    digest.add(process->next_action << 2 | (process->wants_room ? 2 : 0) | (process->overflow_idle ? 1 : 0));
    for (const auto& queued : process->streams) {
      digest.add(queued->stream.executed());
      digest.add(queued->stream.size());
      digest.add(queued->stream.capturing());
    }
    for (const auto& [from, cards] : process->mail.under_way())
      for (const core::MatchCard& card : cards)
        digest.add((card.send + card.writer) << 16 | card.starts << 32 | uint64_t{card.from_nic} << 4 |
                   static_cast<uint64_t>(card.kind));
    add_nic(digest, process->nic, options_.stale_reads || options_.frozen_reads);
  }
  for (const Side& side : state_->sides)
    add_side(digest, side);
  for (const uint64_t promise : state_->promises)
    digest.add(promise);
  for (const Transit& transit : state_->transits) {
    if (transit.stage == Transit::Stage::kFree)
      continue;
    Digest one;
    one.add(uint64_t{transit.request} << 8 | static_cast<uint64_t>(transit.stage) << 4 |
            static_cast<uint64_t>(transit.role));
    one.add(transit.iteration << 8 | static_cast<uint64_t>(transit.code));
    one.add(transit.packet.offset << 1 | (transit.acked ? 1 : 0));
    one.add(transit.part);
    one.add_bytes(transit.bytes);
    digest.add_one_of_many(one);
  }
  return digest.finish();
}

}  // namespace lanyard::nicsim
