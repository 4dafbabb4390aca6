// TextFile: lines of a file, plain or compressed by gzip. BadInput: an error in a file. No MPI.
#ifndef LANYARD_BENCH_CG_TEXT_FILE_H_
#define LANYARD_BENCH_CG_TEXT_FILE_H_

#include <zlib.h>

#include <array>
#include <charconv>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace lanyard::bench::cg {

// what() is one line: FILE:LINE: REASON, or FILE: REASON.
class BadInput : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Every error is a BadInput.
class TextFile {
 public:
  explicit TextFile(const std::string& path);

  // Reads the next line that is neither blank nor begins with `comment`, and splits it into words.
  // They stay valid until the next call. False at the end of the file; then line() is one past the
  // last line.
  bool next(char comment);
  const std::vector<std::string_view>& words() const { return words_; }
  int64_t line() const { return line_; }

  // An upper bound on the decompressed size: gzip saves at most a factor of 1032.
  int64_t most_bytes() const { return most_bytes_; }

  [[noreturn]] void fail(const std::string& reason) const { fail_at(line_, reason); }
  [[noreturn]] void fail_at(int64_t line, const std::string& reason) const;

 private:
  static constexpr size_t kLongestLine = 4095;

  bool read_line();

  const std::string path_;
  const std::unique_ptr<gzFile_s, decltype(&gzclose)> file_;
  int64_t most_bytes_ = 0;
  std::array<char, kLongestLine + 2> text_{};
  std::vector<std::string_view> words_;
  int64_t line_ = 0;
};

// Parses a whole word as a number; a leading plus is allowed. False if it is none or out of range.
template <class Number>
bool parse(std::string_view word, Number& number) {
  if (word.size() > 1 && word[0] == '+' && word[1] != '-')
    word.remove_prefix(1);
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
  return error == std::errc() && end == word.data() + word.size();
}

}  // namespace lanyard::bench::cg

#endif  // LANYARD_BENCH_CG_TEXT_FILE_H_
