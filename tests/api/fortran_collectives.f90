! Collectives of the module lanyard_f08: buffers of any type and rank, MPI's constants for buffers, and refusals. The
! others: fortran_collectives_own.f90.
program fortran_collectives
  use mpi_f08
  use lanyard_f08
  use fortran_checks
  implicit none

  integer, parameter :: rounds = 4
  type(MPIX_Host_stream) :: stream
  type(MPIX_Queue) :: queue

  call MPI_Init()
  call begin_checks()
  call MPIX_Host_stream_create(stream)
  call MPIX_Queue_init(queue, MPIX_QUEUE_HOST, stream)
  call barriers()
  call broadcasts()
  call absolute_broadcasts()
  call reductions()
  call gathers()
  call refusals()
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

  subroutine barriers()
    type(MPI_Request) :: request
    integer :: round, code
    call MPIX_Barrier_init(MPI_COMM_WORLD, MPI_INFO_NULL, request, code)
    call check_class(code, MPI_SUCCESS, "MPIX_Barrier_init")
    call match(request)
    do round = 1, rounds
      call run(request)
    end do
    call MPI_Request_free(request)
  end subroutine

  ! A scalar, and an array of two dimensions.
  subroutine broadcasts()
    type(MPI_Request) :: requests(2)
    real, asynchronous :: scalar
    double precision, asynchronous :: matrix(3, 2)
    integer :: round, i
    call MPIX_Bcast_init(scalar, 1, MPI_REAL, 0, MPI_COMM_WORLD, MPI_INFO_NULL, requests(1))
    call MPIX_Bcast_init(matrix, 6, MPI_DOUBLE_PRECISION, ranks - 1, MPI_COMM_WORLD, MPI_INFO_NULL, requests(2))
    call MPIX_Matchall(2, requests, MPI_STATUSES_IGNORE)
    do round = 1, rounds
      scalar = merge(real(round), -1.0, rank == 0)
      matrix = -1
      if (rank == ranks - 1) matrix = reshape([(dble(10 * round + i), i = 1, 6)], [3, 2])
      call MPIX_Enqueue_startall(queue, 2, requests)
      call MPIX_Enqueue_waitall(queue, 2, requests)
      call MPIX_Queue_wait(queue)
      call check(nint(scalar) == round, "a scalar that was broadcast")
      call check(all(nint(matrix) == reshape([(10 * round + i, i = 1, 6)], [3, 2])), "a matrix that was broadcast")
    end do
    call MPI_Request_free(requests(1))
    call MPI_Request_free(requests(2))
  end subroutine

  ! From MPI_BOTTOM addresses lead to the numbers.
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
    call check(one == 7 .and. other == 8, "what lies at absolute addresses")
    call MPI_Request_free(request)
  end subroutine

  subroutine reductions()
    type(MPI_Request) :: requests(2)
    integer, asynchronous :: own(3), total(3), in_place(3)
    integer :: round, i
    call MPIX_Allreduce_init(own, total, 3, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, requests(1))
    call MPIX_Allreduce_init(MPI_IN_PLACE, in_place, 3, MPI_INTEGER, MPI_MAX, MPI_COMM_WORLD, MPI_INFO_NULL, &
                             requests(2))
    call MPIX_Matchall(2, requests, MPI_STATUSES_IGNORE)
    do round = 1, rounds
      own = [(rank + i * round, i = 1, 3)]
      in_place = own
      total = -1
      call MPIX_Enqueue_startall(queue, 2, requests)
      call MPIX_Enqueue_waitall(queue, 2, requests)
      call MPIX_Queue_wait(queue)
      call check(all(total == [(ranks * (ranks - 1) / 2 + ranks * i * round, i = 1, 3)]), "a sum")
      call check(all(in_place == [(ranks - 1 + i * round, i = 1, 3)]), "a maximum in place")
    end do
    call MPI_Request_free(requests(1))
    call MPI_Request_free(requests(2))
  end subroutine

  subroutine gathers()
    type(MPI_Request) :: requests(2)
    character, asynchronous :: own, letters(ranks)
    integer, asynchronous :: in_place(2, 0:ranks - 1)
    integer :: round, of
    call MPIX_Allgather_init(own, 1, MPI_CHARACTER, letters, 1, MPI_CHARACTER, MPI_COMM_WORLD, MPI_INFO_NULL, &
                             requests(1))
    call MPIX_Allgather_init(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, in_place, 2, MPI_INTEGER, MPI_COMM_WORLD, &
                             MPI_INFO_NULL, requests(2))
    call MPIX_Matchall(2, requests, MPI_STATUSES_IGNORE)
    do round = 1, rounds
      own = achar(iachar("a") + rank + round)
      letters = "-"
      in_place = -1
      in_place(:, rank) = [rank, round]
      call MPIX_Enqueue_startall(queue, 2, requests)
      call MPIX_Enqueue_waitall(queue, 2, requests)
      call MPIX_Queue_wait(queue)
      call check(all(letters == [(achar(iachar("a") + of + round), of = 0, ranks - 1)]), "letters that were gathered")
      do of = 0, ranks - 1
        call check(all(in_place(:, of) == [of, round]), "numbers that were gathered in place")
      end do
    end do
    call MPI_Request_free(requests(1))
    call MPI_Request_free(requests(2))
  end subroutine

  subroutine refusals()
    type(MPI_Request) :: request
    integer, asynchronous :: numbers(8), more(8)
    integer :: code
    request = MPI_REQUEST_NULL
    call MPIX_Bcast_init(numbers(1:8:2), 4, MPI_INTEGER, 0, MPI_COMM_WORLD, MPI_INFO_NULL, request, code)
    call check_class(code, MPI_ERR_BUFFER, "a section that is broadcast")
    call MPIX_Allreduce_init(more, numbers(8:1:-1), 8, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, &
                             request, code)
    call check_class(code, MPI_ERR_BUFFER, "a section for the result")
    call MPIX_Bcast_init(numbers, -1, MPI_INTEGER, 0, MPI_COMM_WORLD, MPI_INFO_NULL, request, code)
    call check_class(code, MPI_ERR_COUNT, "a negative count")
    call MPIX_Neighbor_alltoallw_init(numbers, [1], [0_MPI_ADDRESS_KIND], [MPI_INTEGER], more, [1], &
                                      [0_MPI_ADDRESS_KIND], [MPI_INTEGER], MPI_COMM_WORLD, MPI_INFO_NULL, request, code)
    call check_class(code, MPI_ERR_TOPOLOGY, "neighbours without a topology")
    call check(request == MPI_REQUEST_NULL, "a refused call makes no request")
    call barriers()
  end subroutine

end program fortran_collectives
