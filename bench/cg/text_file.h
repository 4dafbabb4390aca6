// TextFile: the words of a file, plain or compressed by gzip, line by line. BadInput: an error in a
// file. No MPI.
#ifndef LANYARD_BENCH_CG_TEXT_FILE_H_
#define LANYARD_BENCH_CG_TEXT_FILE_H_

#include <fmt/format.h>
#include <sys/stat.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace lanyard::bench {

// what() is one line: FILE:LINE: REASON, or FILE: REASON.
class BadInput : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Every error is a BadInput.
class TextFile {
 public:
  explicit TextFile(const std::string& path) : path_(path), file_(gzopen(path.c_str(), "rb"), gzclose) {
    struct stat status = {};
    if (file_ == nullptr || stat(path.c_str(), &status) != 0)
      throw BadInput(fmt::format("{}: {}", path, std::strerror(errno)));
    constexpr int64_t kMostSavedByGzip = 1032;  // deflate makes no file shorter by more than this factor
    const int64_t bytes = std::min<int64_t>(status.st_size, INT64_MAX / kMostSavedByGzip);
    most_bytes_ = gzdirect(file_.get()) ? bytes : bytes * kMostSavedByGzip;
  }

  // Reads the next line that is neither blank nor begins with `comment`, and splits it into words.
  // They stay valid until the next call. False at the end of the file; then line() is one past the
  // last line.
  bool next(char comment = '\0') {
    constexpr std::string_view kBlank = " \t\r\v\f";
    do {
      if (!read_line())
        return false;
      words_.clear();
      const std::string_view text = text_;
      for (size_t at = text.find_first_not_of(kBlank); at != std::string_view::npos;) {
        const size_t end = std::min(text.find_first_of(kBlank, at), text.size());
        words_.push_back(text.substr(at, end - at));
        at = text.find_first_not_of(kBlank, end);
      }
    } while (words_.empty() || words_[0][0] == comment);
    return true;
  }
  const std::vector<std::string_view>& words() const { return words_; }
  int64_t line() const { return line_; }

  // An upper bound on the decompressed size.
  int64_t most_bytes() const { return most_bytes_; }

  [[noreturn]] void fail(const std::string& reason) const { fail_at(line_, reason); }
  [[noreturn]] void fail_at(int64_t line, const std::string& reason) const {
    throw BadInput(fmt::format("{}:{}: {}", path_, line, reason));
  }

 private:
  bool read_line() {
    constexpr size_t kLongestLine = 65535;
    text_.clear();
    ++line_;
    int c = 0;
    while ((c = gzgetc(file_.get())) > 0 && c != '\n')
      if (text_ += static_cast<char>(c); text_.size() > kLongestLine)
        fail(fmt::format("is longer than {} bytes", kLongestLine));
    if (c == 0)
      fail("has a NUL byte, expected text");
    int error = Z_OK;
    const char* const reason = gzerror(file_.get(), &error);
    if (c < 0 && error != Z_OK && error != Z_STREAM_END)
      fail(fmt::format("cannot be read: {}", error == Z_ERRNO ? std::strerror(errno) : reason));
    return c == '\n' || !text_.empty();
  }

  const std::string path_;
  const std::unique_ptr<gzFile_s, decltype(&gzclose)> file_;
  int64_t most_bytes_ = 0;
  std::string text_;  // of the line
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

}  // namespace lanyard::bench

#endif  // LANYARD_BENCH_CG_TEXT_FILE_H_
