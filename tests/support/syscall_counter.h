// Counts the system calls that one thread makes, and lets them happen.
//
//   if (!SyscallCounter::available()) GTEST_SKIP() << ...;
//   ASSERT_TRUE(SyscallCounter::run([&](SyscallCounter& counter) {
//     warm_up();
//     const std::vector<long> calls = counter.during([&] { hot_path(); });
//     EXPECT_TRUE(calls.empty()) << SyscallCounter::names(calls);
//   }));
//
// A seccomp filter traps every system call of the thread; the SIGSYS handler notes it and repeats
// it from the one instruction that the filter lets through. Calls through the vDSO (clock_gettime
// as a rule) are none. A filter cannot be taken off again, hence a thread of its own, and that
// thread must not start threads or processes.
#ifndef LANYARD_TESTS_SYSCALL_COUNTER_H_
#define LANYARD_TESTS_SYSCALL_COUNTER_H_

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace lanyard {

class SyscallCounter {
 public:
  // Whether this build can count: x86-64 Linux, not under the thread sanitizer, which delays
  // signals.
  static bool available();
  // Runs `body` in a fresh thread whose system calls can be counted, and waits for it. One at a
  // time in a process. False, without running it, where counting is not available or the kernel
  // refuses the filter.
  static bool run(const std::function<void(SyscallCounter&)>& body);

  // The numbers of the system calls (<sys/syscall.h>) that `measured` makes on this thread, in
  // their order; of more than kMaxNoted the first ones. Does not allocate or call the kernel itself
  // while `measured` runs.
  static constexpr size_t kMaxNoted = 256;
  std::vector<long> during(const std::function<void()>& measured);

  // "202 202 24", for messages.
  static std::string names(const std::vector<long>& calls);

 private:
  SyscallCounter() = default;
};

}  // namespace lanyard

#endif  // LANYARD_TESTS_SYSCALL_COUNTER_H_
