// Errors: makes MPI error codes, which MPI_Error_class and MPI_Error_string can explain.
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

// The error codes that Lanyard has made. MPI never frees a code, so there are at most kCodes. A new
// error then reuses the code that was returned longest ago: a text is valid until kCodes further
// distinct errors have happened.
class Errors {
 public:
  static constexpr size_t kCodes = 256;
  static constexpr int kKinds = LANYARD_ERROR_NIC + 1;

  // Requires that MPI is initialised and not finalised.
  Errors();

  // Any thread may call these.
  int class_of(Lanyard_Error_kind kind);
  // True for an error class made here. A class is also an error code, of its own class.
  bool is_class(int code) const;
  // A code with this class and text.
  int code(int error_class, const std::string& text);
  // False if the code was not made by code(). error_class and text may be null.
  bool lookup(int code, int* error_class, std::string* text);

 private:
  struct Entry {
    int code;
    int error_class;
    std::string text;
    uint64_t returned;  // the value of returned_ when it was last returned
  };

  void add_classes();

  // Adds the classes at the first error or class_of(): they change MPI_LASTUSEDCODE, which a
  // program without errors of Lanyard may rely on.
  std::once_flag classes_once_;
  std::atomic<bool> has_classes_{false};
  int base_class_ = MPI_ERR_OTHER;
  std::array<int, kKinds> kind_classes_{};
  std::mutex mutex_;
  std::vector<Entry> entries_;
  uint64_t returned_ = 0;
};

// Makes a code with the text "call: text", invokes the communicator's error handler with it, and
// returns it if the handler returns. `call` is the called function as programs write it, such as
// "MPIX_Queue_wait". The handler may leave by longjmp() or an exception: hold no lock, and no
// BlockingCall that is not hidden. If MPI is not initialised, or finalised, it writes the text to
// stderr. If MPI_Init bypassed Lanyard, it ends the job.
int raise(const char* call, MPI_Comm communicator, int error_class, const std::string& text);
// The error of a call, or none.
struct Refusal {
  int error_class = MPI_SUCCESS;
  std::string text;
  MPI_Comm communicator = MPI_COMM_WORLD;  // of the request in error, or of the first
};
// The same for an error found under the lock. Returns MPI_SUCCESS if there is none.
inline int raise(const char* call, const Refusal& refusal) {
  return refusal.error_class == MPI_SUCCESS ? MPI_SUCCESS
                                            : raise(call, refusal.communicator, refusal.error_class, refusal.text);
}
// The same for a call before MPI_Init or after MPI_Finalize.
int raise_not_initialised(const char* call);
// Checks count and address of an array of requests.
Refusal check_array(int count, const MPI_Request requests[]);

}  // namespace lanyard::api

#endif  // LANYARD_API_ERRORS_H_
