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
    case Code::kFailed: return "Failed";
  }
  return "Unknown";
}

std::string Status::to_string() const {
  return ok() ? code_name(code_) : std::string(code_name(code_)) + ": " + message_;
}

void check_failed(const char* file, int line, const char* condition, const char* why) {
  std::fprintf(stderr, "lanyard: %s:%d: check failed: %s: %s\n", file, line, condition, why);
  std::abort();
}

}  // namespace lanyard
