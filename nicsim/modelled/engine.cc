#include "nicsim/modelled/engine.h"

#include <algorithm>
#include <bit>
#include <string>
#include <utility>

#include "nicsim/modelled/calendar.h"

namespace lanyard::modelled {

namespace {

// The kind of an event. The lower bits of Event::what hold the index of its
// entry or stream operation.
enum class Kind : uint32_t { kHost, kPosted, kRing, kArrival, kLanding, kCompletion };
constexpr int kKindShift = 24;

struct Word {
  Picoseconds raised = 0;  // time of the last increment
  uint32_t value = 0;
};

// A process's host and stream.
struct Process {
  uint32_t counters = 0, words = 0, entries = 0;  // the first index of its own
  uint32_t begins = 0;
  uint32_t nic = 0;
  uint32_t planned = 0;    // steps planned by the host
  uint32_t iteration = 1;  // current step of the stream
  uint32_t op = 0;         // the stream's next operation
  enum class Parked : uint8_t { kNot, kForHost, kForWord } parked = Parked::kForHost;
  bool full = false;           // the host is too far ahead of the stream
  bool waits = false;          // the host waits for entries
  uint32_t free = 0;           // free entries of its share
  Picoseconds host_ready = 0;  // when the host has posted all planned steps
  Picoseconds ready = 0;       // when the stream has finished its earlier operations
};

// The time until which each side of the NIC is busy.
struct Nic {
  Picoseconds fires_until = 0, transmits_until = 0, receives_until = 0;
};

class Engine {
 public:
  Engine(const Job& job, const RunOptions& options)
      : job_(job), costs_(job.costs), options_(options), ahead_(std::bit_ceil(std::max(1u, job.costs.run_ahead))) {}

  Result<Timing> run() {
    LANYARD_RETURN_IF_ERROR(set_up());
    for (uint32_t rank = 0; rank < job_.ranks(); ++rank)
      push(0, rank, Kind::kHost, 0);
    Event event;
    while (calendar_.pop(event)) {
      now_ = event.time;
      handle(event);
    }
    if (finished_ < job_.ranks())
      return stuck();
    return std::move(timing_);
  }

 private:
  Status set_up() {
    const uint32_t share = costs_.deferred_depth / job_.placement.ranks_per_nic();
    uint32_t counters = 0, words = 0, entries = 0, nics = 0;
    for (uint32_t rank = 0; rank < job_.ranks(); ++rank) {
      const Program& program = job_.program(rank);
      if (program.entries.size() > share)
        return {Code::kInvalidArgument, "a step needs " + std::to_string(program.entries.size()) +
                                            " entries at once, but each process of a NIC has only " +
                                            std::to_string(share)};
      Process& process = processes_.emplace_back();
      process.counters = std::exchange(counters, counters + program.counters);
      process.words = std::exchange(words, words + program.words);
      process.entries = std::exchange(entries, entries + static_cast<uint32_t>(program.entries.size()));
      process.begins = rank * ahead_;
      process.nic = job_.placement.nic(rank);
      nics = std::max(nics, process.nic + 1);
      for (uint32_t request = 0; request < program.landings.size(); ++request)
        hops_.push_back(job_.placement.hop(rank, job_.link(rank, request).rank));
      process.free = share;
    }
    counters_.resize(counters);
    words_.resize(words);
    fired_.resize(entries);
    begins_.resize(size_t{job_.ranks()} * ahead_);
    nics_.resize(nics);
    timing_.ends.resize(options_.steps);
    through_.resize(options_.steps);
    return {};
  }

  void push(Picoseconds time, uint32_t rank, Kind kind, uint32_t index) {
    calendar_.push({time, rank, static_cast<uint32_t>(kind) << kKindShift | index});
  }

  void handle(const Event& event) {
    const uint32_t index = event.what & ((1u << kKindShift) - 1);
    switch (static_cast<Kind>(event.what >> kKindShift)) {
      case Kind::kHost: return plan(event.rank);
      case Kind::kPosted: return try_fire(event.rank, static_cast<uint16_t>(index));
      case Kind::kRing: {
        const StreamOp& op = job_.program(event.rank).stream[index];
        return count(event.rank, op.object, op.value);
      }
      case Kind::kArrival: return arrive(event.rank, index);
      case Kind::kLanding: return land(event.rank, index);
      case Kind::kCompletion: return count(event.rank, job_.program(event.rank).entries[index].completion, 1);
    }
  }

  Nic& nic_of(uint32_t rank) { return nics_[processes_[rank].nic]; }
  // The latency is the same in both directions.
  Picoseconds latency(uint32_t rank, uint32_t request) const {
    return costs_.link[static_cast<size_t>(hops_[job_.first_link[rank] + request])];
  }
  // When the host began a planned step.
  Picoseconds began(const Process& process, uint32_t iteration) const {
    return begins_[process.begins + iteration % ahead_];
  }

  // ---- Host

  void plan(uint32_t rank) {
    Process& process = processes_[rank];
    // A host that waits for entries may be called more than once.
    if (process.planned == options_.steps || now_ < process.host_ready)
      return;
    if (process.planned + 1 - process.iteration >= ahead_) {
      process.full = true;
      return;
    }
    const Program& program = job_.program(rank);
    const uint32_t demand = static_cast<uint32_t>(program.entries.size());
    process.waits = process.free < demand;
    if (process.waits)
      return;
    process.free -= demand;
    const uint32_t iteration = ++process.planned;
    begins_[process.begins + iteration % ahead_] = now_;
    process.host_ready = now_ + program.host_step;
    push(process.host_ready, rank, Kind::kHost, 0);
    for (uint16_t index = 0; index < demand; ++index) {
      const Entry& entry = program.entries[index];
      if (fired_[process.entries + index] + 1 == iteration &&
          counters_[process.counters + entry.trigger] >= entry.threshold(iteration))
        push(now_ + entry.posted, rank, Kind::kPosted, index);
    }
    if (process.parked == Process::Parked::kForHost)
      advance(rank);
  }

  // ---- NIC

  void count(uint32_t rank, uint16_t counter, uint32_t value) {
    counters_[processes_[rank].counters + counter] += value;
    for (const uint16_t entry : job_.program(rank).hanging[counter])
      try_fire(rank, entry);
  }

  // Fires the entry as often as it is due. If it is not posted yet, pushes an event for that time.
  void try_fire(uint32_t rank, uint16_t index) {
    const Process& process = processes_[rank];
    const Entry& entry = job_.program(rank).entries[index];
    uint32_t& fired = fired_[process.entries + index];
    while (counters_[process.counters + entry.trigger] >= entry.threshold(fired + 1)) {
      if (fired == process.planned)
        return;  // plan() checks it again
      const Picoseconds posted = began(process, fired + 1) + entry.posted;
      if (posted > now_)
        return push(posted, rank, Kind::kPosted, index);
      ++fired;
      fire(rank, index, entry);
    }
  }

  void fire(uint32_t rank, uint16_t index, const Entry& entry) {
    Process& process = processes_[rank];
    ++process.free;
    if (process.waits && process.free >= job_.program(rank).entries.size())
      push(now_, rank, Kind::kHost, 0);
    Nic& nic = nic_of(rank);
    nic.fires_until = std::max(nic.fires_until, now_) + costs_.fire;
    const Picoseconds done = nic.fires_until + costs_.own_word;
    if (entry.own)
      return raise(rank, entry.word, done, words_of(rank)[entry.word].value + 1);
    const Picoseconds starts = std::max(nic.fires_until, nic.transmits_until);
    nic.transmits_until = starts + costs_.transmit + times(costs_.transmit_byte, entry.bytes);
    const Picoseconds leaves =
        starts + costs_.transmit + times(costs_.chunk_byte, std::min(costs_.chunk_bytes, entry.bytes));
    push(leaves + latency(rank, entry.request), rank, Kind::kArrival, index);
  }

  // The first packet arrives.
  void arrive(uint32_t rank, uint32_t index) {
    const Entry& entry = job_.program(rank).entries[index];
    Nic& nic = nic_of(job_.link(rank, entry.request).rank);
    nic.receives_until = std::max(nic.receives_until, now_) + costs_.receive + times(costs_.transmit_byte, entry.bytes);
    push(nic.receives_until, rank, Kind::kLanding, index);
  }

  void land(uint32_t rank, uint32_t index) {
    const Entry& entry = job_.program(rank).entries[index];
    const Link link = job_.link(rank, entry.request);
    const Landing& landing = job_.program(link.rank).landings[link.request][static_cast<size_t>(entry.part)];
    if (entry.completion != kNone) {
      const Picoseconds taken = now_ + (entry.delivery ? costs_.delivery : 0);
      push(taken + latency(rank, entry.request), rank, Kind::kCompletion, index);
    }
    if (landing.word != kNone)
      raise(link.rank, landing.word, now_ + costs_.own_word, words_of(link.rank)[landing.word].value + 1);
    if (landing.counter != kNone)
      count(link.rank, landing.counter, 1);
  }

  // ---- Stream

  Word* words_of(uint32_t rank) { return &words_[processes_[rank].words]; }

  void raise(uint32_t rank, uint16_t index, Picoseconds time, uint32_t value) {
    Word& word = words_of(rank)[index];
    word.value = value;
    word.raised = std::max(word.raised, time);
    const Process& process = processes_[rank];
    if (process.parked == Process::Parked::kForWord && job_.program(rank).stream[process.op].object == index)
      advance(rank);
  }

  // Runs the stream until it must wait, also into the future: no other process
  // affects what it does there.
  void advance(uint32_t rank) {
    Process& process = processes_[rank];
    const Program& program = job_.program(rank);
    const uint32_t ops = static_cast<uint32_t>(program.stream.size());
    process.parked = Process::Parked::kNot;
    while (process.iteration <= options_.steps) {
      if (process.iteration > process.planned) {
        process.parked = Process::Parked::kForHost;
        return;
      }
      const Picoseconds begun = began(process, process.iteration);
      for (; process.op < ops; ++process.op) {
        const StreamOp& op = program.stream[process.op];
        process.ready = std::max(process.ready, begun + op.ready);
        if (op.kind == StreamOp::Kind::kWait) {
          const Word& word = words_of(rank)[op.object];
          if (word.value < op.value * process.iteration) {
            process.parked = Process::Parked::kForWord;
            return;
          }
          process.ready = std::max(process.ready, word.raised);
        }
        process.ready += op.cost;
        if (op.kind == StreamOp::Kind::kRing)
          push(process.ready + costs_.doorbell, rank, Kind::kRing, process.op);
      }
      process.op = 0;
      end_step(rank, process);
    }
  }

  void end_step(uint32_t rank, Process& process) {
    const uint32_t step = process.iteration++ - 1;
    timing_.ends[step] = std::max(timing_.ends[step], process.ready);
    if (++through_[step] == job_.ranks() && options_.progress)
      options_.progress(step + 1);
    finished_ += step + 1 == options_.steps ? 1 : 0;
    if (process.full) {
      process.full = false;
      push(std::max(process.ready, process.host_ready), rank, Kind::kHost, 0);
    }
  }

  Status stuck() const {
    uint32_t rank = 0;
    while (processes_[rank].iteration > options_.steps)
      ++rank;
    const Process& process = processes_[rank];
    const bool host = process.parked == Process::Parked::kForHost;
    return {Code::kFailed, "rank " + std::to_string(rank) + " makes no progress in step " +
                               std::to_string(process.iteration) + ": its " +
                               (host ? "host waits for entries" : "stream waits for a message")};
  }

  const Job& job_;
  const Costs& costs_;
  const RunOptions& options_;
  const uint32_t ahead_;  // steps whose begin time is kept, a power of two
  Calendar calendar_;
  Picoseconds now_ = 0;
  std::vector<Process> processes_;
  std::vector<uint32_t> counters_;
  std::vector<Word> words_;
  std::vector<uint32_t> fired_;  // by entry: how often it fired
  std::vector<Picoseconds> begins_;
  std::vector<Nic> nics_;
  std::vector<Hop> hops_;          // by link of the job
  std::vector<uint32_t> through_;  // by step: streams that have finished it
  uint32_t finished_ = 0;
  Timing timing_;
};

}  // namespace

Result<Timing> run(const Job& job, const RunOptions& options) { return Engine(job, options).run(); }

}  // namespace lanyard::modelled
