/* Operators that mix samples of the batch, computed on slices of all samples: what one replica gives, for parts and
 * slices that are uneven or empty; when that is chosen, and what it sends. */
#include <stdlib.h>
#include <string.h>

#include "graph/ir/collective.h"
#include "graph/ops/collective.gen.h"
#include "graph/ir/op.h"
#include "tests/harness/graphs.h"
#include "tests/harness/test.h"
#include "tests/partition/train.h"

#define HEAD                                        \
    "  input %x : float64[%B,4]\n"                  \
    "  input %t : float64[%B,5]\n"                  \
    "  state %w trainable : float64[4,5] = all 0\n" \
    "  %h = MatMul(%x, %w)\n"
#define TAIL                                  \
    "  %e = Sub(%y, %t)\n"                    \
    "  %sq = Mul(%e, %e)\n"                   \
    "  %loss = ReduceSum(%sq) {keepdims=0}\n" \
    "  output \"loss\" = %loss\n"             \
    "}\n"

static const char over_batch[] = "graph \"softmax\" {\n" HEAD "  %y = Softmax(%h) {axis=0}\n" TAIL;

/* What comes of slices is used in slices, and beside parts. */
static const char goes_on[] = "graph \"on\" {\n" HEAD "  state %v trainable : float64[5,5] = all 0\n"
                              "  %s = LogSoftmax(%h) {axis=0}\n"
                              "  %z = Exp(%s)\n"
                              "  %p = Mul(%z, %h)\n"
                              "  %q = Add(%p, %z)\n"
                              "  %y = MatMul(%q, %v)\n" TAIL;

static const char sums[] = "graph \"sums\" {\n" HEAD "  const %zero : int64[] = {0}\n"
                           "  %y = CumSum(%h, %zero)\n" TAIL;

static const char extremes[] = "graph \"extremes\" {\n" HEAD "  const %zero : int64[1] = {0}\n"
                               "  %most = ReduceMax(%h, %zero) {keepdims=1}\n"
                               "  %least = ReduceMin(%h, %zero) {keepdims=1}\n"
                               "  %a = Sub(%h, %least)\n"
                               "  %y = Sub(%a, %most)\n" TAIL;

static const char ranks[] = "graph \"ranks\" {\n" HEAD "  const %k : int64[1] = {1}\n"
                            "  const %zero : int64[1] = {0}\n"
                            "  %best, %at = TopK(%h, %k) {axis=0}\n"
                            "  %first = Squeeze(%best, %zero)\n"
                            "  %y = Add(%h, %first)\n" TAIL;

/* The batch is not in front; the axis between has fewer elements than there are replicas. */
static const char behind[] = "graph \"behind\" {\n"
                             "  input %x : float64[%B,4]\n"
                             "  input %t : float64[%B,6]\n"
                             "  state %w trainable : float64[4,6] = all 0\n"
                             "  const %apart : int64[3] = {-1,2,3}\n"
                             "  const %flat : int64[2] = {-1,6}\n"
                             "  %h = MatMul(%x, %w)\n"
                             "  %r = Reshape(%h, %apart)\n"
                             "  %p = Transpose(%r) {perm=[1,0,2]}\n"
                             "  %s = Softmax(%p) {axis=1}\n"
                             "  %b = Transpose(%s) {perm=[1,0,2]}\n"
                             "  %y = Reshape(%b, %flat)\n" TAIL;

/* Two towers: each sample of one against all of the other, both ways. */
static const char towers[] = "graph \"towers\" {\n"
                             "  input %x : float64[%B,4]\n"
                             "  input %t : float64[%B,5]\n"
                             "  state %w trainable : float64[4,3] = all 0\n"
                             "  state %v trainable : float64[5,3] = all 0\n"
                             "  input %label : int64[%B]\n"
                             "  %a = MatMul(%x, %w)\n"
                             "  %b = MatMul(%t, %v)\n"
                             "  %bt = Transpose(%b) {perm=[1,0]}\n"
                             "  %l = MatMul(%a, %bt)\n"
                             "  %lt = Transpose(%l) {perm=[1,0]}\n"
                             "  %p = LogSoftmax(%l) {axis=1}\n"
                             "  %q = LogSoftmax(%lt) {axis=1}\n"
                             "  %n = NegativeLogLikelihoodLoss(%p, %label) {reduction=\"sum\"}\n"
                             "  %m = NegativeLogLikelihoodLoss(%q, %label) {reduction=\"sum\"}\n"
                             "  %loss = Add(%n, %m)\n"
                             "  output \"loss\" = %loss\n"
                             "}\n";

static void check_all(const char *text)
{
    static const double weight[] = { 0.5, 0, 3, 1 };
    static const int64_t batches[] = { 1, 3, 5, 8 };

    for (size_t k = 0; k < sizeof batches / sizeof *batches; k++) {
        for (int replicas = 1; replicas <= 8; replicas++)
            train_check(text, batches[k],
                        &(Division){ .replicas = replicas, .devices = 1 + replicas / 2, .mix = MIX_EXCHANGE }, 1e-12);
        train_check(text, batches[k],
                    &(Division){ .replicas = 4, .devices = 4, .split = SPLIT_CHUNK, .mix = MIX_EXCHANGE }, 1e-12);
        train_check(text, batches[k],
                    &(Division){ .replicas = 4,
                                 .devices = 2,
                                 .split = SPLIT_WEIGHTS,
                                 .weight = weight,
                                 .n_weight = 4,
                                 .mix = MIX_EXCHANGE },
                    1e-12);
    }
}

typedef struct {
    int gathers, turns;
    int64_t sent; /* bytes, by all devices */
} Wire;

static Wire wire_of(const char *text, int64_t batch, int replicas, int devices, MixMode mix)
{
    Graph *one = train_graph(text, batch), *many = NULL;
    Report *r = report_create();
    Wire w = { 0 };

    if (one &&
        CHECK_OK(train_divide(&many, one, &(Division){ .replicas = replicas, .devices = devices, .mix = mix }, r)) &&
        CHECK_OK(report_graph(r, many, &(Target){ 0 }))) {
        w.gathers = count_nodes(many, &op_AllGather);
        w.turns = count_nodes(many, &op_AllToAll);
        for (int d = 0; d < r->n_load; d++)
            w.sent += r->load[d].sent_bytes;
    }
    graph_free(one);
    graph_free(many);
    report_free(r);
    return w;
}

static void test_exact(void)
{
    static const struct {
        const char *text;
        int turns; /* of three replicas on three devices: what goes there, and what comes back */
        int gathers;
    } models[] = { { over_batch, 2, 0 }, { sums, 2, 0 },   { extremes, 1, 2 },
                   { ranks, 1, 1 },      { behind, 2, 0 }, { towers, 2, 1 } };

    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        const Wire w = wire_of(models[i].text, 7, 3, 3, MIX_EXCHANGE);

        check_all(models[i].text);
        if (w.turns < models[i].turns || w.gathers > models[i].gathers)
            TEST_FAIL("model %zu: %d exchanges and %d gathers", i, w.turns, w.gathers);
        CU_ASSERT_EQUAL(wire_of(models[i].text, 7, 3, 3, MIX_GATHER).turns, 0);
    }
    check_all(goes_on);
}

/* From three replicas on fewer bytes cross than when all is gathered; of two as many. */
static void test_bytes(void)
{
    for (int replicas = 2; replicas <= 8; replicas++) {
        const Wire all = wire_of(over_batch, 240, replicas, replicas, MIX_GATHER),
                   slices = wire_of(over_batch, 240, replicas, replicas, MIX_EXCHANGE);

        CU_ASSERT(replicas == 2 ? slices.sent == all.sent : slices.sent < all.sent);
    }
}

/* A batch of [8192,5] float64 is 320 KiB: of eight replicas each receives 280 KiB of it, or of a column, 64 KiB, 56 KiB
 * there and as much back; a message counts as 64 KiB.  A small one is gathered, by one message instead of two.  The
 * devices make no difference. */
static void test_choice(void)
{
    for (int devices = 1; devices <= 8; devices *= 2) {
        CU_ASSERT_EQUAL(wire_of(over_batch, 8192, 8, devices, MIX_AUTO).turns, 2);
        CU_ASSERT_EQUAL(wire_of(over_batch, 16, 8, devices, MIX_AUTO).turns, 0);
    }
    CU_ASSERT_EQUAL(wire_of(over_batch, 16, 2, 2, MIX_AUTO).turns, 0);
}

/* Which way, and why, is said of each. */
static void test_told(void)
{
    static const struct {
        MixMode mix;
        const char *says;
    } cases[] = { { MIX_AUTO,
                    "works along the split axis; gathered: a replica receives 240 bytes, exchanged for slices "
                    "along axis 1 it would be 192" },
                  { MIX_EXCHANGE, "works along the split axis; exchanged for slices along axis 1: a replica receives "
                                  "192 bytes, gathered it would be 240" },
                  { MIX_GATHER, "works along the split axis" } };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Graph *one = train_graph(over_batch, 8), *many = NULL;
        Report *r = report_create();
        const char *said = NULL;

        if (one &&
            CHECK_OK(train_divide(&many, one, &(Division){ .replicas = 4, .devices = 2, .mix = cases[i].mix }, r)))
            for (int k = 0; k < r->n_note; k++)
                said = r->note[k].kind == NOTE_MIXES ? strstr(r->note[k].text, "works along") : said;
        CHECK_STR(said ? said : "", cases[i].says);
        graph_free(one);
        graph_free(many);
        report_free(r);
    }
}

DEFINE_SUITE(mix, { "slices of all samples", test_exact }, { "bytes", test_bytes }, { "the choice", test_choice },
             { "what is told", test_told });
