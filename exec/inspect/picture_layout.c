/* Places blocks below each other, phases at the outside.
 *
 * A value that the next block reads is an arrow between the two.  One that passes other blocks runs along a track at
 * the right of all, where no text is; values of one block that are read in several places share a track. */
#include "exec/inspect/picture_layout.h"

#include <stdlib.h>
#include <string.h>

#include "graph/ir/op.h"

/* ---- which blocks are open ---- */

Block *const *layout_children(const Block *b, int *n)
{
    const Block *first = b->kind == BLOCK_REPEAT ? b->child[0] : b;

    *n = first->n_child;
    if (*n)
        return first->child;
    *n = 1;
    return b->child;
}

/* Opens blocks of a phase level by level while rows are left. */
static Status open_blocks(PageLayout *l, const Block *phase, int rows, Arena *a)
{
    const Block **queue = ARENA_NEW(a, const Block *, phase->end - phase->index + 1);
    int n = 0, used = 0, children;

    if (!queue)
        return FAIL_NOMEM();
    queue[n++] = phase;
    for (int i = 0; i < n; i++) {
        const Block *b = queue[i];
        Block *const *child;

        if (!b->n_child)
            continue;
        child = layout_children(b, &children);
        if (b != phase && used + children > rows)
            continue;
        used += children;
        l->box[b->index].open = true;
        for (int k = 0; k < children; k++)
            queue[n++] = child[k];
    }
    return ST_OK;
}

/* ---- places ---- */

static int card_height(const PageLayout *l) { return l->t->n_drawn > 1 ? CARD_NARROW : CARD_HEIGHT; }

/* All that block b holds is drawn as block `by`. */
static void hide(PageLayout *l, const Block *b, int by)
{
    for (int i = b->index; i < b->end; i++)
        l->box[i].seen = by;
}

/* Places a block below y, and returns its bottom edge. */
static int place_block(PageLayout *l, const Block *b, int x, int y, int w, int depth)
{
    Box *box = &l->box[b->index];
    Block *const *child;
    int n;

    box->x = x;
    box->y = y;
    box->w = w;
    box->depth = depth;
    hide(l, b, b->index);
    if (!box->open) {
        box->h = b->kind == BLOCK_BAR ? BAR_HEIGHT : card_height(l);
        return y + box->h;
    }
    child = layout_children(b, &n);
    y += FRAME_HEAD;
    for (int i = 0; i < n; i++) {
        y = place_block(l, child[i], x + INSET, y, w - 2 * INSET, depth + 1) + GAP;
        l->box[child[i]->index].parent = b->index;
        l->box[child[i]->index].at = i;
    }
    y += INSET - GAP;
    box->h = y - box->y;
    return y;
}

int layout_head(const PageLayout *l) { return PAGE_HEAD + (l->t->root.bars ? LEGEND_LINE : 0); }

static void place_all(PageLayout *l)
{
    const int n = l->t->n_drawn;
    int depth = 0, y = layout_head(l) + (l->t->picture.n_lane > 1 ? COLUMN_HEAD : 0), w = PAGE_MOST / (n ? n : 1);

    for (int i = 0; i < l->t->n_block; i++)
        if (l->t->block[i]->n_child && l->box[i].open) {
            int d = 0;

            for (const Block *b = l->t->block[i]; b; b = b->parent)
                d++;
            depth = d > depth ? d : depth;
        }
    w = n < 2 ? CARD_ONE : w > CARD_MOST ? CARD_MOST : w < CARD_LEAST ? CARD_LEAST : w;
    l->column = w + GAP / 2;
    w = (n ? n : 1) * l->column;
    l->right = PAGE_MARGIN + w + 2 * INSET * depth;
    l->box[0].parent = -1;
    for (int i = 0; i < l->t->root.n_child; i++) {
        const Block *phase = l->t->root.child[i];

        l->box[phase->index].parent = -1;
        y = place_block(l, phase, PAGE_MARGIN, y, l->right - PAGE_MARGIN, 0) + GAP;
    }
    l->height = y + PAGE_MARGIN - GAP;
}

/* ---- values between blocks ---- */

typedef struct {
    int from, to;
} Edge;

static int compare_edges(const void *a, const void *b)
{
    const Edge *x = a, *y = b;

    if (x->from != y->from)
        return x->from < y->from ? -1 : 1;
    return (x->to > y->to) - (x->to < y->to);
}

/* The first or the last block that is drawn in block i, collectives aside. */
static int outermost(const PageLayout *l, int i, bool last)
{
    for (int n, next; l->box[i].open; i = next) {
        Block *const *child = layout_children(l->t->block[i], &n);

        next = -1;
        for (int k = 0; k < n && (next < 0 || last); k++)
            next = child[k]->kind != BLOCK_BAR ? child[k]->index : next;
        if (next < 0)
            break;
    }
    return i;
}

/* Whether the value of an edge needs a track.  If it goes to the next block, or the next but for collectives, it
 * becomes an arrow.  Ends of collectives have arrows alone. */
static bool needs_track(PageLayout *l, Edge e)
{
    int from = e.from, to = e.to, between = 0;
    Block *const *child;
    int n;

    while (l->box[from].parent != l->box[to].parent) {
        int *deeper = l->box[from].depth > l->box[to].depth ? &from : &to;

        if (l->box[from].depth == l->box[to].depth)
            from = l->box[from].parent;
        else
            *deeper = l->box[*deeper].parent;
        if (from < 0 || to < 0 || from == to)
            return false;
    }
    if (from == to || l->box[from].parent < 0 || l->box[from].at >= l->box[to].at)
        return false;
    child = layout_children(l->t->block[l->box[from].parent], &n);
    for (int i = l->box[from].at + 1; i < l->box[to].at; i++)
        between += child[i]->kind != BLOCK_BAR;
    for (int i = l->box[from].at + 1; i <= l->box[to].at && !between; i++)
        l->box[child[i]->index].arrow = true;
    if (!between && (e.from == from || e.from == outermost(l, from, true)) &&
        (e.to == to || e.to == outermost(l, to, false)))
        return false;
    return l->t->block[e.from]->kind != BLOCK_BAR && l->t->block[e.to]->kind != BLOCK_BAR;
}

/* The edges that need tracks, each once. */
static Status find_edges(Edge **out, int *count, PageLayout *l, Arena *a)
{
    const Picture *p = &l->t->picture;
    int most = 0, n = 0, kept = 0;
    Edge *edge;

    FOR_NODES(p->g, x)
        most += x->n_in;
    if (!(edge = ARENA_NEW(a, Edge, most)))
        return FAIL_NOMEM();
    FOR_NODES(p->g, x)
        for (int i = 0; i < x->n_in; i++) {
            const Node *from = has_value(x->in[i]) ? value(p->g, x->in[i])->producer : NULL;

            if (from && p->phase[from->index] == p->phase[x->index] && p->phase[x->index] != PHASE_UPDATE)
                edge[n++] = (Edge){ l->box[l->t->block_of[from->index]].seen, l->box[l->t->block_of[x->index]].seen };
        }
    if (n)
        qsort(edge, (size_t)n, sizeof *edge, compare_edges);
    for (int i = 0; i < n; i++)
        if ((!i || compare_edges(&edge[i], &edge[i - 1])) && edge[i].from != edge[i].to && needs_track(l, edge[i]))
            edge[kept++] = edge[i];
    *out = edge;
    *count = kept;
    return ST_OK;
}

/* ---- tracks ---- */

static int span_of(const PageLayout *l, const Bus *b) { return l->box[b->to[b->n - 1]].y - l->box[b->from].y; }

/* Gives each bus the innermost track that is free along it; shorter ones first. */
static Status find_tracks(PageLayout *l, Arena *a)
{
    int *order = ARENA_NEW(a, int, l->n_bus + 1);

    if (!order)
        return FAIL_NOMEM();
    for (int i = 0, k; i < l->n_bus; i++) {
        for (k = i; k > 0 && span_of(l, &l->bus[order[k - 1]]) > span_of(l, &l->bus[i]); k--)
            order[k] = order[k - 1];
        order[k] = i;
    }
    for (int i = 0; i < l->n_bus; i++) {
        Bus *b = &l->bus[order[i]];
        const int top = l->box[b->from].y, bottom = l->box[b->to[b->n - 1]].y;
        bool taken[MOST_TRACKS] = { false };

        for (int k = 0; k < i; k++) {
            const Bus *x = &l->bus[order[k]];

            if (l->box[x->from].y <= bottom && l->box[x->to[x->n - 1]].y >= top)
                taken[x->track] = true;
        }
        while (b->track < MOST_TRACKS - 1 && taken[b->track])
            b->track++;
        l->tracks = b->track >= l->tracks ? b->track + 1 : l->tracks;
    }
    return ST_OK;
}

static Status find_buses(PageLayout *l, Arena *a)
{
    Edge *edge;
    int n, *to;

    TRY(find_edges(&edge, &n, l, a));
    if (!(l->bus = ARENA_NEW(a, Bus, n)) || !(to = ARENA_NEW(a, int, n)))
        return FAIL_NOMEM();
    for (int i = 0; i < n; i++) {
        to[i] = edge[i].to; /* by index, thus from above */
        if (!i || edge[i].from != edge[i - 1].from)
            l->bus[l->n_bus++] = (Bus){ .from = edge[i].from, .to = to + i };
        l->bus[l->n_bus - 1].n++;
    }
    return find_tracks(l, a);
}

Status layout_make(PageLayout *out, const PictureTree *t, Arena *a)
{
    static const int rows[N_PHASES] = { 0, 44, 8, 20, 8 }; /* of the forward pass most: it is the network */

    *out = (PageLayout){ .t = t, .box = ARENA_NEW(a, Box, t->n_block + 1) };
    if (!out->box)
        return FAIL_NOMEM();
    for (int i = 0; i < t->root.n_child; i++)
        TRY(open_blocks(out, t->root.child[i], rows[t->root.child[i]->phase], a));
    place_all(out);
    TRY(find_buses(out, a));
    out->width = out->right + (out->tracks ? 20 + TRACK * out->tracks : 0) + PAGE_MARGIN;
    return ST_OK;
}
