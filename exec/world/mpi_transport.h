/* An MPI library as a transport: shared by what begins and ends (mpi_join.c) and what carries (mpi_transport.c). */
#ifndef DPX_MPI_TRANSPORT_H
#define DPX_MPI_TRANSPORT_H

#include "exec/world/internal.h"
#include "exec/world/mpi_calls.h"

enum { MPI_FIRST = 2048 /* bytes of a parcel's first message, its head included */, MPI_WINDOW = 4 };

/* One parcel on its way: messages of `most` bytes after the first, several at a time, done in their order. */
typedef struct {
    char first[MPI_FIRST];
    size_t total;        /* messages, the first included */
    size_t posted, done; /* of them */
    int piece;           /* where the next begins */
    size_t offset;
    MpiRequest request[MPI_WINDOW];
} Flow;

typedef struct Letter Letter; /* a note on its way */

typedef struct {
    const MpiCalls *calls;
    MpiGroup *group;
    bool ours;                 /* MPI was begun here, and ends here */
    bool stuck;                /* MPI may still touch memory that is not ours any more: no call of it but `kill` */
    bool exchanging;           /* parcels are under way */
    bool adding;               /* and the sum's space: nothing but notes goes on after a sum that has not ended */
    size_t most;               /* bytes of a message */
    const Parcel *out, *in;    /* [size] of this exchange; lent */
    Flow *sending, *receiving; /* [size] */
    struct iovec *piece;       /* of the message that is being posted; as many as max_piece */
    size_t max_piece;
    char *space; /* of sums: so many bytes of what is added, and as many of what comes of it */
    size_t space_bytes;
    int *share; /* [size] numbers of each rank */
    MpiRequest sum;
    Letter *letters;
    Note note; /* being received, if `listens` */
    MpiRequest listening;
    bool listens;
} Mpi;

extern const Transport mpi_transport;

/* A failure of the library as ours. */
Status mpi_check(const MpiCalls *calls, int code, const char *what) CHECKED;
/* Sleeps a part of the time that has been waited for, so that it adds little to it. */
void mpi_nap(double waited);

#endif
