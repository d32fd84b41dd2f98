/* The importer: what it takes from a file is a graph that verifies, can be copied and sorted, and is told as text. */
#include "exec/run/interp.h"
#include "graph/onnx/onnx.h"
#include "graph/ir/op.h"
#include "graph/text/print.h"
#include "graph/ir/verify.h"
#include "tests/fuzz/common/fuzz.h"

/* A step that was exported has updates, whose types are known once all nodes' are: what reads one infers and
 * verifies. */
static void check_step(Graph *g)
{
    FOR_NODES(g, n)
        if (node_infer(g, n))
            return;
    (void)!graph_verify(g);
}

static void check_model(Graph *g)
{
    Graph *copy;

    MUST_DO(graph_verify(g));
    MUST_DO(graph_clone(&copy, g));
    MUST_DO(graph_sort(copy));
    MUST_DO(graph_verify(copy));
    graph_free(copy);
}

/* An OnnxMembers: few, none, absent or not said, whatever the type allows. */
static Status members(void *user, int *n, int i, const char *name, const OnnxType *type)
{
    (void)user;
    *n = (unsigned char)*name % 6 - 2;
    MUST(i >= 0 && (type->sequence || type->optional), "asked of a tensor");
    return ST_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    OnnxModel *model;
    Graph *g;
    char *text;
    Status st = onnx_import_memory(&g, &model, &(OnnxMemory){ .data = data, .size = size }, "fuzz",
                                   &(ImportOptions){ .eval = interp_node, .members = members });

    if (st) {
        fuzz_refused(st);
        MUST(!strncmp(status_message(), "fuzz: ", 6), "the message does not name the file");
        return 0;
    }
    if (graph_is_step(g))
        check_step(g);
    else
        check_model(g);
    if (!graph_text(&text, g, &(PrintOptions){ .max_elements = 4 }))
        free(text);
    graph_free(g);
    onnx_model_free(model);
    return 0;
}
