#include "nicsim/deterministic/schedulers.h"

#include <algorithm>
#include <charconv>

namespace lanyard::nicsim {

namespace {

uint64_t mix(uint64_t x) { return Random(x).next(); }

// Chooses everything except steps. The seed draws how often each kind of fault happens.
class Seeded : public Scheduler {
 public:
  void begin(uint64_t seed) override {
    random_ = Random(seed);
    uint64_t drawn = random_.next();
    for (uint32_t& rate : rates_) {
      rate = kRates[drawn % std::size(kRates)];
      drawn /= std::size(kRates);
    }
  }
  uint32_t choose(uint32_t n, ChoiceKind kind, const uint32_t* agents) final {
    if (kind == ChoiceKind::kStep)
      return choose_step(n, agents);
    if (kind == ChoiceKind::kCoalesce || kind == ChoiceKind::kMail || kind == ChoiceKind::kLeave ||
        kind == ChoiceKind::kMeanwhile || kind == ChoiceKind::kLateAck)
      return random_.below(n);
    if (random_.below(1024) >= rates_[static_cast<size_t>(kind)])
      return 0;
    return n == 2 ? 1 : 1 + random_.below(n - 1);
  }

 protected:
  virtual uint32_t choose_step(uint32_t n, const uint32_t* agents) = 0;
  Random random_{0};

 private:
  static constexpr uint32_t kRates[] = {0, 8, 64, 256};
  uint32_t rates_[kChoiceKinds] = {};  // faults among 1,024 choices of that kind
};

class RandomScheduler final : public Seeded {
  uint32_t choose_step(uint32_t n, const uint32_t*) override { return random_.below(n); }
};

// Probabilistic concurrency testing (Burckhardt et al., ASPLOS 2010). Agents have random priorities
// and the highest goes on. At a few random steps that agent gets the lowest priority. A bug of
// depth d is found with probability 1 / (n k^(d-1)) at least, for n agents and k steps.
class Pct final : public Seeded {
 public:
  explicit Pct(uint64_t steps) : steps_(std::max<uint64_t>(steps, 1)) {}
  void begin(uint64_t seed) override {
    Seeded::begin(seed);
    salt_ = random_.next();
    taken_ = 0;
    lowered_count_ = 0;
    changes_ = 1 + random_.below(kMostChanges);
    for (uint32_t i = 0; i < changes_; ++i)
      at_[i] = random_.next() % steps_;
  }

 private:
  static constexpr uint32_t kMostChanges = 4;

  uint32_t choose_step(uint32_t n, const uint32_t* agents) override {
    uint32_t best = 0;
    uint64_t highest = 0;
    for (uint32_t i = 0; i < n; ++i) {
      const uint64_t priority = priority_of(agents[i]);
      if (priority >= highest) {
        highest = priority;
        best = i;
      }
    }
    for (uint32_t i = 0; i < changes_; ++i)
      if (at_[i] == taken_ && lowered_count_ < kMostChanges)
        lowered_[lowered_count_++] = agents[best];
    ++taken_;
    return best;
  }
  uint64_t priority_of(uint32_t agent) const {
    for (uint32_t i = lowered_count_; i > 0; --i)
      if (lowered_[i - 1] == agent)
        return kMostChanges - i;
    return kMostChanges + (mix(salt_ ^ (uint64_t{agent} * 0x9e3779b97f4a7c15u)) >> 8);
  }

  const uint64_t steps_;
  uint64_t salt_ = 0;
  uint64_t taken_ = 0;
  uint32_t changes_ = 0;
  uint64_t at_[kMostChanges] = {};
  uint32_t lowered_[kMostChanges] = {};
  uint32_t lowered_count_ = 0;
};

// Swarm testing (Groce et al., ISSTA 2012). Each schedule makes some agents, and some stages of
// operations, faster than others. Many schedules together have every mixture of fast and slow.
class Swarm final : public Seeded {
 public:
  explicit Swarm(const World& world) : world_(world) {}
  void begin(uint64_t seed) override {
    Seeded::begin(seed);
    salt_ = random_.next();
  }

 private:
  static constexpr uint32_t kTries = 8;

  uint32_t choose_step(uint32_t n, const uint32_t* agents) override {
    for (uint32_t i = 0; i < kTries; ++i) {
      const uint32_t which = random_.below(n);
      const Transit* transit = world_.transit_of(agents[which]);
      const uint64_t group =
          transit == nullptr ? agents[which]
                             : uint64_t{1} << 40 | uint64_t{transit->to} << 8 | static_cast<uint64_t>(transit->stage);
      // Accepts a group with probability 1, 1/4, 1/16 or 1/64.
      const uint32_t dislike = 2 * (mix(salt_ ^ (group * 0x9e3779b97f4a7c15u)) % 4);
      if (random_.below(64) < (64u >> dislike))
        return which;
    }
    return random_.below(n);
  }

  const World& world_;
  uint64_t salt_ = 0;
};

// The first agent goes on, except at a few random steps: there any agent may (Emmi, Qadeer and
// Rakamaric, POPL 2011).
class Delay final : public Seeded {
 public:
  explicit Delay(uint64_t steps) : steps_(std::max<uint64_t>(steps, 1)) {}
  void begin(uint64_t seed) override {
    Seeded::begin(seed);
    taken_ = 0;
    delays_ = random_.below(kMost + 1);
    for (uint32_t i = 0; i < delays_; ++i)
      at_[i] = random_.next() % steps_;
  }

 private:
  static constexpr uint32_t kMost = 8;

  uint32_t choose_step(uint32_t n, const uint32_t* agents) override {
    const bool delayed = std::find(at_, at_ + delays_, taken_++) != at_ + delays_;
    return delayed ? random_.below(n) : static_cast<uint32_t>(std::min_element(agents, agents + n) - agents);
  }

  const uint64_t steps_;
  uint64_t taken_ = 0;
  uint32_t delays_ = 0;
  uint64_t at_[kMost] = {};
};

}  // namespace

const char* scheduler_name(SchedulerKind kind) {
  static constexpr const char* kNames[kSchedulerKinds] = {"random", "pct", "swarm", "delay"};
  return kNames[static_cast<size_t>(kind)];
}

std::unique_ptr<Scheduler> make_scheduler(SchedulerKind kind, const World& world, uint64_t steps) {
  switch (kind) {
    case SchedulerKind::kPct: return std::make_unique<Pct>(steps);
    case SchedulerKind::kSwarm: return std::make_unique<Swarm>(world);
    case SchedulerKind::kDelay: return std::make_unique<Delay>(steps);
    case SchedulerKind::kRandom: break;
  }
  return std::make_unique<RandomScheduler>();
}

// ---- Schedules

// A digit has 3 bits of a number, the highest first. Its fourth bit: the number has another digit.
std::string encode(const Schedule& schedule) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  size_t length = schedule.size();
  while (length > 0 && schedule[length - 1] == 0)
    --length;
  for (size_t i = 0; i < length; ++i) {
    int digits = 1;
    while (schedule[i] >> (3 * digits) != 0)
      ++digits;
    while (digits-- > 0)
      text += kDigits[((schedule[i] >> (3 * digits)) & 7) | (digits > 0 ? 8 : 0)];
  }
  return text.empty() ? "0" : text;
}

Result<Schedule> decode(const std::string& text) {
  Schedule schedule;
  uint32_t number = 0;
  int digits = 0;
  for (const char c : text) {
    uint32_t digit = 0;
    const auto [end, error] = std::from_chars(&c, &c + 1, digit, 16);
    if (error != std::errc())
      return Status(Code::kInvalidArgument, std::string("a schedule has hexadecimal digits, not '") + c + "'");
    if (++digits > 10)
      return Status(Code::kInvalidArgument, "the schedule is corrupt: a number of more than 30 bits");
    number = number << 3 | (digit & 7);
    if ((digit & 8) != 0)
      continue;
    schedule.push_back(number);
    number = 0;
    digits = 0;
  }
  if (digits != 0 || text.empty())
    return Status(Code::kInvalidArgument,
                  text.empty() ? "an empty schedule" : "the schedule is corrupt: it ends within a number");
  return schedule;
}

uint64_t deviations(const Schedule& schedule) {
  return schedule.size() - static_cast<uint64_t>(std::ranges::count(schedule, 0u));
}

namespace {

uint32_t rank_of_place(uint32_t n, const uint32_t* agents, uint32_t place) {
  return static_cast<uint32_t>(
      std::count_if(agents, agents + n, [&](uint32_t other) { return other < agents[place]; }));
}

// The place of the agent that has exactly `rank` agents with lower numbers beside it.
uint32_t place_of_rank(uint32_t n, const uint32_t* agents, uint32_t rank) {
  if (rank == 0)
    return static_cast<uint32_t>(std::min_element(agents, agents + n) - agents);
  uint32_t place = 0;
  while (place < n && rank_of_place(n, agents, place) != rank)
    ++place;
  return place % n;
}

}  // namespace

uint32_t Replay::choose(uint32_t n, ChoiceKind, const uint32_t* agents) {
  uint32_t choice = next_ < schedule_.size() ? schedule_[next_++] : 0;
  if (choice >= n) {
    ++misfits_;
    choice = n - 1;
  }
  return agents == nullptr ? choice : place_of_rank(n, agents, choice);
}

uint32_t Recorder::choose(uint32_t n, ChoiceKind kind, const uint32_t* agents) {
  const uint32_t choice = inner_.choose(n, kind, agents);
  const Arena::Outside outside;
  schedule_.push_back(agents == nullptr ? choice : rank_of_place(n, agents, choice));
  return choice;
}

Schedule Recorder::take() {
  while (!schedule_.empty() && schedule_.back() == 0)
    schedule_.pop_back();
  return std::move(schedule_);
}

}  // namespace lanyard::nicsim
