/* The harness must be able to fail: kernels and gradients that are wrong on purpose are found out, each for its
 * reason. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "graph/ir/grad.h"
#include "graph/ops/binary.gen.h"
#include "graph/ir/placement_rules.h"
#include "tests/harness/test.h"
#include "tests/ops/check.h"

/* y = x by the interpreter (a view), with what each wrong definition adds. */
static Status grad_right(Grad *gr)
{
    grad_set(gr, 0, grad_dout(gr, 0));
    return ST_OK;
}

static Status grad_twice(Grad *gr)
{
    grad_set(gr, 0, EMIT(gr->g, Add, NULL, grad_dout(gr, 0), grad_dout(gr, 0)));
    return gr->g->status;
}

static Status infer_same(Graph *g, Node *n) { return infer_like(g, n, 0); }

#define COPY_OP(...)                                                                           \
    {                                                                                          \
        .in_min = 1, .in_max = 1, .out_min = 1, .out_max = 1, .infer = infer_same, __VA_ARGS__ \
    }
static const OpDef copy_right = COPY_OP(.name = "CopyRight", .grad = grad_right, .flags = OPF_VIEW);
static const OpDef copy_twice = COPY_OP(.name = "CopyTwice", .grad = grad_twice, .flags = OPF_VIEW);
static const OpDef copy_zero = COPY_OP(.name = "CopyZero", .grad = grad_right, .flags = OPF_VIEW | OPF_ZERO_GRAD);
static const OpDef copy_missing = COPY_OP(.name = "CopyMissing", .grad = NULL, .flags = OPF_VIEW);

/* ---- kernels of a copy ---- */

static Status run_right(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    (void)ctx, (void)state;
    memmove(out->data, in->data, tensor_bytes(in));
    return ST_OK;
}

static Status run_wrong_value(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    TRY(run_right(ctx, state, in, out));
    tensor_set_float(out, 5, tensor_float(out, 5) + 1e-3);
    return ST_OK;
}

static Status run_overrun(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    TRY(run_right(ctx, state, in, out));
    ((char *)out->data)[tensor_bytes(out) + 7] = 0;
    return ST_OK;
}

static Status run_underrun(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    TRY(run_right(ctx, state, in, out));
    ((char *)in->data)[-1] = 0;
    return ST_OK;
}

static Status run_changes_input(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    TRY(run_right(ctx, state, in, out));
    ((char *)in->data)[3] ^= 1;
    return ST_OK;
}

static Status run_forgets_last(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    (void)ctx, (void)state;
    memmove(out->data, in->data, tensor_bytes(in) - 8);
    return ST_OK;
}

static Status prepare_scratch(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    (void)state, (void)g, (void)n;
    ctx->scratch_bytes = 64;
    return ST_OK;
}

static Status run_scratch_overrun(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    memset(ctx->scratch, 0, 65);
    return run_right(ctx, state, in, out);
}

/* Right unless the output stands in the input's memory. */
static Status run_not_in_place(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    memset(out->data, 0, tensor_bytes(out));
    return run_right(ctx, state, in, out);
}

static Status run_not_threaded(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    TRY(run_right(ctx, state, in, out));
    if (ctx->n_threads > 1)
        tensor_set_float(out, 0, 7);
    return ST_OK;
}

/* A [3,4] float64 input through `op`. */
static void build(Eval *e, Arena *a, const OpDef *op)
{
    Shape s = SHAPE(3, 4);
    Node *n;
    ValueId x;

    *e = (Eval){ .g = graph_create("selftest") };
    x = graph_add_input(e->g, "x0", DT_FLOAT64, &s);
    n = graph_add_node(e->g, op, NULL, NULL, 1, &x, 1, NULL);
    CHECK_OK(node_normalise(e->g, n));
    CHECK_OK(node_infer(e->g, n));
    graph_add_output(e->g, "y0", n->out[0]);
    e->in[0] = tensor_create(a, DT_FLOAT64, &s);
    for (int i = 0; i < 12; i++)
        tensor_set_float(e->in[0], i, 0.25 * i - 1);
    CHECK_OK(eval_graph(e, a));
}

static const Case any_case = { .n_arg = 1, .of = ~0u, .by = ~0u };

static void test_kernels(void)
{
    static const OpDef in_place = COPY_OP(.name = "CopyInPlace", .inplace = { 1 }, .flags = OPF_VIEW);
    static const struct {
        Kernel kernel;
        const char *message;
    } wrong[] = {
        { { .name = "wrong_value", .run = run_wrong_value }, "wrong_value, output 0: element 5" },
        { { .name = "overrun", .run = run_overrun }, "overrun writes outside its output 0 (guard byte 8)" },
        { { .name = "underrun", .run = run_underrun }, "underrun writes outside its input 0 (guard byte 1)" },
        { { .name = "changes", .run = run_changes_input }, "changes its input 0" },
        { { .name = "forgets", .run = run_forgets_last }, "forgets, output 0: element 11" },
        { { .name = "scratch", .prepare = prepare_scratch, .run = run_scratch_overrun }, "writes outside its scratch" },
        { { .name = "in_place", .run = run_not_in_place }, "in_place, output 0 in place: element 0" },
        { { .name = "threads", .run = run_not_threaded }, "threads, output 0: element 0" },
    };
    static const Kernel right = { .name = "right", .run = run_right };
    Check k = { .c = &any_case, .arena = arena_create() };
    Eval e;

    build(&e, k.arena, &in_place);
    CHECK_OK(check_kernel(&k, &e, &right, 1e-12));
    CU_ASSERT_EQUAL(k.compared, 3);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        CHECK_FAILS(E_INTERNAL, wrong[i].message, check_kernel(&k, &e, &wrong[i].kernel, 1e-12));
    eval_free(&e);
    arena_free(k.arena);
}

/* A result of 1e-4 that is wrong in its second digit: hidden beside 1, not from the norm; what is not finite does not
 * enter. */
static void test_norm(void)
{
    float right[] = { 1e-4f, -1e-4f, INFINITY }, wrong[] = { 1.1e-4f, -1e-4f, INFINITY }, zero[3] = { 0 };
    Tensor expected = { DT_FLOAT32, SHAPE(3), right }, found = { DT_FLOAT32, SHAPE(3), wrong },
           none = { DT_FLOAT32, SHAPE(3), zero };

    CHECK_OK(check_equal(&found, &expected, 2e-5, "small"));
    CHECK_OK(check_norm(&expected, &expected, 0, "small"));
    CHECK_OK(check_norm(&found, &expected, 0.08, "small"));
    CHECK_FAILS(E_INTERNAL, "small: norm of the error 1e-05, expected at most 1e-05 of 0.000141",
                check_norm(&found, &expected, 1e-5, "small"));
    CHECK_FAILS(E_INTERNAL, "none: norm of the error", check_norm(&expected, &none, 1e-5, "none"));
}

static void check_grad_of(const OpDef *op, Status st, const char *message)
{
    Check k = { .c = &any_case, .arena = arena_create() };
    Eval e;

    build(&e, k.arena, op);
    if (st)
        CHECK_FAILS(st, message, check_gradient(&k, &e));
    else
        CHECK_OK(check_gradient(&k, &e));
    CU_ASSERT_EQUAL(k.compared, st ? 0 : 1);
    eval_free(&e);
    arena_free(k.arena);
}

static void test_gradients(void)
{
    check_grad_of(&copy_right, ST_OK, NULL);
    check_grad_of(&copy_twice, E_INTERNAL, "gradient by input 0 at element 0");
    check_grad_of(&copy_zero, E_INTERNAL, "is 0, central differences give");
    check_grad_of(&copy_missing, E_UNSUPPORTED, "no gradient is known for 1 operator");
}

static Status check_line(const char *line)
{
    Case *c = calloc(1, sizeof *c);
    Check k = { .c = c, .arena = arena_create() };
    Status st = case_parse(c, line);

    if (!st)
        st = check_case(&k);
    arena_free(k.arena);
    free(c);
    return st;
}

static void test_lines(void)
{
    CHECK_OK(check_line("Exp(f[2,3])"));
    CHECK_OK(check_line("Exp(f[0,3] in 1..2)"));
    CHECK_OK(check_line("Softmax(f[2,3] = 0,0,0,1,1,1) {axis=1} => 0.333333333333333333"));
    CHECK_FAILS(E_INTERNAL, "expected 0.5",
                check_line("Softmax(f[1,3] = 0,0,0) {axis=1} => 0.333333333333333,0.5,0.3"));
    CHECK_FAILS(E_MODEL, "unknown operator 'Missing'", check_line("Missing(f[2,3])"));
    CHECK_FAILS(E_INTERNAL, "nothing was compared", check_line("NonZero(f64[3]) | nograd"));
    CHECK_FAILS(E_INVALID, "expected a type", check_line("Exp(q[2])"));
    CHECK_FAILS(E_INVALID, "not understood", check_line("Exp(f[2]) nograd"));
    CHECK_FAILS(E_INVALID, "unknown directive", check_line("Exp(f[2]) | slow"));
    CHECK_FAILS(E_INVALID, "2 values for a shape of 3", check_line("Exp(f[3] = 1,2)"));
    CHECK_FAILS(E_MODEL, "unknown attribute", check_line("Exp(f[3]) {k=1}"));
}

DEFINE_SUITE(selftest, { "wrong kernels are found", test_kernels },
             { "small results are compared by their norm", test_norm }, { "wrong gradients are found", test_gradients },
             { "wrong lines are found", test_lines });
