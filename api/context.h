// Context: everything of Lanyard's in one MPI process, from MPI_Init to MPI_Finalize. The one global of the project,
// because MPI's own interface has no place to hang it on.
#ifndef LANYARD_API_CONTEXT_H_
#define LANYARD_API_CONTEXT_H_

#include <mpi.h>

#include <list>
#include <memory>
#include <mutex>
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

// What a host stream does while it waits: the NIC's work, and the overflow's.
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
  // MPI_Init makes it; asks no other process. It goes in MPI_Finalize, when MPI deletes the attributes of
  // MPI_COMM_SELF, the program's own before Lanyard's (MPI 4.0 section 11.2.4): what the program frees there still
  // finds it.
  static void open();

  ~Context();

  // What requires the lock says so (ContextLock). It is never held in a blocking MPI call.

  // Why the NIC cannot be used; ok() where it can. endpoint() and all that follows it require that.
  const Status& nic_status() const { return nic_status_; }
  uint32_t rank() const { return rank_; }
  uint32_t size() const { return size_; }
  const Settings& settings() const { return settings_; }
  // Null where there are no GPUs; gpu_status() says why.
  gpu::Backend* gpus() { return gpus_.get(); }
  // By which messages between GPUs go that need no card; null: none do. (Under tools where no kernel starts while
  // another waits, lanes would wait for ever.)
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
  // The calls that the program is in and that wait, oldest first.
  std::vector<BlockingCall*>& blocking_calls() LANYARD_REQUIRES(context_locked) { return blocking_calls_; }
  // What is being found out for some of them.
  std::vector<StallInquiry*>& inquiries() LANYARD_REQUIRES(context_locked) { return inquiries_; }
  uint64_t next_question() LANYARD_REQUIRES(context_locked) { return ++questions_; }
  // Memory that somebody else's card may yet write to, though what it was for has been freed: goes with the card.
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
  bool is_any_lost() const;
  bool halt_streams();

  std::mutex lock_;
  Errors errors_;
  Communicators communicators_;
  Settings settings_;
  uint32_t rank_ = 0;
  uint32_t size_ = 1;
  Status nic_status_;
  Status gpu_status_;
  std::unique_ptr<gpu::Backend> gpus_;           // goes behind all that owns memory of it: requests too
  std::unique_ptr<DeviceMemory> faulty_memory_;  // in place of gpus_->memory(), where it is set
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

// The MPI error class for a code of the inner layers.
int error_class_for(Context& context, Code code);

}  // namespace lanyard::api

#endif  // LANYARD_API_CONTEXT_H_
