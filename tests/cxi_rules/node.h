// What the checks stand on: a fabric, a domain and an endpoint that talks to itself, and each kind of operation by one
// call. Whatever is opened here must open: a check that needs something else does it by hand.
#ifndef LANYARD_TESTS_CXI_RULES_NODE_H_
#define LANYARD_TESTS_CXI_RULES_NODE_H_

#include <rdma/fabric.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>
#include <rdma/fi_trigger.h>

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/cxi_rules/trial.h"

namespace lanyard::cxi_rules {

inline constexpr uint64_t kMaxSuccess = (uint64_t{1} << 48) - 1;
inline constexpr uint64_t kMaxFailure = 127;
// fi_cxi_ext.h, which not every system has.
inline constexpr uint64_t kCounterWriteback = uint64_t{1} << 62;
inline constexpr uint64_t kCounterCached = uint64_t{1} << 32;
inline constexpr size_t kInjectSize = 192;
inline constexpr uint64_t kMaxMessage = (uint64_t{1} << 32) - 1;

inline constexpr uint64_t kOneSided = FI_RMA | FI_ATOMIC | FI_RMA_EVENT | FI_TRIGGER;
inline constexpr int kProviderKeys = FI_MR_ENDPOINT | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
inline constexpr int kUserKeys = FI_MR_ENDPOINT | FI_MR_ALLOCATED;

struct FreeInfo {
  void operator()(fi_info* info) const { fi_freeinfo(info); }
};
using Info = std::unique_ptr<fi_info, FreeInfo>;

// Closing succeeds, or the row fails.
struct Close {
  Trial* trial = nullptr;
  template <typename T>
  void operator()(T* object) const {
    if (const int code = fi_close(&object->fid); code != 0)
      trial->code("closing an object in the end", code, 0);
  }
};
template <typename T>
using Owned = std::unique_ptr<T, Close>;

struct Options {
  uint64_t caps = kOneSided;
  int mr_mode = kProviderKeys;
  size_t tx_size = 0;     // 0: the provider's default
  bool selective = true;  // entries in the queue only on FI_COMPLETION
  bool enable = true;     // the endpoint, and its address is known to itself
  fi_cq_format format = FI_CQ_FORMAT_TAGGED;
  std::function<void(fi_info&)> change = nullptr;  // of the hints
};

// The hints for it, and what fi_getinfo() answers: `out` is null where that is an error.
Info hints_of(const Options& options);
int get_info(const fi_info* hints, Info& out);

struct Remote {
  fi_addr_t to = 0;
  uint64_t key = 0;
  uint64_t offset = 0;
};

struct When {
  fid_cntr* trigger = nullptr;
  uint64_t threshold = 0;
  fid_cntr* completion = nullptr;
};

struct Entry {
  ssize_t code = 0;  // of fi_cq_read()
  fi_cq_tagged_entry entry = {};
};

class Node {
 public:
  explicit Node(Trial& trial, const Options& options = {});
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  // Bound to this node's vector and queue, not enabled.
  Owned<fid_ep> endpoint(const Options& options = {});
  void enable(const Owned<fid_ep>& endpoint);
  // Inserts it into this node's vector.
  fi_addr_t know(const Owned<fid_ep>& endpoint);

  Owned<fid_cntr> counter(fi_cntr_attr* attributes = nullptr);
  Owned<fid_mr> raw_region(void* base, size_t bytes, uint64_t key = 0,
                           uint64_t access = FI_REMOTE_WRITE | FI_REMOTE_READ);
  // Ready for remote access; counts arriving messages where there is a counter.
  Owned<fid_mr> region(void* base, size_t bytes, fid_cntr* counter = nullptr, uint64_t key = 0,
                       uint64_t access = FI_REMOTE_WRITE | FI_REMOTE_READ);
  Remote here(const Owned<fid_mr>& region) const { return {self, fi_mr_key(region.get()), 0}; }

  Entry read_queue();
  // The next entry; a row that gets none fails.
  fi_cq_tagged_entry next_entry(const std::string& what);
  // The next entry, which must be an error.
  fi_cq_err_entry next_error(const std::string& what);

  ssize_t write(const void* from, size_t bytes, const Remote& remote, uint64_t flags = 0, void* context = nullptr);
  ssize_t read(void* to, size_t bytes, const Remote& remote, uint64_t flags = 0, void* context = nullptr);

  int queue(fi_deferred_work& work) { return fi_control(&domain->fid, FI_QUEUE_WORK, &work); }
  int flush() { return fi_control(&domain->fid, FI_FLUSH_WORK, nullptr); }

  Trial& trial;
  Info info;
  Owned<fid_fabric> fabric;
  Owned<fid_domain> domain;
  Owned<fid_av> av;
  Owned<fid_cq> cq;
  Owned<fid_ep> ep;
  fi_addr_t self = FI_ADDR_NOTAVAIL;
};

// An atomic on one value of any type.
struct Atomic {
  fi_op op = FI_SUM;
  fi_datatype type = FI_UINT64;
  const void* operand = nullptr;
  void* result = nullptr;         // of fetching and comparing ones
  const void* compare = nullptr;  // of comparing ones
};

ssize_t atomic(Node& node, const Atomic& what, const Remote& remote, uint64_t flags = 0, void* context = nullptr);
int defer_atomic(Node& node, const Atomic& what, const Remote& remote, const When& when, uint64_t flags = 0,
                 void* context = nullptr);
// FI_OP_WRITE or FI_OP_READ.
int defer_rma(Node& node, fi_op_type type, void* local, size_t bytes, const Remote& remote, const When& when,
              uint64_t flags = 0, void* context = nullptr);
int defer_write(Node& node, const void* from, size_t bytes, const Remote& remote, const When& when, uint64_t flags = 0,
                void* context = nullptr);
// FI_OP_CNTR_ADD or FI_OP_CNTR_SET.
int defer_counter(Node& node, fi_op_type type, fid_cntr* counter, uint64_t value, const When& when);
fi_deferred_work work_of(const When& when, fi_op_type type);

// Reading twice: the first one may give the word from before it.
uint64_t successes(const Owned<fid_cntr>& counter);
uint64_t failures(const Owned<fid_cntr>& counter);
// Waits for it.
void counts(Trial& trial, const std::string& what, const Owned<fid_cntr>& counter, uint64_t expected);

}  // namespace lanyard::cxi_rules

#endif  // LANYARD_TESTS_CXI_RULES_NODE_H_
