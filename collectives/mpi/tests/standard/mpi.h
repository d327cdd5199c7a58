/*
 * What `program.c` needs of the MPI standard's own binary interface (MPI 5.0, chapter 20): its names with its numbers, so
 * that one binary runs with any MPI of it.
 */
#ifndef STANDARD_MPI_H
#define STANDARD_MPI_H
#include <stdint.h>

typedef struct MPI_ABI_Comm *MPI_Comm;
typedef struct MPI_ABI_Datatype *MPI_Datatype;
typedef struct MPI_ABI_Request *MPI_Request;
typedef struct MPI_ABI_Errhandler *MPI_Errhandler;
typedef struct MPI_ABI_Op *MPI_Op;
typedef int64_t MPI_Count;
typedef struct MPI_ABI_Status MPI_Status;

#define MPI_COMM_NULL ((MPI_Comm)0x100)
#define MPI_COMM_WORLD ((MPI_Comm)0x101)
#define MPI_COMM_SELF ((MPI_Comm)0x102)
#define MPI_SUM ((MPI_Op)0x21)
#define MPI_MAX ((MPI_Op)0x23)
#define MPI_ERRORS_ARE_FATAL ((MPI_Errhandler)0x141)
#define MPI_ERRORS_RETURN ((MPI_Errhandler)0x143)
#define MPI_REQUEST_NULL ((MPI_Request)0x180)
#define MPI_DATATYPE_NULL ((MPI_Datatype)0x200)
#define MPI_INT ((MPI_Datatype)0x209)
#define MPI_DOUBLE ((MPI_Datatype)0x214)
#define MPI_BYTE ((MPI_Datatype)0x247)
#define MPI_IN_PLACE ((void *)1)
#define MPI_STATUS_IGNORE ((MPI_Status *)0)
#define MPI_SUCCESS 0

int MPI_Init(int *count, char ***words);
int MPI_Finalize(void);
int MPI_Abort(MPI_Comm comm, int code);
int MPI_Comm_rank(MPI_Comm comm, int *rank);
int MPI_Comm_size(MPI_Comm comm, int *size);
int MPI_Comm_dup(MPI_Comm comm, MPI_Comm *made);
int MPI_Comm_split(MPI_Comm comm, int color, int key, MPI_Comm *made);
int MPI_Comm_free(MPI_Comm *comm);
int MPI_Comm_set_errhandler(MPI_Comm comm, MPI_Errhandler handler);
int MPI_Type_vector(int count, int length, int stride, MPI_Datatype of, MPI_Datatype *made);
int MPI_Type_commit(MPI_Datatype *type);
int MPI_Type_free(MPI_Datatype *type);
int MPI_Irecv(void *at, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm, MPI_Request *request);
int MPI_Send(const void *at, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm);
int MPI_Wait(MPI_Request *request, MPI_Status *status);
int MPI_Bcast(void *at, int count, MPI_Datatype type, int root, MPI_Comm comm);
int MPI_Bcast_c(void *at, MPI_Count count, MPI_Datatype type, int root, MPI_Comm comm);
int MPI_Barrier(MPI_Comm comm);
int MPI_Allgather(const void *from, int sent, MPI_Datatype type, void *to, int received, MPI_Datatype as, MPI_Comm comm);
int MPI_Allreduce(const void *from, void *to, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm);
int MPI_Reduce(const void *from, void *to, int count, MPI_Datatype type, MPI_Op op, int root, MPI_Comm comm);
int MPI_Gather(const void *from, int sent, MPI_Datatype type, void *to, int received, MPI_Datatype as, int root,
               MPI_Comm comm);
int MPI_Scatter(const void *from, int sent, MPI_Datatype type, void *to, int received, MPI_Datatype as, int root,
                MPI_Comm comm);
#endif
