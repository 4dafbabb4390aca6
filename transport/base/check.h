// LANYARD_CHECK: aborts the process on a broken invariant of Lanyard, in release builds too. Never
// use it for a mistake of the user.
#ifndef LANYARD_TRANSPORT_BASE_CHECK_H_
#define LANYARD_TRANSPORT_BASE_CHECK_H_

namespace lanyard {

// Prints "lanyard: FILE:LINE: check failed: CONDITION: WHY" to stderr and aborts. Throws
// CheckFailed instead while a ChecksThrow exists on this thread.
[[noreturn]] void check_failed(const char* file, int line, const char* condition, const char* why);

// Holds "FILE:LINE: check failed: CONDITION: WHY", cut to 511 characters. Allocates no memory.
class CheckFailed {
 public:
  CheckFailed(const char* file, int line, const char* condition, const char* why);
  const char* what() const { return text_; }

 private:
  char text_[512];
};

// While one exists, a failed check on its thread throws CheckFailed instead of aborting.
// Nests. For test harnesses that can restore an earlier state: nothing undoes what the failed
// code has changed.
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
