// RandomProgram: the host programs of a random exchange, epoch by epoch.
//
// All starts of an epoch precede whatever its rank blocks on in it, and every rank goes through the epochs in order; so
// what an epoch waits for needs nothing of a later one.
#ifndef LANYARD_NICSIM_DETERMINISTIC_RANDOM_PROGRAM_H_
#define LANYARD_NICSIM_DETERMINISTIC_RANDOM_PROGRAM_H_

#include <cstdint>
#include <vector>

#include "nicsim/deterministic/scenario.h"
#include "nicsim/deterministic/random.h"
#include "nicsim/deterministic/random_messages.h"
#include "nicsim/deterministic/random_standing.h"

namespace lanyard::nicsim {

class RandomProgram {
 public:
  // Of an exchange whose messages have been drawn. `faulty`: operations fail or processes die. `roams`: requests may go
  // from one queue to another. All others outlive it.
  RandomProgram(Random& random, RandomMessages& messages, Scenario& scenario, bool faulty, bool roams)
      : random_(random),
        messages_(messages),
        scenario_(scenario),
        faulty_(faulty),
        roams_(roams),
        standing_(random, messages, scenario.ranks(), faulty) {}

  // What the programs match is matched; but where something may fail, each when its first epoch comes.
  void begin();
  // The next epoch, whose turn it is, of all ranks.
  void append_epoch(uint32_t epoch);
  // What is under way ends, and perhaps all is freed.
  void finish();

 private:
  void match(const std::vector<bool>& chosen);
  template <typename Which>
  void know_matched(HostProgram& host, uint32_t rank, Which which);
  void bear_and_bury(uint32_t epoch);
  void renew();
  void free_all(const std::vector<bool>& chosen);
  void come_and_go(HostProgram& host, uint32_t rank, uint32_t epoch) const;
  void roam(HostProgram& host, uint32_t rank, RequestPlan& plan, bool* repeated);
  void append_traffic(HostProgram& host, uint32_t rank);
  void start(HostProgram& host, uint32_t rank, const std::vector<RequestPlan*>& plans, bool repeated);
  void start_ready(HostProgram& host, uint32_t rank, const std::vector<RequestPlan*>& sends, bool repeated);
  void wait(HostProgram& host, uint32_t rank, const std::vector<RequestPlan*>& plans);
  void finish(HostProgram& host, uint32_t rank, bool frees);

  Random& random_;
  RandomMessages& messages_;
  Scenario& scenario_;
  const bool faulty_, roams_;
  RandomStanding standing_;
};

}  // namespace lanyard::nicsim

#endif  // LANYARD_NICSIM_DETERMINISTIC_RANDOM_PROGRAM_H_
