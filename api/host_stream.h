// The object behind MPIX_Host_stream.
#ifndef LANYARD_API_HOST_STREAM_H_
#define LANYARD_API_HOST_STREAM_H_

#include <atomic>
#include <cstdint>

#include <lanyard/lanyard.h>
#include "gpu/host/host_stream.h"

struct lanyard_host_stream {
  static constexpr uint64_t kAlive =
      0x4c616e7961726401;  // tells a stream from other memory, not from one that was freed

  uint64_t alive = kAlive;
  std::atomic<bool> has_queue{false};
  lanyard::gpu::HostStream stream;

  static bool valid(MPIX_Host_stream stream) { return stream != nullptr && stream->alive == kAlive; }
};

#endif  // LANYARD_API_HOST_STREAM_H_
