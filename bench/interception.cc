// What MPI's own calls cost more because Lanyard follows them. Each call is made by its name, which comes by Lanyard,
// and by the MPI's profiling name, which does not. See README.md.
//
//   --instructions N  makes each call N times for callgrind, which bench/interception.sh starts
//   --unexpected N    times MPI_Test of a receive beside N unexpected messages and an unmatched persistent request
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <string>
#include <vector>

#include <lanyard/lanyard.h>
#include "bench/mpi_check.h"
#include "bench/mpi_process.h"
#include "bench/options.h"

// The name by which the MPI has a persistent collective and Lanyard does not.
#if MPI_VERSION >= 4
#define OF_MPI(name) PMPI_##name
#else
#include <mpi-ext.h>
#define OF_MPI(name) PMPIX_##name
#endif

#if __has_include(<valgrind/callgrind.h>)
#include <valgrind/callgrind.h>
#else
#define CALLGRIND_START_INSTRUMENTATION static_cast<void>(0)
#define CALLGRIND_STOP_INSTRUMENTATION static_cast<void>(0)
#define CALLGRIND_TOGGLE_COLLECT static_cast<void>(0)
#define CALLGRIND_ZERO_STATS static_cast<void>(0)
#define CALLGRIND_DUMP_STATS_AT(text) static_cast<void>(0)
#endif

namespace lanyard::bench {
namespace {

constexpr int kManyRequests = 16;
constexpr int kWarmups = 8;
constexpr int kTag = 77;      // of receives that nobody sends to
constexpr int kOtherTag = 5;  // of messages that nobody receives
constexpr int kMatchedTag = 3;

// A call by one name or the other.
struct Layer {
  const char* name;
  decltype(&MPI_Test) test;
  decltype(&MPI_Testall) testall;
  decltype(&MPI_Wait) wait;
  decltype(&MPI_Waitall) waitall;
  decltype(&MPI_Start) start;
  decltype(&MPI_Recv_init) recv_init;
  decltype(&MPIX_Barrier_init) barrier_init;
  decltype(&MPIX_Allreduce_init) allreduce_init;
  decltype(&MPI_Request_free) request_free;
  decltype(&MPI_Comm_dup) comm_dup;
  decltype(&MPI_Comm_free) comm_free;
};
constexpr Layer kLayers[] = {
    {"lanyard", MPI_Test, MPI_Testall, MPI_Wait, MPI_Waitall, MPI_Start, MPI_Recv_init, MPIX_Barrier_init,
     MPIX_Allreduce_init, MPI_Request_free, MPI_Comm_dup, MPI_Comm_free},
    {"mpi", PMPI_Test, PMPI_Testall, PMPI_Wait, PMPI_Waitall, PMPI_Start, PMPI_Recv_init, OF_MPI(Barrier_init),
     OF_MPI(Allreduce_init), PMPI_Request_free, PMPI_Comm_dup, PMPI_Comm_free},
};

// Receives that do not complete.
class Pending {
 public:
  Pending() {
    for (size_t i = 0; i < requests_.size(); ++i)
      check(MPI_Irecv(&values_[i], 1, MPI_INT, 0, kTag, MPI_COMM_SELF, &requests_[i]), "MPI_Irecv");
  }
  ~Pending() {
    for (MPI_Request& request : requests_) {
      check(MPI_Cancel(&request), "MPI_Cancel");
      check(MPI_Wait(&request, MPI_STATUS_IGNORE), "MPI_Wait");
    }
  }
  Pending(const Pending&) = delete;
  Pending& operator=(const Pending&) = delete;

  MPI_Request* data() { return requests_.data(); }

 private:
  std::array<int, kManyRequests> values_{};
  std::array<MPI_Request, kManyRequests> requests_{};
};

template <typename Call>
void count(const std::string& label, int times, Call call) {
  for (int i = 0; i < kWarmups; ++i)
    call();
  CALLGRIND_ZERO_STATS;
  CALLGRIND_TOGGLE_COLLECT;
  for (int i = 0; i < times; ++i)
    call();
  CALLGRIND_TOGGLE_COLLECT;
  CALLGRIND_DUMP_STATS_AT(label.c_str());
}

MPI_Request send_to_nobody() {
  MPI_Request request = MPI_REQUEST_NULL;
  PMPI_Isend(nullptr, 0, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_SELF, &request);
  return request;
}

// Every call by both names, beside whatever is alive. What must come before a call comes by the profiling name.
void count_calls(const std::string& alive, int times, MPI_Request persistent) {
  Pending pending;
  for (const Layer& layer : kLayers) {
    int flag = 0, sum = 0;
    const auto label = [&](const char* call) { return fmt::format("{} {} {}", call, alive, layer.name); };
    count(label("Test"), times, [&] { layer.test(pending.data(), &flag, MPI_STATUS_IGNORE); });
    count(label("Testall(16)"), times,
          [&] { layer.testall(kManyRequests, pending.data(), &flag, MPI_STATUSES_IGNORE); });
    count(label("Wait"), times, [&] {
      MPI_Request request = send_to_nobody();
      layer.wait(&request, MPI_STATUS_IGNORE);
    });
    count(label("Waitall(2)"), times, [&] {
      MPI_Request requests[] = {send_to_nobody(), send_to_nobody()};
      layer.waitall(2, requests, MPI_STATUSES_IGNORE);
    });
    count(label("Request_free"), times, [&] {
      MPI_Request request = send_to_nobody();
      layer.request_free(&request);
    });
    if (persistent != MPI_REQUEST_NULL)
      count(label("Start"), times, [&] {
        layer.start(&persistent);
        PMPI_Wait(&persistent, MPI_STATUS_IGNORE);
      });
    count(label("Recv_init+free"), times, [&] {
      MPI_Request request;
      layer.recv_init(&flag, 1, MPI_INT, 0, kTag, MPI_COMM_SELF, &request);
      layer.request_free(&request);
    });
    count(label("Barrier_init+free"), times, [&] {
      MPI_Request request;
      layer.barrier_init(MPI_COMM_SELF, MPI_INFO_NULL, &request);
      layer.request_free(&request);
    });
    count(label("Allreduce_init+free"), times, [&] {
      MPI_Request request;
      layer.allreduce_init(&flag, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_SELF, MPI_INFO_NULL, &request);
      layer.request_free(&request);
    });
    count(label("Comm_dup+free"), std::max(1, times / 10), [&] {
      MPI_Comm copy;
      layer.comm_dup(MPI_COMM_SELF, &copy);
      layer.comm_free(&copy);
    });
  }
}

void count_all(int times) {
  CALLGRIND_START_INSTRUMENTATION;
  count_calls("nothing", times, MPI_REQUEST_NULL);
  int value = 0;
  MPI_Request persistent;
  check(MPI_Send_init(&value, 1, MPI_INT, MPI_PROC_NULL, kTag, MPI_COMM_SELF, &persistent), "MPI_Send_init");
  count_calls("persistent", times, persistent);
  std::array<MPI_Request, 2> matched;
  check(MPI_Recv_init(&value, 1, MPI_INT, 0, kMatchedTag, MPI_COMM_SELF, &matched[0]), "MPI_Recv_init");
  check(MPI_Send_init(&value, 1, MPI_INT, 0, kMatchedTag, MPI_COMM_SELF, &matched[1]), "MPI_Send_init");
  check(MPIX_Matchall(2, matched.data(), MPI_STATUSES_IGNORE), "MPIX_Matchall");
  count_calls("matched", times, persistent);
  CALLGRIND_STOP_INSTRUMENTATION;
  for (MPI_Request* request : {&matched[0], &matched[1], &persistent})
    check(MPI_Request_free(request), "MPI_Request_free");
}

double nanoseconds(decltype(&MPI_Test) test, MPI_Request* request, int times) {
  int flag = 0;
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < times; ++i)
    test(request, &flag, MPI_STATUS_IGNORE);
  return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - begin).count() / times;
}

// By turns, so that both meet the same machine; medians.
void time_test(int unexpected, const MpiProcess& process) {
  constexpr int kTurns = 21;
  constexpr int kTimes = 2000;
  int value = 0;
  int received = 0;
  std::vector<MPI_Request> sends(static_cast<size_t>(unexpected));
  for (MPI_Request& send : sends)
    check(MPI_Isend(&value, 1, MPI_INT, 0, kOtherTag, MPI_COMM_SELF, &send), "MPI_Isend");
  MPI_Request persistent;
  check(MPI_Recv_init(&value, 1, MPI_INT, 0, kTag, MPI_COMM_SELF, &persistent), "MPI_Recv_init");
  {
    Pending pending;
    std::array<std::vector<double>, 2> times;
    for (int turn = 0; turn < kTurns; ++turn) {
      times[0].push_back(nanoseconds(MPI_Test, pending.data(), kTimes));
      times[1].push_back(nanoseconds(PMPI_Test, pending.data(), kTimes));
    }
    for (std::vector<double>& some : times)
      std::nth_element(some.begin(), some.begin() + kTurns / 2, some.end());
    const double ours = times[0][kTurns / 2], plain = times[1][kTurns / 2];
    if (process.is_first())
      fmt::print("unexpected {} MPI_Test {:.1f} ns, without Lanyard {:.1f} ns, {:.2f} times\n", unexpected, ours, plain,
                 ours / plain);
  }
  check(MPI_Request_free(&persistent), "MPI_Request_free");
  for (int i = 0; i < unexpected; ++i)
    check(MPI_Recv(&received, 1, MPI_INT, 0, kOtherTag, MPI_COMM_SELF, MPI_STATUS_IGNORE), "MPI_Recv");
  check(MPI_Waitall(unexpected, sends.data(), MPI_STATUSES_IGNORE), "MPI_Waitall");
}

int run(int argc, char** argv, const MpiProcess& process) {
  int instructions = 0;
  int unexpected = 20'000;
  CLI::App app{"What MPI's own calls cost more because Lanyard follows them."};
  app.add_option("--instructions", instructions, "make each call so many times, for callgrind (default: 0, off)")
      ->check(CLI::Range(0, 1'000'000));
  app.add_option("--unexpected", unexpected, "unexpected messages beside which MPI_Test is timed (default: 20000)")
      ->check(CLI::Range(0, 1'000'000));
  if (const auto status = parse(app, argc, argv, process))
    return *status;
  if (instructions > 0)
    count_all(instructions);
  else
    time_test(unexpected, process);
  return 0;
}

}  // namespace
}  // namespace lanyard::bench

int main(int argc, char** argv) {
  lanyard::bench::MpiProcess process(&argc, &argv);
  return lanyard::bench::run(argc, argv, process);
}
