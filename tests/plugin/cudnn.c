/* cuDNN's answers for devices that are not there: every convolution of ResNet-50 and of the models in models/, and
 * attention as GPT-2 has it, are planned for each capability that the plug-in was built for.
 *
 * A plan here has been built by cuDNN to the end: engine found, compiled where it compiles at run time, workspace
 * known.  Only loading its code on a device and running it are left.  What was planned is counted against numbers that
 * come from the networks' definitions. */
#include <stdlib.h>
#include <string.h>

#include "exec/run/interp.h"
#include "graph/ops/attention.gen.h"
#include "graph/ops/conv.gen.h"
#include "graph/onnx/onnx.h"
#include "kernels/backend.h"
#include "passes/build_parts.h"
#include "tests/plugin/plugin.h"

static int count_capabilities(void)
{
    int n = 0;

    while (plugin_capabilities[n])
        n++;
    return n;
}

/* ---- ResNet-50 (He et al., Deep Residual Learning, 2015, table 1) ---- */

typedef struct {
    int in, c, k, kernel, stride;
} Layer;

/* Each shape once: 23 of its 53 convolutions are different.  The stride is in the 3x3 convolution, as everyone trains
 * it. */
static int resnet50(Layer out[64])
{
    int n = 0, size = 56, channels = 64;

    out[n++] = (Layer){ 224, 3, 64, 7, 2 };
    for (int stage = 0, width = 64; stage < 4; stage++, width *= 2) {
        int stride = stage ? 2 : 1;

        out[n++] = (Layer){ size, channels, width, 1, 1 };
        out[n++] = (Layer){ size, width, width, 3, stride };
        out[n++] = (Layer){ size, channels, 4 * width, 1, stride };
        size /= stride;
        if (stage) { /* in the first stage these two are like those above */
            out[n++] = (Layer){ size, width, 4 * width, 1, 1 };
            out[n++] = (Layer){ size, width, width, 3, 1 };
        }
        out[n++] = (Layer){ size, 4 * width, width, 1, 1 };
        channels = 4 * width;
    }
    return n;
}

static GpuConv convolution(const Layer *l, ConvKind kind, DType dtype, bool channels_last)
{
    int64_t out = l->in / l->stride, pad = l->kernel / 2;

    return (GpuConv){ .kind = kind,
                      .dtype = dtype,
                      .channels_last = channels_last,
                      .n_spatial = 2,
                      .n = 64,
                      .c = l->c,
                      .k = l->k,
                      .group = 1,
                      .in = { l->in, l->in },
                      .kernel = { l->kernel, l->kernel },
                      .out = { out, out },
                      .stride = { l->stride, l->stride },
                      .dilation = { 1, 1 },
                      .pad_before = { pad, pad },
                      .pad_after = { pad, pad } };
}

static bool plan_conv(const CudaDriver *driver, GpuDevice *d, const GpuConv *c)
{
    GpuPlan *p = NULL;
    size_t workspace;

    if (!PLUGIN_OK(driver, driver->conv(d, c, &p, &workspace)))
        return false;
    CU_ASSERT_TRUE(workspace <= (size_t)2 << 30);
    driver->plan_free(p);
    return true;
}

static void test_resnet50(void)
{
    static const DType dtypes[] = { DT_BFLOAT16, DT_FLOAT16, DT_FLOAT32 };
    const CudaDriver *driver = plugin_driver();
    Layer layer[64];
    int n = resnet50(layer), n_device = count_capabilities(), planned = 0;

    CU_ASSERT_EQUAL(n, 23);
    for (int i = 0; driver && i < n_device; i++) {
        GpuDevice *d = plugin_device(driver, plugin_capabilities[i], NULL);

        for (int t = 0; d && t < 3; t++)
            for (int last = 0; last < 2; last++)
                for (int l = 0; l < n; l++)
                    for (int kind = CONV_FORWARD; kind <= CONV_GRAD_WEIGHT; kind++) {
                        GpuConv c = convolution(&layer[l], (ConvKind)kind, dtypes[t], last);

                        planned += plan_conv(driver, d, &c);
                    }
        driver->runtime.close(d);
    }
    CU_ASSERT_EQUAL(planned, n_device * 3 * 2 * 23 * 3);
}

/* With a bias and Relu, and with another value added before: for these too heuristics name an engine that is there
 * compiled, whatever the type and the layout. */
static void test_relu(void)
{
    static const DType dtypes[] = { DT_BFLOAT16, DT_FLOAT16, DT_FLOAT32, DT_FLOAT64 };
    const CudaDriver *driver = plugin_driver();
    Layer layer[64];
    int n = resnet50(layer), n_device = count_capabilities(), planned = 0;

    for (int i = 0; driver && i < n_device; i++) {
        GpuDevice *d = plugin_device(driver, plugin_capabilities[i], NULL);

        for (int k = 0; d && k < 4 * 2 * 2 * n; k++) {
            GpuConv c = convolution(&layer[k / 16], CONV_FORWARD, dtypes[k % 4], k / 4 % 2);

            c.bias = c.relu = true;
            c.add = k / 8 % 2;
            planned += plan_conv(driver, d, &c);
        }
        driver->runtime.close(d);
    }
    CU_ASSERT_EQUAL(planned, n_device * 4 * 2 * 2 * 23);
}

/* What nobody can say the meaning of. */
static void test_refused(void)
{
    const CudaDriver *driver = plugin_driver();
    GpuDevice *d = driver ? plugin_device(driver, plugin_capabilities[0], NULL) : NULL;
    const Layer layer = { 56, 64, 64, 3, 1 };
    GpuConv c = convolution(&layer, CONV_FORWARD, DT_BFLOAT16, true);
    GpuPlan *p = NULL;
    size_t workspace;

    if (!d)
        return;
    c.relu = true;
    PLUGIN_FAILS(driver, E_INVALID, "with bias 0, Z 0, Relu 1", driver->conv(d, &c, &p, &workspace));
    c.bias = c.add = true;
    c.relu = false;
    PLUGIN_FAILS(driver, E_INVALID, "with bias 1, Z 1, Relu 0", driver->conv(d, &c, &p, &workspace));
    c.kind = CONV_GRAD_INPUT;
    c.add = false;
    PLUGIN_FAILS(driver, E_INVALID, "kind 1", driver->conv(d, &c, &p, &workspace));
    CU_ASSERT_PTR_NULL(p);
    driver->runtime.close(d);
}

/* One and three spatial axes, uneven pads, groups. */
static const GpuConv like[] = {
    { .n_spatial = 1,
      .n = 2,
      .c = 4,
      .k = 8,
      .group = 1,
      .in = { 9 },
      .kernel = { 4 },
      .out = { 9 },
      .stride = { 1 },
      .dilation = { 1 },
      .pad_before = { 1 },
      .pad_after = { 2 } },
    { .n_spatial = 2,
      .n = 2,
      .c = 3,
      .k = 5,
      .group = 1,
      .in = { 7, 8 },
      .kernel = { 3, 2 },
      .out = { 4, 5 },
      .stride = { 2, 2 },
      .dilation = { 1, 1 },
      .pad_before = { 1, 1 },
      .pad_after = { 1, 2 } },
    { .n_spatial = 2,
      .n = 2,
      .c = 64,
      .k = 64,
      .group = 4,
      .in = { 9, 9 },
      .kernel = { 3, 3 },
      .out = { 9, 9 },
      .stride = { 1, 1 },
      .dilation = { 2, 2 },
      .pad_before = { 2, 2 },
      .pad_after = { 2, 2 } },
    { .n_spatial = 3,
      .n = 2,
      .c = 3,
      .k = 5,
      .group = 1,
      .in = { 5, 6, 7 },
      .kernel = { 2, 3, 3 },
      .out = { 5, 6, 7 },
      .stride = { 1, 1, 1 },
      .dilation = { 1, 1, 1 },
      .pad_before = { 0, 1, 1 },
      .pad_after = { 1, 1, 1 } },
};

/* Bias, ReLU, the shapes above; float64 too. */
static void test_kinds(void)
{
    static const DType dtypes[] = { DT_BFLOAT16, DT_FLOAT16, DT_FLOAT32, DT_FLOAT64 };
    const CudaDriver *driver = plugin_driver();
    GpuDevice *d = driver ? plugin_device(driver, plugin_capabilities[0], NULL) : NULL;

    for (int i = 0; d && i < 4 * 4 * 2 * 6; i++) {
        GpuConv c = like[i % 4];
        int kind = i / 32;

        c.dtype = dtypes[i / 4 % 4];
        c.channels_last = i / 16 % 2;
        c.kind = kind < 3 ? (ConvKind)kind : CONV_FORWARD;
        c.bias = kind >= 3;
        c.relu = kind >= 4;
        c.add = kind == 5;
        plan_conv(driver, d, &c);
    }
    if (driver)
        driver->runtime.close(d);
}

/* ---- attention ---- */

static bool plan_attention(const CudaDriver *driver, GpuDevice *d, const GpuAttention *a, size_t *workspace)
{
    GpuPlan *p = NULL;

    if (!PLUGIN_OK(driver, driver->attention(d, a, &p, workspace)))
        return false;
    driver->plan_free(p);
    return true;
}

/* GPT-2 124M: 12 heads of depth 64, 1024 tokens, with Q, K and V in tensors of their own. */
static GpuAttention attention_of_gpt2(bool backward)
{
    GpuAttention a = { .dtype = DT_BFLOAT16,
                       .b = 4,
                       .h = 12,
                       .tq = 1024,
                       .tk = 1024,
                       .d = 64,
                       .scale = 0.125,
                       .causal = true,
                       .backward = backward };

    for (int i = ATT_Q; i <= ATT_O; i++)
        a.heads[i] = attention_dense(&a, i);
    return a;
}

/* Plans come back from the cache on disk as they were. */
static void test_gpt2(void)
{
    const CudaDriver *driver = plugin_driver();
    Folder cache;
    int n_device = count_capabilities(), planned = 0;

    if (!driver || !folder_make(&cache))
        return;
    for (int i = 0; i < 2 * n_device; i++) {
        const GpuAttention a = attention_of_gpt2(i % 2);
        size_t first = 1, second = 2;

        for (int again = 0; again < 2; again++) {
            GpuDevice *d = plugin_device(driver, plugin_capabilities[i / 2], cache.path);

            planned += d && plan_attention(driver, d, &a, again ? &second : &first);
            driver->runtime.close(d);
            CU_ASSERT_EQUAL(folder_list(&cache, NULL), i + 1);
        }
        CU_ASSERT_EQUAL(first, second);
    }
    CU_ASSERT_EQUAL(planned, 2 * 2 * n_device);
    folder_remove(&cache);
}

/* Q, K and V in one tensor, [B, T] or [T, B] rows of [3, H, D] or [H, 3, D]: the same engine, by its workspace, which
 * the cache does not mistake for another's. */
static void test_packed(void)
{
    const CudaDriver *driver = plugin_driver();

    for (int i = 0; driver && i < 2 * count_capabilities(); i++) {
        GpuDevice *d = plugin_device(driver, plugin_capabilities[i / 2], NULL);
        const GpuAttention dense = attention_of_gpt2(i % 2);
        size_t workspace = 0, packed = 1;

        if (!d || !plan_attention(driver, d, &dense, &workspace))
            return;
        for (int form = 0; form < 4; form++) {
            const int64_t head = form & 1 ? 3 * dense.d : dense.d, row = 3 * dense.h * dense.d;
            const bool tokens_first = form & 2;
            GpuAttention a = dense;

            for (int t = ATT_Q; t <= ATT_V; t++)
                a.heads[t] = (GpuHeads){ tokens_first ? row : row * a.tk, tokens_first ? row * a.b : row, head };
            if (tokens_first)
                a.heads[ATT_O] = (GpuHeads){ a.h * a.d, a.b * a.h * a.d, a.d };
            CU_ASSERT(plan_attention(driver, d, &a, &packed));
            CU_ASSERT_EQUAL(packed, workspace);
        }
        driver->runtime.close(d);
    }
}

static void test_attention_refused(void)
{
    const CudaDriver *driver = plugin_driver();
    GpuDevice *d = driver ? plugin_device(driver, plugin_capabilities[0], NULL) : NULL;
    GpuAttention a = { .dtype = DT_FLOAT32, .b = 1, .h = 1, .tq = 16, .tk = 16, .d = 64, .scale = 1 };
    GpuPlan *p = NULL;
    size_t workspace;

    if (!d)
        return;
    PLUGIN_FAILS(driver, E_UNSUPPORTED, "attention float32", driver->attention(d, &a, &p, &workspace));
    CU_ASSERT_PTR_NULL(p);
    driver->runtime.close(d);
}

/* ---- models, through the kernels of the engine ---- */

static bool by_cudnn(const Node *n)
{
    return n->op == &op_Conv || n->op == &op_ConvRelu || n->op == &op_ConvGradInput || n->op == &op_ConvGradWeight ||
           n->op == &op_ScaledDotProductAttention || n->op == &op_ScaledDotProductAttentionGrad ||
           n->op == &op_PackedAttention || n->op == &op_PackedAttentionGrad;
}

/* How many nodes were prepared; -1 after a failed check. */
static int prepare_nodes(const CudaDriver *driver, GpuDevice *d, const Graph *g)
{
    KernelCtx ctx = { .runtime = &driver->runtime, .gpu = d };
    int n_prepared = 0;

    FOR_NODES(g, n) {
        const Kernel *kernel = by_cudnn(n) ? kernel_find(kernels_cuda, kernels_cuda_len, g, n) : NULL;
        void *state = NULL;

        if (!by_cudnn(n))
            continue;
        if (!kernel)
            TEST_FAIL("no kernel for %s", node_text(g, n));
        if (!kernel || !CHECK_OK(kernel->prepare(&state, &ctx, g, n)))
            return -1;
        kernel->release(state);
        n_prepared++;
    }
    return n_prepared;
}

static Graph *training_graph(const char *name, DType precision)
{
    BuildParts opt = {
        .build.mode = BUILD_TRAIN, .batch.batch = 6, .recipes.loss = &loss_cross_entropy, .types.precision = precision
    };
    char path[512];
    Graph *g = NULL;

    opt.backend.backend = cuda_target(precision, false);
    snprintf(path, sizeof path, SOURCE_DIR "/models/%s.onnx", name);
    if (!CHECK_OK(onnx_import_file(&g, NULL, path, NULL)))
        return NULL;
    if (CHECK_OK(pipeline_run(g, build_parts(&opt), interp_node, NULL, NULL)))
        return g;
    graph_free(g);
    return NULL;
}

/* Counted in the files: n convolutions are 3 n - 1 nodes, because no gradient by the model's input is needed.
 * Attention, forward and backward, is one node in 16 bits alone. */
static const struct {
    const char *name;
    int convolutions, attention;
} models[] = {
    { "exported_encoder", 3 * 1 - 1, 2 * 2 },
    { "exported_folded", 3 * 6 - 1, 0 },
    { "exported_mobilenet", 3 * 14 - 1, 0 },
    { "exported_resnet", 3 * 9 - 1, 0 },
    { "fashion_cnn", 3 * 3 - 1, 0 },
    { "resnet20", 3 * 21 - 1, 0 },
    { "transformer", 0, 2 * 5 },
    { "unet", 3 * 11 - 1, 0 },
};

static void test_models(void)
{
    const CudaDriver *driver = plugin_driver();
    Folder cache;

    if (!driver || !folder_make(&cache))
        return;
    for (size_t m = 0; m < sizeof models / sizeof *models; m++)
        for (int half = 0; half < 2; half++) {
            Graph *g = training_graph(models[m].name, half ? DT_BFLOAT16 : DT_NONE);

            for (int i = 0; g && plugin_capabilities[i]; i++) {
                GpuDevice *d = plugin_device(driver, plugin_capabilities[i], cache.path);
                int n = d ? prepare_nodes(driver, d, g) : -1,
                    expected = models[m].convolutions + (half ? models[m].attention : 0);

                if (n != expected)
                    TEST_FAIL("%s, %d bits: %d of %d nodes planned", models[m].name, half ? 16 : 32, n, expected);
                driver->runtime.close(d);
            }
            graph_free(g);
        }
    folder_remove(&cache);
}

DEFINE_SUITE(cudnn, { "every convolution of ResNet-50", test_resnet50 }, { "other kinds of convolution", test_kinds },
             { "convolutions with Relu", test_relu }, { "convolutions that are refused", test_refused },
             { "attention of GPT-2", test_gpt2 }, { "of one tensor", test_packed },
             { "attention in float32", test_attention_refused }, { "the models' nodes", test_models });
