/* dpx_transform: the text goes to the caller through memory, so that nothing is printed and nothing half is left. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "exec/api/api.h"
#include "exec/api/memory_text.h"
#include "exec/inspect/transform.h"
#include "graph/base/arena.h"

static Status print_to_memory(const Graph *g, const Graph *model, const char *format, MemoryText *text)
{
    FILE *f = memory_text_open(text);

    return f ? memory_text_close(f, transform_print(f, g, model, format)) : FAIL_NOMEM();
}

static Status read_back(FILE *f, MemoryText *text)
{
    long size;

    if (fseek(f, 0, SEEK_END) || (size = ftell(f)) < 0 || fseek(f, 0, SEEK_SET))
        return FAIL(E_IO, "cannot read the exported graph: %s", strerror(errno));
    if (!memory_text_reserve(text, (size_t)size))
        return FAIL_NOMEM();
    text->n = fread(text->data, 1, (size_t)size, f);
    return text->n == (size_t)size ? ST_OK : FAIL(E_IO, "cannot read the exported graph: %s", strerror(errno));
}

/* The exporter writes files: one in a folder of its own, read back. */
static Status export_to_memory(const Graph *g, const OnnxModel *onnx, MemoryText *text)
{
    const char *set = getenv("TMPDIR"), *under = set && *set ? set : "/tmp";
    char folder[3840], path[4096];
    FILE *f;
    Status st;

    if (snprintf(folder, sizeof folder, "%s/dpexec-XXXXXX", under) >= (int)sizeof folder)
        return FAIL(E_IO, "TMPDIR: the path is too long");
    if (!mkdtemp(folder))
        return FAIL(E_IO, "%s: cannot create: %s", folder, strerror(errno));
    snprintf(path, sizeof path, "%s/graph.onnx", folder);
    st = transform_write(g, NULL, onnx, "onnx", path);
    f = st ? NULL : fopen(path, "rb");
    if (!st)
        st = f ? read_back(f, text) : FAIL(E_IO, "%s: cannot read: %s", path, strerror(errno));
    if (f)
        fclose(f);
    unlink(path);
    rmdir(folder);
    return st;
}

/* The text is within the graph's budget, which outlives the graph for as long as the text is held. */
static Status transform(const dpx_model *m, const Options *o, const char *until, const char *format, MemoryText *text)
{
    Graph *g;
    Status st;

    TRY(transform_check_format(format));
    TRY(transform_run(&g, m->graph, o, until, NULL));
    text->budget = memory_budget_keep(arena_budget(g->arena));
    st = !strcmp(format, "onnx") ? export_to_memory(g, m->onnx, text) : print_to_memory(g, m->graph, format, text);
    st = memory_budget_explain(text->budget, st);
    graph_free(g);
    return st;
}

dpx_status dpx_transform(const dpx_model *m, const dpx_options *options, const char *until, const char *format,
                         dpx_write_fn *write, void *user)
{
    MemoryText text = { 0 };
    Status st;

    NEED(m, "model");
    NEED(options, "options");
    NEED(format, "format");
    NEED(write, "write");
    st = model_check_attached(m, (const Options *)options);
    if (!st)
        st = transform(m, (const Options *)options, until, format, &text);
    if (!st)
        write(user, text.data, text.n);
    memory_text_free(&text);
    memory_budget_free(text.budget);
    return (dpx_status)st;
}
