/* Clip nodes that PyTorch exported for clamp with tensors, and Max and Min nodes for clamp with numbers.
 *
 * Where x equals a bound, PyTorch's gradient is 0 if bounds are numbers (relu6, hardtanh, clamp(x, 0, 6)); if they are
 * tensors, half of it goes to x and half to the bound.  Clip has the first gradient, Max and Min have the second, so
 * the import picks the operator with the right one.  The exporter's metadata name the call (fx_node): aten.clamp.Tensor
 * has tensors, unless scalar_tensor makes its arguments, as for clamp(x, 0, 6) with an integer x.  Without metadata, a
 * constant that the older exporter computed ("onnx::Clip_9") is a tensor, because it writes numbers as Constant nodes.
 */
#include <string.h>

#include "graph/onnx/importer.h"
#include "graph/ops/binary.gen.h"
#include "graph/ops/where.gen.h"

#define KEY_CALL "pkg.torch.onnx.fx_node"

typedef enum { BY_UNKNOWN, BY_NUMBERS, BY_TENSORS } Bounds;

/* The arguments of the call described by `text` if it calls `target`, otherwise NULL. */
static const char *arguments_of(const char *text, const char *target)
{
    const char *at = strstr(text, target);

    return at ? strstr(at, "args = (") : NULL;
}

/* Sets the Bounds from the exporter's metadata on the call. */
static Status take_call(void *user, Arena *keep, const char *key, const char *text)
{
    static const char *const by_numbers[] = { "aten.relu6.", "aten.hardtanh", "aten.clamp.default",
                                              "aten.clamp_min.default", "aten.clamp_max.default" };
    Bounds *by = user;
    const char *args;

    (void)keep;
    if (strcmp(key, KEY_CALL))
        return ST_OK;
    for (size_t i = 0; i < sizeof by_numbers / sizeof *by_numbers; i++)
        if (strstr(text, by_numbers[i]))
            *by = BY_NUMBERS;
    if ((args = arguments_of(text, "aten.clamp.Tensor")) || (args = arguments_of(text, "aten.clamp_min.Tensor")) ||
        (args = arguments_of(text, "aten.clamp_max.Tensor")))
        *by = strstr(args, "%scalar_tensor") ? BY_NUMBERS : BY_TENSORS;
    return ST_OK;
}

static bool is_computed_by_exporter(const Importer *im, ValueId v)
{
    const Value *bound = has_value(v) ? value(im->g, v) : NULL;

    return bound && bound->kind == V_CONST && bound->origin == ORIGIN_INITIALIZER && !strncmp(bound->name, "onnx::", 6);
}

/* Clip(x, low, high) becomes Min(Max(x, low), high), or one of the two. */
static Status clip_to_extremes(Graph *g, Node *n)
{
    const ValueId low = n->n_in > 1 ? n->in[1] : NO_VALUE, high = n->n_in > 2 ? n->in[2] : NO_VALUE;

    n->op = &op_Max;
    n->in[1] = low;
    n->n_in = 2;
    if (!has_value(high))
        return g->status;
    if (has_value(low))
        n->in[0] = import_emit(g, &op_Max, NULL, 2, (ValueId[]){ n->in[0], low });
    n->op = &op_Min;
    n->in[1] = high;
    return g->status;
}

Status import_clamp(Importer *im, const Onnx__NodeProto *p, Node *n)
{
    const bool clip = !strcmp(p->op_type, "Clip"), minimum = !strcmp(p->op_type, "Min");
    Bounds by = BY_UNKNOWN;

    if (*text_or(p->domain, "") || (clip ? n->n_in < 2 : n->n_in != 2 || !(minimum || !strcmp(p->op_type, "Max"))))
        return ST_OK;
    TRY(node_metadata_entries(take_call, &by, im, p));
    if (!clip && by == BY_NUMBERS) {
        if (minimum) {
            node_set_input(im->g, n, 2, n->in[1]);
            n->in[1] = NO_VALUE;
        }
        n->op = &op_Clip;
    }
    if (!clip)
        return im->g->status;
    if (by == BY_UNKNOWN &&
        (is_computed_by_exporter(im, n->in[1]) || (n->n_in > 2 && is_computed_by_exporter(im, n->in[2]))))
        by = BY_TENSORS;
    for (int i = 1; i < n->n_in; i++) /* Max and Min broadcast, but Clip takes a vector of one number as that number */
        if (has_in(n, i) && (in_value(im->g, n, i)->kind != V_CONST || in_value(im->g, n, i)->shape->rank != 0))
            return ST_OK;
    return by == BY_TENSORS && (has_in(n, 1) || has_in(n, 2)) ? clip_to_extremes(im->g, n) : ST_OK;
}
