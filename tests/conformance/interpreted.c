/* Official tests through dpx_check's interpreter and dpx_interpret, which computes parts of a model as programs. */
#include <fnmatch.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "exec/api/data.h"
#include "exec/inspect/check.h"
#include "graph/onnx/importer.h"
#include "tests/conformance/official.h"

/* The inputs that the caller gives: those without an initializer. */
typedef struct {
    Onnx__GraphProto *graph;
    const char *set; /* folder of the data */
    Arena *arena;
} Given;

static bool has_default(const Onnx__GraphProto *g, const char *name)
{
    for (size_t i = 0; i < g->n_initializer; i++)
        if (!strcmp(g->initializer[i]->name, name))
            return true;
    return false;
}

static Status make_data(const dpx_data **out, const OnnxValue *v)
{
    dpx_data *d;

    if (!v->type.sequence) {
        TRY(data_copy_tensor(&d, v->item[0]));
        *out = d;
        return ST_OK;
    }
    TRY(data_create(&d, DPX_DATA_LIST, v->n));
    *out = d;
    for (int i = 0; i < v->n; i++) {
        dpx_data *one;

        TRY(data_copy_tensor(&one, v->item[i]));
        d->member[i] = one;
    }
    return ST_OK;
}

/* Data of 2022 hold bfloat16 as the uint16 of its bits. */
static void take_bits(const OnnxValue *v, int dtype)
{
    for (int k = 0; k < v->n; k++)
        if (v->item[k]->dtype == DT_UINT16 && dtype == DT_BFLOAT16)
            ((Tensor *)v->item[k])->dtype = DT_BFLOAT16;
}

static Status read_input(OnnxValue *out, const Given *g, const Onnx__ValueInfoProto *p, int i)
{
    char path[640];
    OnnxType type = { 0 };

    input_type(&type, p->type);
    snprintf(path, sizeof path, "%s/input_%d.pb", g->set, i);
    TRY(onnx_read_value(out, g->arena, path, &type));
    out->type.sequence = type.sequence;
    take_bits(out, type.dtype);
    return ST_OK;
}

static Status fill_inputs(dpx_data *map, const Given *g)
{
    int n = 0;

    map->n = 0;
    for (size_t i = 0; i < g->graph->n_input; i++) {
        const Onnx__ValueInfoProto *p = g->graph->input[i];
        OnnxValue v;

        if (has_default(g->graph, p->name))
            continue;
        TRY(read_input(&v, g, p, n++));
        if (v.nothing)
            continue;
        TRY(data_set_key(map, map->n, p->name));
        map->n++;
        TRY(make_data(&map->member[map->n - 1], &v));
    }
    return ST_OK;
}

/* ---- comparing ---- */

static Status compare(Official *t, const Given *g, const dpx_data *found, bool types_only)
{
    static const Tolerance within = { 1e-7, 1e-3 };
    char path[640];

    for (size_t i = 0; i < g->graph->n_output && t->outcome == PASSED; i++) {
        const char *name = g->graph->output[i]->name;
        const dpx_data *d = dpx_data_find(found, name);
        OnnxType type = { 0 };
        OnnxValue expected;

        input_type(&type, g->graph->output[i]->type);
        type.dtype = d && d->kind == DPX_DATA_TENSOR ? d->tensor.dtype : type.dtype;
        snprintf(path, sizeof path, "%s/output_%zu.pb", g->set, i);
        TRY(onnx_read_value(&expected, g->arena, path, &type));
        take_bits(&expected, type.dtype);
        if (d && d->kind == DPX_DATA_TENSOR && expected.n == 1 &&
            check_differs(t->text, sizeof t->text, name, &d->tensor, expected.item[0], types_only ? NULL : &within))
            t->outcome = WRONG;
        for (int k = 0; d && d->kind == DPX_DATA_LIST && k < expected.n && t->outcome == PASSED; k++)
            if (d->n != expected.n || check_differs(t->text, sizeof t->text, name, &d->member[k]->tensor,
                                                    expected.item[k], types_only ? NULL : &within))
                t->outcome = WRONG;
        if (!d && !expected.nothing)
            return FAIL(E_INTERNAL, "output '%s' is absent", name);
    }
    return ST_OK;
}

/* Options of the file's modes, or of inference; they take longer to make than many a model to run. */
static Status find_options(dpx_options **out, bool training)
{
    static dpx_options *o[2];

    if (!o[training] &&
        (!(o[training] = dpx_options_create()) || (training && dpx_options_set(o[training], "training", "true"))))
        return FAIL_NOMEM();
    *out = o[training];
    return ST_OK;
}

static Status interpret_set(Official *t, const char *model, const Given *g, bool training, bool types_only)
{
    dpx_data *in = NULL, *out = NULL;
    dpx_options *o;
    Status st = find_options(&o, training);

    st = st ? st : data_create(&in, DPX_DATA_MAP, (int)g->graph->n_input);
    st = st ? st : fill_inputs(in, g);
    st = st ? st : (Status)dpx_interpret(&out, model, o, in);
    if (!st && training)
        st = compare(t, g, out, types_only);
    dpx_data_free(in);
    dpx_data_free(out);
    return st;
}

/* ---- all data sets ---- */

static Status check_interpreted(Official *t)
{
    dpx_check_result r;
    dpx_options *o;
    Status st = find_options(&o, true);

    st = st ? st : (Status)dpx_check(t->path, o, 1, &r);
    if (!st && r.outcome == DPX_CHECK_FAILED && t->outcome == PASSED) {
        t->outcome = WRONG;
        snprintf(t->text, sizeof t->text, "check --interpreter: %.400s", r.text);
    }
    return st;
}

static Status run_sets(Official *t, Arena *a, Given *g, const char *model, bool types_only)
{
    /* of another shape than the file declares, which dpx_interpret refuses */
    const bool declared = fnmatch("node/test_castlike_*BFLOAT16*", t->name, 0) != 0;
    const bool passed = t->outcome == PASSED && declared;
    Status st;

    for (int i = 0;; i++) {
        char set[600];

        snprintf(set, sizeof set, "%s/test_data_set_%d", t->path, i);
        if (access(set, R_OK))
            return ST_OK;
        g->set = set;
        g->arena = a;
        st = interpret_set(t, model, g, true, types_only);
        if (st && (passed || st == E_INTERNAL))
            return st;
        st = interpret_set(t, model, g, false, types_only);
        if (st == E_INTERNAL)
            return st;
    }
}

bool official_interpret(Official *t, bool types_only)
{
    const Outcome before = t->outcome;
    Arena *a = arena_create();
    ProtobufCMessage *m;
    char model[600];
    Mapped map;
    Given g = { 0 };
    Status st = a ? ST_OK : FAIL_NOMEM();
    bool good;

    snprintf(model, sizeof model, "%s/model.onnx", t->path);
    st = st ? st : mapped_open(&map, model);
    if (!st) {
        st = onnx_unpack(&m, a, &onnx__model_proto__descriptor, map.data, map.size, NULL);
        g.graph = st ? NULL : ((Onnx__ModelProto *)m)->graph;
        st = st || !g.graph ? st : run_sets(t, a, &g, model, types_only);
        mapped_close(&map);
    }
    st = st || types_only ? st : check_interpreted(t);
    if (st)
        snprintf(t->text, sizeof t->text, "interpreted: %.480s", status_message());
    arena_free(a);
    good = !st && t->outcome == before;
    t->outcome = before;
    return good;
}
