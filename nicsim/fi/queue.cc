#include "nicsim/fi/queue.h"

#include <cstring>
#include <mutex>
#include <new>

#include "nicsim/fi/endpoint.h"
#include "nicsim/fi/provider.h"

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
  domain_.progress();
  const std::lock_guard lock(domain_.events_mutex());
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
  domain_.progress();
  const std::lock_guard lock(domain_.events_mutex());
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

CompletionQueue* queue_of(struct fid_cq* queue) { return static_cast<CompletionQueue*>(queue); }

int close_queue(struct fid* fid) {
  auto* queue = object_of<CompletionQueue, fid_cq>(fid);
  if (queue->endpoints.load() > 0)
    return -FI_EBUSY;
  queue->domain().remove_queue(*queue);
  queue->domain().close_child();
  delete queue;
  return 0;
}

ssize_t read(struct fid_cq* queue, void* buffer, size_t count) { return queue_of(queue)->read(buffer, count); }

ssize_t read_error(struct fid_cq* queue, struct fi_cq_err_entry* entry, uint64_t) {
  return entry == nullptr ? -FI_EINVAL : queue_of(queue)->read_error(*entry);
}

const char* describe(struct fid_cq*, int provider_errno, const void*, char*, size_t) {
  return code_name(static_cast<Code>(provider_errno));
}

fi_ops queue_fid_ops = fid_ops(close_queue);

fi_ops_cq queue_ops = {
    .size = sizeof(fi_ops_cq),
    .read = read,
    .readfrom = not_simulated,
    .readerr = read_error,
    .sread = not_simulated,
    .sreadfrom = not_simulated,
    .signal = not_simulated,
    .strerror = describe,
};

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
  auto* domain = &static_cast<Domain&>(*fid);
  auto* queue = new (std::nothrow) CompletionQueue(*domain, format);
  if (queue == nullptr)
    return -FI_ENOMEM;
  queue->fid = {.fclass = FI_CLASS_CQ, .context = context, .ops = &queue_fid_ops};
  queue->ops = &queue_ops;
  domain->add_queue(*queue);
  domain->open_child();
  *out = queue;
  return 0;
}

}  // namespace lanyard::nicsim::fi
