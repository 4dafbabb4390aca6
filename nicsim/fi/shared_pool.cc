#include "nicsim/fi/shared_pool.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <new>
#include <sstream>

#include "transport/base/check.h"

namespace lanyard::nicsim::fi {

namespace {

constexpr uint32_t kSlots = 256;
constexpr uint64_t kFormat = 0x316c6f6f70696661;  // "afipool1"

// How often it is looked at most whether processes have ended: that takes a while, and others wait meanwhile.
constexpr std::chrono::milliseconds kReapPeriod{20};

Status system_failure(const char* what) { return {Code::kFailed, std::string(what) + ": " + std::strerror(errno)}; }

// When the process began, in the kernel's ticks: with the pid, its name for ever. 0: it has ended, though its parent
// may not have been told yet.
uint64_t birth_of(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string text;
  std::getline(file, text);
  const size_t name_end = text.rfind(')');
  if (name_end == std::string::npos)
    return 0;
  // The second field is the program's name in parentheses and may hold anything.
  std::istringstream rest(text.substr(name_end + 1));
  std::string state, skipped;
  rest >> state;
  for (int field = 4; field < 22; ++field)
    rest >> skipped;
  uint64_t birth = 0;
  rest >> birth;
  return !rest || state == "Z" || state == "X" ? 0 : birth;
}

// Keeps the pool's file from being made or taken away meanwhile.
class FileLock {
 public:
  explicit FileLock(int fd) : fd_(fd) {
    while (::flock(fd_, LOCK_EX) != 0 && errno == EINTR) {
    }
  }
  ~FileLock() { ::flock(fd_, LOCK_UN); }
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

 private:
  const int fd_;
};

}  // namespace

struct SharedPool::Slot {
  pid_t pid = 0;  // 0: free
  uint64_t birth = 0;
  uint32_t taken = 0;
};

struct SharedPool::Shared {
  uint64_t format = 0;    // kFormat once all of it is there: who made it may have been killed half-way
  uint32_t depth = 0;     // changes while nobody uses it
  uint32_t taken = 0;     // the sum of the slots'
  pthread_mutex_t mutex;  // guards all but the format
  std::chrono::steady_clock::time_point reaped = {};  // the clock of the whole system
  Slot slots[kSlots];

  void empty(Slot& slot) {
    taken -= slot.taken;
    slot = Slot{};
  }
  bool is_used() const {
    return std::any_of(slots, slots + kSlots, [](const Slot& slot) { return slot.pid != 0; });
  }
  // What processes that have ended have left behind.
  void reap() {
    for (Slot& slot : slots)
      if (slot.pid != 0 && birth_of(slot.pid) != slot.birth)
        empty(slot);
  }
  void reap_now_and_then() {
    const auto now = std::chrono::steady_clock::now();
    if (now - reaped < kReapPeriod)
      return;
    reaped = now;
    reap();
  }
};

// The lock survives the end of whoever holds it. The sum may be wrong then.
class SharedPool::Locked {
 public:
  explicit Locked(Shared& shared) : shared_(shared) {
    const int error = pthread_mutex_lock(&shared.mutex);
    LANYARD_CHECK(error == 0 || error == EOWNERDEAD, "the lock of the shared entries is broken");
    if (error != EOWNERDEAD)
      return;
    shared.taken = 0;
    for (const Slot& slot : shared.slots)
      shared.taken += slot.taken;
    pthread_mutex_consistent(&shared.mutex);
  }
  ~Locked() { pthread_mutex_unlock(&shared_.mutex); }
  Locked(const Locked&) = delete;
  Locked& operator=(const Locked&) = delete;

 private:
  Shared& shared_;
};

std::string SharedPool::job_of_this_process() {
  if (const char* job = std::getenv("LANYARD_FI_JOB"))
    return job;
  const pid_t parent = ::getppid();
  return std::to_string(parent) + "-" + std::to_string(birth_of(parent));
}

Result<std::unique_ptr<SharedPool>> SharedPool::open(const std::string& job, uint32_t depth) {
  std::string name = "/lanyard-fi-" + std::to_string(::getuid()) + "-" + job;
  if (job.find('/') != std::string::npos)
    return Status(Code::kInvalidArgument, "LANYARD_FI_JOB=" + job + ": allowed is what a file may be called");
  while (true) {
    FileDescriptor file(::shm_open(name.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    if (!file.valid())
      return system_failure("shm_open");
    const FileLock lock(file.get());
    struct stat info {};
    if (::fstat(file.get(), &info) != 0)
      return system_failure("fstat");
    if (info.st_nlink == 0)
      continue;  // whoever went last has just taken it along
    if (info.st_size < static_cast<off_t>(sizeof(Shared)) && ::ftruncate(file.get(), sizeof(Shared)) != 0)
      return system_failure("ftruncate");
    void* memory = ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
    if (memory == MAP_FAILED)
      return system_failure("mmap");
    auto* shared = static_cast<Shared*>(memory);
    if (shared->format != kFormat) {
      new (shared) Shared;
      pthread_mutexattr_t attributes;
      pthread_mutexattr_init(&attributes);
      pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
      pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
      pthread_mutex_init(&shared->mutex, &attributes);
      pthread_mutexattr_destroy(&attributes);
      std::atomic_ref(shared->format).store(kFormat, std::memory_order_release);
    }
    Slot* slot = nullptr;
    {
      const Locked locked(*shared);
      shared->reap();
      // What a job has left that was killed is the next one's to set up.
      if (!shared->is_used())
        shared->depth = depth;
      Slot* const end = shared->slots + kSlots;
      slot = std::find_if(shared->slots, end, [](const Slot& each) { return each.pid == 0; });
      const bool fits = shared->depth == depth && slot != end;
      if (fits)
        *slot = {.pid = ::getpid(), .birth = birth_of(::getpid())};
      if (!fits)
        slot = nullptr;
    }
    if (slot != nullptr)
      return std::unique_ptr<SharedPool>(new SharedPool(std::move(name), std::move(file), shared, slot));
    const uint32_t other = shared->depth;
    ::munmap(memory, sizeof(Shared));
    return Status(Code::kInvalidArgument, other != depth
                                              ? "LANYARD_FI_SHARED_DEPTH=" + std::to_string(depth) +
                                                    ": the job's entries are " + std::to_string(other) + " already"
                                              : "too many domains share the job's entries");
  }
}

SharedPool::~SharedPool() {
  const FileLock lock(file_.get());
  bool is_last = true;
  {
    const Locked locked(*shared_);
    shared_->empty(*slot_);
    shared_->reap();
    is_last = !shared_->is_used();
  }
  if (is_last)
    ::shm_unlink(name_.c_str());
  ::munmap(shared_, sizeof(Shared));
}

bool SharedPool::take(uint32_t entries) {
  const Locked locked(*shared_);
  if (entries > shared_->depth - shared_->taken)
    shared_->reap_now_and_then();
  if (entries > shared_->depth - shared_->taken)
    return false;
  shared_->taken += entries;
  slot_->taken += entries;
  return true;
}

void SharedPool::give(uint32_t entries) {
  const Locked locked(*shared_);
  LANYARD_CHECK(entries <= slot_->taken, "only what was taken can be given back");
  shared_->taken -= entries;
  slot_->taken -= entries;
}

}  // namespace lanyard::nicsim::fi
