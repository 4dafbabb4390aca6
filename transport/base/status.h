// Status and Result: how every layer below the C boundary reports failure.
//
// A call that returns anything but kOk has changed no state, unless its own documentation says so. kAgain is
// back-pressure, not failure: the same call may succeed after progress. Messages are for people; code is for programs.
#ifndef LANYARD_TRANSPORT_BASE_STATUS_H_
#define LANYARD_TRANSPORT_BASE_STATUS_H_

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "transport/base/check.h"

namespace lanyard {

enum class Code {
  kOk,
  kAgain,            // back-pressure: no room now; progress and repeat
  kInvalidArgument,  // the caller's fault, whatever the state
  kInvalidState,     // the caller's fault, in this state
  kNotFound,         // an id, key or peer that does not exist (any more)
  kExhausted,        // a limit that waiting cannot lift
  kUnsupported,      // this implementation or build cannot do it
  kTimedOut,         // a deadline passed; what was waited for may still happen
  kTruncated,        // a message is longer than the buffer that is to receive it
  kUnmapped,         // memory that an operation reads or writes is not mapped (any more)
  kFailed,           // the operation ran and failed
};

// The code's name as it is spelled above, without the k.
const char* code_name(Code code);

class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Code code, std::string message) : error_(new Error{code, std::move(message)}) {
    LANYARD_CHECK(code != Code::kOk, "an error needs an error code");
  }
  Status(const Status& other) : error_(other.ok() ? nullptr : new Error(*other.error_)) {}
  Status(Status&&) = default;
  Status& operator=(Status other) {
    error_ = std::move(other.error_);
    return *this;
  }
  ~Status() = default;

  bool ok() const { return error_ == nullptr; }
  Code code() const { return ok() ? Code::kOk : error_->code; }
  // Empty for kOk.
  const std::string& message() const;
  // "Exhausted: 32 entries wanted, 8 exist"
  std::string to_string() const;

 private:
  struct Error {
    Code code;
    std::string message;
  };
  std::unique_ptr<const Error> error_;  // one word: success costs next to nothing
};

// A value or the Status that says why there is none.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}
  Result(Status status) : status_(std::move(status)) {
    LANYARD_CHECK(!status_.ok(), "a Result without a value needs an error");
  }

  bool ok() const { return value_.has_value(); }
  const Status& status() const { return status_; }
  // Requires ok().
  T& value() {
    LANYARD_CHECK(ok(), status_.message().c_str());
    return *value_;
  }
  const T& value() const {
    LANYARD_CHECK(ok(), status_.message().c_str());
    return *value_;
  }

 private:
  std::optional<T> value_;
  Status status_;
};

// Returns early from a function that itself returns Status or Result.
#define LANYARD_RETURN_IF_ERROR(expression)                      \
  do {                                                           \
    if (::lanyard::Status status_ = (expression); !status_.ok()) \
      return status_;                                            \
  } while (false)

// Assigns the value of a Result to `target`, which may be declared there; returns early with its error.
#define LANYARD_ASSIGN_OR_RETURN(target, expression) \
  LANYARD_ASSIGN_BY(LANYARD_JOIN(result_of_line_, __LINE__), target, expression)
#define LANYARD_ASSIGN_BY(result, target, expression) \
  auto result = (expression);                         \
  if (!result.ok())                                   \
    return result.status();                           \
  target = std::move(result.value())
#define LANYARD_JOIN(a, b) LANYARD_JOIN_EXPANDED(a, b)
#define LANYARD_JOIN_EXPANDED(a, b) a##b

}  // namespace lanyard

#endif  // LANYARD_TRANSPORT_BASE_STATUS_H_
