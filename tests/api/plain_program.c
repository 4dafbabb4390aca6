// An MPI program of a job whose other programs use Lanyard. It does not.
#include <mpi.h>
#include <stdio.h>

int main(int argc, char** argv) {
  int rank = 0, sum = 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm own = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, 1, rank, &own);
  MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  printf("plain: sum %d\n", sum);
  MPI_Comm_free(&own);
  MPI_Finalize();
  return 0;
}
