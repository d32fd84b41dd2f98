/* head: gives the last layer another number of outputs, with new weights (--head N, --head NAME=N).
 *
 * A layer is Gemm(x, W, b), MatMul(x, W) + b, or Conv(x, W, b) with a kernel of 1.  W and b are constants, perhaps
 * behind Transpose, Cast and Identity.
 *
 * Without a name, the layer is the first Gemm, MatMul or 1x1 convolution on the way back from the output that the loss
 * reads.  The way goes through nodes that compute from one value; where several values meet, a name is needed.  The new
 * weights and biases are those of PyTorch's Linear: uniform in +-1/sqrt(fan_in), drawn by the seed and the tensor's
 * name.  A weight that other nodes read as well, as an embedding does, stays as it is for them.
 *
 * A Softmax (or Sigmoid) in front of the output is left out if the loss applies it itself. */
#include "passes/model/head.h"

#include <math.h>
#include <string.h>

#include "graph/ir/readers.h"
#include "graph/ops/binary.gen.h"
#include "graph/ops/cast.gen.h"
#include "graph/ops/conv.gen.h"
#include "graph/ops/layout.gen.h"
#include "graph/ops/matmul.gen.h"
#include "graph/ops/view.gen.h"
#include "graph/tensor/draw.h"
#include "passes/options/parameters.h"
#include "passes/options/recipes.h"
#include "passes/options/step.h"
#include "passes/options/target.h"
#include "passes/report.h"

#define WEIGHT ".weight"
enum { LAYERS_TEXT = 600, MOST_LAYERS = 12 };

/* ---- parts ---- */

static bool passes_weight(const Node *n)
{
    return n && (n->op == &op_Identity || n->op == &op_Cast || n->op == &op_Transpose);
}

/* The float constant that v consists of, through Identity, Cast and Transpose; NO_VALUE: none. */
static ValueId constant_behind(const Graph *g, ValueId v)
{
    while (passes_weight(maker(g, v)))
        v = maker(g, v)->in[0];
    return value_const(g, v) && dtype_is_float(value(g, v)->dtype) ? v : NO_VALUE;
}

/* Finds the constant at an input of the reader.  `from_end` counts the axis of the layer's outputs in that input, 0 for
 * the last.  False: it has no constant, or the constant has no such axis. */
static bool find_part(HeadPart *out, const Graph *g, Node *reader, int in, int from_end)
{
    const ValueId c = reader->n_in > in ? constant_behind(g, reader->in[in]) : NO_VALUE;
    const int rank = has_value(c) ? value(g, c)->shape->rank : 0;
    int axis = rank - 1 - from_end;

    if (axis < 0 || axis >= rank)
        return false;
    for (ValueId v = reader->in[in]; !value_eq(v, c); v = maker(g, v)->in[0]) {
        int n = 0;
        const int64_t *perm = maker(g, v)->op == &op_Transpose ? node_ints(maker(g, v), "perm", &n) : NULL;

        if (maker(g, v)->op == &op_Transpose)
            axis = n == rank ? (int)perm[axis] : rank - 1 - axis;
    }
    *out = (HeadPart){ reader, in, c, axis };
    return true;
}

/* The elements of the constant beside its axis of outputs. */
static int64_t per_output(const Graph *g, const HeadPart *p)
{
    const Shape *s = value(g, p->v)->shape;

    return s->dim[p->axis] ? shape_numel(s) / s->dim[p->axis] : 0;
}

/* The Add behind a product or convolution that adds a number for each output, and the input that has them. */
static void find_added_bias(Head *h, const Graph *g, const Uses *u, int from_end)
{
    Node *next = only_reader(u, h->n->out[0]);
    HeadPart p;

    while (next && (next->op == &op_Identity || next->op == &op_Cast || next->op == &op_Reshape))
        next = only_reader(u, next->out[0]);
    for (int in = 0; in < 2 && next && next->op == &op_Add; in++)
        if (find_part(&p, g, next, in, from_end) && per_output(g, &p) == 1 &&
            value(g, p.v)->shape->dim[p.axis] == h->outputs)
            h->bias = p;
}

/* Can the node be the layer?  *why: what speaks against it. */
static bool take_head(Head *h, const char **why, const Graph *g, const Uses *u, Node *n)
{
    const bool conv = n->op == &op_Conv, gemm = n->op == &op_Gemm;
    const ValueId c = n->n_in > 1 ? constant_behind(g, n->in[1]) : NO_VALUE;
    const Shape *s = value(g, c)->shape;
    const int weight_end = conv                            ? s->rank - 1
                           : gemm && node_int(n, "transB") ? 1
                                                           : 0,
              from_end = conv ? s->rank - 2 : 0;

    *h = (Head){ .n = n };
    *why = !has_value(c) ? "its weight is computed" : conv ? "its kernel is not 1" : "its weight is no matrix";
    if (!has_value(c) || (conv ? s->rank < 3 : s->rank != 2) || !find_part(&h->weight, g, n, 1, weight_end))
        return false;
    for (int a = 2; conv && a < s->rank; a++)
        if (s->dim[a] != 1)
            return false;
    if (conv && node_int(n, "group") != 1) {
        *why = "it has groups";
        return false;
    }
    h->outputs = s->dim[h->weight.axis];
    h->fan_in = per_output(g, &h->weight);
    *why = "its weight is empty";
    if (n->op != &op_MatMul && n->n_in > 2 && has_value(n->in[2]) && find_part(&h->bias, g, n, 2, 0) &&
        (per_output(g, &h->bias) != 1 || value(g, h->bias.v)->shape->dim[h->bias.axis] != h->outputs))
        h->bias.reader = NULL;
    if (!h->bias.reader)
        find_added_bias(h, g, u, from_end);
    return h->outputs > 0 && h->fan_in > 0;
}

static bool is_layer(const Node *n) { return n->op == &op_Gemm || n->op == &op_MatMul || n->op == &op_Conv; }

/* ---- finding the layer ---- */

/* Marks the values that depend on numbers of the inputs, rather than on their shapes alone. */
static bool *find_dependent(const Graph *g, Arena *a)
{
    bool *depends = ARENA_NEW(a, bool, g->n_value);

    for (int i = 0; depends && i < g->n_input; i++)
        depends[g->input[i].i] = true;
    if (depends)
        FOR_NODES(g, n) {
            bool any = false;

            for (int i = 0; i < n->n_in && !(n->op->flags & OPF_SHAPE_ONLY); i++)
                any |= depends[n->in[i].i];
            for (int i = 0; i < n->n_out; i++)
                depends[n->out[i].i] |= any && has_value(n->out[i]);
        }
    return depends;
}

/* The input whose numbers the node's output consists of, or is computed from; -1: there are several, or none. */
static int only_source(const Node *n, const bool *depends)
{
    int found = -1;

    for (int i = 0; i < n->n_in; i++)
        if (depends[n->in[i].i] && (!(n->op->moves || n->op->same) || op_moves(n->op, i))) {
            if (found >= 0)
                return -1;
            found = i;
        }
    return found;
}

static Status find_last(Head *out, const Graph *g, const Uses *u, const Output *o, int64_t outputs, Arena *a)
{
    const bool *depends = find_dependent(g, a);
    ValueId v = o->value;
    const char *why;
    Node *n;

    if (!depends)
        return FAIL_NOMEM();
    while ((n = maker(g, v))) {
        const int in = only_source(n, depends);

        if (is_layer(n) && take_head(out, &why, g, u, n))
            return ST_OK;
        if (is_layer(n))
            return FAIL(
                E_UNSUPPORTED,
                "--head %lld: the last layer before output '%s' is %s, and %s: name another with --head NAME=%lld",
                (long long)outputs, o->name, node_text(g, n), why, (long long)outputs);
        if (in < 0)
            return FAIL(E_UNSUPPORTED,
                        "--head %lld: several values meet in %s before output '%s', so the last layer is not clear: "
                        "name it with --head NAME=%lld",
                        (long long)outputs, node_text(g, n), o->name, (long long)outputs);
        v = n->in[in];
    }
    return FAIL(E_UNSUPPORTED, "--head %lld: there is no Gemm, MatMul or Conv before output '%s'", (long long)outputs,
                o->name);
}

static bool is_called(const Graph *g, const Head *h, const char *name)
{
    const char *weight = value(g, h->weight.v)->name;
    const size_t n = strlen(name);

    return !strcmp(h->n->name, name) || !strcmp(weight, name) ||
           (!strncmp(weight, name, n) && !strcmp(weight + n, WEIGHT)) ||
           (h->n->module && !strcmp(h->n->module, name)) || !strcmp(value(g, h->n->out[0])->name, name);
}

/* "'conv1.weight', 'fc.weight'": the weights of the last layers. */
static const char *list_layers(char text[LAYERS_TEXT], const Graph *g, const Uses *u)
{
    size_t len = 0;
    int shown = 0;
    const char *why;
    Head h;

    *text = '\0';
    for (uint32_t i = g->n_node; i-- > 0 && shown < MOST_LAYERS && len + 120 < LAYERS_TEXT;)
        if (g->node[i]->op && is_layer(g->node[i]) && take_head(&h, &why, g, u, g->node[i]))
            len += (size_t)snprintf(text + len, LAYERS_TEXT - len, "%s'%.100s'", shown++ ? ", " : "",
                                    value(g, h.weight.v)->name);
    return shown ? text : "none";
}

static Status find_named(Head *out, const Graph *g, const Uses *u, const char *name)
{
    char text[LAYERS_TEXT];
    const char *why;
    int n = 0;
    Head h;

    FOR_NODES(g, x) {
        if (!is_layer(x))
            continue;
        if (!take_head(&h, &why, g, u, x)) {
            if (!strcmp(x->name, name))
                return FAIL(E_UNSUPPORTED, "--head %s: %s: %s", name, node_text(g, x), why);
            continue;
        }
        if (is_called(g, &h, name) && !n++)
            *out = h;
    }
    if (n > 1)
        return FAIL(E_INVALID, "--head %s: %d layers have this name: give a node's name, or that of a weight: %s", name,
                    n, list_layers(text, g, u));
    return n ? ST_OK
             : FAIL(E_INVALID, "--head %s: no Gemm, MatMul or 1x1 Conv has this name; the last weights are %s", name,
                    list_layers(text, g, u));
}

/* The output that the loss reads; NULL: the model computes the loss itself, or has no such output. */
static const Output *scores_of(const Graph *g, const BuildOptions *opt)
{
    const char *name = target_options(opt)->logits;

    if (loss_is_output(opt) && !name)
        return NULL;
    for (int i = 0; i < g->n_output; i++)
        if (!name || !strcmp(g->output[i].name, name))
            return &g->output[i];
    return NULL;
}

static Status find_head(Head *out, const Graph *g, const Uses *u, PassCtx *ctx)
{
    const ParameterOptions *p = parameter_options(ctx->opt);
    const Output *scores = scores_of(g, ctx->opt);

    if (p->head_name)
        return find_named(out, g, u, p->head_name);
    if (!scores && loss_is_output(ctx->opt))
        return FAIL(E_INVALID,
                    "--head %lld: the loss is an output of the model, which does not show the last layer: name it with "
                    "--head NAME=%lld",
                    (long long)p->head_outputs, (long long)p->head_outputs);
    if (!scores)
        return FAIL(E_INVALID, "--head %lld: the model has no output%s%s", (long long)p->head_outputs,
                    target_options(ctx->opt)->logits ? " of --logits " : "",
                    target_options(ctx->opt)->logits ? target_options(ctx->opt)->logits : "");
    return find_last(out, g, u, scores, p->head_outputs, ctx->scratch);
}

/* ---- the change ---- */

/* A tensor of the type and shape of the constant, with n outputs: uniform in +-bound, by seed and name. */
static Status draw(Tensor **out, Graph *g, const HeadPart *p, int64_t n, double bound, uint64_t seed, const char *name)
{
    const Distribution uniform = { .kind = DRAW_UNIFORM, .spread = bound };
    Shape s = *value(g, p->v)->shape;

    s.dim[p->axis] = n;
    TRY(status_prefix(shape_check(&s, dtype_size(value(g, p->v)->dtype)), "--head %lld: '%s'", (long long)n, name));
    if (!(*out = tensor_create(g->arena, value(g, p->v)->dtype, &s)))
        return FAIL_NOMEM();
    tensor_draw(*out, &uniform, seed, name);
    return ST_OK;
}

/* Does the layer alone read the constant? */
static bool is_alone(const Graph *g, const Uses *u, const HeadPart *p)
{
    for (ValueId v = p->reader->in [p->in];; v = maker(g, v)->in[0]) {
        if (uses_count(u, v) != 1)
            return false;
        if (value_eq(v, p->v))
            return true;
    }
}

/* A name for the layer's own copy of a tensor that other nodes read, too. */
static const char *own_name(Graph *g, const HeadPart *p, bool weight)
{
    const Node *n = p->reader;
    const char *as = p->in < n->n_read_as ? n->read_as[p->in] : NULL, *last = weight ? "weight" : "bias";

    return as                        ? as
           : n->module && *n->module ? arena_printf(g->arena, "%s.%s", n->module, last)
                                     : arena_printf(g->arena, "head.%s", last);
}

/* Lets the reader read `c` in place of the part's constant, through copies of the nodes in between.  Returns the value
 * in place of v. */
static ValueId copy_way(Graph *g, const HeadPart *p, ValueId v, ValueId c)
{
    Node *n;
    ValueId in;

    if (value_eq(v, p->v))
        return c;
    in = copy_way(g, p, maker(g, v)->in[0], c);
    n = g->status ? NULL : graph_add_node_like(g, maker(g, v), 1, &in, 1, NULL);
    return n ? n->out[0] : NO_VALUE;
}

/* Gives the part n outputs.  A tensor that others read, too, is left to them, with a note. */
static Status renew_part(Graph *g, PassCtx *ctx, HeadPart *p, int64_t n, double bound, const Uses *u, bool weight)
{
    const bool alone = is_alone(g, u, p);
    const char *old = value(g, p->v)->name, *name = alone ? old : own_name(g, p, weight);
    Tensor *t;
    Value *c;

    if (!name || (!alone && !(name = graph_unique_name(g, name))))
        return FAIL_NOMEM();
    TRY(draw(&t, g, p, n, bound, step_options(ctx->opt)->seed, name));
    if (alone) {
        value(g, p->v)->init = t;
        value_set_shape(g, value(g, p->v), &t->shape);
    } else {
        const ValueId own = graph_add_const_nocopy(g, name, t), by = copy_way(g, p, p->reader->in[p->in], own);

        TRY(g->status);
        node_set_input(g, p->reader, p->in, by);
        TRY(report_note(ctx->report, NOTE_OTHER, old, "other nodes read it, too: the new layer has its own, '%s'",
                        name));
        p->v = own;
    }
    TRY(g->status);
    c = value(g, p->v);
    c->folded_from = NULL;
    c->integers = NULL;
    c->origin = ORIGIN_INITIALIZER;
    c->evidence = EVIDENCE_HEAD;
    ctx->n_changed++;
    return ST_OK;
}

/* Leaves out the operator that the loss applies itself, in front of the output of the scores, where no other output
 * reads the views in between. */
static Status cut_applied(Graph *g, PassCtx *ctx, const Uses *u, const Output *scores)
{
    const LossDef *loss = recipe_options(ctx->opt)->loss;
    Output *o = &g->output[scores - g->output];
    Node *reader = NULL, *n = maker(g, o->value);

    if (!loss || !loss->applies)
        return ST_OK;
    while (n && (op_is_strided(n->op) || n->op == &op_Identity) && uses_count(u, n->out[0]) == 1) {
        reader = n;
        n = maker(g, n->in[0]);
    }
    if (!n || strcmp(n->op->name, loss->applies) != 0)
        return ST_OK;
    TRY(report_note(ctx->report, NOTE_OTHER, o->name,
                    "%s before it is left out, because --loss %s applies %s: the output has scores from here on",
                    node_text(g, n), loss->recipe.name, loss->applies));
    if (reader)
        node_set_input(g, reader, 0, n->in[0]);
    else
        o->value = n->in[0];
    if (uses_count(u, n->out[0]) == 1)
        graph_remove(g, n);
    ctx->n_changed++;
    return g->status;
}

static Status note_head(PassCtx *ctx, const Graph *g, const Head *h, int64_t n, double bound)
{
    char weight[SHAPE_TEXT], bias[SHAPE_TEXT];
    const Value *w = value(g, h->weight.v), *b = h->bias.reader ? value(g, h->bias.v) : NULL;

    return report_note(ctx->report, NOTE_OTHER, h->n->name,
                       "has %lld output%s in place of %lld (--head): new '%s' %s%s%s%s%s, uniform in +-%.4g",
                       (long long)n, n == 1 ? "" : "s", (long long)h->outputs, w->name, shape_text(w->shape, weight),
                       b ? " and '" : "", b ? b->name : "", b ? "' " : "", b ? shape_text(b->shape, bias) : "", bound);
}

static Status head_run(Graph *g, PassCtx *ctx)
{
    const int64_t n = parameter_options(ctx->opt)->head_outputs;
    const Output *scores;
    double bound;
    Uses u;
    Head h;

    if (!n)
        return ST_OK;
    TRY(graph_sort(g));
    TRY(uses_find(&u, g, ctx->scratch));
    TRY(find_head(&h, g, &u, ctx));
    bound = 1 / sqrt((double)h.fan_in);
    TRY(renew_part(g, ctx, &h.weight, n, bound, &u, true));
    if (h.bias.reader)
        TRY(renew_part(g, ctx, &h.bias, n, bound, &u, false));
    scores = scores_of(g, ctx->opt);
    TRY(note_head(ctx, g, &h, n, bound));
    if (scores)
        TRY(cut_applied(g, ctx, &u, scores));
    TRY(graph_sort(g));
    return head_follow(g, ctx, &h, n, parameter_options(ctx->opt)->head_name ? NULL : scores);
}

const Pass pass_head = { .name = "head",
                         .summary = "give the last layer the outputs that --head asks for",
                         .run = head_run };
