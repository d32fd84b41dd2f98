/* Recognition of constants by their names: the names that each known exporter gives to parameters, and those it makes
 * up. */
#include <ctype.h>
#include <string.h>

#include "graph/base/foreign.h"
#include "graph/ir/traced_calls.h"
#include "passes/model/parameters.h"

bool producer_is(const Graph *g, const char *name) { return !ascii_casecmp(g->producer, name, strlen(name)); }

bool from_torch_export(const Graph *g)
{
    for (uint32_t i = 1; i < g->n_value && producer_is(g, "pytorch"); i++)
        if (g->value[i]->evidence == EVIDENCE_PARAMETER || g->value[i]->folded_from)
            return true;
    return false;
}

static bool starts(const char *s, const char *with) { return !strncmp(s, with, strlen(with)); }

static bool ends(const char *s, const char *with)
{
    size_t n = strlen(s), m = strlen(with);

    return n >= m && !ascii_casecmp(s + n - m, with, m);
}

static bool all_digits(const char *s) { return *s && strspn(s, "0123456789") == strlen(s); }

/* Is s the stem with a number: "val_12" for "val_"? */
static bool is_numbered(const char *s, const char *stem) { return starts(s, stem) && all_digits(s + strlen(stem)); }

NameForm name_form(const Graph *g, const Value *v, bool torch_export)
{
    const char *s = v->name, *dot = strrchr(s, '.');

    if (producer_is(g, "pytorch")) {
        if (starts(s, "onnx::") || is_numbered(s, "val_") || is_numbered(s, "_v_") || all_digits(s) || *s == '/' ||
            v->folded_from || starts(s, "scalar_tensor") || starts(s, "lifted_tensor") ||
            strstr(s, "_tensor_constant") || strstr(s, "_output_"))
            return NAME_MADE;
        /* The newer exporter describes every parameter and buffer that it leaves unchanged.  The weights that
         * batch-norms are folded into keep their names and lose the description. */
        return torch_export && v->evidence == EVIDENCE_NONE && !dot ? NAME_MADE : NAME_KEY;
    }
    if (producer_is(g, "paddle")) { /* "linear_0.w_0", "batch_norm2d_3.b_0", "create_parameter_1.w_0" */
        if (dot && (dot[1] == 'w' || dot[1] == 'b') && dot[2] == '_' && isdigit((unsigned char)dot[3]))
            return NAME_VARIABLE;
        return starts(s, "p2o.") || starts(s, "Constant") || starts(s, "auto_") ? NAME_MADE : NAME_PLAIN;
    }
    if (!producer_is(g, "tf2onnx") && !producer_is(g, "keras") && !producer_is(g, "jax"))
        return NAME_PLAIN;
    if (strstr(s, "ReadVariableOp") || strstr(s, "/kernel") || strstr(s, "/bias") || strstr(s, "/gamma") ||
        strstr(s, "/beta") || strstr(s, "/embeddings"))
        return NAME_VARIABLE;
    return starts(s, "const_fold_opt__") || starts(s, "new_shape__") || starts(s, "Const") || strstr(s, "/Const")
               ? NAME_MADE
               : NAME_PLAIN;
}

/* ---- meanings ---- */

static bool any_end(const char *s, const char *const *with)
{
    for (; *with; with++)
        if (ends(s, *with))
            return true;
    return false;
}

static bool any_equal(const char *s, const char *const *with)
{
    for (; *with; with++)
        if (!ascii_casecmp(s, *with, SIZE_MAX))
            return true;
    return false;
}

NameMeaning name_meaning(const char *name)
{
    static const char *const buffer_ends[] = { "mask",
                                               "running_mean",
                                               "running_var",
                                               "num_batches_tracked",
                                               "inv_freq",
                                               "position_ids",
                                               "_grid",
                                               "anchors",
                                               "anchor_grid",
                                               "_buffer",
                                               "_cached",
                                               "_table_const",
                                               "pixel_mean",
                                               "pixel_std",
                                               "masked_bias",
                                               "coords_table",
                                               "final_logits_bias",
                                               "resample_filter",
                                               NULL };
    static const char *const buffers[] = { "pe",      "grid",    "freqs",    "freqs_cis", "cos",
                                           "sin",     "window",  "mean",     "std",       "stride",
                                           "strides", "indices", "vector_u", "sn_u",      NULL };
    static const char *const parameter_ends[] = {
        "weight",     "bias",      "kernel",        "token",         "tokens",    "embed",    "embedding",
        "embeddings", "gamma",     "beta",          "bias_table",    "scale",     "weight_g", "weight_v",
        "weight_ih",  "weight_hh", "layer_scale_1", "layer_scale_2", "lambda_1",  "lambda_2", "q_bias",
        "v_bias",     "prompt",    "temperature",   "original0",     "original1", "original", NULL
    };
    const char *dot = strrchr(name, '.'), *slash = strrchr(name, '/'), *from = dot > slash ? dot : slash;
    const char *s = from ? from + 1 : name; /* the name within the module */

    if (any_end(s, buffer_ends) || any_equal(s, buffers) || starts(s, "running_") || starts(s, "ema_"))
        return MEANS_BUFFER;
    return any_end(s, parameter_ends) || starts(s, "weight_") || starts(s, "bias_") || starts(s, "gamma_")
               ? MEANS_PARAMETER
               : MEANS_NOTHING;
}

/* "0.weight_u" stands beside "0.weight_orig"; weight_norm's "0.weight_v" stands beside "0.weight_g" instead.  The newer
 * form is "0.parametrizations.weight.0._u". */
bool name_is_power_iteration(const Graph *g, const char *name)
{
    const size_t len = strlen(name);
    char sibling[512];

    if (!ends(name, "_u") && !ends(name, "_v"))
        return false;
    if (ends(name, "._u") || ends(name, "._v"))
        return strstr(name, "parametrizations.") != NULL;
    if (len + 4 > sizeof sibling)
        return false;
    memcpy(sibling, name, len - 1);
    memcpy(sibling + len - 1, "orig", sizeof "orig");
    return has_value(graph_find(g, sibling));
}

/* The operators that torch.export names results after. */
static const char *const operators[] = { "add",
                                         "arange",
                                         "bitwise_and",
                                         "bitwise_not",
                                         "bitwise_or",
                                         "cat",
                                         "clone",
                                         "conv1d",
                                         "conv2d",
                                         "conv3d",
                                         "convert_element_type",
                                         "cos",
                                         "cumsum",
                                         "div",
                                         "embedding",
                                         "eq",
                                         "exp",
                                         "expand",
                                         "eye",
                                         "floor",
                                         "full",
                                         "full_like",
                                         "ge",
                                         "gt",
                                         "index",
                                         "le",
                                         "lift_fresh_copy",
                                         "linear",
                                         "linspace",
                                         "log",
                                         "logical_and",
                                         "logical_not",
                                         "lt",
                                         "masked_fill",
                                         "matmul",
                                         "maximum",
                                         "minimum",
                                         "mul",
                                         "ne",
                                         "neg",
                                         "new_full",
                                         "new_ones",
                                         "new_zeros",
                                         "ones",
                                         "ones_like",
                                         "permute",
                                         "pow",
                                         "reciprocal",
                                         "remainder",
                                         "repeat",
                                         "reshape",
                                         "rsqrt",
                                         "rsub",
                                         "scalar_tensor",
                                         "select",
                                         "sin",
                                         "slice",
                                         "sqrt",
                                         "squeeze",
                                         "stack",
                                         "sub",
                                         "sum",
                                         "_to_copy",
                                         "to",
                                         "transpose",
                                         "tril",
                                         "triu",
                                         "unsqueeze",
                                         "view",
                                         "where",
                                         "zeros",
                                         "zeros_like",
                                         NULL };

/* Did torch.export name the result after one of `of`: "arange_3", "convert_element_type_default"? */
static bool is_result_of(const char *name, const char *const *of)
{
    char stem[64];
    size_t len = strlen(name);

    while (len && isdigit((unsigned char)name[len - 1]))
        len--;
    len -= len && name[len] && name[len - 1] == '_';
    len -= len > 8 && !strncmp(name + len - 8, "_default", 8) ? 8 : 0;
    if (len >= sizeof stem)
        return false;
    memcpy(stem, name, len);
    stem[len] = '\0';
    return any_equal(stem, of);
}

static bool is_operator(const char *name) { return is_result_of(name, operators); }

bool name_is_moved(const char *name)
{
    static const char *const moves[] = { "_to_copy",   "_unsafe_view", "alias",     "cat",    "clone",
                                         "contiguous", "detach",       "embedding", "expand", "flatten",
                                         "index",      "permute",      "reshape",   "select", "slice",
                                         "split",      "squeeze",      "stack",     "t",      "transpose",
                                         "unflatten",  "unsqueeze",    "val",       "view",   NULL };

    return is_result_of(name, moves);
}

/* The kind that the exporter's signature of the program gives a name of the module. */
static NameMeaning signed_meaning(const Graph *g, const char *name)
{
    const char *at = g->signature;
    SignatureLine line;

    while (signature_next(&line, &at))
        if (text_part_is(line.target, name)) {
            if (text_part_is(line.kind, "PARAMETER"))
                return MEANS_PARAMETER;
            if (text_part_is(line.kind, "BUFFER") || text_part_is(line.kind, "CONSTANT_TENSOR"))
                return MEANS_BUFFER;
        }
    return MEANS_NOTHING;
}

bool folded_beside(const Graph *g, const char *folded_from)
{
    bool beside = false;
    char part[256];

    for (const char *s = strchr(folded_from, '\''), *end; s && (end = strchr(s + 1, '\'')); s = strchr(end + 1, '\'')) {
        size_t len = (size_t)(end - s - 1) < sizeof part - 1 ? (size_t)(end - s - 1) : sizeof part - 1;
        const Value *v;

        memcpy(part, s + 1, len);
        part[len] = '\0';
        v = has_value(graph_find(g, part)) ? value(g, graph_find(g, part)) : NULL;
        if (v && v->evidence == EVIDENCE_PARAMETER)
            beside = true;
        else if (g->signature && !signed_meaning(g, part))
            continue; /* an intermediate result */
        else if (!v && !is_numbered(part, "val_") && !is_operator(part))
            return false;
    }
    return beside;
}

NameMeaning folded_meaning(const Graph *g, const char *folded_from)
{
    NameMeaning found = MEANS_NOTHING, by_name = MEANS_NOTHING, of;
    bool all_made = true;
    char part[256];

    for (const char *s = strchr(folded_from, '\''), *end; s && (end = strchr(s + 1, '\'')); s = strchr(end + 1, '\'')) {
        size_t len = (size_t)(end - s - 1) < sizeof part - 1 ? (size_t)(end - s - 1) : sizeof part - 1;

        memcpy(part, s + 1, len);
        part[len] = '\0';
        if ((of = signed_meaning(g, part)) == MEANS_PARAMETER)
            return MEANS_PARAMETER;
        found = of ? of : found;
        if (!of && by_name != MEANS_PARAMETER)
            by_name = name_meaning(part) ? name_meaning(part) : by_name;
        all_made &= is_numbered(part, "val_") || is_operator(part);
    }
    return by_name == MEANS_PARAMETER ? by_name : all_made ? MEANS_BUFFER : found ? found : by_name;
}
