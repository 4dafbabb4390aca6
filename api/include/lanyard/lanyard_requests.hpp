// Persistent requests and their matching in C++ (part of lanyard.hpp, which describes errors,
// lifetimes and destructors).
#ifndef LANYARD_LANYARD_REQUESTS_HPP_
#define LANYARD_LANYARD_REQUESTS_HPP_

#include <mpi.h>

#include <array>
#include <cstddef>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "lanyard/lanyard.h"
#include "lanyard/lanyard_buffers.hpp"
#include "lanyard/lanyard_errors.hpp"

namespace lanyard {

namespace detail {

// Reads an info object and frees it. Empty for MPI_INFO_NULL.
inline std::map<std::string, std::string> take_info(MPI_Info info) {
  std::map<std::string, std::string> facts;
  if (info == MPI_INFO_NULL)
    return facts;
  int keys = 0;
  MPI_Info_get_nkeys(info, &keys);
  for (int i = 0; i < keys; ++i) {
    char key[MPI_MAX_INFO_KEY + 1] = "";
    char value[MPI_MAX_INFO_VAL + 1] = "";
    int found = 0;
    MPI_Info_get_nthkey(info, i, key);
    MPI_Info_get(info, key, MPI_MAX_INFO_VAL, value, &found);
    facts[key] = value;
  }
  MPI_Info_free(&info);
  return facts;
}

}  // namespace detail

// Owns a persistent request, or is empty (MPI_REQUEST_NULL). Its destructor waits for the queue of
// its last start by Queue.
class Request {
 public:
  Request() = default;
  // Takes ownership of a request that a C call made. After a start by a C call, wait for it before
  // the destructor runs.
  explicit Request(MPI_Request handle) noexcept : handle_(handle) {}
  Request(Request&& other) noexcept
      : handle_(std::exchange(other.handle_, MPI_REQUEST_NULL)),
        queue_(std::move(other.queue_)),
        has_no_wait_(std::exchange(other.has_no_wait_, false)) {}
  Request& operator=(Request other) noexcept {
    std::swap(handle_, other.handle_);
    std::swap(queue_, other.queue_);
    std::swap(has_no_wait_, other.has_no_wait_);
    return *this;
  }
  ~Request();

  // MPI_Send_init, MPI_Rsend_init, MPI_Ssend_init, MPI_Recv_init. Local. With ready_send the
  // program promises that the peer's receive is started before each send. Errors are MPI's:
  // MPI_ERR_RANK, MPI_ERR_TAG, MPI_ERR_COUNT, ...
  static Request send(ConstBuffer from, int peer, int tag, MPI_Comm communicator, OnError on_error = {}) {
    return make(MPI_Send_init, from, peer, tag, communicator, on_error);
  }
  static Request ready_send(ConstBuffer from, int peer, int tag, MPI_Comm communicator, OnError on_error = {}) {
    return make(MPI_Rsend_init, from, peer, tag, communicator, on_error);
  }
  static Request synchronous_send(ConstBuffer from, int peer, int tag, MPI_Comm communicator, OnError on_error = {}) {
    return make(MPI_Ssend_init, from, peer, tag, communicator, on_error);
  }
  // `peer` may be MPI_ANY_SOURCE, `tag` MPI_ANY_TAG.
  static Request receive(Buffer into, int peer, int tag, MPI_Comm communicator, OnError on_error = {}) {
    return make(MPI_Recv_init, into, peer, tag, communicator, on_error);
  }

  // For C calls. This object keeps ownership.
  MPI_Request handle() const noexcept { return handle_; }
  // MPI_Request_free: an error while a start is in flight or has no wait. Does not wait. On success
  // this object is empty.
  void free(OnError on_error = {}) {
    const int code = MPI_Request_free(&handle_);
    if (code == MPI_SUCCESS)
      *this = Request();
    on_error.take(code);
  }
  // Lanyard_Is_matched.
  bool is_matched(OnError on_error = {}) const {
    int flag = 0;
    on_error.take(Lanyard_Is_matched(handle_, &flag));
    return flag != 0;
  }
  // Lanyard_Request_set_info with the hint "lanyard_exchange". Requests of this name that one call
  // of match_all() or imatch_all() matches are started together and waited for together. "none"
  // removes the hint.
  void set_exchange(const std::string& name, OnError on_error = {}) { set_hints(name, "none", on_error); }
  // The same with "lanyard_exchange_set" 0 or 1: start the two sets in turn.
  void set_exchange(const std::string& name, int set, OnError on_error = {}) {
    set_hints(name, std::to_string(set), on_error);
  }
  // The hints in force, by the keys of Lanyard_Request_get_info.
  std::map<std::string, std::string> info(OnError on_error = {}) const {
    MPI_Info info = MPI_INFO_NULL;
    const int code = Lanyard_Request_get_info(handle_, &info);
    std::map<std::string, std::string> facts = detail::take_info(info);
    on_error.take(code);
    return facts;
  }

 private:
  friend class Queue;

  void set_hints(const std::string& name, const std::string& set, OnError on_error) {
    MPI_Info info = MPI_INFO_NULL;
    MPI_Info_create(&info);
    MPI_Info_set(info, "lanyard_exchange", name.c_str());
    MPI_Info_set(info, "lanyard_exchange_set", set.c_str());
    const int code = Lanyard_Request_set_info(handle_, info);
    MPI_Info_free(&info);
    on_error.take(code);
  }

  template <typename Init, typename Elements>
  static Request make(Init init, const Elements& buffer, int peer, int tag, MPI_Comm communicator, OnError on_error) {
    MPI_Request made = MPI_REQUEST_NULL;
    const int code = buffer.count() < 0
                         ? MPI_ERR_COUNT
                         : init(buffer.address(), buffer.count(), buffer.datatype(), peer, tag, communicator, &made);
    on_error.take(code);
    return Request(code == MPI_SUCCESS ? made : MPI_REQUEST_NULL);
  }

  MPI_Request handle_ = MPI_REQUEST_NULL;
  std::shared_ptr<Lanyard_Queue> queue_;  // of the last start; LANYARD_QUEUE_NULL once it is freed
  bool has_no_wait_ = false;              // the last start has no enqueued wait
};

// Functions on several requests take a range that can be read more than once, such as std::array or
// std::vector, or the requests in braces: match_all({in, out}).
using Requests = std::initializer_list<std::reference_wrapper<Request>>;

namespace detail {

// The handles of requests as an array. Up to 16 need no allocation.
class Handles {
 public:
  template <typename Range>
  explicit Handles(Range& requests) {
    for (const Request& request : requests) {
      if (count_ == few_.size())
        many_.assign(few_.begin(), few_.end());
      if (count_ >= few_.size())
        many_.push_back(request.handle());
      else
        few_[count_] = request.handle();
      ++count_;
    }
  }
  int count() const noexcept { return static_cast<int>(count_); }
  MPI_Request* data() noexcept { return many_.empty() ? few_.data() : many_.data(); }

 private:
  size_t count_ = 0;
  std::array<MPI_Request, 16> few_;
  std::vector<MPI_Request> many_;
};

// Waits until nothing is in flight in the queue, or waiting fails. A call that reports a
// failure has not waited for the rest. Each failure is reported once, except a lost device:
// stop if one repeats.
inline void drain(Lanyard_Queue queue) noexcept {
  for (int last = MPI_SUCCESS, code = Lanyard_Queue_wait(queue);
       code != last && error_class(code) == LANYARD_ERR_FAILED;)
    last = std::exchange(code, Lanyard_Queue_wait(queue));
}

}  // namespace detail

inline Request::~Request() {
  if (handle_ == MPI_REQUEST_NULL || !detail::mpi_runs())
    return;
  if (queue_ != nullptr && *queue_ != LANYARD_QUEUE_NULL) {
    detail::drain(*queue_);
    if (has_no_wait_ && Lanyard_Enqueue_wait(*queue_, &handle_) == MPI_SUCCESS)
      detail::drain(*queue_);
  }
  MPI_Request_free(&handle_);
}

// Lanyard_Match: blocks until the peer matches. Returns the status of the match, empty for a send.
inline MPI_Status match(Request& request, OnError on_error = {}) {
  MPI_Status status{};
  MPI_Request handle = request.handle();
  on_error.take(Lanyard_Match(&handle, &status));
  return status;
}
// Lanyard_Matchall. If matches fail the error is MPI_ERR_IN_STATUS, and its text names
// the first one.
template <typename Range = Requests>
void match_all(Range&& requests, OnError on_error = {}) {
  detail::Handles handles(requests);
  on_error.take(Lanyard_Matchall(handles.count(), handles.data(), MPI_STATUSES_IGNORE));
}
// The same; sets one status for each request.
template <typename Range = Requests>
void match_all(Range&& requests, std::vector<MPI_Status>& statuses, OnError on_error = {}) {
  detail::Handles handles(requests);
  statuses.assign(static_cast<size_t>(handles.count()), MPI_Status{});
  on_error.take(Lanyard_Matchall(handles.count(), handles.data(), statuses.data()));
}
// Lanyard_Imatch, Lanyard_Imatchall: return an ordinary request for MPI_Wait and MPI_Test, which
// the caller completes. Until it completes the requests may be moved, but not destroyed.
[[nodiscard]] inline MPI_Request imatch(Request& request, OnError on_error = {}) {
  MPI_Request handle = request.handle();
  MPI_Request matching = MPI_REQUEST_NULL;
  on_error.take(Lanyard_Imatch(&handle, &matching));
  return matching;
}
template <typename Range = Requests>
[[nodiscard]] MPI_Request imatch_all(Range&& requests, OnError on_error = {}) {
  detail::Handles handles(requests);
  MPI_Request matching = MPI_REQUEST_NULL;
  on_error.take(Lanyard_Imatchall(handles.count(), handles.data(), &matching));
  return matching;
}

}  // namespace lanyard

#endif  // LANYARD_LANYARD_REQUESTS_HPP_
