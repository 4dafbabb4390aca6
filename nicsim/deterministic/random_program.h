// The messages of a random program (random_config.cc) and the host programs for them
// (random_program.cc). A program has epochs. In each one some messages go: both sides start them.
#ifndef LANYARD_NICSIM_DETERMINISTIC_RANDOM_PROGRAM_H_
#define LANYARD_NICSIM_DETERMINISTIC_RANDOM_PROGRAM_H_

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "nicsim/deterministic/chooser.h"
#include "nicsim/deterministic/scenario.h"
#include "nicsim/deterministic/world.h"

namespace lanyard::nicsim {

// One side of a message, and its state at the end of its rank's program so far.
struct RequestPlan {
  RequestName request;
  MessageName message;
  bool ready = false;
  bool checked = false;  // packed before each start, or unpacked after each wait
  bool gaps = false;     // in its buffer
  bool soon = false;     // of a ready pair that may stand: its send starts before any wait for standing requests
  bool may_stand = false;
  uint32_t queue = 0;
  bool under_way = false;  // started and not waited for
  bool matching = false;   // its match has begun and is not known to have ended
  bool started = false;    // since it was matched
  bool gone = false;       // freed
  bool standing = false;   // started by graphs or kernels

  bool is_ready_send() const { return ready && !request.receive(); }
  // Append the kernels that it needs, on its queue; unpack() on the host's current queue.
  void pack(HostProgram& host) const {
    if (checked && !request.receive())
      host.on(queue).pack(message);
  }
  void promise(HostProgram& host) const {
    if (ready && request.receive())
      host.on(queue).promise(message);
  }
  void unpack(HostProgram& host) const {
    if (checked && request.receive())
      host.unpack(message);
  }
  // If it is under way, appends its wait, then unpack().
  void wait_for(HostProgram& host) {
    if (!std::exchange(under_way, false))
      return;
    host.on(queue).wait({request});
    unpack(host);
  }
};

// A request that is never started. It is matched if its other side exists.
struct IdleRequest {
  RequestName request;
  uint32_t rank = 0;
  uint32_t first = 0, last = 0;  // epochs of kMatch and kWithdraw; not withdrawn if `last` is after the last epoch
};

// A message that is too long for its receive. It is matched beside another one with the same tag.
struct ShortMessage {
  MessageName name;
  size_t beside = 0;  // index of the other message
};

// The messages of a random program: their ends and lengths, those that the program matches, and the
// epochs in which each exists and goes. Also requests that are never started.
struct RandomMessages {
  // `stands`: graphs and kernels start some requests. Then every message goes in every epoch, so a
  // graph may start any. `random` must outlive it.
  RandomMessages(Random& random, uint32_t ranks, bool stands) : random(random), stands(stands), plans(ranks) {}

  // Adds messages to `scenario`.
  void draw(Scenario& scenario, const WorldOptions& world);
  // Draws which messages the programs match, and in which epochs each exists.
  void draw_lives(uint32_t epochs, bool faulty);
  // May add messages with one or two IdleRequests, unless there are wildcards.
  void draw_idle(Scenario& scenario, uint32_t epochs);
  // May add ShortMessages, likewise.
  void draw_short(Scenario& scenario);
  // Draws which existing messages go in the epoch: at least one if all exist.
  void draw_going(uint32_t epoch);
  // Chooses each message with this chance in percent.
  std::vector<bool> choose(uint32_t chance) const;
  size_t count() const { return going.size(); }

  Random& random;
  const bool stands;
  std::vector<uint32_t> queues;                 // by rank: their number
  std::vector<std::vector<RequestPlan>> plans;  // by rank, in the order of messages
  std::vector<bool> going;                      // by message: it goes in this epoch
  std::vector<bool> own;                        // by message: programs match it
  // By message: it exists from the first epoch to before the second.
  std::vector<std::pair<uint32_t, uint32_t>> lives;
  std::vector<IdleRequest> idle;
  std::vector<ShortMessage> too_short;

 private:
  void draw_wildcards(const std::vector<std::pair<uint32_t, uint32_t>>& ends, std::vector<MessageOptions>& all);
  bool is_there(size_t message, uint32_t epoch) const {
    return epoch >= lives[message].first && epoch < lives[message].second;
  }
};

// Appends the host programs for the drawn messages, with this many epochs. `faulty`: operations
// fail or processes die. `roams`: requests may move to another queue.
void draw_program(Random& random, RandomMessages& messages, Scenario& scenario, uint32_t epochs, bool faulty,
                  bool roams);

}  // namespace lanyard::nicsim

#endif  // LANYARD_NICSIM_DETERMINISTIC_RANDOM_PROGRAM_H_
