// World: a job of MPI processes with their streams and NICs, as plain state. Nothing happens except
// the steps that a Chooser picks. The shipped protocol (transport/core) runs on the simulator's
// model (nicsim/model). The oracles check the state after every step.
//
// Each step belongs to an agent, which is enabled or not. An operation takes several steps, so that
// anything may happen in between:
//
//   host: an action -> each entry posted -> stream: an item -> a ring in flight -> it lands
//   an entry fires -> its source is read -> the bytes land -> the target counts -> the ack arrives
//
// A World lives in its own arena: save() and restore() return it to any earlier state at the price
// of a copy. Threads: one at a time may use a world; several worlds may run in several threads.
#ifndef LANYARD_NICSIM_DETERMINISTIC_WORLD_H_
#define LANYARD_NICSIM_DETERMINISTIC_WORLD_H_

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "nicsim/deterministic/arena.h"
#include "nicsim/deterministic/chooser.h"
#include "nicsim/deterministic/process.h"
#include "nicsim/deterministic/scenario.h"
#include "transport/core/exchange.h"

namespace lanyard::nicsim {

// The kind of a finding. The program's exit status tells them apart (exit_status()).
enum class Finding : uint8_t {
  kNone,
  kIntegrity,       // wrong, early or overwritten data
  kOrder,           // an operation ran too early, or a NIC broke its rules
  kDeadlock,        // nothing can continue
  kLivelock,        // many steps without progress
  kLeak,            // entries, counters or failures do not add up
  kNondeterminism,  // the same schedule gave two different runs
  kUser,            // the program itself is wrong
};
const char* finding_name(Finding finding);
// 0 for kNone, 10 to 16 for the others in order. 1 and 2 are for other errors and wrong usage.
inline int exit_status(Finding finding) { return finding == Finding::kNone ? 0 : 9 + static_cast<int>(finding); }

// The finding of an oracle.
struct Report {
  Finding finding = Finding::kNone;
  const char* oracle = "";
  std::string text;
  uint64_t step = 0;  // it was found after this step, counted from 1

  bool ok() const { return finding == Finding::kNone; }
};

// How streams ring. kCalls: by calls, as on the threaded NIC, which also has words for sums.
enum class Bells : uint8_t { kCalls, kRegisters, kWords, kTotals };

struct WorldOptions {
  uint32_t depth = 0;          // entries of each NIC; 0: enough for all starts at once
  uint32_t in_flight = 0;      // most operations in flight on a NIC; 0: enough
  bool overflow = true;        // if false, a start that does not fit is refused or waits
  bool blocking_post = false;  // a start may block halfway for an entry: nothing is reserved
  core::Strategy strategy = core::Strategy::kTargetCounter;
  bool early_acks = false;  // without delivery level, the ack may arrive before the operation lands
  bool torn = false;        // sources may be read, and bytes may land, in two steps
  uint64_t max_message_bytes = uint64_t{1} << 20;
  bool uneven = false;  // NICs of odd ranks have half of max_message_bytes
  Bells bells = Bells::kCalls;
  // The core uses the driver over libfabric (transport/cxi), with a libfabric of this world. Not
  // with `blocking_post`, bells other than calls, or standing requests: the driver cannot do those.
  bool driver = false;
  // NICs carry the messages of the control channel; if false, the world does. Not with `driver` or
  // `scarce` (without a region the peer is lost). Needs CardMail::kLeastMessageBytes.
  bool mail_by_card = false;
  // Faults that the Chooser may inject.
  bool failures = false;
  bool cut_mail = false;  // with `mail_by_card` and `failures`: failed mail cuts off two NICs
  bool lost_rings = false;
  bool no_room = false;
  bool scarce = false;  // a counter or a region is refused; the core may ask again and gets it
  bool stale_reads = false;
  bool late_events = false;     // with `driver`: its completion queue shows events late
  bool frozen_reads = false;    // until nothing else moves
  bool stolen_entries = false;  // likewise
  bool kills = false;           // of one process, or of two if there are three or more
  uint64_t age = 0;             // iterations completed by every request before the world begins
  uint64_t max_steps = 0;       // more are a livelock; 0: far more than the program needs

  // The longest message of one rank's NIC, and the longest from one rank to another.
  uint64_t longest(uint32_t rank) const {
    return uneven && rank % 2 == 1 ? std::max<uint64_t>(max_message_bytes / 2, 1) : max_message_bytes;
  }
  uint64_t longest(uint32_t from, uint32_t to) const { return std::min(longest(from), longest(to)); }
};

enum class StepKind : uint8_t {
  // Agents of a rank, in this order: one for each stream, two for each counter. The last four exist
  // only in worlds with drivers, standing requests, kills and mail.
  kHost,
  kPost,
  kOverflow,
  kStream,
  kRing,
  kFire,
  kDrive,
  kKeepUp,
  kLoss,
  kMail,
  // Steps of an operation in flight.
  kRead,
  kLand,
  kCount,
  kAck,
};
inline constexpr uint32_t kStepKinds = static_cast<uint32_t>(StepKind::kAck) + 1;
const char* step_name(StepKind kind);
const char* role_name(Transit::Role role);  // "write", "clear-to-send", "done word", "flag", "mail"

class World {
 public:
  // `exchange` is valid and outlives the world. Matches all requests that no program matches.
  World(const Scenario& exchange, const WorldOptions& options);
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  // Takes one step. Returns false if none is enabled, or if the run is over.
  bool step(Chooser& chooser);
  // Takes steps until none is enabled or something is found, then judges the end.
  const Report& run(Chooser& chooser);
  const Report& report() const { return report_; }

  // Returns to the beginning: the same state as that of a fresh world.
  void reset() { restore(beginning_); }
  void save(Arena::Image& image) const { arena_.save(image); }
  // Requires an image of this world. Forgets the findings of all steps.
  void restore(const Arena::Image& image);

  // ---- Agents
  std::span<const uint32_t> enabled() const { return state_->enabled; }
  StepKind kind_of(uint32_t agent) const;  // of its next step
  uint32_t rank_of(uint32_t agent) const;
  // The agent's counter or stream.
  uint32_t index_of(uint32_t agent) const {
    return agent % stride_ - first_agent_[static_cast<size_t>(kind_of(agent))];
  }
  // Returns the agent's operation in flight; null if the agent belongs to a rank.
  const Transit* transit_of(uint32_t agent) const {
    return agent < first_transit_ ? nullptr : &state_->transits[agent - first_transit_];
  }
  // "rank 0: write of (send of 1 to 0, tag 3) iteration 2: lands"
  std::string describe(uint32_t agent) const;
  // "start (send of 1 to 0, tag 3)"
  std::string describe(const Action& action) const;
  // "write of (send of 1 to 0, tag 3)"
  std::string describe(const Process& process, const nic::Op& op) const;
  std::string describe(const Process& process, nic::CounterId counter) const;
  Transit::Role role_of(const Process& process, const nic::Op& op) const;
  // Returns the agent if exactly one is enabled: there is no choice then.
  std::optional<uint32_t> forced() const {
    return state_->enabled.size() == 1 ? std::optional<uint32_t>(state_->enabled.front()) : std::nullopt;
  }

  // ---- What has happened
  uint64_t steps() const { return state_->steps; }
  // True if graphs or kernels start requests.
  bool programs_stand() const { return programs_stand_; }
  bool is_killed(uint32_t rank) const { return process(rank).killed; }
  // The number of killed processes.
  uint32_t deaths() const { return state_->deaths; }
  // True if an operation of one's control channel to the other has failed: nothing passes between
  // the two any more.
  bool are_cut(uint32_t one, uint32_t other) const {
    return process(one).cut_off[other] || process(other).cut_off[one];
  }
  // A hash of all steps so far, in order. Equal runs have equal hashes, with every compiler.
  uint64_t trace_hash() const { return state_->trace_hash; }
  bool finished() const;  // all programs that were not killed have ended, with empty streams
  struct Fingerprint {
    uint64_t low = 0, high = 0;
    friend bool operator==(const Fingerprint&, const Fingerprint&) = default;
  };
  // Equal for equal states, however reached. Differs for different ones, except once in 2^128.
  Fingerprint fingerprint() const;

  const Scenario& scenario() const { return scenario_; }
  const WorldOptions& options() const { return options_; }
  const Process& process(uint32_t rank) const { return *state_->processes[rank]; }
  const Side& side(RequestName request) const { return state_->sides[request.index]; }
  std::span<const Transit> transits() const { return state_->transits; }

  // ---- For the parts of the world, during a step
  Process& process(uint32_t rank) { return *state_->processes[rank]; }
  Side& side(uint32_t request) { return state_->sides[request]; }
  // Ends the run; the first finding stays. Cold: keeps the code for texts off the path of a step.
  [[gnu::cold]] void find(Finding finding, const char* oracle, const std::string& text);
  // "the send of 0 to 1, tag 7 ..."; "rank 0: ..."
  [[gnu::cold]] void find(Finding finding, const char* oracle, RequestName request, const std::string& text);
  [[gnu::cold]] void find(Finding finding, const char* oracle, const Process& process, const std::string& text);
  bool chance(ChoiceKind kind) { return draw(2, kind) != 0; }
  uint32_t draw(uint32_t n, ChoiceKind kind);  // 0 while the world is built
  // True once lasting faults have ended, because nothing else moved.
  bool faults_have_ended() const { return state_->faults_have_ended; }
  // An operation of the NIC has started: it is in flight, or has failed because its peer is lost.
  void started(uint32_t rank, const nic::Op& op, const std::optional<Launch>& launched);
  // An operation has failed without being in flight: its peer is lost, or libfabric refused it.
  void failed_at_once(uint32_t rank, const nic::Op& op);
  // Enables or disables an agent of the rank. `index`: its counter or its stream.
  void set_enabled(uint32_t rank, StepKind kind, bool on, uint32_t index = 0) {
    set_enabled(agent(rank, kind, index), on);
  }
  // Calls visit(index) for a request and all others of its exchange.
  template <typename Visit>
  void for_each_merged(uint32_t request, Visit visit) const {
    const Side& side = state_->sides[request];
    if (side.core == nullptr || side.core->exchange == nullptr)
      return visit(request);
    for (const core::Request* member : side.core->exchange->members)
      visit(process(side.rank).requests[member->number - 1]);
  }
  // Calls visit(index) for each request of the other set, if the program has two sets.
  template <typename Visit>
  void for_each_of_other_set(uint32_t request, Visit visit) const {
    const RequestName mine{request};
    for (uint32_t index = 0; scenario_.set(mine) != 0 && index < state_->sides.size(); ++index)
      if (const RequestName other{index}; scenario_.merged(other) == scenario_.merged(mine) &&
                                          scenario_.set(other) + scenario_.set(mine) == 3 &&
                                          state_->sides[index].rank == state_->sides[request].rank)
        visit(index);
  }
  // True if messages of the other set imply the clear-to-sends of this message (P11).
  bool is_implied(uint32_t request) const { return implied_[request / 2]; }
  // True if the flag of the message increments its receive's done word. In an exchange it does not.
  bool flags_tell_stream(uint32_t request) const { return scenario_.merged({request | 1}) == 0; }
  // True if a message of its exchange is implied: its two sets must then be started in turn.
  bool takes_turns(uint32_t request) const;
  // True if the receive's program has given the buffer to the exchange for this iteration, whose
  // clear-to-send is implied (P12): at the match, or by the previous start, of the other set.
  bool is_given(uint32_t receive, uint64_t iteration) const;
  // True during a step; false while the world is built or judged.
  bool is_running() const { return chooser_ != nullptr; }
  // Lets operations that are landing in that region of the rank land and be counted.
  void finish_landing(uint32_t rank, uint64_t key);
  // True if clear-to-sends alone may fire starts of this send: its receive failed and was released.
  bool may_run_ahead(uint32_t rank, nic::CounterId trigger) const;
  // Lets other threads of the process act while the thread of its driver drives.
  void act_meanwhile(uint32_t rank);
  // True if it is an operation of the control channel.
  static bool is_mail(const nic::Op& op) { return op.context == core::ControlChannel::kContext; }

 private:
  static constexpr uint32_t kNone = UINT32_MAX;

  // All that a run changes. In the arena.
  struct State {
    std::vector<std::unique_ptr<Process>> processes;
    std::vector<Side> sides;              // by RequestName::index
    std::vector<Transit> transits;        // by place
    std::vector<uint32_t> free_transits;  // unused places
    std::vector<uint64_t> promises;       // by message
    std::vector<uint32_t> enabled;        // agents
    std::vector<uint32_t> place;          // by agent: its index in `enabled`, or kNone
    uint64_t steps = 0;
    uint64_t trace_hash = 0;
    uint64_t launched = 0;
    uint32_t deaths = 0;
    uint32_t driving = kNone;  // the rank whose driver's thread drives
    bool faults_have_ended = false;
  };

  void build();
  void introduce_drivers();
  void connect_mail();
  void deliver_mail();
  void match();
  // Calls the core; calls again if the NIC had no resources. A refused call must leave none open.
  Status insist(Process& process, const std::function<Status()>& call);
  void new_request(uint32_t index);
  void grow_old(Side& side, uint32_t index);
  void begin_match(uint32_t index);
  void merge(Process& process, std::span<const RequestName> requests);
  static std::vector<bool> find_implied(const Scenario& exchange);
  std::string describe(const StepItem& item) const;
  uint32_t agent(uint32_t rank, StepKind kind, uint32_t index = 0) const {
    return rank * stride_ + first_agent_[static_cast<size_t>(kind)] + index;
  }
  bool is_enabled(uint32_t agent) const { return state_->place[agent] != kNone; }
  // Inline, because most calls change nothing.
  void set_enabled(uint32_t agent, bool on) {
    if (is_enabled(agent) != on)
      toggle(agent);
  }
  void toggle(uint32_t agent);
  void enable_transit(uint32_t place) { set_enabled(first_transit_ + place, true); }

  // A check that fails in `steps` is a finding, like those of the oracles.
  void take_all(const std::function<void()>& steps);
  bool take_one(Chooser& chooser);
  // At least one process lives.
  uint32_t most_deaths() const { return std::min(std::max(scenario_.ranks(), 2u) - 1, 2u); }
  void take(uint32_t number);
  void kill(Process& process);
  void end_faults();
  void take_host(Process& process);
  bool collect(Process& process, const Action& action);
  bool call(Process& process, const Action& action);
  void mark(Process& process, const Action& action, size_t before);
  void mark_move(const Action& action, StepItem& item);
  void enter(uint32_t queue, std::span<StepItem> items);
  // True if holds(side) for every request of the action.
  template <typename Holds>
  bool all_of(const Action& action, Holds holds) const {
    return std::all_of(action.requests.begin(), action.requests.end(),
                       [&](RequestName request) { return holds(side(request)); });
  }
  // True if, by the words in memory, nothing of these requests is in flight.
  bool is_complete(const Action& action) const {
    return all_of(action, [](const Side& side) { return side.core->complete(); });
  }
  const char* mistake_in_turn(const Action& action, RequestName request) const;
  const char* mistake_in(const Action& action) const;
  bool has_completed(RequestName request) const;
  uint64_t unread_failures(const Side& side) const;
  bool is_told_of_failure(const Action& action) const;
  void give_up(Process& process);
  bool see_complete(Process& process, const Action& action);
  bool sync(Process& process, const Action& action);
  void release(Process& process, const core::Request& failed);
  void note_released(Side& side, bool complete);
  // True if MPIX_Queue_wait may find a failure when it looks again.
  bool has_news(const Process& process) const {
    return process.card().failures() != process.failures_seen || process.hears_of_failures ||
           ((options_.failures || options_.kills) && process.asked != process.next_action) ||
           (process.card().lost_peers() > 0 && has_news_of_losses(process));
  }
  bool has_news_of_losses(const Process& process) const;
  void find_losses(Process& process);
  void note_failures_told(Process& process, const std::function<void()>& call);
  bool has_lost_untold(const Process& process, const Side& side, uint32_t request, uint32_t queue) const;
  void check_synced(const Process& process, uint32_t queue);
  Status free_request(Process& process, Side& side);
  bool free_requests(Process& process, const Action& action);
  void begin_matching(Process& process, const Action& action);
  void withdraw(Process& process, const Action& action);
  bool has_mail(const Process& process) const;
  bool has_news_by_mail(const Process& process) const;
  void take_mail(Process& process);
  void mail_has_landed(Process& target, const Transit& transit);
  void take_post(Process& process);
  void take_overflow(Process& process);
  void take_drive(Process& process);
  bool may_start_meanwhile(const Process& process);
  // Call after each step if there are drivers.
  void drivers_changed();
  void launch_captured(Process& process, uint32_t queue);
  void stands_now(Process& process, Side& side);
  bool stands_no_more(Process& process, const Action& action, RequestName request);
  bool change_set(Process& process, const Action& action);
  void launch_kernel(Process& process, const Action& action);
  std::optional<uint64_t> standing_done(const Process& process) const;
  void take_keep_up(Process& process);
  void standing_changed(Process& process);
  void take_stream(Process& process, uint32_t queue);
  void take_kernel(Process& process, const StepItem& item);
  void take_move(Process& process, const StepItem& item);
  void take_ring(Process& process, uint32_t counter);
  void take_fire(Process& process, uint32_t counter);
  void take_transit(uint32_t place);
  void take_loss(Process& process);
  bool draw_part(Transit& transit);
  void read(Transit& transit);
  void land(Transit& transit);
  bool begin_landing(Transit& transit);
  void hear_late(const Transit& transit);
  void count_landing(Process& target, const Transit& transit);
  void has_left(Transit& transit);
  void launch(uint32_t rank, const nic::Op& op, const Launch& launch);
  uint64_t has_fired(uint32_t request, Transit::Role role);
  void has_ended(Process& process, uint32_t request, Transit::Role role, uint64_t iteration, Code code);
  void tell_initiator(const Transit& transit);
  void put_down(Process& process, const Transit& transit, nic::CounterId completion);
  void give_back(uint32_t place);
  // Call after a step that changed it: enables and disables its agents.
  void nic_changed(Process& process);
  void streams_changed(Process& process);
  void host_changed(Process& process);
  bool host_can_go_on(Process& process);
  void note(uint64_t what) { state_->trace_hash = (state_->trace_hash ^ what) * 0x100000001b3u; }

  const Scenario& scenario_;
  const std::vector<bool> implied_;  // by message; outside the arena
  WorldOptions options_;
  uint32_t stride_ = 0;  // agents of a rank
  // By StepKind: the first agent of this kind among those of a rank.
  std::array<uint32_t, static_cast<size_t>(StepKind::kRead)> first_agent_{};
  uint32_t first_transit_ = 0;  // agents of all ranks; those of `transits` follow
  bool has_mail_ = false, programs_stand_ = false;
  Arena arena_;
  Arena::Image beginning_;
  State* state_ = nullptr;
  Chooser* chooser_ = nullptr;  // null except during a step
  Report report_;               // outside the arena
  Report stillborn_;            // the finding while it was built; likewise
};

}  // namespace lanyard::nicsim

#endif  // LANYARD_NICSIM_DETERMINISTIC_WORLD_H_
