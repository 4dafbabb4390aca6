// Errors: from Status to MPI error codes whose class and text MPI_Error_class and MPI_Error_string give.
#ifndef LANYARD_API_ERRORS_H_
#define LANYARD_API_ERRORS_H_

#include <mpi.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include <lanyard/lanyard.h>
#include "transport/base/status.h"

namespace lanyard::api {

// The codes that Lanyard has made. MPI codes live for ever, so there is a limited number of them, and the one that was
// returned longest ago is used again: a code's text is right until kCodes further distinct errors have happened.
class Errors {
 public:
  static constexpr size_t kCodes = 256;
  static constexpr int kKinds = LANYARD_ERROR_NIC + 1;

  // Between MPI_Init and MPI_Finalize.
  Errors();

  // Any thread.
  int class_of(Lanyard_Error_kind kind);
  // Whether it is one of the classes made here. MPI's classes are codes too: each is its own class.
  bool is_class(int code) const;
  // A code of this class with this text.
  int code(int error_class, const std::string& text);
  // False where the code is not one of these.
  bool lookup(int code, int* error_class, std::string* text);

 private:
  struct Entry {
    int code;
    int error_class;
    std::string text;
    uint64_t returned;  // when it last was, in errors
  };

  void add_classes();

  // MPI counts classes in MPI_LASTUSEDCODE, and programs that never meet an error of ours may count on it: so there are
  // none before the first error, or question for one.
  std::once_flag classes_once_;
  std::atomic<bool> has_classes_{false};
  int base_class_ = MPI_ERR_OTHER;
  std::array<int, kKinds> kind_classes_{};
  std::mutex mutex_;
  std::vector<Entry> entries_;
  uint64_t returned_ = 0;
};

// Makes a code whose text is "call: text", invokes the communicator's error handler with it, and returns it where the
// handler returns. The handler may leave by longjmp() or an exception: hold no lock, and have no BlockingCall, but a
// hidden one: other threads look at it. `call`: the function that the program called, as it writes it:
// "MPIX_Queue_wait". Outside MPI_Init and MPI_Finalize it says the text on stderr, and where MPI was initialised
// without Lanyard's hearing of it, it ends the job: nothing that follows can work.
int raise(const char* call, MPI_Comm communicator, int error_class, const std::string& text);
// The same for a call outside MPI_Init and MPI_Finalize.
int raise_not_initialised(const char* call);
// What is wrong with an array of requests as such: MPI_SUCCESS, or an error class and its text.
int check_array(int count, const MPI_Request requests[], std::string* text);

}  // namespace lanyard::api

#endif  // LANYARD_API_ERRORS_H_
