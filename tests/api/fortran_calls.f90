! Every call of the module lanyard_f08, and MPI's calls on Lanyard's requests, through mpi_f08.
module kernels
  use, intrinsic :: iso_c_binding
  implicit none
contains
  subroutine add_one(argument) bind(C)
    type(c_ptr), value :: argument
    integer, pointer :: number
    call c_f_pointer(argument, number)
    number = number + 1
  end subroutine
end module kernels

program fortran_calls
  use, intrinsic :: iso_c_binding
  use mpi_f08
  use lanyard_f08
  use fortran_checks
  use kernels
  implicit none

  type(MPIX_Host_stream) :: stream
  type(MPIX_Queue) :: queue
  type(MPI_Request) :: pair(2)
  integer, asynchronous :: in, out

  call MPI_Init()
  call begin_checks()
  call streams()
  call queues()
  call errors()
  call matching()
  call match_requests()
  call plain_requests()
  call many_requests()
  call sections()
  call MPIX_Queue_free(queue)
  call check(queue == MPIX_QUEUE_NULL, "the handle of a freed queue")
  call MPIX_Host_stream_free(stream)
  call check(stream == MPIX_HOST_STREAM_NULL, "the handle of a freed stream")
  call end_checks()

contains

  subroutine streams()
    integer, target, asynchronous :: number
    integer :: code
    number = 0
    call check(stream == MPIX_HOST_STREAM_NULL, "the initial handle of a stream")
    call MPIX_Host_stream_create(stream, code)
    call check(code == MPI_SUCCESS .and. stream /= MPIX_HOST_STREAM_NULL, "MPIX_Host_stream_create")
    call MPIX_Host_stream_launch(stream, add_one, c_loc(number))
    call MPIX_Host_stream_launch(stream, add_one, c_loc(number), code)
    call check(code == MPI_SUCCESS, "MPIX_Host_stream_launch")
    call MPIX_Host_stream_synchronize(stream, code)
    call check(code == MPI_SUCCESS .and. number == 2, "MPIX_Host_stream_synchronize")
    call MPIX_Host_stream_launch(MPIX_HOST_STREAM_NULL, add_one, c_loc(number), code)
    call check_class(code, MPI_ERR_ARG, "a launch on a null stream")
  end subroutine

  subroutine queues()
    type(MPIX_Queue) :: second
    type(MPI_Info) :: info
    character(len=32) :: value
    logical :: flag
    integer :: code
    call check(queue == MPIX_QUEUE_NULL, "the initial handle of a queue")
    call MPIX_Queue_init(queue, MPIX_QUEUE_HOST, stream, code)
    call check(code == MPI_SUCCESS .and. queue /= MPIX_QUEUE_NULL, "MPIX_Queue_init")
    call MPIX_Queue_init(second, MPIX_QUEUE_HOST, stream, code)
    call check_class(code, MPIX_ERR_BUSY(), "a second queue of a stream")
    call check(second /= queue, "two queues")
    second = queue
    call MPIX_Queue_init(second, MPIX_QUEUE_HOST, stream, code)
    call check(code /= MPI_SUCCESS .and. second == queue, "the handle after a refused MPIX_Queue_init")
    call MPIX_Queue_init(second, MPIX_QUEUE_CUDA, c_null_ptr, code)
    call check_class(code, MPI_ERR_ARG, "a queue of a null stream")
    call MPIX_Queue_wait(queue, code)
    call check(code == MPI_SUCCESS, "MPIX_Queue_wait")
    call MPIX_Queue_wait(MPIX_QUEUE_NULL, code)
    call check_class(code, MPIX_ERR_QUEUE(), "a wait for a null queue")
    call MPIX_Queue_get_info(queue, info, code)
    call check(code == MPI_SUCCESS, "MPIX_Queue_get_info")
    call MPI_Info_get(info, "stream", len(value), value, flag)
    call check(flag .and. value == "host", "the queue's stream: " // value)
    call MPI_Info_free(info)
  end subroutine

  subroutine errors()
    integer :: kinds(6), of(6), i
    kinds = [MPIX_ERROR_QUEUE, MPIX_ERROR_BUSY, MPIX_ERROR_NO_ENTRIES, MPIX_ERROR_FAILED, MPIX_ERROR_STALLED, &
             MPIX_ERROR_NIC]
    of = [MPIX_ERR_QUEUE(), MPIX_ERR_BUSY(), MPIX_ERR_NO_ENTRIES(), MPIX_ERR_FAILED(), MPIX_ERR_STALLED(), &
          MPIX_ERR_NIC()]
    do i = 1, 6
      call check(MPIX_Error_class_of(kinds(i)) == of(i), "MPIX_Error_class_of")
      call check(count(of == of(i)) == 1 .and. of(i) > MPI_ERR_LASTCODE, "an error class of its own")
      call check_class(of(i), of(i), "the class of an error class")
    end do
  end subroutine

  ! pair: a receive from the partner and a send to it.
  subroutine make_pair()
    call MPI_Recv_init(in, 1, MPI_INTEGER, partner, 7, MPI_COMM_WORLD, pair(1))
    call MPI_Send_init(out, 1, MPI_INTEGER, partner, 7, MPI_COMM_WORLD, pair(2))
  end subroutine

  subroutine free_pair()
    integer :: i, code
    do i = 1, 2
      call MPI_Request_free(pair(i), code)
      call check(code == MPI_SUCCESS .and. pair(i) == MPI_REQUEST_NULL, "MPI_Request_free")
    end do
  end subroutine

  ! One message each way on the queue.
  subroutine exchange(what)
    character(len=*), intent(in) :: what
    integer, save :: turn = 0
    turn = turn + 1
    out = 100 * rank + turn
    in = -1
    call MPIX_Enqueue_startall(queue, 2, pair)
    call MPIX_Enqueue_waitall(queue, 2, pair)
    call MPIX_Queue_wait(queue)
    call check(in == 100 * partner + turn, what)
  end subroutine

  subroutine check_receive_status(status, what)
    type(MPI_Status), intent(in) :: status
    character(len=*), intent(in) :: what
    integer :: length
    call MPI_Get_count(status, MPI_INTEGER, length)
    call check(status%MPI_SOURCE == partner .and. status%MPI_TAG == 7 .and. length == 1, what)
  end subroutine

  ! Hints on the unmatched pair. At the end it has none.
  subroutine hints()
    type(MPI_Info) :: info
    character(len=64) :: value
    logical :: flag
    integer :: code
    call MPI_Info_create(info)
    call MPI_Info_set(info, "lanyard_exchange", "halo")
    call MPIX_Request_set_info(pair(1), info, code)
    call check(code == MPI_SUCCESS, "MPIX_Request_set_info")
    call MPIX_Request_set_info(MPI_REQUEST_NULL, info, code)
    call check_class(code, MPI_ERR_REQUEST, "MPIX_Request_set_info of a null request")
    call MPIX_Request_set_info(pair(1), MPI_INFO_NULL, code)
    call check_class(code, MPI_ERR_INFO, "MPIX_Request_set_info with a null info")
    call MPI_Info_set(info, "lanyard_exchange", "none")
    call MPIX_Request_set_info(pair(2), info)
    call MPI_Info_free(info)
    call MPIX_Request_get_info(pair(1), info, code)
    call check(code == MPI_SUCCESS, "MPIX_Request_get_info")
    call MPI_Info_get(info, "lanyard_exchange_why", len(value), value, flag)
    call check(flag .and. value == "the request has not been given to a matching function", "why: " // value)
    call MPIX_Request_set_info(pair(1), info)  ! says "none"
    call MPI_Info_free(info)
    call MPIX_Request_get_info(MPI_REQUEST_NULL, info, code)
    call check_class(code, MPI_ERR_REQUEST, "MPIX_Request_get_info of a null request")
  end subroutine

  subroutine matching()
    type(MPI_Request) :: match
    type(MPI_Status) :: statuses(2)
    type(MPI_Status) :: status
    logical :: flag
    integer :: code, i
    call make_pair()
    call hints()
    call MPIX_Is_matched(pair(1), flag, code)
    call check(code == MPI_SUCCESS .and. .not. flag, "MPIX_Is_matched before")
    flag = .true.
    call MPIX_Is_matched(MPI_REQUEST_NULL, flag, code)
    call check_class(code, MPI_ERR_REQUEST, "MPIX_Is_matched of a null request")
    call check(flag, "the flag after a failed MPIX_Is_matched")
    call MPIX_Enqueue_start(queue, pair(1), code)
    call check_class(code, MPI_ERR_REQUEST, "a start of a request that is not matched")
    call MPIX_Enqueue_startall(queue, 2, pair, code)
    call check_class(code, MPI_ERR_REQUEST, "starts of requests that are not matched")
    call MPIX_Matchall(2, pair, statuses, code)
    call check(code == MPI_SUCCESS, "MPIX_Matchall")
    call check_receive_status(statuses(1), "a status of MPIX_Matchall")
    call MPIX_Is_matched(pair(1), flag)
    call check(flag, "MPIX_Is_matched")
    call MPIX_Matchall(2, pair, statuses, code)
    call check_class(code, MPI_ERR_REQUEST, "a second match")

    call MPI_Start(pair(1), code)
    call check_class(code, MPI_ERR_REQUEST, "MPI_Start of a matched request")
    call MPI_Startall(2, pair, code)
    call check_class(code, MPI_ERR_REQUEST, "MPI_Startall of matched requests")
    call exchange("an exchange")
    call MPIX_Enqueue_start(queue, pair(1), code)
    call check(code == MPI_SUCCESS, "MPIX_Enqueue_start")
    call MPI_Wait(pair(1), MPI_STATUS_IGNORE, code)
    call check_class(code, MPI_ERR_REQUEST, "MPI_Wait for an enqueued request")
    call MPI_Test(pair(1), flag, status, code)
    call check_class(code, MPI_ERR_REQUEST, "MPI_Test of an enqueued request")
    call MPI_Request_free(pair(1), code)
    call check_class(code, MPI_ERR_REQUEST, "MPI_Request_free of an enqueued request")
    call check(pair(1) /= MPI_REQUEST_NULL, "the handle after a refused MPI_Request_free")
    call MPIX_Enqueue_start(queue, pair(2))
    do i = 1, 2
      call MPIX_Enqueue_wait(queue, pair(i), code)
      call check(code == MPI_SUCCESS, "MPIX_Enqueue_wait")
    end do
    call MPIX_Enqueue_wait(queue, pair(1), code)
    call check_class(code, MPI_ERR_REQUEST, "a second wait")
    call MPIX_Queue_wait(queue)
    call MPI_Wait(pair(1), status, code)  ! the request is inactive
    call check(code == MPI_SUCCESS .and. status%MPI_SOURCE == MPI_ANY_SOURCE, "MPI_Wait for an inactive request")
    call MPI_Request_get_status(pair(2), flag, MPI_STATUS_IGNORE, code)
    call check(code == MPI_SUCCESS .and. flag, "MPI_Request_get_status of an inactive request")
    call free_pair()

    call make_pair()
    if (rank < partner) then
      call MPIX_Match(pair(2), MPI_STATUS_IGNORE, code)
      call check(code == MPI_SUCCESS, "MPIX_Match of a send")
    end if
    call MPIX_Match(pair(1), status, code)
    call check(code == MPI_SUCCESS, "MPIX_Match of a receive")
    call check_receive_status(status, "the status of MPIX_Match")
    if (rank > partner) call MPIX_Match(pair(2), MPI_STATUS_IGNORE)
    call exchange("after MPIX_Match")
    call free_pair()

    call make_pair()
    call MPIX_Imatch(pair(2), match)
    call MPIX_Match(pair(1), MPI_STATUS_IGNORE)
    call check(MPI_STATUS_IGNORE%MPI_TAG /= 7, "MPI_STATUS_IGNORE was written")
    call MPI_Wait(match, MPI_STATUS_IGNORE)
    call free_pair()
  end subroutine

  ! The match requests of MPIX_Imatch, in each call that completes requests.
  subroutine match_requests()
    integer, parameter :: calls = 10
    type(MPI_Request) :: matches(2)
    type(MPI_Status) :: statuses(2)
    logical :: flag
    integer :: which, code, index, done, indices(2), total, i
    do which = 1, calls
      call make_pair()
      if (which == calls) then
        matches(2) = MPI_REQUEST_NULL
        call MPIX_Imatchall(2, pair, matches(1), code)
        call check(code == MPI_SUCCESS, "MPIX_Imatchall")
      else
        do i = 1, 2
          call MPIX_Imatch(pair(i), matches(i), code)
          call check(code == MPI_SUCCESS .and. matches(i) /= MPI_REQUEST_NULL, "MPIX_Imatch")
        end do
      end if
      total = 0
      flag = .false.
      select case (which)
      case (1)
        call MPI_Cancel(matches(1), code)
        call check_class(code, MPI_ERR_REQUEST, "MPI_Cancel of a match request")
        call MPI_Wait(matches(1), statuses(1))
        call MPI_Wait(matches(2), MPI_STATUS_IGNORE)
      case (2)
        call MPI_Waitall(2, matches, statuses)
      case (3)
        call MPI_Waitall(2, matches, MPI_STATUSES_IGNORE)
      case (4)
        call MPI_Waitany(2, matches, index, statuses(1))
        call check(index == 1 .or. index == 2, "the index of MPI_Waitany")
        if (index == 1) call check_receive_status(statuses(1), "the status of MPI_Waitany")
        call MPI_Waitany(2, matches, done, MPI_STATUS_IGNORE)
        call check(done + index == 3, "the second index of MPI_Waitany")
        call MPI_Waitany(2, matches, index, MPI_STATUS_IGNORE)
        call check(index == MPI_UNDEFINED, "MPI_Waitany without an active request")
      case (5)
        do while (total < 2)
          call MPI_Waitsome(2, matches, done, indices, MPI_STATUSES_IGNORE)
          call check(all(indices(:done) >= 1 .and. indices(:done) <= 2), "the indices of MPI_Waitsome")
          total = total + done
        end do
      case (6)
        do while (.not. flag)
          call MPI_Test(matches(1), flag, statuses(1))
        end do
        flag = .false.
        do while (.not. flag)
          call MPI_Test(matches(2), flag, MPI_STATUS_IGNORE)
        end do
      case (7)
        do while (.not. flag)
          call MPI_Testall(2, matches, flag, statuses)
        end do
      case (8)
        do while (total < 2)
          call MPI_Testany(2, matches, index, flag, MPI_STATUS_IGNORE)
          if (flag) then
            call check(index == 1 .or. index == 2, "the index of MPI_Testany")
            total = total + 1
          end if
        end do
      case (9)
        do while (total < 2)
          call MPI_Testsome(2, matches, done, indices, statuses)
          call check(all(indices(:done) >= 1 .and. indices(:done) <= 2), "the indices of MPI_Testsome")
          total = total + done
        end do
      case (calls)
        do while (.not. flag)
          call MPI_Request_get_status(matches(1), flag, MPI_STATUS_IGNORE)
        end do
        call MPIX_Is_matched(pair(1), flag)
        call check(flag, "MPIX_Is_matched of a match request's request")
        call MPI_Waitall(2, matches, MPI_STATUSES_IGNORE)
      end select
      call check(all([(matches(i) == MPI_REQUEST_NULL, i = 1, 2)]), "the handles of completed match requests")
      if (any(which == [1, 2, 6, 7])) call check_receive_status(statuses(1), "the status of a match request")
      call exchange("after a match request")
      call free_pair()
    end do
  end subroutine

  ! Requests that the MPI starts, and an inactive one of Lanyard's, in one call.
  subroutine plain_requests()
    type(MPI_Request) :: mixed(3)
    type(MPI_Status) :: statuses(3)
    integer, asynchronous :: plain_in, plain_out
    integer :: code
    call make_pair()
    call MPIX_Matchall(2, pair, MPI_STATUSES_IGNORE)
    call check(MPI_STATUSES_IGNORE(1)%MPI_TAG /= 7, "MPI_STATUSES_IGNORE was written")
    call MPI_Recv_init(plain_in, 1, MPI_INTEGER, partner, 8, MPI_COMM_WORLD, mixed(1))
    mixed(2) = pair(1)
    call MPI_Ssend_init(plain_out, 1, MPI_INTEGER, partner, 8, MPI_COMM_WORLD, mixed(3))
    plain_out = rank
    call MPI_Start(mixed(1))
    call MPI_Start(mixed(3))
    call MPI_Waitall(3, mixed, statuses, code)
    call check(code == MPI_SUCCESS .and. plain_in == partner, "MPI_Waitall with an inactive request among others")
    call check(statuses(1)%MPI_TAG == 8, "the status of a transfer without Lanyard")
    call check(mixed(2) == pair(1) .and. statuses(2)%MPI_SOURCE == MPI_ANY_SOURCE, "the inactive request")
    statuses(1)%MPI_ERROR = 4711
    call MPI_Wait(pair(1), statuses(1))
    call check(statuses(1)%MPI_ERROR == 4711, "MPI_Wait wrote the status's MPI_ERROR")
    call MPI_Request_free(mixed(1))
    call MPI_Request_free(mixed(3))
    call exchange("among others")
    call free_pair()
  end subroutine

  subroutine many_requests()
    integer, parameter :: each_way = 20
    type(MPI_Request) :: many(2 * each_way), before(2 * each_way)
    type(MPI_Status) :: statuses(2 * each_way)
    integer, asynchronous :: from(each_way), to(each_way)
    integer :: i, code
    do i = 1, each_way
      call MPI_Recv_init(to(i), 1, MPI_INTEGER, partner, i, MPI_COMM_WORLD, many(i))
      call MPI_Send_init(from(i), 1, MPI_INTEGER, partner, i, MPI_COMM_WORLD, many(each_way + i))
    end do
    before = many
    call MPIX_Matchall(2 * each_way, many, statuses)
    call check(all(statuses(:each_way)%MPI_TAG == [(i, i = 1, each_way)]), "the statuses of many requests")
    from = [(100 * rank + i, i = 1, each_way)]
    call MPIX_Enqueue_startall(queue, 2 * each_way, many)
    call MPI_Waitall(2 * each_way, many, statuses, code)
    call check_class(code, MPI_ERR_REQUEST, "MPI_Waitall for many enqueued requests")
    call MPIX_Enqueue_waitall(queue, 2 * each_way, many)
    call MPIX_Queue_wait(queue)
    call MPI_Waitall(2 * each_way, many, MPI_STATUSES_IGNORE, code)
    call check(code == MPI_SUCCESS .and. all(to == [(100 * partner + i, i = 1, each_way)]), "many transfers")
    call check(all(many%MPI_VAL == before%MPI_VAL), "the handles of many requests")
    do i = 1, 2 * each_way
      call MPI_Request_free(many(i))
    end do
  end subroutine

  ! Sections with gaps as buffers, by MPI and by a queue.
  subroutine sections()
    type(MPI_Request) :: some(2)
    integer, asynchronous :: from(8), to(8)
    integer :: i
    if (.not. MPI_SUBARRAYS_SUPPORTED) return
    from = [(10 * rank + i, i = 1, 8)]
    to = -1
    call MPI_Recv_init(to(2:8:2), 4, MPI_INTEGER, partner, 9, MPI_COMM_WORLD, some(1))
    call MPI_Send_init(from(1:7:2), 4, MPI_INTEGER, partner, 9, MPI_COMM_WORLD, some(2))
    call MPI_Startall(2, some)
    call MPI_Waitall(2, some, MPI_STATUSES_IGNORE)
    call check(all(to == [(merge(-1, 10 * partner + i - 1, mod(i, 2) == 1), i = 1, 8)]), "a section")
    call MPIX_Matchall(2, some, MPI_STATUSES_IGNORE)
    from = from + 100
    to = -1
    call MPIX_Enqueue_startall(queue, 2, some)
    call MPIX_Enqueue_waitall(queue, 2, some)
    call MPIX_Queue_wait(queue)
    call check(all(to == [(merge(-1, 100 + 10 * partner + i - 1, mod(i, 2) == 1), i = 1, 8)]), "a section by a queue")
    call MPI_Request_free(some(1))
    call MPI_Request_free(some(2))
  end subroutine

end program fortran_calls
