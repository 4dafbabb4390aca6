// Sending over TCP.
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <cerrno>
#include <span>
#include <sstream>
#include <utility>

#include "nicsim/wire/tcp_link.h"

namespace lanyard::nicsim {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

namespace {

constexpr std::array<std::byte, 64 * 1024> kZeros{};

// Shorter payloads are not checked, as that costs a system call.
constexpr uint64_t kShort = 4096;

// Reads a byte of each page as from another process: an unmapped page gives an error and no signal.
bool is_mapped(const std::byte* memory, uint64_t bytes) {
  constexpr size_t kMostPages = 512;
  const auto page = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  const auto first = reinterpret_cast<uintptr_t>(memory);
  std::array<std::byte, kMostPages> taken;
  std::array<iovec, kMostPages> pages;
  for (uintptr_t at = first; at < first + bytes;) {
    size_t count = 0;
    for (; count < kMostPages && at < first + bytes; ++count, at = (at / page + 1) * page)
      pages[count] = {reinterpret_cast<void*>(at), 1};
    const iovec here{taken.data(), count};
    const ssize_t read = ::process_vm_readv(::getpid(), &here, 1, pages.data(), count, 0);
    if ((read < 0 && errno == EFAULT) || (read >= 0 && static_cast<size_t>(read) < count))
      return false;
  }
  return true;
}

}  // namespace

// ---- Connecting

void TcpOutLink::connect() {
  give_up_at_ = Clock::now() + kConnectTime;
  attempt();
}

void TcpOutLink::attempt() {
  state_ = State::kConnecting;
  ++attempt_;
  error_code error;
  socket_.open(endpoint_.protocol(), error);
  if (error)  // descriptors may be short now
    return try_again(nic::kCannotBeReached + ("socket: " + error.message()));
  set_options();
  set_timer(give_up_at_, &TcpOutLink::connecting_takes_too_long);
  socket_.async_connect(endpoint_, of_this_attempt(&TcpOutLink::connected));
  nap_.watch(socket_.native_handle(), FdNap::Watch::kReadAndWrite);
}

void TcpOutLink::set_timer(Clock::time_point when, void (TcpOutLink::*then)()) {
  timer_.expires_at(when);
  timer_.async_wait(hub_.queued([self = shared_from_this(), attempt = attempt_, then](error_code canceled) {
    if (!canceled && attempt == self->attempt_)
      (self.get()->*then)();
  }));
}

// Limits only connecting. Afterwards the system finds out whether the peer lives; it may be
// busy for longer.
void TcpOutLink::connecting_takes_too_long() {
  if (state_ == State::kConnecting)
    fail(failure_.empty() ? why_not("it has not accepted the connection in time") : failure_);
}

// The reason for a peer that was never reached.
std::string TcpOutLink::why_not(const std::string& what) const {
  std::ostringstream text;
  text << nic::kCannotBeReached << "connect to " << endpoint_ << ": " << what
       << "; if it runs, set LANYARD_SIM_INTERFACE to a network interface over which all ranks reach each other";
  return text.str();
}

void TcpOutLink::connected(error_code error) {
  timer_.cancel();
  if (!error)
    socket_.non_blocking(true, error);
  if (error)
    return fail(why_not(error.message()));
  nap_.change(socket_.native_handle(), FdNap::Watch::kRead);
  state_ = State::kGreeting;
  heard_ = 0;
  meeting_.hello.challenge = new_challenge();
  if (!say(&meeting_.hello, sizeof meeting_.hello))
    return try_again(why_not("the connection broke before the handshake ended"));
  watch();
}

void TcpOutLink::watch() { socket_.async_wait(tcp::socket::wait_read, of_this_attempt(&TcpOutLink::readable)); }

// Only the handshake and the end of the connection arrive here.
void TcpOutLink::readable(error_code error) {
  if (state_ == State::kGreeting || state_ == State::kProven)
    return greet();
  std::byte byte{};
  if (!error)
    socket_.read_some(asio::buffer(&byte, 1), error);
  if (!error && byte == kTcpUnreachable)
    return fail("cannot reach this process");
  if (error != asio::error::would_block)
    return fail(why_broken(error));
  watch();
}

void TcpOutLink::greet() {
  std::byte welcome{};
  const bool proven = state_ == State::kProven;
  const asio::mutable_buffer wanted =
      proven ? asio::buffer(&welcome, 1) : asio::buffer(&answer_, sizeof answer_) + heard_;
  error_code error;
  const size_t bytes = socket_.read_some(wanted, error);
  if (error == asio::error::would_block)
    return watch();
  if (error || bytes == 0)
    return try_again(why_not("it did not answer the handshake"));
  if (proven) {
    if (welcome != kTcpWelcome)
      return fail(why_not("another program listens there"));
    state_ = State::kOpen;
    watch();
    return flush();
  }
  heard_ += bytes;
  if (heard_ < sizeof answer_)
    return watch();
  meeting_.target_challenge = answer_.challenge;
  if (!is_same(answer_.proof, prove(secret_, TcpRole::kListener, meeting_)))
    return fail(why_not("another program listens there"));
  const TcpProof proof = prove(secret_, TcpRole::kConnector, meeting_);
  if (!say(proof.data(), proof.size()))
    return try_again(why_not("the connection broke before the handshake ended"));
  state_ = State::kProven;
  watch();
}

void TcpOutLink::try_again(std::string why) {
  if (Clock::now() >= give_up_at_)
    return fail_later(std::move(why));
  failure_ = std::move(why);
  state_ = State::kConnecting;
  ++attempt_;
  close_socket();
  set_timer(std::min(Clock::now() + kPause, give_up_at_), &TcpOutLink::attempt);
}

// ---- Packets

void TcpOutLink::queue(const Packet& packet, const std::byte* payload) {
  if (state_ == State::kClosed)
    return;
  items_.push_back({.packet = packet, .payload = payload, .payload_bytes = payload_bytes(packet)});
}

// A correct peer answers only operations whose head it has, and items are sent in order. So it
// is the first.
void TcpOutLink::acknowledged(uint32_t token) {
  if (!items_.empty() && items_.front().packet.token == token)
    items_.front().payload = nullptr;
}

void TcpOutLink::flush() {
  if (state_ != State::kOpen)
    return;
  drop_unmapped();
  Buffers buffers;
  uint64_t bytes = 0;
  const size_t count = gather(buffers, bytes);
  if (count == 0)
    return;
  error_code error;
  const size_t sent = socket_.write_some(std::span(buffers.data(), count), error);
  if (error && error != asio::error::would_block)
    return fail_later(why_broken(error));
  written(sent);
  if (items_.empty())
    return;
  state_ = State::kBlocked;
  nap_.change(socket_.native_handle(), FdNap::Watch::kReadAndWrite);
  socket_.async_wait(tcp::socket::wait_write, of_this_attempt(&TcpOutLink::writable));
}

// Checks the memory of the long payloads that may be sent next, and fails the operations
// whose memory is unmapped. Once part of a packet is sent, only the end of the connection can
// tell the peer.
void TcpOutLink::drop_unmapped() {
  bool all_there = true;
  for (size_t i = 0; i < std::min(items_.size(), kMaxBuffers); ++i) {
    Item& item = items_[i];
    const bool begun = i == 0 && front_sent_ > 0;
    if (begun || item.payload == nullptr || item.payload_bytes <= kShort || std::exchange(item.looked_at, true))
      continue;
    item.gone = !is_mapped(item.payload, item.payload_bytes);
    all_there = all_there && !item.gone;
  }
  if (all_there)
    return;
  items_.erase_if([this](const Item& item) {
    if (item.gone)
      fail_unmapped(item.packet.token);
    return item.gone;
  });
}

// poll() calls this later: a send() may be running now.
void TcpOutLink::fail_unmapped(uint32_t token) {
  asio::post(socket_.get_executor(), hub_.queued([self = shared_from_this(), token] {
    self->hub_.sink().arrived(
        {.kind = PacketKind::kAck, .code = Code::kUnmapped, .source = self->meeting_.target, .token = token}, nullptr);
  }));
}

// Collects what to write next: at most kMaxBuffers pieces and one portion of bytes.
size_t TcpOutLink::gather(Buffers& buffers, uint64_t& bytes) {
  size_t count = 0;
  const auto add = [&](const void* data, uint64_t size) {
    size = std::min(size, Wire::kPortionBytes - bytes);
    if (size > 0)
      buffers[count++] = asio::const_buffer(data, size);
    bytes += size;
  };
  uint64_t skip = front_sent_;
  for (size_t i = 0; i < items_.size() && count + 2 <= kMaxBuffers; ++i) {
    const Item& item = items_[i];
    if (skip < sizeof item.packet)
      add(reinterpret_cast<const std::byte*>(&item.packet) + skip, sizeof item.packet - skip);
    const uint64_t gone = skip > sizeof item.packet ? skip - sizeof item.packet : 0;
    uint64_t left = item.payload_bytes - gone;
    if (item.payload != nullptr && left > 0)
      add(item.payload + gone, std::exchange(left, 0));
    // Only the first item has zeros, so the pieces suffice.
    static_assert(2 + Wire::kPortionBytes / kZeros.size() <= kMaxBuffers);
    for (; left > 0 && bytes < Wire::kPortionBytes; left -= std::min<uint64_t>(left, kZeros.size()))
      add(kZeros.data(), std::min<uint64_t>(left, kZeros.size()));
    if (bytes == Wire::kPortionBytes)
      break;
    skip = 0;
  }
  return count;
}

void TcpOutLink::written(uint64_t bytes) {
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

void TcpOutLink::writable(error_code error) {
  if (error)
    return fail(why_broken(error));
  nap_.change(socket_.native_handle(), FdNap::Watch::kRead);
  state_ = State::kOpen;
  flush();
}

// ---- Closing

// poll() calls this later: a send() may be running now.
void TcpOutLink::fail_later(std::string why) {
  asio::post(socket_.get_executor(),
             hub_.queued([self = shared_from_this(), why = std::move(why)] { self->fail(why); }));
}

void TcpOutLink::fail(const std::string& why) {
  if (state_ == State::kClosed)
    return;
  close();
  hub_.out_ended(meeting_.target, why);
}

void TcpOutLink::close() {
  state_ = State::kClosed;
  ++attempt_;
  timer_.cancel();
  close_socket();
  items_.clear();
}

}  // namespace lanyard::nicsim
