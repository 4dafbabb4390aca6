// Lowering: turns the MPI calls of a step into the work of host, stream and NIC, by means
// of the shipped protocol.
//
// Nothing of the protocol is written here a second time. An Endpoint and Queue of transport/core
// get a NIC and a stream that only record. They make the step's starts and waits three times. The
// first two passes show how thresholds grow, and the third confirms it.
#ifndef LANYARD_NICSIM_MODELLED_LOWERING_H_
#define LANYARD_NICSIM_MODELLED_LOWERING_H_

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "nicsim/modelled/job.h"
#include "transport/base/status.h"
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

// Builds one rank's step in the order of its stream.
class StepBuilder {
 public:
  StepBuilder(core::Strategy strategy, bool exchange) {
    step_.strategy = strategy;
    step_.exchange = exchange;
  }

  // Adds a request. `link` is its matched request. Returns the request's number.
  uint32_t send(uint64_t bytes, bool ready, Link link) { return add({core::Direction::kSend, ready, bytes}, link); }
  uint32_t receive(uint64_t bytes, bool ready, Link link) {
    return add({core::Direction::kReceive, ready, bytes}, link);
  }
  void kernel(Picoseconds cost) { step_.actions.push_back({Action::Kind::kKernel, cost, {}}); }
  void start(std::vector<uint32_t> requests) {
    step_.actions.push_back({Action::Kind::kStart, 0, std::move(requests)});
  }
  void wait(std::vector<uint32_t> requests) { step_.actions.push_back({Action::Kind::kWait, 0, std::move(requests)}); }

  // Makes this rank the peer of all requests.
  void set_peer_rank(uint32_t rank) {
    for (Link& link : links_)
      link.rank = rank;
  }

  const Step& step() const { return step_; }
  const std::vector<Link>& links() const { return links_; }

 private:
  uint32_t add(const Message& message, Link link) {
    step_.requests.push_back(message);
    links_.push_back(link);
    return static_cast<uint32_t>(links_.size() - 1);
  }

  Step step_;
  std::vector<Link> links_;
};

// Lowers each kind of step once.
class JobBuilder {
 public:
  JobBuilder(const Costs& costs, const Placement& placement) {
    job_.costs = costs;
    job_.placement = placement;
  }

  // Adds the next rank. Errors as lower().
  Status add(const StepBuilder& builder) {
    auto known = std::find(steps_.begin(), steps_.end(), builder.step());
    if (known == steps_.end()) {
      LANYARD_ASSIGN_OR_RETURN(Program program, lower(builder.step()));
      price(program, job_.costs);
      job_.programs.push_back(std::move(program));
      steps_.push_back(builder.step());
      known = steps_.end() - 1;
    }
    job_.program_of.push_back(static_cast<uint32_t>(known - steps_.begin()));
    job_.first_link.push_back(static_cast<uint32_t>(job_.links.size()));
    job_.links.insert(job_.links.end(), builder.links().begin(), builder.links().end());
    return {};
  }
  Job take() { return std::move(job_); }

 private:
  Job job_;
  std::vector<Step> steps_;  // by program of job_
};

}  // namespace lanyard::modelled

#endif  // LANYARD_NICSIM_MODELLED_LOWERING_H_
