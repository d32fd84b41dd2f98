/* An MPI library that fails and keeps watch, laid before the real one by LD_PRELOAD through MPI's profiling names.
 *
 * - $FAULTY_MPI says RANK:CALL:N: the Nth call of that name in that rank of MPI_COMM_WORLD returns MPI_ERR_INTERN and
 *   does nothing else.
 * - $HALT: tests/member/halt.h.
 * - A call that waits, and a message above 1 MiB, end the process with status 97, which is said.
 * - $MPI_DIARY names a file to which MPI_Finalize, MPI_Abort and how many messages were sent are written. */
#include <mpi.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/member/halt.h"

enum { MOST = 1 << 20, HEAD = 16, BESIDE = 2048 - HEAD /* what fits beside the head */ };

static void tell(const char *what, long long n)
{
    const char *diary = getenv("MPI_DIARY");
    FILE *f = diary ? fopen(diary, "a") : NULL;

    if (f) {
        fprintf(f, "rank %d: %s %lld\n", halt_rank(), what, n);
        fclose(f);
    }
}

static void forbid(const char *what, long long n)
{
    fprintf(stderr, "faulty: %s (%lld)\n", what, n);
    _exit(97);
}

/* Bytes of a message of this world's, none of which is large. */
static long long bytes_of(int n, MPI_Datatype t)
{
    MPI_Count size = 0;

    PMPI_Type_size_x(t, &size);
    if (size * n > MOST)
        forbid("a message is too large", (long long)size * n);
    return (long long)size * n;
}

static atomic_llong sent, most;

static void look_at(const void *at, int n, MPI_Datatype t)
{
    long long bytes = bytes_of(n, t), before = atomic_load(&most);
    uint64_t head[2];

    atomic_fetch_add(&sent, 1);
    while (before < bytes && !atomic_compare_exchange_weak(&most, &before, bytes))
        ;
    if (t != MPI_BYTE || bytes < HEAD || bytes > HEAD + BESIDE)
        return;
    memcpy(head, at, sizeof head);
    if ((uint64_t)bytes == HEAD + (head[1] < BESIDE ? head[1] : BESIDE))
        halt_before(at);
}

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

#define WAITS(name, declared, given)                               \
    __attribute__((visibility("default"))) int MPI_##name declared \
    {                                                              \
        forbid("MPI_" #name " waits", 0);                          \
        return PMPI_##name given;                                  \
    }

__attribute__((visibility("default"))) int MPI_Isend(const void *at, int n, MPI_Datatype t, int to, int tag,
                                                     MPI_Comm comm, MPI_Request *out)
{
    static atomic_int calls;

    look_at(at, n, t);
    return fails("MPI_Isend", &calls) ? MPI_ERR_INTERN : PMPI_Isend(at, n, t, to, tag, comm, out);
}

__attribute__((visibility("default"))) int MPI_Finalize(void)
{
    tell("messages", atomic_load(&sent));
    tell("the largest has bytes:", atomic_load(&most));
    tell("MPI_Finalize", 0);
    return PMPI_Finalize();
}

__attribute__((visibility("default"))) int MPI_Abort(MPI_Comm comm, int status)
{
    tell("MPI_Abort", status);
    return PMPI_Abort(comm, status);
}

WAITS(Send, (const void *at, int n, MPI_Datatype t, int to, int tag, MPI_Comm comm), (at, n, t, to, tag, comm))
WAITS(Ssend, (const void *at, int n, MPI_Datatype t, int to, int tag, MPI_Comm comm), (at, n, t, to, tag, comm))
WAITS(Recv, (void *at, int n, MPI_Datatype t, int from, int tag, MPI_Comm comm, MPI_Status *status),
      (at, n, t, from, tag, comm, status))
WAITS(Probe, (int from, int tag, MPI_Comm comm, MPI_Status *status), (from, tag, comm, status))
WAITS(Wait, (MPI_Request * request, MPI_Status *status), (request, status))
WAITS(Waitall, (int n, MPI_Request *request, MPI_Status *status), (n, request, status))
WAITS(Waitany, (int n, MPI_Request *request, int *which, MPI_Status *status), (n, request, which, status))
WAITS(Barrier, (MPI_Comm comm), (comm))
WAITS(Bcast, (void *at, int n, MPI_Datatype t, int root, MPI_Comm comm), (at, n, t, root, comm))
WAITS(Allgather, (const void *from, int n, MPI_Datatype t, void *to, int m, MPI_Datatype u, MPI_Comm comm),
      (from, n, t, to, m, u, comm))
WAITS(Allreduce, (const void *from, void *to, int n, MPI_Datatype t, MPI_Op op, MPI_Comm comm),
      (from, to, n, t, op, comm))
WAITS(Comm_dup, (MPI_Comm comm, MPI_Comm *out), (comm, out))

FAULTY(Irecv, (void *at, int n, MPI_Datatype t, int from, int tag, MPI_Comm comm, MPI_Request *out),
       (at, n, t, from, tag, comm, out))
FAULTY(Test, (MPI_Request * request, int *flag, MPI_Status *status), (request, flag, status))
FAULTY(Iallreduce, (const void *from, void *to, int n, MPI_Datatype t, MPI_Op op, MPI_Comm comm, MPI_Request *out),
       (from, to, n, t, op, comm, out))
FAULTY(Comm_idup, (MPI_Comm comm, MPI_Comm *out, MPI_Request *request), (comm, out, request))
