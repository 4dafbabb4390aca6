// RecordingStream: a stream that keeps what is enqueued and runs nothing; the other half of RecordingNic.
#ifndef LANYARD_NICSIM_MODELLED_RECORDING_STREAM_H_
#define LANYARD_NICSIM_MODELLED_RECORDING_STREAM_H_

#include <span>
#include <utility>
#include <vector>

#include "gpu/stream.h"

namespace lanyard::modelled {

class RecordingStream final : public gpu::Stream {
 public:
  // Since the last call.
  std::vector<gpu::StreamOp> take_enqueued() { return std::exchange(enqueued_, {}); }

  const char* kind() const override { return "recording"; }
  bool can_call() const override { return false; }
  Status enqueue(std::span<const gpu::StreamOp> ops) override {
    enqueued_.insert(enqueued_.end(), ops.begin(), ops.end());
    return {};
  }
  bool poll() override { return true; }

 private:
  std::vector<gpu::StreamOp> enqueued_;
};

}  // namespace lanyard::modelled

#endif  // LANYARD_NICSIM_MODELLED_RECORDING_STREAM_H_
