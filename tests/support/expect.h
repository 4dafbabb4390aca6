// What tests of every layer expect of a status, of a text, and of time.
#ifndef LANYARD_TESTS_SUPPORT_EXPECT_H_
#define LANYARD_TESTS_SUPPORT_EXPECT_H_

#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <thread>

#include "transport/base/status.h"

namespace lanyard {

inline ::testing::AssertionResult works(const Status& status) {
  return status.ok() ? ::testing::AssertionSuccess() : ::testing::AssertionFailure() << status.to_string();
}

// Whether the text contains that part. The result explains itself either way.
inline ::testing::AssertionResult has(const std::string& text, const std::string& part) {
  if (text.find(part) != std::string::npos)
    return ::testing::AssertionSuccess() << "\"" << part << "\" is in\n" << text;
  return ::testing::AssertionFailure() << "\"" << part << "\" is not in\n" << text;
}
inline ::testing::AssertionResult has(const Status& status, const std::string& part) {
  return has(status.message(), part);
}

// Calls `drive` until `done`. False after `limit`, which is far longer than any correct wait, also
// under sanitizers.
template <typename Done, typename Drive>
[[nodiscard]] bool eventually(Done done, Drive drive,
                              std::chrono::steady_clock::duration limit = std::chrono::seconds(120)) {
  const auto end = std::chrono::steady_clock::now() + limit;
  while (!done()) {
    if (std::chrono::steady_clock::now() > end)
      return false;
    drive();
  }
  return true;
}
// The same where other threads bring it about.
template <typename Done>
[[nodiscard]] bool eventually(Done done) {
  return eventually(done, [] { std::this_thread::sleep_for(std::chrono::microseconds(50)); });
}

}  // namespace lanyard

#endif  // LANYARD_TESTS_SUPPORT_EXPECT_H_
