/* What fuse_product makes of a graph computes what the graph did: of each graph in golden/fuse-product, and of whole training steps
 * in float64 with every gradient; and of the models it leaves no epilogue behind. */
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "exec/interp.h"
#include "exec/verify_batch.h"
#include "graph/onnx/onnx.h"
#include "graph/op.h"
#include "graph/parse.h"
#include "passes/fuse_product.h"
#include "tests/harness/test.h"

extern const Pass pass_fuse_product;

typedef struct { Graph *g; Arena *arena; const Tensor **values; } Run;

static void run_free(Run *r)
{
    graph_free(r->g);
    arena_free(r->arena);
}

static int count(const Graph *g, const OpDef *op)
{
    int n = 0;

    FOR_NODES(g, x)
        n += x->op == op;
    return n;
}

/* ---- results ---- */

static double norm(const Tensor *t)
{
    double sum = 0;

    for (int64_t i = 0; i < tensor_numel(t); i++)
        sum += pow(tensor_float(t, i), 2);
    return sqrt(sum);
}

/* |a - b| <= limit |b|, and 1e-15 of the largest output of all: a gradient may be zero but for rounding. */
static bool same(const Tensor *a, const Tensor *b, double limit, double largest)
{
    double difference = 0;

    if (!a || !b || a->dtype != b->dtype || !shape_eq(&a->shape, &b->shape))
        return false;
    if (!dtype_is_float(a->dtype))
        return !memcmp(a->data, b->data, tensor_bytes(a));
    for (int64_t i = 0; i < tensor_numel(a); i++)
        difference += pow(tensor_float(a, i) - tensor_float(b, i), 2);
    return sqrt(difference) <= limit * norm(b) + 1e-15 * largest;
}

static void compare(const char *what, const Run *found, const Run *expected, double limit)
{
    double largest = 0;

    CU_ASSERT_EQUAL(found->g->n_output, expected->g->n_output);
    for (int i = 0; i < expected->g->n_output; i++) {
        const Tensor *t = expected->values[expected->g->output[i].value.i];

        largest = t && dtype_is_float(t->dtype) ? fmax(largest, norm(t)) : largest;
    }
    for (int i = 0; i < expected->g->n_output; i++) {
        const char *name = expected->g->output[i].name;
        ValueId v = graph_output(found->g, name);

        if (!has_value(v) || !same(found->values[v.i], expected->values[expected->g->output[i].value.i], limit, largest))
            TEST_FAIL("%s: output '%s' differs", what, name);
    }
}

/* ---- the golden graphs ---- */

static char *read_text(const char *path)
{
    FILE *f = fopen(path, "r");
    long size = f && !fseek(f, 0, SEEK_END) ? ftell(f) : -1;
    char *text = size < 0 ? NULL : calloc(1, (size_t)size + 1);

    if (text && (fseek(f, 0, SEEK_SET) || fread(text, 1, (size_t)size, f) != (size_t)size)) {
        free(text);
        text = NULL;
    }
    if (f)
        fclose(f);
    return text;
}

/* The graph behind "--- before". */
static Status open_before(Run *r, const char *file)
{
    const char *from = strstr(file, "--- before\n"), *to = from ? strstr(from + 1, "\n---") : NULL;

    *r = (Run){ .arena = arena_create() };
    if (!r->arena || !to)
        return FAIL(E_INVALID, "no graph before the pass");
    from += strlen("--- before\n");
    return graph_parse(&r->g, from, (size_t)(to + 1 - from));
}

/* Elements of either sign, the same for both graphs. */
static Status run_golden(Run *r)
{
    unsigned state = 12345;

    if (!(r->values = ARENA_NEW(r->arena, const Tensor *, r->g->n_value)))
        return FAIL_NOMEM();
    for (int i = 0; i < r->g->n_input; i++) {
        const Value *v = value(r->g, r->g->input[i]);
        Tensor *t = tensor_create(r->arena, v->dtype, &v->shape);

        if (!t)
            return FAIL_NOMEM();
        for (int64_t k = 0; k < tensor_numel(t); k++) {
            state = state * 1664525u + 1013904223u;
            if (dtype_is_float(v->dtype))
                tensor_set_float(t, k, (double)(state >> 8) / (1 << 23) - 1);
            else
                tensor_set_int(t, k, (long long)(state >> 24) - 128);
        }
        r->values[r->g->input[i].i] = t;
    }
    return interp_run(r->arena, r->g, r->values);
}

static Status apply(Graph *g)
{
    BuildOptions opt = { .mode = BUILD_TRAIN, .devices = 2, .fuse_product = true };
    PassCtx ctx = { .opt = &opt, .scratch = arena_create() };
    Status st = ctx.scratch ? pass_fuse_product.run(g, &ctx) : FAIL_NOMEM();

    arena_free(ctx.scratch);
    return st;
}

static void check_golden(const char *path)
{
    char *file = read_text(path);
    Run plain = { 0 }, fused = { 0 };

    CU_ASSERT_PTR_NOT_NULL_FATAL(file);
    if (CHECK_OK(open_before(&plain, file)) && CHECK_OK(open_before(&fused, file)) && CHECK_OK(apply(fused.g)) &&
        CHECK_OK(run_golden(&plain)) && CHECK_OK(run_golden(&fused)))
        compare(path, &fused, &plain, strstr(file, "bfloat16") ? 0x1p-8 : 1e-6);
    run_free(&plain);
    run_free(&fused);
    free(file);
}

static void test_golden(void)
{
    static const char folder[] = SOURCE_DIR "/tests/passes/golden/fuse-product";
    DIR *d = opendir(folder);
    char path[1024];
    int found = 0;

    CU_ASSERT_PTR_NOT_NULL_FATAL(d);
    for (struct dirent *e; (e = readdir(d));)
        if (e->d_name[0] != '.') {
            snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
            check_golden(path);
            found++;
        }
    closedir(d);
    CU_ASSERT(found >= 8);
}

/* What is not known is no number of rows or columns. */
static void test_rows_and_columns(void)
{
    const struct { Shape shape; int64_t rows, columns; } is[] = {
        { SHAPE(2, 3, 4), 6, 4 }, { SHAPE(5), 1, 5 }, { { .rank = 0 }, 1, 1 }, { shape_unknown(), -1, -1 }, { SHAPE(-1, 4), -1, 4 },
    };

    for (size_t i = 0; i < sizeof is / sizeof *is; i++) {
        Graph *g = graph_create("g");
        ValueId v = graph_add_value(g, V_TEMP, "v", DT_FLOAT32, &is[i].shape);

        CU_ASSERT_EQUAL(fusing_rows(g, v), is[i].rows);
        CU_ASSERT_EQUAL(fusing_columns(g, v), is[i].columns);
        graph_free(g);
    }
}

/* ---- whole steps ---- */

static Status run_step(Run *r, const char *name, const char *text, const BuildOptions *opt)
{
    char path[512];

    snprintf(path, sizeof path, SOURCE_DIR "/models/%s.onnx", name);
    *r = (Run){ .arena = arena_create() };
    if (!r->arena)
        return FAIL_NOMEM();
    TRY(text ? graph_parse(&r->g, text, strlen(text)) : onnx_import_file(&r->g, NULL, path));
    TRY(pipeline_run(r->g, opt, interp_node, NULL, NULL));
    if (!(r->values = ARENA_NEW(r->arena, const Tensor *, r->g->n_value)))
        return FAIL_NOMEM();
    TRY(verify_batch(r->arena, r->g, opt, 7, r->values));
    return interp_run(r->arena, r->g, r->values);
}

/* How many of each are left for every replica; sums: outputs of products that are sums. */
typedef struct { int products, gradients, sums, relus, relu_grads, reductions; } Left;

static Left count_left(const Graph *g)
{
    Left l = { count(g, &op_Product), 0, 0, count(g, &op_Relu), count(g, &op_ReluGrad), count(g, &op_ReduceSum) };

    FOR_NODES(g, n)
        if (n->op == &op_Product) {
            l.gradients += node_int(n, "gradient") != 0;
            l.sums += strcmp(node_string(n, "bias_grad"), "none") != 0;
        }
    return l;
}

typedef bool Computes(const Graph *g, const Node *n);

static void check_step(const char *name, const char *text, int replicas, Computes *computes, Left each)
{
    BuildOptions opt = { .mode = BUILD_TRAIN, .batch = 4, .dtype = DT_FLOAT64, .loss = LOSS_CROSS_ENTROPY, .fuse_cross_entropy = true,
                         .keep_gradients = true, .replicas = replicas, .devices = replicas > 1 ? 2 : 1, .computes = computes };
    const int expected[] = { each.products, each.gradients, each.sums, each.relus, each.relu_grads, each.reductions };
    Run plain = { 0 }, fused = { 0 };

    if (!CHECK_OK(run_step(&plain, name, text, &opt)))
        goto done;
    CU_ASSERT_EQUAL(count(plain.g, &op_Product), 0);
    opt.fuse_product = true;
    if (CHECK_OK(run_step(&fused, name, text, &opt))) {
        const Left l = count_left(fused.g);
        const int found[] = { l.products, l.gradients, l.sums, l.relus, l.relu_grads, l.reductions };

        compare(name, &fused, &plain, 1e-10);
        for (int i = 0; i < 6; i++)
            if (found[i] != expected[i] * replicas)
                TEST_FAIL("%s, %d replicas: count %d is %d, expected %d for each", name, replicas, i, found[i], expected[i]);
    }
done:
    run_free(&plain);
    run_free(&fused);
}

/* Two hidden layers: their forward products and those that make their gradients, and the gradient of the last weight. */
static void test_mlp(void)
{
    check_step("mlp", NULL, 1, NULL, (Left){ 5, 2, 3, 0, 0, 0 });
    check_step("mlp", NULL, 3, NULL, (Left){ 5, 2, 3, 0, 0, 0 });
}

/* Gelu by erf stays.  Four products of a layer have a bias: that of queries, keys and values has three in one. */
static void test_transformer(void)
{
    check_step("transformer", NULL, 2, NULL, (Left){ 40, 0, 20, 0, 0, 6 });
}

static void test_fashion_cnn(void)
{
    check_step("fashion_cnn", NULL, 1, NULL, (Left){ 1, 0, 1, 3, 3, 0 });
}

static const char tokens_text[] =
    "graph \"tokens\" {\n"
    "  input %x : float32[4,3,3]\n"
    "  state %w1 trainable : float32[3,4] = {0.5, -0.25, 1, 0.75, -1, 0.125, 0.25, -0.5, 0.375, 1.5, -0.75, 0.625}\n"
    "  state %b1 trainable : float32[4] = {0.1, -0.2, 0.3, 0}\n"
    "  state %w2 trainable : float32[4,2] = {1, -0.5, 0.25, 0.75, -1.25, 0.5, 0.125, -0.375}\n"
    "  state %b2 trainable : float32[2] = {0.05, -0.1}\n"
    "  %p = MatMul(%x, %w1)\n"
    "  %h = Add(%p, %b1)\n"
    "  %a = Gelu(%h) {approximate=\"tanh\"}\n"
    "  %q = MatMul(%a, %w2)\n"
    "  %y = Add(%q, %b2)\n"
    "  %logits = Transpose(%y) {perm=[0,2,1]}\n"
    "  output \"logits\" = %logits\n"
    "}\n";

static void test_tokens(void)
{
    check_step("tokens with Gelu by tanh", tokens_text, 1, NULL, (Left){ 4, 1, 2, 0, 0, 0 });
    check_step("tokens with Gelu by tanh", tokens_text, 3, NULL, (Left){ 4, 1, 2, 0, 0, 0 });
}

/* ---- devices that do not compute everything ---- */

static bool no_gradient(const Graph *g, const Node *n)
{
    (void)g;
    return n->op != &op_Product || !node_int(n, "gradient");
}

static bool no_mask(const Graph *g, const Node *n)
{
    (void)g;
    return n->op != &op_Product || !has_out(n, 1);
}

static bool no_sum(const Graph *g, const Node *n)
{
    (void)g;
    return n->op != &op_Product || !has_out(n, 2);
}

static bool no_product(const Graph *g, const Node *n)
{
    (void)g;
    return n->op != &op_Product;
}

/* Without gradients there is no mask either, and the gradients of the weights make all sums. */
static void test_partly(void)
{
    check_step("mlp", NULL, 1, no_gradient, (Left){ 5, 0, 3, 0, 2, 0 });
    check_step("mlp", NULL, 1, no_mask, (Left){ 5, 0, 3, 0, 2, 0 });
    check_step("mlp", NULL, 1, no_sum, (Left){ 4, 2, 0, 0, 0, 3 });
    check_step("mlp", NULL, 1, no_product, (Left){ 0, 0, 0, 2, 2, 3 });
}

DEFINE_SUITE(fuse_product, { "the golden graphs compute the same", test_golden }, { "rows and columns", test_rows_and_columns },
             { "mlp", test_mlp }, { "transformer", test_transformer }, { "fashion_cnn", test_fashion_cnn }, { "tokens", test_tokens },
             { "what a device does not compute", test_partly });
