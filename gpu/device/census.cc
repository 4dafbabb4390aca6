#include "gpu/device/census.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "transport/base/reserve.h"

namespace lanyard::gpu {
namespace {

constexpr size_t kBytes = sizeof(uint64_t);

Status no_place(const std::string& path, const char* call) {
  return Status(Code::kUnsupported, std::string(call) + " " + path + ": " + std::strerror(errno));
}

// A lock of the open file, not of the process: locks of one process do not hide one another.
struct flock whole_file(short type) {
  struct flock lock {};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  return lock;
}

}  // namespace

Result<std::unique_ptr<Census>> Census::join(const std::string& folder, const std::string& thing) {
  const std::string path = folder + "/lanyard-census-" + std::to_string(::getuid()) + "-" + thing;
  const int file = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (file < 0)
    return no_place(path, "open");
  std::unique_ptr<Census> census(new Census(file));
  if (const Status room = reserve_file(file, kBytes); !room.ok())
    return Status(Code::kUnsupported, path + ": " + room.message());
  struct flock lock = whole_file(F_RDLCK);
  if (::fcntl(file, F_OFD_SETLK, &lock) != 0)
    return no_place(path, "fcntl(F_OFD_SETLK)");
  void* const memory = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (memory == MAP_FAILED)
    return no_place(path, "mmap");
  census->changes_ = static_cast<uint64_t*>(memory);
  // After the lock: a process that sees the change finds the lock.
  std::atomic_ref(*census->changes_).fetch_add(1);
  return census;
}

Census::Census(int file) : file_(file), process_(::getpid()) {}

Census::~Census() {
  // A forked child shares its parent's lock and must not release it.
  if (::getpid() == process_) {
    struct flock lock = whole_file(F_UNLCK);
    static_cast<void>(::fcntl(file_, F_OFD_SETLK, &lock));
    if (changes_ != nullptr)
      std::atomic_ref(*changes_).fetch_add(1);
  }
  if (changes_ != nullptr)
    ::munmap(changes_, kBytes);
  ::close(file_);
}

bool Census::has_others() {
  const std::atomic_ref changes(*changes_);
  if (changes.load(std::memory_order_acquire) == seen_.load(std::memory_order_acquire))
    return others_.load(std::memory_order_relaxed);
  const std::lock_guard lock(mutex_);
  const uint64_t now = changes.load();
  struct flock theirs = whole_file(F_WRLCK);  // finds any lock that conflicts with an exclusive one
  const bool asked = ::fcntl(file_, F_OFD_GETLK, &theirs) == 0;
  others_.store(asked && theirs.l_type != F_UNLCK, std::memory_order_relaxed);
  seen_.store(now, std::memory_order_release);
  return others_.load(std::memory_order_relaxed);
}

}  // namespace lanyard::gpu
