// CrashNote: what a thread runs, told should it die of a signal, so that a crash of the code under test can be had
// again.
#ifndef LANYARD_TOOLS_LANYARD_CRASH_NOTE_H_
#define LANYARD_TOOLS_LANYARD_CRASH_NOTE_H_

#include <cstdint>
#include <string>

namespace lanyard::tools {

// While one lives, the calling thread's. At most one a thread.
class CrashNote {
 public:
  // From now on a thread of this process with a note that dies of a signal (SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT)
  // writes the command that repeats its last run to stdout, and that it crashed to stderr, before it does.
  static void install();

  // `command`, to which a seed and the rest are appended.
  explicit CrashNote(std::string command);
  ~CrashNote();
  CrashNote(const CrashNote&) = delete;
  CrashNote& operator=(const CrashNote&) = delete;

  void runs(uint64_t seed) { seed_ = seed; }

 private:
  static void tell(int signal);

  const std::string command_;
  volatile uint64_t seed_ = 0;
};

}  // namespace lanyard::tools

#endif  // LANYARD_TOOLS_LANYARD_CRASH_NOTE_H_
