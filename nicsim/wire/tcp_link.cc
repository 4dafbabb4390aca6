#include "nicsim/wire/tcp_link.h"

#include <fcntl.h>
#include <netinet/tcp.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <cstring>
#include <span>
#include <utility>

namespace lanyard::nicsim {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

namespace {

constexpr std::array<std::byte, 64 * 1024> kZeros{};

// A peer whose host has vanished is noticed after some 30 s.
void set_options(tcp::socket& socket) {
  error_code ignored;
  socket.set_option(tcp::no_delay(true), ignored);
  socket.set_option(asio::socket_base::keep_alive(true), ignored);
  const int fd = socket.native_handle();
  ::fcntl(fd, F_SETFD, FD_CLOEXEC);  // else a program that a peer starts keeps its connections
  const auto set = [fd](int name, int value) { ::setsockopt(fd, IPPROTO_TCP, name, &value, sizeof value); };
  set(TCP_KEEPIDLE, 15);
  set(TCP_KEEPINTVL, 5);
  set(TCP_KEEPCNT, 3);
  set(TCP_USER_TIMEOUT, 30'000);  // ms
}

}  // namespace

// ---- Out

TcpOutLink::TcpOutLink(TcpHub& hub, FdNap& nap, asio::io_context& io, uint32_t rank)
    : hub_(hub), nap_(nap), rank_(rank), socket_(io), timer_(io) {}

void TcpOutLink::connect(const tcp::endpoint& endpoint, const TcpHello& hello) {
  hello_ = hello;
  state_ = State::kConnecting;
  error_code error;
  socket_.open(endpoint.protocol(), error);
  if (error)
    return fail_later();
  set_options(socket_);
  timer_.expires_after(kConnectTime);
  hub_.handler_queued();
  timer_.async_wait([self = shared_from_this()](error_code canceled) {
    self->hub_.handler_ran();
    if (!canceled && self->state_ == State::kConnecting)
      self->fail();
  });
  socket_.async_connect(endpoint, [self = shared_from_this()](error_code result) { self->connected(result); });
  nap_.watch(socket_.native_handle(), FdNap::Watch::kReadAndWrite);
}

void TcpOutLink::connected(error_code error) {
  if (state_ != State::kConnecting)
    return;
  timer_.cancel();
  if (!error)
    socket_.non_blocking(true, error);
  if (error)
    return fail();
  nap_.change(socket_.native_handle(), FdNap::Watch::kRead);
  state_ = State::kOpen;
  watch_for_end();
  flush();
}

// Nothing is ever received here but the end.
void TcpOutLink::watch_for_end() {
  socket_.async_wait(tcp::socket::wait_read, [self = shared_from_this()](error_code error) {
    if (self->state_ == State::kClosed)
      return;
    std::byte byte{};
    if (!error)
      self->socket_.read_some(asio::buffer(&byte, 1), error);
    if (error != asio::error::would_block)
      return self->fail();
    self->watch_for_end();
  });
}

void TcpOutLink::queue(const Packet& packet, const std::byte* payload) {
  if (state_ == State::kClosed)
    return;
  items_.push_back({.packet = packet, .payload = payload, .payload_bytes = payload_bytes(packet)});
}

// An honest peer answers nothing of which it has not the head, and the items go out one after the other.
void TcpOutLink::acknowledged(uint32_t token) {
  if (!items_.empty() && front_sent_ >= sizeof(Packet) && items_.front().packet.token == token)
    items_.front().payload = nullptr;
}

void TcpOutLink::flush() {
  if (state_ != State::kOpen)
    return;
  std::array<asio::const_buffer, kMaxBuffers> buffers;
  uint64_t bytes = 0;
  const size_t count = gather(buffers, bytes);
  if (count == 0)
    return;
  error_code error;
  const size_t sent = socket_.write_some(std::span(buffers.data(), count), error);
  if (error && error != asio::error::would_block)
    return fail_later();
  written(sent);
  if (!items_.empty() || hello_sent_ < sizeof hello_)
    write_when_ready();
}

// What is to be written next: at most kMaxBuffers pieces and about a portion of bytes.
size_t TcpOutLink::gather(std::array<asio::const_buffer, kMaxBuffers>& buffers, uint64_t& bytes) {
  size_t count = 0;
  const auto add = [&](const void* data, uint64_t size) {
    size = std::min(size, Wire::kPortionBytes - bytes);
    if (size > 0)
      buffers[count++] = asio::const_buffer(data, size);
    bytes += size;
  };
  if (hello_sent_ < sizeof hello_)
    add(reinterpret_cast<const std::byte*>(&hello_) + hello_sent_, sizeof hello_ - hello_sent_);
  uint64_t skip = front_sent_;
  for (size_t i = 0; i < items_.size() && count + 2 <= kMaxBuffers; ++i) {
    const Item& item = items_[i];
    if (skip < sizeof item.packet)
      add(reinterpret_cast<const std::byte*>(&item.packet) + skip, sizeof item.packet - skip);
    const uint64_t gone = skip > sizeof item.packet ? skip - sizeof item.packet : 0;
    uint64_t left = item.payload_bytes - gone;
    if (item.payload != nullptr && left > 0)
      add(item.payload + gone, std::exchange(left, 0));
    // Of the first item alone: hello, packet and zeros are few enough pieces.
    static_assert(3 + Wire::kPortionBytes / kZeros.size() <= kMaxBuffers);
    for (; left > 0 && bytes < Wire::kPortionBytes; left -= std::min<uint64_t>(left, kZeros.size()))
      add(kZeros.data(), std::min<uint64_t>(left, kZeros.size()));
    if (bytes == Wire::kPortionBytes)
      break;
    skip = 0;
  }
  return count;
}

void TcpOutLink::written(uint64_t bytes) {
  const uint64_t hello = std::min(bytes, sizeof hello_ - hello_sent_);
  hello_sent_ += hello;
  bytes -= hello;
  while (bytes > 0) {
    const uint64_t left = sizeof(Packet) + items_.front().payload_bytes - front_sent_;
    const uint64_t now = std::min(bytes, left);
    bytes -= now;
    front_sent_ += now;
    if (now < left)
      return;
    items_.pop_front();
    front_sent_ = 0;
  }
}

void TcpOutLink::write_when_ready() {
  state_ = State::kBlocked;
  nap_.change(socket_.native_handle(), FdNap::Watch::kReadAndWrite);
  socket_.async_wait(tcp::socket::wait_write, [self = shared_from_this()](error_code error) {
    if (self->state_ != State::kBlocked)
      return;
    if (error)
      return self->fail();
    self->nap_.change(self->socket_.native_handle(), FdNap::Watch::kRead);
    self->state_ = State::kOpen;
    self->flush();
  });
}

// From inside poll(), which this may not be.
void TcpOutLink::fail_later() {
  hub_.handler_queued();
  asio::post(socket_.get_executor(), [self = shared_from_this()] {
    self->hub_.handler_ran();
    self->fail();
  });
}

void TcpOutLink::fail() {
  if (state_ == State::kClosed)
    return;
  close();
  hub_.out_ended(rank_);
}

void TcpOutLink::close() {
  state_ = State::kClosed;
  timer_.cancel();
  error_code ignored;
  socket_.close(ignored);
  items_.clear();
}

// ---- In

TcpInLink::TcpInLink(TcpHub& hub, FdNap& nap, tcp::socket socket)
    : hub_(hub), nap_(nap), socket_(std::move(socket)), buffer_(kBufferBytes) {}

void TcpInLink::start() {
  error_code error;
  socket_.non_blocking(true, error);
  set_options(socket_);
  nap_.watch(socket_.native_handle(), FdNap::Watch::kRead);
  wait();
}

void TcpInLink::wait() {
  socket_.async_wait(tcp::socket::wait_read, [self = shared_from_this()](error_code error) {
    if (!self->open_)
      return;
    if (error)
      return self->end();
    self->read_turn();
  });
}

void TcpInLink::read_turn() {
  uint64_t turn = std::min(kTurnBytes, hub_.read_budget());
  while (turn > 0) {
    error_code error;
    bool drained = false;
    const size_t bytes = read_some(turn, drained, error);
    if (error == asio::error::would_block)
      break;
    if (error || bytes == 0)
      return end();
    hub_.take(bytes);
    turn -= bytes;
    if (!parse())
      return end();
    if (!open_)
      return;
    if (drained)
      break;
  }
  wait();
}

// Straight to where the payload goes, and what comes after it into the buffer.
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

// Takes what is whole. False where the peer does not speak this protocol.
bool TcpInLink::parse() {
  if (!welcome_ && !parse_hello())
    return false;
  while (welcome_ && open_) {
    if (receiving_) {
      const uint64_t now = std::min<uint64_t>(packet_.bytes - done_, filled_ - taken_);
      if (to_ != nullptr && now > 0)
        std::memcpy(to_ + done_, buffer_.data() + taken_, now);
      done_ += now;
      taken_ += now;
      if (done_ < packet_.bytes)
        break;
      receiving_ = false;
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

bool TcpInLink::parse_hello() {
  TcpHello hello;
  if (filled_ < sizeof hello)
    return true;
  std::memcpy(&hello, buffer_.data(), sizeof hello);
  if (!hub_.welcome(hello, shared_from_this()))
    return false;
  welcome_ = true;
  rank_ = hello.source;
  taken_ = sizeof hello;
  return true;
}

bool TcpInLink::begin(const Packet& packet) {
  if (packet.source != rank_)
    return false;
  switch (packet.kind) {
    case PacketKind::kWrite:
      packet_ = packet;
      to_ = hub_.sink().place(packet);
      done_ = 0;
      receiving_ = true;
      return true;
    case PacketKind::kPull:
      hub_.sink().pull_arrived(packet, buffer_.data() + taken_);
      taken_ += kLoanBytes;
      return true;
    case PacketKind::kCannotPull: hub_.sink().pull_refused(packet); return true;
    case PacketKind::kAtomic: hub_.sink().atomic_arrived(packet); return true;
    case PacketKind::kAck:
      hub_.acknowledged(rank_, packet.token);  // before the sink, which may free the payload
      hub_.sink().ack_arrived(packet);
      return true;
  }
  return false;
}

void TcpInLink::end() {
  close();
  if (welcome_)
    hub_.in_ended(rank_);
}

void TcpInLink::close() {
  if (!open_)
    return;
  open_ = false;
  error_code ignored;
  socket_.close(ignored);
  if (receiving_ && to_ != nullptr)
    hub_.sink().abandoned(packet_);
  receiving_ = false;
}

}  // namespace lanyard::nicsim
