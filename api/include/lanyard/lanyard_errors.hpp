// MPI's errors in C++ (part of lanyard.hpp): as exceptions or as std::error_code.
#ifndef LANYARD_LANYARD_ERRORS_HPP_
#define LANYARD_LANYARD_ERRORS_HPP_

#include <mpi.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <system_error>

namespace lanyard {

namespace detail {

inline bool mpi_runs() noexcept {
  int initialised = 0;
  int finalised = 0;
  MPI_Initialized(&initialised);
  MPI_Finalized(&finalised);
  return initialised != 0 && finalised == 0;
}

class Category final : public std::error_category {
 public:
  const char* name() const noexcept override { return "MPI"; }
  std::string message(int code) const override {
    char text[MPI_MAX_ERROR_STRING + 1] = "";
    int length = 0;
    if (!mpi_runs() || MPI_Error_string(code, text, &length) != MPI_SUCCESS)
      return "MPI error " + std::to_string(code);
    return std::string(text, static_cast<size_t>(length));
  }
};

}  // namespace detail

// The category of MPI's error codes. The text of a Lanyard code stays valid until 256 other errors
// have happened.
inline const std::error_category& mpi_category() noexcept {
  static const detail::Category category;
  return category;
}

// The class of an MPI error code, for comparison with MPI_ERR_* and LANYARD_ERR_*.
inline int error_class(int code) noexcept {
  int result = code;
  if (detail::mpi_runs())
    MPI_Error_class(code, &result);
  return result;
}
inline int error_class(const std::error_code& code) noexcept { return error_class(code.value()); }

// The exception of all functions here: code() is MPI's code, what() its text.
class Error : public std::system_error {
 public:
  explicit Error(int code) : std::system_error(code, mpi_category()), class_(lanyard::error_class(code)) {}
  int error_class() const noexcept { return class_; }

 private:
  int class_;
};

namespace detail {

[[noreturn]] inline void raise(const Error& error) {
#ifdef __cpp_exceptions
  throw error;
#else
  std::fprintf(stderr, "%s\n", error.what());
  std::abort();
#endif
}

}  // namespace detail

// How a call reports errors: it throws Error, or sets a std::error_code, which converts to an
// OnError. Pass an OnError, do not store it. If compiled without exceptions, the program writes the
// text to stderr and aborts instead of throwing.
class OnError {
 public:
  OnError() = default;
  OnError(std::error_code& code) noexcept : code_(&code) {}
  void take(int code) const {
    if (code_ != nullptr)
      code_->assign(code, mpi_category());
    else if (code != MPI_SUCCESS)
      detail::raise(Error(code));
  }

 private:
  std::error_code* code_ = nullptr;
};

}  // namespace lanyard

#endif  // LANYARD_LANYARD_ERRORS_HPP_
