/* Optionals, resolved as the file is read.  The name of an optional that holds a tensor or sequence is an alias of it,
 * so that nodes may read the optional itself, as ONNX allows since opset 18.  An empty optional is marked in its entry.
 */
#include <string.h>

#include "graph/onnx/importer.h"

void optional_set_nothing(ScopeEntry *e)
{
    e->value = NO_VALUE;
    e->sequence = NULL;
    e->nothing = true;
    e->problem = "it is an optional that holds nothing";
}

static Status optional_resolve(ScopeEntry *to, Importer *im, const Body *b, const Onnx__NodeProto *p)
{
    const ScopeEntry *e = p->n_input && *p->input[0] ? body_find(b, p->input[0]) : NULL;
    const bool holds = e && !e->nothing && (has_value(e->value) || e->problem);
    uint8_t answer = holds;

    if (holds && e->problem && !e->sequence)
        return FAIL(E_UNSUPPORTED, "input '%s': %s", p->input[0], e->problem);
    if (!strcmp(p->op_type, "OptionalHasElement")) {
        to->value =
            graph_add_const(im->g, body_name(im, b, p->output[0]), &(Tensor){ DT_BOOL, shape_scalar(), &answer });
        return im->g->status;
    }
    if (holds)
        entry_copy(to, e);
    else if (!strcmp(p->op_type, "Optional"))
        optional_set_nothing(to);
    else
        return FAIL(E_MODEL, "the optional holds nothing");
    return ST_OK;
}

bool is_optional_operator(const char *name)
{
    return !strcmp(name, "Optional") || !strcmp(name, "OptionalHasElement") || !strcmp(name, "OptionalGetElement");
}

Status import_optional(Importer *im, Body *b, const Onnx__NodeProto *p)
{
    if (p->n_input > 1 || p->n_output != 1 || !*p->output[0])
        return FAIL(E_MODEL, "%s: expected at most one input, and one output", proto_text(im, p));
    return status_prefix(optional_resolve(scope_find(&b->scope, p->output[0]), im, b, p), "%s", proto_text(im, p));
}
