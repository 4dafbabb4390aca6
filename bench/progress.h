// A progress line on stderr every two seconds: on a terminal at once, else only for runs of more
// than five seconds.
#ifndef LANYARD_BENCH_PROGRESS_H_
#define LANYARD_BENCH_PROGRESS_H_

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <string>

namespace lanyard::bench {

class Progress {
 public:
  // is_on: whether this process prints (one rank of the job does).
  Progress(std::string what, long total, bool is_on)
      : what_(std::move(what)),
        total_(total),
        is_on_(is_on),
        is_terminal_(isatty(STDERR_FILENO) != 0),
        begin_(Clock::now()),
        next_(begin_ + (is_terminal_ ? kInterval : kPatience)) {}
  ~Progress() {
    if (has_printed_ && is_terminal_)
      fmt::print(stderr, "\n");
  }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void at(long done) {
    if (!is_on_)
      return;
    const auto now = Clock::now();
    if (now < next_)
      return;
    next_ = now + kInterval;
    const double seconds = std::chrono::duration<double>(now - begin_).count();
    fmt::print(stderr, "{}{}: {} of {} steps, {:.0f} s{}", is_terminal_ ? "\r" : "", what_, done, total_, seconds,
               is_terminal_ ? "" : "\n");
    has_printed_ = true;
  }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::seconds kInterval{2};
  static constexpr std::chrono::seconds kPatience{5};

  std::string what_;
  long total_;
  bool is_on_;
  bool is_terminal_;
  bool has_printed_ = false;
  Clock::time_point begin_;
  Clock::time_point next_;
};

}  // namespace lanyard::bench

#endif  // LANYARD_BENCH_PROGRESS_H_
