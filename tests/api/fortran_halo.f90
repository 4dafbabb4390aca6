! Halo exchange on a torus. Each rank has a block of a grid of numbers and sends its edges to its
! four neighbours before every step. Columns are contiguous and are sent in place; a kernel on the
! stream packs the rows. The host only enqueues. To check, every rank also computes the whole grid
! and compares its block after each step.
module halo
  use, intrinsic :: iso_c_binding
  implicit none

  integer, parameter :: rows = 6, columns = 5, steps = 100  ! rows and columns of a rank's block
  integer, parameter :: modulus = 1000003
  integer, asynchronous :: block(0:rows + 1, 0:columns + 1)
  integer, asynchronous :: row_out(columns, 2), row_in(columns, 2)
  integer, allocatable :: whole(:, :)
  integer :: first_row, first_column
  integer :: mistakes = 0

contains

  subroutine pack_rows(argument) bind(C)
    type(c_ptr), value :: argument
    if (c_associated(argument)) mistakes = mistakes + 1
    row_out(:, 1) = block(1, 1:columns)
    row_out(:, 2) = block(rows, 1:columns)
  end subroutine

  subroutine advance(argument) bind(C)
    type(c_ptr), value :: argument
    integer, pointer :: step
    integer :: own(rows, columns)
    call c_f_pointer(argument, step)
    step = step + 1
    block(0, 1:columns) = row_in(:, 1)
    block(rows + 1, 1:columns) = row_in(:, 2)
    own = mod(block(1:rows, 1:columns) + block(0:rows - 1, 1:columns) + 2 * block(2:rows + 1, 1:columns) + &
              3 * block(1:rows, 0:columns - 1) + 5 * block(1:rows, 2:columns + 1), modulus)
    block(1:rows, 1:columns) = own
    whole = mod(whole + cshift(whole, -1, 1) + 2 * cshift(whole, 1, 1) + &
                3 * cshift(whole, -1, 2) + 5 * cshift(whole, 1, 2), modulus)
    mistakes = mistakes + count(own /= whole(first_row:first_row + rows - 1, first_column:first_column + columns - 1))
    block(0, :) = -1
    block(rows + 1, :) = -1
  end subroutine

end module halo

program fortran_halo
  use, intrinsic :: iso_c_binding
  use mpi_f08
  use lanyard_f08
  use halo
  implicit none

  integer, parameter :: up_tag = 1, down_tag = 2, left_tag = 3, right_tag = 4
  integer :: ranks, rank, dims(2), place(2), up, down, left, right, i, j, step
  integer, target :: done = 0
  type(MPI_Comm) :: torus
  type(MPI_Request) :: requests(8)
  type(MPIX_Host_stream) :: stream
  type(MPIX_Queue) :: queue

  call MPI_Init()
  call MPI_Comm_size(MPI_COMM_WORLD, ranks)
  dims = 0
  call MPI_Dims_create(ranks, 2, dims)
  call MPI_Cart_create(MPI_COMM_WORLD, 2, dims, [.true., .true.], .true., torus)
  call MPI_Comm_rank(torus, rank)
  call MPI_Cart_coords(torus, rank, 2, place)
  call MPI_Cart_shift(torus, 0, 1, up, down)
  call MPI_Cart_shift(torus, 1, 1, left, right)

  first_row = place(1) * rows + 1
  first_column = place(2) * columns + 1
  allocate(whole(dims(1) * rows, dims(2) * columns))
  whole = reshape([((7 * i + 1000 * j, i = 1, dims(1) * rows), j = 1, dims(2) * columns)], shape(whole))
  block = -1
  block(1:rows, 1:columns) = whole(first_row:first_row + rows - 1, first_column:first_column + columns - 1)

  call MPIX_Host_stream_create(stream)
  call MPIX_Queue_init(queue, MPIX_QUEUE_HOST, stream)
  call MPI_Recv_init(row_in(1, 1), columns, MPI_INTEGER, up, down_tag, torus, requests(1))
  call MPI_Recv_init(row_in(1, 2), columns, MPI_INTEGER, down, up_tag, torus, requests(2))
  call MPI_Recv_init(block(1, 0), rows, MPI_INTEGER, left, right_tag, torus, requests(3))
  call MPI_Recv_init(block(1, columns + 1), rows, MPI_INTEGER, right, left_tag, torus, requests(4))
  call MPI_Send_init(row_out(1, 1), columns, MPI_INTEGER, up, up_tag, torus, requests(5))
  call MPI_Send_init(row_out(1, 2), columns, MPI_INTEGER, down, down_tag, torus, requests(6))
  call MPI_Send_init(block(1, 1), rows, MPI_INTEGER, left, left_tag, torus, requests(7))
  call MPI_Send_init(block(1, columns), rows, MPI_INTEGER, right, right_tag, torus, requests(8))
  call MPIX_Matchall(8, requests, MPI_STATUSES_IGNORE)

  do step = 1, steps
    call MPIX_Host_stream_launch(stream, pack_rows, c_null_ptr)
    call MPIX_Enqueue_startall(queue, 8, requests)
    call MPIX_Enqueue_waitall(queue, 8, requests)
    call MPIX_Host_stream_launch(stream, advance, c_loc(done))
  end do
  call MPIX_Queue_wait(queue)
  if (done /= steps) mistakes = mistakes + 1

  do i = 1, 8
    call MPI_Request_free(requests(i))
  end do
  call MPIX_Queue_free(queue)
  call MPIX_Host_stream_free(stream)
  i = mistakes
  call MPI_Allreduce(i, mistakes, 1, MPI_INTEGER, MPI_SUM, torus)
  if (rank == 0) print '(a)', merge("verified", "wrong   ", mistakes == 0)
  call MPI_Comm_free(torus)
  call MPI_Finalize()
  if (mistakes /= 0) error stop 1
end program fortran_halo
