/* Every generated kernel of the models' training programs, fused programs and their sums among them, compiled by NVRTC
 * to machine code for a described H100, in float32 and in bfloat16, by rows and channels last. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "exec/device/describe.h"
#include "graph/ops/fused.gen.h"
#include "graph/ops/update.gen.h"
#include "kernels/backend.h"
#include "kernels/cuda/expr.h"
#include "tests/harness/graphs.h"
#include "tests/plugin/plugin.h"
#include "passes/build_parts.h"

static const char *const models[] = { "exported_encoder", "exported_folded", "exported_mobilenet",
                                      "exported_resnet",  "fashion_cnn",     "mlp",
                                      "resnet20",         "transformer",     "unet" };
enum { N_MODELS = sizeof models / sizeof *models };

static Graph *training_graph(const char *name, DType precision, bool channels_last)
{
    BuildParts opt = { .build.mode = BUILD_TRAIN,
                       .batch.batch = 6,
                       .recipes.loss = &loss_cross_entropy,
                       .recipes.optimizer = &optimizer_adamw,
                       .update.clip.norm = 1,
                       .recipes.metric = { { .def = &metric_accuracy } },
                       .types.precision = precision };

    opt.backend.backend = cuda_target(precision, false);
    opt.backend.backend.layouts = channels_last ? cuda_target(precision, true).layouts : NULL;
    return model_build(name, build_parts(&opt));
}

static GpuDevice *open_h100(const CudaDriver *driver, const Folder *cache)
{
    GpuOptions opt = { .cache_dir = cache->path };
    GpuInfo info;
    GpuDevice *d = NULL;
    char *text = NULL;

    if (!CHECK_OK(describe_read(&info, &text, SOURCE_DIR "/tests/devices/h100.json")))
        return NULL;
    opt.described = &info;
    opt.description = text;
    if (!PLUGIN_OK(driver, driver->runtime.open(&d, 0, &opt)))
        d = NULL;
    free(text);
    return d;
}

typedef struct {
    int single, fused, sums, updates;
} Count;

/* Nodes whose kernel was generated and compiled; false after a failed check. */
static bool compile_nodes(Count *out, const CudaDriver *driver, GpuDevice *d, const Graph *g)
{
    KernelCtx ctx = { .runtime = &driver->runtime, .gpu = d };

    FOR_NODES(g, n) {
        const Kernel *kernel = n->device < 1 ? kernel_find(kernels_cuda, kernels_cuda_len, g, n) : NULL;
        void *state = NULL;

        const bool sums = kernel && !strcmp(kernel->name, "cuda_fused_sum"), updates = kernel && n->op == &op_Update;

        if (!kernel || (kernel->run != generated_run && !sums && !updates)) {
            if (n->op == &op_Fused)
                TEST_FAIL("%s: no kernel is generated for it", node_text(g, n));
            continue;
        }
        if (!CHECK_OK(kernel->prepare(&state, &ctx, g, n)))
            return false;
        kernel->release(state);
        *(sums ? &out->sums : updates ? &out->updates : n->op == &op_Fused ? &out->fused : &out->single) += 1;
    }
    return true;
}

static void check_models(DType precision, bool channels_last)
{
    const CudaDriver *driver = plugin_driver();
    Count all = { 0 };
    GpuDevice *d;
    Folder cache;

    if (!driver || !folder_make(&cache))
        return;
    d = open_h100(driver, &cache);
    for (int m = 0; d && m < N_MODELS; m++) {
        Graph *g = training_graph(models[m], precision, channels_last);
        Count c = { 0 };

        if (g && compile_nodes(&c, driver, d, g) && (c.updates < 1 || c.fused < 1))
            TEST_FAIL("%s: %d updates and %d fused generated kernels", models[m], c.updates, c.fused);
        all.single += c.single;
        all.fused += c.fused;
        all.sums += c.sums;
        graph_free(g);
    }
    CU_ASSERT(all.fused > 4 * N_MODELS && all.single >= 4 * N_MODELS && all.sums > 0);
    CU_ASSERT(folder_machine_code(&cache) > N_MODELS);
    driver->runtime.close(d);
    folder_remove(&cache);
}

static void test_float32(void) { check_models(DT_NONE, false); }
static void test_bfloat16(void) { check_models(DT_BFLOAT16, false); }
static void test_channels_last(void) { check_models(DT_BFLOAT16, true); }

DEFINE_SUITE(generated, { "float32", test_float32 }, { "bfloat16", test_bfloat16 },
             { "bfloat16, channels last", test_channels_last });
