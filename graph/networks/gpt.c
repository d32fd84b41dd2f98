/* gpt: the language model of GPT-2 (Radford et al. 2019): learned positions, norms in front of attention and MLP, GELU
 * by tanh, a head that shares the embedding's weights.  Names and layouts are those of Hugging Face's GPT2LMHeadModel.
 *
 *     tokens [N, T] to logits [N, T, vocab], T up to --block
 *
 * T is open, so that a text shorter than the block needs no padding.  The mask lets each token read itself and those
 * before it; it is computed from the positions, for any T. */
#include <math.h>

#include "graph/networks/layers.h"
#include "graph/ops/binary.gen.h"
#include "graph/ops/compare.gen.h"
#include "graph/ops/generate.gen.h"
#include "graph/ops/index.gen.h"
#include "graph/ops/layout.gen.h"
#include "graph/ops/matmul.gen.h"
#include "graph/ops/view.gen.h"

#define ROOT "transformer"
enum { MLP = 4 /* the hidden layer of a block is as many times wider */ };
static const double DEVIATION = 0.02, EPSILON = 1e-5;

/* 0, 1 ... T - 1 for tokens [N, T]. */
static ValueId positions(Net *n, ValueId tokens, int64_t block)
{
    ValueId t = NODE(n, ROOT, Shape, NULL, tokens), from, step;

    t = NODE(n, ROOT, Gather, ATTRS(INT("axis", 0)), t, net_id(n, ROOT, 1));
    from = net_id(n, ROOT, 0);
    step = net_id(n, ROOT, 1);
    t = NODE(n, ROOT, Range, NULL, from, t, step);
    net_set_shape(n, t, SHAPE(block));
    return t;
}

/* [T, T]: the position of the key, by columns, is at most that of the query. */
static ValueId causal_mask(Net *n, ValueId position)
{
    const ValueId key = NODE(n, ROOT, Unsqueeze, NULL, position, INTS_OF(n, ROOT, 0)),
                  query = NODE(n, ROOT, Unsqueeze, NULL, position, INTS_OF(n, ROOT, 1));

    return NODE(n, ROOT, LessOrEqual, NULL, key, query);
}

static ValueId block(Net *n, ValueId x, const char *path, const NetworkSizes *s, ValueId mask)
{
    const Distribution weight = net_normal(DEVIATION), bias = net_constant(0),
                       residual = net_normal(DEVIATION / sqrt(2 * (double)s->layers));
    ValueId y;

    y = net_layer_norm(n, x, net_path(n, "%s.ln_1", path), EPSILON);
    y = net_conv1d(n, y, net_path(n, "%s.attn.c_attn", path), 3 * s->width, (Init){ &weight, &bias });
    y = net_attention(n, y, net_path(n, "%s.attn", path), s->heads, mask, s->dropout);
    y = net_conv1d(n, y, net_path(n, "%s.attn.c_proj", path), s->width, (Init){ &residual, &bias });
    y = net_dropout(n, y, net_path(n, "%s.attn.resid_dropout", path), s->dropout);
    x = NODE(n, path, Add, NULL, y, x);
    y = net_layer_norm(n, x, net_path(n, "%s.ln_2", path), EPSILON);
    y = net_conv1d(n, y, net_path(n, "%s.mlp.c_fc", path), MLP * s->width, (Init){ &weight, &bias });
    y = net_gelu_tanh(n, y, net_path(n, "%s.mlp.act", path));
    y = net_conv1d(n, y, net_path(n, "%s.mlp.c_proj", path), s->width, (Init){ &residual, &bias });
    y = net_dropout(n, y, net_path(n, "%s.mlp.dropout", path), s->dropout);
    return NODE(n, path, Add, NULL, x, y);
}

static void build(Net *n, const NetworkSizes *s)
{
    static const char *const open[MAX_RANK] = { "N", "T" };
    const ValueId tokens = net_input(n, "tokens", DT_INT64, SHAPE(NET_BATCH, s->block), open),
                  wte = net_param(n, ROOT ".wte", "weight", SHAPE(s->vocab, s->width), net_normal(DEVIATION));
    ValueId position, mask, x, head;

    n->block = s->block;
    position = positions(n, tokens, s->block);
    mask = causal_mask(n, position);
    x = NODE(n, ROOT ".wte", Gather, ATTRS(INT("axis", 0)), wte, tokens);
    position = net_embedding(n, position, ROOT ".wpe", s->block, s->width, net_normal(DEVIATION));
    x = NODE(n, ROOT, Add, NULL, x, position);
    x = net_dropout(n, x, ROOT ".drop", s->dropout);
    for (int64_t i = 0; i < s->layers; i++)
        x = block(n, x, net_path(n, ROOT ".h.%d", (int)i), s, mask);
    x = net_layer_norm(n, x, ROOT ".ln_f", EPSILON);
    head = NODE(n, "lm_head", Transpose, ATTRS(INTS("perm", 2, ((const int64_t[]){ 1, 0 }))), wte);
    net_output(n, "logits", NODE(n, "lm_head", MatMul, NULL, x, head), open);
}

DEFINE_NETWORK(gpt, .help = "language model in the form of GPT-2, for text", .data = "text:FILE.txt",
               .takes = { [NETWORK_layers] = "4",
                          [NETWORK_width] = "128",
                          [NETWORK_heads] = "4",
                          [NETWORK_block] = "128",
                          [NETWORK_vocab] = "256",
                          [NETWORK_dropout] = "0" },
               .check = net_check_heads, .build = build);
