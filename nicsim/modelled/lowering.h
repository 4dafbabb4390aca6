// Lowering: turns the MPI calls of a step into the work of host, stream and NIC, by means
// of the shipped protocol.
//
// Nothing of the protocol is written here a second time. An Endpoint and Queue of transport/core
// get a NIC and a stream that only record. They make the step's starts and waits three times. The
// first two passes show how thresholds grow, and the third confirms it.
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
  bool ready = false;  // the sender's side is a ready send
  uint64_t bytes = 0;
  friend bool operator==(const Message&, const Message&) = default;
};

// One action of a step, in the order of the stream.
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
  bool exchange = false;  // the requests of one start call are an exchange
  uint64_t max_message_bytes = uint64_t{1} << 30;
  friend bool operator==(const Step&, const Step&) = default;
};

// Sets the costs of kernels only. Returns the protocol's error if it refuses a start or wait.
Result<Program> lower(const Step& step);

}  // namespace lanyard::modelled

#endif  // LANYARD_NICSIM_MODELLED_LOWERING_H_
