/* Serves all pending connections side by side and waits for none of them: a message that is not complete yet, or cannot
 * be sent at once, delays nobody else. */
#include "exec/world/listener.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "exec/world/socket.h"

enum { NAP = 10000000 /* nanoseconds */ };
static const double GREETING_SECONDS = 5; /* for a process to say who it is and to prove it */

void listener_init(Listener *l, const Secret *secret, int rank, int size)
{
    l->fd = -1;
    l->rank = rank;
    l->size = size;
    l->secret = secret;
    l->n = 0;
    l->other_secret = l->other_version = -1;
}

static void drop(Listener *l, int i)
{
    if (l->pending[i].fd >= 0)
        close(l->pending[i].fd);
    memmove(&l->pending[i], &l->pending[i + 1], (size_t)(--l->n - i) * sizeof *l->pending);
}

void listener_close(Listener *l)
{
    while (l->n)
        drop(l, l->n - 1);
    if (l->fd >= 0)
        close(l->fd);
    l->fd = -1;
}

/* ---- messages ---- */

/* Does not wait: a reply fits the buffer of a connection that has carried nothing yet. */
static bool reply(int fd, const Reply *r)
{
    return send(fd, r, sizeof *r, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)sizeof *r;
}

static void send_refusal(int fd, const char *reason)
{
    Reply r = { .magic = GREETING_MAGIC, .refused = 1 };

    snprintf(r.reason, sizeof r.reason, "%s", reason);
    (void)!reply(fd, &r);
}

void listener_refuse(int fd, const char *reason)
{
    send_refusal(fd, reason);
    close(fd);
}

/* Answers a Hello with a nonce.  Returns false for a process of no or another world, one that has gone, and one with a
 * secret where this process has none, or the other way round. */
static bool challenge(Listener *l, Pending *p)
{
    const bool has = l->secret->n > 0;
    Reply r = { .magic = GREETING_MAGIC, .secured = has };
    char reason[160];

    if (p->hello.magic != GREETING_MAGIC || p->hello.server != l->rank)
        return false;
    if (has != (p->hello.secured != 0)) {
        snprintf(reason, sizeof reason, "rank %d has %s secret (--world-secret), rank %d has %s", l->rank,
                 has ? "a" : "no", p->hello.rank, has ? "none" : "one");
        send_refusal(p->fd, reason);
        l->other_secret = p->hello.rank;
        return false;
    }
    if (secret_nonce(p->nonce))
        return false;
    memcpy(r.nonce, p->nonce, sizeof r.nonce);
    p->challenged = true;
    p->got = 0;
    return reply(p->fd, &r);
}

/* Checks a Proof and answers it with this side's.  Returns false when the proof is wrong. */
static bool check_proof(Listener *l, Pending *p)
{
    Reply r = { .magic = GREETING_MAGIC, .secured = l->secret->n > 0 };
    unsigned char right[GREETING_BYTES];

    if (p->proof.magic != GREETING_MAGIC)
        return false;
    secret_prove(right, l->secret, SIDE_CLIENT, &p->hello, p->nonce);
    if (l->secret->n && !secret_equal(right, p->proof.proof)) {
        send_refusal(p->fd, "the secrets (--world-secret) are not the same");
        l->other_secret = p->hello.rank;
        return false;
    }
    secret_prove(r.proof, l->secret, SIDE_SERVER, &p->hello, p->nonce);
    return reply(p->fd, &r);
}

/* Takes what a process has sent: 1 when it is let in, 0 when more must come, -1 when it is turned away. */
static int serve(Listener *l, Pending *p)
{
    char *to = p->challenged ? (char *)&p->proof : (char *)&p->hello, reason[160], rest[1024];
    const size_t bytes = p->challenged ? sizeof p->proof : sizeof p->hello;
    const ssize_t n = recv(p->fd, to + p->got, bytes - p->got, MSG_DONTWAIT);
    const int ours = greeting_version(GREETING_MAGIC);
    int version;

    if (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)
        return -1;
    if (n == 0)
        return -1;
    p->got += n > 0 ? (size_t)n : 0;
    /* Another version is refused after its first number: the rest of its message may have another length. */
    version = greeting_version(p->hello.magic);
    if (!p->challenged && p->got >= sizeof p->hello.magic && version >= 0 && version != ours) {
        while (recv(p->fd, rest, sizeof rest, MSG_DONTWAIT) > 0)
            ; /* closing with unread data would discard the refusal */
        snprintf(reason, sizeof reason, WORLD_VERSIONS, l->rank, ours, version);
        send_refusal(p->fd, reason);
        l->other_version = version;
        return -1;
    }
    if (p->got < bytes)
        return 0;
    return p->challenged ? (check_proof(l, p) ? 1 : -1) : challenge(l, p) ? 0 : -1;
}

/* ---- pending connections ---- */

static int count_pending(const Listener *l, bool challenged)
{
    int n = 0;

    for (int i = 0; i < l->n; i++)
        n += l->pending[i].challenged == challenged;
    return n;
}

static bool drop_oldest(Listener *l, bool challenged)
{
    for (int i = 0; i < l->n; i++)
        if (l->pending[i].challenged == challenged) {
            drop(l, i);
            return true;
        }
    return false;
}

/* Accepts one connection; the others come in later rounds, so that nobody waits while many come. */
static void accept_one(Listener *l)
{
    int fd = accept4(l->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

    if (fd < 0) { /* with no descriptor free it would fail again at once */
        bool full = errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM;

        if (full && !drop_oldest(l, false) && !drop_oldest(l, true))
            nanosleep(&(struct timespec){ 0, NAP }, NULL);
        return;
    }
    socket_tune(fd);
    if (count_pending(l, false) == LISTENER_SILENT)
        (void)drop_oldest(l, false);
    l->pending[l->n++] = (Pending){ .fd = fd, .since = world_now() };
}

/* Serves the connections that have something to read, up to the first that is let in.  Returns that one's descriptor
 * and its Hello; -1: none is let in. */
static int serve_all(Listener *l, const struct pollfd *f, Hello *out)
{
    int fd = -1;

    for (int i = l->n - 1; i >= 0; i--) {
        int served = f[i].revents && fd < 0 ? serve(l, &l->pending[i]) : 0;

        if (served > 0) {
            *out = l->pending[i].hello;
            fd = l->pending[i].fd;
            l->pending[i].fd = -1;
        }
        if (served)
            drop(l, i);
    }
    return fd;
}

int listener_next(Listener *l, Hello *out, double until)
{
    struct pollfd f[LISTENER_MOST + 1];
    int fd = -1;

    while (fd < 0) {
        double now = world_now(), next = l->n && now + GREETING_SECONDS < until ? now + GREETING_SECONDS : until;
        int n = l->n;

        for (int i = 0; i < n; i++)
            f[i] = (struct pollfd){ l->pending[i].fd, POLLIN, 0 };
        f[n] = (struct pollfd){ l->fd, POLLIN, 0 };
        (void)!poll(f, (nfds_t)n + 1, socket_left_ms(next));
        if (!socket_left_ms(until))
            return -1;
        fd = serve_all(l, f, out);
        now = world_now();
        for (int i = l->n - 1; i >= 0; i--)
            if (now > l->pending[i].since + GREETING_SECONDS)
                drop(l, i);
        while (count_pending(l, true) > LISTENER_UNPROVEN + l->size)
            (void)drop_oldest(l, true);
        if (f[n].revents)
            accept_one(l);
    }
    return fd;
}
