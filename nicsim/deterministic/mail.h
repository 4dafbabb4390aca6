// How the processes of a World talk to each other. Mailbox hands over match cards. CardMail sends
// these and more over the NIC, through the shipped control plane.
#ifndef LANYARD_NICSIM_DETERMINISTIC_MAIL_H_
#define LANYARD_NICSIM_DETERMINISTIC_MAIL_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "transport/core/control_channel.h"
#include "transport/core/control_plane.h"
#include "transport/core/endpoint.h"
#include "transport/core/match_queues.h"
#include "transport/core/matcher.h"
#include "transport/nic/nic.h"

namespace lanyard::nicsim {

class World;

// Delivers match cards to a process, each by a step of its own: in order from one sender, in any
// order from several. Not used if the process has a CardMail.
class Mailbox final : public core::Courier {
 public:
  Mailbox(World& world, uint32_t rank) : world_(world), rank_(rank) {}

  Status send(uint32_t nic, const core::MatchCard& card, const gpu::LaneOffer* lane) override;
  std::optional<std::string> why_unreachable(uint32_t nic) const override;
  std::optional<core::MatchCard> receive() override;

  // By sender, oldest first. No queue is empty.
  using Cards = std::map<uint32_t, std::deque<core::MatchCard>>;
  const Cards& under_way() const { return under_way_; }
  // The oldest card of the `which`th sender arrives. Requires that the last one has been received.
  void arrive(uint32_t which);
  // Drops the cards of this sender that have not arrived.
  void lose(uint32_t sender) { under_way_.erase(sender); }
  // Sends offered to this process and not withdrawn, matched or not. One peer's are in order.
  struct Offer {
    uint32_t from = 0;
    uint64_t send = 0;
  };
  std::span<const Offer> offers() const { return offers_; }

 private:
  World& world_;
  const uint32_t rank_;
  Cards under_way_;
  std::optional<core::MatchCard> arrived_;
  std::vector<Offer> offers_;
};

// The shipped control plane over the process's NIC. Besides match cards it sends and checks
// questions (test messages), so that every world has mail. Their lengths cover all cases of the
// channel.
//
// Kills: messages lost, doubled, swapped or put together wrongly; slots reused too early; credits
// not returned, or returned twice; counters and regions left open; match cards not sent.
class CardMail {
 public:
  // kInFlight: operations of one link in flight at most. kCounters, regions_for(): what it opens.
  static constexpr uint32_t kSlots = 4, kInFlight = 3 * kSlots, kCounters = 1;
  static uint32_t regions_for(uint32_t ranks) { return 1 + ranks; }
  // The bytes of a slot, which goes in one write.
  static constexpr uint64_t kLeastMessageBytes = 256;

  // `world`, `nic` and `endpoint` outlive it.
  CardMail(World& world, nic::Nic& nic, core::Endpoint& endpoint, uint32_t rank, uint32_t ranks);

  core::ControlPlane& plane() { return *plane_; }
  const core::ControlPlane& plane() const { return *plane_; }
  // The world begins to run: questions are sent from now on.
  void begin() { questions_ = kQuestions; }
  // One look of the control thread: sends a question if one is left, then makes progress. A
  // question that arrives changed or out of order is a finding.
  void look();
  // True if look() may find something to do.
  bool wants_to_look() const;
  // wake(): the NIC has room again, or bytes have landed. rest(): look() has done all it could.
  void wake() { idle_ = false; }
  void rest() { idle_ = true; }
  // This counter of the NIC has counted an operation that landed.
  void counted(uint32_t counter);
  // A slot, or else an addition to a word, of process `from` has landed here.
  void landed(uint32_t from, bool slot) { ++(slot ? links_[from].slots : links_[from].sums); }
  // The NIC has found out that a peer has ended.
  void has_lost() { lost_ = true; }

  // Called when nothing moves any more. Returns what is wrong; nothing if every message between
  // living processes has arrived and every credit has come back.
  std::optional<std::string> what_is_stuck() const;
  // Closes the channel. Returns what it leaves open; nothing if all is closed.
  std::optional<std::string> close();

 private:
  // Counts what the channel has open on its NIC.
  class Lent final : public nic::ForwardingNic {
   public:
    using ForwardingNic::ForwardingNic;
    Result<nic::CounterId> open_counter() override { return count(counters, 1, ForwardingNic::open_counter()); }
    Status close_counter(nic::CounterId counter) override {
      return count(counters, -1, ForwardingNic::close_counter(counter));
    }
    Result<nic::RegionId> register_region(void* base, uint64_t bytes, nic::CounterId remote_write) override {
      return count(regions, 1, ForwardingNic::register_region(base, bytes, remote_write));
    }
    Status deregister_region(nic::RegionId region) override {
      return count(regions, -1, ForwardingNic::deregister_region(region));
    }
    template <typename T>
    static T count(int& open, int change, T result) {
      open += result.ok() ? change : 0;
      return result;
    }
    int counters = 0, regions = 0;
  };
  struct Link {
    uint64_t sent = 0;                             // questions
    std::deque<std::vector<std::byte>> under_way;  // questions sent and not received
    uint64_t received = 0;                         // questions
    uint64_t slots = 0, sums = 0;                  // that have landed here
  };
  static constexpr uint32_t kQuestions = 4;

  void ask(uint32_t to);
  void hear(uint32_t from, std::span<const std::byte> question);

  World& world_;
  const uint32_t rank_, ranks_;
  Lent nic_;
  std::vector<uint64_t> memory_;
  std::unique_ptr<core::ControlPlane> plane_;
  core::ControlChannel* channel_ = nullptr;  // owned by plane_
  nic::CounterId arrivals_;
  std::vector<Link> links_;  // by rank
  bool lost_ = false;        // a peer was lost since the last look
  uint32_t questions_ = 0;   // still to be sent
  bool idle_ = false;
};

}  // namespace lanyard::nicsim

#endif  // LANYARD_NICSIM_DETERMINISTIC_MAIL_H_
