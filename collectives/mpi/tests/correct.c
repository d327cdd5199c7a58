/*
 * What a drop-in must not change: `correct WHAT`, one word for each part; every rank checks what it has got.
 * Prints "WHAT: all is well" on rank 0.
 */
#include <mpi.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int rank, size, provided;

#define REQUIRE(holds) \
    do { \
        if (!(holds)) { \
            fprintf(stderr, "rank %d, line %d: %s\n", rank, __LINE__, #holds); \
            MPI_Abort(MPI_COMM_WORLD, 99); \
        } \
    } while (0)

static unsigned char mark(long at, int salt)
{
    return (unsigned char)(at * 131 + at / 251 + salt * 17 + 1);
}

static void bytes_from(MPI_Comm comm, int root, long count, int salt)
{
    unsigned char *bytes = malloc(count + 1);
    int own;
    MPI_Comm_rank(comm, &own);
    for (long at = 0; at < count; at++)
        bytes[at] = own == root ? mark(at, salt) : 0;
    bytes[count] = 77;
    REQUIRE(MPI_Bcast(bytes, (int)count, MPI_BYTE, root, comm) == MPI_SUCCESS);
    for (long at = 0; at < count; at++)
        REQUIRE(bytes[at] == mark(at, salt));
    REQUIRE(bytes[count] == 77);
    free(bytes);
}

static void roots(void)
{
    long counts[] = {1, 5, 256, 1467, 1469, 40000, 1000003};
    for (int root = 0; root < size; root++)
        for (int at = 0; at < 7; at++)
            bytes_from(MPI_COMM_WORLD, root, counts[at], root + at);
}

/* Nothing short is called for before them. */
static void long_ones(void)
{
    for (int root = 0; root < size; root++)
        bytes_from(MPI_COMM_WORLD, root, 1000003, root);
}

/* So many calls of one length, for some time, that it may pay to wire the communicator. */
static void worth_it(void)
{
    const char *calls = getenv("CORRECT_CALLS");
    for (int turn = 0; turn < (calls ? atoi(calls) : 200); turn++) {
        bytes_from(MPI_COMM_WORLD, turn % size, 1 << 18, turn);
        usleep(10000);
    }
}

/* As many calls until eight took far less than the second of slow.c, as the first rank sees it. */
static void until_fast(void)
{
    for (int turn = 0, fast = 0; fast < 8; turn++) {
        REQUIRE(turn < 130);
        double began = MPI_Wtime();
        bytes_from(MPI_COMM_WORLD, turn % size, 1 << 18, turn);
        fast += MPI_Wtime() - began < 0.8;
        MPI_Bcast(&fast, 1, MPI_INT, 0, MPI_COMM_WORLD);
        usleep(10000);
    }
}

/* Communicators of which each has one call. */
static void brief(void)
{
    for (int turn = 0; turn < 30; turn++) {
        MPI_Comm made;
        MPI_Comm_dup(MPI_COMM_WORLD, &made);
        bytes_from(made, turn % size, 4000, turn);
        MPI_Comm_free(&made);
    }
}

#include "datatypes.h"
#include "reductions.h"

/* The calls with blocks, in place and not, and empty ones. */
static void blocks(void)
{
    for (int count = 1; count < 5000; count = count * 7 + 1) {
        int root = count % size;
        long *own = malloc(sizeof(long) * count), *all = malloc(sizeof(long) * count * size);
        for (int at = 0; at < count; at++)
            own[at] = rank * 100000L + at;
        memset(all, 0, sizeof(long) * count * size);
        MPI_Allgather(own, count, MPI_LONG, all, count, MPI_LONG, MPI_COMM_WORLD);
        for (int at = 0; at < count * size; at++)
            REQUIRE(all[at] == at / count * 100000L + at % count);
        memset(all, 0, sizeof(long) * count * size);
        memcpy(all + rank * count, own, sizeof(long) * count);
        MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, all, count, MPI_LONG, MPI_COMM_WORLD);
        for (int at = 0; at < count * size; at++)
            REQUIRE(all[at] == at / count * 100000L + at % count);
        memset(own, 0, sizeof(long) * count);
        MPI_Scatter(all, count, MPI_LONG, own, count, MPI_LONG, root, MPI_COMM_WORLD);
        for (int at = 0; at < count; at++)
            REQUIRE(own[at] == rank * 100000L + at);
        if (rank == root)
            MPI_Scatter(all, count, MPI_LONG, MPI_IN_PLACE, 0, MPI_LONG, root, MPI_COMM_WORLD);
        else
            MPI_Scatter(NULL, 0, MPI_DATATYPE_NULL, own, count, MPI_LONG, root, MPI_COMM_WORLD);
        REQUIRE(own[0] == rank * 100000L);
        memset(all, 0, sizeof(long) * count * size);
        if (rank == root) {
            memcpy(all + rank * count, own, sizeof(long) * count);
            MPI_Gather(MPI_IN_PLACE, 0, MPI_LONG, all, count, MPI_LONG, root, MPI_COMM_WORLD);
            for (int at = 0; at < count * size; at++)
                REQUIRE(all[at] == at / count * 100000L + at % count);
        } else {
            MPI_Gather(own, count, MPI_LONG, NULL, 0, MPI_DATATYPE_NULL, root, MPI_COMM_WORLD);
        }
        MPI_Bcast(NULL, 0, MPI_INT, root, MPI_COMM_WORLD);
        MPI_Barrier(MPI_COMM_WORLD);
        free(own), free(all);
    }
}

/* So many are made and freed; some are there at a time; one lacks a rank, one has its ranks turned round. */
static void communicators(void)
{
    const char *turns = getenv("CORRECT_COMMUNICATORS");
    for (int turn = 0; turn < (turns ? atoi(turns) : 8); turn++) {
        MPI_Comm made;
        if (turn % 2 == 0)
            MPI_Comm_dup(MPI_COMM_WORLD, &made);
        else
            MPI_Comm_split(MPI_COMM_WORLD, rank == turn % size ? MPI_UNDEFINED : 1, -rank, &made);
        if (made == MPI_COMM_NULL)
            continue;
        bytes_from(made, turn % (size - 1), 3000, turn);
        MPI_Comm_free(&made);
    }
    MPI_Comm several[5];
    for (int at = 0; at < 5; at++) {
        MPI_Comm_dup(MPI_COMM_WORLD, &several[at]);
        bytes_from(several[at], at % size, 100 + at, at);
    }
    for (int at = 4; at >= 0; at--) {
        bytes_from(several[at], at % size, 5000 + at, at);
        MPI_Comm_free(&several[at]);
    }
    bytes_from(MPI_COMM_SELF, 0, 100, 1);
    MPI_Comm half, between;
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - rank % 2, 5, &between);
    int word = rank == 0 ? 42 : 0;
    MPI_Bcast(&word, 1, MPI_INT, rank % 2 == 1 ? 0 : rank == 0 ? MPI_ROOT : MPI_PROC_NULL, between);
    REQUIRE(rank % 2 == 0 || word == 42);
    MPI_Comm_free(&between), MPI_Comm_free(&half);
}

/* A message of 16 MiB waits for its receiver, who is in a broadcast: it gets on only if the broadcast lets it. */
static void in_flight(void)
{
    int many = 16 << 20;
    char *message = calloc(many, 1), *cast = calloc(many, 1);
    for (int turn = 0; turn < 2; turn++) {
        memset(cast, rank == 2 ? 5 : 0, many);
        if (rank == 0) {
            MPI_Request request;
            MPI_Irecv(message, many, MPI_CHAR, 1, 9, MPI_COMM_WORLD, &request);
            MPI_Bcast(cast, 3000, MPI_CHAR, 2, MPI_COMM_WORLD);
            MPI_Wait(&request, MPI_STATUS_IGNORE);
            REQUIRE(message[0] == 7 && message[many - 1] == 7);
        } else if (rank == 1) {
            memset(message, 7, many);
            MPI_Send(message, many, MPI_CHAR, 0, 9, MPI_COMM_WORLD);
            MPI_Send(message, 1, MPI_CHAR, 2, 10, MPI_COMM_WORLD);
            MPI_Bcast(cast, 3000, MPI_CHAR, 2, MPI_COMM_WORLD);
        } else if (rank == 2) {
            /* The root comes last, when rank 1's message has gone. */
            char word;
            MPI_Recv(&word, 1, MPI_CHAR, 1, 10, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Bcast(cast, 3000, MPI_CHAR, 2, MPI_COMM_WORLD);
        } else {
            MPI_Bcast(cast, 3000, MPI_CHAR, 2, MPI_COMM_WORLD);
        }
        REQUIRE(cast[2999] == 5);
        memset(message, 0, many);
    }
    free(message), free(cast);
}

static void *on_own(void *comm)
{
    for (int turn = 0; turn < 50; turn++)
        bytes_from(*(MPI_Comm *)comm, turn % size, 1 + turn * 97, turn);
    return NULL;
}

static void threads(void)
{
    REQUIRE(provided == MPI_THREAD_MULTIPLE);
    pthread_t running[4];
    MPI_Comm own[4];
    for (int at = 0; at < 4; at++)
        MPI_Comm_dup(MPI_COMM_WORLD, &own[at]);
    for (int at = 0; at < 4; at++)
        pthread_create(&running[at], NULL, on_own, &own[at]);
    for (int at = 0; at < 4; at++)
        pthread_join(running[at], NULL);
    for (int at = 0; at < 4; at++)
        MPI_Comm_free(&own[at]);
}

/* The root is through with its part and frees the communicator, or ends, long before the others begin with theirs. */
static void late(void)
{
    static char bytes[3000000];
    MPI_Comm made;
    MPI_Comm_dup(MPI_COMM_WORLD, &made);
    for (int at = 0; at < 2; at++) {
        REQUIRE(MPI_Barrier(made) == MPI_SUCCESS);
        memset(bytes, rank == 0 ? 5 : 0, sizeof bytes);
        if (rank != 0)
            sleep(3);
        MPI_Bcast(bytes, sizeof bytes, MPI_CHAR, 0, made);
        REQUIRE(bytes[0] == 5 && bytes[sizeof bytes - 1] == 5);
        if (at == 0) {
            MPI_Comm_free(&made);
            MPI_Comm_dup(MPI_COMM_WORLD, &made);
        }
    }
}

/* A communicator on which an error comes back, after a first call. */
static MPI_Comm returning(void)
{
    MPI_Comm made;
    MPI_Comm_dup(MPI_COMM_WORLD, &made);
    MPI_Comm_set_errhandler(made, MPI_ERRORS_RETURN);
    REQUIRE(MPI_Barrier(made) == MPI_SUCCESS);
    return made;
}

/* Rank 1 expects less than is sent: an error on it or on all, and nobody waits for ever. */
static void lengths(void)
{
    static char bytes[100000];
    MPI_Comm made = returning();
    int code = MPI_Bcast(bytes, rank == 1 ? 50000 : 100000, MPI_CHAR, 0, made);
    REQUIRE(rank != 1 || code != MPI_SUCCESS);
}

/* The same among all but the first. */
static void lengths_of_some(void)
{
    static char bytes[100000];
    MPI_Comm made;
    MPI_Comm_split(MPI_COMM_WORLD, rank == 0 ? MPI_UNDEFINED : 1, rank, &made);
    if (made == MPI_COMM_NULL)
        return;
    MPI_Comm_set_errhandler(made, MPI_ERRORS_RETURN);
    MPI_Bcast(bytes, rank == 2 ? 50000 : 100000, MPI_CHAR, 0, made);
}

/* A program that goes on after such an error, as far as it gets: no call of it waits for ever. */
static void differing_twice(void)
{
    static char bytes[100000];
    int one = 1, all = 0;
    MPI_Comm made = returning();
    int first = MPI_Bcast(bytes, rank == 0 ? 4 : 40, MPI_CHAR, 0, made);
    int second = MPI_Bcast(bytes, rank == 0 ? 40 : 4, MPI_CHAR, 0, made);
    REQUIRE(rank == 0 || (first != MPI_SUCCESS && second != MPI_SUCCESS));
    REQUIRE(MPI_Allreduce(&one, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD) == MPI_SUCCESS && all == size);
}

/* The root sends so little that its call is the MPI's own, and the others want what goes by the wire: an error on them,
   and on the root with its next call by the wire. */
static void decided(void)
{
    static char bytes[100000];
    MPI_Comm made = returning();
    int code = MPI_Bcast(bytes, rank == 0 ? 1000 : 100000, MPI_CHAR, 0, made);
    REQUIRE((rank == 0) == (code == MPI_SUCCESS));
    REQUIRE(rank != 0 || MPI_Barrier(made) != MPI_SUCCESS);
}

/* The same, but that who makes it by the MPI waits in there for those who make it by the wire: these have an error, and
   end the program for all. */
static void stuck(int at_root, int elsewhere)
{
    static char bytes[4000000];
    MPI_Comm made = returning();
    int code = MPI_Bcast(bytes, rank == 0 ? at_root : elsewhere, MPI_CHAR, 0, made);
    if (code == MPI_SUCCESS)
        code = MPI_Barrier(made);
    REQUIRE(code != MPI_SUCCESS);
    MPI_Abort(MPI_COMM_WORLD, 7);
}

static void stuck_elsewhere(void)
{
    stuck(100000, 1000);
}

static void stuck_root(void)
{
    stuck(4000000, 100000);
}

/* What a call costs in which nobody is waited for, and which is the MPI's own: the least mean of many batches. */
static void price(void)
{
    double least = 1e9;
    for (int batch = 0; batch < 100; batch++) {
        double began = MPI_Wtime();
        for (int call = 0; call < 1000; call++)
            MPI_Barrier(MPI_COMM_SELF);
        double took = (MPI_Wtime() - began) / 1000;
        least = took < least ? took : least;
    }
    if (rank == 0)
        printf("price of a call: %.0f ns\n", least * 1e9);
}

/* What the MPI says of arguments that cannot be, it says still. */
static void arguments(void)
{
    int word = 0;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    REQUIRE(MPI_Bcast(&word, -1, MPI_INT, 0, MPI_COMM_WORLD) != MPI_SUCCESS);
    REQUIRE(MPI_Bcast(&word, 1, MPI_DATATYPE_NULL, 0, MPI_COMM_WORLD) != MPI_SUCCESS);
    REQUIRE(MPI_Bcast(&word, 1, MPI_INT, size, MPI_COMM_WORLD) != MPI_SUCCESS);
    REQUIRE(MPI_Bcast(&word, 1, MPI_INT, -3, MPI_COMM_WORLD) != MPI_SUCCESS);
    REQUIRE(MPI_Bcast(&word, 1, MPI_INT, 0, MPI_COMM_NULL) != MPI_SUCCESS);
    REQUIRE(MPI_Barrier(MPI_COMM_NULL) != MPI_SUCCESS);
    /* More bytes than 64 bits count, and no such root. */
    MPI_Datatype many;
    MPI_Type_contiguous(1 << 28, MPI_LONG_DOUBLE, &many);
    MPI_Type_commit(&many);
    REQUIRE(MPI_Bcast(&word, 2147483647, many, size, MPI_COMM_WORLD) != MPI_SUCCESS);
    REQUIRE(MPI_Allgather(&word, -1, MPI_INT, &word, -1, MPI_INT, MPI_COMM_WORLD) != MPI_SUCCESS);
    REQUIRE(MPI_Gather(&word, 1, MPI_INT, &word, 1, MPI_INT, size, MPI_COMM_WORLD) != MPI_SUCCESS);
    REQUIRE(MPI_Scatter(&word, 1, MPI_INT, &word, 1, MPI_INT, 0, MPI_COMM_NULL) != MPI_SUCCESS);
    MPI_Type_free(&many);
    int other = 0;
#ifdef OPEN_MPI /* MPICH 4.0 crashes. */
    REQUIRE(MPI_Allreduce(&word, &other, -1, MPI_INT, MPI_SUM, MPI_COMM_WORLD) != MPI_SUCCESS);
#endif
    REQUIRE(MPI_Allreduce(&word, &other, 1, MPI_DATATYPE_NULL, MPI_SUM, MPI_COMM_WORLD) != MPI_SUCCESS);
    REQUIRE(MPI_Allreduce(&word, &other, 1, MPI_INT, MPI_OP_NULL, MPI_COMM_WORLD) != MPI_SUCCESS);
    REQUIRE(MPI_Allreduce(&word, MPI_IN_PLACE, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD) != MPI_SUCCESS);
    REQUIRE(MPI_Reduce(&word, &other, 1, MPI_INT, MPI_SUM, size, MPI_COMM_WORLD) != MPI_SUCCESS);
    REQUIRE(MPI_Reduce(&word, &other, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_NULL) != MPI_SUCCESS);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    bytes_from(MPI_COMM_WORLD, 0, 1000, 3);
}

/* The calls with long counts, of MPIs that have them. */
static void large(void)
{
#if MPI_VERSION >= 4
    MPI_Count count = 20011;
    long *own = malloc(sizeof(long) * count), *all = malloc(sizeof(long) * count * size);
    for (int root = 0; root < size; root++) {
        for (int at = 0; at < count; at++)
            own[at] = rank == root ? at * 3L + root : 0;
        REQUIRE(MPI_Bcast_c(own, count, MPI_LONG, root, MPI_COMM_WORLD) == MPI_SUCCESS);
        for (int at = 0; at < count; at++)
            REQUIRE(own[at] == at * 3L + root);
        own[0] = rank;
        memset(all, 0, sizeof(long) * count * size);
        MPI_Allgather_c(own, count, MPI_LONG, all, count, MPI_LONG, MPI_COMM_WORLD);
        for (int at = 0; at < size; at++)
            REQUIRE(all[at * count] == at && all[at * count + 5] == 15 + root);
        all[rank * count + 1] = -1;
        MPI_Scatter_c(all, count, MPI_LONG, own, count, MPI_LONG, root, MPI_COMM_WORLD);
        REQUIRE(own[0] == rank && own[1] == (rank == root ? -1 : 3 + root));
        memset(all, 0, sizeof(long) * count * size);
        MPI_Gather_c(own, count, MPI_LONG, all, count, MPI_LONG, root, MPI_COMM_WORLD);
        REQUIRE(rank != root || (all[count * (size - 1)] == size - 1 && all[count * root + 1] == -1));
        own[0] = rank, own[count - 1] = 7;
        REQUIRE(MPI_Allreduce_c(own, all, count, MPI_LONG, MPI_SUM, MPI_COMM_WORLD) == MPI_SUCCESS);
        REQUIRE(all[0] == (long)size * (size - 1) / 2 && all[count - 1] == 7L * size);
        REQUIRE(MPI_Reduce_c(own, all, count, MPI_LONG, MPI_MAX, root, MPI_COMM_WORLD) == MPI_SUCCESS);
        REQUIRE(rank != root || (all[0] == size - 1 && all[count - 1] == 7));
    }
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    REQUIRE(MPI_Bcast_c(own, -1, MPI_LONG, 0, MPI_COMM_WORLD) != MPI_SUCCESS);
    /* More bytes than any integer counts, and no such root: what the MPI looks at, nobody else touches. */
    REQUIRE(MPI_Bcast_c(own, (MPI_Count)1 << 62, MPI_LONG, size, MPI_COMM_WORLD) != MPI_SUCCESS);
    REQUIRE(MPI_Bcast_c(own, (MPI_Count)1 << 62, MPI_LONG, 0, MPI_COMM_NULL) != MPI_SUCCESS);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    free(own), free(all);
#else
    if (rank == 0)
        printf("large: there is no such call\n");
#endif
}

int main(int count, char **words)
{
    MPI_Init_thread(&count, &words, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    struct { const char *name; void (*run)(void); } parts[] = {
        {"roots", roots}, {"long", long_ones}, {"worth-it", worth_it}, {"until-fast", until_fast}, {"brief", brief}, {"named", named}, {"derived", derived}, {"constructors", constructors}, {"blocks", blocks}, {"reductions", reductions}, {"communicators", communicators},
        {"in-flight", in_flight}, {"threads", threads}, {"arguments", arguments}, {"price", price}, {"large", large},
        {"lengths", lengths}, {"lengths-of-some", lengths_of_some}, {"differing-twice", differing_twice}, {"late", late}, {"decided", decided}, {"stuck-elsewhere", stuck_elsewhere},
        {"stuck-root", stuck_root}};
    for (int word = 1; word < count; word++)
        for (size_t at = 0; at < sizeof parts / sizeof *parts; at++)
            if (strcmp(words[word], parts[at].name) == 0) {
                parts[at].run();
                if (rank == 0)
                    printf("%s: all is well\n", words[word]), fflush(stdout);
            }
    MPI_Finalize();
    return 0;
}
