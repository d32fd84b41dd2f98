#define _XOPEN_SOURCE 700
#include "tests/api/api.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "graph/onnx/onnx.h"
#include "graph/text/parse.h"

void make_batch(Batch *b, unsigned seed)
{
    for (int n = 0; n < SAMPLES; n++) {
        for (int i = 0; i < PIXELS; i++) {
            seed = seed * 1664525u + 1013904223u;
            b->x[n][i] = (float)(seed >> 8) / (1 << 24);
        }
        b->label[n] = (seed >> 16) % CLASSES;
    }
    b->tensor[0] =
        (dpx_tensor){ .name = "x", .dtype = DPX_FLOAT32, .rank = 2, .dim = { SAMPLES, PIXELS }, .data = b->x };
    b->tensor[1] =
        (dpx_tensor){ .name = "target", .dtype = DPX_INT64, .rank = 1, .dim = { SAMPLES }, .data = b->label };
}

dpx_trainer *make_trainer(const char *const *settings)
{
    dpx_options *o = dpx_options_create();
    dpx_model *m = NULL;
    dpx_trainer *t = NULL;

    CHECK_DPX(dpx_model_load(&m, MLP));
    for (; settings && *settings; settings++) {
        char name[64];
        const char *eq = strchr(*settings, '=');

        snprintf(name, sizeof name, "%.*s", (int)(eq - *settings), *settings);
        CHECK_DPX(dpx_options_set(o, name, eq + 1));
    }
    if (m)
        CHECK_DPX(dpx_trainer_create(&t, m, o, NULL, NULL));
    dpx_model_free(m); /* the trainer keeps what it needs */
    dpx_options_free(o);
    return t;
}

void make_folder(char buf[256])
{
    const char *tmp = getenv("TMPDIR");

    snprintf(buf, 256, "%s/dpexec-test-XXXXXX", tmp ? tmp : "/tmp");
    if (!mkdtemp(buf))
        TEST_FAIL("cannot make %s", buf);
}

static int remove_entry(const char *path, const struct stat *s, int type, struct FTW *f)
{
    (void)s, (void)type, (void)f;
    return remove(path);
}

void remove_folder(const char *path) { nftw(path, remove_entry, 8, FTW_DEPTH | FTW_PHYS); }

dpx_model *model_of_text(const char *text)
{
    char folder[256], path[300];
    dpx_model *m = NULL;
    Graph *g = NULL;

    make_folder(folder);
    snprintf(path, sizeof path, "%s/m.onnx", folder);
    if (CHECK_OK(graph_parse(&g, text, strlen(text))) && CHECK_OK(onnx_export_file(g, NULL, path)))
        CHECK_DPX(dpx_model_load(&m, path));
    graph_free(g);
    remove_folder(folder);
    return m;
}

char *read_header(void)
{
    static const char *const parts[] = { SOURCE_DIR "/include/dpexec.h", SOURCE_DIR "/include/dpexec_world.h",
                                         SOURCE_DIR "/include/dpexec_data.h" };
    char *text = calloc(1, 1 << 17);
    size_t n = 0;

    CU_ASSERT_FATAL(text != NULL);
    for (int k = 0; k < 3; k++) {
        FILE *f = fopen(parts[k], "r");
        const size_t got = f ? fread(text + n, 1, (1 << 17) - 1 - n, f) : 0;

        CU_ASSERT(got > 0);
        n += got;
        if (f)
            fclose(f);
    }
    return text;
}

char *header_function(char *at)
{
    char *exported = strstr(at, "\nDPX_API "), *sized = strstr(at, "\nDPX_SIZED ");

    return !exported || (sized && sized < exported) ? sized : exported;
}
