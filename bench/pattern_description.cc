#include "bench/pattern_description.h"

#include <fmt/format.h>

#include <algorithm>

#include "bench/nic_binding.h"

namespace lanyard::bench {
namespace {

// Within seven characters.
std::string amount(uint64_t bytes) {
  if (bytes == 0)
    return ".";
  if (bytes < 100'000)
    return fmt::format("{}", bytes);
  static constexpr const char* kUnits[] = {"k", "M", "G", "T", "P", "E"};
  double value = static_cast<double>(bytes) / 1e3;
  size_t unit = 0;
  for (; value >= 999.95; value /= 1e3)
    ++unit;
  return fmt::format("{:.1f}{}", value, kUnits[unit]);
}

}  // namespace

std::string matrix_text(const Plan& plan) {
  const size_t ranks = static_cast<size_t>(plan.ranks());
  const std::vector<uint64_t> matrix = plan.matrix(plan.ranks());
  std::vector<uint64_t> received(ranks);
  std::string text = fmt::format("{:>7}", "from\\to");
  for (size_t to = 0; to < ranks; ++to)
    text += fmt::format(" {:>7}", to);
  text += fmt::format(" {:>9}\n", "sent");
  for (size_t from = 0; from < ranks; ++from) {
    uint64_t sent = 0;
    text += fmt::format("{:>7}", from);
    for (size_t to = 0; to < ranks; ++to) {
      const uint64_t bytes = matrix[from * ranks + to];
      sent += bytes;
      received[to] += bytes;
      text += fmt::format(" {:>7}", amount(bytes));
    }
    text += fmt::format(" {:>9}\n", amount(sent));
  }
  text += fmt::format("{:>7}", "got");
  for (const uint64_t bytes : received)
    text += fmt::format(" {:>7}", amount(bytes));
  return text + fmt::format(" {:>9}\n", amount(plan.bytes()));
}

std::vector<LawRow> law_rows(const Plan& plan, int group, std::span<const int> nics, double nic_rate) {
  std::vector<LawRow> rows;
  for (size_t step = 0; step < plan.steps().size(); ++step)
    for (const int count : nics)
      for (const bool is_packed : {true, false}) {
        const Pattern& pattern = plan.steps()[step].pattern;
        const NicBinding binding =
            is_packed ? NicBinding::packed(group, (group + count - 1) / count) : NicBinding::round_robin(group, count);
        const NicLoad load = nic_load(pattern, binding);
        LawRow& row =
            rows.emplace_back(LawRow{step, is_packed ? "packed" : "round-robin", count, load.bytes, load.most});
        row.rate = bandwidth(pattern, binding, nic_rate).value_or(0);
        row.us = static_cast<double>(load.most) / (nic_rate * 1e3);
      }
  return rows;
}

std::string law_text(std::span<const LawRow> rows, int group, double nic_rate) {
  std::string text =
      fmt::format("# Bandwidth law: nodes of {} ranks, {} GB/s a network card and way\n", group, nic_rate);
  text += fmt::format("{:>4} {:>5} {:<11} {:>14} {:>14} {:>10} {:>12}\n", "step", "cards", "binding", "between nodes",
                      "most of a card", "GB/s", "us");
  for (const LawRow& row : rows)
    text += fmt::format("{:>4} {:>5} {:<11} {:>14} {:>14} {:>10.2f} {:>12.2f}\n", row.step, row.nics, row.binding,
                        row.bytes, row.most, row.rate, row.us);
  return text;
}

Record record(const LawRow& row) {
  return {{"step", row.step},
          {"nics", row.nics},
          {"binding", row.binding},
          {"bytes_between_nodes", row.bytes},
          {"bytes_most", row.most},
          {"GBps", row.rate},
          {"us", row.us}};
}

}  // namespace lanyard::bench
