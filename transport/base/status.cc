#include "transport/base/status.h"

#include <cstdio>
#include <cstdlib>
#include <iterator>

namespace lanyard {

const char* code_name(Code code) {
  static constexpr const char* kNames[] = {"Ok",        "Again",     "InvalidArgument", "InvalidState",
                                           "NotFound",  "Exhausted", "Unsupported",     "TimedOut",
                                           "Truncated", "Unmapped",  "Failed"};
  static_assert(std::size(kNames) == static_cast<size_t>(Code::kFailed) + 1);
  const auto index = static_cast<size_t>(code);
  return index < std::size(kNames) ? kNames[index] : "Unknown";
}

const std::string& Status::message() const {
  static const std::string none;
  return ok() ? none : error_->message;
}

std::string Status::to_string() const {
  return ok() ? code_name(Code::kOk) : std::string(code_name(code())) + ": " + message();
}

namespace {

thread_local int checks_throw = 0;

}  // namespace

CheckFailed::CheckFailed(const char* file, int line, const char* condition, const char* why) {
  std::snprintf(text_, sizeof(text_), "%s:%d: check failed: %s: %s", file, line, condition, why);
}

ChecksThrow::ChecksThrow() { ++checks_throw; }
ChecksThrow::~ChecksThrow() { --checks_throw; }

void check_failed(const char* file, int line, const char* condition, const char* why) {
  const CheckFailed failure(file, line, condition, why);
  if (checks_throw > 0)
    throw failure;
  std::fprintf(stderr, "lanyard: %s\n", failure.what());
  std::abort();
}

}  // namespace lanyard
