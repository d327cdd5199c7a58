/*
 * The loop of `ethbcast perf` with MPI: broadcast and barrier, then the barrier alone.
 *
 *     broadcast WARM_UPS ITERATIONS BYTES...
 *
 * For each number of bytes rank 0 prints two lines: `broadcast BYTES` and `barrier BYTES`, each followed by as many times as
 * there are iterations, in nanoseconds. Every message is another, and every rank checks every byte of it.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static int rank;

static unsigned char byte_at(int number, int at)
{
    return (unsigned char)(number * 31 + at * 7 + (at >> 8));
}

/* What nobody times: new bytes at the root before a broadcast, and their check on all ranks behind it. */
static void fill(char *message, int bytes, int number)
{
    for (int at = 0; at < bytes; at++)
        message[at] = rank == 0 ? (char)byte_at(number, at) : 0;
    MPI_Barrier(MPI_COMM_WORLD);
}

static void check(const char *message, int bytes, int number)
{
    for (int at = 0; at < bytes; at++)
        if ((unsigned char)message[at] != byte_at(number, at))
            MPI_Abort(MPI_COMM_WORLD, 3);
}

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
    for (int i = 0; i < warm_ups + iterations; i++) {
        fill(message, bytes, i);
        double began = MPI_Wtime();
        step(message, bytes);
        if (i >= warm_ups)
            times[i - warm_ups] = MPI_Wtime() - began;
        check(message, bytes, i);
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
        measure("broadcast", message, bytes, bytes, warm_ups, iterations);
        measure("barrier", message, 0, bytes, warm_ups, iterations);
        free(message);
    }
    MPI_Barrier(MPI_COMM_WORLD);
#ifdef MPICH_VERSION
    /* MPICH 4.0's end over UCX waits for ranks that no longer answer. */
    fflush(stdout);
    _exit(0);
#endif
    MPI_Finalize();
    return 0;
}
