/* The interpreter of models: a file is read for given inputs, and each node is computed as soon as it has been read.
 * Its outputs are constants to all later nodes.  So conditions, trip counts, shapes and lengths of sequences are known
 * where they are needed, and the code that unrolls constant control flow (flow.c, import_sequence.c, optional.c) serves
 * control flow that depends on data, too.
 *
 * If the caller can compute many nodes at once, nodes of the model itself wait until a node needs values
 * (evaluate_part.c).  Nodes are counted, those of each trip too, and results are charged to the budget, so that an
 * endless loop and a huge shape end in an error. */
#include "graph/onnx/evaluate.h"

#include <string.h>

#include "graph/base/hash.h"

/* ---- nodes ---- */

/* Gives a node that draws random numbers, in inference as well, and names no seed a seed of its own: splitmix64 of the
 * run's seed and the node's index, cut to the 53 bits that a float64 holds. */
static void seed_node(Graph *g, Node *n, uint64_t seed)
{
    const uint64_t z = (seed << 32) + seed + n->index * HASH_GOLDEN + 1;

    if (!(n->op->flags & OPF_RANDOM) || n->op->domain || n->op->train || node_float(n, "seed") != 0)
        return;
    node_set_attr(g, n, &(Attr)FLOAT("seed", (double)((hash_mix(z) >> 11) | 1)));
}

/* Sets a node to inference mode.  Outputs that it has only in training become the values by which op->train replaced
 * them: running statistics stay as they were.  The graph lists the outputs meanwhile, so that graph_replace follows
 * them. */
static Status set_mode(Importer *im, Node *n)
{
    Graph *g = im->g;
    const int base = g->n_output, n_out = n->n_out;
    ValueId *made = ARENA_NEW(im->scratch, ValueId, n_out);
    const Tensor *t;

    if (!n->op->train || im->run->file_modes)
        return ST_OK;
    if (!made)
        return FAIL_NOMEM();
    for (int i = 0; i < n_out; i++)
        graph_add_output(g, "", made[i] = n->out[i]);
    TRY(g->status);
    TRY(n->op->train(g, n, &(TrainMode){ 0 }));
    for (int i = n->n_out; i < n_out; i++)
        if (has_value(made[i]) && (t = value_const(g, g->output[base + i].value)))
            TRY(evaluate_fix(im, made[i], t));
    g->n_output = base;
    return g->status;
}

/* Computes a node whose inputs are constants; its outputs become constants, and the node goes. */
static Status evaluate_compute(Importer *im, Node *n)
{
    Graph *g = im->g;
    const Tensor **in;
    Tensor **out;

    TRY(set_mode(im, n));
    seed_node(g, n, im->run->seed);
    TRY(node_infer(g, n)); /* which may add inputs, or convert them */
    in = ARENA_NEW(g->arena, const Tensor *, n->n_in);
    out = ARENA_NEW(g->arena, Tensor *, n->n_out);
    if (!in || !out)
        return FAIL_NOMEM();
    for (int i = 0; i < n->n_in; i++)
        in[i] = in_const(g, n, i);
    TRY(im->eval(g->arena, g, n, in, out));
    for (int i = 0; i < n->n_out; i++)
        if (has_value(n->out[i]))
            TRY(evaluate_fix(im, n->out[i], out[i]));
    graph_remove(g, n);
    return g->status;
}

static bool is_ready(const Graph *g, const Node *n)
{
    for (int i = 0; i < n->n_in; i++)
        if (has_in(n, i) && !value_const(g, n->in[i]))
            return false;
    return true;
}

/* Does the node read strings, or convert numbers to strings?  Such nodes are computed at once. */
static bool is_of_strings(const Importer *im, const Body *b, const Onnx__NodeProto *p)
{
    for (size_t i = 0; i < p->n_input; i++) {
        const ScopeEntry *e = *p->input[i] ? body_find(b, p->input[i]) : NULL;

        if (e && has_value(e->value) && value(im->g, e->value)->dtype == DT_STRING)
            return true;
    }
    for (size_t i = 0; i < p->n_attribute; i++)
        if (!strcmp(text_or(p->attribute[i]->name, ""), "to") && p->attribute[i]->i == DT_STRING)
            return true;
    return false;
}

bool evaluate_waits(const Importer *im, const Body *b, const Onnx__NodeProto *p)
{
    const int64_t opset = opset_of(b, p->domain);
    const OpDef *op = op_find(p->domain && *p->domain ? p->domain : NULL, p->op_type);

    return im->run->compute && !b->up && op && opset >= op_oldest(op) && !is_flow_operator(p->op_type) &&
           !is_of_strings(im, b, p);
}

/* Nodes that replace an older spelling may come after the node that reads them, so the list is walked until all are
 * computed. */
Status evaluate_read(Importer *im, const Body *b)
{
    Graph *g = im->g;
    bool left = true;

    if (im->run->compute)
        TRY(evaluate_part(im, b));
    while (left) {
        const Node *waits = NULL;
        bool any = false;

        for (uint32_t i = im->run->n_read; i < g->n_node; i++) {
            Node *n = g->node[i];

            if (!n->op)
                continue;
            if (!is_ready(g, n)) {
                waits = waits ? waits : n;
                continue;
            }
            TRY(evaluate_compute(im, n));
            any = true;
        }
        if (waits && !any)
            return FAIL(E_INTERNAL, "%s: an input was not computed", node_text(g, waits));
        left = waits != NULL;
    }
    im->run->n_read = g->n_node;
    return g->status;
}

/* ---- inputs ---- */

/* Decodes a declared type, with the shape of a tensor. */
static Status read_type(OnnxType *out, Arena *a, const Onnx__ValueInfoProto *p)
{
    const Onnx__TypeProto__Tensor *t = input_type(out, p->type);
    const char **params = NULL;

    return t && t->shape && !out->sequence ? type_shape_decode(&out->shape, &params, a, t->shape, p->name) : ST_OK;
}

static Status set_given(Importer *im, ScopeEntry *e, const OnnxValue *given)
{
    ValueId *item = ARENA_NEW(im->scratch, ValueId, given->n + 1);

    if (!item)
        return FAIL_NOMEM();
    for (int i = 0; i < given->n; i++)
        item[i] = graph_add_const_nocopy(im->g, e->name, given->item[i]);
    TRY(im->g->status);
    for (int i = 0; i < given->n; i++)
        TRY(evaluate_fix(im, item[i], given->item[i]));
    if (given->nothing)
        optional_set_nothing(e);
    else if (given->type.sequence)
        return sequence_set(e, im, given->n, item);
    else
        e->value = item[0];
    return ST_OK;
}

Status evaluate_input(Importer *im, ScopeEntry *e, const Onnx__ValueInfoProto *p)
{
    FileRun *run = im->run;
    OnnxValue given = { 0 };
    OnnxType type;

    TRY(status_prefix(read_type(&type, run->arena, p), "input"));
    if (type.dtype == DT_NONE)
        return FAIL(E_UNSUPPORTED, "input '%s': expected tensors, sequences of tensors, or optional ones", p->name);
    if (tensor_type_problem(type.dtype, true))
        return FAIL(E_UNSUPPORTED, "input '%s': %s", p->name, tensor_type_problem(type.dtype, true));
    TRY(run->input(run->user, &given, run->arena, run->n_given++, e->name, &type));
    for (int i = 0; i < given.n; i++)
        if (given.item[i]->dtype != type.dtype)
            return FAIL(E_INVALID, "input '%s' is %s, expected %s", p->name, dtype_name(given.item[i]->dtype),
                        dtype_name(type.dtype));
    return set_given(im, e, &given);
}

/* ---- outputs ---- */

static Status take_output(OnnxValue *out, Importer *im, const Body *b, const ScopeEntry *e,
                          const Onnx__ValueInfoProto *p)
{
    const ValueId *item = &e->value;
    const Tensor **copy;
    int n = 1;

    if (read_type(&out->type, im->run->arena, p) == E_NOMEM) /* an invalid declaration is ignored */
        return E_NOMEM;
    out->type.sequence = e->nothing ? out->type.sequence : e->sequence != NULL;
    out->nothing = e->nothing;
    if (e->problem && !e->sequence && !e->nothing)
        return FAIL(E_UNSUPPORTED, "output '%s': %s", p->name, e->problem);
    if (e->sequence)
        TRY(sequence_items(&item, &n, im, e->sequence, p->name));
    TRY(evaluate_read(im, b)); /* the nodes that split a sequence into tensors */
    n = e->nothing ? 0 : n;
    if (!(copy = ARENA_NEW(im->run->arena, const Tensor *, n)))
        return FAIL_NOMEM();
    for (int i = 0; i < n; i++) {
        if (!value_const(im->g, item[i]))
            return FAIL(E_INTERNAL, "output '%s' was not computed", p->name);
        if (!(copy[i] = tensor_copy(im->run->arena, value_const(im->g, item[i]))))
            return FAIL_NOMEM();
    }
    out->n = n;
    out->item = copy;
    return ST_OK;
}

Status evaluate_outputs(Importer *im, const Body *b)
{
    const Onnx__GraphProto *gp = im->model->graph;
    FileRun *run = im->run;

    TRY(evaluate_read(im, b));
    if (!(run->output = ARENA_NEW(run->arena, OnnxNamedValue, gp->n_output)))
        return FAIL_NOMEM();
    for (size_t i = 0; i < gp->n_output; i++) {
        const char *name = text_or(gp->output[i]->name, "");
        const ScopeEntry *e = scope_find(&b->scope, name);

        if (!e || !(has_value(e->value) || e->problem))
            return FAIL(E_MODEL, "output '%s' is made by no node", name);
        if (!(run->output[i].name = arena_strdup(run->arena, name)))
            return FAIL_NOMEM();
        TRY(take_output(&run->output[i].value, im, b, e, gp->output[i]));
        run->n_output++;
    }
    return im->g->status;
}

Status onnx_evaluate_file(OnnxNamedValue **out, int *n_out, Arena *arena, const char *path, const ImportOptions *opt,
                          OnnxInput *input, void *user)
{
    FileRun run = { .input = input,
                    .user = user,
                    .arena = arena,
                    .file_modes = opt && opt->file_modes,
                    .seed = opt ? opt->seed : 0,
                    .compute = opt ? opt->compute : NULL,
                    .compute_user = opt ? opt->compute_user : NULL };
    Graph *rest;

    TRY(import_file(&rest, NULL, path, opt, &run));
    graph_free(rest);
    *out = run.output;
    *n_out = run.n_output;
    return ST_OK;
}
