/* Clip nodes that PyTorch clamped by tensors, and Max and Min nodes that it clamped by numbers.
 *
 * Where x equals a bound, PyTorch's gradient is 0 for bounds that are numbers (relu6, hardtanh, clamp(x, 0, 6)) and
 * half to x, half to the bound for tensors.  Clip has the first gradient, Max and Min the second, so the node is
 * spelled by whichever fits.  The exporter's call tells (fx_node): aten.clamp.Tensor has tensors, unless its arguments
 * are made by scalar_tensor, as those of clamp(x, 0, 6) by integers are.  Without a call, a constant that the older
 * exporter computed ("onnx::Clip_9") is a tensor of the module: it leaves numbers as Constant nodes. */
#include "graph/onnx/importer.h"
#include "graph/ops/binary.gen.h"
#include "graph/ops/where.gen.h"

#include <string.h>

#define KEY_CALL "pkg.torch.onnx.fx_node"

typedef enum { BY_UNKNOWN, BY_NUMBERS, BY_TENSORS } Bounds;

/* The target of the call that begins at `text`, if it is of this family: its arguments, else NULL. */
static const char *arguments_of(const char *text, const char *target)
{
    const char *at = strstr(text, target);

    return at ? strstr(at, "args = (") : NULL;
}

static Status take_call(void *user, const char *key, const char *text)
{
    static const char *const by_numbers[] = { "aten.relu6.", "aten.hardtanh", "aten.clamp.default",
                                              "aten.clamp_min.default", "aten.clamp_max.default" };
    Bounds *by = user;
    const char *args;

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

/* Max and Min broadcast, Clip takes a vector of one number as that number. */
static bool is_scalar_constant(const Importer *im, ValueId v)
{
    return !has_value(v) || (value(im->g, v)->kind == V_CONST && value(im->g, v)->shape->rank == 0);
}

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

static void extreme_to_clip(Graph *g, Node *n, bool minimum)
{
    const ValueId bound = n->in[1];

    if (minimum) {
        node_set_input(g, n, 2, bound);
        n->in[1] = NO_VALUE;
    }
    n->op = &op_Clip;
}

Status import_clamp(Importer *im, const Onnx__NodeProto *p, Node *n)
{
    const bool clip = !strcmp(p->op_type, "Clip"), minimum = !strcmp(p->op_type, "Min");
    Bounds by = BY_UNKNOWN;

    if (*text_or(p->domain, "") || (clip ? n->n_in < 2 : n->n_in != 2 || !(minimum || !strcmp(p->op_type, "Max"))))
        return ST_OK;
    TRY(late_node_entries(take_call, &by, im, p));
    if (!clip) {
        if (by == BY_NUMBERS)
            extreme_to_clip(im->g, n, minimum);
        return im->g->status;
    }
    if (by == BY_UNKNOWN &&
        (is_computed_by_exporter(im, n->in[1]) || (n->n_in > 2 && is_computed_by_exporter(im, n->in[2]))))
        by = BY_TENSORS;
    for (int i = 1; i < n->n_in; i++)
        if (!is_scalar_constant(im, n->in[i]))
            return ST_OK;
    return by == BY_TENSORS && (has_in(n, 1) || has_in(n, 2)) ? clip_to_extremes(im->g, n) : ST_OK;
}
