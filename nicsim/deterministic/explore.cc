#include "nicsim/deterministic/explore.h"

#include <algorithm>
#include <deque>

#include "nicsim/deterministic/commuting.h"

namespace lanyard::nicsim {

namespace {

using Fingerprint = World::Fingerprint;

// A set of fingerprints: open addressing, no deletion.
class Seen {
 public:
  Seen() : slots_(1 << 12) {}
  // False where it is there already.
  bool insert(const Fingerprint& fingerprint) {
    if (2 * (count_ + 1) > slots_.size())
      grow();
    Fingerprint& slot = find(slots_, fingerprint);
    if (slot == fingerprint)
      return false;
    slot = fingerprint;
    ++count_;
    return true;
  }
  uint64_t size() const { return count_; }

 private:
  // {0, 0} marks a slot that is free: no state has that fingerprint, but for one chance in 2^128.
  static Fingerprint& find(std::vector<Fingerprint>& slots, const Fingerprint& fingerprint) {
    size_t i = fingerprint.low & (slots.size() - 1);
    while (slots[i] != Fingerprint{} && slots[i] != fingerprint)
      i = (i + 1) & (slots.size() - 1);
    return slots[i];
  }
  void grow() {
    std::vector<Fingerprint> larger(2 * slots_.size());
    for (const Fingerprint& fingerprint : slots_)
      if (fingerprint != Fingerprint{})
        find(larger, fingerprint) = fingerprint;
    slots_.swap(larger);
  }

  std::vector<Fingerprint> slots_;
  uint64_t count_ = 0;
};

// Takes the step of one agent, and enumerates whatever else is chosen within it.
class OneStep final : public Chooser {
 public:
  explicit OneStep(uint32_t agent) : agent_(agent) {}
  uint32_t choose(uint32_t n, ChoiceKind kind, const uint32_t* agents) override {
    if (kind != ChoiceKind::kStep)
      return others_.choose(n, kind, agents);
    step_ = static_cast<uint32_t>(std::count_if(agents, agents + n, [&](uint32_t other) { return other < agent_; }));
    has_step_ = true;
    return static_cast<uint32_t>(std::find(agents, agents + n, agent_) - agents);
  }
  // Goes to the next combination of the other choices; false after the last.
  bool advance() { return others_.advance(); }
  // What a Schedule has for this step.
  void append_to(Schedule& schedule) const {
    if (has_step_)
      schedule.push_back(step_);
    schedule.insert(schedule.end(), others_.schedule().begin(), others_.schedule().end());
  }

 private:
  const uint32_t agent_;
  uint32_t step_ = 0;
  bool has_step_ = false;
  Odometer others_{SIZE_MAX};
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

  bool over() const { return !result_.report.ok() || result_.good_end || result_.states >= options_.max_states; }

  // The world is in a state: is it new, and what follows?
  void visit(Schedule way) {
    if (!world_.report().ok())
      return found(std::move(way));
    const Fingerprint fingerprint = world_.fingerprint();
    if (!seen_.insert(fingerprint))
      return;
    ++result_.states;
    if (options_.progress && result_.states % 65'536 == 0)
      options_.progress(result_.states);
    if (world_.enabled().empty()) {
      if (ends_.insert(fingerprint)) {
        result_.ends_digest.low += fingerprint.low;
        result_.ends_digest.high += fingerprint.high;
      }
      Replay nothing(no_schedule_);
      if (!world_.run(nothing).ok())  // takes no step, and judges
        found(std::move(way));
      else
        result_.good_end = options_.until_good_end;
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
    if (options_.until_good_end)
      return;
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
  if (world.options().timed)
    return Status(Code::kUnsupported, "virtual time leaves one order: explore without 'timed'");
  if (world.options().driver)
    return Status(Code::kUnsupported, "fingerprints do not look into the driver: explore without one");
  if (world.options().mail_by_card)
    return Status(Code::kUnsupported,
                  "fingerprints do not look into the control channel: explore without 'mail-by-card'");
  if (world.options().in_order)
    return Status(Code::kUnsupported, "fingerprints do not tell orders of messages apart: explore without 'in-order'");
  if (world.options().overflow && !world.options().blocking_post &&
      (world.options().depth > 0 || world.options().no_room || world.options().stolen_entries))
    return Status(Code::kUnsupported,
                  "fingerprints do not look into the overflow: explore with 'no-overflow' or enough entries");
  if (options.reduced && !allows_reduction(world.options()))
    return Status(Code::kUnsupported, "the reduction is right only where nothing is scarce and nothing fails");
  return Search(world, options).run();
}

}  // namespace lanyard::nicsim
