// Lanyard in C++17 and later: owners, exceptions and deduced datatypes over the calls of
// lanyard.h. That header says what each call means, requires and waits for. Headers only; link
// what the C calls need.
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
// Errors. A function that can fail takes an OnError as its last argument. Without it the function
// throws Error. With a std::error_code it sets (or clears) that instead, and throws only if memory
// runs out. Compiled without exceptions, a function without a std::error_code writes the error to
// stderr and calls abort(). A call that fails changes nothing.
//
// The C calls first invoke the error handler of the communicator; calls without a request invoke
// that of MPI_COMM_WORLD. MPI's default handler ends the program. To get exceptions or error codes
// call MPI_Comm_set_errhandler(communicator, MPI_ERRORS_RETURN) first. A new communicator inherits
// the handler of the one it is made from. A handler of the program must not throw.
//
// Lifetimes. Objects can be moved at any time, but not copied. A moved-from object is empty, like a
// default-constructed request or queue: it may be destroyed and assigned to, its handle() is null,
// and calls on it fail. The buffer of a request must outlive the request, and a GPU stream must
// outlive its queue. Destroy a set for kernels before its requests and its queue. Destroy requests,
// queues and host streams in any order, with one exception: destroy a request whose last start has
// no wait before its queue.
//
// Destructors. A destructor blocks until all work of its object has ended, also when an exception
// leaves the scope. Afterwards no transfer of it touches a buffer, and no kernel of it runs. So it
// may wait for peers, like Lanyard_Queue_wait: LANYARD_WARN_S writes the reason to stderr, and
// LANYARD_DEADLINE_S ends the wait. A destructor never throws. Its errors go to the error handler,
// and objects that it cannot free stay until MPI_Finalize. To see errors call synchronize() and
// free() first. MPI_Finalize completes all enqueued work; after it only the destructors of host
// streams do anything.
//
// Threads. As in lanyard.h; only one thread at a time may use an object. A host kernel must not
// call any function here.
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

  // Lanyard_Host_stream_launch: does not block. The stream copies or moves the kernel. It
  // runs and destroys it on its own thread or on one that waits for it. A kernel that throws
  // ends the program.
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
  // The same for a function and its argument, which the caller keeps. Allocates no memory.
  void launch(void (*kernel)(void*), void* argument, OnError on_error = {}) {
    on_error.take(Lanyard_Host_stream_launch(handle(), kernel, argument));
  }
  // Lanyard_Host_stream_synchronize: blocks until everything enqueued so far has run.
  void synchronize(OnError on_error = {}) { on_error.take(Lanyard_Host_stream_synchronize(handle())); }
  // For C calls. This object keeps ownership.
  Lanyard_Host_stream handle() const noexcept { return stream_.get(); }

 private:
  friend class Queue;
  std::shared_ptr<lanyard_host_stream> stream_;  // shared with a queue on it
};

// A queue on a stream, made by Lanyard_Queue_init. Its destructor waits until nothing is in flight,
// and frees the queue. This fails if there is still a start without a wait, a set, or an unfinished
// start of a graph.
class Queue {
 public:
  Queue() = default;
  explicit Queue(const HostStream& stream, OnError on_error = {})
      : Queue(LANYARD_QUEUE_HOST, stream.handle(), on_error) {
    stream_ = stream.stream_;
  }
  // On a cudaStream_t or hipStream_t, passed by value. The caller keeps it; it must
  // outlive the queue.
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

  // Lanyard_Enqueue_start, Lanyard_Enqueue_startall. Do not block, except as lanyard.h says.
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
  // Lanyard_Queue_wait: blocks the caller until all has completed, and reports failures.
  void synchronize(OnError on_error = {}) { on_error.take(Lanyard_Queue_wait(handle())); }
  // Lanyard_Queue_free: like the destructor, but reports errors. A start without a wait is an error
  // before it waits. On success this object is empty.
  void free(OnError on_error = {}) {
    Lanyard_Queue none = LANYARD_QUEUE_NULL;
    const int code = Lanyard_Queue_free(queue_ == nullptr ? &none : queue_.get());
    if (code == MPI_SUCCESS)
      *this = Queue();
    on_error.take(code);
  }
  // The statistics of Lanyard_Queue_get_info by their names. Local.
  std::map<std::string, std::string> info(OnError on_error = {}) const {
    MPI_Info info = MPI_INFO_NULL;
    const int code = Lanyard_Queue_get_info(handle(), &info);
    std::map<std::string, std::string> figures = detail::take_info(info);
    on_error.take(code);
    return figures;
  }
  // For C calls. This object keeps ownership.
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

  // After a successful call: notes the last queue and start for the request's destructor.
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
  std::shared_ptr<Lanyard_Queue> queue_;         // its handle, shared with requests started on it
};

// A set of matched requests that kernels on the queue's stream start and wait for
// (lanyard_device.h). Its destructor waits for the queue. Kernels on other streams that use the set
// must have ended.
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

  // For kernels; null if empty. This object keeps ownership.
  Lanyard_Device_requests* get() const noexcept { return set_; }
  // Lanyard_Device_requests_free: does not wait. On success this object is empty.
  void free(OnError on_error = {}) {
    on_error.take(Lanyard_Device_requests_free(queue_ == nullptr ? LANYARD_QUEUE_NULL : *queue_, &set_));
  }

 private:
  std::shared_ptr<Lanyard_Queue> queue_;
  Lanyard_Device_requests* set_ = nullptr;
};

}  // namespace lanyard

#endif  // LANYARD_LANYARD_HPP_
