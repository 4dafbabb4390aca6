// ModelledReference: the same job as nicsim/modelled's engine runs, step by step and with nothing clever: an event for
// every single thing that a host, a stream and a card do, entries as things that are posted, wait and fire, and one
// priority queue. Slow, and written without a look at the engine but for the order of simultaneous events, which both
// take from Event.
#ifndef LANYARD_TESTS_MODELLED_REFERENCE_H_
#define LANYARD_TESTS_MODELLED_REFERENCE_H_

#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <queue>
#include <utility>
#include <vector>

#include "nicsim/modelled/calendar.h"
#include "nicsim/modelled/job.h"

namespace lanyard {

class ModelledReference {
 public:
  using Picoseconds = modelled::Picoseconds;

  ModelledReference(const modelled::Job& job, uint32_t steps) : job_(job), steps_(steps), ends_(steps) {
    ranks_.resize(job.ranks());
    cards_.resize(job.placement.nic(job.ranks() - 1) + 1);
    for (uint32_t rank = 0; rank < job.ranks(); ++rank) {
      ranks_[rank].free = job.costs.deferred_depth / job.placement.ranks_per_nic();
      ranks_[rank].counters.resize(job.program(rank).counters);
      ranks_[rank].words.resize(job.program(rank).words);
    }
  }

  // When the last stream was through with each step; zeros where it never was.
  std::vector<Picoseconds> run() {
    for (uint32_t rank = 0; rank < job_.ranks(); ++rank)
      at(0, rank, 0, [this, rank] { begin_step(rank); });
    while (!events_.empty()) {
      const Pending next = events_.top();
      events_.pop();
      now_ = next.event.time;
      next.act();
    }
    return ends_;
  }

 private:
  struct Pending {
    modelled::Event event;
    uint64_t sequence;
    std::function<void()> act;
    bool operator<(const Pending& other) const {
      return event != other.event ? event > other.event : sequence > other.sequence;
    }
  };
  struct Waiting {  // an entry on the card
    uint64_t threshold;
    uint64_t order;
    uint16_t index;
  };
  struct Counter {
    uint64_t value = 0;
    std::list<Waiting> waiting;
  };
  struct Enqueued {
    uint32_t index;
    uint32_t iteration;
  };
  struct Rank {
    std::vector<Counter> counters;
    std::vector<uint64_t> words;
    std::deque<Enqueued> stream;
    bool busy = false;  // the stream
    uint32_t begun = 0, ended = 0;
    bool held = false;     // the host, by a stream that is too far behind
    bool waiting = false;  // the host, for entries
    uint32_t free = 0;     // entries
  };
  struct Card {
    Picoseconds queue = 0, transmit = 0, receive = 0;
  };

  // The engine's numbers for kinds of events, so that simultaneous ones come in the same order.
  enum : uint32_t { kHost, kPosted, kRing, kArrival, kLanding, kCompletion };
  void at(Picoseconds time, uint32_t rank, uint32_t what, std::function<void()> act) {
    events_.push({{time, rank, what}, sequence_++, std::move(act)});
  }
  static uint32_t what(uint32_t kind, uint32_t index) { return kind << 24 | index; }
  Card& card(uint32_t rank) { return cards_[job_.placement.nic(rank)]; }
  const modelled::Program& program(uint32_t rank) const { return job_.program(rank); }
  Picoseconds latency(uint32_t a, uint32_t b) const {
    return job_.costs.link[static_cast<size_t>(job_.placement.hop(a, b))];
  }

  // ---- Host: one thing after another
  void begin_step(uint32_t rank) {
    Rank& self = ranks_[rank];
    if (self.begun == steps_)
      return;
    if (self.begun - self.ended >= job_.costs.run_ahead) {
      self.held = true;
      return;
    }
    self.waiting = self.free < program(rank).entries.size();
    if (!self.waiting)
      take(rank);
  }
  void take(uint32_t rank) {
    ranks_[rank].waiting = false;
    ranks_[rank].free -= static_cast<uint32_t>(program(rank).entries.size());
    ++ranks_[rank].begun;
    act(rank, 0, now_);
  }
  // What the host does from `time` on, which is thing number `index` of its step.
  void act(uint32_t rank, uint32_t index, Picoseconds time) {
    const modelled::Program& mine = program(rank);
    if (index == mine.host.size())
      return at(time, rank, 0, [this, rank] { begin_step(rank); });
    const modelled::HostOp& op = mine.host[index];
    const uint32_t iteration = ranks_[rank].begun;
    const modelled::Costs& costs = job_.costs;
    if (op.posts) {
      const Picoseconds done = time + costs.post;
      return at(done, rank, what(kPosted, op.index), [this, rank, index, op, iteration, done] {
        post(rank, static_cast<uint16_t>(op.index), iteration);
        act(rank, index + 1, done);
      });
    }
    const bool kernel = mine.stream[op.index].kind == modelled::StreamOp::Kind::kKernel;
    const Picoseconds done = time + (kernel ? costs.launch : costs.enqueue);
    at(done, rank, 0, [this, rank, index, op, iteration, done] {
      ranks_[rank].stream.push_back({op.index, iteration});
      if (!ranks_[rank].busy)
        next(rank);
      act(rank, index + 1, done);
    });
  }

  // ---- Stream: one operation after another
  void next(uint32_t rank) {
    Rank& self = ranks_[rank];
    self.busy = false;
    if (self.stream.empty())
      return;
    const Enqueued head = self.stream.front();
    const modelled::StreamOp& op = program(rank).stream[head.index];
    using Kind = modelled::StreamOp::Kind;
    if (op.kind == Kind::kWait && self.words[op.object] < uint64_t{op.value} * head.iteration)
      return;  // looked at again when a word is raised
    self.busy = true;
    self.stream.pop_front();
    at(now_ + op.cost, rank, 0, [this, rank, head, &op] {
      if (op.kind == Kind::kRing)
        at(now_ + job_.costs.doorbell, rank, what(kRing, head.index),
           [this, rank, &op] { count(rank, op.object, op.value); });
      if (head.index + 1 == program(rank).stream.size())
        end(rank, head.iteration);
      next(rank);
    });
  }
  void end(uint32_t rank, uint32_t iteration) {
    Rank& self = ranks_[rank];
    self.ended = iteration;
    ends_[iteration - 1] = std::max(ends_[iteration - 1], now_);
    if (self.held) {
      self.held = false;
      begin_step(rank);
    }
  }
  void raise(uint32_t rank, uint16_t word, Picoseconds time, uint64_t add) {
    at(time, rank, 0, [this, rank, word, add] {
      ranks_[rank].words[word] += add;
      if (!ranks_[rank].busy)
        next(rank);
    });
  }

  // ---- Card
  void post(uint32_t rank, uint16_t index, uint32_t iteration) {
    const modelled::Entry& entry = program(rank).entries[index];
    Counter& counter = ranks_[rank].counters[entry.trigger];
    counter.waiting.push_back({uint64_t{entry.step} * iteration - entry.before, sequence_++, index});
    fire_due(rank, counter);
  }
  void count(uint32_t rank, uint16_t index, uint64_t add) {
    Counter& counter = ranks_[rank].counters[index];
    counter.value += add;
    fire_due(rank, counter);
  }
  void fire_due(uint32_t rank, Counter& counter) {
    for (;;) {
      const auto first =
          std::min_element(counter.waiting.begin(), counter.waiting.end(), [](const Waiting& a, const Waiting& b) {
            return a.threshold != b.threshold ? a.threshold < b.threshold : a.order < b.order;
          });
      if (first == counter.waiting.end() || first->threshold > counter.value)
        return;
      const uint16_t index = first->index;
      counter.waiting.erase(first);
      fire(rank, index);
    }
  }
  void fire(uint32_t rank, uint16_t index) {
    const modelled::Entry& entry = program(rank).entries[index];
    const modelled::Costs& costs = job_.costs;
    Rank& self = ranks_[rank];
    ++self.free;
    if (self.waiting && self.free >= program(rank).entries.size())
      take(rank);
    Card& mine = card(rank);
    mine.queue = std::max(mine.queue, now_) + costs.fire;
    if (entry.own && entry.word == modelled::kNone)
      return at(mine.queue + costs.own_word, rank, what(kCompletion, index),
                [this, rank, &entry] { count(rank, entry.completion, 1); });
    if (entry.own)
      return raise(rank, entry.word, mine.queue + costs.own_word, 1);
    const Picoseconds from = std::max(mine.queue, mine.transmit) + costs.transmit;
    mine.transmit = from + modelled::times(costs.transmit_byte, entry.bytes);
    const modelled::Link link = job_.link(rank, entry.request);
    const Picoseconds there =
        from + modelled::times(costs.chunk_byte, std::min(costs.chunk_bytes, entry.bytes)) + latency(rank, link.rank);
    at(there, rank, what(kArrival, index), [this, rank, index, link, &entry, &costs] {
      Card& theirs = card(link.rank);
      theirs.receive =
          std::max(theirs.receive, now_) + costs.receive + modelled::times(costs.transmit_byte, entry.bytes);
      at(theirs.receive, rank, what(kLanding, index),
         [this, rank, index, link, &entry] { land(rank, index, link, entry); });
    });
  }
  void land(uint32_t rank, uint16_t index, const modelled::Link& link, const modelled::Entry& entry) {
    const modelled::Costs& costs = job_.costs;
    const modelled::Landing landing = program(link.rank).landings[link.request][static_cast<size_t>(entry.part)];
    if (entry.completion != modelled::kNone)
      at(now_ + (entry.delivery ? costs.delivery : 0) + latency(link.rank, rank), rank, what(kCompletion, index),
         [this, rank, &entry] { count(rank, entry.completion, 1); });
    if (landing.word != modelled::kNone)
      raise(link.rank, landing.word, now_ + costs.own_word, 1);
    if (landing.counter != modelled::kNone)
      count(link.rank, landing.counter, 1);
  }

  const modelled::Job& job_;
  const uint32_t steps_;
  std::vector<Picoseconds> ends_;
  std::vector<Rank> ranks_;
  std::vector<Card> cards_;
  std::priority_queue<Pending> events_;
  uint64_t sequence_ = 0;
  Picoseconds now_ = 0;
};

}  // namespace lanyard

#endif  // LANYARD_TESTS_MODELLED_REFERENCE_H_
