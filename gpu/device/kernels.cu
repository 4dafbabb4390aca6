// The device's side: one source for CUDA and HIP, compiled to an image that the driver loads (tools/third_party/gpu).
//
// Every kernel begins or ends with fences of its own, at system scope: that a kernel has ended does not tell the host
// or a NIC anything, and on AMD's devices does not even write coarse-grained memory back.
#include "gpu/device/kernel_arguments.h"
#include "gpu/device/kernel_vendor.h"

namespace lanyard::gpu {
namespace {

// All of the block's threads have done their part.
__device__ void mark(const WordArguments& arguments) {
  __syncthreads();
  if (threadIdx.x == 0 && arguments.marker != 0) store_word(arguments.marker, arguments.number);
}

// Of a counter's copy those that count what succeeded (gpu/stream.h).
constexpr uint64_t kCountBits = (uint64_t{1} << 48) - 1;

__device__ void await(uint64_t word, uint64_t bits, uint64_t value, uint64_t released) {
  while ((load_word(word) & bits) < value && load_word(released) == 0) pause();
  __threadfence_system();
}

template <typename Unit>
__device__ void copy_units(uint64_t to, uint64_t from, uint64_t units) {
  Unit* const target = reinterpret_cast<Unit*>(to);
  const Unit* const source = reinterpret_cast<const Unit*>(from);
  const uint64_t stride = uint64_t{gridDim.x} * blockDim.x;
  uint64_t i = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  // Four loads under way at a time: one alone does not fill a link.
  for (; i + 3 * stride < units; i += 4 * stride) {
    const Unit a = source[i];
    const Unit b = source[i + stride];
    const Unit c = source[i + 2 * stride];
    const Unit d = source[i + 3 * stride];
    target[i] = a;
    target[i + stride] = b;
    target[i + 2 * stride] = c;
    target[i + 3 * stride] = d;
  }
  for (; i < units; i += stride) target[i] = source[i];
}

// As many bytes as come before an address that is a multiple of `unit`, then units, then the rest.
template <typename Unit>
__device__ void copy_aligned(const CopyArguments& arguments) {
  uint64_t head = (sizeof(Unit) - arguments.to % sizeof(Unit)) % sizeof(Unit);
  if (head > arguments.bytes) head = arguments.bytes;
  const uint64_t units = (arguments.bytes - head) / sizeof(Unit);
  const uint64_t tail = head + units * sizeof(Unit);
  copy_units<uint8_t>(arguments.to, arguments.from, head);
  copy_units<Unit>(arguments.to + head, arguments.from + head, units);
  copy_units<uint8_t>(arguments.to + tail, arguments.from + tail, arguments.bytes - tail);
}

}  // namespace

// *word += value for each entry, after everything earlier in the stream.
extern "C" __global__ void ring(WordArguments arguments) {
  if (threadIdx.x < arguments.count) {
    const WordEntry entry = arguments.entries[threadIdx.x];
    __threadfence_system();
    atomicAdd_system(reinterpret_cast<unsigned long long*>(entry.word), entry.value);
  }
  mark(arguments);
}

// *word = value for each entry in turn, after everything earlier in the stream. One thread.
extern "C" __global__ void store(WordArguments arguments) {
  for (uint32_t i = 0; i < arguments.count; ++i) {
    __threadfence_system();
    store_word(arguments.entries[i].word, arguments.entries[i].value);
  }
  mark(arguments);
}

// Until (*word & extra) >= value for each entry.
extern "C" __global__ void wait(WordArguments arguments) {
  if (threadIdx.x < arguments.count)
    await(arguments.entries[threadIdx.x].word, arguments.entries[threadIdx.x].extra, arguments.entries[threadIdx.x].value,
          arguments.released);
  mark(arguments);
}

// *count += extra, then until the count of *word >= *count, for each entry. Requires: the counts are different ones.
extern "C" __global__ void wait_next(WordArguments arguments) {
  if (threadIdx.x < arguments.count) {
    const WordEntry entry = arguments.entries[threadIdx.x];
    const uint64_t value = load_word(entry.value) + entry.extra;
    store_word(entry.value, value);
    await(entry.word, kCountBits, value, arguments.released);
  }
  mark(arguments);
}

// bytes from anywhere to anywhere, in the widest units that both sides are aligned for alike. Any grid.
extern "C" __global__ void copy(CopyArguments arguments) {
  const uint64_t difference = arguments.to ^ arguments.from;
  if (difference % 16 == 0) {
    copy_aligned<uint4>(arguments);
  } else if (difference % 8 == 0) {
    copy_aligned<uint2>(arguments);
  } else if (difference % 4 == 0) {
    copy_aligned<uint32_t>(arguments);
  } else {
    copy_units<uint8_t>(arguments.to, arguments.from, arguments.bytes);
  }
  __syncthreads();
  if (threadIdx.x != 0) return;
  __threadfence_system();
  if (gridDim.x > 1) {
    unsigned int* const arrivals = reinterpret_cast<unsigned int*>(arguments.arrivals);
    if (atomicAdd(arrivals, 1u) != gridDim.x - 1) return;
    *arrivals = 0;  // for the next copy of the stream
    __threadfence_system();
  }
  store_word(arguments.completion, arguments.number);
}

}  // namespace lanyard::gpu
