// Code that all benchmarks share: MPI set-up, checks of MPI's return codes, and command lines.
//
// A failed call ends the whole job with MPI's text for the code.
#ifndef LANYARD_BENCH_PROGRAM_H_
#define LANYARD_BENCH_PROGRAM_H_

#include <mpi.h>

#include <CLI/CLI.hpp>
#include <boost/algorithm/string/trim_all.hpp>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <sstream>
#include <string>

#include <lanyard/lanyard_errors.hpp>
#include "bench/report.h"

namespace lanyard::bench {

[[noreturn]] inline void end_job(const std::string& why) {
  int rank = -1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  std::fprintf(stderr, "rank %d: %s\n", rank, why.c_str());
  std::fflush(stderr);
  MPI_Abort(MPI_COMM_WORLD, 1);
  std::abort();
}

inline void check(int code, const char* call) {
  if (code != MPI_SUCCESS) [[unlikely]]
    end_job(std::string(call) + ": " + mpi_category().message(code));
}

// For std::set_terminate(): an exception that nobody catches ends the whole job with its text. No
// destructor runs: it would wait for what has failed.
[[noreturn]] inline void end_job_by_exception() {
  try {
    if (std::current_exception() != nullptr)
      throw;
  } catch (const std::exception& error) {
    end_job(error.what());
  } catch (...) {
  }
  end_job("an unknown exception");
}

// This process in MPI_COMM_WORLD, from MPI_Init to MPI_Finalize, and values agreed among all ranks.
// Sets MPI_ERRORS_RETURN.
class MpiProcess {
 public:
  MpiProcess(int* argc, char*** argv) {
    std::set_terminate(end_job_by_exception);
    check(MPI_Init(argc, argv), "MPI_Init");
    check(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    check(MPI_Comm_rank(MPI_COMM_WORLD, &rank_), "MPI_Comm_rank");
    check(MPI_Comm_size(MPI_COMM_WORLD, &ranks_), "MPI_Comm_size");
  }
  // What was printed is out before any rank ends: mpirun may kill the others once one has failed.
  ~MpiProcess() {
    std::fflush(nullptr);
    barrier();
    check(MPI_Finalize(), "MPI_Finalize");
  }
  MpiProcess(const MpiProcess&) = delete;
  MpiProcess& operator=(const MpiProcess&) = delete;

  int rank() const { return rank_; }
  int ranks() const { return ranks_; }
  bool is_first() const { return rank_ == 0; }

  void barrier() const { check(MPI_Barrier(MPI_COMM_WORLD), "MPI_Barrier"); }
  // Whether every rank says so.
  bool all(bool mine) const {
    int value = mine ? 1 : 0;
    check(MPI_Allreduce(MPI_IN_PLACE, &value, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD), "MPI_Allreduce");
    return value != 0;
  }
  double largest(double mine) const {
    check(MPI_Allreduce(MPI_IN_PLACE, &mine, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD), "MPI_Allreduce");
    return mine;
  }
  // Seconds that f takes on the slowest rank, all beginning at once. Collective.
  template <class F>
  double timed(const F& f) const {
    barrier();
    const double begin = MPI_Wtime();
    f();
    return largest(MPI_Wtime() - begin);
  }
  // Rank 0's value.
  double from_first(double value) const {
    check(MPI_Bcast(&value, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD), "MPI_Bcast");
    return value;
  }

 private:
  int rank_ = 0;
  int ranks_ = 1;
};

// First line of MPI_Get_library_version, white space made single spaces.
inline std::string mpi_library() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING] = "";
  int length = 0;
  check(MPI_Get_library_version(text, &length), "MPI_Get_library_version");
  return boost::trim_fill_copy(std::string(text, std::strcspn(text, "\n")), " ");
}

// ---- Command lines

constexpr int kExitMismatch = 1;
constexpr int kExitUsage = 2;

inline void add_format(CLI::App& app, std::string& format) {
  app.add_option("--format", format, "text, csv or json (default: text)")
      ->check(CLI::IsMember({"text", "csv", "json"}))
      ->type_name("NAME");
}

inline void add_memory(CLI::App& app, std::string& memory) {
  app.add_option("--memory", memory,
                 "host; device: buffers, kernels and streams of a GPU, where there is one (default: "
                 "host)")
      ->check(CLI::IsMember({"host", "device"}));
}

// A program's main(): declare() adds its options, and run() gives the exit status. --help says
// `what`. Every rank parses alike, the first one prints. The exit status is 0 after --help, and
// kExitUsage after a mistake.
template <class Options>
int run_program(int argc, char** argv, const char* what, void (*declare)(CLI::App&, Options&),
                int (*run)(const Options&, const MpiProcess&)) {
  const MpiProcess process(&argc, &argv);
  Options options;
  CLI::App app{what};
  declare(app, options);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    std::ostringstream out, err;
    const bool is_help = app.exit(error, out, err) == 0;
    if (process.is_first()) {
      std::fputs(out.str().c_str(), stdout);
      std::fputs(err.str().c_str(), stderr);
    }
    return is_help ? 0 : kExitUsage;
  }
  return run(options, process);
}

// Says on the first rank what is wrong with the call of a program, and returns kExitUsage.
inline int usage_error(const MpiProcess& process, const char* program, const std::string& what) {
  if (process.is_first())
    std::fprintf(stderr, "%s: %s (see --help)\n", program, what.c_str());
  return kExitUsage;
}

// Prints the report on the first rank. The exit status: 0 if all of it is verified, and is_right.
inline int finish(const Report& report, const std::string& format, const MpiProcess& process, bool is_right = true) {
  if (process.is_first())
    report.print(format);
  return report.verified() && is_right ? 0 : kExitMismatch;
}

}  // namespace lanyard::bench

#endif  // LANYARD_BENCH_PROGRAM_H_
