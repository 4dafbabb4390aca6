// What benchmarks run on: streams of the host or of GPUs, queues on them, and requests. Objects of
// Lanyard's API, owned; every call is checked.
#ifndef LANYARD_BENCH_STREAMS_H_
#define LANYARD_BENCH_STREAMS_H_

#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <lanyard/lanyard.hpp>
#include "bench/program.h"
#include "bench/report.h"
#include "bench/stream.h"

namespace lanyard::bench {

// The values of an info, whole numbers as numbers.
Json to_json(const std::map<std::string, std::string>& info);

// A host stream of Lanyard's. It stands in for a GPU stream, and its functions for kernels.
class HostStream final : public Stream {
 public:
  Kind kind() const override { return Kind::kHost; }
  void synchronize() override { stream_.synchronize(); }

  // Enqueues kernel(argument); the argument must live until it has run.
  void launch(void (*kernel)(void*), void* argument) {
    if (MPIX_Host_stream_launch(stream_.handle(), kernel, argument) == MPI_SUCCESS) [[likely]]
      return;
    // Most likely the stream is full. Letting it run dry cannot deadlock: every wait enqueued so
    // far has its start enqueued before it, on every rank. A second failure is a real one.
    synchronize();
    stream_.launch(kernel, argument);
  }
  void launch(const CopyKernel& kernel) override;
  void launch(const halo::BoxCopies& copies) override;
  void launch(const JacobiKernel& kernel) override;
  void launch(const LifeKernel& kernel) override;
  void launch(const TripsKernel& kernel) override;

  const lanyard::HostStream& owned() const { return stream_; }

 private:
  lanyard::HostStream stream_;
};

// Persistent requests of this process: created, matched and freed together. Without a match they
// serve MPI_Start and MPI_Wait as usual.
class RequestSet {
 public:
  RequestSet() = default;
  // Requires that none is active.
  ~RequestSet() {
    for (Request& request : requests_)
      request.free();
  }
  RequestSet(const RequestSet&) = delete;
  RequestSet& operator=(const RequestSet&) = delete;

  void add_receive(void* buffer, size_t bytes, int peer, int tag) {
    add(Request::receive({buffer, bytes, MPI_BYTE}, peer, tag, MPI_COMM_WORLD));
  }
  void add_send(bool is_ready, const void* buffer, size_t bytes, int peer, int tag) {
    const auto make = is_ready ? Request::ready_send : Request::send;
    add(make({buffer, bytes, MPI_BYTE}, peer, tag, MPI_COMM_WORLD, {}));
  }
  void add(Request request) {
    handles_.push_back(request.handle());
    requests_.push_back(std::move(request));
  }

  // Before the match: makes `count` requests from `first` on an exchange, to be started and waited
  // for together. `set`: 0 or 1, used in turn with the other set of the same `name`.
  void merge(int first, int count, const std::string& name, std::optional<int> set = std::nullopt) {
    for (Request& request : part(first, count))
      set ? request.set_exchange(name, *set) : request.set_exchange(name);
  }
  // Matches all with the peers, which must do the same at the same time.
  void match() { match_all(requests_); }
  // After the match: what is in force for a request.
  Json facts(size_t index) const { return to_json(requests_[index].info()); }

  int count() const { return static_cast<int>(requests_.size()); }
  MPI_Request* data() { return handles_.data(); }
  MPI_Request& operator[](size_t index) { return handles_[index]; }
  std::span<Request> part(int first, int count) {
    return std::span(requests_).subspan(static_cast<size_t>(first), static_cast<size_t>(count));
  }

 private:
  std::vector<Request> requests_;
  std::vector<MPI_Request> handles_;  // of these
};

// A queue on a stream, which outlives it.
class StreamQueue {
 public:
  explicit StreamQueue(Stream& stream) : queue_(make(stream)) {}
  // Requires that the wait of every start has been enqueued.
  ~StreamQueue() { queue_.free(); }

  void start(MPI_Request& request) { check(MPIX_Enqueue_start(handle(), &request), "MPIX_Enqueue_start"); }
  void wait(MPI_Request& request) { check(MPIX_Enqueue_wait(handle(), &request), "MPIX_Enqueue_wait"); }
  void start_all(int count, MPI_Request* requests) {
    check(MPIX_Enqueue_startall(handle(), count, requests), "MPIX_Enqueue_startall");
  }
  void start_all(RequestSet& set) { start_all(set.count(), set.data()); }
  void wait_all(int count, MPI_Request* requests) {
    check(MPIX_Enqueue_waitall(handle(), count, requests), "MPIX_Enqueue_waitall");
  }
  void wait_all(RequestSet& set) { wait_all(set.count(), set.data()); }

  // A set of the requests for kernels on the stream, which must have ended when it goes. If it
  // cannot be had it is empty, and `why` says why.
  DeviceRequests make_set(std::span<Request> requests, std::string& why) {
    std::error_code error;
    DeviceRequests set(queue_, requests, error);
    if (error)
      why = "MPIX_Device_requests_create: " + error.message();
    return set;
  }

  // Blocks the caller until everything enqueued has completed, starts without a wait included.
  void drain() { check(MPIX_Queue_wait(handle()), "MPIX_Queue_wait"); }
  Json info() const { return to_json(queue_.info()); }
  // For C calls, borrowed.
  MPIX_Queue handle() const { return queue_.handle(); }

 private:
  static Queue make(Stream& stream) {
    if (stream.kind() == Stream::Kind::kHost)
      return Queue(static_cast<HostStream&>(stream).owned());
    void* const gpu_stream = *static_cast<void**>(stream.address());
    return stream.kind() == Stream::Kind::kCuda ? Queue::cuda(gpu_stream) : Queue::hip(gpu_stream);
  }

  Queue queue_;
};

// What add_memory() asks for.
class Streams {
 public:
  // GPUs if asked for and possible on every rank; else the host, and the program says why on
  // stderr. Collective over MPI_COMM_WORLD. Ranks of one host take its GPUs in turn.
  Streams(bool wants_device, const char* program, const MpiProcess& process);

  // A new stream, of the same kind on every rank.
  std::unique_ptr<Stream> make() const;
  bool has_device() const { return has_device_; }
  // Facts: memory, stream, device (rank 0's; empty for host memory).
  void describe(Report& report) const;

 private:
  int local_rank_ = 0;
  bool has_device_ = false;
  std::string kind_ = "host";
  std::string device_;
};

// ---- For reports

// Adds the card, its wire and the strategy from a queue's info, then the info. Null: no queue.
// A card that has wires is named card/wire.
void add_nic(Report& report, const Json& info);

// Adds to a row the entries posted and overflowed between two infos of a queue, and the counters
// open at the later one: the largest of all ranks. Null without a queue. Collective.
void add_entries(Json& row, const Json& before, const Json& after);

}  // namespace lanyard::bench

#endif  // LANYARD_BENCH_STREAMS_H_
