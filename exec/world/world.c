/* Talking: exchanges of data among all, and notes about who fails or leaves; how either is carried is a transport's
 * affair (exec/world/internal.h). */
#include "exec/world/world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "exec/world/internal.h"

enum { PATIENCE = 1 /* seconds for the others' answers */ };

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

Status world_create(World **out, const WorldOptions *opt)
{
    World *w = calloc(1, sizeof *w);

    if (!w)
        return FAIL_NOMEM();
    pthread_mutex_init(&w->lock, NULL);
    w->size = opt->size;
    w->rank = opt->rank;
    w->timeout = opt->timeout;
    w->neighbours = 1;
    w->origin = -1;
    w->peer = calloc((size_t)w->size, sizeof *w->peer);
    for (int r = 0; w->peer && r < w->size; r++)
        w->peer[r].fd[CHANNEL_DATA] = w->peer[r].fd[CHANNEL_NOTES] = -1;
    if (!w->peer) {
        world_release(w);
        return FAIL_NOMEM();
    }
    *out = w;
    return ST_OK;
}

/* ---- notes ---- */

void world_fail(World *w, int origin, const char *reason)
{
    if (w->origin >= 0)
        return;
    w->origin = origin;
    snprintf(w->reason, sizeof w->reason, "%.*s", (int)strcspn(reason, "\n"), reason);
}

static void read_notes(World *w)
{
    if (w->transport)
        w->transport->read_notes(w);
}

/* To all others; the lock is held. */
static void send_all(World *w, const Note *note)
{
    for (int r = 0; r < w->size && w->transport; r++)
        if (r != w->rank)
            w->transport->send_note(w, r, note);
}

void world_take_note(World *w, int from, Note *note)
{
    Peer *p = &w->peer[from];
    Note answer = { .kind = NOTE_PROGRESS, .origin = w->rank, .turn = w->turn };

    note->reason[WORLD_REASON - 1] = '\0';
    if (note->kind == NOTE_LEAVE)
        p->left = true;
    if (note->kind == NOTE_ABORT && note->origin >= 0 && note->origin < w->size)
        world_fail(w, note->origin, note->reason);
    if (note->kind == NOTE_ASK) {
        answer.knows = w->where;
        if (w->where)
            answer.progress = w->where(w->where_arg);
        w->transport->send_note(w, from, &answer);
    }
    if (note->kind == NOTE_PROGRESS) {
        p->answered = true;
        p->told = note->knows;
        p->turn = note->turn;
        p->progress = note->progress;
    }
}

void world_lose(World *w, int rank)
{
    w->peer[rank].closed = true;
    if (!w->peer[rank].left)
        world_fail(w, rank, "the process has gone: its connection is closed");
}

static Status ended(const World *w)
{
    return w->origin == w->rank ? FAIL(E_DEVICE, "an earlier step failed: %s", w->reason)
                                : FAIL(E_DEVICE, "rank %d of %d: %s", w->origin, w->size, w->reason);
}

Status world_poll(World *w)
{
    Status st;

    pthread_mutex_lock(&w->lock);
    read_notes(w);
    st = w->origin >= 0 ? ended(w) : ST_OK;
    pthread_mutex_unlock(&w->lock);
    return st;
}

void world_set_known(World *w, bool known)
{
    pthread_mutex_lock(&w->lock);
    w->known = known;
    pthread_mutex_unlock(&w->lock);
}

void world_abort(World *w, const char *reason)
{
    Note note = { .kind = NOTE_ABORT };

    if (!w)
        return;
    pthread_mutex_lock(&w->lock);
    if (!w->known) {
        read_notes(w);
        world_fail(w, w->rank, reason);
        note.origin = w->origin;
        memcpy(note.reason, w->reason, sizeof note.reason);
        if (!w->aborted)
            send_all(w, &note);
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

static bool all_answered(World *w)
{
    bool all = true;

    pthread_mutex_lock(&w->lock);
    for (int r = 0; r < w->size; r++)
        all = all && (w->peer[r].answered || r == w->rank);
    pthread_mutex_unlock(&w->lock);
    return all;
}

/* Returns when all have answered, or the time is over. */
static Status ask_all(World *w, double seconds)
{
    const Note ask = { .kind = NOTE_ASK, .origin = w->rank };
    double until = world_now() + seconds;

    pthread_mutex_lock(&w->lock);
    for (int r = 0; r < w->size; r++)
        w->peer[r].answered = w->peer[r].told = false;
    send_all(w, &ask);
    pthread_mutex_unlock(&w->lock);
    do {
        TRY(world_poll(w));
        if (all_answered(w))
            break;
        nanosleep(&(struct timespec){ 0, 5000000 }, NULL);
    } while (world_now() < until);
    return ST_OK;
}

Status world_ask_progress(World *w, double seconds, WorldProgress progress[WORLD_MAX], bool told[WORLD_MAX])
{
    TRY(ask_all(w, seconds));
    pthread_mutex_lock(&w->lock);
    for (int r = 0; r < w->size; r++) {
        told[r] = w->peer[r].told;
        progress[r] = w->peer[r].progress;
    }
    pthread_mutex_unlock(&w->lock);
    return ST_OK;
}

/* ---- leaving ---- */

void world_release(World *w)
{
    if (!w)
        return;
    if (w->transport)
        w->transport->close(w);
    pthread_mutex_destroy(&w->lock);
    free(w->peer);
    free(w);
}

void world_leave(World *w)
{
    static const Note note = { .kind = NOTE_LEAVE };

    if (!w)
        return;
    pthread_mutex_lock(&w->lock);
    if (!w->aborted)
        send_all(w, &note);
    pthread_mutex_unlock(&w->lock);
    world_release(w);
}

void world_end(World *w, int status)
{
    if (w && w->transport && w->transport->end)
        w->transport->end(w, status);
}

/* ---- exchanges ---- */

size_t parcel_bytes(const Parcel *p)
{
    size_t bytes = 0;

    for (int i = 0; i < p->n; i++)
        bytes += p->piece[i].iov_len;
    return bytes;
}

Status world_check_head(const World *w, int r, const Head *head, size_t bytes)
{
    return head->turn == w->turn && head->bytes == bytes
               ? ST_OK
               : FAIL(E_INTERNAL,
                      "rank %d of %d is at exchange %llu of %llu bytes, expected exchange %llu of %zu bytes", r,
                      w->size, (unsigned long long)head->turn, (unsigned long long)head->bytes,
                      (unsigned long long)w->turn, bytes);
}

/* "1, 3" */
static const char *list_ranks(char text[256], const World *w, const bool *missing, bool which)
{
    size_t len = 0;

    *text = '\0';
    for (int r = 0; r < w->size && len < 256; r++)
        if (missing[r] == which)
            len += (size_t)snprintf(text + len, 256 - len, "%s%d", len ? ", " : "", r);
    return text;
}

/* Who waits for others has answered; who has not is busy elsewhere, or stands still: one of those that are waited for
 * here, or that they wait for. Else it is one that waits at another place. */
static bool find_missing(bool missing[WORLD_MAX], const World *w, bool (*waits)(const void *arg, int rank),
                         const void *arg)
{
    bool any = false;

    for (int how = 0; how < 3 && !any; how++)
        for (int r = 0; r < w->size; r++) {
            const Peer *p = &w->peer[r];

            missing[r] = r != w->rank && (how < 2 ? !p->answered : p->turn != w->turn) && (how || waits(arg, r));
            any |= missing[r];
        }
    return any;
}

Status world_late(World *w, bool (*waits)(const void *arg, int rank), const void *arg)
{
    bool missing[WORLD_MAX], any;
    char those[256], here[256];

    TRY(ask_all(w, PATIENCE));
    pthread_mutex_lock(&w->lock);
    any = find_missing(missing, w, waits, arg);
    pthread_mutex_unlock(&w->lock);
    if (!any)
        return FAIL(E_DEVICE, "all %d processes have come, and nothing has moved for %g seconds", w->size, w->timeout);
    return FAIL(E_DEVICE, "nothing has come from rank %s of %d for %g seconds; waiting: rank %s",
                list_ranks(those, w, missing, true), w->size, w->timeout, list_ranks(here, w, missing, false));
}

/* What was done together, or what is told to those who wait for it. */
static Status after(World *w, Status st)
{
    pthread_mutex_lock(&w->lock);
    w->turn += !st;
    pthread_mutex_unlock(&w->lock);
    if (st && st != E_INTERRUPTED)
        world_abort(w, status_message());
    return st;
}

/* Ended by others, or by what broke off an exchange: parcels are half sent then, and nothing can follow them. */
Status world_exchange(World *w, const Parcel *send, const Parcel *recv, const atomic_bool *cancelled)
{
    TRY(world_poll(w));
    return w->transport ? after(w, w->transport->exchange(w, send, recv, cancelled)) : ST_OK;
}

/* ---- sums ---- */

bool world_can_add(const World *w) { return w && w->transport && w->transport->add; }

Status world_sum_space(void **out, World *w, size_t bytes) { return w->transport->sum_space(out, w, bytes); }

Status world_add(const void **sums, World *w, WorldNumber type, const int *n, bool all, const atomic_bool *cancelled)
{
    TRY(world_poll(w));
    return after(w, w->transport->add(sums, w, type, n, all, cancelled));
}
