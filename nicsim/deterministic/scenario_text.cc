// A Scenario as one word of text, and back. Scenario::help() says what the letters mean.
#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>

#include "nicsim/deterministic/scenario.h"

namespace lanyard::nicsim {

namespace {

using Kind = Action::Kind;

enum class About { kNothing, kMessage, kRequests };
struct Letter {
  char letter;
  Kind kind;
  About about;
};
constexpr Letter kLetters[] = {
    {'p', Kind::kPack, About::kMessage},        {'u', Kind::kUnpack, About::kMessage},
    {'o', Kind::kPromise, About::kMessage},     {'a', Kind::kAwait, About::kMessage},
    {'s', Kind::kStart, About::kRequests},      {'w', Kind::kWait, About::kRequests},
    {'y', Kind::kSync, About::kNothing},        {'c', Kind::kComplete, About::kRequests},
    {'f', Kind::kFree, About::kRequests},       {'m', Kind::kMatch, About::kRequests},
    {'x', Kind::kMatched, About::kRequests},    {'b', Kind::kCapture, About::kNothing},
    {'e', Kind::kCaptured, About::kNothing},    {'l', Kind::kLaunch, About::kNothing},
    {'d', Kind::kStand, About::kRequests},      {'k', Kind::kKernelStart, About::kRequests},
    {'v', Kind::kKernelWait, About::kRequests}, {'z', Kind::kDismiss, About::kRequests},
    {'t', Kind::kWithdraw, About::kRequests},
};

// What is left of a text that is being read.
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
  std::optional<uint32_t> number() {
    uint32_t value = 0;
    const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
    if (error != std::errc())
      return std::nullopt;
    rest_.remove_prefix(static_cast<size_t>(end - rest_.data()));
    return value;
  }

 private:
  std::string_view rest_;
};

std::vector<std::string_view> split(std::string_view text, char at) {
  std::vector<std::string_view> pieces;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(at, begin), text.size());
    pieces.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return pieces;
}

Status wrong(const char* what, std::string_view text) {
  return {Code::kInvalidArgument, std::string("no ") + what + ": '" + std::string(text) + "'"};
}

constexpr uint32_t kMostQueues = 64;
constexpr uint32_t kMostBytes = 1 << 20;
constexpr size_t kMostMessages = 10'000, kMostActions = 100'000;

// What a message says besides where it goes, how long it is and its tag (t).
struct MessageNumber {
  char letter;
  uint32_t MessageOptions::*number;
};
constexpr MessageNumber kMessageNumbers[] = {{'p', &MessageOptions::room}, {'h', &MessageOptions::lacking}};
struct MessageFlag {
  char letter;
  bool MessageOptions::*flag;
};
constexpr MessageFlag kMessageFlags[] = {
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

// False where no option stands there.
bool parse_option(Reader& reader, MessageOptions& options) {
  if (reader.take('t')) {
    const std::optional<uint32_t> tag = reader.number();
    options.tag = static_cast<int>(tag.value_or(0));
    return tag && *tag <= kMostBytes;
  }
  for (const MessageNumber& each : kMessageNumbers)
    if (reader.take(each.letter)) {
      const std::optional<uint32_t> value = reader.number();
      options.*each.number = value.value_or(0);
      return value && *value <= kMostBytes;
    }
  for (const MessageMerged& each : kMessageMerged)
    if (reader.take(each.letter)) {
      options.*each.number = reader.number().value_or(0);
      options.*each.set = reader.take('a') ? 1 : reader.take('b') ? 2 : 0;
      return options.*each.number != 0;
    }
  for (const MessageFlag& each : kMessageFlags)
    if (reader.take(each.letter))
      return options.*each.flag = true;
  return false;
}

Status parse_message(std::string_view text, uint32_t ranks, Scenario& scenario) {
  Reader reader(text);
  const std::optional<uint32_t> from = reader.number();
  const bool dash = reader.take('-');
  const std::optional<uint32_t> to = reader.number();
  const bool colon = reader.take(':');
  const std::optional<uint32_t> bytes = reader.number();
  if (!from || !dash || !to || !colon || !bytes || *bytes > kMostBytes || *from >= ranks || *to >= ranks)
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
    const std::optional<uint32_t> message = reader.number();
    if (!message || *message >= kMostMessages)
      return std::nullopt;
    requests.push_back({2 * *message + (reader.take('r') ? 1 : 0)});
  } while (reader.take('.'));
  return requests;
}

Status parse_action(std::string_view text, HostProgram& host) {
  Reader reader(text);
  if (reader.take('q')) {
    const std::optional<uint32_t> queue = reader.number();
    if (!queue || *queue >= kMostQueues || !reader.done())
      return wrong("queue", text);
    host.on(*queue);
    return {};
  }
  const auto letter = std::find_if(std::begin(kLetters), std::end(kLetters),
                                   [&](const Letter& each) { return reader.take(each.letter); });
  if (letter == std::end(kLetters))
    return wrong("action", text);
  if (letter->about == About::kMessage) {
    const std::optional<uint32_t> message = reader.number();
    if (!message || *message >= kMostMessages || !reader.done())
      return wrong("action", text);
    host.add(letter->kind, {}, *message);
    return {};
  }
  std::vector<RequestName> requests;
  if (letter->about == About::kRequests) {
    std::optional<std::vector<RequestName>> named = requests_in(reader);
    if (!named)
      return wrong("action", text);
    requests = std::move(*named);
  }
  host.add(letter->kind, std::move(requests));
  const bool start = letter->kind == Kind::kStart;
  const bool may_be_refused =
      start || letter->kind == Kind::kWait || letter->kind == Kind::kDismiss || letter->kind == Kind::kMatched;
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
  if (options.tag != 0)
    text += "t" + std::to_string(options.tag);
  for (const MessageNumber& each : kMessageNumbers)
    if (options.*each.number != 0)
      text += each.letter + std::to_string(options.*each.number);
  for (const MessageFlag& each : kMessageFlags)
    if (options.*each.flag)
      text += each.letter;
  for (const MessageMerged& each : kMessageMerged)
    if (options.*each.number != 0)
      text += each.letter + std::to_string(options.*each.number) + kSets[options.*each.set];
  return text;
}

std::string text_of(const Action& action) {
  const auto letter = std::find_if(std::begin(kLetters), std::end(kLetters),
                                   [&](const Letter& each) { return each.kind == action.kind; });
  std::string text(1, letter->letter);
  if (letter->about == About::kMessage)
    return text + std::to_string(action.message);
  for (size_t i = 0; i < action.requests.size(); ++i)
    text +=
        (i > 0 ? "." : "") + std::to_string(action.requests[i].message()) + (action.requests[i].receive() ? "r" : "");
  return text + (action.refused ? "-" : action.repeated ? "+" : "");
}

}  // namespace

std::string Scenario::to_string() const {
  std::string text;
  for (const Message& message : messages_)
    text += (text.empty() ? "" : "_") + text_of(message);
  for (const HostProgram& program : programs_) {
    text += "/";
    bool first = true;
    uint32_t queue = 0;
    const auto add = [&](const std::string& word) {
      text += (first ? "" : "_") + word;
      first = false;
    };
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
      Status status = part == 0 ? parse_message(word, ranks, scenario)
                                : parse_action(word, scenario.rank(static_cast<uint32_t>(part - 1)));
      if (!status.ok())
        return status;
      if (scenario.messages().size() > kMostMessages || ++actions > kMostActions)
        return Status(Code::kInvalidArgument, "the program is too long");
    }
  }
  Status valid = scenario.validate();
  return valid.ok() ? Result<Scenario>(std::move(scenario)) : Result<Scenario>(valid);
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
