// History: the last calls of a process, in memory that its parent still reads when it has died.
#ifndef LANYARD_TESTS_FI_FUZZ_HISTORY_H_
#define LANYARD_TESTS_FI_FUZZ_HISTORY_H_

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string>

namespace lanyard {

class History {
 public:
  History() {
    void* memory = ::mmap(nullptr, sizeof(Lines), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
      std::abort();
    lines_ = new (memory) Lines();
  }
  ~History() { ::munmap(lines_, sizeof(Lines)); }
  History(const History&) = delete;
  History& operator=(const History&) = delete;

  void clear() { lines_->count.store(0); }
  void begin(const std::string& call) {
    const uint64_t number = lines_->count.load();
    std::snprintf(line(number), kWidth, "%llu: %s", static_cast<unsigned long long>(number), call.c_str());
    lines_->count.store(number + 1);
  }
  // What the call begun last has returned.
  void end(const std::string& result) {
    char* last = line(lines_->count.load() - 1);
    const size_t used = std::strlen(last);
    std::snprintf(last + used, kWidth - used, " = %s", result.c_str());
  }
  uint64_t count() const { return lines_->count.load(); }
  std::string text() const {
    std::string text;
    const uint64_t count = lines_->count.load();
    for (uint64_t i = count - std::min<uint64_t>(count, kLines); i < count; ++i)
      text += std::string(line(i)) + "\n";
    return text;
  }

 private:
  static constexpr size_t kLines = 1000, kWidth = 400;
  struct Lines {
    std::atomic<uint64_t> count{0};
    std::array<std::array<char, kWidth>, kLines> text = {};
  };

  char* line(uint64_t number) const { return lines_->text[number % kLines].data(); }

  Lines* lines_;
};

}  // namespace lanyard

#endif  // LANYARD_TESTS_FI_FUZZ_HISTORY_H_
