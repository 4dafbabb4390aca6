#include "api/foreign_mpi.h"

#include <mpi.h>

#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace lanyard::api {

namespace {

#if defined(OPEN_MPI)
constexpr const char* kOwn = "openmpi";
constexpr const char* kOther = "mpich";
constexpr std::string_view kForeign[] = {"MPICH", "MVAPICH", "Intel(R) MPI"};
#else
constexpr const char* kOwn = "mpich";
constexpr const char* kOther = "openmpi";
constexpr std::string_view kForeign[] = {"Open MPI", "Spectrum MPI"};
#endif

// Of every MPI's: another than this one's header speaks of writes it.
constexpr size_t kLongestVersion = 16'384;

bool is_foreign_mpi(std::string_view library_version) {
  for (const std::string_view name : kForeign)
    if (library_version.find(name) != std::string_view::npos)
      return true;
  return false;
}

}  // namespace

void refuse_foreign_mpi() {
  char version[kLongestVersion] = {};
  int length = 0;
  if (PMPI_Get_library_version(version, &length) != MPI_SUCCESS || !is_foreign_mpi(version))
    return;
  std::string_view line = version;
  line = line.substr(0, line.find('\n'));
  std::fprintf(stderr, "lanyard: this is liblanyard-%s, and the program's MPI is %.*s: link lanyard-%s in its place\n",
               kOwn, static_cast<int>(line.size()), line.data(), kOther);
  std::abort();
}

}  // namespace lanyard::api
