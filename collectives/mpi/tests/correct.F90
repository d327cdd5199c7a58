! Collectives from Fortran, by `use mpi` or, with -DF08, `use mpi_f08`, with a fault counted on every rank.
program correct
#ifdef F08
  use mpi_f08
#else
  use mpi
#endif
  implicit none
  integer :: error, rank, ranks, root, turn, at, faults
  double precision :: values(10000)
  complex :: waves(500)
  logical :: flags(77)
  character(len=40) :: words
  integer :: own(3), all(300)
  integer(8) :: most(3)
  call MPI_Init(error)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, error)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, error)
  faults = 0
  do root = 0, ranks - 1
    values = 0
    if (rank == root) values = [(at + 0.25d0 * root, at = 1, 10000)]
    call MPI_Bcast(values, 10000, MPI_DOUBLE_PRECISION, root, MPI_COMM_WORLD, error)
    faults = faults + count(values /= [(at + 0.25d0 * root, at = 1, 10000)])
    waves = 0
    if (rank == root) waves = [(cmplx(at, -root), at = 1, 500)]
    call MPI_Bcast(waves, 500, MPI_COMPLEX, root, MPI_COMM_WORLD, error)
    faults = faults + count(waves /= [(cmplx(at, -root), at = 1, 500)])
    flags = .false.
    if (rank == root) flags = [(mod(at, 3) == 0, at = 1, 77)]
    call MPI_Bcast(flags, 77, MPI_LOGICAL, root, MPI_COMM_WORLD, error)
    faults = faults + count(flags .neqv. [(mod(at, 3) == 0, at = 1, 77)])
    words = ''
    if (rank == root) words = 'every rank reads what one has written'
    call MPI_Bcast(words, 40, MPI_CHARACTER, root, MPI_COMM_WORLD, error)
    if (words /= 'every rank reads what one has written') faults = faults + 1
  end do
  own = [rank, rank + 1, rank + 2]
  call MPI_Allgather(own, 3, MPI_INTEGER, all, 3, MPI_INTEGER, MPI_COMM_WORLD, error)
  do at = 0, ranks - 1
    if (any(all(3 * at + 1:3 * at + 3) /= [at, at + 1, at + 2])) faults = faults + 1
  end do
  all(3 * rank + 1:3 * rank + 3) = own
  call MPI_Allgather(MPI_IN_PLACE, 0, MPI_INTEGER, all, 3, MPI_INTEGER, MPI_COMM_WORLD, error)
  own = [rank, 7, -rank]
  call MPI_Allreduce(own, all, 3, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, error)
  if (any(all(1:3) /= [ranks * (ranks - 1) / 2, 7 * ranks, -ranks * (ranks - 1) / 2])) faults = faults + 1
  most = [rank + 5000000000_8, -1_8 * rank, 2_8]
  call MPI_Allreduce(MPI_IN_PLACE, most, 3, MPI_INTEGER8, MPI_MAX, MPI_COMM_WORLD, error)
  if (any(most /= [ranks + 4999999999_8, 0_8, 2_8])) faults = faults + 1
  if (rank == 1) then
    call MPI_Reduce(MPI_IN_PLACE, own, 3, MPI_INTEGER, MPI_MIN, 1, MPI_COMM_WORLD, error)
    if (any(own /= [0, 7, 1 - ranks])) faults = faults + 1
  else
    call MPI_Reduce(own, all, 3, MPI_INTEGER, MPI_MIN, 1, MPI_COMM_WORLD, error)
  end if
  ! Many turns: the ranks agree now and then whether to go on by the wire.
  do turn = 0, 30 * ranks - 1
    root = mod(turn, ranks)
    if (rank == root) all(1:3 * ranks) = [(100 * root + at, at = 1, 3 * ranks)]
    call MPI_Scatter(all, 3, MPI_INTEGER, own, 3, MPI_INTEGER, root, MPI_COMM_WORLD, error)
    if (any(own /= [(100 * root + 3 * rank + at, at = 1, 3)])) faults = faults + 1
    own = own + 1
    call MPI_Gather(own, 3, MPI_INTEGER, all, 3, MPI_INTEGER, root, MPI_COMM_WORLD, error)
    if (rank == root) faults = faults + count(all(1:3 * ranks) /= [(100 * root + at + 1, at = 1, 3 * ranks)])
    ! The root's own block stays where it is; the others have buffers of their own.
    if (rank == root) then
      call MPI_Scatter(all, 3, MPI_INTEGER, MPI_IN_PLACE, 3, MPI_INTEGER, root, MPI_COMM_WORLD, error)
      all(3 * rank + 1:3 * rank + 3) = 7
      call MPI_Gather(MPI_IN_PLACE, 3, MPI_INTEGER, all, 3, MPI_INTEGER, root, MPI_COMM_WORLD, error)
      if (any(all(3 * rank + 1:3 * rank + 3) /= 7)) faults = faults + 1
      faults = faults + count(all(1:3 * ranks) /= [(100 * root + at + 1, at = 1, 3 * ranks)]) - 3
    else
      call MPI_Scatter(all, 3, MPI_INTEGER, own, 3, MPI_INTEGER, root, MPI_COMM_WORLD, error)
      if (any(own /= [(100 * root + 3 * rank + at + 1, at = 1, 3)])) faults = faults + 1
      call MPI_Gather(own, 3, MPI_INTEGER, all, 3, MPI_INTEGER, root, MPI_COMM_WORLD, error)
    end if
  end do
#ifdef F08
  call MPI_Barrier(MPI_COMM_WORLD)
#else
  call MPI_Barrier(MPI_COMM_WORLD, error)
#endif
  if (faults > 0) call MPI_Abort(MPI_COMM_WORLD, 99, error)
  if (rank == 0) print '(a)', 'fortran: all is well'
  call MPI_Finalize(error)
end program correct
