// Census: whether other processes of this user use the same thing on this host.
//
// Whoever uses it holds a lock on a file that is named after it, which the system takes back when a process dies; a
// word in the file changes with whoever comes or goes, so that asking costs a load. Source: fcntl(2), "Open file
// description locks".
#ifndef LANYARD_GPU_DEVICE_CENSUS_H_
#define LANYARD_GPU_DEVICE_CENSUS_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "transport/base/status.h"

namespace lanyard::gpu {

// Any thread at any time.
class Census {
 public:
  // Joins those who use `thing` (letters, digits, '-'); the file is in `folder`, and stays there. kUnsupported: there
  // is no place for it.
  static Result<std::unique_ptr<Census>> join(const std::string& folder, const std::string& thing);
  Census(const Census&) = delete;
  Census& operator=(const Census&) = delete;
  ~Census();

  // Whether others have joined. One that has died counts until somebody comes or leaves.
  bool has_others();

 private:
  explicit Census(int file);

  const int file_;
  const int process_;            // that has joined
  uint64_t* changes_ = nullptr;  // in the file
  std::mutex mutex_;
  std::atomic<uint64_t> seen_{0};
  std::atomic<bool> others_{false};
};

}  // namespace lanyard::gpu

#endif  // LANYARD_GPU_DEVICE_CENSUS_H_
