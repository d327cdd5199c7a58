/* An MPI of before 3.0, which does not say its version, as a library; and a program of it. Alone, it has nothing to do. */
#ifdef LIBRARY
#define CALL(name, arguments) \
    int PMPI_##name arguments { return 0; } \
    int MPI_##name arguments __attribute__((weak, alias("PMPI_" #name)));
CALL(Init, (int *count, char ***words))
CALL(Bcast, (void *at, int count, int type, int root, int comm))
CALL(Barrier, (int comm))
CALL(Gather, (const void *from, int sent, int type, void *to, int received, int as_type, int root, int comm))
CALL(Finalize, (void))
#else
int MPI_Init(int *count, char ***words);
int MPI_Bcast(void *at, int count, int type, int root, int comm);
int MPI_Barrier(int comm);
int MPI_Gather(const void *from, int sent, int type, void *to, int received, int as_type, int root, int comm);
int MPI_Finalize(void);

int main(int count, char **words)
{
    char byte = 1;
    return MPI_Init(&count, &words) || MPI_Bcast(&byte, 1, 1, 0, 1) || MPI_Barrier(1) ||
           MPI_Gather(&byte, -1, 1, &byte, 1, 1, 7, 0) || MPI_Finalize();
}
#endif
