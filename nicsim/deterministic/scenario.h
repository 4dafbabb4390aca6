// Scenario: what a job of stream-triggered MPI processes does, described for the deterministic engine: the messages,
// and for each rank the program of its host thread. Users describe their own; `lanyard fuzz` makes some of its own.
//
//   Scenario ring(2);
//   const auto there = ring.message(0, 1, {.bytes = 64, .tag = 7});
//   ring.rank(0).pack(there).start({there.send}).wait({there.send});
//   ring.rank(1).start({there.receive}).wait({there.receive}).unpack(there);
//   const Verdict verdict = fuzz(ring, {.schedules = 10'000});
//
// Sources: MPI 4.0 section 3.9 (persistent requests); Bridges et al., Tables I-III.
#ifndef LANYARD_NICSIM_DETERMINISTIC_SCENARIO_H_
#define LANYARD_NICSIM_DETERMINISTIC_SCENARIO_H_

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "transport/base/status.h"

namespace lanyard::nicsim {

// Names one side of a message: its send or its receive.
struct RequestName {
  uint32_t index = 0;  // 2 * message, + 1 for the receive

  uint32_t message() const { return index / 2; }
  bool receive() const { return index % 2 == 1; }
  RequestName other() const { return {index ^ 1}; }  // the other side
  friend bool operator==(RequestName, RequestName) = default;
};

// A matched pair.
struct MessageName {
  uint32_t index = 0;
  RequestName send, receive;
};

struct MessageOptions {
  uint32_t bytes = 16;
  int tag = 0;
  bool ready = false;       // a ready send: the program must see to it that the receive was started
  uint32_t room = 0;        // by so many bytes the receive is longer than the message
  uint32_t lacking = 0;     // by so many it is shorter: the two do not match
  bool any_source = false;  // the receive's wildcards: no other send may fit it while it is being matched
  bool any_tag = false;
  bool nobody = false;     // both the send and the receive are MPI_PROC_NULL's: nothing goes from one to the other
  bool send_gaps = false;  // the send's buffer, the receive's: the stream packs and unpacks
  bool receive_gaps = false;
  // The send's rank has merged it with its others of that number, which are started together and waited for together;
  // likewise the receive's. 0: with none.
  uint32_t send_merged = 0, receive_merged = 0;
  // Of two sets of that number, which are started in turn, the first being 1: which. 0: there is one.
  uint32_t send_set = 0, receive_set = 0;
};

// A step of a host program. Nothing of it blocks the host but kSync and, on a NIC whose post() blocks, kStart.
struct Action {
  enum class Kind : uint8_t {
    kPack,      // enqueues a kernel that fills a send's buffer with its next content
    kUnpack,    // enqueues a kernel that reads a receive's buffer, which must hold the content whose turn it is
    kStart,     // MPIX_Enqueue_startall
    kWait,      // MPIX_Enqueue_waitall
    kSync,      // MPIX_Queue_wait
    kPromise,   // enqueues a kernel that tells a ready send's program how many of its receives were started
    kAwait,     // enqueues a wait for that: the ready send may be started
    kComplete,  // asks whether the last starts of requests have completed, until they have
    kFree,      // MPI_Request_free, again and again while it is refused because the last start has not completed
    kMatch,     // new requests in place of those that were freed, or those that did not match; begins to match them.
                // What a program matches before it does anything else with it is not matched when the world begins.
    kMatched,   // waits until they are matched, or (`refused`) until that has failed as the message is too long
    kWithdraw,  // MPI_Request_free of requests that were never started, matched or not: what the peer was told of them
                // is taken back
    kCapture,   // what is enqueued on the queue from here on is captured, not run
    kCaptured,  // ... up to here; where a start has no wait yet the capture is of no use, and the request is freed
    kLaunch,    // enqueues all that was captured last on the queue
    kStand,     // MPIX_Device_requests_create: from here on kernels alone start them and wait for them
    kKernelStart,  // enqueues a kernel that calls MPIX_Device_startall
    kKernelWait,   // enqueues a kernel that calls MPIX_Device_waitall
    kDismiss,      // MPIX_Device_requests_free; their starts have completed
  };
  Kind kind = Kind::kSync;
  uint32_t queue = 0;                 // of the rank
  uint32_t message = 0;               // kPack, kUnpack, kPromise, kAwait
  std::vector<RequestName> requests;  // of all other kinds but kSync and those of captures
  bool refused = false;   // kStart, kWait: the call is a mistake that must be refused (kInvalidState) and change
                          // nothing; kDismiss: likewise, where a start has not completed; else nothing is called;
                          // kMatched: see there
  bool repeated = false;  // kStart: may be refused because the last start is on another queue and has not completed;
                          // then again, until it is not

  // Of an action that has a message: whose program does it.
  RequestName side() const { return {2 * message + (kind == Kind::kUnpack || kind == Kind::kPromise ? 1 : 0)}; }
};

inline bool is_of_message(Action::Kind kind) {
  using Kind = Action::Kind;
  return kind == Kind::kPack || kind == Kind::kUnpack || kind == Kind::kPromise || kind == Kind::kAwait;
}

class Scenario;

// The program of one rank's host thread. Each function appends an action, on the queue that on() chose last (0 at
// first); but nothing for no requests.
class HostProgram {
 public:
  using Requests = std::vector<RequestName>;

  HostProgram& on(uint32_t queue) {
    queue_ = queue;
    queues_ = std::max(queues_, queue + 1);
    return *this;
  }
  HostProgram& add(Action::Kind kind, Requests requests = {}, uint32_t message = 0) {
    actions_.push_back({.kind = kind, .queue = queue_, .message = message, .requests = std::move(requests)});
    return *this;
  }
  HostProgram& pack(MessageName message) { return add(Action::Kind::kPack, {}, message.index); }
  HostProgram& unpack(MessageName message) { return add(Action::Kind::kUnpack, {}, message.index); }
  HostProgram& promise(MessageName message) { return add(Action::Kind::kPromise, {}, message.index); }
  HostProgram& await(MessageName message) { return add(Action::Kind::kAwait, {}, message.index); }
  HostProgram& start(Requests requests) { return add_for(std::move(requests), Action::Kind::kStart); }
  HostProgram& wait(Requests requests) { return add_for(std::move(requests), Action::Kind::kWait); }
  HostProgram& complete(Requests requests) { return add_for(std::move(requests), Action::Kind::kComplete); }
  HostProgram& free(Requests requests) { return add_for(std::move(requests), Action::Kind::kFree); }
  HostProgram& match(Requests requests) { return add_for(std::move(requests), Action::Kind::kMatch); }
  HostProgram& matched(Requests requests) { return add_for(std::move(requests), Action::Kind::kMatched); }
  HostProgram& withdraw(Requests requests) { return add_for(std::move(requests), Action::Kind::kWithdraw); }
  HostProgram& sync() { return add(Action::Kind::kSync); }
  // Kernels, starts and waits, each start with its wait, as cudaStreamBeginCapture and cudaStreamEndCapture enclose
  // them.
  HostProgram& capture() { return add(Action::Kind::kCapture); }
  HostProgram& captured() { return add(Action::Kind::kCaptured); }
  HostProgram& launch() { return add(Action::Kind::kLaunch); }
  // Requests that kernels of the queue's stream start and wait for, from stand() to dismiss().
  HostProgram& stand(Requests requests) { return add_for(std::move(requests), Action::Kind::kStand); }
  HostProgram& kernel_start(Requests requests) { return add_for(std::move(requests), Action::Kind::kKernelStart); }
  HostProgram& kernel_wait(Requests requests) { return add_for(std::move(requests), Action::Kind::kKernelWait); }
  HostProgram& dismiss(Requests requests) { return add_for(std::move(requests), Action::Kind::kDismiss); }
  // The start, wait or match before is a mistake.
  HostProgram& refused() {
    actions_.back().refused = true;
    return *this;
  }
  // The start before is made again and again while the last one goes on elsewhere.
  HostProgram& repeated() {
    actions_.back().repeated = true;
    return *this;
  }

  const std::vector<Action>& actions() const { return actions_; }
  std::vector<Action>& actions() { return actions_; }
  uint32_t queues() const { return queues_; }

 private:
  HostProgram& add_for(Requests requests, Action::Kind kind) {
    return requests.empty() ? *this : add(kind, std::move(requests));
  }

  uint32_t queue_ = 0;
  uint32_t queues_ = 1;
  std::vector<Action> actions_;
};

class Scenario {
 public:
  struct Message {
    uint32_t from = 0, to = 0;
    MessageOptions options;
  };

  explicit Scenario(uint32_t ranks) : programs_(ranks) {}

  // A send of `from` that matches a receive of `to`, if it does not say otherwise. Ranks may be the same.
  MessageName message(uint32_t from, uint32_t to, const MessageOptions& options = {});
  HostProgram& rank(uint32_t rank) { return programs_.at(rank); }
  // Merges a request with the others of its rank that have this number, from 1; with 0 takes it out again.
  void merge(RequestName request, uint32_t number);

  uint32_t ranks() const { return static_cast<uint32_t>(programs_.size()); }
  const std::vector<Message>& messages() const { return messages_; }
  const HostProgram& program(uint32_t rank) const { return programs_.at(rank); }
  uint32_t rank_of(RequestName request) const {
    const Message& message = messages_.at(request.message());
    return request.receive() ? message.to : message.from;
  }
  // With which others of its rank it is merged; 0: with none.
  uint32_t merged(RequestName request) const {
    const MessageOptions& options = messages_.at(request.message()).options;
    return request.receive() ? options.receive_merged : options.send_merged;
  }
  // Which of two sets of those it is of; 0: there is one.
  uint32_t set(RequestName request) const {
    const MessageOptions& options = messages_.at(request.message()).options;
    return request.receive() ? options.receive_set : options.send_set;
  }
  // Whether anything is merged.
  bool merges() const { return merges_; }
  // Whether graphs or kernels start requests.
  bool stands() const { return has({Action::Kind::kCapture, Action::Kind::kStand}); }
  // Whether a program has an action of one of these kinds.
  bool has(std::initializer_list<Action::Kind> kinds) const;
  // "send of 0 to 1, tag 7"
  std::string describe(RequestName request) const;
  // kInvalidArgument: a rank, message or request that does not exist, an action on another rank's request, or one that
  // cannot be captured, or a launch of nothing.
  Status validate() const;

  // All of it as one word, in letters that no shell touches: see help(). What parse() takes.
  std::string to_string() const;
  // kInvalidArgument says what is wrong. The result is valid.
  static Result<Scenario> parse(const std::string& text);
  // What a help text says of that.
  static std::string help();

 private:
  std::vector<Message> messages_;
  std::vector<HostProgram> programs_;
  bool merges_ = false;
};

// `times` iterations on each rank of pack, start all, wait all, unpack.
struct HaloOptions {
  uint32_t ranks = 2;     // a single one sends to itself
  uint32_t each_way = 1;  // messages from each rank to each of its neighbours
  uint32_t iterations = 2;
  uint32_t bytes = 16;
  bool both_ways = true;     // else only from rank r to r + 1, and no ring
  bool ready = false;        // ready sends, with promises
  bool startall = true;      // one start and one wait for all requests; else one each
  bool sends_first = false;  // sends are started before receives, not after them; not where `ready`
  uint32_t neighbours = 1;   // of each rank: the ranks r + 1 ... r + neighbours, and with both_ways back
  bool sync = false;         // MPIX_Queue_wait after every iteration
  uint32_t queues = 1;       // requests are spread over so many queues of a rank
  bool free = false;         // requests are freed as soon as they have completed
  bool gaps = false;         // in all buffers
  bool merged = false;       // all requests of a rank, which are started together
  bool two_sets = false;     // ... in two sets, of as many messages each, for iterations in turn
};
Scenario make_halo(const HaloOptions& options);

// The parts of a text between those letters; one, where it has none.
std::vector<std::string_view> split(std::string_view text, char at);

}  // namespace lanyard::nicsim

#endif  // LANYARD_NICSIM_DETERMINISTIC_SCENARIO_H_
