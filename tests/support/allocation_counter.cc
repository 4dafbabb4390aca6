#include "tests/support/allocation_counter.h"

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>

#include "tests/support/sanitizers.h"

namespace {

std::atomic<uint64_t> allocations{0};

}  // namespace

uint64_t lanyard::allocation_count() { return allocations.load(std::memory_order_relaxed); }

#if defined(LANYARD_ADDRESS_SANITIZER) || defined(LANYARD_THREAD_SANITIZER)

bool lanyard::allocations_are_counted() { return false; }

#else

bool lanyard::allocations_are_counted() { return true; }

namespace {

void* allocate(size_t bytes, size_t alignment) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  const size_t rounded = (bytes + alignment - 1) / alignment * alignment;
  return std::aligned_alloc(alignment, rounded != 0 ? rounded : alignment);
}

}  // namespace

// The other standard forms of operator new call these.
void* operator new(size_t bytes) {
  if (void* memory = allocate(bytes, alignof(std::max_align_t)))
    return memory;
  throw std::bad_alloc();
}
void* operator new(size_t bytes, std::align_val_t alignment) {
  if (void* memory = allocate(bytes, static_cast<size_t>(alignment)))
    return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, size_t, std::align_val_t) noexcept { std::free(memory); }

#endif
