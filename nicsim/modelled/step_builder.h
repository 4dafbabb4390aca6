// StepBuilder builds one rank's step in the order of its stream. JobBuilder lowers each kind of
// step once. add_halo() adds the messages of a halo.
#ifndef LANYARD_NICSIM_MODELLED_STEP_BUILDER_H_
#define LANYARD_NICSIM_MODELLED_STEP_BUILDER_H_

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "nicsim/modelled/job.h"
#include "nicsim/modelled/lowering.h"

namespace lanyard::modelled {

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
      Result<Program> program = lower(builder.step());
      if (!program.ok())
        return program.status();
      price(program.value(), job_.costs);
      job_.programs.push_back(std::move(program.value()));
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

// A periodic grid of cells, divided among ranks.
struct Grid {
  int dimensions = 2;
  bool corners = true;  // also neighbours across edges and corners
  std::array<uint64_t, 3> cells = {1, 1, 1};
  std::array<uint32_t, 3> ranks = {1, 1, 1};

  std::array<uint32_t, 3> place(uint32_t rank) const;
  // The cells of that rank along each dimension.
  std::array<uint64_t, 3> extent(uint32_t rank) const;
  uint64_t cells_of(uint32_t rank) const;
  uint32_t size() const { return ranks[0] * ranks[1] * ranks[2]; }
};

// The messages of a rank: requests of the builder, sends first.
struct Halo {
  std::vector<uint32_t> requests;
  std::vector<uint64_t> sent, received;  // bytes, by message
};

// Requires that each rank's halo requests are its first ones.
Halo add_halo(StepBuilder& builder, const Grid& grid, uint32_t rank, bool ready);

}  // namespace lanyard::modelled

#endif  // LANYARD_NICSIM_MODELLED_STEP_BUILDER_H_
