/* A profile as tables and as JSON.  Both have the means over the counted steps and over the devices. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "exec/inspect/profile_sums.h"
#include "graph/base/json_writer.h"
#include "graph/base/numtext.h"
#include "graph/ir/phase.h"

enum { MOST_OPERATORS = 30, MOST_LAYERS = 20, LEAST_NAME = 29, MOST_NAME = 34 };

static void add_row(ProfileRow *sum, const ProfileRow *r)
{
    sum->calls += r->calls;
    sum->bytes += r->bytes;
    sum->seconds += r->seconds;
    sum->waited += r->waited;
    for (int i = 0; i < PROFILE_TYPES; i++)
        sum->flops[i] += r->flops[i];
}

/* ---- text ---- */

typedef struct {
    const Profile *p;
    ProfileParts part;
    double share; /* of a step and device in the sums */
    int width;    /* of names */
    FILE *to;
} Table;

/* The end of a name that is too long. */
static void print_name(const Table *t, const char *name)
{
    const int n = (int)strlen(name);

    if (n > t->width)
        text_print(t->to, "...%s", name + n - t->width + 3);
    else
        text_print(t->to, "%-*s", t->width, name);
}

static void print_time(const Table *t, const char *name, double seconds)
{
    print_name(t, name);
    text_print(t->to, " %8s %10.3f %7.1f %%\n", "", 1e3 * seconds, 100 * seconds / t->part.step);
}

static void print_row(const Table *t, const ProfileRow *r)
{
    const double flops = profile_flops(r);

    print_name(t, r->name);
    text_print(t->to, " %8.4g %10.3f %7.1f %%", r->calls * t->share, 1e3 * r->seconds * t->share,
               100 * r->seconds * t->share / t->part.step);
    if (r->seconds > 0 && flops > 0)
        text_print(t->to, " %8.1f", 1e-9 * flops / r->seconds);
    else
        text_print(t->to, " %8s", "");
    if (r->seconds > 0)
        text_print(t->to, " %8.1f %6.0f %%", 1e-9 * r->bytes / r->seconds, 100 * profile_peak_part(t->p, r));
    fputc('\n', t->to);
}

/* The time that is in no row. */
static void print_rest(const Table *t)
{
    const ProfileParts *x = &t->part;

    if (x->waits > 0)
        print_time(t, "(waiting for other replicas)", x->waits);
    print_time(t, "(waiting for data)", x->data);
    print_time(t, t->p->accelerators ? "(device idle)" : "(between kernels)", x->between);
    if (!t->p->accelerators)
        print_time(t, "(between steps)", x->outside);
    print_time(t, "step", x->step);
}

static Status print_rows(Table *t, const char *title, const ProfileRows *rows, int most, const char *others)
{
    const ProfileRow **list = profile_sort(rows);
    const int shown = rows->n > most ? most - 1 : rows->n;
    ProfileRow rest = { .name = NULL };
    char name[64];

    if (!list)
        return FAIL_NOMEM();
    snprintf(name, sizeof name, "(%d other %s)", rows->n - shown, others);
    rest.name = name;
    t->width = LEAST_NAME;
    for (int i = 0; i < shown; i++)
        t->width = (int)strlen(list[i]->name) > t->width ? (int)strlen(list[i]->name) : t->width;
    t->width = t->width > MOST_NAME ? MOST_NAME : t->width;
    fputc('\n', t->to);
    print_name(t, title);
    text_print(t->to, " %8s %10s %9s %8s %8s %8s\n", "calls", "ms", "share", "GF/s", "GB/s", "of peak");
    for (int i = 0; i < shown; i++)
        print_row(t, list[i]);
    for (int i = shown; i < rows->n; i++)
        add_row(&rest, list[i]);
    if (shown < rows->n)
        print_row(t, &rest);
    free(list);
    return ST_OK;
}

static void print_head(const Table *t)
{
    const Profile *p = t->p;
    const int devices = profile_devices(p);
    double all = 0;

    text_print(t->to, "profile    %" PRId64 " of %" PRId64 " steps counted, %.3f ms a step", p->timed.steps, p->seen,
               1e3 * t->part.step);
    if (devices > 1)
        text_print(t->to, ", mean of %d devices", devices);
    if (p->free.steps)
        text_print(t->to, " (by the %" PRId64 " steps behind them)", p->free.steps);
    text_print(t->to, "\nphases    ");
    for (int i = PHASE_FORWARD; i < N_PHASES; i++)
        all += p->phase[i];
    for (int i = PHASE_FORWARD; i < N_PHASES && all > 0; i++)
        text_print(t->to, "%s %s %.0f %%", i > PHASE_FORWARD ? "," : "", phase_name(i), 100 * p->phase[i] / all);
    text_print(t->to, "\npeaks      ");
    for (int i = 0; i < PROFILE_TYPES; i++)
        if (p->peak_flops[i] > 0)
            text_print(t->to, "%.1f GF/s in %s, ", 1e-9 * p->peak_flops[i], dtype_name(profile_type[i]));
    text_print(t->to, "%.1f GB/s, measured alone on %s\n", 1e-9 * p->peak_bytes, p->peaks_of);
}

/* Why no step was counted. */
static void print_nothing(const Profile *p, FILE *to)
{
    if (p->full)
        text_print(to, "profile    no step was counted: a step has more calls than a profile can hold\n");
    else
        text_print(to,
                   "profile    no step was counted of %" PRId64
                   ": the first two steps with each batch shape are left out; train more steps%s\n",
                   p->seen, p->forgotten ? ", or raise --programs: some were compiled again" : "");
}

Status profile_print(const Profile *p, FILE *to)
{
    Table t = { .p = p, .part = profile_parts(p), .to = to };
    char limit[PROFILE_LIMIT];

    if (!p->timed.steps || !(t.part.step > 0)) {
        print_nothing(p, to);
        return ST_OK;
    }
    t.share = 1 / ((double)p->timed.steps * profile_devices(p));
    print_head(&t);
    TRY(print_rows(&t, "operator", &p->operators, MOST_OPERATORS, "operators"));
    print_rest(&t);
    TRY(print_rows(&t, "layer", &p->layers, MOST_LAYERS, "layers"));
    profile_limit(limit, p);
    text_print(to, "\nlimit      %s\n", limit);
    return ST_OK;
}

/* ---- JSON ---- */

static Status write_rows(JsonWriter *w, const Table *t, const char *key, const char *name, const ProfileRows *rows)
{
    const ProfileRow **list = profile_sort(rows);

    if (!list)
        return FAIL_NOMEM();
    json_open(w, key, '[');
    for (int i = 0; i < rows->n; i++) {
        const ProfileRow *r = list[i];

        json_open(w, NULL, '{');
        json_write_string(w, name, r->name);
        json_write_float(w, "calls", r->calls * t->share);
        json_write_float(w, "seconds", r->seconds * t->share);
        json_write_float(w, "waited", r->waited * t->share);
        json_write_float(w, "share", r->seconds * t->share / t->part.step);
        json_write_float(w, "flops", profile_flops(r) * t->share);
        json_write_float(w, "bytes", r->bytes * t->share);
        json_write_float(w, "of_peak", profile_peak_part(t->p, r));
        json_close(w);
    }
    json_close(w);
    free(list);
    return ST_OK;
}

static void write_parts(JsonWriter *w, const ProfileParts *x)
{
    json_open(w, "parts", '{');
    json_write_float(w, "compute_bound", x->computing);
    json_write_float(w, "memory_bound", x->moving);
    json_write_float(w, "collectives", x->collectives);
    json_write_float(w, "waiting_for_replicas", x->waits);
    json_write_float(w, "waiting_for_data", x->data);
    json_write_float(w, "between_kernels", x->between);
    json_write_float(w, "between_steps", x->outside);
    json_close(w);
}

static Status write_profile(JsonWriter *w, const Table *t)
{
    const Profile *p = t->p;
    char limit[PROFILE_LIMIT];

    json_write_float(w, "seconds", t->part.step);
    write_parts(w, &t->part);
    json_open(w, "phases", '{');
    for (int i = PHASE_FORWARD; i < N_PHASES; i++)
        json_write_float(w, phase_name(i), p->phase[i] * t->share);
    json_close(w);
    json_open(w, "peaks", '{');
    json_write_string(w, "of", p->peaks_of);
    json_open(w, "flops", '{');
    for (int i = 0; i < PROFILE_TYPES; i++)
        if (p->peak_flops[i] > 0)
            json_write_float(w, dtype_name(profile_type[i]), p->peak_flops[i]);
    json_close(w);
    json_write_float(w, "bytes", p->peak_bytes);
    json_close(w);
    profile_limit(limit, p);
    json_write_string(w, "limit", limit);
    TRY(write_rows(w, t, "operators", "operator", &p->operators));
    return write_rows(w, t, "layers", "layer", &p->layers);
}

Status profile_print_json(const Profile *p, FILE *to)
{
    Table t = { .p = p, .part = profile_parts(p) };
    JsonWriter w = { .to = to, .lines = 2 };

    json_open(&w, NULL, '{');
    json_write_int(&w, "steps", p->timed.steps);
    json_write_int(&w, "steps_seen", p->seen);
    json_write_int(&w, "devices", profile_devices(p));
    if (p->timed.steps && t.part.step > 0) {
        t.share = 1 / ((double)p->timed.steps * profile_devices(p));
        TRY(write_profile(&w, &t));
    }
    json_close(&w);
    return ST_OK;
}
