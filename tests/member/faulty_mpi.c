/* An MPI library whose calls fail, laid before the real one by LD_PRELOAD through MPI's profiling names.
 *
 * $FAULTY_MPI says RANK:CALL:N: the Nth call of that name in that rank of MPI_COMM_WORLD returns MPI_ERR_INTERN and
 * does nothing else. */
#include <mpi.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int fails(const char *call, atomic_int *calls)
{
    const char *said = getenv("FAULTY_MPI");
    int rank = -1, wanted, n;
    char name[64];

    if (!said || sscanf(said, "%d:%63[^:]:%d", &wanted, name, &n) != 3 || strcmp(name, call))
        return 0;
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    return rank == wanted && atomic_fetch_add(calls, 1) + 1 == n;
}

#define FAULTY(name, declared, given)                                            \
    __attribute__((visibility("default"))) int MPI_##name declared               \
    {                                                                            \
        static atomic_int calls;                                                 \
        return fails("MPI_" #name, &calls) ? MPI_ERR_INTERN : PMPI_##name given; \
    }

FAULTY(Isend, (const void *at, int n, MPI_Datatype t, int to, int tag, MPI_Comm comm, MPI_Request *out),
       (at, n, t, to, tag, comm, out))
FAULTY(Irecv, (void *at, int n, MPI_Datatype t, int from, int tag, MPI_Comm comm, MPI_Request *out),
       (at, n, t, from, tag, comm, out))
FAULTY(Test, (MPI_Request * request, int *flag, MPI_Status *status), (request, flag, status))
FAULTY(Iallreduce, (const void *from, void *to, int n, MPI_Datatype t, MPI_Op op, MPI_Comm comm, MPI_Request *out),
       (from, to, n, t, op, comm, out))
FAULTY(Comm_idup, (MPI_Comm comm, MPI_Comm *out, MPI_Request *request), (comm, out, request))
