// Process: one rank of a World: its host program, streams, NIC and the shipped core.
#ifndef LANYARD_NICSIM_DETERMINISTIC_PROCESS_H_
#define LANYARD_NICSIM_DETERMINISTIC_PROCESS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "nicsim/deterministic/card_mail.h"
#include "nicsim/deterministic/oracles/shadow_nic.h"
#include "nicsim/deterministic/scenario.h"
#include "nicsim/deterministic/step_fabric.h"
#include "nicsim/deterministic/step_nic.h"
#include "nicsim/deterministic/step_stream.h"
#include "transport/core/endpoint.h"
#include "transport/core/match_queues.h"
#include "transport/core/matcher.h"
#include "transport/core/queue.h"
#include "transport/cxi/ofi_nic.h"

namespace lanyard::nicsim {

// Brings a process its matching cards, each by a step of its own: in order from any one sender, and from several in
// any order. Not used where the process has a CardMail.
class Mailbox final : public core::Courier {
 public:
  Mailbox(World& world, uint32_t rank) : world_(world), rank_(rank) {}

  Status send(uint32_t nic, const core::MatchCard& card, const gpu::LaneOffer* lane) override;
  std::optional<std::string> why_unreachable(uint32_t nic) const override;
  std::optional<core::MatchCard> receive() override;

  std::span<const core::MatchCard> under_way() const { return under_way_; }
  // Processes with cards under way, and the oldest card of the one that stands `which`th among them arrives. Requires
  // that the last one has been received.
  uint32_t senders() const;
  void arrive(uint32_t which);
  // What that process has sent and has not arrived never will.
  void lose(uint32_t sender);
  // Sends that were offered to this process and not withdrawn, whatever was matched with them; in order of one process.
  struct Offer {
    uint32_t from = 0;
    uint64_t send = 0;
  };
  std::span<const Offer> offers() const { return offers_; }

 private:
  World& world_;
  const uint32_t rank_;
  std::vector<core::MatchCard> under_way_;  // oldest first
  std::optional<core::MatchCard> arrived_;
  std::vector<Offer> offers_;
};

struct Process {
  // A stream with its queue.
  struct QueuedStream {
    StepStream stream;
    std::unique_ptr<core::Queue> queue;
  };

  // The driver for Slingshot, between the core and the NIC.
  struct Driver {
    Driver(World& world, StepNic& card, uint32_t rank) : fabric(world, card, rank) {}

    StepFabric fabric;
    std::unique_ptr<ofi::OfiNic> nic;
    bool idle = true;  // it could do nothing; whatever changes lets it try again
  };

  Process(World& world, const HostProgram& host, uint32_t rank, uint32_t ranks, const ModelLimits& limits,
          core::Endpoint::Options options)
      : rank(rank),
        program(host.actions()),
        nic(world, rank, ranks, limits),
        driver(open_driver(world, nic, rank, limits)),
        endpoint(card(), rank, options),
        card_mail(open_card_mail(world, nic, endpoint, rank, ranks)),
        mail(world, rank),
        own_matcher(endpoint, mail),
        matcher(card_mail == nullptr ? own_matcher : card_mail->plane().matcher()),
        shadow(limits),
        ring_values(limits.max_counters, 1),
        cut_off(ranks) {}

  // Null where the world has none.
  static std::unique_ptr<Driver> open_driver(World& world, StepNic& nic, uint32_t rank, const ModelLimits& limits);
  static std::unique_ptr<CardMail> open_card_mail(World& world, StepNic& nic, core::Endpoint& endpoint, uint32_t rank,
                                                  uint32_t ranks);
  // What the core has for its NIC.
  nic::Nic& card() { return driver == nullptr ? static_cast<nic::Nic&>(nic) : *driver->nic; }
  const nic::Nic& card() const { return driver == nullptr ? static_cast<const nic::Nic&>(nic) : *driver->nic; }

  uint64_t failures() const { return driver == nullptr ? nic.failures() : driver->nic->failures(); }
  uint64_t lost_peers() const { return driver == nullptr ? nic.lost_peers() : driver->nic->lost_peers(); }

  // Whether that process is known to have ended: to its NIC, to the driver, or, as an operation of it has failed, to
  // the control channel.
  bool has_lost(uint32_t peer) const {
    return nic.is_lost(peer) || card().is_lost(peer) || (card_mail != nullptr && card_mail->plane().lost(peer));
  }

  // Its core has opened that counter of its NIC's.
  void opened(nic::CounterId counter, nic::CounterValue value) {
    shadow.opened(counter.value, value);
    ring_values[counter.value] = 1;
  }

  const uint32_t rank;
  const std::span<const Action> program;
  StepNic nic;
  const std::unique_ptr<Driver> driver;
  core::Endpoint endpoint;
  std::unique_ptr<CardMail> card_mail;  // null where messages of the control channel are handed over
  Mailbox mail;
  core::Matcher own_matcher;
  core::Matcher& matcher;  // that, or the control plane's
  ShadowNic shadow;
  std::vector<uint32_t> ring_values;  // what one ring of a counter adds to it
  std::vector<bool> cut_off;          // by rank: something that its control channel wrote there has failed
  std::vector<std::unique_ptr<QueuedStream>> streams;
  std::vector<uint32_t> requests;                // RequestName::index by the core's number for it, less 1
  std::vector<core::WordPool::Word> done_words;  // likewise, of freed ones too
  std::vector<nic::RemoteKey> counted_words;     // likewise: Scenario::counted_done of the core's exchange

  bool killed = false;  // none of its agents will go again; its memory is nobody's
  size_t next_action = 0;
  size_t next_free = 0;             // of the requests of its action, a kFree: those before are freed
  uint64_t untraced = 0;            // failures that it was told of without a request's name
  uint64_t orphaned = 0;            // failures of requests that it freed before it was told: of these it must be
  bool gave_up = false;             // was told that an operation failed, and ended its program
  uint64_t failures_seen = 0;       // its NIC's, when it last looked for some
  size_t asked = SIZE_MAX;          // the action that is a MPIX_Queue_wait which was called
  uint64_t failures_announced = 0;  // ... when it last told the other sides
  bool knows_nothing = false;       // ... it could not answer who asks it; whatever changes lets it try again
  bool hears_of_failures = false;   // another process has told it of some, and it has not looked since
  // How often it looked for what waits for lost peers since its NIC lost one: the first look leaves time for what the
  // peer's last message has set going. Something standing that is rung is a reason to look once more.
  uint32_t looks = 0;
  std::vector<uint32_t> unfound;  // ranks that have been killed, of which its NIC is still to find out
  bool wants_room = false;        // its action found no room; whatever changes lets it try again
  bool waits_in_vain = false;     // ... its MPIX_Queue_wait found nothing new
  uint64_t standing_done = 0;     // iterations of its standing requests that had completed when it last kept up
  bool kept_up = true;            // it handed over all that was due then
  bool overflow_idle = false;     // its overflow could do nothing; whatever changes lets it try again
  std::vector<uint32_t> firing;   // counters with entries that are ready, whose agents are enabled
  std::vector<core::Request*> scratch;
};

}  // namespace lanyard::nicsim

#endif  // LANYARD_NICSIM_DETERMINISTIC_PROCESS_H_
