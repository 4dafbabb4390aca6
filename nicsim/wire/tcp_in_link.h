// TcpInLink: a connection to a NIC, for receiving (tcp_hub.h). A stranger's until it has proven to
// be a peer's.
#ifndef LANYARD_NICSIM_WIRE_TCP_IN_LINK_H_
#define LANYARD_NICSIM_WIRE_TCP_IN_LINK_H_

#include <algorithm>
#include <array>
#include <boost/asio/ip/tcp.hpp>
#include <memory>
#include <string>
#include <vector>

#include "nicsim/wire/fd_nap.h"
#include "nicsim/wire/fork_guard.h"
#include "nicsim/wire/tcp_handshake.h"
#include "nicsim/wire/tcp_hub.h"

namespace lanyard::nicsim {

class TcpInLink : public std::enable_shared_from_this<TcpInLink> {
 public:
  TcpInLink(TcpHub& hub, FdNap& nap, boost::asio::ip::tcp::socket socket);

  void start();
  // Abandons the write that is arriving.
  void close();
  // Call before close(): tells the peer, which may live, that it is given up.
  void say_unreachable();
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

  TcpHub& hub_;
  FdNap& nap_;
  boost::asio::ip::tcp::socket socket_;
  ForkGuard guard_;                         // for the socket
  std::string why_ended_ = nic::kHasEnded;  // as nic::Nic::why_lost()
  enum class Phase { kHello, kProof, kPackets, kClosed } phase_ = Phase::kHello;
  bool admitted_ = false;

  // Until it is admitted. Nothing more of a stranger is read or kept.
  TcpMeeting meeting_;
  TcpSecret secret_;  // for the proofs
  std::array<std::byte, std::max(sizeof(TcpHello), sizeof(TcpProof))> heard_;

  // Once admitted.
  uint32_t rank_ = 0;
  uint64_t bytes_read_ = 0;
  std::vector<std::byte> buffer_;
  size_t taken_ = 0;  // bytes read but not yet parsed: [taken_, filled_)
  size_t filled_ = 0;
  bool receiving_ = false;  // a write's payload is incomplete
  Packet packet_;           // that write
  std::byte* to_ = nullptr;
  uint64_t done_ = 0;
  uint64_t seen_ = 0;      // done_ at the last give_up_stalled()
  bool looked_ = false;    // give_up_stalled() has seen this write
  bool given_up_ = false;  // the sink hears no more of this write
};

}  // namespace lanyard::nicsim

#endif  // LANYARD_NICSIM_WIRE_TCP_IN_LINK_H_
