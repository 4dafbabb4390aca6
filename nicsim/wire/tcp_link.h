// The two kinds of connection of the TCP wire. Each carries packets one way only: a NIC connects to
// a peer at its first send to it, and that peer's packets (acks too) come on a connection that the
// peer has made. So two NICs that connect to each other at once need no agreement.
//
// A frame is the Packet as it lies in memory and, for a write, its payload. Payloads are written
// from where they are and read to where they go.
//
// Threads: everything here belongs to the driver; handlers run inside poll(). Links are held by
// shared pointers because Asio calls handlers of closed sockets later.
#ifndef LANYARD_NICSIM_WIRE_TCP_LINK_H_
#define LANYARD_NICSIM_WIRE_TCP_LINK_H_

#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <memory>
#include <vector>

#include "nicsim/wire/fd_nap.h"
#include "nicsim/wire/fifo.h"
#include "nicsim/wire/tcp_address.h"
#include "nicsim/wire/wire.h"

namespace lanyard::nicsim {

class TcpInLink;

// What links ask of the wire they belong to; all of it inside poll().
class TcpHub {
 public:
  virtual ~TcpHub() = default;
  virtual Sink& sink() = 0;
  // How many bytes this poll() may still read; take(n) lowers it.
  virtual uint64_t read_budget() const = 0;
  virtual void take(uint64_t bytes) = 0;
  // Whether a connection that begins with this hello is a peer's. The link is then that peer's.
  virtual bool welcome(const TcpHello& hello, const std::shared_ptr<TcpInLink>& link) = 0;
  // A peer's link to us has ended (in) or ours to it (out); the link is closed.
  virtual void in_ended(uint32_t rank) = 0;
  // A peer says what became of this NIC's operation.
  virtual void acknowledged(uint32_t rank, uint32_t token) = 0;
  virtual void out_ended(uint32_t rank) = 0;
  // Handlers that will run without a descriptor's becoming ready, so that sleepers look for them.
  virtual void handler_queued() = 0;
  virtual void handler_ran() = 0;
};

// This NIC's connection to a peer, for sending.
class TcpOutLink : public std::enable_shared_from_this<TcpOutLink> {
 public:
  TcpOutLink(TcpHub& hub, FdNap& nap, boost::asio::io_context& io, uint32_t rank);

  // Starts to connect; gives up after kConnectTime.
  void connect(const boost::asio::ip::tcp::endpoint& endpoint, const TcpHello& hello);
  // Queues a packet. Its payload is read until it has gone out, or acknowledged() is called.
  void queue(const Packet& packet, const std::byte* payload);
  // The peer has answered the operation. A write may be refused as soon as its head is there: what has not gone out of
  // its payload by then is replaced by zeros, which the peer throws away.
  void acknowledged(uint32_t token);
  // Writes what the connection takes now, at most one portion.
  void flush();
  void close();

 private:
  static constexpr std::chrono::seconds kConnectTime{10};
  static constexpr size_t kMaxBuffers = 64;  // what Asio passes to one system call

  struct Item {
    Packet packet;
    const std::byte* payload = nullptr;  // null: zeros
    uint64_t payload_bytes = 0;
  };

  void connected(boost::system::error_code error);
  void watch_for_end();
  void write_when_ready();
  size_t gather(std::array<boost::asio::const_buffer, kMaxBuffers>& buffers, uint64_t& bytes);
  void written(uint64_t bytes);
  void fail_later();
  void fail();

  TcpHub& hub_;
  FdNap& nap_;
  const uint32_t rank_;
  boost::asio::ip::tcp::socket socket_;
  boost::asio::steady_timer timer_;
  TcpHello hello_;
  uint64_t hello_sent_ = 0;
  Fifo<Item> items_;
  uint64_t front_sent_ = 0;  // bytes of the first item, packet and payload
  enum class State { kIdle, kConnecting, kOpen, kBlocked, kClosed } state_ = State::kIdle;
};

// A peer's connection to this NIC, for receiving.
class TcpInLink : public std::enable_shared_from_this<TcpInLink> {
 public:
  TcpInLink(TcpHub& hub, FdNap& nap, boost::asio::ip::tcp::socket socket);

  void start();
  // Abandons the write that was under way.
  void close();
  bool open() const { return open_; }

 private:
  static constexpr size_t kBufferBytes = 64 * 1024;
  static constexpr uint64_t kTurnBytes = 128 * 1024;  // then other links have a turn

  void wait();
  void read_turn();
  size_t read_some(uint64_t limit, bool& drained, boost::system::error_code& error);
  bool parse();
  bool parse_hello();
  // Requires that a kPull's loan has been read whole.
  bool begin(const Packet& packet);
  void end();

  TcpHub& hub_;
  FdNap& nap_;
  boost::asio::ip::tcp::socket socket_;
  std::vector<std::byte> buffer_;  // read and not yet taken: [taken_, filled_)
  size_t taken_ = 0;
  size_t filled_ = 0;
  bool welcome_ = false;
  uint32_t rank_ = 0;  // once welcome
  bool open_ = true;
  bool receiving_ = false;  // a write whose payload is not whole
  Packet packet_;           // that write
  std::byte* to_ = nullptr;
  uint64_t done_ = 0;
};

}  // namespace lanyard::nicsim

#endif  // LANYARD_NICSIM_WIRE_TCP_LINK_H_
