/* Preloaded by lost_rank_test.sh. When the process prints a line about its steps, the printing
 * thread calls exit(0), like a program that forgets MPI_Finalize. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef size_t (*Write)(const void*, size_t, size_t, FILE*);

size_t fwrite(const void* data, size_t size, size_t count, FILE* file) {
  static const char kLine[] = "game_of_life: mode send: ";
  const Write real = (Write)dlsym(RTLD_NEXT, "fwrite");
  const size_t written = real(data, size, count, file);
  if (file == stderr && size * count >= sizeof kLine && memcmp(data, kLine, sizeof kLine - 1) == 0)
    exit(0);
  return written;
}
