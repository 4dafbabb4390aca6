#include "gpu/device/device.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <string>
#include <thread>

#include "transport/base/check.h"
#include "transport/base/reserve.h"

namespace lanyard::gpu {
namespace {

std::string name_of(std::span<const std::byte> uuid) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string name;
  for (const std::byte byte : uuid) {
    name += kDigits[std::to_integer<unsigned>(byte) >> 4];
    name += kDigits[std::to_integer<unsigned>(byte) & 15];
  }
  return name;
}

std::span<const uint64_t> words_of(const LaneEnd& end) {
  return {reinterpret_cast<const uint64_t*>(&end), sizeof end / sizeof(uint64_t)};
}

uint64_t number_of(const void* pointer) { return reinterpret_cast<uint64_t>(pointer); }
void* pointer_to(uint64_t number) { return reinterpret_cast<void*>(number); }

constexpr size_t kCensusBytes = sizeof(uint64_t);

Status no_place(const std::string& path, const char* call) {
  return Status(Code::kUnsupported, std::string(call) + " " + path + ": " + std::strerror(errno));
}

// A lock of the open file, not of the process: locks of one process do not hide one another.
struct flock whole_file(short type) {
  struct flock lock {};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  return lock;
}

}  // namespace

void Slab::begin(DeviceAddress memory, const std::string& device) {
  memory_ = memory;
  device_ = device;
  for (uint64_t place = places_; place > 0; --place)  // the lowest is taken first
    free_.push_back(memory + (place - 1) * bytes_);
}

Result<DeviceAddress> Slab::take() {
  const std::lock_guard lock(mutex_);
  if (free_.empty())
    return Status(Code::kExhausted, "all " + std::to_string(places_) + " " + what_ + " of device " + device_ +
                                        " are in use: free requests or queues");
  const DeviceAddress place = free_.back();
  free_.pop_back();
  return place;
}

void Slab::give(DeviceAddress place) {
  const std::lock_guard lock(mutex_);
  free_.push_back(place);
}

Result<std::unique_ptr<Device>> Device::open(Driver& driver, ContextHandle context, Sharing sharing) {
  std::unique_ptr<Device> device(new Device(driver, context, sharing));
  LANYARD_RETURN_IF_ERROR(device->set_up());
  return device;
}

Status Device::set_up() {
  LANYARD_ASSIGN_OR_RETURN(ordinal_, driver_.device_of_context(context_));
  LANYARD_ASSIGN_OR_RETURN(facts_, driver_.facts(ordinal_));

  if (sharing_ == Sharing::kAsk) {
    Result<std::unique_ptr<Census>> census = Census::join("/dev/shm", "gpu-" + name_of(facts_.uuid));
    if (census.ok())
      census_ = std::move(census.value());  // if not, no other process can tell either
  }

  const Inside inside(driver_, context_);
  LANYARD_RETURN_IF_ERROR(inside.status());
  constexpr std::array<const char*, kKernels> names = {"ring", "store", "store_next", "wait",   "wait_next",
                                                       "copy", "serve", "pack",       "reduce", "lanes"};
  for (size_t i = 0; i < kernels_.size(); ++i) {
    LANYARD_ASSIGN_OR_RETURN(kernels_[i], driver_.load_kernel(names[i]));
  }
  LANYARD_ASSIGN_OR_RETURN(side_stream_, driver_.make_stream());

  LANYARD_ASSIGN_OR_RETURN(void* const memory, driver_.allocate_host(pairs_.bytes() + rings_.bytes()));
  host_memory_ = static_cast<std::byte*>(memory);
  LANYARD_ASSIGN_OR_RETURN(const PointerFacts memory_facts, driver_.facts_of(host_memory_));
  host_address_ = memory_facts.address;
  LANYARD_ASSIGN_OR_RETURN(device_memory_, driver_.allocate(ends_.bytes() + counts_.bytes()));
  pairs_.begin(host_address_, facts_.name);
  rings_.begin(host_address_ + pairs_.bytes(), facts_.name);
  ends_.begin(device_memory_, facts_.name);
  counts_.begin(device_memory_ + ends_.bytes(), facts_.name);

  // Launch each kernel once, with nothing to do.
  LANYARD_ASSIGN_OR_RETURN(const WordPair pair, take_pair());
  const std::lock_guard lock(side_);
  for (const Kernel kernel : {Kernel::kRing, Kernel::kStore, Kernel::kStoreNext, Kernel::kWait, Kernel::kWaitNext})
    LANYARD_RETURN_IF_ERROR(run_aside(kernel, WordArguments{}));
  CopyArguments copy{};
  copy.completion = pair.first_address;
  LANYARD_RETURN_IF_ERROR(launch(side_stream_, 1, copy));
  LANYARD_ASSIGN_OR_RETURN(const CommandRing ring, take_ring());
  ServeArguments serve{};
  serve.commands = ring.address;
  serve.left = pair.second_address;
  LANYARD_RETURN_IF_ERROR(launch(side_stream_, serve));
  LANYARD_RETURN_IF_ERROR(launch(side_stream_, PackArguments{}));
  LANYARD_RETURN_IF_ERROR(launch(side_stream_, CombineArguments{}));
  LANYARD_RETURN_IF_ERROR(launch(side_stream_, 1, 0, LaneArguments{}));
  LANYARD_RETURN_IF_ERROR(wait_aside());
  give_ring(ring);
  give_pair(pair);
  return {};
}

Device::~Device() {
  const Inside inside(driver_, context_);
  if (!inside.status().ok())
    return;  // the driver is already gone
  if (side_stream_ != nullptr)
    driver_.destroy_stream(side_stream_);
  if (host_memory_ != nullptr)
    driver_.free_host(host_memory_);
  if (device_memory_ != 0)
    driver_.free(device_memory_);
  for (const auto& [memory, words] : memory_)
    driver_.free(memory);
}

uint32_t Device::blocks_for(uint64_t units, uint32_t threads) const {
  const uint64_t most = uint64_t{8} * static_cast<uint64_t>(facts_.multiprocessors);
  return static_cast<uint32_t>(std::clamp<uint64_t>((units + threads - 1) / threads, 1, most));
}

template <typename Arguments>
Status Device::launch(StreamHandle stream, Kernel kernel, uint32_t blocks, uint32_t threads, const Arguments& arguments,
                      Driver::Order order) {
  return driver_.launch(stream, kernels_[static_cast<size_t>(kernel)], blocks, threads,
                        std::as_bytes(std::span(&arguments, 1)), order);
}

Status Device::launch(StreamHandle stream, Kernel kernel, const WordArguments& arguments) {
  return launch(stream, kernel, 1, std::max(arguments.count, 1u), arguments);
}

Status Device::launch(StreamHandle stream, uint32_t blocks, const CopyArguments& arguments) {
  return launch(stream, Kernel::kCopy, blocks, kCopyThreads, arguments);
}

Status Device::launch(StreamHandle stream, const ServeArguments& arguments) {
  return launch(stream, Kernel::kServe, 1, kServeThreads, arguments);
}

Status Device::launch(StreamHandle stream, const PackArguments& arguments) {
  const uint64_t units = arguments.bytes / std::max(arguments.unit, 1u);
  return launch(stream, Kernel::kPack, blocks_for(units, kPackThreads), kPackThreads, arguments);
}

Status Device::launch(StreamHandle stream, const CombineArguments& arguments) {
  return launch(stream, Kernel::kReduce, blocks_for(arguments.count, kReduceThreads), kReduceThreads, arguments);
}

// One block per chunk, but at most one per multiprocessor: a block may copy several chunks. Blocks
// that wait stay for long, so they use at most a quarter of the multiprocessors.
Status Device::launch(StreamHandle stream, uint64_t chunks, uint64_t chunk_bytes, const LaneArguments& arguments) {
  constexpr uint64_t kUnit = 16;
  const auto all = static_cast<uint64_t>(facts_.multiprocessors);
  const uint64_t most = arguments.wait != 0 ? std::max<uint64_t>(1, all / 4) : all;
  const auto blocks = static_cast<uint32_t>(std::clamp<uint64_t>(chunks, 1, most));
  const uint64_t most_threads = arguments.wait != 0 ? kLaneThreads / 2 : kLaneThreads;
  const auto threads = static_cast<uint32_t>(
      std::clamp<uint64_t>(std::bit_ceil(chunk_bytes / kUnit), 2 * LaneArguments::kLanes, most_threads));
  return launch(stream, Kernel::kLanes, blocks, threads, arguments, Driver::Order::kOverlapping);
}

Status Device::run_aside(Kernel kernel, const WordArguments& arguments) {
  LANYARD_RETURN_IF_ERROR(launch(side_stream_, kernel, arguments));
  return wait_aside();
}

Status Device::wait_aside() {
  for (;;) {
    LANYARD_ASSIGN_OR_RETURN(const bool empty, driver_.is_empty(side_stream_));
    if (empty)
      return {};
    std::this_thread::yield();
  }
}

Status Device::store(DeviceAddress to, std::span<const uint64_t> words) {
  const Inside inside(driver_, context_);
  LANYARD_RETURN_IF_ERROR(inside.status());
  const std::lock_guard lock(side_);
  for (size_t first = 0; first < words.size(); first += WordArguments::kEntries) {
    WordArguments arguments{};
    arguments.count = static_cast<uint32_t>(std::min<size_t>(WordArguments::kEntries, words.size() - first));
    for (uint32_t i = 0; i < arguments.count; ++i)
      arguments.entries[i] = {to + (first + i) * sizeof(uint64_t), words[first + i], 0};
    LANYARD_RETURN_IF_ERROR(run_aside(Kernel::kStore, arguments));
  }
  return {};
}

Result<WordPair> Device::take_pair() {
  LANYARD_ASSIGN_OR_RETURN(const DeviceAddress place, pairs_.take());
  std::byte* const memory = host_memory_ + (place - host_address_);
  const WordPair pair{reinterpret_cast<uint64_t*>(memory), reinterpret_cast<uint64_t*>(memory + kLine), place,
                      place + kLine};
  std::atomic_ref(*pair.first).store(0);
  std::atomic_ref(*pair.second).store(0);
  return pair;
}

Result<CommandRing> Device::take_ring() {
  LANYARD_ASSIGN_OR_RETURN(const DeviceAddress place, rings_.take());
  std::byte* const memory = host_memory_ + (place - host_address_);
  std::memset(memory, 0, sizeof(CopyCommands));
  return CommandRing{reinterpret_cast<CopyCommands*>(memory), place};
}

Result<DeviceAddress> Device::take(Slab& slab, std::span<const uint64_t> content) {
  LANYARD_ASSIGN_OR_RETURN(const DeviceAddress place, slab.take());
  if (Status status = store(place, content); !status.ok()) {
    slab.give(place);
    return status;
  }
  return place;
}

Result<uint64_t*> Device::take_count(uint64_t value) {
  LANYARD_ASSIGN_OR_RETURN(const DeviceAddress count, take(counts_, {&value, 1}));
  return reinterpret_cast<uint64_t*>(count);
}

Result<std::byte*> Device::take_memory(size_t words) {
  const Inside inside(driver_, context_);
  LANYARD_RETURN_IF_ERROR(inside.status());
  const std::lock_guard lock(side_);
  if (const auto unused = unused_.find(words); unused != unused_.end())
    return reinterpret_cast<std::byte*>(unused_.extract(unused).mapped());
  LANYARD_ASSIGN_OR_RETURN(const DeviceAddress memory, driver_.allocate(words * sizeof(uint64_t)));
  memory_.emplace(memory, words);
  return reinterpret_cast<std::byte*>(memory);
}

Result<std::byte*> Device::take_memory(std::span<const uint64_t> content) {
  LANYARD_ASSIGN_OR_RETURN(std::byte* const memory, take_memory(content.size()));
  if (Status status = store(reinterpret_cast<DeviceAddress>(memory), content); !status.ok()) {
    give_memory(memory);
    return status;
  }
  return memory;
}

void Device::give_memory(std::byte* memory) {
  const std::lock_guard lock(side_);
  const auto known = memory_.find(reinterpret_cast<DeviceAddress>(memory));
  LANYARD_CHECK(known != memory_.end(), "give_memory() takes only memory of take_memory()");
  unused_.emplace(known->second, known->first);
}

Result<DeviceAddress> Device::take_end() { return take(ends_, words_of(LaneEnd{})); }

Status Device::write_end(DeviceAddress end, const LaneEnd& content) {
  return store(end, words_of(content).first(offsetof(LaneEnd, started) / sizeof(uint64_t)));
}

Result<Device*> Devices::of_context(ContextHandle context) {
  const std::lock_guard lock(mutex_);
  for (const std::unique_ptr<Device>& device : devices_)
    if (device->context() == context)
      return device.get();
  LANYARD_ASSIGN_OR_RETURN(std::unique_ptr<Device> device, Device::open(driver_, context, options_.sharing));
  return devices_.emplace_back(std::move(device)).get();
}

Result<Device*> Devices::of_ordinal(int ordinal) {
  LANYARD_ASSIGN_OR_RETURN(const ContextHandle context, driver_.context_of_device(ordinal));
  return of_context(context);
}

// ---- Census

Result<std::unique_ptr<Census>> Census::join(const std::string& folder, const std::string& thing) {
  const std::string path = folder + "/lanyard-census-" + std::to_string(::getuid()) + "-" + thing;
  const int file = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (file < 0)
    return no_place(path, "open");
  std::unique_ptr<Census> census(new Census(file));
  if (const Status room = reserve_file(file, kCensusBytes); !room.ok())
    return Status(Code::kUnsupported, path + ": " + room.message());
  struct flock lock = whole_file(F_RDLCK);
  if (::fcntl(file, F_OFD_SETLK, &lock) != 0)
    return no_place(path, "fcntl(F_OFD_SETLK)");
  void* const memory = ::mmap(nullptr, kCensusBytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (memory == MAP_FAILED)
    return no_place(path, "mmap");
  census->changes_ = static_cast<uint64_t*>(memory);
  // After the lock: a process that sees the change finds the lock.
  std::atomic_ref(*census->changes_).fetch_add(1);
  return census;
}

Census::Census(int file) : file_(file), process_(::getpid()) {}

Census::~Census() {
  // A forked child shares its parent's lock and must not release it.
  if (::getpid() == process_) {
    struct flock lock = whole_file(F_UNLCK);
    static_cast<void>(::fcntl(file_, F_OFD_SETLK, &lock));
    if (changes_ != nullptr)
      std::atomic_ref(*changes_).fetch_add(1);
  }
  if (changes_ != nullptr)
    ::munmap(changes_, kCensusBytes);
  ::close(file_);
}

bool Census::has_others() {
  const std::atomic_ref changes(*changes_);
  if (changes.load(std::memory_order_acquire) == seen_.load(std::memory_order_acquire))
    return others_.load(std::memory_order_relaxed);
  const std::lock_guard lock(mutex_);
  const uint64_t now = changes.load();
  struct flock theirs = whole_file(F_WRLCK);  // finds any lock that conflicts with an exclusive one
  const bool asked = ::fcntl(file_, F_OFD_GETLK, &theirs) == 0;
  others_.store(asked && theirs.l_type != F_UNLCK, std::memory_order_relaxed);
  seen_.store(now, std::memory_order_release);
  return others_.load(std::memory_order_relaxed);
}

// ---- Host pages

HostPages::HostPages(Driver& driver) : driver_(driver), page_bytes_(static_cast<uint64_t>(sysconf(_SC_PAGESIZE))) {}

HostPages::~HostPages() { forget(); }

Result<HostPages::Place> HostPages::reach(const Device& device, const uint64_t* word) {
  const uint64_t page = page_of(word);
  {
    const std::shared_lock lock(mutex_);
    if (const auto found = registered_.find(page); found != registered_.end())
      if (const auto known = found->second.addresses.find(device.ordinal()); known != found->second.addresses.end())
        return Place{known->second + (number_of(word) - page), false};
  }
  const std::unique_lock lock(mutex_);
  return look_up(device, word);
}

Result<HostPages::Place> HostPages::look_up(const Device& device, const uint64_t* word) {
  const uint64_t page = page_of(word);
  LANYARD_ASSIGN_OR_RETURN(PointerFacts facts, driver_.facts_of(word));
  if (facts.kind == PointerFacts::Kind::kPageable) {
    LANYARD_RETURN_IF_ERROR(register_page(device, page));
    LANYARD_ASSIGN_OR_RETURN(facts, driver_.facts_of(word));
  }
  switch (facts.kind) {
    case PointerFacts::Kind::kDevice:
      if (facts.device != device.ordinal())
        LANYARD_RETURN_IF_ERROR(driver_.reach_device(facts.device));
      return Place{facts.address, true};
    case PointerFacts::Kind::kManaged:
      return Status(Code::kUnsupported, "streams cannot wait for a word in managed memory: use ordinary host memory");
    case PointerFacts::Kind::kPageable:
      return Status(Code::kUnsupported, "the device cannot reach a word of host memory, though its page is registered");
    case PointerFacts::Kind::kPinned: break;
  }
  const DeviceAddress address = facts.address;
  // Others may unregister pages that they registered, so do not remember those.
  if (const auto found = registered_.find(page); found != registered_.end())
    found->second.addresses[device.ordinal()] = address - (number_of(word) - page);
  return Place{address, false};
}

Status HostPages::register_page(const Device& device, uint64_t page) {
  if (registered_.contains(page))
    return {};
  const Status status = driver_.register_host(pointer_to(page), page_bytes_);
  if (status.code() == Code::kInvalidState)
    return {};  // others have registered at least a part of it
  if (!status.ok() && status.code() != Code::kFailed)
    return Status(Code::kUnsupported,
                  "the driver cannot register a page of words (shared, mapped from a device, "
                  "or beyond ulimit -l?): " +
                      status.message());
  if (status.ok())
    registered_[page].context = device.context();
  return status;
}

void HostPages::forget() {
  const std::unique_lock lock(mutex_);
  for (const auto& [page, known] : registered_) {
    const Inside inside(driver_, known.context);
    if (inside.status().ok())
      driver_.unregister_host(pointer_to(page));
  }
  registered_.clear();
}

}  // namespace lanyard::gpu
