// Interface of HPE's CXI provider beyond libfabric's (fi_cxi(7)), declared by us because its header
// is not packaged everywhere. fi_open_ops() tells at run time whether a provider has it. If the
// header exists, the compiler compares the declarations.
#ifndef LANYARD_TRANSPORT_CXI_CXI_EXTENSION_H_
#define LANYARD_TRANSPORT_CXI_CXI_EXTENSION_H_

#include <rdma/fabric.h>

#include <cstddef>
#include <cstdint>
#include <ctime>

namespace lanyard::ofi {

// For fi_open_ops() on a counter.
inline constexpr const char* kCxiCounterOps = "cxi_counter_ops";
struct CxiCounterOps {
  int (*set_wb_buffer)(fid* counter, void* buffer, size_t bytes);
  int (*get_mmio_addr)(fid* counter, void** address, size_t* bytes);
};

// Offset in bytes, from get_mmio_addr()'s address, of the register whose stores add. The mapping is
// a page, though `bytes` says 8.
inline constexpr size_t kCxiAddOffset = 0;

// For fi_open_ops() on a domain. Later versions only append.
inline constexpr const char* kCxiDomainOps[] = {"dom_ops_v6", "dom_ops_v5"};
struct CxiDomainOps {
  int (*cntr_read)(fid* domain, unsigned counter, uint64_t* value, timespec* time);
  int (*topology)(fid* domain, unsigned* group, unsigned* node, unsigned* port);
  int (*enable_hybrid_mr_desc)(fid* domain, bool enable);
  size_t (*ep_get_unexp_msgs)(void* endpoint, void* entries, size_t count, uint64_t* sources, size_t* messages);
  int (*get_dwq_depth)(fid* domain, size_t* depth);
  int (*enable_mr_match_events)(fid* domain, bool enable);
  int (*enable_optimized_mrs)(fid* domain, bool enable);
};

}  // namespace lanyard::ofi

#if __has_include(<rdma/fi_cxi_ext.h>)
#include <rdma/fi_cxi_ext.h>
#include <rdma/fi_domain.h>

#include <string_view>

namespace lanyard::ofi {
static_assert(std::string_view(FI_CXI_COUNTER_OPS) == kCxiCounterOps);
static_assert(sizeof(fi_cxi_cntr_ops) == sizeof(CxiCounterOps));
static_assert(offsetof(fi_cxi_cntr_ops, get_mmio_addr) == offsetof(CxiCounterOps, get_mmio_addr));
static_assert(offsetof(fi_cxi_dom_ops, get_dwq_depth) == offsetof(CxiDomainOps, get_dwq_depth));
}  // namespace lanyard::ofi
#endif

#endif  // LANYARD_TRANSPORT_CXI_CXI_EXTENSION_H_
