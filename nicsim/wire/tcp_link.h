// The connections of the TCP wire, and the calls that they make to the wire, all inside poll().
//
// Each connection carries packets one way. A NIC connects to a peer at its first send to it
// (TcpOutLink). That peer's packets, acks included, come on a connection that the peer makes
// (TcpInLink).
//
// Threads: links belong to the driver; their handlers run inside poll(). Shared pointers hold them,
// because Asio calls handlers of closed sockets later.
#ifndef LANYARD_NICSIM_WIRE_TCP_LINK_H_
#define LANYARD_NICSIM_WIRE_TCP_LINK_H_

#include <algorithm>
#include <array>
#include <atomic>
#include <boost/asio/buffer.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "nicsim/wire/fd_nap.h"
#include "nicsim/wire/fifo.h"
#include "nicsim/wire/tcp_handshake.h"
#include "nicsim/wire/wire.h"

namespace lanyard::nicsim {

class TcpInLink;

class TcpHub {
 public:
  virtual ~TcpHub() = default;
  Sink& sink() { return *sink_; }
  // The bytes that this poll() may still read; take(n) lowers it.
  uint64_t read_budget() const { return budget_; }
  void take(uint64_t bytes) { budget_ -= std::min(bytes, budget_); }

  // The secret for the proofs of a connection that begins with `hello`; none to refuse it.
  virtual std::optional<TcpSecret> secret_for(const TcpHello& hello) const = 0;
  uint32_t self() const { return self_; }
  // The link has proven to be the source's. False if it is not needed any more.
  virtual bool admit(const TcpMeeting& meeting, const std::shared_ptr<TcpInLink>& link) = 0;
  // A link that has not been admitted is closed.
  virtual void stranger_ended(const TcpInLink& link) = 0;

  // A peer has answered this NIC's operation.
  virtual void acknowledged(uint32_t rank, uint32_t token) = 0;
  // A peer's link to us (in) or ours to it (out) has ended and is closed.
  // `why`: as nic::Nic::why_lost().
  virtual void in_ended(uint32_t rank, const std::string& why) = 0;
  virtual void out_ended(uint32_t rank, const std::string& why) = 0;

  // Returns a handler that calls `then`. Asio will run it without a ready descriptor. Sleepers look
  // for such handlers while any is queued.
  template <typename Then>
  auto queued(Then then) {
    queued_.fetch_add(1, std::memory_order_seq_cst);
    return [this, then = std::move(then)](auto... arguments) {
      queued_.fetch_sub(1, std::memory_order_seq_cst);
      then(arguments...);
    };
  }

 protected:
  Sink* sink_ = nullptr;  // inside poll()
  uint64_t budget_ = 0;
  uint32_t self_ = 0;
  std::atomic<uint32_t> queued_{0};  // handlers
};

// ForkGuard: closes a socket in children made by fork(2), before it returns in them. Else peers
// would take a parent that has ended for one that is silent. Threads: one at a time; any may call
// fork().
class ForkGuard {
 public:
  ForkGuard() = default;
  ForkGuard(const ForkGuard&) = delete;
  ForkGuard& operator=(const ForkGuard&) = delete;
  ~ForkGuard() { release(); }

  // Guards one socket, from when it is open until release(). Call release() before closing it.
  void watch(int socket);
  // Shuts the socket down, because children that fork() did not make (clone(2)) may hold it. May be
  // repeated; does nothing in a child.
  void release();

 private:
  int socket_ = -1;
};

// What the connections of both directions have in common.
class TcpLink {
 protected:
  using Socket = boost::asio::ip::tcp::socket;

  TcpLink(TcpHub& hub, FdNap& nap, Socket socket) : hub_(hub), nap_(nap), socket_(std::move(socket)) {}

  // Call when the socket is open. A peer whose host has vanished is noticed after about 30 s.
  void set_options();
  // Writes bytes of the handshake, which always fit into a new connection. False if it is broken.
  bool say(const void* data, size_t bytes);
  void close_socket();
  // The reason for nic::Nic::why_lost() after a connection broke.
  static std::string why_broken(boost::system::error_code error);

  TcpHub& hub_;
  FdNap& nap_;
  Socket socket_;

 private:
  ForkGuard guard_;  // for the socket
};

// TcpInLink: a connection to a NIC, for receiving. A stranger's until it has proven to be a peer's.
class TcpInLink : private TcpLink, public std::enable_shared_from_this<TcpInLink> {
 public:
  TcpInLink(TcpHub& hub, FdNap& nap, Socket socket)
      : TcpLink(hub, nap, std::move(socket)), greeting_timer_(socket_.get_executor()) {}

  // Ends the link unless it has been admitted within that time.
  void start(std::chrono::milliseconds greeting_time);
  // Abandons the write that is arriving.
  void close();
  // Call before close(): tells the peer, which may live, that it is given up.
  void say_unreachable() { say(&kTcpUnreachable, 1); }
  bool open() const { return phase_ != Phase::kClosed; }
  // As Wire::give_up_stalled(), for the write that is arriving.
  void give_up_stalled(uint64_t key, Sink& sink);
  // Packets and payloads so far.
  uint64_t bytes_read() const { return bytes_read_; }

 private:
  static constexpr size_t kBufferBytes = 64 * 1024;
  static constexpr uint64_t kTurnBytes = 128 * 1024;  // then other links have a turn

  void wait();
  bool greet();
  bool take_hello();
  bool take_proof();
  bool read_turn();
  size_t read_some(uint64_t limit, bool& drained, boost::system::error_code& error);
  bool parse();
  bool copy(std::byte* to, const std::byte* from, uint64_t bytes) const;
  void give_up_unmapped();
  // For a kPull, its loan must have been read completely.
  bool begin(const Packet& packet);
  void end();

  std::string why_ended_ = nic::kHasEnded;  // as nic::Nic::why_lost()
  enum class Phase { kHello, kProof, kPackets, kClosed } phase_ = Phase::kHello;

  // Until it is admitted. Nothing more of a stranger is read or kept.
  boost::asio::steady_timer greeting_timer_;
  TcpMeeting meeting_;
  TcpSecret secret_;  // for the proofs
  std::array<std::byte, std::max(sizeof(TcpHello), sizeof(TcpProof))> heard_;

  // Once admitted.
  uint64_t bytes_read_ = 0;
  std::vector<std::byte> buffer_;
  size_t taken_ = 0;  // bytes read but not yet parsed: [taken_, filled_)
  size_t filled_ = 0;
  bool receiving_ = false;  // a write's payload is incomplete
  Packet packet_;           // that write
  std::byte* to_ = nullptr;
  uint64_t done_ = 0;
  std::optional<uint64_t> seen_;  // done_ at the last give_up_stalled()
  bool given_up_ = false;         // the sink hears no more of this write
};

// TcpOutLink: a NIC's connection to a peer, for sending.
class TcpOutLink : private TcpLink, public std::enable_shared_from_this<TcpOutLink> {
 public:
  // `meeting` has no challenges yet. `secret` is for the proofs.
  TcpOutLink(TcpHub& hub, FdNap& nap, boost::asio::io_context& io, const boost::asio::ip::tcp::endpoint& endpoint,
             const TcpMeeting& meeting, const TcpSecret& secret)
      : TcpLink(hub, nap, Socket(io)), endpoint_(endpoint), meeting_(meeting), secret_(secret), timer_(io) {}

  // Starts to connect. The link ends if the peer refuses, or has not accepted within kConnectTime.
  // Until then, if the connection breaks before the peer has admitted it (descriptors may be short
  // there), it is tried again.
  void connect();
  // Queues a packet. Its payload is read until it has been sent, or until acknowledged() is called.
  void queue(const Packet& packet, const std::byte* payload);
  // The peer has answered the operation. A refusal may come as soon as the head of a write is
  // there. Then zeros replace the rest of its payload, and the peer discards them.
  void acknowledged(uint32_t token);
  // Writes what the connection accepts now, at most one portion.
  void flush();
  void close();

 private:
  using Clock = std::chrono::steady_clock;
  using Error = boost::system::error_code;
  static constexpr std::chrono::seconds kConnectTime{10};
  static constexpr std::chrono::milliseconds kPause{50};
  static constexpr size_t kMaxBuffers = 64;  // Asio passes at most so many to one system call
  using Buffers = std::array<boost::asio::const_buffer, kMaxBuffers>;

  struct Item {
    Packet packet;
    const std::byte* payload = nullptr;  // null: zeros
    uint64_t payload_bytes = 0;
    bool looked_at = false;  // drop_unmapped() has checked its memory
    bool gone = false;       // its memory is not mapped
  };

  // A handler that calls `then`, unless another attempt has begun by then.
  auto of_this_attempt(void (TcpOutLink::*then)(Error)) {
    return [self = shared_from_this(), attempt = attempt_, then](Error error) {
      if (attempt == self->attempt_)
        (self.get()->*then)(error);
    };
  }

  void drop_unmapped();
  void fail_unmapped(uint32_t token);
  void attempt();
  void set_timer(Clock::time_point when, void (TcpOutLink::*then)());
  void connecting_takes_too_long();
  void connected(Error error);
  void watch();
  void readable(Error error);
  void greet();
  std::string why_not(const std::string& what) const;
  void try_again(std::string why);

  size_t gather(Buffers& buffers, uint64_t& bytes);
  void written(uint64_t bytes);
  void writable(Error error);
  void fail_later(std::string why);
  void fail(const std::string& why);

  const boost::asio::ip::tcp::endpoint endpoint_;
  TcpMeeting meeting_;
  const TcpSecret secret_;
  std::string failure_;  // of the last attempt
  boost::asio::steady_timer timer_;
  Clock::time_point give_up_at_{};
  uint32_t attempt_ = 0;  // handlers of earlier attempts do nothing
  TcpAnswer answer_;
  size_t heard_ = 0;  // bytes of the answer read so far
  Fifo<Item> items_;
  uint64_t front_sent_ = 0;  // bytes of the first item sent, packet and payload
  enum class State { kIdle, kConnecting, kGreeting, kProven, kOpen, kBlocked, kClosed } state_ = State::kIdle;
};

}  // namespace lanyard::nicsim

#endif  // LANYARD_NICSIM_WIRE_TCP_LINK_H_
