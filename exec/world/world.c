/* Talking: exchanges of data among all, and notes about who fails or leaves; how either is carried is a transport's
 * affair (exec/world/internal.h). */
#include "exec/world/world.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "exec/world/internal.h"
#include "graph/base/numtext.h"

enum { PATIENCE = 1, OF_LOSS = 2 /* seconds for the others' answers */ };

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
    w->owner = getpid();
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

/* ---- what exchanges are for ---- */

void world_set_purpose(World *w, const char *form, ...)
{
    va_list ap;

    if (!w)
        return;
    va_start(ap, form);
    pthread_mutex_lock(&w->lock);
    text_vformat(w->purpose, sizeof w->purpose, form, ap);
    w->at_node = false;
    pthread_mutex_unlock(&w->lock);
    va_end(ap);
}

void world_set_node(World *w, const char *node)
{
    pthread_mutex_lock(&w->lock);
    snprintf(w->purpose, sizeof w->purpose, "%s", node);
    w->at_node = true;
    pthread_mutex_unlock(&w->lock);
}

/* "PURPOSE: " */
static const char *with_purpose(char text[WORLD_PURPOSE + 2], const World *w)
{
    snprintf(text, WORLD_PURPOSE + 2, "%s%s", w->purpose, *w->purpose ? ": " : "");
    return text;
}

/* ---- notes ---- */

void world_fail(World *w, int origin, const char *reason)
{
    if (w->origin >= 0)
        return;
    w->origin = origin;
    snprintf(w->reason, sizeof w->reason, "%.*s", (int)strcspn(reason, "\n"), reason);
}

static bool is_ours(const World *w) { return w->owner == getpid(); }

static void world_read_notes(World *w)
{
    if (w->transport && is_ours(w))
        w->transport->read_notes(w);
}

/* To all others; the lock is held. */
static void send_all(World *w, const Note *note)
{
    for (int r = 0; r < w->size && w->transport && is_ours(w); r++)
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
    if (note->kind == NOTE_ABORT && note->origin >= 0 && note->origin < w->size) {
        p->failed = true;
        p->waited = note->waited != 0;
        world_fail(w, note->origin, note->reason);
    }
    if (note->kind == NOTE_ASK) {
        answer.knows = w->where != NULL;
        if (w->where)
            answer.progress = w->where(w->where_arg);
        snprintf(answer.reason, sizeof answer.reason, "%s", w->purpose);
        w->transport->send_note(w, from, &answer);
    }
    if (note->kind == NOTE_PROGRESS) {
        p->answered = true;
        p->told = note->knows != 0;
        p->turn = note->turn;
        p->progress = note->progress;
        snprintf(p->purpose, sizeof p->purpose, "%.*s", (int)strcspn(note->reason, "\n"), note->reason);
    }
}

static void find_lost(World *w, int rank, const char *how)
{
    w->lost |= w->origin < 0;
    world_fail(w, rank, how);
}

void world_lose(World *w, int rank)
{
    w->peer[rank].closed = true;
    if (!w->peer[rank].left)
        find_lost(w, rank, "the process has gone: its connection is closed");
}

void world_miss(World *w, int rank) { find_lost(w, rank, "has ended its part while others go on"); }

/* What the reason was for is said once, where it is what this process does, too. */
static Status ended(const World *w)
{
    char purpose[WORLD_PURPOSE + 2];
    size_t n = strlen(with_purpose(purpose, w));
    const char *reason = w->reason + (strncmp(w->reason, purpose, n) ? 0 : n);

    return w->origin == w->rank ? FAIL(E_DEVICE, "an earlier step failed: %s", w->reason)
                                : FAIL(E_DEVICE, "rank %d of %d: %s", w->origin, w->size, reason);
}

Status world_poll(World *w)
{
    Status st;

    pthread_mutex_lock(&w->lock);
    world_read_notes(w);
    if (!is_ours(w))
        st = FAIL(E_DEVICE, "rank %d of %d is process %ld, of which this one is a fork: join worlds after the fork",
                  w->rank, w->size, (long)w->owner);
    else
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

static void abort_all(World *w, const char *reason, bool waited)
{
    Note note = { .kind = NOTE_ABORT, .waited = waited };

    pthread_mutex_lock(&w->lock);
    if (!w->known) {
        world_read_notes(w);
        world_fail(w, w->rank, reason);
        note.origin = w->origin;
        memcpy(note.reason, w->reason, sizeof note.reason);
        if (!w->aborted)
            send_all(w, &note);
        w->aborted = true;
    }
    pthread_mutex_unlock(&w->lock);
}

void world_abort(World *w, const char *reason)
{
    if (w)
        abort_all(w, reason, false);
}

/* ---- who is late ---- */

void world_set_progress(World *w, WorldProgress (*where)(void *arg), void *arg)
{
    pthread_mutex_lock(&w->lock);
    w->where = where;
    w->where_arg = arg;
    pthread_mutex_unlock(&w->lock);
}

static void ask(World *w)
{
    const Note note = { .kind = NOTE_ASK, .origin = w->rank };

    pthread_mutex_lock(&w->lock);
    for (int r = 0; r < w->size; r++)
        w->peer[r].answered = w->peer[r].told = false;
    send_all(w, &note);
    pthread_mutex_unlock(&w->lock);
}

/* From who has gone, or told why it fails, no answer will come. */
static bool all_answered(World *w)
{
    bool all = true;

    pthread_mutex_lock(&w->lock);
    world_read_notes(w);
    for (int r = 0; r < w->size; r++) {
        const Peer *p = &w->peer[r];

        all = all && (p->answered || p->closed || p->left || p->failed || r == w->rank);
    }
    pthread_mutex_unlock(&w->lock);
    return all;
}

/* Returns when all have answered, or the time is over; with `heed` also when one has failed, or gone. */
static Status ask_all(World *w, double seconds, bool heed)
{
    double until = world_now() + seconds;

    for (ask(w); !all_answered(w) && world_now() < until; nanosleep(&(struct timespec){ 0, 5000000 }, NULL))
        if (heed)
            TRY(world_poll(w));
    return heed ? world_poll(w) : ST_OK;
}

Status world_ask_progress(World *w, double seconds, WorldProgress progress[WORLD_MAX], bool told[WORLD_MAX])
{
    TRY(ask_all(w, seconds, true));
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
    if (w && w->transport && w->transport->end && is_ours(w))
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

enum { LIST = 2048 };

/* "1, 3"; of those that wait for something else, that too. */
static const char *list_ranks(char text[LIST], const World *w, const bool *of)
{
    size_t len = 0;

    *text = '\0';
    for (int r = 0; r < w->size && len < LIST; r++) {
        const Peer *p = &w->peer[r];
        bool apart = r != w->rank && p->answered && *p->purpose && strcmp(p->purpose, w->purpose) != 0;

        if (of[r])
            len += (size_t)snprintf(text + len, LIST - len, "%s%d%s%s%s", len ? ", " : "", r, apart ? " (" : "",
                                    apart ? p->purpose : "", apart ? ")" : "");
    }
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
    bool missing[WORLD_MAX] = { false }, here[WORLD_MAX] = { false }, any;
    char those[LIST], these[LIST];

    TRY(ask_all(w, PATIENCE, true));
    pthread_mutex_lock(&w->lock);
    any = find_missing(missing, w, waits, arg);
    for (int r = 0; r < w->size; r++)
        here[r] = !missing[r];
    list_ranks(those, w, missing);
    list_ranks(these, w, here);
    pthread_mutex_unlock(&w->lock);
    if (!any)
        return FAIL(E_DEVICE, "all %d processes have come, and nothing has moved for %g seconds", w->size, w->timeout);
    return FAIL(E_DEVICE, "nothing has come from rank %s of %d for %g seconds; waiting: rank %s", those, w->size,
                w->timeout, these);
}

/* One has gone without a word: who waits for it, and who has gone too, is added to the reason. */
static Status add_waiting(World *w)
{
    bool here[WORLD_MAX] = { false }, gone[WORLD_MAX] = { false }, more = false;
    char reason[WORLD_REASON], these[LIST], those[LIST], purpose[WORLD_PURPOSE + 2];

    TRY(ask_all(w, OF_LOSS, false));
    pthread_mutex_lock(&w->lock);
    for (int r = 0; r < w->size; r++) {
        const Peer *p = &w->peer[r];

        here[r] = r == w->rank || p->answered || (p->failed && p->waited);
        gone[r] = r != w->origin && p->closed && !p->left && !p->failed;
        more |= gone[r];
    }
    snprintf(reason, sizeof reason, "%s%s%s%s; waiting: rank %s", with_purpose(purpose, w), w->reason,
             more ? "; gone too: rank " : "", more ? list_ranks(those, w, gone) : "", list_ranks(these, w, here));
    snprintf(w->reason, sizeof w->reason, "%s", reason);
    w->lost = false;
    pthread_mutex_unlock(&w->lock);
    return world_poll(w);
}

/* What has failed while others were waited for, told to them. */
static Status fail_waiting(World *w, Status st)
{
    char text[WORLD_REASON], purpose[WORLD_PURPOSE + 2];
    bool lost;

    pthread_mutex_lock(&w->lock);
    lost = w->lost;
    pthread_mutex_unlock(&w->lock);
    if (lost)
        st = add_waiting(w);
    snprintf(text, sizeof text, "%s%s", with_purpose(purpose, w), status_message());
    abort_all(w, text, true);
    return w->at_node || !*w->purpose ? st : status_prefix(st, "%s", w->purpose);
}

/* What was done together, or is told to those who wait for it. */
static Status after(World *w, Status st)
{
    pthread_mutex_lock(&w->lock);
    w->turn += !st;
    pthread_mutex_unlock(&w->lock);
    if (st && st != E_INTERRUPTED)
        st = fail_waiting(w, st);
    if (st && w->transport && w->transport->settle)
        w->transport->settle(w);
    return st;
}

/* Ended by others, or by what broke off an exchange: parcels are half sent then, and nothing can follow them. */
Status world_exchange(World *w, const Parcel *send, const Parcel *recv, const atomic_bool *cancelled)
{
    Status st = world_poll(w);

    if (!w->transport)
        return st;
    return after(w, st ? st : w->transport->exchange(w, send, recv, cancelled));
}

/* ---- sums ---- */

bool world_can_add(const World *w) { return w && w->transport && w->transport->add; }

Status world_sum_space(void **out, World *w, size_t bytes) { return w->transport->sum_space(out, w, bytes); }

Status world_add(const void **sums, World *w, WorldNumber type, const int *n, bool all, const atomic_bool *cancelled)
{
    Status st = world_poll(w);

    return after(w, st ? st : w->transport->add(sums, w, type, n, all, cancelled));
}
