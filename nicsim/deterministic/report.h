// Report: what an oracle found.
#ifndef LANYARD_NICSIM_DETERMINISTIC_REPORT_H_
#define LANYARD_NICSIM_DETERMINISTIC_REPORT_H_

#include <cstddef>
#include <cstdint>
#include <string>

namespace lanyard::nicsim {

// What kind of trouble. The program's exit status tells them apart (exit_status()).
enum class Finding : uint8_t {
  kNone,
  kIntegrity,       // wrong, early or overwritten data
  kOrder,           // something ran before what it has to wait for, or a NIC broke its rules
  kDeadlock,        // nothing can go on
  kLivelock,        // much happens and nothing comes of it
  kLeak,            // entries, counts or failures that do not add up
  kNondeterminism,  // the same schedule gave two different runs
  kUser,            // the program's own mistake
};
inline const char* finding_name(Finding finding) {
  static constexpr const char* kNames[] = {"NOTHING",  "INTEGRITY", "ORDER",          "DEADLOCK",
                                           "LIVELOCK", "LEAK",      "NONDETERMINISM", "USER ERROR"};
  return kNames[static_cast<size_t>(finding)];
}
// 0 for kNone, 10 to 16 for the others in their order; 1 and 2 remain for other trouble and wrong usage.
inline int exit_status(Finding finding) { return finding == Finding::kNone ? 0 : 9 + static_cast<int>(finding); }

struct Report {
  Finding finding = Finding::kNone;
  const char* oracle = "";
  std::string text;
  uint64_t step = 0;  // after which it was found, from 1

  bool ok() const { return finding == Finding::kNone; }
};

}  // namespace lanyard::nicsim

#endif  // LANYARD_NICSIM_DETERMINISTIC_REPORT_H_
