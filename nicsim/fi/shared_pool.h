// SharedPool: the deferred-work entries of one card, which all processes of a host that belong to one job share.
//
// It is a System V semaphore, since the kernel itself gives back what a process held that ends (SEM_UNDO).
#ifndef LANYARD_NICSIM_FI_SHARED_POOL_H_
#define LANYARD_NICSIM_FI_SHARED_POOL_H_

#include <cstdint>
#include <memory>
#include <string>

#include "transport/base/status.h"

namespace lanyard::nicsim::fi {

// Threads: any, one at a time. No call waits for more than another process's open() or end.
class SharedPool {
 public:
  static constexpr uint32_t kMost = 32767;  // as high as a semaphore counts

  // The job's pool, made by whoever comes first. kInvalidArgument where it is used with another depth; kFailed where
  // the system has no semaphore. Requires depth <= kMost.
  static Result<std::unique_ptr<SharedPool>> open(const std::string& job, uint32_t depth);
  // Whoever goes last takes the semaphore along.
  ~SharedPool();
  SharedPool(const SharedPool&) = delete;
  SharedPool& operator=(const SharedPool&) = delete;

  // All or none.
  bool take(uint32_t entries);
  void give(uint32_t entries);

  // LANYARD_FI_JOB, or what tells the children of this process's parent from others.
  static std::string job_of_this_process();
  // The system's name for a job's pool.
  static int key_of(const std::string& job);

 private:
  explicit SharedPool(int set) : set_(set) {}

  const int set_;
  uint32_t taken_ = 0;
};

}  // namespace lanyard::nicsim::fi

#endif  // LANYARD_NICSIM_FI_SHARED_POOL_H_
