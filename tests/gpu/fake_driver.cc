#include "tests/gpu/fake_driver.h"

#include <chrono>
#include <cstring>
#include <functional>

#include "gpu/lane_protocol.h"
#include "gpu/layout_loop.h"
#include "gpu/stream.h"

namespace lanyard {

using gpu::ContextHandle;
using gpu::DeviceAddress;
using gpu::Fault;
using gpu::StreamHandle;

namespace {

constexpr const char* kKernels[] = {"ring", "store", "store_next", "wait",   "wait_next",
                                    "copy", "serve", "pack",       "reduce", "lanes"};
constexpr size_t kCopyKernel = 5;
constexpr size_t kServeKernel = 6;
constexpr size_t kPackKernel = 7;
constexpr size_t kReduceKernel = 8;
constexpr size_t kLanesKernel = 9;

}  // namespace

FakeDriver::~FakeDriver() {
  stopping_ = true;
  for (const std::unique_ptr<Stream>& stream : streams_)
    destroy_stream(stream.get());
  free_all();
}

Status FakeDriver::fault(Fault fault, const char* call) {
  return driver_error(fault, call, "FAKE_ERROR", "as injected");
}

Status FakeDriver::alive(const char* call) const { return lost_ ? fault(Fault::kIllegalAddress, call) : Status{}; }

// ---- Contexts

Result<gpu::DeviceFacts> FakeDriver::facts(int device) {
  gpu::DeviceFacts facts;
  facts.name = "fake device " + std::to_string(device);
  facts.uuid.fill(static_cast<std::byte>(device + 1));
  facts.multiprocessors = 4;
  facts.has_memory_ops = options_.has_memory_ops;
  facts.shares_words = options_.shares_words;
  return facts;
}

Result<ContextHandle> FakeDriver::context_of_device(int device) {
  if (device < 0 || device >= options_.devices)
    return fault(Fault::kBadArgument, "context_of_device");
  return ContextHandle{&contexts_[static_cast<size_t>(device)]};
}

Result<int> FakeDriver::device_of_context(ContextHandle context) {
  return static_cast<int>(static_cast<int*>(context) - contexts_.data());
}

Result<ContextHandle> FakeDriver::context_of_stream(StreamHandle stream) {
  const std::lock_guard lock(mutex_);
  for (const std::unique_ptr<Stream>& known : streams_)
    if (known.get() == stream && !known->stop)
      return ContextHandle{&contexts_[static_cast<size_t>(known->device)]};
  return fault(Fault::kBadArgument, "context_of_stream");
}

int FakeDriver::current_device() {
  const Result<int> device = inside("current_device");
  return device.ok() ? device.value() : 0;
}

Result<gpu::Driver::Place> FakeDriver::enter(ContextHandle context) {
  LANYARD_RETURN_IF_ERROR(alive("enter"));
  const std::lock_guard lock(mutex_);
  return Place{std::exchange(current_[std::this_thread::get_id()], context), 0};
}

void FakeDriver::leave(const Place& place) {
  const std::lock_guard lock(mutex_);
  current_[std::this_thread::get_id()] = place.context;
}

Result<int> FakeDriver::inside(const char* call) {
  LANYARD_RETURN_IF_ERROR(alive(call));
  const std::lock_guard lock(mutex_);
  const auto found = current_.find(std::this_thread::get_id());
  if (found == current_.end() || found->second == nullptr)
    return fault(Fault::kBadArgument, call);
  return device_of_context(found->second);
}

Status FakeDriver::reach_device(int device) {
  LANYARD_ASSIGN_OR_RETURN(const int current, inside("reach_device"));
  if (current == device)
    return {};
  if (!options_.peers || current == options_.confined)
    return fault(Fault::kUnsupported, "reach_device");
  map_anew(device);
  return {};
}

// ---- Streams

StreamHandle FakeDriver::start_stream(int device) {
  const std::lock_guard lock(mutex_);
  Stream& stream = *streams_.emplace_back(std::make_unique<Stream>());
  stream.device = device;
  stream.thread = std::thread([this, &stream] { serve(stream); });
  return &stream;
}

StreamHandle FakeDriver::make_program_stream(int device) { return start_stream(device); }

Result<StreamHandle> FakeDriver::make_stream() {
  LANYARD_ASSIGN_OR_RETURN(const int device, inside("make_stream"));
  return start_stream(device);
}

void FakeDriver::destroy_stream(StreamHandle handle) {
  Stream& stream = *static_cast<Stream*>(handle);
  {
    const std::lock_guard lock(mutex_);
    stream.stop = true;
    stream.changed.notify_all();
  }
  if (stream.thread.joinable())
    stream.thread.join();
}

void FakeDriver::serve(Stream& stream) {
  std::unique_lock lock(mutex_);
  for (;;) {
    stream.changed.wait(lock, [&] { return stream.stop || !stream.items.empty(); });
    if (stream.items.empty() || stopping_)
      return;
    const Item item = std::move(stream.items.front());
    stream.items.pop_front();
    stream.busy = true;
    lock.unlock();
    if (!lost_)
      item();
    lock.lock();
    stream.busy = false;
    stream.changed.notify_all();
  }
}

Status FakeDriver::push(StreamHandle handle, std::string what, Item item) {
  LANYARD_RETURN_IF_ERROR(alive(what.c_str()));
  Stream& stream = *static_cast<Stream*>(handle);
  std::unique_lock lock(mutex_);
  ++submissions_[what];
  if (stream.capture != 0) {
    stream.captured.push_back(std::move(item));
    return {};
  }
  stream.changed.wait(lock, [&] { return stream.stop || stream.items.size() < options_.queue; });
  if (stream.stop)
    return fault(Fault::kBadArgument, what.c_str());
  stream.items.push_back(std::move(item));
  stream.changed.notify_all();
  return {};
}

void FakeDriver::call_host(StreamHandle stream, Item body) {
  static_cast<void>(push(stream, "host call", std::move(body)));
}

Result<bool> FakeDriver::is_empty(StreamHandle handle) {
  LANYARD_RETURN_IF_ERROR(alive("is_empty"));
  Stream& stream = *static_cast<Stream*>(handle);
  const std::lock_guard lock(mutex_);
  if (stream.capture != 0) {
    stream.capture_void = true;
    return fault(Fault::kCapture, "is_empty");
  }
  if (stream.stop)
    return fault(Fault::kBadArgument, "is_empty");
  return stream.items.empty() && !stream.busy;
}

void FakeDriver::begin_capture(StreamHandle handle) {
  Stream& stream = *static_cast<Stream*>(handle);
  const std::lock_guard lock(mutex_);
  stream.capture = ++captures_;
  stream.capture_void = false;
  stream.captured.clear();
}

std::optional<FakeDriver::Graph> FakeDriver::end_capture(StreamHandle handle) {
  Stream& stream = *static_cast<Stream*>(handle);
  const std::lock_guard lock(mutex_);
  stream.capture = 0;
  if (stream.capture_void)
    return std::nullopt;
  return std::move(stream.captured);
}

void FakeDriver::replay(const Graph& graph, StreamHandle stream) {
  static_cast<void>(push(stream, "graph", [graph] {
    for (const Item& item : graph)
      item();
  }));
}

Result<uint64_t> FakeDriver::capture_of(StreamHandle handle) {
  LANYARD_RETURN_IF_ERROR(alive("capture_of"));
  Stream& stream = *static_cast<Stream*>(handle);
  const std::lock_guard lock(mutex_);
  if (stream.capture_void && stream.capture != 0)
    return fault(Fault::kCapture, "capture_of");
  return stream.capture;
}

uint64_t FakeDriver::submissions(const std::string& what) {
  const std::lock_guard lock(mutex_);
  return submissions_[what];
}

// ---- Work

uint64_t* FakeDriver::word_at(DeviceAddress address) {
  return reinterpret_cast<uint64_t*>(reach(address, sizeof(uint64_t)));
}

void FakeDriver::write(DeviceAddress address, uint64_t value) {
  uint64_t* const word = word_at(address);
  if (word != nullptr)
    std::atomic_ref(*word).store(value, std::memory_order_release);
}

void FakeDriver::await(DeviceAddress address, uint64_t value, DeviceAddress released_address) {
  uint64_t* const word = word_at(address);
  uint64_t* const released = released_address == 0 ? nullptr : word_at(released_address);
  if (word == nullptr)
    return;
  for (int turn = 0; !stopping_ && !lost_; ++turn) {
    if (std::atomic_ref(*word).load(std::memory_order_acquire) >= value)
      return;
    if (released != nullptr && std::atomic_ref(*released).load() != 0)
      return;
    if (turn < 50) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
  }
}

Status FakeDriver::run_memory_ops(StreamHandle stream, std::span<const gpu::MemoryOp> ops) {
  LANYARD_RETURN_IF_ERROR(inside("memory ops").status());
  if (!options_.has_memory_ops || ops.size() > kMemoryOpsAtOnce)
    return fault(Fault::kBadArgument, "memory ops");
  return push(stream, "memory ops", [this, copied = std::vector(ops.begin(), ops.end())] {
    for (const gpu::MemoryOp& op : copied) {
      if (op.kind == gpu::MemoryOp::Kind::kWrite) {
        write(op.word, op.value);
      } else {
        await(op.word, op.value, 0);
      }
    }
  });
}

Result<gpu::KernelHandle> FakeDriver::load_kernel(const char* name) {
  for (const char* const& known : kKernels)
    if (std::string(known) == name)
      return gpu::KernelHandle{const_cast<const char**>(&known)};
  return fault(Fault::kBadArgument, "load_kernel");
}

namespace {

// Whether two threads of the kernel would store to one word or use one count.
bool threads_clash(const std::string& kernel, const gpu::WordArguments& arguments) {
  const bool stores = kernel.starts_with("store"), counts = kernel.ends_with("_next");
  for (uint32_t i = 0; i < arguments.count; ++i) {
    for (uint32_t j = 0; j < i; ++j) {
      const gpu::WordEntry &one = arguments.entries[i], &other = arguments.entries[j];
      if ((stores && one.word == other.word) || (counts && one.value == other.value))
        return true;
    }
  }
  return false;
}

}  // namespace

Status FakeDriver::launch(StreamHandle stream, gpu::KernelHandle kernel, uint32_t blocks, uint32_t threads,
                          std::span<const std::byte> argument, Order /*order*/) {
  LANYARD_RETURN_IF_ERROR(inside("launch").status());
  if (launches_left_.fetch_sub(1) <= 0)
    return fault(Fault::kUnsupported, "launch");
  const size_t which = static_cast<size_t>(static_cast<const char**>(kernel) - const_cast<const char**>(kKernels));
  const auto push_it = [&](Item item) { return push(stream, kKernels[which], std::move(item)); };
  const auto takes = [&](auto& arguments) {
    if (argument.size() == sizeof arguments)
      std::memcpy(&arguments, argument.data(), sizeof arguments);
    return argument.size() == sizeof arguments;
  };
  gpu::ServeArguments serve{};
  gpu::PackArguments packing{};
  gpu::CombineArguments combination{};
  gpu::LaneArguments lanes{};
  gpu::CopyArguments moved{};
  gpu::WordArguments words{};
  switch (which) {
    case kServeKernel:
      if (!takes(serve) || threads != gpu::kServeThreads || blocks != 1)
        break;
      return push_it([this, serve, mappings = mappings()] { serve_copies(serve, mappings); });
    case kPackKernel:
      if (!takes(packing) || threads != gpu::kPackThreads || (packing.unit != 0 && packing.bytes % packing.unit != 0))
        break;
      return push_it([this, packing] { pack(packing); });
    case kReduceKernel:
      if (!takes(combination) || threads != gpu::kReduceThreads)
        break;
      return push_it([this, combination] { reduce(combination); });
    case kLanesKernel:
      if (!takes(lanes) || threads > gpu::kLaneThreads || threads < gpu::LaneArguments::kLanes)
        break;
      return push_it([this, lanes] { run_lanes(lanes); });
    case kCopyKernel:
      if (!takes(moved) || threads != gpu::kCopyThreads || blocks > 8)
        break;
      return push_it([this, moved] {
        move(moved.to, moved.from, moved.bytes);
        write(moved.completion, moved.number);
      });
    default:
      if (!takes(words) || blocks != 1 || threads != std::max(words.count, 1u) || threads_clash(kKernels[which], words))
        break;
      return push_it([this, which, words] { run_on_words(which, words); });
  }
  return fault(Fault::kBadArgument, "launch");
}

void FakeDriver::run_on_words(size_t kernel, const gpu::WordArguments& arguments) {
  const std::string name = kKernels[kernel];
  // A GPU runs threads in any order. This loop runs the last one first.
  for (uint32_t i = arguments.count; i-- > 0;) {
    const auto [word, value, extra] = arguments.entries[i];
    if (name == "ring") {
      uint64_t* const target = word_at(word);
      if (target != nullptr)
        std::atomic_ref(*target).fetch_add(value);
    } else if (name == "store") {
      write(word, value);
    } else if (name == "wait") {
      await(word, value, arguments.released);
    } else if (uint64_t* const count = word_at(value); count != nullptr) {
      const uint64_t next = std::atomic_ref(*count).fetch_add(extra) + extra;
      if (name == "store_next") {
        write(word, next);
      } else {
        await(word, next, arguments.released);
      }
    }
  }
  if (arguments.marker != 0 && !stopping_ && !lost_)
    write(arguments.marker, arguments.number);
}

void FakeDriver::move(DeviceAddress to, DeviceAddress from, uint64_t bytes, uint64_t mappings) {
  if (bytes == 0)
    return;
  std::byte* const target = reach(to, bytes, mappings);
  const std::byte* const source = reach(from, bytes, mappings);
  if (target != nullptr && source != nullptr)
    std::memcpy(target, source, bytes);
}

void FakeDriver::pack(const gpu::PackArguments& arguments) {
  for (uint64_t packed = 0; packed < arguments.bytes; packed += arguments.unit) {
    const std::byte* const loops = reach(arguments.loops, sizeof(gpu::LayoutLoop));
    if (loops == nullptr)
      return;
    const int64_t place = gpu::place_of(reinterpret_cast<const gpu::LayoutLoop*>(loops), packed);
    const DeviceAddress there = arguments.memory + static_cast<uint64_t>(place);
    const DeviceAddress here = arguments.packed + packed;
    if (there % arguments.unit != 0 || here % arguments.unit != 0) {
      lost_ = true;  // as after a misaligned access
      return;
    }
    if (arguments.unpack != 0)
      move(there, here, arguments.unit);
    else
      move(here, there, arguments.unit);
  }
}

void FakeDriver::reduce(const gpu::CombineArguments& arguments) {
  if (arguments.count == 0)
    return;
  const uint64_t bytes = arguments.count * gpu::size_of(arguments.element);
  const std::byte* const addresses = reach(arguments.parts, arguments.part_count * sizeof(uint64_t));
  gpu::CombineArguments here = arguments;
  here.out = reinterpret_cast<uint64_t>(reach(arguments.out, bytes));
  if (addresses == nullptr || here.out == 0)
    return;
  std::vector<uint64_t> parts(arguments.part_count);
  std::memcpy(parts.data(), addresses, parts.size() * sizeof(uint64_t));
  for (uint64_t& part : parts)
    if ((part = reinterpret_cast<uint64_t>(reach(part, bytes))) == 0)
      return;
  here.parts = reinterpret_cast<uint64_t>(parts.data());
  // A GPU runs threads in any order. This loop runs the last one first.
  constexpr uint64_t kThreads = 3;
  for (uint64_t thread = kThreads; thread-- > 0;)
    if (!gpu::combine(here, thread, kThreads))
      lost_ = true;
}

namespace {

// A block of one thread. A word that the device cannot reach reads as 0; writes to it are dropped.
struct LoneTeam {
  const std::function<uint64_t*(uint64_t)>& word_at;
  const std::function<void(uint64_t, uint64_t, uint64_t)>& move;

  template <typename Do>
  uint64_t with(uint64_t address, Do what) const {
    uint64_t* const word = word_at(address);
    return word == nullptr ? 0 : what(std::atomic_ref(*word));
  }
  uint64_t load(uint64_t address) const {
    return with(address, [](auto word) { return word.load(std::memory_order_relaxed); });
  }
  uint64_t acquire(uint64_t address) const {
    return with(address, [](auto word) { return word.load(std::memory_order_acquire); });
  }
  // Releases, in place of the fence before it: a thread sanitizer does not understand fences.
  void store(uint64_t address, uint64_t value) const {
    (void)with(address, [value](auto word) {
      word.store(value, std::memory_order_release);
      return value;
    });
  }
  void fence() const {}
  uint64_t exchange(uint64_t address, uint64_t expected, uint64_t value) const {
    return with(address, [=](auto word) {
      uint64_t there = expected;
      word.compare_exchange_strong(there, value);
      return there;
    });
  }
  uint64_t add(uint64_t address, uint64_t value) const {
    return with(address, [value](auto word) { return word.fetch_add(value); });
  }
  bool leads() const { return true; }
  uint64_t share(uint64_t value) const { return value; }
  void copy(uint64_t to, uint64_t from, uint64_t bytes) const { move(to, from, bytes); }
};

}  // namespace

void FakeDriver::run_lanes(const gpu::LaneArguments& arguments) {
  const std::function word_at = [this](uint64_t address) { return this->word_at(address); };
  const std::function mover = [this](uint64_t to, uint64_t from, uint64_t bytes) { move(to, from, bytes); };
  LoneTeam team{word_at, mover};
  std::vector<gpu::LaneView> open;
  for (uint32_t i = 0; i < arguments.count; ++i)
    open.push_back(gpu::view_lane(team, arguments.ends[i], arguments.wait == 0));
  if (arguments.wait == 0) {
    for (const gpu::LaneView& lane : open) {
      gpu::tell_host(team, lane);
      // Runs the blocks in turn, the last one first.
      const uint32_t teams = lane.chunks > 1 ? 3 : 1;
      for (uint32_t which = teams; which-- > 0;)
        gpu::start_lane(team, lane, which, teams);
      gpu::end_start(team, lane, teams);
    }
  }
  while (arguments.wait != 0 && !open.empty() && !stopping_ && !lost_) {
    std::erase_if(open, [&](const gpu::LaneView& lane) {
      switch (gpu::look_at_lane(team, lane, true)) {
        case gpu::LaneLook::kComplete: gpu::tell_host(team, lane); return true;
        case gpu::LaneLook::kMayCopy: (void)gpu::copy_chunks(team, lane); return false;
        case gpu::LaneLook::kNothing: break;
      }
      return gpu::is_gone(team, lane) || team.load(arguments.released) != 0;
    });
    std::this_thread::sleep_for(std::chrono::microseconds(open.empty() ? 0 : 20));
  }
  if (arguments.marker != 0 && !stopping_ && !lost_)
    write(arguments.marker, arguments.number);
}

void FakeDriver::serve_copies(const gpu::ServeArguments& arguments, uint64_t mappings) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point born = Clock::now();
  const auto ring = reinterpret_cast<gpu::CopyCommands*>(reach(arguments.commands, sizeof(gpu::CopyCommands)));
  Clock::time_point active = born;
  uint64_t next = arguments.first;
  while (ring != nullptr && !stopping_ && !lost_) {
    if (server_held_) {
      std::this_thread::yield();
      continue;
    }
    const uint64_t place = next % gpu::CopyCommands::kCommands;
    const uint64_t lap = next / gpu::CopyCommands::kCommands % 2 == 0 ? gpu::CopyCommands::kLapBit : 0;
    const auto read = [&](uint64_t* words) {
      return std::atomic_ref(words[place]).load(std::memory_order_acquire) ^ lap;
    };
    const uint64_t to = read(ring->to), from = read(ring->from), bytes = read(ring->bytes);
    const Clock::time_point now = Clock::now();
    const bool there = ((to | from | bytes) & gpu::CopyCommands::kLapBit) == 0;
    if (there) {
      move(to, from, bytes, mappings);
      write(arguments.ended, ++next);
      active = now;
    }
    if ((there && bytes == 0) || now - born > std::chrono::nanoseconds(arguments.life_ns) ||
        (!there && now - active > std::chrono::nanoseconds(arguments.linger_ns)))
      break;
    if (!there)
      std::this_thread::yield();
  }
  if (!stopping_ && !lost_)
    write(arguments.left, arguments.launch);
}

Status FakeDriver::copy(StreamHandle stream, DeviceAddress to, DeviceAddress from, uint64_t bytes) {
  LANYARD_RETURN_IF_ERROR(inside("copy engine").status());
  return push(stream, "copy engine", [this, to, from, bytes] { move(to, from, bytes); });
}

}  // namespace lanyard
