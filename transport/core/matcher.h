// Matching: pairs persistent requests for good, by MPI's rules, over a Courier.
//
// A sender offers its send to the receiver's process, which pairs offers with posted receives in order: an offer with
// the oldest posted receive that it fits, a receive with the oldest waiting offer (communicator, source, tag; wildcards
// are the receiver's). The receiver answers with the key of its buffer, or with its length where the message is longer.
// After that the two sides tell each other of failures and of the end (api/doc/protocol.md, P3 and P14).
// Threads: see Endpoint.
#ifndef LANYARD_TRANSPORT_CORE_MATCHER_H_
#define LANYARD_TRANSPORT_CORE_MATCHER_H_

#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "transport/core/endpoint.h"
#include "transport/core/match_queues.h"

namespace lanyard::core {

class Matcher {
 public:
  // Both outlive it.
  Matcher(Endpoint& endpoint, Courier& courier) : endpoint_(endpoint), courier_(courier) {}

  // Starts to match a fresh request; its state tells what came of it (kMatched; or kFresh again, with match_error).
  // kInvalidState where it is not fresh; kExhausted: out of NIC resources; kFailed: its peer has ended. A request with
  // kNobody is matched at once.
  Status begin(Request& request);
  // Makes progress; returns how many cards were dealt with. Never blocks.
  size_t progress();
  // Gives up the match of a request that is matching, which is then fresh again. Where the peer pairs its side with it
  // at this very moment, that side stays matched to nobody.
  void withdraw(Request& request);
  // Endpoint::free_request(), and the other side of the pair hears of it.
  Status free(Request& request);
  // Tells the other sides of requests of which operations have failed; asks senders whether what they sent went well,
  // and answers those who ask.
  void talk();
  // Of how many sends somebody waits to hear how they ended: nobody may wake this process when it knows.
  size_t owes() const { return answers_.size() + partings_.size(); }
  // What matches with this process only, which is not there any more, fails.
  void lose_peer(uint32_t nic, const std::string& why);

  // The oldest offer to this process from that NIC and in that communicator that no receive was posted for yet; null if
  // there is none. For reports.
  const MatchCard* unmatched_offer(uint32_t from_nic, uint64_t communicator) const {
    return offers_.oldest_of(from_nic, communicator);
  }
  const PostedQueue& posted() const { return posted_; }

 private:
  struct Parting {
    uint32_t peer = 0;
    MatchCard card;
  };

  // Of the kinds that say the two numbers of a pair.
  MatchCard make_card(MatchCard::Kind kind, uint64_t writer, uint64_t reader, uint64_t starts = 0) const;
  std::optional<MatchCard> last_card(const Request& request) const;
  void handle(const MatchCard& card);
  // `lane`: what came with the offer; null: nothing.
  void pair(Request& receive, const MatchCard& offer, const gpu::LaneOffer* lane);
  // Whether the message is going by a lane: then this side's stands in `mine`.
  bool connect(Request& receive, const MatchCard& offer, const gpu::LaneOffer* theirs, gpu::LaneOffer& mine);
  // The receive is matched with what was offered.
  void conclude(Request& receive, const MatchCard& offer);
  // What the senders have to say of lanes that this process offered them: null where the receive was withdrawn since.
  Request* take_unconfirmed(uint64_t receive, uint32_t from_nic, uint64_t send);
  void confirmed(const MatchCard& card);
  // Of an offer without a lane in place of one with: whether that one's receive was still there.
  bool fall_back(const MatchCard& offer);
  void refuse(Request& receive, const MatchCard& offer, Status why);
  void accepted(const MatchCard& card);
  void rejected(const MatchCard& card);
  void withdrawn(const MatchCard& card);
  void ended(const MatchCard& card);
  void tell_parted(const Endpoint::Parted& lane);
  void tell_parted();
  Request* matching_send(const MatchCard& card);
  Request* matched_with(const MatchCard& card);
  void tell_failures();
  void ask(Request& receive);
  void asked(const MatchCard& card);
  // The two say whether that is done with: a send that was asked about, and one that was freed.
  bool answer(uint64_t number);
  bool part(Parting& parting);

  Endpoint& endpoint_;
  Courier& courier_;
  PostedQueue posted_;
  OfferQueue offers_;
  // Receives whose senders have not said yet whether they connect to the lane, with the offers: by number.
  std::unordered_map<uint64_t, MatchCard> unconfirmed_;
  std::vector<uint32_t> unreachable_;  // peers that may go on writing to lanes' ends here
  std::vector<uint64_t> answers_;      // numbers of sends that were asked about
  std::vector<Parting> partings_;      // of sends that were freed before it was known how they ended
};

}  // namespace lanyard::core

#endif  // LANYARD_TRANSPORT_CORE_MATCHER_H_
