/* A world: the processes that train one model together, each connected to every other.
 *
 * All functions but world_poll, world_abort and those that only read are collective: every process calls them in the
 * same order, from one thread at a time.  When a process fails, the present or next call of each other process fails
 * with its rank and reason, and so does every later call. */
#ifndef DPX_WORLD_H
#define DPX_WORLD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#include "graph/base/status.h"

enum { WORLD_MAX = 256, WORLD_REASON = 1024 };

typedef struct {
    int size, rank;         /* number of processes, and of this one: 0 to size - 1 */
    const char *rendezvous; /* "HOST:PORT", an address of rank 0's machine, or inherited connections (inherit.c) */
    double timeout;         /* seconds to wait for others, while joining and in every exchange */
    const char *secret;     /* a file that all processes have (secret.h), needed where other machines could connect;
                             * WORLD_NO_SECRET: every process is trusted; NULL: likewise on one machine, otherwise
                             * E_INVALID */
    const char *mpi;        /* "openmpi" or "mpich": this library connects the processes and gives them their ranks;
                             * size: as many as were started, 0: unknown; rank is ignored.  NULL: sockets do */
    const void *mpi_comm;   /* points to the MPI_Comm to use, of an MPI that the caller initializes and finalizes;
                             * NULL: MPI_COMM_WORLD, and an MPI initialized here is finalized with the world */
    void (*log)(void *user, const char *line); /* gets lines about missing ranks (missing_ranks.h); may be NULL */
    void *log_user;
} WorldOptions;

#define WORLD_NO_SECRET "none"

typedef struct World World;

/* Returns once all processes are connected.  E_INVALID when they do not belong together, E_DEVICE when some do not come
 * within the timeout. */
Status world_join(World **out, const WorldOptions *opt) CHECKED;
/* Notifies the others that this process is done, and closes and frees the world.  NULL is legal. */
void world_leave(World *w);
/* After a failure: over MPI, ends all processes including this one, once the others are done or some seconds have
 * passed.  Over sockets it does nothing.  NULL is legal. */
void world_end(World *w, int status);
/* Sends the others the reason why this process has failed, unless it fails because one of them did.  May be called from
 * any thread; only the first call counts.  Afterwards the world can only be left.  NULL is legal. */
void world_abort(World *w, const char *reason);

int world_rank(const World *w);       /* NULL: 0 */
int world_size(const World *w);       /* NULL: 1 */
int world_neighbours(const World *w); /* processes on this machine, this one included; NULL: 1 */
uint64_t machine_id(void);            /* equal for the processes of one machine */
double world_timeout(const World *w);
double world_now(void); /* seconds of a clock that never jumps */

/* The data for one process, or from it: pieces of memory one after another. */
typedef struct {
    struct iovec *piece;
    int n;
} Parcel;

/* Sets the purpose of the exchanges and sums that follow, such as "the checkpoint of step 20".  The message of a
 * failure begins with it; on other ranks it follows the rank.  A NULL world is legal. */
void world_set_purpose(World *w, const char *form, ...) __attribute__((format(printf, 2, 3)));
/* Sets a node's name as the purpose; the caller puts it in front of messages itself. */
void world_set_node(World *w, const char *node);

/* Sends send[r] to every other rank r and fills recv[r] with what rank r sends here.  Both arrays have `size` entries;
 * the own rank's are ignored.  The sizes of both sides must be equal.  E_INTERRUPTED when `cancelled`, which may be
 * NULL, becomes true. */
Status world_exchange(World *w, const Parcel *send, const Parcel *recv, const atomic_bool *cancelled) CHECKED;

/* An exchange of one piece with each process that is named to it, in both directions or in one.  To be free()d. */
typedef struct {
    Parcel send[WORLD_MAX], recv[WORLD_MAX];
    struct iovec out[WORLD_MAX], in[WORLD_MAX];
} WorldRound;

WorldRound *world_round_create(void); /* of no pieces; NULL: out of memory */
void world_round_send(WorldRound *r, int rank, const void *data, size_t bytes);
void world_round_receive(WorldRound *r, int rank, void *data, size_t bytes);
Status world_round_run(WorldRound *r, World *w) CHECKED; /* as often as wanted */

/* Between exchanges, from any thread: E_DEVICE when another process has failed or gone. */
Status world_poll(World *w) CHECKED;

/* ---- sums by the transport ---- */

typedef enum { WORLD_FLOAT32, WORLD_FLOAT64 } WorldNumber;

/* Whether the transport can add, in an order of its own. */
bool world_can_add(const World *w);
/* Returns memory of at least `bytes` bytes for world_add, valid until the next call.  The world owns it and may write
 * to it even after a failure. */
Status world_sum_space(void **out, World *w, size_t bytes) CHECKED;
/* Adds, over all processes, the numbers in that memory: n[r] numbers for every rank r, in the order of ranks.  With
 * `all` each process gets all sums in that order; otherwise the n[rank] sums of its own rank.  The world owns *sums,
 * which are valid until the next call.  E_INTERRUPTED as in world_exchange. */
Status world_add(const void **sums, World *w, WorldNumber type, const int *n, bool all,
                 const atomic_bool *cancelled) CHECKED;

/* ---- progress ---- */

/* The progress of a process: steps begun, and the place in the last of them; larger is farther. */
typedef struct {
    int64_t step, at;
} WorldProgress;
/* Sets the function that reports this process's progress when others ask; NULL ends that.  It is called from any thread
 * that waits for others, and must call nothing of the world. */
void world_set_progress(World *w, WorldProgress (*where)(void *arg), void *arg);
/* Asks all others, from any thread, and waits at most `seconds` for their answers.  has_progress[rank] becomes true
 * where progress[rank] is valid.  Only processes that wait for others answer. */
Status world_ask_progress(World *w, double seconds, WorldProgress progress[WORLD_MAX],
                          bool has_progress[WORLD_MAX]) CHECKED;

/* ---- agreements, made of exchanges ---- */

/* The largest `mine` of all processes. */
Status world_max(World *w, int64_t mine, int64_t *out) CHECKED;
/* The sum of all processes' numbers, modulo 2^64. */
Status world_sum(World *w, int64_t mine, int64_t *out) CHECKED;
/* Copies the bytes of every process to rank 0.  There *all, to be free()d, receives them one rank behind the other, and
 * size[rank] is how many bytes each rank has given; elsewhere *all is NULL.  E_INVALID: a process has more than 64 MiB.
 */
Status world_gather(World *w, const void *mine, size_t bytes, void **all, size_t size[WORLD_MAX]) CHECKED;
/* Copies `data` of rank `root` to all. */
Status world_share(World *w, int root, void *data, size_t bytes) CHECKED;

/* Facts: texts by name that must be equal in all processes. */
typedef struct Facts Facts;
Facts *facts_create(void); /* NULL: out of memory */
void facts_free(Facts *f); /* NULL is legal */
Status facts_add(Facts *f, const char *name, const char *value) CHECKED;
/* Adds a digest of these bytes as the value. */
Status facts_add_digest(Facts *f, const char *name, const void *data, size_t bytes) CHECKED;
/* Adds copies of all facts of `more`. */
Status facts_add_all(Facts *f, const Facts *more) CHECKED;
/* Compares the facts of all processes.  E_INVALID, whose message begins with `about`, lists for every rank all facts
 * that differ from rank 0's. */
Status world_agree(World *w, const Facts *f, const char *about) CHECKED;

#endif
