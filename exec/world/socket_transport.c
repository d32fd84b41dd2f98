/* Sockets as a transport.
 *
 * Two connections join every pair of processes.  One carries the parcels of exchanges, in the same order on both sides;
 * all of them are polled at once, so no order of sending can block.  The other carries notes, so that a failure can be
 * reported while a parcel is half sent.  A process that dies closes its connections.  If its machine dies, the exchange
 * times out. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "exec/world/internal.h"

enum { PIECES = 64, POLL_INTERVAL = 50 /* milliseconds, to check `cancelled` */, LAST_WORDS = 2000 /* milliseconds */ };

/* One parcel on its way. */
typedef struct {
    Head head;
    size_t head_done;
    int piece;     /* the next, */
    size_t offset; /* and how much of it is done */
    bool done;
} Progress;

typedef struct {
    Progress *sending, *receiving; /* [size] */
    WorldNote *note;               /* [size] being received */
    size_t *got;                   /* [size] bytes of these notes that have come */
} Sockets;

/* ---- notes ---- */

static bool is_open(const World *w, int r) { return r != w->rank && w->peer[r].fd[CHANNEL_NOTES] >= 0; }

/* A note is much smaller than the connection's buffer.  If it cannot be sent at once, it never will be. */
static void send_note(World *w, int to, const WorldNote *note)
{
    if (is_open(w, to))
        (void)!send(w->peer[to].fd[CHANNEL_NOTES], note, sizeof *note, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void read_notes_of(World *w, int r)
{
    Sockets *s = w->link;
    int fd = w->peer[r].fd[CHANNEL_NOTES];
    ssize_t n;

    do {
        n = recv(fd, (char *)&s->note[r] + s->got[r], sizeof s->note[r] - s->got[r], MSG_DONTWAIT);
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return;
        s->got[r] += n > 0 ? (size_t)n : 0;
        if (s->got[r] == sizeof s->note[r]) {
            s->got[r] = 0;
            world_take_note(w, r, &s->note[r]);
        }
    } while (n > 0 || (n < 0 && errno == EINTR));
    world_lose(w, r);
}

static void socket_transport_read_notes(World *w)
{
    for (int r = 0; r < w->size; r++)
        if (is_open(w, r) && !w->peer[r].closed)
            read_notes_of(w, r);
}

/* The connection for data has ended.  Waits a while for a note with the reason. */
static Status peer_gone(World *w, int r)
{
    struct pollfd f = { w->peer[r].fd[CHANNEL_NOTES], POLLIN, 0 };
    double until = world_now() + 1e-3 * LAST_WORDS, now;
    bool closed;

    while ((now = world_now()) < until) {
        pthread_mutex_lock(&w->lock);
        closed = w->peer[r].closed;
        pthread_mutex_unlock(&w->lock);
        if (closed)
            break;
        TRY(world_poll(w));
        (void)!poll(&f, 1, (int)(1e3 * (until - now)) + 1);
    }
    pthread_mutex_lock(&w->lock);
    world_miss(w, r);
    pthread_mutex_unlock(&w->lock);
    return world_poll(w);
}

/* ---- exchanges ---- */

/* Lists the next memory to move, at most PIECES pieces of it; returns how many. */
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

static void socket_transport_advance(Progress *p, const Parcel *parcel, size_t bytes)
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
    Progress *p = &((Sockets *)w->link)->sending[r];
    struct msghdr m = { .msg_iov = v };
    ssize_t n;

    m.msg_iovlen = (size_t)next_pieces(v, p, parcel);
    n = sendmsg(w->peer[r].fd[CHANNEL_DATA], &m, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
        return ST_OK;
    if (n < 0)
        return peer_gone(w, r);
    *moved = true;
    socket_transport_advance(p, parcel, (size_t)n);
    return ST_OK;
}

/* Receives the head alone first; the data is taken only when it is what this process expects. */
static Status receive_some(World *w, int r, const Parcel *parcel, bool *moved)
{
    struct iovec v[PIECES];
    Progress *p = &((Sockets *)w->link)->receiving[r];
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
    socket_transport_advance(p, parcel, (size_t)n);
    return head && p->head_done == sizeof p->head ? world_check_head(w, r, &p->head, parcel_bytes(parcel)) : ST_OK;
}

static bool is_waited_for(const void *arg, int r)
{
    const Sockets *s = arg;

    return !(s->sending[r].done && s->receiving[r].done);
}

/* A failure of another process ends the exchange, but not the leaving of a process that has done its part in it. */
static Status check_notes(World *w)
{
    bool done;

    pthread_mutex_lock(&w->lock);
    socket_transport_read_notes(w);
    done = w->lost && !is_waited_for(w->link, w->origin);
    for (int r = 0; r < w->size; r++)
        done = done && !w->peer[r].failed;
    pthread_mutex_unlock(&w->lock);
    return done ? ST_OK : world_poll(w);
}

/* Waits until something can be moved.  f[0 .. *n) are the connections for data, of ranks rank[]; *noted: there are
 * notes. */
static Status wait_ready(World *w, struct pollfd *f, int *rank, int *n, bool *noted)
{
    const Sockets *s = w->link;
    int all;

    *n = 0;
    for (int r = 0; r < w->size; r++) {
        short events = (short)((s->sending[r].done ? 0 : POLLOUT) | (s->receiving[r].done ? 0 : POLLIN));

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
    if (poll(f, (nfds_t)all, POLL_INTERVAL) < 0 && errno != EINTR)
        return FAIL(E_DEVICE, "waiting for other processes: %s", strerror(errno));
    *noted = false;
    for (int i = *n; i < all; i++)
        *noted |= f[i].revents != 0;
    return ST_OK;
}

static Status move_ready(World *w, const Parcel *send, const Parcel *recv, const struct pollfd *f, const int *rank,
                         int n, bool *moved)
{
    const Sockets *s = w->link;

    for (int i = 0; i < n; i++) {
        bool ended_too = f[i].revents & (POLLERR | POLLHUP | POLLNVAL);

        if (!s->receiving[rank[i]].done && (f[i].revents & POLLIN || ended_too))
            TRY(receive_some(w, rank[i], &recv[rank[i]], moved));
        if (!s->sending[rank[i]].done && (f[i].revents & POLLOUT || ended_too))
            TRY(send_some(w, rank[i], &send[rank[i]], moved));
    }
    return ST_OK;
}

static Status exchange(World *w, const Parcel *send, const Parcel *recv, const atomic_bool *cancelled)
{
    struct pollfd f[2 * WORLD_MAX];
    int rank[WORLD_MAX], n;
    double last = world_now();
    Sockets *s = w->link;

    for (int r = 0; r < w->size; r++) {
        s->sending[r] = (Progress){ .head = { w->turn, parcel_bytes(&send[r]) } };
        s->receiving[r] = (Progress){ .done = false };
    }
    while (true) {
        bool moved = false, noted, all = true;

        for (int r = 0; r < w->size; r++)
            all = all && (r == w->rank || !is_waited_for(s, r));
        if (all)
            return ST_OK;
        TRY(wait_ready(w, f, rank, &n, &noted));
        TRY(move_ready(w, send, recv, f, rank, n, &moved));
        if (noted && !moved) /* data that came before a note still counts */
            TRY(check_notes(w));
        if (cancelled && atomic_load(cancelled))
            return E_INTERRUPTED;
        last = moved ? world_now() : last;
        if (world_now() - last > w->timeout)
            return world_fail_timeout(w, is_waited_for, s);
    }
}

/* ---- beginning and end ---- */

static void close_all(World *w)
{
    Sockets *s = w->link;

    for (int r = 0; r < w->size; r++)
        for (int c = 0; c < N_CHANNELS; c++)
            if (w->peer[r].fd[c] >= 0)
                close(w->peer[r].fd[c]);
    free(s->sending);
    free(s->receiving);
    free(s->note);
    free(s->got);
    free(s);
}

Status sockets_attach(World *w)
{
    static const Transport sockets = {
        .exchange = exchange, .read_notes = socket_transport_read_notes, .send_note = send_note, .close = close_all
    };
    Sockets *s = calloc(1, sizeof *s);

    if (!s)
        return FAIL_NOMEM();
    w->link = s;
    w->transport = &sockets;
    s->sending = calloc((size_t)w->size, sizeof *s->sending);
    s->receiving = calloc((size_t)w->size, sizeof *s->receiving);
    s->note = calloc((size_t)w->size, sizeof *s->note);
    s->got = calloc((size_t)w->size, sizeof *s->got);
    return s->sending && s->receiving && s->note && s->got ? ST_OK : FAIL_NOMEM();
}
