// SharedPool: the deferred-work entries of one card, which all processes of a host that belong to one job share.
//
// It is a count in shared memory, with a slot for each domain that uses it: what a slot holds comes back when its
// domain closes, or, after its process has ended, when another runs out of entries.
#ifndef LANYARD_NICSIM_FI_SHARED_POOL_H_
#define LANYARD_NICSIM_FI_SHARED_POOL_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "nicsim/wire/shm_segment.h"
#include "transport/base/status.h"

namespace lanyard::nicsim::fi {

// Threads: any. No call waits for more than another process's call.
class SharedPool {
 public:
  // The job's pool, made by whoever comes first. kInvalidArgument where it is used with another depth or has no slot
  // left; kFailed where the system has no shared memory.
  static Result<std::unique_ptr<SharedPool>> open(const std::string& job, uint32_t depth);
  // Whoever goes last takes the shared memory along.
  ~SharedPool();

  // All or none.
  bool take(uint32_t entries);
  void give(uint32_t entries);

  // LANYARD_FI_JOB, or what tells the children of this process's parent from others.
  static std::string job_of_this_process();

 private:
  struct Slot;
  struct Shared;
  class Locked;

  SharedPool(std::string name, FileDescriptor file, Shared* shared, Slot* slot)
      : name_(std::move(name)), file_(std::move(file)), shared_(shared), slot_(slot) {}

  const std::string name_;
  const FileDescriptor file_;
  Shared* const shared_;
  Slot* const slot_;
};

}  // namespace lanyard::nicsim::fi

#endif  // LANYARD_NICSIM_FI_SHARED_POOL_H_
