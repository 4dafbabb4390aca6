#include "bench/cg/text_file.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace lanyard::bench::cg {

TextFile::TextFile(const std::string& path) : path_(path), file_(gzopen(path.c_str(), "rb"), gzclose) {
  struct stat status = {};
  if (file_ == nullptr || stat(path.c_str(), &status) != 0)
    throw BadInput(fmt::format("{}: {}", path, std::strerror(errno)));
  constexpr int64_t kMostSavedByGzip = 1032;
  const int64_t bytes = std::min<int64_t>(status.st_size, INT64_MAX / kMostSavedByGzip);
  most_bytes_ = gzdirect(file_.get()) ? bytes : bytes * kMostSavedByGzip;
}

void TextFile::fail_at(int64_t line, const std::string& reason) const {
  throw BadInput(fmt::format("{}:{}: {}", path_, line, reason));
}

bool TextFile::read_line() {
  ++line_;
  const int64_t before = gztell(file_.get());
  if (gzgets(file_.get(), text_.data(), static_cast<int>(text_.size())) == nullptr) {
    int error = Z_OK;
    const char* const reason = gzerror(file_.get(), &error);
    if (error != Z_OK && error != Z_STREAM_END)
      fail(fmt::format("cannot be read: {}", error == Z_ERRNO ? std::strerror(errno) : reason));
    return false;
  }
  const size_t length = std::strlen(text_.data());
  if (gztell(file_.get()) - before != static_cast<int64_t>(length))
    fail("has a NUL byte, expected text");
  if (length > kLongestLine && text_[length - 1] != '\n')
    fail(fmt::format("is longer than {} bytes", kLongestLine));
  return true;
}

bool TextFile::next(char comment) {
  constexpr std::string_view kBlank = " \t\r\n\v\f";
  do {
    if (!read_line())
      return false;
    words_.clear();
    const std::string_view text(text_.data());
    for (size_t at = text.find_first_not_of(kBlank); at != std::string_view::npos;) {
      const size_t end = std::min(text.find_first_of(kBlank, at), text.size());
      words_.push_back(text.substr(at, end - at));
      at = text.find_first_not_of(kBlank, end);
    }
  } while (words_.empty() || words_[0][0] == comment);
  return true;
}

}  // namespace lanyard::bench::cg
