/* The objects that HPE's tests of the CXI provider work with, made over public libfabric: what cxip_test_common.h
 * declares, without the provider's insides. One endpoint, which talks to itself.
 */
#include "cxip_test_common.h"

struct fi_info *cxit_fi_hints, *cxit_fi;
struct fid_fabric* cxit_fabric;
struct fid_domain* cxit_domain;
struct fi_cxi_dom_ops* dom_ops;
struct fid_ep *cxit_ep, *cxit_tx_alias_ep;
struct cxip_addr cxit_ep_addr;
fi_addr_t cxit_ep_fi_addr;
struct fid_eq* cxit_eq;
struct fi_cq_attr cxit_tx_cq_attr = {.format = FI_CQ_FORMAT_TAGGED, .size = 16384};
struct fi_cq_attr cxit_rx_cq_attr = {.format = FI_CQ_FORMAT_TAGGED};
uint64_t cxit_tx_cq_bind_flags = FI_TRANSMIT, cxit_rx_cq_bind_flags = FI_RECV;
struct fid_cq *cxit_tx_cq, *cxit_rx_cq;
struct fi_cntr_attr cxit_cntr_attr;
struct fid_cntr *cxit_send_cntr, *cxit_recv_cntr, *cxit_read_cntr, *cxit_write_cntr, *cxit_rem_cntr;
struct fi_av_attr cxit_av_attr = {.type = FI_AV_TABLE};
struct fid_av* cxit_av;
char *cxit_node, *cxit_service;
uint64_t cxit_flags;
int cxit_n_ifs = 1;
bool cxit_prov_key;
int s_page_size;
bool enable_cxi_hmem_ops;

#define MUST(call)                                                   \
  do {                                                               \
    const long result = (call);                                      \
    cr_assert(result == 0, #call ": %s", fi_strerror((int)-result)); \
  } while (0)

/* ---- What cannot be tried here */

void* hpe_gap(const char* what) {
  fprintf(stderr, "gap: %s\n", what);
  cr_skip_test("gap");
  abort();
}

int hpe_gap_offset(const char* what) { return hpe_gap(what) != NULL; }

int cxit_dom_read_cntr(unsigned counter, uint64_t* value, struct timespec* when, bool sync) {
  return hpe_gap("reads the card's event counters") != NULL;
}
void set_amo_remap_to_pcie_fadd(int operation) { hpe_gap("sets the card up (PCIe atomics)"); }
void reset_amo_remap_to_pcie_fadd(void) { hpe_gap("sets the card up (PCIe atomics)"); }

static int below(void) { return hpe_gap("uses the library below the provider") != NULL; }
int cxil_open_device(unsigned number, struct cxil_dev** device) { return below(); }
void cxil_close_device(struct cxil_dev* device) {}
int cxil_alloc_svc(struct cxil_dev* device, struct cxi_svc_desc* service, struct cxi_svc_fail_info* failure) {
  return below();
}
int cxil_destroy_svc(struct cxil_dev* device, unsigned service) { return 0; }
int cxil_map_csr(struct cxil_dev* device) { return below(); }
int cxil_read_csr(struct cxil_dev* device, unsigned where, void* value, size_t bytes) { return below(); }
int cxil_write_csr(struct cxil_dev* device, unsigned where, void* value, size_t bytes) { return below(); }

/* ---- Objects, one by one */

void cxit_setup_getinfo(void) {
  setlinebuf(stdout);
  s_page_size = (int)sysconf(_SC_PAGESIZE);
  if (cxit_fi_hints != NULL)
    return;
  const char* provider_keys = getenv("CXIP_TEST_PROV_KEY");
  cxit_prov_key = provider_keys != NULL && atoi(provider_keys) != 0;
  cxit_fi_hints = fi_allocinfo();
  cxit_fi_hints->fabric_attr->prov_name = strdup("cxi");
  cxit_fi_hints->domain_attr->mr_mode = FI_MR_ENDPOINT | FI_MR_ALLOCATED | (cxit_prov_key ? FI_MR_PROV_KEY : 0);
  cxit_fi_hints->domain_attr->data_progress = FI_PROGRESS_MANUAL;
}
void cxit_teardown_getinfo(void) {
  fi_freeinfo(cxit_fi_hints);
  cxit_fi_hints = NULL;
}

void cxit_setup_fabric(void) {
  cxit_setup_getinfo();
  if (cxit_fi == NULL)
    MUST(fi_getinfo(FI_VERSION(1, 15), cxit_node, cxit_service, cxit_flags, cxit_fi_hints, &cxit_fi));
}
void cxit_teardown_fabric(void) {
  fi_freeinfo(cxit_fi);
  cxit_fi = NULL;
  cxit_teardown_getinfo();
}

void cxit_setup_domain(void) {
  cxit_setup_fabric();
  if (cxit_fabric == NULL)
    MUST(fi_fabric(cxit_fi->fabric_attr, &cxit_fabric, NULL));
}
void cxit_teardown_domain(void) {
  MUST(fi_close(&cxit_fabric->fid));
  cxit_fabric = NULL;
  cxit_teardown_fabric();
}

void cxit_setup_ep(void) {
  cxit_setup_domain();
  if (cxit_domain != NULL)
    return;
  MUST(fi_domain(cxit_fabric, cxit_fi, &cxit_domain, NULL));
  for (const char* version = "123456"; *version != '\0'; ++version) {
    char name[] = "dom_ops_v?";
    name[sizeof name - 2] = *version;
    MUST(fi_open_ops(&cxit_domain->fid, name, 0, (void**)&dom_ops, NULL));
  }
  cr_assert(dom_ops->cntr_read != NULL && dom_ops->enable_mr_match_events != NULL);
}
void cxit_teardown_ep(void) {
  MUST(fi_close(&cxit_domain->fid));
  cxit_domain = NULL;
  cxit_teardown_domain();
}

void cxit_create_ep(void) { MUST(fi_endpoint(cxit_domain, cxit_fi, &cxit_ep, NULL)); }
void cxit_destroy_ep(void) {
  if (cxit_ep != NULL)
    MUST(fi_close(&cxit_ep->fid));
  cxit_ep = NULL;
}

void cxit_create_eq(void) {
  struct fi_eq_attr attributes = {.size = 32, .flags = FI_WRITE, .wait_obj = FI_WAIT_NONE};
  /* No test here reads it, so that a provider without event queues can be tried too. */
  const int error = fi_eq_open(cxit_fabric, &attributes, &cxit_eq, NULL);
  cr_assert(error == 0 || error == -FI_ENOSYS, "fi_eq_open: %s", fi_strerror(-error));
}
void cxit_bind_eq(void) {
  if (cxit_eq != NULL)
    MUST(fi_ep_bind(cxit_ep, &cxit_eq->fid, 0));
}
void cxit_destroy_eq(void) {
  if (cxit_eq != NULL)
    MUST(fi_close(&cxit_eq->fid));
  cxit_eq = NULL;
}

void cxit_create_cqs(void) {
  MUST(fi_cq_open(cxit_domain, &cxit_tx_cq_attr, &cxit_tx_cq, NULL));
  MUST(fi_cq_open(cxit_domain, &cxit_rx_cq_attr, &cxit_rx_cq, NULL));
}
void cxit_bind_cqs(void) {
  MUST(fi_ep_bind(cxit_ep, &cxit_tx_cq->fid, cxit_tx_cq_bind_flags));
  MUST(fi_ep_bind(cxit_ep, &cxit_rx_cq->fid, cxit_rx_cq_bind_flags));
}
void cxit_destroy_cqs(void) {
  MUST(fi_close(&cxit_rx_cq->fid));
  MUST(fi_close(&cxit_tx_cq->fid));
  cxit_rx_cq = cxit_tx_cq = NULL;
}

void cxit_create_local_cntrs(void) {
  struct fid_cntr** counters[] = {&cxit_send_cntr, &cxit_recv_cntr, &cxit_read_cntr, &cxit_write_cntr};
  for (size_t i = 0; i < ARRAY_SIZE(counters); ++i)
    MUST(fi_cntr_open(cxit_domain, NULL, counters[i], NULL));
}
void cxit_create_rem_cntrs(void) { MUST(fi_cntr_open(cxit_domain, NULL, &cxit_rem_cntr, NULL)); }
void cxit_create_cntrs(void) {
  cxit_create_local_cntrs();
  cxit_create_rem_cntrs();
}
void cxit_bind_cntrs(void) {
  MUST(fi_ep_bind(cxit_ep, &cxit_send_cntr->fid, FI_SEND));
  MUST(fi_ep_bind(cxit_ep, &cxit_recv_cntr->fid, FI_RECV));
  MUST(fi_ep_bind(cxit_ep, &cxit_read_cntr->fid, FI_READ));
  MUST(fi_ep_bind(cxit_ep, &cxit_write_cntr->fid, FI_WRITE));
}
void cxit_destroy_cntrs(void) {
  struct fid_cntr** counters[] = {&cxit_send_cntr, &cxit_recv_cntr, &cxit_read_cntr, &cxit_write_cntr, &cxit_rem_cntr};
  for (size_t i = 0; i < ARRAY_SIZE(counters); ++i) {
    if (*counters[i] != NULL)
      MUST(fi_close(&(*counters[i])->fid));
    *counters[i] = NULL;
  }
}

void cxit_create_av(void) { MUST(fi_av_open(cxit_domain, &cxit_av_attr, &cxit_av, NULL)); }
void cxit_bind_av(void) { MUST(fi_ep_bind(cxit_ep, &cxit_av->fid, 0)); }
void cxit_destroy_av(void) {
  MUST(fi_close(&cxit_av->fid));
  cxit_av = NULL;
}

/* ---- Everything at once, as the suites ask for it */

static void know_oneself(void) {
  size_t bytes = sizeof cxit_ep_addr;
  MUST(fi_getname(&cxit_ep->fid, &cxit_ep_addr, &bytes));
  cr_assert(fi_av_insert(cxit_av, &cxit_ep_addr, 1, &cxit_ep_fi_addr, 0, NULL) == 1);
}

static void enable(bool remote_events) {
  if (!remote_events) {
    cxit_fi->caps &= ~FI_RMA_EVENT;
    cxit_fi->domain_attr->caps &= ~FI_RMA_EVENT;
    cxit_fi->tx_attr->caps &= ~FI_RMA_EVENT;
    cxit_fi->rx_attr->caps &= ~FI_RMA_EVENT;
  }
  cxit_create_ep();
  cxit_create_eq();
  cxit_bind_eq();
  cxit_create_cqs();
  cxit_bind_cqs();
  cxit_create_local_cntrs();
  if (remote_events)
    cxit_create_rem_cntrs();
  cxit_bind_cntrs();
  cxit_create_av();
  cxit_bind_av();
  MUST(fi_enable(cxit_ep));
  know_oneself();
}

void cxit_setup_rma(void) {
  cxit_setup_getinfo();
  cxit_fi_hints->tx_attr->size = 512;
  cxit_setup_ep();
  enable(true);
}
void cxit_teardown_rma(void) {
  cxit_destroy_ep();
  cxit_destroy_av();
  cxit_destroy_cntrs();
  cxit_destroy_cqs();
  cxit_destroy_eq();
  cxit_teardown_ep();
}

void cxit_setup_rma_disable_fi_rma_event(void) {
  cxit_setup_ep();
  enable(false);
}

void cxit_setup_rma_mr_events(void) {
  cxit_setup_ep();
  MUST(dom_ops->enable_mr_match_events(&cxit_domain->fid, true));
  enable(false);
}

void cxit_setup_rma_hybrid_mr_desc(void) {
  cxit_setup_ep();
  MUST(dom_ops->enable_hybrid_mr_desc(&cxit_domain->fid, true));
  cxit_tx_cq_bind_flags |= FI_SELECTIVE_COMPLETION;
  cxit_rx_cq_bind_flags |= FI_SELECTIVE_COMPLETION;
  enable(false);
}

/* The protocol of these cases is another one, that needs no states at the target. */
void cxit_setup_rnr_msg_ep(void) {
  cxit_setup_getinfo();
  cxit_fi_hints->ep_attr->protocol = FI_PROTO_CXI_RNR;
  cxit_setup_ep();
  enable(true);
}

void cxit_setup_tx_alias_rma_dc(void) {
  cxit_setup_rma();
  MUST(fi_ep_alias(cxit_ep, &cxit_tx_alias_ep, cxit_fi->tx_attr->op_flags | FI_TRANSMIT | FI_DELIVERY_COMPLETE));
}
void cxit_teardown_tx_alias_rma(void) {
  MUST(fi_close(&cxit_tx_alias_ep->fid));
  cxit_teardown_rma();
}

/* ---- Helpers of the tests */

size_t hpe_datatype_size(enum fi_datatype type) {
  switch (type) {
    case FI_INT8:
    case FI_UINT8: return 1;
    case FI_INT16:
    case FI_UINT16: return 2;
    case FI_INT32:
    case FI_UINT32:
    case FI_FLOAT: return 4;
    case FI_FLOAT_COMPLEX:
    case FI_INT64:
    case FI_UINT64:
    case FI_DOUBLE: return 8;
    case FI_DOUBLE_COMPLEX: return 16;
    default: return 0;
  }
}

int cxit_await_completion(struct fid_cq* queue, struct fi_cq_tagged_entry* entry) {
  ssize_t result = -FI_EAGAIN;
  while (result == -FI_EAGAIN)
    result = fi_cq_read(queue, entry, 1);
  return (int)result;
}

void validate_tx_event(struct fi_cq_tagged_entry* entry, uint64_t flags, void* context) {
  cr_assert(entry->op_context == context && entry->flags == flags, "another context, or flags %#lx in place of %#lx",
            (unsigned long)entry->flags, (unsigned long)flags);
  cr_assert(entry->len == 0 && entry->buf == NULL && entry->data == 0 && entry->tag == 0);
}

void validate_rx_event(struct fi_cq_tagged_entry* entry, void* context, size_t bytes, uint64_t flags, void* buffer,
                       uint64_t data, uint64_t tag) {
  cr_assert(entry->op_context == context && entry->flags == flags, "another context, or flags %#lx in place of %#lx",
            (unsigned long)entry->flags, (unsigned long)flags);
  cr_assert(entry->len == bytes && entry->buf == buffer && entry->data == data && entry->tag == tag);
}

int mr_create_ext(size_t bytes, uint64_t access, uint8_t seed, uint64_t* key, struct fid_cntr* counter,
                  struct mem_region* region) {
  region->mem = bytes == 0 ? NULL : malloc(bytes);
  for (size_t i = 0; i < bytes; ++i)
    region->mem[i] = (uint8_t)(i + seed);
  MUST(fi_mr_reg(cxit_domain, region->mem, bytes, access, 0, *key, 0, &region->mr, NULL));
  MUST(fi_mr_bind(region->mr, &cxit_ep->fid, 0));
  if ((cxit_fi->caps & FI_RMA_EVENT) != 0 && counter != NULL)
    MUST(fi_mr_bind(region->mr, &counter->fid, FI_REMOTE_WRITE));
  const int error = fi_mr_enable(region->mr);
  if (error == 0)
    *key = fi_mr_key(region->mr);
  return error;
}
int mr_create(size_t bytes, uint64_t access, uint8_t seed, uint64_t* key, struct mem_region* region) {
  return mr_create_ext(bytes, access, seed, key, cxit_rem_cntr, region);
}
void mr_destroy(struct mem_region* region) {
  fi_close(&region->mr->fid);
  free(region->mem);
}
