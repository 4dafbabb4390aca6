#include "api/control_thread.h"

#include <limits.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "api/blocking_call.h"
#include "api/context.h"
#include "api/queue.h"
#include "transport/base/futex.h"
#include "transport/base/service_thread.h"

namespace lanyard::api {

Status ControlThread::start() {
  called_ = context_.plane().listen(listener());
  Result<std::thread> thread = start_service_thread("lanyard-control", [this] { run(); });
  if (thread.ok())
    thread_ = std::move(thread.value());
  return thread.status();
}

void ControlThread::stop() {
  stopping_.store(true);
  wake();
  if (!thread_.joinable())
    return;
  thread_.join();
  context_.plane().stop_listening();
}

nic::Listener ControlThread::listener() {
  return {[](void* object) {
            auto* self = static_cast<ControlThread*>(object);
            self->context_.plane().notice();
            if (self->attendants_.load() == 0)
              self->wake();
          },
          this};
}

void ControlThread::wake() {
  if (signal_.exchange(1) == 0)
    futex_wake(signal_, 1);
}

// Of what the NIC noticed meanwhile either it has seen that nobody attends any more, or this sees it here.
void ControlThread::leave() {
  attendants_.fetch_sub(1);
  const ContextLock lock(context_);
  if (context_.plane().pending())
    wake();
}

void ControlThread::speak() {
  while (!unsaid_.empty()) {
    pollfd room{.fd = STDERR_FILENO, .events = POLLOUT, .revents = 0};
    if (poll(&room, 1, 0) <= 0)
      return;
    // A pipe with any room has room for so much.
    const ssize_t length = write(STDERR_FILENO, unsaid_.data(), std::min<size_t>(unsaid_.size(), PIPE_BUF));
    if (length < 0 && (errno == EAGAIN || errno == EINTR))
      return;
    unsaid_.erase(0, length < 0 ? unsaid_.size() : static_cast<size_t>(length));
  }
}

void ControlThread::run() {
  while (!stopping_.load()) {
    bool pending = false;
    // Whoever attends the NIC serves it, unless a kernel runs on that very thread.
    context_.nic().progress();
    {
      const ContextLock lock(context_);
      if (!called_)
        context_.plane().notice();
      context_.introductions().look(context_.plane());
      context_.plane().progress();
      pending = !called_ || context_.plane().pending() || context_.introductions().expects();
      watch_kernels(context_);
      for (BlockingCall* call : context_.blocking_calls())
        unsaid_ += call->watch();
    }
    speak();
    const std::chrono::milliseconds sleep = pending ? kLookAgain : kWatch;
    if (signal_.load() == 0)
      (void)futex_wait(signal_, 0, sleep);
    signal_.store(0);
  }
}

}  // namespace lanyard::api
