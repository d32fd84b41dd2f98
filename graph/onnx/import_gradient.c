/* Gradient of ai.onnx.preview.training.  The part of the model between `xs`, `zs` and `y` is read once more, as the
 * body of dpexec's Gradient node (graph/ops/gradient.c), which differentiates it at the values that the node is given.
 */
#include <string.h>

#include "graph/onnx/importer.h"
#include "graph/ops/gradient.gen.h"

#define KIND(k) ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__##k

typedef struct {
    Importer *im;
    const Body *b;          /* the model's graph, even if the node is in a part that is differentiated again */
    Onnx__GraphProto *part; /* has the inputs, the output, and room for all nodes and initializers */
    bool *taken;            /* [b->n_node] */
    Scope seen;             /* names that have been queued */
    const char **next;      /* queue of names */
    size_t n_next, cap_next;
} Part;

/* Decodes an attribute that is a list of names; absent: none. */
static Status import_gradient_read_names(const char ***out, size_t *n, Importer *im, const Body *b,
                                         const Onnx__NodeProto *p, const char *attr)
{
    const Onnx__AttributeProto *a;

    TRY(attribute_given(&a, im, b, p, attr, KIND(STRINGS)));
    *n = a ? a->n_strings : 0;
    if (!(*out = ARENA_NEW(im->scratch, const char *, *n + 1)))
        return FAIL_NOMEM();
    for (size_t i = 0; i < *n; i++)
        if (!((*out)[i] = arena_printf(im->scratch, "%.*s", (int)a->strings[i].len, (char *)a->strings[i].data)))
            return FAIL_NOMEM();
    return ST_OK;
}

static Onnx__ValueInfoProto *named(Arena *a, const char *name)
{
    Onnx__ValueInfoProto *v = ARENA_NEW(a, Onnx__ValueInfoProto, 1);

    if (v) {
        onnx__value_info_proto__init(v);
        v->name = (char *)(uintptr_t)name;
    }
    return v;
}

/* ---- the part's nodes ---- */

/* Queues a name, once. */
static Status import_gradient_follow(Part *t, const char *name)
{
    const char **grown;

    if (!*name || scope_find(&t->seen, name))
        return ST_OK;
    grown = arena_grow(t->im->scratch, t->next, sizeof *grown, t->n_next, &t->cap_next);
    if (!grown || !scope_add(&t->seen, name))
        return FAIL_NOMEM();
    t->next = grown;
    t->next[t->n_next++] = name;
    return ST_OK;
}

/* Queues the names that the node reads.  Nodes in its subgraphs (`inside`) queue only names of the model's graph. */
static Status follow_node(Part *t, const Onnx__NodeProto *n, bool inside)
{
    for (size_t i = 0; i < n->n_input; i++)
        if (!inside || scope_find(&t->b->scope, n->input[i]))
            TRY(import_gradient_follow(t, n->input[i]));
    for (size_t i = 0; i < n->n_attribute; i++) {
        const Onnx__GraphProto *g = n->attribute[i]->g;

        for (size_t k = 0; g && k < g->n_node; k++)
            TRY(follow_node(t, g->node[k], true));
        for (size_t k = 0; g && k < g->n_output; k++)
            if (scope_find(&t->b->scope, text_or(g->output[k]->name, "")))
                TRY(import_gradient_follow(t, g->output[k]->name));
    }
    return ST_OK;
}

/* Adds the initializer to the part; false: there is none of this name. */
static bool take_initializer(Part *t, const char *name)
{
    const Onnx__GraphProto *whole = t->im->model->graph;
    Onnx__GraphProto *part = t->part;

    for (size_t i = 0; i < whole->n_initializer; i++)
        if (!strcmp(text_or(whole->initializer[i]->name, ""), name)) {
            part->initializer[part->n_initializer++] = whole->initializer[i];
            return true;
        }
    for (size_t i = 0; i < whole->n_sparse_initializer; i++)
        if (whole->sparse_initializer[i]->values &&
            !strcmp(text_or(whole->sparse_initializer[i]->values->name, ""), name)) {
            part->sparse_initializer[part->n_sparse_initializer++] = whole->sparse_initializer[i];
            return true;
        }
    return false;
}

/* Fills the part with the nodes and initializers on which its output depends, as far as its inputs. */
static Status take_all(Part *t)
{
    const Onnx__GraphProto *whole = t->im->model->graph;

    t->part->initializer = ARENA_NEW(t->im->scratch, Onnx__TensorProto *, whole->n_initializer + 1);
    t->part->sparse_initializer = ARENA_NEW(t->im->scratch, Onnx__SparseTensorProto *, whole->n_sparse_initializer + 1);
    t->part->node = ARENA_NEW(t->im->scratch, Onnx__NodeProto *, t->b->n_node + 1);
    t->taken = ARENA_NEW(t->im->scratch, bool, t->b->n_node + 1);
    if (!t->part->initializer || !t->part->sparse_initializer || !t->part->node || !t->taken)
        return FAIL_NOMEM();
    for (size_t i = 0; i < t->part->n_input; i++)
        if (!scope_add(&t->seen, t->part->input[i]->name))
            return FAIL_NOMEM();
    TRY(import_gradient_follow(t, t->part->output[0]->name));
    while (t->n_next) {
        const char *name = t->next[--t->n_next];
        const ScopeEntry *e = scope_find(&t->b->scope, name);

        if (!e)
            return FAIL(E_MODEL, "'%s' is not in the graph", name);
        if (e->node < 0 && !take_initializer(t, name))
            return FAIL(E_MODEL, "'%s', on which '%s' depends, is in neither xs nor zs", name,
                        t->part->output[0]->name);
        if (e->node < 0 || t->taken[e->node])
            continue;
        t->taken[e->node] = true;
        TRY(follow_node(t, t->b->node[e->node], false));
    }
    for (size_t i = 0; i < t->b->n_node; i++)
        if (t->taken[i])
            t->part->node[t->part->n_node++] = t->b->node[i];
    return ST_OK;
}

/* ---- the node ---- */

/* Makes the part that node p, a Gradient, differentiates; its inputs are xs, then zs. */
static Status make_part(Part *t, const Onnx__NodeProto *p)
{
    const Onnx__AttributeProto *y;
    const char **xs, **zs, *name;
    size_t n_x, n_z;

    TRY(import_gradient_read_names(&xs, &n_x, t->im, t->b, p, "xs"));
    TRY(import_gradient_read_names(&zs, &n_z, t->im, t->b, p, "zs"));
    TRY(attribute_given(&y, t->im, t->b, p, "y", KIND(STRING)));
    if (!y || !n_x || p->n_input != n_x + n_z || p->n_output > n_x)
        return FAIL(E_MODEL, "%zu xs and %zu zs with%s y for %zu inputs and %zu outputs", n_x, n_z, y ? "" : "out",
                    p->n_input, p->n_output);
    name = arena_printf(t->im->scratch, "%.*s", (int)y->s.len, (char *)y->s.data);
    t->part = ARENA_NEW(t->im->scratch, Onnx__GraphProto, 1);
    if (!t->part || !name)
        return FAIL_NOMEM();
    onnx__graph_proto__init(t->part);
    t->part->input = ARENA_NEW(t->im->scratch, Onnx__ValueInfoProto *, p->n_input);
    t->part->output = ARENA_NEW(t->im->scratch, Onnx__ValueInfoProto *, 1);
    if (!t->part->input || !t->part->output || !(t->part->output[0] = named(t->im->scratch, name)))
        return FAIL_NOMEM();
    t->part->n_output = 1;
    for (; t->part->n_input < p->n_input; t->part->n_input++) {
        const size_t i = t->part->n_input;

        if (!(t->part->input[i] = named(t->im->scratch, i < n_x ? xs[i] : zs[i - n_x])))
            return FAIL_NOMEM();
    }
    return take_all(t);
}

static Status import_gradient_add(Importer *im, Body *b, const Onnx__NodeProto *p, const Graph *body)
{
    ValueId *in = ARENA_NEW(im->scratch, ValueId, p->n_input);
    const char **names = ARENA_NEW(im->scratch, const char *, p->n_output);
    Node *n;

    if (!in || !names)
        return FAIL_NOMEM();
    for (size_t i = 0; i < p->n_input; i++)
        TRY(tensor_input(&in[i], b, p, i));
    for (size_t i = 0; i < p->n_output; i++)
        if (!(names[i] = *p->output[i] ? body_name(im, b, p->output[i]) : ""))
            return FAIL_NOMEM();
    n = graph_add_node(im->g, &op_Gradient, body_name(im, b, text_or(p->name, "")), NULL, (int)p->n_input, in,
                       (int)p->n_output, names);
    if (!n)
        return im->g->status;
    node_set_attr(im->g, n, &(Attr){ .name = "body", .type = A_GRAPH, .graph = body });
    TRY(im->g->status);
    for (size_t i = 0; i < p->n_output; i++)
        if (*p->output[i])
            scope_find(&b->scope, p->output[i])->value = n->out[i];
    return node_normalise(im->g, n);
}

Status import_gradient(Importer *im, Body *b, const Onnx__NodeProto *p)
{
    Part t = { .im = im, .b = b, .seen.arena = im->scratch };
    const Graph *body;

    for (; t.b->up; t.b = t.b->up) {
        if (t.b->function || t.b->outer)
            return FAIL(E_UNSUPPORTED, "%s: in a function or a subgraph", proto_text(im, p));
        if (t.b->owner == p)
            return FAIL(E_MODEL, "its y depends on what %s makes", proto_text(im, p));
    }
    TRY(status_prefix(make_part(&t, p), "%s", proto_text(im, p)));
    TRY(status_prefix(body_decode(&body, im, b, p, t.part), "%s", proto_text(im, p)));
    return im->problems.n ? ST_OK : import_gradient_add(im, b, p, body);
}
