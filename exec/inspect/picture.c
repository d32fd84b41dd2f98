/* Folds a step into the rows of its picture.
 *
 * A node's place in time is the largest number of collectives on a path to it, within its phase.  Nodes of one lane in
 * the same place form a box; the collectives that follow them are bars below it.  A sequence of rows that repeats, as
 * the layers of a deep network do, is kept once. */
#include "exec/inspect/picture.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "graph/ir/collective.h"
#include "graph/ir/op.h"
#include "graph/ir/phase.h"

enum { LONGEST_PERIOD = 24, LONGEST_CHAIN = 8, MOST_LINKS = 24, LEAST_BAR_REPEATS = 4 };

/* ---- chains of operators ---- */

/* How often the first p names of op[n] come in a row. */
static int repeats(const char *const *op, int n, int p)
{
    int k = 1;

    while ((k + 1) * p <= n && !memcmp(op, op + k * p, (size_t)p * sizeof *op))
        k++;
    return k;
}

/* Makes each run of repeats in a chain of *n links one link: "Conv", "Relu", "Conv", "Relu" becomes
 * "(Conv + Relu) x2".  The period that covers most links is taken.  A link has a text, and counts the operators that it
 * stands for. */
static Status fold_links(const char **text, int *ops_of, int *n, Arena *a)
{
    int kept = 0; /* in place: not longer than what was read */

    for (int i = 0, p, k; i < *n; i += p * k, kept++) {
        const char *part = text[i];
        const int left = *n - i;
        int ops = 0;

        p = 1;
        k = repeats(text + i, left, 1);
        for (int q = 2; q <= LONGEST_CHAIN && 2 * q <= left; q++) {
            const int times = repeats(text + i, left, q);

            if (times > 1 && q * times > p * k) {
                p = q;
                k = times;
            }
        }
        for (int j = 1; k > 1 && j < p && part; j++)
            part = arena_printf(a, "%s + %s", part, text[i + j]);
        if (k > 1 && part)
            part = arena_printf(a, p > 1 ? "(%s) x%d" : "%s x%d", part, k);
        if (!part)
            return FAIL_NOMEM();
        for (int j = 0; j < p * k; j++)
            ops += ops_of[i + j];
        text[kept] = part;
        for (int j = 0; j < kept && k > 1; j++) /* equal texts share an address: repeats() compares these */
            if (!strcmp(text[j], part)) {
                text[kept] = text[j];
                break;
            }
        ops_of[kept] = ops;
    }
    *n = kept;
    return ST_OK;
}

const char *picture_chain(Arena *a, const char *const *op, int n, int links)
{
    const char **link = ARENA_NEW(a, const char *, n + 1), *text = "";
    int *ops_of = ARENA_NEW(a, int, n + 1), n_link = n, left = n, before;

    if (!link || !ops_of)
        return NULL;
    for (int i = 0; i < n; i++) {
        link[i] = op[i];
        ops_of[i] = 1;
    }
    do { /* a folded link may be part of a sequence that repeats */
        before = n_link;
        if (fold_links(link, ops_of, &n_link, a))
            return NULL;
    } while (n_link < before);
    for (int i = 0; i < n_link && text; left -= ops_of[i++]) {
        if (i == links)
            return arena_printf(a, "%s + %d more", text, left);
        text = arena_printf(a, "%s%s%s", text, *text ? " + " : "", link[i]);
    }
    return text;
}

/* ---- lanes ---- */

static bool is_collective(const Node *n) { return n->op->flags & OPF_COLLECTIVE; }

static int compare_lanes(const void *a, const void *b)
{
    const Lane *x = a, *y = b;

    if (x->device != y->device)
        return x->device < y->device ? -1 : 1;
    if ((x->replica < 0) != (y->replica < 0))
        return x->replica < 0 ? 1 : -1;
    return (x->replica > y->replica) - (x->replica < y->replica);
}

/* The index of the lane of a replica on a device.  A device with one replica has one lane for the replica and for what
 * its replicas share. */
static int find_lane(const Picture *p, int replica, int device)
{
    int of_device = -1;

    for (int i = 0; i < p->n_lane; i++) {
        if (p->lane[i].device == device && p->lane[i].replica == replica)
            return i;
        if (p->lane[i].device == device && of_device < 0)
            of_device = i;
    }
    return of_device;
}

/* Lists the lanes, ordered by device.  A device with a single replica has no lane for what its replicas share. */
static Status find_lanes(Picture *p, Arena *a)
{
    Lane *all = ARENA_NEW(a, Lane, MAX_REPLICAS + 2 * MAX_DEVICES), *drawn;
    int n = 0, kept = 0;

    if (!all || !(drawn = ARENA_NEW(a, Lane, MAX_REPLICAS + 2 * MAX_DEVICES)))
        return FAIL_NOMEM();
    FOR_NODES(p->g, x) {
        int i = n;

        while (i-- > 0 && (all[i].device != x->device || all[i].replica != x->replica))
            continue;
        if (i < 0 && !is_collective(x) && n < MAX_REPLICAS + 2 * MAX_DEVICES)
            all[n++] = (Lane){ x->replica, x->device };
    }
    if (n)
        qsort(all, (size_t)n, sizeof *all, compare_lanes);
    for (int i = 0; i < n; i++) {
        int replicas = 0;

        for (int k = 0; k < n; k++)
            replicas += all[k].device == all[i].device && all[k].replica >= 0;
        if (all[i].replica >= 0 || replicas != 1)
            drawn[kept++] = all[i];
    }
    p->lane = drawn;
    p->n_lane = kept;
    return ST_OK;
}

/* ---- places in time ---- */

static int compare_places(const void *a, const void *b)
{
    const Place *x = a, *y = b;

    if (x->phase != y->phase)
        return x->phase < y->phase ? -1 : 1;
    if (x->after != y->after)
        return x->after < y->after ? -1 : 1;
    if (x->lane != y->lane)
        return x->lane < y->lane ? -1 : 1;
    return (x->node > y->node) - (x->node < y->node);
}

Status picture_places(Place **out, int *count, Picture *p, Arena *a)
{
    int *after = ARENA_NEW(a, int, p->g->n_node), n = 0;
    Place *place = ARENA_NEW(a, Place, p->g->n_node);

    if (!after || !place)
        return FAIL_NOMEM();
    FOR_NODES(p->g, x) {
        int lane = is_collective(x) ? p->n_lane : find_lane(p, x->replica, x->device), most = 0;

        for (int i = 0; i < x->n_in; i++) {
            const Node *from = has_value(x->in[i]) ? value(p->g, x->in[i])->producer : NULL;
            const int own = from ? after[from->index] + is_collective(from) : 0;

            most = own > most ? own : most;
        }
        after[x->index] = most;
        p->lane_of[x->index] = is_collective(x) ? -1 : lane;
        place[n++] = (Place){ x->index, p->phase[x->index], after[x->index], lane };
    }
    if (n)
        qsort(place, (size_t)n, sizeof *place, compare_places);
    *out = place;
    *count = n;
    return ST_OK;
}

/* ---- parameters of a box ---- */

enum { MOST_NAMES = 2 };
static const char gradient[] = "gradient of ";

static void picture_add_name(const char **name, int *n, const char *s)
{
    for (int i = 0; i < *n; i++)
        if (!strcmp(name[i], s))
            return;
    name[(*n)++] = s;
}

/* Adds the parameters of node x: those that it reads; in the backward pass its own name, if that is the gradient of a
 * parameter. */
static void add_names(const char **name, int *n, const Picture *p, const Node *x)
{
    if (p->phase[x->index] == PHASE_BACKWARD) {
        if (strncmp(x->name, gradient, sizeof gradient - 1) != 0)
            return;
        for (uint32_t i = 1; i < p->g->n_value; i++) {
            const Value *v = p->g->value[i];

            if (v->kind == V_STATE && v->trainable && !strcmp(value_logical_name(v), x->name + sizeof gradient - 1)) {
                picture_add_name(name, n, x->name);
                return;
            }
        }
        return;
    }
    for (int i = 0; i < x->n_in; i++) {
        const Value *v = has_value(x->in[i]) ? value(p->g, x->in[i]) : NULL;

        if (v && v->kind == V_STATE && v->trainable)
            picture_add_name(name, n, value_logical_name(v));
    }
}

/* "fc1.weight, fc1.bias ... 5 in all": the parameters of the nodes in the box. */
static Status name_parameters(Cell *out, const Picture *p, const Place *place, int n, Arena *a)
{
    int most = 0, found = 0;
    const char **name, *text = NULL;

    for (int i = 0; i < n; i++)
        most += p->g->node[place[i].node]->n_in + 1;
    if (!(name = ARENA_NEW(a, const char *, most)))
        return FAIL_NOMEM();
    for (int i = 0; i < n; i++)
        add_names(name, &found, p, p->g->node[place[i].node]);
    for (int i = 0; i < found && i < MOST_NAMES; i++)
        if (!(text = text ? arena_printf(a, "%s, %s", text, name[i]) : arena_strdup(a, name[i])))
            return FAIL_NOMEM();
    if (found > MOST_NAMES && !(text = arena_printf(a, "%s ... %d in all", text, found)))
        return FAIL_NOMEM();
    out->of = text;
    return ST_OK;
}

/* ---- rows ---- */

/* The box of place[n], all of one lane and time.  Views are named only where there is nothing else. */
static Status make_cell(Cell *out, const Picture *p, const Place *place, int n, Arena *a)
{
    const char **op = ARENA_NEW(a, const char *, n);
    int k = 0;

    if (!op)
        return FAIL_NOMEM();
    for (int i = 0; i < n; i++) {
        const Node *x = p->g->node[place[i].node];

        if (!(x->op->flags & OPF_VIEW) || (n == 1 && !k))
            op[k++] = x->op->name;
    }
    if (!k)
        op[k++] = p->g->node[place->node]->op->name;
    out->nodes = n;
    out->label = picture_chain(a, op, k, MOST_LINKS);
    return out->label ? name_parameters(out, p, place, n, a) : FAIL_NOMEM();
}

static Row *new_row(Picture *p, int phase)
{
    p->row[p->n_row] = (Row){ .phase = phase, .repeats = 1 };
    return &p->row[p->n_row++];
}

static Status make_rows(Picture *p, const Place *place, int n, Arena *a)
{
    Row *row = NULL;

    if (!(p->row = ARENA_NEW(a, Row, n)))
        return FAIL_NOMEM();
    for (int i = 0, len; i < n; i += len) {
        bool same = i && place[i].phase == place[i - 1].phase && place[i].after == place[i - 1].after;

        len = 1;
        if (place[i].lane == p->n_lane) {
            row = new_row(p, place[i].phase);
            row->bar = p->g->node[place[i].node];
            row->bars = 1;
            p->row_of[place[i].node] = p->n_row - 1;
            continue;
        }
        if (!same && !((row = new_row(p, place[i].phase))->cell = ARENA_NEW(a, Cell, p->n_lane)))
            return FAIL_NOMEM();
        while (i + len < n && !memcmp(&place[i].phase, &place[i + len].phase, sizeof(Place) - offsetof(Place, phase)))
            len++;
        TRY(make_cell(&row->cell[place[i].lane], p, place + i, len, a));
        for (int k = 0; k < len; k++)
            p->row_of[place[i + k].node] = p->n_row - 1;
    }
    return ST_OK;
}

/* ---- repeated rows ---- */

static bool rows_look_equal(const Picture *p, const Row *x, const Row *y)
{
    if (x->phase != y->phase || !x->bar != !y->bar)
        return false;
    if (x->bar)
        return x->bar->op == y->bar->op && x->bar->n_in == y->bar->n_in && x->bar->n_out == y->bar->n_out;
    for (int i = 0; i < p->n_lane; i++) {
        const char *a = x->cell[i].label, *b = y->cell[i].label;

        if (!a != !b || (a && strcmp(a, b)))
            return false;
    }
    return true;
}

/* How often the `period` rows from `from` come in a row. */
static int row_repeats(const Picture *p, int from, int period)
{
    int i = from;

    while (i + period < p->n_row && rows_look_equal(p, &p->row[i], &p->row[i + period]))
        i++;
    return (i - from) / period + 1;
}

/* The period that covers most rows from `from` on, and how often it comes; 1 where nothing repeats. */
static int row_period(const Picture *p, int from, int *times)
{
    int best = 1;

    *times = row_repeats(p, from, 1);
    *times = p->row[from].bar && *times < LEAST_BAR_REPEATS ? 1 : *times;
    for (int period = 2; period <= LONGEST_PERIOD; period++) {
        int k = row_repeats(p, from, period);

        if (k > 1 && period * k > best * *times) {
            best = period;
            *times = k;
        }
    }
    return best;
}

/* Keeps each repeated sequence of rows once, with the counts of all of it. */
static Status fold_rows(Picture *p, Arena *a)
{
    int *now = ARENA_NEW(a, int, p->n_row), n = 0, groups = 0;
    Row *folded = ARENA_NEW(a, Row, p->n_row);

    if (!now || !folded)
        return FAIL_NOMEM();
    for (int i = 0, period, k; i < p->n_row; i += period * k) {
        period = row_period(p, i, &k);
        groups += k > 1;
        for (int j = 0; j < period * k; j++) {
            now[i + j] = n + j % period;
            if (j < period) {
                folded[n + j] = p->row[i + j];
                folded[n + j].repeats = k;
                folded[n + j].group = k > 1 ? groups : 0;
            } else {
                Row *to = &folded[n + j % period];
                const Row *from = &p->row[i + j];

                to->bars += from->bars;
                for (int c = 0; from->cell && c < p->n_lane; c++)
                    to->cell[c].nodes += from->cell[c].nodes;
            }
        }
        n += period;
    }
    for (int i = 0; i < n; i++) /* "conv1.weight and 2 more alike", as in bars */
        for (int c = 0; folded[i].cell && folded[i].repeats > 1 && c < p->n_lane; c++) {
            const char **of = &folded[i].cell[c].of;

            if (*of && !(*of = arena_printf(a, "%s and %d more alike", *of, folded[i].repeats - 1)))
                return FAIL_NOMEM();
        }
    FOR_NODES(p->g, x)
        p->row_of[x->index] = now[p->row_of[x->index]];
    p->row = folded;
    p->n_row = n;
    return ST_OK;
}

int64_t picture_bytes(const Graph *g, const Node *n)
{
    int64_t bytes = 0;

    for (int i = 0; i < n->n_in; i++)
        bytes += shape_known(value(g, n->in[i])->shape) ? (int64_t)value_bytes(g, n->in[i]) : 0;
    return bytes;
}

const char *picture_bar(Arena *a, const Picture *p, int row)
{
    const Row *r = &p->row[row];
    const char *more = r->bars > 1 ? arena_printf(a, " and %d more alike", r->bars - 1) : "";
    double bytes = 0, kib;

    if (!more)
        return NULL;
    FOR_NODES(p->g, n)
        if (p->row_of[n->index] == row && p->lane_of[n->index] < 0)
            bytes += (double)picture_bytes(p->g, n);
    kib = bytes / 1024;
    if (kib < 10)
        return arena_printf(a, "%s%s, %.0f B", r->bar->name, more, bytes);
    return arena_printf(a, kib < 10240 ? "%s%s, %.1f KiB" : "%s%s, %.1f MiB", r->bar->name, more,
                        kib < 10240 ? kib : kib / 1024);
}

void picture_tensors(FILE *f, const Graph *g, const Node *n, void (*write)(FILE *f, const char *s, size_t max))
{
    const Exchange e = exchange_of(n);

    for (int t = 0; e.tensors > 1 && t < e.tensors; t++) {
        const Value *v = in_value(g, n, t * e.parts);

        fputs(t ? ", " : ": ", f);
        write(f, v->producer ? v->producer->name : value_logical_name(v), 120);
    }
}

void picture_samples(const Picture *p, int replica, int64_t *from, int64_t *n)
{
    const Node *x = p->scatter;
    const int axis = x ? exchange_of(x).axis : 0;

    *from = *n = 0;
    for (int r = 0; x && r <= replica && r < x->n_out; r++) {
        *from += *n;
        *n = value(p->g, x->out[r])->shape->dim[axis];
    }
    if (!x || replica >= x->n_out)
        *n = 0;
}

Status picture_lanes(Picture *out, const Graph *g, Arena *a)
{
    *out = (Picture){ .g = g,
                      .phase = graph_phases(g, a),
                      .row_of = ARENA_NEW(a, int, g->n_node),
                      .lane_of = ARENA_NEW(a, int, g->n_node) };
    if (!out->phase || !out->row_of || !out->lane_of)
        return FAIL_NOMEM();
    FOR_NODES(g, x) {
        const Exchange e = exchange_of(x);

        if (!out->scatter && exchange_distributes(&e) && e.split && in_value(g, x, 0)->kind == V_INPUT)
            out->scatter = x;
    }
    return find_lanes(out, a);
}

Status picture_fold(Picture *out, const Graph *g, Arena *a)
{
    Place *place;
    int n;

    TRY(picture_lanes(out, g, a));
    TRY(picture_places(&place, &n, out, a));
    TRY(make_rows(out, place, n, a));
    return fold_rows(out, a);
}
