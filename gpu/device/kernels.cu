// The device's side: one source for CUDA and HIP, compiled to an image that the driver loads (tools/third_party/gpu).
//
// Every kernel acquires or releases by itself, at system scope: that a kernel has ended does not tell the host or a NIC
// anything, and on AMD's devices does not even write coarse-grained memory back.
#include "gpu/combine.h"
#include "gpu/device/kernel_arguments.h"
#include "gpu/device/warp_team.h"
#include "lanyard/detail/block_team.h"
#include "lanyard/detail/device_copy.h"
#include "lanyard/detail/kernel_vendor.h"
#include "lanyard/detail/lane_list.h"
#include "gpu/layout_loop.h"

namespace lanyard::gpu {
namespace {

// All of the block's threads have done their part, which need not be visible to everybody yet.
__device__ void mark(const WordArguments& arguments) {
  __syncthreads();
  if (threadIdx.x == 0 && arguments.marker != 0)
    store_word(arguments.marker, arguments.number);
}

// Of a counter's copy those that count what succeeded (gpu/stream.h).
constexpr uint64_t kCountBits = (uint64_t{1} << 48) - 1;

__device__ void await(uint64_t word, uint64_t bits, uint64_t value, uint64_t released) {
  for (uint32_t looks = 0;; ++looks) {
    const bool eager = looks < kEagerLooks;
    // Both loads are under way together: each is a trip over the bus.
    const uint64_t is_released = load_word(released);
    const uint64_t seen = eager ? acquire_word(word) : load_word(word);
    if ((seen & bits) >= value || is_released != 0) {
      if (!eager)
        __threadfence_system();
      return;
    }
    pause();
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

// Whether the command is there; then what the host wrote before it is visible.
__device__ bool read_command(uint64_t commands, uint64_t index, bool eager, Copy& copy) {
  const uint64_t place = index % CopyCommands::kCommands;
  const CopyCommands* const ring = reinterpret_cast<const CopyCommands*>(commands);
  const uint64_t lap = index / CopyCommands::kCommands % 2 == 0 ? CopyCommands::kLapBit : 0;
  // Three loads that are under way together: one trip over the bus.
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

// *word = value for each entry, after everything earlier in the stream. Requires: the words are different ones. They
// may be registers, for which a device should not take several stores together: one thread makes them all.
extern "C" __global__ void store(WordArguments arguments) {
  if (threadIdx.x == 0) {
    __threadfence_system();
    for (uint32_t i = 0; i < arguments.count; ++i)
      store_word(arguments.entries[i].word, arguments.entries[i].value);
  }
  mark(arguments);
}

// *count += extra, then *word = *count, for each entry, after everything earlier in the stream. Requires: the words and
// the counts are different ones.
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

// Until (*word & extra) >= value for each entry.
extern "C" __global__ void wait(WordArguments arguments) {
  if (threadIdx.x < arguments.count)
    await(arguments.entries[threadIdx.x].word, arguments.entries[threadIdx.x].extra,
          arguments.entries[threadIdx.x].value, arguments.released);
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

// bytes from anywhere to anywhere. Any grid.
extern "C" __global__ void copy(CopyArguments arguments) {
  const Copiers team{uint64_t{blockIdx.x} * blockDim.x + threadIdx.x, uint64_t{gridDim.x} * blockDim.x};
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

// Between the memory that a layout names and packed memory. Any grid. What comes behind it in the stream sees it, as it
// does what kernels of the program's write.
extern "C" __global__ void pack(PackArguments arguments) {
  switch (arguments.unit) {
    case 16: return pack_units<uint4>(arguments);
    case 8: return pack_units<uint2>(arguments);
    case 4: return pack_units<uint32_t>(arguments);
    case 2: return pack_units<uint16_t>(arguments);
    default: return pack_units<uint8_t>(arguments);
  }
}

// What a combination says. Any grid. Seen as what pack writes.
extern "C" __global__ void reduce(CombineArguments arguments) {
  (void)combine(arguments, uint64_t{blockIdx.x} * blockDim.x + threadIdx.x, uint64_t{gridDim.x} * blockDim.x);
}

// Starts lanes, or waits for them. What blocks share is ended by whoever of them is through last.
extern "C" __global__ void __launch_bounds__(kLaneThreads) lanes(LaneArguments arguments) {
  __shared__ LaneGroup<LaneArguments::kLanes> group;
  __shared__ uint64_t slot;
  BlockTeam team{&slot};
  const uint32_t mine = threadIdx.x;
  // Where no message is divided each block has lanes of its own.
  const bool divided = arguments.divided != 0;
  const uint32_t first = divided ? 0 : blockIdx.x, stride = divided ? 1 : gridDim.x;
  const uint32_t which = divided ? blockIdx.x : 0, teams = divided ? gridDim.x : 1;
  const LaneList lanes{arguments.ends + first, stride, (arguments.count - first + stride - 1) / stride};
  // Whether blocks count, at the first end, those of them that are through.
  const bool is_counted = gridDim.x > 1 && (divided || arguments.marker != 0);
  bool counts_for_first = false, first_passed = false;
  if (arguments.wait == 0) {
    await_kernel_before();
    let_kernel_behind_begin();
    (void)start_lanes(team, group, lanes, which, teams);
  } else {
    // Begins while the starts before it, which have waited for everything before them, are still being made.
    const auto let_go = [&](uint32_t count) {
      __syncthreads();  // all have looked
      if (mine < count && group.states[mine] < group.kNone &&
          (is_gone(team, group.views[mine]) || load_word(arguments.released) != 0))
        group.states[mine] = group.kGone;
      __syncthreads();
      return false;
    };
    (void)wait_for_lanes(team, group, lanes, which, teams, let_go, [](uint32_t) {});
    // Not before: once a wait is known to have passed the end may be another pair's. So whoever is through last ends
    // the one that they count at.
    await_kernel_before();
    counts_for_first = is_counted && blockIdx.x == 0 && group.views[0].chunks == 1;
    first_passed = counts_for_first && group.states[0] != group.kGone;
    end_waits_in_hand(team, group, counts_for_first ? 1 : 0, static_cast<uint32_t>(lanes.count), 1, teams);
    let_kernel_behind_begin();  // not before: for as long as this one waits others need the device
  }
  if (!is_counted && arguments.marker == 0)
    return;
  if (is_counted) {
    constexpr uint64_t kFirstPassed = uint64_t{1} << 32;
    uint64_t through = 0;
    const uint64_t end = arguments.ends[0];
    __syncthreads();  // all of the block are through
    if (mine == 0) {
      if (arguments.wait == 0)
        fence_system();
      else
        __threadfence();  // what a wait has copied has been fenced
      const uint64_t own = first_passed ? 1 + kFirstPassed : 1;
      through = add_to_own_word(end + offsetof(LaneEnd, arrivals), own) + own;
      __threadfence();  // who is last sees what the others' have decided; to others it is told behind a fence
    }
    through = team.share(through);
    if (through % kFirstPassed != gridDim.x)
      return;
    if (mine == 0)
      store_word(end + offsetof(LaneEnd, arrivals), 0);  // for the next kernel
    if (divided && arguments.wait == 0)
      end_starts(team, group, lanes, teams);
    else if (divided)
      end_waits(team, group, lanes, teams);
    if (mine == 0 && through >= kFirstPassed)
      end_wait(team, view_lane(team, end, false));
  }
  __syncthreads();
  if (mine == 0 && arguments.marker != 0)
    store_word(arguments.marker, arguments.number);
}

// As lanes, of a few with small messages: a warp each, which waits for no other. One block of so many warps, which may
// take all registers of its multiprocessor.
extern "C" __global__ void __launch_bounds__(kMostSmallLanes* kWarpThreads, 1) small_lanes(LaneArguments arguments) {
  WarpTeam team;
  const uint32_t mine = threadIdx.x / kWarpThreads;
  const uint64_t end = mine < arguments.count ? arguments.ends[mine] : 0;
  if (arguments.wait == 0) {
    await_kernel_before();
    let_kernel_behind_begin();
    if (end != 0) {
      const LaneView lane = view_lane(team, end, true);
      start_lane(team, lane, 0, 1);
      team.barrier();
      if (team.leads())
        end_start(team, lane, 1);
    }
  } else {
    // As in lanes: begins while the starts before it are still being made, and ends behind them.
    if (end != 0) {
      const LaneView lane = view_lane(team, end, false);
      const auto is_let_pass = [&] {
        return team.share(is_gone(team, lane) || load_word(arguments.released) != 0 ? 1 : 0) != 0;
      };
      const bool passed = wait_for_lane(team, lane, is_let_pass);
      await_kernel_before();
      if (passed && team.leads())
        end_wait(team, lane);
    } else {
      await_kernel_before();
    }
    if (arguments.combination.part_count != 0) {
      __syncthreads();  // all messages are there
      if (arguments.combination.element == Element::kDouble)
        (void)combining::run_real<double>(arguments.combination, threadIdx.x, blockDim.x);
      else
        (void)combining::run_real<float>(arguments.combination, threadIdx.x, blockDim.x);
    }
    let_kernel_behind_begin();
  }
  if (arguments.marker == 0)
    return;
  __syncthreads();
  if (threadIdx.x == 0)
    store_word(arguments.marker, arguments.number);
}

// Makes the copies of a ring of commands as they come, until none has come for a while. kServeThreads threads.
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
      // Every team has one command, and every command one team or more.
      const uint32_t team = threadIdx.x / kTeamThreads;
      const uint32_t which = team % count;
      const uint32_t teams = (kTeams - which + count - 1) / count;
      const Copy& copy = copies[which];
      const Copiers members{team / count * kTeamThreads + threadIdx.x % kTeamThreads, teams * kTeamThreads};
      copy_bytes(members, copy.to, copy.from, copy.bytes);
    }
    __syncthreads();  // all have copied, and read what is shared
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
