/* Nodes that are computed together: those that were read since values were asked for, as a graph of its own, whose
 * inputs are the data among what they read and whose outputs are what the rest of the file reads of them.  Small
 * integers among the data stay constants, for they may be shapes. */
#include "graph/onnx/evaluate.h"
#include "graph/ir/rewrite.h"

#include <string.h>

enum { MAX_SHAPE = 32 };

typedef struct {
    Importer *im;
    Scope later;   /* names that are read yet */
    Graph *part;   /* its ids are those of im->g */
    ValueId *from; /* [part->n_input] in im->g */
    ValueId *to;   /* [n_to] in im->g: its outputs */
    int n_to;
} Part;

static bool is_worth_it(const Importer *im)
{
    for (uint32_t i = im->run->n_read; i < im->g->n_node; i++)
        if (im->g->node[i]->op && im->g->node[i]->op->flops)
            return true;
    return false;
}

/* ---- what is read later ---- */

static Status note_names(Part *p, const Onnx__NodeProto *n)
{
    for (size_t i = 0; i < n->n_input; i++)
        if (*n->input[i] && !scope_add(&p->later, n->input[i]))
            return FAIL_NOMEM();
    for (size_t i = 0; i < n->n_attribute; i++) {
        const Onnx__GraphProto *g = n->attribute[i]->g;

        for (size_t k = 0; g && k < g->n_node; k++)
            TRY(note_names(p, g->node[k]));
        for (size_t k = 0; g && k < g->n_output; k++)
            if (!scope_add(&p->later, text_or(g->output[k]->name, "")))
                return FAIL_NOMEM();
    }
    return ST_OK;
}

static bool evaluate_part_is_read(const Body *b, const Onnx__NodeProto *n)
{
    for (size_t i = 0; i < n->n_output; i++)
        if (*n->output[i] && entry_made(scope_find(&b->scope, n->output[i])))
            return true;
    return false;
}

static Status find_later(Part *p, const Body *b)
{
    const Onnx__GraphProto *gp = p->im->model->graph;

    for (size_t i = 0; i < b->n_node; i++)
        if (!evaluate_part_is_read(b, b->node[i]))
            TRY(note_names(p, b->node[i]));
    for (size_t i = 0; i < gp->n_output; i++)
        if (!scope_add(&p->later, text_or(gp->output[i]->name, "")))
            return FAIL_NOMEM();
    return ST_OK;
}

/* ---- the graph ---- */

static bool is_input(const Importer *im, const Value *v, uint32_t i)
{
    const bool shape = v->kind == V_CONST && !dtype_is_float(v->dtype) && tensor_numel(v->init) <= MAX_SHAPE;

    return v->kind == V_CONST && i < im->run->n_data && im->run->is_data[i] && !shape;
}

static Status make_inputs(Part *p)
{
    const uint32_t n_value = p->part->n_value;
    uint32_t *uses;

    if (!(uses = graph_count_uses(p->part, p->im->scratch)) || !(p->from = ARENA_NEW(p->im->scratch, ValueId, n_value)))
        return FAIL_NOMEM();
    p->part->n_input = 0;
    TRY(rewrite_begin(p->part, p->im->scratch));
    for (uint32_t i = 1; i < n_value; i++) {
        const Value *v = p->part->value[i];

        if (!uses[i] || !is_input(p->im, v, i))
            continue;
        p->from[p->part->n_input] = (ValueId){ i };
        graph_replace(p->part, (ValueId){ i }, graph_add_input(p->part, v->name, v->dtype, v->shape));
    }
    return rewrite_end(p->part);
}

static void evaluate_part_add_output(Part *p, ValueId v)
{
    p->to[p->n_to++] = v;
    graph_add_output(p->part, value(p->part, v)->name, v);
}

/* The names that are read later and whose nodes are not computed yet. */
static void add_named_outputs(Part *p, const Body *b)
{
    for (size_t i = 0; i < b->scope.cap; i++) {
        const ScopeEntry *e = &b->scope.slot[i];

        if (e->name && has_value(e->value) && value(p->im->g, e->value)->producer && scope_find(&p->later, e->name))
            evaluate_part_add_output(p, e->value);
    }
}

/* Within a function or a subgraph all that the nodes make: the operator around it may hold values that have no name. */
static void add_all_outputs(Part *p)
{
    const Graph *g = p->im->g;

    for (uint32_t i = p->im->run->n_read; i < g->n_node; i++)
        for (int k = 0; g->node[i]->op && k < g->node[i]->n_out; k++)
            if (has_out(g->node[i], k))
                evaluate_part_add_output(p, g->node[i]->out[k]);
}

static Status make_outputs(Part *p, const Body *b)
{
    if (!(p->to = ARENA_NEW(p->im->scratch, ValueId, p->part->n_value)))
        return FAIL_NOMEM();
    p->part->n_output = 0;
    if (b->up)
        add_all_outputs(p);
    else
        add_named_outputs(p, b);
    return p->part->status;
}

static Status set_operators(Graph *part, const Evaluation *run)
{
    FOR_NODES(part, n)
        if (n->op->train && !run->file_modes)
            TRY(n->op->train(part, n, &(TrainMode){ 0 }));
    return graph_sort(part);
}

static Status evaluate_part_build(Part *p, const Body *b)
{
    TRY(find_later(p, b));
    TRY(graph_clone_lending(&p->part, p->im->g));
    TRY(make_outputs(p, b));
    TRY(make_inputs(p));
    return set_operators(p->part, p->im->run);
}

/* ---- computing ---- */

static Status evaluate_part_take(Part *p, const Tensor *const *out)
{
    Graph *g = p->im->g;

    for (int i = 0; i < p->n_to; i++)
        TRY(evaluate_fix(p->im, p->to[i], out[i]));
    for (uint32_t i = p->im->run->n_read; i < g->n_node; i++)
        graph_remove(g, g->node[i]);
    return ST_OK;
}

static Status evaluate_part_compute(Part *p)
{
    Importer *im = p->im;
    const Tensor **in = ARENA_NEW(im->scratch, const Tensor *, p->part->n_input);
    const Tensor **out = ARENA_NEW(im->scratch, const Tensor *, p->n_to);
    Status st;

    if (!in || !out)
        return FAIL_NOMEM();
    for (int i = 0; i < p->part->n_input; i++)
        in[i] = value_const(im->g, p->from[i]);
    st = im->run->compute(im->run->compute_user, out, im->g->arena, p->part, in);
    return st == E_UNSUPPORTED ? ST_OK : st ? st : evaluate_part_take(p, out);
}

Status evaluate_part(Importer *im, const Body *b)
{
    Part p = { .im = im, .later.arena = im->scratch };
    Status st;

    if (!is_worth_it(im))
        return ST_OK;
    st = evaluate_part_build(&p, b);
    if (!st && p.n_to)
        st = evaluate_part_compute(&p);
    graph_free(p.part);
    return st;
}
