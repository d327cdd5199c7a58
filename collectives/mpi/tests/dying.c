/*
 * A rank dies in the middle of broadcasts: `dying RANK DIRECTORY`. Every other one is told by its communicator's error
 * handler, leaves a file and ends; whoever hangs is ended by the test's limit. Files, because Hydra takes no more words
 * of a host where a rank has died.
 */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>
#include <unistd.h>

static int rank;
static const char *directory;

static void told(MPI_Comm *comm, int *code, ...)
{
    char path[4096];
    int kind;
    (void)comm;
    MPI_Error_class(*code, &kind);
    snprintf(path, sizeof path, "%s/%s-%d", directory, kind == MPI_ERR_OTHER ? "other" : "unknown", rank);
    fclose(fopen(path, "w"));
    /* Without MPI_Finalize, which would wait for the dead. */
    _exit(0);
}

int main(int count, char **words)
{
    enum { BYTES = 1 << 20 };
    char *bytes = calloc(BYTES, 1);
    MPI_Errhandler handler;
    MPI_Comm made;
    directory = words[2];
    MPI_Init(&count, &words);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_dup(MPI_COMM_WORLD, &made);
    MPI_Comm_create_errhandler(told, &handler);
    MPI_Comm_set_errhandler(made, handler);
    MPI_Bcast(bytes, BYTES, MPI_BYTE, 0, made);
    MPI_Barrier(made);
    if (rank == atoi(words[1])) {
        /* SIGALRM ends the process wherever it is then, and no handler runs. */
        struct itimerval soon = {.it_value = {.tv_usec = 150000}};
        signal(SIGALRM, SIG_DFL);
        setitimer(ITIMER_REAL, &soon, NULL);
    }
    for (;;)
        MPI_Bcast(bytes, BYTES, MPI_BYTE, 0, made);
}
