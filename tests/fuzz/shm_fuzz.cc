// Fuzzes the shared-memory wire's reading of another process's writes: frames with any content in
// its inbox, and any bytes in the shared memory, while the wire sends, receives and polls.
//
// The other process is real but sleeps, because a wire trusts memory of its own process. This
// process writes in its place.
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "nicsim/wire/inbox.h"
#include "nicsim/wire/shm_segment.h"
#include "nicsim/wire/shm_wire.h"
#include "tests/fuzz/fuzz.h"
#include "transport/base/check.h"

namespace lanyard::fuzz {
namespace {

using namespace nicsim;  // the wire's namespace

constexpr uint32_t kSlots = 4;
constexpr uint32_t kOther = 0;
constexpr uint32_t kSelf = 1;
constexpr uint64_t kPayload = 200'000;

// The other process, which owns a segment.
class OtherProcess {
 public:
  OtherProcess() {
    int channel[2] = {-1, -1};
    LANYARD_CHECK(::pipe(channel) == 0, "pipe() failed");
    const pid_t child = ::fork();
    if (child == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      Result<OwnSegment> own = OwnSegment::create(Inbox::bytes_for(kSlots));
      const bool told = own.ok() && ::write(channel[1], &own.value().address, sizeof(ShmAddress)) == sizeof(ShmAddress);
      while (told)
        ::pause();
      ::_exit(1);
    }
    LANYARD_CHECK(::read(channel[0], &address_, sizeof address_) == sizeof address_,
                  "the other process sends no segment");
    ::close(channel[0]);
    ::close(channel[1]);
    segment_ = std::move(PeerSegment::open(address_).value());
  }
  const ShmAddress& address() const { return address_; }
  std::byte* base() const { return static_cast<std::byte*>(segment_.base()); }

 private:
  ShmAddress address_;
  PeerSegment segment_;
};

enum Step : uint8_t { kPush, kReply, kScribble, kScribbleOther, kPoll, kSend, kTake, kSteps };

class World {
 public:
  explicit World(const OtherProcess& other)
      : other_(other),
        inbox_(other.base(), kSlots, other.address().nonce),
        wire_(std::move(make_shm_wire({.slots = kSlots}).value())),
        address_(*ShmAddress::decode(wire_->address())),
        segment_(std::move(PeerSegment::open(address_).value())),
        port_(InboxPort::attach(segment_.base(), segment_.bytes(), address_.nonce).value()),
        payload_(kPayload) {
    const std::vector<nic::Address> addresses{other.address().encode(), wire_->address()};
    LANYARD_CHECK(wire_->set_peers(addresses, kSelf).ok(), "set_peers() failed");
  }

  void run(FuzzInput& input) {
    while (!input.empty()) {
      switch (input.take<uint8_t>() % kSteps) {
        case kPush: push(input); break;
        case kReply: reply(input); break;
        case kScribble: scribble(static_cast<std::byte*>(segment_.base()), segment_.bytes(), input); break;
        case kScribbleOther: scribble(other_.base(), other_.address().bytes, input); break;
        case kPoll: poll(); break;
        case kSend: send(input); break;
        case kTake: take(); break;
      }
    }
    for (int i = 0; i < 8; ++i)
      poll();
  }

 private:
  void poll() { wire_->poll(sink_); }

  void push(FuzzInput& input) {
    const auto shape = input.take<uint8_t>();
    auto packet = input.take<Packet>();
    if (shape % 8 != 0)
      packet.source = kOther;
    push_frame(packet, static_cast<FrameKind>(1 + shape / 8 % 7), input);
  }
  // Replies to the wire's last packet.
  void reply(FuzzInput& input) {
    const auto shape = input.take<uint8_t>();
    Packet packet = last_;
    packet.source = kOther;
    if (shape % 4 == 0)
      packet.kind = PacketKind::kAck;
    packet.operand = shape % 4 == 1 ? input.take<uint8_t>() : packet.operand;
    push_frame(packet, static_cast<FrameKind>(1 + shape / 8 % 7), input);
  }
  void push_frame(const Packet& packet, FrameKind kind, FuzzInput& input) {
    Frame frame{.kind = kind, .payload_bytes = input.take<uint16_t>() % (Inbox::kInlineBytes + 1u)};
    frame.value = input.take<uint64_t>();
    if (frame.value % 4 == 0)  // inside the other process's segment
      frame.value = other_.address().base + frame.value % other_.address().bytes;
    frame.payload = payload_.data();
    port_.push(packet, frame);
  }
  void scribble(std::byte* base, uint64_t bytes, FuzzInput& input) {
    const uint64_t at = input.take<uint32_t>() % bytes;
    const std::span<const std::byte> text = input.take_bytes(input.take<uint8_t>() % 65);
    std::memcpy(base + at, text.data(), std::min<uint64_t>(text.size(), bytes - at));
  }
  void send(FuzzInput& input) {
    constexpr uint64_t kSizes[] = {0, 8, 4096, 4097, 131'072, kPayload};
    const uint64_t size = kSizes[input.take<uint8_t>() % std::size(kSizes)];
    wire_->send(kOther, {.kind = PacketKind::kWrite, .source = kSelf, .token = token_++, .bytes = size},
                payload_.data());
  }
  void take() {
    Frame frame;
    if (inbox_.front(last_, frame))
      inbox_.pop();
    inbox_.give_back(/*all=*/true, [](uint32_t) {});
  }

  const OtherProcess& other_;
  Inbox inbox_;  // replaces the other process's inbox
  std::unique_ptr<Wire> wire_;
  const ShmAddress address_;
  PeerSegment segment_;  // the wire's segment, mapped as the other process maps it
  InboxPort port_;
  std::vector<std::byte> payload_;
  FuzzSink sink_{2};
  Packet last_;
  uint32_t token_ = 0;
};

void write_seeds(const std::string& folder) {
  const auto packet_text = [](const Packet& packet) {
    return std::string(reinterpret_cast<const char*>(&packet), sizeof packet);
  };
  const auto push = [&](FrameKind kind, const Packet& packet, uint16_t payload, uint64_t value) {
    std::string text{static_cast<char>(kPush), static_cast<char>(1 + (static_cast<int>(kind) - 1) * 8)};
    text += packet_text(packet);
    text.append(reinterpret_cast<const char*>(&payload), sizeof payload);
    text.append(reinterpret_cast<const char*>(&value), sizeof value);
    return text + static_cast<char>(kPoll);
  };
  const auto write_to = [&](const char* name, const std::string& text) {
    std::ofstream(folder + "/" + name, std::ios::binary) << text;
  };
  const Packet long_write{.kind = PacketKind::kWrite, .token = 1, .key = 2, .bytes = 5000};
  const Packet shared_write{.kind = PacketKind::kWrite, .token = 2, .key = 2, .bytes = kPayload};
  write_to("packets", push(FrameKind::kPacket, {.kind = PacketKind::kWrite, .key = 2, .bytes = 8}, 8, 1) +
                          push(FrameKind::kPacket, {.kind = PacketKind::kAtomic}, 0, 1) +
                          push(FrameKind::kPacket, {.kind = PacketKind::kPull}, kLoanBytes, 1) +
                          push(FrameKind::kPacket, {.kind = PacketKind::kCannotPull}, 0, 1) +
                          push(FrameKind::kPacket, {.kind = PacketKind::kAck}, 0, 1));
  write_to("offers", push(FrameKind::kOffer, long_write, 0, 4) + push(FrameKind::kChunk, long_write, 4096, 0) +
                         push(FrameKind::kOffer, shared_write, 0, 4) + push(FrameKind::kHelped, shared_write, 0, 1));
  const std::string offer = push(FrameKind::kOffer, long_write, 0, 4);
  write_to("twice", offer + offer + push(FrameKind::kChunk, long_write, 4096, 0));
  std::string answered;
  for (const char size : {3, 5, 4}) {
    answered += {static_cast<char>(kSend), size, static_cast<char>(kPoll), static_cast<char>(kTake)};
    for (const FrameKind kind : {FrameKind::kPull, FrameKind::kInvite, FrameKind::kHelped})
      answered += std::string{static_cast<char>(kReply), static_cast<char>(2 + (static_cast<int>(kind) - 1) * 8)} +
                  std::string(10, '\0') + static_cast<char>(kPoll);
  }
  write_to("answered", answered);
}

}  // namespace
}  // namespace lanyard::fuzz

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  if (const char* folder = std::getenv("LANYARD_FUZZ_SEEDS")) {
    lanyard::fuzz::write_seeds(folder);
    std::exit(0);
  }
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const lanyard::fuzz::OtherProcess other;
  lanyard::fuzz::FuzzInput input(data, size);
  lanyard::fuzz::World(other).run(input);
  return 0;
}
