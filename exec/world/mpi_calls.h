/* What a world asks of an MPI library.  libdpexec knows none: a plug-in, one for each library because their types
 * differ, gives this table (exec/world/mpi/plugin.c, which is built with either's compiler).
 *
 * Nothing here waits but `begin`, `end` and `kill`.  What returns a number returns MPI's error code, 0 for none. */
#ifndef DPX_MPI_CALLS_H
#define DPX_MPI_CALLS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/uio.h>

enum { MPI_CALLS_ABI = 2, MPI_ANYBODY = -1 };
#define MPI_CALLS_SYMBOL "dpexec_mpi_calls"

typedef struct MpiGroup MpiGroup; /* duplicates of a communicator, one for each channel */

/* A request, in whatever form the library has it. */
typedef union {
    void *pointer;
    int number;
} MpiRequest;

/* How a request stands. */
typedef struct {
    bool done, cancelled;
    int from;
    size_t bytes;
} MpiStand;

typedef struct {
    int abi;
    const char *library; /* "Open MPI" */

    /* Is it the library that the plug-in was built for that answers to MPI's names in this process?  Its version is
     * written to the text. */
    bool (*fits)(char *text, size_t n);
    int (*stands)(bool *begun, bool *ended); /* MPI_Init, MPI_Finalize */
    int (*begin)(void);                      /* for all threads, if the library can */
    bool (*serves_threads)(void);            /* any one at a time, or more */
    int (*end)(void);
    void (*message)(int code, char *text, size_t n);

    /* Begins to duplicate what `communicator`, an MPI_Comm, points to; NULL: MPI_COMM_WORLD. */
    int (*open)(MpiGroup **out, const void *communicator, int channels);
    int (*opened)(MpiGroup *g, bool *done);
    int (*close)(MpiGroup *g);   /* all have left in order */
    void (*forget)(MpiGroup *g); /* what MPI has of it stays */
    int (*place)(const MpiGroup *g, int *size, int *rank);
    void (*kill)(const MpiGroup *g, int status);

    /* The pieces go as one message; the array may be gone on return. */
    int (*send)(MpiGroup *g, int channel, const struct iovec *piece, int n, int to, MpiRequest *out);
    int (*receive)(MpiGroup *g, int channel, const struct iovec *piece, int n, int from, MpiRequest *out);
    /* Adds up n[r] numbers for each of `size` ranks over all processes, float64 if `wide`, else float32: all
     * sums go to `to`, or without `all` the own n[rank]. All three stay until it is done; it cannot be cancelled. */
    int (*add)(MpiGroup *g, int channel, const void *from, void *to, const int *n, int size, bool wide, bool all,
               MpiRequest *out);
    int (*test)(MpiRequest *r, MpiStand *out);
    int (*cancel)(MpiRequest *r);
} MpiCalls;

typedef const MpiCalls *MpiCallsEntry(void);

#endif
