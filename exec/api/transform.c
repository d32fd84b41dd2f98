/* dpx_transform: the text goes to the caller through memory, so that nothing is printed and nothing half is left. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "exec/api/api.h"
#include "exec/transform.h"

static Status print_to_memory(const Graph *g, const char *format, char **text, size_t *bytes)
{
    FILE *f = open_memstream(text, bytes);
    Status st;

    if (!f)
        return FAIL_NOMEM();
    st = transform_print(f, g, format);
    if (fclose(f) && !st)
        st = FAIL_NOMEM();
    return st;
}

static Status read_back(FILE *f, char **text, size_t *bytes)
{
    long size;

    if (fseek(f, 0, SEEK_END) || (size = ftell(f)) < 0 || fseek(f, 0, SEEK_SET))
        return FAIL(E_IO, "cannot read the exported graph: %s", strerror(errno));
    *bytes = (size_t)size;
    if (!(*text = malloc(*bytes + 1)))
        return FAIL_NOMEM();
    return fread(*text, 1, *bytes, f) == *bytes ? ST_OK
                                                : FAIL(E_IO, "cannot read the exported graph: %s", strerror(errno));
}

/* The exporter writes files: one in a folder of its own, read back. */
static Status export_to_memory(const Graph *g, const OnnxModel *onnx, char **text, size_t *bytes)
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
    st = transform_write(g, onnx, "onnx", path);
    f = st ? NULL : fopen(path, "rb");
    if (!st)
        st = f ? read_back(f, text, bytes) : FAIL(E_IO, "%s: cannot read: %s", path, strerror(errno));
    if (f)
        fclose(f);
    unlink(path);
    rmdir(folder);
    return st;
}

static Status transform(const dpx_model *m, const Options *o, const char *until, const char *format, char **text,
                        size_t *bytes)
{
    Graph *g;
    Status st;

    TRY(transform_check_format(format));
    TRY(transform_run(&g, m->graph, o, until, NULL));
    st = !strcmp(format, "onnx") ? export_to_memory(g, m->onnx, text, bytes) : print_to_memory(g, format, text, bytes);
    graph_free(g);
    return st;
}

dpx_status dpx_transform(const dpx_model *m, const dpx_options *options, const char *until, const char *format,
                         dpx_write_fn *write, void *user)
{
    size_t bytes = 0;
    char *text = NULL;
    Status st;

    NEED(m, "model");
    NEED(options, "options");
    NEED(format, "format");
    NEED(write, "write");
    st = transform(m, (const Options *)options, until, format, &text, &bytes);
    if (!st)
        write(user, text, bytes);
    free(text);
    return (dpx_status)st;
}
