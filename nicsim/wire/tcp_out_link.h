// TcpOutLink: a NIC's connection to a peer, for sending (tcp_hub.h).
#ifndef LANYARD_NICSIM_WIRE_TCP_OUT_LINK_H_
#define LANYARD_NICSIM_WIRE_TCP_OUT_LINK_H_

#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <memory>
#include <string>

#include "nicsim/wire/fd_nap.h"
#include "nicsim/wire/fifo.h"
#include "nicsim/wire/fork_guard.h"
#include "nicsim/wire/tcp_handshake.h"
#include "nicsim/wire/tcp_hub.h"

namespace lanyard::nicsim {

class TcpOutLink : public std::enable_shared_from_this<TcpOutLink> {
 public:
  // `meeting` has no challenges yet. `secret` is for the proofs.
  TcpOutLink(TcpHub& hub, FdNap& nap, boost::asio::io_context& io, const boost::asio::ip::tcp::endpoint& endpoint,
             const TcpMeeting& meeting, const TcpSecret& secret);

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

  void drop_unmapped();
  void fail_unmapped(uint32_t token);
  void attempt();
  void set_timer(Clock::time_point when, void (TcpOutLink::*then)());
  void connecting_takes_too_long();
  void connected(boost::system::error_code error);
  void watch();
  void readable(boost::system::error_code error);
  void greet();
  std::string why_not(const std::string& what) const;
  void try_again(std::string why);
  bool say(const void* data, size_t bytes);

  size_t gather(Buffers& buffers, uint64_t& bytes);
  void written(uint64_t bytes);
  void write_when_ready();
  void fail_later(std::string why);
  void fail(const std::string& why);

  TcpHub& hub_;
  FdNap& nap_;
  const boost::asio::ip::tcp::endpoint endpoint_;
  TcpMeeting meeting_;
  const TcpSecret secret_;
  boost::asio::ip::tcp::socket socket_;
  ForkGuard guard_;      // for the socket
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

#endif  // LANYARD_NICSIM_WIRE_TCP_OUT_LINK_H_
