// The part of Queue for starts without a host: captured into graphs, or made by kernels (standing.h).
#include <algorithm>
#include <utility>

#include "transport/core/queue.h"

namespace lanyard::core {

Status Queue::check_standing(std::span<Request* const> requests, bool in_kernels) {
  return check_each(requests, [&](const Request& request) -> Status {
    LANYARD_RETURN_IF_ERROR(check_startable(request));
    if (request.exchange != nullptr)
      return {Code::kUnsupported, "the request (" + request.describe() + ") is a member of the " +
                                      request.exchange->describe() +
                                      ", which no graph or kernel starts: match it without the hint"};
    if (request.transfer.in_turn)
      return {Code::kUnsupported, "the request (" + request.describe() +
                                      ") alternates between two messages, which no graph or kernel does: match it with "
                                      "the hint lanyard_exchange, none"};
    if (request.lane != nullptr && in_kernels)
      return {Code::kUnsupported, "the request (" + request.describe() +
                                      ") goes from GPU to GPU without a card, which kernels do not start yet: give it "
                                      "the hint lanyard_route, card, before its match"};
    if (request.packing != nullptr && in_kernels)
      return {Code::kUnsupported, "the request (" + request.describe() +
                                      ") has a datatype with gaps, or combines, which nobody does for a kernel: do it "
                                      "by a kernel of your own, in a contiguous buffer"};
    if (request.packing != nullptr)
      LANYARD_RETURN_IF_ERROR(stream_.can_pack(*request.packing));
    if (request.standing == nullptr) {
      if (request.needs_wait() || !request.complete())
        return misuse(request, "the request's last start has not been waited for or has not completed");
      return {};
    }
    if (in_kernels || request.standing->in_kernels || request.standing->stream != &stream_)
      return misuse(request, "the request is started by other kernels or by another stream's graphs");
    if (request.standing->capture != 0)
      return misuse(request, "the wait for the request's previous start was not captured");
    return {};
  });
}

// Makes those stand that do not; all or none.
Status Queue::begin_standing(std::span<Request* const> requests, bool in_kernels, std::vector<Request*>& begun) {
  for (Request* request : requests) {
    if (request->standing != nullptr)
      continue;
    if (Status status = endpoint_.standing().begin(*request, stream_); !status.ok()) {
      for (Request* each : begun)
        endpoint_.standing().take_back(*each);
      return status;
    }
    request->standing->in_kernels = in_kernels;
    begun.push_back(request);
  }
  return {};
}

Status Queue::stand(std::span<Request* const> requests) {
  endpoint_.collect_failures();
  LANYARD_RETURN_IF_ERROR(check_standing(requests, true));
  std::vector<Request*> begun;
  LANYARD_RETURN_IF_ERROR(begin_standing(requests, true, begun));
  enlist(begun);
  return {};
}

void Queue::enlist(std::span<Request* const> begun) {
  for (Request* request : begun) {
    list(*request, request->starts, standing_);
    request->queue_number = number_;
  }
}

Status Queue::record_start(std::span<Request* const> requests, uint64_t capture) {
  if (recorded_unwaited_ > 0 && capture != capture_)
    return {Code::kInvalidState,
            "the last capture has " + std::to_string(recorded_unwaited_) +
                " starts without a wait: its graph would start requests again before they have completed"};
  LANYARD_RETURN_IF_ERROR(check_standing(requests, false));
  std::vector<Request*> begun;
  LANYARD_RETURN_IF_ERROR(begin_standing(requests, false, begun));
  stream_ops_.clear();
  append_moves(requests, Direction::kSend);
  const size_t moves = stream_ops_.size();
  for (const Request* request : requests) {
    const Standing& standing = *request->standing;
    if (request->lane != nullptr)
      append_lane(*request, gpu::StreamOp::Kind::kStartLane);
    if (!standing.has_bell)
      continue;
    gpu::StreamOp& ring = append_ring(standing.bell, 1);
    if (standing.rings == nullptr)
      continue;
    ring.kind = gpu::StreamOp::Kind::kWriteNext64;
    ring.count = standing.rings;
  }
  if (Status status = stream_.enqueue(stream_ops_); !status.ok()) {
    for (Request* each : begun)
      endpoint_.standing().take_back(*each);
    return status;
  }
  enlist(begun);
  for (Request* request : requests)
    request->standing->capture = capture;
  capture_ = capture;
  recorded_unwaited_ += requests.size();
  unwaited_ += requests.size();
  figures_.triggers += stream_ops_.size() - moves;
  return {};
}

Status Queue::dismiss(std::span<Request* const> requests) {
  for (const Request* request : requests)
    LANYARD_RETURN_IF_ERROR(endpoint_.standing().can_end(*request));
  for (Request* request : requests) {
    forget(*request, endpoint_.started(*request));
    LANYARD_RETURN_IF_ERROR(endpoint_.end_standing(*request));
  }
  return {};
}

Status Queue::dismiss() {
  const std::vector<Request*> all = standing_;
  return dismiss(all);
}

}  // namespace lanyard::core
