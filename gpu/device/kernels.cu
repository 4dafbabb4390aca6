// Device code: one source for CUDA and HIP, compiled to an image that the driver
// loads (tools/third_party/gpu).
//
// Every kernel acquires or releases by itself, at system scope. The end of a kernel tells the host
// or a NIC nothing. On AMD devices it does not even write coarse-grained memory back.
#ifdef __HIP__
#include <hip/hip_runtime.h>
#endif

#include "gpu/combine.h"
#include "gpu/device/kernel_arguments.h"
#include "gpu/lane_protocol.h"
#include "gpu/layout_loop.h"

namespace lanyard::gpu {
namespace {

// ---- What CUDA and HIP spell differently

// A thread that waits for a word acquires with each of its first kEagerLooks loads. That saves
// the fence after the last load, two thirds of a trip over the bus. But each acquire empties
// the multiprocessor's cache for other kernels too. So longer waits load without acquire, and
// fence once.

// Loads and stores of words that the host and other devices use too. The caller adds fences. Only
// acquire_word() orders by itself: writes before the value that it returns are visible.
#ifdef __HIP__
__device__ uint64_t load_word(uint64_t word) {
  return __hip_atomic_load(reinterpret_cast<uint64_t*>(word), __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM);
}
__device__ uint64_t acquire_word(uint64_t word) {
  return __hip_atomic_load(reinterpret_cast<uint64_t*>(word), __ATOMIC_ACQUIRE, __HIP_MEMORY_SCOPE_SYSTEM);
}
__device__ void store_word(uint64_t word, uint64_t value) {
  __hip_atomic_store(reinterpret_cast<uint64_t*>(word), value, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM);
}
__device__ void add_to_word(uint64_t word, uint64_t value) {
  atomicAdd_system(reinterpret_cast<unsigned long long*>(word), value);
}
// Compare and swap; returns the old value. Acquires and releases among this device's kernels.
__device__ uint64_t exchange_word(uint64_t word, uint64_t expected, uint64_t value) {
  __hip_atomic_compare_exchange_strong(reinterpret_cast<uint64_t*>(word), &expected, value, __ATOMIC_ACQ_REL,
                                       __ATOMIC_ACQUIRE, __HIP_MEMORY_SCOPE_AGENT);
  return expected;
}
// An acquire empties a cache that all of the device's kernels use.
constexpr uint32_t kEagerLooks = 0;
// A kernel may begin before the stream's previous kernel has ended. wait_for_previous_kernel()
// returns once that has ended. allow_next_kernel() lets the next one begin, if it waits likewise.
__device__ void wait_for_previous_kernel() {}
__device__ void allow_next_kernel() {}
// A wavefront that waits leaves its compute unit to others.
__device__ void pause() { __builtin_amdgcn_s_sleep(2); }
// Nanoseconds since some time. The counter of gfx9 devices runs at 100 MHz.
__device__ uint64_t clock_ns() { return wall_clock64() * 10; }
#else
__device__ uint64_t load_word(uint64_t word) { return *reinterpret_cast<volatile uint64_t*>(word); }
__device__ uint64_t acquire_word(uint64_t word) {
  uint64_t value;
  asm volatile("ld.acquire.sys.u64 %0, [%1];" : "=l"(value) : "l"(word) : "memory");
  return value;
}
__device__ void store_word(uint64_t word, uint64_t value) { *reinterpret_cast<volatile uint64_t*>(word) = value; }
// Atomic on this device, the only one that adds to the word. A bus without atomics does not grant
// more, and compute-sanitizer reports the request for more as an error.
__device__ void add_to_word(uint64_t word, uint64_t value) {
  atomicAdd(reinterpret_cast<unsigned long long*>(word), value);
}
// Compare and swap; returns the old value. Acquires and releases among this device's kernels.
__device__ uint64_t exchange_word(uint64_t word, uint64_t expected, uint64_t value) {
  uint64_t there;
  asm volatile("atom.acq_rel.gpu.global.cas.b64 %0, [%1], %2, %3;"
               : "=l"(there)
               : "l"(word), "l"(expected), "l"(value)
               : "memory");
  return there;
}
__device__ void wait_for_previous_kernel() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
__device__ void allow_next_kernel() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}
// About 60 us.
constexpr uint32_t kEagerLooks = 64;
__device__ void pause() { __nanosleep(40); }
__device__ uint64_t clock_ns() {
  uint64_t now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
}
#endif

// Atomic on this device. The word is in its memory. Returns the old value.
__device__ uint64_t add_to_own_word(uint64_t word, uint64_t value) {
  return atomicAdd(reinterpret_cast<unsigned long long*>(word), static_cast<unsigned long long>(value));
}
// Atomic with other devices too, if the link between them allows it. Returns the old value.
__device__ uint64_t add_to_shared_word(uint64_t word, uint64_t value) {
  return atomicAdd_system(reinterpret_cast<unsigned long long*>(word), static_cast<unsigned long long>(value));
}

// ---- Parts of kernels

// Sets the marker once all threads of the block are here. Their stores need not be visible yet.
template <typename Arguments>
__device__ void mark(const Arguments& arguments) {
  __syncthreads();
  if (threadIdx.x == 0 && arguments.marker != 0)
    store_word(arguments.marker, arguments.number);
}

// Waits until *word >= value, or the stream is released.
__device__ void await(uint64_t word, uint64_t value, uint64_t released) {
  for (uint32_t looks = 0;; ++looks) {
    const bool eager = looks < kEagerLooks;
    // Both loads are in flight together: each is a trip over the bus.
    const uint64_t is_released = load_word(released);
    const uint64_t seen = eager ? acquire_word(word) : load_word(word);
    if (seen >= value || is_released != 0) {
      if (!eager)
        __threadfence_system();
      return;
    }
    pause();
  }
}

// The threads that copy together, and the calling thread's number among them.
struct Team {
  uint64_t member;
  uint64_t members;
};

template <typename Unit>
__device__ void copy_units(Team team, uint64_t to, uint64_t from, uint64_t units) {
  Unit* const target = reinterpret_cast<Unit*>(to);
  const Unit* const source = reinterpret_cast<const Unit*>(from);
  const uint64_t stride = team.members;
  uint64_t i = team.member;
  // Four loads in flight at a time: one alone does not fill a link.
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
  for (; i < units; i += stride)
    target[i] = source[i];
}

// Copies single bytes up to a multiple of the unit's size in `to`, then units, then the rest.
template <typename Unit>
__device__ void copy_aligned(Team team, uint64_t to, uint64_t from, uint64_t bytes) {
  uint64_t head = (sizeof(Unit) - to % sizeof(Unit)) % sizeof(Unit);
  if (head > bytes)
    head = bytes;
  const uint64_t units = (bytes - head) / sizeof(Unit);
  const uint64_t tail = head + units * sizeof(Unit);
  copy_units<uint8_t>(team, to, from, head);
  copy_units<Unit>(team, to + head, from + head, units);
  copy_units<uint8_t>(team, to + tail, from + tail, bytes - tail);
}

// Copies in the widest units for which both addresses are aligned alike.
__device__ void copy_bytes(Team team, uint64_t to, uint64_t from, uint64_t bytes) {
  const uint64_t difference = to ^ from;
  if (difference % 16 == 0) {
    copy_aligned<uint4>(team, to, from, bytes);
  } else if (difference % 8 == 0) {
    copy_aligned<uint2>(team, to, from, bytes);
  } else if (difference % 4 == 0) {
    copy_aligned<uint32_t>(team, to, from, bytes);
  } else {
    copy_units<uint8_t>(team, to, from, bytes);
  }
}

template <typename Unit>
__device__ void pack_units(const PackArguments& arguments) {
  const LayoutLoop* const loops = reinterpret_cast<const LayoutLoop*>(arguments.loops);
  const uint64_t units = arguments.bytes / sizeof(Unit);
  Unit* const packed = reinterpret_cast<Unit*>(arguments.packed);
  for (uint64_t i = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < units; i += uint64_t{gridDim.x} * blockDim.x) {
    Unit* const there =
        reinterpret_cast<Unit*>(arguments.memory + static_cast<uint64_t>(place_of(loops, i * sizeof(Unit))));
    if (arguments.unpack != 0)
      *there = packed[i];
    else
      packed[i] = *there;
  }
}

struct Copy {
  uint64_t to;
  uint64_t from;
  uint64_t bytes;
};

// Reads a command. Returns whether it is there; if so, the host's earlier writes are visible.
__device__ bool read_command(uint64_t commands, uint64_t index, bool eager, Copy& copy) {
  const uint64_t place = index % CopyCommands::kCommands;
  const CopyCommands* const ring = reinterpret_cast<const CopyCommands*>(commands);
  const uint64_t lap = index / CopyCommands::kCommands % 2 == 0 ? CopyCommands::kLapBit : 0;
  // Three loads in flight together: one trip over the bus.
  copy.to = load_word(reinterpret_cast<uint64_t>(&ring->to[place])) ^ lap;
  copy.from = load_word(reinterpret_cast<uint64_t>(&ring->from[place])) ^ lap;
  const uint64_t bytes = reinterpret_cast<uint64_t>(&ring->bytes[place]);
  copy.bytes = (eager ? acquire_word(bytes) : load_word(bytes)) ^ lap;
  const bool there = ((copy.to | copy.from | copy.bytes) & CopyCommands::kLapBit) == 0;
  if (there && !eager)
    __threadfence_system();
  return there;
}

}  // namespace

// *word += value for each entry, after everything earlier in the stream.
extern "C" __global__ void ring(WordArguments arguments) {
  if (threadIdx.x < arguments.count) {
    const WordEntry entry = arguments.entries[threadIdx.x];
    __threadfence_system();
    add_to_word(entry.word, entry.value);
  }
  mark(arguments);
}

// *word = value for each entry, after everything earlier in the stream. Requires: the words are
// different. They may be device registers, which should not get several stores at once: one thread
// makes them all.
extern "C" __global__ void store(WordArguments arguments) {
  if (threadIdx.x == 0) {
    __threadfence_system();
    for (uint32_t i = 0; i < arguments.count; ++i)
      store_word(arguments.entries[i].word, arguments.entries[i].value);
  }
  mark(arguments);
}

// *count += extra, then *word = *count, for each entry, after everything earlier in the stream.
// Requires: the words are different, and so are the counts.
extern "C" __global__ void store_next(WordArguments arguments) {
  if (threadIdx.x < arguments.count) {
    const WordEntry entry = arguments.entries[threadIdx.x];
    const uint64_t value = load_word(entry.value) + entry.extra;
    __threadfence_system();
    store_word(entry.word, value);
    store_word(entry.value, value);
  }
  mark(arguments);
}

// Waits until *word >= value for each entry.
extern "C" __global__ void wait(WordArguments arguments) {
  if (threadIdx.x < arguments.count)
    await(arguments.entries[threadIdx.x].word, arguments.entries[threadIdx.x].value, arguments.released);
  mark(arguments);
}

// *count += extra, then waits until *word >= *count, for each entry. Requires: the counts
// are different.
extern "C" __global__ void wait_next(WordArguments arguments) {
  if (threadIdx.x < arguments.count) {
    const WordEntry entry = arguments.entries[threadIdx.x];
    const uint64_t value = load_word(entry.value) + entry.extra;
    store_word(entry.value, value);
    await(entry.word, value, arguments.released);
  }
  mark(arguments);
}

// Copies between any two places. Any grid.
extern "C" __global__ void copy(CopyArguments arguments) {
  const Team team{uint64_t{blockIdx.x} * blockDim.x + threadIdx.x, uint64_t{gridDim.x} * blockDim.x};
  copy_bytes(team, arguments.to, arguments.from, arguments.bytes);
  __syncthreads();
  if (threadIdx.x != 0)
    return;
  __threadfence_system();
  if (gridDim.x > 1) {
    unsigned int* const arrivals = reinterpret_cast<unsigned int*>(arguments.arrivals);
    if (atomicAdd(arrivals, 1u) != gridDim.x - 1)
      return;
    *arrivals = 0;  // for the next copy of the stream
    __threadfence_system();
  }
  store_word(arguments.completion, arguments.number);
}

// Packs or unpacks memory with gaps. Any grid. Later work of the stream sees the result, like that
// of the program's kernels.
extern "C" __global__ void pack(PackArguments arguments) {
  switch (arguments.unit) {
    case 16: return pack_units<uint4>(arguments);
    case 8: return pack_units<uint2>(arguments);
    case 4: return pack_units<uint32_t>(arguments);
    case 2: return pack_units<uint16_t>(arguments);
    default: return pack_units<uint8_t>(arguments);
  }
}

// Combines the parts of a combination. Any grid. Visible like the result of pack.
extern "C" __global__ void reduce(CombineArguments arguments) {
  (void)combine(arguments, uint64_t{blockIdx.x} * blockDim.x + threadIdx.x, uint64_t{gridDim.x} * blockDim.x);
}

namespace {

// A block as a Team of gpu/lane_protocol.h.
struct BlockTeam {
  uint64_t* slot;  // shared by the block

  __device__ uint64_t load(uint64_t word) const { return load_word(word); }
  __device__ uint64_t acquire(uint64_t word) const { return acquire_word(word); }
  __device__ void store(uint64_t word, uint64_t value) const { store_word(word, value); }
  __device__ void fence() const { __threadfence_system(); }
  __device__ uint64_t exchange(uint64_t word, uint64_t expected, uint64_t value) const {
    return exchange_word(word, expected, value);
  }
  __device__ uint64_t add(uint64_t word, uint64_t value) const { return add_to_shared_word(word, value); }
  __device__ bool leads() const { return threadIdx.x == 0; }
  __device__ uint64_t share(uint64_t value) const {
    if (threadIdx.x == 0)
      *slot = value;
    __syncthreads();
    const uint64_t shared = *slot;
    __syncthreads();  // all have read it
    return shared;
  }
  __device__ void copy(uint64_t to, uint64_t from, uint64_t bytes) const {
    copy_bytes(Team{threadIdx.x, blockDim.x}, to, from, bytes);
  }
};

// One block copies a message of one chunk, and reports its end at once. All blocks share
// longer messages.
__device__ void start_lanes(BlockTeam& team, const LaneArguments& arguments, const LaneView* views) {
  for (uint32_t i = 0; i < arguments.count; ++i) {
    const uint32_t lane = (i + blockIdx.x) % arguments.count;
    if (views[lane].chunks > 1)
      start_lane(team, views[lane], blockIdx.x, gridDim.x);
    else if (lane % gridDim.x == blockIdx.x)
      start_lane(team, views[lane], 0, 1);
  }
}

enum LaneState : uint8_t { kWaits, kCopies, kIsCopied, kPassed, kGone };

// One thread per lane checks it; the whole block copies chunks of open messages.
__device__ void wait_for_lanes(BlockTeam& team, const LaneArguments& arguments, const LaneView* views,
                               LaneState* states) {
  constexpr uint32_t kLooksPerGone = 64;
  const uint32_t mine = threadIdx.x;
  for (uint32_t looks = 1;; ++looks) {
    if (mine < arguments.count && states[mine] < kPassed) {
      const LaneView& lane = views[mine];
      const LaneLook look = look_at_lane(team, lane, looks <= kEagerLooks);
      if (look == LaneLook::kComplete)
        states[mine] = kPassed;
      else if (look == LaneLook::kMayCopy && states[mine] == kWaits)
        states[mine] = kCopies;
      else if (looks % kLooksPerGone == 0 && (is_gone(team, lane) || load_word(arguments.released) != 0))
        states[mine] = kGone;
    }
    __syncthreads();
    bool all = true;
    bool copied = false;
    for (uint32_t lane = 0; lane < arguments.count; ++lane) {
      all = all && states[lane] >= kPassed;
      if (states[lane] != kCopies)
        continue;
      (void)copy_chunks(team, views[lane]);
      copied = true;
    }
    __syncthreads();
    if (mine < arguments.count && states[mine] == kCopies)
      states[mine] = kIsCopied;
    if (all)
      return;
    if (!copied)
      pause();
  }
}

}  // namespace

// Starts lanes, or waits for them. The last block to finish does the one-time work.
extern "C" __global__ void __launch_bounds__(kLaneThreads) lanes(LaneArguments arguments) {
  __shared__ LaneView views[LaneArguments::kLanes];
  __shared__ LaneState states[LaneArguments::kLanes];
  __shared__ uint64_t slot;
  BlockTeam team{&slot};
  const uint32_t mine = threadIdx.x;
  wait_for_previous_kernel();
  if (arguments.wait == 0)
    allow_next_kernel();
  if (mine < arguments.count) {
    views[mine] = view_lane(team, arguments.ends[mine], arguments.wait == 0);
    states[mine] = kWaits;
  }
  __syncthreads();
  if (arguments.wait == 0) {
    // Use threads that do not fence later: a fence would wait for this store to host memory, which
    // takes longer than others.
    if (blockIdx.x == 0 && mine >= LaneArguments::kLanes && mine - LaneArguments::kLanes < arguments.count)
      tell_host(team, views[mine - LaneArguments::kLanes]);
    start_lanes(team, arguments, views);
  } else {
    wait_for_lanes(team, arguments, views, states);
    allow_next_kernel();  // not earlier: others need the device while this kernel waits
  }
  __syncthreads();  // all threads have copied
  if (gridDim.x > 1) {
    uint64_t before = 0;
    const uint64_t arrivals = arguments.ends[0] + offsetof(LaneEnd, arrivals);
    if (mine == 0) {
      if (arguments.wait == 0)  // the copies of a wait are fenced already
        __threadfence_system();
      before = add_to_own_word(arrivals, 1);
      __threadfence();  // the last block sees the others' decisions
    }
    if (team.share(before) != gridDim.x - 1)
      return;
    if (mine == 0)
      store_word(arrivals, 0);  // for the next kernel
  }
  if (mine < arguments.count) {
    const LaneView& lane = views[mine];
    if (arguments.wait == 0)
      end_start(team, lane, lane.chunks > 1 ? gridDim.x : 1);
    else if (states[mine] == kPassed)
      tell_host(team, lane);
  }
  mark(arguments);
}

// Makes the copies of a ring of commands as they arrive, until none has come for a while.
// kServeThreads threads.
extern "C" __global__ void __launch_bounds__(kServeThreads) serve(ServeArguments arguments) {
  constexpr uint32_t kTeams = kServeThreads / kTeamThreads;
  __shared__ Copy copies[ServeArguments::kAtOnce];
  __shared__ bool there[ServeArguments::kAtOnce];
  __shared__ bool lingered, lived;
  const uint64_t born = clock_ns();
  uint64_t active = born;
  uint64_t next = arguments.first;
  for (uint32_t looks = 0;; ++looks) {
    if (threadIdx.x < ServeArguments::kAtOnce)
      there[threadIdx.x] =
          read_command(arguments.commands, next + threadIdx.x, looks < kEagerLooks, copies[threadIdx.x]);
    if (threadIdx.x == 0) {
      const uint64_t now = clock_ns();
      lingered = now - active > arguments.linger_ns;
      lived = now - born > arguments.life_ns;
    }
    __syncthreads();
    uint32_t count = 0;
    bool told = false;
    while (count < ServeArguments::kAtOnce && there[count] && !told)
      told = copies[count++].bytes == 0;
    const bool leave = told || lived || (count == 0 && lingered);
    if (count > 0) {
      looks = 0;
      // Each team has one command; each command has at least one team.
      const uint32_t team = threadIdx.x / kTeamThreads;
      const uint32_t which = team % count;
      const uint32_t teams = (kTeams - which + count - 1) / count;
      const Copy& copy = copies[which];
      const Team members{team / count * kTeamThreads + threadIdx.x % kTeamThreads, teams * kTeamThreads};
      copy_bytes(members, copy.to, copy.from, copy.bytes);
    }
    __syncthreads();  // all have copied, and read the shared variables
    next += count;
    if (threadIdx.x == 0 && count > 0) {
      __threadfence_system();
      store_word(arguments.ended, next);
      active = clock_ns();
    }
    if (leave)
      break;
  }
  if (threadIdx.x != 0)
    return;
  __threadfence_system();
  store_word(arguments.left, arguments.launch);
}

}  // namespace lanyard::gpu
