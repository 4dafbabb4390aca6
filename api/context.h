// Context: Lanyard's state in one MPI process, from MPI_Init to MPI_Finalize. The project's only
// global, because MPI's interface has no place for it.
#ifndef LANYARD_API_CONTEXT_H_
#define LANYARD_API_CONTEXT_H_

#include <mpi.h>

#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "api/communicators.h"
#include "api/context_lock.h"
#include "api/control_thread.h"
#include "api/errors.h"
#include "api/introductions.h"
#include "api/request_table.h"
#include "api/settings.h"
#include "gpu/device/backend.h"
#include "gpu/packing.h"
#include "gpu/stream.h"
#include "transport/core/endpoint.h"
#include "transport/core/control_plane.h"
#include "transport/nic/nic.h"

struct lanyard_queue;

namespace lanyard::api {

class BlockingCall;
class MatchCall;
class StallInquiry;

// The work that a host stream does while it waits: it progresses the NIC and runs overflowed
// operations.
class NicHelper final : public gpu::Helper {
 public:
  NicHelper(nic::Nic& nic, core::Endpoint& endpoint)
      : nic_(nic), overflow_(endpoint.overflow()), standing_(endpoint.standing()) {}
  bool help() override {
    return nic_.progress() + (overflow_.empty() ? 0 : overflow_.drain()) + standing_.keep_up() > 0;
  }
  uint64_t activity() override { return nic_.activity(); }
  void sleep_since(uint64_t seen, std::chrono::nanoseconds timeout) override { nic_.wait_since(seen, timeout); }

 private:
  nic::Nic& nic_;
  core::Overflow& overflow_;
  core::StandingOrders& standing_;
};

class Context {
 public:
  // Null before MPI_Init and after MPI_Finalize.
  static Context* get();
  // MPI_Init calls it. Communicates with no other process. MPI_Finalize destroys the context when
  // MPI deletes the attributes of MPI_COMM_SELF (MPI 4.0 section 11.2.4). Lanyard's attribute is
  // deleted after the program's own, whose callbacks may still use Lanyard.
  static void open();

  ~Context();

  // A function that requires the lock is annotated (ContextLock). The lock is never held in a
  // blocking MPI call.

  // Whether the NIC can be used, or why not. endpoint() and the functions below it require ok().
  const Status& nic_status() const { return nic_status_; }
  uint32_t rank() const { return rank_; }
  uint32_t size() const { return size_; }
  const Settings& settings() const { return settings_; }
  // Null where there are no GPUs; gpu_status() says why.
  gpu::Backend* gpus() { return gpus_.get(); }
  // Carries messages between GPUs without the NIC. Null if no GPU is there or the settings exclude
  // it. Under tools that start no kernel while another one waits, lanes would hang.
  gpu::Lanes* lanes() {
    return gpus_ != nullptr && settings_.peer == "auto" && !settings_.gpu_blocking ? &gpus_->lanes() : nullptr;
  }
  const Status& gpu_status() const { return gpu_status_; }
  Errors& errors() { return errors_; }
  Communicators& communicators() LANYARD_REQUIRES(context_locked) { return communicators_; }
  RequestTable& requests() LANYARD_REQUIRES(context_locked) { return requests_; }
  nic::Nic& nic() { return *nic_; }
  core::Endpoint& endpoint() LANYARD_REQUIRES(context_locked) { return *endpoint_; }
  // Its notice(), listen() and stop_listening() need no lock.
  core::ControlPlane& plane() { return *plane_; }
  core::Matcher& matcher() LANYARD_REQUIRES(context_locked) { return plane_->matcher(); }
  Introductions& introductions() LANYARD_REQUIRES(context_locked) { return *introductions_; }
  NicHelper& helper() { return *helper_; }
  ControlThread& control_thread() { return control_thread_; }
  std::vector<std::unique_ptr<lanyard_queue>>& queues() LANYARD_REQUIRES(context_locked) { return queues_; }
  std::list<std::unique_ptr<MatchCall>>& match_calls() LANYARD_REQUIRES(context_locked) { return match_calls_; }
  // The program's blocking calls that have not returned, oldest first.
  std::vector<BlockingCall*>& blocking_calls() LANYARD_REQUIRES(context_locked) { return blocking_calls_; }
  // The inquiries in progress for these calls.
  std::vector<StallInquiry*>& inquiries() LANYARD_REQUIRES(context_locked) { return inquiries_; }
  uint64_t next_question() LANYARD_REQUIRES(context_locked) { return ++questions_; }
  // Keeps memory of a freed object until the NIC is closed: a peer's NIC may still write to it.
  void keep(std::shared_ptr<gpu::Packing> memory) LANYARD_REQUIRES(context_locked) {
    if (memory != nullptr)
      kept_.push_back(std::move(memory));
  }
  // Scratch for calls on arrays of requests.
  std::vector<core::Request*>& scratch() LANYARD_REQUIRES(context_locked) { return scratch_; }

 private:
  friend class ContextLock;

  Context();
  static void close();
  Status open_nic();
  void finish_queues();
  bool leave_peers();
  std::string lost_peers() const;
  bool halt_streams();

  std::mutex lock_;
  Errors errors_;
  Communicators communicators_;
  Settings settings_;
  uint32_t rank_ = 0;
  uint32_t size_ = 1;
  Status nic_status_;
  Status gpu_status_;
  std::unique_ptr<gpu::Backend> gpus_;           // destroyed after all owners of its memory
  std::unique_ptr<DeviceMemory> faulty_memory_;  // if set, replaces gpus_->memory()
  std::vector<std::shared_ptr<gpu::Packing>> kept_;
  std::unique_ptr<nic::Nic> nic_;
  std::unique_ptr<core::Endpoint> endpoint_;
  std::unique_ptr<NicHelper> helper_;
  std::unique_ptr<core::ControlPlane> plane_;
  std::unique_ptr<Introductions> introductions_;
  ControlThread control_thread_{*this};
  RequestTable requests_;
  std::vector<BlockingCall*> blocking_calls_;
  std::vector<StallInquiry*> inquiries_;
  uint64_t questions_ = 0;
  std::list<std::unique_ptr<MatchCall>> match_calls_;
  std::vector<std::unique_ptr<lanyard_queue>> queues_;
  std::vector<core::Request*> scratch_;
};

inline ContextLock::ContextLock(Context& context) : lock_(context.lock_) {}

// The MPI error class for a Status code.
int error_class_for(Context& context, Code code);

// A new info object of these items. Returns the MPI's error code.
using InfoItems = std::vector<std::pair<const char*, std::string>>;
int make_info(const InfoItems& items, MPI_Info* info);

}  // namespace lanyard::api

#endif  // LANYARD_API_CONTEXT_H_
