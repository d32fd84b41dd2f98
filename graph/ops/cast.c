/* Conversion of element types: Cast, CastLike, BitCast, and CastAll for many tensors in one node
 * (passes/fuse/group_casts.c). */
#include <string.h>

#include "graph/ir/grad.h"
#include "graph/ir/placement_rules.h"
#include "graph/ops/cast.gen.h"

/* Up to opset 5 the type was a word; only FLOAT and DOUBLE differ from dpexec's names of types. */
static Status type_from_word(Graph *g, Node *n, const char *word)
{
    char name[16] = "";
    DType t;

    for (size_t i = 0; word[i] && i + 1 < sizeof name; i++)
        name[i] = word[i] >= 'A' && word[i] <= 'Z' ? (char)(word[i] - 'A' + 'a') : word[i];
    t = !strcmp(name, "float") ? DT_FLOAT32 : !strcmp(name, "double") ? DT_FLOAT64 : dtype_parse(name);
    if (t == DT_NONE)
        return FAIL(E_UNSUPPORTED, "%s: to '%.100s' is no type that tensors have here", node_text(g, n), word);
    node_remove_attr(g, n, "to");
    node_set_int(g, n, "to", t);
    return g->status;
}

static Status cast_import(Graph *g, Node *n, int opset)
{
    const Attr *to = node_attr(n, "to");

    if (opset < 6 && to && to->type == A_STRING)
        TRY(type_from_word(g, n, to->s));
    to = node_attr(n, "to");
    if (n->op == &op_Cast && to && to->type == A_INT && !dtype_is_small_float((DType)to->i)) {
        node_remove_attr(g, n, "saturate"); /* these matter for floats of 8 bits and less only */
        node_remove_attr(g, n, "round_mode");
    }
    return g->status;
}

static bool cast_respell(Graph *g, Node *n, int opset)
{
    return (opset >= 24 || respell_without(g, n, "round_mode")) && (opset >= 19 || respell_without(g, n, "saturate"));
}

static Status cast_infer(Graph *g, Node *n)
{
    int64_t to = node_int(n, "to");
    bool known = to > DT_NONE && to < DT_COUNT;

    if (!known || !dtype_size((DType)to))
        return FAIL(E_UNSUPPORTED, "%s: conversion to type %lld (%s) is not supported", node_text(g, n), (long long)to,
                    dtype_name(known ? (DType)to : DT_COUNT));
    set_out(g, n, 0, (DType)to, in_value(g, n, 0)->shape);
    return ST_OK;
}

/* A gradient flows only between floats. */
static Status cast_grad(Grad *gr)
{
    DType from = grad_in_value(gr, 0)->dtype;

    if (dtype_is_float(from))
        grad_set(gr, 0, emit_cast(grad_graph(gr), grad_dout(gr, 0), from));
    return grad_graph(gr)->status;
}

/* Widening is exact, so partial sums are widened before they are added, which is more precise. */
static Status cast_place(Placement *p)
{
    DType from = in_value(p->g, p->node, 0)->dtype, to = (DType)node_int(p->node, "to");
    bool widens = dtype_is_float(from) && dtype_is_float(to) && dtype_size(to) > dtype_size(from);

    return widens ? place_linear(p) : place_elementwise(p);
}

#define ROUNDING \
    { "saturate", A_INT, .i = 1 }, { "round_mode", A_STRING, .s = "up", .words = "up down nearest" }

DEFINE_OP(Cast, .same = SAME_TYPED, .rows = ROWS_KEPT, .precision = PREC_OWN, .elementwise = true, .since = 13,
          .from = 6, .in_min = 1, .in_max = 1, .out_min = 1, .out_max = 1, .dtypes = DTYPES_STORED | DTYPES_TEXT,
          .attrs = (const AttrDecl[]){ { "to", A_INT, .rule = ATTR_REQUIRED, .range = R_HELD }, ROUNDING, { 0 } },
          .doc = "y = (to) x", .import = cast_import, .respell = cast_respell, .infer = cast_infer, .grad = cast_grad,
          .place = cast_place);

/* ---- CastLike: a Cast to the type of another value ---- */

static Status infer_like_second(Graph *g, Node *n)
{
    set_out(g, n, 0, in_value(g, n, 1)->dtype, in_value(g, n, 0)->shape);
    return g->status;
}

static Status lower_cast_like(Graph *g, Node *n)
{
    DType to = in_value(g, n, 1)->dtype;

    const Attr *rounds = ATTRS(INT("to", to), INT("saturate", node_int(n, "saturate")),
                               STRING("round_mode", node_string(n, "round_mode")));

    graph_replace(g, n->out[0], EMIT(g, Cast, dtype_is_small_float(to) ? rounds : ATTRS(INT("to", to)), n->in[0]));
    return g->status;
}

DEFINE_OP(CastLike, .same = SAME_TYPED, .since = 15, .in_min = 2, .in_max = 2, .out_min = 1, .out_max = 1,
          .dtypes = DTYPES_STORED | DTYPES_TEXT, .attrs = (const AttrDecl[]){ ROUNDING, { 0 } },
          .doc = "x in the type of the second input", .import = cast_import, .respell = cast_respell,
          .infer = infer_like_second, .lower = lower_cast_like);

/* All inputs have one type, but may differ in shape: float32 to 16-bit floats, or back. */
static Status cast_infer_all(Graph *g, Node *n)
{
    int64_t to = node_int(n, "to");
    DType from;

    if (n->n_in != n->n_out)
        return FAIL(E_MODEL, "%s: %d inputs and %d outputs", node_text(g, n), n->n_in, n->n_out);
    if (!has_in(n, 0))
        return FAIL(E_SHAPE, "%s: input 0 is absent", node_text(g, n));
    from = in_value(g, n, 0)->dtype;
    if (from == DT_FLOAT32 ? to != DT_FLOAT16 && to != DT_BFLOAT16 : to != DT_FLOAT32)
        return FAIL(E_UNSUPPORTED, "%s: from %s to %lld: expected float16 or bfloat16 to float32, or back",
                    node_text(g, n), dtype_name(from), (long long)to);
    for (int i = 0; i < n->n_in; i++) {
        if (!has_in(n, i) || in_value(g, n, i)->dtype != from)
            return FAIL(E_SHAPE, "%s: input %d is %s: expected %s", node_text(g, n), i,
                        has_in(n, i) ? dtype_name(in_value(g, n, i)->dtype) : "absent", dtype_name(from));
        set_out(g, n, i, (DType)to, in_value(g, n, i)->shape);
    }
    return ST_OK;
}

DEFINE_OP(CastAll, .domain = "dpexec", .since = 1, .in_min = 1, .in_max = -1, .out_min = 1, .out_max = -1,
          .dtypes = DTYPE_BIT(DT_FLOAT32) | DTYPE_BIT(DT_FLOAT16) | DTYPE_BIT(DT_BFLOAT16),
          .attrs = (const AttrDecl[]){ { "to", A_INT, .rule = ATTR_REQUIRED, .range = R_DTYPE }, { 0 } },
          .doc = "y[i] = (to) x[i] for every input, float32 to 16-bit floats or back", .infer = cast_infer_all,
          .grad = grad_none, .place = place_all_b);

/* ---- BitCast ---- */

static Status infer_bits(Graph *g, Node *n)
{
    const DType from = in_value(g, n, 0)->dtype, to = (DType)node_int(n, "to");

    if (dtype_bits(from) != dtype_bits(to))
        return FAIL(E_MODEL, "%s: from %s to %s, which has another number of bits", node_text(g, n), dtype_name(from),
                    dtype_name(to));
    set_out(g, n, 0, to, in_value(g, n, 0)->shape);
    return g->status;
}

DEFINE_OP(BitCast, .elementwise = true, .since = 26, .in_min = 1, .in_max = 1, .out_min = 1, .out_max = 1,
          .dtypes = DTYPES_STORED,
          .attrs = (const AttrDecl[]){ { "to", A_INT, .rule = ATTR_REQUIRED, .range = R_STORED }, { 0 } },
          .doc = "the bits of x as another type", .infer = infer_bits, .grad = grad_none, .place = place_elementwise);
