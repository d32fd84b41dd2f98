/* The listening socket of a rank: lets in the ranks of its world, and nobody else. */
#ifndef DPX_WORLD_LISTENER_H
#define DPX_WORLD_LISTENER_H

#include "exec/world/secret.h"

/* A message of the rank, its version of the protocol, and the version of the process that reads the message. */
#define WORLD_VERSIONS                                                                                         \
    "rank %d speaks version %d of the protocol between processes, this one version %d: start the same dpexec " \
    "everywhere"

/* Limits of connections that are not let in yet.  There is one for those that have not sent their Hello, and one for
 * those that owe a proof, so that neither kind takes the places of the other.  Beyond a limit the oldest connection of
 * the kind is closed; its process connects again. */
enum {
    LISTENER_SILENT = 64,
    LISTENER_UNPROVEN = 32 /* plus the number of processes */,
    LISTENER_MOST = 96 + WORLD_MAX
};

/* A connection that is not let in yet. */
typedef struct {
    int fd;
    bool challenged; /* it has sent its Hello, and owes a Proof */
    double since;
    size_t got; /* bytes of the message that it is sending */
    Hello hello;
    Proof proof;
    unsigned char nonce[GREETING_BYTES];
} Pending;

typedef struct {
    int fd; /* -1: closed */
    int rank, size;
    const Secret *secret;
    Pending pending[LISTENER_MOST]; /* the oldest first */
    int n;
    int other_version; /* the protocol's version of the last process that was refused for it; -1: none was */
    int other_secret;  /* the rank in the Hello of the last process that was refused for its secret; -1: none was */
} Listener;

/* A closed listener; the caller sets `fd`. */
void listener_init(Listener *l, const Secret *secret, int rank, int size);
void listener_close(Listener *l);
/* Waits for the next process that proves itself.  Returns its connection, and its Hello in *out; -1: none came by
 * `until`. */
int listener_next(Listener *l, Hello *out, double until);
/* Sends a process that was let in the reason for its rejection, and closes the connection. */
void listener_refuse(int fd, const char *reason);

#endif
