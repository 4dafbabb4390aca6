// Hints on requests, and what is in force, as tests of the API set and read them.
#ifndef LANYARD_TESTS_API_HINTS_H_
#define LANYARD_TESTS_API_HINTS_H_

#include <array>
#include <map>
#include <string>

#include "tests/api/api_objects.h"

namespace lanyard::api_test {

using Facts = std::map<std::string, std::string>;

inline Facts facts_of(MPI_Request request) {
  Facts facts;
  MPI_Info info = MPI_INFO_NULL;
  EXPECT_TRUE(ok(MPIX_Request_get_info(request, &info)));
  int keys = 0;
  MPI_Info_get_nkeys(info, &keys);
  for (int i = 0; i < keys; ++i) {
    std::array<char, MPI_MAX_INFO_KEY + 1> key{};
    std::array<char, MPI_MAX_INFO_VAL + 1> value{};
    int found = 0;
    MPI_Info_get_nthkey(info, i, key.data());
    MPI_Info_get(info, key.data(), MPI_MAX_INFO_VAL, value.data(), &found);
    facts[key.data()] = value.data();
  }
  MPI_Info_free(&info);
  return facts;
}

inline int hint(MPI_Request request, const char* name, const char* key = "lanyard_exchange") {
  MPI_Info info = MPI_INFO_NULL;
  MPI_Info_create(&info);
  MPI_Info_set(info, key, name);
  const int code = MPIX_Request_set_info(request, info);
  MPI_Info_free(&info);
  return code;
}

inline void hint_all(Requests& requests, const char* name) {
  for (int i = 0; i < requests.count(); ++i)
    EXPECT_TRUE(ok(hint(*requests.at(i), name)));
}

// Whether senders raise flags.
inline bool flags(Queue& queue) { return queue.info()["strategy"] == "sender-flag"; }

}  // namespace lanyard::api_test

#endif  // LANYARD_TESTS_API_HINTS_H_
