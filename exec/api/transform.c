/* dpx_transform and dpx_model_gradient: a graph is written to memory, and handed to the caller, or read as a model,
 * when all of it is there. */
#include <string.h>

#include "exec/api/api.h"
#include "exec/api/memory_text.h"
#include "exec/inspect/transform.h"

/* Charges the text to the graph's budget, which the text keeps when the graph is freed. */
static Status transform_to_memory(MemoryText *text, const dpx_model *m, const Options *o, const char *until,
                                  const char *format)
{
    Graph *g;
    FILE *f;
    Status st;

    TRY(transform_check_format(format));
    TRY(transform_run(&g, m->graph, o, until, NULL));
    text->budget = memory_budget_keep(arena_budget(g->arena));
    if (!(f = memory_text_open(text)))
        st = FAIL_NOMEM();
    else if (!strcmp(format, "onnx"))
        st = memory_text_close(f, onnx_export_stream(f, g, &(ExportOptions){ .model = m->onnx }));
    else
        st = memory_text_close(f, transform_print(f, g, m->graph, NULL, format));
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
        st = transform_to_memory(&text, m, (const Options *)options, until, format);
    if (!st)
        write(user, text.data, text.n);
    memory_text_free(&text);
    memory_budget_free(text.budget);
    return (dpx_status)st;
}

/* ---- gradients of outputs ---- */

static Status write_gradients(MemoryText *text, const dpx_model *m, const Options *o, const char *of, const char *by)
{
    Graph *g;
    FILE *f;
    Status st;

    TRY(transform_gradients(&g, m->graph, o, of, by));
    text->budget = memory_budget_keep(arena_budget(g->arena));
    if (!(f = memory_text_open(text)))
        st = FAIL_NOMEM();
    else
        st = memory_text_close(f, onnx_export_stream(f, g, &(ExportOptions){ .plain = true, .model = m->onnx }));
    st = memory_budget_explain(text->budget, st);
    graph_free(g);
    return st;
}

dpx_status dpx_model_gradient(dpx_model **out, const dpx_model *model, const dpx_options *options, const char *of,
                              const char *with_respect_to)
{
    MemoryText text = { 0 };
    dpx_status st;
    Options *o;

    NEED(out, "out");
    NEED(model, "model");
    NEED(of, "of");
    NEED(with_respect_to, "with_respect_to");
    if (!(o = options_create()))
        return (dpx_status)FAIL_NOMEM();
    st = (dpx_status)write_gradients(&text, model, options ? (const Options *)options : o, of, with_respect_to);
    if (!st)
        st = dpx_model_load_memory(out, text.data, text.n, "the model of gradients", NULL, NULL, NULL);
    options_free(o);
    memory_text_free(&text);
    memory_budget_free(text.budget);
    return st;
}
