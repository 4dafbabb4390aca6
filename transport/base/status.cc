#include "transport/base/status.h"

#include <cstdio>
#include <cstdlib>

namespace lanyard {

const char* code_name(Code code) {
  switch (code) {
    case Code::kOk: return "Ok";
    case Code::kAgain: return "Again";
    case Code::kInvalidArgument: return "InvalidArgument";
    case Code::kInvalidState: return "InvalidState";
    case Code::kNotFound: return "NotFound";
    case Code::kExhausted: return "Exhausted";
    case Code::kUnsupported: return "Unsupported";
    case Code::kTimedOut: return "TimedOut";
    case Code::kTruncated: return "Truncated";
    case Code::kUnmapped: return "Unmapped";
    case Code::kFailed: return "Failed";
  }
  return "Unknown";
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
