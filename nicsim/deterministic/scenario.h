// Scenario: a job of stream-triggered MPI processes, for the deterministic engine. It has messages
// and, for each rank, the program of its host thread. Users write their own; `lanyard fuzz` also
// draws random ones.
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

// A message: a send and its receive.
struct MessageName {
  uint32_t index = 0;
  RequestName send, receive;
};

struct MessageOptions {
  uint32_t bytes = 16;
  int tag = 0;
  bool ready = false;       // a ready send: the program must ensure that the receive has started
  uint32_t room = 0;        // bytes by which the receive is longer than the message
  uint32_t lacking = 0;     // bytes by which the receive is shorter; then the two do not match
  bool any_source = false;  // the receive's wildcards: no other send may fit it while it is being matched
  bool any_tag = false;
  bool nobody = false;     // the send is to MPI_PROC_NULL, the receive from MPI_PROC_NULL: no data moves
  bool send_gaps = false;  // the send's buffer has gaps: the stream packs it
  bool receive_gaps = false;
  // The numbers of the exchanges of which the send and the receive are members, each on its rank.
  // 0: none.
  uint32_t send_merged = 0, receive_merged = 0;
  // The set of the exchange, 1 or 2. Sets start in turn, 1 first. 0: the exchange has one set.
  uint32_t send_set = 0, receive_set = 0;
};

// A step of a host program. kSync, kComplete, kFree and kMatched make the host wait, and kStart if
// the NIC has no room.
struct Action {
  enum class Kind : uint8_t {
    kPack,         // enqueues a kernel that fills a send's buffer with its next content
    kUnpack,       // enqueues a kernel that reads a receive's buffer and checks that it has the next content
    kStart,        // MPIX_Enqueue_startall
    kWait,         // MPIX_Enqueue_waitall
    kSync,         // MPIX_Queue_wait
    kPromise,      // enqueues a kernel that tells the sender of a ready send that the receive has started
    kAwait,        // enqueues a wait for that promise: the ready send may then start
    kComplete,     // polls until the last starts of the requests have completed
    kFree,         // MPI_Request_free, repeated while the last start has not completed
    kMatch,        // begins to match requests: new ones in place of freed ones, or ones that did not match.
                   // At its beginning the world matches no message whose first action is kMatch.
    kMatched,      // waits until they are matched or, if `refused`, until the match fails: the message is too long
    kWithdraw,     // MPI_Request_free of requests that never started, matched or not; withdraws their offers
    kCapture,      // from here on the queue captures what is enqueued and does not run it
    kCaptured,     // ends the capture; if a start lacks its wait, do not launch it, and only free that request
    kLaunch,       // enqueues everything that the queue captured last
    kStand,        // MPIX_Device_requests_create: from here on only kernels start them and wait for them
    kKernelStart,  // enqueues a kernel that calls MPIX_Device_startall
    kKernelWait,   // enqueues a kernel that calls MPIX_Device_waitall
    kDismiss,      // MPIX_Device_requests_free; their starts must have completed
  };
  Kind kind = Kind::kSync;
  uint32_t queue = 0;                 // of the rank
  uint32_t message = 0;               // kPack, kUnpack, kPromise, kAwait
  std::vector<RequestName> requests;  // all other kinds except kSync, kCapture, kCaptured, kLaunch
  bool refused = false;   // kStart, kWait: a mistake: the call must return kInvalidState and change nothing.
                          // kDismiss: likewise; skipped if all have completed. kMatched: see there.
  bool repeated = false;  // kStart: repeated while refused because the last start is in flight on another queue

  // The send or receive that acts. Requires is_of_message(kind).
  RequestName side() const { return {2 * message + (kind == Kind::kUnpack || kind == Kind::kPromise ? 1 : 0)}; }
};

inline bool is_of_message(Action::Kind kind) {
  using Kind = Action::Kind;
  return kind == Kind::kPack || kind == Kind::kUnpack || kind == Kind::kPromise || kind == Kind::kAwait;
}

class Scenario;

// The program of one rank's host thread. Each function appends an action on the queue that on()
// chose last, at first queue 0. Functions for requests append nothing if there are none.
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
  // As cudaStreamBeginCapture and cudaStreamEndCapture. Capture kernels, starts and waits between
  // them, each start with its wait.
  HostProgram& capture() { return add(Action::Kind::kCapture); }
  HostProgram& captured() { return add(Action::Kind::kCaptured); }
  HostProgram& launch() { return add(Action::Kind::kLaunch); }
  // Requests that kernels of the queue's stream start and wait for, from stand() to dismiss().
  HostProgram& stand(Requests requests) { return add_for(std::move(requests), Action::Kind::kStand); }
  HostProgram& kernel_start(Requests requests) { return add_for(std::move(requests), Action::Kind::kKernelStart); }
  HostProgram& kernel_wait(Requests requests) { return add_for(std::move(requests), Action::Kind::kKernelWait); }
  HostProgram& dismiss(Requests requests) { return add_for(std::move(requests), Action::Kind::kDismiss); }
  // Sets Action::refused of the last action.
  HostProgram& refused() {
    actions_.back().refused = true;
    return *this;
  }
  // Sets Action::repeated of the last action.
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

  // Adds a send of `from` and a receive of `to`, which match unless the options say otherwise. The
  // ranks may be the same.
  MessageName message(uint32_t from, uint32_t to, const MessageOptions& options = {});
  HostProgram& rank(uint32_t rank) { return programs_.at(rank); }
  // Makes a request a member of its rank's exchange `number` (from 1), in set 0. Number 0: of none.
  void merge(RequestName request, uint32_t number);

  uint32_t ranks() const { return static_cast<uint32_t>(programs_.size()); }
  const std::vector<Message>& messages() const { return messages_; }
  const HostProgram& program(uint32_t rank) const { return programs_.at(rank); }
  uint32_t rank_of(RequestName request) const {
    const Message& message = messages_.at(request.message());
    return request.receive() ? message.to : message.from;
  }
  // The number of its exchange; 0: none.
  uint32_t merged(RequestName request) const {
    const MessageOptions& options = messages_.at(request.message()).options;
    return request.receive() ? options.receive_merged : options.send_merged;
  }
  // Its set of that exchange, 1 or 2; 0: there is one set.
  uint32_t set(RequestName request) const {
    const MessageOptions& options = messages_.at(request.message()).options;
    return request.receive() ? options.receive_set : options.send_set;
  }
  // True if a request is, or was, a member of an exchange.
  bool merges() const { return merges_; }
  // True if graphs or kernels start requests.
  bool stands() const { return has({Action::Kind::kCapture, Action::Kind::kStand}); }
  // True if a program has an action of one of these kinds.
  bool has(std::initializer_list<Action::Kind> kinds) const;
  // "send of 0 to 1, tag 7"
  std::string describe(RequestName request) const;
  // kInvalidArgument for an unknown rank, message or request, options that contradict each other,
  // an action on another rank's request, a bad capture or a launch of nothing.
  Status validate() const;

  // Returns all of it as one word for parse(), without characters that a shell changes.
  std::string to_string() const;
  // The result is valid. kInvalidArgument names the mistake.
  static Result<Scenario> parse(const std::string& text);
  // Explains the text of parse(), for --help.
  static std::string help();

 private:
  std::vector<Message> messages_;
  std::vector<HostProgram> programs_;
  bool merges_ = false;
};

// A halo exchange. In each iteration each rank packs, starts all, waits for all and unpacks.
struct HaloOptions {
  uint32_t ranks = 2;     // a single rank sends to itself
  uint32_t each_way = 1;  // messages from each rank to each of its neighbours
  uint32_t iterations = 2;
  uint32_t bytes = 16;
  bool both_ways = true;     // false: only from rank r to r + 1, and no ring
  bool ready = false;        // ready sends, with promises
  bool startall = true;      // one start and one wait for all requests; false: one for each
  bool sends_first = false;  // starts sends before receives; ignored if `ready`
  uint32_t neighbours = 1;   // rank r sends to r + 1 ... r + neighbours; with both_ways they send back
  bool sync = false;         // MPIX_Queue_wait after every iteration
  uint32_t queues = 1;       // each rank spreads its requests over this many queues
  bool free = false;         // frees requests as soon as they have completed
  bool gaps = false;         // in all buffers
  bool merged = false;       // one exchange of all requests of a rank
  bool two_sets = false;     // ... with two sets of `each_way` messages, in alternating iterations
};
Scenario make_halo(const HaloOptions& options);

// Returns the parts of the text between the letters `at`; all of it if there are none.
std::vector<std::string_view> split(std::string_view text, char at);

}  // namespace lanyard::nicsim

#endif  // LANYARD_NICSIM_DETERMINISTIC_SCENARIO_H_
