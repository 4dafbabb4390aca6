#include "nicsim/deterministic/scenario.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>
#include <variant>

namespace lanyard::nicsim {

namespace {

using Kind = Action::Kind;

// Checks the captures of a host program, action by action.
class Captures {
 public:
  explicit Captures(uint32_t queues) : captured_(queues) {}

  // Takes the next action. Returns the reason if it is not allowed here, else null.
  const char* take(const Action& action) {
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

  std::vector<bool> captured_;     // by queue: its last capture can be launched: each start has a wait
  std::optional<uint32_t> queue_;  // of the open capture
  std::vector<RequestName> unwaited_;
};

}  // namespace

bool Scenario::has(std::initializer_list<Kind> kinds) const {
  return std::ranges::any_of(programs_, [&](const HostProgram& program) {
    return std::ranges::any_of(
        program.actions(), [&](const Action& action) { return std::ranges::find(kinds, action.kind) != kinds.end(); });
  });
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
  (request.receive() ? options.receive_set : options.send_set) = 0;
  merges_ = true;
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
  for (const auto& [from, to, o] : messages_) {
    if (from >= ranks() || to >= ranks())
      return {Code::kInvalidArgument, "a message between ranks " + std::to_string(from) + " and " + std::to_string(to) +
                                          " of " + std::to_string(ranks())};
    if (o.nobody && (o.ready || o.any_source || o.any_tag || o.send_gaps || o.receive_gaps))
      return {Code::kInvalidArgument, "MPI_PROC_NULL's is a regular send, has no wildcard, and nobody packs for it"};
    if (o.lacking > o.bytes || (o.lacking > 0 && (o.room > 0 || o.nobody)))
      return {Code::kInvalidArgument, "a receive that is too short lacks no more than there is"};
  }
  for (uint32_t rank = 0; rank < ranks(); ++rank) {
    const std::vector<Action>& actions = programs_[rank].actions();
    Captures captures(programs_[rank].queues());
    size_t i = 0;
    const auto complain = [&](const std::string& what) {
      return Status(Code::kInvalidArgument,
                    "rank " + std::to_string(rank) + ", action " + std::to_string(i) + ": " + what);
    };
    for (; i < actions.size(); ++i) {
      const Action& action = actions[i];
      if (const char* wrong = captures.take(action))
        return complain(wrong);
      const bool of_message = is_of_message(action.kind);
      if (of_message && action.message >= messages_.size())
        return complain("no such message");
      if (of_message && rank_of(action.side()) != rank)
        return complain("the message's other end is to do that");
      for (const RequestName request : action.requests) {
        if (request.message() >= messages_.size())
          return complain("no such request");
        if (rank_of(request) != rank)
          return complain("the request (" + describe(request) + ") belongs to another rank");
        const bool lacking = messages_[request.message()].options.lacking > 0;
        if (action.kind == Kind::kMatched && lacking != action.refused)
          return complain("the request (" + describe(request) + (lacking ? ") cannot be" : ") is") + " matched");
        if (std::count(action.requests.begin(), action.requests.end(), request) > 1)
          return complain("the request (" + describe(request) + ") stands there twice");
      }
    }
    if (captures.open())
      return complain("a capture does not end");
  }
  return {};
}

// ---- The halo

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
  if (options.ranks == 1)
    connect(0, 0);
  for (uint32_t rank = 0; rank < options.ranks; ++rank) {
    for (uint32_t step = 1; step <= options.neighbours; ++step) {
      const uint32_t next = (rank + step) % options.ranks;
      const bool wraps = rank + step >= options.ranks;
      // With both_ways the two ranks are connected already. Without, there is no ring.
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
        const std::vector<RequestName> receives = requests_of(mine(received[rank]), 1);
        const std::vector<RequestName> sends = requests_of(mine(sent[rank]), 0);
        for (const MessageName message : mine(sent[rank]))
          host.pack(message);
        std::vector<RequestName> all = receives;
        all.insert(options.sends_first ? all.begin() : all.end(), sends.begin(), sends.end());
        if (options.ready) {
          // Start receives first and promise that to the senders, which wait for the promises.
          host.start(receives);
          for (const MessageName message : mine(received[rank]))
            host.promise(message);
          for (const MessageName message : mine(sent[rank]))
            host.await(message);
          host.start(sends).wait(all);
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

// ---- A Scenario as one word of text, and back. Scenario::help() explains the letters.

namespace {

constexpr std::string_view kLetters = "puswyoacfmxtbeldkvz";  // by Kind
bool names_requests(Kind kind) {
  return !is_of_message(kind) && kind != Kind::kSync && kind != Kind::kCapture && kind != Kind::kCaptured &&
         kind != Kind::kLaunch;
}

// Reads a text from left to right.
class Reader {
 public:
  explicit Reader(std::string_view text) : rest_(text) {}

  bool done() const { return rest_.empty(); }
  bool take(char letter) {
    if (!rest_.starts_with(letter))
      return false;
    rest_.remove_prefix(1);
    return true;
  }
  std::optional<uint32_t> number(uint32_t most = UINT32_MAX) {
    uint32_t value = 0;
    const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
    if (error != std::errc() || value > most)
      return std::nullopt;
    rest_.remove_prefix(static_cast<size_t>(end - rest_.data()));
    return value;
  }

 private:
  std::string_view rest_;
};

Status wrong(const char* what, std::string_view text) {
  return {Code::kInvalidArgument, std::string("no ") + what + ": '" + std::string(text) + "'"};
}

constexpr uint32_t kMostQueues = 64, kMostBytes = 1 << 20, kMostMessages = 10'000, kMostActions = 100'000;

// The options of a message as letters, except `bytes`.
struct MessageLetter {
  char letter;
  std::variant<int MessageOptions::*, uint32_t MessageOptions::*, bool MessageOptions::*> field;
};
constexpr MessageLetter kMessageLetters[] = {
    {'t', &MessageOptions::tag},    {'p', &MessageOptions::room},       {'h', &MessageOptions::lacking},
    {'r', &MessageOptions::ready},  {'s', &MessageOptions::any_source}, {'g', &MessageOptions::any_tag},
    {'n', &MessageOptions::nobody}, {'x', &MessageOptions::send_gaps},  {'y', &MessageOptions::receive_gaps},
};
struct MessageMerged {
  char letter;
  uint32_t MessageOptions::*number;
  uint32_t MessageOptions::*set;
};
constexpr MessageMerged kMessageMerged[] = {
    {'i', &MessageOptions::send_merged, &MessageOptions::send_set},
    {'j', &MessageOptions::receive_merged, &MessageOptions::receive_set},
};

// Returns false if no valid option comes next.
bool parse_option(Reader& reader, MessageOptions& options) {
  for (const auto& [letter, field] : kMessageLetters) {
    if (!reader.take(letter))
      continue;
    if (const auto* flag = std::get_if<bool MessageOptions::*>(&field))
      return options.**flag = true;
    const std::optional<uint32_t> value = reader.number(kMostBytes);
    std::visit([&](auto number) { options.*number = value.value_or(0); }, field);
    return value.has_value();
  }
  for (const auto& [letter, number, set] : kMessageMerged)
    if (reader.take(letter)) {
      options.*number = reader.number().value_or(0);
      options.*set = reader.take('a') ? 1 : reader.take('b') ? 2 : 0;
      return options.*number != 0;
    }
  return false;
}

Status parse_message(std::string_view text, uint32_t ranks, Scenario& scenario) {
  Reader reader(text);
  const std::optional<uint32_t> from = reader.number(ranks - 1);
  const bool dash = reader.take('-');
  const std::optional<uint32_t> to = reader.number(ranks - 1);
  const bool colon = reader.take(':');
  const std::optional<uint32_t> bytes = reader.number(kMostBytes);
  if (!from || !dash || !to || !colon || !bytes)
    return wrong("message", text);
  MessageOptions options{.bytes = *bytes};
  while (!reader.done())
    if (!parse_option(reader, options))
      return wrong("message", text);
  scenario.message(*from, *to, options);
  return {};
}

std::optional<std::vector<RequestName>> requests_in(Reader& reader) {
  std::vector<RequestName> requests;
  do {
    const std::optional<uint32_t> message = reader.number(kMostMessages - 1);
    if (!message)
      return std::nullopt;
    requests.push_back({2 * *message + (reader.take('r') ? 1 : 0)});
  } while (reader.take('.'));
  return requests;
}

Status parse_action(std::string_view text, HostProgram& host) {
  Reader reader(text);
  if (reader.take('q')) {
    const std::optional<uint32_t> queue = reader.number(kMostQueues - 1);
    if (!queue || !reader.done())
      return wrong("queue", text);
    host.on(*queue);
    return {};
  }
  const auto letter = std::ranges::find_if(kLetters, [&](char each) { return reader.take(each); });
  if (letter == kLetters.end())
    return wrong("action", text);
  const auto kind = static_cast<Kind>(letter - kLetters.begin());
  std::optional<uint32_t> message = 0;
  std::optional<std::vector<RequestName>> requests{std::in_place};
  if (is_of_message(kind))
    message = reader.number(kMostMessages - 1);
  else if (names_requests(kind))
    requests = requests_in(reader);
  if (!message || !requests)
    return wrong("action", text);
  host.add(kind, std::move(*requests), *message);
  const bool start = kind == Kind::kStart;
  const bool may_be_refused = start || kind == Kind::kWait || kind == Kind::kDismiss || kind == Kind::kMatched;
  if (may_be_refused && reader.take('-'))
    host.refused();
  else if (start && reader.take('+'))
    host.repeated();
  return reader.done() ? Status() : wrong("action", text);
}

std::string text_of(const Scenario::Message& message) {
  constexpr const char* kSets[] = {"", "a", "b"};
  const MessageOptions& options = message.options;
  std::string text =
      std::to_string(message.from) + "-" + std::to_string(message.to) + ":" + std::to_string(options.bytes);
  for (const auto& [letter, field] : kMessageLetters)
    if (const int64_t value = std::visit([&](auto each) { return int64_t{options.*each}; }, field); value != 0)
      text += letter + (std::holds_alternative<bool MessageOptions::*>(field) ? "" : std::to_string(value));
  for (const auto& [letter, number, set] : kMessageMerged)
    if (options.*number != 0)
      text += letter + std::to_string(options.*number) + kSets[options.*set];
  return text;
}

std::string text_of(const Action& action) {
  std::string text(1, kLetters[static_cast<size_t>(action.kind)]);
  if (is_of_message(action.kind))
    return text + std::to_string(action.message);
  for (size_t i = 0; i < action.requests.size(); ++i)
    text +=
        (i > 0 ? "." : "") + std::to_string(action.requests[i].message()) + (action.requests[i].receive() ? "r" : "");
  return text + (action.refused ? "-" : action.repeated ? "+" : "");
}

}  // namespace

std::vector<std::string_view> split(std::string_view text, char at) {
  std::vector<std::string_view> pieces;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(at, begin), text.size());
    pieces.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return pieces;
}

std::string Scenario::to_string() const {
  std::string text;
  for (const Message& message : messages_)
    text += (text.empty() ? "" : "_") + text_of(message);
  for (const HostProgram& program : programs_) {
    text += "/";
    uint32_t queue = 0;
    const auto add = [&](const std::string& word) { text += (text.back() == '/' ? "" : "_") + word; };
    for (const Action& action : program.actions()) {
      if (action.queue != queue)
        add("q" + std::to_string(action.queue));
      queue = action.queue;
      add(text_of(action));
    }
  }
  return text;
}

Result<Scenario> Scenario::parse(const std::string& text) {
  const std::vector<std::string_view> parts = split(text, '/');
  if (parts.size() < 2)
    return wrong("program of any rank in", text);
  const auto ranks = static_cast<uint32_t>(parts.size() - 1);
  Scenario scenario(ranks);
  size_t actions = 0;
  for (size_t part = 0; part < parts.size(); ++part) {
    if (parts[part].empty())
      continue;
    for (const std::string_view word : split(parts[part], '_')) {
      LANYARD_RETURN_IF_ERROR(part == 0 ? parse_message(word, ranks, scenario)
                                        : parse_action(word, scenario.rank(static_cast<uint32_t>(part - 1))));
      if (scenario.messages().size() > kMostMessages || ++actions > kMostActions)
        return Status(Code::kInvalidArgument, "the program is too long");
    }
  }
  LANYARD_RETURN_IF_ERROR(scenario.validate());
  return scenario;
}

std::string Scenario::help() {
  return "A program: messages, then each rank's program, divided by '/', and within them by '_':\n"
         "  0-1:24t3  from rank 0 to rank 1, 24 bytes, tag 3; r: a ready send; pN, hN: the receive is N bytes longer, "
         "or\n"
         "            shorter, and matches nothing; s, g: received from any source, with any tag; n: the send is to "
         "MPI_PROC_NULL, the receive from "
         "it;\n"
         "            x, y: gaps in the buffer of the send, of the receive;\n"
         "            i1, j1: the send, the receive is merged with its rank's others of that number; i1a, i1b: is of\n"
         "            the first, the second of two sets of that number, which are started in turn\n"
         "  q1        on queue 1 from here on\n"
         "  p0 u0     pack and unpack message 0; o0 a0: promise and await that its receive was started\n"
         "  s0.1r     start the send of message 0 and the receive of message 1; s0-: must be refused; s0+: is "
         "repeated\n"
         "            until the last start has completed\n"
         "  w0.1r     wait for them; c: until they have completed; f: free; m: match; x: until they are matched;\n"
         "            x0-: until that has failed as the receive is too short;\n"
         "            t: withdraw: free what was never started, matched or not\n"
         "  y         MPIX_Queue_wait\n"
         "  b e l     begin and end a capture on the queue; launch what was captured there last\n"
         "  d0.1r     give them to kernels of the queue; k: a kernel starts them; v: one waits for them; z: take "
         "back;\n"
         "            z0.1r-: must be refused while something of them is under way\n";
}

}  // namespace lanyard::nicsim
