// Receiving over TCP.
#include <unistd.h>

#include <cstring>
#include <utility>

#include "nicsim/wire/shm_segment.h"
#include "nicsim/wire/tcp_link.h"

namespace lanyard::nicsim {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

void TcpInLink::start(std::chrono::milliseconds greeting_time) {
  error_code error;
  socket_.non_blocking(true, error);
  set_options();
  nap_.watch(socket_.native_handle(), FdNap::Watch::kRead);
  greeting_timer_.expires_after(greeting_time);
  greeting_timer_.async_wait(hub_.queued([self = shared_from_this()](error_code) {
    if (self->phase_ != Phase::kPackets)
      self->end();
  }));
  wait();
}

void TcpInLink::wait() {
  socket_.async_wait(tcp::socket::wait_read, [self = shared_from_this()](error_code error) {
    if (!self->open())
      return;
    const bool well = !error && (self->phase_ == Phase::kPackets ? self->read_turn() : self->greet());
    if (!well)
      return self->end();
    if (self->open())
      self->wait();
  });
}

// ---- Strangers

// The steps of the handshake return whether the link goes on.
bool TcpInLink::greet() {
  const size_t wanted = phase_ == Phase::kHello ? sizeof(TcpHello) : sizeof(TcpProof);
  error_code error;
  const size_t bytes = socket_.read_some(asio::buffer(heard_.data() + filled_, wanted - filled_), error);
  if (error == asio::error::would_block)
    return true;
  if (error || bytes == 0)
    return false;
  filled_ += bytes;
  if (filled_ < wanted)
    return true;
  filled_ = 0;
  return phase_ == Phase::kHello ? take_hello() : take_proof();
}

bool TcpInLink::take_hello() {
  TcpHello& hello = meeting_.hello;
  std::memcpy(&hello, heard_.data(), sizeof hello);
  const std::optional<TcpSecret> secret = hello.fits() ? hub_.secret_for(hello) : std::nullopt;
  if (!secret)
    return false;
  secret_ = *secret;
  meeting_.target = hub_.self();
  meeting_.target_challenge = new_challenge();
  const TcpAnswer answer{.challenge = meeting_.target_challenge, .proof = prove(secret_, TcpRole::kListener, meeting_)};
  phase_ = Phase::kProof;
  return say(&answer, sizeof answer);
}

bool TcpInLink::take_proof() {
  TcpProof proof;
  std::memcpy(proof.data(), heard_.data(), proof.size());
  if (!is_same(proof, prove(secret_, TcpRole::kConnector, meeting_)))
    return false;
  if (!say(&kTcpWelcome, 1))
    return false;  // the connector tries again
  if (!hub_.admit(meeting_, shared_from_this()))
    return false;
  greeting_timer_.cancel();  // sleepers look for timers
  phase_ = Phase::kPackets;
  buffer_.resize(kBufferBytes);
  return true;
}

// ---- Peers

// Returns whether the link goes on.
bool TcpInLink::read_turn() {
  uint64_t turn = std::min(kTurnBytes, hub_.read_budget());
  bool drained = false;
  while (turn > 0 && !drained) {
    error_code error;
    const size_t bytes = read_some(turn, drained, error);
    if (error == asio::error::would_block)
      return true;
    if (error == boost::system::errc::bad_address && receiving_ && to_ != nullptr) {
      give_up_unmapped();
      continue;
    }
    if (error || bytes == 0) {
      why_ended_ = why_broken(error);
      return false;
    }
    hub_.take(bytes);
    bytes_read_ += bytes;
    turn -= bytes;
    if (!parse()) {
      why_ended_ = nic::kCannotBeReached + std::string("it sent data that is not of Lanyard's protocol");
      return false;
    }
    if (!open())
      return true;
  }
  return true;
}

// Reads payload straight to its place, and what follows it into the buffer.
size_t TcpInLink::read_some(uint64_t limit, bool& drained, error_code& error) {
  std::array<asio::mutable_buffer, 2> buffers;
  const uint64_t left = receiving_ && to_ != nullptr ? packet_.bytes - done_ : 0;
  const uint64_t direct = std::min(left, limit);
  if (direct > 0)
    buffers[0] = asio::mutable_buffer(to_ + done_, direct);
  const size_t room = direct < left ? 0 : std::min(buffer_.size() - filled_, limit - direct);
  buffers[1] = asio::mutable_buffer(buffer_.data() + filled_, room);
  const size_t bytes = socket_.read_some(buffers, error);
  const uint64_t placed = std::min<uint64_t>(bytes, direct);
  done_ += placed;
  filled_ += bytes - placed;
  drained = bytes < direct + room;
  return bytes;
}

// False if the target is no longer mapped. Short messages are not checked, since that costs a
// system call: there such memory faults as in any other store.
bool TcpInLink::copy(std::byte* to, const std::byte* from, uint64_t bytes) const {
  constexpr uint64_t kShort = 4096;
  RemoteCopy result = RemoteCopy::kRefused;
  if (packet_.bytes > kShort)
    result = write_remote(::getpid(), from, reinterpret_cast<uintptr_t>(to), bytes);
  if (result == RemoteCopy::kRefused)
    std::memcpy(to, from, bytes);
  return result != RemoteCopy::kUnmapped;
}

// Reports the failure to the initiator and discards the rest.
void TcpInLink::give_up_unmapped() {
  if (!std::exchange(given_up_, true))
    hub_.sink().abandoned(packet_, Code::kUnmapped);
  to_ = nullptr;
}

// Parses complete items. False if the peer does not keep the protocol.
bool TcpInLink::parse() {
  while (open()) {
    if (receiving_) {
      const uint64_t now = std::min<uint64_t>(packet_.bytes - done_, filled_ - taken_);
      if (to_ != nullptr && now > 0 && !copy(to_ + done_, buffer_.data() + taken_, now))
        give_up_unmapped();
      done_ += now;
      taken_ += now;
      if (done_ < packet_.bytes)
        break;
      receiving_ = false;
      if (!given_up_)
        hub_.sink().landed(packet_, to_ != nullptr);
    } else {
      if (filled_ - taken_ < sizeof(Packet))
        break;
      Packet packet;
      std::memcpy(&packet, buffer_.data() + taken_, sizeof packet);
      if (packet.kind == PacketKind::kPull && filled_ - taken_ < sizeof packet + kLoanBytes)
        break;
      taken_ += sizeof packet;
      if (!begin(packet))
        return false;
    }
  }
  std::memmove(buffer_.data(), buffer_.data() + taken_, filled_ - taken_);
  filled_ -= taken_;
  taken_ = 0;
  return true;
}

bool TcpInLink::begin(const Packet& packet) {
  if (packet.source != meeting_.hello.source || packet.kind > PacketKind::kCannotPull)
    return false;
  if (packet.kind == PacketKind::kWrite) {
    packet_ = packet;
    to_ = hub_.sink().place(packet);
    done_ = 0;
    seen_.reset();
    given_up_ = false;
    receiving_ = true;
    return true;
  }
  if (packet.kind == PacketKind::kAck)
    hub_.acknowledged(meeting_.hello.source, packet.token);  // before the sink, which may free the payload
  hub_.sink().arrived(packet, buffer_.data() + taken_);
  taken_ += payload_bytes(packet);
  return true;
}

// ---- The end

void TcpInLink::give_up_stalled(uint64_t key, Sink& sink) {
  if (!receiving_ || to_ == nullptr || packet_.key != key)
    return;
  if (std::exchange(seen_, done_) != done_)
    return;
  to_ = nullptr;
  given_up_ = true;
  sink.abandoned(packet_, Code::kNotFound);
}

void TcpInLink::end() {
  if (!open())
    return;
  const bool admitted = phase_ == Phase::kPackets;
  close();
  if (admitted)
    hub_.in_ended(meeting_.hello.source, why_ended_);
  else
    hub_.stranger_ended(*this);
}

void TcpInLink::close() {
  if (!open())
    return;
  phase_ = Phase::kClosed;
  greeting_timer_.cancel();
  close_socket();
  if (receiving_ && to_ != nullptr)
    hub_.sink().abandoned(packet_, Code::kFailed);
  receiving_ = false;
}

}  // namespace lanyard::nicsim
