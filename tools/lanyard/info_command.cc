// lanyard info: lists this machine's NICs and stream back ends, and what each NIC can do.
#include <fmt/format.h>

#include <array>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/backends.h"
#include "api/settings.h"
#include "tools/lanyard/command.h"
#include "transport/core/exchange.h"
#include "transport/core/plan.h"
#include "transport/core/transfer.h"
#include "transport/cxi/fabric.h"
#include "transport/nic/nic.h"

namespace lanyard::tools {

namespace {

using core::Strategy;

std::string doorbells(const nic::Caps& caps) {
  std::string text;
  const auto add = [&](bool has, const char* name) {
    if (has)
      text += (text.empty() ? "" : ", ") + std::string(name);
  };
  add(caps.doorbell_mmio_add, "register");
  add(caps.doorbell_atomic_add, caps.doorbell_totals ? "atomic on a word, or its sum" : "atomic on a word");
  add(caps.doorbell_host_call, "call from a host thread");
  return text;
}

const char* yes(bool has) { return has ? "yes" : "no"; }

void print_nic(const char* name) {
  setenv("LANYARD_NIC", name, 1);
  const Result<api::Settings> settings = api::Settings::from_environment();
  const Result<std::unique_ptr<nic::Nic>> nic =
      settings.ok() ? api::open_nic(settings.value(), nullptr) : settings.status();
  fmt::print("LANYARD_NIC={}\n", name);
  // If there are no CXI devices, opening one reports why.
  if (name == std::string_view("cxi"))
    if (const auto cards = ofi::describe_cards(); cards.ok())
      for (const std::string& card : cards.value())
        fmt::print("  device       {}\n", card);
  if (!nic.ok())
    return fmt::print("  unavailable  {}\n", nic.status().message());
  const nic::Caps& caps = nic.value()->caps();
  const nic::Usage usage = nic.value()->usage();
  fmt::print("  card         {}, {}\n", caps.name, caps.provider);
  fmt::print("  entries      {} of {} free\n", nic.value()->free_entries(), caps.deferred_depth);
  fmt::print("  counters     {} of {} open\n", usage.counters, caps.max_counters);
  fmt::print("  regions      {} of {} registered; device memory: {}\n", usage.regions, caps.max_regions,
             yes(caps.device_memory));
  fmt::print("  messages     {} bytes a write, longer ones in pieces\n", caps.max_message_bytes);
  fmt::print("  doorbell     {}\n", doorbells(caps));
  fmt::print("  operations   flush: {}\n", yes(caps.flush));
  const Strategy strategy = settings.value().strategy.value_or(core::strategy_for(caps));
  fmt::print("  strategy     {}{}\n", core::strategy_name(strategy),
             settings.value().strategy ? " (LANYARD_STRATEGY)" : "");
  const std::optional<std::string> obstacle = core::obstacle_to_exchanges(caps);
  fmt::print("  exchanges    {}\n", obstacle ? "no: " + *obstacle : "yes (MPIX_Request_set_info)");
}

// The entries of one start, from the protocol's plan.
size_t entries(Strategy strategy, core::Direction direction, bool ready) {
  core::Request request;
  request.transfer.direction = direction;
  request.transfer.bytes = 8;
  request.matched_bytes = 8;
  core::PeerKeys keys;
  keys.ready = ready;
  core::PlanContext context;
  context.max_message_bytes = 8;
  context.strategy = strategy;
  return core::make_plan(request, keys, context).size();
}

// The entries of one start of an exchange with this many neighbours, both
// ways, with one or two sets.
size_t exchange_entries(Strategy strategy, size_t neighbours, bool ready, size_t sets) {
  std::vector<core::Request> requests(sets * 2 * neighbours);
  std::array<core::Exchange, 2> exchanges;
  core::PlanContext context;
  context.max_message_bytes = 8;
  context.strategy = strategy;
  core::PeerKeys keys;
  keys.ready = ready;
  for (size_t i = 0; i < requests.size(); ++i) {
    core::Request& request = requests[i];
    core::Exchange& exchange = exchanges[i % sets];
    exchange.number = 2 + i % sets;
    request.exchange = &exchange;
    request.transfer.direction = i < sets * neighbours ? core::Direction::kSend : core::Direction::kReceive;
    request.transfer.bytes = request.matched_bytes = 8;
    request.ready = ready;
    request.matched_set = sets == 2 ? exchange.number : 0;
    request.plan = core::make_plan(request, keys, context);
    exchange.members.push_back(&request);
  }
  if (sets == 2) {
    exchanges[0].other = &exchanges[1];
    exchanges[1].other = &exchanges[0];
    core::bind_sets(exchanges[0], exchanges[1], context);
  } else {
    core::bind_exchange(exchanges[0], context);
  }
  size_t count = 0;
  for (const core::Request* member : exchanges[0].members)
    count += member->plan.size();
  return count;
}

void print_strategies() {
  constexpr size_t kNeighbours = 8;
  fmt::print("deferred-work entries        send  ready send  recv  recv of ready  halo of 8, send  halo of 8, ready\n");
  for (const Strategy strategy : core::kStrategies) {
    const size_t send = entries(strategy, core::Direction::kSend, false);
    const size_t ready = entries(strategy, core::Direction::kSend, true);
    const size_t receive = entries(strategy, core::Direction::kReceive, false);
    const size_t of_ready = entries(strategy, core::Direction::kReceive, true);
    fmt::print("  {:24} {:6}  {:10}  {:4}  {:13}  {:15}  {:16}\n", core::strategy_name(strategy), send, ready, receive,
               of_ready, kNeighbours * (send + receive), kNeighbours * (ready + of_ready));
  }
  for (const Strategy strategy : core::kStrategies)
    fmt::print("  halo of 8 as one exchange, {}: {} with sends, {} with ready sends, {} with two sets\n",
               core::strategy_name(strategy), exchange_entries(strategy, kNeighbours, false, 1),
               exchange_entries(strategy, kNeighbours, true, 1), exchange_entries(strategy, kNeighbours, false, 2));
}

void print_streams() {
  const Result<api::Settings> settings = api::Settings::from_environment();
  const auto gpus =
      settings.ok() ? api::open_gpus(settings.value()) : Result<std::unique_ptr<gpu::Backend>>(settings.status());
  if (!gpus.ok())
    return fmt::print("stream kinds   host; no GPU: {}\n", gpus.status().message());
  fmt::print("stream kinds   host, {}\n", gpus.value()->kind());
  for (const std::string& device : gpus.value()->describe_devices())
    fmt::print("  device       {}\n", device);
  fmt::print("lanes          {}\n", settings.value().peer == "auto"
                                        ? "between requests of processes that have a GPU each (LANYARD_PEER=auto)"
                                        : "off; LANYARD_PEER=auto uses them");
  for (const std::string& lane : gpus.value()->describe_lanes())
    fmt::print("  {}\n", lane);
}

int info() {
  setenv("IPATH_NO_BACKTRACE", "1", 0);  // else a handler of PSM turns crashes into exit 1
  for (const char* name : {"sim", "cxi"})
    print_nic(name);
  print_strategies();
  print_streams();
  return 0;
}

}  // namespace

void add_info(CLI::App& app, int& status) {
  CLI::App* command = app.add_subcommand("info", "lists the network cards and what each can do");
  command->callback([&status] { status = info(); });
}

}  // namespace lanyard::tools
