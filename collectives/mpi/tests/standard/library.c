/*
 * The standard's binary interface on MPICH's own library: what `program.c` and the back end call, with handles and
 * constants turned from one into the other. It stands in for an MPI of that interface where there is none.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

typedef uintptr_t word;
#define FIRST_HANDLE 0x1000 /* Below it are the standard's constants; MPICH's own handles are all beyond. */

/* A function of MPICH's: found in that library only, for the names of this one are the same. */
static void *find(const char *name)
{
    static void *mpich;
    if (mpich == NULL)
        mpich = dlopen("libmpich.so.12", RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
    void *found = mpich == NULL ? NULL : dlsym(mpich, name);
    if (found == NULL) {
        fprintf(stderr, "no %s in MPICH's library: %s\n", name, dlerror());
        abort();
    }
    return found;
}
#define OWN(name) ((__typeof__(&name))find(#name))

static MPI_Comm comm_of(word handle)
{
    return handle == 0x101 ? MPI_COMM_WORLD : handle == 0x102 ? MPI_COMM_SELF : handle < FIRST_HANDLE ? MPI_COMM_NULL
                                                                                            : (MPI_Comm)handle;
}

static word of_comm(MPI_Comm comm)
{
    return comm == MPI_COMM_NULL ? 0x100 : (word)(unsigned)comm;
}

static MPI_Datatype type_of(word handle)
{
    switch (handle) {
    case 0x209: return MPI_INT;
    case 0x214: return MPI_DOUBLE;
    case 0x247: return MPI_BYTE;
    default: return handle < FIRST_HANDLE ? MPI_DATATYPE_NULL : (MPI_Datatype)handle;
    }
}

static MPI_Op op_of(word handle)
{
    return handle == 0x21 ? MPI_SUM : handle == 0x22 ? MPI_MIN : handle == 0x23 ? MPI_MAX : MPI_OP_NULL;
}

static MPI_Request request_of(word handle)
{
    return handle == 0x180 ? MPI_REQUEST_NULL : (MPI_Request)handle;
}

static word of_request(MPI_Request request)
{
    return request == MPI_REQUEST_NULL ? 0x180 : (word)(unsigned)request;
}

static void *at_of(const void *at)
{
    return at == (void *)1 ? MPI_IN_PLACE : (void *)(word)at;
}

/* A callback of the standard's, and what it is called with. */
typedef int on_delete(word comm, int key, void *state, void *extra);
static on_delete *callbacks[8];
static int callback_count;

static int deleted(MPI_Comm comm, int key, void *state, void *number)
{
    return callbacks[(word)number](of_comm(comm), key, state, NULL);
}

/* Each function by both of its names, which the header has for MPICH's. */
#define CALL(name, arguments, ...) \
    int standard_##name arguments __asm__("PMPI_" #name); \
    int weak_##name arguments __asm__("MPI_" #name) __attribute__((weak, alias("PMPI_" #name))); \
    int standard_##name arguments { __VA_ARGS__ }
#define MADE(type, own, call, into, turn) type own; int code = call; if (code == 0) *(into) = turn(own); return code;

CALL(Init, (int *count, char ***words), return OWN(PMPI_Init)(count, words);)
CALL(Finalize, (void), return OWN(PMPI_Finalize)();)
CALL(Initialized, (int *is_so), return OWN(PMPI_Initialized)(is_so);)
CALL(Finalized, (int *is_so), return OWN(PMPI_Finalized)(is_so);)
CALL(Abort, (word comm, int code), return OWN(PMPI_Abort)(comm_of(comm), code);)
CALL(Abi_get_version, (int *major, int *minor), *major = 1; *minor = 0; return 0;)
CALL(Get_library_version, (char *text, int *length), *length = sprintf(text, "a stand-in for the standard's"); return 0;)
CALL(Comm_rank, (word comm, int *rank), return OWN(PMPI_Comm_rank)(comm_of(comm), rank);)
CALL(Comm_size, (word comm, int *size), return OWN(PMPI_Comm_size)(comm_of(comm), size);)
CALL(Comm_dup, (word comm, word *made), MADE(MPI_Comm, own, OWN(PMPI_Comm_dup)(comm_of(comm), &own), made, of_comm))
CALL(Comm_split, (word comm, int color, int key, word *made),
     MADE(MPI_Comm, own, OWN(PMPI_Comm_split)(comm_of(comm), color, key, &own), made, of_comm))
CALL(Comm_free, (word *comm), MPI_Comm own = comm_of(*comm); *comm = 0x100; return OWN(PMPI_Comm_free)(&own);)
CALL(Comm_test_inter, (word comm, int *is_so), return OWN(PMPI_Comm_test_inter)(comm_of(comm), is_so);)
CALL(Comm_group, (word comm, word *made), MADE(MPI_Group, own, OWN(PMPI_Comm_group)(comm_of(comm), &own), made, (word)(unsigned)))
CALL(Group_free, (word *group), MPI_Group own = (MPI_Group)*group; return OWN(PMPI_Group_free)(&own);)
CALL(Group_translate_ranks, (word of, int count, const int *ranks, word to, int *theirs),
     int code = OWN(PMPI_Group_translate_ranks)((MPI_Group)of, count, ranks, (MPI_Group)to, theirs);
     for (int at = 0; at < count; at++) theirs[at] = theirs[at] == MPI_UNDEFINED ? -32766 : theirs[at];
     return code;)
CALL(Comm_set_errhandler, (word comm, word handler),
     return OWN(PMPI_Comm_set_errhandler)(comm_of(comm), handler == 0x143 ? MPI_ERRORS_RETURN : MPI_ERRORS_ARE_FATAL);)
CALL(Comm_call_errhandler, (word comm, int code),
     return OWN(PMPI_Comm_call_errhandler)(comm_of(comm), code == 15 ? MPI_ERR_TRUNCATE : MPI_ERR_OTHER);)
CALL(Comm_create_keyval, (word copy, on_delete *delete, int *key, word extra),
     (void)copy; (void)extra; callbacks[callback_count] = delete;
     return OWN(PMPI_Comm_create_keyval)(MPI_COMM_NULL_COPY_FN, deleted, key, (void *)(word)callback_count++);)
CALL(Comm_get_attr, (word comm, int key, void *state, int *is_there),
     return OWN(PMPI_Comm_get_attr)(comm_of(comm), key, state, is_there);)
CALL(Comm_set_attr, (word comm, int key, void *state), return OWN(PMPI_Comm_set_attr)(comm_of(comm), key, state);)
CALL(Type_vector, (int count, int length, int stride, word of, word *made),
     MADE(MPI_Datatype, own, OWN(PMPI_Type_vector)(count, length, stride, type_of(of), &own), made, (word)(unsigned)))
CALL(Type_commit, (word *type), MPI_Datatype own = type_of(*type); return OWN(PMPI_Type_commit)(&own);)
CALL(Type_free, (word *type), MPI_Datatype own = type_of(*type); *type = 0x200; return OWN(PMPI_Type_free)(&own);)
CALL(Type_size_c, (word type, int64_t *bytes), MPI_Count own; int code = OWN(PMPI_Type_size_x)(type_of(type), &own);
     *bytes = own; return code;)
CALL(Type_get_extent_c, (word type, int64_t *lower, int64_t *extent), MPI_Count low, wide;
     int code = OWN(PMPI_Type_get_extent_x)(type_of(type), &low, &wide); *lower = low; *extent = wide; return code;)
CALL(Type_get_envelope, (word type, int *integers, int *addresses, int *types, int *combiner),
     int code = OWN(PMPI_Type_get_envelope)(type_of(type), integers, addresses, types, combiner);
     *combiner = *combiner == MPI_COMBINER_NAMED ? 101 : 102; return code;)
CALL(Pack_c, (const void *from, int64_t count, word type, void *to, int64_t room, int64_t *at, word comm), int place = (int)*at;
     int code = OWN(PMPI_Pack)(from, (int)count, type_of(type), to, (int)room, &place, comm_of(comm)); *at = place; return code;)
CALL(Unpack_c, (const void *from, int64_t room, int64_t *at, void *to, int64_t count, word type, word comm), int place = (int)*at;
     int code = OWN(PMPI_Unpack)(from, (int)room, &place, to, (int)count, type_of(type), comm_of(comm)); *at = place; return code;)
CALL(Irecv, (void *at, int count, word type, int from, int tag, word comm, word *request),
     MADE(MPI_Request, own, OWN(PMPI_Irecv)(at, count, type_of(type), from, tag, comm_of(comm), &own), request, of_request))
CALL(Send, (const void *at, int count, word type, int to, int tag, word comm),
     return OWN(PMPI_Send)(at, count, type_of(type), to, tag, comm_of(comm));)
CALL(Test, (word *request, int *is_done, void *status), MPI_Request own = request_of(*request); (void)status;
     int code = OWN(PMPI_Test)(&own, is_done, MPI_STATUS_IGNORE); *request = of_request(own); return code;)
CALL(Wait, (word *request, void *status), MPI_Request own = request_of(*request); (void)status;
     int code = OWN(PMPI_Wait)(&own, MPI_STATUS_IGNORE); *request = of_request(own); return code;)
CALL(Cancel, (word *request), MPI_Request own = request_of(*request); return OWN(PMPI_Cancel)(&own);)
CALL(Bcast, (void *at, int count, word type, int root, word comm),
     return OWN(PMPI_Bcast)(at, count, type_of(type), root, comm_of(comm));)
CALL(Bcast_c, (void *at, int64_t count, word type, int root, word comm),
     return OWN(PMPI_Bcast)(at, (int)count, type_of(type), root, comm_of(comm));)
CALL(Ibcast, (void *at, int count, word type, int root, word comm, word *request),
     MADE(MPI_Request, own, OWN(PMPI_Ibcast)(at, count, type_of(type), root, comm_of(comm), &own), request, of_request))
CALL(Barrier, (word comm), return OWN(PMPI_Barrier)(comm_of(comm));)
CALL(Ibarrier, (word comm, word *request),
     MADE(MPI_Request, own, OWN(PMPI_Ibarrier)(comm_of(comm), &own), request, of_request))
CALL(Allreduce, (const void *from, void *to, int count, word type, word op, word comm),
     return OWN(PMPI_Allreduce)(at_of(from), to, count, type_of(type), op_of(op), comm_of(comm));)
CALL(Reduce, (const void *from, void *to, int count, word type, word op, int root, word comm),
     return OWN(PMPI_Reduce)(at_of(from), to, count, type_of(type), op_of(op), root, comm_of(comm));)
CALL(Allgather, (const void *from, int sent, word type, void *to, int received, word as, word comm),
     return OWN(PMPI_Allgather)(at_of(from), sent, type_of(type), to, received, type_of(as), comm_of(comm));)
CALL(Gather, (const void *from, int sent, word type, void *to, int received, word as, int root, word comm),
     return OWN(PMPI_Gather)(at_of(from), sent, type_of(type), to, received, type_of(as), root, comm_of(comm));)
CALL(Scatter, (const void *from, int sent, word type, void *to, int received, word as, int root, word comm),
     return OWN(PMPI_Scatter)(from, sent, type_of(type), at_of(to), received, type_of(as), root, comm_of(comm));)
