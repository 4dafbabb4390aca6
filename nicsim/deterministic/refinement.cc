#include "nicsim/deterministic/refinement.h"

#include <deque>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "nicsim/deterministic/oracles/shadow_nic.h"
#include "transport/base/check.h"

namespace lanyard::nicsim {

using nic::CounterId;
using nic::Op;
using nic::OpKind;

namespace {

using Kind = TraceEvent::Kind;

const char* verb(Kind kind) {
  switch (kind) {
    case Kind::kOpened: return "opens";
    case Kind::kClosed: return "closes";
    case Kind::kRead: return "reads";
    case Kind::kAdded: return "adds to";
    case Kind::kAddedFailures: return "adds failures to";
    case Kind::kReset: return "resets";
    case Kind::kRang: return "is rung on";
    case Kind::kRegistered: return "registers a region of";
    case Kind::kDeregistered: return "deregisters a region";
    case Kind::kPosted: return "is given an entry of";
    case Kind::kFired: return "fires an entry of";
    case Kind::kFlushed: return "flushes its entries";
    case Kind::kIssued: return "is given an operation";
    case Kind::kStarted: return "starts an operation";
    case Kind::kArrived: return "counts a message on";
    case Kind::kCompleted: return "completes an operation";
    case Kind::kPeerLost: return "loses a peer";
  }
  LANYARD_CHECK(false, "an event of no kind");
}

std::string describe(const TraceEvent& event) {
  std::string text = "NIC " + std::to_string(event.nic) + " " + verb(event.kind);
  if (event.counter.valid())
    text += " counter " + std::to_string(event.counter.value);
  if (event.kind == Kind::kPosted || event.kind == Kind::kFired)
    text += ", threshold " + std::to_string(event.value) + ", context " + std::to_string(event.op.context);
  if (event.token != TraceEvent::kNone)
    text += ", token " + std::to_string(event.token);
  if (event.peer != TraceEvent::kNone)
    text += ", peer " + std::to_string(event.peer);
  return text;
}

// In what the books can tell.
bool is_same(const Op& a, const Op& b) {
  if (a.kind != b.kind || a.completion != b.completion)
    return false;
  if (!a.moves_data())
    return a.counter == b.counter && a.value == b.value;
  return a.remote.peer == b.remote.peer && a.remote.key == b.remote.key && a.remote.offset == b.remote.offset &&
         a.bytes == b.bytes;
}

struct Flight {
  Op op;
  bool counted = false;  // by its target
};

// What is known of one NIC beyond its shadow.
struct Books {
  explicit Books(const ModelLimits& limits) : shadow(limits), open(limits.max_counters) {}

  bool is_open(CounterId counter) const { return counter.value < open.size() && open[counter.value]; }
  // Whether everything that the operation names is there.
  bool can_run(const Op& op) const {
    return op.moves_data() ? !op.completion.valid() || is_open(op.completion) : is_open(op.counter);
  }

  ShadowNic shadow;
  std::vector<bool> open;
  // Of entries that have not fired, by counter, threshold and context: equal ones fire in the order of posting.
  std::map<std::tuple<uint32_t, uint64_t, uint64_t>, std::deque<Op>> posted;
  std::map<uint64_t, CounterId> regions;  // by key
  std::deque<Op> issued;                  // not started yet
  std::map<uint32_t, Flight> flights;     // by token
  std::set<uint32_t> lost_peers;
  std::set<std::pair<uint32_t, uint32_t>> given_up;  // peer and token: may still be counted there
};

// Each step says what is wrong with it, or null.
class Replay {
 public:
  Replay(const ModelLimits& limits, uint32_t nics) : limits_(limits), nics_(nics, Books(limits)) {}

  const char* take(const TraceEvent& event) {
    if (event.nic >= nics_.size())
      return "there is no such NIC";
    Books& nic = nics_[event.nic];
    switch (event.kind) {
      case Kind::kOpened: return opened(nic, event.counter);
      case Kind::kClosed: return closed(nic, event.counter);
      case Kind::kRead:
      case Kind::kAdded:
      case Kind::kAddedFailures:
      case Kind::kReset: return called(nic, event);
      case Kind::kRang:
        if (nic.is_open(event.counter))  // else it vanishes
          nic.shadow.succeeded(event.counter.value, event.value);
        return nullptr;
      case Kind::kRegistered:
        return nic.regions.emplace(event.value, event.counter).second ? nullptr : "the key was given before (N8)";
      case Kind::kDeregistered: return nic.regions.erase(event.value) == 1 ? nullptr : "no such region is registered";
      case Kind::kPosted: return posted(nic, event);
      case Kind::kFired: return fired(nic, event);
      case Kind::kFlushed:
        nic.shadow.flushed();
        nic.posted.clear();
        return nullptr;
      case Kind::kIssued: nic.issued.push_back(event.op); return nullptr;
      case Kind::kStarted: return started(nic, event);
      case Kind::kArrived: return arrived(nic, event);
      case Kind::kCompleted: return completed(nic, event);
      case Kind::kPeerLost: return peer_lost(nic, event.peer);
    }
    return "an event of no kind";
  }

  // What a NIC at rest has left undone; empty for nothing.
  std::string left_over() const {
    for (uint32_t which = 0; which < nics_.size(); ++which)
      for (uint32_t counter = 0; counter < limits_.max_counters; ++counter)
        if (nics_[which].shadow.ready(counter) > 0)
          return "NIC " + std::to_string(which) + ", counter " + std::to_string(counter) +
                 ": an entry should have fired and did not (N1)";
    for (uint32_t which = 0; which < nics_.size(); ++which) {
      const Books& nic = nics_[which];
      if (!nic.issued.empty())
        return "NIC " + std::to_string(which) + ": an issued operation should have started and did not";
      if (!nic.flights.empty())
        return "NIC " + std::to_string(which) + ", token " + std::to_string(nic.flights.begin()->first) +
               ": an operation never completed (N5)";
    }
    return {};
  }

 private:
  const char* opened(Books& nic, CounterId counter) {
    if (counter.value >= nic.open.size() || nic.open[counter.value])
      return "the counter is open already";
    nic.open[counter.value] = true;
    nic.shadow.reset(counter.value);
    return nullptr;
  }
  const char* closed(Books& nic, CounterId counter) {
    if (!nic.is_open(counter))
      return "no such counter is open";
    if (nic.shadow.entries(counter.value) > 0)
      return "the counter has entries that have not fired";
    nic.open[counter.value] = false;
    return nullptr;
  }
  const char* called(Books& nic, const TraceEvent& event) {
    if (!nic.is_open(event.counter))
      return "no such counter is open";
    const uint32_t counter = event.counter.value;
    if (event.kind == Kind::kAdded)
      nic.shadow.succeeded(counter, event.value);
    else if (event.kind == Kind::kAddedFailures)
      nic.shadow.failed(counter, event.failures);
    else if (event.kind == Kind::kReset)
      nic.shadow.reset(counter);
    else if (nic.shadow.value(counter) != nic::CounterValue{event.value, event.failures})
      return "the counter does not hold what was counted (N4, N5)";
    return nullptr;
  }

  const char* posted(Books& nic, const TraceEvent& event) {
    if (!nic.is_open(event.counter) || !nic.can_run(event.op))
      return "no such counter is open";
    if (nic.shadow.outstanding() == limits_.deferred_depth)
      return "no entry is free (N6)";
    nic.posted[{event.counter.value, event.value, event.op.context}].push_back(event.op);
    nic.shadow.posted({.op = event.op, .trigger = event.counter, .threshold = event.value});
    return nullptr;
  }
  const char* fired(Books& nic, const TraceEvent& event) {
    if (!nic.is_open(event.counter))
      return "no such counter is open";
    if (const char* wrong = nic.shadow.fired(event.counter.value, event.value, event.op.context))
      return wrong;
    const auto entry = nic.posted.find({event.counter.value, event.value, event.op.context});
    const Op op = entry->second.front();
    entry->second.pop_front();
    if (entry->second.empty())
      nic.posted.erase(entry);
    if (!is_same(op, event.op))
      return "the entry does something else than was posted";
    return start(nic, op, event.token);
  }
  const char* started(Books& nic, const TraceEvent& event) {
    if (nic.issued.empty())
      return "no operation was issued that has not started";
    const Op op = nic.issued.front();
    nic.issued.pop_front();
    return nic.can_run(op) ? start(nic, op, event.token) : "no such counter is open";
  }
  const char* start(Books& nic, const Op& op, uint32_t token) {
    const bool goes = op.moves_data() && !nic.lost_peers.contains(op.remote.peer);
    if (goes != (token != TraceEvent::kNone))
      return goes ? "the operation goes nowhere" : "the operation goes where nothing can";
    if (!op.moves_data()) {
      if (op.kind == OpKind::kCounterSet)
        nic.shadow.reset(op.counter.value);
      nic.shadow.succeeded(op.counter.value, op.value);
      return nullptr;
    }
    if (!goes) {
      end(nic, op, Code::kFailed);
      return nullptr;
    }
    if (!nic.flights.emplace(token, Flight{op}).second)
      return "its token is that of an operation under way";
    return nic.flights.size() <= limits_.max_in_flight ? nullptr : "too many operations are under way";
  }

  const char* arrived(Books& nic, const TraceEvent& event) {
    const auto target = static_cast<uint32_t>(&nic - nics_.data());
    if (event.peer >= nics_.size())
      return "there is no such initiator";
    Books& initiator = nics_[event.peer];
    const auto flight = initiator.flights.find(event.token);
    const bool under_way = flight != initiator.flights.end() && flight->second.op.remote.peer == target;
    if (under_way) {
      if (std::exchange(flight->second.counted, true))
        return "the message was counted before (N4)";
      const auto region = nic.regions.find(flight->second.op.remote.key.value);
      if (region == nic.regions.end())
        return "the message names a region that is not registered (N8)";
      if (region->second != event.counter)
        return "another counter than its region's counts the message (N4)";
    } else if (initiator.given_up.erase({target, event.token}) == 0) {
      return "no operation has fired that goes there (N4)";
    }
    if (!event.counter.valid())
      return nullptr;
    if (!nic.is_open(event.counter))
      return "no such counter is open";
    nic.shadow.succeeded(event.counter.value, 1);
    return nullptr;
  }

  const char* completed(Books& nic, const TraceEvent& event) {
    const auto flight = nic.flights.find(event.token);
    if (flight == nic.flights.end() || flight->second.op.remote.peer != event.peer)
      return "the operation never fired, or has completed before (N5)";
    const Flight ended = flight->second;
    if (event.code == Code::kOk && !ended.counted)
      return "the target has not counted the operation yet (N5)";
    if (event.code != Code::kOk && ended.counted)
      return "the target has counted an operation that it refused (N5)";
    nic.flights.erase(flight);
    end(nic, ended.op, event.code);
    return nullptr;
  }
  const char* peer_lost(Books& nic, uint32_t peer) {
    nic.lost_peers.insert(peer);
    for (auto flight = nic.flights.begin(); flight != nic.flights.end();) {
      if (flight->second.op.remote.peer != peer) {
        ++flight;
        continue;
      }
      if (!flight->second.counted)
        nic.given_up.insert({peer, flight->first});
      end(nic, flight->second.op, Code::kFailed);
      flight = nic.flights.erase(flight);
    }
    return nullptr;
  }
  void end(Books& nic, const Op& op, Code code) {
    if (!op.completion.valid())
      return;
    if (code == Code::kOk)
      nic.shadow.succeeded(op.completion.value, 1);
    else
      nic.shadow.failed(op.completion.value);
  }

  const ModelLimits limits_;
  std::vector<Books> nics_;
};

}  // namespace

Status accept(const Trace& trace, const ModelLimits& limits) {
  Replay replay(limits, trace.nics);
  for (size_t i = 0; i < trace.events.size(); ++i)
    if (const char* wrong = replay.take(trace.events[i]))
      return {Code::kFailed, "event " + std::to_string(i) + ", " + describe(trace.events[i]) + ": " + wrong};
  if (trace.quiesced)
    if (const std::string left = replay.left_over(); !left.empty())
      return {Code::kFailed, "at the end, " + left};
  return {};
}

}  // namespace lanyard::nicsim
