/* Nodes of an evaluation that are computed together: those read since values were last needed become a graph of their
 * own.  Its inputs are the data that they read, its outputs the values that the rest of the file reads.  Small integer
 * data stay constants, for they may be shapes. */
#include <string.h>

#include "graph/ir/rewrite.h"
#include "graph/onnx/evaluate.h"

enum { MAX_SHAPE = 32 };

/* Is there a product or convolution among the nodes not computed yet? */
static bool is_worth_it(const Importer *im)
{
    for (uint32_t i = im->run->n_read; i < im->g->n_node; i++)
        if (im->g->node[i]->op && im->g->node[i]->op->flops)
            return true;
    return false;
}

/* ---- names that are read later ---- */

/* Adds the names that node n and its subgraphs read. */
static Status add_names(Scope *later, const Onnx__NodeProto *n)
{
    for (size_t i = 0; i < n->n_input; i++)
        if (*n->input[i] && !scope_add(later, n->input[i]))
            return FAIL_NOMEM();
    for (size_t i = 0; i < n->n_attribute; i++) {
        const Onnx__GraphProto *g = n->attribute[i]->g;

        for (size_t k = 0; g && k < g->n_node; k++)
            TRY(add_names(later, g->node[k]));
        for (size_t k = 0; g && k < g->n_output; k++)
            if (!scope_add(later, text_or(g->output[k]->name, "")))
                return FAIL_NOMEM();
    }
    return ST_OK;
}

static bool node_was_read(const Body *b, const Onnx__NodeProto *n)
{
    for (size_t i = 0; i < n->n_output; i++)
        if (*n->output[i] && entry_made(scope_find(&b->scope, n->output[i])))
            return true;
    return false;
}

/* ---- the part as a graph, whose value ids are those of im->g ---- */

/* Large data and float data that the part reads become its inputs: input i is (*from)[i] in im->g. */
static Status make_inputs(ValueId **from, Graph *part, const Importer *im)
{
    const uint32_t n_value = part->n_value;
    uint32_t *uses;

    if (!(uses = graph_count_uses(part, im->scratch)) || !(*from = ARENA_NEW(im->scratch, ValueId, n_value)))
        return FAIL_NOMEM();
    part->n_input = 0;
    TRY(rewrite_begin(part, im->scratch));
    for (uint32_t i = 1; i < n_value; i++) {
        const Value *v = part->value[i];

        if (!uses[i] || v->kind != V_CONST || i >= im->run->n_data || !im->run->is_data[i] ||
            (!dtype_is_float(v->dtype) && tensor_numel(v->init) <= MAX_SHAPE))
            continue;
        (*from)[part->n_input] = (ValueId){ i };
        graph_replace(part, (ValueId){ i }, graph_add_input(part, v->name, v->dtype, v->shape));
    }
    return rewrite_end(part);
}

/* Output i of the part is (*to)[i] in im->g.  In the model's body, the outputs are the values whose names are read
 * later.  Within a function or a subgraph, they are all that the nodes make: the operator around it may hold values
 * that have no name. */
static Status make_outputs(ValueId **to, Graph *part, const Importer *im, const Body *b, const Scope *later)
{
    const Graph *g = im->g;

    if (!(*to = ARENA_NEW(im->scratch, ValueId, part->n_value)))
        return FAIL_NOMEM();
    part->n_output = 0;
    for (size_t i = 0; !b->up && i < b->scope.cap; i++) {
        const ScopeEntry *e = &b->scope.slot[i];

        if (e->name && has_value(e->value) && value(g, e->value)->producer && scope_find(later, e->name)) {
            (*to)[part->n_output] = e->value;
            graph_add_output(part, value(part, e->value)->name, e->value);
        }
    }
    for (uint32_t i = im->run->n_read; b->up && i < g->n_node; i++)
        for (int k = 0; g->node[i]->op && k < g->node[i]->n_out; k++)
            if (has_out(g->node[i], k)) {
                (*to)[part->n_output] = g->node[i]->out[k];
                graph_add_output(part, value(part, g->node[i]->out[k])->name, g->node[i]->out[k]);
            }
    return part->status;
}

/* Computes the part; its outputs become constants of im->g, whose nodes that made them go. */
static Status evaluate_part_compute(Importer *im, const Graph *part, const ValueId *from, const ValueId *to, int n_to)
{
    const Tensor **in = ARENA_NEW(im->scratch, const Tensor *, part->n_input);
    const Tensor **out = ARENA_NEW(im->scratch, const Tensor *, n_to);
    Status st;

    if (!in || !out)
        return FAIL_NOMEM();
    for (int i = 0; i < part->n_input; i++)
        in[i] = value_const(im->g, from[i]);
    if ((st = im->run->compute(im->run->compute_user, out, im->g->arena, part, in)))
        return st == E_UNSUPPORTED ? ST_OK : st;
    for (int i = 0; i < n_to; i++)
        TRY(evaluate_fix(im, to[i], out[i]));
    for (uint32_t i = im->run->n_read; i < im->g->n_node; i++)
        graph_remove(im->g, im->g->node[i]);
    return ST_OK;
}

Status evaluate_part(Importer *im, const Body *b)
{
    const Onnx__GraphProto *gp = im->model->graph;
    Scope later = { .arena = im->scratch };
    Graph *part = NULL;
    ValueId *from, *to;
    int n_to;
    Status st;

    if (!is_worth_it(im))
        return ST_OK;
    for (size_t i = 0; i < b->n_node; i++)
        if (!node_was_read(b, b->node[i]))
            TRY(add_names(&later, b->node[i]));
    for (size_t i = 0; i < gp->n_output; i++)
        if (!scope_add(&later, text_or(gp->output[i]->name, "")))
            return FAIL_NOMEM();
    TRY_TO(done, st, graph_clone_lending(&part, im->g));
    TRY_TO(done, st, make_outputs(&to, part, im, b, &later));
    n_to = part->n_output;
    TRY_TO(done, st, make_inputs(&from, part, im));
    FOR_NODES(part, n)
        if (n->op->train && !im->run->file_modes)
            TRY_TO(done, st, n->op->train(part, n, &(TrainMode){ 0 }));
    TRY_TO(done, st, graph_sort(part));
    if (n_to)
        st = evaluate_part_compute(im, part, from, to, n_to);
done:
    graph_free(part);
    return st;
}
