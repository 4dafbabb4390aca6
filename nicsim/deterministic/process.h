// Process: one rank of a World: its host program, streams, NIC and the shipped core.
#ifndef LANYARD_NICSIM_DETERMINISTIC_PROCESS_H_
#define LANYARD_NICSIM_DETERMINISTIC_PROCESS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "nicsim/deterministic/exchange.h"
#include "nicsim/deterministic/oracles/shadow_nic.h"
#include "nicsim/deterministic/step_nic.h"
#include "nicsim/deterministic/step_stream.h"
#include "transport/core/endpoint.h"
#include "transport/core/match_card.h"
#include "transport/core/matcher.h"
#include "transport/core/queue.h"

namespace lanyard::nicsim {

// Carries matching cards while a world is built.
class Mailbox final : public core::Courier {
 public:
  explicit Mailbox(std::vector<std::unique_ptr<Mailbox>>& all) : all_(all) {}
  Status send(uint32_t nic, const core::MatchCard& card) override {
    all_[nic]->cards_.push_back(card);
    return {};
  }
  std::optional<core::MatchCard> receive() override {
    if (first_ == cards_.size())
      return std::nullopt;
    return cards_[first_++];
  }
  bool empty() const { return first_ == cards_.size(); }

 private:
  std::vector<std::unique_ptr<Mailbox>>& all_;
  std::vector<core::MatchCard> cards_;
  size_t first_ = 0;
};

struct Process {
  // A stream with its queue.
  struct Lane {
    StepStream stream;
    std::unique_ptr<core::Queue> queue;
  };

  Process(World& world, const HostProgram& host, uint32_t rank, uint32_t ranks, const ModelLimits& limits,
          core::Endpoint::Options options)
      : rank(rank),
        program(host.actions()),
        nic(world, rank, ranks, limits),
        endpoint(nic, rank, options),
        shadow(limits) {}

  const uint32_t rank;
  const std::span<const Action> program;
  StepNic nic;
  core::Endpoint endpoint;
  ShadowNic shadow;
  std::vector<std::unique_ptr<Lane>> lanes;
  std::vector<uint32_t> requests;  // RequestName::index by the core's number for it, less 1

  bool killed = false;  // none of its agents will go again; its memory is nobody's
  size_t next_action = 0;
  size_t next_free = 0;           // of the requests of its action, a kFree: those before are freed
  uint64_t untraced = 0;          // failures that it was told of without a request's name
  bool gave_up = false;           // was told that an operation failed, and ended its program
  bool wants_room = false;        // its action found no room; whatever changes lets it try again
  bool overflow_idle = false;     // its overflow could do nothing; whatever changes lets it try again
  std::vector<uint32_t> firing;   // counters with entries that are ready, whose agents are enabled
  std::vector<uint32_t> copying;  // counters whose copies' agents are enabled
  std::vector<core::Request*> scratch;
};

}  // namespace lanyard::nicsim

#endif  // LANYARD_NICSIM_DETERMINISTIC_PROCESS_H_
