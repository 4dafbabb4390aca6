// Steps, actions and operations of a World in words.
#include <string>

#include "nicsim/deterministic/world.h"

namespace lanyard::nicsim {

const char* role_name(Transit::Role role) {
  static constexpr const char* kNames[] = {"write", "clear-to-send", "done word", "flag", "mail"};
  return kNames[static_cast<size_t>(role)];
}

const char* step_name(StepKind kind) {
  static constexpr const char* kNames[kStepKinds] = {"host", "post",  "overflow", "stream", "ring", "fire",    "read",
                                                     "land", "count", "ack",      "mail",   "loss", "keep up", "drive"};
  return kNames[static_cast<size_t>(kind)];
}

std::string World::describe(uint32_t agent) const {
  const StepKind kind = kind_of(agent);
  const uint32_t rank = rank_of(agent);
  const std::string who = "rank " + std::to_string(rank) + ": ";
  if (agent >= first_transit_) {
    const Transit& transit = state_->transits[agent - first_transit_];
    const bool rest = transit.part > 0;
    const char* step = kind == StepKind::kRead    ? (rest ? ": the rest of the source is read" : ": the source is read")
                       : kind == StepKind::kLand  ? (rest ? ": the rest lands" : ": lands")
                       : kind == StepKind::kCount ? ": is counted"
                                                  : ": its initiator hears of it";
    if (transit.role == Transit::Role::kMail)
      return who + (transit.packet.kind == PacketKind::kWrite ? "a slot" : "a sum") + " of mail of rank " +
             std::to_string(transit.from) + " to rank " + std::to_string(transit.to) + step;
    return who + role_name(transit.role) + " of (" + scenario_.describe({transit.request}) + ") iteration " +
           std::to_string(transit.iteration) + step;
  }
  const Process& process = *state_->processes[rank];
  const uint32_t index = agents_[agent].index;
  switch (kind) {
    case StepKind::kHost: return who + "host: " + describe(scenario_.program(rank).actions()[process.next_action]);
    case StepKind::kPost: return who + "an entry reaches the NIC, " + describe(process, process.nic.next_posting().op);
    case StepKind::kOverflow: return who + "the overflow is handed over";
    case StepKind::kStream: return who + "stream: " + describe(process.streams[index]->stream.front());
    case StepKind::kKeepUp: return who + "standing requests get more entries";
    case StepKind::kDrive: return who + "the thread of the driver drives";
    case StepKind::kMail: return who + (options_.mail_by_card ? "the control thread looks" : "a matching card arrives");
    case StepKind::kLoss:
      return who + "its NIC finds that rank " + std::to_string(process.unfound.front()) + " has ended";
    case StepKind::kRing: return who + "a ring lands on " + describe(process, nic::CounterId{index});
    default: {
      const nic::CounterId counter{index};
      const NicModel& model = process.nic.model();
      auto entry = model.ready();
      while (entry && model.trigger_of(*entry) != counter)
        entry = model.next_ready(*entry);
      return who + describe(process, counter) + " fires " + (entry ? describe(process, model.op_of(*entry)) : "");
    }
  }
}

std::string World::describe(const Action& action) const {
  static constexpr const char* kNames[] = {"pack",
                                           "unpack",
                                           "start",
                                           "wait",
                                           "sync",
                                           "promise",
                                           "await",
                                           "complete",
                                           "free",
                                           "match",
                                           "be matched",
                                           "withdraw",
                                           "capture",
                                           "end of the capture",
                                           "launch",
                                           "give to kernels",
                                           "kernel: start",
                                           "kernel: wait",
                                           "take from kernels"};
  std::string text = kNames[static_cast<size_t>(action.kind)];
  if (is_of_message(action.kind))
    return text + " (" + scenario_.describe({2 * action.message}) + ")";
  for (const RequestName request : action.requests)
    text += " (" + scenario_.describe(request) + ")";
  return text;
}

std::string World::describe(const StepItem& item) const {
  if (item.kind == StepItem::Kind::kKernel)
    return describe(Action{.kind = item.action, .queue = 0, .message = item.message, .requests = {}});
  if (item.kind == StepItem::Kind::kMove)
    return std::string(item.op.kind == gpu::StreamOp::Kind::kPack     ? "packs for ("
                       : item.op.kind == gpu::StreamOp::Kind::kUnpack ? "unpacks for ("
                                                                      : "has packed or unpacked for (") +
           scenario_.describe({item.request}) + ")";
  if (item.kind == StepItem::Kind::kMark && item.start != StepItem::kNothing)
    return "start (" + scenario_.describe({item.start}) + ") is reached";
  if (item.kind == StepItem::Kind::kRing)
    return item.start == StepItem::kNothing ? "rings for all that share the queue's trigger"
                                            : "rings for (" + scenario_.describe({item.start}) + ")";
  return item.request == StepItem::kNothing ? "the promise was kept"
                                            : "wait (" + scenario_.describe({item.request}) + ") passes";
}

std::string World::describe(const Process& process, const nic::Op& op) const {
  return std::string(role_name(role_of(process, op))) + " of (" +
         scenario_.describe({process.requests[op.context - 1]}) + ")";
}

std::string World::describe(const Process& process, nic::CounterId counter) const {
  for (const uint32_t request : process.requests) {
    const core::Request* core = state_->sides[request].core;
    if (core != nullptr && (core->trigger == counter || core->completion == counter || core->written == counter))
      return std::string("the ") +
             (core->trigger == counter   ? "trigger"
              : core->written == counter ? "writes'"
                                         : "completion") +
             " counter of (" + scenario_.describe({request}) + ")";
  }
  return "the queue's shared trigger";
}

}  // namespace lanyard::nicsim
