/* MPIS_Alloc_mem and MPIS_Free_mem: a part of mpis.h, which includes it. */
#ifndef LANYARD_MPIS_MEMORY_H_
#define LANYARD_MPIS_MEMORY_H_

#include "lanyard/mpis.h"

/* ---- The GPU runtime that the program has included, if any ---- */

#if defined(CUDART_VERSION)
#define LANYARD_MPIS_GPU "cuda"
static inline int lanyard_mpis_gpu_free(void* address) { return cudaFree(address) == cudaSuccess; }
static inline const char* lanyard_mpis_gpu_allocate(void** address, size_t bytes, int fine) {
  const cudaError_t error = cudaMalloc(address, bytes);
  (void)fine;
  return error == cudaSuccess ? NULL : cudaGetErrorString(error);
}
#elif defined(HIP_VERSION)
#define LANYARD_MPIS_GPU "rocm"
static inline int lanyard_mpis_gpu_free(void* address) { return hipFree(address) == hipSuccess; }
static inline const char* lanyard_mpis_gpu_allocate(void** address, size_t bytes, int fine) {
  const hipError_t error =
      fine ? hipExtMallocWithFlags(address, bytes, hipDeviceMallocFinegrained) : hipMalloc(address, bytes);
  return error == hipSuccess ? NULL : hipGetErrorString(error);
}
#endif

/* ---- GPU memory that is not freed yet ----
 * What is allocated in one file of a program may be freed in another, which may not know the GPU's runtime: so each
 * block has its own way to be freed, and there is one list a program. */
typedef struct lanyard_mpis_block {
  void* address;
  int (*release)(void* address); /* true: done */
  struct lanyard_mpis_block* next;
} lanyard_mpis_block;

#ifdef __cplusplus
extern "C" {
#endif
extern lanyard_mpis_block* lanyard_mpis_blocks;
extern char lanyard_mpis_blocks_locked;
__attribute__((weak, visibility("default"))) lanyard_mpis_block* lanyard_mpis_blocks = NULL;
__attribute__((weak, visibility("default"))) char lanyard_mpis_blocks_locked = 0;
#ifdef __cplusplus
}
#endif

static inline void lanyard_mpis_lock(void) {
  while (__atomic_test_and_set(&lanyard_mpis_blocks_locked, __ATOMIC_ACQUIRE)) {
  }
}
static inline void lanyard_mpis_unlock(void) { __atomic_clear(&lanyard_mpis_blocks_locked, __ATOMIC_RELEASE); }

static inline void lanyard_mpis_remember(lanyard_mpis_block* block) {
  lanyard_mpis_lock();
  block->next = lanyard_mpis_blocks;
  lanyard_mpis_blocks = block;
  lanyard_mpis_unlock();
}

/* The block at this address, which is the caller's now; null where there is none. */
static inline lanyard_mpis_block* lanyard_mpis_forget(const void* address) {
  lanyard_mpis_block** link;
  lanyard_mpis_block* block;
  lanyard_mpis_lock();
  link = &lanyard_mpis_blocks;
  while (*link != NULL && (*link)->address != address)
    link = &(*link)->next;
  block = *link;
  if (block != NULL)
    *link = block->next;
  lanyard_mpis_unlock();
  return block;
}

/* ---- The calls ---- */

static inline int lanyard_mpis_alloc_gpu(MPI_Aint bytes, const char* kind, void** address) {
#ifdef LANYARD_MPIS_GPU
  const size_t length = strlen(LANYARD_MPIS_GPU);
  const char* rest = kind + length;
  const int fine = strcmp(kind, "rocm:device:fine") == 0;
  if (strncmp(kind, LANYARD_MPIS_GPU, length) == 0 &&
      (*rest == '\0' || strcmp(rest, ":device") == 0 || strcmp(kind, "rocm:device:coarse") == 0 || fine)) {
    lanyard_mpis_block* block = (lanyard_mpis_block*)malloc(sizeof *block);
    const char* why = block == NULL ? "no memory" : lanyard_mpis_gpu_allocate(&block->address, (size_t)bytes, fine);
    if (why != NULL) {
      free(block);
      return lanyard_mpis_refuse("MPIS_Alloc_mem", MPI_COMM_WORLD, MPI_ERR_NO_MEM, why);
    }
    block->release = lanyard_mpis_gpu_free;
    *address = block->address;
    lanyard_mpis_remember(block);
    return MPIS_SUCCESS;
  }
#endif
  (void)bytes, (void)kind, (void)address;
  return lanyard_mpis_refuse("MPIS_Alloc_mem", MPI_COMM_WORLD, MPI_ERR_UNSUPPORTED_OPERATION,
                             "mpi_memory_alloc_kinds is not one that this program can allocate: without a GPU's "
                             "runtime, which is included before lanyard/mpis.h, there is \"system\"; with CUDA "
                             "\"cuda:device\", with HIP \"rocm:device\" as well");
}

/* Memory of the kind that the info key "mpi_memory_alloc_kinds" names: "system", "mpi", or no key: MPI_Alloc_mem;
 * "cuda", "cuda:device": cudaMalloc; "rocm", "rocm:device", "rocm:device:coarse": hipMalloc; "rocm:device:fine":
 * fine-grained. Other kinds, and those of a GPU whose runtime was not included: MPIS_UNSUPPORTED_BEHAVIOR. Buffers need
 * not come from here. */
static inline int MPIS_Alloc_mem(MPI_Aint bytes, MPI_Info info, void** address) {
  char kind[MPI_MAX_INFO_VAL + 1] = "system";
  int is_set = 0;
  if (bytes < 0 || address == NULL)
    return lanyard_mpis_refuse("MPIS_Alloc_mem", MPI_COMM_WORLD, MPI_ERR_ARG, "a length and an address are needed");
  if (info != MPI_INFO_NULL) {
#if MPI_VERSION >= 4
    int length = (int)sizeof kind;
    const int code = MPI_Info_get_string(info, "mpi_memory_alloc_kinds", &length, kind, &is_set);
#else
    const int code = MPI_Info_get(info, "mpi_memory_alloc_kinds", MPI_MAX_INFO_VAL, kind, &is_set);
#endif
    if (code != MPI_SUCCESS)
      return lanyard_mpis_code("MPIS_Alloc_mem", code);
  }
  if (is_set && strcmp(kind, "system") != 0 && strcmp(kind, "mpi") != 0)
    return lanyard_mpis_alloc_gpu(bytes, kind, address);
  return lanyard_mpis_code("MPIS_Alloc_mem", MPI_Alloc_mem(bytes, info, address));
}

/* Frees what MPIS_Alloc_mem gave, in whatever file of the program; nothing where it is null. */
static inline int MPIS_Free_mem(void* address) {
  lanyard_mpis_block* block;
  int done;
  if (address == NULL)
    return MPIS_SUCCESS;
  block = lanyard_mpis_forget(address);
  if (block == NULL)
    return lanyard_mpis_code("MPIS_Free_mem", MPI_Free_mem(address));
  done = block->release(address);
  free(block);
  return done ? MPIS_SUCCESS
              : lanyard_mpis_refuse("MPIS_Free_mem", MPI_COMM_WORLD, MPI_ERR_ARG, "the GPU's runtime did not free it");
}

#endif /* LANYARD_MPIS_MEMORY_H_ */
