// Census: tells whether other processes of this user on this host use the same thing.
//
// Each user of the thing holds a lock on a file named after it; the system releases the lock when a
// process dies. A word in the file changes when a process joins or leaves; while it stays the same,
// asking costs one load. Source: fcntl(2), "Open file description locks".
#ifndef LANYARD_GPU_DEVICE_CENSUS_H_
#define LANYARD_GPU_DEVICE_CENSUS_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "transport/base/status.h"

namespace lanyard::gpu {

// Any thread may use it at any time.
class Census {
 public:
  // Joins the users of `thing` (letters, digits, '-'). The file is in `folder`, and stays there.
  // kUnsupported: the file cannot be made or locked.
  static Result<std::unique_ptr<Census>> join(const std::string& folder, const std::string& thing);
  Census(const Census&) = delete;
  Census& operator=(const Census&) = delete;
  ~Census();

  // Whether other processes have joined. One that has died counts until another joins or leaves.
  bool has_others();

 private:
  explicit Census(int file);

  const int file_;
  const int process_;            // that joined
  uint64_t* changes_ = nullptr;  // in the file
  std::mutex mutex_;
  std::atomic<uint64_t> seen_{0};
  std::atomic<bool> others_{false};
};

}  // namespace lanyard::gpu

#endif  // LANYARD_GPU_DEVICE_CENSUS_H_
