#include "nicsim/modelled/machine.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <sstream>
#include <utility>

#include "transport/base/check.h"

namespace lanyard::modelled {

namespace {

// The machine files (machines/*.txt). They are compiled in, because the command is
// installed as a single file.
struct BuiltInMachine {
  std::string_view name;
  std::string_view text;
};
constexpr BuiltInMachine kBuiltInMachines[] = {
#include "nicsim/modelled/machine_texts.inc"
};

struct Known {
  const char* name;
  const char* unit;
  double least, most;
  Picoseconds Costs::*cost = nullptr;  // where the figure is a cost by itself
};

constexpr double kLongestUs = 1e6;  // one second
constexpr double kMostPs = 1e4;     // 10 ns for a byte or cell

constexpr Known kKnown[] = {
    {"node.ranks", "ranks", 1, 1024},
    {"node.nics", "cards", 1, 64},
    {"group.nodes", "nodes", 1, 1e6},
    {"nic.entries", "entries", 1, 1e6},
    {"cpu.post", "us", 0, kLongestUs},
    {"cpu.post_shared", "us", 0, kLongestUs},
    {"cpu.launch", "us", 0, kLongestUs},
    {"cpu.launch_fine", "us", 0, kLongestUs},
    {"cpu.enqueue", "us", 0, kLongestUs, &Costs::enqueue},
    {"cpu.run_ahead", "steps", 1, 4096},
    {"stream.ring", "us", 0, kLongestUs, &Costs::ring},
    {"stream.wait", "us", 0, kLongestUs, &Costs::wait},
    {"stream.next_wait", "us", 0, kLongestUs, &Costs::next_wait},
    {"kernel.copy", "us", 0, kLongestUs},
    {"kernel.copy_fine", "us", 0, kLongestUs},
    {"kernel.halo", "us", 0, kLongestUs},
    {"kernel.halo_fine", "us", 0, kLongestUs},
    {"kernel.edge_byte", "ps/B", 0, kMostPs},
    {"kernel.edge_byte_fine", "ps/B", 0, kMostPs},
    {"kernel.cell", "ps/cell", 0, kMostPs},
    {"kernel.byte", "ps/B", 0, kMostPs},
    {"nic.doorbell", "us", 0, kLongestUs, &Costs::doorbell},
    {"nic.fire", "us", 0, kLongestUs, &Costs::fire},
    {"nic.own_word", "us", 0, kLongestUs, &Costs::own_word},
    {"nic.transmit", "us", 0, kLongestUs, &Costs::transmit},
    {"nic.receive", "us", 0, kLongestUs, &Costs::receive},
    {"nic.byte", "ps/B", 0, kMostPs, &Costs::transmit_byte},
    {"nic.chunk", "B", 0, 1e9},
    {"nic.chunk_byte", "ps/B", 0, kMostPs, &Costs::chunk_byte},
    {"nic.delivery", "us", 0, kLongestUs, &Costs::delivery},
    {"link.self", "us", 0, kLongestUs},
    {"link.node", "us", 0, kLongestUs},
    {"link.group", "us", 0, kLongestUs},
    {"link.global", "us", 0, kLongestUs},
};

const Known* find(std::string_view name) {
  const auto found = std::ranges::find_if(kKnown, [&](const Known& known) { return known.name == name; });
  return found == std::end(kKnown) ? nullptr : found;
}

bool is_whole(const Known& known) { return std::string_view(known.unit).find_first_of("/u") == std::string_view::npos; }

// Returns the figure's value in the table's unit.
Result<double> value_of(const Known& known, const std::string& text, const std::string& unit) {
  const auto wrong = [](const std::string& what) { return Status(Code::kInvalidArgument, what); };
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value))
    return wrong("'" + text + "' is no number");
  if (std::string_view(known.unit) == "us" && unit == "ns")
    value /= 1000;
  else if (unit != known.unit)
    return wrong(std::string("the unit must be ") + known.unit + ", not '" + unit + "'");
  if (value < 0)
    return wrong("a cost cannot be negative: " + text);
  if (value < known.least || value > known.most || (is_whole(known) && value != std::floor(value)))
    return wrong(text + " is out of range");
  return value;
}

std::string trim(std::string text) {
  text.erase(0, text.find_first_not_of(" \t"));
  text.erase(text.find_last_not_of(" \t\r") + 1);
  return text;
}

}  // namespace

Result<Machine> Machine::open(const std::string& name) {
  std::string known;
  for (const BuiltInMachine& each : kBuiltInMachines) {
    if (each.name == name)
      return parse(each.text, name);
    known += (known.empty() ? "" : ", ") + std::string(each.name);
  }
  std::ifstream file(name);
  if (!file)
    return Status(Code::kNotFound, "there is neither a machine '" + name + "' (" + known + ") nor such a file");
  return parse(std::string(std::istreambuf_iterator<char>(file), {}), name);
}

Result<Machine> Machine::parse(std::string_view text, const std::string& name) {
  Machine machine;
  machine.name_ = name;
  std::istringstream lines{std::string(text)};
  std::string line;
  std::map<std::string, bool, std::less<>> unknown;
  for (int number = 1; std::getline(lines, line); ++number) {
    line = trim(line.substr(0, line.find('#')));
    if (line.empty())
      continue;
    const auto wrong = [&](const std::string& what) {
      return Status(Code::kInvalidArgument, name + ":" + std::to_string(number) + ": " + what);
    };
    std::istringstream words(line);
    std::string figure, value, unit, origin;
    words >> figure >> value >> unit;
    std::getline(words, origin);
    const Known* known = find(figure);
    if (known == nullptr)
      return wrong("there is no figure '" + figure + "'");
    if (machine.figures_.contains(figure) || unknown.contains(figure))
      return wrong(figure + " is given twice");
    if (unit.empty() || trim(origin).empty())
      return wrong(figure + " needs a value, a unit and an origin");
    if (value == "?") {
      unknown[figure] = true;
      continue;
    }
    const Result<double> read = value_of(*known, value, unit);
    if (!read.ok())
      return wrong(figure + ": " + read.status().message());
    machine.figures_[figure] = {read.value(), trim(origin)};
  }
  std::string missing;
  for (const Known& known : kKnown)
    if (!machine.figures_.contains(known.name))
      missing += (missing.empty() ? "" : ", ") + std::string(known.name);
  if (!missing.empty())
    return Status(Code::kInvalidArgument, "the machine " + name + " has no value for: " + missing);
  return machine;
}

const Figure& Machine::figure(const std::string& figure) const {
  const auto found = figures_.find(figure);
  LANYARD_CHECK(found != figures_.end(), "a figure of the table");
  return found->second;
}

double Machine::operator[](const std::string& name) const { return figure(name).value; }

void Machine::set(const std::string& figure, double value, std::string origin) {
  LANYARD_CHECK(find(figure) != nullptr, "a figure of the table");
  figures_[figure] = {value, std::move(origin)};
}

std::string Machine::to_text() const {
  std::string text;
  for (const Known& known : kKnown) {
    const Figure& each = figure(known.name);
    char line[96];
    std::snprintf(line, sizeof line, "%-22s %10.6g %-8s ", known.name, each.value, known.unit);
    text += line + each.origin + "\n";
  }
  return text;
}

Picoseconds Machine::time(const std::string& figure) const {
  return std::llround((*this)[figure] * static_cast<double>(kMicrosecond));
}

Femtoseconds Machine::each(const std::string& figure) const { return std::llround((*this)[figure] * 1000); }

Costs Machine::costs(Memory memory, uint32_t ranks_per_node) const {
  Costs costs;
  for (const Known& known : kKnown)
    if (known.cost != nullptr)
      costs.*known.cost = std::string_view(known.unit) == "us" ? time(known.name) : each(known.name);
  costs.post = time("cpu.post") + time("cpu.post_shared") * (ranks_per_node - 1);
  costs.launch = time(memory == Memory::kFine ? "cpu.launch_fine" : "cpu.launch");
  costs.chunk_bytes = static_cast<uint64_t>((*this)["nic.chunk"]);
  costs.link = {time("link.self"), time("link.node"), time("link.group"), time("link.global")};
  costs.deferred_depth = static_cast<uint32_t>((*this)["nic.entries"]);
  costs.run_ahead = static_cast<uint32_t>((*this)["cpu.run_ahead"]);
  return costs;
}

Placement Machine::placement(uint32_t ranks_per_node) const {
  return {.ranks_per_node = ranks_per_node,
          .nics_per_node = static_cast<uint32_t>((*this)["node.nics"]),
          .nodes_per_group = static_cast<uint32_t>((*this)["group.nodes"])};
}

}  // namespace lanyard::modelled
