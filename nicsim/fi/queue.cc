#include "nicsim/fi/queue.h"

#include <cstring>
#include <mutex>

#include "nicsim/fi/endpoint.h"

namespace lanyard::nicsim::fi {

void CompletionQueue::read_events() {
  for (const Event& event : events_) {
    if (event.request.endpoint == nullptr)
      continue;
    --event.request.endpoint->slots_held;
    if (event.request.visible || event.code != Code::kOk)
      entries_.push_back(event);
  }
  events_.clear();
}

void CompletionQueue::forget(const Endpoint& endpoint) {
  for (std::deque<Event>* list : {&events_, &entries_}) {
    for (Event& event : *list) {
      if (event.request.endpoint == &endpoint)
        event.request.endpoint = nullptr;
    }
  }
}

size_t CompletionQueue::entry_bytes() const {
  return format_ == FI_CQ_FORMAT_MSG ? sizeof(fi_cq_msg_entry) : sizeof(fi_cq_entry);
}

ssize_t CompletionQueue::read(void* buffer, size_t count) {
  domain_->progress();
  const std::lock_guard lock(domain_->events_mutex());
  read_events();
  if (entries_.empty())
    return -FI_EAGAIN;
  if (entries_.front().code != Code::kOk)
    return -FI_EAVAIL;
  auto* to = static_cast<std::byte*>(buffer);
  size_t written = 0;
  for (; written < count && !entries_.empty() && entries_.front().code == Code::kOk; ++written) {
    const Request& request = entries_.front().request;
    // Each format begins with the fields of the smaller one.
    fi_cq_msg_entry entry = {};
    entry.op_context = request.context;
    entry.flags = request.flags;
    std::memcpy(to + written * entry_bytes(), &entry, entry_bytes());
    entries_.pop_front();
  }
  return static_cast<ssize_t>(written);
}

ssize_t CompletionQueue::read_error(struct fi_cq_err_entry& entry) {
  domain_->progress();
  const std::lock_guard lock(domain_->events_mutex());
  read_events();
  if (entries_.empty() || entries_.front().code == Code::kOk)
    return -FI_EAGAIN;
  const Event& event = entries_.front();
  entry.op_context = event.request.context;
  entry.flags = event.request.flags;
  entry.len = 0;
  entry.olen = event.request.bytes;
  entry.buf = nullptr;
  entry.data = entry.tag = 0;
  entry.err = event.code == Code::kFailed ? FI_EHOSTUNREACH : FI_EIO;  // as on CXI
  entry.prov_errno = static_cast<int>(event.code);
  entry.err_data_size = 0;
  entries_.pop_front();
  return 1;
}

namespace {

fi_ops queue_fid_ops = fid_ops<CompletionQueue>();

fi_ops_cq queue_ops = table_of<fi_ops_cq>([](auto& ops) {
  ops.read = [](struct fid_cq* queue, void* buffer, size_t count) {
    return object_of<CompletionQueue>(queue)->read(buffer, count);
  };
  ops.readerr = [](struct fid_cq* queue, struct fi_cq_err_entry* entry, uint64_t) -> ssize_t {
    return entry == nullptr ? -FI_EINVAL : object_of<CompletionQueue>(queue)->read_error(*entry);
  };
  ops.strerror = [](struct fid_cq*, int provider_errno, const void*, char*, size_t) {
    return code_name(static_cast<Code>(provider_errno));
  };
});

}  // namespace

int open_queue(struct fid_domain* fid, struct fi_cq_attr* attributes, struct fid_cq** out, void* context) {
  enum fi_cq_format format = FI_CQ_FORMAT_CONTEXT;
  if (attributes != nullptr) {
    if (attributes->wait_obj != FI_WAIT_NONE && attributes->wait_obj != FI_WAIT_UNSPEC)
      return refuse(FI_ENOSYS, FI_LOG_CQ, "completion queues have no wait objects: poll them");
    if (attributes->flags != 0)
      return -FI_EINVAL;
    if (attributes->format > FI_CQ_FORMAT_MSG)
      return refuse(FI_ENOSYS, FI_LOG_CQ, "the completion format must be FI_CQ_FORMAT_CONTEXT or FI_CQ_FORMAT_MSG");
    if (attributes->format != FI_CQ_FORMAT_UNSPEC)
      format = attributes->format;
  }
  auto* queue = new CompletionQueue(*object_of<Domain>(fid), format);
  queue->ops = &queue_ops;
  return hand_out(queue, FI_CLASS_CQ, context, queue_fid_ops, out);
}

}  // namespace lanyard::nicsim::fi
