/* own-numbers: outputs of one number become vectors, with an entry for each replica that has samples
 * (--scalar-outputs each).
 *
 * torch.nn.DataParallel puts a module's numbers together as they come: what each replica computes of its own part, a
 * mean loss above all.  What is computed of a batch is here of the whole batch, so for each part the nodes between what
 * still has the samples along an axis of their own and the number are copied, over that part of the axis.  Which axis
 * that is, two worlds tell, of batches of two and of three samples.  Legal because that is what was asked for; all
 * other outputs stay as they are. */
#include <string.h>

#include "graph/emit.h"
#include "graph/op.h"
#include "passes/batch_axis.h"
#include "passes/model/rebatch.h"
#include "passes/partition/place.h"
#include "passes/report.h"
#include "passes/simplify/infer_shapes.h"

enum { WORLDS = 2, LESS = 2, MORE = 3 };

typedef struct {
    Graph *g;
    PassCtx *ctx;
    uint32_t n_value, n_node; /* as they were */
    World world[WORLDS];
    bool *depends; /* by value id: on samples */
    bool *needed;  /* by value id: of a part's own copies */
    ValueId *own;  /* by value id: of the part at hand */
    int64_t from, to;
} Own;

/* Where the samples are one by one; -1: nowhere. */
static int samples_axis(const Own *o, uint32_t v)
{
    const Shape *less = o->world[0].g->value[v]->shape, *more = o->world[1].g->value[v]->shape;
    int found = -1;

    for (int a = 0; shape_known(less) && shape_known(more) && less->rank == more->rank && a < less->rank; a++) {
        if (less->dim[a] == more->dim[a])
            continue;
        if (found >= 0 || less->dim[a] != LESS || more->dim[a] != MORE)
            return -1;
        found = a;
    }
    return found;
}

/* ---- what is copied ---- */

static Status find_worlds(Own *o)
{
    for (int i = 0; i < WORLDS; i++) {
        TRY(open_world(&o->world[i], o->g, o->ctx->opt, i ? MORE : LESS));
        TRY(infer_world(o->world[i].g, o->ctx));
    }
    for (int i = 0; i < o->g->n_input; i++)
        o->depends[o->g->input[i].i] = samples_axis(o, o->g->input[i].i) >= 0;
    FOR_NODES(o->g, n) {
        bool any = false;

        for (int i = 0; i < n->n_in; i++)
            any |= has_value(n->in[i]) && o->depends[n->in[i].i];
        for (int i = 0; i < n->n_out; i++)
            o->depends[n->out[i].i] = any;
    }
    o->depends[0] = false;
    return ST_OK;
}

static bool is_number(const Own *o, const Output *y)
{
    const Shape *s = o->world[0].g->value[y->value.i]->shape;

    return o->depends[y->value.i] && shape_known(s) && !s->rank;
}

/* Backwards, to what has the samples along an axis. */
static int find_needed(Own *o)
{
    int n = 0;

    for (int i = 0; i < o->g->n_output; i++)
        if (is_number(o, &o->g->output[i])) {
            o->needed[o->g->output[i].value.i] = true;
            n++;
        }
    for (uint32_t k = o->n_node; k-- > 0;) {
        const Node *x = o->g->node[k];
        bool any = false;

        for (int i = 0; x->op && i < x->n_out; i++)
            any |= has_value(x->out[i]) && o->needed[x->out[i].i];
        for (int i = 0; any && i < x->n_in; i++)
            o->needed[x->in[i].i] |= o->depends[x->in[i].i] && samples_axis(o, x->in[i].i) < 0;
    }
    o->needed[0] = false;
    return n;
}

/* ---- copies ---- */

/* Before types are inferred. */
static ValueId emit_untyped(Graph *g, const OpDef *op, const Attr *attrs, int n_in, const ValueId *in)
{
    Node *n = graph_add_node(g, op, NULL, attrs, n_in, in, 1, NULL);

    if (n && (g->status = node_normalise(g, n)))
        return NO_VALUE;
    return n ? n->out[0] : NO_VALUE;
}

static ValueId part_of(Own *o, ValueId v)
{
    const int64_t axis = samples_axis(o, v.i);
    const ValueId in[4] = { v, emit_ints(o->g, 1, &o->from), emit_ints(o->g, 1, &o->to), emit_ints(o->g, 1, &axis) };

    return o->own[v.i] = emit_untyped(o->g, &op_Slice, NULL, 4, in);
}

static ValueId own_of(Own *o, ValueId v)
{
    if (!o->depends[v.i] || has_value(o->own[v.i]))
        return o->depends[v.i] ? o->own[v.i] : v;
    return part_of(o, v);
}

static Status copy_node(Own *o, const Node *n)
{
    ValueId *in = ARENA_NEW(o->ctx->scratch, ValueId, n->n_in);
    Node *copy;

    if (!in)
        return FAIL_NOMEM();
    for (int i = 0; i < n->n_in; i++)
        in[i] = own_of(o, n->in[i]);
    if (!(copy = graph_add_node_like(o->g, n, n->n_in, in, n->n_out, NULL)))
        return o->g->status;
    for (int i = 0; i < n->n_out; i++)
        o->own[n->out[i].i] = copy->out[i];
    o->own[0] = NO_VALUE;
    return ST_OK;
}

static Status copy_part(Own *o)
{
    memset(o->own, 0, o->n_value * sizeof *o->own);
    for (uint32_t k = 0; k < o->n_node; k++) {
        const Node *n = o->g->node[k];
        bool any = false;

        for (int i = 0; n->op && i < n->n_out; i++)
            any |= o->needed[n->out[i].i];
        if (any)
            TRY(copy_node(o, n));
    }
    return o->g->status;
}

/* ---- the pass ---- */

/* 0: not known. */
static int64_t given_samples(const Graph *g, const BuildOptions *opt)
{
    const int64_t declared = declared_batch(g, opt);

    if (opt->batch > 0)
        return opt->batch;
    for (int i = 0; i < opt->n_input_shape; i++) {
        const InputShape *given = &opt->input_shape[i];
        const int axis = data_split_axis(g, opt, given->name);

        if (axis >= 0 && axis < given->shape.rank)
            return given->shape.dim[axis];
    }
    return declared > 0 ? declared : 0;
}

/* Parts of [parts] numbers of output i, in `numbers`. */
static Status give_vector(Own *o, int i, const ValueId *numbers, int parts)
{
    Output *y = &o->g->output[i];

    y->value = emit_untyped(o->g, &op_Concat, ATTRS(INT("axis", 0)), parts, numbers);
    y->dim_param = NULL;
    TRY(o->g->status);
    return report_note(o->ctx->report, NOTE_NUMBERS, y->name,
                       "a vector of what each of %d replicas computes of its own samples (--scalar-outputs each)",
                       parts);
}

static Status make_vectors(Own *o, const int64_t *offset)
{
    const int replicas = replica_count(o->ctx->opt), n_output = o->g->n_output;
    ValueId *number = ARENA_NEW(o->ctx->scratch, ValueId, (size_t)n_output * (size_t)replicas);
    const int64_t one = 1;
    int parts = 0;

    if (!number)
        return FAIL_NOMEM();
    for (int r = 0; r < replicas; r++) {
        o->from = offset[r];
        o->to = offset[r + 1];
        if (o->from == o->to)
            continue;
        TRY(copy_part(o));
        for (int i = 0; i < n_output; i++)
            if (is_number(o, &o->g->output[i]))
                number[i * replicas + parts] =
                    emit_untyped(o->g, &op_Reshape, NULL, 2,
                                 (ValueId[]){ o->own[o->g->output[i].value.i], emit_ints(o->g, 1, &one) });
        parts++;
    }
    for (int i = 0; i < n_output && parts; i++)
        if (is_number(o, &o->g->output[i]))
            TRY(give_vector(o, i, number + i * replicas, parts));
    o->ctx->n_changed += parts;
    return graph_sort(o->g);
}

static Status find_and_make(Own *o)
{
    const BuildOptions *opt = o->ctx->opt;
    const int64_t samples = given_samples(o->g, opt);
    int64_t offset[MAX_REPLICAS + 1];
    int first, last;

    TRY(find_worlds(o));
    if (!find_needed(o))
        return ST_OK;
    if (!samples)
        return FAIL(E_SHAPE, "--scalar-outputs each: the size of the batch is not known, give --batch-size");
    TRY(batch_offsets(offset, &first, &last, opt, samples, 0, device_count(opt)));
    return make_vectors(o, offset);
}

static Status run(Graph *g, PassCtx *ctx)
{
    Own o = { .g = g, .ctx = ctx };
    Status st;

    if (!ctx->opt->numbers_apart || replica_count(ctx->opt) < 2)
        return ST_OK;
    TRY(graph_sort(g));
    o.n_value = g->n_value;
    o.n_node = g->n_node;
    o.depends = ARENA_NEW(ctx->scratch, bool, g->n_value);
    o.needed = ARENA_NEW(ctx->scratch, bool, g->n_value);
    o.own = ARENA_NEW(ctx->scratch, ValueId, g->n_value);
    if (!o.depends || !o.needed || !o.own)
        return FAIL_NOMEM();
    st = find_and_make(&o);
    for (int i = 0; i < WORLDS; i++)
        graph_free(o.world[i].g);
    return st;
}

const Pass pass_own_numbers = { .name = "own-numbers",
                                .summary = "outputs of one number as vectors of the replicas' own",
                                .modes = 1u << BUILD_INFER | 1u << BUILD_PREDICT,
                                .run = run };
