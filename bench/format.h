// How a benchmark prints what it has found.
#ifndef LANYARD_BENCH_FORMAT_H_
#define LANYARD_BENCH_FORMAT_H_

#include <string>

namespace lanyard::bench {

enum class Format { kText, kCsv, kJson };

// A CSV field: quoted where it must be.
inline std::string csv_field(const std::string& text) {
  if (text.find_first_of(",\"\n") == std::string::npos)
    return text;
  std::string quoted = "\"";
  for (char c : text) {
    if (c == '"')
      quoted += '"';
    quoted += c;
  }
  return quoted + '"';
}

}  // namespace lanyard::bench

#endif  // LANYARD_BENCH_FORMAT_H_
