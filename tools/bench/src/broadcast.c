/*
 * The loop of `ethbcast perf` with MPI: broadcast and barrier, then the barrier alone.
 *
 *     broadcast WARM_UPS ITERATIONS BYTES...
 *
 * For each number of bytes rank 0 prints two lines: `broadcast BYTES` and `barrier BYTES`, each followed by as many times as
 * there are iterations, in nanoseconds.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank;

/* One iteration; a broadcast of no bytes is none at all. */
static void step(char *message, int bytes)
{
    if (bytes > 0)
        MPI_Bcast(message, bytes, MPI_CHAR, 0, MPI_COMM_WORLD);
    MPI_Barrier(MPI_COMM_WORLD);
}

static void measure(const char *what, char *message, int bytes, int shown, int warm_ups, int iterations)
{
    double *times = malloc(sizeof *times * iterations);
    if (times == NULL)
        MPI_Abort(MPI_COMM_WORLD, 2);
    for (int i = 0; i < warm_ups; i++)
        step(message, bytes);
    for (int i = 0; i < iterations; i++) {
        double began = MPI_Wtime();
        step(message, bytes);
        times[i] = MPI_Wtime() - began;
    }
    if (rank == 0) {
        printf("%s %d", what, shown);
        for (int i = 0; i < iterations; i++)
            printf(" %.0f", times[i] * 1e9);
        printf("\n");
        fflush(stdout);
    }
    free(times);
}

int main(int count, char **words)
{
    MPI_Init(&count, &words);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    int warm_ups = atoi(words[1]), iterations = atoi(words[2]);
    for (int at = 3; at < count; at++) {
        int bytes = atoi(words[at]);
        char *message = malloc(bytes);
        if (message == NULL)
            MPI_Abort(MPI_COMM_WORLD, 2);
        memset(message, rank == 0 ? 'm' : 0, bytes);
        measure("broadcast", message, bytes, bytes, warm_ups, iterations);
        if (message[0] != 'm' || message[bytes - 1] != 'm')
            MPI_Abort(MPI_COMM_WORLD, 3);
        measure("barrier", message, 0, bytes, warm_ups, iterations);
        free(message);
    }
    MPI_Finalize();
    return 0;
}
