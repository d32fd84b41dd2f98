/* Blocks of the tree of a step: scopes by the components of names, then repeats among the blocks of each scope. */
#include <string.h>

#include "exec/inspect/picture_tree.h"
#include "graph/base/hash.h"
#include "graph/ir/collective.h"
#include "graph/ir/op.h"
#include "graph/ir/phase.h"

enum {
    MOST_DEPTH = 12,     /* of scopes within each other; what is deeper stands in the last */
    LONGEST_PERIOD = 64, /* blocks of a sequence that repeats */
    LEAST_LAYERS = 4     /* layers and bars that repeat; of scopes two are enough */
};

typedef struct {
    PictureTree *t;
    const LayerRow *row;
    Part **part; /* by row */
    const double *seconds;
    int *block_of_row;
    Block **of_row; /* the same */
    Arena *a;
} Builder;

/* ---- titles ---- */

static size_t component(const char *s) { return strcspn(s, "."); }
static bool is_number(const char *s, size_t n) { return n && strspn(s, "0123456789") >= n; }

/* The path without its first `skip` bytes.  A number takes the component before it along: "layer1.0". */
static const char *title_of(const char *path, size_t skip)
{
    const char *at = path + skip;

    if (!is_number(at, component(at)) || !skip)
        return at;
    for (at--; at > path && at[-1] != '.';)
        at--;
    return at;
}

const char *picture_span(Arena *a, const char *first, const char *last)
{
    size_t n = 0;

    while (first[n] && first[n] == last[n])
        n++;
    while (n > 0 && first[n - 1] >= '0' && first[n - 1] <= '9')
        n--;
    if (first[n] && last[n] && strspn(first + n, "0123456789") == strlen(first + n) &&
        strspn(last + n, "0123456789") == strlen(last + n))
        return arena_printf(a, "%s … %s", first, last + n);
    return strcmp(first, last) ? arena_printf(a, "%s … %s", first, last) : first;
}

/* ---- layers and scopes ---- */

static Block *new_block(const Builder *b, BlockKind kind, int phase, Block *parent)
{
    Block *x = ARENA_NEW(b->a, Block, 1);

    if (!x)
        return NULL;
    *x = (Block){ .kind = kind, .phase = phase, .parent = parent, .path = "", .title = "" };
    return x;
}

/* The block of a row in a scope whose name has `skip` bytes. */
static Status add_layer(Block **out, Builder *b, int i, size_t skip, Block *parent)
{
    const LayerRow *r = &b->row[i];
    Block *x = new_block(b, r->bar ? BLOCK_BAR : BLOCK_LAYER, r->phase, parent);

    if (!x)
        return FAIL_NOMEM();
    x->path = r->path;
    x->bar = r->bar;
    x->part = b->part[i];
    x->looks = hash_int(hash_int(0, x->kind), x->phase);
    if (r->bar) {
        const Exchange e = exchange_of(r->bar);

        x->title = r->title;
        x->looks = hash_int(hash_int(hash_text(x->looks, r->bar->op->name), e.parts), e.copies);
        x->bars = 1;
        x->sent = (double)picture_bytes(b->t->picture.g, r->bar);
        x->wire = b->seconds ? b->seconds[r->bar->index] : 0;
    } else {
        x->title = strlen(r->path) > skip ? title_of(r->path, skip) : *r->path ? "" : r->title;
        for (int c = 0; x->part && c < b->t->n_drawn; c++) {
            const Value *v = x->part[c].out;

            x->looks = hash_text(x->looks, x->part[c].ops);
            for (int d = 0; v && v->shape && d < v->shape->rank; d++)
                x->looks = hash_int(x->looks, v->shape->dim[d]);
            if (!*x->title && x->part[c].ops) {
                x->title = x->part[c].ops;
                x->unnamed = true;
            }
        }
    }
    b->of_row[i] = x;
    *out = x;
    return ST_OK;
}

/* Adds the rows [lo, hi), whose paths share their first `skip` bytes, to a block. */
static Status add_children(Builder *b, Block *parent, int lo, int hi, size_t skip, int depth);

/* A scope of rows [lo, hi), which share their next component, and maybe more. */
static Status add_scope(Block **out, Builder *b, int lo, int hi, size_t skip, Block *parent, int depth)
{
    const char *path = b->row[lo].path;
    size_t n = skip + component(path + skip);
    Block *x = new_block(b, BLOCK_SCOPE, b->row[lo].phase, parent);
    bool more = true;

    if (!x)
        return FAIL_NOMEM();
    while (more && path[n]) {
        const size_t next = n + 1 + component(path + n + 1);

        for (int i = lo + 1; i < hi && more; i++)
            more = !strncmp(b->row[i].path, path, next) && (!b->row[i].path[next] || b->row[i].path[next] == '.');
        n = more ? next : n;
    }
    x->path = arena_printf(b->a, "%.*s", (int)n, path);
    if (!x->path)
        return FAIL_NOMEM();
    x->title = title_of(x->path, skip);
    TRY(add_children(b, x, lo, hi, n, depth + 1));
    *out = x;
    if (x->n_child == 1) { /* "h" holds nothing but "h.0 … 11" */
        *out = x->child[0];
        (*out)->parent = parent;
    }
    return ST_OK;
}

/* Rows [i, *end), one or more, that have no path and share a title, such as "gradient of criterion"; that of their
 * phase tells nothing. */
static bool share_title(const Builder *b, int i, int hi, int *end)
{
    *end = i + 1;
    if (*b->row[i].path || b->row[i].bar || !strcmp(b->row[i].title, phase_name(b->row[i].phase)))
        return false;
    while (*end < hi && !*b->row[*end].path && !b->row[*end].bar && !strcmp(b->row[*end].title, b->row[i].title))
        ++*end;
    return *end > i + 1;
}

/* A scope of rows [lo, hi) that share a title; each shows its operators. */
static Status add_titled(Block **out, Builder *b, int lo, int hi, Block *parent)
{
    Block *x = new_block(b, BLOCK_SCOPE, b->row[lo].phase, parent);

    if (!x || !(x->child = ARENA_NEW(b->a, Block *, hi - lo)))
        return FAIL_NOMEM();
    x->title = b->row[lo].title;
    x->looks = hash_int(3, hi - lo);
    for (int i = lo; i < hi; i++) {
        Block **y = &x->child[x->n_child++];

        TRY(add_layer(y, b, i, 0, x));
        for (int c = 0; (*y)->part && c < b->t->n_drawn && !(*y)->unnamed; c++)
            if ((*y)->part[c].ops) {
                (*y)->title = (*y)->part[c].ops;
                (*y)->unnamed = true;
            }
        x->looks = hash_int(x->looks, (int64_t)(*y)->looks);
    }
    *out = x;
    return ST_OK;
}

/* ---- repeats ---- */

/* How often the p blocks from `from` come in a row. */
static int block_repeats(Block *const *x, int n, int from, int p)
{
    int i = from;

    while (i + p < n && x[i]->looks == x[i + p]->looks)
        i++;
    return (i - from) / p + 1;
}

/* Is a sequence of p blocks that comes k times worth a block of its own? */
static bool folds(Block *const *x, int p, int k)
{
    int groups = 0;

    for (int i = 0; i < p; i++)
        groups += x[i]->n_child > 0;
    return k > 1 && (groups || p * k >= 2 * LEAST_LAYERS || (p == 1 && k >= LEAST_LAYERS));
}

/* The blocks x[0..p) as one iteration of a repeat. */
static Block *iteration(const Builder *b, Block **x, int p, Block *repeat)
{
    Block *whole;

    if (p == 1) {
        x[0]->parent = repeat;
        return x[0];
    }
    if (!(whole = new_block(b, BLOCK_SCOPE, x[0]->phase, repeat)) ||
        !(whole->child = arena_memdup(b->a, x, (size_t)p * sizeof(Block *))) ||
        !(whole->title = picture_span(b->a, x[0]->title, x[p - 1]->title)))
        return NULL;
    whole->n_child = p;
    whole->looks = hash_int(0, p);
    for (int i = 0; i < p; i++) {
        x[i]->parent = whole;
        whole->looks = hash_int(whole->looks, (int64_t)x[i]->looks);
    }
    return whole;
}

static Block *add_repeat(const Builder *b, Block **x, int p, int k, Block *parent)
{
    Block *r = new_block(b, BLOCK_REPEAT, x[0]->phase, parent);
    const Block *first, *last;

    if (!r || !(r->child = ARENA_NEW(b->a, Block *, k)))
        return NULL;
    for (int i = 0; i < k; i++)
        if (!(r->child[i] = iteration(b, x + i * p, p, r)))
            return NULL;
    r->n_child = k;
    r->looks = hash_int(hash_int(1, k), (int64_t)r->child[0]->looks);
    first = r->child[0];
    last = r->child[k - 1];
    r->path = picture_span(b->a, first->path, last->path);
    r->title = p == 1 ? picture_span(b->a, first->title, last->title)
                      : picture_span(b->a, first->child[0]->title, last->child[p - 1]->title);
    return r->path && r->title ? r : NULL;
}

/* Replaces sequences of a block's children that repeat.  The period that covers most children is taken. */
static Status fold_children(const Builder *b, Block *of)
{
    Block **x = of->child;
    int n = of->n_child, kept = 0;

    for (int i = 0, p, k; i < n; i += p * k) {
        p = k = 1;
        for (int q = 1; q <= LONGEST_PERIOD && i + 2 * q <= n; q++) {
            const int times = x[i]->looks == x[i + q]->looks ? block_repeats(x, n, i, q) : 1;

            if (q * times > p * k && folds(x + i, q, times)) {
                p = q;
                k = times;
            }
        }
        if (k == 1)
            x[kept++] = x[i];
        else if (!(x[kept++] = add_repeat(b, x + i, p, k, of)))
            return FAIL_NOMEM();
    }
    of->n_child = kept;
    return ST_OK;
}

static Status add_children(Builder *b, Block *parent, int lo, int hi, size_t skip, int depth)
{
    if (!(parent->child = ARENA_NEW(b->a, Block *, hi - lo)))
        return FAIL_NOMEM();
    for (int i = lo, to; i < hi; i = to) {
        const char *path = b->row[i].path;
        const size_t at = skip + (path[skip] == '.'), n = at + component(path + at);

        for (to = i + 1; to < hi && path[at] && !strncmp(b->row[to].path, path, n) &&
                         (!b->row[to].path[n] || b->row[to].path[n] == '.');)
            to++;
        if (to == i + 1 && share_title(b, i, hi, &to)) {
            TRY(add_titled(&parent->child[parent->n_child], b, i, to, parent));
        } else if (to == i + 1 || depth >= MOST_DEPTH) {
            to = i + 1;
            TRY(add_layer(&parent->child[parent->n_child], b, i, at, parent));
        } else {
            TRY(add_scope(&parent->child[parent->n_child], b, i, to, at, parent, depth));
        }
        parent->n_child++;
    }
    for (int before = 0; before != parent->n_child;) { /* a repeat may be part of a sequence that repeats */
        before = parent->n_child;
        TRY(fold_children(b, parent));
    }
    parent->looks = hash_int(2, parent->n_child);
    for (int i = 0; i < parent->n_child; i++)
        parent->looks = hash_int(parent->looks, (int64_t)parent->child[i]->looks);
    return ST_OK;
}

/* ---- sums ---- */

/* Numbers a block and all within it, parents first, and adds up what they hold. */
static Status finish_block(Builder *b, Block *x)
{
    x->index = b->t->n_block;
    b->t->block[b->t->n_block++] = x;
    if (x->n_child && !(x->part = ARENA_NEW(b->a, Part, b->t->n_drawn + 1)))
        return FAIL_NOMEM();
    for (int i = 0; i < x->n_child; i++) {
        const Block *y = x->child[i];

        TRY(finish_block(b, x->child[i]));
        x->bars += y->bars;
        x->sent += y->sent;
        x->wire += y->wire;
        for (int c = 0; y->part && c < b->t->n_drawn; c++) {
            Part *to = &x->part[c];
            const Part *from = &y->part[c];

            to->out = from->out ? from->out : to->out;
            to->parameters += from->parameters;
            to->flops += from->flops;
            to->bytes += from->bytes;
            to->seconds += from->seconds;
            to->nodes += from->nodes;
        }
    }
    x->end = b->t->n_block;
    return ST_OK;
}

Status picture_blocks(int **block_of_row, PictureTree *t, const LayerRow *row, Part **part, int n_row,
                      const double *seconds, Arena *a)
{
    Builder b = { t, row, part, seconds, ARENA_NEW(a, int, n_row + 1), ARENA_NEW(a, Block *, n_row + 1), a };

    t->root = (Block){ .kind = BLOCK_PHASE, .path = "", .title = "" };
    /* a scope has two rows or more, a repeat two blocks, its iterations two blocks each */
    if (!b.block_of_row || !b.of_row || !(t->block = ARENA_NEW(a, Block *, 4 * (size_t)n_row + N_PHASES + 1)) ||
        !(t->root.child = ARENA_NEW(a, Block *, N_PHASES)))
        return FAIL_NOMEM();
    for (int i = 0, to; i < n_row; i = to) {
        Block *x = new_block(&b, BLOCK_PHASE, row[i].phase, &t->root);

        for (to = i; to < n_row && row[to].phase == row[i].phase;)
            to++;
        if (!x)
            return FAIL_NOMEM();
        x->title = phase_name(row[i].phase);
        t->root.child[t->root.n_child++] = x;
        TRY(add_children(&b, x, i, to, 0, 0));
    }
    TRY(finish_block(&b, &t->root));
    for (int i = 0; i < n_row; i++)
        b.block_of_row[i] = b.of_row[i]->index;
    *block_of_row = b.block_of_row;
    return ST_OK;
}
