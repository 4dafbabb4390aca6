// Schedulers: the Choosers of the deterministic engine. Each draws everything from one seed, or from a schedule.
#ifndef LANYARD_NICSIM_DETERMINISTIC_SCHEDULERS_H_
#define LANYARD_NICSIM_DETERMINISTIC_SCHEDULERS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "nicsim/deterministic/chooser.h"
#include "nicsim/deterministic/world.h"
#include "transport/base/status.h"

namespace lanyard::nicsim {

enum class SchedulerKind : uint8_t { kRandom, kPct, kSwarm, kDelay };
inline constexpr uint32_t kSchedulerKinds = 4;
const char* scheduler_name(SchedulerKind kind);

// A scheduler for many schedules of one world, each begun by a seed.
class Scheduler : public Chooser {
 public:
  // Everything until the next begin() follows from the seed.
  virtual void begin(uint64_t seed) = 0;
};
// `world` outlives it; `steps`: how many a schedule of it has, about.
std::unique_ptr<Scheduler> make_scheduler(SchedulerKind kind, const World& world, uint64_t steps);

// A schedule as numbers: for every choice that there was, in order, the chosen one; of steps by rising number of agent,
// so that 0 is the same agent however the run came there. Trailing zeros do not count.
using Schedule = std::vector<uint32_t>;
// Hexadecimal digits, for command lines. kInvalidArgument.
std::string encode(const Schedule& schedule);
Result<Schedule> decode(const std::string& text);
// How many of its choices are not 0: how far it is from the run in which the first agent always goes on.
uint64_t deviations(const Schedule& schedule);

// Follows a schedule; then always chooses 0.
class Replay final : public Chooser {
 public:
  explicit Replay(const Schedule& schedule) : schedule_(schedule) {}
  uint32_t choose(uint32_t n, ChoiceKind kind, const uint32_t* agents) override;
  // How many choices of the schedule there were that could not be made, as so many were not enabled.
  uint64_t misfits() const { return misfits_; }

 private:
  const Schedule& schedule_;
  size_t next_ = 0;
  uint64_t misfits_ = 0;
};

// Writes down what another chooser chooses.
class Recorder final : public Chooser {
 public:
  explicit Recorder(Chooser& inner) : inner_(inner) {}
  uint32_t choose(uint32_t n, ChoiceKind kind, const uint32_t* agents) override;
  Schedule take();

 private:
  Chooser& inner_;
  Schedule schedule_;
};

}  // namespace lanyard::nicsim

#endif  // LANYARD_NICSIM_DETERMINISTIC_SCHEDULERS_H_
