/* What sizes of the file decided is written into the graph, so that it is not taken for true at other sizes: the number
 * goes to a Decided node, which knows its value and what it is (graph/ops/decided.c).  Numbers that sizes have no part
 * in need none. */
#include "graph/ir/emit.h"
#include "graph/ops/decided.gen.h"
#include "graph/ops/generate.gen.h"
#include "graph/ops/index.gen.h"
#include "graph/onnx/importer.h"

static Status emit_decided(Importer *im, ValueId v, int64_t is, const char *what)
{
    if (!what)
        return FAIL_NOMEM();
    TRY(spend_nodes(im, 1));
    import_emit(im->g, &op_Decided, ATTRS(INT("value", is), STRING("what", what)), 1, &v);
    return im->g->status;
}

Status decided_number(Importer *im, ValueId v, int64_t is, const char *what)
{
    return known_by_size(im, v) ? emit_decided(im, v, is, what) : ST_OK;
}

Status decided_size(Importer *im, ValueId x, int64_t axis, int64_t is, const char *what)
{
    ValueId dims, size;

    if (value(im->g, x)->kind == V_CONST)
        return ST_OK;
    TRY(spend_nodes(im, 2));
    dims = import_emit(im->g, &op_Shape, NULL, 1, &x);
    size = import_emit(im->g, &op_Gather, ATTRS(INT("axis", 0)), 2, (ValueId[]){ dims, emit_ints(im->g, 1, &axis) });
    TRY(im->g->status);
    return emit_decided(im, size, is, what);
}
