/*
 * What is rare and legal: `edges WHAT...`. Every rank checks what it has got, and rank 0 prints "WHAT: all is well".
 * "sessions" comes first, before MPI_Init.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank, size;
static const char *own_path;

#define REQUIRE(holds) \
    do { \
        if (!(holds)) { \
            fprintf(stderr, "rank %d, line %d: %s\n", rank, __LINE__, #holds); \
            exit(99); \
        } \
    } while (0)

/* Several broadcasts and barriers, so that a communicator that is worth it is wired. */
static void used(MPI_Comm comm)
{
    int own, all, words[1000];
    MPI_Comm_rank(comm, &own);
    MPI_Comm_size(comm, &all);
    for (int root = 0; root < all; root++) {
        for (int at = 0; at < 1000; at++)
            words[at] = own == root ? at + root : -1;
        REQUIRE(MPI_Bcast(words, 1000, MPI_INT, root, comm) == MPI_SUCCESS);
        for (int at = 0; at < 1000; at++)
            REQUIRE(words[at] == at + root);
        REQUIRE(MPI_Barrier(comm) == MPI_SUCCESS);
    }
}

static void sessions(void)
{
#if MPI_VERSION >= 4
    MPI_Session session;
    MPI_Group group;
    MPI_Comm comm;
    REQUIRE(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session) == MPI_SUCCESS);
    MPI_Group_from_session_pset(session, "mpi://WORLD", &group);
    MPI_Comm_create_from_group(group, "edges", MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &comm);
    MPI_Comm_rank(comm, &rank);
    used(comm);
    MPI_Comm_free(&comm), MPI_Group_free(&group), MPI_Session_finalize(&session);
#else
    printf("sessions: there is no such call\n");
#endif
}

/* Absolute addresses, in two buffers that lie apart, and as blocks. */
static void bottom(void)
{
    int n = 500, *one = malloc(2000), *other = malloc(2000), *all = malloc(4000 * size), *blocks = malloc(4000 * size);
    int lengths[2] = {n, n};
    MPI_Aint places[2];
    MPI_Datatype both, every;
    MPI_Get_address(one, &places[0]);
    MPI_Get_address(other, &places[1]);
    MPI_Type_create_hindexed(2, lengths, places, MPI_INT, &both);
    MPI_Type_commit(&both);
    for (int root = 0; root < size; root++) {
        for (int at = 0; at < n; at++)
            one[at] = rank == root ? at + root : -1, other[at] = rank == root ? at - root : -1;
        REQUIRE(MPI_Bcast(MPI_BOTTOM, 1, both, root, MPI_COMM_WORLD) == MPI_SUCCESS);
        for (int at = 0; at < n; at++)
            REQUIRE(one[at] == at + root && other[at] == at - root);
        one[0] = rank;
        REQUIRE(MPI_Allgather(MPI_BOTTOM, 1, both, all, 2 * n, MPI_INT, MPI_COMM_WORLD) == MPI_SUCCESS);
        for (int from = 0; from < size; from++)
            REQUIRE(all[from * 2 * n] == from && all[from * 2 * n + n + 3] == 3 - root);
        one[1] = rank * 7;
        REQUIRE(MPI_Gather(MPI_BOTTOM, 1, both, blocks, 2 * n, MPI_INT, root, MPI_COMM_WORLD) == MPI_SUCCESS);
        REQUIRE(rank != root || blocks[(size - 1) * 2 * n + 1] == (size - 1) * 7);
        all[rank * 2 * n + 1] = 11;
        REQUIRE(MPI_Scatter(all, 2 * n, MPI_INT, MPI_BOTTOM, 1, both, root, MPI_COMM_WORLD) == MPI_SUCCESS);
        REQUIRE(one[0] == rank && one[1] == (rank == root ? 11 : 1 + root) && other[3] == 3 - root);
    }
    MPI_Get_address(all, &places[0]);
    MPI_Type_create_hindexed(1, (int[]){2 * n * size}, places, MPI_INT, &every);
    MPI_Type_commit(&every);
    for (int at = 0; at < 2 * n * size; at++)
        all[at] = rank == 1 ? at : -1;
    REQUIRE(MPI_Bcast(MPI_BOTTOM, 1, every, 1, MPI_COMM_WORLD) == MPI_SUCCESS);
    REQUIRE(all[0] == 0 && all[2 * n * size - 1] == 2 * n * size - 1);
    MPI_Type_free(&both), MPI_Type_free(&every);
    free(one), free(other), free(all), free(blocks);
}

/* Programs for several MPIs take the long forms where they find them, and others where not. */
static void looked_up(void)
{
    int (*bcast)(void *, MPI_Count, MPI_Datatype, int, MPI_Comm) = dlsym(RTLD_DEFAULT, "MPI_Bcast_c");
    int (*gather)(const void *, MPI_Count, MPI_Datatype, void *, MPI_Count, MPI_Datatype, int, MPI_Comm) =
        dlsym(RTLD_DEFAULT, "MPI_Gather_c");
    int (*scatter)(const void *, MPI_Count, MPI_Datatype, void *, MPI_Count, MPI_Datatype, int, MPI_Comm) =
        dlsym(RTLD_DEFAULT, "MPI_Scatter_c");
    int (*allgather)(const void *, MPI_Count, MPI_Datatype, void *, MPI_Count, MPI_Datatype, MPI_Comm) =
        dlsym(RTLD_DEFAULT, "MPI_Allgather_c");
    int (*allreduce)(const void *, void *, MPI_Count, MPI_Datatype, MPI_Op, MPI_Comm) =
        dlsym(RTLD_DEFAULT, "MPI_Allreduce_c");
    int (*reduce)(const void *, void *, MPI_Count, MPI_Datatype, MPI_Op, int, MPI_Comm) =
        dlsym(RTLD_DEFAULT, "MPI_Reduce_c");
    int words[1000], *all = calloc(1000 * size, sizeof(int));
    MPI_Comm comms[] = {MPI_COMM_WORLD, MPI_COMM_SELF};
    for (int turn = 0; turn < 2; turn++) {
        int own = turn == 0 ? rank : 0, last = turn == 0 ? size - 1 : 0;
        for (int at = 0; at < 1000; at++)
            words[at] = own == 0 ? at : -1;
        REQUIRE((bcast ? bcast(words, 1000, MPI_INT, 0, comms[turn]) : MPI_Bcast(words, 1000, MPI_INT, 0, comms[turn])) == 0);
        REQUIRE(words[0] == 0 && words[999] == 999);
        words[1] = own;
        if (gather && scatter && allgather) {
            REQUIRE(allgather(words, 1000, MPI_INT, all, 1000, MPI_INT, comms[turn]) == MPI_SUCCESS);
            REQUIRE(all[last * 1000 + 1] == last && all[last * 1000 + 999] == 999);
            memset(all, 0, 4000);
            REQUIRE(gather(words, 1000, MPI_INT, all, 1000, MPI_INT, 0, comms[turn]) == MPI_SUCCESS);
            REQUIRE(own != 0 || all[last * 1000 + 1] == last);
            REQUIRE(scatter(all, 1000, MPI_INT, words, 1000, MPI_INT, 0, comms[turn]) == MPI_SUCCESS);
            REQUIRE(words[1] == own && words[999] == 999);
        }
        if (allreduce && reduce) {
            REQUIRE(allreduce(words, all, 1000, MPI_INT, MPI_MAX, comms[turn]) == MPI_SUCCESS);
            REQUIRE(all[0] == 0 && all[1] == last && all[999] == 999);
            REQUIRE(allreduce(MPI_IN_PLACE, words, 1000, MPI_INT, MPI_BOR, comms[turn]) == MPI_SUCCESS);
            REQUIRE(words[998] == 998);
            REQUIRE(reduce(own == 0 ? MPI_IN_PLACE : all, all, 1000, MPI_INT, MPI_SUM, 0, comms[turn]) == MPI_SUCCESS);
            REQUIRE(own != 0 || all[999] == 999 * (last + 1));
        }
        /* More elements than an int counts, none of which has a byte. */
        MPI_Datatype nothing;
        MPI_Type_contiguous(0, MPI_INT, &nothing);
        MPI_Type_commit(&nothing);
        REQUIRE(!bcast || bcast(words, ((MPI_Count)1 << 31) + 7, nothing, 0, comms[turn]) == MPI_SUCCESS);
        MPI_Type_free(&nothing);
    }
    free(all);
}

/* Communicators made from groups, by all ranks and by their members only. */
static void groups(void)
{
    int members[] = {0, size - 1, size - 2};
    MPI_Group world, some;
    MPI_Comm made;
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_incl(world, 3, members, &some);
    int own;
    MPI_Group_rank(some, &own);
    if (own != MPI_UNDEFINED) {
        MPI_Comm_create_group(MPI_COMM_WORLD, some, 5, &made);
        used(made);
        MPI_Comm_free(&made);
    }
    MPI_Comm_create(MPI_COMM_WORLD, some, &made);
    if (made != MPI_COMM_NULL) {
        used(made);
        MPI_Comm_free(&made);
    }
    MPI_Group_free(&some), MPI_Group_free(&world);
}

/* Processes that come later, beside those of the first world and together with them. */
static void spawned(void)
{
    MPI_Comm parent, children, merged;
    char *words[] = {"spawned", NULL};
    MPI_Comm_get_parent(&parent);
    if (parent == MPI_COMM_NULL)
        MPI_Comm_spawn(own_path, words, 2, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &children, MPI_ERRCODES_IGNORE);
    else
        children = parent;
    used(MPI_COMM_WORLD);
    MPI_Intercomm_merge(children, parent != MPI_COMM_NULL, &merged);
    used(merged);
    MPI_Comm_free(&merged);
    MPI_Comm_disconnect(&children);
    rank += parent != MPI_COMM_NULL ? 1000 : 0;
}

int main(int count, char **words)
{
    own_path = words[0];
    if (count > 1 && strcmp(words[1], "sessions") == 0) {
        sessions();
        if (rank == 0)
            printf("sessions: all is well\n"), fflush(stdout);
    }
    if (count == 2 && strcmp(words[1], "sessions") == 0)
        return 0;
    MPI_Init(&count, &words);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    struct { const char *name; void (*run)(void); } parts[] = {
        {"bottom", bottom}, {"looked-up", looked_up}, {"groups", groups}, {"spawned", spawned}};
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
