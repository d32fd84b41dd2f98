/* Rows and columns of the tree of a step.
 *
 * Rows come in the order of a picture's places: by phase, by the collectives on a path to them, then as the nodes
 * stand.  Lanes have a row in common where they compute a layer of the same name at the same place. */
#include "exec/inspect/picture_tree.h"

#include <stdlib.h>
#include <string.h>

#include "exec/inspect/simulate.h"
#include "graph/base/hash.h"
#include "graph/ir/op.h"
#include "passes/report.h"

enum { MOST_LINKS = 24, COMPARED = 32, MOST_STEPS = 256 };

typedef struct {
    PictureTree *t;
    Place *place;
    int n_place;
    const char **path; /* by node index */
    LayerRow *row;     /* in any order; `next` is the picture's */
    int n_row, first;
    int *row_of; /* by node index */
    Arena *a;
} Rows;

/* ---- rows ---- */

/* The name of a node that has no path, without the slash that exporters begin it with. */
static const char *title_of(const Node *n)
{
    return !n->name || !*n->name ? n->op->name : *n->name == '/' && n->name[1] ? n->name + 1 : n->name;
}

/* Whether a node goes into the row of the node before it in its lane. */
static bool goes_on(const Rows *r, const Node *n, const LayerRow *row)
{
    const char *path = r->path[n->index];

    return !strcmp(path, row->path) && (*path || n->op->flags & OPF_VIEW);
}

static int add_row(Rows *r, int behind, const LayerRow *row)
{
    int *link = behind < 0 ? &r->first : &r->row[behind].next;

    r->row[r->n_row] = *row;
    r->row[r->n_row].next = *link;
    *link = r->n_row;
    return r->n_row++;
}

/* The row above `at` of this section, the one behind `end`, that has the node's path, where the node can stand as well:
 * nothing that it reads is made below.  Replicas of a device that run in turn would have rows of their own otherwise.
 * -1: there is none. */
static int find_row_above(const Rows *r, const Node *n, int end, int at)
{
    int found = -1, steps = 0;

    for (int i = end < 0 ? r->first : r->row[end].next; i >= 0 && steps < MOST_STEPS; i = r->row[i].next, steps++) {
        if (!r->row[i].bar && !strcmp(r->row[i].path, r->path[n->index]))
            found = i;
        for (int k = 0; found >= 0 && i != found && k < n->n_in; k++) {
            const Node *from = has_value(n->in[k]) ? value(r->t->picture.g, n->in[k])->producer : NULL;

            if (from && r->row_of[from->index] == i)
                found = -1;
        }
        if (i == at)
            return found;
    }
    return -1;
}

/* The row for a node behind `at`, and after `before`, the last row of the section before: one that another lane has
 * made, or a new one.  A row that a lane has passed is not used again. */
static int find_row(Rows *r, const Node *n, int phase, int at, int before)
{
    const LayerRow new = { .path = r->path[n->index], .title = title_of(n), .phase = phase };
    int next = at < 0 ? r->first : r->row[at].next;

    for (int i = next; i >= 0 && r->n_row > before; i = r->row[i].next)
        if (i >= before && !r->row[i].bar && !strcmp(r->row[i].path, new.path) &&
            (*new.path || !strcmp(r->row[i].title, new.title)))
            return i;
    return add_row(r, at, &new);
}

/* Rows of place[from..to), which have one phase and lie between the same collectives; *last: the last row so far. */
static void add_section(Rows *r, int from, int to, int *last)
{
    const int before = r->n_row, lanes = r->t->picture.n_lane, end = *last;

    for (int i = from, at = end; i < to; i++) {
        const Node *n = r->t->picture.g->node[r->place[i].node];

        if (i > from && r->place[i].lane != r->place[i - 1].lane)
            at = end;
        if (r->place[i].lane == lanes)
            while (at >= 0 ? r->row[at].next >= 0 : r->first >= 0) /* bars are below all layers */
                at = at >= 0 ? r->row[at].next : r->first;
        if (r->place[i].lane == lanes)
            at = add_row(
                r, at,
                &(LayerRow){ .path = r->path[n->index], .title = title_of(n), .phase = r->place[i].phase, .bar = n });
        else if (at == end || !goes_on(r, n, &r->row[at])) {
            const int above = at != end && *r->path[n->index] ? find_row_above(r, n, end, at) : -1;

            if (above >= 0) {
                r->row_of[n->index] = above;
                continue;
            }
            at = find_row(r, n, r->place[i].phase, at, before);
        }
        r->row_of[n->index] = at;
    }
    while (*last >= 0 ? r->row[*last].next >= 0 : r->first >= 0)
        *last = *last >= 0 ? r->row[*last].next : r->first;
}

/* Gives collectives without a path that of the scope they come in. */
static Status place_bars(LayerRow *row, int n, Arena *a)
{
    const char *last = NULL;

    for (int i = 0, k; i < n; i++) {
        if (!row[i].bar) {
            last = row[i].path;
            continue;
        }
        for (k = i; k < n && row[k].bar;)
            k++;
        if (*row[i].path || !last || k == n || row[k].phase != row[i].phase)
            continue;
        if (!(row[i].path = arena_printf(a, "%.*s", (int)picture_common_scope(last, row[k].path), last)))
            return FAIL_NOMEM();
    }
    return ST_OK;
}

/* Makes all rows, and puts them in the order of the picture. */
static Status make_layer_rows(Rows *r)
{
    LayerRow *ordered;
    int *now, last = -1, k = 0;

    r->first = -1;
    FOR_NODES(r->t->picture.g, n)
        r->row_of[n->index] = -1;
    if (!(r->row = ARENA_NEW(r->a, LayerRow, r->n_place)) || !(ordered = ARENA_NEW(r->a, LayerRow, r->n_place)) ||
        !(now = ARENA_NEW(r->a, int, r->n_place)))
        return FAIL_NOMEM();
    for (int i = 0, to; i < r->n_place; i = to) {
        for (to = i;
             to < r->n_place && r->place[to].phase == r->place[i].phase && r->place[to].after == r->place[i].after;)
            to++;
        add_section(r, i, to, &last);
    }
    for (int i = r->first; i >= 0; i = r->row[i].next) {
        now[i] = k;
        ordered[k++] = r->row[i];
    }
    TRY(place_bars(ordered, k, r->a));
    for (int i = 0; i < r->n_place; i++)
        r->row_of[r->place[i].node] = now[r->row_of[r->place[i].node]];
    r->row = ordered;
    return ST_OK;
}

/* ---- columns ---- */

/* The nodes of a lane in a row. */
typedef struct {
    int row, lane;
    uint32_t node;
} Member;

static int compare_members(const void *a, const void *b)
{
    const Member *x = a, *y = b;

    if (x->row != y->row)
        return x->row < y->row ? -1 : 1;
    if (x->lane != y->lane)
        return x->lane < y->lane ? -1 : 1;
    return (x->node > y->node) - (x->node < y->node);
}

static int next_members(const Member *m, int n, int i)
{
    int k = i + 1;

    while (k < n && m[k].row == m[i].row && m[k].lane == m[i].lane)
        k++;
    return k;
}

/* "0–3, 6" of the lanes' devices, "2 of host" ... */
static const char *list_devices(const Picture *p, const int *column_of_lane, int column, Arena *a)
{
    const char *text = "";
    int from = -1, to = -1;

    for (int i = 0; i <= p->n_lane && text; i++) {
        const int d = i < p->n_lane && column_of_lane[i] == column ? p->lane[i].device : -2;

        if (i < p->n_lane && (d < -1 || d == to))
            continue;
        if (i < p->n_lane && to >= 0 && d == to + 1) {
            to = d;
            continue;
        }
        if (to >= 0)
            text = arena_printf(a, from == to ? "%s%s%d" : "%s%s%d–%d", text, *text ? ", " : "", from, to);
        from = to = d;
    }
    return text;
}

/* "samples 0–1, 2–3" of the replicas in the column; "" where no input is split. */
static const char *list_samples(const Picture *p, const int *column_of_lane, int column, Arena *a)
{
    const char *text = "";
    int64_t from, n;

    for (int i = 0; i < p->n_lane && p->scatter && text; i++)
        if (column_of_lane[i] == column && p->lane[i].replica >= 0) {
            picture_samples(p, p->lane[i].replica, &from, &n);
            text = arena_printf(a,
                                n > 1 ? "%s%s%lld–%lld"
                                : n   ? "%s%s%lld"
                                      : "%s%snone",
                                text, *text ? ", " : " · samples ", (long long)from, (long long)(from + n - 1));
        }
    return text;
}

static Status name_column(Column *c, const Picture *p, const int *column_of_lane, int column, Arena *a)
{
    const Lane *lane = &p->lane[c->first];
    const char *devices = list_devices(p, column_of_lane, column, a),
               *samples = list_samples(p, column_of_lane, column, a);

    if (lane->device < 0)
        c->title = "host";
    else if (lane->replica < 0)
        c->title = c->lanes > 1 ? arena_printf(a, "shared by replicas ×%d", c->lanes) : "shared by replicas";
    else
        c->title =
            c->lanes > 1 ? arena_printf(a, "replica ×%d", c->lanes) : arena_printf(a, "replica %d", lane->replica);
    if (!c->title || !devices || !samples)
        return FAIL_NOMEM();
    c->note =
        !*devices ? "" : arena_printf(a, strpbrk(devices, "–,") ? "devices %s%s" : "device %s%s", devices, samples);
    return c->note ? ST_OK : FAIL_NOMEM();
}

/* The operators of members m[0..n), views only where there is nothing else. */
static const char *chain_of(const Graph *g, const Member *m, int n, Arena *a)
{
    const char **op = ARENA_NEW(a, const char *, n + 1);
    int k = 0;

    for (int i = 0; i < n && op; i++)
        if (!(g->node[m[i].node]->op->flags & OPF_VIEW))
            op[k++] = g->node[m[i].node]->op->name;
    if (op && !k)
        op[k++] = g->node[m->node]->op->name;
    return op ? picture_chain(a, op, k, MOST_LINKS) : NULL;
}

/* What the lanes of a column compute, by row. */
typedef struct {
    uint64_t *looks; /* 0: nothing */
    int rows;
} Looks;

/* Whether a lane with that Looks belongs to a column: they compute the same wherever both do, and mostly both do.  One
 * replica may have something to do for all, such as the mean of the losses. */
static bool belongs(const Looks *column, const Looks *lane, int n_row)
{
    const int most = column->rows > lane->rows ? column->rows : lane->rows;
    int both = 0;

    for (int i = 0; i < n_row; i++) {
        if (column->looks[i] && lane->looks[i] && column->looks[i] != lane->looks[i])
            return false;
        both += column->looks[i] && lane->looks[i];
    }
    return 4 * both >= 3 * most;
}

static int kind_of_lane(const Lane *l) { return l->device < 0 ? 2 : l->replica < 0; }

/* The column of lane i, which is a new one if it belongs to none of the first COMPARED. */
static int column_for(Rows *r, Looks *of_column, const Looks *lane, int i)
{
    PictureTree *t = r->t;
    int k = 0;

    while (k < t->n_column && k < COMPARED &&
           (kind_of_lane(&t->picture.lane[t->column[k].first]) != kind_of_lane(&t->picture.lane[i]) ||
            !belongs(&of_column[k], lane, r->n_row)))
        k++;
    if (k == COMPARED)
        k = t->n_column;
    if (k == t->n_column)
        t->column[t->n_column++] = (Column){ .first = i };
    t->column[k].lanes++;
    for (int row = 0; k < COMPARED && row < r->n_row; row++)
        if (lane->looks[row] && !of_column[k].looks[row]) {
            of_column[k].looks[row] = lane->looks[row];
            of_column[k].rows++;
        }
    return k;
}

/* Members come by row; `by_lane`, [n_lane + 1], receives where a lane's begin in `order`. */
static Status order_by_lane(int **order, int *by_lane, const Member *m, int n, int lanes, Arena *a)
{
    if (!(*order = ARENA_NEW(a, int, n + 1)))
        return FAIL_NOMEM();
    for (int i = 0; i < n; i++)
        by_lane[m[i].lane + 1]++;
    for (int i = 0; i < lanes; i++)
        by_lane[i + 1] += by_lane[i];
    for (int i = n; i-- > 0;)
        (*order)[--by_lane[m[i].lane + 1]] = i;
    for (int i = 0; i < lanes; i++)
        by_lane[i] = by_lane[i + 1];
    by_lane[lanes] = n;
    return ST_OK;
}

/* Lanes that compute the same share a column. */
static Status find_columns(Rows *r, int *column_of_lane, const Member *m, int n)
{
    const Picture *p = &r->t->picture;
    Looks *of_column = ARENA_NEW(r->a, Looks, COMPARED), lane = { ARENA_NEW(r->a, uint64_t, r->n_row + 1), 0 };
    int *order, *by_lane = ARENA_NEW(r->a, int, p->n_lane + 2);

    if (!of_column || !lane.looks || !by_lane || !(r->t->column = ARENA_NEW(r->a, Column, p->n_lane + 1)))
        return FAIL_NOMEM();
    TRY(order_by_lane(&order, by_lane, m, n, p->n_lane, r->a));
    for (int i = 0; i < p->n_lane; i++) {
        if (r->t->n_column < COMPARED && !(of_column[r->t->n_column].looks = ARENA_NEW(r->a, uint64_t, r->n_row + 1)))
            return FAIL_NOMEM();
        memset(lane.looks, 0, (size_t)r->n_row * sizeof *lane.looks);
        lane.rows = 0;
        for (int k = by_lane[i]; k < by_lane[i + 1]; k++) {
            const Member *x = &m[order[k]];

            if (r->t->picture.g->node[x->node]->op->flags & OPF_VIEW)
                continue;
            lane.rows += !lane.looks[x->row];
            lane.looks[x->row] = hash_text(lane.looks[x->row] + 1, r->t->picture.g->node[x->node]->op->name) | 1;
        }
        column_of_lane[i] = column_for(r, of_column, &lane, i);
    }
    r->t->n_drawn = r->t->n_column < MOST_COLUMNS ? r->t->n_column : MOST_COLUMNS;
    for (int k = 0; k < r->t->n_column; k++)
        TRY(name_column(&r->t->column[k], p, column_of_lane, k, r->a));
    return ST_OK;
}

/* ---- parts ---- */

static bool shapes_known(const Graph *g, const Node *n)
{
    for (int i = 0; i < n->n_in + n->n_out; i++) {
        const ValueId v = i < n->n_in ? n->in[i] : n->out[i - n->n_in];

        if (has_value(v) && (!value(g, v)->shape || !shape_known(value(g, v)->shape) || !value(g, v)->dtype))
            return false;
    }
    return true;
}

static int64_t parameters_read(const Graph *g, const Member *m, int n)
{
    int64_t sum = 0;

    for (int i = 0; i < n; i++)
        for (int k = 0; k < g->node[m[i].node]->n_in; k++) {
            const ValueId in = g->node[m[i].node]->in[k];
            const Value *v = value(g, in);
            bool seen = false;

            for (int j = 0; j < i && !seen; j++) /* the nodes of a layer are few */
                for (int o = 0; o < g->node[m[j].node]->n_in && !seen; o++)
                    seen = value_eq(g->node[m[j].node]->in[o], in);
            if (has_value(in) && v->kind == V_STATE && v->trainable && shape_known(v->shape) && !seen)
                sum += shape_numel(v->shape);
        }
    return sum;
}

static Status make_part(Part *out, const Rows *r, const Member *m, int n, const double *seconds)
{
    const Graph *g = r->t->picture.g;

    for (int i = 0; i < n; i++) {
        const Node *x = g->node[m[i].node];

        if (x->n_out && has_value(x->out[0]))
            out->out = value(g, x->out[0]);
        if (shapes_known(g, x)) {
            out->flops += (double)node_flops(g, x);
            out->bytes += simulate_is_free(x) ? 0 : simulate_bytes(g, x);
        }
        out->seconds += seconds ? seconds[x->index] : 0;
    }
    out->nodes = n;
    out->parameters = r->row[m->row].phase == PHASE_FORWARD ? parameters_read(g, m, n) : 0;
    return (out->ops = chain_of(g, m, n, r->a)) ? ST_OK : FAIL_NOMEM();
}

static Status make_parts(Part ***out, Rows *r, const double *seconds)
{
    const Picture *p = &r->t->picture;
    int *column_of_lane = ARENA_NEW(r->a, int, p->n_lane + 1), n = 0;
    Member *m = ARENA_NEW(r->a, Member, r->n_place);
    Part **part = ARENA_NEW(r->a, Part *, r->n_row + 1);

    if (!column_of_lane || !m || !part || !(r->t->column_of = ARENA_NEW(r->a, int, p->g->n_node)))
        return FAIL_NOMEM();
    for (int i = 0; i < r->n_place; i++)
        if (r->place[i].lane < p->n_lane)
            m[n++] = (Member){ r->row_of[r->place[i].node], r->place[i].lane, r->place[i].node };
    if (n)
        qsort(m, (size_t)n, sizeof *m, compare_members);
    TRY(find_columns(r, column_of_lane, m, n));
    for (int i = 0; i < r->n_place; i++)
        r->t->column_of[r->place[i].node] = r->place[i].lane < p->n_lane ? column_of_lane[r->place[i].lane] : -1;
    for (int i = 0, to; i < n; i = to) {
        const int column = column_of_lane[m[i].lane];

        to = next_members(m, n, i);
        if (column >= r->t->n_drawn)
            continue;
        if (!part[m[i].row] && !(part[m[i].row] = ARENA_NEW(r->a, Part, r->t->n_drawn)))
            return FAIL_NOMEM();
        if (!part[m[i].row][column].lanes++)
            TRY(make_part(&part[m[i].row][column], r, m + i, to - i, seconds));
    }
    *out = part;
    return ST_OK;
}

/* ---- parameters that several layers read ---- */

/* A layer of the forward pass that reads a parameter. */
typedef struct {
    int column, block;
    ValueId state;
} Reader;

static int compare_readers(const void *a, const void *b)
{
    const Reader *x = a, *y = b;

    return x->column != y->column     ? x->column - y->column
           : x->state.i != y->state.i ? (x->state.i > y->state.i) - (x->state.i < y->state.i)
                                      : x->block - y->block;
}

/* Lists the readers by the first lane of each column; `out` NULL: only counts them. */
static int list_readers(Reader *out, const Rows *r)
{
    const PictureTree *t = r->t;
    const Graph *g = t->picture.g;
    int n = 0;

    for (int i = 0; i < r->n_place; i++) {
        const Node *x = g->node[r->place[i].node];
        const int column = t->column_of[x->index];

        if (r->row[r->row_of[x->index]].phase != PHASE_FORWARD || column < 0 || column >= t->n_drawn ||
            t->column[column].first != r->place[i].lane)
            continue;
        for (int k = 0; k < x->n_in; k++) {
            const Value *v = value(g, x->in[k]);

            if (!has_value(x->in[k]) || v->kind != V_STATE || !v->trainable || !shape_known(v->shape))
                continue;
            if (out)
                out[n] = (Reader){ column, t->block_of[x->index], x->in[k] };
            n++;
        }
    }
    return n;
}

/* Counts a parameter once in each block that holds several of its readers: for each two of them that follow each other
 * it was added once too often to all blocks that hold both. */
static Status count_once(const Rows *r)
{
    const PictureTree *t = r->t;
    const int n = list_readers(NULL, r);
    Reader *reader = ARENA_NEW(r->a, Reader, n + 1);

    if (!reader)
        return FAIL_NOMEM();
    list_readers(reader, r);
    if (n)
        qsort(reader, (size_t)n, sizeof *reader, compare_readers);
    for (int i = 1; i < n; i++) {
        const Reader *x = &reader[i - 1], *y = &reader[i];

        if (x->column != y->column || x->state.i != y->state.i || x->block == y->block)
            continue;
        for (Block *b = t->block[x->block]; b; b = b->parent)
            if (b->end > y->block && b->part)
                b->part[x->column].parameters -= shape_numel(value(t->picture.g, x->state)->shape);
    }
    return ST_OK;
}

Status picture_tree(PictureTree *out, const Graph *g, const double *seconds, Arena *a)
{
    Rows r = { .t = out, .a = a };
    Part **part;
    int *block;

    *out = (PictureTree){ .n_column = 0 };
    TRY(picture_lanes(&out->picture, g, a));
    TRY(picture_places(&r.place, &r.n_place, &out->picture, a));
    TRY(picture_paths(&r.path, &out->picture, r.place, r.n_place, a));
    if (!(r.row_of = ARENA_NEW(a, int, g->n_node)) || !(out->block_of = ARENA_NEW(a, int, g->n_node)))
        return FAIL_NOMEM();
    TRY(make_layer_rows(&r));
    TRY(make_parts(&part, &r, seconds));
    TRY(picture_blocks(&block, out, r.row, part, r.n_row, seconds, a));
    for (int i = 0; i < r.n_place; i++)
        out->block_of[r.place[i].node] = block[r.row_of[r.place[i].node]];
    return count_once(&r);
}
