/* The functions that a world needs of an MPI library.  libdpexec links no MPI: a plug-in for each library provides this
 * table, because the types of MPI libraries differ (exec/world/mpi/plugin.c, built with the compiler of each).
 *
 * Nothing here waits but `begin`, `end` and `kill`.  Functions that return int return MPI's error code, 0 for none. */
#ifndef DPX_MPI_CALLS_H
#define DPX_MPI_CALLS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/uio.h>

enum { MPI_CALLS_ABI = 2, MPI_ANYBODY = -1 };
#define MPI_CALLS_SYMBOL "dpexec_mpi_calls"

typedef struct MpiGroup MpiGroup; /* duplicates of a communicator, one for each channel */

/* A request, in the library's form. */
typedef union {
    void *pointer;
    int number;
} MpiRequest;

/* The state of a request. */
typedef struct {
    bool done, cancelled;
    int from;
    size_t bytes;
} MpiStand;

typedef struct {
    int abi;
    const char *library; /* "Open MPI" */

    /* Whether MPI's names in this process belong to the library that the plug-in was built for; writes the version of
     * the one that they belong to. */
    bool (*fits)(char *text, size_t n);
    int (*stands)(bool *begun, bool *ended); /* MPI_Initialized, MPI_Finalized */
    int (*begin)(void);                      /* MPI_Init_thread, with MPI_THREAD_MULTIPLE if possible */
    bool (*serves_threads)(void);            /* at least MPI_THREAD_SERIALIZED */
    int (*end)(void);
    void (*message)(int code, char *text, size_t n);

    /* Begins to duplicate what `communicator`, an MPI_Comm, points to; NULL: MPI_COMM_WORLD. */
    int (*open)(MpiGroup **out, const void *communicator, int channels);
    int (*opened)(MpiGroup *g, bool *done);
    int (*close)(MpiGroup *g);   /* after all have left in order */
    void (*forget)(MpiGroup *g); /* frees it without MPI, which keeps its communicators */
    int (*place)(const MpiGroup *g, int *size, int *rank);
    void (*kill)(const MpiGroup *g, int status);

    /* Begin to send or receive the pieces as one message.  The array of pieces is not needed after the call. */
    int (*send)(MpiGroup *g, int channel, const struct iovec *piece, int n, int to, MpiRequest *out);
    int (*receive)(MpiGroup *g, int channel, const struct iovec *piece, int n, int from, MpiRequest *out);
    /* Begins to add n[r] numbers for each of `size` ranks over all processes, float64 if `wide`, else float32.  All
     * sums go to `to`, or without `all` the own n[rank].  from, to and n must stay until it is done; it cannot be
     * cancelled. */
    int (*add)(MpiGroup *g, int channel, const void *from, void *to, const int *n, int size, bool wide, bool all,
               MpiRequest *out);
    int (*test)(MpiRequest *r, MpiStand *out);
    int (*cancel)(MpiRequest *r);
} MpiCalls;

typedef const MpiCalls *MpiCallsEntry(void);

#endif
