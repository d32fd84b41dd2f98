/* Shared by the files that connect processes (join.c, inherit.c, mpi_join.c), the transports, world.c and agree.c. */
#ifndef DPX_WORLD_INTERNAL_H
#define DPX_WORLD_INTERNAL_H

#include <pthread.h>
#include <sys/types.h>

#include "exec/world/world.h"

enum { WORLD_PURPOSE = 384 };

/* Small messages on a channel of their own, so that they arrive while data is half sent. */
typedef enum { NOTE_ABORT = 1, NOTE_LEAVE, NOTE_ASK, NOTE_PROGRESS } NoteKind;
typedef struct {
    uint32_t kind;
    int32_t origin;        /* NOTE_ABORT: the rank that failed, which need not be the sender */
    uint32_t waited;       /* NOTE_ABORT: not 0: in an exchange; no bool, because another process sends it */
    uint32_t has_progress; /* NOTE_PROGRESS, the answer to NOTE_ASK: `progress` is valid */
    uint64_t turn;         /* exchanges done */
    WorldProgress progress;
    char reason[WORLD_REASON]; /* NOTE_ABORT: why; NOTE_PROGRESS: the purpose of the present exchange */
} WorldNote;

typedef enum { CHANNEL_DATA, CHANNEL_NOTES, N_CHANNELS } Channel;

typedef struct {
    int fd[N_CHANNELS];          /* of sockets; -1: not open */
    bool left, closed;           /* has left in order; nothing more will come from it.  From here on under the lock */
    bool failed, waited;         /* has reported a failure, and did so while it waited in an exchange */
    bool answered, has_progress; /* has answered NOTE_ASK: `turn` and `purpose` are valid; `progress` is valid, too */
    uint64_t turn;
    WorldProgress progress;
    char purpose[WORLD_PURPOSE]; /* of the exchange in which it waits */
} Peer;

/* Precedes the bytes of every parcel.  If the receiver expects another head, the two processes do not run the same
 * program. */
typedef struct {
    uint64_t turn, bytes;
} Head;

/* A transport carries parcels and notes between processes.  World.link is its own data. */
typedef struct {
    /* Makes the exchange of the world's turn (world_exchange).  The caller does not hold the world's lock. */
    Status (*exchange)(World *w, const Parcel *send, const Parcel *recv, const atomic_bool *cancelled);
    /* Optional.  Ends what is left of an exchange that failed, after the other processes were notified. */
    void (*settle)(World *w);
    /* Optional: world_sum_space, world_add. */
    Status (*sum_space)(void **out, World *w, size_t bytes);
    Status (*add)(const void **sums, World *w, WorldNumber type, const int *n, bool all, const atomic_bool *cancelled);
    /* Called under the lock; neither waits.  read_notes hands notes that have come to world_take_note, and ranks whose
     * connection has ended to world_lose.  send_note drops a note that cannot be sent at once. */
    void (*read_notes)(World *w);
    void (*send_note)(World *w, int to, const WorldNote *note);
    void (*close)(World *w); /* also closes a world that is not connected completely */
    /* Optional: world_end. */
    void (*end)(World *w, int status);
} Transport;

struct World {
    pid_t owner; /* the process that joined; a fork of it has the same connections and must not use them */
    int size, rank, neighbours;
    double timeout;
    const Transport *transport; /* NULL: this process is alone */
    void *link;
    Peer *peer;                        /* [size]; the own entry is not open */
    pthread_mutex_t lock;              /* of notes and of the fields below */
    uint64_t turn;                     /* exchanges and sums done; changed by the thread that makes them */
    WorldProgress (*where)(void *arg); /* world_set_progress; NULL: the progress is unknown */
    void *where_arg;
    char purpose[WORLD_PURPOSE]; /* world_set_purpose; "": none */
    bool at_node;                /* the purpose is a node's name, by which the caller's messages begin */
    bool lost;                   /* `origin` has gone without a note, and its waiting ranks are not named yet */
    bool aborted;                /* the other ranks were notified of the failure */
    bool failed_everywhere;      /* all ranks find the next failure themselves, so they need no note */
    int origin;                  /* the rank that ended the world; -1: none yet */
    char reason[WORLD_REASON];
};

/* A world that is not connected yet. */
Status world_create(World **out, const WorldOptions *opt) CHECKED;
void world_set_failed_everywhere(World *w, bool everywhere);
void world_release(World *w); /* closes and frees without notes to the others; NULL is legal */

/* Counts the processes of this machine, by the ids of all machines. */
Status world_count_neighbours(World *w) CHECKED;

/* ---- under the lock ---- */

void world_fail(World *w, int origin, const char *reason); /* the first reason stays */
void world_take_note(World *w, int from, WorldNote *note);
void world_lose(World *w, int rank); /* nothing more will come from `rank`: a failure unless it has left */
void world_miss(World *w, int rank); /* `rank` has left, but others wait for it */

/* ---- for transports ---- */

size_t parcel_bytes(const Parcel *p);
/* E_INTERNAL unless the head of what rank r sends belongs to this turn and has `bytes` bytes. */
Status world_check_head(const World *w, int r, const Head *head, size_t bytes) CHECKED;
/* The failure of an exchange in which nothing has moved for the world's timeout: names the ranks that wait and those
 * that are missing, after asking them for at most a second.  waits(arg, r): does this process still wait for rank r?
 * The caller does not hold the lock. */
Status world_fail_timeout(World *w, bool (*waits)(const void *arg, int rank), const void *arg) CHECKED;

/* Gives the world sockets as its transport; join.c or inherit.c opens them. */
Status sockets_attach(World *w) CHECKED;
/* Whether the rendezvous is "fd=3,4,5,6": for every other rank the descriptors of its two connections, data and notes.
 */
bool rendezvous_is_inherited(const char *rendezvous); /* NULL is legal */
/* Takes over these descriptors. */
Status inherit_connections(World *w, const char *rendezvous) CHECKED;
/* Joins the processes that MPI's launcher has started. */
Status mpi_join(World **out, const WorldOptions *opt) CHECKED;

#endif
