/* Random models at every level of --shard: the same losses and states to the bit.  Models mix samples by sums and means
 * over the batch, which parameters multiply, so that a sum over replicas could stand at many places. */
#include "exec/train/session.h"
#include "graph/ops/activation.gen.h"
#include "graph/ops/binary.gen.h"
#include "graph/ops/matmul.gen.h"
#include "graph/ops/reduce.gen.h"
#include "graph/ops/unary.gen.h"

#include <string.h>

#include "graph/ir/emit.h"
#include "graph/ir/op.h"
#include "tests/harness/test.h"
#include "passes/build_options.h"
#include "passes/options/collectives.h"
#include "passes/options/recipes.h"
#include "passes/options/step.h"

enum { MODELS = 500, SAMPLES = 7, MOST_VALUES = 16, STEPS = 2, MOST_BYTES = 1 << 14 };

typedef struct {
    ValueId v;
    bool batch; /* axis 0 is the batch; else it has the size 1 */
    int width;
} Made;

typedef struct {
    Graph *g;
    uint64_t seed;
    int weights;
    Made made[MOST_VALUES];
    int n;
} Maker;

/* 0 to n - 1, by a linear congruential generator (Knuth, MMIX). */
static int draw(Maker *m, int n)
{
    m->seed = m->seed * 6364136223846793005u + 1442695040888963407u;
    return (int)((m->seed >> 33) % (uint64_t)n);
}

static ValueId weight(Maker *m, int rows, int columns)
{
    const Shape s = rows ? SHAPE(rows, columns) : SHAPE(columns);
    float data[64];
    char name[32];
    Tensor t = { DT_FLOAT32, s, data };

    for (int i = 0; i < tensor_numel(&t); i++)
        data[i] = (float)draw(m, 1 << 20) / (1 << 20) - 0.5f;
    snprintf(name, sizeof name, "w%d.weight", m->weights++);
    return graph_add_const(m->g, name, &t);
}

static void keep(Maker *m, ValueId v, bool batch, int width) { m->made[m->n++] = (Made){ v, batch, width }; }

static ValueId over_batch(Maker *m, const OpDef *op, ValueId v)
{
    const int64_t axis = 0;

    return emit(m->g, op, ATTRS(INT("keepdims", 1)), 2, (const ValueId[]){ v, emit_ints(m->g, 1, &axis) });
}

/* One more value of those that there are. */
static void grow(Maker *m)
{
    static const OpDef *const same[] = { &op_Tanh, &op_Sigmoid, &op_Relu, &op_Neg };
    const Made a = m->made[m->n - 1 - draw(m, m->n < 3 ? m->n : 3)], b = m->made[draw(m, m->n)];
    const int width = 2 + draw(m, 5);
    Graph *g = m->g;

    switch (draw(m, 8)) {
    case 0: keep(m, EMIT(g, MatMul, NULL, a.v, weight(m, a.width, width)), a.batch, width); break;
    case 1: keep(m, EMIT(g, Mul, NULL, a.v, weight(m, 0, a.width)), a.batch, a.width); break;
    case 2: keep(m, EMIT(g, Add, NULL, a.v, weight(m, 0, a.width)), a.batch, a.width); break;
    case 3: keep(m, over_batch(m, &op_ReduceMean, a.v), false, a.width); break;
    case 4: keep(m, over_batch(m, &op_ReduceSum, a.v), false, a.width); break;
    case 5: keep(m, emit(g, same[draw(m, 4)], NULL, 1, &a.v), a.batch, a.width); break;
    case 6:
        if (a.width == b.width)
            keep(m, EMIT(g, Mul, NULL, a.v, b.v), a.batch || b.batch, a.width);
        break;
    default:
        if (a.width == b.width)
            keep(m, EMIT(g, Sub, NULL, a.v, b.v), a.batch || b.batch, a.width);
    }
}

/* Scores of each sample: of the batch and of the last value that was made. */
static Graph *model(uint64_t seed)
{
    Maker m = { .g = graph_create("random"), .seed = seed * 2654435761u + 1 };
    const int width = 3 + draw(&m, 3);
    const Shape s = SHAPE(SAMPLES, width);
    ValueId x = graph_add_input(m.g, "x", DT_FLOAT32, &s), y;
    Made last;

    keep(&m, x, true, width);
    for (int i = 3 + draw(&m, 8); i > 0; i--)
        grow(&m);
    last = m.made[m.n - 1];
    y = EMIT(m.g, MatMul, NULL, last.v, weight(&m, last.width, 2));
    if (!last.batch)
        y = EMIT(m.g, Add, NULL, y, EMIT(m.g, MatMul, NULL, x, weight(&m, width, 2)));
    graph_add_output(m.g, "y", y);
    return m.g;
}

static NamedTensor *batch(Arena *a, const Graph *g, int step)
{
    const Shape *sx = value(g, g->input[0])->shape, st = SHAPE(SAMPLES, 2), scalar = shape_scalar();
    NamedTensor *in = ARENA_NEW(a, NamedTensor, 3);
    Maker m = { .seed = (uint64_t)step + 1 };

    in[0] = (NamedTensor){ "x", *tensor_create(a, DT_FLOAT32, sx) };
    in[1] = (NamedTensor){ "target", *tensor_create(a, DT_FLOAT32, &st) };
    in[2] = (NamedTensor){ IN_LR, *tensor_create(a, DT_FLOAT32, &scalar) };
    for (int k = 0; k < 2; k++)
        for (int64_t i = 0; i < tensor_numel(&in[k].tensor); i++)
            tensor_set_float(&in[k].tensor, i, (double)draw(&m, 1 << 20) / (1 << 20) - 0.5);
    *(float *)in[2].tensor.data = 0.05f;
    return in;
}

/* Losses of the steps and all states afterwards; 0: the model is refused. */
static size_t trained(unsigned char *out, Graph *g, ShardMode shard, int devices)
{
    const BuildOptions opt = { .recipes = &(RecipeOptions){ .loss = &loss_mse, .settings = "momentum=0.9" },
                               .collectives = &(CollectiveOptions){ .shard = shard },
                               .step = &(StepOptions){ .seed = 7 } };
    Arena *a = arena_create();
    Session *s = NULL;
    DeviceList list;
    size_t bytes = 0;
    char text[16];

    snprintf(text, sizeof text, "cpu*%d", devices);
    CHECK_OK(device_list_parse(&list, text, 1));
    if (CHECK_OK(session_create(&s, g, &opt, &list, NULL, NULL)))
        for (int k = 0; k < STEPS; k++) {
            const NamedTensor *given;
            int n = 0;

            CHECK_OK(session_step(&given, &n, s, BUILD_TRAIN, batch(a, g, k), 3));
            for (int i = 0; i < n; i++)
                if (!strcmp(given[i].name, OUT_LOSS)) {
                    memcpy(out + bytes, given[i].tensor.data, 4);
                    bytes += 4;
                }
        }
    for (int i = 0; s && i < states_count(session_states(s)); i++) {
        const State *st = states_at(session_states(s), i);
        Tensor t = { st->dtype, st->shape, out + bytes };

        CU_ASSERT_FATAL(bytes + tensor_bytes(&t) <= MOST_BYTES);
        CHECK_OK(states_get(session_states(s), st->name, &t));
        bytes += tensor_bytes(&t);
    }
    session_free(s);
    arena_free(a);
    return bytes;
}

static void test_levels(void)
{
    static const ShardMode level[] = { SHARD_OPTIMIZER, SHARD_GRADIENTS, SHARD_PARAMETERS };
    static unsigned char whole[MOST_BYTES], pieces[MOST_BYTES];

    for (int i = 0; i < MODELS; i++) {
        Graph *g = model((uint64_t)i);
        const int devices = 2 + i % 3;
        const size_t bytes = CHECK_OK(g->status) ? trained(whole, g, SHARD_NONE, devices) : 0;

        CU_ASSERT(bytes > 4 * STEPS);
        for (size_t k = 0; k < sizeof level / sizeof *level; k++)
            if (trained(pieces, g, level[k], devices) != bytes || memcmp(whole, pieces, bytes))
                TEST_FAIL("model %d on %d devices: level %d of --shard has other bits than none", i, devices,
                          (int)level[k]);
        graph_free(g);
    }
}

DEFINE_SUITE(shard_levels, { "random models at every level of --shard", test_levels });
