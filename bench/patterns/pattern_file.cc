#include <fmt/format.h>

#include <charconv>
#include <optional>

#include "bench/patterns/pattern.h"

namespace lanyard::bench::patterns {
namespace {

class Parser {
 public:
  Parser(std::string_view text, const std::string& name, uint64_t unit) : rest_(text), name_(name), unit_(unit) {}

  Result<Pattern> parse() {
    std::vector<uint64_t> numbers;
    LANYARD_RETURN_IF_ERROR(next_line(numbers));
    if (numbers.empty())
      return wrong("no numbers");
    if (numbers.size() == 3)
      LANYARD_RETURN_IF_ERROR(triples(numbers));
    else
      LANYARD_RETURN_IF_ERROR(matrix(numbers));
    if (messages_.empty())
      return wrong("no message");
    return Pattern::of_own_data(std::move(messages_));
  }

 private:
  Status wrong(const std::string& what) const {
    return {Code::kInvalidArgument, fmt::format("{}:{}: {}", name_, line_, what)};
  }

  // The numbers of the next line that has any; none at the end.
  Status next_line(std::vector<uint64_t>& numbers) {
    constexpr std::string_view kBlank = " \t\r";
    numbers.clear();
    while (numbers.empty() && !rest_.empty()) {
      std::string_view line = rest_.substr(0, rest_.find('\n'));
      rest_.remove_prefix(std::min(rest_.size(), line.size() + 1));
      ++line_;
      for (size_t begin; (begin = line.find_first_not_of(kBlank)) != std::string_view::npos;) {
        line.remove_prefix(begin);
        const std::string_view word = line.substr(0, line.find_first_of(kBlank));
        const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), numbers.emplace_back());
        if (error != std::errc() || end != word.data() + word.size())
          return wrong(fmt::format("'{}' is no whole number from 0 on", word));
        line.remove_prefix(word.size());
      }
    }
    return {};
  }

  Status add(uint64_t source, uint64_t destination, uint64_t count) {
    for (const uint64_t rank : {source, destination})
      if (rank >= static_cast<uint64_t>(Pattern::kMostRanks))
        return wrong(fmt::format("rank {} is none of 0 to {}", rank, Pattern::kMostRanks - 1));
    if (count > Pattern::kMostBytes / unit_)
      return wrong(fmt::format("{} times {} bytes: a message has at most {}", count, unit_, Pattern::kMostBytes));
    if (count > 0)
      messages_.push_back({static_cast<int>(source), static_cast<int>(destination), 0, count * unit_});
    return {};
  }

  Status triples(std::vector<uint64_t>& numbers) {
    for (; !numbers.empty();) {
      if (numbers.size() != 3)
        return wrong(fmt::format("{} numbers: a line has source, destination and count", numbers.size()));
      LANYARD_RETURN_IF_ERROR(add(numbers[0], numbers[1], numbers[2]));
      LANYARD_RETURN_IF_ERROR(next_line(numbers));
    }
    return {};
  }

  // Nothing of the matrix's size is allocated, so that a file cannot ask for memory that it does
  // not fill.
  Status matrix(std::vector<uint64_t>& numbers) {
    const bool has_size = numbers.size() == 1;
    const uint64_t size = has_size ? numbers[0] : numbers.size();
    if (size < 1 || size > static_cast<uint64_t>(Pattern::kMostRanks))
      return wrong(fmt::format("a matrix of {} ranks: it has 1 to {}", size, Pattern::kMostRanks));
    for (uint64_t row = 0; row < size; ++row) {
      if (row > 0 || has_size)
        LANYARD_RETURN_IF_ERROR(next_line(numbers));
      if (numbers.empty())
        return wrong(fmt::format("ends after {} of {} rows", row, size));
      if (numbers.size() != size)
        return wrong(fmt::format("{} counts in a row of {}", numbers.size(), size));
      for (uint64_t column = 0; column < size; ++column)
        LANYARD_RETURN_IF_ERROR(add(row, column, numbers[column]));
    }
    LANYARD_RETURN_IF_ERROR(next_line(numbers));
    return numbers.empty() ? Status() : wrong(fmt::format("more than {} rows", size));
  }

  std::string_view rest_;
  const std::string& name_;
  const uint64_t unit_;
  size_t line_ = 0;
  std::vector<Message> messages_;
};

}  // namespace

Result<Pattern> parse_pattern(std::string_view text, const std::string& name, uint64_t unit) {
  if (unit < 1 || unit > Pattern::kMostBytes)
    return Status(Code::kInvalidArgument,
                  fmt::format("a count of {} bytes: it has 1 to {}", unit, Pattern::kMostBytes));
  return Parser(text, name, unit).parse();
}

}  // namespace lanyard::bench::patterns
