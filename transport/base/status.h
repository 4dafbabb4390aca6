// Status and Result: how every layer below the C API reports errors.
//
// A call that returns an error has changed no state, unless its comment says otherwise. kAgain is
// back-pressure: the same call may succeed after progress. Programs test the code; the message is
// for people.
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
  kAgain,            // back-pressure: no room now; progress and try again
  kInvalidArgument,  // the caller's mistake, in any state
  kInvalidState,     // the caller's mistake, in this state
  kNotFound,         // no such id, key or peer, or no longer
  kExhausted,        // a limit that waiting cannot lift
  kUnsupported,      // this implementation or build cannot do it
  kTimedOut,         // a deadline passed; the awaited event may still happen
  kTruncated,        // a message is longer than the receive buffer
  kUnmapped,         // an operation reads or writes memory that is not mapped
  kFailed,           // the operation ran and failed
};

// The code's name without the k, for example "Exhausted".
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
  // Empty if ok().
  const std::string& message() const;
  // For example "Exhausted: 32 entries wanted, 8 exist".
  std::string to_string() const;

 private:
  struct Error {
    Code code;
    std::string message;
  };
  std::unique_ptr<const Error> error_;  // one word, so success costs almost nothing
};

// A value, or the Status that explains why there is none.
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

// Returns from the calling function if `expression` is an error. That function must return Status
// or Result.
#define LANYARD_RETURN_IF_ERROR(expression)                      \
  do {                                                           \
    if (::lanyard::Status status_ = (expression); !status_.ok()) \
      return status_;                                            \
  } while (false)

// Assigns the value of a Result to `target`, which may be a declaration. On an error, returns that
// error from the calling function.
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
