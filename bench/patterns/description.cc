#include "bench/patterns/description.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace lanyard::bench::patterns {
namespace {

// By source and destination.
std::vector<uint64_t> matrix(const Plan& plan, size_t ranks) {
  std::vector<uint64_t> cells(ranks * ranks);
  for (const Pattern& step : plan.steps())
    for (const Message& m : step.messages())
      cells[static_cast<size_t>(m.source) * ranks + static_cast<size_t>(m.destination)] += m.bytes;
  return cells;
}

}  // namespace

std::string matrix_text(const Plan& plan) {
  const auto ranks = static_cast<size_t>(plan.ranks());
  const std::vector<uint64_t> cells = matrix(plan, ranks);
  std::string text = fmt::format("# {} ranks, {} messages in {} steps, {} bytes\n{:>7}", ranks, plan.messages(),
                                 plan.steps().size(), plan.bytes(), "from\\to");
  for (size_t to = 0; to < ranks; ++to)
    text += fmt::format(" {:>10}", to);
  for (size_t i = 0; i < cells.size(); ++i)
    text += (i % ranks == 0 ? fmt::format("\n{:>7}", i / ranks) : "") + fmt::format(" {:>10}", cells[i]);
  return text + "\n";
}

std::string messages_csv(const Plan& plan) {
  std::string text = "step,source,destination,offset,bytes\n";
  for (size_t step = 0; step < plan.steps().size(); ++step)
    for (const Message& m : plan.steps()[step].messages())
      text += fmt::format("{},{},{},{},{}\n", step, m.source, m.destination, m.offset, m.bytes);
  return text;
}

std::string matrix_svg(const Plan& plan, int group) {
  constexpr int kMargin = 40;
  const int ranks = (plan.ranks() + group - 1) / group * group;
  const std::vector<uint64_t> cells = matrix(plan, static_cast<size_t>(ranks));
  const int cell = std::max(1, 480 / ranks), side = ranks * cell;
  const uint64_t most = *std::max_element(cells.begin(), cells.end());
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{0}\" font-family=\"sans-serif\" "
      "font-size=\"12\">\n<title>{1} ranks, {2} messages, {3} bytes</title>\n<rect width=\"{0}\" height=\"{0}\" "
      "fill=\"white\"/>\n<text x=\"{4}\" y=\"14\">to rank; darker: more bytes, black: {5}</text>\n"
      "<text transform=\"translate(4 {4}) rotate(90)\">from rank</text>\n",
      side + kMargin + 8, ranks, plan.messages(), plan.bytes(), kMargin, most);
  for (size_t i = 0; i < cells.size(); ++i) {
    if (cells[i] == 0)
      continue;
    const int row = static_cast<int>(i) / ranks, column = static_cast<int>(i) % ranks;
    const int grey = 200 - static_cast<int>(200.0 * static_cast<double>(cells[i]) / static_cast<double>(most));
    svg += fmt::format("<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"rgb({},{},{})\"/>\n",
                       kMargin + column * cell, kMargin + row * cell, cell, cell, grey, grey, grey);
  }
  for (int rank = 0; rank <= ranks; rank += group) {
    const int at = kMargin + rank * cell;
    svg += fmt::format("<path d=\"M{0} {1}H{2}M{1} {0}V{2}\" stroke=\"silver\"/>\n", kMargin, at, kMargin + side);
    if (rank < ranks)
      svg +=
          fmt::format("<text x=\"{0}\" y=\"{1}\">{2}</text><text x=\"{1}\" y=\"{3}\" text-anchor=\"end\">{2}</text>\n",
                      at + 2, kMargin - 5, rank, at + 12);
  }
  return svg + "</svg>\n";
}

}  // namespace lanyard::bench::patterns
