// Endpoint: one process's end of the protocol. It owns what requests and queues share: words, overflow, and the books
// on who failed. Threads: one caller at a time for everything in transport/core, unless a function says otherwise.
#ifndef LANYARD_TRANSPORT_CORE_ENDPOINT_H_
#define LANYARD_TRANSPORT_CORE_ENDPOINT_H_

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "transport/core/exchange.h"
#include "transport/core/overflow.h"
#include "transport/core/plan.h"
#include "transport/core/request.h"
#include "transport/core/resources.h"
#include "transport/core/standing.h"
#include "transport/nic/nic.h"

namespace lanyard::core {

// Removes and returns the last item, if there is one.
template <typename Item>
std::optional<Item> take_last(std::vector<Item>& items) {
  if (items.empty())
    return std::nullopt;
  const Item last = items.back();
  items.pop_back();
  return last;
}

// Which operations the NIC has reported as failed, and who has been told. Threads: see Endpoint.
class FailureBook {
 public:
  // The request of that number; null where it has been freed.
  using Find = std::function<Request*(uint64_t number)>;

  // `nic` outlives it.
  FailureBook(nic::Nic& nic, Find find) : nic_(nic), find_(std::move(find)) {}

  // Puts down in their requests what the NIC has reported as failed. Cheap where nothing failed since.
  void collect() {
    if (nic_.failures() != seen_)
      collect_new();
  }
  // An operation of this request has failed, without a record of the NIC's. Later failures of a released request are
  // only counted.
  void add(Request& request, Code code);
  // The request is about to be freed: its untold failures are nobody's.
  void forget(const Request& request);

  // Whether it was freed after its program had been told.
  bool was_told_and_freed(uint64_t number) const { return told_and_freed_.contains(number); }

  // A request of this queue (its last start was here, or an earlier one here is not known to have gone well) that
  // failed since it was last returned; null if there is none. Cheap then.
  const Request* take_failed(const Queue& queue);
  // Failures since the last call of which nobody can be told whose they are: the NIC kept no record of them, or their
  // request was freed before its program heard of them.
  uint64_t take_unrecorded();
  // A request that has failed since the last call, whose peer has to be told; null if there is none.
  Request* take_unannounced() {
    const std::optional<uint64_t> number = take_last(unannounced_);
    return number ? find_(*number) : nullptr;  // who was forgotten is not among them
  }
  bool has_unannounced() const { return !unannounced_.empty(); }
  // Whether the program has yet to hear of the request's failure.
  bool is_untold(uint64_t number) const { return std::find(untold_.begin(), untold_.end(), number) != untold_.end(); }
  // Failures so far of which the NIC kept no record: they may have been anybody's. As of the last collect().
  uint64_t lost() const { return seen_ > recorded_ ? seen_ - recorded_ : 0; }
  // Of a freed request, from now on: whether operations of it failed, or may have, as more records than `lost` were
  // lost.
  void watch(uint64_t number, uint64_t lost) { watched_.emplace(number, Watched{.lost = lost}); }
  bool has_failed(uint64_t number) const {
    const Watched& watched = watched_.at(number);
    return watched.failed || lost() > watched.lost;
  }
  void stop_watching(uint64_t number) { watched_.erase(number); }
  // A peer that an operation of the control channel has failed for.
  std::optional<uint32_t> take_unreachable() { return take_last(unreachable_); }

 private:
  struct Watched {
    bool failed = false;
    uint64_t lost = 0;
  };
  void collect_new();

  nic::Nic& nic_;
  const Find find_;
  uint64_t seen_ = 0;                              // the NIC's failures when they were collected last
  uint64_t recorded_ = 0;                          // records taken
  uint64_t orphaned_ = 0;                          // recorded, of requests that were freed untold
  uint64_t told_ = 0;                              // by take_unrecorded()
  std::vector<uint64_t> untold_;                   // numbers of requests with failures not yet reported, oldest first
  std::unordered_set<uint64_t> told_and_freed_;    // a number for each, for good: operations of theirs may yet fail
  std::vector<uint64_t> unannounced_;              // numbers of requests
  std::unordered_map<uint64_t, Watched> watched_;  // by number, freed
  std::vector<uint32_t> unreachable_;
};

class Endpoint {
 public:
  struct Options {
    bool overflow = true;                          // else starts that do not fit are refused or wait
    bool overflow_thread = true;                   // else only those who wait drain it
    bool whole_pages = true;                       // words stand on pages of their own, as GPUs need it
    bool check_ready_sends = false;                // receives that a ready send came too early for are refused
    Strategy strategy = Strategy::kTargetCounter;  // the same in all processes; strategy_for() chooses
    gpu::Lanes* lanes = nullptr;  // by which messages may go that need no card; null: none do. Outlives it
  };

  // `nic` outlives it, knows its peers, and is `self` among them.
  Endpoint(nic::Nic& nic, uint32_t self, Options options);
  // Requires that no queue of it is left. Requests that were not freed go with it.
  ~Endpoint();
  Endpoint(const Endpoint&) = delete;
  Endpoint& operator=(const Endpoint&) = delete;

  nic::Nic& nic() { return nic_; }
  uint32_t self() const { return self_; }
  const Options& options() const { return options_; }
  Overflow& overflow() { return overflow_; }
  const Overflow& overflow() const { return overflow_; }
  StandingOrders& standing() { return standing_; }
  const StandingOrders& standing() const { return standing_; }

  // A fresh request, owned by the endpoint until free_request().
  Request* new_request(const Transfer& transfer);
  // Null if it has been freed.
  Request* find(uint64_t number);
  // The request that is matched with that one of that process; null if there is none. Looks at all.
  Request* find_matched(uint32_t nic, uint64_t their_number);
  template <typename Visit>
  void for_each_request(Visit visit) {
    for (const auto& [number, request] : requests_)
      visit(*request);
  }
  // A standing request becomes an ordinary one first. kInvalidState while it is matching, or its last start has not
  // completed or not been waited for. What the NIC still uses is given back later.
  Status free_request(Request* request);
  // What free_request() would return.
  Status check_free(const Request& request);

  // What matching needs, by direction; nothing is kept on failure (kExhausted: out of counters or regions).
  Status open_resources(Request& request);
  void close_resources(Request& request);
  // Gives a receive that has resources, and is no member of an exchange, a trigger of its own.
  Status open_trigger(Request& request) { return resources_.open_trigger(request); }
  // A counter of a queue's or a standing request's, which the NIC may yet have something to do with.
  void close_counter(nic::CounterId counter) { resources_.close(counter); }
  // What a request's trigger, or an exchange's, counts since the first iteration.
  uint64_t triggered(const Resources& resources);
  // How much of what was freed is still open.
  size_t unclosed() const { return resources_.unclosed() + enqueued_.size(); }
  // Makes fresh requests an exchange, before the match of any has begun; they are one once all are matched. Where
  // there is a `second` set, too, an exchange with two sets, if the others have such (exchange.h), else two
  // exchanges. Requires that there is no obstacle_to_exchanges(). kExhausted: out of counters or regions; nothing has
  // changed then.
  Status make_exchange(std::string name, std::span<Request* const> members, std::span<Request* const> second = {});
  // Binds a request to its peer: requires open resources and the matched_* fields.
  void bind(Request& request, const PeerKeys& keys);
  // The same for one that has no peer.
  void bind_to_nobody(Request& request);
  // ---- Lanes: pairs that devices serve by themselves (gpu/lane.h)
  // Opens this side of one, where its message may go by it, to be offered to the other; null: by the card.
  std::optional<gpu::LaneOffer> open_lane(Request& request);
  // Connects to the other side's, before bind(): requires matched_bytes. kUnsupported, kExhausted: it may go by the
  // card yet, and has lost nothing.
  Status connect_lane(Request& request, const gpu::LaneOffer& other, uint32_t peer_lane, bool ready);
  // The message goes by the card after all, as the other side has not connected to the lane, or will not start it.
  void drop_lane(Request& request);
  // The other side of that lane of the request of that number, which may have been freed, is gone.
  void part_lane(uint64_t request, uint32_t lane);
  // And so are those of all that end there.
  void part_lanes(uint32_t nic);
  // A lane of this process's that is gone: what the other side calls its request and its own, and where that is.
  struct Parted {
    uint32_t nic = 0;
    uint64_t peer_request = 0;
    uint32_t peer_lane = 0;
  };
  // One of which the other side has not been told; null: none.
  std::optional<Parted> take_parted();
  size_t unparted() const { return unparted_.size(); }

  uint64_t entries_posted() const { return entries_posted_ + standing_.posted(); }
  void count_posted(uint64_t entries) { entries_posted_ += entries; }

  // The queues that there are.
  void add_queue(Queue& queue) { queue_list_.push_back(&queue); }
  void remove_queue(Queue& queue);
  template <typename Visit>
  void for_each_queue(Visit visit) {
    for (Queue* queue : queue_list_)
      visit(*queue);
  }
  // A name for a queue, never used again.
  uint64_t next_queue_number() { return ++queues_; }
  // See FailureBook.
  void collect_failures() { failures_.collect(); }
  const Request* take_failed(const Queue& queue) { return failures_.take_failed(queue); }
  uint64_t take_unrecorded_failures() { return failures_.take_unrecorded(); }
  bool has_unannounced_failures() const { return failures_.has_unannounced(); }
  // How often it was started; of a standing request, as far as its stream has got.
  uint64_t started(const Request& request) const {
    return request.standing != nullptr ? standing_.started(request) : request.starts;
  }
  // A standing request becomes an ordinary one, as in StandingOrders::end(). One that ran ahead is not started again.
  Status end_standing(Request& request);
  // The other side has failed, or was freed after so many starts: what will never complete fails, and nothing more is
  // started.
  void end_peer(Request& request, uint64_t starts, bool failed);
  // ---- Where senders raise their receives' flags, which a failed write raises too: asking the sender
  bool raises_flags() const { return core::raises_flags(options_.strategy); }
  // Whether so many iterations, which have completed, are known to have gone well. Else its sender is to be asked.
  bool is_assured(Request& request, uint64_t iterations);
  // Whether so many iterations of a send have ended; of a member of an exchange, its own writes of them.
  bool has_sent(const Request& send, uint64_t iterations);
  // A receive whose sender is to be asked about request.asked starts; null if there is none.
  Request* take_question();
  bool has_questions() const { return !questions_.empty(); }
  // The sender of the receive has said that so many went well.
  void assure(Request& request, uint64_t starts);
  // Who was asked will not answer: the receive fails.
  void give_up_asking(Request& request);
  // Of sends that were freed; see FailureBook.
  FailureBook& failures() { return failures_; }
  // What waits for a process that has ended fails, at the second call that finds it ended; and what a device has
  // started since the other side was freed.
  void fail_requests_of_lost_peers();
  // Why operations of this request failed, in words.
  std::string explain_failure(const Request& request) const;
  // Of a request whose failure has been told: lets its streams pass their waits, and takes back what waits in the NIC,
  // where the NIC can. It can be freed then, and not be started again. An exchange is released as a whole; the peers of
  // members that have not completed are told (P14).
  void release(Request& request);
  // Whether that was done with the request of that number, which may have been freed since.
  bool was_released(uint64_t number);
  // The oldest request that was started on this queue and has no wait enqueued; null if there is none. Looks at all.
  const Request* find_unwaited(const Queue& queue) const;

 private:
  // Counters of a request that was released and freed. Keep them until the stream of its queue has drained: its rings
  // must not count for the trigger's next user.
  struct Enqueued {
    Resources counters;
    uint64_t queue = 0;
  };
  // This side of a lane of a freed request. Keep its memory until the peer has detached and, where it was released, our
  // stream has drained; then tell the peer.
  struct Unparted {
    Parted peer;  // peer_lane 0: there is nobody to be told
    uint32_t number = 0;
    bool peer_parted = false;
    uint64_t queue = 0;  // 0: of none
    std::shared_ptr<gpu::Lane> lane;
  };
  PlanContext plan_context(uint64_t longest, uint64_t number);
  void become_matched(Request& request);
  Status open_sets(std::span<const std::unique_ptr<Exchange>> sets);
  void leave_exchange(Request& request);
  void close_exchange(Exchange& exchange);
  void release_exchange(Exchange& exchange, const Request& failed);
  void release_set(Exchange& set, const Request& failed);
  void raise_done_word(const Resources& resources, uint64_t starts);
  void stop(const Resources& resources);
  void cancel(nic::CounterId counter);
  bool is_complete(const Request& request) const;
  // Whether a start has been made in which the other side takes no part.
  bool is_beyond_peer(const Request& request) const;
  // Whether everything that was enqueued there has run, or nobody knows the queue any more.
  bool has_run_all(uint64_t queue);
  void close_enqueued();
  void close_lanes();
  void unmap_lanes();
  bool is_idle();

  nic::Nic& nic_;
  const uint32_t self_;
  const Options options_;
  ResourcePool resources_;
  Overflow overflow_;
  StandingOrders standing_;
  std::unordered_map<uint64_t, std::unique_ptr<Request>> requests_;
  std::vector<std::unique_ptr<Exchange>> exchanges_;
  FailureBook failures_;
  uint64_t next_number_ = 1;
  uint64_t entries_posted_ = 0;
  uint64_t queues_ = 0;            // ever
  uint64_t exchange_numbers_ = 0;  // used up, in pairs
  uint64_t lost_seen_ = 0;         // peers that had ended
  size_t ended_pairs_ = 0;         // requests whose other side has come to its end
  std::vector<Queue*> queue_list_;
  std::vector<Enqueued> enqueued_;
  std::vector<Unparted> unparted_;
  uint32_t lane_numbers_ = 0;        // used up
  std::vector<uint64_t> questions_;  // numbers of receives
};

}  // namespace lanyard::core

#endif  // LANYARD_TRANSPORT_CORE_ENDPOINT_H_
