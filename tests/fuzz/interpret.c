/* A model is interpreted: node by node, and with parts computed as programs, on inputs of the shapes that it declares,
 * within a small budget of memory and nodes.  What is not computed is refused. */
#include "exec/plan/plan_budget.h"
#include "exec/run/interp.h"
#include "exec/train/interpreted_part.h"
#include "tests/fuzz/common/fuzz.h"
#include "passes/build_options.h"
#include "passes/options/memory.h"
#include "passes/options/step.h"

enum { BUDGET = 4 << 20, NODES = 2000, MOST_NUMBERS = 4096 };

static void fill(Tensor *t)
{
    for (int64_t i = 0; t->dtype != DT_STRING && i < tensor_numel(t); i++) {
        if (dtype_is_float(t->dtype))
            tensor_set_float(t, i, 0.25 * (double)(i % 7) - 0.5);
        else
            tensor_set_int(t, i, i % 2);
    }
}

/* An OnnxInput: sizes that are open are 2. */
static Status give(void *user, OnnxValue *out, Arena *a, int i, const char *name, const OnnxType *type)
{
    const Tensor **item = ARENA_NEW(a, const Tensor *, 2);
    Shape s = { .rank = type->shape.rank > 0 ? type->shape.rank : 0 };
    int64_t n = 1;
    Tensor *t;

    (void)user, (void)i;
    for (int k = 0; k < s.rank; k++) {
        s.dim[k] = type->shape.dim[k] >= 0 ? type->shape.dim[k] : 2;
        if (s.dim[k] > MOST_NUMBERS || (n *= s.dim[k]) > MOST_NUMBERS)
            return FAIL(E_INVALID, "input '%s' would be large", name);
    }
    if (!item || !(t = tensor_create(a, type->dtype, &s)))
        return FAIL_NOMEM();
    fill(t);
    item[0] = item[1] = t;
    *out = (OnnxValue){ .type = *type, .n = type->sequence ? 2 : 1, .item = item };
    return ST_OK;
}

static void interpret(const char *path, OnnxCompute *compute, bool file_modes)
{
    const BuildOptions o = { .memory = &(MemoryOptions){ .plan_memory = BUDGET },
                             .step = &(StepOptions){ .file_modes = file_modes } };
    DeviceList devices = { .n = 1, .device = { { .threads = 1 } } };
    PartOptions part = { &o, &devices };
    ImportOptions how = {
        .eval = interp_any, .compute = compute, .compute_user = &part, .max_nodes = NODES, .file_modes = file_modes
    };
    Arena *a = arena_create();
    OnnxNamedValue *out;
    Status st;
    int n;

    MUST(a, "memory");
    st = plan_evaluate(&out, &n, a, path, &how, &o, give, NULL);
    if (st) {
        fuzz_refused(st);
        MUST(st != E_INTERNAL, "a mistake of ours");
    }
    for (int i = 0; i < n && !st; i++)
        for (int k = 0; k < out[i].value.n; k++)
            MUST(out[i].value.item[k], "an output without a value");
    arena_free(a);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *path = fuzz_file("interpreted.onnx", data, size);

    interpret(path, NULL, true);
    interpret(path, part_compute, false);
    return 0;
}
