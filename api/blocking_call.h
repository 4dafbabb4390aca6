// BlockingCall: a call of the program that waits for other processes. After LANYARD_WARN_S, what it
// waits for is printed to stderr. After LANYARD_DEADLINE_S, it fails with a report.
#ifndef LANYARD_API_BLOCKING_CALL_H_
#define LANYARD_API_BLOCKING_CALL_H_

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "api/context_lock.h"
#include "api/request_table.h"
#include "api/stall_inquiry.h"

struct lanyard_queue;

namespace lanyard::api {

class Context;

// The context lists it from construction to destruction, unless it is hidden. The control thread
// prints warnings for listed calls, and answers to other processes name the newest one.
class BlockingCall {
 public:
  using Clock = std::chrono::steady_clock;
  struct Subject {
    const char* name;                                // "MPIX_Queue_wait"
    lanyard_queue* queue = nullptr;                  // the queue that it waits for, or null
    std::vector<const RequestRecord*> records = {};  // the requests that it matches
    std::function<std::string()> extra = {};         // more text for the report; called with the lock
  };

  BlockingCall(Context& context, Subject subject) LANYARD_EXCLUDES(context_locked);
  ~BlockingCall() LANYARD_EXCLUDES(context_locked);
  BlockingCall(const BlockingCall&) = delete;
  BlockingCall& operator=(const BlockingCall&) = delete;

  // From hide() to show() the call is not listed. Use them around code that may invoke an error
  // handler: it may leave the call by longjmp().
  void hide() LANYARD_EXCLUDES(context_locked);
  void show() LANYARD_EXCLUDES(context_locked);

  Clock::time_point begin() const { return begin_; }
  const Subject& subject() const { return subject_; }
  // Whether the deadline has passed.
  bool overdue() const;
  // Poll until true, then fail with report(). Asks other processes what they wait for, and allows
  // each of them a second to answer. Requires overdue().
  bool report_ready() LANYARD_REQUIRES(context_locked);
  // Requires report_ready().
  const std::string& report() const LANYARD_REQUIRES(context_locked) { return report_; }

  // The control thread calls it periodically. Returns the warning once, when it is due, else "".
  // Print it without the lock. Also asks other processes at 3/4 of the deadline: later, the ones
  // in the same deadlock may have left their calls.
  std::string watch() LANYARD_REQUIRES(context_locked);
  // "its program has been in MPIX_Queue_wait for 3.0 s"
  std::string describe() const LANYARD_REQUIRES(context_locked);

 private:
  StallAnswer describe_here() const LANYARD_REQUIRES(context_locked);
  bool inquire() LANYARD_REQUIRES(context_locked);

  Context& context_;
  const Subject subject_;
  const Clock::time_point begin_ = Clock::now();
  std::unique_ptr<StallInquiry> inquiry_ LANYARD_GUARDED_BY(context_locked);  // in progress, or null
  std::string report_;                                                        // of the last inquiry
  std::optional<StallHop> first_asked_;                                       // the first that it asked
  bool asked_early_ = false;                                                  // before the deadline
  bool warned_ = false;
};

}  // namespace lanyard::api

#endif  // LANYARD_API_BLOCKING_CALL_H_
