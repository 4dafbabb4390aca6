#include "nicsim/deterministic/arena.h"

#include <sys/mman.h>

#include <atomic>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

#include "transport/base/check.h"

namespace lanyard::nicsim {

namespace {

constexpr size_t kBytes = size_t{1} << 32;  // address space of an arena
constexpr size_t kGrain = 16;
// Blocks have 16, 32, 48 or 64 bytes; beyond that there are four sizes for each doubling. A block
// longer than kLongest has the length asked for and is never reused: worlds allocate it once.
constexpr size_t kLongest = 4096;
constexpr size_t kClasses = 28;

// All arenas lie in one address range, so one comparison tells their memory from malloc's.
std::atomic<std::byte*> range_begin{nullptr};
std::atomic<size_t> range_bytes{0};  // 0 until the range exists; written last

// The free parts of the range: all beyond `taken`, and those that destroyed arenas have left. Never
// destroyed itself, because arenas may live until the process ends.
struct FreeAddresses {
  // Reserves the longest range that the system grants. Under Valgrind it is short.
  FreeAddresses() {
    size_t bytes = 512 * kBytes;
    void* range = MAP_FAILED;
    while (range == MAP_FAILED && (bytes /= 2) > kBytes)
      range = ::mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    LANYARD_CHECK(range != MAP_FAILED, "no address space for arenas (is ulimit -v set?)");
    range_begin.store(static_cast<std::byte*>(range), std::memory_order_relaxed);
    range_bytes.store(bytes, std::memory_order_release);
  }
  std::mutex mutex;
  size_t taken = 0;
  std::vector<void*> left;
};
FreeAddresses& free_addresses() {
  static auto* addresses = new FreeAddresses;
  return *addresses;
}

thread_local Arena* current = nullptr;

bool owned(const void* memory) {
  const size_t bytes = range_bytes.load(std::memory_order_acquire);
  const std::byte* begin = range_begin.load(std::memory_order_relaxed);
  return static_cast<size_t>(static_cast<const std::byte*>(memory) - begin) < bytes;
}

struct Size {
  size_t size_class;
  size_t bytes;
};
Size size_of(size_t bytes) {
  if (bytes <= 4 * kGrain) {
    const size_t grains = bytes == 0 ? 1 : (bytes + kGrain - 1) / kGrain;
    return {grains - 1, grains * kGrain};
  }
  const size_t step = std::bit_floor(bytes - 1) / 4;  // distance between the sizes of this doubling
  const size_t steps = (bytes + step - 1) / step;     // 5 to 8
  return {4 * static_cast<size_t>(std::countr_zero(step / kGrain)) + steps - 1, steps * step};
}

// Precedes the memory of every block.
struct alignas(kGrain) Block {
  size_t size_class;
  Block* next_free;
};

}  // namespace

struct alignas(64) Arena::Header {
  size_t top = 0;  // bytes used, this header included
  Block* free[kClasses] = {};
};

Arena::Arena() {
  const Outside outside;
  FreeAddresses& addresses = free_addresses();
  const std::lock_guard lock(addresses.mutex);
  void* memory = nullptr;
  if (addresses.left.empty()) {
    LANYARD_CHECK(addresses.taken + kBytes <= range_bytes, "too many arenas at a time");
    memory = range_begin + std::exchange(addresses.taken, addresses.taken + kBytes);
  } else {
    memory = addresses.left.back();
    addresses.left.pop_back();
  }
  LANYARD_CHECK(::mprotect(memory, kBytes, PROT_READ | PROT_WRITE) == 0, "the system refuses memory");
  header_ = new (memory) Header;
  header_->top = sizeof(Header);
}

Arena::~Arena() {
  const Outside outside;
  ::madvise(header_, kBytes, MADV_DONTNEED);
  ::mprotect(header_, kBytes, PROT_NONE);
  FreeAddresses& addresses = free_addresses();
  const std::lock_guard lock(addresses.mutex);
  addresses.left.push_back(header_);
}

void* Arena::allocate(size_t bytes) {
  Size size{kClasses, (bytes + kGrain - 1) / kGrain * kGrain};
  if (bytes <= kLongest) {
    size = size_of(bytes);
    if (Block* block = header_->free[size.size_class]; block != nullptr) {
      header_->free[size.size_class] = block->next_free;
      return block + 1;
    }
  }
  LANYARD_CHECK(size.bytes < kBytes && header_->top + sizeof(Block) + size.bytes <= kBytes, "the arena is full");
  auto* block = reinterpret_cast<Block*>(reinterpret_cast<std::byte*>(header_) + header_->top);
  header_->top += sizeof(Block) + size.bytes;
  block->size_class = size.size_class;
  block->next_free = nullptr;
  return block + 1;
}

void Arena::release(void* memory) {
  Block* block = static_cast<Block*>(memory) - 1;
  if (block->size_class == kClasses)
    return;
  block->next_free = header_->free[block->size_class];
  header_->free[block->size_class] = block;
}

void Arena::save(Image& image) const {
  const Outside outside;
  const auto* begin = reinterpret_cast<const std::byte*>(header_);
  image.assign(begin, begin + header_->top);
}

void Arena::restore(const Image& image) { std::memcpy(static_cast<void*>(header_), image.data(), image.size()); }

Arena::Scope::Scope(Arena* arena) : previous_(std::exchange(current, arena)) {}
Arena::Scope::~Scope() { current = previous_; }

namespace {

void* allocate(size_t bytes) {
  if (current != nullptr)
    return current->allocate(bytes);
  return std::malloc(bytes == 0 ? 1 : bytes);
}

// A thread deletes arena memory in a scope of the same arena. Without a scope this does nothing.
void release(void* memory) {
  if (!owned(memory))
    return std::free(memory);
  if (current != nullptr)
    current->release(memory);
}

}  // namespace

}  // namespace lanyard::nicsim

void* operator new(size_t bytes) {
  void* memory = lanyard::nicsim::allocate(bytes);
  if (memory == nullptr)
    throw std::bad_alloc();
  return memory;
}
void* operator new[](size_t bytes) { return operator new(bytes); }
void* operator new(size_t bytes, const std::nothrow_t&) noexcept { return lanyard::nicsim::allocate(bytes); }
void* operator new[](size_t bytes, const std::nothrow_t&) noexcept { return lanyard::nicsim::allocate(bytes); }
void operator delete(void* memory) noexcept { lanyard::nicsim::release(memory); }
void operator delete[](void* memory) noexcept { lanyard::nicsim::release(memory); }
void operator delete(void* memory, size_t) noexcept { lanyard::nicsim::release(memory); }
void operator delete[](void* memory, size_t) noexcept { lanyard::nicsim::release(memory); }
void operator delete(void* memory, const std::nothrow_t&) noexcept { lanyard::nicsim::release(memory); }
void operator delete[](void* memory, const std::nothrow_t&) noexcept { lanyard::nicsim::release(memory); }

// For alignments larger than a block's. Such objects are few, and the arena does not reuse them.
void* operator new(size_t bytes, std::align_val_t alignment) {
  const auto align = static_cast<size_t>(alignment);
  const size_t room = (bytes + align - 1) / align * align;
  if (lanyard::nicsim::current == nullptr) {
    void* memory = std::aligned_alloc(align, room);
    if (memory == nullptr)
      throw std::bad_alloc();
    return memory;
  }
  const auto begin = reinterpret_cast<uintptr_t>(lanyard::nicsim::current->allocate(room + align));
  return reinterpret_cast<void*>((begin + align - 1) / align * align);
}
void operator delete(void* memory, std::align_val_t) noexcept {
  if (!lanyard::nicsim::owned(memory))
    std::free(memory);
}
void operator delete(void* memory, size_t, std::align_val_t alignment) noexcept { operator delete(memory, alignment); }
