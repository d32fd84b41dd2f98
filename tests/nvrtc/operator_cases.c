/* Every kernel that is generated for an operator case (tests/ops/cases), of all candidates for it, as each floating
 * type, by rows and channels last, compiled by NVRTC to machine code for a described H100.
 *
 * What is generated is learnt where it is asked for: the nodes are prepared for a described device, and the library
 * that would confirm its calls writes down each source that comes to be compiled.  So a kernel that begins to generate
 * needs no line here. A program of its own: it takes a minute of a processor, divided among processes. */
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kernels/backend.h"
#include "exec/device/describe.h"
#include "kernels/cuda/expr.h"
#include "tests/ops/case.h"
#include "tests/plugin/plugin.h"

static const DType types[] = { DT_FLOAT32, DT_FLOAT64, DT_FLOAT16, DT_BFLOAT16 };
enum { N_TYPES = sizeof types / sizeof *types, MOST_PROCESSES = 8, BATCH = 16 };
/* Somewhat fewer than there are: cases come, and seldom go. */
enum { LEAST_DISTINCT = 800, LEAST_OF_TYPE = 200, LEAST_CHANNELS_LAST = 80 };

/* ---- the library that writes down ---- */

typedef struct {
    char *text, *name;
} Source;

/* A described device is opened with `opt`, by which its library finds the rest. */
struct GpuDevice {
    GpuOptions opt;
    GpuInfo info;
    Source *source; /* distinct */
    int n, asked;
};

static const char *message(void) { return "the library of this test plans nothing"; }
static void close_nothing(GpuDevice *d) { (void)d; }
static void free_nothing(GpuModule *m) { (void)m; }

static Status open_writer(GpuDevice **out, int index, const GpuOptions *opt)
{
    (void)index;
    *out = (GpuDevice *)(uintptr_t)opt;
    return ST_OK;
}

static Status any_kernel(GpuDevice *d, const char *name, GpuKernel **out)
{
    (void)d;
    (void)name;
    (void)out;
    return ST_OK;
}

static Status write_down(GpuDevice *d, const char *text, const char *name, GpuModule **out)
{
    int i = 0;

    d->asked++;
    *out = NULL;
    while (i < d->n && strcmp(d->source[i].text, text))
        i++;
    if (i < d->n)
        return ST_OK;
    if (!(d->n & (d->n - 1))) /* 0 and powers of two: full */
        d->source = realloc(d->source, (size_t)(d->n ? 2 * d->n : 1) * sizeof *d->source);
    CU_ASSERT_PTR_NOT_NULL_FATAL(d->source);
    d->source[d->n++] = (Source){ strdup(text), strdup(name) };
    return ST_OK;
}

static Status no_gemm(GpuDevice *d, const GpuGemm *desc, GpuPlan **out, size_t *workspace)
{
    (void)d, (void)desc, (void)out, (void)workspace;
    return E_UNSUPPORTED;
}

static Status no_conv(GpuDevice *d, const GpuConv *desc, GpuPlan **out, size_t *workspace)
{
    (void)d, (void)desc, (void)out, (void)workspace;
    return E_UNSUPPORTED;
}

static Status no_attention(GpuDevice *d, const GpuAttention *desc, GpuPlan **out, size_t *workspace)
{
    (void)d, (void)desc, (void)out, (void)workspace;
    return E_UNSUPPORTED;
}

static const CudaDriver writer = {
    .runtime = { .abi = RUNTIME_ABI, .name = "cuda", .message = message, .open = open_writer, .close = close_nothing },
    .kernel = any_kernel,
    .compile = write_down,
    .module_free = free_nothing,
    .gemm = no_gemm,
    .conv = no_conv,
    .attention = no_attention
};

/* ---- the cases' nodes ---- */

typedef struct {
    GpuDevice *device, *described;
    int *by_kernel;       /* of each of kernels_cuda: how often it asked for a compilation */
    int by_type[N_TYPES]; /* the same for each type, as stored by rows */
    int channels_last;
} Cases;

static void prepare_kernel(Cases *c, int k, const Graph *g)
{
    KernelCtx ctx = { .n_threads = 1, .runtime = described_runtime(), .gpu = c->described };
    const Kernel *kernel = kernels_cuda[k];
    int before = c->device->asked;
    void *state = NULL;

    if (kernel->prepare && CHECK_OK(kernel->prepare(&state, &ctx, g, g->node[0])) && kernel->release && state)
        kernel->release(state);
    c->by_kernel[k] += c->device->asked - before;
}

static bool shapes_known(const Graph *g, const Node *n)
{
    for (int i = 0; i < n->n_out; i++)
        if (has_value(n->out[i]) && !shape_known(value(g, n->out[i])->shape))
            return false;
    return true;
}

/* By every candidate; returns how often something was to be compiled. */
static int prepare_node(Cases *c, const Graph *g)
{
    int before = c->device->asked;

    for (int k = 0; k < kernels_cuda_len; k++)
        if (kernel_find(&kernels_cuda[k], 1, g, g->node[0]))
            prepare_kernel(c, k, g);
    return c->device->asked - before;
}

static void prepare_case(Cases *c, const Case *line, int type)
{
    Graph *g;

    if (case_graph(&g, line, types[type]))
        return; /* the operator does not know the type */
    if (g->n_node == 1 && shapes_known(g, g->node[0])) {
        c->by_type[type] += prepare_node(c, g);
        if ((op_any_layout(g->node[0]->op) || g->node[0]->op->layout != LAYOUT_FIXED) &&
            case_set_layouts(g, g->node[0], LAYOUT_CHANNELS_LAST))
            c->channels_last += prepare_node(c, g);
    }
    graph_free(g);
}

static void read_line(Cases *c, char *line)
{
    Case *parsed = malloc(sizeof *parsed);

    line += strspn(line, " \t");
    line[strcspn(line, "\r\n")] = '\0';
    if (*line && *line != '#' && parsed && CHECK_OK(case_parse(parsed, line)))
        for (int t = 0; t < (case_has_f(parsed) ? N_TYPES : 1); t++)
            prepare_case(c, parsed, t);
    free(parsed);
}

static void read_cases(Cases *c)
{
    size_t cap = 0;
    char *line = NULL;
    glob_t found;

    CU_ASSERT_EQUAL_FATAL(glob(SOURCE_DIR "/tests/ops/cases/*.txt", 0, NULL, &found), 0);
    for (size_t i = 0; i < found.gl_pathc; i++) {
        FILE *f = fopen(found.gl_pathv[i], "r");

        CU_ASSERT_PTR_NOT_NULL_FATAL(f);
        while (getline(&line, &cap, f) >= 0)
            read_line(c, line);
        fclose(f);
    }
    free(line);
    globfree(&found);
}

/* ---- NVRTC ---- */

/* One program of several sources, for NVRTC reads the headers again for each program: source i is in a namespace of its
 * own and its kernel is called NAME_i, because kernels of several sources have the same name. The headers come first,
 * outside of the namespaces; where a source lacks one that it needs, test_ops finds it: there each is compiled alone.
 */
static char *batch_text(const Source *s, int first, int of, int n)
{
    static const char include[] = "#include";
    char *text = NULL;
    size_t len;
    FILE *f = open_memstream(&text, &len);

    CU_ASSERT_PTR_NOT_NULL_FATAL(f);
    for (int i = first; i < n; i += of)
        for (const char *at = s[i].text; (at = strstr(at, include)); at += sizeof include - 1)
            fprintf(f, "%.*s\n", (int)strcspn(at, "\n"), at);
    for (int i = first; i < n; i += of)
        fprintf(f, "#define %s %s_%d\nnamespace source_%d\n{\n%s\n}\n#undef %s\n", s[i].name, s[i].name, i, i,
                s[i].text, s[i].name);
    fclose(f);
    return text;
}

/* Every `of`th source from `first` on and before n, as one program; returns how many kernels it does not have. */
static int compile_batch(const CudaDriver *driver, GpuDevice *d, const Source *s, int first, int of, int n)
{
    char *text = batch_text(s, first, of, n), name[256];
    GpuModule *m = NULL;
    GpuKernel *k;
    int failed = 0;

    if (driver->compile(d, text, s[first].name, &m)) {
        fprintf(stderr, "%s\n%s\n", driver->runtime.message(), text);
        failed++;
    }
    for (int i = first; m && i < n; i += of) {
        snprintf(name, sizeof name, "%s_%d", s[i].name, i);
        if (driver->module_kernel(m, name, &k)) {
            fprintf(stderr, "%s\n%s\n", driver->runtime.message(), s[i].text);
            failed++;
        }
    }
    driver->module_free(m);
    free(text);
    return failed;
}

/* Every `of`th source from `first` on; returns how many did not become code with its kernel. */
static int compile_part(const GpuDevice *written, const Folder *cache, int first, int of)
{
    const CudaDriver *driver = plugin_driver();
    GpuOptions opt = written->opt;
    GpuDevice *d = NULL;
    int failed = 0;

    opt.cache_dir = cache->path;
    opt.confirm = NULL;
    if (!driver || !PLUGIN_OK(driver, driver->runtime.open(&d, 0, &opt)))
        return 1;
    for (int i = first; i < written->n; i += of * BATCH) {
        const int end = i + of * BATCH;

        failed += compile_batch(driver, d, written->source, i, of, end < written->n ? end : written->n);
    }
    driver->runtime.close(d);
    return failed;
}

/* How many programs `of` processes make of n sources. */
static int count_batches(int n, int of)
{
    int all = 0;

    for (int first = 0; first < of && first < n; first++)
        all += ((n - first + of - 1) / of + BATCH - 1) / BATCH;
    return all;
}

static void compile_all(const GpuDevice *written)
{
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    int n = processors < 1 ? 1 : processors < MOST_PROCESSES ? (int)processors : MOST_PROCESSES;
    pid_t child[MOST_PROCESSES];
    Folder cache;

    if (!folder_make(&cache))
        return;
    for (int i = 0; i < n; i++)
        if (!(child[i] = fork()))
            _exit(compile_part(written, &cache, i, n) != 0);
    for (int i = 0; i < n; i++) {
        int status = -1;

        CU_ASSERT_TRUE(waitpid(child[i], &status, 0) == child[i] && WIFEXITED(status) && !WEXITSTATUS(status));
    }
    CU_ASSERT_EQUAL(folder_machine_code(&cache), count_batches(written->n, n));
    folder_remove(&cache);
}

/* ---- the test ---- */

/* The cases are all there, and reach every kernel that is known to generate. */
static void check_reach(const Cases *c)
{
    for (int t = 0; t < N_TYPES; t++)
        if (c->by_type[t] < LEAST_OF_TYPE)
            TEST_FAIL("%s: %d kernels are generated, expected at least %d", dtype_name(types[t]), c->by_type[t],
                      LEAST_OF_TYPE);
    if (c->channels_last < LEAST_CHANNELS_LAST)
        TEST_FAIL("%d kernels are generated for channels last, expected at least %d", c->channels_last,
                  LEAST_CHANNELS_LAST);
    if (c->device->n < LEAST_DISTINCT)
        TEST_FAIL("%d kernels are distinct, expected at least %d", c->device->n, LEAST_DISTINCT);
    for (int k = 0; k < kernels_cuda_len; k++)
        if (kernels_cuda[k]->run == generated_run && !c->by_kernel[k])
            TEST_FAIL("no operator case has a kernel generated by %s", kernels_cuda[k]->name);
}

static void test_all(void)
{
    GpuDevice device = { .n = 0 };
    Cases c = { .device = &device, .by_kernel = calloc((size_t)kernels_cuda_len, sizeof(int)) };
    char *text = NULL;

    CU_ASSERT_PTR_NOT_NULL_FATAL(c.by_kernel);
    if (CHECK_OK(describe_read(&device.info, &text, SOURCE_DIR "/tests/devices/h100.json"))) {
        device.opt = (GpuOptions){ .described = &device.info, .description = text, .confirm = &writer.runtime };
        if (CHECK_OK(described_runtime()->open(&c.described, 0, &device.opt))) {
            read_cases(&c);
            described_runtime()->close(c.described);
            check_reach(&c);
            compile_all(&device);
        }
    }
    for (int i = 0; i < device.n; i++) {
        free(device.source[i].text);
        free(device.source[i].name);
    }
    free(device.source);
    free(c.by_kernel);
    free(text);
}

DEFINE_SUITE(operator_cases, { "every generated kernel", test_all });
