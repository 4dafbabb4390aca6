// Helpers for tests of a libfabric provider: nodes with all objects open, deferred work in one
// call, and temporary environment variables. They use only libfabric's public functions.
#ifndef LANYARD_TESTS_FI_HARNESS_H_
#define LANYARD_TESTS_FI_HARNESS_H_

#include <gtest/gtest.h>
#include <rdma/fabric.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_trigger.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/expect.h"

namespace lanyard {

// Sets an environment variable and restores it in the destructor.
class Variable {
 public:
  Variable(const char* name, const std::string& value) : name_(name) {
    if (const char* before = std::getenv(name))
      before_ = std::make_unique<std::string>(before);
    ::setenv(name, value.c_str(), 1);
  }
  ~Variable() {
    if (before_ != nullptr)
      ::setenv(name_, before_->c_str(), 1);
    else
      ::unsetenv(name_);
  }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
  std::unique_ptr<std::string> before_;
};

// Sets libfabric's variables before its first call; it reads them once. Tests run in
// their runfiles.
inline void use_provider() {
  static const bool done = [] {
    const std::string folder = std::filesystem::current_path() / "nicsim" / "fi";
    ::setenv("FI_PROVIDER_PATH", folder.c_str(), 1);
    ::setenv("FI_PROVIDER", "cxi", 1);
    ::setenv("IPATH_NO_BACKTRACE", "1", 1);  // or PSM catches SIGSEGV
    ::setenv("LANYARD_FI_FLUSH_MS", "0", 0);
    ::setenv("LANYARD_SIM_INTERFACE", "127.0.0.1", 0);
    return true;
  }();
  static_cast<void>(done);
}

struct FreeInfo {
  void operator()(fi_info* info) const { fi_freeinfo(info); }
};
using Info = std::unique_ptr<fi_info, FreeInfo>;

struct CloseFid {
  template <typename T>
  void operator()(T* object) const {
    EXPECT_EQ(fi_close(&object->fid), 0);
  }
};
template <typename T>
using Owned = std::unique_ptr<T, CloseFid>;

struct NodeOptions {
  uint64_t caps = FI_RMA | FI_ATOMIC | FI_RMA_EVENT | FI_TRIGGER;
  int mr_mode = FI_MR_ENDPOINT;
  size_t tx_size = 0;     // 0: the provider's default
  bool selective = true;  // completion queue entries only with FI_COMPLETION
  bool enable = true;     // enable the endpoint
  bool counts = true;     // bind the counter of writes and reads that deferred atomics need
};

inline Info hints_of(const NodeOptions& options) {
  use_provider();
  Info hints(fi_allocinfo());
  hints->caps = options.caps;
  hints->mode = 0;
  hints->ep_attr->type = FI_EP_RDM;
  hints->domain_attr->mr_mode = options.mr_mode;
  hints->tx_attr->size = options.tx_size;
  hints->fabric_attr->prov_name = ::strdup("cxi");
  return hints;
}

// Null if no provider fits.
inline Info get_info(const NodeOptions& options) {
  const Info hints = hints_of(options);
  fi_info* info = nullptr;
  const int error = fi_getinfo(FI_VERSION(1, 15), nullptr, nullptr, 0, hints.get(), &info);
  EXPECT_TRUE(error == 0 || error == -FI_ENODATA) << fi_strerror(-error);
  return Info(error == 0 ? info : nullptr);
}

// A fabric, a domain, and an endpoint with its completion queue and address vector.
class Node {
 public:
  explicit Node(const NodeOptions& options = {}) : info(get_info(options)) {
    EXPECT_NE(info, nullptr);
    fid_fabric* new_fabric = nullptr;
    EXPECT_EQ(fi_fabric(info->fabric_attr, &new_fabric, nullptr), 0);
    fabric.reset(new_fabric);
    fid_domain* new_domain = nullptr;
    EXPECT_EQ(fi_domain(fabric.get(), info.get(), &new_domain, nullptr), 0);
    domain.reset(new_domain);
    fi_av_attr av_attributes = {};
    av_attributes.type = FI_AV_TABLE;
    fid_av* new_av = nullptr;
    EXPECT_EQ(fi_av_open(domain.get(), &av_attributes, &new_av, nullptr), 0);
    av.reset(new_av);
    fi_cq_attr cq_attributes = {};
    cq_attributes.format = FI_CQ_FORMAT_MSG;
    fid_cq* new_cq = nullptr;
    EXPECT_EQ(fi_cq_open(domain.get(), &cq_attributes, &new_cq, nullptr), 0);
    cq.reset(new_cq);
    transfers = counter();
    ep = endpoint(options);
  }

  Owned<fid_ep> endpoint(const NodeOptions& options = {}) {
    fid_ep* made = nullptr;
    EXPECT_EQ(fi_endpoint(domain.get(), info.get(), &made, nullptr), 0);
    EXPECT_EQ(fi_ep_bind(made, &av->fid, 0), 0);
    EXPECT_EQ(fi_ep_bind(made, &cq->fid, FI_TRANSMIT | (options.selective ? FI_SELECTIVE_COMPLETION : 0)), 0);
    if (options.counts) {
      EXPECT_EQ(fi_ep_bind(made, &transfers->fid, FI_WRITE | FI_READ), 0);
    }
    if (options.enable) {
      EXPECT_EQ(fi_enable(made), 0);
    }
    return Owned<fid_ep>(made);
  }

  static std::vector<std::byte> name_of(fid_ep* endpoint) {
    size_t bytes = 0;
    EXPECT_EQ(fi_getname(&endpoint->fid, nullptr, &bytes), -FI_ETOOSMALL);
    std::vector<std::byte> name(bytes);
    EXPECT_EQ(fi_getname(&endpoint->fid, name.data(), &bytes), 0);
    return name;
  }

  Owned<fid_cntr> counter() {
    fid_cntr* made = nullptr;
    EXPECT_EQ(fi_cntr_open(domain.get(), nullptr, &made, nullptr), 0);
    return Owned<fid_cntr>(made);
  }

  int register_memory(void* base, size_t bytes, uint64_t access, uint64_t key, fid_mr** made) {
    const iovec piece{base, bytes};
    fi_mr_attr attributes = {};
    attributes.mr_iov = &piece;
    attributes.iov_count = 1;
    attributes.access = access;
    attributes.requested_key = key;
    return fi_mr_regattr(domain.get(), &attributes, 0, made);
  }
  // A registered region, not bound to the endpoint. Key 0: any key.
  Owned<fid_mr> raw_region(void* base, size_t bytes, uint64_t key = 0) {
    fid_mr* made = nullptr;
    EXPECT_EQ(register_memory(base, bytes, FI_REMOTE_WRITE | FI_REMOTE_READ, key != 0 ? key : ++keys_given, &made), 0);
    return Owned<fid_mr>(made);
  }
  // A region enabled for remote access. Counts arriving messages in `counter`, if given.
  Owned<fid_mr> region(void* base, size_t bytes, fid_cntr* counter = nullptr, uint64_t key = 0) {
    Owned<fid_mr> made = raw_region(base, bytes, key);
    EXPECT_EQ(fi_mr_bind(made.get(), &ep->fid, 0), 0);
    if (counter != nullptr) {
      EXPECT_EQ(fi_mr_bind(made.get(), &counter->fid, FI_REMOTE_WRITE), 0);
    }
    EXPECT_EQ(fi_mr_enable(made.get()), 0);
    return made;
  }

  int queue(fi_deferred_work& work) { return fi_control(&domain->fid, FI_QUEUE_WORK, &work); }
  int flush() { return fi_control(&domain->fid, FI_FLUSH_WORK, nullptr); }

  Info info;
  Owned<fid_fabric> fabric;
  Owned<fid_domain> domain;
  Owned<fid_av> av;
  Owned<fid_cq> cq;
  Owned<fid_cntr> transfers;
  Owned<fid_ep> ep;
  uint64_t keys_given = 1000;
};

// Puts all nodes into each node's address vector. A node's place in the list is its fi_addr_t.
inline void introduce(const std::vector<Node*>& nodes) {
  std::vector<std::byte> names;
  for (Node* node : nodes) {
    const std::vector<std::byte> name = Node::name_of(node->ep.get());
    names.insert(names.end(), name.begin(), name.end());
  }
  for (Node* node : nodes)
    EXPECT_EQ(fi_av_insert(node->av.get(), names.data(), nodes.size(), nullptr, 0, nullptr),
              static_cast<int>(nodes.size()));
}

// A node that sends to itself.
class Loner : public Node {
 public:
  explicit Loner(const NodeOptions& options = {}) : Node(options) {
    if (options.enable)
      introduce({this});
  }
};

inline constexpr uint64_t kMaxSuccess = (uint64_t{1} << 48) - 1;

struct When {
  fid_cntr* trigger = nullptr;
  uint64_t threshold = 0;
  fid_cntr* completion = nullptr;
};
struct Remote {
  fi_addr_t to = 0;
  uint64_t key = 0;
  uint64_t offset = 0;
};

inline fi_deferred_work work_of(const When& when, fi_op_type type) {
  fi_deferred_work work = {};
  work.triggering_cntr = when.trigger;
  work.threshold = when.threshold;
  work.completion_cntr = when.completion;
  work.op_type = type;
  return work;
}

// The provider copies the descriptors, so they need not outlive the call.
inline int defer_write(Node& node, const void* from, size_t bytes, const Remote& remote, const When& when,
                       uint64_t flags = 0, void* context = nullptr) {
  iovec piece{const_cast<void*>(from), bytes};
  fi_rma_iov target{remote.offset, bytes, remote.key};
  fi_op_rma op = {};
  op.ep = node.ep.get();
  op.msg.msg_iov = &piece;
  op.msg.iov_count = 1;
  op.msg.addr = remote.to;
  op.msg.rma_iov = &target;
  op.msg.rma_iov_count = 1;
  op.msg.context = context;
  op.flags = flags;
  fi_deferred_work work = work_of(when, FI_OP_WRITE);
  work.op.rma = &op;
  return node.queue(work);
}

struct AtomicWork {
  fi_op op = FI_SUM;
  const uint64_t* operand = nullptr;
  fi_datatype type = FI_UINT64;
};

inline int defer_atomic(Node& node, const AtomicWork& atomic, const Remote& remote, const When& when,
                        uint64_t flags = 0) {
  fi_ioc operand{const_cast<uint64_t*>(atomic.operand), 1};
  fi_rma_ioc target{remote.offset, 1, remote.key};
  fi_op_atomic op = {};
  op.ep = node.ep.get();
  op.msg.msg_iov = &operand;
  op.msg.iov_count = 1;
  op.msg.addr = remote.to;
  op.msg.rma_iov = &target;
  op.msg.rma_iov_count = 1;
  op.msg.datatype = atomic.type;
  op.msg.op = atomic.op;
  op.flags = flags;
  fi_deferred_work work = work_of(when, FI_OP_ATOMIC);
  work.op.atomic = &op;
  return node.queue(work);
}

// Writes at once, not deferred.
inline ssize_t write_word(fid_ep* endpoint, const uint64_t* from, const Remote& remote, uint64_t flags = 0,
                          void* context = nullptr) {
  iovec piece{const_cast<uint64_t*>(from), sizeof *from};
  fi_rma_iov target{remote.offset, sizeof *from, remote.key};
  const fi_msg_rma message{&piece, nullptr, 1, remote.to, &target, 1, context, 0};
  return fi_writemsg(endpoint, &message, flags);
}

// Reads the counter twice: the first read may return an old value.
inline uint64_t successes(const Owned<fid_cntr>& counter) {
  fi_cntr_read(counter.get());
  return fi_cntr_read(counter.get());
}
inline uint64_t failures(const Owned<fid_cntr>& counter) {
  fi_cntr_readerr(counter.get());
  return fi_cntr_readerr(counter.get());
}

// A node that adds 1 to a word of its own.
struct Summing : Loner {
  explicit Summing(const NodeOptions& options = {}) : Loner(options) {}
  int add_when(const Owned<fid_cntr>& counter, uint64_t threshold) {
    return defer_atomic(*this, {.operand = &one}, here, {counter.get(), threshold, completion.get()});
  }
  uint64_t sum_now() { return std::atomic_ref<uint64_t>(sum).load(); }

  uint64_t one = 1, sum = 0;
  Owned<fid_cntr> trigger = counter(), completion = counter();
  Owned<fid_mr> target = region(&sum, sizeof sum);
  const Remote here{0, fi_mr_key(target.get())};
};

// Gives a forbidden event time to occur.
inline void breathe() { std::this_thread::sleep_for(std::chrono::milliseconds(5)); }

}  // namespace lanyard

#endif  // LANYARD_TESTS_FI_HARNESS_H_
