// What one run of a row's check expects and sees. A check goes on after a wrong answer, so that the report has all of
// them; without an object that it needs it ends.
#ifndef LANYARD_TESTS_CXI_RULES_TRIAL_H_
#define LANYARD_TESTS_CXI_RULES_TRIAL_H_

#include <chrono>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <thread>

#include "tests/cxi_rules/rule.h"

namespace lanyard::cxi_rules {

class Trial {
 public:
  explicit Trial(Like like) : like_(like) {}
  bool is_2x() const { return like_ == Like::k2; }

  // A libfabric call's answer: a count or a negative error.
  void code(const std::string& what, int64_t observed, int64_t expected);
  void one_of(const std::string& what, int64_t observed, std::initializer_list<int64_t> expected);
  void value(const std::string& what, uint64_t observed, uint64_t expected);
  void holds(const std::string& what, bool observed);
  // Of something that takes its time.
  template <typename Condition>
  bool soon(const std::string& what, Condition condition) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(5);
    bool met = condition();
    while (!met && std::chrono::steady_clock::now() < end) {
      std::this_thread::yield();
      met = condition();
    }
    holds(what, met);
    return met;
  }
  // Of something that must not happen; long enough for a NIC, short enough for a table.
  template <typename Condition>
  void never(const std::string& what, Condition condition) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(30);
    bool met = condition();
    while (!met && std::chrono::steady_clock::now() < end) {
      std::this_thread::yield();
      met = condition();
    }
    holds("no " + what, !met);
  }

  // A step on the way to the subject: the check ends where it fails.
  void need(const std::string& what, int64_t observed, int64_t expected = 0);
  // The provider or this machine does not have the subject at all.
  [[noreturn]] void not_offered(const std::string& why);

  // What kept a check from going on.
  struct Stop {};

  Outcome outcome() const;

 private:
  void saw(bool right, const std::string& text);

  const Like like_;
  Verdict verdict_ = Verdict::kPassed;
  size_t checks_ = 0;
  std::string seen_, wrong_;
};

}  // namespace lanyard::cxi_rules

#endif  // LANYARD_TESTS_CXI_RULES_TRIAL_H_
