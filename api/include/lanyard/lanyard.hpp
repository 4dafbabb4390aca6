// Lanyard in C++17 and later: owners, exceptions and deduced datatypes over the calls of lanyard.h, which says what
// each of them means, requires and blocks on. Headers only; link what the C calls need.
//
//     lanyard::HostStream stream;
//     lanyard::Queue queue(stream);
//     std::vector<double> out(8), in(8);
//     std::array pair{lanyard::Request::receive(in, left, 0, MPI_COMM_WORLD),
//                     lanyard::Request::send(out, right, 0, MPI_COMM_WORLD)};
//     lanyard::match_all(pair);
//     for (int step = 0; step < 1000; ++step) {
//       queue.start_all(pair);
//       queue.wait_all(pair);
//       stream.launch([&] { unpack(in); pack(out); });
//     }
//     queue.synchronize();
//
// Errors. A function that can fail takes an OnError last: left out, it throws Error; a std::error_code there is set (or
// cleared) instead, and nothing is thrown but where memory runs out. Compiled without exceptions a function without a
// std::error_code says the error on stderr and calls abort(). A call that fails has changed nothing. The C calls
// invoke the error handler of the communicator first, and MPI's default one ends the program: nothing is thrown or
// returned before MPI_Comm_set_errhandler(communicator, MPI_ERRORS_RETURN). Calls without a request use that of
// MPI_COMM_WORLD; communicators made from another begin with its handler. A handler of yours must not throw.
//
// Lifetimes. Objects are moved, not copied, at any time. What was moved from is empty, as default-constructed requests
// and queues are: it may be destroyed and assigned to, its handle() is null, and calls on it fail. A request's buffer
// must outlive the request, a GPU's stream its queue, and a set for kernels goes before its requests and its queue.
// Requests, queues and host streams may go in any order, but for a request whose last start has no wait: that goes
// before its queue. A destructor blocks until what it ends is over, however its scope is left, by an exception too:
// afterwards no transfer of it touches a buffer and no kernel of it runs. So it may wait for peers, as
// Lanyard_Queue_wait does (LANYARD_WARN_S says on stderr what for, LANYARD_DEADLINE_S ends it). It never throws: what
// it is refused goes to the error handler, and what it could not free stays until MPI_Finalize. To hear of errors call
// synchronize() and free() before. After MPI_Finalize, which completes what is enqueued, destructors of all but host
// streams do nothing.
//
// Threads. As lanyard.h; an object is used by one thread at a time. No function here may be called by a host kernel.
#ifndef LANYARD_LANYARD_HPP_
#define LANYARD_LANYARD_HPP_

#include <mpi.h>

#include <map>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>

#include "lanyard/lanyard.h"
#include "lanyard/lanyard_buffers.hpp"
#include "lanyard/lanyard_errors.hpp"
#include "lanyard/lanyard_requests.hpp"

namespace lanyard {

// A stream on a host thread. Its destructor blocks until everything enqueued has run.
class HostStream {
 public:
  // Lanyard_Host_stream_create.
  explicit HostStream(OnError on_error = {}) {
    Lanyard_Host_stream made = LANYARD_HOST_STREAM_NULL;
    const int code = Lanyard_Host_stream_create(&made);
    if (code == MPI_SUCCESS)
      stream_.reset(made, [](Lanyard_Host_stream stream) { Lanyard_Host_stream_free(&stream); });
    on_error.take(code);
  }
  HostStream(HostStream&&) noexcept = default;
  HostStream& operator=(HostStream other) noexcept {
    std::swap(stream_, other.stream_);
    return *this;
  }
  ~HostStream() {
    if (stream_ != nullptr)
      Lanyard_Host_stream_synchronize(stream_.get());
  }

  // Lanyard_Host_stream_launch: does not block. The stream owns a copy of the kernel (or what is moved in) and destroys
  // it once it has run, both on its own thread or one that waits for it. An exception from the kernel ends the program.
  template <typename Kernel>
  void launch(Kernel&& kernel, OnError on_error = {}) {
    using Owned = std::decay_t<Kernel>;
    auto owned = std::make_unique<Owned>(std::forward<Kernel>(kernel));
    const int code = Lanyard_Host_stream_launch(
        handle(), [](void* argument) noexcept { (*std::unique_ptr<Owned>(static_cast<Owned*>(argument)))(); },
        owned.get());
    if (code == MPI_SUCCESS)
      static_cast<void>(owned.release());
    on_error.take(code);
  }
  // The same for a function and what is borrowed for it; needs no memory.
  void launch(void (*kernel)(void*), void* argument, OnError on_error = {}) {
    on_error.take(Lanyard_Host_stream_launch(handle(), kernel, argument));
  }
  // Lanyard_Host_stream_synchronize: blocks until everything enqueued so far has run.
  void synchronize(OnError on_error = {}) { on_error.take(Lanyard_Host_stream_synchronize(handle())); }
  // For C calls, borrowed.
  Lanyard_Host_stream handle() const noexcept { return stream_.get(); }

 private:
  friend class Queue;
  std::shared_ptr<lanyard_host_stream> stream_;  // shared with a queue on it
};

// A queue on a stream, Lanyard_Queue_init. Its destructor waits until nothing is under way in it and frees it, which is
// refused where a start without a wait, a set or a graph is left.
class Queue {
 public:
  Queue() = default;
  explicit Queue(const HostStream& stream, OnError on_error = {})
      : Queue(LANYARD_QUEUE_HOST, stream.handle(), on_error) {
    stream_ = stream.stream_;
  }
  // On a cudaStream_t or hipStream_t, given by value and borrowed: it must outlive the queue.
  template <typename Stream>
  static Queue cuda(Stream* stream, OnError on_error = {}) {
    return Queue(LANYARD_QUEUE_CUDA, stream, on_error);
  }
  template <typename Stream>
  static Queue hip(Stream* stream, OnError on_error = {}) {
    return Queue(LANYARD_QUEUE_HIP, stream, on_error);
  }
  Queue(Queue&&) noexcept = default;
  Queue& operator=(Queue other) noexcept {
    std::swap(stream_, other.stream_);
    std::swap(queue_, other.queue_);
    return *this;
  }
  ~Queue() {
    if (handle() == LANYARD_QUEUE_NULL || !detail::mpi_runs())
      return;
    detail::drain(*queue_);
    Lanyard_Queue_free(queue_.get());
  }

  // Lanyard_Enqueue_start, Lanyard_Enqueue_startall: none blocks but where lanyard.h says so.
  void start(Request& request, OnError on_error = {}) {
    on_error.take(note(Lanyard_Enqueue_start(handle(), &request.handle_), request, true));
  }
  template <typename Range = Requests>
  void start_all(Range&& requests, OnError on_error = {}) {
    on_error.take(enqueue(Lanyard_Enqueue_startall, requests, true));
  }
  // Lanyard_Enqueue_wait, Lanyard_Enqueue_waitall: the stream waits, the caller does not.
  void wait(Request& request, OnError on_error = {}) {
    on_error.take(note(Lanyard_Enqueue_wait(handle(), &request.handle_), request, false));
  }
  template <typename Range = Requests>
  void wait_all(Range&& requests, OnError on_error = {}) {
    on_error.take(enqueue(Lanyard_Enqueue_waitall, requests, false));
  }
  // Lanyard_Queue_wait: blocks the caller until all is done, and tells of what failed.
  void synchronize(OnError on_error = {}) { on_error.take(Lanyard_Queue_wait(handle())); }
  // Lanyard_Queue_free: as the destructor does, but it tells of failures, and is refused before it waits. Empty then.
  void free(OnError on_error = {}) {
    Lanyard_Queue none = LANYARD_QUEUE_NULL;
    const int code = Lanyard_Queue_free(queue_ == nullptr ? &none : queue_.get());
    if (code == MPI_SUCCESS)
      *this = Queue();
    on_error.take(code);
  }
  // The figures of Lanyard_Queue_get_info by their names. Local.
  std::map<std::string, std::string> info(OnError on_error = {}) const {
    MPI_Info info = MPI_INFO_NULL;
    const int code = Lanyard_Queue_get_info(handle(), &info);
    std::map<std::string, std::string> figures = detail::take_info(info);
    on_error.take(code);
    return figures;
  }
  // For C calls, borrowed.
  Lanyard_Queue handle() const noexcept { return queue_ == nullptr ? LANYARD_QUEUE_NULL : *queue_; }

 private:
  friend class DeviceRequests;

  template <typename Stream>
  Queue(Lanyard_Queue_type type, Stream* stream, OnError on_error) {
    static_assert(!std::is_pointer_v<Stream>, "the stream itself is wanted, not its address");
    auto made = std::make_shared<Lanyard_Queue>(LANYARD_QUEUE_NULL);
    const int code = Lanyard_Queue_init(made.get(), type, &stream);
    if (code == MPI_SUCCESS)
      queue_ = std::move(made);
    on_error.take(code);
  }

  // Remembers what a call that succeeded has done, for the request's destructor.
  int note(int code, Request& request, bool started) noexcept {
    if (code == MPI_SUCCESS) {
      if (request.queue_ != queue_)
        request.queue_ = queue_;
      request.has_no_wait_ = started;
    }
    return code;
  }
  template <typename Range>
  int enqueue(int (*call)(Lanyard_Queue, int, MPI_Request*), Range& requests, bool started) {
    detail::Handles handles(requests);
    const int code = call(handle(), handles.count(), handles.data());
    for (Request& request : requests)
      note(code, request, started);
    return code;
  }

  std::shared_ptr<lanyard_host_stream> stream_;  // freed after the queue
  std::shared_ptr<Lanyard_Queue> queue_;         // its handle, shared with requests that were started on it
};

// A set of matched requests that kernels on the queue's stream start and wait for (lanyard_device.h). Its destructor
// waits for the queue; kernels elsewhere that use the set must have ended.
class DeviceRequests {
 public:
  DeviceRequests() = default;
  // Lanyard_Device_requests_create.
  template <typename Range = Requests>
  DeviceRequests(Queue& queue, Range&& requests, OnError on_error = {}) : queue_(queue.queue_) {
    detail::Handles handles(requests);
    on_error.take(Lanyard_Device_requests_create(queue.handle(), handles.count(), handles.data(), &set_));
  }
  DeviceRequests(DeviceRequests&& other) noexcept
      : queue_(std::move(other.queue_)), set_(std::exchange(other.set_, nullptr)) {}
  DeviceRequests& operator=(DeviceRequests other) noexcept {
    std::swap(queue_, other.queue_);
    std::swap(set_, other.set_);
    return *this;
  }
  ~DeviceRequests() {
    if (set_ == nullptr || !detail::mpi_runs())
      return;
    detail::drain(*queue_);
    Lanyard_Device_requests_free(*queue_, &set_);
  }

  // For kernels, borrowed; null where empty.
  Lanyard_Device_requests* get() const noexcept { return set_; }
  // Lanyard_Device_requests_free: does not wait. Empty then.
  void free(OnError on_error = {}) {
    on_error.take(Lanyard_Device_requests_free(queue_ == nullptr ? LANYARD_QUEUE_NULL : *queue_, &set_));
  }

 private:
  std::shared_ptr<Lanyard_Queue> queue_;
  Lanyard_Device_requests* set_ = nullptr;
};

}  // namespace lanyard

#endif  // LANYARD_LANYARD_HPP_
