// The part of Queue for starts without a host: captured into graphs, or made by kernels (standing.h).
#include <algorithm>
#include <utility>

#include "transport/core/queue.h"
#include "transport/core/request_checks.h"

namespace lanyard::core {

Status Queue::check_standing(std::span<Request* const> requests, bool in_kernels) {
  endpoint_.collect_failures();
  return check_each(requests, [&](const Request& request) -> Status {
    if (!request.matched())
      return misuse(request, "the request is not matched");
    if (request.failures > 0)
      return {Code::kFailed,
              "an operation of the request failed before: free it and match a new one (" + request.describe() + ")"};
    if (endpoint_.started(request) >= request.peer_starts)
      return {Code::kFailed,
              endpoint_.explain_failure(request) + ": free it and match a new one (" + request.describe() + ")"};
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
  LANYARD_RETURN_IF_ERROR(check_standing(requests, true));
  std::vector<Request*> begun;
  LANYARD_RETURN_IF_ERROR(begin_standing(requests, true, begun));
  enlist(begun);
  return {};
}

void Queue::enlist(std::span<Request* const> begun) {
  for (Request* request : begun) {
    if (request->listed != nullptr)
      request->listed->forget(*request, request->starts);
    request->listed = this;
    request->queue_number = number_;
    standing_.push_back(request);
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
  record_moves(requests, Direction::kSend);
  const size_t moves = stream_ops_.size();
  for (const Request* request : requests) {
    const Standing& standing = *request->standing;
    if (request->lane != nullptr)
      append_lane(*request, gpu::StreamOp::Kind::kStartLane);
    if (!standing.has_bell)
      continue;
    stream_ops_.push_back(ring_of(standing.bell, 1));
    if (standing.rings == nullptr)
      continue;
    stream_ops_.back().kind = gpu::StreamOp::Kind::kWriteNext64;
    stream_ops_.back().count = standing.rings;
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

// As pack() and unpack(), but that `moved` counts on by itself.
void Queue::record_moves(std::span<Request* const> requests, Direction direction) {
  using Kind = gpu::StreamOp::Kind;
  for (const Kind kind : {direction == Direction::kSend ? Kind::kPack : Kind::kUnpack, Kind::kWriteNext64})
    for (const Request* request : requests) {
      if (request->packing == nullptr || request->transfer.direction != direction)
        continue;
      gpu::StreamOp& op = stream_ops_.emplace_back();
      op.kind = kind;
      if (kind == Kind::kWriteNext64) {
        op.word = request->moved.address;
        op.value = 1;
        op.count = request->standing->moves;
      } else {
        op.object = request->packing.get();
        op.value = request->matched_bytes;
      }
    }
}

Status Queue::record_wait(std::span<Request* const> requests, uint64_t capture) {
  LANYARD_RETURN_IF_ERROR(check_each(requests, [&](const Request& request) -> Status {
    if (request.standing == nullptr || request.standing->stream != &stream_ || request.standing->capture != capture)
      return misuse(request, "the capture has no start of the request to wait for");
    return {};
  }));
  stream_ops_.clear();
  for (const Request* request : requests) {
    if (request->lane != nullptr)
      append_lane(*request, gpu::StreamOp::Kind::kWaitLane);
    if (request->standing->count == nullptr)
      continue;  // nobody to wait for, or a lane
    gpu::StreamOp& op = stream_ops_.emplace_back();
    op.kind = gpu::StreamOp::Kind::kWaitNext64;
    op.word = request->done.address;
    op.value = 1;
    op.count = request->standing->count;
  }
  record_moves(requests, Direction::kReceive);
  LANYARD_RETURN_IF_ERROR(stream_.enqueue(stream_ops_));
  for (Request* request : requests)
    request->standing->capture = 0;
  recorded_unwaited_ -= requests.size();
  unwaited_ -= requests.size();
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
