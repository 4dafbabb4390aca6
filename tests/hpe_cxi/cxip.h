/* Stands in for the CXI provider's internal header when HPE's tests are built over public libfabric: what a test uses
 * of it that libfabric itself lacks, and, in place of the provider's insides, a way to say that a test reads them. Such
 * a test is skipped with a message that begins with "gap: ".
 */
#ifndef LANYARD_TESTS_HPE_CXI_CXIP_H_
#define LANYARD_TESTS_HPE_CXI_CXIP_H_

#include <assert.h>
#include <criterion/criterion.h>
#include <inttypes.h>
#include <rdma/fabric.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_cxi_ext.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>
#include <rdma/fi_trigger.h>
#include <rdma/providers/fi_log.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ARRAY_SIZE(array) (sizeof(array) / sizeof((array)[0]))
#ifndef MIN
#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define MAX(a, b) ((a) > (b) ? (a) : (b))
#endif
#define FLOOR(value, unit) ((uintptr_t)(value) - (uintptr_t)(value) % (unit))

/* ---- Limits of the card that tests go up to. */
#define C_MAX_IDC_PAYLOAD_RES 224
#define CXIP_PTL_IDX_MR_OPT_CNT 100
#define CXIP_INJECT_SIZE 192
#define CXIP_EP_PRI_CAPS \
  (FI_RMA | FI_ATOMICS | FI_TAGGED | FI_RECV | FI_SEND | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE | FI_MSG)

/* As opaque as it is to any user: what fi_getname() gives. */
struct cxip_addr {
  uint32_t nic, pid;
  unsigned char rest[248];
};

size_t hpe_datatype_size(enum fi_datatype type);
#define ofi_datatype_size hpe_datatype_size

/* ---- The provider's insides, which no provider shows through public libfabric. Neither returns. */
void* hpe_gap(const char* what);
int hpe_gap_offset(const char* what);

#undef container_of
#define container_of(pointer, type, member) ((type*)hpe_gap("reads " #type))
/* libfabric's own functions have been compiled by now; what follows is a test that casts a descriptor. */
#define mem_desc mem_desc + hpe_gap_offset("reads what is behind a descriptor")

typedef struct {
  int value;
} ofi_atomic32_t;
#define ofi_atomic_get32(atomic) ((atomic)->value)

struct cxip_ep_obj {
  ofi_atomic32_t ref;
};
struct cxip_ep {
  struct cxip_ep_obj* ep_obj;
  struct fi_tx_attr tx_attr;
};
struct cxip_cntr {
  void* wb;
};
struct cxip_domain {
  bool is_prov_key;
};
struct cxip_mr {
  ofi_atomic32_t match_events, access_events;
  bool count_events;
  void* buf;
  size_t len;
};
struct cxip_mr_key {
  union {
    uint64_t raw;
    struct {
      uint64_t number : 61, opt : 1, cached : 1, is_prov : 1;
    };
  };
};
#define _CXIP_WARN(...) ((void)0)
struct c_ct_writeback {
  uint64_t words[8];
};
#define is_netsim(endpoint) ((void)(endpoint), false)
#define cxip_generic_is_mr_key_opt(key) ((key) < CXIP_PTL_IDX_MR_OPT_CNT)
#define cxip_evtq_saved_bytes(queue) ((void)(queue), (size_t)0)

/* ---- The card itself: its event counters, and the library below the provider. */
enum {
  C_CNTR_HNI_HRP_ACK,
  C_CNTR_IXE_DMAWR_CPU_FTCH_AMO_REQS,
  C_CNTR_IXE_DMAWR_FLUSH_REQS,
  C_CNTR_IXE_RX_PTL_RESTRICTED_PKT,
  C_CNTR_LPE_PLEC_HITS,
};
enum {
  C_AMO_OP_MIN,
  C_AMO_OP_MAX,
  C_AMO_OP_SUM,
  C_AMO_OP_LOR,
  C_AMO_OP_LAND,
  C_AMO_OP_BOR,
  C_AMO_OP_BAND,
  C_AMO_OP_LXOR,
  C_AMO_OP_BXOR,
  C_AMO_OP_SWAP,
};
#define C_CQ_STS_MAX_TLE_IN_USE(pool) (pool)

enum {
  CXI_RSRC_TYPE_PTE,
  CXI_RSRC_TYPE_TXQ,
  CXI_RSRC_TYPE_TGQ,
  CXI_RSRC_TYPE_EQ,
  CXI_RSRC_TYPE_CT,
  CXI_RSRC_TYPE_LE,
  CXI_RSRC_TYPE_TLE,
  CXI_RSRC_TYPE_AC,
  CXI_RSRC_TYPE_MAX,
};
struct cxi_limits {
  unsigned max, res;
};
struct cxi_rsrc_limits {
  struct cxi_limits type[CXI_RSRC_TYPE_MAX];
  struct cxi_limits ptes, txqs, tgqs, eqs, cts, les, tles, acs;
};
enum { CXI_SVC_MEMBER_UID };
struct cxi_svc_desc {
  bool enable, resource_limits, restricted_members, restricted_vnis;
  unsigned num_vld_vnis, svc_id, vnis[4];
  struct {
    int type;
    struct {
      int uid;
    } svc_member;
  } members[2];
  struct cxi_rsrc_limits limits;
};
struct cxi_svc_fail_info {
  int unused;
};
union c_cq_sts_max_tle_in_use {
  struct {
    unsigned max;
  };
};
struct cxil_dev;
int cxil_open_device(unsigned number, struct cxil_dev** device);
void cxil_close_device(struct cxil_dev* device);
int cxil_alloc_svc(struct cxil_dev* device, struct cxi_svc_desc* service, struct cxi_svc_fail_info* failure);
int cxil_destroy_svc(struct cxil_dev* device, unsigned service);
int cxil_map_csr(struct cxil_dev* device);
int cxil_read_csr(struct cxil_dev* device, unsigned where, void* value, size_t bytes);
int cxil_write_csr(struct cxil_dev* device, unsigned where, void* value, size_t bytes);

#endif /* LANYARD_TESTS_HPE_CXI_CXIP_H_ */
