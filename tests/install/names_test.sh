#!/usr/bin/env bash
# An MPI may define MPIX_ names itself. With an mpi.h like HPE Cray MPICH's (its manual pages
# mpix_queue, mpix_create_queue, mpix_enqueue_send, mpix_enqueue_start and so on) programs
# for Lanyard build and run. Calls of that MPI's functions reach that MPI, with Lanyard
# linked or preloaded.
#
#   names_test.sh openmpi|mpich RANKS
set -euo pipefail
mpi=$1 ranks=$2
# shellcheck source=tests/install/installation.sh
source tests/install/installation.sh

stage --prefix "$prefix" --fortran
export PKG_CONFIG_PATH=$prefix/lib/pkgconfig
cd "$work"
own=$(nm -D --defined-only "$prefix/lib/liblanyard-$mpi.so" "$prefix/lib/lanyard/"*.so | grep MPIX_ || true)
[[ -z $own ]] || fail "Lanyard defines names that belong to the MPI: $own"

mkdir mpi
cat >mpi/mpi.h <<'EOF'
#pragma GCC system_header
#ifndef OTHER_NAMES
#define OTHER_NAMES
#include_next <mpi.h>
#ifdef __cplusplus
extern "C" {
#endif
typedef int MPIX_Queue;
#define MPIX_QUEUE_NULL (-1)
int MPIX_Create_queue(void* stream, MPIX_Queue* queue);
int MPIX_Free_queue(MPIX_Queue queue);
int MPIX_Enqueue_send(const void* buf, int count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm,
                      MPIX_Queue queue, MPI_Request* request);
int MPIX_Enqueue_recv(void* buf, int count, MPI_Datatype datatype, int source, int tag, MPI_Comm comm,
                      MPIX_Queue queue, MPI_Request* request);
int MPIX_Enqueue_start(const MPIX_Queue queue);
int MPIX_Enqueue_wait(const MPIX_Queue queue);
#ifdef __cplusplus
}
#endif
#endif
EOF
cat >mpi/part.c <<'EOF'
#include <mpi.h>
static int starts;
int MPIX_Create_queue(void* stream, MPIX_Queue* queue) { return *queue = stream != 0, MPI_SUCCESS; }
int MPIX_Enqueue_start(const MPIX_Queue queue) { return starts += queue, MPI_SUCCESS; }
int MPIX_Enqueue_wait(const MPIX_Queue queue) { return starts == 1 && queue == 1 ? MPI_SUCCESS : MPI_ERR_OTHER; }
EOF
warnings=(-Wall -Wextra -Wpedantic -Werror)
compile=("mpicc.$mpi" -std=c11 "${warnings[@]}" -Impi)
compile_cxx=("mpicxx.$mpi" -std=c++17 "${warnings[@]}" -Impi)
"${compile[@]}" -fPIC -shared mpi/part.c -o libpart.so
read -ra flags <<<"$(pkg-config --cflags --libs "lanyard-$mpi")"
read -ra flags_f <<<"$(pkg-config --cflags --libs "lanyard-$mpi-fortran")"
part=(./libpart.so "-Wl,-rpath,$work")

# A program without Lanyard that calls the MPI's own functions.
cat >theirs.c <<'EOF'
#include <mpi.h>
#include <stdio.h>
int main(int argc, char** argv) {
  MPIX_Queue queue = MPIX_QUEUE_NULL;
  MPI_Init(&argc, &argv);
  MPIX_Create_queue(&queue, &queue);
  MPIX_Enqueue_start(queue);
  if (MPIX_Enqueue_wait(queue) == MPI_SUCCESS)
    puts("verified");
  MPI_Finalize();
  return 0;
}
EOF
"${compile[@]}" theirs.c "${part[@]}" -o theirs
run "the MPI's own calls" ./theirs
run "the MPI's own calls, Lanyard preloaded" ./theirs "LD_PRELOAD=$prefix/lib/liblanyard-$mpi.so.0"

# A program that calls Lanyard by MPIX_ names.
"${compile[@]}" "$examples/example.c" "${flags[@]}" -o ring
run "MPIX_ names" ./ring
"${compile_cxx[@]}" "$examples/ring.cc" "${flags[@]}" -o ring_cpp
run "MPIX_ names, C++" ./ring_cpp
cat >names.c <<'EOF'
#include <lanyard/lanyard_device.h>
#include <lanyard/lanyard.h>
#include <mpi.h>
MPIX_Queue queue = MPIX_QUEUE_NULL;
enum MPIX_Queue_type type = MPIX_QUEUE_HIP;
int (*start)(MPIX_Queue, MPI_Request*) = MPIX_Enqueue_start;
int (*class_of)(MPIX_Error_kind) = &MPIX_Error_class_of;
int busy(MPIX_Queue* (*queues)(void)) { return MPIX_Queue_free(queues()) == MPIX_ERR_BUSY; }
EOF
"${compile[@]}" -I"$prefix/include" -c names.c
"${compile_cxx[@]}" -I"$prefix/include" -x c++ -c names.c

# Both in one source file.
cat >both.c <<'EOF'
#define LANYARD_NO_MPIX_NAMES
#include <lanyard/lanyard.h>
#include <stdio.h>
int main(int argc, char** argv) {
  Lanyard_Host_stream stream = LANYARD_HOST_STREAM_NULL;
  Lanyard_Queue ours = LANYARD_QUEUE_NULL;
  MPIX_Queue theirs = MPIX_QUEUE_NULL;
  MPI_Init(&argc, &argv);
  Lanyard_Host_stream_create(&stream);
  Lanyard_Queue_init(&ours, LANYARD_QUEUE_HOST, &stream);
  MPIX_Create_queue(&stream, &theirs);
  MPIX_Enqueue_start(theirs);
  if (MPIX_Enqueue_wait(theirs) == MPI_SUCCESS && Lanyard_Queue_wait(ours) == MPI_SUCCESS)
    puts("verified");
  Lanyard_Queue_free(&ours);
  Lanyard_Host_stream_free(&stream);
  MPI_Finalize();
  return 0;
}
EOF
"${compile[@]}" both.c "${flags[@]}" "${part[@]}" -o both
run "both in one source" ./both
"${compile_cxx[@]}" -DLANYARD_NO_MPIX_NAMES "$examples/ring.cc" "${flags[@]}" -o ring_cpp
run "C++ without MPIX_ names" ./ring_cpp
cat >both.f90 <<'EOF'
module theirs
  type MPIX_Queue
    integer :: number = 1
  end type
contains
  logical function MPIX_Enqueue_start(queue)
    type(MPIX_Queue), intent(in) :: queue
    MPIX_Enqueue_start = queue%number == 1
  end function
end module
program both
  use mpi_f08
  use theirs
  use lanyard_f08, only: Lanyard_Host_stream, Lanyard_Queue, Lanyard_Host_stream_create, Lanyard_Host_stream_free, &
    Lanyard_Queue_init, Lanyard_Queue_free, LANYARD_QUEUE_HOST, LANYARD_QUEUE_NULL, operator(/=)
  type(MPIX_Queue) :: their_queue
  type(Lanyard_Host_stream) :: stream
  type(Lanyard_Queue) :: queue
  call MPI_Init()
  call Lanyard_Host_stream_create(stream)
  call Lanyard_Queue_init(queue, LANYARD_QUEUE_HOST, stream)
  if (MPIX_Enqueue_start(their_queue) .and. queue /= LANYARD_QUEUE_NULL) print *, "verified"
  call Lanyard_Queue_free(queue)
  call Lanyard_Host_stream_free(stream)
  call MPI_Finalize()
end program
EOF
"mpifort.$mpi" both.f90 "${flags_f[@]}" -o both_f
run "both in one source, Fortran" ./both_f
echo "everything holds"
