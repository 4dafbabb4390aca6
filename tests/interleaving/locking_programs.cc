// Programs of threads that take a lock.
#include <cstdint>

#include "tests/interleaving/copies/transport/base/futex_lock.h"
#include "tests/interleaving/pair.h"
#include "tests/interleaving/programs.h"

namespace lanyard::interleaving::programs {

// Three threads take one lock again and again, and count in what it guards. Others may come while it is held, or not.
void locking() {
  constexpr uint32_t kRounds = 15;
  FutexLock lock;
  uint32_t holders = 0;
  uint32_t times = 0;
  const auto take = [&] {
    for (uint32_t i = 0; i < kRounds; ++i) {
      lock.lock();
      expect(++holders == 1, "two threads hold the lock");
      touch(&times, "what the lock guards");
      if (i % 2 == 1)
        yield();
      ++times;
      --holders;
      lock.unlock();
    }
  };
  Thread first("first", take);
  Thread second("second", take);
  take();
  first.join();
  second.join();
  expect(times == 3 * kRounds, "who held the lock did not see what others did");
}

}  // namespace lanyard::interleaving::programs
