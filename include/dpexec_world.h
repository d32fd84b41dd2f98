/* The part of dpexec.h about several processes and about devices.  Include dpexec.h. */
#ifndef DPEXEC_WORLD_H
#define DPEXEC_WORLD_H

#if !defined(DPEXEC_H)
#error "include dpexec.h, of which this is a part"
#endif

/* ---- several processes ---- */

/* Errors: DPX_DEVICE when another process failed, left or did not answer in time, or the MPI plug-in is missing; the
 * message names its rank and the reason.  The world has then failed, and so do all later calls.  DPX_INVALID: settings
 * or notes that differ between processes.  DPX_IO: the secret's file cannot be used.
 * Threads: one thread at a time for a world, with its trainers.  Functions that all processes call wait for the others.
 */

/* The processes that train one model together, each with the same number of devices of one kind.  Replicas are counted
 * over all processes.  Every process gets the same model and options, and of each batch its own part (dpx_train_part)
 * or all of it (dpx_train_step).  When one process fails, the others' calls fail with its rank and reason. */
typedef struct dpx_world dpx_world;
enum { DPX_LOG_INFO, DPX_LOG_WARNING, DPX_LOG_DETAIL }; /* detail: how the model is divided and planned */
typedef void dpx_log_fn(void *user, int level, const char *line);

typedef struct {
    int size, rank;         /* number of processes; number of this one, 0 to size - 1 */
    const char *rendezvous; /* "HOST:PORT": rank 0 listens there and the others connect; not needed for size 1.  Or
                               "fd=3,4,5,6": two connected stream sockets for every other rank, in the order of ranks;
                               the world then owns them */
    double timeout;         /* seconds to wait for other processes, when joining and later; 0: 300 */
    const char *secret;     /* a file of 16 to 4096 bytes, readable only by its owner and equal in all processes, that
                               authenticates them; "none": no authentication; NULL: the same on a rendezvous that only
                               this machine reaches, an error on any other */
    const char *mpi;        /* "openmpi", "mpich": mpirun started the processes.  MPI gives number and ranks; `size` is
                               the expected number, or 0; `rank` and `rendezvous` are ignored.  NULL: no MPI */
    const void *mpi_comm;   /* with `mpi`: points to an MPI_Comm, which is duplicated, of an MPI that the caller
                               finalizes and initialized with MPI_THREAD_MULTIPLE, or MPI_THREAD_SERIALIZED if no other
                               thread calls MPI during a call of this library.  NULL: MPI_COMM_WORLD, of an MPI that is
                               initialized here if need be, and then finalized when the world is left */
    dpx_log_fn *log;        /* reports missing processes after 10 seconds, and again; may be NULL */
    void *log_user;
} dpx_world_options;

/* Connects this process; returns once all are connected.  Later traffic is neither encrypted nor authenticated. */
DPX_SIZED dpx_status dpx_world_join(dpx_world **out, const dpx_world_options *options) DPX_CHECKED;
/* The number of processes, the number of this one, counted from 0, and how many run on this machine, this one included.
 * For NULL they are 1, 0 and 1. */
DPX_API int dpx_world_size(const dpx_world *world);
DPX_API int dpx_world_rank(const dpx_world *world);
DPX_API int dpx_world_neighbours(const dpx_world *world);
/* Frees the world, after the trainers that use it.  NULL is legal.  Over MPI it waits until all processes leave or one
 * fails; after a failure MPI keeps references to the world and must not be finalized: see dpx_world_end. */
DPX_API void dpx_world_leave(dpx_world *world);
/* For programs that exit with a failed world: over MPI, waits some seconds for the other processes to report why they
 * fail, then ends all processes with the exit status (MPI_Abort).  Without MPI it has no effect.  NULL is legal. */
DPX_API void dpx_world_end(dpx_world *world, int status);
/* Sends the others the reason why this process cannot go on.  Failed steps do so themselves.  NULL is legal. */
DPX_API void dpx_world_abort(dpx_world *world, const char *reason);
/* Notes a value that must be equal in all processes.  dpx_world_agree and the next trainer compare all notes. */
DPX_API dpx_status dpx_world_note(dpx_world *world, const char *name, const char *value) DPX_CHECKED;
DPX_API dpx_status dpx_world_agree(dpx_world *world) DPX_CHECKED;
/* Every process calls them: they return the largest `mine`, and the sum of all modulo 2^64. */
DPX_API dpx_status dpx_world_max(dpx_world *world, int64_t mine, int64_t *out) DPX_CHECKED;
DPX_API dpx_status dpx_world_sum(dpx_world *world, int64_t mine, int64_t *out) DPX_CHECKED;
/* Every process calls it with bytes of its own, at most 64 MiB.  On rank 0 *all, to be free()d, receives those of all
 * processes by rank, one behind the other; elsewhere it becomes NULL.  `size` has room for dpx_world_size numbers,
 * which rank 0 receives: the bytes of each rank. */
DPX_API dpx_status dpx_world_gather(dpx_world *world, const void *mine, size_t bytes, void **all,
                                    size_t *size) DPX_CHECKED;
/* Copies `data` of rank `root` to all; every process calls it, with as many bytes. */
DPX_API dpx_status dpx_world_share(dpx_world *world, int root, void *data, size_t bytes) DPX_CHECKED;
/* Names the purpose of later exchanges, which messages about missing processes repeat. */
DPX_API void dpx_world_set_purpose(dpx_world *world, const char *what);
/* Trainers created with these options train in the world, which must outlive them; NULL: in this process alone. */
DPX_API void dpx_options_set_world(dpx_options *options, dpx_world *world);

/* ---- devices ---- */

/* Errors: DPX_DEVICE when no GPU can be used.
 * Threads: any thread at any time. */

typedef struct {
    char name[32]; /* "cpu:0", "cuda:0" */
    char description[96];
    int cores;       /* CPU cores that its threads may use; a GPU's multiprocessors */
    uint64_t memory; /* bytes */
    int capability;  /* GPU: 90 is compute capability 9.0; else 0 */
    int driver;      /* GPU: 13000 is a driver for CUDA 13.0; else 0 */
} dpx_device;

/* Fills at most `max` entries, the CPU first, and sets *n to the number of devices.  If no GPU can be used, the CPU is
 * listed, but the status is not DPX_OK and dpx_error() gives the reason (no plug-in, no driver, no GPU). */
DPX_SIZED dpx_status dpx_devices(dpx_device *out, int max, int *n) DPX_CHECKED;

#endif
