#include "api/blocking_call.h"

#include <utility>

#include "api/context.h"
#include "api/queue.h"

namespace lanyard::api {

BlockingCall::BlockingCall(Context& context, Subject subject) : context_(context), subject_(std::move(subject)) {
  show();
}

BlockingCall::~BlockingCall() {
  hide();
  const ContextLock lock(context_);
  inquiry_.reset();
}

void BlockingCall::hide() {
  const ContextLock lock(context_);
  std::erase(context_.blocking_calls(), this);
}

void BlockingCall::show() {
  const ContextLock lock(context_);
  context_.blocking_calls().push_back(this);
}

bool BlockingCall::overdue() const {
  const auto deadline = context_.settings().deadline;
  return deadline.count() > 0 && Clock::now() - begin_ > deadline;
}

StallAnswer BlockingCall::describe_here() const {
  return subject_.queue != nullptr ? describe_queue(*subject_.queue) : describe_match(context_, subject_.records);
}

// Starts or continues an inquiry. Returns true once it has finished and report_ is set.
bool BlockingCall::inquire() {
  if (inquiry_ == nullptr)
    inquiry_ = std::make_unique<StallInquiry>(context_, describe_here());
  if (!inquiry_->finished())
    return false;
  report_ = (subject_.extra ? subject_.extra() : "") + inquiry_->text();
  first_asked_ = inquiry_->first_asked();
  inquiry_.reset();
  return true;
}

bool BlockingCall::report_ready() {
  // The early report still holds if this process waits for the same event. Do not ask again then:
  // other processes may have left their calls at their own deadline.
  const bool still_true = inquiry_ == nullptr && asked_early_ && first_asked_ && describe_here().next == first_asked_;
  return still_true || inquire();
}

std::string BlockingCall::watch() {
  const Settings& settings = context_.settings();
  const Clock::duration waited = Clock::now() - begin_;
  const bool early = !asked_early_ && settings.deadline.count() > 0 && waited > settings.deadline * 3 / 4;
  const bool warns = !warned_ && settings.warn_after.count() > 0 && waited > settings.warn_after;
  if ((!early && !warns) || !inquire())
    return {};
  asked_early_ = asked_early_ || early;
  if (!warns)
    return {};
  warned_ = true;
  return "lanyard: rank " + std::to_string(context_.rank()) + " has waited " +
         std::to_string(settings.warn_after.count()) + " ms in " + subject_.name + ":\n" + report_ + "\n";
}

std::string BlockingCall::describe() const {
  return std::string("its program has been in ") + subject_.name + " for " + in_seconds(Clock::now() - begin_);
}

}  // namespace lanyard::api
