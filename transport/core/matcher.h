// Matching: pairs persistent requests for good, by MPI's rules, over a Courier.
//
// A sender offers its send to the receiver's process, which pairs offers with posted receives in order: an offer with
// the oldest posted receive that it fits, a receive with the oldest waiting offer (communicator, source, tag; wildcards
// are the receiver's). The receiver answers with the key of its buffer, or with its length where the message is longer.
// Threads: see Endpoint.
#ifndef LANYARD_TRANSPORT_CORE_MATCHER_H_
#define LANYARD_TRANSPORT_CORE_MATCHER_H_

#include <list>
#include <string>

#include "transport/core/endpoint.h"
#include "transport/core/match_card.h"

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
  // Tells the other sides of requests of which operations have failed.
  void tell_failures();
  // What matches with this process only, which is not there any more, fails.
  void lose_peer(uint32_t nic, const std::string& why);

  // The oldest offer to this process from that NIC and in that communicator that no receive was posted for yet; null if
  // there is none. For reports.
  const MatchCard* unmatched_offer(uint32_t from_nic, uint64_t communicator) const;
  // The receives that wait for an offer, oldest first.
  const std::list<Request*>& posted() const { return posted_; }

 private:
  void handle(const MatchCard& card);
  void pair(Request& receive, const MatchCard& offer);
  void accepted(const MatchCard& card);
  void rejected(const MatchCard& card);
  void withdrawn(const MatchCard& card);
  void ended(const MatchCard& card);
  Request* matching_send(const MatchCard& card);

  Endpoint& endpoint_;
  Courier& courier_;
  std::list<Request*> posted_;   // receives, oldest first
  std::list<MatchCard> offers_;  // of sends that no receive was posted for yet, oldest first
};

}  // namespace lanyard::core

#endif  // LANYARD_TRANSPORT_CORE_MATCHER_H_
