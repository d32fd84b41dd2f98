/* Texts about the simplifier of a file, as constants of bytes. */
#include "graph/ir/simplifier_traces.h"

#include <string.h>

#include "graph/base/foreign.h"

Status simplified_set(Graph *g, const char *key, const char *text)
{
    const int64_t size = (int64_t)strlen(text) + 1;
    const Shape shape = { .rank = 1, .dim = { size } };
    Tensor *t = tensor_create(g->arena, DT_UINT8, &shape);
    ValueId v;

    if (!t)
        return FAIL_NOMEM();
    memcpy(t->data, text, (size_t)size);
    foreign_clean(t->data);
    v = graph_add_const_nocopy(g, key, t);
    TRY(g->status);
    value(g, v)->idle = true;
    return ST_OK;
}

const char *simplified_text(const Graph *g, const char *key)
{
    const Tensor *t = value_const(g, graph_find(g, key));

    return t && t->dtype == DT_UINT8 && t->shape.rank == 1 && tensor_numel(t) > 0 &&
                   !((const char *)t->data)[tensor_numel(t) - 1]
               ? t->data
               : "";
}
