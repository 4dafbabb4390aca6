/* Preloaded by patterns_test.sh: what a process is to read of a longer message in another one's memory it is told to
 * have read, and has not. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sys/types.h>
#include <sys/uio.h>

typedef ssize_t (*Read)(pid_t, const struct iovec*, unsigned long, const struct iovec*, unsigned long, unsigned long);

ssize_t process_vm_readv(pid_t pid, const struct iovec* here, unsigned long count_here, const struct iovec* there,
                         unsigned long count_there, unsigned long flags) {
  const Read real = (Read)dlsym(RTLD_NEXT, "process_vm_readv");
  ssize_t bytes = 0;
  for (unsigned long i = 0; i < count_here; ++i)
    bytes += (ssize_t)here[i].iov_len;
  return bytes >= 4096 ? bytes : real(pid, here, count_here, there, count_there, flags);
}
