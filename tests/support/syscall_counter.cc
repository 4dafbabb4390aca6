#include "tests/support/syscall_counter.h"

#include "tests/support/sanitizers.h"

#if defined(__linux__) && defined(__x86_64__) && !defined(LANYARD_THREAD_SANITIZER)

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <ucontext.h>

#include <cstddef>
#include <cstdint>
#include <thread>

// Makes a system call with up to six arguments, like syscall(3), but returns -errno. The seccomp
// filter lets it pass by the address after its instruction.
extern "C" long lanyard_untrapped_syscall(long number, long a, long b, long c, long d, long e, long f);
extern "C" const char lanyard_after_untrapped_syscall[];
asm(R"(
    .pushsection .text
    .hidden lanyard_untrapped_syscall
    .globl lanyard_untrapped_syscall
    .type lanyard_untrapped_syscall, @function
lanyard_untrapped_syscall:
    mov %rdi, %rax
    mov %rsi, %rdi
    mov %rdx, %rsi
    mov %rcx, %rdx
    mov %r8, %r10
    mov %r9, %r8
    mov 8(%rsp), %r9
    syscall
    .hidden lanyard_after_untrapped_syscall
    .globl lanyard_after_untrapped_syscall
lanyard_after_untrapped_syscall:
    ret
    .size lanyard_untrapped_syscall, . - lanyard_untrapped_syscall
    .popsection
)");

namespace lanyard {
namespace {

// Only the counted thread and its signal handler write this.
struct Notes {
  volatile bool on = false;
  volatile size_t count = 0;
  long calls[SyscallCounter::kMaxNoted];
} notes;

void on_trapped_call(int, siginfo_t*, void* context) {
  ucontext_t* const state = static_cast<ucontext_t*>(context);
  greg_t* const registers = state->uc_mcontext.gregs;
  const long number = registers[REG_RAX];
  if (notes.on && notes.count < SyscallCounter::kMaxNoted) {
    notes.calls[notes.count] = number;
    notes.count = notes.count + 1;
  }
  registers[REG_RAX] = lanyard_untrapped_syscall(number, registers[REG_RDI], registers[REG_RSI], registers[REG_RDX],
                                                 registers[REG_R10], registers[REG_R8], registers[REG_R9]);
  if (number == SYS_rt_sigprocmask) {
    // The return from the handler restores a mask: make it the new one. A blocked
    // SIGSYS would kill.
    const long mask = reinterpret_cast<long>(&state->uc_sigmask);
    lanyard_untrapped_syscall(SYS_rt_sigprocmask, SIG_BLOCK, 0, mask, _NSIG / 8, 0, 0);
    sigdelset(&state->uc_sigmask, SIGSYS);
  }
}

bool install_filter() {
  const uint64_t allowed = reinterpret_cast<uint64_t>(lanyard_after_untrapped_syscall);
  constexpr uint32_t kAddress = offsetof(seccomp_data, instruction_pointer);
  sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_rt_sigreturn, 5, 0),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, kAddress),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<uint32_t>(allowed), 0, 2),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, kAddress + 4),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<uint32_t>(allowed >> 32), 1, 0),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog program{static_cast<unsigned short>(std::size(filter)), filter};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

}  // namespace

bool SyscallCounter::available() { return true; }

bool SyscallCounter::run(const std::function<void(SyscallCounter&)>& body) {
  struct sigaction action {};
  struct sigaction previous {};
  action.sa_sigaction = on_trapped_call;
  action.sa_flags = SA_SIGINFO | SA_NODEFER;
  if (sigaction(SIGSYS, &action, &previous) != 0)
    return false;
  bool installed = false;
  std::thread thread([&] {
    installed = install_filter();
    SyscallCounter counter;
    if (installed)
      body(counter);
  });
  thread.join();
  sigaction(SIGSYS, &previous, nullptr);
  return installed;
}

std::vector<long> SyscallCounter::during(const std::function<void()>& measured) {
  notes.count = 0;
  notes.on = true;
  measured();
  notes.on = false;
  return {notes.calls, notes.calls + notes.count};
}

}  // namespace lanyard

#else

namespace lanyard {

bool SyscallCounter::available() { return false; }
bool SyscallCounter::run(const std::function<void(SyscallCounter&)>&) { return false; }
std::vector<long> SyscallCounter::during(const std::function<void()>&) { return {}; }

}  // namespace lanyard

#endif
