/* Agreements between processes, made of exchanges: the largest number of all, their sum, the bytes of one process, and
 * whether facts are equal everywhere. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "exec/world/internal.h"
#include "graph/base/heap_array.h"

enum { MOST_GATHERED = 64 << 20 /* bytes of one process */ };

WorldRound *world_round_create(void)
{
    WorldRound *r = calloc(1, sizeof *r);

    for (int i = 0; r && i < WORLD_MAX; i++) {
        r->send[i].piece = &r->out[i];
        r->recv[i].piece = &r->in[i];
    }
    return r;
}

void world_round_send(WorldRound *r, int rank, const void *data, size_t bytes)
{
    r->out[rank] = (struct iovec){ (void *)(uintptr_t)data, bytes };
    r->send[rank].n = 1;
}

void world_round_receive(WorldRound *r, int rank, void *data, size_t bytes)
{
    r->in[rank] = (struct iovec){ data, bytes };
    r->recv[rank].n = 1;
}

Status world_round_run(WorldRound *r, World *w) { return world_exchange(w, r->send, r->recv, NULL); }

/* Exchanges, and frees the round. */
static Status run_round(WorldRound *r, World *w)
{
    const Status st = world_round_run(r, w);

    free(r);
    return st;
}

/* A number and its purpose, so that processes at different places of a run do not mix up their numbers. */
typedef struct {
    int64_t number;
    char purpose[120];
} Announced;

/* Gathers a number of every process: all[size].  E_INVALID when their purposes differ. */
static Status gather_numbers(World *w, int64_t mine, int64_t all[WORLD_MAX])
{
    Announced own = { .number = mine }, announced[WORLD_MAX];
    WorldRound *r = world_round_create();

    if (!r)
        return FAIL_NOMEM();
    snprintf(own.purpose, sizeof own.purpose, "%s", w->purpose);
    for (int k = 0; k < w->size; k++) {
        world_round_send(r, k, &own, sizeof own);
        world_round_receive(r, k, &announced[k], sizeof *announced);
    }
    announced[w->rank] = own;
    TRY(run_round(r, w));
    for (int k = 0; k < w->size; k++) {
        announced[k].purpose[sizeof own.purpose - 1] = '\0';
        if (strcmp(announced[k].purpose, own.purpose) != 0)
            return FAIL(E_INVALID,
                        "rank %d is at '%s', rank %d at '%s': the processes need the same flags, model and data",
                        w->rank, own.purpose, k, announced[k].purpose);
        all[k] = announced[k].number;
    }
    return ST_OK;
}

/* Gathers how many bytes of `what` each process has.  E_INVALID: one has too many. */
static Status gather_sizes(World *w, const char *what, size_t mine, int64_t bytes[WORLD_MAX])
{
    TRY(gather_numbers(w, (int64_t)mine, bytes));
    for (int r = 0; r < w->size; r++) /* sizes from other processes may be anything */
        if (bytes[r] < 0 || bytes[r] > MOST_GATHERED)
            return FAIL(E_INVALID, "rank %d of %d: %s of %" PRId64 " bytes, expected 0 to %d", r, w->size, what,
                        bytes[r], MOST_GATHERED);
    return ST_OK;
}

Status world_count_neighbours(World *w)
{
    int64_t all[WORLD_MAX], mine = (int64_t)machine_id();

    TRY(gather_numbers(w, mine, all));
    w->neighbours = 0;
    for (int r = 0; r < w->size; r++)
        w->neighbours += all[r] == mine;
    return ST_OK;
}

Status world_max(World *w, int64_t mine, int64_t *out)
{
    int64_t all[WORLD_MAX], most = mine;

    if (w && w->size > 1) {
        TRY(gather_numbers(w, mine, all));
        for (int r = 0; r < w->size; r++)
            most = all[r] > most ? all[r] : most;
    }
    *out = most;
    return ST_OK;
}

Status world_sum(World *w, int64_t mine, int64_t *out)
{
    int64_t all[WORLD_MAX];
    uint64_t sum = (uint64_t)mine;

    if (w && w->size > 1) {
        TRY(gather_numbers(w, mine, all));
        sum = 0;
        for (int r = 0; r < w->size; r++)
            sum += (uint64_t)all[r];
    }
    *out = (int64_t)sum;
    return ST_OK;
}

Status world_gather(World *w, const void *mine, size_t bytes, void **all, size_t size[WORLD_MAX])
{
    int64_t each[WORLD_MAX];
    size_t n = 0;
    char *to = NULL;
    WorldRound *r;
    Status st;

    TRY(gather_sizes(w, "data", bytes, each));
    for (int k = 0; k < w->size; k++)
        n += (size_t)each[k];
    if (!(r = world_round_create()) || (!w->rank && !(to = malloc(n + 1)))) {
        free(r);
        return FAIL_NOMEM();
    }
    if (w->rank)
        world_round_send(r, 0, mine, bytes);
    n = 0;
    for (int k = 0; k < w->size && to; k++) {
        size[k] = (size_t)each[k];
        if (k)
            world_round_receive(r, k, to + n, size[k]);
        n += size[k];
    }
    if (to && bytes)
        memcpy(to, mine, bytes);
    if ((st = run_round(r, w)))
        free(to);
    else
        *all = to;
    return st;
}

Status world_share(World *w, int root, void *data, size_t bytes)
{
    WorldRound *r = world_round_create();

    if (!r)
        return FAIL_NOMEM();
    for (int k = 0; k < w->size && w->rank == root; k++)
        world_round_send(r, k, data, bytes);
    if (w->rank != root)
        world_round_receive(r, root, data, bytes);
    return run_round(r, w);
}

/* ---- facts ---- */

/* Names and values, one after another: name \0 value \0 name \0 value \0 ... */
struct Facts {
    char *text;
    size_t bytes, cap;
};

Facts *facts_create(void) { return calloc(1, sizeof(Facts)); }

void facts_free(Facts *f)
{
    if (f)
        free(f->text);
    free(f);
}

static Status append_text(Facts *f, const char *text)
{
    const size_t n = strlen(text) + 1;
    char *grown = heap_reserve(f->text, 1, f->bytes + n, &f->cap);

    if (!grown)
        return FAIL_NOMEM();
    f->text = grown;
    memcpy(f->text + f->bytes, text, n);
    f->bytes += n;
    return ST_OK;
}

Status facts_add(Facts *f, const char *name, const char *value)
{
    TRY(append_text(f, name));
    return append_text(f, value);
}

Status facts_add_all(Facts *f, const Facts *more)
{
    for (const char *at = more->text, *end = at ? at + more->bytes : NULL; at && at < end;) {
        const char *value = at + strlen(at) + 1;

        TRY(facts_add(f, at, value));
        at = value + strlen(value) + 1;
    }
    return ST_OK;
}

Status facts_add_digest(Facts *f, const char *name, const void *data, size_t bytes)
{
    char text[17];

    snprintf(text, sizeof text, "%016" PRIx64, (uint64_t)XXH3_64bits(data, bytes));
    return facts_add(f, name, text);
}

/* The value of the fact; NULL: there is none. */
static const char *find_fact(const Facts *f, const char *name)
{
    for (const char *at = f->text, *end = at + f->bytes; at && at < end;) {
        const char *value = at + strlen(at) + 1;

        if (!strcmp(at, name))
            return value;
        at = value + strlen(value) + 1;
    }
    return NULL;
}

/* Lists how the facts of a rank differ from rank 0's. */
static void compare_facts(Problems *wrong, int rank, const Facts *has, const Facts *first)
{
    for (const char *at = first->text, *end = at + first->bytes; at && at < end;) {
        const char *value = at + strlen(at) + 1, *other = find_fact(has, at);

        if (!other)
            problems_add(wrong, "rank %d has no %s", rank, at);
        else if (strcmp(value, other))
            problems_add(wrong, "rank %d has %s '%s', rank 0 '%s'", rank, at, other, value);
        at = value + strlen(value) + 1;
    }
    for (const char *at = has->text, *end = at + has->bytes; at && at < end;) {
        const char *value = at + strlen(at) + 1;

        if (!find_fact(first, at))
            problems_add(wrong, "rank %d has %s '%s', rank 0 has none", rank, at, value);
        at = value + strlen(value) + 1;
    }
}

/* Receives the facts of all processes, bytes[size] of each, into all[size].  The caller frees their texts. */
static Status gather_facts(World *w, const Facts *f, const int64_t *bytes, Facts *all)
{
    WorldRound *r = world_round_create();

    if (!r)
        return FAIL_NOMEM();
    for (int k = 0; k < w->size; k++) {
        all[k] = (Facts){ calloc((size_t)bytes[k] + 2, 1), (size_t)bytes[k], 0 };
        if (!all[k].text) {
            free(r);
            return FAIL_NOMEM();
        }
        world_round_send(r, k, f->text, f->bytes);
        world_round_receive(r, k, all[k].text, all[k].bytes);
    }
    memcpy(all[w->rank].text, f->text, f->bytes);
    return run_round(r, w);
}

Status world_agree(World *w, const Facts *f, const char *about)
{
    int64_t bytes[WORLD_MAX];
    PROBLEMS(wrong);
    Facts *all;
    Status st;

    if (!w || w->size == 1)
        return ST_OK;
    world_set_failed_everywhere(w, false);
    TRY(gather_sizes(w, "facts", f->bytes, bytes));
    if (!(all = calloc((size_t)w->size, sizeof *all)))
        return FAIL_NOMEM();
    st = gather_facts(w, f, bytes, all);
    for (int r = 1; r < w->size && !st; r++)
        compare_facts(&wrong, r, &all[r], &all[0]);
    for (int r = 0; r < w->size; r++)
        free(all[r].text);
    free(all);
    if (wrong.n)
        world_set_failed_everywhere(w, true);
    return st ? st : problems_fail(&wrong, E_INVALID, "%s", about);
}
