// Objects of Lanyard's API, owned; every call is checked.
#ifndef LANYARD_BENCH_QUEUE_H_
#define LANYARD_BENCH_QUEUE_H_

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include <lanyard/lanyard.h>
#include "bench/program.h"
#include "bench/report.h"
#include "bench/stream.h"

namespace lanyard::bench {

// The keys and values of an MPI_Info, whole numbers as numbers. Frees it.
inline Json take(MPI_Info info) {
  Json entries = Json::object();
  int keys = 0;
  check(MPI_Info_get_nkeys(info, &keys), "MPI_Info_get_nkeys");
  for (int i = 0; i < keys; ++i) {
    char key[MPI_MAX_INFO_KEY + 1] = "", value[MPI_MAX_INFO_VAL + 1] = "";
    int found = 0;
    check(MPI_Info_get_nthkey(info, i, key), "MPI_Info_get_nthkey");
    check(MPI_Info_get(info, key, MPI_MAX_INFO_VAL, value, &found), "MPI_Info_get");
    char* end = value;
    const long long number = std::strtoll(value, &end, 10);
    entries[key] = end != value && *end == '\0' ? Json(number) : Json(value);
  }
  check(MPI_Info_free(&info), "MPI_Info_free");
  return entries;
}

// Persistent requests of this process: created, matched and freed together. Without a match they
// serve MPI_Start and MPI_Wait as usual.
class RequestSet {
 public:
  RequestSet() = default;
  ~RequestSet() { free(); }
  RequestSet(const RequestSet&) = delete;
  RequestSet& operator=(const RequestSet&) = delete;

  void add_receive(void* buffer, size_t bytes, int peer, int tag, MPI_Comm comm = MPI_COMM_WORLD) {
    requests_.push_back(MPI_REQUEST_NULL);
    check(MPI_Recv_init(buffer, static_cast<int>(bytes), MPI_BYTE, peer, tag, comm, &requests_.back()),
          "MPI_Recv_init");
  }
  void add_send(bool is_ready, const void* buffer, size_t bytes, int peer, int tag, MPI_Comm comm = MPI_COMM_WORLD) {
    requests_.push_back(MPI_REQUEST_NULL);
    const auto init = is_ready ? MPI_Rsend_init : MPI_Send_init;
    check(init(buffer, static_cast<int>(bytes), MPI_BYTE, peer, tag, comm, &requests_.back()),
          is_ready ? "MPI_Rsend_init" : "MPI_Send_init");
  }

  // One that was made elsewhere.
  void add(MPI_Request request) { requests_.push_back(request); }

  // Before the match: makes `count` requests from `first` on an exchange, to be started and waited
  // for together. `set`: 0 or 1, used in turn with the other set of the same `name`; or "none".
  void merge(int first, int count, const std::string& name, const std::string& set) {
    MPI_Info info = MPI_INFO_NULL;
    check(MPI_Info_create(&info), "MPI_Info_create");
    check(MPI_Info_set(info, "lanyard_exchange", name.c_str()), "MPI_Info_set");
    check(MPI_Info_set(info, "lanyard_exchange_set", set.c_str()), "MPI_Info_set");
    for (int i = first; i < first + count; ++i)
      check(MPIX_Request_set_info(requests_[static_cast<size_t>(i)], info), "MPIX_Request_set_info");
    check(MPI_Info_free(&info), "MPI_Info_free");
  }

  // After the match: what is in force for a request.
  Json facts(size_t index) const {
    MPI_Info info = MPI_INFO_NULL;
    check(MPIX_Request_get_info(requests_[index], &info), "MPIX_Request_get_info");
    return take(info);
  }

  // Matches all with the peers, which must do the same at the same time. Why it failed, or nothing.
  std::string try_match() {
    std::vector<MPI_Status> statuses(requests_.size());
    for (MPI_Status& status : statuses)
      status.MPI_ERROR = MPI_SUCCESS;
    const int code = MPIX_Matchall(count(), requests_.data(), statuses.data());
    if (code == MPI_SUCCESS)
      return "";
    has_failed_ = true;
    int error_class = MPI_SUCCESS;
    check(MPI_Error_class(code, &error_class), "MPI_Error_class");
    // "In status" says nothing by itself: the first request that failed has the reason.
    for (size_t i = 0; error_class == MPI_ERR_IN_STATUS && i < statuses.size(); ++i) {
      if (statuses[i].MPI_ERROR != MPI_SUCCESS && statuses[i].MPI_ERROR != MPI_ERR_PENDING)
        return "request " + std::to_string(i) + " of " + std::to_string(statuses.size()) + ": " +
               mpi_error_text(statuses[i].MPI_ERROR);
    }
    return mpi_error_text(code);
  }
  void match() {
    const std::string why = try_match();
    if (why.empty())
      return;
    std::fprintf(stderr, "MPIX_Matchall: %s\n", why.c_str());
    MPI_Abort(MPI_COMM_WORLD, 1);
  }

  // Requires that none is active. After a failed match some may still be waiting for their peer and
  // cannot be freed: they are left behind.
  void free() {
    for (MPI_Request& request : requests_) {
      if (request == MPI_REQUEST_NULL)
        continue;
      const int code = MPI_Request_free(&request);
      if (!has_failed_)
        check(code, "MPI_Request_free");
    }
    requests_.clear();
  }

  int count() const { return static_cast<int>(requests_.size()); }
  MPI_Request* data() { return requests_.data(); }
  MPI_Request& operator[](size_t index) { return requests_[index]; }

 private:
  std::vector<MPI_Request> requests_;
  bool has_failed_ = false;
};

// A queue on a stream.
class StreamQueue {
 public:
  explicit StreamQueue(Stream& stream) {
    check(MPIX_Queue_init(&queue_, type(stream), stream.address()), "MPIX_Queue_init");
  }
  // Why there can be no queue on the stream whose requests move the stream's memory; empty if there
  // can.
  static std::string refusal(Stream& stream) {
    MPIX_Queue queue = MPIX_QUEUE_NULL;
    const int code = MPIX_Queue_init(&queue, type(stream), stream.address());
    if (code != MPI_SUCCESS)
      return "MPIX_Queue_init: " + mpi_error_text(code);
    const Json info = info_of(queue);
    check(MPIX_Queue_free(&queue), "MPIX_Queue_free");
    if (stream.gpu() != nullptr && info.value("device_memory", "") != "yes")
      return "the network card (" + info.value("nic", "") + ") does not reach GPU memory";
    return "";
  }
  // Requires that the wait of every start has been enqueued.
  ~StreamQueue() { check(MPIX_Queue_free(&queue_), "MPIX_Queue_free"); }
  StreamQueue(const StreamQueue&) = delete;
  StreamQueue& operator=(const StreamQueue&) = delete;

  void start(MPI_Request& request) { check(MPIX_Enqueue_start(queue_, &request), "MPIX_Enqueue_start"); }
  void wait(MPI_Request& request) { check(MPIX_Enqueue_wait(queue_, &request), "MPIX_Enqueue_wait"); }
  void start_all(int count, MPI_Request* requests) {
    check(MPIX_Enqueue_startall(queue_, count, requests), "MPIX_Enqueue_startall");
  }
  void start_all(RequestSet& set) { start_all(set.count(), set.data()); }
  void wait_all(int count, MPI_Request* requests) {
    check(MPIX_Enqueue_waitall(queue_, count, requests), "MPIX_Enqueue_waitall");
  }
  void wait_all(RequestSet& set) { wait_all(set.count(), set.data()); }

  // A set of the requests for kernels on the stream, which must have ended when it is freed. Why it
  // cannot be had, or nothing.
  std::string try_make_set(int count, MPI_Request* requests, MPIX_Device_requests*& set) {
    const int code = MPIX_Device_requests_create(queue_, count, requests, &set);
    return code == MPI_SUCCESS ? "" : "MPIX_Device_requests_create: " + mpi_error_text(code);
  }
  void free_set(MPIX_Device_requests*& set) {
    check(MPIX_Device_requests_free(queue_, &set), "MPIX_Device_requests_free");
  }

  // Blocks the caller until everything enqueued has completed, starts without a wait included.
  void drain() { check(MPIX_Queue_wait(queue_), "MPIX_Queue_wait"); }
  Json info() const { return info_of(queue_); }
  // For C calls, borrowed.
  MPIX_Queue handle() const { return queue_; }

 private:
  static Json info_of(MPIX_Queue queue) {
    MPI_Info info = MPI_INFO_NULL;
    check(MPIX_Queue_get_info(queue, &info), "MPIX_Queue_get_info");
    return take(info);
  }
  static MPIX_Queue_type type(const Stream& stream) {
    switch (stream.kind()) {
      case Stream::Kind::kCuda: return MPIX_QUEUE_CUDA;
      case Stream::Kind::kHip: return MPIX_QUEUE_HIP;
      default: return MPIX_QUEUE_HOST;
    }
  }

  MPIX_Queue queue_ = MPIX_QUEUE_NULL;
};

// ---- For reports

// Adds the card, its wire and the strategy from a queue's info, then the info. Null: no queue.
// A card that has wires is named card/wire.
inline void add_nic(Report& report, const Json& info) {
  if (info.is_null())
    return report.remark("NIC: none (no stream mode)");
  const std::string nic = info.value("nic", "");
  const size_t slash = nic.find('/');
  const std::string wire = slash == std::string::npos ? "its own" : nic.substr(slash + 1);
  report.remark("NIC: " + nic.substr(0, slash) + ", wire: " + wire + ", strategy: " + info.value("strategy", "") +
                ", deferred-work entries: " + info.at("entries_depth").dump());
  report.fact("nic", info);
}

// Adds to a row the entries posted and overflowed between two infos of a queue, and the counters
// open at the later one: the largest of all ranks. Null without a queue. Collective.
inline void add_entries(Json& row, const Json& before, const Json& after) {
  for (const char* key : {"counters", "entries_posted", "entries_overflowed"}) {
    row[key] = nullptr;
    if (after.is_null())
      continue;
    long long value = after.value(key, 0LL);
    if (std::string(key) != "counters")
      value -= before.value(key, 0LL);
    check(MPI_Allreduce(MPI_IN_PLACE, &value, 1, MPI_LONG_LONG, MPI_MAX, MPI_COMM_WORLD), "MPI_Allreduce");
    row[key] = value;
  }
}

}  // namespace lanyard::bench

#endif  // LANYARD_BENCH_QUEUE_H_
