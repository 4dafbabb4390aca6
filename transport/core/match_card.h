// What two processes tell each other of a pair: while it is matched, and when it has come to its end. Plain data of one
// size, carried by a Courier.
#ifndef LANYARD_TRANSPORT_CORE_MATCH_CARD_H_
#define LANYARD_TRANSPORT_CORE_MATCH_CARD_H_

#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>

#include "gpu/lane.h"
#include "transport/base/check.h"
#include "transport/nic/nic.h"

namespace lanyard::core {

struct MatchCard {
  enum class Kind : uint32_t {
    kOffer,      // sender to receiver: I have this send; or, with a `reader`: that one's lane is of no use to it
    kAccept,     // receiver to sender: it is matched, write here; with a lane: it is, once you have connected
    kReject,     // receiver to sender: it would not fit
    kDiffer,     // receiver to sender: this process follows another strategy
    kNoTrigger,  // receiver to sender: the clear-to-sends would need a counter, and this NIC has none left
    kWithdraw,   // sender to receiver: the send has been freed and is offered no more
    kFreed,      // either to the other: my side of the pair has been freed, and takes no part in starts beyond `starts`
    kFailed,     // either to the other: an operation of my side of the pair has failed
    kAsk,        // receiver to sender: have your starts up to `starts` ended, and well?
    kSound,      // sender to receiver: up to `starts` they have
    kConnected,  // sender to receiver: I have, and so it is matched
    kParted,     // either to the other: my side of the lane is gone, and will not write to yours
    kLast = kParted,
  };
  Kind kind = Kind::kOffer;
  uint32_t from_nic = 0;  // who wrote the card
  uint64_t communicator = 0;
  int32_t source = 0;  // the sender's rank in the communicator
  int32_t tag = 0;
  uint64_t bytes = 0;      // kOffer: the message's length; kReject: the receive's
  uint64_t send = 0;       // the sender's number for its request; an answer carries it back
  uint64_t receive = 0;    // kAccept: the receiver's number for its request
  uint64_t longest = 0;    // the longest message of the writer's NIC: both sides cut at the shorter of the two
  nic::RemoteKey key;      // kOffer: clear-to-send word; kAccept: the receive's buffer
  uint32_t ready = 0;      // kOffer: a ready send
  uint32_t merged = 0;     // kOffer: of a member of an exchange, whose trigger others' clear-to-sends reach, too
  uint32_t strategy = 0;   // kOffer, kDiffer: the writer's core::Strategy
  nic::RemoteKey flag;     // kAccept: the receive's done word, where senders raise it
  uint32_t lane = 0;       // kOffer, kAccept: the offer of a lane goes with the card, the writer's of that number
  uint32_t peer_lane = 0;  // answers to offers, offers that answer, kParted: the number of the reader's
  uint64_t set = 0;        // kOffer, kAccept: of the writer's exchange with two sets its Exchange::number; 0: of none
  uint64_t writer = 0;     // kFreed and later kinds: the writer's number for its request
  uint64_t reader = 0;     // likewise: the number of the other's
  uint64_t starts = 0;     // kFreed, kFailed: how often the writer's was started; kAsk, kSound: so many starts
};
static_assert(std::is_trivially_copyable_v<MatchCard>);

// Carries cards between the processes of a job, in order between any two, outside every communicator of the user's.
class Courier {
 public:
  virtual ~Courier() = default;
  // Never blocks; takes copies. With the offer of a lane where the card says that there is one.
  virtual Status send(uint32_t nic, const MatchCard& card, const gpu::LaneOffer* lane = nullptr) = 0;
  // The next card that has arrived, if any. Makes progress.
  virtual std::optional<MatchCard> receive() = 0;
  // What came with the card that was received last, where it says that something does.
  virtual const gpu::LaneOffer& lane() const { LANYARD_CHECK(false, "this courier carries no lanes"); }
  // Why no card will ever come from there, where that is known: "rank 3 has ended".
  virtual std::optional<std::string> why_unreachable(uint32_t) const { return std::nullopt; }
};

}  // namespace lanyard::core

#endif  // LANYARD_TRANSPORT_CORE_MATCH_CARD_H_
