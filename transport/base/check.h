// LANYARD_CHECK: a broken invariant of ours ends the process, in release builds too. Never for a user's mistake.
#ifndef LANYARD_TRANSPORT_BASE_CHECK_H_
#define LANYARD_TRANSPORT_BASE_CHECK_H_

namespace lanyard {

// Prints "lanyard: FILE:LINE: check failed: CONDITION: WHY" to stderr and aborts.
[[noreturn]] void check_failed(const char* file, int line, const char* condition, const char* why);

}  // namespace lanyard

#define LANYARD_CHECK(condition, why)                                 \
  do {                                                                \
    if (!(condition)) [[unlikely]]                                    \
      ::lanyard::check_failed(__FILE__, __LINE__, #condition, (why)); \
  } while (false)

#endif  // LANYARD_TRANSPORT_BASE_CHECK_H_
