/* The program of correct.c with an MPI whose long broadcasts take a second: the drop-in finds this one. */
#define _GNU_SOURCE
#include <dlfcn.h>

#include "correct.c"

int PMPI_Bcast(void *at, int count, MPI_Datatype type, int root, MPI_Comm comm)
{
    int (*own)(void *, int, MPI_Datatype, int, MPI_Comm) = dlsym(RTLD_NEXT, "PMPI_Bcast");
    if (count > 1 << 16)
        sleep(1);
    return own(at, count, type, root, comm);
}
