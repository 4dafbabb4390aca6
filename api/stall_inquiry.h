// StallInquiry: finds out why a call does not return, across processes. It says what this process waits for, asks the
// process that it waits for what that one waits for, and so on, until somebody waits for nobody else, does not answer,
// or has been asked before: then the circle is closed. Every line of the report is what a process knows of itself.
//
// The answers are of different moments, and slow processes look like a circle when each has gone on before the next was
// asked. So a circle is gone around twice. Iterations only grow: who waits for the same one both times has waited for
// it all the while, and between the two rounds all of them did.
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
    kIteration,  // what keeps this iteration of the receiver's request `number`?
    kMatch,      // what has the receiver that `direction` of rank `peer` with `tag` in this communicator could match?
    kProgram,    // what does the receiver's program do?
    kPresence,   // the same, of a process whose card is waited for and not its program: nothing follows from the answer
  };
  Kind kind = Kind::kIteration;
  uint64_t number = 0;
  uint64_t iteration = 0;
  uint64_t communicator = 0;
  int32_t peer = 0;      // kMatch: the asker's rank in the communicator
  uint32_t is_send = 0;  // kMatch: what the asker has

  friend bool operator==(const StallQuestion&, const StallQuestion&) = default;
};

// The next process to ask, and about what.
struct StallHop {
  uint32_t rank = 0;
  StallQuestion question;
  friend bool operator==(const StallHop&, const StallHop&) = default;
};

// What came of a question: what the process says of itself, and whom it waits for, if it does.
struct StallAnswer {
  std::string text;
  std::optional<StallHop> next;
  // Its program and its stream have done their part of what was asked about: it is for the cards to go on, if the next
  // one's have, too.
  bool is_done_here = false;
  bool has_completed = false;      // there
  std::vector<StallHop> others{};  // of an exchange's messages, of which it is not known which is missing; stay here
};

// Answers for this process. Never blocks.
StallAnswer answer_question(Context& context, uint32_t from, const StallQuestion& question)
    LANYARD_REQUIRES(context_locked);
// What a queue waits for, and who knows more.
StallAnswer describe_queue(lanyard_queue& queue) LANYARD_REQUIRES(context_locked);
// The same for requests that are being matched.
StallAnswer describe_match(Context& context, const std::vector<const RequestRecord*>& records)
    LANYARD_REQUIRES(context_locked);

// "2.5 s"
std::string in_seconds(std::chrono::steady_clock::duration time);

// None of it blocks.
class StallInquiry {
 public:
  using Clock = std::chrono::steady_clock;
  // A process that has not answered for so long does not run.
  static constexpr std::chrono::milliseconds kAnswerTime{1000};
  static constexpr int kMostHops = 32;
  // Longer answers are cut.
  static constexpr size_t kLongestText = 16 * 1024;

  // Begins with what this process says.
  StallInquiry(Context& context, StallAnswer first) LANYARD_REQUIRES(context_locked);
  ~StallInquiry() LANYARD_REQUIRES(context_locked);
  StallInquiry(const StallInquiry&) = delete;
  StallInquiry& operator=(const StallInquiry&) = delete;

  // Whether nothing more is to be learned.
  bool finished() LANYARD_REQUIRES(context_locked);
  // The conclusion, and below it how it was come to. Requires finished().
  std::string text() const LANYARD_REQUIRES(context_locked);
  const std::optional<StallHop>& first_asked() const { return first_asked_; }

  // A message of another process's: a question or an answer. Of what makes no sense nothing comes.
  static void on_message(Context& context, uint32_t from, std::span<const std::byte> message)
      LANYARD_REQUIRES(context_locked);

 private:
  void follow(const StallAnswer& answer) LANYARD_REQUIRES(context_locked);
  std::optional<StallHop> next_after(const StallAnswer& answer);
  void ask(const StallHop& hop) LANYARD_REQUIRES(context_locked);
  void take(uint32_t from, const StallAnswer& answer) LANYARD_REQUIRES(context_locked);
  void go_around_again() LANYARD_REQUIRES(context_locked);
  void confirm(const StallAnswer& answer) LANYARD_REQUIRES(context_locked);
  void conclude_circle() LANYARD_REQUIRES(context_locked);

  // A process that was asked, and what it said.
  struct Asked {
    StallHop hop;
    std::optional<StallHop> next;
    bool is_done_here = false;
  };

  Context& context_;
  std::vector<std::string> lines_;
  std::string conclusion_;  // where it is not the last line
  const std::optional<StallHop> first_asked_;
  std::vector<StallHop> others_;  // to be asked where the first has nothing to say
  std::vector<Asked> asked_;
  std::optional<size_t> confirming_;  // the place in `asked_` of who is asked again
  std::optional<StallHop> waiting_;   // for the answer
  Clock::time_point since_;
  uint64_t id_ = 0;
};

}  // namespace lanyard::api

#endif  // LANYARD_API_STALL_INQUIRY_H_
