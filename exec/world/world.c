/* Talking: exchanges of data among all, and notes about who fails or leaves.
 *
 * Two connections join every pair of processes.  One carries the parcels of exchanges, in the same order on both sides;
 * with all of them polled at once no order of sending can block.  The other carries notes, so that a failure can be
 * told while a parcel is half sent.  A process that dies closes its connections; one whose machine dies is noticed by
 * the time that nothing moves. */
#include "exec/world/world.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "exec/world/internal.h"

enum { PIECES = 64, LOOK = 50 /* milliseconds between looks at `cancelled` */, LAST_WORDS = 2000 /* milliseconds */ };

double world_now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

int world_rank(const World *w) { return w ? w->rank : 0; }
int world_size(const World *w) { return w ? w->size : 1; }
int world_neighbours(const World *w) { return w ? w->neighbours : 1; }
double world_timeout(const World *w) { return w->timeout; }

/* ---- notes ---- */

static bool is_open(const World *w, int r) { return r != w->rank && w->peer[r].fd[CHANNEL_NOTES] >= 0; }

/* A note is much smaller than the connection's buffer: what cannot be taken at once never will. */
static void send_note(World *w, int to, const Note *note)
{
    (void)!send(w->peer[to].fd[CHANNEL_NOTES], note, sizeof *note, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* The first reason stands. */
static void set_reason(World *w, int origin, const char *reason)
{
    if (w->origin >= 0)
        return;
    w->origin = origin;
    snprintf(w->reason, sizeof w->reason, "%.*s", (int)strcspn(reason, "\n"), reason);
}

/* One that has come whole; the lock is held. */
static void take_note(World *w, int r)
{
    Peer *p = &w->peer[r];
    Note answer = { .kind = NOTE_PROGRESS, .origin = w->rank };

    p->note.reason[WORLD_REASON - 1] = '\0';
    if (p->note.kind == NOTE_LEAVE)
        p->left = true;
    if (p->note.kind == NOTE_ABORT && p->note.origin >= 0 && p->note.origin < w->size)
        set_reason(w, p->note.origin, p->note.reason);
    if (p->note.kind == NOTE_ASK && w->where) {
        answer.progress = w->where(w->where_arg);
        send_note(w, r, &answer);
    }
    if (p->note.kind == NOTE_PROGRESS) {
        p->told = true;
        p->progress = p->note.progress;
    }
}

/* Takes over what has come from a peer; the lock is held. */
static void read_notes(World *w, int r)
{
    Peer *p = &w->peer[r];

    while (!p->closed) {
        ssize_t n = recv(p->fd[CHANNEL_NOTES], (char *)&p->note + p->got, sizeof p->note - p->got, MSG_DONTWAIT);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return;
        p->closed = n <= 0;
        p->got += n > 0 ? (size_t)n : 0;
        if (p->got < sizeof p->note)
            continue;
        p->got = 0;
        take_note(w, r);
    }
    if (!p->left)
        set_reason(w, r, "the process has gone: its connection is closed");
}

static Status ended(const World *w)
{
    return w->origin == w->rank ? FAIL(E_DEVICE, "an earlier step failed: %s", w->reason)
                                : FAIL(E_DEVICE, "rank %d of %d: %s", w->origin, w->size, w->reason);
}

static void read_all_notes(World *w)
{
    for (int r = 0; r < w->size; r++)
        if (is_open(w, r))
            read_notes(w, r);
}

Status world_poll(World *w)
{
    Status st;

    pthread_mutex_lock(&w->lock);
    read_all_notes(w);
    st = w->origin >= 0 ? ended(w) : ST_OK;
    pthread_mutex_unlock(&w->lock);
    return st;
}

static bool is_closed(World *w, int r)
{
    bool closed;

    pthread_mutex_lock(&w->lock);
    closed = w->peer[r].closed;
    pthread_mutex_unlock(&w->lock);
    return closed;
}

static bool has_left(World *w, int r)
{
    bool left;

    pthread_mutex_lock(&w->lock);
    left = w->peer[r].left;
    pthread_mutex_unlock(&w->lock);
    return left;
}

void world_set_known(World *w, bool known)
{
    pthread_mutex_lock(&w->lock);
    w->known = known;
    pthread_mutex_unlock(&w->lock);
}

/* A peer's data has ended: the reason may still be on its way. */
static Status peer_gone(World *w, int r)
{
    struct pollfd f = { w->peer[r].fd[CHANNEL_NOTES], POLLIN, 0 };
    double until = world_now() + 1e-3 * LAST_WORDS;

    for (double now; (now = world_now()) < until && !is_closed(w, r);) {
        TRY(world_poll(w));
        (void)!poll(&f, 1, (int)(1e3 * (until - now)) + 1);
    }
    TRY(world_poll(w));
    return FAIL(E_DEVICE, "rank %d of %d: %s", r, w->size,
                has_left(w, r) ? "has ended its part while others go on"
                               : "the process has gone: its connection is closed");
}

void world_abort(World *w, const char *reason)
{
    Note note = { .kind = NOTE_ABORT };

    if (!w)
        return;
    pthread_mutex_lock(&w->lock);
    if (!w->known) {
        read_all_notes(w);
        set_reason(w, w->rank, reason);
        note.origin = w->origin;
        memcpy(note.reason, w->reason, sizeof note.reason);
        for (int r = 0; r < w->size && !w->aborted; r++)
            if (is_open(w, r))
                send_note(w, r, &note);
        w->aborted = true;
    }
    pthread_mutex_unlock(&w->lock);
}

/* ---- who is late ---- */

void world_set_progress(World *w, WorldProgress (*where)(void *arg), void *arg)
{
    pthread_mutex_lock(&w->lock);
    w->where = where;
    w->where_arg = arg;
    pthread_mutex_unlock(&w->lock);
}

/* Have all answered? */
static bool read_progress(World *w, WorldProgress *progress, bool *told)
{
    bool all = true;

    pthread_mutex_lock(&w->lock);
    for (int r = 0; r < w->size; r++) {
        told[r] = w->peer[r].told;
        progress[r] = w->peer[r].progress;
        all = all && (told[r] || r == w->rank);
    }
    pthread_mutex_unlock(&w->lock);
    return all;
}

Status world_ask_progress(World *w, double seconds, WorldProgress progress[WORLD_MAX], bool told[WORLD_MAX])
{
    const Note ask = { .kind = NOTE_ASK, .origin = w->rank };
    double until = world_now() + seconds;

    pthread_mutex_lock(&w->lock);
    for (int r = 0; r < w->size; r++) {
        w->peer[r].told = false;
        if (is_open(w, r))
            send_note(w, r, &ask);
    }
    pthread_mutex_unlock(&w->lock);
    do {
        TRY(world_poll(w));
        if (read_progress(w, progress, told))
            break;
        nanosleep(&(struct timespec){ 0, 5000000 }, NULL);
    } while (world_now() < until);
    return ST_OK;
}

/* ---- leaving ---- */

void world_release(World *w)
{
    if (!w)
        return;
    for (int r = 0; w->peer && r < w->size; r++)
        for (int c = 0; c < N_CHANNELS; c++)
            if (w->peer[r].fd[c] >= 0)
                close(w->peer[r].fd[c]);
    pthread_mutex_destroy(&w->lock);
    free(w->peer);
    free(w->sending);
    free(w->receiving);
    free(w);
}

void world_leave(World *w)
{
    static const Note note = { .kind = NOTE_LEAVE };

    for (int r = 0; w && r < w->size; r++)
        if (is_open(w, r) && !w->aborted)
            send_note(w, r, &note);
    world_release(w);
}

/* ---- exchanges ---- */

static size_t parcel_bytes(const Parcel *p)
{
    size_t bytes = 0;

    for (int i = 0; i < p->n; i++)
        bytes += p->piece[i].iov_len;
    return bytes;
}

/* The next memory to move, at most PIECES of it; returns how many. */
static int next_pieces(struct iovec *v, Progress *p, const Parcel *parcel)
{
    int n = 0;

    if (p->head_done < sizeof p->head)
        v[n++] = (struct iovec){ (char *)&p->head + p->head_done, sizeof p->head - p->head_done };
    for (int i = p->piece; i < parcel->n && n < PIECES; i++) {
        size_t offset = i == p->piece ? p->offset : 0;

        if (parcel->piece[i].iov_len > offset)
            v[n++] = (struct iovec){ (char *)parcel->piece[i].iov_base + offset, parcel->piece[i].iov_len - offset };
    }
    return n;
}

static void advance(Progress *p, const Parcel *parcel, size_t bytes)
{
    size_t head = sizeof p->head - p->head_done;

    head = bytes < head ? bytes : head;
    p->head_done += head;
    bytes -= head;
    while (p->piece < parcel->n && bytes >= parcel->piece[p->piece].iov_len - p->offset) {
        bytes -= parcel->piece[p->piece++].iov_len - p->offset;
        p->offset = 0;
    }
    p->offset += bytes;
    p->done = p->head_done == sizeof p->head && p->piece == parcel->n;
}

static Status send_some(World *w, int r, const Parcel *parcel, bool *moved)
{
    struct iovec v[PIECES];
    Progress *p = &w->sending[r];
    struct msghdr m = { .msg_iov = v };
    ssize_t n;

    m.msg_iovlen = (size_t)next_pieces(v, p, parcel);
    n = sendmsg(w->peer[r].fd[CHANNEL_DATA], &m, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
        return ST_OK;
    if (n < 0)
        return peer_gone(w, r);
    *moved = true;
    advance(p, parcel, (size_t)n);
    return ST_OK;
}

/* The head alone first: what follows is taken only when it is what we wait for. */
static Status receive_some(World *w, int r, const Parcel *parcel, bool *moved)
{
    struct iovec v[PIECES];
    Progress *p = &w->receiving[r];
    bool head = p->head_done < sizeof p->head;
    struct msghdr m = { .msg_iov = v };
    ssize_t n;

    m.msg_iovlen = (size_t)next_pieces(v, p, parcel);
    m.msg_iovlen = head ? 1 : m.msg_iovlen;
    n = recvmsg(w->peer[r].fd[CHANNEL_DATA], &m, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
        return ST_OK;
    if (n <= 0)
        return peer_gone(w, r);
    *moved = true;
    advance(p, parcel, (size_t)n);
    if (head && p->head_done == sizeof p->head && (p->head.turn != w->turn || p->head.bytes != parcel_bytes(parcel)))
        return FAIL(E_INTERNAL, "rank %d of %d is at exchange %llu of %llu bytes, expected exchange %llu of %zu bytes",
                    r, w->size, (unsigned long long)p->head.turn, (unsigned long long)p->head.bytes,
                    (unsigned long long)w->turn, parcel_bytes(parcel));
    return ST_OK;
}

/* "1, 3": the ranks that are not done. */
static const char *missing(const World *w, char *text, size_t n)
{
    size_t len = 0;

    *text = '\0';
    for (int r = 0; r < w->size && len < n; r++)
        if (r != w->rank && !(w->sending[r].done && w->receiving[r].done))
            len += (size_t)snprintf(text + len, n - len, "%s%d", len ? ", " : "", r);
    return text;
}

/* Waits until something can be moved; `n` of the descriptors are of data. */
static Status wait_ready(World *w, struct pollfd *f, int *rank, int *n)
{
    int all;

    *n = 0;
    for (int r = 0; r < w->size; r++) {
        short events = (short)((w->sending[r].done ? 0 : POLLOUT) | (w->receiving[r].done ? 0 : POLLIN));

        if (r == w->rank || !events)
            continue;
        rank[*n] = r;
        f[(*n)++] = (struct pollfd){ w->peer[r].fd[CHANNEL_DATA], events, 0 };
    }
    all = *n;
    pthread_mutex_lock(&w->lock);
    for (int r = 0; r < w->size; r++)
        if (is_open(w, r) && !w->peer[r].closed)
            f[all++] = (struct pollfd){ w->peer[r].fd[CHANNEL_NOTES], POLLIN, 0 };
    pthread_mutex_unlock(&w->lock);
    if (poll(f, (nfds_t)all, LOOK) < 0 && errno != EINTR)
        return FAIL(E_DEVICE, "waiting for other processes: %s", strerror(errno));
    for (int i = *n; i < all; i++)
        if (f[i].revents)
            return world_poll(w);
    return ST_OK;
}

static Status move_ready(World *w, const Parcel *send, const Parcel *recv, const struct pollfd *f, const int *rank,
                         int n, bool *moved)
{
    for (int i = 0; i < n; i++) {
        bool ended_too = f[i].revents & (POLLERR | POLLHUP | POLLNVAL);

        if (!w->receiving[rank[i]].done && (f[i].revents & POLLIN || ended_too))
            TRY(receive_some(w, rank[i], &recv[rank[i]], moved));
        if (!w->sending[rank[i]].done && (f[i].revents & POLLOUT || ended_too))
            TRY(send_some(w, rank[i], &send[rank[i]], moved));
    }
    return ST_OK;
}

static bool all_done(const World *w)
{
    for (int r = 0; r < w->size; r++)
        if (r != w->rank && !(w->sending[r].done && w->receiving[r].done))
            return false;
    return true;
}

static Status exchange(World *w, const Parcel *send, const Parcel *recv, const atomic_bool *cancelled)
{
    struct pollfd f[2 * WORLD_MAX];
    int rank[WORLD_MAX], n;
    double last = world_now();
    char ranks[256];

    for (int r = 0; r < w->size; r++) {
        w->sending[r] = (Progress){ .head = { w->turn, parcel_bytes(&send[r]) } };
        w->receiving[r] = (Progress){ .done = false };
    }
    while (!all_done(w)) {
        bool moved = false;

        TRY(wait_ready(w, f, rank, &n));
        TRY(move_ready(w, send, recv, f, rank, n, &moved));
        if (cancelled && atomic_load(cancelled))
            return E_INTERRUPTED;
        last = moved ? world_now() : last;
        if (world_now() - last > w->timeout)
            return FAIL(E_DEVICE, "nothing has come from rank %s of %d for %g seconds", missing(w, ranks, sizeof ranks),
                        w->size, w->timeout);
    }
    w->turn++;
    return ST_OK;
}

/* Ended by others, or by what broke off an exchange: parcels are half sent then, and nothing can follow them. */
Status world_exchange(World *w, const Parcel *send, const Parcel *recv, const atomic_bool *cancelled)
{
    Status st;

    TRY(world_poll(w));
    st = exchange(w, send, recv, cancelled);
    if (st && st != E_INTERRUPTED)
        world_abort(w, status_message());
    return st;
}
