/* Decided nodes: records of sizes on which the import has based the graph's nodes.
 *
 * If a loop was unrolled 10 times because an input has size 10, the graph is wrong for other sizes.  A Decided node
 * (graph/ops/decided.c) reads the number, holds the value 10, and makes a run with another number fail.  Numbers that
 * do not depend on sizes of inputs need none. */
#include "graph/ir/emit.h"
#include "graph/onnx/importer.h"
#include "graph/ops/decided.gen.h"
#include "graph/ops/generate.gen.h"
#include "graph/ops/index.gen.h"

/* Emits a Decided node for v.  Counts it against the limit of nodes. */
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
