! Shared by the Fortran tests: counted checks, returned error codes, and partners.
module fortran_checks
  use mpi_f08
  implicit none
  integer :: rank, ranks, partner
  integer :: mistakes = 0

contains

  ! Requires an even number of ranks, so that each rank has a partner.
  subroutine begin_checks()
    call MPI_Comm_rank(MPI_COMM_WORLD, rank)
    call MPI_Comm_size(MPI_COMM_WORLD, ranks)
    partner = ieor(rank, 1)
    call MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN)
  end subroutine

  subroutine check(holds, what)
    logical, intent(in) :: holds
    character(len=*), intent(in) :: what
    if (holds) return
    mistakes = mistakes + 1
    print '(a, i0, 2a)', "rank ", rank, ": check failed: ", what
  end subroutine

  ! Expects that `code` is MPI_SUCCESS, or that its class is `class`.
  subroutine check_class(code, class, what)
    integer, intent(in) :: code, class
    character(len=*), intent(in) :: what
    character(len=MPI_MAX_ERROR_STRING) :: text
    integer :: found, length
    call MPI_Error_class(code, found)
    if (found == class) return
    call MPI_Error_string(code, text, length)
    call check(.false., what // ": " // text(:length))
  end subroutine

  subroutine end_checks()
    integer :: here
    here = mistakes
    call MPI_Allreduce(here, mistakes, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD)
    if (rank == 0 .and. mistakes == 0) print '(a)', "verified"
    call MPI_Finalize()
    if (mistakes /= 0) error stop 1
  end subroutine

end module fortran_checks
