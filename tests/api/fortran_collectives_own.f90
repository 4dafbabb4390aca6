! Collectives that some processes make by the MPI's own names and others by the module lanyard_f08, which is C's way.
! All must count them alike. BUILD.bazel puts a module own_collectives before this program.
program fortran_collectives_own
  use mpi_f08
  use own_collectives
  use lanyard_f08
  use fortran_checks
  implicit none

  integer(count_kind), parameter :: one = 1
  type(MPIX_Host_stream) :: stream
  type(MPIX_Queue) :: queue
  type(MPI_Comm) :: line
  logical :: by_own

  call MPI_Init()
  call begin_checks()
  call MPIX_Host_stream_create(stream)
  call MPIX_Queue_init(queue, MPIX_QUEUE_HOST, stream)
  call MPI_Cart_create(MPI_COMM_WORLD, 1, [ranks], [.true.], .false., line)
  by_own = mod(rank, 2) == 0
  call barrier()
  call broadcast()
  call reduce()
  call gather()
  call gather_uneven()
  call exchange()
  call exchange_blocks()
  call exchange_types()
  call MPI_Comm_free(line)
  call MPIX_Queue_free(queue)
  call MPIX_Host_stream_free(stream)
  call end_checks()

contains

  subroutine run_once(request)
    type(MPI_Request), intent(inout) :: request
    integer :: code
    call MPIX_Match(request, MPI_STATUS_IGNORE, code)
    call check_class(code, MPI_SUCCESS, "MPIX_Match")
    call MPIX_Enqueue_start(queue, request)
    call MPIX_Enqueue_wait(queue, request)
    call MPIX_Queue_wait(queue)
    call MPI_Request_free(request)
  end subroutine

  subroutine barrier()
    type(MPI_Request) :: request
    if (by_own) then
      call own_Barrier_init(MPI_COMM_WORLD, MPI_INFO_NULL, request)
    else
      call MPIX_Barrier_init(MPI_COMM_WORLD, MPI_INFO_NULL, request)
    end if
    call run_once(request)
  end subroutine

  subroutine broadcast()
    type(MPI_Request) :: request
    integer, asynchronous :: number
    if (by_own) then
      call own_Bcast_init(number, one, MPI_INTEGER, 0, MPI_COMM_WORLD, MPI_INFO_NULL, request)
    else
      call MPIX_Bcast_init(number, 1, MPI_INTEGER, 0, MPI_COMM_WORLD, MPI_INFO_NULL, request)
    end if
    number = merge(7, -1, rank == 0)
    call run_once(request)
    call check(number == 7, "a broadcast")
  end subroutine

  subroutine reduce()
    type(MPI_Request) :: request
    integer, asynchronous :: sum
    if (by_own) then
      call own_Allreduce_init(MPI_IN_PLACE, sum, one, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, request)
    else
      call MPIX_Allreduce_init(MPI_IN_PLACE, sum, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, request)
    end if
    sum = rank
    call run_once(request)
    call check(sum == ranks * (ranks - 1) / 2, "an allreduce in place")
  end subroutine

  subroutine gather()
    type(MPI_Request) :: request
    integer, asynchronous :: all_of(0:ranks - 1)
    integer :: i
    if (by_own) then
      call own_Allgather_init(MPI_IN_PLACE, one, MPI_INTEGER, all_of, one, MPI_INTEGER, MPI_COMM_WORLD, &
                              MPI_INFO_NULL, request)
    else
      call MPIX_Allgather_init(MPI_IN_PLACE, 1, MPI_INTEGER, all_of, 1, MPI_INTEGER, MPI_COMM_WORLD, MPI_INFO_NULL, &
                               request)
    end if
    all_of = -1
    all_of(rank) = 10 * rank
    call run_once(request)
    call check(all(all_of == [(10 * i, i = 0, ranks - 1)]), "an allgather in place")
  end subroutine

  ! Of rank i i+1 numbers, the last rank's first.
  subroutine gather_uneven()
    type(MPI_Request) :: request
    integer, asynchronous :: own(ranks), all_of(ranks * (ranks + 1) / 2)
    integer(count_kind) :: counts(ranks)
    integer(place_kind) :: places(ranks)
    integer :: i, of
    counts = [(int(i, count_kind), i = 1, ranks)]
    places = [(int((ranks - of) * (ranks + of + 1) / 2, place_kind), of = 1, ranks)]
    if (by_own) then
      call own_Allgatherv_init(own, counts(rank + 1), MPI_INTEGER, all_of, counts, places, MPI_INTEGER, &
                               MPI_COMM_WORLD, MPI_INFO_NULL, request)
    else
      call MPIX_Allgatherv_init(own, rank + 1, MPI_INTEGER, all_of, int(counts), int(places), MPI_INTEGER, &
                                MPI_COMM_WORLD, MPI_INFO_NULL, request)
    end if
    all_of = -1
    own = [(10 * rank + i, i = 1, ranks)]
    call run_once(request)
    do of = 1, ranks
      call check(all(all_of(places(of) + 1:places(of) + counts(of)) == [(10 * (of - 1) + i, i = 1, of)]), &
                 "an allgatherv")
    end do
  end subroutine

  subroutine check_neighbours(in, what)
    integer, intent(in) :: in(2)
    character(len=*), intent(in) :: what
    integer :: lower, higher
    call MPI_Cart_shift(line, 0, 1, lower, higher)
    call check(in(1) == 100 * lower + 1 .and. in(2) == 100 * higher, what)
  end subroutine

  subroutine exchange()
    type(MPI_Request) :: request
    integer, asynchronous :: out(2), in(2)
    if (by_own) then
      call own_Neighbor_alltoall_init(out, one, MPI_INTEGER, in, one, MPI_INTEGER, line, MPI_INFO_NULL, request)
    else
      call MPIX_Neighbor_alltoall_init(out, 1, MPI_INTEGER, in, 1, MPI_INTEGER, line, MPI_INFO_NULL, request)
    end if
    out = [100 * rank, 100 * rank + 1]
    in = -1
    call run_once(request)
    call check_neighbours(in, "a neighbour alltoall")
  end subroutine

  subroutine exchange_blocks()
    type(MPI_Request) :: request
    integer, asynchronous :: out(2), in(2)
    integer(count_kind) :: counts(2) = 1
    integer(place_kind) :: places(2) = [0, 1]
    if (by_own) then
      call own_Neighbor_alltoallv_init(out, counts, places, MPI_INTEGER, in, counts, places, MPI_INTEGER, line, &
                                       MPI_INFO_NULL, request)
    else
      call MPIX_Neighbor_alltoallv_init(out, int(counts), int(places), MPI_INTEGER, in, int(counts), int(places), &
                                        MPI_INTEGER, line, MPI_INFO_NULL, request)
    end if
    out = [100 * rank, 100 * rank + 1]
    in = -1
    call run_once(request)
    call check_neighbours(in, "a neighbour alltoallv")
  end subroutine

  ! On a graph, as MPICH 4.0's routine fails with other topologies.
  subroutine exchange_types()
    type(MPI_Request) :: request
    type(MPI_Comm) :: graph
    integer :: lower, higher
    integer, asynchronous :: out(2), in(2)
    integer(count_kind) :: counts(2) = 1
    integer(MPI_ADDRESS_KIND) :: places(2) = [0, 4]
    type(MPI_Datatype) :: types(2)
    types = MPI_INTEGER
    call MPI_Cart_shift(line, 0, 1, lower, higher)
    call MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 2, [higher, lower], [1, 1], 2, [lower, higher], [1, 1], &
                                        MPI_INFO_NULL, .false., graph)
    if (by_own) then
      call own_Neighbor_alltoallw_init(out, counts, places, types, in, counts, places, types, graph, MPI_INFO_NULL, &
                                       request)
    else
      call MPIX_Neighbor_alltoallw_init(out, int(counts), places, types, in, int(counts), places, types, graph, &
                                        MPI_INFO_NULL, request)
    end if
    out = [100 * rank, 100 * rank + 1]
    in = -1
    call run_once(request)
    call check_neighbours([in(2), in(1)], "a neighbour alltoallw")
    call MPI_Comm_free(graph)
  end subroutine

end program fortran_collectives_own
