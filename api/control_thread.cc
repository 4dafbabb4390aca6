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
  const auto on_arrival = [](void* object) {
    auto* self = static_cast<ControlThread*>(object);
    self->context_.plane().notice();
    if (self->polling_threads_.load() == 0)
      self->wake();
  };
  listens_ = context_.plane().listen({on_arrival, this});
  LANYARD_ASSIGN_OR_RETURN(thread_, start_service_thread("lanyard-control", [this] { run(); }));
  return {};
}

void ControlThread::stop() {
  stopping_.store(true);
  wake();
  if (!thread_.joinable())
    return;
  thread_.join();
  context_.plane().stop_listening();
}

void ControlThread::wake() {
  if (signal_.exchange(1) == 0)
    futex_wake(signal_, 1);
}

// If the listener still saw this thread polling, it did not wake the control thread: do so here.
void ControlThread::end_polling() {
  polling_threads_.fetch_sub(1);
  const ContextLock lock(context_);
  if (context_.plane().pending())
    wake();
}

void ControlThread::print() {
  while (!unprinted_.empty()) {
    pollfd room{.fd = STDERR_FILENO, .events = POLLOUT, .revents = 0};
    if (poll(&room, 1, 0) <= 0)
      return;
    // poll() says that a pipe is writable only if PIPE_BUF bytes fit.
    const ssize_t length = write(STDERR_FILENO, unprinted_.data(), std::min<size_t>(unprinted_.size(), PIPE_BUF));
    if (length < 0 && (errno == EAGAIN || errno == EINTR))
      return;
    unprinted_.erase(0, length < 0 ? unprinted_.size() : static_cast<size_t>(length));
  }
}

void ControlThread::run() {
  while (!stopping_.load()) {
    bool pending = false;
    // The thread that polls the NIC may be running a kernel, so poll it here, too.
    context_.nic().progress();
    {
      const ContextLock lock(context_);
      if (!listens_)
        context_.plane().notice();
      context_.introductions().look(context_.plane());
      context_.plane().progress();
      pending = !listens_ || context_.plane().pending() || context_.introductions().awaits(context_.plane());
      watch_kernels(context_);
      for (BlockingCall* call : context_.blocking_calls())
        unprinted_ += call->watch();
    }
    print();
    const std::chrono::milliseconds sleep = pending ? kPoll : kWatch;
    if (signal_.load() == 0)
      (void)futex_wait(signal_, 0, sleep);
    signal_.store(0);
  }
}

}  // namespace lanyard::api
