/* Subgraphs of dpexec's own operators, which become bodies of nodes and see only their own names.  Subgraphs of ONNX's
 * control flow are in flow.c. */
#include <string.h>

#include "graph/ir/body.h"
#include "graph/onnx/importer.h"

enum { MAX_NESTING = 64 };

Status body_check_depth(const Body *b)
{
    int depth = 0;

    for (; b; b = b->up)
        depth++;
    return depth > MAX_NESTING ? FAIL(E_MODEL, "subgraphs and functions nest more than %d deep", MAX_NESTING) : ST_OK;
}

static Status body_input_decode(Importer *im, Body *b, const Onnx__ValueInfoProto *p)
{
    const Onnx__TypeProto__Tensor *type =
        p->type && p->type->value_case == ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE ? p->type->tensor_type : NULL;
    Shape shape = shape_unknown();
    const char **params = NULL;
    ScopeEntry *e;

    TRY(declare(&e, b, p->name, "input of a body"));
    if (type && tensor_type_problem(type->elem_type, false))
        return FAIL(E_UNSUPPORTED, "input '%s': %s", p->name, tensor_type_problem(type->elem_type, false));
    if (type && type->shape)
        TRY(type_shape_decode(&shape, &params, im->g->arena, type->shape, p->name));
    e->formal = true;
    e->value = graph_add_input(im->g, p->name, type ? (DType)type->elem_type : DT_NONE, &shape);
    return im->g->status;
}

/* Removes the prefix that the export put before the body's names: the first output of node p, and BODY_SEPARATOR. */
static Status remove_prefix(Graph *g, const Onnx__NodeProto *p)
{
    const char *first = "";
    size_t n;

    for (size_t i = p->n_output; i-- > 0;)
        if (*p->output[i])
            first = p->output[i];
    n = strlen(first);
    for (uint32_t i = 1; i < g->n_value; i++) {
        const char *name = g->value[i]->name;

        if (!strncmp(name, first, n) && !strncmp(name + n, BODY_SEPARATOR, strlen(BODY_SEPARATOR)))
            graph_rename(g, (ValueId){ i }, name + n + strlen(BODY_SEPARATOR));
    }
    return g->status;
}

/* Reads `gp` into the empty graph im->g. */
static Status import_subgraph_decode(Importer *im, Body *b, const Onnx__GraphProto *gp)
{
    TRY(import_initializers(im, b, gp));
    for (size_t i = 0; i < gp->n_input; i++)
        TRY(body_input_decode(im, b, gp->input[i]));
    TRY(import_body(im, b));
    if (im->problems.n)
        return ST_OK; /* the import goes on to find further problems, and then fails */
    for (size_t i = 0; i < gp->n_output; i++) {
        const ScopeEntry *e = scope_find(&b->scope, text_or(gp->output[i]->name, ""));

        if (!e || !has_value(e->value))
            return FAIL(E_MODEL, "output '%s' of a body is made by no node in it", text_or(gp->output[i]->name, ""));
        body_return(im->g, e->value);
    }
    TRY(im->g->status);
    known_forget(im);
    TRY(graph_sort(im->g));
    FOR_NODES(im->g, n)
        TRY(node_infer(im->g, n));
    return im->g->status;
}

/* Reads the body with an importer of its own, a copy of the model's with another graph, and copies back its counts. */
static Status decode_apart(Importer *inner, Importer *im, Body *b, const Onnx__NodeProto *p, const Onnx__GraphProto *gp)
{
    Status st;

    inner->tensors.arena = inner->g->arena;
    inner->shared = (Scope){ 0 };
    inner->known = NULL;
    inner->entering = NULL;
    inner->n_known = inner->n_inferred = inner->n_entering = inner->n_traced = 0;
    inner->run = NULL;
    inner->tensors.texts = false;
    st = import_subgraph_decode(inner, b, gp);
    im->problems = inner->problems;
    im->newest = inner->newest;
    im->n_done = inner->n_done;
    im->tensors.dense_left = inner->tensors.dense_left;
    return st ? st : remove_prefix(inner->g, p);
}

Status body_decode(const Graph **out, Importer *im, const Body *up, const Onnx__NodeProto *p,
                   const Onnx__GraphProto *gp)
{
    Body b = { .up = up,
               .owner = p,
               .function = up->function,
               .bindings = up->bindings,
               .prefix = "",
               .constants = "",
               .scope.arena = im->scratch,
               .n_node = gp->n_node,
               .node = gp->node,
               .n_opset = up->n_opset,
               .opset = up->opset };
    Importer inner = *im;
    Status st;

    TRY(body_check_depth(up));
    if (!(inner.g = graph_create_within("body", arena_budget(im->scratch))))
        return FAIL_NOMEM();
    if (!(st = decode_apart(&inner, im, &b, p, gp))) {
        *out = body_share(im->g, inner.g);
        st = im->g->status;
    }
    graph_free(inner.g);
    return st;
}
