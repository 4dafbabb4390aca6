#include "nicsim/fi/shared_pool.h"

#include <sys/sem.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <initializer_list>
#include <sstream>
#include <string>

#include "transport/base/check.h"

namespace lanyard::nicsim::fi {

namespace {

// The semaphores of a set. All start at 0.
enum : unsigned short { kEntries, kUsers, kDepth, kLock, kCount };

// The argument of semctl(). No header declares it.
union semun {
  int val;
  void* buffer;
};

int value(int set, int semaphore) { return ::semctl(set, semaphore, GETVAL); }

Status system_failure(const char* what) { return {Code::kFailed, std::string(what) + ": " + std::strerror(errno)}; }

sembuf change(unsigned short semaphore, int by, int flags = 0) {
  return {.sem_num = semaphore,
          .sem_op = static_cast<short>(by),
          .sem_flg = static_cast<short>(by == 0 ? flags : flags | SEM_UNDO)};
}

// Applies all changes or none.
bool apply(int set, std::initializer_list<sembuf> changes) {
  while (true) {
    if (::semop(set, const_cast<sembuf*>(changes.begin()), changes.size()) == 0)
      return true;
    if (errno != EINTR)
      return false;
  }
}

// Keeps other processes from opening and closing the pool.
bool lock(int set) { return apply(set, {change(kLock, 0), change(kLock, 1)}); }

// True if the last user has just removed the set.
bool has_gone() { return errno == EIDRM || errno == EINVAL; }

}  // namespace

std::string SharedPool::job_of_this_process() {
  const char* job = std::getenv("LANYARD_FI_JOB");
  if (job != nullptr)
    return job;
  // Identifies the launcher by pid, start time (field 22 of proc(5)'s stat) and pid namespace. Pids
  // are reused, and containers share them.
  const std::string pid = std::to_string(::getppid());
  std::ifstream file("/proc/" + pid + "/stat");
  std::string text;
  std::getline(file, text);
  std::istringstream fields(text.substr(text.rfind(')') + 1));  // a process name may hold any byte
  std::string begin;
  for (int field = 3; field <= 22; ++field)
    fields >> begin;
  struct stat space {};
  (void)::stat("/proc/self/ns/pid", &space);
  return pid + "-" + begin + "-" + std::to_string(space.st_ino);
}

int SharedPool::key_of(const std::string& job) {
  uint32_t hash = 2166136261;  // FNV-1a
  for (const char each : "lanyard-fi-" + std::to_string(::getuid()) + "-" + job)
    hash = (hash ^ static_cast<unsigned char>(each)) * 16777619;
  return static_cast<int>(hash | 1);  // 0 would be IPC_PRIVATE
}

Result<std::unique_ptr<SharedPool>> SharedPool::open(const std::string& job, uint32_t depth) {
  while (true) {
    const int set = ::semget(key_of(job), kCount, IPC_CREAT | 0600);
    if (set < 0)
      return system_failure("semget");
    if (!lock(set)) {
      if (has_gone())
        continue;
      return system_failure("semop");
    }
    // Without users, the set is new or left over from a killed job: set it up.
    if (value(set, kUsers) == 0) {
      const semun all{.val = static_cast<int>(depth)};
      ::semctl(set, kEntries, SETVAL, all);
      ::semctl(set, kDepth, SETVAL, all);
    }
    const int other = value(set, kDepth);
    if (other == static_cast<int>(depth)) {
      apply(set, {change(kUsers, 1), change(kLock, -1)});
      return std::unique_ptr<SharedPool>(new SharedPool(set));
    }
    apply(set, {change(kLock, -1)});
    return Status(Code::kInvalidArgument, "LANYARD_FI_SHARED_DEPTH=" + std::to_string(depth) +
                                              ": the job already shares " + std::to_string(other) + " entries");
  }
}

SharedPool::~SharedPool() {
  lock(set_);
  give(taken_);
  apply(set_, {change(kUsers, -1)});
  if (value(set_, kUsers) == 0)
    ::semctl(set_, 0, IPC_RMID);
  else
    apply(set_, {change(kLock, -1)});
}

bool SharedPool::take(uint32_t entries) {
  if (!apply(set_, {change(kEntries, -static_cast<int>(entries), IPC_NOWAIT)}))
    return false;
  taken_ += entries;
  return true;
}

void SharedPool::give(uint32_t entries) {
  LANYARD_CHECK(entries <= taken_, "only what was taken can be given back");
  if (entries == 0)
    return;  // semop with 0 would wait for an empty pool
  apply(set_, {change(kEntries, static_cast<int>(entries))});
  taken_ -= entries;
}

}  // namespace lanyard::nicsim::fi
