// The object behind MPIX_Queue.
#ifndef LANYARD_API_QUEUE_H_
#define LANYARD_API_QUEUE_H_

#include <memory>

#include "api/context.h"
#include "api/host_stream.h"
#include "transport/core/queue.h"

struct lanyard_queue {
  MPIX_Host_stream host_stream = MPIX_HOST_STREAM_NULL;  // the user's
  std::unique_ptr<lanyard::core::Queue> core;

  // Parts with the stream.
  void abandon() {
    host_stream->stream.set_helper(nullptr);
    host_stream->has_queue.store(false);
  }
};

#endif  // LANYARD_API_QUEUE_H_
