// Error handlers that do not return: they leave the call by longjmp() or by an exception.
#ifndef LANYARD_TESTS_API_LEAVING_H_
#define LANYARD_TESTS_API_LEAVING_H_

#include <setjmp.h>

#include <functional>

#include "tests/api/api_objects.h"

namespace lanyard::api_test {

enum class Leave { kByJump, kByException };

struct Left {
  int code;
};

// Where leave_call()'s handler jumps to, and the code that it got.
inline jmp_buf left_to;
inline int left_with = MPI_SUCCESS;

inline void jump_out(MPI_Comm*, int* code, ...) {
  left_with = *code;
  longjmp(left_to, 1);
}
inline void throw_out(MPI_Comm*, int* code, ...) { throw Left{*code}; }

// Makes a call whose error handler leaves it. Returns the handler's code, or MPI_SUCCESS if the
// call returned.
inline int leave_call(Leave how, const std::function<int()>& call) {
  MPI_Errhandler handler = MPI_ERRHANDLER_NULL;
  MPI_Comm_create_errhandler(how == Leave::kByJump ? jump_out : throw_out, &handler);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler);
  MPI_Errhandler_free(&handler);
  left_with = MPI_SUCCESS;
  try {
    if (how == Leave::kByException || setjmp(left_to) == 0)
      call();
  } catch (const Left& left) {
    left_with = left.code;
  }
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  return left_with;
}

// Call it on both partners. Expects that the sender, after leaving calls, counts as being in none:
// the other partner's stall report says so.
inline void verify_that_the_sender_is_in_no_call() {
  MPI_Barrier(MPI_COMM_WORLD);
  // Only a process that is known can be asked.
  int known = 0;
  Requests first;
  if (sends())
    first.send(&known, sizeof known, partner(), 31'998);
  else
    first.receive(&known, sizeof known, partner(), 31'998);
  EXPECT_TRUE(ok(MPIX_Match(first.at(0), MPI_STATUS_IGNORE)));
  MPI_Barrier(MPI_COMM_WORLD);
  if (!sends()) {
    int nothing = 0;
    Requests nobodys;
    nobodys.receive(&nothing, sizeof nothing, partner(), 31'999);
    EXPECT_TRUE(reports([&] { return MPIX_Match(nobodys.at(0), MPI_STATUS_IGNORE); }, MPIX_ERR_STALLED,
                        {"its program is in no blocking call of Lanyard"}));
  }
  MPI_Barrier(MPI_COMM_WORLD);
}

}  // namespace lanyard::api_test

#endif  // LANYARD_TESTS_API_LEAVING_H_
