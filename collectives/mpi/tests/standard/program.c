/* A program of the standard's binary interface: what is in `correct.c` at length, once. "standard: all is well" on rank 0. */
#include "mpi.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank, size;

#define REQUIRE(holds) \
    do { \
        if (!(holds)) { \
            fprintf(stderr, "rank %d, line %d: %s\n", rank, __LINE__, #holds); \
            MPI_Abort(MPI_COMM_WORLD, 99); \
        } \
    } while (0)

static void broadcasts(MPI_Comm comm)
{
    enum { COUNT = 30011 };
    static double values[COUNT];
    int own, ranks;
    MPI_Comm_rank(comm, &own);
    MPI_Comm_size(comm, &ranks);
    for (int root = 0; root < ranks; root++) {
        for (int at = 0; at < COUNT; at++)
            values[at] = own == root ? at + 0.5 * root : -1;
        REQUIRE((root % 2 ? MPI_Bcast_c(values, COUNT, MPI_DOUBLE, root, comm)
                          : MPI_Bcast(values, COUNT, MPI_DOUBLE, root, comm)) == MPI_SUCCESS);
        for (int at = 0; at < COUNT; at++)
            REQUIRE(values[at] == at + 0.5 * root);
    }
}

/* Columns of a matrix, with gaps. */
static void strided(void)
{
    enum { ROWS = 301, WIDTH = 5 };
    static int matrix[ROWS * WIDTH];
    MPI_Datatype column;
    MPI_Type_vector(ROWS, 2, WIDTH, MPI_INT, &column);
    MPI_Type_commit(&column);
    for (int at = 0; at < ROWS * WIDTH; at++)
        matrix[at] = rank == 1 ? at : -7;
    MPI_Bcast(matrix, 1, column, 1, MPI_COMM_WORLD);
    for (int at = 0; at < ROWS * WIDTH; at++)
        REQUIRE(matrix[at] == (rank == 1 || at % WIDTH < 2 ? at : -7));
    MPI_Type_free(&column);
}

static void blocks(void)
{
    enum { COUNT = 777 };
    int *own = malloc(sizeof(int) * COUNT), *all = calloc((size_t)size * COUNT, sizeof(int));
    for (int at = 0; at < COUNT; at++)
        own[at] = rank * 1000 + at;
    MPI_Allgather(own, COUNT, MPI_INT, all, COUNT, MPI_INT, MPI_COMM_WORLD);
    MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, all, COUNT, MPI_INT, MPI_COMM_WORLD);
    for (int at = 0; at < size * COUNT; at++)
        REQUIRE(all[at] == at / COUNT * 1000 + at % COUNT);
    memset(own, 0, sizeof(int) * COUNT);
    MPI_Scatter(all, COUNT, MPI_INT, own, COUNT, MPI_INT, size - 1, MPI_COMM_WORLD);
    for (int at = 0; at < COUNT; at++)
        REQUIRE(own[at] == rank * 1000 + at);
    memset(all, 0, sizeof(int) * COUNT * (size_t)size);
    MPI_Gather(own, COUNT, MPI_INT, all, COUNT, MPI_INT, 0, MPI_COMM_WORLD);
    for (int at = 0; rank == 0 && at < size * COUNT; at++)
        REQUIRE(all[at] == at / COUNT * 1000 + at % COUNT);
    free(own), free(all);
}

static void reductions(void)
{
    enum { COUNT = 5003 };
    int *own = malloc(sizeof(int) * COUNT), *all = calloc(COUNT, sizeof(int));
    for (int at = 0; at < COUNT; at++)
        own[at] = rank + at;
    MPI_Allreduce(own, all, COUNT, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    for (int at = 0; at < COUNT; at++)
        REQUIRE(all[at] == size * at + size * (size - 1) / 2);
    MPI_Reduce(rank == 1 ? MPI_IN_PLACE : own, own, COUNT, MPI_INT, MPI_MAX, 1, MPI_COMM_WORLD);
    for (int at = 0; at < COUNT; at++)
        REQUIRE(own[at] == (rank == 1 ? size - 1 : rank) + at);
    free(own), free(all);
}

/* A message of 16 MiB to a rank that is in a broadcast whose root comes last. */
static void in_flight(void)
{
    int many = 16 << 20;
    char *message = calloc(many, 1), word = rank == 2 ? 5 : 0;
    MPI_Request request = MPI_REQUEST_NULL;
    if (rank == 0)
        MPI_Irecv(message, many, MPI_BYTE, 1, 9, MPI_COMM_WORLD, &request);
    if (rank == 1) {
        memset(message, 7, many);
        MPI_Send(message, many, MPI_BYTE, 0, 9, MPI_COMM_WORLD);
        MPI_Send(message, 1, MPI_BYTE, 2, 10, MPI_COMM_WORLD);
    }
    if (rank == 2) {
        MPI_Irecv(message, 1, MPI_BYTE, 1, 10, MPI_COMM_WORLD, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    MPI_Bcast(&word, 1, MPI_BYTE, 2, MPI_COMM_WORLD);
    if (rank == 0)
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    REQUIRE(word == 5 && (rank != 0 || (message[0] == 7 && message[many - 1] == 7)));
    free(message);
}

static void arguments(void)
{
    int word = 0;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    REQUIRE(MPI_Bcast(&word, -1, MPI_INT, 0, MPI_COMM_WORLD) != MPI_SUCCESS);
    REQUIRE(MPI_Bcast(&word, 1, MPI_DATATYPE_NULL, 0, MPI_COMM_WORLD) != MPI_SUCCESS);
    REQUIRE(MPI_Bcast(&word, 1, MPI_INT, size, MPI_COMM_WORLD) != MPI_SUCCESS);
    REQUIRE(MPI_Barrier(MPI_COMM_NULL) != MPI_SUCCESS);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
}

int main(int count, char **words)
{
    MPI_Comm made;
    MPI_Init(&count, &words);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    broadcasts(MPI_COMM_WORLD);
    broadcasts(MPI_COMM_SELF);
    for (int turn = 0; turn < 4; turn++) {
        if (turn % 2)
            MPI_Comm_dup(MPI_COMM_WORLD, &made);
        else
            MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &made);
        broadcasts(made);
        MPI_Comm_free(&made);
    }
    strided();
    blocks();
    reductions();
    in_flight();
    arguments();
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0)
        printf("standard: all is well\n"), fflush(stdout);
    MPI_Finalize();
    return 0;
}
