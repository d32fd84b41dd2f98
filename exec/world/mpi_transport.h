/* An MPI library as a transport: shared by mpi_join.c, which begins it, and mpi_transport.c. */
#ifndef DPX_MPI_TRANSPORT_H
#define DPX_MPI_TRANSPORT_H

#include "exec/world/internal.h"
#include "exec/world/mpi_calls.h"

enum { MPI_FIRST = 2048 /* bytes of a parcel's first message, its head included */, MPI_WINDOW = 4 };

/* One parcel on its way: after the first message, messages of `most` bytes, several at a time, completed in order. */
typedef struct {
    char first[MPI_FIRST];
    size_t total;        /* messages, the first included */
    size_t posted, done; /* of these messages */
    int piece;           /* where the next message begins: in this piece, */
    size_t offset;       /* at this byte */
    MpiRequest request[MPI_WINDOW];
} MpiParcel;

typedef struct SentNote SentNote; /* a note that is being sent */

typedef struct {
    const MpiCalls *calls;
    MpiGroup *group;
    bool ours;                      /* MPI was begun here, and ends here */
    bool stuck;                     /* MPI may still use memory that is freed: nothing of it is called but `kill` */
    bool exchanging;                /* parcels are under way */
    bool adding;                    /* a sum is under way; if it never ends, only notes can follow it */
    size_t most;                    /* bytes of a message */
    const Parcel *out, *in;         /* [size] of this exchange; lent */
    MpiParcel *sending, *receiving; /* [size] */
    struct iovec *piece;            /* [max_piece] of the message that is being posted */
    size_t max_piece;
    char *space; /* of sums: space_bytes for the numbers, then as many for the sums */
    size_t space_bytes;
    int *share; /* [size] numbers of each rank */
    MpiRequest sum;
    SentNote *sent_notes;
    WorldNote note; /* being received into, if `listens` */
    MpiRequest listening;
    bool listens;
} Mpi;

extern const Transport mpi_transport;

/* Turns an error code of MPI into a Status; the message has the library and `what` failed. */
Status mpi_check(const MpiCalls *calls, int code, const char *what) CHECKED;
/* Sleeps for a fraction of the seconds already waited, so that polling adds little to the wait. */
void mpi_nap(double waited);

#endif
