/* A fused training graph computes the bits of the graph it was made from, and has no fewer results. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "exec/run/interp.h"
#include "graph/ops/activation.gen.h"
#include "graph/ops/fused.gen.h"
#include "exec/inspect/verify_batch.h"
#include "graph/ops/fused.h"
#include "graph/text/parse.h"
#include "graph/ir/readers.h"
#include "graph/ir/verify.h"
#include "kernels/backend.h"
#include "passes/plan/plan_memory.h"
#include "passes/build_parts.h"
#include "tests/harness/graphs.h"
#include "tests/harness/target.h"
#include "tests/harness/test.h"

typedef struct {
    Graph *g;
    const Tensor **values;
} Run;

extern const Pass pass_fuse_elementwise;

FUSES_ONLY(fuses_elementwise, Fused)

static BuildParts options(DType dtype, int replicas, bool fuse)
{
    return (BuildParts){ .build.mode = BUILD_TRAIN,
                         .batch.batch = 3,
                         .recipes.loss = &loss_cross_entropy,
                         .recipes.optimizer = &optimizer_adamw,
                         .update.clip.norm = 1,
                         .recipes.metric = { { .def = &metric_accuracy } },
                         .replicas.replicas = replicas,
                         .replicas.devices = replicas > 1 ? 2 : 1,
                         .step.seed = 1,
                         .types.dtype = dtype,
                         .backend.backend.fuses = fuse ? fuses_elementwise : NULL };
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
    BuildParts plain_opt = options(dtype, replicas, false), fused_opt = options(dtype, replicas, true);
    Arena *a = arena_create();
    Run plain = { 0 }, fused = { 0 };

    if (build(&plain, a, model, build_parts(&plain_opt)) && build(&fused, a, model, build_parts(&fused_opt)) &&
        CHECK_OK(verify_batch(a, plain.g, build_parts(&plain_opt), 1, plain.values))) {
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

/* ---- what may be part of a program ---- */

static bool no_relu(const Graph *g, const Node *n)
{
    (void)g;
    return n->op != &op_Relu;
}

/* What does not join stays a node; its neighbours go together on either side of it. */
static void test_joins(void)
{
    static const char text[] =
        "graph \"g\" { input %x : float32[2]\n %a = Mul(%x, %x)\n %b = Add(%a, %x)\n %c = Relu(%b)\n"
        "%d = Neg(%c)\n %e = Abs(%d)\n output \"e\" = %e }";
    BuildParts opt = { .build.mode = BUILD_TRAIN, .backend.backend = { .fuses = fuses_elementwise, .joins = no_relu } };
    PassCtx ctx = { .scratch = arena_create(), .opt = build_parts(&opt) };
    Graph *g = NULL;
    char names[BODY_TEXT];

    if (CHECK_OK(graph_parse(&g, text, strlen(text))) && CHECK_OK(pass_fuse_elementwise.run(g, &ctx)) &&
        CHECK_OK(graph_verify(g))) {
        CU_ASSERT_EQUAL_FATAL(g->n_node, 3);
        CHECK_STR(fused_operators(names, g->node[0]), "Mul, Add");
        CU_ASSERT_PTR_EQUAL(g->node[1]->op, &op_Relu);
        CHECK_STR(fused_operators(names, g->node[2]), "Neg, Abs");
    }
    arena_free(ctx.scratch);
    graph_free(g);
}

/* A CUDA device says yes to a node if, and only if, it computes the program of that node alone. */
static void test_joins_cuda(void)
{
    static const char *const models[] = { "fashion_cnn", "transformer", "exported_mobilenet" };

    for (int i = 0; i < 3; i++) {
        BuildParts opt = options(DT_FLOAT32, 2, false);
        Target cuda = cuda_target(DT_NONE, false);
        Graph *g = model_build(models[i], build_parts(&opt));
        int count = 0;

        for (uint32_t k = 0; g && k < g->n_node; k++) {
            Node *n = g->node[k];
            Graph *body = graph_create("program");
            Arena *a = arena_create();
            Draft d;

            draft_open(&d, g, &cuda, 2, a);
            draft_begin(&d, n, &op_Fused);
            if (n->op->elementwise && n->n_out == 1 && CHECK_OK(fused_write(&d, body, 1, &n, (const bool[]){ true })) &&
                d.node.n_in) {
                CU_ASSERT_EQUAL(target_joins(&cuda, g, n), draft_is_supported(&d));
                count += target_joins(&cuda, g, n);
            }
            graph_free(body);
            arena_free(a);
        }
        CU_ASSERT(count > 10);
        graph_free(g);
    }
}

#define CASE(name)                        \
    {                                     \
        "the bits of " #name, test_##name \
    }
DEFINE_SUITE(fuse_elementwise, CASE(mlp), CASE(fashion_cnn), CASE(resnet20), CASE(transformer), CASE(unet),
             CASE(exported_resnet), CASE(exported_mobilenet), CASE(exported_encoder), CASE(exported_folded),
             { "what joins", test_joins }, { "what joins on a GPU", test_joins_cuda });
