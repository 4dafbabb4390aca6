// What random_config.cc draws, RandomMessages, and what random_program.cc makes of it: the programs.
//
// An epoch is the same on all ranks: which messages go.
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

// One side of a message, as far as its rank's program has come with it.
struct RequestPlan {
  RequestName request;
  MessageName message;
  bool ready = false;
  bool checked = false;  // packed before each start, or unpacked after each wait
  bool gaps = false;     // in its buffer
  bool soon = false;     // of a ready pair either of which may be started by graphs or kernels
  bool may_stand = false;
  uint32_t queue = 0;
  bool under_way = false;  // started and not waited for
  bool matching = false;   // and not known to be matched
  bool started = false;    // since it was matched
  bool gone = false;       // freed
  bool standing = false;   // started by graphs or kernels

  bool is_ready_send() const { return ready && !request.receive(); }
  // The kernels that it needs, where it needs them; the receive's on the queue that the host is at.
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
  // Waits if it is under way, and unpacks.
  void wait_for(HostProgram& host) {
    if (!std::exchange(under_way, false))
      return;
    host.on(queue).wait({request});
    unpack(host);
  }
};

// A request that is matched, by whoever is there, and never started.
struct IdleRequest {
  RequestName request;
  uint32_t rank = 0;
  uint32_t first = 0, last = 0;  // epochs in which it is matched and withdrawn; where the last one is none, it stays
};

// A message that is too long for its receive, and is matched beside another one's with the same tag.
struct ShortMessage {
  MessageName name;
  size_t beside = 0;  // the message
};

// Who sends what to whom in a random program, which of that the program itself matches, in which epochs a message is
// there, and in which it goes; with requests that are never started.
struct RandomMessages {
  // Messages of so many ranks. `stands`: graphs and kernels start some requests, and all messages go in every epoch, so
  // that a graph may start any. `random` outlives it.
  RandomMessages(Random& random, uint32_t ranks, bool stands) : random(random), stands(stands), plans(ranks) {}

  // Adds messages to `scenario`.
  void draw(Scenario& scenario, const WorldOptions& world);
  // Which are matched by the programs, and from which epoch to which they are there.
  void draw_lives(uint32_t epochs, bool faulty);
  // Adds messages of which one side alone is there, or both come and go as they like, where no wildcard takes them.
  void draw_idle(Scenario& scenario, uint32_t epochs);
  // Adds messages that are too long for their receives, likewise.
  void draw_short(Scenario& scenario);
  // Which go in that epoch: of what is there, one at least.
  void draw_going(uint32_t epoch);
  // Some, each with that chance in percent.
  std::vector<bool> choose(uint32_t chance) const;
  size_t count() const { return going.size(); }

  Random& random;
  const bool stands;
  std::vector<uint32_t> queues;                 // by rank: how many
  std::vector<std::vector<RequestPlan>> plans;  // by rank, in the order of messages
  std::vector<bool> going;                      // by message: in this epoch
  std::vector<bool> own;                        // by message: programs match it
  std::vector<std::pair<uint32_t, uint32_t>>
      lives;  // by message: it is there from the first to before the second epoch
  std::vector<IdleRequest> idle;
  std::vector<ShortMessage> too_short;

 private:
  void draw_wildcards(const std::vector<std::pair<uint32_t, uint32_t>>& ends, std::vector<MessageOptions>& all);
  bool is_there(size_t message, uint32_t epoch) const {
    return epoch >= lives[message].first && epoch < lives[message].second;
  }
};

// The host programs of an exchange whose messages have been drawn, in so many epochs. `faulty`: operations fail or
// processes die. `roams`: requests may go from one queue to another.
void draw_program(Random& random, RandomMessages& messages, Scenario& scenario, uint32_t epochs, bool faulty,
                  bool roams);

}  // namespace lanyard::nicsim

#endif  // LANYARD_NICSIM_DETERMINISTIC_RANDOM_PROGRAM_H_
