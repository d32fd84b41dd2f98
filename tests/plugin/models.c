/* Every library call, generated kernel and own kernel of the models' training steps, on described devices: cuDNN has a
 * plan for it, cuBLAS takes its description, NVRTC compiles it to machine code, the plug-in holds it.  Own kernels are
 * looked for on the architectures that this build compiles them for.  The numbers are what a dry run tells. */
#include "exec/inspect/dry_run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/harness/graphs.h"
#include "tests/plugin/plugin.h"

static const char *const gpus[] = { "a100", "h100", "b200" };
static const int capabilities[] = { 80, 90, 100 };
enum { H100 = 1, N_GPU = 3 };

typedef struct {
    int told;
    int confirmed[3], wanted[3];
    char line[1024];
} Told;

static void hear(void *user, LineLevel level, const char *line)
{
    Told *t = user;
    const char *at = strstr(line, "the libraries confirm ");

    (void)level;
    if (at &&
        sscanf(
            at,
            "the libraries confirm %d of %d plans of library calls, %d of %d generated kernels, %d of %d own kernels",
            &t->confirmed[0], &t->wanted[0], &t->confirmed[1], &t->wanted[1], &t->confirmed[2], &t->wanted[2]) == 6)
        t->told++;
    if (strstr(line, "confirm"))
        snprintf(t->line, sizeof t->line, "%s", line);
}

static Status plan(Told *t, const Graph *g, const char *precision, const char *gpu)
{
    Options *o = options_create();
    char devices[512], *text = NULL;
    size_t bytes = 0;
    FILE *f = open_memstream(&text, &bytes);
    Status st = ST_OK;

    snprintf(devices, sizeof devices, "cuda:0@" SOURCE_DIR "/tests/devices/%s.json", gpu);
    CU_ASSERT_FATAL(o && f);
    TRY_TO(done, st, options_set(o, "loss", "cross-entropy"));
    TRY_TO(done, st, options_set(o, "batch-size", "8"));
    TRY_TO(done, st, options_set(o, "precision", precision));
    TRY_TO(done, st, options_set(o, "devices", devices));
    st = dry_run(f, g, o, hear, t);
done:
    fclose(f);
    free(text);
    options_free(o);
    return st;
}

static bool is_built_for(int capability)
{
    for (const int *c = plugin_capabilities; *c; c++)
        if (*c == capability)
            return true;
    return false;
}

static void check_gpu(const Graph *g, const char *model, const char *precision, int i)
{
    Told t = { 0 };

    if (!CHECK_OK(plan(&t, g, precision, gpus[i])))
        return;
    CU_ASSERT_EQUAL(t.told, 1);
    for (int kind = 0; kind < (is_built_for(capabilities[i]) ? 3 : 2); kind++)
        if (t.wanted[kind] < 1 || t.confirmed[kind] != t.wanted[kind])
            TEST_FAIL("%s in %s on a described %s: %s", model, precision, gpus[i], t.line);
}

static const char *const models[] = { "exported_encoder", "exported_folded", "exported_mobilenet",
                                      "exported_resnet",  "fashion_cnn",     "mlp",
                                      "resnet20",         "transformer",     "unet" };

/* All models on the H100; on the others one with convolutions and one with attention: a step's graph hardly depends on
 * the architecture, the libraries' plans and the kernels' machine code do. */
static bool is_planned_for(const char *model, int gpu)
{
    return gpu == H100 || !strcmp(model, "fashion_cnn") || !strcmp(model, "transformer");
}

static void check_models(const char *precision, int from, int step)
{
    for (int m = from; m < (int)(sizeof models / sizeof *models); m += step) {
        Graph *g = model_import(models[m]);

        for (int i = 0; i < N_GPU && g; i++)
            if (is_planned_for(models[m], i))
                check_gpu(g, models[m], precision, i);
        graph_free(g);
    }
}

/* What one model has compiled another one finds in the cache. */
static void test_models(void)
{
    Folder cache;

    if (!plugin_driver() || !folder_make(&cache))
        return;
    setenv("DPEXEC_CUDA_PLUGIN", PLUGIN, 1);
    setenv("DPEXEC_CACHE_DIR", cache.path, 1);
    check_models("float32", 0, 1);
    check_models("bfloat16", 0, 1);
    check_models("float16", 4, 3); /* fashion_cnn, transformer */
    unsetenv("DPEXEC_CUDA_PLUGIN");
    unsetenv("DPEXEC_CACHE_DIR");
    folder_remove(&cache);
}

DEFINE_SUITE(models, { "confirmed on an H100, and two on an A100 and a B200", test_models });
