/* Runs one official test: import, shapes, lowering, interpreter, comparison with the expected outputs.  What is not
 * imported is evaluated node by node as it is read (onnx_evaluate_file).
 *
 * The inputs become constants of the graph, because many official models take as input what in real ones is constant
 * (axes, shapes).  Tolerances are those of ONNX's own runner: |a - b| <= 1e-7 + 1e-3 |b|; types and shapes must be
 * equal. */
#include "tests/conformance/official.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "exec/inspect/check.h"
#include "exec/run/interp.h"
#include "graph/onnx/importer.h"
#include "graph/text/print.h"
#include "passes/build_options.h"

extern const Pass pass_infer_shapes, pass_lower;

/* ---- which operators ---- */

static void add_op(Official *t, const char *op)
{
    for (int i = 0; i < t->n_op && i < OFFICIAL_OPS; i++)
        if (!strcmp(t->op[i], op))
            return;
    if (t->n_op < OFFICIAL_OPS)
        snprintf(t->op[t->n_op], sizeof t->op[0], "%s", op);
    if (t->n_op <= OFFICIAL_OPS)
        t->n_op++;
}

static Status list_ops(Official *t, Arena *a, const char *path)
{
    ProtobufCMessage *m;
    Mapped map;
    Status st;

    TRY(mapped_open(&map, path));
    st = onnx_unpack(&m, a, &onnx__model_proto__descriptor, map.data, map.size, &map);
    if (!st && ((Onnx__ModelProto *)m)->graph) {
        const Onnx__GraphProto *g = ((Onnx__ModelProto *)m)->graph;
        Body top = { .n_opset = ((Onnx__ModelProto *)m)->n_opset_import,
                     .opset = ((Onnx__ModelProto *)m)->opset_import };

        t->opset = opset_of(&top, NULL);
        for (size_t i = 0; i < g->n_node; i++)
            add_op(t, text_or(g->node[i]->op_type, "?"));
    }
    mapped_close(&map);
    return st;
}

/* ---- running ---- */

static Status fix_inputs(Graph *g, const char *set)
{
    char path[640];

    for (int i = 0; i < g->n_input; i++) {
        Value *v = value(g, g->input[i]);
        Tensor *x;

        snprintf(path, sizeof path, "%s/input_%d.pb", set, i);
        TRY(check_read(&x, g->arena, path, v->dtype));
        if (x->dtype != v->dtype)
            return FAIL(E_SHAPE, "input '%s' is %s, expected %s", v->name, dtype_name(x->dtype), dtype_name(v->dtype));
        v->kind = V_CONST;
        value_set_shape(g, v, &x->shape);
        v->init = x;
    }
    g->n_input = 0;
    return ST_OK;
}

static Status compute(Arena *a, Graph *g, const Tensor ***values)
{
    BuildOptions opt = { .mode = BUILD_INFER };
    PassCtx ctx = { .scratch = a, .opt = &opt, .eval = interp_node };

    TRY(pass_infer_shapes.run(g, &ctx));
    TRY(pass_lower.run(g, &ctx));
    TRY(g->status);
    if (!(*values = ARENA_NEW(a, const Tensor *, g->n_value)))
        return FAIL_NOMEM();
    return interp_run(a, g, *values);
}

static Status run_set(Official *t, Arena *a, Graph *g, const char *set, bool types_only)
{
    static const Tolerance within = { 1e-7, 1e-3 };
    const Tensor **values;
    char path[640];

    TRY(fix_inputs(g, set));
    TRY(compute(a, g, &values));
    for (int i = 0; i < g->n_output; i++) {
        const Tensor *found = values[g->output[i].value.i];
        Tensor *expected;

        if (!found)
            return FAIL(E_INTERNAL, "output %d was not computed", i);
        snprintf(path, sizeof path, "%s/output_%d.pb", set, i);
        TRY(check_read(&expected, a, path, found->dtype));
        if (check_differs(t->text, sizeof t->text, g->output[i].name, found, expected, types_only ? NULL : &within)) {
            t->outcome = WRONG;
            return ST_OK;
        }
    }
    return ST_OK;
}

/* ---- what is read for the inputs at hand ---- */

static Status read_input(void *user, OnnxValue *out, Arena *a, int i, const char *name, const OnnxType *type)
{
    char path[640];

    (void)name;
    snprintf(path, sizeof path, "%s/input_%d.pb", (const char *)user, i);
    return onnx_read_value(out, a, path, type);
}

static Status compare_value(Official *t, Arena *a, const OnnxNamedValue *found, const char *path, bool types_only)
{
    static const Tolerance within = { 1e-7, 1e-3 };
    OnnxType type = found->value.type;
    OnnxValue expected;

    type.dtype = found->value.n ? found->value.item[0]->dtype : type.dtype;
    TRY(onnx_read_value(&expected, a, path, &type));
    if (found->value.n != expected.n || found->value.nothing != expected.nothing) {
        snprintf(t->text, sizeof t->text, "output '%.100s' has %d tensors, expected %d", found->name, found->value.n,
                 expected.n);
        t->outcome = WRONG;
    }
    for (int i = 0; i < expected.n && t->outcome != WRONG; i++)
        if (check_differs(t->text, sizeof t->text, found->name, found->value.item[i], expected.item[i],
                          types_only ? NULL : &within))
            t->outcome = WRONG;
    return ST_OK;
}

static Status evaluate_set(Official *t, Arena *a, const char *model, char *set, bool types_only)
{
    const ImportOptions how = { .eval = interp_any, .file_modes = true };
    OnnxNamedValue *out;
    char path[640];
    int n;

    TRY(onnx_evaluate_file(&out, &n, a, model, &how, read_input, set));
    for (int i = 0; i < n && t->outcome != WRONG; i++) {
        snprintf(path, sizeof path, "%s/output_%d.pb", set, i);
        TRY(compare_value(t, a, &out[i], path, types_only));
    }
    return ST_OK;
}

/* Outputs that are sequences are several of the graph, and one file. */
static Status import_and_run(Official *t, Arena *a, const char *model, const char *set, bool types_only)
{
    Status st = ST_OK;
    OnnxModel *onnx;
    Graph *g;

    TRY(onnx_import_file(&g, &onnx, model, &(ImportOptions){ .eval = interp_node }));
    for (int i = 0; i < onnx->n_output; i++)
        if (onnx->output[i].sequence)
            st = FAIL(E_UNSUPPORTED, "output '%s' is a sequence", onnx->output[i].name);
    st = st ? st : run_set(t, a, g, set, types_only);
    onnx_model_free(onnx);
    graph_free(g);
    return st;
}

static Status run_sets(Official *t, Arena *a, const char *model, bool types_only)
{
    int done = 0;

    for (;; done++) {
        char set[600];
        Status st;

        snprintf(set, sizeof set, "%s/test_data_set_%d", t->path, done);
        if (access(set, R_OK) || t->outcome == WRONG)
            break;
        st = import_and_run(t, a, model, set, types_only);
        TRY(st == E_UNSUPPORTED ? evaluate_set(t, a, model, set, types_only) : st);
    }
    return done ? ST_OK : FAIL(E_IO, "%s has no data set", t->path);
}

void official_run(Official *t, bool types_only)
{
    Arena *a = arena_create();
    char model[600];
    Status st;

    snprintf(model, sizeof model, "%s/model.onnx", t->path);
    t->outcome = PASSED;
    st = a ? list_ops(t, a, model) : FAIL_NOMEM();
    if (!st)
        st = run_sets(t, a, model, types_only);
    if (st) {
        t->outcome = st == E_UNSUPPORTED ? UNSUPPORTED : REFUSED;
        snprintf(t->text, sizeof t->text, "%s", status_message());
    }
    arena_free(a);
}

/* ---- round trip ---- */

/* Constants that nothing reads are not exported: they are not compared either. */
static Status hide_unused(Graph *g)
{
    const uint32_t *uses = graph_count_uses(g, g->arena);

    if (!uses)
        return FAIL_NOMEM();
    for (uint32_t i = 1; i < g->n_value; i++)
        if (g->value[i]->kind == V_CONST && !uses[i])
            g->value[i]->kind = V_TEMP;
    return ST_OK;
}

static Status text_of(char **out, const char *path)
{
    Graph *g;
    Status st;

    TRY(onnx_import_file(&g, NULL, path, &(ImportOptions){ .eval = interp_node }));
    if (!(st = hide_unused(g)))
        st = graph_text(out, g, NULL);
    graph_free(g);
    return st;
}

static Status again(char **out, const char *path, const char *copy)
{
    Graph *g;
    Status st;

    TRY(onnx_import_file(&g, NULL, path, &(ImportOptions){ .eval = interp_node }));
    st = onnx_export_file(g, NULL, copy);
    graph_free(g);
    TRY(st);
    return text_of(out, copy);
}

static void tell_difference(Official *t, const char *first, const char *second)
{
    size_t i = 0, line = 0;

    for (; first[i] && first[i] == second[i]; i++)
        line = first[i] == '\n' ? i + 1 : line;
    snprintf(t->text, sizeof t->text, "round trip gave \"%.*s\", expected \"%.*s\"",
             (int)(strcspn(second + line, "\n") % 200), second + line, (int)(strcspn(first + line, "\n") % 200),
             first + line);
}

bool official_round_trip(Official *t)
{
    static const char copy[] = BUILD_DIR "/round_trip.onnx";
    char model[600], *first = NULL, *second = NULL;
    bool good = true;

    snprintf(model, sizeof model, "%s/model.onnx", t->path);
    if (text_of(&first, model) == ST_OK) {
        good = again(&second, model, copy) == ST_OK;
        if (!good)
            snprintf(t->text, sizeof t->text, "round trip: %s", status_message());
        else if (!(good = !strcmp(first, second)))
            tell_difference(t, first, second);
    }
    free(first);
    free(second);
    unlink(copy);
    return good;
}
