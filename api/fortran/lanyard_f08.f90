! Lanyard for Fortran 2008 with TS 29113: the calls of lanyard.h with the types of mpi_f08. See
! lanyard.h for what each call does, blocks on and may fail with. One source for every MPI: compile
! it with the mpifort that compiles the program.
!
! Programs use the module lanyard_f08, the last one in this file. It has each name twice,
! with Lanyard_ and with MPIX_. If another module has the MPIX_ names, import the
! Lanyard_ names by `only:`.
!
! Arguments have the same names as in C. The last argument of each subroutine is `ierror`, optional
! as in mpi_f08. Results (a handle, a flag) are intent(inout), where mpi_f08 has intent(out): a call
! that fails must change nothing, and intent(out) would already make a handle null.
!
! The compiler does not see that a queue reads and writes buffers. So give a buffer of a persistent
! request the attribute ASYNCHRONOUS or VOLATILE, or make it a module variable or a target, while a
! queue may start the request. A program with integer requests, by `use mpi` or mpif.h, passes
! variables of the type of mpi_f08 whose component MPI_VAL is the integer.
!
! Buffers of collectives must be contiguous (else MPI_ERR_BUFFER), or MPI_IN_PLACE or
! MPI_BOTTOM of mpi_f08.
module lanyard_f08_own
  use, intrinsic :: iso_c_binding, only: c_int, c_loc, c_null_ptr, c_associated, c_ptr
  use mpi_f08, only: MPI_ADDRESS_KIND, MPI_BOTTOM, MPI_Comm, MPI_Datatype, MPI_IN_PLACE, MPI_Info, MPI_Op, &
                     MPI_Request, MPI_Status, MPI_SUCCESS
  implicit none

  type, bind(C) :: Lanyard_Host_stream
    type(c_ptr) :: handle = c_null_ptr
  end type
  type, bind(C) :: Lanyard_Queue
    type(c_ptr) :: handle = c_null_ptr
  end type
  type(Lanyard_Host_stream), parameter :: LANYARD_HOST_STREAM_NULL = Lanyard_Host_stream(c_null_ptr)
  type(Lanyard_Queue), parameter :: LANYARD_QUEUE_NULL = Lanyard_Queue(c_null_ptr)

  integer, parameter :: LANYARD_QUEUE_HOST = 1  ! on a Lanyard_Host_stream
  integer, parameter :: LANYARD_QUEUE_CUDA = 2  ! on the address of a cudaStream_t
  integer, parameter :: LANYARD_QUEUE_HIP = 3   ! on the address of a hipStream_t

  ! Arguments of Lanyard_Error_class_of. LANYARD_ERR_QUEUE() and its like are shorter.
  integer, parameter :: LANYARD_ERROR_QUEUE = 0
  integer, parameter :: LANYARD_ERROR_BUSY = 1
  integer, parameter :: LANYARD_ERROR_NO_ENTRIES = 2
  integer, parameter :: LANYARD_ERROR_FAILED = 3
  integer, parameter :: LANYARD_ERROR_STALLED = 4
  integer, parameter :: LANYARD_ERROR_NIC = 5

  interface operator(==)
    module procedure same_stream, same_queue
  end interface
  interface operator(/=)
    module procedure other_stream, other_queue
  end interface

  abstract interface
    subroutine Lanyard_Host_kernel(argument) bind(C)
      import :: c_ptr
      type(c_ptr), value :: argument
    end subroutine
    integer(c_int) function error_class() bind(C)
      import :: c_int
    end function
    type(c_ptr) function constant() bind(C)
      import :: c_ptr
    end function
  end interface

  ! The subroutines of C (lanyard_f08.c) for which Fortran needs no code of its own.

  interface Lanyard_Queue_init
    subroutine queue_init_host(queue, type, stream, ierror) bind(C, name="lanyard_f_queue_init")
      import :: Lanyard_Host_stream, Lanyard_Queue
      type(Lanyard_Queue), intent(inout) :: queue
      integer, intent(in) :: type
      type(Lanyard_Host_stream), intent(in) :: stream
      integer, optional, intent(out) :: ierror
    end subroutine
    subroutine queue_init_device(queue, type, stream_address, ierror) bind(C, name="lanyard_f_queue_init_device")
      import :: c_ptr, Lanyard_Queue
      type(Lanyard_Queue), intent(inout) :: queue
      integer, intent(in) :: type
      type(c_ptr), intent(in) :: stream_address
      integer, optional, intent(out) :: ierror
    end subroutine
  end interface

  interface
    subroutine Lanyard_Host_stream_create(stream, ierror) bind(C, name="lanyard_f_host_stream_create")
      import :: Lanyard_Host_stream
      type(Lanyard_Host_stream), intent(inout) :: stream
      integer, optional, intent(out) :: ierror
    end subroutine
    subroutine Lanyard_Host_stream_launch(stream, kernel, argument, ierror) &
        bind(C, name="lanyard_f_host_stream_launch")
      import :: c_ptr, Lanyard_Host_kernel, Lanyard_Host_stream
      type(Lanyard_Host_stream), intent(in) :: stream
      procedure(Lanyard_Host_kernel) :: kernel
      type(c_ptr), intent(in) :: argument
      integer, optional, intent(out) :: ierror
    end subroutine
    subroutine Lanyard_Host_stream_synchronize(stream, ierror) bind(C, name="lanyard_f_host_stream_synchronize")
      import :: Lanyard_Host_stream
      type(Lanyard_Host_stream), intent(in) :: stream
      integer, optional, intent(out) :: ierror
    end subroutine

    subroutine Lanyard_Queue_free(queue, ierror) bind(C, name="lanyard_f_queue_free")
      import :: Lanyard_Queue
      type(Lanyard_Queue), intent(inout) :: queue
      integer, optional, intent(out) :: ierror
    end subroutine
    subroutine Lanyard_Queue_wait(queue, ierror) bind(C, name="lanyard_f_queue_wait")
      import :: Lanyard_Queue
      type(Lanyard_Queue), intent(in) :: queue
      integer, optional, intent(out) :: ierror
    end subroutine
    subroutine Lanyard_Queue_get_info(queue, info, ierror) bind(C, name="lanyard_f_queue_get_info")
      import :: Lanyard_Queue, MPI_Info
      type(Lanyard_Queue), intent(in) :: queue
      type(MPI_Info), intent(inout) :: info
      integer, optional, intent(out) :: ierror
    end subroutine

    subroutine Lanyard_Request_set_info(request, info, ierror) bind(C, name="lanyard_f_request_set_info")
      import :: MPI_Info, MPI_Request
      type(MPI_Request), intent(in) :: request
      type(MPI_Info), intent(in) :: info
      integer, optional, intent(out) :: ierror
    end subroutine
    subroutine Lanyard_Request_get_info(request, info, ierror) bind(C, name="lanyard_f_request_get_info")
      import :: MPI_Info, MPI_Request
      type(MPI_Request), intent(in) :: request
      type(MPI_Info), intent(inout) :: info
      integer, optional, intent(out) :: ierror
    end subroutine

    ! Statuses have no intent: MPI_STATUS_IGNORE must not be written to.
    subroutine Lanyard_Match(request, status, ierror) bind(C, name="lanyard_f_match")
      import :: MPI_Request, MPI_Status
      type(MPI_Request), intent(inout) :: request
      type(MPI_Status) :: status
      integer, optional, intent(out) :: ierror
    end subroutine
    subroutine Lanyard_Matchall(count, requests, statuses, ierror) bind(C, name="lanyard_f_matchall")
      import :: MPI_Request, MPI_Status
      integer, intent(in) :: count
      type(MPI_Request), intent(inout) :: requests(count)
      type(MPI_Status) :: statuses(*)
      integer, optional, intent(out) :: ierror
    end subroutine
    subroutine Lanyard_Imatch(request, match_request, ierror) bind(C, name="lanyard_f_imatch")
      import :: MPI_Request
      type(MPI_Request), intent(inout) :: request
      type(MPI_Request), intent(inout) :: match_request
      integer, optional, intent(out) :: ierror
    end subroutine
    subroutine Lanyard_Imatchall(count, requests, match_request, ierror) bind(C, name="lanyard_f_imatchall")
      import :: MPI_Request
      integer, intent(in) :: count
      type(MPI_Request), intent(inout) :: requests(count)
      type(MPI_Request), intent(inout) :: match_request
      integer, optional, intent(out) :: ierror
    end subroutine
    subroutine f_is_matched(request, flag, code) bind(C, name="lanyard_f_is_matched")
      import :: c_int, MPI_Request
      type(MPI_Request), intent(in) :: request
      integer(c_int), intent(inout) :: flag
      integer, intent(out) :: code
    end subroutine

    subroutine Lanyard_Enqueue_start(queue, request, ierror) bind(C, name="lanyard_f_enqueue_start")
      import :: Lanyard_Queue, MPI_Request
      type(Lanyard_Queue), intent(in) :: queue
      type(MPI_Request), intent(inout) :: request
      integer, optional, intent(out) :: ierror
    end subroutine
    subroutine Lanyard_Enqueue_startall(queue, count, requests, ierror) bind(C, name="lanyard_f_enqueue_startall")
      import :: Lanyard_Queue, MPI_Request
      type(Lanyard_Queue), intent(in) :: queue
      integer, intent(in) :: count
      type(MPI_Request), intent(inout) :: requests(count)
      integer, optional, intent(out) :: ierror
    end subroutine

    integer(c_int) function Lanyard_Error_class_of(kind) bind(C, name="Lanyard_Error_class_of")
      import :: c_int
      integer(c_int), value :: kind
    end function

    subroutine Lanyard_Barrier_init(comm, info, request, ierror) bind(C, name="lanyard_f_barrier_init")
      import :: MPI_Comm, MPI_Info, MPI_Request
      type(MPI_Comm), intent(in) :: comm
      type(MPI_Info), intent(in) :: info
      type(MPI_Request), intent(inout) :: request
      integer, optional, intent(out) :: ierror
    end subroutine
  end interface

  procedure(error_class), bind(C, name="lanyard_f_err_queue") :: LANYARD_ERR_QUEUE
  procedure(error_class), bind(C, name="lanyard_f_err_busy") :: LANYARD_ERR_BUSY
  procedure(error_class), bind(C, name="lanyard_f_err_no_entries") :: LANYARD_ERR_NO_ENTRIES
  procedure(error_class), bind(C, name="lanyard_f_err_failed") :: LANYARD_ERR_FAILED
  procedure(error_class), bind(C, name="lanyard_f_err_stalled") :: LANYARD_ERR_STALLED
  procedure(error_class), bind(C, name="lanyard_f_err_nic") :: LANYARD_ERR_NIC
  procedure(Lanyard_Host_stream_create), bind(C, name="lanyard_f_host_stream_free") :: Lanyard_Host_stream_free
  procedure(Lanyard_Enqueue_start), bind(C, name="lanyard_f_enqueue_wait") :: Lanyard_Enqueue_wait
  procedure(Lanyard_Enqueue_startall), bind(C, name="lanyard_f_enqueue_waitall") :: Lanyard_Enqueue_waitall

  ! Collectives with the addresses of their buffers.
  procedure(constant), bind(C, name="lanyard_f_in_place") :: c_in_place
  procedure(constant), bind(C, name="lanyard_f_bottom") :: c_bottom
  procedure(constant), bind(C, name="lanyard_f_section") :: c_section
  interface
    subroutine f_bcast_init(buffer, count, datatype, root, comm, info, request, ierror) &
        bind(C, name="lanyard_f_bcast_init")
      import :: c_ptr, MPI_Comm, MPI_Datatype, MPI_Info, MPI_Request
      type(c_ptr), value :: buffer
      integer, intent(in) :: count, root
      type(MPI_Datatype), intent(in) :: datatype
      type(MPI_Comm), intent(in) :: comm
      type(MPI_Info), intent(in) :: info
      type(MPI_Request), intent(inout) :: request
      integer, optional, intent(out) :: ierror
    end subroutine
    subroutine f_allreduce_init(sendbuf, recvbuf, count, datatype, op, comm, info, request, ierror) &
        bind(C, name="lanyard_f_allreduce_init")
      import :: c_ptr, MPI_Comm, MPI_Datatype, MPI_Info, MPI_Op, MPI_Request
      type(c_ptr), value :: sendbuf, recvbuf
      integer, intent(in) :: count
      type(MPI_Datatype), intent(in) :: datatype
      type(MPI_Op), intent(in) :: op
      type(MPI_Comm), intent(in) :: comm
      type(MPI_Info), intent(in) :: info
      type(MPI_Request), intent(inout) :: request
      integer, optional, intent(out) :: ierror
    end subroutine
    subroutine f_allgather_init(sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, comm, info, request, &
                                ierror) bind(C, name="lanyard_f_allgather_init")
      import :: c_ptr, MPI_Comm, MPI_Datatype, MPI_Info, MPI_Request
      type(c_ptr), value :: sendbuf, recvbuf
      integer, intent(in) :: sendcount, recvcount
      type(MPI_Datatype), intent(in) :: sendtype, recvtype
      type(MPI_Comm), intent(in) :: comm
      type(MPI_Info), intent(in) :: info
      type(MPI_Request), intent(inout) :: request
      integer, optional, intent(out) :: ierror
    end subroutine
    subroutine f_allgatherv_init(sendbuf, sendcount, sendtype, recvbuf, recvcounts, displs, recvtype, comm, info, &
                                 request, ierror) bind(C, name="lanyard_f_allgatherv_init")
      import :: c_ptr, MPI_Comm, MPI_Datatype, MPI_Info, MPI_Request
      type(c_ptr), value :: sendbuf, recvbuf
      integer, intent(in) :: sendcount, recvcounts(*), displs(*)
      type(MPI_Datatype), intent(in) :: sendtype, recvtype
      type(MPI_Comm), intent(in) :: comm
      type(MPI_Info), intent(in) :: info
      type(MPI_Request), intent(inout) :: request
      integer, optional, intent(out) :: ierror
    end subroutine
    subroutine f_neighbor_alltoallv_init(sendbuf, sendcounts, sdispls, sendtype, recvbuf, recvcounts, rdispls, &
                                         recvtype, comm, info, request, ierror) &
        bind(C, name="lanyard_f_neighbor_alltoallv_init")
      import :: c_ptr, MPI_Comm, MPI_Datatype, MPI_Info, MPI_Request
      type(c_ptr), value :: sendbuf, recvbuf
      integer, intent(in) :: sendcounts(*), sdispls(*), recvcounts(*), rdispls(*)
      type(MPI_Datatype), intent(in) :: sendtype, recvtype
      type(MPI_Comm), intent(in) :: comm
      type(MPI_Info), intent(in) :: info
      type(MPI_Request), intent(inout) :: request
      integer, optional, intent(out) :: ierror
    end subroutine
    subroutine f_neighbor_alltoallw_init(sendbuf, sendcounts, sdispls, sendtypes, recvbuf, recvcounts, rdispls, &
                                         recvtypes, comm, info, request, ierror) &
        bind(C, name="lanyard_f_neighbor_alltoallw_init")
      import :: c_ptr, MPI_ADDRESS_KIND, MPI_Comm, MPI_Datatype, MPI_Info, MPI_Request
      type(c_ptr), value :: sendbuf, recvbuf
      integer, intent(in) :: sendcounts(*), recvcounts(*)
      integer(MPI_ADDRESS_KIND), intent(in) :: sdispls(*), rdispls(*)
      type(MPI_Datatype), intent(in) :: sendtypes(*), recvtypes(*)
      type(MPI_Comm), intent(in) :: comm
      type(MPI_Info), intent(in) :: info
      type(MPI_Request), intent(inout) :: request
      integer, optional, intent(out) :: ierror
    end subroutine
  end interface
  procedure(f_allgather_init), bind(C, name="lanyard_f_neighbor_alltoall_init") :: f_neighbor_alltoall_init

contains

  pure logical function same_stream(a, b)
    type(Lanyard_Host_stream), intent(in) :: a, b
    same_stream = is_same(a%handle, b%handle)
  end function

  pure logical function other_stream(a, b)
    type(Lanyard_Host_stream), intent(in) :: a, b
    other_stream = .not. is_same(a%handle, b%handle)
  end function

  pure logical function same_queue(a, b)
    type(Lanyard_Queue), intent(in) :: a, b
    same_queue = is_same(a%handle, b%handle)
  end function

  pure logical function other_queue(a, b)
    type(Lanyard_Queue), intent(in) :: a, b
    other_queue = .not. is_same(a%handle, b%handle)
  end function

  ! True also for two null addresses, unlike c_associated.
  pure logical function is_same(a, b)
    type(c_ptr), intent(in) :: a, b
    if (c_associated(a)) then
      is_same = c_associated(a, b)
    else
      is_same = .not. c_associated(b)
    end if
  end function

  ! The address of the buffer for C; MPI_IN_PLACE and MPI_BOTTOM become C's constants. A buffer with
  ! gaps is refused.
  function address_of(buffer) result(address)
    type(*), dimension(..), target, intent(in), asynchronous :: buffer
    type(c_ptr) :: address
    address = place_of(buffer)
    if (.not. is_contiguous(buffer)) then
      address = c_section()
    else if (is_same(address, place_of(MPI_IN_PLACE))) then
      address = c_in_place()
    else if (is_same(address, place_of(MPI_BOTTOM))) then
      address = c_bottom()
    end if
  end function

  function place_of(buffer) result(place)
    type(*), dimension(..), target, intent(in), asynchronous :: buffer
    type(c_ptr) :: place
    place = c_loc(buffer)
  end function

  subroutine Lanyard_Bcast_init(buffer, count, datatype, root, comm, info, request, ierror)
    type(*), dimension(..), asynchronous :: buffer
    integer, intent(in) :: count, root
    type(MPI_Datatype), intent(in) :: datatype
    type(MPI_Comm), intent(in) :: comm
    type(MPI_Info), intent(in) :: info
    type(MPI_Request), intent(inout) :: request
    integer, optional, intent(out) :: ierror
    call f_bcast_init(address_of(buffer), count, datatype, root, comm, info, request, ierror)
  end subroutine

  subroutine Lanyard_Allreduce_init(sendbuf, recvbuf, count, datatype, op, comm, info, request, ierror)
    type(*), dimension(..), intent(in), asynchronous :: sendbuf
    type(*), dimension(..), asynchronous :: recvbuf
    integer, intent(in) :: count
    type(MPI_Datatype), intent(in) :: datatype
    type(MPI_Op), intent(in) :: op
    type(MPI_Comm), intent(in) :: comm
    type(MPI_Info), intent(in) :: info
    type(MPI_Request), intent(inout) :: request
    integer, optional, intent(out) :: ierror
    call f_allreduce_init(address_of(sendbuf), address_of(recvbuf), count, datatype, op, comm, info, request, ierror)
  end subroutine

  subroutine Lanyard_Allgather_init(sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, comm, &
      info, request, ierror)
    type(*), dimension(..), intent(in), asynchronous :: sendbuf
    integer, intent(in) :: sendcount, recvcount
    type(MPI_Datatype), intent(in) :: sendtype, recvtype
    type(*), dimension(..), asynchronous :: recvbuf
    type(MPI_Comm), intent(in) :: comm
    type(MPI_Info), intent(in) :: info
    type(MPI_Request), intent(inout) :: request
    integer, optional, intent(out) :: ierror
    call f_allgather_init(address_of(sendbuf), sendcount, sendtype, address_of(recvbuf), recvcount, recvtype, &
        comm, info, request, ierror)
  end subroutine

  subroutine Lanyard_Allgatherv_init(sendbuf, sendcount, sendtype, recvbuf, recvcounts, displs, &
      recvtype, comm, info, request, ierror)
    type(*), dimension(..), intent(in), asynchronous :: sendbuf
    integer, intent(in) :: sendcount, recvcounts(*), displs(*)
    type(MPI_Datatype), intent(in) :: sendtype, recvtype
    type(*), dimension(..), asynchronous :: recvbuf
    type(MPI_Comm), intent(in) :: comm
    type(MPI_Info), intent(in) :: info
    type(MPI_Request), intent(inout) :: request
    integer, optional, intent(out) :: ierror
    call f_allgatherv_init(address_of(sendbuf), sendcount, sendtype, address_of(recvbuf), recvcounts, displs, &
        recvtype, comm, info, request, ierror)
  end subroutine

  subroutine Lanyard_Neighbor_alltoall_init(sendbuf, sendcount, sendtype, recvbuf, recvcount, &
      recvtype, comm, info, request, ierror)
    type(*), dimension(..), intent(in), asynchronous :: sendbuf
    integer, intent(in) :: sendcount, recvcount
    type(MPI_Datatype), intent(in) :: sendtype, recvtype
    type(*), dimension(..), asynchronous :: recvbuf
    type(MPI_Comm), intent(in) :: comm
    type(MPI_Info), intent(in) :: info
    type(MPI_Request), intent(inout) :: request
    integer, optional, intent(out) :: ierror
    call f_neighbor_alltoall_init(address_of(sendbuf), sendcount, sendtype, address_of(recvbuf), recvcount, &
        recvtype, comm, info, request, ierror)
  end subroutine

  subroutine Lanyard_Neighbor_alltoallv_init(sendbuf, sendcounts, sdispls, sendtype, recvbuf, &
      recvcounts, rdispls, recvtype, comm, info, request, ierror)
    type(*), dimension(..), intent(in), asynchronous :: sendbuf
    integer, intent(in) :: sendcounts(*), sdispls(*), recvcounts(*), rdispls(*)
    type(MPI_Datatype), intent(in) :: sendtype, recvtype
    type(*), dimension(..), asynchronous :: recvbuf
    type(MPI_Comm), intent(in) :: comm
    type(MPI_Info), intent(in) :: info
    type(MPI_Request), intent(inout) :: request
    integer, optional, intent(out) :: ierror
    call f_neighbor_alltoallv_init(address_of(sendbuf), sendcounts, sdispls, sendtype, address_of(recvbuf), &
        recvcounts, rdispls, recvtype, comm, info, request, ierror)
  end subroutine

  subroutine Lanyard_Neighbor_alltoallw_init(sendbuf, sendcounts, sdispls, sendtypes, recvbuf, &
      recvcounts, rdispls, recvtypes, comm, info, request, ierror)
    type(*), dimension(..), intent(in), asynchronous :: sendbuf
    integer, intent(in) :: sendcounts(*), recvcounts(*)
    integer(MPI_ADDRESS_KIND), intent(in) :: sdispls(*), rdispls(*)
    type(MPI_Datatype), intent(in) :: sendtypes(*), recvtypes(*)
    type(*), dimension(..), asynchronous :: recvbuf
    type(MPI_Comm), intent(in) :: comm
    type(MPI_Info), intent(in) :: info
    type(MPI_Request), intent(inout) :: request
    integer, optional, intent(out) :: ierror
    call f_neighbor_alltoallw_init(address_of(sendbuf), sendcounts, sdispls, sendtypes, address_of(recvbuf), &
        recvcounts, rdispls, recvtypes, comm, info, request, ierror)
  end subroutine

  subroutine Lanyard_Is_matched(request, flag, ierror)
    type(MPI_Request), intent(in) :: request
    logical, intent(inout) :: flag
    integer, optional, intent(out) :: ierror
    integer :: code
    integer(c_int) :: is_matched
    call f_is_matched(request, is_matched, code)
    if (code == MPI_SUCCESS) flag = is_matched /= 0
    if (present(ierror)) ierror = code
  end subroutine

end module lanyard_f08_own

! The module for programs.
module lanyard_f08
  use lanyard_f08_own, only: &
    operator(==), operator(/=), &
    Lanyard_Host_stream, MPIX_Host_stream => Lanyard_Host_stream, &
    Lanyard_Queue, MPIX_Queue => Lanyard_Queue, &
    LANYARD_HOST_STREAM_NULL, MPIX_HOST_STREAM_NULL => LANYARD_HOST_STREAM_NULL, &
    LANYARD_QUEUE_NULL, MPIX_QUEUE_NULL => LANYARD_QUEUE_NULL, &
    LANYARD_QUEUE_HOST, MPIX_QUEUE_HOST => LANYARD_QUEUE_HOST, &
    LANYARD_QUEUE_CUDA, MPIX_QUEUE_CUDA => LANYARD_QUEUE_CUDA, &
    LANYARD_QUEUE_HIP, MPIX_QUEUE_HIP => LANYARD_QUEUE_HIP, &
    LANYARD_ERROR_QUEUE, MPIX_ERROR_QUEUE => LANYARD_ERROR_QUEUE, &
    LANYARD_ERROR_BUSY, MPIX_ERROR_BUSY => LANYARD_ERROR_BUSY, &
    LANYARD_ERROR_NO_ENTRIES, MPIX_ERROR_NO_ENTRIES => LANYARD_ERROR_NO_ENTRIES, &
    LANYARD_ERROR_FAILED, MPIX_ERROR_FAILED => LANYARD_ERROR_FAILED, &
    LANYARD_ERROR_STALLED, MPIX_ERROR_STALLED => LANYARD_ERROR_STALLED, &
    LANYARD_ERROR_NIC, MPIX_ERROR_NIC => LANYARD_ERROR_NIC, &
    Lanyard_Host_kernel, MPIX_Host_kernel => Lanyard_Host_kernel, &
    Lanyard_Host_stream_create, MPIX_Host_stream_create => Lanyard_Host_stream_create, &
    Lanyard_Host_stream_launch, MPIX_Host_stream_launch => Lanyard_Host_stream_launch, &
    Lanyard_Host_stream_synchronize, MPIX_Host_stream_synchronize => Lanyard_Host_stream_synchronize, &
    Lanyard_Host_stream_free, MPIX_Host_stream_free => Lanyard_Host_stream_free, &
    Lanyard_Queue_init, MPIX_Queue_init => Lanyard_Queue_init, &
    Lanyard_Queue_free, MPIX_Queue_free => Lanyard_Queue_free, &
    Lanyard_Queue_wait, MPIX_Queue_wait => Lanyard_Queue_wait, &
    Lanyard_Queue_get_info, MPIX_Queue_get_info => Lanyard_Queue_get_info, &
    Lanyard_Request_set_info, MPIX_Request_set_info => Lanyard_Request_set_info, &
    Lanyard_Request_get_info, MPIX_Request_get_info => Lanyard_Request_get_info, &
    Lanyard_Barrier_init, MPIX_Barrier_init => Lanyard_Barrier_init, &
    Lanyard_Bcast_init, MPIX_Bcast_init => Lanyard_Bcast_init, &
    Lanyard_Allreduce_init, MPIX_Allreduce_init => Lanyard_Allreduce_init, &
    Lanyard_Allgather_init, MPIX_Allgather_init => Lanyard_Allgather_init, &
    Lanyard_Allgatherv_init, MPIX_Allgatherv_init => Lanyard_Allgatherv_init, &
    Lanyard_Neighbor_alltoall_init, MPIX_Neighbor_alltoall_init => Lanyard_Neighbor_alltoall_init, &
    Lanyard_Neighbor_alltoallv_init, MPIX_Neighbor_alltoallv_init => Lanyard_Neighbor_alltoallv_init, &
    Lanyard_Neighbor_alltoallw_init, MPIX_Neighbor_alltoallw_init => Lanyard_Neighbor_alltoallw_init, &
    Lanyard_Match, MPIX_Match => Lanyard_Match, &
    Lanyard_Matchall, MPIX_Matchall => Lanyard_Matchall, &
    Lanyard_Imatch, MPIX_Imatch => Lanyard_Imatch, &
    Lanyard_Imatchall, MPIX_Imatchall => Lanyard_Imatchall, &
    Lanyard_Is_matched, MPIX_Is_matched => Lanyard_Is_matched, &
    Lanyard_Enqueue_start, MPIX_Enqueue_start => Lanyard_Enqueue_start, &
    Lanyard_Enqueue_startall, MPIX_Enqueue_startall => Lanyard_Enqueue_startall, &
    Lanyard_Enqueue_wait, MPIX_Enqueue_wait => Lanyard_Enqueue_wait, &
    Lanyard_Enqueue_waitall, MPIX_Enqueue_waitall => Lanyard_Enqueue_waitall, &
    Lanyard_Error_class_of, MPIX_Error_class_of => Lanyard_Error_class_of, &
    LANYARD_ERR_QUEUE, MPIX_ERR_QUEUE => LANYARD_ERR_QUEUE, &
    LANYARD_ERR_BUSY, MPIX_ERR_BUSY => LANYARD_ERR_BUSY, &
    LANYARD_ERR_NO_ENTRIES, MPIX_ERR_NO_ENTRIES => LANYARD_ERR_NO_ENTRIES, &
    LANYARD_ERR_FAILED, MPIX_ERR_FAILED => LANYARD_ERR_FAILED, &
    LANYARD_ERR_STALLED, MPIX_ERR_STALLED => LANYARD_ERR_STALLED, &
    LANYARD_ERR_NIC, MPIX_ERR_NIC => LANYARD_ERR_NIC
end module lanyard_f08
