/* mlp: fully connected layers with Relu, for tables and other samples of a fixed number of numbers.
 *
 *     x [N, inputs] - (fc1, Relu, Dropout) ... (fcL, Relu, Dropout) - fc(L+1) */
#include "graph/networks/layers.h"
#include "graph/ops/activation.gen.h"

static Status check(const NetworkSizes *s)
{
    if (!s->inputs)
        return FAIL(E_INVALID, "--inputs N is missing: the number of features of a sample");
    return net_check_outputs(s);
}

static void build(Net *n, const NetworkSizes *s)
{
    ValueId x = net_input(n, "x", DT_FLOAT32, SHAPE(NET_BATCH, s->inputs), (const char *const[MAX_RANK]){ "N" });

    for (int64_t i = 1; i <= s->layers; i++) {
        x = net_linear(n, x, net_path(n, "fc%d", (int)i), s->width, (Init){ NULL, NULL });
        x = NODE(n, "relu", Relu, NULL, x);
        x = net_dropout(n, x, "dropout", s->dropout);
    }
    x = net_linear(n, x, net_path(n, "fc%d", (int)s->layers + 1), s->classes ? s->classes : s->outputs,
                   (Init){ NULL, NULL });
    net_scores(n, s, x);
}

DEFINE_NETWORK(mlp, .help = "Linear layers with ReLU, for tables", .data = "FILE.csv,target=COLUMN",
               .takes = { [NETWORK_inputs] = "",
                          [NETWORK_classes] = "",
                          [NETWORK_outputs] = "",
                          [NETWORK_layers] = "2",
                          [NETWORK_width] = "128",
                          [NETWORK_dropout] = "0" },
               .check = check, .build = build);
