/* The text form (docs/internals/ir.md): what is read is a graph whose text reads back to the same text, and whose JSON
 * is JSON. */
#include <jansson.h>

#include "graph/text/write_dot.h"
#include "graph/text/write_json.h"
#include "graph/text/parse.h"
#include "graph/text/print.h"
#include "graph/ir/verify.h"
#include "tests/fuzz/common/fuzz.h"

static void check_text(const Graph *g)
{
    char *text, *again;
    Graph *back;

    MUST_DO(graph_text(&text, g, NULL));
    MUST_DO(graph_parse(&back, text, strlen(text)));
    MUST_DO(graph_text(&again, back, NULL));
    MUST(!strcmp(text, again), "the text is\n%s\nand is read as\n%s", text, again);
    graph_free(back);
    free(text);
    free(again);
}

static void check_pictures(const Graph *g)
{
    char *text = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);
    json_error_t why;
    json_t *root;

    MUST(f, "memory");
    MUST_DO(graph_json(f, g));
    fclose(f);
    MUST((root = json_loadb(text, size, 0, &why)), "%s at %d of\n%s", why.text, why.position, text);
    json_decref(root);
    free(text);
    f = open_memstream(&text, &size);
    MUST(f, "memory");
    MUST_DO(graph_dot(f, g, g));
    fclose(f);
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    Graph *g, *copy;
    Status st = graph_parse(&g, (const char *)data, size);

    if (st) {
        fuzz_refused(st);
        return 0;
    }
    if (!graph_verify(g)) { /* what a person wrote may be no graph: whoever runs it verifies it */
        MUST_DO(graph_clone(&copy, g));
        MUST_DO(graph_verify(copy));
        graph_free(copy);
        check_text(g);
        check_pictures(g);
    }
    graph_free(g);
    return 0;
}
