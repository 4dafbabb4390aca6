// Lowering: from what a program of MPI calls says to what host, stream and card do, by the shipped protocol.
//
// Nothing of the protocol is written down here a second time. A process of it (transport/core: Endpoint, Queue) gets a
// card and a stream that only record, makes the step's starts and waits three times, and what it posted and enqueued
// becomes the program: twice to see by how much thresholds grow, a third time to see that they go on so.
#ifndef LANYARD_NICSIM_MODELLED_LOWERING_H_
#define LANYARD_NICSIM_MODELLED_LOWERING_H_

#include <cstdint>
#include <vector>

#include "nicsim/modelled/program.h"
#include "transport/base/status.h"
#include "transport/core/strategy.h"
#include "transport/core/transfer.h"

namespace lanyard::modelled {

// One side of a matched pair.
struct Message {
  core::Direction direction = core::Direction::kSend;
  bool ready = false;  // the pair is a ready send's
  uint64_t bytes = 0;
  friend bool operator==(const Message&, const Message&) = default;
};

// One thing that a step does, in the order of the stream.
struct Action {
  enum class Kind : uint8_t { kKernel, kStart, kWait };
  Kind kind = Kind::kKernel;
  Picoseconds cost = 0;            // kKernel
  std::vector<uint32_t> requests;  // kStart, kWait
  friend bool operator==(const Action&, const Action&) = default;
};

struct Step {
  std::vector<Message> requests;
  std::vector<Action> actions;
  core::Strategy strategy = core::Strategy::kTargetCounter;
  bool exchange = false;  // what is started by one call is an exchange
  uint64_t max_message_bytes = uint64_t{1} << 30;
  friend bool operator==(const Step&, const Step&) = default;
};

// Without costs but those of the kernels. The protocol's own errors, of starts and waits that it refuses.
Result<Program> lower(const Step& step);

}  // namespace lanyard::modelled

#endif  // LANYARD_NICSIM_MODELLED_LOWERING_H_
