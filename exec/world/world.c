/* Exchanges of data among all processes, and notes about processes that fail or leave.  A transport carries both
 * (exec/world/internal.h). */
#include "exec/world/world.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "exec/world/internal.h"
#include "graph/base/numtext.h"

enum { ANSWER_SECONDS = 1, LOSS_SECONDS = 2 /* for the others' answers */ };

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

/* ---- the purpose of exchanges ---- */

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

/* Sends a note to all others.  The lock is held. */
static void send_all(World *w, const WorldNote *note)
{
    for (int r = 0; r < w->size && w->transport && is_ours(w); r++)
        if (r != w->rank)
            w->transport->send_note(w, r, note);
}

void world_take_note(World *w, int from, WorldNote *note)
{
    Peer *p = &w->peer[from];
    WorldNote answer = { .kind = NOTE_PROGRESS, .origin = w->rank, .turn = w->turn };

    note->reason[WORLD_REASON - 1] = '\0';
    if (note->kind == NOTE_LEAVE)
        p->left = true;
    if (note->kind == NOTE_ABORT && note->origin >= 0 && note->origin < w->size) {
        p->failed = true;
        p->waited = note->waited != 0;
        world_fail(w, note->origin, note->reason);
    }
    if (note->kind == NOTE_ASK) {
        answer.has_progress = w->where != NULL;
        if (w->where)
            answer.progress = w->where(w->where_arg);
        snprintf(answer.reason, sizeof answer.reason, "%s", w->purpose);
        w->transport->send_note(w, from, &answer);
    }
    if (note->kind == NOTE_PROGRESS) {
        p->answered = true;
        p->has_progress = note->has_progress != 0;
        p->turn = note->turn;
        p->progress = note->progress;
        snprintf(p->purpose, sizeof p->purpose, "%.*s", (int)strcspn(note->reason, "\n"), note->reason);
    }
}

static void lose(World *w, int rank, const char *how)
{
    w->lost |= w->origin < 0;
    world_fail(w, rank, how);
}

void world_lose(World *w, int rank)
{
    w->peer[rank].closed = true;
    if (!w->peer[rank].left)
        lose(w, rank, "the process has gone: its connection is closed");
}

void world_miss(World *w, int rank) { lose(w, rank, "has ended its part while others go on"); }

/* The error of a world that has failed.  A purpose that this process shares with the failed one is named once. */
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

void world_set_failed_everywhere(World *w, bool failed_everywhere)
{
    pthread_mutex_lock(&w->lock);
    w->failed_everywhere = failed_everywhere;
    pthread_mutex_unlock(&w->lock);
}

static void abort_all(World *w, const char *reason, bool waited)
{
    WorldNote note = { .kind = NOTE_ABORT, .waited = waited };

    pthread_mutex_lock(&w->lock);
    if (!w->failed_everywhere) {
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

/* ---- processes that are waited for ---- */

void world_set_progress(World *w, WorldProgress (*where)(void *arg), void *arg)
{
    pthread_mutex_lock(&w->lock);
    w->where = where;
    w->where_arg = arg;
    pthread_mutex_unlock(&w->lock);
}

/* Asks all others for their progress.  Returns when all have answered or `seconds` have passed; with `heed` also, with
 * its error, when a process has failed or gone.  No answer comes from a process that has gone or failed. */
static Status ask_all(World *w, double seconds, bool heed)
{
    const WorldNote note = { .kind = NOTE_ASK, .origin = w->rank };
    double until = world_now() + seconds;
    bool all = false;

    pthread_mutex_lock(&w->lock);
    for (int r = 0; r < w->size; r++)
        w->peer[r].answered = w->peer[r].has_progress = false;
    send_all(w, &note);
    pthread_mutex_unlock(&w->lock);
    while (true) {
        pthread_mutex_lock(&w->lock);
        world_read_notes(w);
        all = true;
        for (int r = 0; r < w->size; r++) {
            const Peer *p = &w->peer[r];

            all = all && (p->answered || p->closed || p->left || p->failed || r == w->rank);
        }
        pthread_mutex_unlock(&w->lock);
        if (all || world_now() >= until)
            break;
        if (heed)
            TRY(world_poll(w));
        nanosleep(&(struct timespec){ 0, 5000000 }, NULL);
    }
    return heed ? world_poll(w) : ST_OK;
}

Status world_ask_progress(World *w, double seconds, WorldProgress progress[WORLD_MAX], bool has_progress[WORLD_MAX])
{
    TRY(ask_all(w, seconds, true));
    pthread_mutex_lock(&w->lock);
    for (int r = 0; r < w->size; r++) {
        has_progress[r] = w->peer[r].has_progress;
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
    static const WorldNote note = { .kind = NOTE_LEAVE };

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

/* "1, 3 (the checkpoint of step 20)": the ranks r with of[r], and the purpose of those that wait for another one. */
static const char *ranks_text(char text[LIST], const World *w, const bool *of)
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

/* Finds the ranks that hold the exchange up.  A process that waits answers; one that does not answer is busy or hangs.
 * So the missing ranks are those that do not answer: first among the ranks that this process waits for, then among all.
 * If all answer, they are the ranks that wait in another exchange.  Returns false when there are none of either. */
static bool find_missing(bool missing[WORLD_MAX], const World *w, bool (*waits)(const void *arg, int rank),
                         const void *arg)
{
    bool any = false;

    for (int round = 0; round < 3 && !any; round++)
        for (int r = 0; r < w->size; r++) {
            const Peer *p = &w->peer[r];

            missing[r] = r != w->rank && (round < 2 ? !p->answered : p->turn != w->turn) && (round || waits(arg, r));
            any |= missing[r];
        }
    return any;
}

Status world_fail_timeout(World *w, bool (*waits)(const void *arg, int rank), const void *arg)
{
    bool missing[WORLD_MAX] = { false }, here[WORLD_MAX] = { false }, any;
    char those[LIST], these[LIST];

    TRY(ask_all(w, ANSWER_SECONDS, true));
    pthread_mutex_lock(&w->lock);
    any = find_missing(missing, w, waits, arg);
    for (int r = 0; r < w->size; r++)
        here[r] = !missing[r];
    ranks_text(those, w, missing);
    ranks_text(these, w, here);
    pthread_mutex_unlock(&w->lock);
    if (!any)
        return FAIL(E_DEVICE, "all %d processes have come, and nothing has moved for %g seconds", w->size, w->timeout);
    return FAIL(E_DEVICE, "nothing has come from rank %s of %d for %g seconds; waiting: rank %s", those, w->size,
                w->timeout, these);
}

/* Completes the reason of a process that has gone without a note: adds the ranks that wait for it, and those that have
 * gone, too. */
static Status add_waiting(World *w)
{
    bool here[WORLD_MAX] = { false }, gone[WORLD_MAX] = { false }, more = false;
    char reason[WORLD_REASON], these[LIST], those[LIST], purpose[WORLD_PURPOSE + 2];

    TRY(ask_all(w, LOSS_SECONDS, false));
    pthread_mutex_lock(&w->lock);
    for (int r = 0; r < w->size; r++) {
        const Peer *p = &w->peer[r];

        here[r] = r == w->rank || p->answered || (p->failed && p->waited);
        gone[r] = r != w->origin && p->closed && !p->left && !p->failed;
        more |= gone[r];
    }
    snprintf(reason, sizeof reason, "%s%s%s%s; waiting: rank %s", with_purpose(purpose, w), w->reason,
             more ? "; gone too: rank " : "", more ? ranks_text(those, w, gone) : "", ranks_text(these, w, here));
    snprintf(w->reason, sizeof w->reason, "%s", reason);
    w->lost = false;
    pthread_mutex_unlock(&w->lock);
    return world_poll(w);
}

/* Notifies the others of a failure in an exchange, and returns it with the purpose in front. */
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

/* Counts an exchange or sum that succeeded; otherwise notifies the others and cleans up. */
static Status finish_exchange(World *w, Status st)
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

/* After a failure parcels may be half sent, so every later exchange fails at world_poll. */
Status world_exchange(World *w, const Parcel *send, const Parcel *recv, const atomic_bool *cancelled)
{
    Status st = world_poll(w);

    if (!w->transport)
        return st;
    return finish_exchange(w, st ? st : w->transport->exchange(w, send, recv, cancelled));
}

/* ---- sums ---- */

bool world_can_add(const World *w) { return w && w->transport && w->transport->add; }

Status world_sum_space(void **out, World *w, size_t bytes) { return w->transport->sum_space(out, w, bytes); }

Status world_add(const void **sums, World *w, WorldNumber type, const int *n, bool all, const atomic_bool *cancelled)
{
    Status st = world_poll(w);

    return finish_exchange(w, st ? st : w->transport->add(sums, w, type, n, all, cancelled));
}
