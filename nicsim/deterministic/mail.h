// What the processes of a World tell each other. Mailbox: matching cards, handed over. CardMail: the
// same and more by the card, through the shipped control plane.
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

// Brings a process its matching cards, each by a step of its own: in order from any one sender, and from several in
// any order. Not used where the process has a CardMail.
class Mailbox final : public core::Courier {
 public:
  Mailbox(World& world, uint32_t rank) : world_(world), rank_(rank) {}

  Status send(uint32_t nic, const core::MatchCard& card, const gpu::LaneOffer* lane) override;
  std::optional<std::string> why_unreachable(uint32_t nic) const override;
  std::optional<core::MatchCard> receive() override;

  // By sender, oldest first; none is empty.
  using Cards = std::map<uint32_t, std::deque<core::MatchCard>>;
  const Cards& under_way() const { return under_way_; }
  // The oldest card of the `which`th sender arrives. Requires that the last one has been received.
  void arrive(uint32_t which);
  // What that process has sent and has not arrived never will.
  void lose(uint32_t sender) { under_way_.erase(sender); }
  // Sends that were offered to this process and not withdrawn, whatever was matched with them; in order of one process.
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

// The shipped control plane over the process's NIC. Beside matching cards there are questions, so that there is mail in
// every world, of all lengths at which something changes for the channel; there are books on each of these.
//
// Kills: messages that are lost, doubled, swapped or put together wrongly; slots that are used again too early; credits
// that are not given back, or given twice; counters and regions that the channel leaves open; cards that are not sent.
class CardMail {
 public:
  // Operations of one link that are under way at most, and what the channel needs of its NIC.
  static constexpr uint32_t kSlots = 4, kInFlight = 3 * kSlots, kCounters = 1;
  static uint32_t regions_for(uint32_t ranks) { return 1 + ranks; }
  // Of a slot, which goes in one write.
  static constexpr uint64_t kLeastMessageBytes = 256;

  // All but the numbers outlive it.
  CardMail(World& world, nic::Nic& nic, core::Endpoint& endpoint, uint32_t rank, uint32_t ranks);

  core::ControlPlane& plane() { return *plane_; }
  const core::ControlPlane& plane() const { return *plane_; }
  // The world begins to run: there are questions from now on.
  void begin() { questions_ = kQuestions; }
  // What the control thread does: asks a question, if there is one left; takes in and hands on. A question that is not
  // what was asked is a finding.
  void look();
  // Whether look() may find something to do.
  bool wants_to_look() const;
  // Its card has room again, or bytes have come; or it has just found nothing more to do.
  void wake() { idle_ = false; }
  void rest() { idle_ = true; }
  // An operation has been counted.
  void counted(uint32_t counter);
  // A message of the other end, or news of one, is in this one's memory.
  void landed(uint32_t from, bool slot) { ++(slot ? links_[from].slots : links_[from].sums); }
  // The card has found out that a peer has ended.
  void has_lost() { lost_ = true; }

  // What is wrong where nothing moves any more; nothing where every message between living processes has arrived and
  // every credit has come back.
  std::optional<std::string> what_is_stuck() const;
  // The process ends. What is wrong with what the channel leaves behind; or nothing.
  std::optional<std::string> close();

 private:
  // What the channel has open on its NIC.
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
    std::deque<std::vector<std::byte>> under_way;  // that have been sent and not received
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
  core::ControlChannel* channel_ = nullptr;  // the plane's
  nic::CounterId arrivals_;
  std::vector<Link> links_;  // to and from one process
  bool lost_ = false;        // a peer since the last look
  uint32_t questions_ = 0;   // to be asked
  bool idle_ = false;
};

}  // namespace lanyard::nicsim

#endif  // LANYARD_NICSIM_DETERMINISTIC_MAIL_H_
