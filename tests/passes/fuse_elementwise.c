/* A fused training graph computes the bits of the graph it was made from, and has no fewer results. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "exec/run/interp.h"
#include "exec/inspect/verify_batch.h"
#include "graph/op.h"
#include "passes/pass.h"
#include "passes/plan/plan_memory.h"
#include "tests/harness/graphs.h"
#include "tests/harness/target.h"
#include "tests/harness/test.h"

typedef struct {
    Graph *g;
    const Tensor **values;
} Run;

FUSES_ONLY(fuses_elementwise, Fused)

static BuildOptions options(DType dtype, int replicas, bool fuse)
{
    return (BuildOptions){ .mode = BUILD_TRAIN,
                           .batch = 3,
                           .loss = &loss_cross_entropy,
                           .optimizer = &optimizer_adamw,
                           .clip_norm = 1,
                           .metric = &metric_accuracy,
                           .replicas = replicas,
                           .devices = replicas > 1 ? 2 : 1,
                           .seed = 1,
                           .dtype = dtype,
                           .backend.fuses = fuse ? fuses_elementwise : NULL };
}

static bool build(Run *r, Arena *a, const char *model, const BuildOptions *opt)
{
    r->g = model_build(model, opt);
    return r->g && (r->values = ARENA_NEW(a, const Tensor *, r->g->n_value));
}

/* The inputs of `from`, by name. */
static void copy_inputs(Run *to, const Run *from)
{
    for (int i = 0; i < to->g->n_input; i++)
        to->values[to->g->input[i].i] = from->values[graph_find(from->g, value(to->g, to->g->input[i])->name).i];
}

static void check_same(const char *model, const char *name, const Tensor *a, const Tensor *b)
{
    if (!a || !b || a->dtype != b->dtype || !shape_eq(&a->shape, &b->shape) ||
        (tensor_bytes(a) && memcmp(a->data, b->data, tensor_bytes(a))))
        TEST_FAIL("%s: '%s' differs when fused", model, name);
}

static void check_results(const char *model, const Run *plain, const Run *fused)
{
    const Graph *p = plain->g, *f = fused->g;

    CU_ASSERT_EQUAL(p->n_output, f->n_output);
    CU_ASSERT_EQUAL(p->n_update, f->n_update);
    for (int i = 0; i < p->n_output; i++) {
        CHECK_STR(f->output[i].name, p->output[i].name);
        check_same(model, p->output[i].name, plain->values[p->output[i].value.i], fused->values[f->output[i].value.i]);
    }
    for (int i = 0; i < p->n_update; i++) {
        CHECK_STR(value(f, f->update[i].state)->name, value(p, p->update[i].state)->name);
        check_same(model, value(p, p->update[i].state)->name, plain->values[p->update[i].next.i],
                   fused->values[f->update[i].next.i]);
    }
}

static int count(const Graph *g, bool fused)
{
    int n = 0;

    FOR_NODES(g, x)
        n += fused ? x->op == &op_Fused : x->op->elementwise;
    return n;
}

static void check_model(const char *model, DType dtype, int replicas)
{
    BuildOptions plain_opt = options(dtype, replicas, false), fused_opt = options(dtype, replicas, true);
    Arena *a = arena_create();
    Run plain = { 0 }, fused = { 0 };

    if (build(&plain, a, model, &plain_opt) && build(&fused, a, model, &fused_opt) &&
        CHECK_OK(verify_batch(a, plain.g, &plain_opt, 1, plain.values))) {
        copy_inputs(&fused, &plain);
        if (CHECK_OK(interp_run(a, plain.g, plain.values)) && CHECK_OK(interp_run(a, fused.g, fused.values)))
            check_results(model, &plain, &fused);
        if (!count(fused.g, true) || count(fused.g, false) + count(fused.g, true) >= count(plain.g, false))
            TEST_FAIL("%s: %d nodes were not fused", model, count(plain.g, false));
        if (getenv("FUSE_SHOW"))
            printf("%s R%d: elementwise %d -> %d + %d fused\n", model, replicas, count(plain.g, false),
                   count(fused.g, false), count(fused.g, true));
    }
    graph_free(plain.g);
    graph_free(fused.g);
    arena_free(a);
}
static void check_both(const char *model)
{
    check_model(model, DT_FLOAT64, 1);
    check_model(model, DT_FLOAT32, 3);
}

#define MODEL(name) \
    static void test_##name(void) { check_both(#name); }
MODEL(mlp)
MODEL(fashion_cnn)
MODEL(resnet20)
MODEL(transformer)
MODEL(unet)
MODEL(exported_resnet)
MODEL(exported_mobilenet)
MODEL(exported_encoder)
MODEL(exported_folded)

#define CASE(name)                        \
    {                                     \
        "the bits of " #name, test_##name \
    }
DEFINE_SUITE(fuse_elementwise, CASE(mlp), CASE(fashion_cnn), CASE(resnet20), CASE(transformer), CASE(unet),
             CASE(exported_resnet), CASE(exported_mobilenet), CASE(exported_encoder), CASE(exported_folded));
