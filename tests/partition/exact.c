/* The promise of docs/reference/semantics.md: many replicas compute what one computes, for every way of dividing the
 * batch. */
#include <stdlib.h>
#include <string.h>

#include "exec/run/interp.h"
#include "graph/ops/collective.gen.h"
#include "exec/inspect/verify_batch.h"
#include "graph/ir/op.h"
#include "tests/harness/graphs.h"
#include "tests/harness/test.h"
#include "tests/partition/train.h"
#include "passes/build_options.h"

/* Softmax cross-entropy with a weight per sample: the denominator is a sum over the batch, known only at run time. */
#define WEIGHTED_LOSS                                         \
    "  %logp = LogSoftmax(%z) {axis=-1}\n"                    \
    "  %picked = Mul(%logp, %t)\n"                            \
    "  %per_class = ReduceSum(%picked, %last) {keepdims=0}\n" \
    "  %weighted = Mul(%per_class, %weight)\n"                \
    "  %minus = Neg(%weighted)\n"                             \
    "  %num = ReduceSum(%minus) {keepdims=0}\n"               \
    "  %squares = Mul(%weight, %weight)\n"                    \
    "  %den = ReduceSum(%squares) {keepdims=0}\n"             \
    "  %loss = Div(%num, %den)\n"                             \
    "  output \"loss\" = %loss\n"

static const char mlp[] = "graph \"mlp\" {\n"
                          "  input %x : float64[%B,6]\n"
                          "  input %t : float64[%B,4]\n"
                          "  input %weight : float64[%B]\n"
                          "  state %w1 trainable : float64[6,5] = all 0\n"
                          "  state %b1 trainable : float64[5] = all 0\n"
                          "  state %w2 trainable : float64[5,4] = all 0\n"
                          "  state %b2 trainable : float64[1,4] = all 0\n"
                          "  const %last : int64[1] = {-1}\n"
                          "  %h = MatMul(%x, %w1)\n"
                          "  %hb = Add(%h, %b1)\n"
                          "  %a = Relu(%hb)\n"
                          "  %o = MatMul(%a, %w2)\n"
                          "  %z = Add(%o, %b2)\n" WEIGHTED_LOSS "}\n";

static void test_mlp(void) { train_check_all(mlp); }

static const char conv[] = "graph \"conv\" {\n"
                           "  input %x : float64[%B,2,6,6]\n"
                           "  input %t : float64[%B,3]\n"
                           "  input %weight : float64[%B]\n"
                           "  state %k trainable : float64[4,2,3,3] = all 0\n"
                           "  state %kb trainable : float64[4] = all 0\n"
                           "  state %w trainable : float64[36,3] = all 0\n"
                           "  const %last : int64[1] = {-1}\n"
                           "  const %flat : int64[2] = {%B,36}\n"
                           "  %c = Conv(%x, %k, %kb) {pads=[1,1,1,1]}\n"
                           "  %r = Relu(%c)\n"
                           "  %p = MaxPool(%r) {kernel_shape=[2,2], strides=[2,2]}\n"
                           "  %f = Reshape(%p, %flat)\n"
                           "  %z = MatMul(%f, %w)\n" WEIGHTED_LOSS "}\n";

static void test_conv(void) { train_check_all(conv); }

/* Synchronised batch-norm: after a convolution, and with running statistics.  Statistics of one value are NaN or
 * infinite in ONNX's terms too, so batches begin at 2 values per channel (two positions). */
static const char batch_norm[] =
    "graph \"bn\" {\n"
    "  input %x : float64[%B,2,4,4]\n"
    "  input %labels : int64[%B]\n"
    "  state %k trainable : float64[3,2,3,3] = all 0\n"
    "  state %kb trainable : float64[3] = all 0\n"
    "  state %scale trainable : float64[3] = all 0\n"
    "  state %bias trainable : float64[3] = all 0\n"
    "  state %mean : float64[3] = {0.1,0.2,0.3}\n"
    "  state %var : float64[3] = {1,2,3}\n"
    "  state %w trainable : float64[12,4] = all 0\n"
    "  const %flat : int64[2] = {%B,-1}\n"
    "  const %classes : float64[4] = {1,0.5,2,0.25}\n"
    "  %c = Conv(%x, %k, %kb)\n"
    "  %n, %mean1, %var1 = BatchNormalization(%c, %scale, %bias, %mean, %var) {training_mode=1}\n"
    "  %r = Relu(%n)\n"
    "  %f = Reshape(%r, %flat)\n"
    "  %z = MatMul(%f, %w)\n"
    "  %loss = SoftmaxCrossEntropyLoss(%z, %labels, %classes) {ignore_index=1}\n"
    "  update %mean := %mean1\n"
    "  update %var := %var1\n"
    "  output \"loss\" = %loss\n"
    "}\n";

static void test_batch_norm(void) { train_check_all(batch_norm); }

/* What a layer of 3 channels, of which the rest is given, computes; without parameters of its own where `plain`. */
#define NORM(X, Y, NODE, PLAIN)                                           \
    "graph \"norm\" {\n"                                                  \
    "  input %x : float64[" X                                             \
    "]\n"                                                                 \
    "  input %m : float64[" Y "]\n"                                       \
    "  state %mean : float64[3] = {0.1,0.2,0.3}\n"                        \
    "  state %var : float64[3] = {1,2,3}\n" PLAIN NODE                    \
    "  %n, %mean1, %var1 = BatchNormalization(%c, %scale, %bias, %mean, " \
    "%var) {training_mode=1}\n"                                           \
    "  %nm = Mul(%n, %m)\n"                                               \
    "  %sq = Mul(%nm, %nm)\n"                                             \
    "  %loss = ReduceMean(%sq) {keepdims=0}\n"                            \
    "  update %mean := %mean1\n"                                          \
    "  update %var := %var1\n"                                            \
    "  output \"loss\" = %loss\n"                                         \
    "}\n"
#define OWN                                           \
    "  state %scale trainable : float64[3] = all 0\n" \
    "  state %bias trainable : float64[3] = all 0\n"
#define PLAIN                               \
    "  const %scale : float64[3] = all 1\n" \
    "  const %bias : float64[3] = all 0\n"  \
    "  state %w trainable : float64[4,4] = all 0\n"

/* [N, C], [N, C, L], [N, C, D, H, W]; behind a transposition, of the channels and of the batch; without affine. */
static void test_ranks(void)
{
    static const char *const layers[] = {
        NORM("%B,3", "%B,3", "  %c = Identity(%x)\n", OWN),
        NORM("%B,3,4", "%B,3,4", "  %c = Identity(%x)\n", OWN),
        NORM("%B,3,2,1,2", "%B,3,2,1,2", "  %c = Identity(%x)\n", OWN),
        NORM("%B,2,3", "%B,3,2", "  %c = Transpose(%x) {perm=[0,2,1]}\n", OWN),
        NORM("2,3,\"N\"=%B", "\"N\"=%B,3,2", "  %c = Transpose(%x) {perm=[2,1,0]}\n", OWN),
        NORM("%B,3,4", "%B,3,4", "  %c = MatMul(%x, %w)\n", PLAIN),
    };
    static const int64_t batches[] = { 2, 3, 5, 8 }; /* of one value the variance does not exist */

    for (size_t i = 0; i < sizeof layers / sizeof *layers; i++)
        for (int replicas = 2; replicas <= 7; replicas++)
            for (int b = 0; b < 4; b++)
                train_check(layers[i], batches[b],
                            &(Division){ .replicas = replicas,
                                         .devices = (replicas + 1) / 2,
                                         .split = replicas % 2 ? SPLIT_CHUNK : SPLIT_BALANCED },
                            1e-12);
}

/* Self-attention over 3 positions with 2 heads; the table of embeddings is also the output's weight. */
static const char attention[] = "graph \"attention\" {\n"
                                "  input %ids : int64[%B,3]\n"
                                "  input %t : float64[%B,3,5]\n"
                                "  input %weight : float64[%B,3]\n"
                                "  state %table trainable : float64[5,4] = all 0\n"
                                "  state %position trainable : float64[3,4] = all 0\n"
                                "  state %q trainable : float64[4,4] = all 0\n"
                                "  state %k trainable : float64[4,4] = all 0\n"
                                "  const %last : int64[1] = {-1}\n"
                                "  const %heads : int64[4] = {%B,3,2,2}\n"
                                "  const %joined : int64[3] = {-1,3,4}\n"
                                "  const %rows : int64[2] = {-1,4}\n"
                                "  const %mask : float64[3,3] = {0,-1e9,-1e9,0,0,-1e9,0,0,0}\n"
                                "  %e = Gather(%table, %ids)\n"
                                "  %x = Add(%e, %position)\n"
                                "  %xq = MatMul(%x, %q)\n"
                                "  %xk = MatMul(%x, %k)\n"
                                "  %hq = Reshape(%xq, %heads)\n"
                                "  %hk = Reshape(%xk, %heads)\n"
                                "  %hv = Reshape(%x, %heads)\n"
                                "  %tq = Transpose(%hq) {perm=[0,2,1,3]}\n"
                                "  %tk = Transpose(%hk) {perm=[0,2,3,1]}\n"
                                "  %tv = Transpose(%hv) {perm=[0,2,1,3]}\n"
                                "  %scores = MatMul(%tq, %tk)\n"
                                "  %masked = Add(%scores, %mask)\n"
                                "  %p = Softmax(%masked) {axis=-1}\n"
                                "  %mixed = MatMul(%p, %tv)\n"
                                "  %back = Transpose(%mixed) {perm=[0,2,1,3]}\n"
                                "  %y = Reshape(%back, %joined)\n"
                                "  %yr = Reshape(%y, %rows)\n"
                                "  %out = Transpose(%table) {perm=[1,0]}\n"
                                "  %zr = MatMul(%yr, %out)\n"
                                "  const %back3 : int64[3] = {%B,3,5}\n"
                                "  %z = Reshape(%zr, %back3)\n" WEIGHTED_LOSS "}\n";

/* The table is used twice, and reduced once. */
static void test_attention(void)
{
    Graph *one = train_graph(attention, 8), *many = NULL;

    train_check_all(attention);
    if (one && CHECK_OK(train_divide(&many, one, &(Division){ .replicas = 4, .devices = 4 }, NULL)))
        CU_ASSERT_EQUAL(count_nodes(many, &op_AllReduce), 4 + 2); /* four parameters; the loss and its denominator */
    graph_free(one);
    graph_free(many);
}

/* The batch on axis 1, and a loss that the model computes itself as a mean over all of it. */
static const char second_axis[] = "graph \"second\" {\n"
                                  "  input %x : float64[3,\"N\"=%B,4]\n"
                                  "  input %mask : float64[\"N\"=%B,3]\n"
                                  "  input %h : float64[\"N\"=%B,5]\n"
                                  "  state %w trainable : float64[4,5] = all 0\n"
                                  "  state %u trainable : float64[3,1,5] = all 0\n"
                                  "  const %rows : int64[2] = {-1,15}\n"
                                  "  const %ones : int64[1] = {1}\n"
                                  "  const %two : int64[1] = {2}\n"
                                  "  %y = MatMul(%x, %w)\n"
                                  "  %yu = Add(%y, %u)\n"
                                  "  %yh = Mul(%yu, %h)\n"
                                  "  %first = Transpose(%yh) {perm=[1,0,2]}\n"
                                  "  %m3 = Unsqueeze(%mask, %two)\n"
                                  "  %masked = Mul(%first, %m3)\n"
                                  "  %flat = Reshape(%masked, %rows)\n"
                                  "  %sq = Mul(%flat, %flat)\n"
                                  "  %each = ReduceMean(%sq, %ones) {keepdims=0}\n"
                                  "  %loss = ReduceMean(%each) {keepdims=0}\n"
                                  "  output \"loss\" = %loss\n"
                                  "}\n";

static void test_second_axis(void) { train_check_all(second_axis); }

/* Operators that mix the samples: a softmax over the batch, and every sample compared with every other. */
static const char mixing[] = "graph \"mixing\" {\n"
                             "  input %x : float64[%B,4]\n"
                             "  state %w trainable : float64[4,3] = all 0\n"
                             "  %h = MatMul(%x, %w)\n"
                             "  %over = Softmax(%h) {axis=0}\n"
                             "  %ht = Transpose(%h) {perm=[1,0]}\n"
                             "  %pairs = MatMul(%h, %ht)\n"
                             "  %s = Exp(%pairs)\n"
                             "  %a = ReduceSum(%s) {keepdims=0}\n"
                             "  %sq = Mul(%over, %over)\n"
                             "  %b = ReduceSum(%sq) {keepdims=0}\n"
                             "  %loss = Add(%a, %b)\n"
                             "  output \"loss\" = %loss\n"
                             "  output \"over\" = %over\n"
                             "  output \"h\" = %h\n"
                             "}\n";

static void test_mixing(void) { train_check_all(mixing); }

/* Behind what mixes a batch of one, a whole value and a part have the same size; operators that do not broadcast
 * tell. */
static const char after_mixing[] = "graph \"after\" {\n"
                                   "  input %x : float64[%B,4]\n"
                                   "  input %t : float64[%B,3]\n"
                                   "  state %w trainable : float64[4,3] = all 0\n"
                                   "  state %scale trainable : float64[3] = all 0\n"
                                   "  const %axis : int64[] = {0}\n"
                                   "  %h = MatMul(%x, %w)\n"
                                   "  %over = Softmax(%h) {axis=0}\n"
                                   "  %g = Gelu(%over)\n"
                                   "  %n = LayerNormalization(%g, %scale)\n"
                                   "  %sum = Add(%n, %h)\n"
                                   "  %p = Sigmoid(%sum)\n"
                                   "  %e = Sub(%p, %t)\n"
                                   "  %q = CumSum(%e, %axis)\n"
                                   "  %sq = Mul(%q, %e)\n"
                                   "  %loss = ReduceMean(%sq) {keepdims=0}\n"
                                   "  output \"loss\" = %loss\n"
                                   "}\n";

static void test_after_mixing(void) { train_check_all(after_mixing); }

static int count_notes(const Report *r, NoteKind kind)
{
    int n = 0;

    for (int i = 0; i < r->n_note; i++)
        n += r->note[i].kind == kind;
    return n;
}

static const char own_mean[] = "graph \"mean\" {\n"
                               "  input %x : float64[%B,4]\n"
                               "  state %w trainable : float64[4,5] = all 0\n"
                               "  const %ones : int64[1] = {1}\n"
                               "  %y = MatMul(%x, %w)\n"
                               "  %sq = Mul(%y, %y)\n"
                               "  %each = ReduceMean(%sq, %ones) {keepdims=0}\n"
                               "  %loss = ReduceMean(%each) {keepdims=0}\n"
                               "  output \"loss\" = %loss\n"
                               "}\n";

/* A model's own mean over the batch is a partial sum, not a reason to gather. */
static void test_own_loss_is_not_gathered(void)
{
    Graph *one = train_graph(own_mean, 8), *many = NULL;
    Report *r = report_create();

    if (one && CHECK_OK(train_divide(&many, one, &(Division){ .replicas = 4, .devices = 2 }, r))) {
        CU_ASSERT_EQUAL(count_notes(r, NOTE_MIXES), 0);
        CU_ASSERT_EQUAL(count_nodes(many, &op_AllGather), 0);
        CU_ASSERT_EQUAL(count_nodes(many, &op_AllReduce), 2); /* the gradient, the loss; none for the denominator */
    }
    train_check_all(own_mean);
    graph_free(one);
    graph_free(many);
    report_free(r);
}

static void test_mixing_is_reported(void)
{
    Graph *one = train_graph(mixing, 4), *many = NULL;
    Report *r = report_create();

    if (one && CHECK_OK(train_divide(&many, one, &(Division){ .replicas = 2, .devices = 2 }, r))) {
        CU_ASSERT(count_notes(r, NOTE_MIXES) > 0);
        CU_ASSERT(count_nodes(many, &op_AllGather) > 0);
        CU_ASSERT(count_nodes(many, &op_ReduceScatter) >
                  0); /* gradients of what was gathered go back to their replicas */
    }
    graph_free(one);
    graph_free(many);
    report_free(r);
}

/* Node by node. */
static void check_same_nodes(const Graph *a, const Graph *b)
{
    uint32_t k = 0;

    FOR_NODES(a, n) {
        while (k < b->n_node && !b->node[k]->op)
            k++;
        CU_ASSERT_FATAL(k < b->n_node && b->node[k]->op == n->op && b->node[k]->n_in == n->n_in);
        CHECK_STR(n->name, b->node[k]->name);
        k++;
    }
    while (k < b->n_node && !b->node[k]->op)
        k++;
    CU_ASSERT_EQUAL(k, b->n_node);
    CU_ASSERT_EQUAL(a->n_input, b->n_input);
    CU_ASSERT_EQUAL(a->n_update, b->n_update);
}

/* Nothing in the graph when there is nothing to divide; one collective per bucket when there is. */
static void test_collectives(void)
{
    Graph *one = train_graph(mlp, 8), *same = NULL, *local = NULL, *many = NULL;

    if (one && CHECK_OK(train_divide(&same, one, &(Division){ .replicas = 1, .devices = 1 }, NULL)))
        check_same_nodes(one, same);
    if (one && CHECK_OK(train_divide(&local, one, &(Division){ .replicas = 4, .devices = 1 }, NULL)))
        CU_ASSERT_EQUAL(count_nodes(local, &op_Broadcast) + count_nodes(local, &op_AllReduce) +
                            count_nodes(local, &op_AllGather),
                        0);
    /* the denominator comes first, alone: every gradient waits for it; then four gradients and the loss go together */
    if (one && CHECK_OK(train_divide(&many, one, &(Division){ .replicas = 4, .devices = 2, .bucket = true }, NULL)))
        CU_ASSERT_EQUAL(count_nodes(many, &op_AllReduce), 2);
    graph_free(one);
    graph_free(same);
    graph_free(local);
    graph_free(many);
}

/* Attention as PyTorch exports it, the sequence in front of the batch: heads join the batch ([T,N,E] to [T,N*H,d]), and
 * products are of rows [T*N,E], of which a replica has its part of every block of N.  Nothing is gathered. */
static const char rows[] = "graph \"rows\" {\n"
                           "  input %x : float64[3,\"N\"=%B,4]\n"
                           "  input %h : float64[\"N\"=%B,4]\n"
                           "  state %w trainable : float64[4,4] = all 0\n"
                           "  state %b trainable : float64[4] = all 0\n"
                           "  state %o trainable : float64[4,4] = all 0\n"
                           "  const %flat : int64[2] = {-1,4}\n"
                           "  const %heads : int64[3] = {3,-1,2}\n"
                           "  const %back : int64[3] = {3,%B,4}\n"
                           "  %rows = Reshape(%x, %flat)\n"
                           "  %z = Gemm(%rows, %w, %b)\n"
                           "  %q = Reshape(%z, %heads)\n"
                           "  %q1 = Transpose(%q) {perm=[1,0,2]}\n"
                           "  %k1 = Transpose(%q) {perm=[1,2,0]}\n"
                           "  %scores = MatMul(%q1, %k1)\n"
                           "  %p = Softmax(%scores) {axis=-1}\n"
                           "  %y = MatMul(%p, %q1)\n"
                           "  %y1 = Transpose(%y) {perm=[1,0,2]}\n"
                           "  %r = Reshape(%y1, %flat)\n"
                           "  %out = MatMul(%r, %o)\n"
                           "  %act = Relu(%out)\n"
                           "  %all = Reshape(%act, %back)\n"
                           "  %masked = Mul(%all, %h)\n"
                           "  %sq = Mul(%masked, %masked)\n"
                           "  %loss = ReduceMean(%sq) {keepdims=0}\n"
                           "  output \"loss\" = %loss\n"
                           "}\n";

static void test_rows(void)
{
    Graph *one = train_graph(rows, 8), *many = NULL;
    Report *r = report_create();

    if (one && CHECK_OK(train_divide(&many, one, &(Division){ .replicas = 3, .devices = 3 }, r))) {
        CU_ASSERT_EQUAL(count_notes(r, NOTE_MIXES), 0);
        CU_ASSERT_EQUAL(count_nodes(many, &op_AllGather), 0);
        CU_ASSERT_EQUAL(count_nodes(many, &op_ReduceScatter), 0);
        CU_ASSERT_EQUAL(count_nodes(many, &op_AllReduce), 4); /* three gradients, the loss */
    }
    train_check_all(rows);
    graph_free(one);
    graph_free(many);
    report_free(r);
}

/* Indices that arithmetic takes to their table: positions behind an offset, two numbers that make a row. */
static const char computed_indices[] = "graph \"indices\" {\n"
                                       "  input %ids : int64[%B,3]\n"
                                       "  input %back : int64[%B,3]\n"
                                       "  state %table trainable : float64[9,4] = all 0\n"
                                       "  const %two : int64[1] = {2}\n"
                                       "  const %three : int64[3] = {3,2,1}\n"
                                       "  const %eight : int64[1] = {8}\n"
                                       "  %d = Mul(%ids, %two)\n"
                                       "  %i = Add(%d, %three)\n"
                                       "  %j = Sub(%eight, %back)\n"
                                       "  %e = Gather(%table, %i)\n"
                                       "  %f = Gather(%table, %j)\n"
                                       "  %p = Mul(%e, %f)\n"
                                       "  %loss = ReduceSum(%p) {keepdims=0}\n"
                                       "  output \"loss\" = %loss\n"
                                       "}\n";

static void test_computed_indices(void) { train_check_all(computed_indices); }

/* Rows [T*N] that must be whole: a softmax over all of them, and a constant and a result of the model's to go with
 * them. */
static const char whole_rows[] = "graph \"whole\" {\n"
                                 "  input %x : float64[3,\"N\"=%B,2]\n"
                                 "  state %w trainable : float64[2,2] = all 0\n"
                                 "  const %flat : int64[2] = {-1,2}\n"
                                 "  %z = MatMul(%x, %w)\n"
                                 "  %rows = Reshape(%z, %flat)\n"
                                 "  %s = Softmax(%rows) {axis=0}\n"
                                 "  %m = Mul(%s, %rows)\n"
                                 "  %loss = ReduceSum(%m) {keepdims=0}\n"
                                 "  output \"loss\" = %loss\n"
                                 "  output \"rows\" = %rows\n"
                                 "}\n";

static void test_whole_rows(void) { train_check_all(whole_rows); }

/* ---- the same bits on every mapping ---- */

static char *as_float32(const char *text)
{
    char *copy = strdup(text);

    for (char *at = copy; at && (at = strstr(at, "float64")); at++)
        memcpy(at, "float32", 7);
    return copy;
}

/* The first copy of every state after the step, in the order of the updates. */
static void check_same_bits(const Graph *a, const Tensor **va, const Graph *b, const Tensor **vb)
{
    int compared = 0;

    for (int i = 0; i < a->n_update; i++) {
        const char *name = value_logical_name(value(a, a->update[i].state));

        for (int k = 0; k < b->n_update; k++) {
            const Tensor *x = va[a->update[i].next.i], *y = vb[b->update[k].next.i];

            if (strcmp(name, value_logical_name(value(b, b->update[k].state))))
                continue;
            compared++;
            if (memcmp(x->data, y->data, tensor_bytes(x)))
                TEST_FAIL("'%s' has other bits on device %d", name, value(b, b->update[k].state)->device);
        }
    }
    CU_ASSERT(compared >= a->n_update);
}

/* In float32 all that a step makes stays within 1e-5.  No gradient is zero here, as that of a bias in front of
 * batch-norm is. */
static void test_float32(void)
{
    static const char *const models[] = {
        mlp, conv, NORM("%B,3,4", "%B,3,4", "  %c = Identity(%x)\n", OWN), attention, second_axis, rows
    };

    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        char *text = as_float32(models[i]);

        for (int replicas = 2; replicas <= 7; replicas++)
            for (int64_t batch = 2; batch <= 13; batch += 11)
                train_check(text, batch, &(Division){ .replicas = replicas, .devices = (replicas + 1) / 2 }, 1e-5);
        free(text);
    }
}

static void check_mappings(const char *text64, int replicas, int64_t batch)
{
    static const int uneven[] = { 0, 0, 0, 0, 0, 1, 2 };
    Division how[] = { { .replicas = replicas, .devices = 1 },
                       { .replicas = replicas, .devices = 2 },
                       { .replicas = replicas, .devices = replicas },
                       { .replicas = 7, .devices = 3, .device_of_replica = uneven } };
    char *text = as_float32(text64);
    Graph *one = train_graph(text, batch), *g[4] = { NULL };
    const Tensor **v[4] = { NULL };
    Arena *a = arena_create();

    for (int i = 0; one && i < (replicas == 7 ? 4 : 3); i++) {
        if (!CHECK_OK(train_divide(&g[i], one, &how[i], NULL)))
            break;
        v[i] = ARENA_NEW(a, const Tensor *, g[i]->n_value);
        if (!CHECK_OK(verify_batch(a, g[i], &(BuildOptions){ 0 }, 3, v[i])) || !CHECK_OK(interp_run(a, g[i], v[i])))
            break;
        if (i)
            check_same_bits(g[0], v[0], g[i], v[i]);
    }
    for (int i = 0; i < 4; i++)
        graph_free(g[i]);
    graph_free(one);
    arena_free(a);
    free(text);
}

static void test_bits(void)
{
    check_mappings(mlp, 4, 10);
    check_mappings(mlp, 7, 16);
    check_mappings(conv, 7, 9);
    check_mappings(attention, 8, 13);
}

DEFINE_SUITE(exact, { "mlp", test_mlp }, { "convolution", test_conv }, { "synchronised batch-norm", test_batch_norm },
             { "batch-norm of any rank", test_ranks }, { "float32", test_float32 },
             { "attention with tied weights", test_attention }, { "batch on the second axis", test_second_axis },
             { "a mean over the batch", test_own_loss_is_not_gathered }, { "operators that mix samples", test_mixing },
             { "mixing is reported", test_mixing_is_reported }, { "after what mixes", test_after_mixing },
             { "rows of a sequence-first batch", test_rows }, { "rows that are gathered", test_whole_rows },
             { "indices that are computed", test_computed_indices }, { "collectives", test_collectives },
             { "the same bits on every mapping", test_bits });
