/* Shared by join.c and inherit.c (connecting), world.c (talking) and agree.c. */
#ifndef DPX_WORLD_INTERNAL_H
#define DPX_WORLD_INTERNAL_H

#include <pthread.h>

#include "exec/world/world.h"

/* Small messages apart from the data, so that they get through when data is half sent. */
typedef enum { NOTE_ABORT = 1, NOTE_LEAVE, NOTE_ASK, NOTE_PROGRESS } NoteKind;
typedef struct {
    uint32_t kind;
    int32_t origin;         /* NOTE_ABORT: the rank that failed, which need not be the one that tells it */
    WorldProgress progress; /* NOTE_PROGRESS: the answer to NOTE_ASK */
    char reason[WORLD_REASON];
} Note;

typedef enum { CHANNEL_DATA, CHANNEL_NOTES, N_CHANNELS } Channel;

typedef struct {
    int fd[N_CHANNELS]; /* -1: not open */
    Note note;          /* being received */
    size_t got;
    bool left, closed; /* under the world's lock: has left in order; its channel of notes has ended */
    bool told;         /* under the lock: has answered where it is */
    WorldProgress progress;
} Peer;

/* Before the bytes of every parcel: what the receiver expects, or the two processes do not run the same program. */
typedef struct {
    uint64_t turn, bytes;
} Head;

/* One parcel on its way. */
typedef struct {
    Head head;
    size_t head_done;
    int piece; /* the next, and how much of it is done */
    size_t offset;
    bool done;
} Progress;

struct World {
    int size, rank, neighbours;
    double timeout;
    Peer *peer;                        /* [size]; the own entry is not open */
    Progress *sending, *receiving;     /* [size] */
    uint64_t turn;                     /* exchanges done */
    pthread_mutex_t lock;              /* of notes and of what follows */
    WorldProgress (*where)(void *arg); /* NULL: this process does not know */
    void *where_arg;
    bool aborted; /* the others have been told */
    bool known;   /* they have found the latest failure themselves and need not be told */
    int origin;   /* the rank that ended the world; -1: none yet */
    char reason[WORLD_REASON];
};

/* "fd=3,4,5,6": for every other rank the descriptors of its two connections, data and notes. */
bool inherit_is_meant(const char *rendezvous); /* NULL is legal */
/* Of a world that is not connected yet. */
Status inherit_connections(World *w, const char *rendezvous) CHECKED;
void world_set_known(World *w, bool known);
void world_release(World *w); /* closes and frees, without a word to anybody */

#endif
