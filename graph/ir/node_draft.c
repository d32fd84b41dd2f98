/* Drafts of nodes.  The next draft reuses a draft's lists; draft_apply copies them to the graph's arena. */
#include "graph/ir/node_draft.h"

#include <string.h>

#include "graph/ir/rewrite.h"

void draft_open(Draft *d, Graph *g, const Target *t, int n_device, Arena *a)
{
    *d = (Draft){ .g = g, .target = t, .n_device = n_device, .arena = a };
}

/* Grows array p of n elements by one; NULL when memory runs out (g->status). */
static void *node_draft_grow(Draft *d, void *p, size_t size, int n, size_t *cap)
{
    void *grown = d->g->status ? NULL : arena_grow(d->arena, p, size, (size_t)n, cap);

    if (!grown)
        graph_fail_nomem(d->g);
    return grown;
}

/* Sets list[i] = v; fills a gap before it with NO_VALUE. */
static void node_draft_put(Draft *d, ValueId **list, int *n, size_t *cap, int i, ValueId v)
{
    while (*n <= i) {
        ValueId *grown = node_draft_grow(d, *list, sizeof v, *n, cap);

        if (!grown)
            return;
        *list = grown;
        grown[(*n)++] = NO_VALUE;
    }
    (*list)[i] = v;
}

void draft_in(Draft *d, int i, ValueId v) { node_draft_put(d, &d->node.in, &d->node.n_in, &d->cap_in, i, v); }

void draft_out(Draft *d, int o, ValueId v) { node_draft_put(d, &d->node.out, &d->node.n_out, &d->cap_out, o, v); }

void draft_clear(Draft *d) { d->node.n_in = d->node.n_out = 0; }

/* Makes the list of attributes the draft's own; inference may have replaced it by a shared one. */
static bool own_attrs(Draft *d)
{
    Node *n = &d->node;
    int count = n->n_attr;

    for (int i = 0; n->attr != d->attr && i < count; i++) {
        Attr *grown = node_draft_grow(d, d->attr, sizeof *grown, i, &d->cap_attr);

        if (!grown)
            return false;
        d->attr = grown;
        grown[i] = n->attr[i];
    }
    n->attr = d->attr;
    return true;
}

static void add_attr(Draft *d, const Attr *a)
{
    Attr *grown = own_attrs(d) ? node_draft_grow(d, d->attr, sizeof *a, d->node.n_attr, &d->cap_attr) : NULL;

    if (!grown)
        return;
    grown[d->node.n_attr++] = *a;
    d->node.attr = d->attr = grown;
}

void draft_attr(Draft *d, const Attr *a)
{
    const Attr *old = own_attrs(d) ? node_attr(&d->node, a->name) : NULL;

    if (old)
        d->attr[old - d->attr] = *a;
    else
        add_attr(d, a);
}

void draft_attrs(Draft *d, const Attr *list)
{
    for (; list->name; list++)
        draft_attr(d, list);
}

void draft_begin(Draft *d, Node *n, const OpDef *op)
{
    Node node = *n;

    node.op = op;
    node.in = d->node.in;
    node.out = d->node.out;
    node.attr = d->attr;
    node.n_in = node.n_out = node.n_attr = 0;
    d->node = node;
    d->of = n;
    d->n_absorbed = 0;
    for (int i = 0; i < n->n_in; i++)
        draft_in(d, i, n->in[i]);
    for (int o = 0; o < n->n_out; o++)
        draft_out(d, o, n->out[o]);
    for (const AttrDecl *a = op->attrs; a && a->name; a++) {
        const Attr *old = node_attr(n, a->name);

        if (old && old->type == a->type)
            add_attr(d, old);
        else if (a->rule != ATTR_REQUIRED)
            add_attr(d, &(Attr){ .name = a->name, .type = a->type, .i = a->i, .f = a->f, .s = a->s });
    }
}

void draft_absorb(Draft *d, Node *n)
{
    Node **grown = node_draft_grow(d, d->absorbed, sizeof n, d->n_absorbed, &d->cap_absorbed);

    if (!grown)
        return;
    d->absorbed = grown;
    grown[d->n_absorbed++] = n;
}

/* "y@r0" and ".aux" make "y.aux@r0", whose logical name is "y.aux". */
ValueId draft_new_out(Draft *d, int o, ValueId of, const char *suffix)
{
    Graph *g = d->g;
    const Value *v = value(g, of);
    const char *base = value_logical_name(v), *logical = arena_printf(g->arena, "%s%s", base, suffix);
    const char *place = v->name + (strncmp(v->name, base, strlen(base)) ? 0 : strlen(base));
    const char *name = logical ? arena_printf(g->arena, "%s%s", logical, place) : NULL;
    const Shape unknown = shape_unknown();
    ValueId y;

    if (!name)
        graph_fail_nomem(g);
    y = g->status ? NO_VALUE : graph_add_value(g, V_TEMP, name, v->dtype, &unknown);
    if (!has_value(y))
        return NO_VALUE;
    value(g, y)->logical = v->logical ? logical : NULL;
    value(g, y)->device = v->device;
    value(g, y)->replica = v->replica;
    draft_out(d, o, y);
    return y;
}

static void drop_absent(Draft *d)
{
    Node *n = &d->node;

    while (n->n_in > n->op->in_min && !has_value(n->in[n->n_in - 1]))
        n->n_in--;
    while (!(n->op->flags & OPF_COLLECTIVE) && n->n_out > n->op->out_min && !has_value(n->out[n->n_out - 1]))
        n->n_out--;
}

/* Infers the drafted node if an output has no shape. */
static void infer_new(Draft *d)
{
    bool unknown = false;

    for (int o = 0; o < d->node.n_out; o++)
        unknown |= has_value(d->node.out[o]) && !shape_known(value(d->g, d->node.out[o])->shape);
    if (unknown && !d->g->status)
        d->g->status = node_infer(d->g, &d->node);
}

bool draft_is_supported(Draft *d)
{
    if (d->g->status || d->node.device >= d->n_device)
        return false;
    drop_absent(d);
    infer_new(d);
    return !d->g->status && target_computes(d->target, d->g, &d->node);
}

void draft_apply(Draft *d)
{
    Graph *g = d->g;
    Node *n = d->of;

    drop_absent(d);
    infer_new(d);
    if (g->status)
        return;
    for (int i = 0; i < d->n_absorbed; i++)
        graph_remove(g, d->absorbed[i]);
    n->op = d->node.op;
    n->attr = NULL;
    n->n_attr = 0;
    node_copy_attrs(g, n, &d->node);
    node_set_inputs(g, n, d->node.n_in, d->node.in);
    node_set_outputs(g, n, d->node.n_out, d->node.out);
}

bool draft_try_apply(Draft *d)
{
    if (!draft_is_supported(d))
        return false;
    draft_apply(d);
    return !d->g->status;
}
