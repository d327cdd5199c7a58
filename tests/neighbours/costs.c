/* Programs for which a drop-in is of little use: `costs WHAT COUNT BYTES`; rank 0 prints how long they took. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int count, char **words)
{
    static const int lengths[] = {256, 65536, 4000, 4194304, 1024, 1048576, 16384, 262144};
    int rank, turns = count > 2 ? atoi(words[2]) : 1, bytes = count > 3 ? atoi(words[3]) : 1;
    char *memory = calloc(1, 1 << 24);
    MPI_Init(&count, &words);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    /* The MPI has made its connections before: by allreduces, which no drop-in takes by this name. */
    for (int turn = 0, sum = 0; turn < 20; turn++)
        PMPI_Allreduce(&turn, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    double began = MPI_Wtime();
    for (int turn = 0; turn < turns; turn++) {
        MPI_Comm made = MPI_COMM_WORLD;
        if (strcmp(words[1], "communicators") == 0)
            MPI_Comm_dup(MPI_COMM_WORLD, &made);
        if (strcmp(words[1], "mixed") == 0)
            for (int at = 0; at < 8; at++)
                MPI_Bcast(memory, lengths[at], MPI_BYTE, 0, made);
        else
            MPI_Bcast(memory, bytes, MPI_BYTE, 0, made);
        if (made != MPI_COMM_WORLD)
            MPI_Comm_free(&made);
    }
    int one = 1, all = 0;
    PMPI_Allreduce(&one, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0)
        printf("%s: took %.6f s, %d ranks\n", words[1], MPI_Wtime() - began, all);
    free(memory);
    return MPI_Finalize();
}
