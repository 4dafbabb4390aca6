// StallInquiry: finds out why a call does not return. It describes what this process waits for, and
// asks the process that it waits for the same question, and so on. The chain ends at a process that
// waits for no other, does not answer, or was asked before. The last case is a cycle. In each
// line of the report, one process describes itself.
//
// Processes answer at different times, so slow processes can look like a cycle. Therefore the
// processes of a cycle are asked twice. Iterations only grow: a process that waits for the same
// iteration both times has waited in between. So all of them wait at once, between the two rounds.
#ifndef LANYARD_API_STALL_INQUIRY_H_
#define LANYARD_API_STALL_INQUIRY_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "api/context_lock.h"
#include "api/request_table.h"
#include "transport/core/queue.h"

struct lanyard_queue;

namespace lanyard::api {

class Context;

// What one process asks another.
struct StallQuestion {
  enum class Kind : uint64_t {
    kIteration,  // why has this iteration of your request `number` not completed?
    kMatch,      // which of your requests could match one of rank `peer` in this communicator?
    kPresence,   // what does your program do? Only the NIC of the asked process matters
  };
  Kind kind = Kind::kIteration;
  uint64_t number = 0;
  uint64_t iteration = 0;
  uint64_t communicator = 0;
  int32_t peer = 0;      // kMatch: the asking process's rank in the communicator
  uint32_t is_send = 0;  // kMatch: whether the asking process has a send

  friend bool operator==(const StallQuestion&, const StallQuestion&) = default;
};

// The next process to ask, and the question.
struct StallHop {
  uint32_t rank = 0;
  StallQuestion question;
  friend bool operator==(const StallHop&, const StallHop&) = default;
};

// The answer to a question: describes the process, and names the process that it waits for, if any.
struct StallAnswer {
  std::string text;
  std::optional<StallHop> next{};
  // Nothing is left to do for the process's program and stream, only for its NIC.
  bool is_done_here = false;
  bool has_completed = false;  // the iteration is complete in the process
  // Other messages of an exchange, which may be missing as well. Not sent to other processes.
  std::vector<StallHop> others{};
};

// Answers a question of rank `from` about this process. Never blocks.
StallAnswer answer_question(Context& context, uint32_t from, const StallQuestion& question)
    LANYARD_REQUIRES(context_locked);
// What a queue waits for, and the next process to ask.
StallAnswer describe_queue(lanyard_queue& queue) LANYARD_REQUIRES(context_locked);
// The same for requests that are being matched.
StallAnswer describe_match(Context& context, const std::vector<const RequestRecord*>& records)
    LANYARD_REQUIRES(context_locked);

// "2.5 s"
std::string in_seconds(std::chrono::steady_clock::duration time);

// No function blocks.
class StallInquiry {
 public:
  using Clock = std::chrono::steady_clock;
  // A process that does not answer within this time is taken for stopped.
  static constexpr std::chrono::milliseconds kAnswerTime{1000};
  static constexpr int kMostHops = 32;
  // In bytes. Longer answers are truncated.
  static constexpr size_t kLongestText = 16 * 1024;

  // Starts with this process's own answer, and asks the next process.
  StallInquiry(Context& context, StallAnswer first) LANYARD_REQUIRES(context_locked);
  ~StallInquiry() LANYARD_REQUIRES(context_locked);
  StallInquiry(const StallInquiry&) = delete;
  StallInquiry& operator=(const StallInquiry&) = delete;

  // Poll until true.
  bool finished() LANYARD_REQUIRES(context_locked);
  // The report: the conclusion, then all answers. Requires finished().
  std::string text() const LANYARD_REQUIRES(context_locked);
  const std::optional<StallHop>& first_asked() const { return first_asked_; }

  // Handles a question or an answer of another process. Ignores malformed messages.
  static void on_message(Context& context, uint32_t from, std::span<const std::byte> message)
      LANYARD_REQUIRES(context_locked);

 private:
  void follow(const StallAnswer& answer) LANYARD_REQUIRES(context_locked);
  std::optional<StallHop> next_after(const StallAnswer& answer);
  void ask(const StallHop& hop) LANYARD_REQUIRES(context_locked);
  void take(uint32_t from, const StallAnswer& answer) LANYARD_REQUIRES(context_locked);
  void ask_cycle_again() LANYARD_REQUIRES(context_locked);
  void confirm(const StallAnswer& answer) LANYARD_REQUIRES(context_locked);
  void conclude_cycle() LANYARD_REQUIRES(context_locked);

  // A process that was asked, and its answer.
  struct Asked {
    StallHop hop;
    std::optional<StallHop> next{};
    bool is_done_here = false;
  };

  Context& context_;
  std::vector<std::string> lines_;
  std::string conclusion_;  // if empty, the last line is the conclusion
  const std::optional<StallHop> first_asked_;
  std::vector<StallHop> others_;  // to ask if the first has done its part
  std::vector<Asked> asked_;
  std::optional<size_t> confirming_;  // index in `asked_` of the process that is asked again
  std::optional<StallHop> waiting_;   // has not answered yet
  Clock::time_point since_;
  uint64_t id_ = 0;
};

}  // namespace lanyard::api

#endif  // LANYARD_API_STALL_INQUIRY_H_
