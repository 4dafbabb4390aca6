// Queue: turns starts and waits of matched requests into deferred work for the NIC and operations for a stream.
//
// A start gives the NIC the request's plan and the stream one ring a trigger counter (one for all ready sends and
// clear-to-sends of the call together); nothing of it can block the stream. A wait gives the stream one wait64 a
// request. Only the overflow and growing scratch space allocate. Threads: see Endpoint.
#ifndef LANYARD_TRANSPORT_CORE_QUEUE_H_
#define LANYARD_TRANSPORT_CORE_QUEUE_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "gpu/stream.h"
#include "transport/core/endpoint.h"
#include "transport/core/exchange.h"
#include "transport/core/request.h"

namespace lanyard::core {

class Queue {
 public:
  struct Figures {
    uint64_t starts = 0;
    uint64_t waits = 0;
    uint64_t triggers = 0;  // rings enqueued
    uint64_t bytes = 0;     // started by sends
  };

  // Both outlive it. kExhausted: no counter; kUnsupported: the stream cannot ring the NIC's doorbells.
  static Result<std::unique_ptr<Queue>> create(Endpoint& endpoint, gpu::Stream& stream);
  // Requires settled() and an empty stream.
  ~Queue();
  Queue(const Queue&) = delete;
  Queue& operator=(const Queue&) = delete;

  // All or none. kInvalidState: a request is not matched, has not been waited for, stands in it twice, or was last
  // started on another queue and has not completed there; or a counter can count no more; or of an exchange a member is
  // missing here, freed or not matched. kFailed: an operation of it failed before: the two sides' counters are out of
  // step for good. kExhausted: without overflow, the epoch's starts can never fit into the NIC's entries. kAgain:
  // without overflow, they do not fit now, or the stream is full: let it run, and repeat.
  //
  // While the stream is captured, each replay makes the start, and the request stands (standing.h) until it is freed.
  // The capture must have a wait after each start. kUnsupported: the card or the stream cannot.
  Status start(std::span<Request* const> requests);

  // All or none. kInvalidState: a request has no start to be waited for, or on another queue, or stands in it twice, or
  // of an exchange not all members do; kAgain: the stream is full.
  Status wait(std::span<Request* const> requests);

  // Makes requests stand for kernels of the stream, all or none; kInvalidState where one stands already, else as
  // start().
  Status stand(std::span<Request* const> requests);
  // Makes requests that stand on this queue ordinary ones again, all or none. kInvalidState: a start has not completed.
  Status dismiss(std::span<Request* const> requests);
  // The same for all that stand on it.
  Status dismiss();

  // Whether everything that was started here has completed, and what of it failed counts (nic.h, N13; with strategy B
  // the senders have answered). Whether the stream is empty is the stream's to say.
  bool settled();
  // Entries of the NIC that the starts without an enqueued wait need: without overflow they must be there all at once.
  uint64_t epoch_entries() const { return epoch_entries_; }
  // How many requests were started here and have no wait enqueued.
  uint64_t unwaited() const { return unwaited_; }

  // ---- For reports (queue_explain.cc)
  // What the requests under way are waiting for, a line each.
  std::string explain_stall();
  // What an iteration that has not completed waits for, as far as this process knows, and what it does not know of it.
  enum class Missing : uint8_t {
    kNothing,
    kPeer,    // the same iteration of the peer's request
    kAnswer,  // the peer's NIC, which does not answer
  };
  struct Explanation {
    std::string text;
    Missing missing = Missing::kNothing;
    const Request* about = nullptr;  // whose peer it is; null: the one that was asked about
  };
  // Of a member of an exchange: what keeps the exchange.
  Explanation explain(const Request& request, uint64_t iteration);
  // The same, but of a member what keeps its own part, as far as that is known.
  Explanation explain_part(const Request& request, uint64_t iteration);
  // How far an iteration is. Of some that have no bell of their own it is not known whether the stream has reached
  // them.
  enum class Progress : uint8_t { kNotStarted, kEnqueued, kReached, kUnknown, kDone };
  Progress progress_of(const Request& request, uint64_t iteration);
  // What the stream stands at: the wait for a request's iteration, a kernel, or null: nothing, or it is not known.
  struct Head {
    const Request* request = nullptr;
    uint64_t iteration = 0;
    const void* kernel = nullptr;  // its function
    uint64_t item = 0;             // of the stream
  };
  Head head();
  // The oldest request of this queue that is under way; null: none.
  const Request* first_under_way() const;

  // Once all has completed: who has yet to tell how it ended, the sender of `receive` or (null) the NIC.
  struct Unheard {
    std::string text;  // empty: nothing
    const Request* receive = nullptr;
  };
  Unheard unheard();

  // A request that is about to be freed, or has just been started on another queue, after so many starts.
  void forget(Request& request, uint64_t starts);
  // Whether it is not known yet how starts of this request ended that were made here.
  bool owes(uint64_t number) const;

  // Without overflow: gives back what the queue keeps for epochs to come, where it has nothing to do.
  void release_reserve();

  uint64_t number() const { return number_; }
  gpu::Stream& stream() { return stream_; }
  const Figures& figures() const { return figures_; }

 private:
  Queue(Endpoint& endpoint, gpu::Stream& stream)
      : endpoint_(endpoint), stream_(stream), number_(endpoint.next_queue_number()) {}

  static Status misuse(const Request& request, const char* what) {
    return {Code::kInvalidState, std::string(what) + " (" + request.describe() + ")"};
  }
  // Runs `check` on each request, and refuses one that stands in the call twice.
  template <typename Check>
  static Status check_each(std::span<Request* const> requests, Check check) {
    Status status;
    size_t seen = 0;
    for (; seen < requests.size() && status.ok(); ++seen) {
      Request& request = *requests[seen];
      status = request.in_call ? misuse(request, "the request stands in the call twice") : check(request);
      request.in_call = true;
    }
    for (size_t i = 0; i < seen; ++i)
      requests[i]->in_call = false;
    return status;
  }
  Status check_startable(const Request& request) const;
  Status check_start(std::span<Request* const> requests);
  Status check_wait(std::span<Request* const> requests, uint64_t capture);
  Status check_not_landed(const Request& request) const;
  Status check_entries(uint64_t demand);
  // Deferred-work entries that starts which have not completed may hold.
  uint64_t held_entries() const;
  Status check_standing(std::span<Request* const> requests, bool in_kernels);
  Status begin_standing(std::span<Request* const> requests, bool in_kernels, std::vector<Request*>& begun);
  void enlist(std::span<Request* const> begun);
  Status record_start(std::span<Request* const> requests, uint64_t capture);
  void append_moves(std::span<Request* const> requests, Direction direction);
  void append_lane(const Request& request, gpu::StreamOp::Kind kind);
  gpu::StreamOp& append_ring(const nic::Doorbell& bell, uint64_t value);
  void append_ring(const nic::Doorbell& bell, uint64_t value, uint64_t total);
  void append_wait(const Request& request);
  void follow_lanes();
  Status lower(Request& request);
  void note_start(Request& request);
  void list(Request& request, uint64_t starts, std::vector<Request*>& requests);
  void hand_over(std::span<Request* const> requests);
  Result<nic::Doorbell> doorbell_for(nic::CounterId counter);
  bool is_under_way(const Request& request) const;
  void owe(const Request& request, uint64_t starts);
  bool is_all_confirmed();
  bool is_all_assured();
  bool has_untold_elsewhere(uint64_t number);
  // A receive whose sender has been asked, and has not answered; null: none.
  const Request* first_unassured();
  Progress progress_of_exchange(const Exchange& exchange, uint64_t iteration);
  // What follows `text`.
  Explanation explain_progress(const Request& request, uint64_t iteration, std::string text);
  Explanation explain_exchange(const Exchange& exchange, uint64_t iteration, uint64_t missing, std::string text);
  Explanation explain_lane(const Request& request, uint64_t iteration, const std::string& text);
  Explanation explain_receive(const Request& request, uint64_t iteration, const std::string& text);
  Explanation explain_send(const Request& request, uint64_t iteration, std::string text);

  Endpoint& endpoint_;
  gpu::Stream& stream_;
  const uint64_t number_;
  nic::CounterId shared_trigger_;
  nic::Doorbell shared_bell_;
  uint64_t shared_base_ = 0;  // the bell's word before the first ring
  uint64_t shared_rings_ = 0;
  uint64_t unwaited_ = 0;
  uint64_t epoch_entries_ = 0;     // that the starts without an enqueued wait need
  uint64_t reserved_entries_ = 0;  // the most that they ever needed
  std::vector<Request*> standing_;
  uint64_t capture_ = 0;             // the last that something was recorded in
  uint64_t recorded_unwaited_ = 0;   // starts in it whose wait is still to come; part of unwaited_
  std::vector<Request*> under_way_;  // started here; those that have completed leave in settled()
  // Of those that left: whose end the NIC has not told yet, and receives whose sender may have to be asked.
  std::vector<nic::ContextStarts> unconfirmed_;
  std::vector<nic::ContextStarts> unassured_;
  // Scratch, kept for their capacity.
  std::vector<nic::Posting> postings_;
  std::vector<gpu::StreamOp> stream_ops_;
  std::vector<nic::DeferredOp> overflowing_;
  Figures figures_;
};

}  // namespace lanyard::core

#endif  // LANYARD_TRANSPORT_CORE_QUEUE_H_
