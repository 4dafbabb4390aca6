#include "nicsim/wire/fork_guard.h"

#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include <mutex>
#include <set>
#include <utility>

namespace lanyard::nicsim {

namespace {

struct Watched {
  std::mutex mutex;
  std::set<int> sockets;
};

// Never destroyed: threads may use sockets until the process ends.
Watched& watched() {
  static Watched& all = *[] {
    ::pthread_atfork([] { watched().mutex.lock(); }, [] { watched().mutex.unlock(); },
                     [] {
                       for (const int socket : std::exchange(watched().sockets, {}))
                         ::close(socket);
                       watched().mutex.unlock();
                     });
    return new Watched;
  }();
  return all;
}

}  // namespace

void ForkGuard::watch(int socket) {
  const std::lock_guard lock(watched().mutex);
  watched().sockets.insert(socket);
  socket_ = socket;
}

void ForkGuard::release() {
  const int socket = std::exchange(socket_, -1);
  if (socket < 0)
    return;
  const std::lock_guard lock(watched().mutex);
  if (watched().sockets.erase(socket) > 0)
    ::shutdown(socket, SHUT_RDWR);
}

}  // namespace lanyard::nicsim
