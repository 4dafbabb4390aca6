! Collectives of the module lanyard_f08: buffers of any type and rank, MPI's constants for buffers,
! and refusals. Also collectives that some processes make by the MPI's own names (the way of C) and
! others by the module: all must count them alike. BUILD.bazel uncomments the lines that begin with
! the MPI's name.

! MPI 4's names, with large counts.
!mpich module own_collectives
!mpich   use mpi_f08, only: own_Barrier_init => MPI_Barrier_init, &
!mpich                      own_Bcast_init => MPI_Bcast_init, &
!mpich                      own_Allreduce_init => MPI_Allreduce_init, &
!mpich                      own_Allgather_init => MPI_Allgather_init, &
!mpich                      own_Allgatherv_init => MPI_Allgatherv_init, &
!mpich                      own_Neighbor_alltoall_init => MPI_Neighbor_alltoall_init, &
!mpich                      own_Neighbor_alltoallv_init => MPI_Neighbor_alltoallv_init, &
!mpich                      own_Neighbor_alltoallw_init => MPI_Neighbor_alltoallw_init, &
!mpich                      count_kind => MPI_COUNT_KIND, &
!mpich                      place_kind => MPI_ADDRESS_KIND
!mpich end module own_collectives
! The names of Open MPI's extension.
!openmpi module own_collectives
!openmpi   use mpi_f08_ext, only: own_Barrier_init => MPIX_Barrier_init, &
!openmpi                          own_Bcast_init => MPIX_Bcast_init, &
!openmpi                          own_Allreduce_init => MPIX_Allreduce_init, &
!openmpi                          own_Allgather_init => MPIX_Allgather_init, &
!openmpi                          own_Allgatherv_init => MPIX_Allgatherv_init, &
!openmpi                          own_Neighbor_alltoall_init => MPIX_Neighbor_alltoall_init, &
!openmpi                          own_Neighbor_alltoallv_init => MPIX_Neighbor_alltoallv_init, &
!openmpi                          own_Neighbor_alltoallw_init => MPIX_Neighbor_alltoallw_init
!openmpi   implicit none
!openmpi   integer, parameter :: count_kind = kind(0), place_kind = kind(0)
!openmpi end module own_collectives

program fortran_collectives
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
  call absolute_broadcasts()
  call refusals()
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

  subroutine match(request)
    type(MPI_Request), intent(inout) :: request
    integer :: code
    call MPIX_Match(request, MPI_STATUS_IGNORE, code)
    call check_class(code, MPI_SUCCESS, "MPIX_Match")
  end subroutine

  subroutine run(request)
    type(MPI_Request), intent(inout) :: request
    call MPIX_Enqueue_start(queue, request)
    call MPIX_Enqueue_wait(queue, request)
    call MPIX_Queue_wait(queue)
  end subroutine

  ! With MPI_BOTTOM, the datatype holds absolute addresses.
  subroutine absolute_broadcasts()
    type(MPI_Request) :: request
    type(MPI_Datatype) :: both
    integer, asynchronous :: one, other
    integer(MPI_ADDRESS_KIND) :: places(2)
    call MPI_Get_address(one, places(1))
    call MPI_Get_address(other, places(2))
    call MPI_Type_create_hindexed_block(2, 1, places, MPI_INTEGER, both)
    call MPI_Type_commit(both)
    call MPIX_Bcast_init(MPI_BOTTOM, 1, both, 0, MPI_COMM_WORLD, MPI_INFO_NULL, request)
    call MPI_Type_free(both)
    call match(request)
    one = merge(7, -1, rank == 0)
    other = merge(8, -1, rank == 0)
    call run(request)
    call check(one == 7 .and. other == 8, "a broadcast from absolute addresses")
    call MPI_Request_free(request)
  end subroutine

  subroutine refusals()
    type(MPI_Request) :: request
    integer, asynchronous :: numbers(8), more(8)
    integer :: code
    request = MPI_REQUEST_NULL
    call MPIX_Bcast_init(numbers(1:8:2), 4, MPI_INTEGER, 0, MPI_COMM_WORLD, MPI_INFO_NULL, request, code)
    call check_class(code, MPI_ERR_BUFFER, "a broadcast of a section")
    call MPIX_Allreduce_init(more, numbers(8:1:-1), 8, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, &
                             request, code)
    call check_class(code, MPI_ERR_BUFFER, "a section as result")
    call MPIX_Bcast_init(numbers, -1, MPI_INTEGER, 0, MPI_COMM_WORLD, MPI_INFO_NULL, request, code)
    call check_class(code, MPI_ERR_COUNT, "a negative count")
    call MPIX_Neighbor_alltoallw_init(numbers, [1], [0_MPI_ADDRESS_KIND], [MPI_INTEGER], more, [1], &
                                      [0_MPI_ADDRESS_KIND], [MPI_INTEGER], MPI_COMM_WORLD, MPI_INFO_NULL, request, code)
    call check_class(code, MPI_ERR_TOPOLOGY, "neighbours without a topology")
    call check(request == MPI_REQUEST_NULL, "the handle after a refused call")
  end subroutine

  ! ---- By the MPI's names and by the module's

  subroutine run_once(request)
    type(MPI_Request), intent(inout) :: request
    call match(request)
    call run(request)
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

  ! Of an array of two dimensions.
  subroutine broadcast()
    integer(count_kind), parameter :: six = 6
    type(MPI_Request) :: request
    double precision, asynchronous :: matrix(3, 2)
    integer :: i
    if (by_own) then
      call own_Bcast_init(matrix, six, MPI_DOUBLE_PRECISION, ranks - 1, MPI_COMM_WORLD, MPI_INFO_NULL, request)
    else
      call MPIX_Bcast_init(matrix, 6, MPI_DOUBLE_PRECISION, ranks - 1, MPI_COMM_WORLD, MPI_INFO_NULL, request)
    end if
    matrix = -1
    if (rank == ranks - 1) matrix = reshape([(dble(i), i = 1, 6)], [3, 2])
    call run_once(request)
    call check(all(nint(matrix) == reshape([(i, i = 1, 6)], [3, 2])), "a broadcast")
  end subroutine

  ! Also in place.
  subroutine reduce()
    type(MPI_Request) :: requests(2)
    integer, asynchronous :: own, most, sum
    if (by_own) then
      call own_Allreduce_init(own, most, one, MPI_INTEGER, MPI_MAX, MPI_COMM_WORLD, MPI_INFO_NULL, requests(1))
      call own_Allreduce_init(MPI_IN_PLACE, sum, one, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, requests(2))
    else
      call MPIX_Allreduce_init(own, most, 1, MPI_INTEGER, MPI_MAX, MPI_COMM_WORLD, MPI_INFO_NULL, requests(1))
      call MPIX_Allreduce_init(MPI_IN_PLACE, sum, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, requests(2))
    end if
    own = rank
    sum = rank
    call run_once(requests(1))
    call run_once(requests(2))
    call check(most == ranks - 1, "an allreduce")
    call check(sum == ranks * (ranks - 1) / 2, "an allreduce in place")
  end subroutine

  ! Also in place.
  subroutine gather()
    type(MPI_Request) :: requests(2)
    character, asynchronous :: own, letters(ranks)
    integer, asynchronous :: all_of(0:ranks - 1)
    integer :: i
    if (by_own) then
      call own_Allgather_init(own, one, MPI_CHARACTER, letters, one, MPI_CHARACTER, MPI_COMM_WORLD, MPI_INFO_NULL, &
                              requests(1))
      call own_Allgather_init(MPI_IN_PLACE, one, MPI_INTEGER, all_of, one, MPI_INTEGER, MPI_COMM_WORLD, &
                              MPI_INFO_NULL, requests(2))
    else
      call MPIX_Allgather_init(own, 1, MPI_CHARACTER, letters, 1, MPI_CHARACTER, MPI_COMM_WORLD, MPI_INFO_NULL, &
                               requests(1))
      call MPIX_Allgather_init(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, all_of, 1, MPI_INTEGER, MPI_COMM_WORLD, &
                               MPI_INFO_NULL, requests(2))
    end if
    own = achar(iachar("a") + rank)
    letters = "-"
    all_of = -1
    all_of(rank) = 10 * rank
    call run_once(requests(1))
    call run_once(requests(2))
    call check(all(letters == [(achar(iachar("a") + i), i = 0, ranks - 1)]), "an allgather")
    call check(all(all_of == [(10 * i, i = 0, ranks - 1)]), "an allgather in place")
  end subroutine

  ! Rank i contributes i+1 numbers. The last rank's come first.
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

  ! On a graph, because MPICH 4.0's routine fails with other topologies.
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

end program fortran_collectives
