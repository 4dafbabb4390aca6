#include "api/context.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "api/backends.h"
#include "api/blocking_call.h"
#include "api/followed_calls.h"
#include "api/match_call.h"
#include "api/queue.h"
#include "api/stall_inquiry.h"

namespace lanyard::api {

namespace {

Context* the_context = nullptr;

constexpr std::chrono::milliseconds kBetweenTests{1};
// MPI_Finalize gives up this long after it has noticed that a process ended early.
constexpr std::chrono::milliseconds kAfterLoss{2000};
// MPI_Finalize waits this long for a running kernel to return.
constexpr std::chrono::seconds kLongestKernel{1};

#if defined(OPEN_MPI)
constexpr const char* kOwn = "openmpi";
constexpr const char* kOther = "mpich";
constexpr std::string_view kForeign[] = {"MPICH", "MVAPICH", "Intel(R) MPI"};
#else
constexpr const char* kOwn = "mpich";
constexpr const char* kOther = "openmpi";
constexpr std::string_view kForeign[] = {"Open MPI", "Spectrum MPI"};
#endif

// Enough for every MPI. MPI_MAX_LIBRARY_VERSION_STRING of this MPI may be too small for another.
constexpr size_t kLongestVersion = 16'384;

bool is_foreign_mpi(std::string_view library_version) {
  return std::ranges::any_of(
      kForeign, [&](std::string_view name) { return library_version.find(name) != std::string_view::npos; });
}

// Aborts if the program's MPI is not the one that this library is compiled for, and names the
// library to link. Call it first: it passes no handle, and handles of the other MPI are invalid.
void refuse_foreign_mpi() {
  char version[kLongestVersion] = {};
  int length = 0;
  if (PMPI_Get_library_version(version, &length) != MPI_SUCCESS || !is_foreign_mpi(version))
    return;
  std::string_view line = version;
  line = line.substr(0, line.find('\n'));
  std::fprintf(stderr, "lanyard: this is liblanyard-%s, but the program's MPI is %.*s: link lanyard-%s in its place\n",
               kOwn, static_cast<int>(line.size()), line.data(), kOther);
  std::abort();
}

}  // namespace

Context* Context::get() { return the_context; }
void Context::open() {
  refuse_foreign_mpi();
  the_context = new Context;
  // MPI deletes this attribute last because it is set first. The callback may still call the MPI.
  const auto on_delete = [](MPI_Comm, int, void*, void*) {
    close();
    return MPI_SUCCESS;
  };
  int keyval = MPI_KEYVAL_INVALID;
  PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, on_delete, &keyval, nullptr);
  PMPI_Comm_set_attr(MPI_COMM_SELF, keyval, nullptr);
  PMPI_Comm_free_keyval(&keyval);
}

void Context::close() {
  Context* context = the_context;
  if (context->nic_status_.ok())
    context->finish_queues();
  // Keep the NIC until no peer writes to it or waits for its acknowledgement.
  if (context->nic_status_.ok() && !context->leave_peers()) {
    std::fprintf(stderr,
                 "lanyard: rank %u: MPI_Finalize aborts the job: a peer has ended without MPI_Finalize; find out why\n",
                 context->rank_);
    PMPI_Abort(MPI_COMM_WORLD, 1);
  }
  context->control_thread_.stop();
  the_context = nullptr;
  if (context->halt_streams())
    delete context;
  // Else a kernel still runs. Keep all memory that it may use until the process ends.
}

// Waits until everything that the program has enqueued is complete. Prints failures.
void Context::finish_queues() {
  for (const auto& queue : queues_) {
    const auto is_through = [&] {
      const ContextLock lock(*this);
      // The program may have destroyed a device's stream after all was complete: do not poll the
      // stream. settled() polls it if it has graphs.
      return queue->device_stream != nullptr ? queue->core->first_under_way() == nullptr
                                             : queue->core->settled() && queue->stream().is_empty();
    };
    if (is_through())
      continue;
    std::optional<Refusal> failure = wait_until_empty(*this, *queue, "MPI_Finalize");
    // A failed request is reported once. Then wait for the others, which may still complete.
    while (failure && failure->error_class == LANYARD_ERR_FAILED && queue->stream().health().ok() && !is_through()) {
      std::fprintf(stderr, "lanyard: rank %u: in MPI_Finalize: %s\n", rank_, failure->text.c_str());
      failure = wait_until_empty(*this, *queue, "MPI_Finalize");
    }
    if (failure)
      std::fprintf(stderr, "lanyard: rank %u: MPI_Finalize drops what was enqueued on queue %llu: %s\n", rank_,
                   static_cast<unsigned long long>(queue->core->number()), failure->text.c_str());
  }
}

// Polls the NIC until all processes that this one knows have called MPI_Finalize. Returns false if
// one of them has ended without.
bool Context::leave_peers() {
  const auto missing = [this] { return "waits for its peers to call MPI_Finalize" + lost_peers(); };
  BlockingCall call(*this, {.name = "MPI_Finalize", .extra = missing});
  {
    const ContextLock lock(*this);
    introductions_->drain(*plane_);
    introductions_->take_leave(*plane_);
  }
  std::optional<BlockingCall::Clock::time_point> lost_since;
  bool printed = false;
  while (true) {
    const uint64_t seen = nic_->activity();
    helper_->help();
    std::string report;
    bool hopeless = false;
    {
      const ContextLock lock(*this);
      introductions_->drain(*plane_);
      plane_->progress();
      if (plane_->leave())
        return true;
      const auto now = BlockingCall::Clock::now();
      if (!lost_since && !lost_peers().empty())
        lost_since = now;
      hopeless = lost_since && now - *lost_since > kAfterLoss;
      // At the deadline, report once and continue: a slow peer is no reason to abort the job.
      if ((hopeless || (!printed && call.overdue())) && call.report_ready())
        report = call.report();
    }
    if (!report.empty()) {
      std::fprintf(stderr, "lanyard: rank %u: MPI_Finalize: %s\n", rank_, report.c_str());
      printed = true;
      if (hopeless)
        return false;
    }
    nic_->wait_since(seen, kBetweenTests);
  }
}

// Each peer that has ended without MPI_Finalize, after a semicolon.
std::string Context::lost_peers() const {
  std::string text;
  for (uint32_t rank = 0; rank < size_; ++rank)
    if (plane_->left_without_leave(rank))
      text += "; " + plane_->why_lost(rank);
  return text;
}

// Stops streams that are not empty: they would use words and counters that are freed next. Returns
// false if a kernel does not return.
bool Context::halt_streams() {
  bool halted = true;
  for (const auto& queue : queues_) {
    // Do not poll a device's stream: the program may have destroyed it.
    if (queue->device_stream == nullptr && queue->stream().poll())
      continue;
    if (queue->stream().halt(kLongestKernel))
      continue;
    halted = false;
    std::fprintf(stderr,
                 "lanyard: rank %u: in MPI_Finalize a kernel of queue %llu did not return within %lld s: memory stays"
                 " allocated; end kernels before MPI_Finalize\n",
                 rank_, static_cast<unsigned long long>(queue->core->number()),
                 static_cast<long long>(kLongestKernel.count()));
  }
  return halted;
}

Context::Context() {
  int rank = 0;
  PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
  rank_ = static_cast<uint32_t>(rank);
  int size = 1;
  PMPI_Comm_size(MPI_COMM_WORLD, &size);
  size_ = static_cast<uint32_t>(size);
  introductions_ = std::make_unique<Introductions>(rank_, size_);
  nic_status_ = open_nic();
}

// Communicates with no other process.
Status Context::open_nic() {
  LANYARD_ASSIGN_OR_RETURN(settings_, Settings::from_environment());
  Result<std::unique_ptr<gpu::Backend>> gpus = open_gpus(settings_);
  gpu_status_ = gpus.status();
  DeviceMemory* memory = nullptr;
  if (gpus.ok()) {
    gpus_ = std::move(gpus.value());
    memory = &gpus_->memory();
    if (Result<std::unique_ptr<DeviceMemory>> faulty = faulty_memory(settings_, *memory);
        faulty.ok() && faulty.value() != nullptr) {
      faulty_memory_ = std::move(faulty.value());
      memory = faulty_memory_.get();
    }
  }
  LANYARD_ASSIGN_OR_RETURN(nic_, api::open_nic(settings_, memory));
  LANYARD_ASSIGN_OR_RETURN(std::unique_ptr<core::ControlChannel> channel,
                           core::ControlChannel::open(*nic_, rank_, size_, core::ControlChannel::slots_for(size_)));
  std::vector<nic::Address> addresses(size_);
  addresses[rank_] = nic_->address();
  LANYARD_RETURN_IF_ERROR(nic_->set_peers(addresses, rank_));
  const core::Strategy strategy = settings_.strategy.value_or(core::strategy_for(nic_->caps()));
  endpoint_ = std::make_unique<core::Endpoint>(*nic_, rank_,
                                               core::Endpoint::Options{.overflow = settings_.overflow,
                                                                       .overflow_thread = true,
                                                                       .check_ready_sends = settings_.checked,
                                                                       .strategy = strategy,
                                                                       .lanes = lanes()});
  helper_ = std::make_unique<NicHelper>(*nic_, *endpoint_);
  plane_ = std::make_unique<core::ControlPlane>(*endpoint_, std::move(channel));
  plane_->on_message([this](uint32_t from, std::span<const std::byte> message)
                         LANYARD_REQUIRES(context_locked) { StallInquiry::on_message(*this, from, message); });
  return control_thread_.start();
}

Context::~Context() {
  if (endpoint_ != nullptr) {
    endpoint_->standing().stop();
    endpoint_->overflow().stop();
  }
  for (const auto& queue : queues_)
    queue->abandon();
  queues_.clear();
  // Streams must not use their words after this.
  if (gpus_ != nullptr)
    gpus_->forget_words();
  match_calls_.clear();
  plane_.reset();
  endpoint_.reset();
  helper_.reset();
  nic_.reset();
  faulty_memory_.reset();
}

int error_class_for(Context& context, Code code) {
  switch (code) {
    case Code::kOk: return MPI_SUCCESS;
    case Code::kInvalidArgument: return MPI_ERR_ARG;
    case Code::kInvalidState: return MPI_ERR_REQUEST;
    case Code::kTruncated: return MPI_ERR_TRUNCATE;
    case Code::kUnsupported: return MPI_ERR_UNSUPPORTED_OPERATION;
    case Code::kAgain: return MPI_ERR_NO_MEM;
    case Code::kExhausted: return context.errors().class_of(LANYARD_ERROR_NO_ENTRIES);
    case Code::kTimedOut: return context.errors().class_of(LANYARD_ERROR_STALLED);
    case Code::kNotFound:
    case Code::kUnmapped:
    case Code::kFailed: return context.errors().class_of(LANYARD_ERROR_FAILED);
  }
  return MPI_ERR_OTHER;
}

int make_info(const InfoItems& items, MPI_Info* info) {
  const int code = PMPI_Info_create(info);
  if (code != MPI_SUCCESS)
    return code;
  for (const auto& [key, value] : items)
    PMPI_Info_set(*info, key, value.c_str());
  return MPI_SUCCESS;
}

}  // namespace lanyard::api

// ---- MPI_Init and MPI_Finalize

extern "C" {

// Some MPIs' Fortran MPI_Init calls MPI_Init below: then the context is open already.
void lanyard_follow_init(void) {
  if (lanyard::api::Context::get() != nullptr)
    return;
  lanyard::api::Context::open();
}

int MPI_Init(int* argc, char*** argv) {
  const int code = PMPI_Init(argc, argv);
  if (code == MPI_SUCCESS)
    lanyard_follow_init();
  return code;
}

int MPI_Init_thread(int* argc, char*** argv, int required, int* provided) {
  const int code = PMPI_Init_thread(argc, argv, required, provided);
  if (code == MPI_SUCCESS)
    lanyard_follow_init();
  return code;
}

}  // extern "C"
