// LANYARD_CHECK: a broken invariant of ours ends the process, in release builds too. Never for a user's mistake.
#ifndef LANYARD_TRANSPORT_BASE_CHECK_H_
#define LANYARD_TRANSPORT_BASE_CHECK_H_

namespace lanyard {

// Prints "lanyard: FILE:LINE: check failed: CONDITION: WHY" to stderr and aborts; or throws, where a ChecksThrow lives.
[[noreturn]] void check_failed(const char* file, int line, const char* condition, const char* why);

// "FILE:LINE: check failed: CONDITION: WHY", cut off where it is long: it owns no memory.
class CheckFailed {
 public:
  CheckFailed(const char* file, int line, const char* condition, const char* why);
  const char* what() const { return text_; }

 private:
  char text_[512];
};

// While one lives, a check that fails on this thread throws CheckFailed. For who runs code under test in a process of
// its own, and has a state to go back to: what the code was at is left as it is. Nests.
class ChecksThrow {
 public:
  ChecksThrow();
  ~ChecksThrow();
  ChecksThrow(const ChecksThrow&) = delete;
  ChecksThrow& operator=(const ChecksThrow&) = delete;
};

}  // namespace lanyard

#define LANYARD_CHECK(condition, why)                                 \
  do {                                                                \
    if (!(condition)) [[unlikely]]                                    \
      ::lanyard::check_failed(__FILE__, __LINE__, #condition, (why)); \
  } while (false)

#endif  // LANYARD_TRANSPORT_BASE_CHECK_H_
