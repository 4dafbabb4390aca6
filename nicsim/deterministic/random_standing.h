// RandomStanding: the requests of a random program that stand: started by graphs, or by kernels of a set, not by hosts.
#ifndef LANYARD_NICSIM_DETERMINISTIC_RANDOM_STANDING_H_
#define LANYARD_NICSIM_DETERMINISTIC_RANDOM_STANDING_H_

#include <cstdint>
#include <vector>

#include "nicsim/deterministic/scenario.h"
#include "nicsim/deterministic/random.h"
#include "nicsim/deterministic/random_messages.h"

namespace lanyard::nicsim {

class RandomStanding {
 public:
  // Of messages that have been drawn. `random` and `messages` outlive it.
  RandomStanding(Random& random, RandomMessages& messages, uint32_t ranks, bool faulty);

  // Takes out of `first` and `soon` what goes by a graph or a kernel in this epoch, by queue: who went by a graph does
  // for ever. What a stream waits for there must not wait for anything behind it in its stream: its ready sends are
  // awaited before it, and its receives of such are promised before it waits. Then who waits for a promise of what
  // stands has a lower rank than who makes it, so that these waits are no circle. Buffers with gaps are refused there.
  // What is to stand must have completed.
  std::vector<std::vector<RequestPlan*>> take(HostProgram& host, uint32_t rank, std::vector<RequestPlan*>& first,
                                              std::vector<RequestPlan*>& soon);
  // Starts and waits for what was taken of a queue.
  void launch(HostProgram& host, uint32_t rank, uint32_t queue, const std::vector<RequestPlan*>& plans);
  // Before some of it is freed, or goes by its host again. Its stream has run all. Graphs are not launched again; of
  // those that are not freed the next graph starts those that it has.
  void end(HostProgram& host, uint32_t rank, uint32_t queue);

 private:
  // What starts the requests of a queue without its host: what was captured there last, or a set of kernels'.
  struct Standing {
    bool in_kernels = false;
    std::vector<RequestName> requests;  // none: nothing yet
  };

  std::vector<bool> draw_beginnings(HostProgram& host, uint32_t rank);
  bool stands_any(uint32_t rank, uint32_t queue);
  void launch_kernels(HostProgram& host, const Standing& standing, const std::vector<RequestPlan*>& plans);
  void capture(HostProgram& host, std::vector<RequestPlan*> plans);

  Random& random_;
  RandomMessages& messages_;
  const bool faulty_;
  std::vector<std::vector<Standing>> standing_;  // by rank and queue
};

}  // namespace lanyard::nicsim

#endif  // LANYARD_NICSIM_DETERMINISTIC_RANDOM_STANDING_H_
