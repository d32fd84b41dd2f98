/* The importer's context: names in bodies, counts of nodes, and entries that repeated bodies share.
 *
 * This file calls none of the files that read nodes, so that all of them can call it. */
#include "graph/onnx/importer.h"

#include <stdio.h>
#include <string.h>

const char *proto_text(const Importer *im, const Onnx__NodeProto *p)
{
    const char *out = "", *text;

    for (size_t i = 0; i < p->n_output && !*out; i++)
        out = p->output[i];
    text = arena_printf(im->scratch, "%.100s %.100s (output '%.100s')", text_or(p->op_type, "?"),
                        text_or(p->name, "(unnamed)"), out);
    return text ? text : "a node";
}

const Onnx__AttributeProto *attribute_find(const Onnx__NodeProto *p, const char *name)
{
    for (size_t i = 0; i < p->n_attribute; i++)
        if (!strcmp(text_or(p->attribute[i]->name, ""), name))
            return p->attribute[i];
    return NULL;
}

ScopeEntry *body_find(const Body *b, const char *name)
{
    ScopeEntry *e = NULL;

    for (; b && !e; b = b->outer)
        e = scope_find(&b->scope, name);
    return e;
}

bool body_is_shared(const Body *b) { return b->repeated || b->function; }

ScopeEntry *shared_entry(Importer *im, int64_t site, const void *part)
{
    char key[64];
    ScopeEntry *e;
    const char *kept;

    im->shared.arena = im->scratch;
    snprintf(key, sizeof key, "%lld:%p", (long long)site, part);
    if ((e = scope_find(&im->shared, key)))
        return e;
    return (kept = arena_strdup(im->scratch, key)) ? scope_add(&im->shared, kept) : NULL;
}

void *by_value(const Importer *im, void *array, size_t size, uint32_t *n)
{
    const uint32_t grown_n = im->g->n_value * 2;
    void *grown;

    if (*n && *n >= im->g->n_value)
        return array;
    if (!(grown = arena_array(im->scratch, size, grown_n)))
        return NULL;
    if (*n)
        memcpy(grown, array, *n * size);
    *n = grown_n;
    return grown;
}

Status spend_nodes(Importer *im, size_t n)
{
    if (n > im->max_nodes || (im->n_done += n) > im->max_nodes)
        return FAIL(E_MODEL, "more than %zu nodes (--max-nodes) with functions inlined and loops %s", im->max_nodes,
                    im->run ? "run" : "unrolled");
    return ST_OK;
}

const char *body_name(Importer *im, const Body *b, const char *name)
{
    const char *text = !*b->prefix || !*name ? name : arena_printf(im->scratch, "%s%s", b->prefix, name);

    if (!text)
        graph_fail_nomem(im->g);
    return text ? text : name;
}

bool is_default_domain(const char *domain) { return !domain || !*domain || !strcmp(domain, "ai.onnx"); }

int64_t opset_of(const Body *b, const char *domain)
{
    for (size_t i = 0; i < b->n_opset; i++) {
        const char *imported = b->opset[i]->domain;

        if (is_default_domain(domain) ? is_default_domain(imported) : imported && !strcmp(imported, domain))
            return b->opset[i]->version;
    }
    return 0;
}

Status tensor_input(ValueId *out, const Body *b, const Onnx__NodeProto *p, size_t i)
{
    const ScopeEntry *e = i < p->n_input && *p->input[i] ? body_find(b, p->input[i]) : NULL;

    if (e && e->problem)
        return FAIL(E_UNSUPPORTED, "input '%s': %s", p->input[i], e->problem);
    if (!e || !has_value(e->value))
        return FAIL(E_MODEL, "input %zu, a tensor, is absent", i);
    *out = e->value;
    return ST_OK;
}

Status declare(ScopeEntry **out, Body *b, const char *name, const char *what)
{
    const ScopeEntry *outer;

    if (!name || !*name)
        return FAIL(E_MODEL, "%s without a name", what);
    if (scope_find(&b->scope, name))
        return FAIL(E_MODEL, "%s '%s' is defined already", what, name);
    if (b->outer && (outer = body_find(b->outer, name)) && entry_made(outer))
        return FAIL(E_MODEL, "%s '%s' is defined already outside of the subgraph", what, name);
    if (!(*out = scope_add(&b->scope, name)))
        return FAIL_NOMEM();
    return ST_OK;
}

bool is_gradient(const Onnx__NodeProto *p)
{
    return !strcmp(text_or(p->domain, ""), "ai.onnx.preview.training") && !strcmp(p->op_type, "Gradient");
}
