/*
 * What the front asks of an MPI, whatever its mpi.h says of handles and constants. A handle travels as a word: an int in
 * its lower half with MPICH, a pointer with Open MPI. `src/table.rs` has the same table; both sides compare VERSION.
 */
#ifndef ETHBCAST_MPI_BACKEND_H
#define ETHBCAST_MPI_BACKEND_H

#include <stdint.h>

typedef uintptr_t word;

enum { ETHBCAST_MPI_TABLE_VERSION = 4 };

/* What a communicator is to the front. */
enum look { LOOK_KNOWN, LOOK_NEW, LOOK_NULL, LOOK_NOT_NOW, LOOK_INTER };

/* What a reduction combines, and how; none where it is something else. */
enum numbers { NUMBERS_NONE, NUMBERS_SIGNED, NUMBERS_UNSIGNED, NUMBERS_FLOAT };
enum function { FUNCTION_NONE, FUNCTION_SUM, FUNCTION_MIN, FUNCTION_MAX };

/* What a failure is called. */
enum failure { FAILURE_OTHER, FAILURE_TRUNCATED };

/* What no MPI's function returns. */
enum { FAILURE_GIVEN_UP = -1 };

struct ethbcast_mpi_table {
    uint32_t version;
    /* The beginning of what MPI_Get_library_version says of the MPI that this back end was compiled for. */
    const char *library;

    /* Once, at the first collective; `closed` is called with its state when a communicator is freed. 0 if all is well. */
    int (*start)(void (*closed)(void *));
    /* How many processes MPI_COMM_WORLD has, and which of them this one is. */
    int (*world)(int *rank);
    /* Whether all processes of a communicator are of MPI_COMM_WORLD: others may have joined later. */
    int (*is_of_world)(word comm);
    /* The state that was kept with a communicator, its rank and size. */
    int (*look)(word comm, void **state, int *rank, int *size);
    int (*keep)(word comm, void *state);

    /* Bytes and extent of one element, and whether elements lie without gaps from the address on; not 0 if there is no
     * such type. */
    int (*type)(word type, int64_t *bytes, int64_t *extent, int *is_plain);
    /* The numbers of a predefined type, and a predefined function of them. */
    int (*numbers)(word type);
    int (*function)(word op);
    int (*pack)(word comm, word type, int64_t count, const void *from, void *to, int64_t bytes);
    int (*unpack)(word comm, word type, int64_t count, void *to, const void *from, int64_t bytes);
    int (*is_in_place)(const void *address);
    int (*is_bottom)(const void *address);

    /* The MPI's own collectives, of bytes: `bytes` is the length of a block. */
    int (*allgather)(word comm, const void *own, void *all, int bytes);
    int (*gather)(word comm, const void *own, void *all, int bytes, int root);
    int (*scatter)(word comm, const void *all, void *own, int bytes, int root);
    int (*least)(word comm, int own, int *least);
    int (*broadcast)(word comm, void *buffer, int bytes, int root);
    int (*barrier)(word comm);
    /* A broadcast and a barrier that wait as long as `goes_on` says so; FAILURE_GIVEN_UP if it does not. */
    int (*watched_broadcast)(word comm, void *buffer, int bytes, int root, int (*goes_on)(void *), void *state);
    int (*watched_barrier)(word comm, int (*goes_on)(void *), void *state);
    int (*split)(word comm, int color, int key, word *part);
    int (*release)(word comm);

    /* Lets the MPI go on with what is on its way. */
    void (*progress)(void);
    /* Calls the communicator's error handler; the error's code. */
    int (*fail)(word comm, int failure);

    word (*comm_of_fortran)(int handle);
    word (*type_of_fortran)(int handle);
    word (*op_of_fortran)(int handle);
};

__attribute__((visibility("default"))) extern const struct ethbcast_mpi_table ethbcast_mpi_backend;

#endif
