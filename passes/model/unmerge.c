/* unmerge: a node that a simplifier made of several equal ones becomes several again.
 *
 * Two layers that began as copies and read the same input compute the same, so onnxsim keeps one of their nodes.  It
 * lists the removed nodes, and the nodes that read another input since.  The pass gives such readers of the remaining
 * node a copy of it, with tensors of its own under the removed names.  Nodes in front of it that were removed as well
 * come back likewise.
 *
 *     file:    Gemm (/a/Gemm) -> Tanh (/Tanh), Relu (/Relu)
 *     lists:   removed Gemm (/b/Gemm), b.weight; changed Relu (/Relu)
 *     after:   Gemm (/a/Gemm) -> Tanh;  Gemm (/b/Gemm) with b.weight -> Relu
 *
 * Where the lists fit several nodes equally, the pass changes nothing, and untie warns of the missing tensors. */
#include <string.h>

#include "passes/model/merged_copies.h"
#include "passes/names.h"
#include "passes/report.h"

enum { MOST_READERS = 64 };

typedef struct {
    Graph *g;
    PassCtx *ctx;
    Uses uses;
    SimplifierTrace t;
    const char *made; /* names of the tensors that the present copy got */
} Unmerge;

static int count_slashes(const char *name)
{
    int n = 0;

    for (; *name; name++)
        n += *name == '/';
    return n;
}

/* Length of the name without a "_2" at its end. */
static size_t base_of(const char *name)
{
    size_t len = strlen(name), end = len;

    while (end && name[end - 1] >= '0' && name[end - 1] <= '9')
        end--;
    return end && end < len && name[end - 1] == '_' ? end - 1 : len;
}

static bool is_there(const Graph *g, const char *node)
{
    FOR_NODES(g, n)
        if (!strcmp(n->name, node))
            return true;
    return false;
}

/* The names `of` and `of_copy` of two nodes differ in one part of the path at least ("/left/left.1/Conv" and
 * "/right/right.1/Conv").  Is `n` in the part of the network that `of` is in, and `copy` at the same place of the other
 * part? */
static bool same_part(const char *n, const char *copy, const char *of, const char *of_copy)
{
    size_t at = 0, end, end_copy;

    while (of[at] && of[at] == of_copy[at])
        at++;
    while (at && of[at - 1] != '/')
        at--;
    end = at + strcspn(of + at, "/");
    end_copy = at + strcspn(of_copy + at, "/");
    return at && of[end] && of_copy[end_copy] && !strncmp(n, of, end + 1) && !strncmp(copy, of_copy, end_copy + 1);
}

/* May the removed node have been the same operation of another module as n?  The last parts of their names then differ
 * in the number only. */
static bool unmerge_fits(const Node *n, const Removed *r)
{
    const char *a = n->name, *b = r->name;
    const char *x = *a == '/' ? strrchr(a, '/') : a, *y = *b == '/' ? strrchr(b, '/') : b;

    return !r->taken && !strcmp(r->op, n->op->name) && (*a == '/') == (*b == '/') &&
           count_slashes(a) == count_slashes(b) && base_of(x) == base_of(y) && !strncmp(x, y, base_of(x)) &&
           strcmp(a, b);
}

/* The removed copy of `n`, the producer of an input of `of`, whose copy is `behind`: the one in the same part of the
 * network, or the only one that fits if no other node fits it.  NULL: there is none. */
static Removed *copy_before(const Unmerge *u, const Node *n, const Node *of, const Removed *behind)
{
    Removed *found = NULL;
    int n_found = 0, n_node = 0;

    for (int i = 0; i < u->t.n_node; i++) {
        Removed *r = &u->t.node[i];

        if (!unmerge_fits(n, r) || is_there(u->g, r->name))
            continue;
        if (same_part(n->name, r->name, of->name, behind->name))
            return r;
        n_found++;
        found = r;
    }
    FOR_NODES(u->g, m)
        n_node += n_found == 1 && unmerge_fits(m, found);
    return n_found == 1 && n_node == 1 ? found : NULL;
}

/* ---- tensors ---- */

/* *out: the removed name of the copy's tensor; NULL: none was removed.  Without scopes (module NULL), the first removed
 * name with the same last part. */
static Status tensor_name(const char **out, const Unmerge *u, const Node *n, const char *module, int in)
{
    const char *last = names_last(value(u->g, n->in[in])->name), *name;

    *out = NULL;
    if (module) {
        if (!(name = arena_printf(u->ctx->scratch, "%s%s%s", module, *module ? "." : "", last)))
            return FAIL_NOMEM();
        if (u->t.cut ? !has_value(graph_find(u->g, name)) : trace_lacks(&u->t, u->g, name))
            *out = name;
        return ST_OK;
    }
    for (int i = 0; i < u->t.n_value && !*out; i++)
        if (!strcmp(names_last(u->t.value[i]), last) && trace_lacks(&u->t, u->g, u->t.value[i]))
            *out = u->t.value[i];
    return ST_OK;
}

/* *out: a copy of the tensor under its removed name, or the tensor itself. */
static Status copy_tensor(ValueId *out, Unmerge *u, const Node *n, const char *module, int in)
{
    const Value *from = value(u->g, n->in[in]);
    const char *name;
    ValueId v;

    *out = n->in[in];
    TRY(tensor_name(&name, u, n, module, in));
    if (!name)
        return ST_OK;
    v = graph_add_const_nocopy(u->g, name, from->init);
    TRY(u->g->status);
    value(u->g, v)->origin = from->origin;
    value(u->g, v)->evidence = from->evidence;
    value(u->g, v)->folded_from = from->folded_from;
    *out = v;
    u->made = arena_printf(u->ctx->scratch, "%s%s%s", u->made, *u->made ? ", " : "", name);
    return u->made ? ST_OK : FAIL_NOMEM();
}

/* ---- nodes ---- */

/* *out: a copy of n under the name of r, which reads copies of the nodes in front of it that were removed. */
static Status unmerge_copy_node(Node **out, Unmerge *u, const Node *n, Removed *r)
{
    ValueId *in = ARENA_NEW(u->ctx->scratch, ValueId, n->n_in);
    Node as = { .name = r->name };
    const char *module;

    r->taken = true;
    if (!in)
        return FAIL_NOMEM();
    TRY(node_scope(&module, &as, u->ctx->scratch));
    for (int i = 0; i < n->n_in; i++) {
        const Value *v = has_value(n->in[i]) ? value(u->g, n->in[i]) : NULL;
        Removed *before = v && v->producer && v->producer->op ? copy_before(u, v->producer, n, r) : NULL;

        in[i] = n->in[i];
        if (v && v->kind == V_CONST && v->init && dtype_is_float(v->dtype) && v->init->shape.rank > 0)
            TRY(copy_tensor(&in[i], u, n, module, i));
        else if (before) {
            Node *made;

            TRY(unmerge_copy_node(&made, u, v->producer, before));
            for (int k = 0; k < v->producer->n_out; k++)
                in[i] = value_eq(v->producer->out[k], n->in[i]) ? made->out[k] : in[i];
        }
    }
    *out = graph_add_node_like(u->g, n, n->n_in, in, n->n_out, NULL);
    TRY(u->g->status);
    (*out)->name = arena_strdup(u->g->arena, r->name);
    return (*out)->name ? ST_OK : FAIL_NOMEM();
}

/* Lists the readers of n that had another input before onnxsim.  Returns their number; 0 if all readers had. */
static int moved_readers(const Unmerge *u, const Node *n, Reader *out)
{
    uint32_t all = 0;
    int moved = 0;

    for (int o = 0; o < n->n_out && n->out[o].i < u->uses.n_value; o++)
        for (uint32_t k = u->uses.first[n->out[o].i]; k < u->uses.first[n->out[o].i + 1]; k++, all++)
            if (trace_changed(&u->t, u->uses.reader[k].n->name) && moved < MOST_READERS)
                out[moved++] = u->uses.reader[k];
    return (uint32_t)moved < all || uses_count(&u->uses, n->out[0]) > all ? moved : 0;
}

/* Lists the removed nodes that can be copies of n, and of no other node that has such readers.  Returns their number.
 */
static int fitting(const Unmerge *u, const Node *n, Removed **out)
{
    Reader moved[MOST_READERS];
    int n_fit = 0;

    for (int i = 0; i < u->t.n_node; i++) {
        Removed *r = &u->t.node[i];
        bool alone = unmerge_fits(n, r) && !is_there(u->g, r->name);

        for (uint32_t k = 0; k < u->g->n_node && alone; k++) {
            const Node *other = u->g->node[k];

            alone = !other || !other->op || other == n || !unmerge_fits(other, r) || !moved_readers(u, other, moved);
        }
        if (alone && n_fit < MOST_READERS)
            out[n_fit++] = r;
    }
    return n_fit;
}

/* Makes the copies of n.  A single copy takes all readers that moved; several take one each. */
static Status split(Unmerge *u, Node *n)
{
    Reader moved[MOST_READERS];
    Removed *copy[MOST_READERS];
    int n_moved = moved_readers(u, n, moved), n_copy = n_moved ? fitting(u, n, copy) : 0;

    if (!n_copy || (n_copy > 1 && n_copy != n_moved))
        return ST_OK;
    for (int i = 0; i < n_copy; i++) {
        Node *made;

        u->made = "";
        TRY(unmerge_copy_node(&made, u, n, copy[i]));
        for (int k = 0; k < n_moved; k++)
            for (int o = 0; o < n->n_out && (n_copy == 1 || k == i); o++)
                if (value_eq(moved[k].n->in[moved[k].in], n->out[o]))
                    node_set_input(u->g, moved[k].n, moved[k].in, made->out[o]);
        u->ctx->n_changed++;
        TRY(report_note(u->ctx->report, NOTE_OTHER, copy[i]->name,
                        "onnxsim made one node of this and '%s', which were equal when it was written: two again%s%s",
                        n->name, *u->made ? ", with " : "", u->made));
    }
    return ST_OK;
}

static Status unmerge_run(Graph *g, PassCtx *ctx)
{
    Unmerge u = { .g = g, .ctx = ctx };
    uint32_t n_node = g->n_node;

    TRY(trace_read(&u.t, g, ctx->scratch));
    if (!u.t.n_node || !u.t.n_changed)
        return ST_OK;
    TRY(uses_find(&u.uses, g, ctx->scratch));
    for (uint32_t i = 0; i < n_node; i++)
        if (g->node[i] && g->node[i]->op)
            TRY(split(&u, g->node[i]));
    return graph_sort(g);
}

const Pass pass_unmerge = { .name = "unmerge",
                            .summary = "give layers their own nodes where onnxsim merged equal ones",
                            .run = unmerge_run };
