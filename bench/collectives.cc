// Measures collectives on a stream: persistent ones, matched and enqueued, beside the usual way of
// synchronising the stream and calling MPI. See README.md.
#include <mpi.h>

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <lanyard/lanyard.h>
#include "bench/program.h"
#include "bench/streams.h"

namespace lanyard::bench {
namespace {

using Value = int64_t;

struct Options {
  std::vector<std::string> collectives{"barrier", "broadcast", "allreduce", "allgather"};
  std::vector<uint64_t> bytes{8, 1024, 65536};
  int operations = 1000;
  int batch = 50;
  int trials = 7;
  std::string format = "text";
};

void declare(CLI::App& app, Options& o) {
  app.add_option("--collectives", o.collectives,
                 "a comma list of barrier, broadcast, allreduce, allgather (default: all)")
      ->delimiter(',')
      ->check(CLI::IsMember({"barrier", "broadcast", "allreduce", "allgather"}));
  app.add_option("--bytes", o.bytes, "of a contribution, multiples of 8, a comma list (default: 8,1024,65536)")
      ->delimiter(',')
      ->check(CLI::Range(uint64_t{8}, uint64_t{1} << 26));
  app.add_option("--operations", o.operations, "timed, one after the other (default: 1000)")
      ->check(CLI::Range(1, 10000000));
  app.add_option("--batch", o.batch, "operations enqueued before the host waits (default: 50)")
      ->check(CLI::Range(1, 1000000));
  app.add_option("--trials", o.trials, "for mean and interval (default: 7)")->check(CLI::Range(1, 1000));
  add_format(app, o.format);
}

// One collective on 64-bit integers, and the kernel that makes its contributions.
class Operation {
 public:
  Operation(const MpiProcess& process, std::string name, uint64_t bytes)
      : process_(process),
        name_(std::move(name)),
        elements_(bytes / sizeof(Value)),
        own_(elements_),
        all_(elements_ * (name_ == "allgather" ? static_cast<size_t>(process.ranks()) : 1)) {}

  // Before each operation, on the stream.
  static void contribute(void* operation) {
    auto& self = *static_cast<Operation*>(operation);
    ++self.round_;
    Value* own = self.own();
    for (size_t i = 0; i < self.elements_; ++i)
      own[i] = self.contribution(self.process_.rank(), i);
  }

  void call() {
    if (name_ == "barrier")
      check(MPI_Barrier(MPI_COMM_WORLD), "MPI_Barrier");
    else if (name_ == "broadcast")
      check(MPI_Bcast(own(), count(), MPI_INT64_T, 0, MPI_COMM_WORLD), "MPI_Bcast");
    else if (name_ == "allreduce")
      check(MPI_Allreduce(own(), all_.data(), count(), MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD), "MPI_Allreduce");
    else
      check(MPI_Allgather(MPI_IN_PLACE, count(), MPI_INT64_T, all_.data(), count(), MPI_INT64_T, MPI_COMM_WORLD),
            "MPI_Allgather");
  }

  MPI_Request make() {
    MPI_Request request = MPI_REQUEST_NULL;
    if (name_ == "barrier")
      check(MPIX_Barrier_init(MPI_COMM_WORLD, MPI_INFO_NULL, &request), "MPIX_Barrier_init");
    else if (name_ == "broadcast")
      check(MPIX_Bcast_init(own(), count(), MPI_INT64_T, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &request),
            "MPIX_Bcast_init");
    else if (name_ == "allreduce")
      check(MPIX_Allreduce_init(own(), all_.data(), count(), MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL,
                                &request),
            "MPIX_Allreduce_init");
    else
      check(MPIX_Allgather_init(MPI_IN_PLACE, count(), MPI_INT64_T, all_.data(), count(), MPI_INT64_T, MPI_COMM_WORLD,
                                MPI_INFO_NULL, &request),
            "MPIX_Allgather_init");
    return request;
  }

  // Whether the last operation has brought what it should have.
  bool right() const {
    const auto ranks = process_.ranks();
    for (size_t i = 0; i < elements_; ++i) {
      if (name_ == "broadcast" && own_[i] != contribution(0, i))
        return false;
      Value sum = 0;
      for (int of = 0; of < ranks; ++of) {
        sum += contribution(of, i);
        if (name_ == "allgather" && all_[static_cast<size_t>(of) * elements_ + i] != contribution(of, i))
          return false;
      }
      if (name_ == "allreduce" && all_[i] != sum)
        return false;
    }
    return true;
  }

 private:
  int count() const { return static_cast<int>(elements_); }
  // An allgather is in place.
  Value* own() { return name_ == "allgather" ? &all_[static_cast<size_t>(process_.rank()) * elements_] : own_.data(); }
  Value contribution(int of, size_t i) const { return round_ * 1000003 + of * 7919 + static_cast<Value>(i); }

  const MpiProcess& process_;
  const std::string name_;
  const size_t elements_;
  std::vector<Value> own_, all_;
  Value round_ = 0;
};

class Collectives {
 public:
  Collectives(const Options& options, const MpiProcess& process) : process_(process), o_(options) {}

  // The exit status.
  int run() {
    report_.fact("mpi", mpi_library());
    report_.fact("ranks", process_.ranks());
    report_.fact("operations", o_.operations);
    report_.fact("batch", o_.batch);
    report_.fact("trials", o_.trials);
    for (const std::string& collective : o_.collectives)
      // A barrier has no bytes.
      for (const uint64_t bytes : collective == "barrier" ? std::vector<uint64_t>{0} : o_.bytes)
        measure(collective, bytes);
    add_nic(report_, queue_.info());
    return finish(report_, o_.format, process_);
  }

 private:
  // The MPI's persistent collective, the baseline; its blocking one; and Lanyard's.
  void measure(const std::string& collective, uint64_t bytes) {
    Operation operation(process_, collective, bytes);
    double baseline = 0;
    const auto add_row = [&](const char* mode, const Json& entries, const auto& run) {
      bool verified = true;
      run(o_.batch);  // warms up
      std::vector<double> trials;
      for (int trial = 0; trial < o_.trials; ++trial) {
        const double seconds = process_.timed([&] {
          for (int done = 0; done < o_.operations; done += o_.batch)
            run(std::min(o_.batch, o_.operations - done));
        });
        trials.push_back(seconds * 1e6 / o_.operations);
        verified = process_.all(operation.right()) && verified;
      }
      const Estimate us = estimate(trials);
      baseline = baseline > 0 ? baseline : us.mean;
      report_.add({{"collective", collective},
                   {"bytes", bytes},
                   {"mode", mode},
                   {"us_mean", us.mean},
                   {"us_ci95", us.ci95},
                   {"us_min", us.min},
                   {"ratio", us.mean / baseline},
                   {"entries", entries},
                   {"verified", verified}});
    };
    RequestSet requests;
    requests.add(Request(operation.make()));
    MPI_Request& request = requests[0];
    add_row("persistent", Json(), [&](int times) {
      for (int i = 0; i < times; ++i) {
        stream_.launch(Operation::contribute, &operation);
        stream_.synchronize();
        check(MPI_Start(&request), "MPI_Start");
        check(MPI_Wait(&request, MPI_STATUS_IGNORE), "MPI_Wait");
      }
    });
    add_row("blocking", Json(), [&](int times) {
      for (int i = 0; i < times; ++i) {
        stream_.launch(Operation::contribute, &operation);
        stream_.synchronize();
        operation.call();
      }
    });
    requests.match();
    add_row("lanyard", requests.facts(0).at("lanyard_entries"), [&](int times) {
      for (int i = 0; i < times; ++i) {
        stream_.launch(Operation::contribute, &operation);
        queue_.start(request);
        queue_.wait(request);
      }
      queue_.drain();
    });
  }

  const MpiProcess& process_;
  const Options& o_;
  Report report_{"collectives"};
  HostStream stream_;
  StreamQueue queue_{stream_};
};

int run(const Options& options, const MpiProcess& process) {
  for (const uint64_t bytes : options.bytes)
    if (bytes % sizeof(Value) != 0)
      return usage_error(process, "collectives", fmt::format("--bytes takes multiples of 8, not {}", bytes));
  return Collectives(options, process).run();
}

}  // namespace
}  // namespace lanyard::bench

int main(int argc, char** argv) {
  using namespace lanyard::bench;
  return run_program(
      argc, argv,
      "What a collective costs on a stream: matched and enqueued, beside the MPI's behind a synchronisation.", declare,
      run);
}
