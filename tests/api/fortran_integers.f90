! A program with `use mpi`, whose handles are integers: it passes requests to the module lanyard_f08
! as mpi_f08's type.
program fortran_integers
  use mpi
  use mpi_f08, only: request_f08 => MPI_Request, status_f08 => MPI_Status
  use lanyard_f08
  use fortran_checks, only: begin_checks, check, check_class, end_checks, partner, rank, ranks
  implicit none

  type(MPIX_Host_stream) :: stream
  type(MPIX_Queue) :: queue
  type(request_f08) :: both(2), match
  type(status_f08) :: matched
  integer, asynchronous :: in, out
  integer :: line, requests(2), status(MPI_STATUS_SIZE), step, code, index, matches(1)
  logical :: flag

  call MPI_Init(code)
  call begin_checks()
  call MPIX_Host_stream_create(stream)
  call MPIX_Queue_init(queue, MPIX_QUEUE_HOST, stream)
  call MPI_Cart_create(MPI_COMM_WORLD, 1, [ranks], [.false.], .false., line, code)
  call MPI_Comm_set_errhandler(line, MPI_ERRORS_RETURN, code)
  call MPI_Recv_init(in, 1, MPI_INTEGER, partner, 3, line, requests(1), code)
  call MPI_Send_init(out, 1, MPI_INTEGER, partner, 3, line, requests(2), code)

  ! By MPI alone first.
  do step = 1, 3
    out = 10 * rank + step
    call MPI_Startall(2, requests, code)
    call MPI_Waitany(2, requests, index, status, code)
    call check(code == MPI_SUCCESS .and. (index == 1 .or. index == 2), "MPI_Waitany without Lanyard")
    call MPI_Waitall(2, requests, MPI_STATUSES_IGNORE, code)
    call check(in == 10 * partner + step, "a transfer without Lanyard")
  end do

  both%MPI_VAL = requests
  call MPIX_Imatchall(2, both, match)
  matches(1) = match%MPI_VAL
  flag = .false.
  do while (.not. flag)
    call MPI_Testany(1, matches, index, flag, status, code)
  end do
  call check(index == 1 .and. matches(1) == MPI_REQUEST_NULL, "MPI_Testany of a match request")
  call MPI_Start(requests(1), code)
  call check_class(code, MPI_ERR_REQUEST, "MPI_Start of a matched request")
  do step = 1, 3
    out = 20 * rank + step
    call MPIX_Enqueue_startall(queue, 2, both)
    call MPIX_Enqueue_waitall(queue, 2, both)
    call MPIX_Queue_wait(queue)
    call check(in == 20 * partner + step, "a transfer")
  end do
  call MPIX_Enqueue_startall(queue, 2, both)
  call MPI_Waitall(2, requests, MPI_STATUSES_IGNORE, code)
  call check_class(code, MPI_ERR_REQUEST, "MPI_Waitall for enqueued requests")
  call MPIX_Enqueue_waitall(queue, 2, both)
  call MPIX_Queue_wait(queue)
  call MPI_Test(requests(1), flag, MPI_STATUS_IGNORE, code)
  call check(flag .and. code == MPI_SUCCESS, "MPI_Test of an inactive request")
  do step = 1, 2
    call MPI_Request_free(requests(step), code)
    call check(code == MPI_SUCCESS .and. requests(step) == MPI_REQUEST_NULL, "MPI_Request_free")
  end do

  ! A match with a status: a receive from any rank.
  call MPI_Recv_init(in, 1, MPI_INTEGER, MPI_ANY_SOURCE, MPI_ANY_TAG, line, requests(1), code)
  call MPI_Send_init(out, 1, MPI_INTEGER, partner, 4, line, requests(2), code)
  both%MPI_VAL = requests
  call MPIX_Imatch(both(2), match)
  call MPIX_Match(both(1), matched)
  call check(matched%MPI_SOURCE == partner .and. matched%MPI_TAG == 4, "the status of MPIX_Match")
  matches(1) = match%MPI_VAL
  call MPI_Wait(matches(1), status, code)
  call check(code == MPI_SUCCESS .and. status(MPI_SOURCE) == MPI_ANY_SOURCE, "the status of a match request")
  do step = 1, 2
    call MPI_Request_free(requests(step), code)
  end do
  call MPI_Comm_free(line, code)
  call check(line == MPI_COMM_NULL, "MPI_Comm_free")
  call MPIX_Queue_free(queue)
  call MPIX_Host_stream_free(stream)
  call end_checks()
end program fortran_integers
