/* InTraining: what training takes in place of a value, such as an augmented batch. */
#include "graph/ir/op.h"
#include "graph/ir/grad.h"
#include "graph/ir/placement_rules.h"

static Status infer_in_training(Graph *g, Node *n)
{
    TRY(infer_same_dtype(g, n, 0, 2));
    TRY(infer_expect(g, n, 1, "the value in training", *in_value(g, n, 0)->shape));
    return infer_like(g, n, 0);
}

static Status grad_in_training(Grad *gr)
{
    grad_set(gr, 1, grad_dout(gr, 0));
    return gr->g->status;
}

static Status train_in_training(Graph *g, Node *n, const TrainMode *mode)
{
    graph_replace(g, n->out[0], n->in[mode->batch]);
    return g->status;
}

static Status lower_in_training(Graph *g, Node *n)
{
    graph_replace(g, n->out[0], n->in[0]);
    return g->status;
}

DEFINE_OP(InTraining, .domain = "dpexec", .plain = "Identity", .layout = LAYOUT_ANY, .since = 1, .in_min = 2,
          .in_max = 2, .out_min = 1, .out_max = 1, .gradient_only_in = 2, .infer = infer_in_training,
          .grad = grad_in_training, .train = train_in_training, .lower = lower_in_training, .place = place_elementwise,
          .doc = "(x, y): y in the steps of training, x elsewhere");
