/* Parcels and notes over MPI.
 *
 * Only calls that do not wait are made, each under the world's lock, so any thread may read notes while another
 * exchanges.  A wait polls: at once, then after naps that grow with the time waited.
 *
 * A parcel is a head and a stream of bytes.  The first message has the head and as many bytes as fit beside it, so a
 * small exchange is one message each way.  The rest follows in messages far below MPI's limit of 2^31 bytes; where the
 * stream is cut does not depend on the pieces of either side.  The receiver asks for the rest after it has read the
 * head.
 *
 * Sums are the library's non-blocking collectives.  They cannot be cancelled, so they use memory of the world, which
 * outlives a failure.
 *
 * Notes have a communicator of their own.  MPI does not report that a process is gone: its launcher ends the others, or
 * they time out. */
#include "exec/world/mpi_transport.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "graph/base/heap_array.h"
#include "graph/base/host_memory.h"

static const double EAGER = 50e-6, SHORTEST_NAP = 50e-6, LONGEST_NAP = 2e-3, LAST_WORDS = 1; /* seconds */

struct SentNote {
    SentNote *next;
    MpiRequest request;
    WorldNote note;
};

Status mpi_check(const MpiCalls *calls, int code, const char *what)
{
    char text[512];

    if (!code)
        return ST_OK;
    calls->message(code, text, sizeof text);
    return FAIL(E_DEVICE, "%s: %s: %s", calls->library, what, text);
}

void mpi_nap(double waited)
{
    double nap = waited / 8;

    if (waited < EAGER) {
        sched_yield();
        return;
    }
    nap = nap < SHORTEST_NAP ? SHORTEST_NAP : nap < LONGEST_NAP ? nap : LONGEST_NAP;
    nanosleep(&(struct timespec){ 0, (long)(1e9 * nap) }, NULL);
}

/* ---- notes; the lock is held ---- */

static void clear_sent_notes(Mpi *m)
{
    MpiStand is;

    for (SentNote **at = &m->sent_notes, *l; (l = *at);) {
        if (m->calls->test(&l->request, &is) || !is.done) {
            at = &l->next;
            continue;
        }
        *at = l->next;
        free(l);
    }
}

static void send_note(World *w, int to, const WorldNote *note)
{
    Mpi *m = w->link;
    SentNote *l = m->stuck ? NULL : malloc(sizeof *l);

    if (!l)
        return;
    l->note = *note;
    if (m->calls->send(m->group, CHANNEL_NOTES, &(struct iovec){ &l->note, sizeof l->note }, 1, to, &l->request)) {
        free(l);
        return;
    }
    l->next = m->sent_notes;
    m->sent_notes = l;
    clear_sent_notes(m);
}

/* Posts the receive of the next note. */
static int listen_again(Mpi *m)
{
    int code = m->calls->receive(m->group, CHANNEL_NOTES, &(struct iovec){ &m->note, sizeof m->note }, 1, MPI_ANYBODY,
                                 &m->listening);

    m->listens = !code;
    return code;
}

static void mpi_transport_read_notes(World *w)
{
    Mpi *m = w->link;
    MpiStand is = { .done = true };
    int code = 0;

    if (m->stuck || w->size == 1)
        return;
    clear_sent_notes(m);
    if (!m->listens && w->origin < 0)
        code = listen_again(m);
    while (m->listens && !(code = m->calls->test(&m->listening, &is)) && is.done) {
        if (is.bytes == sizeof m->note && is.from >= 0 && is.from < w->size)
            world_take_note(w, is.from, &m->note);
        if ((code = listen_again(m)))
            break;
    }
    if (code) { /* ends the world: without notes it would hear of no failure */
        m->listens = false;
        if (mpi_check(m->calls, code, "a note of another process"))
            world_fail(w, w->rank, status_message());
    }
}

/* ---- one parcel ---- */

/* How many bytes of a parcel fit into the first message beside the head. */
static size_t bytes_beside_head(size_t bytes)
{
    return bytes < MPI_FIRST - sizeof(Head) ? bytes : MPI_FIRST - sizeof(Head);
}

static void flow_begin(const Mpi *m, MpiParcel *f, const Parcel *parcel)
{
    size_t bytes = parcel_bytes(parcel), rest = bytes - bytes_beside_head(bytes);

    f->total = 1 + rest / m->most + (rest % m->most != 0);
    f->posted = f->done = 0;
    f->piece = 0;
    f->offset = 0;
}

/* Returns the next piece of the parcel's memory, at most `bytes`, and goes past it. */
static struct iovec next_piece(MpiParcel *f, const Parcel *parcel, size_t bytes)
{
    const struct iovec *p = &parcel->piece[f->piece];
    size_t left = p->iov_len - f->offset, take = left < bytes ? left : bytes;
    struct iovec out = { (char *)p->iov_base + f->offset, take };

    f->offset += take;
    if (f->offset == p->iov_len) {
        f->piece++;
        f->offset = 0;
    }
    return out;
}

/* Copies the first bytes between the parcel and the first message. */
static void copy_first(MpiParcel *f, const Parcel *parcel, bool sending)
{
    size_t at = sizeof(Head), end = at + bytes_beside_head(parcel_bytes(parcel));

    while (at < end) {
        struct iovec p = next_piece(f, parcel, end - at);

        if (p.iov_len && sending)
            memcpy(f->first + at, p.iov_base, p.iov_len);
        else if (p.iov_len)
            memcpy(p.iov_base, f->first + at, p.iov_len);
        at += p.iov_len;
    }
}

/* Posts the next message of a parcel. */
static Status post(World *w, int r, MpiParcel *f, const Parcel *parcel, bool sending)
{
    Mpi *m = w->link;
    MpiRequest *request = &f->request[f->posted % MPI_WINDOW];
    struct iovec *grown = heap_reserve(m->piece, sizeof *grown, (size_t)parcel->n + 1, &m->max_piece);
    size_t left = m->most;
    int n = 0, code;

    if (!grown)
        return FAIL_NOMEM();
    m->piece = grown;
    if (!f->posted)
        m->piece[n++] = (struct iovec){ f->first, sending ? sizeof(Head) + bytes_beside_head(parcel_bytes(parcel))
                                                          : sizeof f->first };
    while (f->posted && left && f->piece < parcel->n) {
        const struct iovec p = next_piece(f, parcel, left);

        if (p.iov_len)
            m->piece[n++] = p;
        left -= p.iov_len;
    }
    code = sending ? m->calls->send(m->group, CHANNEL_DATA, m->piece, n, r, request)
                   : m->calls->receive(m->group, CHANNEL_DATA, m->piece, n, r, request);
    TRY(mpi_check(m->calls, code, sending ? "sending" : "receiving"));
    f->posted++;
    return ST_OK;
}

/* Takes the first message: checks its head and copies its bytes into the parcel. */
static Status receive_first(World *w, int r, MpiParcel *f, const Parcel *parcel, size_t came)
{
    size_t bytes = parcel_bytes(parcel);
    Head head = { 0, 0 };

    if (came >= sizeof head)
        memcpy(&head, f->first, sizeof head);
    TRY(world_check_head(w, r, &head, bytes));
    if (came != sizeof head + bytes_beside_head(bytes))
        return FAIL(E_INTERNAL, "rank %d of %d sent a message of %zu bytes, expected %zu", r, w->size, came,
                    sizeof head + bytes_beside_head(bytes));
    copy_first(f, parcel, false);
    return ST_OK;
}

/* Moves a parcel on as far as possible without waiting. */
static Status mpi_transport_push(World *w, int r, MpiParcel *f, const Parcel *parcel, bool sending, bool *moved)
{
    Mpi *m = w->link;
    MpiStand is = { .done = true };

    while (f->done < f->posted) {
        TRY(mpi_check(m->calls, m->calls->test(&f->request[f->done % MPI_WINDOW], &is),
                      sending ? "sending" : "receiving"));
        if (!is.done)
            break;
        *moved = true;
        if (f->done++ == 0 && !sending)
            TRY(receive_first(w, r, f, parcel, is.bytes));
    }
    while (f->posted < f->total && f->posted - f->done < MPI_WINDOW && (sending || f->done || !f->posted))
        TRY(post(w, r, f, parcel, sending));
    return ST_OK;
}

/* ---- an exchange ---- */

static bool is_done(const MpiParcel *f) { return f->done == f->total; }

static bool is_waited_for(const void *arg, int r)
{
    const Mpi *m = arg;

    return !is_done(&m->sending[r]) || !is_done(&m->receiving[r]);
}

static void begin_exchange(World *w, const Parcel *send, const Parcel *recv)
{
    Mpi *m = w->link;

    m->out = send;
    m->in = recv;
    for (int r = 0; r < w->size; r++) {
        Head head = { w->turn, parcel_bytes(&send[r]) };

        if (r == w->rank)
            continue;
        flow_begin(m, &m->sending[r], &send[r]);
        flow_begin(m, &m->receiving[r], &recv[r]);
        memcpy(m->sending[r].first, &head, sizeof head);
        copy_first(&m->sending[r], &send[r], true);
    }
}

/* Moves all parcels on; *all: the exchange is done. */
static Status poll_exchange(World *w, bool *moved, bool *all)
{
    Mpi *m = w->link;

    *all = true;
    for (int r = 0; r < w->size; r++) {
        if (r == w->rank || !is_waited_for(m, r))
            continue;
        TRY(mpi_transport_push(w, r, &m->receiving[r], &m->in[r], false, moved));
        TRY(mpi_transport_push(w, r, &m->sending[r], &m->out[r], true, moved));
        *all = *all && !is_waited_for(m, r);
    }
    return ST_OK;
}

static Status fail_exchange_timeout(World *w) { return world_fail_timeout(w, is_waited_for, w->link); }

/* Polls until everything is done.  `poll` makes progress without waiting; `fail_late` makes the error when nothing has
 * moved for the world's timeout. */
static Status wait_for(World *w, Status (*poll)(World *w, bool *moved, bool *all), Status (*fail_late)(World *w),
                       const atomic_bool *cancelled)
{
    double last = world_now(), now;
    bool all = false;

    while (!all) {
        bool moved = false;
        Status st;

        pthread_mutex_lock(&w->lock);
        st = poll(w, &moved, &all);
        pthread_mutex_unlock(&w->lock);
        TRY(st);
        if (all)
            break;
        TRY(world_poll(w));
        if (cancelled && atomic_load(cancelled))
            return E_INTERRUPTED;
        now = world_now();
        last = moved ? now : last;
        if (now - last > w->timeout)
            return fail_late(w);
        mpi_nap(now - last);
    }
    return ST_OK;
}

/* ---- after an exchange that failed ---- */

/* Cancels the requests that are open, the first time it is called; returns false while MPI still has some of them. */
static bool cancel_requests(World *w, bool first)
{
    Mpi *m = w->link;
    bool all = true;

    for (int r = 0; r < w->size; r++)
        for (int s = 0; s < 2 && r != w->rank; s++) {
            MpiParcel *f = s ? &m->sending[r] : &m->receiving[r];
            MpiStand is = { .done = true };

            for (size_t i = f->done; first && !s && i < f->posted; i++)
                (void)m->calls->cancel(&f->request[i % MPI_WINDOW]);
            while (f->done < f->posted && (m->calls->test(&f->request[f->done % MPI_WINDOW], &is) || is.done))
                f->done++;
            all = all && f->done == f->posted;
        }
    return all;
}

/* Waits until MPI has done with the parcels' memory, which its owner is about to free. */
static void mpi_transport_settle(World *w)
{
    double begin = world_now(), now = begin;
    Mpi *m = w->link;
    bool all = !m->exchanging;

    for (bool first = true; !all && now - begin < LAST_WORDS; first = false) {
        pthread_mutex_lock(&w->lock);
        all = cancel_requests(w, first);
        pthread_mutex_unlock(&w->lock);
        if (!all)
            mpi_nap(now - begin);
        now = world_now();
    }
    pthread_mutex_lock(&w->lock);
    m->stuck |= !all;
    m->exchanging = false;
    pthread_mutex_unlock(&w->lock);
}

static Status exchange(World *w, const Parcel *send, const Parcel *recv, const atomic_bool *cancelled)
{
    Mpi *m = w->link;

    if (m->stuck || m->adding)
        return FAIL(E_DEVICE, "an exchange was broken off: nothing can follow it");
    begin_exchange(w, send, recv);
    m->exchanging = true;
    TRY(wait_for(w, poll_exchange, fail_exchange_timeout, cancelled));
    m->exchanging = false;
    return ST_OK;
}

/* ---- sums ---- */

static Status sum_space(void **out, World *w, size_t bytes)
{
    Mpi *m = w->link;
    char *grown;

    bytes = (bytes + 63) / 64 * 64;
    if (m->adding)
        return FAIL(E_DEVICE, "a sum was broken off: nothing can follow it");
    if (bytes > m->space_bytes) {
        if (!(grown = host_alloc(64, 2 * bytes)))
            return FAIL_NOMEM();
        host_free(m->space);
        m->space = grown;
        m->space_bytes = bytes;
    }
    *out = m->space;
    return ST_OK;
}

static Status poll_sum(World *w, bool *moved, bool *all)
{
    Mpi *m = w->link;
    MpiStand is;

    TRY(mpi_check(m->calls, m->calls->test(&m->sum, &is), "a sum"));
    *all = *moved = is.done;
    return ST_OK;
}

static bool all_are_waited_for(const void *arg, int r)
{
    (void)arg, (void)r;
    return true;
}

/* Only the library knows from which ranks it has what it needs. */
static Status fail_sum_timeout(World *w) { return world_fail_timeout(w, all_are_waited_for, NULL); }

/* Collectives of MPI cannot be cancelled: one that is broken off goes on in the world's memory. */
static Status mpi_transport_add(const void **sums, World *w, WorldNumber type, const int *n, bool all,
                                const atomic_bool *cancelled)
{
    Mpi *m = w->link;
    char *to = m->space + m->space_bytes;
    int code;

    if (m->stuck || m->adding)
        return FAIL(E_DEVICE, "an exchange was broken off: nothing can follow it");
    memcpy(m->share, n, (size_t)w->size * sizeof *n);
    pthread_mutex_lock(&w->lock);
    code = m->calls->add(m->group, CHANNEL_DATA, m->space, to, m->share, w->size, type == WORLD_FLOAT64, all, &m->sum);
    m->adding = !code;
    pthread_mutex_unlock(&w->lock);
    TRY(mpi_check(m->calls, code, "a sum"));
    TRY(wait_for(w, poll_sum, fail_sum_timeout, cancelled));
    m->adding = false;
    *sums = to;
    return ST_OK;
}

/* ---- the end ---- */

/* Waits until all have left or `seconds` have passed; with `heed` also until one has failed.  Returns whether all have
 * left. */
static bool wait_for_all(World *w, double seconds, bool heed)
{
    double begin = world_now(), now = begin;
    bool all = false, ended = false;

    while (!all && !ended && now - begin < seconds) {
        mpi_nap(now - begin);
        pthread_mutex_lock(&w->lock);
        mpi_transport_read_notes(w);
        all = true;
        for (int r = 0; r < w->size; r++)
            all = all && (r == w->rank || w->peer[r].left || w->peer[r].closed);
        ended = heed && (w->origin >= 0 || ((Mpi *)w->link)->stuck);
        pthread_mutex_unlock(&w->lock);
        now = world_now();
    }
    return all;
}

/* Closes the group, and MPI if it was begun here, once nothing of the group is under way.  Returns whether it could. */
static bool mpi_transport_close_group(World *w)
{
    Mpi *m = w->link;
    MpiStand is = { .done = true };

    if (m->listens && !m->calls->cancel(&m->listening))
        for (double begin = world_now(); world_now() - begin < LAST_WORDS; mpi_nap(0))
            if (m->calls->test(&m->listening, &is) || is.done)
                break;
    for (double begin = world_now(); m->sent_notes && world_now() - begin < LAST_WORDS; mpi_nap(0))
        clear_sent_notes(m);
    if (!is.done || m->sent_notes || m->calls->close(m->group))
        return false;
    m->group = NULL;
    return !m->ours || !m->calls->end();
}

static void close_all(World *w)
{
    Mpi *m = w->link;
    bool whole =
        m->sending && m->receiving && m->group && w->origin < 0 && !m->stuck && !m->adding && w->owner == getpid();

    if (whole && wait_for_all(w, w->timeout, true) && mpi_transport_close_group(w)) {
        free(m->sending);
        free(m->receiving);
        free(m->piece);
        host_free(m->space);
        free(m->share);
        free(m);
    }
    /* otherwise MPI may still use this memory, and is not called any more */
}

static void end_all(World *w, int status)
{
    static const WorldNote note = { .kind = NOTE_LEAVE };
    Mpi *m = w->link;

    pthread_mutex_lock(&w->lock);
    for (int r = 0; r < w->size; r++)
        if (r != w->rank)
            send_note(w, r, &note);
    pthread_mutex_unlock(&w->lock);
    wait_for_all(w, 2 * LAST_WORDS, false);
    m->calls->kill(m->group, status);
}

const Transport mpi_transport = { .exchange = exchange,
                                  .settle = mpi_transport_settle,
                                  .sum_space = sum_space,
                                  .add = mpi_transport_add,
                                  .read_notes = mpi_transport_read_notes,
                                  .send_note = send_note,
                                  .close = close_all,
                                  .end = end_all };
