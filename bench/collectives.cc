// What a collective costs on a stream: persistent collectives that are matched and enqueued, beside what a program does
// without them: synchronise the stream, and call the MPI's. See README.md.
#include <mpi.h>

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include <lanyard/lanyard.h>
#include "bench/mpi_check.h"
#include "bench/mpi_process.h"
#include "bench/options.h"
#include "bench/queue_info.h"
#include "bench/statistics.h"

namespace lanyard::bench {
namespace {

using Value = int64_t;

struct Options {
  std::vector<std::string> collectives{"barrier", "broadcast", "allreduce", "allgather"};
  std::vector<uint64_t> bytes{8, 1024, 65536};
  int operations = 1000;
  int batch = 50;
  int trials = 7;
  Format format = Format::kText;
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

struct Row {
  std::string collective;
  uint64_t bytes = 0;
  std::string mode;
  Estimate us;  // an operation
  uint64_t entries = 0;
  bool verified = false;
};

class Measurement {
 public:
  Measurement(const MpiProcess& process, const Options& options) : process_(process), o_(options) {
    check(MPIX_Host_stream_create(&stream_), "MPIX_Host_stream_create");
    check(MPIX_Queue_init(&queue_, MPIX_QUEUE_HOST, &stream_), "MPIX_Queue_init");
  }
  ~Measurement() {
    check(MPIX_Queue_free(&queue_), "MPIX_Queue_free");
    check(MPIX_Host_stream_free(&stream_), "MPIX_Host_stream_free");
  }
  Measurement(const Measurement&) = delete;
  Measurement& operator=(const Measurement&) = delete;

  std::vector<Row> rows(const std::string& collective, uint64_t bytes) {
    Operation operation(process_, collective, bytes);
    std::vector<Row> rows;
    const auto measure = [&](const char* mode, uint64_t entries, const std::function<void(int)>& run) {
      Row& row = rows.emplace_back(Row{collective, bytes, mode, {}, entries, true});
      run(o_.batch);  // warms up
      std::vector<double> us;
      for (int trial = 0; trial < o_.trials; ++trial) {
        process_.barrier();
        const double begin = MPI_Wtime();
        for (int done = 0; done < o_.operations; done += o_.batch)
          run(std::min(o_.batch, o_.operations - done));
        us.push_back(process_.largest(MPI_Wtime() - begin) * 1e6 / o_.operations);
        row.verified = process_.all(operation.right()) && row.verified;
      }
      row.us = estimate(us);
    };
    MPI_Request request = operation.make();
    measure("persistent", 0, [&](int times) {
      for (int i = 0; i < times; ++i) {
        contribute(operation);
        synchronize();
        check(MPI_Start(&request), "MPI_Start");
        check(MPI_Wait(&request, MPI_STATUS_IGNORE), "MPI_Wait");
      }
    });
    measure("blocking", 0, [&](int times) {
      for (int i = 0; i < times; ++i) {
        contribute(operation);
        synchronize();
        operation.call();
      }
    });
    check(MPIX_Match(&request, MPI_STATUS_IGNORE), "MPIX_Match");
    measure("lanyard", entries_of(request), [&](int times) {
      for (int i = 0; i < times; ++i) {
        contribute(operation);
        check(MPIX_Enqueue_start(queue_, &request), "MPIX_Enqueue_start");
        check(MPIX_Enqueue_wait(queue_, &request), "MPIX_Enqueue_wait");
      }
      check(MPIX_Queue_wait(queue_), "MPIX_Queue_wait");
    });
    check(MPI_Request_free(&request), "MPI_Request_free");
    return rows;
  }
  QueueInfo info() const { return QueueInfo(queue_); }

 private:
  void contribute(Operation& operation) {
    check(MPIX_Host_stream_launch(stream_, Operation::contribute, &operation), "MPIX_Host_stream_launch");
  }
  void synchronize() { check(MPIX_Host_stream_synchronize(stream_), "MPIX_Host_stream_synchronize"); }
  static uint64_t entries_of(MPI_Request request) {
    MPI_Info info = MPI_INFO_NULL;
    char text[MPI_MAX_INFO_VAL + 1] = "0";
    int found = 0;
    check(MPIX_Request_get_info(request, &info), "MPIX_Request_get_info");
    check(MPI_Info_get(info, "lanyard_entries", MPI_MAX_INFO_VAL, text, &found), "MPI_Info_get");
    check(MPI_Info_free(&info), "MPI_Info_free");
    return std::stoull(text);
  }

  const MpiProcess& process_;
  const Options& o_;
  MPIX_Host_stream stream_ = MPIX_HOST_STREAM_NULL;
  MPIX_Queue queue_ = MPIX_QUEUE_NULL;
};

void print_header(const Options& o, int ranks) {
  if (o.format == Format::kCsv) {
    fmt::print("mpi,ranks,batch,trials,collective,bytes,mode,us_mean,us_ci95,us_min,ratio,entries,verified\n");
    return;
  }
  fmt::print("Collectives on a host stream, {} ranks, {}, {} trials of {} operations, {} enqueued at once\n", ranks,
             mpi_library(), o.trials, o.operations, o.batch);
  fmt::print("{:<10} {:>9} {:<11} {:>10} {:>8} {:>10} {:>7} {:>8}\n", "collective", "bytes", "mode", "us", "+-",
             "least", "ratio", "entries");
}

// `baseline`: of the MPI's persistent collective in this run.
void print(const Options& o, int ranks, const Row& row, double baseline) {
  const std::string interval = row.us.ci95 ? fmt::format("{:.3f}", *row.us.ci95) : "";
  if (o.format == Format::kCsv)
    fmt::print("{},{},{},{},{},{},{},{:.4f},{},{:.4f},{:.4f},{},{}\n", csv_field(mpi_library()), ranks, o.batch,
               o.trials, row.collective, row.bytes, row.mode, row.us.mean, interval, row.us.min, row.us.mean / baseline,
               row.entries, row.verified ? "yes" : "no");
  else
    fmt::print("{:<10} {:>9} {:<11} {:>10.3f} {:>8} {:>10.3f} {:>6.2f}x {:>8}{}\n", row.collective, row.bytes, row.mode,
               row.us.mean, interval, row.us.min, row.us.mean / baseline, row.entries, row.verified ? "" : "  WRONG");
}

// `baseline` as above.
nlohmann::ordered_json to_json(const Row& row, double baseline) {
  nlohmann::ordered_json item;
  item["collective"] = row.collective;
  item["bytes"] = row.bytes;
  item["mode"] = row.mode;
  item["us_mean"] = row.us.mean;
  item["us_ci95"] = row.us.ci95 ? nlohmann::ordered_json(*row.us.ci95) : nlohmann::ordered_json(nullptr);
  item["us_min"] = row.us.min;
  item["ratio"] = row.us.mean / baseline;
  item["entries"] = row.entries;
  item["verified"] = row.verified;
  return item;
}

void print_json(const Options& o, int ranks, bool verified, const nlohmann::ordered_json& rows, const QueueInfo& nic) {
  nlohmann::ordered_json out;
  out["benchmark"] = "collectives";
  out["verified"] = verified;
  out["mpi"] = mpi_library();
  out["ranks"] = ranks;
  out["operations"] = o.operations;
  out["batch"] = o.batch;
  out["trials"] = o.trials;
  out["rows"] = rows;
  out["nic"] = nic.json();
  fmt::print("{}\n", out.dump(2));
}

int run(int argc, char** argv, const MpiProcess& process) {
  Options options;
  CLI::App app{"What a collective costs on a stream: matched and enqueued, beside the MPI's behind a synchronisation."};
  declare(app, options);
  if (const auto status = parse(app, argc, argv, process))
    return *status;
  for (const uint64_t bytes : options.bytes)
    if (bytes % sizeof(Value) != 0)
      return usage_error(process, "collectives", fmt::format("--bytes takes multiples of 8, not {}", bytes));
  const bool is_json = options.format == Format::kJson;
  if (process.is_first() && !is_json)
    print_header(options, process.ranks());
  bool right = true;
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  Measurement measurement(process, options);
  for (const std::string& collective : options.collectives) {
    // A barrier has no bytes.
    const std::vector<uint64_t> sizes = collective == "barrier" ? std::vector<uint64_t>{0} : options.bytes;
    for (const uint64_t bytes : sizes) {
      const std::vector<Row> rows = measurement.rows(collective, bytes);
      for (const Row& row : rows) {
        right = right && row.verified;
        if (is_json)
          list.push_back(to_json(row, rows.front().us.mean));
        else if (process.is_first())
          print(options, process.ranks(), row, rows.front().us.mean);
      }
    }
  }
  const QueueInfo nic = measurement.info();
  if (process.is_first() && is_json)
    print_json(options, process.ranks(), right, list, nic);
  return right ? 0 : kExitMismatch;
}

}  // namespace
}  // namespace lanyard::bench

int main(int argc, char** argv) {
  lanyard::bench::MpiProcess process(&argc, &argv);
  return lanyard::bench::run(argc, argv, process);
}
