#include "nicsim/deterministic/scenario.h"

#include <algorithm>
#include <optional>

namespace lanyard::nicsim {

namespace {

// How far the captures of a host program have come.
class Captures {
 public:
  explicit Captures(uint32_t queues) : captured_(queues) {}

  // Why the action may not stand there; null where it may.
  const char* take(const Action& action) {
    using Kind = Action::Kind;
    switch (action.kind) {
      case Kind::kCapture:
        if (open())
          return "a capture is under way";
        queue_ = action.queue;
        return nullptr;
      case Kind::kCaptured:
        if (queue_ != action.queue)
          return "no capture is under way on this queue";
        captured_[action.queue] = unwaited_.empty();
        unwaited_.clear();
        queue_.reset();
        return nullptr;
      case Kind::kLaunch:
        return captured_[action.queue] && !open() ? nullptr
                                                  : "nothing was captured on this queue, or a start without its wait";
      default: return open() ? take_captured(action) : nullptr;
    }
  }
  bool open() const { return queue_.has_value(); }

 private:
  const char* take_captured(const Action& action) {
    using Kind = Action::Kind;
    const bool start = action.kind == Kind::kStart, wait = action.kind == Kind::kWait;
    const bool kernel = action.kind == Kind::kPack || action.kind == Kind::kUnpack || action.kind == Kind::kPromise;
    if (queue_ != action.queue || !(start || wait || kernel) || action.refused || action.repeated)
      return "this cannot be captured";
    for (const RequestName request : action.requests) {
      const auto found = std::find(unwaited_.begin(), unwaited_.end(), request);
      if (start != (found == unwaited_.end()))
        return start ? "the request's last captured start has no wait" : "no start of the request was captured";
      if (start)
        unwaited_.push_back(request);
      else
        unwaited_.erase(found);
    }
    return nullptr;
  }

  std::vector<bool> captured_;     // by queue: something was, and no start without its wait
  std::optional<uint32_t> queue_;  // of the capture under way
  std::vector<RequestName> unwaited_;
};

}  // namespace

HostProgram& HostProgram::on(uint32_t queue) {
  queue_ = queue;
  queues_ = std::max(queues_, queue + 1);
  return *this;
}

HostProgram& HostProgram::add(Action::Kind kind, Requests requests, uint32_t message) {
  actions_.push_back({.kind = kind, .queue = queue_, .message = message, .requests = std::move(requests)});
  return *this;
}

bool HostProgram::has(std::initializer_list<Action::Kind> kinds) const {
  return std::any_of(actions_.begin(), actions_.end(), [kinds](const Action& action) {
    return std::find(kinds.begin(), kinds.end(), action.kind) != kinds.end();
  });
}

bool Scenario::has(std::initializer_list<Action::Kind> kinds) const {
  return std::any_of(programs_.begin(), programs_.end(),
                     [kinds](const HostProgram& program) { return program.has(kinds); });
}

HostProgram& HostProgram::refused() {
  actions_.back().refused = true;
  return *this;
}

HostProgram& HostProgram::repeated() {
  actions_.back().repeated = true;
  return *this;
}

MessageName Scenario::message(uint32_t from, uint32_t to, const MessageOptions& options) {
  const auto index = static_cast<uint32_t>(messages_.size());
  messages_.push_back({from, to, options});
  merges_ = merges_ || options.send_merged != 0 || options.receive_merged != 0;
  return {index, {2 * index}, {2 * index + 1}};
}

void Scenario::merge(RequestName request, uint32_t number) {
  MessageOptions& options = messages_.at(request.message()).options;
  (request.receive() ? options.receive_merged : options.send_merged) = number;
  merges_ = true;
}

void Scenario::part(RequestName request) {
  MessageOptions& options = messages_.at(request.message()).options;
  (request.receive() ? options.receive_merged : options.send_merged) = 0;
  (request.receive() ? options.receive_set : options.send_set) = 0;
}

std::string Scenario::describe(RequestName request) const {
  const Message& message = messages_.at(request.message());
  const bool nobody = message.options.nobody;
  const std::string from = nobody && request.receive() ? "nobody" : std::to_string(message.from);
  const std::string to = nobody && !request.receive() ? "nobody" : std::to_string(message.to);
  const std::string tag = ", tag " + std::to_string(message.options.tag);
  if (request.receive())
    return "recv of " + to + " from " + from + tag;
  return std::string(message.options.ready ? "rsend" : "send") + " of " + from + " to " + to + tag;
}

Status Scenario::validate() const {
  const auto complain = [](uint32_t rank, size_t action, const std::string& what) {
    return Status(Code::kInvalidArgument,
                  "rank " + std::to_string(rank) + ", action " + std::to_string(action) + ": " + what);
  };
  for (const Message& message : messages_)
    if (message.from >= ranks() || message.to >= ranks())
      return {Code::kInvalidArgument, "a message between ranks " + std::to_string(message.from) + " and " +
                                          std::to_string(message.to) + " of " + std::to_string(ranks())};
  for (const Message& message : messages_)
    if (const MessageOptions& o = message.options;
        o.nobody && (o.ready || o.any_source || o.any_tag || o.send_gaps || o.receive_gaps))
      return {Code::kInvalidArgument, "MPI_PROC_NULL's is a regular send, has no wildcard, and nobody packs for it"};
  for (const Message& message : messages_)
    if (const MessageOptions& o = message.options; o.lacking > o.bytes || (o.lacking > 0 && (o.room > 0 || o.nobody)))
      return {Code::kInvalidArgument, "a receive that is too short lacks no more than there is"};
  for (uint32_t rank = 0; rank < ranks(); ++rank) {
    const std::vector<Action>& actions = programs_[rank].actions();
    Captures captures(programs_[rank].queues());
    for (size_t i = 0; i < actions.size(); ++i) {
      using Kind = Action::Kind;
      const Action& action = actions[i];
      if (const char* wrong = captures.take(action))
        return complain(rank, i, wrong);
      const bool of_message = is_of_message(action.kind);
      if (of_message && action.message >= messages_.size())
        return complain(rank, i, "no such message");
      const bool by_receiver = action.kind == Kind::kUnpack || action.kind == Kind::kPromise;
      if (of_message && rank_of({2 * action.message + (by_receiver ? 1 : 0)}) != rank)
        return complain(rank, i, "the message's other end is to do that");
      for (const RequestName request : action.requests) {
        if (request.message() >= messages_.size())
          return complain(rank, i, "no such request");
        if (rank_of(request) != rank)
          return complain(rank, i, "the request (" + describe(request) + ") belongs to another rank");
        const bool lacking = messages_[request.message()].options.lacking > 0;
        if (action.kind == Kind::kMatched && lacking != action.refused)
          return complain(rank, i,
                          "the request (" + describe(request) + (lacking ? ") cannot be" : ") is") + " matched");
        if (std::count(action.requests.begin(), action.requests.end(), request) > 1)
          return complain(rank, i, "the request (" + describe(request) + ") stands there twice");
      }
    }
    if (captures.open())
      return complain(rank, actions.size(), "a capture does not end");
  }
  return {};
}

Scenario make_halo(const HaloOptions& options) {
  Scenario scenario(options.ranks);
  std::vector<std::vector<MessageName>> sent(options.ranks), received(options.ranks);
  int tag = 0;
  const uint32_t merged = options.merged || options.two_sets ? 1 : 0;
  const auto connect = [&](uint32_t from, uint32_t to) {
    for (uint32_t i = 0; i < options.each_way * (options.two_sets ? 2 : 1); ++i) {
      const uint32_t set = options.two_sets ? i % 2 + 1 : 0;
      const MessageName message = scenario.message(from, to,
                                                   {.bytes = options.bytes,
                                                    .tag = tag++,
                                                    .ready = options.ready,
                                                    .send_gaps = options.gaps,
                                                    .receive_gaps = options.gaps,
                                                    .send_merged = merged,
                                                    .receive_merged = merged,
                                                    .send_set = set,
                                                    .receive_set = set});
      sent[from].push_back(message);
      received[to].push_back(message);
    }
  };
  // A single rank is its own neighbour.
  if (options.ranks == 1)
    connect(0, 0);
  for (uint32_t rank = 0; rank < options.ranks; ++rank) {
    for (uint32_t step = 1; step <= options.neighbours; ++step) {
      const uint32_t next = (rank + step) % options.ranks;
      const bool wraps = rank + step >= options.ranks;
      // Of two ranks each is the other's neighbour on either side: one connection is enough.
      if (wraps && (!options.both_ways || options.ranks <= 2 * step))
        continue;
      connect(rank, next);
      if (options.both_ways)
        connect(next, rank);
    }
  }
  const auto requests_of = [](const std::vector<MessageName>& messages, uint32_t receives) {
    std::vector<RequestName> requests;
    for (const MessageName message : messages)
      requests.push_back({2 * message.index + receives});
    return requests;
  };
  for (uint32_t rank = 0; rank < options.ranks; ++rank) {
    HostProgram& host = scenario.rank(rank);
    for (uint32_t i = 0; i < options.iterations; ++i) {
      for (uint32_t queue = 0; queue < options.queues; ++queue) {
        host.on(queue);
        const auto mine = [&](const std::vector<MessageName>& all) {
          std::vector<MessageName> some;
          for (size_t k = queue; k < all.size(); k += options.queues)
            if (!options.two_sets || scenario.set(all[k].send) == i % 2 + 1)
              some.push_back(all[k]);
          return some;
        };
        std::vector<RequestName> receives, sends;
        for (const MessageName message : mine(received[rank]))
          receives.push_back(message.receive);
        for (const MessageName message : mine(sent[rank])) {
          host.pack(message);
          sends.push_back(message.send);
        }
        std::vector<RequestName> all = receives;
        all.insert(options.sends_first ? all.begin() : all.end(), sends.begin(), sends.end());
        if (options.ready) {
          // Receives first, and told to the senders, who wait for that.
          if (!receives.empty())
            host.start(receives);
          for (const MessageName message : mine(received[rank]))
            host.promise(message);
          for (const MessageName message : mine(sent[rank]))
            host.await(message);
          if (!sends.empty())
            host.start(sends);
          host.wait(all);
        } else if (options.startall) {
          host.start(all).wait(all);
        } else {
          for (const RequestName request : all)
            host.start({request});
          for (const RequestName request : all)
            host.wait({request});
        }
        for (const MessageName message : mine(received[rank]))
          host.unpack(message);
        if (options.sync)
          host.sync();
      }
    }
    if (options.free)
      host.free(requests_of(received[rank], 1)).free(requests_of(sent[rank], 0));
    for (uint32_t queue = 0; queue < options.queues; ++queue)
      host.on(queue).sync();
  }
  return scenario;
}

}  // namespace lanyard::nicsim
