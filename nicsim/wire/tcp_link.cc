#include "nicsim/wire/tcp_link.h"

#include <fcntl.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include <mutex>
#include <set>
#include <utility>

namespace lanyard::nicsim {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

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

void TcpLink::set_options() {
  error_code ignored;
  socket_.set_option(tcp::no_delay(true), ignored);
  socket_.set_option(asio::socket_base::keep_alive(true), ignored);
  const int fd = socket_.native_handle();
  ::fcntl(fd, F_SETFD, FD_CLOEXEC);  // else a program that a peer starts keeps its connections
  const auto set = [fd](int name, int value) { ::setsockopt(fd, IPPROTO_TCP, name, &value, sizeof value); };
  set(TCP_KEEPIDLE, 15);
  set(TCP_KEEPINTVL, 5);
  set(TCP_KEEPCNT, 3);
  set(TCP_USER_TIMEOUT, 30'000);  // ms
  guard_.watch(fd);
}

bool TcpLink::say(const void* data, size_t bytes) {
  error_code error;
  return socket_.write_some(asio::buffer(data, bytes), error) == bytes && !error;
}

void TcpLink::close_socket() {
  error_code ignored;
  guard_.release();
  socket_.close(ignored);
}

// The system closes a process's connections when it ends.
std::string TcpLink::why_broken(error_code error) {
  namespace errors = asio::error;
  const bool closed =
      !error || error == errors::eof || error == errors::connection_reset || error == errors::broken_pipe;
  return closed ? nic::kHasEnded : nic::kCannotBeReached + ("its connection broke: " + error.message());
}

}  // namespace lanyard::nicsim
