/* Shared by what connects (join.c, inherit.c), what carries (the transports), world.c and agree.c. */
#ifndef DPX_WORLD_INTERNAL_H
#define DPX_WORLD_INTERNAL_H

#include <pthread.h>
#include <sys/types.h>

#include "exec/world/world.h"

enum { WORLD_PURPOSE = 384 };

/* Small messages apart from the data, so that they get through when data is half sent. */
typedef enum { NOTE_ABORT = 1, NOTE_LEAVE, NOTE_ASK, NOTE_PROGRESS } NoteKind;
typedef struct {
    uint32_t kind;
    int32_t origin;  /* NOTE_ABORT: the rank that failed, which need not be the one that tells it */
    uint32_t waited; /* NOTE_ABORT: in an exchange, if not 0; no bool, for it comes from another process */
    uint32_t knows;  /* NOTE_PROGRESS, the answer to NOTE_ASK: `progress` is known; */
    uint64_t turn;   /* so many exchanges are done */
    WorldProgress progress;
    char reason[WORLD_REASON]; /* of NOTE_PROGRESS what the present exchange is for */
} Note;

typedef enum { CHANNEL_DATA, CHANNEL_NOTES, N_CHANNELS } Channel;

typedef struct {
    int fd[N_CHANNELS];  /* of sockets; -1: not open */
    bool left, closed;   /* under the world's lock: has left in order; nothing more will come from it */
    bool failed, waited; /* under the lock: has told of a failure, which ended its waiting */
    bool answered, told; /* under the lock: has answered how many exchanges it has done, and how far it has come */
    uint64_t turn;
    WorldProgress progress;
    char purpose[WORLD_PURPOSE]; /* of the exchange in which it waits */
} Peer;

/* Before the bytes of every parcel: what the receiver expects, or the two processes do not run the same program. */
typedef struct {
    uint64_t turn, bytes;
} Head;

/* What carries parcels and notes between processes.  `link` of the world is its own. */
typedef struct {
    /* One exchange (world_exchange), that of the world's turn.  The world's lock is free. */
    Status (*exchange)(World *w, const Parcel *send, const Parcel *recv, const atomic_bool *cancelled);
    /* Behind an exchange that failed, of which others have been told; NULL: nothing is left of it. */
    void (*settle)(World *w);
    /* world_sum_space, world_add; NULL: it cannot add */
    Status (*sum_space)(void **out, World *w, size_t bytes);
    Status (*add)(const void **sums, World *w, WorldNumber type, const int *n, bool all, const atomic_bool *cancelled);
    /* Under the lock, neither waits: hands what has come to world_take_note, and tells world_lose who has gone; sends
     * a note, if it can be sent at all. */
    void (*read_notes)(World *w);
    void (*send_note)(World *w, int to, const Note *note);
    void (*close)(World *w); /* also of a world that has never been whole */
    /* world_end; NULL: not known */
    void (*end)(World *w, int status);
} Transport;

struct World {
    pid_t owner; /* the process that joined; a fork of it has the same connections and must not use them */
    int size, rank, neighbours;
    double timeout;
    const Transport *transport; /* NULL: alone */
    void *link;
    Peer *peer;                        /* [size]; the own entry is not open */
    pthread_mutex_t lock;              /* of notes and of what follows */
    uint64_t turn;                     /* exchanges and sums done; changed by the thread that does them */
    WorldProgress (*where)(void *arg); /* NULL: this process does not know */
    void *where_arg;
    char purpose[WORLD_PURPOSE]; /* world_set_purpose; "": not said */
    bool at_node;                /* the purpose is a node's name, by which the caller's messages begin */
    bool lost;                   /* `origin` has gone without a word, and who waits for it is not known yet */
    bool aborted;                /* the others have been told */
    bool known;                  /* they have found the latest failure themselves and need not be told */
    int origin;                  /* the rank that ended the world; -1: none yet */
    char reason[WORLD_REASON];
};

/* Of a process that is connected with none yet. */
Status world_create(World **out, const WorldOptions *opt) CHECKED;
void world_set_known(World *w, bool known);
void world_release(World *w); /* closes and frees, without a word to anybody; NULL is legal */

/* From all machines' ids. */
Status world_count_neighbours(World *w) CHECKED;

/* Under the lock. */
void world_fail(World *w, int origin, const char *reason); /* the first reason stands */
void world_take_note(World *w, int from, Note *note);
void world_lose(World *w, int rank); /* nothing more will come from it, and unless it has left that is a failure */
void world_miss(World *w, int rank); /* it has left, and is waited for */

/* ---- what transports have in common ---- */

size_t parcel_bytes(const Parcel *p);
/* Does the head of what rank r sends belong to this turn and size? */
Status world_check_head(const World *w, int r, const Head *head, size_t bytes) CHECKED;
/* Where nothing has moved for the world's timeout: says who waits and who is missing, which it asks, for a second at
 * the most.  waits(arg, r): is rank r still waited for?  The lock is free. */
Status world_late(World *w, bool (*waits)(const void *arg, int rank), const void *arg) CHECKED;

/* Sockets between every pair, which are opened afterwards. */
Status sockets_attach(World *w) CHECKED;
/* "fd=3,4,5,6": for every other rank the descriptors of its two connections, data and notes. */
bool inherit_is_meant(const char *rendezvous); /* NULL is legal */
/* Of a world that is not connected yet. */
Status inherit_connections(World *w, const char *rendezvous) CHECKED;
/* Of MPI's processes (mpi_join.c). */
Status mpi_join(World **out, const WorldOptions *opt) CHECKED;

#endif
