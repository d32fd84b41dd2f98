/* A model that data keep from being planned: what stands in front of the node that asks for values, and behind it, is
 * computed together, as a program; what is given on, and no more, comes back. */
#include "exec/train/interpreted_part.h"

#include <math.h>
#include <string.h>

#include "exec/run/interp.h"
#include "tests/exec/part.h"
#include "tests/harness/test.h"
#include "passes/build_options.h"

typedef struct {
    PartOptions how;
    int calls, n_in[4], n_out[4];
    bool refuses;
} Counted;

static Status count(void *user, const Tensor **out, Arena *arena, const Graph *part, const Tensor *const *in)
{
    Counted *c = user;

    CU_ASSERT_FATAL(c->calls < 4);
    c->n_in[c->calls] = part->n_input;
    c->n_out[c->calls++] = part->n_output;
    return c->refuses ? FAIL(E_UNSUPPORTED, "not here") : part_compute(&c->how, out, arena, part, in);
}

static Status give(void *user, OnnxValue *out, Arena *arena, int i, const char *name, const OnnxType *type)
{
    static const int64_t trips = TRIPS;
    const Shape shape = i ? shape_scalar() : SHAPE(ROWS, WIDTH);
    Tensor *t = tensor_create(arena, type->dtype, &shape);
    const Tensor **item = ARENA_NEW(arena, const Tensor *, 1);

    (void)user;
    (void)name;
    if (!t || !item)
        return FAIL_NOMEM();
    memcpy(t->data, i ? (const void *)&trips : part_x, tensor_bytes(t));
    item[0] = t;
    *out = (OnnxValue){ .type = *type, .n = 1, .item = item };
    return ST_OK;
}

static void check_output(const OnnxNamedValue *found, const char *name, const float *want, int n)
{
    const Tensor *t = found->value.item[0];

    CHECK_STR(name, found->name);
    CU_ASSERT_EQUAL_FATAL(tensor_numel(t), n);
    for (int i = 0; i < n; i++)
        CU_ASSERT_DOUBLE_EQUAL(tensor_float(t, i), want[i], 1e-5);
}

#define COUNT(list) (int)(sizeof(list) / sizeof *(list))

static void evaluate(Counted *c, OnnxCompute *compute)
{
    const ImportOptions options = { .eval = interp_any, .compute = compute, .compute_user = c };
    Arena *a = arena_create();
    OnnxNamedValue *out;
    int n = 0;

    CU_ASSERT_PTR_NOT_NULL_FATAL(a);
    if (CHECK_OK(onnx_evaluate_file(&out, &n, a, SOURCE_DIR "/tests/exec/part.onnx", &options, give, NULL))) {
        CU_ASSERT_EQUAL_FATAL(n, 3);
        check_output(&out[0], "p", part_p, COUNT(part_p));
        check_output(&out[1], "q", part_q, COUNT(part_q));
        check_output(&out[2], "r", part_r, COUNT(part_r));
    }
    arena_free(a);
}

static void test_parts(void)
{
    BuildOptions build = { 0 };
    DeviceList devices;

    CHECK_OK(device_list_parse(&devices, "cpu:0", 1));
    for (int way = 0; way < 3; way++) {
        Counted c = { .how = { &build, &devices }, .refuses = way == 1 };

        evaluate(&c, way < 2 ? count : NULL);
        CU_ASSERT_EQUAL(c.calls, way < 2 ? 2 : 0);
        if (way == 2)
            continue;
        CU_ASSERT_EQUAL(c.n_in[0], 1);  /* x */
        CU_ASSERT_EQUAL(c.n_out[0], 3); /* h, r, g */
        CU_ASSERT_EQUAL(c.n_in[1], 3);  /* last, all, g */
        CU_ASSERT_EQUAL(c.n_out[1], 2); /* p, q */
    }
}

DEFINE_SUITE(part, { "parts of an evaluation", test_parts });
