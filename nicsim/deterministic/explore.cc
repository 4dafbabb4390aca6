#include "nicsim/deterministic/explore.h"

#include <algorithm>
#include <boost/unordered/unordered_flat_set.hpp>
#include <deque>
#include <initializer_list>
#include <optional>
#include <utility>

namespace lanyard::nicsim {

namespace {

using Fingerprint = World::Fingerprint;

struct Hash {
  using is_avalanching = void;
  size_t operator()(const Fingerprint& fingerprint) const { return fingerprint.low; }
};
using Seen = boost::unordered_flat_set<Fingerprint, Hash>;

// ---- Steps that commute with all others

// True if the rest of the program has an action of one of these kinds.
bool will(const Process& process, std::initializer_list<Action::Kind> kinds) {
  return std::ranges::any_of(process.program.subspan(process.next_action), [&](const Action& action) {
    return std::ranges::find(kinds, action.kind) != kinds.end();
  });
}

// A free closes counters, regions and words that operations may touch. A match opens them.
bool frees_or_matches(const Process& process) {
  using Kind = Action::Kind;
  return will(process, {Kind::kFree, Kind::kMatch, Kind::kMatched, Kind::kWithdraw});
}

// True if an entry with this trigger may still be posted. If not, additions to the counter commute.
// Otherwise the order matters: the entry that is posted first may be the second to fire.
bool entries_may_come(const Process& process, nic::CounterId counter) {
  return will(process, {Action::Kind::kStart}) ||
         std::ranges::any_of(process.nic.postings(),
                             [&](const nic::DeferredOp& posting) { return posting.trigger == counter; });
}

bool is_met(const Process& process, const nic::DeferredOp& op) {
  const nic::CounterValue value = process.nic.model().read(op.trigger).value();
  return value.success + value.failure >= op.threshold;
}

// True if the host's next action only appends to its streams and postings, in a fixed order.
// Actions that block the host read progress. So does a start on another queue than the last.
bool host_commutes(const Process& process) {
  switch (process.program[process.next_action].kind) {
    case Action::Kind::kPack:
    case Action::Kind::kUnpack:
    case Action::Kind::kPromise:
    case Action::Kind::kAwait:
    case Action::Kind::kWait: return true;
    case Action::Kind::kStart: return process.streams.size() == 1;
    default: return false;
  }
}

// True if the agent's step stays enabled and commutes with all that other agents may do before it.
// Requires options that allow a reduction. It looks only at what two steps touch, so it also holds
// for a NIC or a protocol with bugs.
bool commutes_with_all(const World& world, uint32_t agent) {
  const Process& process = world.process(world.rank_of(agent));
  const StepKind kind = world.kind_of(agent);
  if (world.programs_stand())
    return false;  // completions decide when entries are posted ahead
  if (kind == StepKind::kHost)
    return host_commutes(process);
  for (uint32_t rank = 0; rank < world.scenario().ranks(); ++rank)
    if (frees_or_matches(world.process(rank)))
      return false;
  switch (kind) {
    // If its threshold is not met yet, the order decides if the entry waits or fires at once.
    case StepKind::kPost: return is_met(process, process.nic.next_posting());
    case StepKind::kRing:  // rings of one counter may land together
      return !entries_may_come(process, {world.index_of(agent)}) &&
             std::ranges::all_of(process.streams, [](const auto& queued) { return queued->stream.empty(); });
    // The ready entries of a counter fire oldest first.
    case StepKind::kFire: return !entries_may_come(process, {world.index_of(agent)});
    case StepKind::kCount: {
      const Transit& transit = *world.transit_of(agent);
      return !entries_may_come(world.process(transit.to), transit.counter);
    }
    case StepKind::kAck: {
      const Transit& transit = *world.transit_of(agent);
      const Process& initiator = world.process(transit.from);
      const nic::CounterId completion = initiator.nic.model().completion_of(transit.packet.token);
      return !completion.valid() || !entries_may_come(initiator, completion);
    }
    // Words only grow, and readers wait until they are large enough. Data may meet in a buffer.
    case StepKind::kLand: return world.transit_of(agent)->role != Transit::Role::kData;
    default: return false;
  }
}

// ---- The search

// Takes the step of one agent, and enumerates all combinations of the other choices in it.
class OneStep final : public Chooser {
 public:
  explicit OneStep(uint32_t agent) : agent_(agent) {}
  uint32_t choose(uint32_t n, ChoiceKind kind, const uint32_t* agents) override {
    if (kind == ChoiceKind::kStep) {
      step_ = static_cast<uint32_t>(std::count_if(agents, agents + n, [&](uint32_t other) { return other < agent_; }));
      return static_cast<uint32_t>(std::find(agents, agents + n, agent_) - agents);
    }
    if (next_ == choices_.size()) {
      const Arena::Outside outside;
      choices_.push_back(0);
      limits_.push_back(n);
    }
    return choices_[next_++];
  }
  // Goes to the next combination of the other choices. Returns false after the last.
  bool advance() {
    next_ = 0;
    for (; !choices_.empty(); choices_.pop_back(), limits_.pop_back())
      if (++choices_.back() < limits_.back())
        return true;
    return false;
  }

  void append_to(Schedule& schedule) const {
    if (step_)
      schedule.push_back(*step_);
    schedule.insert(schedule.end(), choices_.begin(), choices_.end());
  }

 private:
  const uint32_t agent_;
  std::optional<uint32_t> step_;  // none: only one agent was enabled
  Schedule choices_;
  std::vector<uint32_t> limits_;  // the n of each choice
  size_t next_ = 0;
};

class Search {
 public:
  Search(World& world, const ExploreOptions& options) : world_(world), options_(options) {}

  Exploration run() {
    visit({});
    while (!frontier_.empty() && !over())
      expand();
    result_.complete = frontier_.empty() && !over();
    result_.ends = ends_.size();
    return std::move(result_);
  }

 private:
  struct Node {
    Arena::Image image;
    Schedule way;
  };

  bool over() const { return !result_.report.ok() || result_.states >= options_.max_states; }

  // Judges the present state if it is new, and keeps it for expand() if it has enabled steps.
  void visit(Schedule way) {
    if (!world_.report().ok())
      return found(std::move(way));
    const Fingerprint fingerprint = world_.fingerprint();
    if (!seen_.insert(fingerprint).second)
      return;
    ++result_.states;
    if (options_.progress && result_.states % 65'536 == 0)
      options_.progress(result_.states);
    if (world_.enabled().empty()) {
      if (ends_.insert(fingerprint).second) {
        result_.ends_digest.low += fingerprint.low;
        result_.ends_digest.high += fingerprint.high;
      }
      Replay nothing(no_schedule_);
      if (!world_.run(nothing).ok())  // takes no step, only judges the end
        found(std::move(way));
      return;
    }
    Node& node = frontier_.emplace_back();
    node.way = std::move(way);
    if (!spare_.empty()) {
      node.image = std::move(spare_.back());
      spare_.pop_back();
    }
    world_.save(node.image);
  }

  void expand() {
    Node node = std::move(options_.breadth_first ? frontier_.front() : frontier_.back());
    options_.breadth_first ? frontier_.pop_front() : frontier_.pop_back();
    world_.restore(node.image);
    std::vector<uint32_t> agents(world_.enabled().begin(), world_.enabled().end());
    std::sort(agents.begin(), agents.end());
    if (options_.reduced) {
      const auto eager =
          std::find_if(agents.begin(), agents.end(), [&](uint32_t agent) { return commutes_with_all(world_, agent); });
      if (eager != agents.end())
        agents = {*eager};
    }
    for (const uint32_t agent : agents) {
      OneStep step(agent);
      do {
        world_.restore(node.image);
        world_.step(step);
        ++result_.transitions;
        Schedule way = node.way;
        step.append_to(way);
        visit(std::move(way));
        if (over())
          return;
      } while (step.advance());
    }
    spare_.push_back(std::move(node.image));
  }

  void found(Schedule way) {
    result_.report = world_.report();
    while (!way.empty() && way.back() == 0)
      way.pop_back();
    result_.schedule = std::move(way);
  }

  World& world_;
  const ExploreOptions& options_;
  const Schedule no_schedule_;
  Exploration result_;
  Seen seen_, ends_;
  std::deque<Node> frontier_;
  std::vector<Arena::Image> spare_;
};

}  // namespace

bool allows_reduction(const WorldOptions& options) {
  return options.depth == 0 && !options.blocking_post && !options.failures && !options.lost_rings && !options.no_room &&
         !options.scarce && !options.stale_reads && !options.frozen_reads && !options.stolen_entries &&
         !options.kills && !options.early_acks && !options.torn;
}

Result<Exploration> explore(World& world, const ExploreOptions& options) {
  const WorldOptions& of = world.options();
  const bool overflows = of.overflow && !of.blocking_post && (of.depth > 0 || of.no_room || of.stolen_entries);
  const std::pair<bool, const char*> limits[] = {
      {of.driver, "fingerprints do not look into the driver: explore without one"},
      {of.mail_by_card, "fingerprints do not look into the control channel: explore without 'mail-by-card'"},
      {overflows, "fingerprints do not look into the overflow: explore with 'no-overflow' or enough entries"},
      {options.reduced && !allows_reduction(of),
       "the reduction is right only where nothing is scarce and nothing fails"},
  };
  for (const auto& [holds, why] : limits)
    if (holds)
      return Status(Code::kUnsupported, why);
  return Search(world, options).run();
}

}  // namespace lanyard::nicsim
