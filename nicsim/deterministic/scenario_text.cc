// An Scenario as one word of text:
//
//   0-1:24t3r_1-0:16p8/q0_p0_s0.1r_w0.1r_u1_y/...
//
// Messages, then each rank's program, divided by '/'; within them '_'. A message: from, to, bytes; tN: its tag; r: a
// ready send; pN: so much room more in the receive; hN: so much too little; s: received from any source; g: with any
// tag; n: send and receive are MPI_PROC_NULL's; x, y: the send's buffer, the receive's has gaps; iN, jN: the send, the
// receive is merged with its rank's others of that number; iNa, iNb: ... is of the first, the second of two sets of
// that number. Actions are a letter and what they are about: q a queue, p u o a a message, s w c f m x t d k v z
// requests (a message, with r for its receive); y b e l nothing. A '-' behind s, w, x or z: it must be refused; a '+'
// behind s: it is repeated until it is taken.
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
  while (!reader.done()) {
    const bool tag = reader.take('t'), room = !tag && reader.take('p');
    const bool lacking = !tag && !room && reader.take('h');
    const bool send = reader.take('i'), receive = !send && reader.take('j');
    if (send || receive) {
      const std::optional<uint32_t> value = reader.number();
      if (!value || *value == 0)
        return wrong("message", text);
      (send ? options.send_merged : options.receive_merged) = *value;
      (send ? options.send_set : options.receive_set) = reader.take('a') ? 1 : reader.take('b') ? 2 : 0;
    } else if (tag || room || lacking) {
      const std::optional<uint32_t> value = reader.number();
      if (!value || *value > kMostBytes)
        return wrong("message", text);
      if (tag)
        options.tag = static_cast<int>(*value);
      else
        (room ? options.room : options.lacking) = *value;
    } else if (reader.take('r')) {
      options.ready = true;
    } else if (reader.take('s')) {
      options.any_source = true;
    } else if (reader.take('g')) {
      options.any_tag = true;
    } else if (reader.take('n')) {
      options.nobody = true;
    } else if (reader.take('x')) {
      options.send_gaps = true;
    } else if (reader.take('y')) {
      options.receive_gaps = true;
    } else {
      return wrong("message", text);
    }
  }
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
    switch (letter->kind) {
      case Kind::kPack: host.pack({*message, {}, {}}); break;
      case Kind::kUnpack: host.unpack({*message, {}, {}}); break;
      case Kind::kPromise: host.promise({*message, {}, {}}); break;
      default: host.await({*message, {}, {}}); break;
    }
    return {};
  }
  std::vector<RequestName> requests;
  if (letter->about == About::kRequests) {
    std::optional<std::vector<RequestName>> named = requests_in(reader);
    if (!named)
      return wrong("action", text);
    requests = std::move(*named);
  }
  host.actions().push_back(
      {.kind = letter->kind, .queue = host.queue(), .message = 0, .requests = std::move(requests)});
  const bool start = letter->kind == Kind::kStart;
  const bool may_be_refused =
      start || letter->kind == Kind::kWait || letter->kind == Kind::kDismiss || letter->kind == Kind::kMatched;
  if (may_be_refused && reader.take('-'))
    host.refused();
  else if (start && reader.take('+'))
    host.repeated();
  return reader.done() ? Status() : wrong("action", text);
}

std::string text_of_merged(char letter, uint32_t number, uint32_t set) {
  constexpr const char* kSets[] = {"", "a", "b"};
  return number > 0 ? letter + std::to_string(number) + kSets[set] : "";
}

std::string text_of(const Scenario::Message& message) {
  const MessageOptions& options = message.options;
  std::string text =
      std::to_string(message.from) + "-" + std::to_string(message.to) + ":" + std::to_string(options.bytes);
  if (options.tag != 0)
    text += "t" + std::to_string(options.tag);
  if (options.room != 0)
    text += "p" + std::to_string(options.room);
  if (options.lacking != 0)
    text += "h" + std::to_string(options.lacking);
  text += options.ready ? "r" : "";
  text += options.any_source ? "s" : "";
  text += options.any_tag ? "g" : "";
  text += options.nobody ? "n" : "";
  text += options.send_gaps ? "x" : "";
  text += options.receive_gaps ? "y" : "";
  return text + text_of_merged('i', options.send_merged, options.send_set) +
         text_of_merged('j', options.receive_merged, options.receive_set);
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
