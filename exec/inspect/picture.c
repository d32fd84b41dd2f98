/* Folding a step into the rows of its picture.
 *
 * A node's place in time is the number of collectives on the longest way to it, within its phase: nodes of one lane
 * that have the same are a box, and the collectives that follow them are bars below.  Rows that repeat as a sequence
 * (the layers of a deep network) are kept once. */
#include "exec/inspect/picture.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "graph/ir/collective.h"
#include "graph/ir/op.h"
#include "graph/ir/phase.h"

enum { LONGEST_PERIOD = 24, LONGEST_CHAIN = 8, SHOWN_LINKS = 24, FEW_BARS = 4 };

/* ---- chains of operators ---- */

/* How often op[0..p) comes in a row. */
static int repeats(const char *const *op, int n, int p)
{
    int k = 1;

    while ((k + 1) * p <= n && !memcmp(op, op + k * p, (size_t)p * sizeof *op))
        k++;
    return k;
}

/* The period that covers most; 1 where nothing repeats. */
static int best_period(const char *const *op, int n, int *times)
{
    int best = 1;

    *times = repeats(op, n, 1);
    for (int p = 2; p <= LONGEST_CHAIN && 2 * p <= n; p++) {
        int k = repeats(op, n, p);

        if (k > 1 && p * k > best * *times) {
            best = p;
            *times = k;
        }
    }
    return best;
}

/* The links of a chain, and of how many operators each is. */
typedef struct {
    const char **text;
    int *ops, n;
} Chain;

/* `text`, or that of a link from `from` on that reads alike: links are compared by address. */
static const char *as_before(const Chain *c, int from, const char *text)
{
    for (int i = from; i < c->n; i++)
        if (!strcmp(c->text[i], text))
            return c->text[i];
    return text;
}

/* Each run of repeats becomes one link. */
static Status fold_links(Chain *c, Arena *a)
{
    Chain out = { c->text, c->ops, 0 }; /* in place: not longer than what was read */

    for (int i = 0, p, k; i < c->n; i += p * k, out.n++) {
        const char *part = c->text[i];
        int ops = 0;

        p = best_period(c->text + i, c->n - i, &k);
        for (int j = 1; k > 1 && j < p && part; j++)
            part = arena_printf(a, "%s + %s", part, c->text[i + j]);
        if (k > 1 && part)
            part = arena_printf(a, p > 1 ? "(%s) x%d" : "%s x%d", part, k);
        if (!part)
            return FAIL_NOMEM();
        for (int j = 0; j < p * k; j++)
            ops += c->ops[i + j];
        out.text[out.n] = k > 1 ? as_before(&out, 0, part) : part;
        out.ops[out.n] = ops;
    }
    *c = out;
    return ST_OK;
}

const char *picture_chain(Arena *a, const char *const *op, int n, int links)
{
    Chain c = { ARENA_NEW(a, const char *, n + 1), ARENA_NEW(a, int, n + 1), n };
    const char *text = "";
    int left = n, before;

    if (!c.text || !c.ops)
        return NULL;
    for (int i = 0; i < n; i++) {
        c.text[i] = op[i];
        c.ops[i] = 1;
    }
    do { /* what repeats may itself come in a sequence that does */
        before = c.n;
        if (fold_links(&c, a))
            return NULL;
    } while (c.n < before);
    for (int i = 0; i < c.n && text; left -= c.ops[i++]) {
        if (i == links)
            return arena_printf(a, "%s + %d more", text, left);
        text = arena_printf(a, "%s%s%s", text, *text ? " + " : "", c.text[i]);
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

/* Of a device with one replica both are one lane. */
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

static int count_replicas(const Lane *lane, int n, int device)
{
    int count = 0;

    for (int i = 0; i < n; i++)
        count += lane[i].device == device && lane[i].replica >= 0;
    return count;
}

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
    for (int i = 0; i < n; i++)
        if (all[i].replica >= 0 || count_replicas(all, n, all[i].device) != 1)
            drawn[kept++] = all[i];
    p->lane = drawn;
    p->n_lane = kept;
    return ST_OK;
}

/* ---- places in time ---- */

typedef struct {
    uint32_t node;
    int phase, after, lane; /* after: collectives on the way; lane: n_lane for a collective, which comes behind boxes */
} Spot;

static int compare_spots(const void *a, const void *b)
{
    const Spot *x = a, *y = b;

    if (x->phase != y->phase)
        return x->phase < y->phase ? -1 : 1;
    if (x->after != y->after)
        return x->after < y->after ? -1 : 1;
    if (x->lane != y->lane)
        return x->lane < y->lane ? -1 : 1;
    return (x->node > y->node) - (x->node < y->node);
}

static int count_after(const Graph *g, const Node *n, const int *after)
{
    int most = 0;

    for (int i = 0; i < n->n_in; i++) {
        const Node *from = has_value(n->in[i]) ? value(g, n->in[i])->producer : NULL;
        int own = from ? after[from->index] + is_collective(from) : 0;

        most = own > most ? own : most;
    }
    return most;
}

static Status find_spots(Spot **out, int *count, Picture *p, Arena *a)
{
    int *after = ARENA_NEW(a, int, p->g->n_node), n = 0;
    Spot *spot = ARENA_NEW(a, Spot, p->g->n_node);

    if (!after || !spot)
        return FAIL_NOMEM();
    FOR_NODES(p->g, x) {
        int lane = is_collective(x) ? p->n_lane : find_lane(p, x->replica, x->device);

        after[x->index] = count_after(p->g, x, after);
        p->lane_of[x->index] = is_collective(x) ? -1 : lane;
        spot[n++] = (Spot){ x->index, p->phase[x->index], after[x->index], lane };
    }
    if (n)
        qsort(spot, (size_t)n, sizeof *spot, compare_spots);
    *out = spot;
    *count = n;
    return ST_OK;
}

/* ---- rows ---- */

static bool is_plumbing(const Node *n) { return n->op->flags & OPF_VIEW; }

/* ---- parameters ---- */

enum { SHOWN_NAMES = 2 };
static const char gradient[] = "gradient of ";

static bool picture_is_trained(const Graph *g, const char *name)
{
    for (uint32_t i = 1; i < g->n_value; i++)
        if (g->value[i]->kind == V_STATE && g->value[i]->trainable && !strcmp(value_logical_name(g->value[i]), name))
            return true;
    return false;
}

static void picture_add_name(const char **name, int *n, const char *s)
{
    for (int i = 0; i < *n; i++)
        if (!strcmp(name[i], s))
            return;
    name[(*n)++] = s;
}

/* Those of node x: parameters that it reads; in the backward pass its name, if that is a parameter's gradient. */
static void add_names(const char **name, int *n, const Picture *p, const Node *x)
{
    if (p->phase[x->index] == PHASE_BACKWARD) {
        if (!strncmp(x->name, gradient, sizeof gradient - 1) && picture_is_trained(p->g, x->name + sizeof gradient - 1))
            picture_add_name(name, n, x->name);
        return;
    }
    for (int i = 0; i < x->n_in; i++) {
        const Value *v = has_value(x->in[i]) ? value(p->g, x->in[i]) : NULL;

        if (v && v->kind == V_STATE && v->trainable)
            picture_add_name(name, n, value_logical_name(v));
    }
}

static Status name_parameters(Cell *out, const Picture *p, const Spot *spot, int n, Arena *a)
{
    int most = 0, found = 0;
    const char **name, *text = NULL;

    for (int i = 0; i < n; i++)
        most += p->g->node[spot[i].node]->n_in + 1;
    if (!(name = ARENA_NEW(a, const char *, most)))
        return FAIL_NOMEM();
    for (int i = 0; i < n; i++)
        add_names(name, &found, p, p->g->node[spot[i].node]);
    for (int i = 0; i < found && i < SHOWN_NAMES; i++)
        if (!(text = text ? arena_printf(a, "%s, %s", text, name[i]) : arena_strdup(a, name[i])))
            return FAIL_NOMEM();
    if (found > SHOWN_NAMES && !(text = arena_printf(a, "%s ... %d in all", text, found)))
        return FAIL_NOMEM();
    out->of = text;
    return ST_OK;
}

/* The box of spots [0, n), all of one lane. */
static Status make_cell(Cell *out, const Picture *p, const Spot *spot, int n, Arena *a)
{
    const char **op = ARENA_NEW(a, const char *, n);
    int k = 0;

    if (!op)
        return FAIL_NOMEM();
    for (int i = 0; i < n; i++) {
        const Node *x = p->g->node[spot[i].node];

        if (!is_plumbing(x) || (n == 1 && !k))
            op[k++] = x->op->name;
    }
    if (!k)
        op[k++] = p->g->node[spot->node]->op->name;
    out->nodes = n;
    out->label = picture_chain(a, op, k, SHOWN_LINKS);
    return out->label ? name_parameters(out, p, spot, n, a) : FAIL_NOMEM();
}

static Row *new_row(Picture *p, int phase)
{
    p->row[p->n_row] = (Row){ .phase = phase, .repeats = 1 };
    return &p->row[p->n_row++];
}

static Status make_rows(Picture *p, const Spot *spot, int n, Arena *a)
{
    Row *row = NULL;

    if (!(p->row = ARENA_NEW(a, Row, n)))
        return FAIL_NOMEM();
    for (int i = 0, len; i < n; i += len) {
        bool same = i && spot[i].phase == spot[i - 1].phase && spot[i].after == spot[i - 1].after;

        len = 1;
        if (spot[i].lane == p->n_lane) {
            row = new_row(p, spot[i].phase);
            row->bar = p->g->node[spot[i].node];
            row->bars = 1;
            p->row_of[spot[i].node] = p->n_row - 1;
            continue;
        }
        if (!same && !((row = new_row(p, spot[i].phase))->cell = ARENA_NEW(a, Cell, p->n_lane)))
            return FAIL_NOMEM();
        while (i + len < n && !memcmp(&spot[i].phase, &spot[i + len].phase, sizeof(Spot) - offsetof(Spot, phase)))
            len++;
        TRY(make_cell(&row->cell[spot[i].lane], p, spot + i, len, a));
        for (int k = 0; k < len; k++)
            p->row_of[spot[i + k].node] = p->n_row - 1;
    }
    return ST_OK;
}

/* ---- what repeats ---- */

static bool rows_alike(const Picture *p, const Row *x, const Row *y)
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

static int row_repeats(const Picture *p, int from, int period)
{
    int i = from;

    while (i + period < p->n_row && rows_alike(p, &p->row[i], &p->row[i + period]))
        i++;
    return (i - from) / period + 1;
}

static int row_period(const Picture *p, int from, int *times)
{
    int best = 1;

    *times = row_repeats(p, from, 1);
    *times = p->row[from].bar && *times < FEW_BARS ? 1 : *times;
    for (int period = 2; period <= LONGEST_PERIOD; period++) {
        int k = row_repeats(p, from, period);

        if (k > 1 && period * k > best * *times) {
            best = period;
            *times = k;
        }
    }
    return best;
}

static void join_row(Picture *p, Row *to, const Row *from)
{
    to->bars += from->bars;
    for (int i = 0; from->cell && i < p->n_lane; i++)
        to->cell[i].nodes += from->cell[i].nodes;
}

/* "conv1.weight and 2 more alike": as bars say it. */
static Status tell_repeats(const Picture *p, const Row *r, Arena *a)
{
    for (int i = 0; r->cell && r->repeats > 1 && i < p->n_lane; i++)
        if (r->cell[i].of && !(r->cell[i].of = arena_printf(a, "%s and %d more alike", r->cell[i].of, r->repeats - 1)))
            return FAIL_NOMEM();
    return ST_OK;
}

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
                join_row(p, &folded[n + j % period], &p->row[i + j]);
            }
        }
        n += period;
    }
    for (int i = 0; i < n; i++)
        TRY(tell_repeats(p, &folded[i], a));
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

static int64_t bytes_of_bars(const Picture *p, int row)
{
    int64_t bytes = 0;

    FOR_NODES(p->g, n)
        if (p->row_of[n->index] == row && p->lane_of[n->index] < 0)
            bytes += picture_bytes(p->g, n);
    return bytes;
}

const char *picture_bar(Arena *a, const Picture *p, int row)
{
    const Row *r = &p->row[row];
    const double bytes = (double)bytes_of_bars(p, row), kib = bytes / 1024;
    const char *more = r->bars > 1 ? arena_printf(a, " and %d more alike", r->bars - 1) : "";

    if (!more)
        return NULL;
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

static const Node *find_scatter(const Graph *g)
{
    FOR_NODES(g, x) {
        const Exchange e = exchange_of(x);

        if (exchange_spreads(&e) && e.split && in_value(g, x, 0)->kind == V_INPUT)
            return x;
    }
    return NULL;
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

Status picture_fold(Picture *out, const Graph *g, Arena *a)
{
    Spot *spot;
    int n;

    *out = (Picture){ .g = g,
                      .scatter = find_scatter(g),
                      .phase = graph_phases(g, a),
                      .row_of = ARENA_NEW(a, int, g->n_node),
                      .lane_of = ARENA_NEW(a, int, g->n_node) };
    if (!out->phase || !out->row_of || !out->lane_of)
        return FAIL_NOMEM();
    TRY(find_lanes(out, a));
    TRY(find_spots(&spot, &n, out, a));
    TRY(make_rows(out, spot, n, a));
    return fold_rows(out, a);
}
