// The C++ half of api_mpis_test.c: the header compiles here too, and memory goes from file to file.
#include <lanyard/mpis.h>

extern "C" int* allocated_in_cpp(int count) {
  MPI_Info info = MPI_INFO_NULL;
  MPI_Info_create(&info);
  MPI_Info_set(info, "mpi_memory_alloc_kinds", "system");
  void* address = nullptr;
  const int code = MPIS_Alloc_mem(static_cast<MPI_Aint>(count) * static_cast<MPI_Aint>(sizeof(int)), info, &address);
  MPI_Info_free(&info);
  return code == MPIS_SUCCESS ? static_cast<int*>(address) : nullptr;
}

extern "C" int free_in_cpp(void* address) { return MPIS_Free_mem(address); }
