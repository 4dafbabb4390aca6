// Room in a file for memory that is mapped from it.
#ifndef LANYARD_TRANSPORT_BASE_RESERVE_H_
#define LANYARD_TRANSPORT_BASE_RESERVE_H_

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "transport/base/status.h"

namespace lanyard {

// Makes the file as long, if it is shorter, and has the system keep room for all of it: else a store into a full file
// system ends the process (SIGBUS). kFailed where there is no room, or the process may not write so long a file.
inline Status reserve_file(int fd, size_t bytes) {
  rlimit limit{};
  // Beyond the limit the system sends a signal (SIGXFSZ) that ends the process.
  if (::getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < bytes)
    return {Code::kFailed, "shared memory of " + std::to_string(bytes) + " bytes is beyond the limit of file sizes, " +
                               std::to_string(limit.rlim_cur) + " (ulimit -f)"};
  // Older kernels take back everything where a signal comes: a profiler's timer could keep this from ending.
  sigset_t all, previous;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &previous);
  int error = EINTR;
  while (error == EINTR)
    error = ::posix_fallocate(fd, 0, static_cast<off_t>(bytes));
  pthread_sigmask(SIG_SETMASK, &previous, nullptr);
  if (error != 0)
    return {Code::kFailed, "no room for " + std::to_string(bytes) + " bytes of shared memory: " + std::strerror(error)};
  return {};
}

}  // namespace lanyard

#endif  // LANYARD_TRANSPORT_BASE_RESERVE_H_
