/* The listening socket of a rank: lets in the ranks of its world, and nobody else. */
#ifndef DPX_WORLD_LISTENER_H
#define DPX_WORLD_LISTENER_H

#include "exec/world/secret.h"

/* Of rank, its version of the protocol, and that of this process, or of the one that is told. */
#define WORLD_VERSIONS                                                                                         \
    "rank %d speaks version %d of the protocol between processes, this one version %d: start the same dpexec " \
    "everywhere"

/* Waiting at the door.  Those that have said nothing yet and those that owe a proof do not take each other's places,
 * and of each kind the oldest goes when there are too many: to be pushed out, a process must see that many others come
 * while its answer is on its way, and then it comes again. */
enum { DOOR_SILENT = 64, DOOR_OWING = 32 /* and as many as there are processes */, DOOR_MOST = 96 + WORLD_MAX };

typedef struct {
    int fd;
    bool owes; /* has said who it is, and owes a proof */
    double since;
    size_t got; /* of what it is sending */
    Hello hello;
    Proof proof;
    unsigned char nonce[GREETING_BYTES];
} Guest;

typedef struct {
    int listener; /* -1: closed */
    int rank, size;
    const Secret *secret;
    Guest guest[DOOR_MOST]; /* the oldest first */
    int n;
    int other_version; /* of the protocol, which the latest spoke that was kept out for it; -1: nobody */
    int refused; /* the rank that the latest said it was whom the secret, or the want of one, kept out; -1: nobody */
} Door;

void door_init(Door *d, const Secret *secret, int rank, int size);
void door_close(Door *d);
/* The connection of the next process that proves itself, as out->server of this rank; -1: none by the deadline. */
int door_next(Door *d, Hello *out, double until);
/* To somebody who was let in: why it is not wanted.  Closes. */
void door_refuse(int fd, const char *reason);

#endif
