// lanyard info: lists this machine's NICs and stream back ends, and what each NIC can do.
#include <fmt/format.h>

#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>

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
  const core::Strategy strategy = settings.value().strategy.value_or(core::strategy_for(caps));
  fmt::print("  strategy     {}{}\n", core::strategy_name(strategy),
             settings.value().strategy ? " (LANYARD_STRATEGY)" : "");
  const std::optional<std::string> obstacle = core::obstacle_to_exchanges(caps);
  fmt::print("  exchanges    {}\n", obstacle ? "no: " + *obstacle : "yes (MPIX_Request_set_info)");
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

void info() {
  setenv("IPATH_NO_BACKTRACE", "1", 0);  // else a handler of PSM turns crashes into exit 1
  for (const char* name : {"sim", "cxi"})
    print_nic(name);
  print_streams();
}

}  // namespace

void add_info(CLI::App& app) {
  CLI::App* command = app.add_subcommand("info", "lists the network cards and what each can do");
  command->callback(info);
}

}  // namespace lanyard::tools
