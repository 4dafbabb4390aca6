! Every constructor of communicators in mpi_f08: requests on the result match and carry data.
! BUILD.bazel uncomments the lines that begin with the MPI's name.
program fortran_communicators
  use mpi_f08
  use lanyard_f08
  use fortran_checks
  implicit none

  type(MPIX_Host_stream) :: stream
  type(MPIX_Queue) :: queue
  type(MPI_Comm) :: made, two
  type(MPI_Group) :: group
  type(MPI_Request) :: request
  integer :: provided, i

  call MPI_Init_thread(MPI_THREAD_MULTIPLE, provided)
  call begin_checks()
  call MPIX_Host_stream_create(stream)
  call MPIX_Queue_init(queue, MPIX_QUEUE_HOST, stream)
  call MPI_Comm_group(MPI_COMM_WORLD, group)

  call use_and_free(MPI_COMM_WORLD, "MPI_COMM_WORLD")
  call use_and_free(MPI_COMM_SELF, "MPI_COMM_SELF")
  ! Open MPI 4.1 sends the edges by tags (-50, -51) that its nonblocking collectives reach after
  ! some twenty communicators, and may then mistake one for the other. So this one comes early.
  call MPI_Dist_graph_create(MPI_COMM_WORLD, 1, [rank], [1], [modulo(rank + 1, ranks)], MPI_UNWEIGHTED, &
                             MPI_INFO_NULL, .false., made)
  call use_and_free(made, "MPI_Dist_graph_create")
  call MPI_Comm_dup(MPI_COMM_WORLD, made)
  call use_and_free(made, "MPI_Comm_dup")
  call MPI_Comm_dup_with_info(MPI_COMM_WORLD, MPI_INFO_NULL, made)
  call use_and_free(made, "MPI_Comm_dup_with_info")
  call MPI_Comm_idup(MPI_COMM_WORLD, made, request)
  call MPI_Wait(request, MPI_STATUS_IGNORE)
  call use_and_free(made, "MPI_Comm_idup")
!mpich   call MPI_Comm_idup_with_info(MPI_COMM_WORLD, MPI_INFO_NULL, made, request)
!mpich   call MPI_Wait(request, MPI_STATUS_IGNORE)
!mpich   call use_and_free(made, "MPI_Comm_idup_with_info")
  call MPI_Comm_create(MPI_COMM_WORLD, group, made)
  call use_and_free(made, "MPI_Comm_create")
  call MPI_Comm_create_group(MPI_COMM_WORLD, group, 5, made)
  call use_and_free(made, "MPI_Comm_create_group")
  call MPI_Comm_split(MPI_COMM_WORLD, rank / 2, -rank, made)
  call use_and_free(made, "MPI_Comm_split")
  call MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, made)
  call use_and_free(made, "MPI_Comm_split_type")
  call MPI_Cart_create(MPI_COMM_WORLD, 2, [2, ranks / 2], [.true., .false.], .false., two)
  call MPI_Cart_sub(two, [.true., .false.], made)
  call use_and_free(made, "MPI_Cart_sub")
  call use_and_free(two, "MPI_Cart_create")
  call MPI_Graph_create(MPI_COMM_WORLD, ranks, [(i, i = 1, ranks)], [(modulo(i, ranks), i = 1, ranks)], .false., made)
  call use_and_free(made, "MPI_Graph_create")
  call MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, [modulo(rank - 1, ranks)], [2], 1, &
                                      [modulo(rank + 1, ranks)], [3], MPI_INFO_NULL, .false., made)
  call use_and_free(made, "MPI_Dist_graph_create_adjacent")
  call MPI_Comm_dup(MPI_COMM_WORLD, made)
  call MPI_Comm_disconnect(made)
  call check(made == MPI_COMM_NULL, "MPI_Comm_disconnect")
  call MPI_Comm_dup(MPI_COMM_WORLD, made)
  call use_and_free(made, "MPI_Comm_dup after MPI_Comm_disconnect")

  call requests_outlive()
  call MPI_Group_free(group)
  call MPIX_Queue_free(queue)
  call MPIX_Host_stream_free(stream)
  call end_checks()

contains

  ! Sends around the ring of the members, with each kind of send.
  subroutine use_and_free(communicator, what)
    type(MPI_Comm), intent(in) :: communicator
    character(len=*), intent(in) :: what
    type(MPI_Comm) :: handle
    type(MPI_Request) :: pairs(6)
    integer, asynchronous :: in(3), out(3)
    integer :: me, members, left, right, kind, code
    call MPI_Comm_rank(communicator, me)
    call MPI_Comm_size(communicator, members)
    left = modulo(me - 1, members)
    right = modulo(me + 1, members)
    do kind = 1, 3
      call MPI_Recv_init(in(kind), 1, MPI_INTEGER, left, kind, communicator, pairs(kind))
    end do
    call MPI_Send_init(out(1), 1, MPI_INTEGER, right, 1, communicator, pairs(4))
    call MPI_Ssend_init(out(2), 1, MPI_INTEGER, right, 2, communicator, pairs(5))
    call MPI_Rsend_init(out(3), 1, MPI_INTEGER, right, 3, communicator, pairs(6))
    out = [(10 * me + kind, kind = 1, 3)]
    in = -1
    call MPIX_Matchall(6, pairs, MPI_STATUSES_IGNORE, code)
    call check(code == MPI_SUCCESS, "matching on " // what)
    call MPIX_Enqueue_startall(queue, 3, pairs)
    call MPIX_Host_stream_synchronize(stream)
    call MPI_Barrier(communicator)  ! the ready send's receive has started
    call MPIX_Enqueue_startall(queue, 3, pairs(4:6))
    call MPIX_Enqueue_waitall(queue, 6, pairs)
    call MPIX_Queue_wait(queue, code)
    call check(code == MPI_SUCCESS .and. all(in == [(10 * left + kind, kind = 1, 3)]), "data on " // what)
    do kind = 1, 6
      call MPI_Request_free(pairs(kind))
    end do
    call MPI_Bsend_init(out(1), 1, MPI_INTEGER, right, 4, communicator, pairs(1))
    call MPI_Comm_set_errhandler(communicator, MPI_ERRORS_RETURN)
    call MPIX_Match(pairs(1), MPI_STATUS_IGNORE, code)
    call check_class(code, MPI_ERR_UNSUPPORTED_OPERATION, "a buffered send on " // what)
    call MPI_Request_free(pairs(1))
    if (communicator == MPI_COMM_WORLD .or. communicator == MPI_COMM_SELF) return
    handle = communicator
    call MPI_Comm_free(handle, code)
    call check(code == MPI_SUCCESS .and. handle == MPI_COMM_NULL, "MPI_Comm_free after " // what)
  end subroutine

  ! When a request's communicator is freed, its errors go to MPI_COMM_WORLD. The communicator's own
  ! handler would end the job.
  subroutine requests_outlive()
    type(MPI_Comm) :: freed
    type(MPI_Request) :: outlives
    integer, asynchronous :: in
    integer :: code
    call MPI_Comm_dup(MPI_COMM_WORLD, freed)
    call MPI_Comm_set_errhandler(freed, MPI_ERRORS_ARE_FATAL)
    call MPI_Recv_init(in, 1, MPI_INTEGER, 0, 1, freed, outlives)
    call MPI_Comm_free(freed)
    call MPIX_Enqueue_start(queue, outlives, code)
    call check_class(code, MPI_ERR_REQUEST, "an error on a freed communicator")
    call MPI_Request_free(outlives)
  end subroutine

end program fortran_communicators
