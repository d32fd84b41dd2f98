/* Calls of the file's local functions, which are inlined: the rest of the engine never sees a function.
 *
 * A function's body sees its formal inputs and no name of the caller.  An attribute has the call's value, or the
 * function's default, or is absent.  Names of inner nodes and values begin with the call's name, so that messages show
 * their origin.  Recursion and deep nesting are refused, and the importer counts nodes, so that functions which call
 * functions many times cannot grow without bound. */
#include <string.h>

#include "graph/onnx/importer.h"

enum { TAG_NODE_OVERLOAD = 8, TAG_FUNCTION_DEFAULTS = 11, TAG_FUNCTION_OVERLOAD = 13 };

/* Appends the function's default attributes that `to` does not bind yet; `to` has room. */
static Status add_defaults(Bindings *to, Importer *im, const Onnx__FunctionProto *fn)
{
    for (size_t i = 0; i < newer_count(&fn->base, TAG_FUNCTION_DEFAULTS); i++) {
        ProtobufCMessage *a;
        bool bound = false;

        TRY(newer_message(&a, im->scratch, &fn->base, TAG_FUNCTION_DEFAULTS, &onnx__attribute_proto__descriptor, i));
        if (!a || !((Onnx__AttributeProto *)a)->name)
            continue;
        for (int k = 0; k < to->n; k++)
            bound |= !strcmp(to->name[k], ((Onnx__AttributeProto *)a)->name);
        if (bound)
            continue;
        to->name[to->n] = ((Onnx__AttributeProto *)a)->name;
        to->attr[to->n++] = (Onnx__AttributeProto *)a;
    }
    return ST_OK;
}

/* Collects the attributes that call p gives to function f, and f's defaults for the others. */
static Status function_bind(Bindings *out, Importer *im, const Body *b, const Onnx__NodeProto *p,
                            const Onnx__FunctionProto *f)
{
    size_t room = p->n_attribute + newer_count(&f->base, TAG_FUNCTION_DEFAULTS);
    Bindings to = { 0, ARENA_NEW(im->scratch, const char *, room),
                    ARENA_NEW(im->scratch, const Onnx__AttributeProto *, room) };

    if (!to.name || !to.attr)
        return FAIL_NOMEM();
    for (size_t i = 0; i < p->n_attribute; i++) {
        const Onnx__AttributeProto *a;

        TRY(attribute_resolve(&a, im, b, p, p->attribute[i]));
        if (!a)
            continue;
        to.name[to.n] = p->attribute[i]->name;
        to.attr[to.n++] = a;
    }
    TRY(add_defaults(&to, im, f));
    *out = to;
    return ST_OK;
}

/* The function's key in Importer.functions; NULL: no memory. */
static const char *key(Arena *a, const char *domain, const char *name, const char *overload)
{
    return arena_printf(a, "%s\n%s\n%s", text_or(domain, ""), text_or(name, ""), overload);
}

Status functions_index(Importer *im)
{
    im->functions.arena = im->scratch;
    for (size_t i = 0; i < im->model->n_functions; i++) {
        const Onnx__FunctionProto *f = im->model->functions[i];
        const char *k =
            key(im->scratch, f->domain, f->name, newer_string(&f->base, TAG_FUNCTION_OVERLOAD, im->scratch));
        ScopeEntry *e;

        if (!k)
            return FAIL_NOMEM();
        if (scope_find(&im->functions, k))
            return FAIL(E_MODEL, "function '%s' is defined twice", text_or(f->name, ""));
        if (!(e = scope_add(&im->functions, k)))
            return FAIL_NOMEM();
        e->node = (int64_t)i;
    }
    return ST_OK;
}

Status function_find(const Onnx__FunctionProto **out, const Importer *im, const Onnx__NodeProto *p)
{
    const ScopeEntry *e;
    const char *k;

    *out = NULL;
    if (!im->functions.n)
        return ST_OK;
    k = key(im->scratch, p->domain, p->op_type, newer_string(&p->base, TAG_NODE_OVERLOAD, im->scratch));
    if (!k)
        return FAIL_NOMEM();
    if ((e = scope_find(&im->functions, k)))
        *out = im->model->functions[e->node];
    return ST_OK;
}

/* Checks call p, in body b, of function f: no recursion, no deep nesting, and not too many inputs or outputs. */
static Status check_call(const Importer *im, const Body *b, const Onnx__NodeProto *p, const Onnx__FunctionProto *f)
{
    for (const Body *up = b; up; up = up->up)
        if (up->function == f)
            return FAIL(E_MODEL, "%s: function '%s' calls itself", proto_text(im, p), f->name);
    TRY(status_prefix(body_check_depth(b), "%s", proto_text(im, p)));
    if (p->n_input > f->n_input || p->n_output > f->n_output)
        return FAIL(E_MODEL, "%s: %zu inputs and %zu outputs, the function has %zu and %zu", proto_text(im, p),
                    p->n_input, p->n_output, f->n_input, f->n_output);
    return ST_OK;
}

/* Makes the formal inputs of `inner` aliases of the call's inputs. */
static Status function_bind_inputs(Body *inner, const Body *b, const Onnx__NodeProto *p)
{
    for (size_t i = 0; i < inner->function->n_input; i++) {
        const char *given = i < p->n_input ? p->input[i] : "";
        ScopeEntry *e;

        if (scope_find(&inner->scope, inner->function->input[i]))
            return FAIL(E_MODEL, "function '%s': input '%s' is named twice", inner->function->name,
                        inner->function->input[i]);
        if (!(e = scope_add(&inner->scope, inner->function->input[i])))
            return FAIL_NOMEM();
        e->formal = true;
        if (*given)
            entry_copy(e, body_find(b, given));
    }
    return ST_OK;
}

/* Adds the call's prefix, without its '/', to Importer.call. */
static Status remember_call(Importer *im, const char *prefix)
{
    const char **grown = arena_grow(im->scratch, im->call, sizeof *im->call, im->n_call, &im->cap_call);
    char *name = arena_strdup(im->scratch, prefix);

    if (!grown || !name)
        return FAIL_NOMEM();
    name[strlen(name) - 1] = 0;
    im->call = grown;
    im->call[im->n_call++] = name;
    return ST_OK;
}

Status import_call(Importer *im, Body *b, const Onnx__NodeProto *p, const Onnx__FunctionProto *f)
{
    Body inner = { .up = b,
                   .function = f,
                   .scope.arena = im->scratch,
                   .n_node = f->n_node,
                   .node = f->node,
                   .n_opset = f->n_opset_import,
                   .opset = f->opset_import,
                   .repeated = b->repeated };
    const char *name = text_or(p->name, text_or(p->op_type, "function"));
    ScopeEntry *site;
    Node call = { 0 };

    TRY(check_call(im, b, p, f));
    TRY(function_bind(&inner.bindings, im, b, p, f));
    if (!(site = shared_entry(im, b->site, p))) /* all trips of a loop around the call share it */
        return FAIL_NOMEM();
    if (site->node < 0)
        site->node = (int64_t)im->shared.n; /* unique, because the table only grows */
    inner.site = site->node;
    inner.prefix = arena_printf(im->scratch, "%s%s/", b->prefix, name);
    inner.constants = arena_printf(im->scratch, "%s%s/", b->constants, name);
    if (!inner.prefix || !inner.constants)
        return FAIL_NOMEM();
    TRY(remember_call(im, inner.prefix));
    TRY(node_source_decode(&call, im, b, p));
    inner.call = call.call;
    TRY(function_bind_inputs(&inner, b, p));
    TRY(status_prefix(import_body(im, &inner), "function '%s'", f->name));
    for (size_t i = 0; i < p->n_output; i++) {
        const ScopeEntry *from = scope_find(&inner.scope, f->output[i]);

        if (!*p->output[i])
            continue;
        if (!from || (!has_value(from->value) && !from->problem))
            return FAIL(E_MODEL, "%s: the function does not make its output '%s'", proto_text(im, p), f->output[i]);
        entry_copy(scope_find(&b->scope, p->output[i]), from);
    }
    return ST_OK;
}
