// The CXI provider's extensions of libfabric, as a user finds them through fi_open_ops(): own
// declarations of what fi_cxi(7) and the provider's fi_cxi_ext.h describe, because Debian does not
// ship that header. Where it is there, it is compared with these.
#ifndef LANYARD_NICSIM_FI_CXI_EXT_H_
#define LANYARD_NICSIM_FI_CXI_EXT_H_

#include <rdma/fabric.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>

#include <cstddef>
#include <cstdint>
#include <ctime>

#if __has_include(<rdma/fi_cxi_ext.h>)
#include <rdma/fi_cxi_ext.h>
#define LANYARD_HAS_CXI_EXT 1
#elif __has_include(<fi_cxi_ext.h>)
#include <fi_cxi_ext.h>
#define LANYARD_HAS_CXI_EXT 1
#endif

namespace lanyard::nicsim::fi {

// Of a counter.
inline constexpr char kCounterOpsName[] = "cxi_counter_ops";
struct CxiCounterOps {
  // Where the counter's word is written back to: at least 8 bytes, aligned to 8, the user's until
  // the counter is closed.
  int (*set_wb_buffer)(struct fid* counter, void* buffer, size_t bytes);
  // The counter's registers. `bytes` says 8, though the mapping is a page.
  int (*get_mmio_addr)(struct fid* counter, void** address, size_t* bytes);
};

// Of a domain: "dom_ops_v1" to "dom_ops_v6", one table that only grew at its end.
inline constexpr char kDomainOpsPrefix[] = "dom_ops_v";
struct CxiDomainOps {
  int (*cntr_read)(struct fid* domain, unsigned counter, uint64_t* value, struct timespec* when);
  int (*topology)(struct fid* domain, unsigned* group, unsigned* node_switch, unsigned* port);
  int (*enable_hybrid_mr_desc)(struct fid* domain, bool enable);
  size_t (*ep_get_unexp_msgs)(struct fid_ep* endpoint, struct fi_cq_tagged_entry* entries, size_t count,
                              fi_addr_t* sources, size_t* waiting);
  int (*get_dwq_depth)(struct fid* domain, size_t* depth);
  int (*enable_mr_match_events)(struct fid* domain, bool enable);
  int (*enable_optimized_mrs)(struct fid* domain, bool enable);
};

// What a counter may count instead of events (`events` of its attributes), and a flag of 2.x's: its reads do not wait.
inline constexpr int kCountBytes = 1;
inline constexpr uint64_t kCachedCounter = uint64_t{1} << 32;

// Commands of fi_control() for a domain: switches of its regions to be.
enum class RegionControl : int {
  kSetMatchEvents = -(0xccc << 16) + 3,
  kGetMatchEvents,
  kSetOptimized,
  kGetOptimized,
  kSetCachedKeys,
  kGetCachedKeys,
};

// Flag of deferred work: writes the triggering counter back once it has reached threshold + 1.
inline constexpr uint64_t kCounterWriteback = uint64_t{1} << 62;

// The word that is written back.
inline constexpr int kWritebackFailureShift = 48;
inline constexpr uint64_t kWritebackValid = uint64_t{1} << 63;

// A counter's registers, by their offset in bytes. A store to the first two adds; the others take
// zero alone.
enum class MmioRegister : size_t {
  kAdd = 0,
  kAddFailure = 64,
  kReset = 128,
  kResetFailure = 192,
};

#ifdef LANYARD_HAS_CXI_EXT
static_assert(sizeof(CxiCounterOps) == sizeof(struct fi_cxi_cntr_ops));
static_assert(offsetof(CxiCounterOps, get_mmio_addr) == offsetof(struct fi_cxi_cntr_ops, get_mmio_addr));
static_assert(offsetof(CxiDomainOps, get_dwq_depth) == offsetof(struct fi_cxi_dom_ops, get_dwq_depth));
static_assert(kCounterWriteback == FI_CXI_CNTR_WB);
static_assert(static_cast<int>(RegionControl::kGetCachedKeys) == FI_OPT_CXI_GET_PROV_KEY_CACHE);
#endif

}  // namespace lanyard::nicsim::fi

#endif  // LANYARD_NICSIM_FI_CXI_EXT_H_
