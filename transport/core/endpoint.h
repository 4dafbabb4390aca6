// Endpoint: the protocol in one process. It owns the requests, and what requests and queues share:
// resources, overflow, and the record of failures.
// Threads: one caller at a time for all of transport/core, unless a function says otherwise.
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

// Removes and returns the last item; nothing if there is none.
template <typename Item>
std::optional<Item> take_last(std::vector<Item>& items) {
  if (items.empty())
    return std::nullopt;
  const Item last = items.back();
  items.pop_back();
  return last;
}

// Knows which requests failed, and which failures were reported. Threads: see Endpoint.
class FailureBook {
 public:
  // Returns the request with this number; null if it was freed.
  using Find = std::function<Request*(uint64_t number)>;

  // `nic` must outlive this.
  FailureBook(nic::Nic& nic, Find find) : nic_(nic), find_(std::move(find)) {}

  // Adds new failure records of the NIC to their requests. Cheap if there are none.
  void collect() {
    if (nic_.failures() != seen_)
      collect_new();
  }
  // Adds a failure, also one without a NIC record. Those of released requests are not reported.
  void add(Request& request, Code code);
  // Call it before the request is freed. Failures not yet reported then count as unrecorded.
  void forget(const Request& request);

  // True if the request was freed after its failure was reported to the program.
  bool was_told_and_freed(uint64_t number) const { return told_and_freed_.contains(number); }

  // Returns a request of this queue that has failed since it was last returned; null, and cheap, if
  // there is none. Its last start was on this queue, or an earlier one here is not confirmed yet.
  const Request* take_failed(const Queue& queue);
  // Returns the number of failures since the last call whose request is unknown: the NIC kept no
  // record, or the request was freed before the failure was reported.
  uint64_t take_unrecorded();
  // Removes and returns a failed request whose peer must be told; null if there is none.
  Request* take_unannounced() {
    const std::optional<uint64_t> number = take_last(unannounced_);
    return number ? find_(*number) : nullptr;  // freed requests are not in the list
  }
  bool has_unannounced() const { return !unannounced_.empty(); }
  // True if a failure of the request was not reported to the program yet.
  bool is_untold(uint64_t number) const { return std::find(untold_.begin(), untold_.end(), number) != untold_.end(); }
  // Failures without a record, as of the last collect(). They may belong to any request.
  uint64_t lost() const { return seen_ > recorded_ ? seen_ - recorded_ : 0; }
  // Watches a freed request. From now on, has_failed() is true if one of its operations failed, or
  // may have failed because lost() is more than `lost`.
  void watch(uint64_t number, uint64_t lost) { watched_.emplace(number, Watched{.lost = lost}); }
  bool has_failed(uint64_t number) const {
    const Watched& watched = watched_.at(number);
    return watched.failed || lost() > watched.lost;
  }
  void stop_watching(uint64_t number) { watched_.erase(number); }
  // Removes and returns a peer that an operation of the control channel could not reach.
  std::optional<uint32_t> take_unreachable() { return take_last(unreachable_); }

 private:
  struct Watched {
    bool failed = false;
    uint64_t lost = 0;
  };
  void collect_new();

  nic::Nic& nic_;
  const Find find_;
  uint64_t seen_ = 0;                              // nic_.failures() at the last collect()
  uint64_t recorded_ = 0;                          // records taken
  uint64_t orphaned_ = 0;                          // records whose request was freed before the report
  uint64_t told_ = 0;                              // returned by take_unrecorded() so far
  std::vector<uint64_t> untold_;                   // requests with failures to report, oldest first
  std::unordered_set<uint64_t> told_and_freed_;    // never erased: their operations may still fail
  std::vector<uint64_t> unannounced_;              // requests whose peers must be told
  std::unordered_map<uint64_t, Watched> watched_;  // freed requests, by number
  std::vector<uint32_t> unreachable_;
};

class Endpoint {
 public:
  struct Options {
    bool overflow = true;                          // false: a start that does not fit waits or is refused
    bool overflow_thread = true;                   // false: overflow and standing requests have no threads
    bool whole_pages = true;                       // words get pages of their own, as GPUs need
    bool check_ready_sends = false;                // refuse a receive whose ready send came too early
    Strategy strategy = Strategy::kTargetCounter;  // the same in all processes; see strategy_for()
    gpu::Lanes* lanes = nullptr;                   // null: all messages go by the card. Outlives this
  };

  // `nic` must outlive this and have its peers set; `self` is its index among them.
  Endpoint(nic::Nic& nic, uint32_t self, Options options);
  // Requires: all queues are destroyed. Frees the remaining requests.
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

  // Returns a fresh request, which the endpoint owns until free_request().
  Request* new_request(const Transfer& transfer);
  // Returns null if the request was freed.
  Request* find(uint64_t number);
  // Returns the request matched with request `their_number` of `nic`; null if none. Searches all.
  Request* find_matched(uint32_t nic, uint64_t their_number);
  template <typename Visit>
  void for_each_request(Visit visit) {
    for (const auto& [number, request] : requests_)
      visit(*request);
  }
  // Frees a request; ends a standing one first. kInvalidState if it is being matched, if kernels
  // start it, or if its last start was not waited for or has not completed on this side. What the
  // NIC still uses is closed later.
  Status free_request(Request* request);
  // Returns what free_request() would return.
  Status check_free(const Request& request);

  // Opens what matching needs, all or nothing. kExhausted: out of counters or regions.
  Status open_resources(Request& request);
  void close_resources(Request& request);
  // Gives a receive a trigger of its own. Requires: open resources; not a member of an exchange.
  Status open_trigger(Request& request) { return resources_.open_trigger(request); }
  // Closes a queue's counter once the NIC allows it.
  void close_counter(nic::CounterId counter) { resources_.close(counter); }
  // Returns what the trigger of a request or an exchange has counted since before its first start.
  uint64_t triggered(const Resources& resources);
  // The number of freed objects that are not closed yet.
  size_t unclosed() const { return resources_.unclosed() + enqueued_.size(); }
  // Makes fresh requests members of an exchange, which can start once all are matched. A `second`
  // set makes it one with two sets if the peers have such too (exchange.h), else two exchanges.
  // Requires: no obstacle_to_exchanges(). kExhausted: out of counters or regions; nothing changed.
  Status make_exchange(std::string name, std::span<Request* const> members, std::span<Request* const> second = {});
  // Binds a request to its peer. Requires: open resources, and the matched_* fields.
  void bind(Request& request, const PeerKeys& keys);
  // The same for a request without a peer.
  void bind_to_nobody(Request& request);
  // ---- Lanes: pairs whose messages GPUs carry (gpu/lane.h)
  // Opens this side and returns the offer for the peer; nothing if the message must go by the card.
  std::optional<gpu::LaneOffer> open_lane(Request& request);
  // Connects to the peer's side, before bind(). Requires matched_bytes. On an error (kExhausted, or
  // as gpu::Lanes::connect()) the request keeps its resources and can still go by the card.
  Status connect_lane(Request& request, const gpu::LaneOffer& other, uint32_t peer_lane, bool ready);
  // Falls back to the card. Requires: the peer is not connected, or will not start the lane.
  void drop_lane(Request& request);
  // The peer has detached from this lane of this request, which may have been freed.
  void part_lane(uint64_t request, uint32_t lane);
  // The peer `nic` has detached from all its lanes to this process.
  void part_lanes(uint32_t nic);
  // A closed lane of this process: its peer, and the peer's numbers for its request and its lane.
  struct Parted {
    uint32_t nic = 0;
    uint64_t peer_request = 0;
    uint32_t peer_lane = 0;
  };
  // Returns, once, a closed lane whose peer must be told; nothing if there is none.
  std::optional<Parted> take_parted();
  size_t unparted() const { return unparted_.size(); }

  uint64_t entries_posted() const { return entries_posted_ + standing_.posted(); }
  void count_posted(uint64_t entries) { entries_posted_ += entries; }

  void add_queue(Queue& queue) { queue_list_.push_back(&queue); }
  void remove_queue(Queue& queue);
  template <typename Visit>
  void for_each_queue(Visit visit) {
    for (Queue* queue : queue_list_)
      visit(*queue);
  }
  // Returns a number for a new queue. Numbers are never reused.
  uint64_t next_queue_number() { return ++queues_; }
  // See FailureBook.
  void collect_failures() { failures_.collect(); }
  const Request* take_failed(const Queue& queue) { return failures_.take_failed(queue); }
  uint64_t take_unrecorded_failures() { return failures_.take_unrecorded(); }
  bool has_unannounced_failures() const { return failures_.has_unannounced(); }
  // The number of starts of a request; if it stands, those that its stream has reached.
  uint64_t started(const Request& request) const {
    return request.standing != nullptr ? standing_.started(request) : request.starts;
  }
  // As StandingOrders::end(). A request that ran ahead is not started again.
  Status end_standing(Request& request);
  // Call it when the peer's request has failed, or was freed after `starts` starts. Starts that
  // cannot complete any more fail; later ones are refused, or fail by themselves (finds_out).
  void end_peer(Request& request, uint64_t starts, bool failed);
  // ---- Strategy B: a failed write raises the receive's flag too, so receivers ask senders (P3)
  bool raises_flags() const { return core::raises_flags(options_.strategy); }
  // Requires: the first `iterations` have completed. True if no sender must be asked how they
  // ended. Otherwise adds a question for take_question().
  bool is_assured(Request& request, uint64_t iterations);
  // True if the first `iterations` of a send have ended; for a member: if its writes succeeded.
  bool has_sent(const Request& send, uint64_t iterations);
  // Removes and returns a receive whose sender must be asked about `asked` starts; null if none.
  Request* take_question();
  bool has_questions() const { return !questions_.empty(); }
  // The sender says that the receive's first `starts` starts went well.
  void assure(Request& request, uint64_t starts);
  // The sender will not answer. The receive fails if a question is open.
  void give_up_asking(Request& request);
  FailureBook& failures() { return failures_; }
  // Fails requests that wait for lost peers, at the second call that finds the same number of peers
  // lost. Also fails starts that a device has made since the peer was freed.
  void fail_requests_of_lost_peers();
  // Returns, as text, why operations of this request failed.
  std::string explain_failure(const Request& request) const;
  // Call it after a failure was reported (P14). Streams then pass their waits for the request, and
  // its waiting operations are cancelled, or never fire. It can only be freed. Releases a member's
  // whole exchange; the peers of members that have not completed are told.
  void release(Request& request);
  // True if the request was released; it may have been freed since.
  bool was_released(uint64_t number);
  // Returns the oldest request whose start on this queue has no wait; null if none. Searches all.
  const Request* find_unwaited(const Queue& queue) const;

 private:
  // Counters of a request that was released and freed. Keep them until the queue's stream has
  // drained: its rings must not count for the trigger's next user.
  struct Enqueued {
    Resources counters;
    uint64_t queue = 0;
  };
  // This side of a lane of a freed request. If the request was released, our stream must drain
  // before the peer is told. Keep the memory until the peer is told and has detached.
  struct Unparted {
    Parted peer;               // peer_lane is 0 if the peer need not be told, or was told
    uint32_t number = 0;       // Request::lane_number
    bool peer_parted = false;  // true once the peer has detached
    uint64_t queue = 0;        // its stream must drain; 0: none
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
  // True if a start was made in which the peer takes no part.
  bool is_beyond_peer(const Request& request) const;
  // True if everything enqueued on the queue has run, or the queue is destroyed.
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
  uint64_t queues_ = 0;            // numbers given to queues so far
  uint64_t exchange_numbers_ = 0;  // used so far, in pairs
  uint64_t lost_seen_ = 0;         // lost peers at the last fail_requests_of_lost_peers()
  size_t ended_pairs_ = 0;         // requests with peer_starts set
  std::vector<Queue*> queue_list_;
  std::vector<Enqueued> enqueued_;
  std::vector<Unparted> unparted_;
  uint32_t lane_numbers_ = 0;        // used so far
  std::vector<uint64_t> questions_;  // receives whose senders must be asked
};

}  // namespace lanyard::core

#endif  // LANYARD_TRANSPORT_CORE_ENDPOINT_H_
