// Reserves space in a file before it is mapped as memory.
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

// Extends the file to `bytes` if it is shorter, and reserves the space for all of it. Without that,
// a store into a full file system kills the process (SIGBUS). kFailed if there is no room, or if
// `bytes` exceeds the limit on file sizes.
inline Status reserve_file(int fd, size_t bytes) {
  rlimit limit{};
  // Beyond the limit, the system kills the process with SIGXFSZ.
  if (::getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < bytes)
    return {Code::kFailed, "shared memory of " + std::to_string(bytes) + " bytes is beyond the limit of file sizes, " +
                               std::to_string(limit.rlim_cur) + " (ulimit -f)"};
  // On older kernels a signal undoes all progress, so a profiler's timer could make this
  // loop endless.
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
