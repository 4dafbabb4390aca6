// Schedulers: the Choosers of the deterministic engine. A seed or a schedule determines each run.
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

class Scheduler : public Chooser {
 public:
  // Begins a schedule. The seed determines every choice until the next begin().
  virtual void begin(uint64_t seed) = 0;
};
// `world` must outlive the scheduler. `steps` is the approximate length of its schedules.
std::unique_ptr<Scheduler> make_scheduler(SchedulerKind kind, const World& world, uint64_t steps);

// A schedule: the chosen number of each choice, in order. For a step it is how many enabled agents
// have lower numbers than the chosen one. Zeros at the end may be left out.
using Schedule = std::vector<uint32_t>;
// To and from hexadecimal digits, for command lines. kInvalidArgument.
std::string encode(const Schedule& schedule);
Result<Schedule> decode(const std::string& text);
// The number of choices that are not 0. 0 is the run in which the first agent always goes on.
uint64_t deviations(const Schedule& schedule);

// Follows a schedule. After its end always chooses 0.
class Replay final : public Chooser {
 public:
  explicit Replay(const Schedule& schedule) : schedule_(schedule) {}
  uint32_t choose(uint32_t n, ChoiceKind kind, const uint32_t* agents) override;
  // The number of choices that did not exist. The last existing one was chosen instead.
  uint64_t misfits() const { return misfits_; }

 private:
  const Schedule& schedule_;
  size_t next_ = 0;
  uint64_t misfits_ = 0;
};

// Records the choices of another chooser.
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
