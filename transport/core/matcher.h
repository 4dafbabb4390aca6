// Matcher: pairs persistent requests for their whole life, by MPI's rules, over a Courier.
//
// A sender offers its send to the receiver's process. There an offer is paired with the oldest
// posted receive that matches, and a receive with the oldest waiting offer. Communicator, source
// and tag must match; receives may have wildcards. The receiver answers with the key of its buffer,
// or with its length if the message is longer. Later the two sides tell each other when an
// operation fails or a request is freed (api/doc/protocol.md, P3 and P14). Threads: see Endpoint.
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
  // Both must outlive it.
  Matcher(Endpoint& endpoint, Courier& courier) : endpoint_(endpoint), courier_(courier) {}

  // Starts to match a fresh request. Its state tells when this ends: kMatched, or kFresh with
  // match_error. A request with kNobody is matched at once. kInvalidState: it is not fresh;
  // kExhausted: no NIC resources left; kFailed: its peer is lost.
  Status begin(Request& request);
  // Handles all cards that have arrived, and returns how many. Then as talk(). Never blocks.
  size_t progress();
  // Cancels the match of a request that is matching, which is then fresh again. If the peer matches
  // its side at the same time, that side stays matched, but its starts fail.
  void withdraw(Request& request);
  // As Endpoint::free_request(), and tells the other side of the pair.
  Status free(Request& request);
  // Sends the cards that are due: failures, questions to senders, answers, lanes that are gone.
  void talk();
  // The number of sends whose result a peer waits for. While it is not 0, call progress()
  // regularly: nothing else may wake this process when a result is known.
  size_t owes() const { return answers_.size() + partings_.size(); }
  // Handles the loss of a peer: fails the matches that need it.
  void lose_peer(uint32_t nic, const std::string& why);

  // For reports: the oldest unmatched offer of that NIC in that communicator, or null.
  const MatchCard* unmatched_offer(uint32_t from_nic, uint64_t communicator) const {
    return offers_.oldest_of(from_nic, communicator);
  }
  const PostedQueue& posted() const { return posted_; }

 private:
  struct Parting {
    uint32_t peer = 0;
    MatchCard card;
  };

  // Makes a card of a kind that has `writer` and `reader`.
  MatchCard make_card(MatchCard::Kind kind, uint64_t writer, uint64_t reader, uint64_t starts = 0) const;
  std::optional<MatchCard> last_card(const Request& request) const;
  void handle(const MatchCard& card);
  // `lane`: the lane offer that came with `offer`, or null.
  void pair(Request& receive, const MatchCard& offer, const gpu::LaneOffer* lane);
  // Connects to the sender's lane and sets `mine`. False if the message must go by the NIC.
  bool connect(Request& receive, const MatchCard& offer, const gpu::LaneOffer* theirs, gpu::LaneOffer& mine);
  // Binds the receive to the send of the offer: it is matched.
  void conclude(Request& receive, const MatchCard& offer);
  // Removes the receive from unconfirmed_ and returns it; null if it is not there with that sender.
  Request* take_unconfirmed(uint64_t receive, uint32_t from_nic, uint64_t send);
  void confirmed(const MatchCard& card);
  // True if `offer` replaces one with a lane and its receive still waits. Then answers it.
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
  // Sends a result if it is known. True if the entry of answers_ or partings_ is no longer needed.
  bool answer(uint64_t number);
  bool part(Parting& parting);

  Endpoint& endpoint_;
  Courier& courier_;
  PostedQueue posted_;
  OfferQueue offers_;
  // Receives that wait until their sender connects to the lane: their numbers, and the offers.
  std::unordered_map<uint64_t, MatchCard> unconfirmed_;
  std::vector<uint32_t> unreachable_;  // lost peers that may still write to our lanes
  std::vector<uint64_t> answers_;      // numbers of sends that a peer has asked about
  std::vector<Parting> partings_;      // of sends freed before their result was known
};

}  // namespace lanyard::core

#endif  // LANYARD_TRANSPORT_CORE_MATCHER_H_
