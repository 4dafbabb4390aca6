#include "gpu/device/vendor_driver.h"

#include <cstring>
#include <string>

namespace lanyard::gpu {

using vendor::address_of;
using vendor::context_of;
using vendor::handle_of;
using vendor::pointer_to;

extern const unsigned char kKernelImage[];  // the compiled kernels.cu (device_code.bzl)

namespace {

bool is(vendor::Error result, Fault fault) { return static_cast<int>(result) == static_cast<int>(fault); }
vendor::Stream native(StreamHandle stream) { return static_cast<vendor::Stream>(stream); }

}  // namespace

Result<std::unique_ptr<Driver>> open_driver() { return VendorDriver::open(); }

Result<std::unique_ptr<Driver>> VendorDriver::open() {
  LANYARD_ASSIGN_OR_RETURN(const Entries api, Entries::load());
  int devices = 0;
  LANYARD_RETURN_IF_ERROR(api.run(api.count_devices, &devices));
  if (devices == 0)
    return Status(Code::kUnsupported, vendor::kNoDevice);
  std::unique_ptr<VendorDriver> driver(new VendorDriver(api, devices));
  LANYARD_RETURN_IF_ERROR(driver->set_up());
  return std::unique_ptr<Driver>(std::move(driver));
}

Result<DeviceFacts> VendorDriver::facts(int device) {
  DeviceFacts facts;
  vendor::Uuid uuid{};
  LANYARD_RETURN_IF_ERROR(api_.run(api_.uuid, &uuid, device));
  static_assert(sizeof uuid.bytes == sizeof facts.uuid);
  std::memcpy(facts.uuid.data(), uuid.bytes, sizeof uuid.bytes);
  char name[128] = {};
  LANYARD_RETURN_IF_ERROR(api_.run(api_.name, name, static_cast<int>(sizeof name) - 1, device));
  facts.name = name;
  LANYARD_RETURN_IF_ERROR(api_.run(api_.attribute, &facts.multiprocessors, vendor::kMultiprocessors, device));
  LANYARD_RETURN_IF_ERROR(describe(device, facts));
  return facts;
}

// ---- Contexts

Result<ContextHandle> VendorDriver::context_of_device(int device) {
  if (device < 0 || device >= device_count())
    return Status(Code::kInvalidArgument, "there is no device " + std::to_string(device));
  const std::lock_guard lock(mutex_);
  ContextHandle& context = devices_[static_cast<size_t>(device)].context;
  if (context == nullptr) {
    LANYARD_ASSIGN_OR_RETURN(context, make_context(device));
  }
  return context;
}

// A default stream belongs to the current context. There may be none before the runtime library's
// first call.
Result<ContextHandle> VendorDriver::context_of_stream(StreamHandle stream) {
  if (!vendor::is_default(stream))
    return owner_of(stream);
  LANYARD_ASSIGN_OR_RETURN(const ContextHandle current, current_context());
  return current == nullptr ? context_of_device(0) : current;
}

Result<int> VendorDriver::device_of_context(ContextHandle context) {
  const Inside inside(*this, context);
  LANYARD_RETURN_IF_ERROR(inside.status());
  return current_ordinal();
}

Result<ContextHandle> VendorDriver::current_context() const {
  vendor::Context context{};
  LANYARD_RETURN_IF_ERROR(api_.run(api_.context, &context));
  return handle_of(context);
}

Result<int> VendorDriver::current_ordinal() const {
  int device = 0;
  LANYARD_RETURN_IF_ERROR(api_.run(api_.device, &device));
  return device;
}

int VendorDriver::current_device() {
  // Check for a context first. Without one, CUDA's driver reports an error to tools that watch it.
  const Result<ContextHandle> context = current_context();
  if (!context.ok() || context.value() == nullptr)
    return 0;
  const Result<int> device = current_ordinal();
  return device.ok() ? device.value() : 0;
}

Result<Driver::Place> VendorDriver::enter(ContextHandle context) {
  LANYARD_ASSIGN_OR_RETURN(const ContextHandle previous, current_context());
  if (previous != context)
    LANYARD_RETURN_IF_ERROR(api_.run(api_.set_context, context_of(context)));
  vendor::CaptureMode mode = vendor::kRelaxed;
  LANYARD_RETURN_IF_ERROR(api_.run(api_.capture_mode, &mode));
  return Place{previous, static_cast<int>(mode)};
}

void VendorDriver::leave(const Place& place) {
  vendor::CaptureMode mode = static_cast<vendor::CaptureMode>(place.capture_mode);
  (void)api_.capture_mode.call(&mode);
  const Result<ContextHandle> current = current_context();
  if (current.ok() && current.value() != place.context)
    (void)api_.set_context.call(context_of(place.context));
}

Status VendorDriver::reach_device(int device) {
  LANYARD_ASSIGN_OR_RETURN(const int current, current_ordinal());
  if (current == device)
    return {};
  int can = 0;
  LANYARD_RETURN_IF_ERROR(api_.run(api_.can_reach, &can, current, device));
  if (can == 0)
    return Status(Code::kUnsupported, "device " + std::to_string(current) + " cannot reach the memory of device " +
                                          std::to_string(device) + " (no path between them)");
  LANYARD_ASSIGN_OR_RETURN(const ContextHandle peer, context_of_device(device));
  const vendor::Error result = api_.reach.call(context_of(peer), 0);
  return is(result, Fault::kReachedAlready) ? Status() : api_.status(result, api_.reach.name);
}

Result<bool> VendorDriver::adds_indivisibly(int device) {
  LANYARD_ASSIGN_OR_RETURN(const int current, current_ordinal());
  int native = current == device ? 1 : 0;
  if (native == 0)
    LANYARD_RETURN_IF_ERROR(api_.run(api_.link_attribute, &native, vendor::kAtomics, current, device));
  return native != 0;
}

// ---- Streams

Result<StreamHandle> VendorDriver::make_stream() {
  int least = 0;
  int greatest = 0;
  LANYARD_RETURN_IF_ERROR(api_.run(api_.priorities, &least, &greatest));
  vendor::Stream stream = nullptr;
  LANYARD_RETURN_IF_ERROR(api_.run(api_.make_stream, &stream, vendor::kNotOrdered, greatest));
  return StreamHandle{stream};
}

void VendorDriver::destroy_stream(StreamHandle stream) { (void)api_.destroy_stream.call(native(stream)); }

Result<bool> VendorDriver::is_empty(StreamHandle stream) {
  const vendor::Error result = api_.query_stream.call(native(stream));
  if (is(result, Fault::kNotReady))
    return false;
  LANYARD_RETURN_IF_ERROR(api_.status(result, api_.query_stream.name));
  return true;
}

Result<uint64_t> VendorDriver::capture_of(StreamHandle stream) {
  vendor::CaptureStatus status = vendor::kNotCaptured;
  vendor::CaptureId id = 0;
  LANYARD_RETURN_IF_ERROR(api_.run(api_.capture, native(stream), &status, &id));
  if (status == vendor::kNotCaptured)
    return uint64_t{0};
  if (status == vendor::kInvalidated)
    return Status(Code::kInvalidState, "the stream's capture has become invalid: end it");
  return uint64_t{id} + 1;  // the vendors' numbers may begin at 0
}

// ---- Work

Result<vendor::Module> VendorDriver::module_of_current() {
  LANYARD_ASSIGN_OR_RETURN(const ContextHandle context, current_context());
  const std::lock_guard lock(mutex_);
  for (const auto& [owner, module] : modules_)
    if (owner == context)
      return module;
  vendor::Module module = nullptr;
  LANYARD_RETURN_IF_ERROR(api_.run(api_.load_module, &module, static_cast<const void*>(kKernelImage)));
  modules_.emplace_back(context, module);
  return module;
}

Result<KernelHandle> VendorDriver::load_kernel(const char* name) {
  LANYARD_ASSIGN_OR_RETURN(const vendor::Module module, module_of_current());
  vendor::Kernel kernel = nullptr;
  LANYARD_RETURN_IF_ERROR(api_.run(api_.find_kernel, &kernel, module, name));
  return KernelHandle{kernel};
}

// ---- Memory

Status VendorDriver::register_host(void* memory, uint64_t bytes) {
  return api_.run(api_.register_host, memory, bytes, vendor::kRegister);
}

void VendorDriver::unregister_host(void* memory) { (void)api_.unregister_host.call(memory); }

Result<void*> VendorDriver::allocate_host(uint64_t bytes) {
  void* memory = nullptr;
  LANYARD_RETURN_IF_ERROR(api_.run(api_.allocate_host, &memory, bytes, vendor::kAllocate));
  return memory;
}

void VendorDriver::free_host(void* memory) { (void)api_.free_host.call(memory); }

Result<DeviceAddress> VendorDriver::allocate(uint64_t bytes) {
  vendor::Pointer memory{};
  LANYARD_RETURN_IF_ERROR(api_.run(api_.allocate, &memory, bytes));
  return address_of(memory);
}

void VendorDriver::free(DeviceAddress memory) { (void)api_.free.call(pointer_to(memory)); }

Result<Driver::IpcHandle> VendorDriver::lend(DeviceAddress base) {
  IpcHandle handle;
  vendor::LentHandle lent;
  static_assert(sizeof lent == sizeof handle);
  const vendor::Error result = api_.lend.call(&lent, pointer_to(base));
  if (is(result, Fault::kBadArgument))
    return Status(Code::kUnsupported, std::string(api_.lend.name) + ": " + vendor::kNotLent);
  LANYARD_RETURN_IF_ERROR(api_.status(result, api_.lend.name));
  std::memcpy(handle.data(), &lent, sizeof handle);
  return handle;
}

Result<DeviceAddress> VendorDriver::borrow(const IpcHandle& handle) {
  vendor::LentHandle lent;
  std::memcpy(&lent, handle.data(), sizeof handle);
  vendor::Pointer base{};
  LANYARD_RETURN_IF_ERROR(api_.run(api_.borrow, &base, lent, vendor::kBorrow));
  return address_of(base);
}

void VendorDriver::give_back(DeviceAddress base) { (void)api_.give_back.call(pointer_to(base)); }

}  // namespace lanyard::gpu
