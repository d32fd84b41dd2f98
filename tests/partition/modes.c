/* The other graphs than a training step: evaluation, inference, and a step in micro-batches; and the choices that are
 * not exact on purpose, against computations made by hand. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "exec/run/interp.h"
#include "graph/ops/batchnorm.gen.h"
#include "graph/ops/collective.gen.h"
#include "exec/inspect/verify_batch.h"
#include "graph/ir/op.h"
#include "tests/harness/graphs.h"
#include "tests/harness/test.h"
#include "tests/partition/train.h"
#include "passes/build_parts.h"

static const BuildParts base = { .recipes.loss = &loss_cross_entropy,
                                 .recipes.optimizer = &optimizer_sgd,
                                 .recipes.settings = "momentum=0.9;ignore-index=3",
                                 .types.dtype = DT_FLOAT64,
                                 .recipes.metric = { { .def = &metric_accuracy } },
                                 .replicas.devices = 1,
                                 .replicas.replicas = 1 };

static void check_mode(const char *model, BuildMode mode)
{
    BuildParts opt = base;
    Arena *a = arena_create();
    Graph *one, *many;
    Verify v = { 0 };

    opt.build.mode = mode;
    opt.batch.batch = 5;
    one = model_build(model, build_parts(&opt));
    opt.replicas.replicas = 3;
    opt.replicas.devices = 2;
    many = model_build(model, build_parts(&opt));
    if (one && many && CHECK_OK(verify_graphs(&v, a, one, many, build_parts(&opt), 11))) {
        CU_ASSERT(v.n_row > 0);
        CU_ASSERT(v.worst <= 1e-12);
    }
    graph_free(one);
    graph_free(many);
    arena_free(a);
}

static void test_evaluation(void)
{
    check_mode("fashion_cnn", BUILD_EVAL);
    check_mode("mlp", BUILD_EVAL);
}

static void test_inference(void)
{
    check_mode("fashion_cnn", BUILD_INFER);
    check_mode("mlp", BUILD_INFER);
}

static void test_micro_batches(void)
{
    check_mode("mlp", BUILD_ACCUMULATE);
    check_mode("fashion_cnn", BUILD_ACCUMULATE);
    check_mode("mlp", BUILD_APPLY);
}

/* ---- a step in micro-batches is the step of the whole batch ---- */

enum { MAX_STATE = 200 };

typedef struct {
    const char *name;
    const Tensor *t;
} Held;

typedef struct {
    Arena *a;
    Held held[MAX_STATE];
    int n;
} States;

static const Tensor **held(States *s, const char *name)
{
    for (int i = 0; i < s->n; i++)
        if (!strcmp(s->held[i].name, name))
            return &s->held[i].t;
    if (s->n == MAX_STATE)
        return NULL;
    s->held[s->n].name = arena_strdup(s->a, name);
    return &s->held[s->n++].t;
}

/* Rows [from, to) of every input that has `whole` of them. */
static void give(const Graph *g, const Tensor **values, const Graph *from_g, const Tensor **from, int64_t first,
                 Arena *a)
{
    for (int i = 0; i < g->n_input; i++) {
        const Value *v = value(g, g->input[i]);
        const Tensor *whole = from[graph_find(from_g, v->name).i];
        Tensor *part = arena_memdup(a, whole, sizeof *whole);

        part->shape = *v->shape;
        if (v->shape->rank)
            part->data =
                (char *)whole->data + (size_t)(first * shape_count(v->shape, 1, v->shape->rank)) * dtype_size(v->dtype);
        values[g->input[i].i] = part;
    }
}

/* One run: state from `s` where it has some, and back. */
static bool run(States *s, const Graph *g, const Tensor **values)
{
    for (uint32_t i = 1; i < g->n_value; i++)
        if (g->value[i]->kind == V_STATE)
            values[i] = *held(s, g->value[i]->name);
    if (!CHECK_OK(interp_run(s->a, g, values)))
        return false;
    for (int i = 0; i < g->n_update; i++)
        *held(s, value(g, g->update[i].state)->name) = values[g->update[i].next.i];
    return true;
}

static double distance(const Tensor *a, const Tensor *b)
{
    double diff = 0, norm = 0;

    for (int64_t i = 0; i < tensor_numel(a); i++) {
        diff += pow(tensor_float(a, i) - tensor_float(b, i), 2);
        norm += pow(tensor_float(b, i), 2);
    }
    return norm > 0 ? sqrt(diff / norm) : sqrt(diff);
}

static void check_accumulated(const char *model)
{
    static const int64_t size[] = { 6, 4, 1 };
    BuildParts opt = base;
    States whole = { .a = arena_create() }, parts = { .a = arena_create() };
    Graph *train, *micro[3] = { NULL }, *apply = NULL;
    const Tensor **batch, **v = NULL;
    int64_t at = 0;
    int compared = 0;

    opt.build.mode = BUILD_TRAIN;
    opt.batch.batch = 11;
    train = model_build(model, build_parts(&opt));
    opt.replicas.replicas = 3;
    opt.replicas.devices = 2;
    for (int i = 0; i < 3; i++) {
        opt.build.mode = BUILD_ACCUMULATE;
        opt.batch.batch = size[i];
        micro[i] = model_build(model, build_parts(&opt));
    }
    opt.build.mode = BUILD_APPLY;
    apply = model_build(model, build_parts(&opt));
    if (!train || !micro[0] || !micro[1] || !micro[2] || !apply)
        return;
    batch = ARENA_NEW(whole.a, const Tensor *, train->n_value);
    CHECK_OK(verify_batch(whole.a, train, build_parts(&opt), 5, batch));
    for (int i = 0; i < 3; at += size[i++]) {
        v = ARENA_NEW(parts.a, const Tensor *, micro[i]->n_value);
        give(micro[i], v, train, batch, at, parts.a);
        run(&parts, micro[i], v);
    }
    v = ARENA_NEW(parts.a, const Tensor *, apply->n_value);
    give(apply, v, train, batch, 0, parts.a);
    if (run(&whole, train, batch) && run(&parts, apply, v))
        for (int i = 0; i < train->n_update; i++) {
            const char *name = value(train, train->update[i].state)->name, *copy = arena_printf(parts.a, "%s@d1", name);

            CU_ASSERT(distance(*held(&parts, copy), *held(&whole, name)) <= 1e-13);
            compared++;
        }
    CU_ASSERT(compared > 6);
    CU_ASSERT(fabs(tensor_float(v[graph_output(apply, OUT_LOSS).i], 0) -
                   tensor_float(batch[graph_output(train, OUT_LOSS).i], 0)) < 1e-14);
    graph_free(train);
    for (int i = 0; i < 3; i++)
        graph_free(micro[i]);
    graph_free(apply);
    arena_free(whole.a);
    arena_free(parts.a);
}

static void test_accumulated(void) { check_accumulated("mlp"); }

/* No gradient is reduced before the last micro-batch; synchronised batch-norm needs its two collectives a layer. */
static void test_nothing_is_reduced(void)
{
    BuildParts opt = base;
    Graph *mlp, *cnn;

    opt.build.mode = BUILD_ACCUMULATE;
    opt.batch.batch = 5;
    opt.replicas.replicas = 4;
    opt.replicas.devices = 2;
    mlp = model_build("mlp", build_parts(&opt));
    cnn = model_build("fashion_cnn", build_parts(&opt));
    if (mlp && cnn) {
        CU_ASSERT_EQUAL(
            count_nodes(mlp, &op_AllReduce) + count_nodes(mlp, &op_AllGather) + count_nodes(mlp, &op_ReduceScatter), 0);
        CU_ASSERT_EQUAL(count_nodes(cnn, &op_AllGather), count_nodes(cnn, &op_BatchNormMerge) / opt.replicas.devices);
        CU_ASSERT_EQUAL(count_nodes(cnn, &op_AllReduce), count_nodes(cnn, &op_BatchNormMerge) / opt.replicas.devices);
    }
    graph_free(mlp);
    graph_free(cnn);
}

/* ---- local batch-norm ---- */

static const char local_norm[] =
    "graph \"local\" {\n"
    "  input %x : float64[%B,2,3]\n"
    "  input %m : float64[%B,2,3]\n"
    "  state %scale trainable : float64[2] = all 0\n"
    "  state %bias trainable : float64[2] = all 0\n"
    "  state %mean : float64[2] = {0.1,0.2}\n"
    "  state %var : float64[2] = {1,2}\n"
    "  %n, %mean1, %var1 = BatchNormalization(%x, %scale, %bias, %mean, %var) {training_mode=1, sync=0}\n"
    "  %nm = Mul(%n, %m)\n"
    "  %sq = Mul(%nm, %n)\n"
    "  %loss = ReduceSum(%sq) {keepdims=0}\n"
    "  update %mean := %mean1\n"
    "  update %var := %var1\n"
    "  output \"loss\" = %loss\n"
    "  output \"n\" = %n\n"
    "}\n";

/* Each replica by itself: the loss and the gradients are the sums over the parts, running statistics are replica
 * 0's. */
static void test_local_batch_norm(void)
{
    Arena *a = arena_create();
    Graph *whole = train_graph(local_norm, 5), *many = NULL,
          *part[2] = { train_graph(local_norm, 3), train_graph(local_norm, 2) };
    const Tensor **v[2], **vn;
    static const char *const sums[] = { "loss", "grad:scale", "grad:bias" };

    if (!whole || !part[0] || !part[1] ||
        !CHECK_OK(train_divide(&many, whole, &(Division){ .replicas = 2, .devices = 2 }, NULL)))
        return;
    vn = ARENA_NEW(a, const Tensor *, many->n_value);
    CHECK_OK(verify_batch(a, many, &(BuildOptions){ .recipes = &base.recipes }, 5, vn));
    CHECK_OK(interp_run(a, many, vn));
    for (int r = 0; r < 2; r++) {
        v[r] = ARENA_NEW(a, const Tensor *, part[r]->n_value);
        give(part[r], v[r], many, vn, r ? 3 : 0, a);
        CHECK_OK(interp_run(a, part[r], v[r]));
    }
    for (int i = 0; i < 3; i++) {
        const Tensor *all = vn[graph_output(many, sums[i]).i];

        for (int64_t k = 0; k < tensor_numel(all); k++)
            CU_ASSERT_DOUBLE_EQUAL(tensor_float(all, k),
                                   tensor_float(v[0][graph_output(part[0], sums[i]).i], k) +
                                       tensor_float(v[1][graph_output(part[1], sums[i]).i], k),
                                   1e-12);
    }
    for (int i = 0; i < many->n_update; i++) {
        const char *name = value_logical_name(value(many, many->update[i].state));

        for (int k = 0; k < part[0]->n_update && strcmp(name, "scale") && strcmp(name, "bias"); k++)
            if (!strcmp(name, value(part[0], part[0]->update[k].state)->name))
                CU_ASSERT(distance(vn[many->update[i].next.i], v[0][part[0]->update[k].next.i]) == 0);
    }
    graph_free(whole);
    graph_free(many);
    graph_free(part[0]);
    graph_free(part[1]);
    arena_free(a);
}

/* A replica's only sample has variance 0, however it is counted: 0.9 of the running variance stays. */
static const char single[] =
    "graph \"single\" {\n"
    "  input %x : float64[%B,2]\n"
    "  state %scale trainable : float64[2] = all 0\n"
    "  state %bias trainable : float64[2] = all 0\n"
    "  state %mean : float64[2] = {0,0}\n"
    "  state %var : float64[2] = {1,2}\n"
    "  %n, %mean1, %var1 = BatchNormalization(%x, %scale, %bias, %mean, %var) {training_mode=1, sync=0, unbiased=1}\n"
    "  %sq = Mul(%n, %n)\n"
    "  %loss = ReduceSum(%sq) {keepdims=0}\n"
    "  update %mean := %mean1\n"
    "  update %var := %var1\n"
    "  output \"loss\" = %loss\n"
    "}\n";

static void test_single_samples(void)
{
    Arena *a = arena_create();
    Graph *g = train_graph(single, 2), *many = NULL;
    const Tensor **v;
    int seen = 0;

    if (g && CHECK_OK(train_divide(&many, g, &(Division){ .replicas = 2, .devices = 2 }, NULL))) {
        v = ARENA_NEW(a, const Tensor *, many->n_value);
        CHECK_OK(verify_batch(a, many, &(BuildOptions){ .recipes = &base.recipes }, 2, v));
        for (uint32_t i = 1; i < many->n_value; i++)
            if (many->value[i]->kind == V_STATE)
                v[i] = NULL; /* what the graph says */
        CHECK_OK(interp_run(a, many, v));
        for (int i = 0; i < many->n_update; i++)
            if (!strcmp(value_logical_name(value(many, many->update[i].state)), "var")) {
                CU_ASSERT_DOUBLE_EQUAL(tensor_float(v[many->update[i].next.i], 0), 0.9, 1e-6);
                CU_ASSERT_DOUBLE_EQUAL(tensor_float(v[many->update[i].next.i], 1), 1.8, 1e-6);
                seen++;
            }
        CU_ASSERT(seen > 0);
    }
    graph_free(g);
    graph_free(many);
    arena_free(a);
}

/* ---- dropout ---- */

static const char dropout[] = "graph \"dropout\" {\n"
                              "  input %x : float64[%B,4]\n"
                              "  state %w trainable : float64[4,6] = all 0\n"
                              "  state %draw : int64[] = {7}\n"
                              "  %h = MatMul(%x, %w)\n"
                              "  %d, %mask = dpexec.RandomDropout(%h, %draw) {ratio=0.5, seed=3, key=5}\n"
                              "  %sq = Mul(%d, %d)\n"
                              "  %loss = ReduceSum(%sq) {keepdims=0}\n"
                              "  output \"loss\" = %loss\n"
                              "  output \"mask\" = %mask\n"
                              "}\n";

/* The mask is that of the sample's number in the batch, whichever replica has it (and it is a mask: some on, some
 * off). */
static void test_dropout(void)
{
    Graph *g = train_graph(dropout, 9);
    Arena *a = arena_create();
    const Tensor **v, *mask;
    int64_t on = 0;

    train_check_all(dropout);
    if (g) {
        v = ARENA_NEW(a, const Tensor *, g->n_value);
        CHECK_OK(verify_batch(a, g, &(BuildOptions){ .recipes = &base.recipes }, 5, v));
        CHECK_OK(interp_run(a, g, v));
        mask = v[graph_output(g, "mask").i];
        for (int64_t i = 0; i < tensor_numel(mask); i++)
            on += tensor_int(mask, i);
        CU_ASSERT(on > 9 && on < 45);
    }
    graph_free(g);
    arena_free(a);
}

DEFINE_SUITE(modes, { "evaluation", test_evaluation }, { "inference", test_inference },
             { "micro-batches", test_micro_batches }, { "a step in micro-batches", test_accumulated },
             { "micro-batches reduce nothing", test_nothing_is_reduced }, { "local batch-norm", test_local_batch_norm },
             { "a replica of a single sample", test_single_samples }, { "dropout", test_dropout });
