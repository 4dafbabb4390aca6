#include "nicsim/wire/shm_wire.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "nicsim/wire/inbox.h"
#include "nicsim/wire/shm_bulk.h"
#include "nicsim/wire/shm_peers.h"
#include "nicsim/wire/shm_segment.h"

namespace lanyard::nicsim {

using std::chrono::steady_clock;

namespace {

constexpr uint32_t kInlineBytes = Inbox::kInlineBytes;
constexpr size_t kFramesPerPoll = 64;
constexpr uint32_t kIdlePollsPerLook = 1024;  // the clock is read once in so many

std::string peer_name(size_t rank) { return "peer " + std::to_string(rank); }

class ShmWire final : public Wire {
 public:
  ShmWire(const ShmOptions& options, OwnSegment segment)
      : options_(options),
        segment_(std::move(segment)),
        inbox_(segment_.mapping.get(), options.slots, segment_.address.nonce),
        peers_(options.use_cma, inbox_.bell(), segment_.address),
        offers_(peers_),
        pulls_(peers_, inbox_) {}
  ~ShmWire() override { inbox_.close(); }

  const char* name() const override { return "shm"; }
  nic::Address address() const override { return segment_.address.encode(); }

  Status set_peers(std::span<const nic::Address> peers, uint32_t self) override {
    if (ready_.load())
      return {Code::kInvalidState, "set_peers() was called before"};
    if (peers.size() > InboxHeader::kMaxProducers)
      return {Code::kInvalidArgument, "at most " + std::to_string(InboxHeader::kMaxProducers) +
                                          " ranks share a host's memory: set LANYARD_SIM_WIRE=tcp"};
    if (self >= peers.size() || peers[self].bytes != address().bytes)
      return {Code::kInvalidArgument, "the address at index self is not this NIC's"};
    std::vector<std::optional<ShmAddress>> table(peers.size());
    for (uint32_t rank = 0; rank < peers.size(); ++rank) {
      if (rank == self || peers[rank].bytes.empty())
        continue;
      LANYARD_ASSIGN_OR_RETURN(table[rank], check(rank, peers[rank]));
    }
    peers_.set(peers.size(), self);
    for (uint32_t rank = 0; rank < peers.size(); ++rank)
      if (table[rank])
        peers_.add(rank, *table[rank]);
    offers_.set_peers();
    ready_.store(true, std::memory_order_seq_cst);
    if (waiting())
      inbox_.bell().ring();  // a packet may have come before any thread could poll it
    return {};
  }

  Status add_peer(uint32_t rank, const nic::Address& address) override {
    if (rank >= peers_.size() || rank == peers_.self())
      return {Code::kInvalidArgument, "no such peer"};
    LANYARD_ASSIGN_OR_RETURN(const ShmAddress checked, check(rank, address));
    if (!peers_.knows(rank))
      peers_.add(rank, checked);
    else if (peers_[rank].address.nonce != checked.nonce)
      return {Code::kInvalidArgument, "another NIC has sent as " + peer_name(rank)};
    return {};
  }

  bool shares_host(uint32_t) const override { return true; }

  void send(uint32_t rank, const Packet& packet, const std::byte* payload) override {
    if (peers_.reach(rank)) [[likely]] {
      if (const uint64_t bytes = payload_bytes(packet); bytes <= kInlineBytes)
        peers_.send(rank, packet, {.payload_bytes = static_cast<uint32_t>(bytes), .payload = payload});
      else
        offers_.offer(rank, packet, payload);
    }
    if (peers_.any_ended()) [[unlikely]]
      set_more(true);
  }

  size_t poll(Sink& sink) override {
    if (!ready_.load(std::memory_order_acquire))
      return 0;
    size_t steps = take_frames(sink);
    if (steps == 0 && peers_.any_ended())
      steps += report_ended(sink);
    if (steps == 0 && lost_any_) [[unlikely]]
      steps += step_over_unfinished();
    if (inbox_.take_nudge())
      peers_.try_all_again();
    const uint64_t budget = pulls_.can_go_on() && offers_.pushes() ? kPortionBytes / 2 : kPortionBytes;
    if (pulls_.can_go_on())
      steps += pulls_.pull_portions(sink, budget);
    if (offers_.pushes())
      steps += offers_.push_portions(budget);
    if (peers_.any_stuck())
      steps += peers_.drain();
    if (offers_.streams())
      steps += offers_.stream_portion();
    inbox_.give_back(/*all=*/steps == 0, [this](uint32_t rank) {
      if (rank < peers_.size() && peers_.reach(rank))
        peers_[rank].port.nudge();
    });
    if (steps == 0)
      look_after_peers();
    set_more(pulls_.can_go_on() || offers_.can_go_on() || peers_.any_ended());
    return steps;
  }

  bool give_up_stalled(uint64_t key, Sink& sink) override { return pulls_.give_up_stalled(key, sink); }
  void attend() override { inbox_.bell().attend(); }
  void leave() override {
    inbox_.bell().leave([this] { return waiting(); });
  }

  void sleep(Sleeper who, Nanoseconds timeout, const Idle& idle) override {
    const bool watches = peers_.watched();
    if (watches)
      timeout = std::min<Nanoseconds>(timeout, options_.watch_period);  // to find peers that end
    inbox_.bell().sleep(
        who, timeout, [this] { return waiting(); }, [&] { return peers_.watched() == watches && (!idle || idle()); });
    slept_.store(true, std::memory_order_relaxed);
  }

  void wake(Sleeper who) override { inbox_.bell().wake(who); }

 private:
  // Decodes the address. An error if this wire cannot reach it.
  Result<ShmAddress> check(uint32_t rank, const nic::Address& encoded) const {
    const auto unreachable = [&](const std::string& why) {
      return Status(Code::kInvalidArgument, peer_name(rank) + why);
    };
    const std::optional<ShmAddress> decoded = ShmAddress::decode(encoded);
    if (!decoded)
      return unreachable(" has no shared-memory wire: set LANYARD_SIM_WIRE to the same value on all ranks");
    if (decoded->pid_namespace == 0)
      return unreachable(
          " has no /proc, through which shared memory is reached: mount it, or set LANYARD_SIM_WIRE=tcp on all ranks");
    if (decoded->host != segment_.address.host)
      return unreachable(" is on another host: set LANYARD_SIM_WIRE=tcp on all ranks");
    const bool pids = decoded->pid_namespace == segment_.address.pid_namespace;
    if (!pids || decoded->user_namespace != segment_.address.user_namespace)
      return unreachable(std::string(" is in another container (") + (pids ? "user" : "pid") +
                         " namespace): set LANYARD_SIM_WIRE=tcp on all ranks");
    return *decoded;
  }

  bool waiting() const {
    return ready_.load(std::memory_order_seq_cst) && (more_.load(std::memory_order_seq_cst) || inbox_.waiting());
  }

  void set_more(bool more) {
    if (more == more_.load(std::memory_order_relaxed))
      return;
    more_.store(more, std::memory_order_seq_cst);
    if (more)
      inbox_.bell().hand_over();  // the thread that polls now may leave
  }

  size_t take_frames(Sink& sink) {
    size_t count = 0;
    Packet packet;
    Frame frame;
    for (; count < kFramesPerPoll && inbox_.front(packet, frame); ++count) {
      // Trust nothing in the frame (inbox.h) and drop invalid ones.
      if (packet.source < peers_.size() && packet.source != peers_.self() &&
          peers_[packet.source].state != ShmPeer::State::kLost) {
        if (frame.kind == FrameKind::kHello && !peers_.knows(packet.source)) [[unlikely]]
          take_hello(packet, frame);
        if (peers_[packet.source].state == ShmPeer::State::kNew) [[unlikely]]
          peers_.reach(packet.source);  // watches the sender even if nothing is ever sent back
        if (peers_.knows(packet.source))
          take(sink, packet, frame);
      }
      inbox_.pop();
    }
    return count;
  }

  void take(Sink& sink, const Packet& packet, const Frame& frame) {
    switch (frame.kind) {
      case FrameKind::kPacket: return take_packet(sink, packet, frame);
      case FrameKind::kOffer: return pulls_.take_offer(sink, packet, frame.value);
      case FrameKind::kPull: return offers_.take_request(packet);
      case FrameKind::kChunk: return pulls_.take_chunk(sink, packet, frame);
      case FrameKind::kInvite: return offers_.take_invitation(packet, frame.value);
      case FrameKind::kHelped: return pulls_.take_answer(sink, packet, frame.value);
      case FrameKind::kHello: return;
    }
  }

  void take_packet(Sink& sink, const Packet& packet, const Frame& frame) {
    if (packet.kind > PacketKind::kCannotPull || payload_bytes(packet) != frame.payload_bytes)
      return;
    if (packet.kind == PacketKind::kWrite) {
      std::byte* to = sink.place(packet);
      if (to != nullptr && packet.bytes > 0)
        std::memcpy(to, frame.payload, packet.bytes);
      return sink.landed(packet, to != nullptr);
    }
    if (packet.kind == PacketKind::kAck)
      offers_.acknowledged(packet);
    sink.arrived(packet, frame.payload);
  }

  // The sender must not be known.
  void take_hello(const Packet& packet, const Frame& frame) {
    const Result<ShmAddress> address =
        check(packet.source, {.bytes = {frame.payload, frame.payload + frame.payload_bytes}});
    if (address.ok())
      peers_.add(packet.source, address.value());
  }

  // Not at every idle poll, as it makes one system call per peer.
  void look_after_peers() {
    const bool slept = slept_.load(std::memory_order_relaxed);
    if (!slept && ++idle_polls_ % kIdlePollsPerLook != 0)
      return;
    slept_.store(false, std::memory_order_relaxed);
    const steady_clock::time_point now = steady_clock::now();
    if (now < next_look_)
      return;
    next_look_ = now + options_.watch_period;
    // This producer holds up the frames of others. It may only be slow, so watch it.
    if (const std::optional<uint32_t> rank = inbox_.unfinished();
        rank && *rank < peers_.size() && *rank != peers_.self())
      peers_.reach(*rank);
    peers_.look_after();
  }

  // Reports the peers that have ended. Called when the inbox is empty: they had ended before, so
  // all that they sent has been taken.
  size_t report_ended(Sink& sink) {
    const std::vector<uint32_t> ended = peers_.take_ended();
    lost_any_ = true;
    for (const uint32_t rank : ended) {
      peers_.lose(rank);
      offers_.lose(rank);
      pulls_.lose(rank, sink);
      sink.peer_lost(rank, peers_[rank].why_ended);
    }
    return ended.size();
  }

  // Skips a frame that a lost peer took a slot for and did not finish.
  size_t step_over_unfinished() {
    const std::optional<uint32_t> rank = inbox_.unfinished();
    if (!rank || *rank >= peers_.size() || peers_[*rank].state != ShmPeer::State::kLost)
      return 0;
    inbox_.pop();
    return 1;
  }

  const ShmOptions options_;
  OwnSegment segment_;
  Inbox inbox_;
  std::atomic<bool> ready_{false};  // set_peers() has been called

  // The rest is for the driver only, except the atomics.
  ShmPeers peers_;
  ShmOffers offers_;
  ShmPulls pulls_;
  bool lost_any_ = false;
  uint32_t idle_polls_ = 0;
  std::chrono::steady_clock::time_point next_look_{};
  std::atomic<bool> more_{false};   // poll() has something to do even if nothing arrives
  std::atomic<bool> slept_{false};  // time may have passed since the last poll()
};

}  // namespace

Result<std::unique_ptr<Wire>> make_shm_wire(const ShmOptions& options) {
  if (options.slots < 2 || options.slots > Inbox::kMaxSlots || !std::has_single_bit(options.slots))
    return Status(Code::kInvalidArgument, "the number of inbox slots must be a power of two from 2 to 65536");
  LANYARD_ASSIGN_OR_RETURN(OwnSegment segment, OwnSegment::create(Inbox::bytes_for(options.slots)));
  return std::unique_ptr<Wire>(new ShmWire(options, std::move(segment)));
}

}  // namespace lanyard::nicsim
