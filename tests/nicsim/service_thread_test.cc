#include "transport/base/service_thread.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>

#include <cstring>

namespace lanyard {
namespace {

sigset_t blocked_here() {
  sigset_t blocked;
  pthread_sigmask(SIG_SETMASK, nullptr, &blocked);
  return blocked;
}

TEST(ServiceThread, BlocksTheApplicationsSignals) {
  const sigset_t before = blocked_here();
  sigset_t inside;
  Result<std::thread> thread = start_service_thread("lanyard-test", [&] { inside = blocked_here(); });
  ASSERT_TRUE(thread.ok()) << thread.status().to_string();
  thread.value().join();
  for (const int signal : {SIGINT, SIGTERM, SIGUSR1, SIGCHLD, SIGALRM, SIGPROF})
    EXPECT_EQ(sigismember(&inside, signal), 1) << strsignal(signal);
  for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT})
    EXPECT_EQ(sigismember(&inside, fault), 0) << strsignal(fault);
  const sigset_t after = blocked_here();
  for (int signal = 1; signal < SIGRTMIN; ++signal)
    EXPECT_EQ(sigismember(&after, signal), sigismember(&before, signal)) << strsignal(signal);
}

}  // namespace
}  // namespace lanyard
