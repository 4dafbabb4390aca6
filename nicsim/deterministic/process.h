// Process: one rank of a World: its host program, streams, NIC and the shipped core. Side: the books
// on a request. Transit: an operation of a NIC that is under way.
#ifndef LANYARD_NICSIM_DETERMINISTIC_PROCESS_H_
#define LANYARD_NICSIM_DETERMINISTIC_PROCESS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "gpu/packing.h"
#include "nicsim/deterministic/mail.h"
#include "nicsim/deterministic/oracles/shadow_nic.h"
#include "nicsim/deterministic/scenario.h"
#include "nicsim/deterministic/step_fabric.h"
#include "nicsim/deterministic/step_nic.h"
#include "nicsim/deterministic/step_stream.h"
#include "nicsim/model/packet.h"
#include "transport/core/endpoint.h"
#include "transport/core/match_queues.h"
#include "transport/core/matcher.h"
#include "transport/core/queue.h"
#include "transport/core/request.h"
#include "transport/cxi/ofi_nic.h"

namespace lanyard::nicsim {

// How far each stage of the iterations has got: of a request, and of later ones in its place.
// Oracles judge order by comparing two of these numbers.
struct Counts {
  uint64_t before = 0;  // starts of its requests that were freed
  uint64_t starts = 0;  // that the host has enqueued, of all of them
  uint64_t waits = 0;   // likewise
  // Iterations that the stream has got to.
  uint64_t filled = 0;   // sends: contents packed; receives: contents read and checked
  uint64_t started = 0;  // starts whose rings the stream has executed
  uint64_t waited = 0;   // waits that the stream has passed
  // Of a send: writes of its data.
  uint64_t data_fired = 0, data_read = 0, data_landed = 0, data_counted = 0, data_acked = 0;
  // Of a receive: clear-to-sends.
  uint64_t clear_fired = 0, clear_counted = 0;
  // Of either: increments of its done word, whoever makes them.
  uint64_t done_fired = 0, done_landed = 0;
  // Flags, where senders raise them: of a send, its own; of a receive, its sender's. They are increments of the done
  // word, too, but of a merged receive.
  uint64_t flag_fired = 0, flag_counted = 0, flag_acked = 0;
  uint64_t moved = 0;          // with gaps: times that the stream has packed or unpacked
  uint64_t seen_complete = 0;  // starts that the host has seen complete
  uint64_t failed = 0;         // operations of it that failed
  uint64_t reported = 0;       // ... and of which the core told the program
  uint64_t first_lost = 0;     // of a send: the first iteration of which a write failed; 0: none did
};

// The books on one request of an exchange, and on those that come in its place once it was freed.
struct Side : Counts {
  core::Request* core = nullptr;  // null once it is freed
  uint32_t rank = 0;
  uint32_t queue = 0;                         // of the last start
  std::vector<uint64_t> starts_on;            // by queue that it was started on: `starts` of the last one there
  uint64_t number = 0;                        // the core's for its request, the last one
  uint64_t pieces = 1;                        // writes an iteration; 0: it is MPI_PROC_NULL's
  std::vector<std::byte> buffer;              // the program's
  std::shared_ptr<const gpu::Layout> layout;  // of a buffer with gaps: the bytes of it that are the message's
  bool standing = false;                      // started by graphs, until it is freed, or by kernels of a set
  uint64_t ahead = 0;    // iterations whose entries were due as it stopped standing, beyond its starts
  bool checked = false;  // the program packs and reads it: its content is known
  // The program was told, so that waits pass and the request may be freed whatever is under way; of this request, and
  // of any in this place.
  bool released = false, ever_released = false;
};

// All messages of a world are of one communicator.
inline constexpr uint64_t kCommunicator = 1;

// An operation of a NIC that is under way.
struct Transit {
  // kFlag: a sender raises the receive's done word; kMail: of the control channel, of no request.
  enum class Role : uint8_t { kData, kClear, kDone, kFlag, kMail };
  // What comes next. kLateAck: its initiator's NIC has given it up.
  enum class Stage : uint8_t { kFree, kRead, kEarlyAck, kLand, kCount, kAck, kLateAck };

  Stage stage = Stage::kFree;
  Role role = Role::kData;
  bool delivery = false;  // its initiator hears of it when it is visible
  bool acked = false;     // its initiator has heard of it though it has not landed
  bool landed = false;    // its bytes are there, whatever its initiator will hear
  uint32_t from = 0, to = 0;
  uint32_t request = 0;    // RequestName::index: whose operation it is; of a kMail nobody's
  uint64_t owner = 0;      // the core's number for that request
  uint64_t iteration = 0;  // from 1
  uint64_t number = 0;     // among all operations of the world
  Packet packet;
  uint64_t part = 0;             // kRead, kLand: bytes that were read, or have landed, in a step of their own; 0: none
  std::byte* landing = nullptr;  // of a kLand of which a part has landed: where it begins
  Code code = Code::kOk;         // what its initiator will hear
  nic::CounterId counter{};      // of the target, that will count what lands; none: nothing will
  const std::byte* payload = nullptr;
  std::vector<std::byte> bytes;  // as read from the source

  // Whether some of it has landed that is not counted.
  bool is_landing() const { return stage == Stage::kCount || (stage == Stage::kLand && part > 0); }
};

// Of a receive's buffer beyond its message, and of any in its gaps.
inline constexpr std::byte kUntouched{0xEE};
// Of memory that is not the request's any more.
inline constexpr std::byte kFreed{0xDD};

// What a message holds in iteration i, from 1: different in every word of every iteration of every message.
void fill_content(std::vector<std::byte>& buffer, uint32_t message, uint64_t iteration);
// The layout of so many bytes, more than none, in runs with gaps between and behind them, and the length of a buffer
// for it.
std::shared_ptr<const gpu::Layout> layout_with_gaps(uint64_t bytes);
uint64_t length_with_gaps(uint64_t bytes);
// The place in the side's buffer of a byte of what it transfers.
uint64_t place_of(const Side& side, uint64_t byte);
// What the side's buffer holds but for its gaps.
std::vector<std::byte> without_gaps(const Side& side);
// Whether nobody has written into the gaps of the side's buffer.
bool gaps_are_untouched(const Side& side);
// Makes them and what is behind so many bytes of the message as if nobody had written there.
void clear_around(Side& side, uint64_t bytes);
// Whether `bytes` are those from `offset` on of that content.
bool is_content(const std::byte* bytes, uint64_t count, uint64_t offset, uint32_t message, uint64_t iteration);

struct Process {
  // A stream with its queue.
  struct QueuedStream {
    StepStream stream;
    std::unique_ptr<core::Queue> queue;
  };

  // The driver for Slingshot, between the core and the NIC.
  struct Driver {
    // Opens it, over a libfabric that is `card`.
    Driver(World& world, StepNic& card, uint32_t rank, const ModelLimits& limits);

    StepFabric fabric;
    std::unique_ptr<ofi::OfiNic> nic;
    bool idle = true;  // it could do nothing; whatever changes lets it try again
  };

  Process(World& world, uint32_t rank, const ModelLimits& limits);

  // What the core has for its NIC.
  nic::Nic& card() { return driver == nullptr ? static_cast<nic::Nic&>(nic) : *driver->nic; }
  const nic::Nic& card() const { return driver == nullptr ? static_cast<const nic::Nic&>(nic) : *driver->nic; }

  // Whether that process is known to have ended: to its NIC, to the driver, or, as an operation of it has failed, to
  // the control channel.
  bool has_lost(uint32_t peer) const {
    return nic.is_lost(peer) || card().is_lost(peer) || (card_mail != nullptr && card_mail->plane().lost(peer));
  }

  const uint32_t rank;
  const std::span<const Action> program;
  ShadowNic shadow;
  StepNic nic;
  const std::unique_ptr<Driver> driver;
  core::Endpoint endpoint;
  std::unique_ptr<CardMail> card_mail;  // null where messages of the control channel are handed over
  Mailbox mail;
  core::Matcher own_matcher;
  core::Matcher& matcher;     // that, or the control plane's
  std::vector<bool> cut_off;  // by rank: something that its control channel wrote there has failed
  std::vector<std::unique_ptr<QueuedStream>> streams;
  std::vector<uint32_t> requests;                // RequestName::index by the core's number for it, less 1
  std::vector<core::WordPool::Word> done_words;  // likewise, of freed ones too
  std::vector<nic::RemoteKey> counted_words;     // likewise: Scenario::counted_done of the core's exchange

  bool killed = false;  // none of its agents will go again; its memory is nobody's
  size_t next_action = 0;
  size_t next_free = 0;             // of the requests of its action, a kFree: those before are freed
  uint64_t untraced = 0;            // failures that it was told of without a request's name
  uint64_t orphaned = 0;            // failures of requests that it freed before it was told: of these it must be
  bool gave_up = false;             // was told that an operation failed, and ended its program
  uint64_t failures_seen = 0;       // its NIC's, when it last looked for some
  size_t asked = SIZE_MAX;          // the action that is a MPIX_Queue_wait which was called
  uint64_t failures_announced = 0;  // ... when it last told the other sides
  bool knows_nothing = false;       // ... it could not answer who asks it; whatever changes lets it try again
  bool hears_of_failures = false;   // another process has told it of some, and it has not looked since
  // How often it looked for what waits for lost peers since its NIC lost one: the first look leaves time for what the
  // peer's last message has set going. Something standing that is rung is a reason to look once more.
  uint32_t looks = 0;
  std::vector<uint32_t> unfound;  // ranks that have been killed, of which its NIC is still to find out
  bool wants_room = false;        // its action found no room; whatever changes lets it try again
  bool waits_in_vain = false;     // ... its MPIX_Queue_wait found nothing new
  uint64_t standing_done = 0;     // iterations of its standing requests that had completed when it last kept up
  bool kept_up = true;            // it handed over all that was due then
  bool overflow_idle = false;     // its overflow could do nothing; whatever changes lets it try again
  std::vector<uint32_t> firing;   // counters with entries that are ready, whose agents are enabled
  std::vector<core::Request*> scratch;
};

}  // namespace lanyard::nicsim

#endif  // LANYARD_NICSIM_DETERMINISTIC_PROCESS_H_
