/* The operator cases of convolutions and attention (tests/ops/cases) as they are prepared for a described H100: cuDNN
 * has an engine for each, of every type and in either layout.  What they compute is compared on simulated devices,
 * which have every plan. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/backend.h"
#include "tests/ops/case.h"
#include "tests/plugin/plugin.h"

typedef struct {
    const CudaDriver *driver;
    GpuDevice *device;
    const char *line;
    int prepared;
} Planner;

static void prepare_node(Planner *p, const Graph *g, const Node *n, DType f)
{
    for (int i = 0; i < kernels_cuda_len; i++) {
        const Kernel *kernel = kernels_cuda[i];
        KernelCtx ctx = { .n_threads = 1, .runtime = &p->driver->runtime, .gpu = p->device };
        void *state = NULL;

        if (kernel_find(&kernel, 1, g, n) != kernel)
            continue;
        if (kernel->prepare(&state, &ctx, g, n)) {
            TEST_FAIL("%s, %s, %s: %s", p->line, dtype_name(f), kernel->name, status_message());
            continue;
        }
        if (kernel->release && state)
            kernel->release(state);
        p->prepared++;
    }
}

static void prepare_case(Planner *p, const Case *c, DType f)
{
    Graph *g = NULL;
    Node *n;

    if (!CHECK_OK(case_graph(&g, c, f)))
        return;
    n = g->n_node == 1 ? g->node[0] : NULL;
    for (int o = 0; n && o < n->n_out; o++)
        if (has_value(n->out[o]) && !shape_known(value(g, n->out[o])->shape))
            n = NULL;
    if (n) {
        prepare_node(p, g, n, f);
        if (case_set_layouts(g, n, LAYOUT_CHANNELS_LAST))
            prepare_node(p, g, n, f);
    }
    graph_free(g);
}

static void prepare_line(Planner *p)
{
    static const DType types[] = { DT_FLOAT32, DT_FLOAT64, DT_FLOAT16, DT_BFLOAT16 };
    Case *c = malloc(sizeof *c);

    CU_ASSERT_FATAL(c != NULL);
    if (CHECK_OK(case_parse(c, p->line)))
        for (int i = 0; i < (case_has_f(c) ? 4 : 1); i++)
            prepare_case(p, c, types[i]);
    free(c);
}

/* All lines of a file; `least`: how many calls are prepared at least. */
static void prepare_file(const char *path, int least)
{
    Planner p = { .driver = plugin_driver() };
    FILE *f = fopen(path, "r");
    char line[CASE_TEXT];

    CU_ASSERT(f != NULL);
    if (f && p.driver && (p.device = plugin_device(p.driver, 90, NULL))) {
        while (fgets(line, sizeof line, f)) {
            line[strcspn(line, "\r\n")] = '\0';
            p.line = line;
            if (*line && *line != '#')
                prepare_line(&p);
        }
        if (p.prepared < least)
            TEST_FAIL("%s: %d calls were prepared, expected %d", path, p.prepared, least);
        p.driver->runtime.close(p.device);
    }
    if (f)
        fclose(f);
}

static void test_convolutions(void) { prepare_file(SOURCE_DIR "/tests/ops/cases/conv.txt", 250); }
static void test_relu(void) { prepare_file(SOURCE_DIR "/tests/ops/cases/conv_relu.txt", 90); }
static void test_attention(void) { prepare_file(SOURCE_DIR "/tests/ops/cases/attention.txt", 40); }

DEFINE_SUITE(operators, { "convolutions", test_convolutions }, { "convolutions with Relu", test_relu },
             { "attention", test_attention });
