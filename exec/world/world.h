/* A world: the processes that train one model together, each connected with every other.
 *
 * All functions but world_poll, world_abort and the ones that only read are collective: every process calls them in the
 * same order, one thread of it at a time.  When one process fails the others' present or next call fails with its rank
 * and reason, and every later one. */
#ifndef DPX_WORLD_H
#define DPX_WORLD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#include "graph/base/status.h"

enum { WORLD_MAX = 256, WORLD_REASON = 1024 };

typedef struct {
    int size, rank;         /* processes, and which this is: 0 to size - 1 */
    const char *rendezvous; /* "HOST:PORT", an address of rank 0's machine, or inherited connections (inherit.c) */
    double timeout;         /* seconds to wait for others, when they join and whenever they are waited for */
    const char *secret;     /* a file that they all have (secret.h), needed where others than this machine's could come;
                               WORLD_NO_SECRET: whoever comes is believed; NULL: so on this machine, E_INVALID beyond */
    const char *mpi;        /* "openmpi", "mpich": by this library, which knows who is who; size: as many as were
                             * started, 0: unknown; the rank is passed over.  NULL: by sockets */
    const void *mpi_comm;   /* the MPI_Comm that this points to, of an MPI that is initialized already and finalized
                             * by others; NULL: MPI_COMM_WORLD, and an MPI begun here ends with the world */
    void (*log)(void *user, const char *line); /* told who has not come yet (missing_ranks.h); may be NULL */
    void *log_user;
} WorldOptions;

#define WORLD_NO_SECRET "none"

typedef struct World World;

/* Returns once all processes are connected.  E_INVALID when they do not belong together, E_DEVICE when some do not
 * come. */
Status world_join(World **out, const WorldOptions *opt) CHECKED;
/* Tells the others that this process waits for nobody any more, and closes.  NULL is legal. */
void world_leave(World *w);
/* After a failure: over MPI ends all processes, this one too, when the others have said that they are done or some
 * seconds have passed; else nothing.  NULL is legal. */
void world_end(World *w, int status);
/* Tells the others why this process has failed, unless it fails because one of them did; once, from any thread.  The
 * world is then good for nothing but to be left.  NULL is legal. */
void world_abort(World *w, const char *reason);

int world_rank(const World *w);       /* NULL: 0 */
int world_size(const World *w);       /* NULL: 1 */
int world_neighbours(const World *w); /* processes on this machine, this one included; NULL: 1 */
uint64_t machine_id(void);            /* by which processes of one machine know each other */
double world_timeout(const World *w);
double world_now(void); /* seconds of a clock that never jumps */

/* What goes to one process, or comes from it: pieces of memory one after another. */
typedef struct {
    struct iovec *piece;
    int n;
} Parcel;

/* What the exchanges and sums that follow are for, until it is said again: "the checkpoint of step 20".  So begins the
 * message when one of them fails, here and, behind the rank, elsewhere.  A NULL world is legal. */
void world_set_purpose(World *w, const char *form, ...) __attribute__((format(printf, 2, 3)));
/* The same of a node, by which the caller begins every message himself. */
void world_set_node(World *w, const char *node);

/* Sends send[r] to every other rank r and fills recv[r] by what it sends here: [size] each, the own rank's are passed
 * over. Both sides know the sizes.  E_INTERRUPTED when `cancelled`, which may be NULL, becomes true. */
Status world_exchange(World *w, const Parcel *send, const Parcel *recv, const atomic_bool *cancelled) CHECKED;
/* Between exchanges, from any thread: E_DEVICE when another process has failed or gone. */
Status world_poll(World *w) CHECKED;

/* ---- sums by what carries the messages ---- */

typedef enum { WORLD_FLOAT32, WORLD_FLOAT64 } WorldNumber;

/* Can it add, in an order of its own? */
bool world_can_add(const World *w);
/* Memory to add in, at least so many bytes, until it is asked for again. It is the world's, which may touch it even
 * after a failure. */
Status world_sum_space(void **out, World *w, size_t bytes) CHECKED;
/* In the space stand n[r] numbers for every rank r, one rank's behind the other's. Adds them up over all processes:
 * with `all` each gets all sums, in their order; else the n[rank] that are its own. They are the world's until the next
 * call. E_INTERRUPTED as of world_exchange. */
Status world_add(const void **sums, World *w, WorldNumber type, const int *n, bool all,
                 const atomic_bool *cancelled) CHECKED;

/* ---- who is late ---- */

/* How far a process has come: steps begun, and how far in the last of them; what is larger is farther. */
typedef struct {
    int64_t step, at;
} WorldProgress;
/* How to tell the progress of this process when others ask: from any thread that waits for others, until it is set to
 * NULL; it must call nothing of the world. */
void world_set_progress(World *w, WorldProgress (*where)(void *arg), void *arg);
/* Asks all others, from any thread, and waits for their answers at most that long: of who has answered told[rank]
 * becomes true. Only processes that wait for others answer. */
Status world_ask_progress(World *w, double seconds, WorldProgress progress[WORLD_MAX], bool told[WORLD_MAX]) CHECKED;

/* ---- made of exchanges ---- */

/* The largest `mine` of all processes. */
Status world_max(World *w, int64_t mine, int64_t *out) CHECKED;
/* The sum of all processes' numbers, modulo 2^64. */
Status world_sum(World *w, int64_t mine, int64_t *out) CHECKED;
/* The bytes of rank `root`, to all. */
Status world_share(World *w, int root, void *data, size_t bytes) CHECKED;

/* What must be equal in all processes: texts by name. */
typedef struct Facts Facts;
Facts *facts_create(void); /* NULL: out of memory */
void facts_free(Facts *f); /* NULL is legal */
Status facts_add(Facts *f, const char *name, const char *value) CHECKED;
/* The value is the digest of these bytes. */
Status facts_add_digest(Facts *f, const char *name, const void *data, size_t bytes) CHECKED;
/* All of them, again. */
Status facts_add_all(Facts *f, const Facts *more) CHECKED;
/* The same names and values in the same order everywhere?  E_INVALID lists for every rank all that differs from rank
 * 0's. */
Status world_agree(World *w, const Facts *f, const char *about) CHECKED;

#endif
