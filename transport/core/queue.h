// Queue: turns starts and waits of matched requests into deferred work and stream operations.
//
// A start posts the request's plan and enqueues one ring per trigger counter. All ready sends and
// clear-to-sends of a call share one ring. A start never blocks the stream. A wait enqueues one
// wait64 per request or exchange. Once warm, only starts that overflow or are captured allocate.
// Threads: see Endpoint.
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
    uint64_t triggers = 0;  // rings and lane starts enqueued
    uint64_t bytes = 0;     // started by sends
  };

  // Both must outlive it. kExhausted: no counter. kUnsupported: the stream cannot ring the NIC.
  static Result<std::unique_ptr<Queue>> create(Endpoint& endpoint, gpu::Stream& stream);
  // Requires settled() and an empty stream.
  ~Queue();
  Queue(const Queue&) = delete;
  Queue& operator=(const Queue&) = delete;

  // Starts the requests, all or none.
  // kInvalidState: a request is not matched, is started by graphs or kernels, or appears twice. Or
  // its last start has no wait, or is incomplete on another queue. Or a counter is full. Or an
  // exchange has a member that is not in the call, freed or not matched, or its other set is next.
  // kFailed: an operation failed before, or the peer has ended: the counters of the two sides
  // differ for good. With check_ready_sends: a message came before the start of its receive.
  // kExhausted: without overflow, the epoch's starts can never fit into the NIC's entries.
  // kAgain: without overflow, they do not fit now. Or the stream is full: let it run, and repeat.
  //
  // While the stream is captured, each replay makes the start. The request stands (standing.h)
  // until it is freed or dismiss() is called. The capture must have a wait after each start.
  // kUnsupported: the card or the stream cannot do this.
  Status start(std::span<Request* const> requests);

  // Enqueues the waits, all or none. kInvalidState: a request appears twice or has no start on this
  // queue to wait for, or a member of an exchange is not in the call. kAgain: the stream is full.
  Status wait(std::span<Request* const> requests);

  // Makes requests stand for kernels of the stream, all or none. kInvalidState: one stands already.
  // Other errors as start().
  Status stand(std::span<Request* const> requests);
  // Makes requests that stand here ordinary again, all or none. kInvalidState: one is incomplete.
  Status dismiss(std::span<Request* const> requests);
  // The same for all requests that stand on this queue.
  Status dismiss();

  // True if all starts made here have completed and their failures count (nic.h, N13; with
  // strategy B the senders have answered). The stream may still have work.
  bool settled();
  // NIC entries for the starts without an enqueued wait. Without overflow, all must fit at once.
  uint64_t epoch_entries() const { return epoch_entries_; }
  // The number of requests that were started here and have no wait enqueued.
  uint64_t unwaited() const { return unwaited_; }

  // ---- For reports (queue_explain.cc)
  // Explains what each request under way waits for, one line each.
  std::string explain_stall();
  // Whom to ask next, if this process does not know the whole cause.
  enum class Missing : uint8_t {
    kNothing,
    kPeer,    // the peer, about the same iteration of its request
    kAnswer,  // the peer, because its NIC does not answer
  };
  struct Explanation {
    std::string text;
    Missing missing = Missing::kNothing;
    const Request* about = nullptr;  // ask its peer; null: the peer of the explained request
  };
  // Explains what an iteration waits for. For a member: what its whole exchange waits for.
  Explanation explain(const Request& request, uint64_t iteration);
  // The same, but for a member only its own part, as far as that is known.
  Explanation explain_part(const Request& request, uint64_t iteration);
  // How far an iteration is. kUnknown: kEnqueued or kReached, but no bell tells which.
  enum class Progress : uint8_t { kNotStarted, kEnqueued, kReached, kUnknown, kDone };
  Progress progress_of(const Request& request, uint64_t iteration);
  // The stream's current operation: the wait for a request's iteration, or a kernel. Both null: the
  // stream does nothing, or it is not known.
  struct Head {
    const Request* request = nullptr;
    const void* kernel = nullptr;  // its function
    uint64_t item = 0;             // as in gpu::Stream::Head
  };
  Head head();
  // Returns the first request in this queue's lists that is under way; null if there is none.
  const Request* first_under_way() const;

  // All starts have completed, but it is not known yet whether they went well.
  struct Unheard {
    std::string text;                  // empty: all is known, or a request is still under way
    const Request* receive = nullptr;  // its sender has not answered; null: the NIC has not
  };
  Unheard unheard();

  // Removes a request, which has made `starts` starts, from this queue's lists. Call it before the
  // request is freed, or when another queue starts it.
  void forget(Request& request, uint64_t starts);
  // True if the outcome of this request's starts on this queue is not known yet.
  bool owes(uint64_t number) const;

  // Without overflow: if the queue is idle, releases the entries it reserves for later epochs.
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
  // Runs `check` on each request. Refuses a request that appears twice.
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
  // NIC entries that incomplete starts may hold.
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
  // Returns a receive whose sender was asked and has not answered; null if there is none.
  const Request* first_unassured();
  Progress progress_of_exchange(const Exchange& exchange, uint64_t iteration);
  // These return `text` with an explanation appended.
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
  uint64_t epoch_entries_ = 0;     // see epoch_entries()
  uint64_t reserved_entries_ = 0;  // the most that an epoch needed since release_reserve()
  std::vector<Request*> standing_;
  uint64_t capture_ = 0;             // the last capture with a start
  uint64_t recorded_unwaited_ = 0;   // starts in it that have no wait yet; part of unwaited_
  std::vector<Request*> under_way_;  // started here; settled() removes those that have completed
  // Requests that left under_way_. unconfirmed_: the NIC has not confirmed their outcome.
  // unassured_: receives whose senders may have to be asked.
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
