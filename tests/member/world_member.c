/* One process of a world over MPI, for tests/cli/mpi.sh: world_member LIBRARY CASE, started by the library's launcher.
 * It says what is wrong and ends with a status that is not 0. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "exec/world/world.h"

enum { MOST_PIECES = 9, ROUNDS = 40, LONGEST = 6 << 20 };

static void nap(double seconds)
{
    struct timespec t = { (time_t)seconds, (long)(1e9 * (seconds - (double)(time_t)seconds)) };

    nanosleep(&t, NULL);
}

/* ---- parcels that either side cuts in its own way ---- */

static size_t length(int round, int from, int to)
{
    static const size_t lengths[] = { 0, 1, 2031, 2032, 2033, 70000, (1 << 20) + 2032, LONGEST };

    return lengths[(size_t)(round + 3 * from + 5 * to) % (sizeof lengths / sizeof *lengths)];
}

static unsigned char byte_of(int round, int from, int to, size_t at)
{
    return (unsigned char)(at * 2654435761u >> 13 ^ (size_t)(round * 7 + from * 31 + to * 101));
}

static void cut(Parcel *p, struct iovec *piece, unsigned char *data, size_t bytes, int n)
{
    size_t at = 0;

    *p = (Parcel){ piece, n };
    for (int i = 0; i < n; i++) {
        size_t len = i + 1 == n ? bytes - at : bytes / (size_t)n * (size_t)(i % 2);

        piece[i] = (struct iovec){ data + at, len };
        at += len;
    }
}

typedef struct {
    Parcel send[WORLD_MAX], recv[WORLD_MAX];
    struct iovec out[WORLD_MAX][MOST_PIECES], in[WORLD_MAX][MOST_PIECES];
    unsigned char *sent[WORLD_MAX], *got[WORLD_MAX];
} Post;

static Status exchange_round(World *w, Post *p, int round)
{
    int me = world_rank(w), n = world_size(w);

    for (int r = 0; r < n; r++) {
        size_t out = length(round, me, r), in = length(round, r, me);

        for (size_t i = 0; i < out; i++)
            p->sent[r][i] = byte_of(round, me, r, i);
        memset(p->got[r], 0xee, in + 1);
        cut(&p->send[r], p->out[r], p->sent[r], out, 1 + (round + r) % MOST_PIECES);
        cut(&p->recv[r], p->in[r], p->got[r], in, 1 + (round * 5 + me) % MOST_PIECES);
    }
    TRY(world_exchange(w, p->send, p->recv, NULL));
    for (int r = 0; r < n; r++) {
        size_t in = length(round, r, me);

        for (size_t i = 0; i < in && r != me; i++)
            if (p->got[r][i] != byte_of(round, r, me, i))
                return FAIL(E_INTERNAL, "round %d: byte %zu of %zu from rank %d is wrong", round, i, in, r);
        if (r != me && p->got[r][in] != 0xee)
            return FAIL(E_INTERNAL, "round %d: more than %zu bytes from rank %d were written", round, in, r);
    }
    return ST_OK;
}

static Status exchange_all(World *w)
{
    static Post p;
    Status st = ST_OK;

    for (int r = 0; r < world_size(w); r++)
        if (!(p.sent[r] = malloc(LONGEST + 1)) || !(p.got[r] = malloc(LONGEST + 1)))
            return FAIL_NOMEM();
    for (int k = 0; k < ROUNDS && !st; k++)
        st = exchange_round(w, &p, k);
    for (int r = 0; r < world_size(w); r++) {
        free(p.sent[r]);
        free(p.got[r]);
    }
    return st;
}

/* ---- other threads at the same time ---- */

typedef struct {
    World *world;
    atomic_bool over, cancelled;
    int answers;
    Status status;
    char message[512];
} Watch;

static WorldProgress where(void *arg) { return (WorldProgress){ 5, *(int *)arg }; }

static void *watch(void *arg)
{
    static WorldProgress progress[WORLD_MAX];
    static bool told[WORLD_MAX];
    Watch *p = arg;

    while (!p->status && !atomic_load(&p->over)) {
        p->status = world_ask_progress(p->world, 0.2, progress, told);
        for (int r = 0; r < world_size(p->world) && !p->status; r++)
            if (r != world_rank(p->world) && told[r]) {
                p->answers++;
                if (progress[r].step != 5 || progress[r].at != r)
                    p->status = FAIL(E_INTERNAL, "rank %d is told to be at %lld", r, (long long)progress[r].at);
            }
    }
    snprintf(p->message, sizeof p->message, "%s", p->status ? status_message() : "");
    return NULL;
}

static Status watched(World *w)
{
    Watch p = { .world = w };
    int me = world_rank(w);
    pthread_t thread;
    int64_t all;
    Status st;

    world_set_progress(w, where, &me);
    if (pthread_create(&thread, NULL, watch, &p))
        return FAIL_NOMEM();
    st = exchange_all(w);
    atomic_store(&p.over, true);
    pthread_join(thread, NULL);
    TRY(st);
    TRY(world_max(w, 0, &all)); /* nobody asks any more */
    world_set_progress(w, NULL, NULL);
    if (p.status)
        return FAIL(p.status, "%s", p.message);
    return p.answers ? ST_OK : FAIL(E_INTERNAL, "nobody has answered");
}

/* ---- sums by the library ---- */

static double term(int rank, int64_t i) { return (double)((i * 2654435761 + rank * 40503) % 9973 - 4986) / 997; }

/* n[r] numbers for every rank r; the first of them is number `at`. */
static Status check_sums(const World *w, const void *sums, bool wide, int64_t at, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        const double found = wide ? ((const double *)sums)[i] : (double)((const float *)sums)[i],
                     limit = wide ? 1e-14 : 1e-5;
        double sum = 0, size = 0;

        for (int r = 0; r < world_size(w); r++) {
            sum += term(r, at + i);
            size += term(r, at + i) < 0 ? -term(r, at + i) : term(r, at + i);
        }
        if (!(found - sum <= limit * size && sum - found <= limit * size))
            return FAIL(E_INTERNAL, "sum %lld is %.17g, expected %.17g", (long long)(at + i), found, sum);
    }
    return ST_OK;
}

static Status add_up(World *w, int most, bool wide, bool all)
{
    int n[WORLD_MAX], sum = 0, before = 0, mine;
    const void *sums;
    void *space;
    Facts *f = facts_create();
    Status st;

    for (int r = 0; r < world_size(w); r++) {
        n[r] = most * (r % 3) / 2; /* of rank 0 none */
        before += r < world_rank(w) ? n[r] : 0;
        sum += n[r];
    }
    mine = all ? sum : n[world_rank(w)];
    TRY(world_sum_space(&space, w, (size_t)sum * (wide ? sizeof(double) : sizeof(float))));
    for (int i = 0; i < sum; i++)
        if (wide)
            ((double *)space)[i] = term(world_rank(w), i);
        else
            ((float *)space)[i] = (float)term(world_rank(w), i);
    TRY(world_add(&sums, w, wide ? WORLD_FLOAT64 : WORLD_FLOAT32, n, all, NULL));
    TRY(check_sums(w, sums, wide, all ? 0 : before, mine));
    st = f ? facts_add_digest(f, "sums of digest", sums, (size_t)mine * (wide ? sizeof(double) : sizeof(float)))
           : FAIL_NOMEM();
    if (!st && all) /* else each has its own */
        st = world_agree(w, f, "sums for all");
    facts_free(f);
    return st;
}

/* What all get are the same bits in all processes. */
static Status sums(World *w)
{
    static const int most[] = { 1, 2, 10000, 20000, 1 << 20 };

    for (size_t i = 0; i < 4 * (sizeof most / sizeof *most); i++)
        TRY(add_up(w, most[i / 4], i & 1, i & 2));
    return ST_OK;
}

/* ---- ends ---- */

static void *cancel_soon(void *arg)
{
    nap(0.2);
    atomic_store(&((Watch *)arg)->cancelled, true);
    return NULL;
}

/* For those that notice nothing themselves. */
static Status hear(World *w)
{
    int64_t all;

    return world_max(w, 0, &all);
}

/* Rank 0's wait is broken off while much is on its way; the others hear why. */
static Status broken_off(World *w)
{
    enum { BYTES = 64 << 20 };
    unsigned char *data = calloc(2, BYTES);
    struct iovec out = { data, BYTES }, in = { data + BYTES, BYTES };
    Parcel send[WORLD_MAX] = { { NULL, 0 } }, recv[WORLD_MAX] = { { NULL, 0 } };
    Watch p = { .world = w };
    pthread_t thread;
    double begin = world_now();
    int last = world_size(w) - 1;
    Status st;

    if (!data || pthread_create(&thread, NULL, cancel_soon, &p))
        return FAIL_NOMEM();
    if (!world_rank(w) || world_rank(w) == last) {
        int other = last - world_rank(w);

        send[other] = (Parcel){ &out, 1 };
        recv[other] = (Parcel){ &in, 1 };
    }
    if (world_rank(w) == last)
        nap(0.6);
    st = world_exchange(w, send, recv, world_rank(w) ? NULL : &p.cancelled);
    pthread_join(thread, NULL);
    free(data);
    if (!world_rank(w)) {
        if (st != E_INTERRUPTED || world_now() - begin > 5)
            return FAIL(E_INTERNAL, "expected an exchange that is broken off in 5 s, found status %d after %g s", st,
                        world_now() - begin);
        return FAIL(E_INTERRUPTED, "the milk is finished");
    }
    if (!st && world_rank(w) == last)
        return FAIL(E_INTERNAL, "an exchange that was broken off has ended well");
    return st ? st : hear(w);
}

/* Rank 1 sends less than the others expect. */
static Status other_size(World *w)
{
    char data[64] = "";
    struct iovec out = { data, world_rank(w) == 1 ? 8 : 16 }, in = { data + 32, 16 };
    Parcel send[WORLD_MAX], recv[WORLD_MAX];

    for (int r = 0; r < world_size(w); r++) {
        send[r] = (Parcel){ &out, 1 };
        recv[r] = (Parcel){ &in, 1 };
    }
    TRY(world_exchange(w, send, recv, NULL));
    return hear(w);
}

/* The last of all does not come. */
static Status absent(World *w)
{
    int64_t all;

    world_set_purpose(w, "the number of %s", "cups");
    if (world_rank(w) == world_size(w) - 1)
        nap(1e-3 * 3500);
    return world_max(w, 0, &all);
}

/* All but the last wait for it, for some seconds, and take next to no processor time for that. */
static Status patient(World *w)
{
    enum { SECONDS = 3 };
    const int last = world_size(w) - 1;
    struct timespec before, now;
    int64_t all;
    double took;

    TRY(world_max(w, 0, &all)); /* all are here */
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &before);
    if (world_rank(w) == last)
        nap(SECONDS);
    TRY(world_max(w, 0, &all));
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    took = (double)(now.tv_sec - before.tv_sec) + 1e-9 * (double)(now.tv_nsec - before.tv_nsec);
    printf("rank %d took %.3f of %d seconds\n", world_rank(w), took, SECONDS);
    return took < 0.05 * SECONDS ? ST_OK : FAIL(E_INTERNAL, "waiting took %.3g seconds of processor time", took);
}

/* More than 2^31 bytes in a piece from rank 0 to rank 1, by hand: both take 2 GiB of memory. */
static Status huge(World *w)
{
    const size_t bytes = ((size_t)1 << 31) + 5, stride = 1021;
    unsigned char *data = world_rank(w) < 2 ? calloc(bytes, 1) : NULL;
    struct iovec piece = { data, bytes };
    Parcel send[WORLD_MAX] = { { NULL, 0 } }, recv[WORLD_MAX] = { { NULL, 0 } };
    Status st = data || world_rank(w) > 1 ? ST_OK : FAIL_NOMEM();

    for (size_t i = 0; i < bytes && !world_rank(w) && data; i += stride)
        data[i] = byte_of(0, 0, 1, i);
    if (world_rank(w) == 0)
        send[1] = (Parcel){ &piece, 1 };
    if (world_rank(w) == 1)
        recv[0] = (Parcel){ &piece, 1 };
    if (!st)
        st = world_exchange(w, send, recv, NULL);
    for (size_t i = 0; i < bytes && world_rank(w) == 1 && !st; i += stride)
        if (data[i] != byte_of(0, 0, 1, i))
            st = FAIL(E_INTERNAL, "byte %zu is wrong", i);
    free(data);
    return st;
}

static Status absent_from_sum(World *w)
{
    if (world_rank(w) == world_size(w) - 1)
        nap(1e-3 * 3500);
    return add_up(w, 1000, false, true);
}

static Status neighbours(World *w)
{
    return world_neighbours(w) == world_size(w)
               ? ST_OK
               : FAIL(E_INTERNAL, "%d neighbours of %d", world_neighbours(w), world_size(w));
}

/* How long a small exchange takes. */
static Status small(World *w)
{
    double begin = world_now();
    int64_t all;

    for (int i = 0; i < 2000; i++)
        TRY(world_max(w, i, &all));
    if (!world_rank(w))
        printf("a small exchange takes %.1f microseconds\n", 1e6 * (world_now() - begin) / 2000);
    return ST_OK;
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        Status (*run)(World *);
    } cases[] = { { "pieces", exchange_all },
                  { "watched", watched },
                  { "broken-off", broken_off },
                  { "other-size", other_size },
                  { "sums", sums },
                  { "absent", absent },
                  { "absent-from-sum", absent_from_sum },
                  { "neighbours", neighbours },
                  { "patient", patient },
                  { "huge", huge },
                  { "small", small } };
    WorldOptions opt = { .timeout = 60, .mpi = argv[1] };
    Status st = argc == 3 ? ST_OK : FAIL(E_INVALID, "usage: world_member LIBRARY CASE");
    World *w = NULL;

    if (argc == 3 && !strncmp(argv[2], "absent", 6))
        opt.timeout = 1;
    if (argc == 3 && !strcmp(argv[2], "huge"))
        opt.timeout = 600;
    if (!st)
        st = world_join(&w, &opt);
    for (size_t i = 0; !st && i < sizeof cases / sizeof *cases; i++)
        if (!strcmp(argv[2], cases[i].name))
            st = cases[i].run(w);
    if (st) {
        world_abort(w, status_message());
        fprintf(stderr, "member %d: %s\n", world_rank(w), status_message());
        world_end(w, 3);
    }
    world_leave(w);
    return st ? 3 : 0;
}
