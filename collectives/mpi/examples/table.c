/* An MPI program as any: rank 0 has a table of 8 MiB, then all have it; each says how long that took. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

int main(int count, char **words)
{
    enum { VALUES = 1 << 20 };
    double *table = malloc(VALUES * sizeof *table), sum = 0;
    int rank, ranks;
    MPI_Init(&count, &words);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    for (int at = 0; at < VALUES; at++)
        table[at] = rank == 0 ? at % 1000 : -1;
    MPI_Barrier(MPI_COMM_WORLD);
    double began = MPI_Wtime();
    MPI_Bcast(table, VALUES, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    MPI_Barrier(MPI_COMM_WORLD);
    double took = MPI_Wtime() - began;
    for (int at = 0; at < VALUES; at++)
        sum += table[at];
    printf("rank %d of %d: sum %.0f, %.1f ms\n", rank, ranks, sum, took * 1e3);
    free(table);
    return MPI_Finalize();
}
