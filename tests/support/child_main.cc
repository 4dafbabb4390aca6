// main() of a test program that also runs itself as a child process in other roles.
#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/support/child_process.h"

int main(int argc, char** argv) {
  for (const auto& [variable, run] : lanyard::ChildRole::all())
    if (const char* const value = std::getenv(variable))
      return run(value);
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
