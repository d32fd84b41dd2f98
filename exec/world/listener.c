/* All who wait are served side by side, none is waited for: a message that has not come whole, or cannot be sent at
 * once, costs the others nothing. */
#include "exec/world/listener.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "exec/world/socket.h"

enum { NAP = 10000000 /* nanoseconds */ };
static const double SPEAK = 5; /* seconds that a guest has to say who it is and to prove it */

void door_init(Door *d, const Secret *secret, int rank, int size)
{
    d->listener = -1;
    d->rank = rank;
    d->size = size;
    d->secret = secret;
    d->n = 0;
    d->refused = d->other_version = -1;
}

static void drop(Door *d, int i)
{
    if (d->guest[i].fd >= 0)
        close(d->guest[i].fd);
    memmove(&d->guest[i], &d->guest[i + 1], (size_t)(--d->n - i) * sizeof *d->guest);
}

void door_close(Door *d)
{
    while (d->n)
        drop(d, d->n - 1);
    if (d->listener >= 0)
        close(d->listener);
    d->listener = -1;
}

/* ---- what is said ---- */

/* A reply is smaller than the buffer of a connection over which nothing has gone yet. */
static bool reply(int fd, const Reply *r)
{
    return send(fd, r, sizeof *r, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)sizeof *r;
}

static void listener_refuse(int fd, const char *reason)
{
    Reply r = { .magic = GREETING_MAGIC, .refused = 1 };

    snprintf(r.reason, sizeof r.reason, "%s", reason);
    (void)!reply(fd, &r);
}

void door_refuse(int fd, const char *reason)
{
    listener_refuse(fd, reason);
    close(fd);
}

/* Both have a secret, or neither has. */
static bool check_secured(Door *d, const Guest *g)
{
    bool has = d->secret->n > 0;
    char reason[160];

    if (has == (g->hello.secured != 0))
        return true;
    snprintf(reason, sizeof reason, "rank %d has %s secret (--world-secret), rank %d has %s", d->rank, has ? "a" : "no",
             g->hello.rank, has ? "none" : "one");
    listener_refuse(g->fd, reason);
    d->refused = g->hello.rank;
    return false;
}

/* Who speaks another version is told so as soon as the first number is there: the rest may be of another length.  What
 * it has sent is read, or closing would take the answer back. */
static bool speaks_ours(Door *d, const Guest *g)
{
    const int version = greeting_version(g->hello.magic), ours = greeting_version(GREETING_MAGIC);
    char reason[160], rest[1024];

    if (g->owes || g->got < sizeof g->hello.magic || version < 0 || version == ours)
        return true;
    while (recv(g->fd, rest, sizeof rest, MSG_DONTWAIT) > 0)
        ;
    snprintf(reason, sizeof reason, WORLD_VERSIONS, d->rank, ours, version);
    listener_refuse(g->fd, reason);
    d->other_version = version;
    return false;
}

/* false: it is no process of ours, or has gone. */
static bool challenge(Door *d, Guest *g)
{
    Reply r = { .magic = GREETING_MAGIC, .secured = d->secret->n > 0 };

    if (g->hello.magic != GREETING_MAGIC || g->hello.server != d->rank || !check_secured(d, g) ||
        secret_nonce(g->nonce))
        return false;
    memcpy(r.nonce, g->nonce, sizeof r.nonce);
    g->owes = true;
    g->got = 0;
    return reply(g->fd, &r);
}

static bool welcome(Door *d, Guest *g)
{
    Reply r = { .magic = GREETING_MAGIC, .secured = d->secret->n > 0 };
    unsigned char right[GREETING_BYTES];

    if (g->proof.magic != GREETING_MAGIC)
        return false;
    secret_prove(right, d->secret, SIDE_CLIENT, &g->hello, g->nonce);
    if (d->secret->n && !secret_equal(right, g->proof.proof)) {
        listener_refuse(g->fd, "the secrets (--world-secret) are not the same");
        d->refused = g->hello.rank;
        return false;
    }
    secret_prove(r.proof, d->secret, SIDE_SERVER, &g->hello, g->nonce);
    return reply(g->fd, &r);
}

/* Takes what has come of a message: 1 when it is whole, 0 when it is not yet, -1 at the end. */
static int listener_take(Guest *g)
{
    char *to = g->owes ? (char *)&g->proof : (char *)&g->hello;
    size_t bytes = g->owes ? sizeof g->proof : sizeof g->hello;
    ssize_t n = recv(g->fd, to + g->got, bytes - g->got, MSG_DONTWAIT);

    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
        return 0;
    if (n <= 0)
        return -1;
    g->got += (size_t)n;
    return g->got == bytes;
}

/* 1: has been let in; 0: waits on; -1: is sent away. */
static int serve(Door *d, Guest *g)
{
    int taken = listener_take(g);

    if (taken >= 0 && !speaks_ours(d, g))
        return -1;
    if (taken <= 0)
        return taken;
    return g->owes ? (welcome(d, g) ? 1 : -1) : challenge(d, g) ? 0 : -1;
}

/* ---- who comes and goes ---- */

static int listener_count(const Door *d, bool owing)
{
    int n = 0;

    for (int i = 0; i < d->n; i++)
        n += d->guest[i].owes == owing;
    return n;
}

static bool drop_oldest(Door *d, bool owing)
{
    for (int i = 0; i < d->n; i++)
        if (d->guest[i].owes == owing) {
            drop(d, i);
            return true;
        }
    return false;
}

/* One of those that have connected, so that nobody waits while many come. */
static void admit(Door *d)
{
    int fd = accept4(d->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

    if (fd < 0) { /* with no descriptor free it would fail again at once */
        bool full = errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM;

        if (full && !drop_oldest(d, false) && !drop_oldest(d, true))
            nanosleep(&(struct timespec){ 0, NAP }, NULL);
        return;
    }
    socket_tune(fd);
    if (listener_count(d, false) == DOOR_SILENT)
        (void)drop_oldest(d, false);
    d->guest[d->n++] = (Guest){ .fd = fd, .since = world_now() };
}

static void drop_late(Door *d)
{
    double now = world_now();

    for (int i = d->n - 1; i >= 0; i--)
        if (now > d->guest[i].since + SPEAK)
            drop(d, i);
    while (listener_count(d, true) > DOOR_OWING + d->size)
        (void)drop_oldest(d, true);
}

/* The first of the guests with something to read that is let in; -1: none of them is. */
static int serve_all(Door *d, const struct pollfd *f, Hello *out)
{
    int fd = -1;

    for (int i = d->n - 1; i >= 0; i--) {
        int is = f[i].revents && fd < 0 ? serve(d, &d->guest[i]) : 0;

        if (is > 0) {
            *out = d->guest[i].hello;
            fd = d->guest[i].fd;
            d->guest[i].fd = -1;
        }
        if (is)
            drop(d, i);
    }
    return fd;
}

int door_next(Door *d, Hello *out, double until)
{
    struct pollfd f[DOOR_MOST + 1];
    int fd = -1;

    while (fd < 0) {
        double now = world_now(), next = d->n && now + SPEAK < until ? now + SPEAK : until;
        int n = d->n;

        for (int i = 0; i < n; i++)
            f[i] = (struct pollfd){ d->guest[i].fd, POLLIN, 0 };
        f[n] = (struct pollfd){ d->listener, POLLIN, 0 };
        (void)!poll(f, (nfds_t)n + 1, socket_left_ms(next));
        if (!socket_left_ms(until))
            return -1;
        fd = serve_all(d, f, out);
        drop_late(d);
        if (f[n].revents)
            admit(d);
    }
    return fd;
}
