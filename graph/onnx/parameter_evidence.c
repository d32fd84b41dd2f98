/* Evidence in the file for which of its constants are parameters, read for passes/model/parameters.c: its producer,
 * tensors that a training step updates (training_info), tensors that dpexec trained before (PROP_PARAMETER), PyTorch's
 * metadata on parameters, buffers and constants folded from them, and tensors that no node reads. */
#include <stdlib.h>
#include <string.h>

#include "graph/ir/simplifier_traces.h"
#include "graph/onnx/importer.h"
#include "graph/ops/decided.gen.h"

enum { TAG_VALUE_METADATA = 4, TAG_GRAPH_METADATA = 16 };
#define KEY_KIND "pkg.torch.export.graph_signature.InputSpec.kind"
#define KEY_SIGNATURE "pkg.torch.export.ExportedProgram.graph_signature"
#define KEY_FOLDED "pkg.onnxscript.optimizer.folded_from"

/* The constant of this name, or NULL. */
static Value *find_constant(const Importer *im, const Body *b, const char *name)
{
    const ScopeEntry *e = name ? scope_find(&b->scope, name) : NULL;
    Value *v = e && has_value(e->value) ? value(im->g, e->value) : NULL;

    return v && v->kind == V_CONST ? v : NULL;
}

/* ---- metadata of values ---- */

static Status take_entry(void *user, Arena *keep, const char *key, const char *text)
{
    Value *v = user;

    if (!strcmp(key, KEY_KIND))
        v->evidence = !strcmp(text, "PARAMETER")                                    ? EVIDENCE_PARAMETER
                      : !strcmp(text, "BUFFER") || !strcmp(text, "CONSTANT_TENSOR") ? EVIDENCE_BUFFER
                                                                                    : v->evidence;
    else if (!strcmp(key, KEY_FOLDED) && !(v->folded_from = arena_strdup(keep, text)))
        return FAIL_NOMEM();
    return ST_OK;
}

static Status read_values(Importer *im, const Body *b, size_t n, Onnx__ValueInfoProto *const *list)
{
    for (size_t i = 0; i < n; i++) {
        Value *v = find_constant(im, b, list[i]->name);

        if (v)
            TRY(status_prefix(metadata_entries(take_entry, v, im, &list[i]->base, TAG_VALUE_METADATA),
                              "metadata of '%s'", list[i]->name));
    }
    return ST_OK;
}

/* ---- tensors that nothing reads ---- */

/* Adds the names that nodes read, those in branches and bodies of loops too, and the names of outputs. */
static Status add_reads(Scope *read, const Onnx__GraphProto *gp)
{
    for (size_t i = 0; i < gp->n_output; i++)
        if (!scope_add(read, text_or(gp->output[i]->name, "")))
            return FAIL_NOMEM();
    for (size_t i = 0; i < gp->n_node; i++) {
        const Onnx__NodeProto *p = gp->node[i];

        for (size_t k = 0; k < p->n_input; k++)
            if (!scope_add(read, p->input[k]))
                return FAIL_NOMEM();
        for (size_t k = 0; k < p->n_attribute; k++)
            if (p->attribute[k]->g)
                TRY(add_reads(read, p->attribute[k]->g));
    }
    return ST_OK;
}

/* Sets Value.idle of initializers that nothing reads. */
static Status find_idle(Importer *im, const Body *b, const Onnx__GraphProto *gp)
{
    Scope read = { .arena = im->scratch };

    TRY(add_reads(&read, gp));
    for (size_t i = 0; i < gp->n_initializer; i++) {
        const char *name = text_or(gp->initializer[i]->name, "");
        Value *v = find_constant(im, b, name);

        if (v)
            v->idle = !scope_find(&read, name);
    }
    return ST_OK;
}

/* ---- trained tensors ---- */

/* Constants that a training step of the file updates are trained; if there are any, all others are fixed. */
static void read_training_info(Importer *im, const Body *b)
{
    const Onnx__ModelProto *m = im->model;
    const Graph *g = im->g;
    bool any = false;

    for (size_t i = 0; i < m->n_training_info; i++)
        for (size_t k = 0; k < m->training_info[i]->n_update_binding; k++) {
            Value *v = find_constant(im, b, m->training_info[i]->update_binding[k]->key);

            if (!v || !dtype_is_float(v->dtype))
                continue;
            v->evidence = EVIDENCE_TRAINED;
            any = true;
        }
    for (uint32_t i = 1; any && i < g->n_value; i++)
        if (g->value[i]->kind == V_CONST && g->value[i]->evidence != EVIDENCE_TRAINED)
            g->value[i]->evidence = EVIDENCE_FIXED;
}

/* An export of dpexec lists each trained or fixed tensor.  Tensors that another tool added since are not listed, and so
 * are judged as in any file. */
static void read_parameter_props(Importer *im, const Body *b)
{
    const Onnx__ModelProto *m = im->model;

    for (size_t i = 0; i < m->n_metadata_props; i++) {
        const char *key = text_or(m->metadata_props[i]->key, ""), *text = text_or(m->metadata_props[i]->value, "");
        Value *v = strncmp(key, PROP_PARAMETER, strlen(PROP_PARAMETER))
                       ? NULL
                       : find_constant(im, b, key + strlen(PROP_PARAMETER));

        if (v)
            v->evidence = !strcmp(text, PARAMETER_TRAINED) ? EVIDENCE_TRAINED
                          : !strcmp(text, PARAMETER_FIXED) ? EVIDENCE_FIXED
                                                           : v->evidence;
    }
}

/* Restores the Decided nodes that an export of dpexec wrote as Identity. */
static void read_decided(Importer *im, const Body *b)
{
    const Onnx__ModelProto *m = im->model;
    size_t prefix = strlen(PROP_DECIDED);

    for (size_t i = 0; i < m->n_metadata_props; i++) {
        const char *key = text_or(m->metadata_props[i]->key, ""), *text = text_or(m->metadata_props[i]->value, "");
        const ScopeEntry *e = strncmp(key, PROP_DECIDED, prefix) ? NULL : scope_find(&b->scope, key + prefix);
        Node *n = e && has_value(e->value) ? value(im->g, e->value)->producer : NULL;
        const char *what = strchr(text, ' ');

        if (!n || !(n->op->same & SAME_TENSOR) || !what)
            continue;
        n->op = &op_Decided;
        node_set_int(im->g, n, "value", strtoll(text, NULL, 10));
        node_set_string(im->g, n, "what", what + 1);
    }
}

/* ---- tools that rewrote the file ---- */

/* Is the file PyTorch's without metadata on modules?  Its default exporter writes them for every node, and tools that
 * rewrite files drop them. */
static bool lost_modules(const Importer *im)
{
    const Graph *g = im->g;
    int n_named = 0;

    if (strcmp(g->producer, "pytorch"))
        return false;
    FOR_NODES(g, n) {
        if (n->module)
            return false;
        n_named += !strncmp(n->name, "node_", 5);
    }
    return n_named > 0;
}

/* Records in the graph which tool rewrote the file, and the lists of nodes and values that onnxsim left in it. */
static Status read_simplified(Importer *im)
{
    static const char *const lists[] = { REMOVED_NODES, CHANGED_NODES, REMOVED_VALUES };
    const Onnx__ModelProto *m = im->model;
    const char *tool = lost_modules(im) ? "a tool" : NULL;

    for (size_t i = 0; i < m->n_opset_import; i++)
        if (!strcmp(text_or(m->opset_import[i]->domain, ""), "com.microsoft.nchwc"))
            tool = "ONNX Runtime's optimizer";
    for (size_t i = 0; i < m->n_metadata_props; i++)
        for (size_t k = 0; k < sizeof lists / sizeof *lists; k++)
            if (!strcmp(text_or(m->metadata_props[i]->key, ""), lists[k]) && !has_value(graph_find(im->g, lists[k]))) {
                TRY(simplified_set(im->g, lists[k], text_or(m->metadata_props[i]->value, "")));
                tool = ONNXSIM;
            }
    return tool ? simplified_set(im->g, SIMPLIFIER, tool) : ST_OK;
}

Status stopped_read(Importer *im)
{
    const Onnx__ModelProto *m = im->model;

    im->stopped.arena = im->scratch;
    for (size_t i = 0; i < m->n_metadata_props; i++) {
        const char *key = text_or(m->metadata_props[i]->key, "");

        if (!strncmp(key, PROP_STOP, strlen(PROP_STOP)) && !scope_add(&im->stopped, key + strlen(PROP_STOP)))
            return FAIL_NOMEM();
    }
    return ST_OK;
}

/* ---- all ---- */

static Status take_signature(void *user, Arena *keep, const char *key, const char *text)
{
    Graph *g = user;

    if (!strcmp(key, KEY_SIGNATURE) && !(g->signature = arena_strdup(keep, text)))
        return FAIL_NOMEM();
    return ST_OK;
}

Status parameter_evidence_read(Importer *im, const Body *b)
{
    const Onnx__ModelProto *m = im->model;
    const Onnx__GraphProto *gp = m->graph;

    im->g->producer = arena_strdup(im->g->arena, text_or(m->producer_name, ""));
    im->g->producer_version = arena_strdup(im->g->arena, text_or(m->producer_version, ""));
    if (!im->g->producer || !im->g->producer_version)
        return FAIL_NOMEM();
    TRY(read_values(im, b, gp->n_value_info, gp->value_info));
    TRY(read_values(im, b, gp->n_input, gp->input));
    TRY(status_prefix(metadata_entries(take_signature, im->g, im, &gp->base, TAG_GRAPH_METADATA),
                      "metadata of the graph"));
    TRY(find_idle(im, b, gp));
    read_training_info(im, b);
    read_parameter_props(im, b);
    read_decided(im, b);
    TRY(read_simplified(im));
    return im->g->status;
}
