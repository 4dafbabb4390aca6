// Process: one rank of a World: its host program, streams, NIC and the shipped core. Side: what the
// World records of a request. Transit: an operation of a NIC in flight.
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

// How many iterations of a request have passed each stage. Later requests in its place go on from
// these counts. Oracles judge order by comparing two of them.
struct Counts {
  uint64_t before = 0;  // starts of the earlier requests in this place, which were freed
  uint64_t starts = 0;  // starts that the host has enqueued, of all requests in this place
  uint64_t waits = 0;   // waits, likewise
  // Progress of the stream.
  uint64_t filled = 0;   // sends: contents packed; receives: contents read and checked
  uint64_t started = 0;  // starts whose rings the stream has executed
  uint64_t waited = 0;   // waits that the stream has passed
  // Of a send: writes of its data.
  uint64_t data_fired = 0, data_read = 0, data_landed = 0, data_counted = 0, data_acked = 0;
  // Of a receive: clear-to-sends.
  uint64_t clear_fired = 0, clear_counted = 0;
  // Increments of its done word, by either side.
  uint64_t done_fired = 0, done_landed = 0;
  // Flags (strategy B): a send counts its own, a receive those of its sender. A flag is also an
  // increment of the receive's done word, unless the receive is merged.
  uint64_t flag_fired = 0, flag_counted = 0, flag_acked = 0;
  uint64_t moved = 0;          // with gaps: how often the stream has packed or unpacked
  uint64_t seen_complete = 0;  // starts that the host has seen complete
  uint64_t failed = 0;         // its failures: operations, or caused by the peer or the exchange
  uint64_t reported = 0;       // ... that the core has reported to the program
  uint64_t first_lost = 0;     // of a send: the first iteration with a failed write; 0: none
};

// What the World records of one request of a scenario, and of those that replace it after a free.
struct Side : Counts {
  core::Request* core = nullptr;  // null before its match begins, and once it is freed
  uint32_t rank = 0;
  uint32_t queue = 0;                         // of the last start
  std::vector<uint64_t> starts_on;            // by queue: `starts` at the last start there; 0: none
  uint64_t number = 0;                        // the core's number of the latest request; 0: none yet
  uint64_t pieces = 1;                        // writes of an iteration; 0: MPI_PROC_NULL
  std::vector<std::byte> buffer;              // the program's
  std::shared_ptr<const gpu::Layout> layout;  // of a buffer with gaps: which bytes the message has; else null
  bool standing = false;                      // graphs start it until it is freed, or kernels until dismissed
  uint64_t ahead = 0;    // iterations beyond its starts whose entries were due when it stopped standing
  bool checked = false;  // programs pack and read the message: its content is known
  // Released after a failure: waits pass, and it may be freed with operations in flight.
  // ever_released: this request, or an earlier one in its place.
  bool released = false, ever_released = false;
};

// The communicator of all messages of a world.
inline constexpr uint64_t kCommunicator = 1;

// An operation of a NIC in flight.
struct Transit {
  // kFlag: a sender raises the receive's done word. kMail: the control channel's, of no request.
  enum class Role : uint8_t { kData, kClear, kDone, kFlag, kMail };
  // The next step. kLateAck: an acknowledgement after the initiator's NIC has lost the peer.
  enum class Stage : uint8_t { kFree, kRead, kEarlyAck, kLand, kCount, kAck, kLateAck };

  Stage stage = Stage::kFree;
  Role role = Role::kData;
  bool delivery = false;  // acknowledged only when it is visible
  bool acked = false;     // acknowledged early, before it landed
  bool landed = false;    // its bytes have landed, even if it fails afterwards
  uint32_t from = 0, to = 0;
  uint32_t request = 0;    // RequestName::index of its request; a kMail has none
  uint64_t owner = 0;      // the core's number of that request
  uint64_t iteration = 0;  // from 1
  uint64_t number = 0;     // among all operations of the world
  Packet packet;
  uint64_t part = 0;             // kRead, kLand: bytes that an earlier step has read or landed; 0: none
  std::byte* landing = nullptr;  // where it lands, once that has begun
  Code code = Code::kOk;         // the result for its initiator
  nic::CounterId counter{};      // of the target: counts it; invalid: none
  const std::byte* payload = nullptr;
  std::vector<std::byte> bytes;  // as read from the source

  // True if some of it has landed, but it is not counted yet.
  bool is_landing() const { return stage == Stage::kCount || (stage == Stage::kLand && part > 0); }
};

// Fills a receive's buffer beyond its message, and the gaps of any buffer.
inline constexpr std::byte kUntouched{0xEE};
// Fills memory that no longer belongs to a request.
inline constexpr std::byte kFreed{0xDD};

// Fills in the content of a message in an iteration, from 1. All words of all contents differ.
void fill_content(std::vector<std::byte>& buffer, uint32_t message, uint64_t iteration);
// Returns a layout of `bytes` > 0 bytes with gaps between and behind them, and its buffer's length.
std::shared_ptr<const gpu::Layout> layout_with_gaps(uint64_t bytes);
uint64_t length_with_gaps(uint64_t bytes);
// Returns where byte `byte` of the message is in the side's buffer.
uint64_t place_of(const Side& side, uint64_t byte);
// Returns the content of the side's buffer without the gaps.
std::vector<std::byte> without_gaps(const Side& side);
// True if nobody has written into the gaps of the side's buffer. Requires a layout.
bool gaps_are_untouched(const Side& side);
// Resets the gaps, and all beyond `bytes` bytes of the message, to kUntouched.
void clear_around(Side& side, uint64_t bytes);
// True if `bytes` are the `count` bytes at `offset` of that content.
bool is_content(const std::byte* bytes, uint64_t count, uint64_t offset, uint32_t message, uint64_t iteration);

struct Process {
  struct QueuedStream {
    StepStream stream;
    std::unique_ptr<core::Queue> queue;
  };

  // The driver for Slingshot (transport/cxi), between the core and the NIC.
  struct Driver {
    // Opens it over a libfabric whose card is `card`.
    Driver(World& world, StepNic& card, uint32_t rank, const ModelLimits& limits);

    StepFabric fabric;
    std::unique_ptr<ofi::OfiNic> nic;
    bool idle = true;  // it had nothing to do; any change lets it try again
  };

  Process(World& world, uint32_t rank, const ModelLimits& limits);

  // The NIC that the core uses.
  nic::Nic& card() { return driver == nullptr ? static_cast<nic::Nic&>(nic) : *driver->nic; }
  const nic::Nic& card() const { return driver == nullptr ? static_cast<const nic::Nic&>(nic) : *driver->nic; }

  // True if the NIC, the driver or (by a failed operation) the control channel has lost the peer.
  bool has_lost(uint32_t peer) const {
    return nic.is_lost(peer) || card().is_lost(peer) || (card_mail != nullptr && card_mail->plane().lost(peer));
  }

  const uint32_t rank;
  const std::span<const Action> program;
  ShadowNic shadow;
  StepNic nic;
  const std::unique_ptr<Driver> driver;
  core::Endpoint endpoint;
  std::unique_ptr<CardMail> card_mail;  // null: a Mailbox hands match cards over
  Mailbox mail;
  core::Matcher own_matcher;
  core::Matcher& matcher;     // own_matcher, or the control plane's
  std::vector<bool> cut_off;  // by rank: an operation of the control channel to it has failed
  std::vector<std::unique_ptr<QueuedStream>> streams;
  std::vector<uint32_t> requests;                // RequestName::index, by the core's number less 1
  std::vector<core::WordPool::Word> done_words;  // likewise, also of freed requests
  std::vector<nic::RemoteKey> counted_words;     // likewise: core::Exchange::counted_done

  bool killed = false;  // none of its agents acts again; operations on its memory fail
  size_t next_action = 0;
  size_t next_free = 0;             // in the requests of a kFree: those before it are freed
  uint64_t untraced = 0;            // failures reported to it without naming a request
  uint64_t orphaned = 0;            // failures of requests freed before the report: these must be reported
  bool gave_up = false;             // a failure was reported, and its program has ended
  uint64_t failures_seen = 0;       // its NIC's failures() when the program last looked
  size_t asked = SIZE_MAX;          // the kSync or kComplete that has looked once; SIZE_MAX: none
  uint64_t failures_announced = 0;  // its NIC's failures() when it last told its peers
  bool knows_nothing = false;       // it cannot answer its peers yet; any change lets it try again
  bool hears_of_failures = false;   // a peer has caused failures since the program last looked
  // How often it has looked for requests that wait for lost peers, since its NIC lost one. It looks
  // twice: the last message may still take effect. A ring or a stale read leads to one more look.
  uint32_t looks = 0;
  std::vector<uint32_t> unfound;        // killed ranks that its NIC has not noticed yet
  bool wants_room = false;              // its action could not be done; any change lets it try again
  bool waits_in_vain = false;           // ... as its MPIX_Queue_wait found nothing new
  uint64_t standing_done = 0;           // completed iterations of its standing requests at the last keep_up()
  bool kept_up = true;                  // that call posted all that was due
  bool overflow_idle = false;           // its overflow could do nothing; any change lets it try again
  std::vector<uint32_t> firing;         // counters with ready entries, whose kFire agents are enabled
  std::vector<core::Request*> scratch;  // the requests of its action
};

}  // namespace lanyard::nicsim

#endif  // LANYARD_NICSIM_DETERMINISTIC_PROCESS_H_
