/* The back end of one MPI: compiled with its mpi.h, by its mpicc (`build`). Calls PMPI only. */
#include "backend.h"
#include <mpi.h>
#include <sched.h>
#include <stdlib.h>

#ifdef OPEN_MPI
#define LIBRARY "Open MPI"
#define COMM(handle) ((MPI_Comm)(handle))
#define TYPE(handle) ((MPI_Datatype)(handle))
#define OP(handle) ((MPI_Op)(handle))
#else
/* MPICH, MVAPICH, Intel MPI: one ABI, whose handles are ints. */
#define LIBRARY "MPICH"
#define COMM(handle) ((MPI_Comm)(int)(handle))
#define TYPE(handle) ((MPI_Datatype)(int)(handle))
#define OP(handle) ((MPI_Op)(int)(handle))
#endif
#define WORD(handle) ((word)(handle))

static int keyval = MPI_KEYVAL_INVALID;
/* Nobody sends here: a receive that never ends is tested so that the messages of others get on. (MPICH's probe does not
   move them.) */
static MPI_Comm nobodys = MPI_COMM_NULL;
static MPI_Request never = MPI_REQUEST_NULL;
static char never_there, is_testing, is_over;
static void (*tell_closed)(void *);

static int on_delete(MPI_Comm comm, int key, void *state, void *extra)
{
    (void)comm, (void)key, (void)extra;
    tell_closed(state);
    return MPI_SUCCESS;
}

/* MPI_Finalize begins with what is kept with MPI_COMM_SELF. */
static int on_finalize(MPI_Comm comm, int key, void *state, void *extra)
{
    (void)comm, (void)key, (void)state, (void)extra;
    is_over = 1;
    PMPI_Cancel(&never);
    PMPI_Wait(&never, MPI_STATUS_IGNORE);
    return PMPI_Comm_free(&nobodys);
}

static int start(void (*closed)(void *))
{
    int at_end = MPI_KEYVAL_INVALID;
    tell_closed = closed;
    int failed = PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, on_delete, &keyval, NULL);
    failed = failed ? failed : PMPI_Comm_dup(MPI_COMM_SELF, &nobodys);
    failed = failed ? failed : PMPI_Irecv(&never_there, 1, MPI_BYTE, 0, 0, nobodys, &never);
    failed = failed ? failed : PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, on_finalize, &at_end, NULL);
    return failed ? failed : PMPI_Comm_set_attr(MPI_COMM_SELF, at_end, NULL);
}

static int world(int *rank)
{
    int size = 0;
    PMPI_Comm_rank(MPI_COMM_WORLD, rank);
    return PMPI_Comm_size(MPI_COMM_WORLD, &size) == MPI_SUCCESS ? size : 0;
}

static int is_of_world(word handle)
{
    MPI_Group all = MPI_GROUP_NULL, group = MPI_GROUP_NULL;
    int size = 0, holds;
    PMPI_Comm_group(MPI_COMM_WORLD, &all);
    PMPI_Comm_group(COMM(handle), &group);
    PMPI_Group_size(group, &size);
    int *ranks = malloc(2 * sizeof *ranks * (size_t)size + 1);
    holds = ranks != NULL;
    for (int at = 0; holds && at < size; at++)
        ranks[at] = at;
    holds = holds && PMPI_Group_translate_ranks(group, size, ranks, all, ranks + size) == MPI_SUCCESS;
    for (int at = 0; holds && at < size; at++)
        holds = ranks[size + at] != MPI_UNDEFINED;
    free(ranks);
    PMPI_Group_free(&all);
    PMPI_Group_free(&group);
    return holds;
}

static int look(word handle, void **state, int *rank, int *size)
{
    MPI_Comm comm = COMM(handle);
    int found = 0;
    /* No MPI has a communicator at 0: its own call is to complain, not what it is asked here. */
    if (comm == MPI_COMM_NULL || handle == 0)
        return LOOK_NULL;
    /* MPI_Finalize has begun: communicators of sessions may go on. */
    if (is_over)
        return LOOK_NOT_NOW;
    if (keyval != MPI_KEYVAL_INVALID) {
        /* One that is no communicator is for the MPI to complain about. */
        if (PMPI_Comm_get_attr(comm, keyval, state, &found) != MPI_SUCCESS)
            return LOOK_NULL;
        if (found)
            return LOOK_KNOWN;
    }
    int is_inter = 0;
    if (PMPI_Comm_test_inter(comm, &is_inter) != MPI_SUCCESS)
        return LOOK_NULL;
    if (is_inter)
        return LOOK_INTER;
    PMPI_Comm_rank(comm, rank);
    PMPI_Comm_size(comm, size);
    return LOOK_NEW;
}

static int keep(word comm, void *state)
{
    return PMPI_Comm_set_attr(COMM(comm), keyval, state);
}

static int type(word handle, int64_t *bytes, int64_t *extent, int *is_plain)
{
    MPI_Datatype type = TYPE(handle);
    if (type == MPI_DATATYPE_NULL)
        return -1;
    int integers, addresses, types, combiner;
    MPI_Count size;
    MPI_Aint lower, width;
    int failed = PMPI_Type_get_envelope(type, &integers, &addresses, &types, &combiner);
    failed = failed ? failed : PMPI_Type_size_x(type, &size);
    failed = failed ? failed : PMPI_Type_get_extent(type, &lower, &width);
    if (failed || size < 0)
        return -1;
    *bytes = size;
    *extent = width;
    *is_plain = combiner == MPI_COMBINER_NAMED && lower == 0 && width == size;
    return 0;
}

static int is_one_of(MPI_Datatype type, const MPI_Datatype *types, size_t count)
{
    while (count > 0)
        if (type == types[--count])
            return 1;
    return 0;
}

static int numbers(word handle)
{
    const MPI_Datatype with_sign[] = {
        MPI_SIGNED_CHAR, MPI_SHORT, MPI_INT, MPI_LONG, MPI_LONG_LONG, MPI_INT8_T, MPI_INT16_T, MPI_INT32_T, MPI_INT64_T,
        MPI_INTEGER, MPI_INTEGER1, MPI_INTEGER2, MPI_INTEGER4, MPI_INTEGER8};
    const MPI_Datatype without[] = {
        MPI_UNSIGNED_CHAR, MPI_UNSIGNED_SHORT, MPI_UNSIGNED, MPI_UNSIGNED_LONG, MPI_UNSIGNED_LONG_LONG, MPI_UINT8_T,
        MPI_UINT16_T, MPI_UINT32_T, MPI_UINT64_T};
    const MPI_Datatype floats[] = {MPI_FLOAT, MPI_DOUBLE, MPI_REAL, MPI_DOUBLE_PRECISION, MPI_REAL4, MPI_REAL8};
    MPI_Datatype type = TYPE(handle);
    /* What this MPI was built without may be the null type. Offsets are left out, as are addresses and counts: Open MPI
       compares them as if they had no sign. */
    if (type == MPI_DATATYPE_NULL)
        return NUMBERS_NONE;
    if (is_one_of(type, with_sign, sizeof with_sign / sizeof *with_sign))
        return NUMBERS_SIGNED;
    if (is_one_of(type, without, sizeof without / sizeof *without))
        return NUMBERS_UNSIGNED;
    return is_one_of(type, floats, sizeof floats / sizeof *floats) ? NUMBERS_FLOAT : NUMBERS_NONE;
}

static int function(word handle)
{
    MPI_Op op = OP(handle);
    return op == MPI_SUM ? FUNCTION_SUM : op == MPI_MIN ? FUNCTION_MIN : op == MPI_MAX ? FUNCTION_MAX : FUNCTION_NONE;
}

static int pack(word comm, word type, int64_t count, const void *from, void *to, int64_t bytes)
{
    int at = 0;
    int failed = PMPI_Pack(from, (int)count, TYPE(type), to, (int)bytes, &at, COMM(comm));
    return failed ? failed : at != bytes;
}

static int unpack(word comm, word type, int64_t count, void *to, const void *from, int64_t bytes)
{
    int at = 0;
    return PMPI_Unpack(from, (int)bytes, &at, to, (int)count, TYPE(type), COMM(comm));
}

static int is_in_place(const void *address)
{
    return address == MPI_IN_PLACE;
}

static int is_bottom(const void *address)
{
    return address == MPI_BOTTOM;
}

static int allgather(word comm, const void *own, void *all, int bytes)
{
    return PMPI_Allgather(own, bytes, MPI_BYTE, all, bytes, MPI_BYTE, COMM(comm));
}

static int gather(word comm, const void *own, void *all, int bytes, int root)
{
    return PMPI_Gather(own, bytes, MPI_BYTE, all, bytes, MPI_BYTE, root, COMM(comm));
}

static int scatter(word comm, const void *all, void *own, int bytes, int root)
{
    return PMPI_Scatter(all, bytes, MPI_BYTE, own, bytes, MPI_BYTE, root, COMM(comm));
}

static int least(word comm, int own, int *least)
{
    return PMPI_Allreduce(&own, least, 1, MPI_INT, MPI_MIN, COMM(comm));
}

static int broadcast(word comm, void *buffer, int bytes, int root)
{
    return PMPI_Bcast(buffer, bytes, MPI_BYTE, root, COMM(comm));
}

static int barrier(word comm)
{
    return PMPI_Barrier(COMM(comm));
}

/* Tests until it is done; others of this host wait meanwhile, perhaps on this core. */
static int watched(int begun, MPI_Request *request, int (*goes_on)(void *), void *state)
{
    int is_done = 0;
    if (begun != MPI_SUCCESS)
        return begun;
    for (unsigned turn = 0;; turn++) {
        int failed = PMPI_Test(request, &is_done, MPI_STATUS_IGNORE);
        if (failed != MPI_SUCCESS || is_done)
            return failed;
        if (turn % 64 == 63 && !goes_on(state))
            return FAILURE_GIVEN_UP;
        if (turn > 16)
            sched_yield();
    }
}

static int watched_broadcast(word comm, void *buffer, int bytes, int root, int (*goes_on)(void *), void *state)
{
    MPI_Request request = MPI_REQUEST_NULL;
    return watched(PMPI_Ibcast(buffer, bytes, MPI_BYTE, root, COMM(comm), &request), &request, goes_on, state);
}

static int watched_barrier(word comm, int (*goes_on)(void *), void *state)
{
    MPI_Request request = MPI_REQUEST_NULL;
    return watched(PMPI_Ibarrier(COMM(comm), &request), &request, goes_on, state);
}

static int split(word comm, int color, int key, word *part)
{
    MPI_Comm made = MPI_COMM_NULL;
    int failed = PMPI_Comm_split(COMM(comm), color, key, &made);
    *part = WORD(made);
    return failed;
}

static int release(word comm)
{
    MPI_Comm gone = COMM(comm);
    return PMPI_Comm_free(&gone);
}

static void progress(void)
{
    int is_there;
    /* One thread at a time is enough for all, and as many as may test a request. */
    if (__atomic_test_and_set(&is_testing, __ATOMIC_ACQUIRE))
        return;
    PMPI_Test(&never, &is_there, MPI_STATUS_IGNORE);
    __atomic_clear(&is_testing, __ATOMIC_RELEASE);
}

static int fail(word comm, int failure)
{
    int code = failure == FAILURE_TRUNCATED ? MPI_ERR_TRUNCATE : MPI_ERR_OTHER;
    PMPI_Comm_call_errhandler(COMM(comm), code);
    return code;
}

static word comm_of_fortran(int handle)
{
    return WORD(PMPI_Comm_f2c(handle));
}

static word type_of_fortran(int handle)
{
    return WORD(PMPI_Type_f2c(handle));
}

static word op_of_fortran(int handle)
{
    return WORD(PMPI_Op_f2c(handle));
}

const struct ethbcast_mpi_table ethbcast_mpi_backend = {
    .version = ETHBCAST_MPI_TABLE_VERSION,
    .library = LIBRARY,
    .start = start,
    .world = world,
    .is_of_world = is_of_world,
    .look = look,
    .keep = keep,
    .type = type,
    .numbers = numbers,
    .function = function,
    .pack = pack,
    .unpack = unpack,
    .is_in_place = is_in_place,
    .is_bottom = is_bottom,
    .allgather = allgather,
    .gather = gather,
    .scatter = scatter,
    .least = least,
    .broadcast = broadcast,
    .barrier = barrier,
    .watched_broadcast = watched_broadcast,
    .watched_barrier = watched_barrier,
    .split = split,
    .release = release,
    .progress = progress,
    .fail = fail,
    .comm_of_fortran = comm_of_fortran,
    .type_of_fortran = type_of_fortran,
    .op_of_fortran = op_of_fortran,
};
