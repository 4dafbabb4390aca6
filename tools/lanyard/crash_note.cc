#include <signal.h>
#include <unistd.h>

#include <charconv>
#include <cstring>
#include <iterator>
#include <string_view>
#include <utility>

#include "tools/lanyard/campaign.h"
#include "transport/base/check.h"

namespace lanyard::tools {

namespace {

constexpr int kSignals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};

thread_local const CrashNote* note = nullptr;

// If this fails, nothing more can be done.
void write_all(int to, std::string_view text) {
  [[maybe_unused]] const ssize_t written = ::write(to, text.data(), text.size());
}

void write_number(int to, uint64_t number) {
  char digits[20];
  const auto [end, error] = std::to_chars(std::begin(digits), std::end(digits), number);
  write_all(to, {digits, static_cast<size_t>(end - digits)});
}

}  // namespace

// Calls only functions that a signal handler may call.
void CrashNote::tell(int signal) {
  if (const CrashNote* mine = std::exchange(note, nullptr); mine != nullptr) {
    write_all(STDOUT_FILENO, mine->command_);
    write_all(STDOUT_FILENO, " --schedules 1 --seed ");
    write_number(STDOUT_FILENO, mine->seed_);
    write_all(STDOUT_FILENO, "  # crashes\n");
    write_all(STDERR_FILENO, "lanyard: the code under test crashed with signal ");
    write_number(STDERR_FILENO, static_cast<uint64_t>(signal));
    write_all(STDERR_FILENO, "; the command on stdout repeats the run\n");
  }
  ::raise(signal);  // SA_RESETHAND: ends the process as without a handler
}

void CrashNote::install() {
  struct sigaction action = {};
  action.sa_handler = &CrashNote::tell;
  action.sa_flags = SA_RESETHAND | SA_NODEFER;
  for (const int signal : kSignals)
    LANYARD_CHECK(::sigaction(signal, &action, nullptr) == 0, std::strerror(errno));
}

CrashNote::CrashNote(std::string command) : command_(std::move(command)) { note = this; }
CrashNote::~CrashNote() { note = nullptr; }

}  // namespace lanyard::tools
