// ChildProcess: runs this program again in another role. An environment variable names the role.
// The main() of child_main.cc checks the variables of all ChildRoles before it runs the tests.
#ifndef LANYARD_TESTS_CHILD_PROCESS_H_
#define LANYARD_TESTS_CHILD_PROCESS_H_

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

extern char** environ;

namespace lanyard {

// A child process whose environment has `variable` calls run() with its value and exits
// with the result.
struct ChildRole {
  ChildRole(const char* variable, int (*run)(const char* value)) { all().push_back({variable, run}); }

  static std::vector<std::pair<const char*, int (*)(const char*)>>& all() {
    static std::vector<std::pair<const char*, int (*)(const char*)>> roles;
    return roles;
  }
};

// Write or read all bytes, or return false. For pipes.
inline bool write_all(int fd, const void* from, size_t bytes) {
  const auto* at = static_cast<const char*>(from);
  while (bytes > 0) {
    const ssize_t count = ::write(fd, at, bytes);
    if (count <= 0)
      return false;
    at += count;
    bytes -= static_cast<size_t>(count);
  }
  return true;
}
inline bool read_all(int fd, void* to, size_t bytes) {
  auto* at = static_cast<char*>(to);
  while (bytes > 0) {
    const ssize_t count = ::read(fd, at, bytes);
    if (count <= 0)
      return false;
    at += count;
    bytes -= static_cast<size_t>(count);
  }
  return true;
}
// Called by a child process: returns when the parent closes the pipe.
inline void wait_for_end_of_input() {
  char byte = 0;
  while (::read(STDIN_FILENO, &byte, 1) > 0) {
  }
}

class ChildProcess {
 public:
  ChildProcess(const char* role, const std::string& value) {
    int to[2] = {-1, -1}, from[2] = {-1, -1};
    EXPECT_EQ(::pipe2(to, O_CLOEXEC), 0);
    EXPECT_EQ(::pipe2(from, O_CLOEXEC), 0);
    ::setenv(role, value.c_str(), 1);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, to[0], STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, from[1], STDOUT_FILENO);
    char program[] = "/proc/self/exe";
    std::array<char*, 2> arguments{program, nullptr};
    EXPECT_EQ(::posix_spawn(&pid_, program, &actions, nullptr, arguments.data(), environ), 0);
    posix_spawn_file_actions_destroy(&actions);
    ::unsetenv(role);
    ::close(to[0]);
    ::close(from[1]);
    input_ = to[1];
    output_ = from[0];
  }
  ~ChildProcess() {
    ::close(input_);
    ::close(output_);
    int status = 0;
    EXPECT_EQ(::waitpid(pid_, &status, 0), pid_);
    EXPECT_EQ(status != 0, is_dead_);
  }
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  // Kills the process. It stays a zombie until the destructor waits for it.
  void die() {
    EXPECT_EQ(::kill(pid_, SIGKILL), 0);
    is_dead_ = true;
  }
  // Stops the process until resume().
  void stop() {
    EXPECT_EQ(::kill(pid_, SIGSTOP), 0);
    int status = 0;
    EXPECT_EQ(::waitpid(pid_, &status, WUNTRACED), pid_);
  }
  void resume() { EXPECT_EQ(::kill(pid_, SIGCONT), 0); }
  bool tell(const void* from, size_t bytes) { return write_all(input_, from, bytes); }
  bool hear(void* to, size_t bytes) { return read_all(output_, to, bytes); }

 private:
  pid_t pid_ = -1;
  int input_ = -1, output_ = -1;
  bool is_dead_ = false;
};

}  // namespace lanyard

#endif  // LANYARD_TESTS_CHILD_PROCESS_H_
