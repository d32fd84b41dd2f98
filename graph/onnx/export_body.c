/* The export of nodes' bodies as subgraphs.  Names in a subgraph must differ from those around it, so they begin with
 * the name of the node's first output; the importer removes that again (import_subgraph.c). */
#include "graph/onnx/export.h"

/* Room for n messages; sets *count. */
static Onnx__ValueInfoProto **infos(Exporter *in, int n, size_t *count)
{
    Onnx__ValueInfoProto **list = export_alloc(in, sizeof(void *), (size_t)n);

    *count = list ? (size_t)n : 0;
    return list;
}

static void export_body_fill(Exporter *in, Onnx__GraphProto *gp)
{
    const Graph *body = in->g;

    gp->input = infos(in, body->n_input, &gp->n_input);
    gp->output = infos(in, body->n_output, &gp->n_output);
    gp->node = export_alloc(in, sizeof *gp->node, body->n_node);
    gp->initializer = export_alloc(in, sizeof *gp->initializer, body->n_value);
    if (in->no_memory)
        return;
    for (int i = 0; i < body->n_input; i++)
        gp->input[i] = export_value(in, body->input[i].i);
    for (int i = 0; i < body->n_output; i++)
        gp->output[i] = export_value(in, body->output[i].value.i);
    for (uint32_t i = 1; i < body->n_value; i++)
        if (body->value[i]->kind == V_CONST)
            gp->initializer[gp->n_initializer++] = export_tensor(in, body->value[i]->init, in->name[i]);
    FOR_NODES(body, n)
        gp->node[gp->n_node++] = export_node(in, n);
}

Onnx__GraphProto *export_body(Exporter *x, const Node *n, const Attr *a)
{
    Onnx__GraphProto *gp = NEW_MESSAGE(x, Onnx__GraphProto, onnx__graph_proto);
    Exporter in = *x;
    const char *first = "body";

    if (!gp)
        return NULL;
    in.g = a->graph;
    in.name = export_alloc(x, sizeof *in.name, in.g->n_value);
    for (int i = n->n_out; i-- > 0;)
        if (has_value(n->out[i]))
            first = x->name[n->out[i].i];
    for (uint32_t i = 1; i < in.g->n_value && !x->no_memory; i++)
        if (!(in.name[i] = arena_printf(x->arena, "%s" BODY_SEPARATOR "%s", first, in.g->value[i]->name)))
            x->no_memory = true;
    if (x->no_memory)
        return NULL;
    gp->name = export_text(&in, a->name);
    export_body_fill(&in, gp);
    x->problems = in.problems;
    x->no_memory = in.no_memory;
    x->opset = in.opset;
    x->domain = in.domain;
    x->n_domain = in.n_domain;
    x->cap_domain = in.cap_domain;
    return gp;
}
