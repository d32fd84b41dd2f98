/* FlexAttention of ai.onnx.preview, which becomes the nodes of its formula (graph/ops/flex_attention.c), with the nodes
 * of the file's subgraphs `score_mod` and `prob_mod` between them. */
#include <string.h>

#include "graph/onnx/importer.h"
#include "graph/ops/flex_attention.h"

bool is_flex_attention(const Onnx__NodeProto *p)
{
    return !strcmp(text_or(p->domain, ""), "ai.onnx.preview") && !strcmp(p->op_type, "FlexAttention");
}

/* Sets heads[3] to the numbers of heads of queries, keys and values; -1: not known. */
static Status read_heads(int64_t *heads, Importer *im, const Onnx__NodeProto *p, const ValueId *x)
{
    for (size_t i = 0; i < 3; i++) {
        const Shape *s;

        TRY(status_prefix(known_size(&heads[i], im, x[i], 1), "input '%s'", p->input[i]));
        s = value(im->g, x[i])->shape;
        if (s->rank >= 0 && s->rank != 4)
            return FAIL(E_MODEL, "input '%s' has %d dimensions, expected [batch, heads, tokens, depth]", p->input[i],
                        s->rank);
    }
    if (heads[1] >= 0 && heads[2] >= 0 && heads[1] != heads[2])
        return FAIL(E_MODEL, "%lld heads of keys, but %lld of values", (long long)heads[1], (long long)heads[2]);
    if (heads[0] >= 0 && heads[1] >= 0 && (!heads[1] || heads[0] % heads[1]))
        return FAIL(E_MODEL, "%lld heads of queries, expected a multiple of the %lld of keys", (long long)heads[0],
                    (long long)heads[1]);
    return ST_OK;
}

/* Reads the node's attributes and the sizes that its formula depends on. */
static Status read_node(FlexAttention *a, Importer *im, const Body *b, const Onnx__NodeProto *p, const ValueId *x)
{
    const Onnx__AttributeProto *scale, *soft;
    int64_t heads[3];

    TRY(read_heads(heads, im, p, x));
    TRY(attribute_given(&scale, im, b, p, "scale", ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOAT));
    TRY(attribute_given(&soft, im, b, p, "softmax_precision", ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT));
    if (!(a->type = known_float(im, x[0])))
        return FAIL(E_UNSUPPORTED, "the file does not give the float type of '%s'", p->input[0]);
    if (soft && (soft->i < 0 || soft->i >= DT_COUNT || !dtype_is_float((DType)soft->i)))
        return FAIL(E_MODEL, "attribute 'softmax_precision': %lld, expected a type of floats", (long long)soft->i);
    a->soft = soft ? (DType)soft->i : a->type == DT_FLOAT64 ? DT_FLOAT64 : DT_FLOAT32;
    a->shared = heads[0] < 0 || heads[0] != heads[1];
    a->scaled = scale != NULL;
    a->scale = scale ? scale->f : 0;
    return ST_OK;
}

static Status inline_node(ValueId *y, Importer *im, Body *b, const Onnx__NodeProto *p)
{
    FlexAttention a;
    ValueId x[3], s;

    if (p->n_input != 3 || p->n_output != 1 || !*p->output[0])
        return FAIL(E_MODEL, "expected queries, keys and values, and one output");
    for (size_t i = 0; i < 3; i++)
        TRY(tensor_input(&x[i], b, p, i));
    TRY(read_node(&a, im, b, p, x));
    s = flex_scores(im->g, &a, x[0], x[1]);
    TRY(import_applied(&s, im, b, p, "score_mod"));
    s = flex_probabilities(im->g, s);
    TRY(import_applied(&s, im, b, p, "prob_mod"));
    *y = flex_values(im->g, &a, s, x[2], x[0]);
    return im->g->status;
}

Status import_flex_attention(Importer *im, Body *b, const Onnx__NodeProto *p)
{
    ValueId y;

    TRY(status_prefix(inline_node(&y, im, b, p), "%s", proto_text(im, p)));
    scope_find(&b->scope, p->output[0])->value = y;
    return ST_OK;
}
