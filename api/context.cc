#include "api/context.h"

#include <algorithm>
#include <cstring>

#include "api/backends.h"
#include "api/match_call.h"
#include "api/queue.h"
#include "transport/base/job_secret.h"

namespace lanyard::api {

namespace {

Context* the_context = nullptr;

// Every process's address by rank. Collective.
std::vector<nic::Address> exchange_addresses(const nic::Nic* nic, MPI_Comm communicator) {
  struct Slot {
    uint64_t size;
    std::byte bytes[nic::Address::kMaxBytes];
  };
  Slot mine{};
  if (nic != nullptr) {
    const nic::Address address = nic->address();
    mine.size = std::min(address.bytes.size(), sizeof mine.bytes);
    std::memcpy(mine.bytes, address.bytes.data(), mine.size);
  }
  int size = 0;
  PMPI_Comm_size(communicator, &size);
  std::vector<Slot> slots(static_cast<size_t>(size));
  PMPI_Allgather(&mine, sizeof mine, MPI_BYTE, slots.data(), sizeof mine, MPI_BYTE, communicator);
  std::vector<nic::Address> addresses;
  for (const Slot& slot : slots)
    addresses.push_back({{slot.bytes, slot.bytes + slot.size}});
  return addresses;
}

// What the processes of this job alone know. Collective.
JobSecret share_secret(MPI_Comm communicator, uint32_t rank) {
  JobSecret secret = rank == 0 ? JobSecret::random() : JobSecret{};
  PMPI_Bcast(&secret, sizeof secret, MPI_BYTE, 0, communicator);
  return secret;
}

}  // namespace

Context* Context::get() { return the_context; }
void Context::open() { the_context = new Context; }

void Context::close() {
  // Nobody takes its NIC away while another still writes to it or waits for its acknowledgement.
  PMPI_Barrier(the_context->private_world_);
  delete the_context;
  the_context = nullptr;
}

Context::Context() {
  PMPI_Comm_dup(MPI_COMM_WORLD, &private_world_);
  PMPI_Comm_set_errhandler(private_world_, MPI_ERRORS_RETURN);
  int rank = 0;
  PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
  rank_ = static_cast<uint32_t>(rank);
  nic_status_ = open_nic();
}

// Every process takes part in the exchange, whether it has a NIC or not.
Status Context::open_nic() {
  const JobSecret secret = share_secret(private_world_, rank_);
  Result<Settings> settings = Settings::from_environment();
  Status status = settings.status();
  if (settings.ok()) {
    settings_ = settings.value();
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
    Result<std::unique_ptr<nic::Nic>> nic = api::open_nic(settings_, memory, secret);
    status = nic.status();
    if (nic.ok())
      nic_ = std::move(nic.value());
  }
  const std::vector<nic::Address> addresses = exchange_addresses(nic_.get(), private_world_);
  LANYARD_RETURN_IF_ERROR(status);
  for (size_t rank = 0; rank < addresses.size(); ++rank)
    if (addresses[rank].bytes.empty())
      return {Code::kFailed, "rank " + std::to_string(rank) + " has no network card"};
  LANYARD_RETURN_IF_ERROR(nic_->set_peers(addresses, rank_));
  const core::Strategy strategy = settings_.strategy.value_or(core::strategy_for(nic_->caps()));
  if (const char* obstacle = core::obstacle(strategy, nic_->caps()))
    return {Code::kUnsupported, std::string("LANYARD_STRATEGY=") + strategy_name(strategy) + ": the card " +
                                    nic_->caps().name + " " + obstacle + "; leave the strategy to Lanyard"};
  endpoint_ = std::make_unique<core::Endpoint>(
      *nic_, rank_,
      core::Endpoint::Options{.overflow = settings_.overflow, .overflow_thread = true, .strategy = strategy});
  helper_ = std::make_unique<NicHelper>(*nic_, *endpoint_);
  courier_ = std::make_unique<MpiCourier>(private_world_);
  matcher_ = std::make_unique<core::Matcher>(*endpoint_, *courier_);
  return {};
}

Context::~Context() {
  if (endpoint_ != nullptr) {
    endpoint_->standing().stop();
    endpoint_->overflow().stop();
  }
  for (const auto& queue : queues_) {
    // A stream that is not through would go on with words and counters that end here.
    // A device's driver is not asked whether its stream is empty: the program may have destroyed the stream.
    if (queue->device_stream != nullptr || !queue->stream().poll())
      queue->stream().halt();
    queue->abandon();
  }
  queues_.clear();
  // The words of streams are about to go.
  if (gpus_ != nullptr)
    gpus_->forget_words();
  match_calls_.clear();
  matcher_.reset();
  courier_.reset();
  endpoint_.reset();
  helper_.reset();
  nic_.reset();
  faulty_memory_.reset();
  gpus_.reset();
  PMPI_Comm_free(&private_world_);
}

int error_class_for(Context& context, Code code) {
  switch (code) {
    case Code::kOk: return MPI_SUCCESS;
    case Code::kInvalidArgument: return MPI_ERR_ARG;
    case Code::kInvalidState: return MPI_ERR_REQUEST;
    case Code::kTruncated: return MPI_ERR_TRUNCATE;
    case Code::kUnsupported: return MPI_ERR_UNSUPPORTED_OPERATION;
    case Code::kAgain: return MPI_ERR_NO_MEM;
    case Code::kExhausted: return context.errors().class_of(MPIX_ERROR_NO_ENTRIES);
    case Code::kTimedOut: return context.errors().class_of(MPIX_ERROR_STALLED);
    case Code::kNotFound:
    case Code::kUnmapped:
    case Code::kFailed: return context.errors().class_of(MPIX_ERROR_FAILED);
  }
  return MPI_ERR_OTHER;
}

}  // namespace lanyard::api

// ---- MPI_Init and MPI_Finalize

extern "C" {

int MPI_Init(int* argc, char*** argv) {
  const int code = PMPI_Init(argc, argv);
  if (code == MPI_SUCCESS)
    lanyard::api::Context::open();
  return code;
}

int MPI_Init_thread(int* argc, char*** argv, int required, int* provided) {
  const int code = PMPI_Init_thread(argc, argv, required, provided);
  if (code == MPI_SUCCESS)
    lanyard::api::Context::open();
  return code;
}

int MPI_Finalize(void) {
  if (lanyard::api::Context::get() != nullptr)
    lanyard::api::Context::close();
  return PMPI_Finalize();
}

}  // extern "C"
