// Counts the system calls that one thread makes. The calls still run.
//
//   if (!SyscallCounter::available()) GTEST_SKIP() << ...;
//   ASSERT_TRUE(SyscallCounter::run([&](SyscallCounter& counter) {
//     warm_up();
//     const std::vector<long> calls = counter.during([&] { hot_path(); });
//     EXPECT_EQ(calls, std::vector<long>());
//   }));
//
// A seccomp filter traps every system call of the thread. The SIGSYS handler records it and repeats
// it from the one instruction that the filter lets through. Calls through the vDSO (usually
// clock_gettime) are not counted. A filter cannot be removed, so each run has a thread of its own,
// which must not start threads or processes.
#ifndef LANYARD_TESTS_SYSCALL_COUNTER_H_
#define LANYARD_TESTS_SYSCALL_COUNTER_H_

#include <cstddef>
#include <functional>
#include <vector>

namespace lanyard {

class SyscallCounter {
 public:
  // Whether this build can count: only on x86-64 Linux, and not under the thread sanitizer, which
  // delays signals.
  static bool available();
  // Runs `body` in a new thread whose system calls can be counted, and waits for it. At most one at
  // a time in a process. False, without a call of `body`, if counting is not available or the
  // kernel refuses the filter.
  static bool run(const std::function<void(SyscallCounter&)>& body);

  // Returns the numbers (<sys/syscall.h>) of the first kMaxNoted system calls that `measured` makes
  // on this thread, in order. The counter itself does not allocate or call the kernel meanwhile.
  static constexpr size_t kMaxNoted = 256;
  std::vector<long> during(const std::function<void()>& measured);

 private:
  SyscallCounter() = default;
};

}  // namespace lanyard

#endif  // LANYARD_TESTS_SYSCALL_COUNTER_H_
