// Persistent requests of one process, owned: created, matched together, freed together.
//
// The standard's MPI_Send_init, MPI_Rsend_init and MPI_Recv_init make them; MPIX_Matchall pairs
// each with its peer's for good. A set that is never matched serves MPI_Start and MPI_Wait as
// usual.
#ifndef LANYARD_BENCH_REQUEST_SET_H_
#define LANYARD_BENCH_REQUEST_SET_H_

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include <lanyard/lanyard.h>
#include "bench/mpi_check.h"

namespace lanyard::bench {

enum class SendKind { kRegular, kReady };

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
  void add_send(SendKind kind, const void* buffer, size_t bytes, int peer, int tag, MPI_Comm comm = MPI_COMM_WORLD) {
    requests_.push_back(MPI_REQUEST_NULL);
    const auto init = kind == SendKind::kReady ? MPI_Rsend_init : MPI_Send_init;
    check(init(buffer, static_cast<int>(bytes), MPI_BYTE, peer, tag, comm, &requests_.back()),
          kind == SendKind::kReady ? "MPI_Rsend_init" : "MPI_Send_init");
  }

  // One that was made elsewhere.
  void add(MPI_Request request) { requests_.push_back(request); }

  // Before the match: so many of them, from `first` on, are started and waited for together from then on. `set`: in
  // turn with those of the other set, 0 or 1, of that name; or "none".
  void merge(int first, int count, const std::string& name, const std::string& set) {
    MPI_Info info = MPI_INFO_NULL;
    check(MPI_Info_create(&info), "MPI_Info_create");
    check(MPI_Info_set(info, "lanyard_exchange", name.c_str()), "MPI_Info_set");
    check(MPI_Info_set(info, "lanyard_exchange_set", set.c_str()), "MPI_Info_set");
    for (int i = first; i < first + count; ++i)
      check(MPIX_Request_set_info(requests_[static_cast<size_t>(i)], info), "MPIX_Request_set_info");
    check(MPI_Info_free(&info), "MPI_Info_free");
  }

  // After the match: why the hint of merge() is not in force for a request, or nothing.
  std::string why_not_merged(size_t index) const { return fact_of(index, "lanyard_exchange_why"); }
  // After the match: whether GPUs carry its messages themselves.
  bool goes_by_lane(size_t index) const { return fact_of(index, "lanyard_route") == "lane"; }

  // After the match: deferred-work entries that a start takes of the card.
  uint64_t entries(size_t index) const { return std::stoull(fact_of(index, "lanyard_entries")); }

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
  // What is in force; empty where it does not apply.
  std::string fact_of(size_t index, const char* key) const {
    MPI_Info info = MPI_INFO_NULL;
    check(MPIX_Request_get_info(requests_[index], &info), "MPIX_Request_get_info");
    char value[MPI_MAX_INFO_VAL + 1] = "";
    int found = 0;
    check(MPI_Info_get(info, key, MPI_MAX_INFO_VAL, value, &found), "MPI_Info_get");
    check(MPI_Info_free(&info), "MPI_Info_free");
    return value;
  }
  std::vector<MPI_Request> requests_;
  bool has_failed_ = false;
};

}  // namespace lanyard::bench

#endif  // LANYARD_BENCH_REQUEST_SET_H_
