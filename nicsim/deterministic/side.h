// Side: the books on one request of an exchange, and on those that come in its place once it was freed: how far each
// stage of its iterations has got. Nothing is counted twice, and all that an oracle says about order it says by
// comparing two of these numbers.
#ifndef LANYARD_NICSIM_DETERMINISTIC_SIDE_H_
#define LANYARD_NICSIM_DETERMINISTIC_SIDE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "gpu/packing.h"
#include "nicsim/model/packet.h"
#include "transport/core/request.h"

namespace lanyard::nicsim {

struct Side {
  core::Request* core = nullptr;  // null once it is freed
  uint32_t rank = 0;
  uint32_t queue = 0;                         // of the last start
  std::vector<uint64_t> starts_on;            // by queue that it was started on: `starts` of the last one there
  uint64_t number = 0;                        // the core's for its request, the last one
  nic::CounterId trigger;                     // the core's for its request, as far as is known here
  uint64_t before = 0;                        // starts of its requests that were freed
  uint64_t starts = 0;                        // that the host has enqueued, of all of them
  uint64_t waits = 0;                         // likewise
  uint64_t pieces = 1;                        // writes an iteration; 0: it is MPI_PROC_NULL's
  std::vector<std::byte> buffer;              // the program's
  std::shared_ptr<const gpu::Layout> layout;  // of a buffer with gaps: the bytes of it that are the message's
  bool standing = false;                      // started by graphs, until it is freed, or by kernels of a set
  uint64_t ahead = 0;    // iterations whose entries were due as it stopped standing, beyond its starts
  bool checked = false;  // the program packs and reads it: its content is known

  // Iterations that the stream has got to.
  uint64_t filled = 0;   // sends: contents packed; receives: contents read and checked
  uint64_t started = 0;  // starts whose rings the stream has executed
  uint64_t waited = 0;   // waits that the stream has passed
  // Of a send: writes of its data.
  uint64_t data_fired = 0, data_read = 0, data_landed = 0, data_counted = 0, data_acked = 0;
  // Of a receive: clear-to-sends.
  uint64_t clear_fired = 0, clear_landed = 0, clear_counted = 0;
  // Of either: increments of its done word, whoever makes them.
  uint64_t done_fired = 0, done_landed = 0;
  // Flags, where senders raise them: of a send, its own; of a receive, its sender's. They are increments of the done
  // word, too, but of a merged receive.
  uint64_t flag_fired = 0, flag_landed = 0, flag_counted = 0, flag_acked = 0;
  uint64_t moved = 0;          // with gaps: times that the stream has packed or unpacked
  uint64_t seen_complete = 0;  // starts that the host has seen complete
  uint64_t failed = 0;         // operations of it that failed
  uint64_t first_lost = 0;     // of a send: the first iteration of which a write failed; 0: none did
  uint64_t reported = 0;       // ... and of which the core told the program
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
  nic::CounterId counter;        // of the target, that will count what lands; none: nothing will
  const std::byte* payload = nullptr;
  std::vector<std::byte> bytes;  // as read from the source
};

// Of a receive's buffer beyond its message, and of any in its gaps.
inline constexpr std::byte kUntouched{0xEE};
// Of memory that is not the request's any more.
inline constexpr std::byte kFreed{0xDD};

// What a message holds in iteration i, from 1: different in every word of every iteration of every message.
inline uint64_t content_word(uint32_t message, uint64_t iteration, uint64_t word) {
  uint64_t x = (uint64_t{message} << 40) ^ (iteration << 20) ^ word;
  x = (x ^ (x >> 31)) * 0x9e3779b97f4a7c15u;
  return x ^ (x >> 29);
}
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

}  // namespace lanyard::nicsim

#endif  // LANYARD_NICSIM_DETERMINISTIC_SIDE_H_
