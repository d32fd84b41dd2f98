/* lstm: layers of LSTM over a sequence, whose last state one Linear reads; for texts and series.
 *
 *     --inputs F    x [N, T, F], a step of F numbers at each time
 *     --vocab V     tokens [N, T], ids that an Embedding turns into `width` numbers, and lengths [N]
 *
 * The last state, not all of them, feeds the Linear, because a sequence has one class or one row of numbers.  T is
 * open.  Texts differ in length and are padded, so `lengths` says where each one ends: behind many steps of padding a
 * network learns nothing.
 *
 * Weights have PyTorch's layout, gates in the order input, forget, cell, output.  ONNX has input, output, forget, cell,
 * so each layer begins with nodes that reorder them; runtimes compute these once. */
#include "graph/networks/layers.h"
#include "graph/ops/concat.gen.h"
#include "graph/ops/layout.gen.h"
#include "graph/ops/recurrent.gen.h"
#include "graph/ops/view.gen.h"

enum { STEPS = 3, GATES = 4 }; /* steps: T in inference */
#define PATH "lstm"

static Status check(const NetworkSizes *s)
{
    if (!s->inputs == !s->vocab)
        return FAIL(E_INVALID, "give --inputs N for sequences of numbers, or --vocab N for sequences of tokens%s",
                    s->inputs ? ", not both" : "");
    return net_check_outputs(s);
}

/* PATH.`what`_l`layer` of PyTorch in ONNX's order of gates. */
static ValueId gates(Net *n, const char *what, int layer, Shape s, int64_t hidden)
{
    const ValueId w = net_param(n, PATH, net_path(n, "%s_l%d", what, layer), s, net_default(hidden)),
                  sizes = INTS_OF(n, PATH, hidden, hidden, hidden, hidden);
    ValueId g[GATES];

    net_multi(n, PATH, &op_Split, ATTRS(INT("axis", 0)), 2, (const ValueId[]){ w, sizes }, GATES, g);
    return NODE(n, PATH, Concat, ATTRS(INT("axis", 0)), g[0], g[3], g[1], g[2]);
}

/* One layer over x [T, N, F], of which the first lengths[N] steps count (NO_VALUE: all): *all are its states [T, N,
 * hidden], *last is the last one [1, N, hidden]. */
static void lstm_layer(Net *n, ValueId x, ValueId lengths, int layer, int64_t hidden, ValueId *all, ValueId *last)
{
    const int64_t in = net_dim(n, x, -1), rows = GATES * hidden;
    const ValueId first = INTS_OF(n, PATH, 0), second = INTS_OF(n, PATH, 1);
    ValueId w, r, b[2], bias, y[2];

    w = NODE(n, PATH, Unsqueeze, NULL, gates(n, "weight_ih", layer, SHAPE(rows, in), hidden), first);
    r = NODE(n, PATH, Unsqueeze, NULL, gates(n, "weight_hh", layer, SHAPE(rows, hidden), hidden), first);
    b[0] = gates(n, "bias_ih", layer, SHAPE(rows), hidden);
    b[1] = gates(n, "bias_hh", layer, SHAPE(rows), hidden);
    bias = NODE(n, PATH, Unsqueeze, NULL, NODE(n, PATH, Concat, ATTRS(INT("axis", 0)), b[0], b[1]), first);
    net_multi(n, PATH, &op_LSTM, ATTRS(INT("hidden_size", hidden)), has_value(lengths) ? 5 : 4,
              (const ValueId[]){ x, w, r, bias, lengths }, 2, y);
    *all = NODE(n, PATH, Squeeze, NULL, y[0], second);
    *last = y[1];
}

static void build(Net *n, const NetworkSizes *s)
{
    static const char *const open[MAX_RANK] = { "N", "T" };
    ValueId x, lengths = NO_VALUE, last = NO_VALUE;

    if (s->vocab) {
        x = net_input(n, "tokens", DT_INT64, SHAPE(NET_BATCH, STEPS), open);
        lengths = net_input(n, "lengths", DT_INT32, SHAPE(NET_BATCH), open);
        x = net_embedding(n, x, "embedding", s->vocab, s->width, net_normal(1));
    } else {
        x = net_input(n, "x", DT_FLOAT32, SHAPE(NET_BATCH, STEPS, s->inputs), open);
    }
    x = NODE(n, PATH, Transpose, ATTRS(INTS("perm", 3, ((const int64_t[]){ 1, 0, 2 }))), x);
    for (int i = 0; i < s->layers; i++) {
        lstm_layer(n, x, lengths, i, s->width, &x, &last);
        if (i + 1 < s->layers)
            x = net_dropout(n, x, PATH, s->dropout);
    }
    x = NODE(n, "", Squeeze, NULL, last, INTS_OF(n, "", 0));
    x = net_dropout(n, x, "dropout", s->dropout);
    net_scores(n, s, net_linear(n, x, "fc", s->classes ? s->classes : s->outputs, (Init){ NULL, NULL }));
}

DEFINE_NETWORK(lstm, .help = "LSTM over sequences of tokens or numbers, for texts and series", .data = "FILE.npz",
               .data_of_ids = "FILE.csv,text=COLUMN,target=COLUMN --lengths lengths",
               .takes = { [NETWORK_inputs] = "",
                          [NETWORK_vocab] = "",
                          [NETWORK_classes] = "",
                          [NETWORK_outputs] = "",
                          [NETWORK_layers] = "1",
                          [NETWORK_width] = "128",
                          [NETWORK_dropout] = "0" },
               .check = check, .build = build);
