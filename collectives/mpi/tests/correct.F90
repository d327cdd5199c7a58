! Broadcasts from Fortran, by `use mpi` or, with -DF08, `use mpi_f08`, with a fault counted on every rank.
program correct
#ifdef F08
  use mpi_f08
#else
  use mpi
#endif
  implicit none
  integer :: error, rank, ranks, root, at, faults
  double precision :: values(10000)
  integer :: own(3), all(300)
  call MPI_Init(error)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, error)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, error)
  faults = 0
  do root = 0, ranks - 1
    values = 0
    if (rank == root) values = [(at + 0.25d0 * root, at = 1, 10000)]
    call MPI_Bcast(values, 10000, MPI_DOUBLE_PRECISION, root, MPI_COMM_WORLD, error)
    faults = faults + count(values /= [(at + 0.25d0 * root, at = 1, 10000)])
  end do
  own = [rank, rank + 1, rank + 2]
  call MPI_Allgather(own, 3, MPI_INTEGER, all, 3, MPI_INTEGER, MPI_COMM_WORLD, error)
  do at = 0, ranks - 1
    if (any(all(3 * at + 1:3 * at + 3) /= [at, at + 1, at + 2])) faults = faults + 1
  end do
  all(3 * rank + 1:3 * rank + 3) = own
  call MPI_Allgather(MPI_IN_PLACE, 0, MPI_INTEGER, all, 3, MPI_INTEGER, MPI_COMM_WORLD, error)
#ifdef F08
  call MPI_Barrier(MPI_COMM_WORLD)
#else
  call MPI_Barrier(MPI_COMM_WORLD, error)
#endif
  if (faults > 0) call MPI_Abort(MPI_COMM_WORLD, 99, error)
  if (rank == 0) print '(a)', 'fortran: all is well'
  call MPI_Finalize(error)
end program correct
