// BlockingCall: a call of Lanyard's that the program is in, which waits for other processes: how long it goes on before
// it says on stderr what it waits for (LANYARD_WARN_S), and before it gives up with a report (LANYARD_DEADLINE_S).
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

// The context knows of it from construction to destruction, but where it is hidden: the control thread warns, and the
// answers to other processes' questions name it. Those that the program makes one inside the other stand in that order.
class BlockingCall {
 public:
  using Clock = std::chrono::steady_clock;
  struct Subject {
    const char* name;                                // "MPIX_Queue_wait"
    lanyard_queue* queue = nullptr;                  // that it waits for,
    std::vector<const RequestRecord*> records = {};  // or requests that it matches
    std::function<std::string()> extra = {};         // says more, under the lock
  };

  BlockingCall(Context& context, Subject subject) LANYARD_EXCLUDES(context_locked);
  ~BlockingCall() LANYARD_EXCLUDES(context_locked);
  BlockingCall(const BlockingCall&) = delete;
  BlockingCall& operator=(const BlockingCall&) = delete;

  // The context does not know of it from hide() to show(): an error handler may be invoked there, which may leave the
  // call for good by longjmp().
  void hide() LANYARD_EXCLUDES(context_locked);
  void show() LANYARD_EXCLUDES(context_locked);

  Clock::time_point begin() const { return begin_; }
  const Subject& subject() const { return subject_; }
  // Whether the deadline has passed. From then on report_ready() is to be asked until it is true: other processes are
  // asked what they wait for, a second at most for each that does not answer.
  bool overdue() const;
  // Requires overdue().
  bool report_ready() LANYARD_REQUIRES(context_locked);
  // Requires report_ready().
  const std::string& report() const LANYARD_REQUIRES(context_locked) { return report_; }

  // For the control thread, every so often: what is waited for, once, when it is time to say so on stderr, else
  // nothing; and asks other processes some time before the deadline, while those that wait for each other are still in
  // their calls. Who prints had better not hold the lock.
  std::string watch() LANYARD_REQUIRES(context_locked);
  // For whoever asks what this process does. "its program has been in MPIX_Queue_wait for 3 s".
  std::string describe() const LANYARD_REQUIRES(context_locked);

 private:
  StallAnswer ask_here() const LANYARD_REQUIRES(context_locked);
  bool inquire() LANYARD_REQUIRES(context_locked);

  Context& context_;
  const Subject subject_;
  const Clock::time_point begin_ = Clock::now();
  std::unique_ptr<StallInquiry> inquiry_ LANYARD_GUARDED_BY(context_locked);  // under way
  std::string report_;                                                        // of the last one,
  std::optional<StallHop> first_asked_;                                       // and whom it asked first
  bool asked_early_ = false;                                                  // it was made before the deadline
  bool warned_ = false;
};

}  // namespace lanyard::api

#endif  // LANYARD_API_BLOCKING_CALL_H_
