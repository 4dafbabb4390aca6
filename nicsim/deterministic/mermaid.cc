#include "nicsim/deterministic/mermaid.h"

#include <optional>
#include <set>
#include <vector>

namespace lanyard::nicsim {

namespace {

// Viewers refuse diagrams of more than 50,000 characters.
constexpr size_t kMostMessages = 250;

// In the order in which they stand in the diagram.
struct Participant {
  uint32_t rank = 0;
  Story::Row row = Story::Row::kCpu;

  std::string id() const {
    const char* part = row == Story::Row::kCpu ? "cpu" : row == Story::Row::kStream ? "stream" : "nic";
    return part + std::to_string(rank);
  }
  std::string name() const { return "rank " + std::to_string(rank) + " " + Story::row_name(row); }
  friend auto operator<=>(const Participant&, const Participant&) = default;
};

struct Message {
  Participant from, to;
  const char* arrow = "->>";
  std::string text;
};

// What ends a message or begins markup, as the entities that Mermaid has for that. A new line becomes a break.
std::string escape(const std::string& text) {
  std::string safe;
  for (const char c : text) {
    switch (c) {
      case ';': safe += "#59;"; break;
      case '#': safe += "#35;"; break;
      case '<': safe += "#lt;"; break;
      case '>': safe += "#gt;"; break;
      case '\n': safe += "<br/>"; break;
      default: safe += c;
    }
  }
  return safe;
}

class Drawing {
 public:
  explicit Drawing(const Story& story) : story_(story) {}

  std::string text() const {
    std::vector<Message> messages;
    for (const Story::Event& event : story_.events)
      if (std::optional<Message> message = message_of(event))
        messages.push_back(std::move(*message));
    const size_t left_out = messages.size() > kMostMessages ? messages.size() - kMostMessages : 0;
    messages.erase(messages.begin(), messages.begin() + static_cast<std::ptrdiff_t>(left_out));

    std::set<Participant> participants;
    for (const Message& message : messages)
      participants.insert({message.from, message.to});
    if (participants.empty())
      participants.insert(at(0, Story::Row::kCpu));
    std::string text = "sequenceDiagram\n";
    for (const Participant& participant : participants)
      text += "  participant " + participant.id() + " as " + participant.name() + "\n";
    const std::string everybody =
        participants.begin()->id() + (participants.size() > 1 ? "," + participants.rbegin()->id() : std::string());
    const auto note = [&](const std::string& what) { text += "  Note over " + everybody + ": " + escape(what) + "\n"; };
    if (left_out > 0)
      note(std::to_string(left_out) + " messages before these are left out");
    for (const Message& message : messages)
      text += "  " + message.from.id() + message.arrow + message.to.id() + ": " + escape(message.text) + "\n";
    if (!story_.report.ok())
      note(finding_name(story_.report.finding) + std::string(" at step ") + std::to_string(story_.report.step) +
           ", oracle: " + story_.report.oracle + "\n" + story_.report.text);
    return text;
  }

 private:
  static Participant at(uint32_t rank, Story::Row row) { return {rank, row}; }

  std::optional<Message> message_of(const Story::Event& event) const {
    const Participant cpu = at(event.rank, Story::Row::kCpu), stream = at(event.rank, Story::Row::kStream),
                      nic = at(event.rank, Story::Row::kNic);
    const std::string text = std::to_string(event.step) + ": " + event.text;
    if (event.killed)
      return Message{cpu, cpu, "--x", text};
    switch (event.kind) {
      // What else the host enqueues shows when the stream gets to it.
      case StepKind::kHost:
        if (event.text.starts_with("host: start"))
          return Message{cpu, stream, "->>", text};
        if (event.text.starts_with("host: sync") || event.text.starts_with("host: free"))
          return Message{cpu, cpu, "->>", text};
        return std::nullopt;
      case StepKind::kPost: return Message{cpu, nic, "->>", text};
      // Rings show when they land.
      case StepKind::kStream:
        if (event.text.starts_with("stream: rings"))
          return std::nullopt;
        return Message{stream, stream, "->>", text};
      case StepKind::kRing: return Message{stream, nic, "->>", text};
      case StepKind::kFire:
      case StepKind::kOverflow:
      case StepKind::kLand:
      case StepKind::kAck: return of_operation(event, text);
      default: return std::nullopt;
    }
  }

  std::optional<Message> of_operation(const Story::Event& event, const std::string& text) const {
    if (event.operation == Story::kNone)
      return std::nullopt;
    const Story::Operation& operation = story_.operations[event.operation];
    const bool wakes = operation.role == Transit::Role::kDone || operation.role == Transit::Role::kFlag;
    const Participant from = at(operation.from, Story::Row::kNic),
                      to = at(operation.to, wakes ? Story::Row::kStream : Story::Row::kNic);
    if (event.kind == StepKind::kLand)
      return Message{from, to, operation.failed ? "--x" : "->>", text};
    if (event.kind == StepKind::kAck)
      return operation.failed ? std::optional<Message>({to, from, "-->>", text}) : std::nullopt;
    // It fires: shown where nothing else of it will be.
    return operation.land == Story::kNone ? std::optional<Message>({from, to, "-)", text}) : std::nullopt;
  }

  const Story& story_;
};

}  // namespace

std::string mermaid_diagram(const Story& story) { return Drawing(story).text(); }

}  // namespace lanyard::nicsim
