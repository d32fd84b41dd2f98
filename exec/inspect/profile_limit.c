/* Divides the time of a step into parts, and tells which part limits the run. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "exec/inspect/profile_sums.h"
#include "graph/base/numtext.h"

static int compare_rows(const void *a, const void *b)
{
    const ProfileRow *x = *(const ProfileRow *const *)a, *y = *(const ProfileRow *const *)b;

    return x->seconds != y->seconds ? (x->seconds < y->seconds ? 1 : -1) : strcmp(x->name, y->name);
}

const ProfileRow **profile_sort(const ProfileRows *rows)
{
    const ProfileRow **list = malloc(((size_t)rows->n + 1) * sizeof *list);
    int n = 0;

    for (const ProfileRow *r = rows->first; r && list; r = r->next)
        list[n++] = r;
    if (n)
        qsort(list, (size_t)n, sizeof *list, compare_rows);
    return list;
}

int profile_devices(const Profile *p)
{
    int n = 0;

    for (int i = 0; i < MAX_DEVICES; i++)
        n += p->device[i];
    return n ? n : 1;
}

double profile_flops(const ProfileRow *r)
{
    double sum = 0;

    for (int i = 0; i < PROFILE_TYPES; i++)
        sum += r->flops[i];
    return sum;
}

/* Seconds that the row's FLOPs take at the peaks of their types. */
static double least_compute(const Profile *p, const ProfileRow *r)
{
    double sum = 0;

    for (int i = 0; i < PROFILE_TYPES; i++)
        sum += r->flops[i] / p->peak_flops[p->peak_flops[i] > 0 ? i : 0];
    return sum;
}

/* Whether the machine's FLOPs bound the row, rather than the bandwidth of its memory. */
static bool computes(const Profile *p, const ProfileRow *r) { return least_compute(p, r) > r->bytes / p->peak_bytes; }

double profile_peak_part(const Profile *p, const ProfileRow *r)
{
    return r->seconds > 0 ? fmax(least_compute(p, r), r->bytes / p->peak_bytes) / r->seconds : 0;
}

ProfileParts profile_parts(const Profile *p)
{
    const ProfileSteps *s = p->free.steps ? &p->free : &p->timed;
    const double each = s->steps ? 1 / (double)s->steps : 0;
    const double share = p->timed.steps ? 1 / ((double)p->timed.steps * profile_devices(p)) : 0;
    ProfileParts x = { .step = s->seconds * each, .data = s->data * each };
    double busy, ran = s->ran * each;

    for (const ProfileRow *r = p->operators.first; r; r = r->next) {
        *(r->collective ? &x.collectives : computes(p, r) ? &x.computing : &x.moving) += r->seconds * share;
        x.waits += r->waited * share;
    }
    busy = x.computing + x.moving + x.collectives + x.waits;
    if (p->accelerators) { /* the host reads data and gives out steps while the device computes */
        const double idle = fmax(0, x.step - busy);

        x.data = fmin(x.data, idle);
        x.between = idle - x.data;
    } else {
        x.between = fmax(0, ran - busy);
        x.outside = fmax(0, x.step - x.data - fmax(ran, busy));
    }
    x.step = busy + x.data + x.between + x.outside;
    return x;
}

/* ---- the limit ---- */

enum { NAMED = 3, NAMES = 120 };

/* Operators that are bound alike: their sums, and the names of the slowest. */
typedef struct {
    double seconds, least; /* least: at the peak */
    char names[NAMES];
} Bound;

static Bound bound_rows(const Profile *p, const ProfileRow *const *list, bool compute)
{
    Bound b = { .seconds = 0 };
    int named = 0, n = 0, rows = 0;

    for (int i = 0; i < p->operators.n; i++) {
        const ProfileRow *r = list[i];

        if (r->collective || computes(p, r) != compute)
            continue;
        rows++;
        b.seconds += r->seconds;
        b.least += compute ? least_compute(p, r) : r->bytes / p->peak_bytes;
        if (named < NAMED && n + (int)strlen(r->name) + 16 < NAMES) {
            n += snprintf(b.names + n, (size_t)(NAMES - n), "%s%s", named ? ", " : "", r->name);
            named++;
        }
    }
    if (rows > named)
        snprintf(b.names + n, (size_t)(NAMES - n), " and %d more", rows - named);
    return b;
}

/* A part of the step that may limit it. */
typedef struct {
    const char *what, *name;
    double seconds;
} Suspect;

/* The parts but `most` that take a tenth of the step or more. */
static void list_others(char *text, size_t size, const Suspect *part, int n, int most, double step)
{
    for (int i = 0; i < n; i++) {
        const size_t len = strlen(text);

        if (i != most && part[i].seconds >= 0.1 * step && len < size)
            text_format(text + len, size - len, "; %s %.0f %%", part[i].name, 100 * part[i].seconds / step);
    }
}

void profile_limit(char text[PROFILE_LIMIT], const Profile *p)
{
    const ProfileRow **list = profile_sort(&p->operators);
    const ProfileParts x = profile_parts(p);
    const Bound bound[] = { list ? bound_rows(p, list, true) : (Bound){ 0 },
                            list ? bound_rows(p, list, false) : (Bound){ 0 } };
    const Suspect part[] = {
        { "compute limits the run", "operators bound by compute", x.computing },
        { "memory bandwidth limits the run", "operators bound by memory", x.moving },
        { "communication limits the run", "communication between replicas", x.collectives },
        { "the slowest replica limits the run", "waiting for other replicas", x.waits },
        { "reading data limits the run", "waiting for data", x.data },
        { "overhead limits the run, a larger batch has less",
          p->accelerators ? "an idle device" : "time between kernels", x.between + x.outside },
    };
    enum { PARTS = sizeof part / sizeof *part };
    int most = 0;

    for (int i = 1; i < PARTS; i++)
        most = part[i].seconds > part[most].seconds ? i : most;
    if (most < 2) {
        const Bound *b = &bound[most];
        const double reached = b->seconds > 0 ? b->least / b->seconds : 0;

        text_format(text, PROFILE_LIMIT, "%s: %s take %.0f %% of the step at %.0f %% of the measured peak",
                    reached < 0.3 ? "kernels far from the machine's peak limit the run" : part[most].what, b->names,
                    100 * part[most].seconds / x.step, 100 * reached);
    } else {
        text_format(text, PROFILE_LIMIT, "%s: %s takes %.0f %% of the step", part[most].what, part[most].name,
                    100 * part[most].seconds / x.step);
    }
    list_others(text, PROFILE_LIMIT, part, PARTS, most, x.step);
    free(list);
}
