// The streams of a World: what happens when one comes to its next item.
#include "nicsim/deterministic/oracles/order.h"
#include "nicsim/deterministic/world.h"

namespace lanyard::nicsim {

void World::take_stream(Process& process, uint32_t queue) {
  StepStream& stream = process.streams[queue]->stream;
  const StepItem item = stream.front();
  switch (item.kind) {
    case StepItem::Kind::kKernel: take_kernel(process, item); break;
    case StepItem::Kind::kWait:
      if (item.request != StepItem::kNothing)
        oracle::check_waited(*this, item.request, item.iteration);
      for (uint32_t i = 0; i < item.starts; ++i)
        oracle::check_waited(*this, stream.started[item.first_start + i], item.iteration);
      break;
    case StepItem::Kind::kMark:
      if (item.request != StepItem::kNothing)
        oracle::check_waited(*this, item.request, item.iteration);
      break;
    case StepItem::Kind::kMove: take_move(process, item); break;
    case StepItem::Kind::kRing:
      process.nic.take_ring(item.op);
      if (process.driver != nullptr)
        nic_changed(process);  // libfabric has no news of rings beyond what its counters hold
      if (item.start != StepItem::kNothing)
        oracle::check_rung(*this, process, item);
      break;
  }
  if (item.start != StepItem::kNothing)
    oracle::check_started(*this, item.start);
  for (uint32_t i = 0; i < item.starts && item.kind != StepItem::Kind::kWait; ++i)
    oracle::check_started(*this, stream.started[item.first_start + i]);
  stream.pop();
  streams_changed(process);
}

void World::take_kernel(Process& process, const StepItem& item) {
  const RequestName send{2 * item.message}, receive{2 * item.message + 1};
  switch (item.action) {
    case Action::Kind::kPack: {
      oracle::check_packed(*this, send.index);
      Side& side = state_->sides[send.index];
      ++side.filled;
      if (side.layout == nullptr) {
        fill_content(side.buffer, item.message, side.filled);
        return;
      }
      std::vector<std::byte> content(side.layout->bytes());
      fill_content(content, item.message, side.filled);
      for (uint64_t byte = 0; byte < content.size(); ++byte)
        side.buffer[place_of(side, byte)] = content[byte];
      return;
    }
    case Action::Kind::kUnpack: oracle::check_unpacked(*this, receive.index); return;
    default:  // kPromise
      ++state_->promises[item.message];
      if (const uint32_t rank = scenario_.rank_of(send); rank != process.rank)
        streams_changed(*state_->processes[rank]);
      return;
  }
}

// What the stream does for a request whose buffer has gaps.
void World::take_move(Process& process, const StepItem& item) {
  if (!oracle::check_moves(*this, item))
    return;
  switch (const gpu::StreamOp& op = item.op; op.kind) {
    case gpu::StreamOp::Kind::kPack: static_cast<gpu::Packing*>(op.object)->pack(op.value); break;
    case gpu::StreamOp::Kind::kUnpack: static_cast<gpu::Packing*>(op.object)->unpack(op.value); break;
    default:
      *op.word = op.kind == gpu::StreamOp::Kind::kWriteNext64 ? *op.count += op.value : op.value;
      process.wants_room = false;  // a host that would free the request looks again
      return;
  }
  oracle::check_moved(*this, item.request);
}

}  // namespace lanyard::nicsim
