// SharedPool: the deferred-work entries of one NIC, shared by a job's processes on this host.
//
// It is a System V semaphore set, because the kernel returns the entries of a
// process that ends (SEM_UNDO).
#ifndef LANYARD_NICSIM_FI_SHARED_POOL_H_
#define LANYARD_NICSIM_FI_SHARED_POOL_H_

#include <cstdint>
#include <memory>
#include <string>

#include "transport/base/status.h"

namespace lanyard::nicsim::fi {

// Threads: any, one at a time. A call waits at most for another process's open() or destructor.
class SharedPool {
 public:
  static constexpr uint32_t kMost = 32767;  // the largest value of a semaphore

  // Opens the job's pool, or creates it. kInvalidArgument if it has another depth; kFailed if the
  // system has no semaphore. Requires depth <= kMost.
  static Result<std::unique_ptr<SharedPool>> open(const std::string& job, uint32_t depth);
  // Gives back what was taken. The last user removes the semaphores.
  ~SharedPool();
  SharedPool(const SharedPool&) = delete;
  SharedPool& operator=(const SharedPool&) = delete;

  // Takes all the entries or none.
  bool take(uint32_t entries);
  void give(uint32_t entries);

  // LANYARD_FI_JOB, or a name shared only by the children of this process's parent.
  static std::string job_of_this_process();
  // The System V key of a job's pool.
  static int key_of(const std::string& job);

 private:
  explicit SharedPool(int set) : set_(set) {}

  const int set_;
  uint32_t taken_ = 0;
};

}  // namespace lanyard::nicsim::fi

#endif  // LANYARD_NICSIM_FI_SHARED_POOL_H_
