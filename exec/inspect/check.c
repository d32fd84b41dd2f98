/* Golden data: reads a folder of data sets, runs the model on each and compares its outputs. */
#include "exec/inspect/check.h"

#include <dirent.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "exec/plan/plan_budget.h"
#include "exec/run/interp.h"
#include "exec/train/interpreted_part.h"
#include "exec/train/session.h"
#include "graph/base/foreign.h"
#include "graph/base/numtext.h"
#include "graph/onnx/onnx.h"
#include "graph/tensor/strings.h"
#include "passes/options/inputs.h"
#include "passes/options/step.h"

enum { PATH_LENGTH = 4096, MAX_INPUTS = 256, FEW = 64 };

/* How a data set is run.  RUN_FEW_CONSTANT makes inputs of few elements constants, because many of ONNX's tests give as
 * inputs axes, shapes and sizes that models hold as constants. */
typedef enum { RUN_AS_IS, RUN_FEW_CONSTANT, RUN_INTERPRETED } RunMode;

/* The tensors of an input that is a sequence or optional. */
typedef struct {
    int input, n; /* number of the input among the model's, and of its tensors */
    const Tensor *const *item;
} Structured;

/* A check of a folder, and in copies of it one run of one data set each. */
typedef struct {
    const Options *options;
    const char *folder;
    DeviceList devices;
    Tolerance tolerance;
    dpx_check_result *result;
    bool interpreter; /* everything is interpreted */
    /* Fields of a run: */
    const char *set; /* the data set's folder */
    Arena *arena;
    Graph *graph;
    OnnxModel *onnx;
    Session *session;
    NamedTensor input[MAX_INPUTS];
    int n_input;
    Structured structured[MAX_INPUTS]; /* in the order of the model's inputs */
    int n_structured, n_model_input;   /* n_model_input: inputs of the model that have been read */
    OnnxNamedValue *output;            /* in the order of the model's outputs */
    int n_output;
    bool planned;
} Check;

/* ---- files ---- */

/* Leaves *out alone where `name` is missing or null. */
static Status read_tolerance(double *out, const json_t *root, const char *name, const char *path)
{
    const json_t *value = json_object_get(root, name);

    if (!value || json_is_null(value))
        return ST_OK;
    if (!json_is_number(value) || !(json_number_value(value) >= 0))
        return FAIL(E_INVALID, "%s: %s: expected a number from 0", path, name);
    *out = json_number_value(value);
    return ST_OK;
}

static Status read_tolerances(Check *c)
{
    char path[PATH_LENGTH];
    json_error_t why;
    json_t *root;
    Status st;

    c->tolerance = (Tolerance){ 1e-7, 1e-3 };
    snprintf(path, sizeof path, "%s/data.json", c->folder);
    if (access(path, F_OK))
        return ST_OK;
    if (!(root = json_load_file(path, 0, &why)))
        return FAIL(E_INVALID, "%s:%d: %s", path, why.line, why.text);
    st = read_tolerance(&c->tolerance.atol, root, "atol", path);
    st = st ? st : read_tolerance(&c->tolerance.rtol, root, "rtol", path);
    json_decref(root);
    return st;
}

/* Reads a value of type `expected`.  ONNX's data of 2022 store bfloat16 as the uint16 of its bits. */
static Status read_as(OnnxValue *out, Arena *a, const char *path, const OnnxType *expected)
{
    TRY(onnx_read_value(out, a, path, expected));
    for (int i = 0; i < out->n; i++)
        if (out->item[i]->dtype == DT_UINT16 && expected->dtype == DT_BFLOAT16)
            ((Tensor *)out->item[i])->dtype = DT_BFLOAT16;
    return ST_OK;
}

Status check_read(Tensor **out, Arena *a, const char *path, DType expected)
{
    OnnxValue v;

    TRY(read_as(&v, a, path, &(OnnxType){ .dtype = expected }));
    *out = (Tensor *)v.item[0];
    return ST_OK;
}

/* ---- inputs ---- */

/* An OnnxInput: reads input_I.pb of the data set. */
static Status read_input(void *user, OnnxValue *out, Arena *a, int i, const char *name, const OnnxType *type)
{
    Check *t = user;
    char path[PATH_LENGTH];

    (void)name;
    t->n_model_input = i >= t->n_model_input ? i + 1 : t->n_model_input;
    snprintf(path, sizeof path, "%s/input_%d.pb", t->set, i);
    return read_as(out, a, path, type);
}

/* An OnnxMembers. */
static Status read_members(void *user, int *n, int i, const char *name, const OnnxType *type)
{
    Check *t = user;
    OnnxValue v;

    if (t->n_structured == MAX_INPUTS)
        return FAIL(E_UNSUPPORTED, "%d inputs, at most %d can be given", i, MAX_INPUTS);
    TRY(read_input(user, &v, t->arena, i, name, type));
    *n = v.nothing ? ONNX_ABSENT : v.n;
    t->structured[t->n_structured++] = (Structured){ i, v.nothing ? 0 : v.n, v.item };
    return ST_OK;
}

/* Returns the tensor for the graph's next input.  *i counts the model's inputs and *k the tensors taken of input *i,
 * for a sequence of the model is several inputs of the graph. */
static Status next_tensor(const Tensor **out, Check *t, const Value *v, int *i, int *k)
{
    OnnxValue x;

    for (int s = 0; s < t->n_structured; s++) {
        const Structured *x_of = &t->structured[s];

        if (x_of->input != *i)
            continue;
        if (*k < x_of->n) {
            *out = x_of->item[(*k)++];
            return ST_OK;
        }
        (*i)++;
        *k = 0;
    }
    TRY(read_input(t, &x, t->arena, (*i)++, v->name, &(OnnxType){ .dtype = v->dtype }));
    *out = x.item[0];
    return ST_OK;
}

/* Reads the data set's inputs; in RUN_FEW_CONSTANT small ones become constants of the graph. */
static Status check_give_inputs(Check *t, RunMode mode)
{
    Graph *g = t->graph;
    int kept = 0, input = 0, member = 0;

    if (g->n_input > MAX_INPUTS)
        return FAIL(E_UNSUPPORTED, "%d inputs, at most %d can be given", g->n_input, MAX_INPUTS);
    for (int i = 0; i < g->n_input; i++) {
        Value *v = value(g, g->input[i]);
        const Tensor *x;

        TRY(next_tensor(&x, t, v, &input, &member));
        if (x->dtype != v->dtype)
            return FAIL(E_INVALID, "input '%s' is %s, expected %s", v->name, dtype_name(x->dtype),
                        dtype_name(v->dtype));
        if (mode == RUN_FEW_CONSTANT && x->shape.rank <= 1 && tensor_numel(x) <= FEW) {
            v->kind = V_CONST;
            value_set_shape(g, v, &x->shape);
            v->init = x;
        } else {
            t->input[t->n_input++] = (NamedTensor){ v->name, *x };
            g->input[kept++] = g->input[i];
        }
        TRY(g->status);
    }
    g->n_input = kept;
    return ST_OK;
}

/* ---- computing ---- */

/* Collects the model's output `declared` from the graph's n outputs `found`; a sequence is the outputs NAME.0, NAME.1
 * ... of the graph. */
static Status gather_output(OnnxNamedValue *out, const Check *t, const OnnxOutput *declared, const NamedTensor *found,
                            int n)
{
    const Tensor **item = ARENA_NEW(t->arena, const Tensor *, n), *x;
    const char *name = declared->name;

    if (!item)
        return FAIL_NOMEM();
    *out = (OnnxNamedValue){
        name, { .type = { .optional = declared->optional, .sequence = declared->sequence }, .item = item }
    };
    do {
        if (declared->sequence && !(name = arena_printf(t->arena, "%s.%d", declared->name, out->value.n)))
            return FAIL_NOMEM();
        if ((x = named_find(found, n, name)))
            item[out->value.n++] = x;
    } while (x && declared->sequence);
    if (!out->value.n && declared->optional && declared->sequence)
        return FAIL(E_UNSUPPORTED, "output '%s' is absent, or a sequence of no tensors", declared->name);
    out->value.nothing = !out->value.n && declared->optional;
    return out->value.n || declared->optional || declared->sequence
               ? ST_OK
               : FAIL(E_INTERNAL, "output '%s' was not computed", name);
}

static Status run_session(Check *t, RunMode mode)
{
    const NamedTensor *out;
    int n;

    TRY(check_give_inputs(t, mode));
    TRY(session_create(&t->session, t->graph, &t->options->build, &t->devices, NULL, NULL));
    TRY(session_step(&out, &n, t->session, BUILD_INFER, t->input, t->n_input));
    t->planned = session_program(t->session, BUILD_INFER) != NULL;
    t->n_output = t->onnx->n_output;
    if (!(t->output = ARENA_NEW(t->arena, OnnxNamedValue, t->n_output)))
        return FAIL_NOMEM();
    for (int i = 0; i < t->n_output; i++)
        TRY(gather_output(&t->output[i], t, &t->onnx->output[i], out, n));
    return ST_OK;
}

/* ---- comparing ---- */

static bool close_enough(const Tensor *x, const Tensor *y, int64_t i, const Tolerance *within)
{
    double a, b;

    if (x->dtype == DT_STRING)
        return text_same(text_at(x, i), text_at(y, i));
    if (!dtype_is_float(x->dtype))
        return tensor_int(x, i) == tensor_int(y, i);
    a = tensor_float(x, i);
    b = tensor_float(y, i);
    return (isnan(a) && isnan(b)) || a == b || fabs(a - b) <= within->atol + within->rtol * fabs(b);
}

/* "12", "0.5" or "'word'": element i. */
static const char *element_text(char text[32], const Tensor *x, int64_t i)
{
    if (x->dtype == DT_STRING) {
        snprintf(text, 32, "'%.29s'", text_at(x, i).bytes);
        foreign_clean(text);
    } else if (dtype_is_float(x->dtype))
        text_format(text, 32, "%.9g", tensor_float(x, i));
    else
        snprintf(text, 32, "%lld", (long long)tensor_int(x, i));
    return text;
}

bool check_differs(char *text, size_t size, const char *name, const Tensor *found, const Tensor *expected,
                   const Tolerance *within)
{
    char a[SHAPE_TEXT], b[SHAPE_TEXT], x[32], y[32];
    int64_t n = 0, first = -1;

    if (found->dtype != expected->dtype || !shape_eq(&found->shape, &expected->shape)) {
        snprintf(text, size, "output '%.200s' is %s%s, expected %s%s", name, dtype_name(found->dtype),
                 shape_text(&found->shape, a), dtype_name(expected->dtype), shape_text(&expected->shape, b));
        return true;
    }
    for (int64_t i = tensor_numel(found) - 1; within && i >= 0; i--)
        if (!close_enough(found, expected, i, within)) {
            first = i;
            n++;
        }
    if (n)
        snprintf(text, size, "output '%.200s': %lld of %lld elements differ, first number %lld: %s, expected %s", name,
                 (long long)n, (long long)tensor_numel(found), (long long)first, element_text(x, found, first),
                 element_text(y, expected, first));
    return n > 0;
}

static bool differ(char *text, size_t size, const Check *t, const char *name, const OnnxValue *found,
                   const OnnxValue *expected)
{
    char item[256];

    if (found->nothing != expected->nothing || found->n != expected->n) {
        snprintf(text, size, "output '%.200s' has %d tensors, expected %d", name, found->n, expected->n);
        return true;
    }
    for (int i = 0; i < found->n; i++) {
        snprintf(item, sizeof item, found->type.sequence ? "%.200s.%d" : "%.200s", name, i);
        if (check_differs(text, size, item, found->item[i], expected->item[i], &t->tolerance))
            return true;
    }
    return false;
}

static Status check_compare(const Check *t, bool *wrong)
{
    dpx_check_result *r = t->result;
    char path[PATH_LENGTH], text[sizeof r->text];

    for (int i = 0; i < t->n_output && !*wrong; i++) {
        const OnnxNamedValue *found = &t->output[i];
        OnnxType type = found->value.type;
        OnnxValue expected;

        type.dtype = found->value.n ? found->value.item[0]->dtype : type.dtype;
        snprintf(path, sizeof path, "%s/output_%d.pb", t->set, i);
        TRY(read_as(&expected, t->arena, path, &type));
        *wrong = differ(text, sizeof text, t, found->name, &found->value, &expected);
        if (*wrong)
            snprintf(r->text, sizeof r->text, "%.40s: %.900s", strrchr(t->set, '/') + 1, text);
    }
    return ST_OK;
}

/* Fails a data set that has more inputs or outputs than the model: it belongs to another model. */
static void check_more_files(const Check *t, bool *wrong)
{
    const struct {
        const char *what;
        int n;
    } kind[] = { { "input", t->n_model_input }, { "output", t->n_output } };
    char path[PATH_LENGTH];

    for (int i = 0; i < 2 && !*wrong; i++) {
        snprintf(path, sizeof path, "%s/%s_%d.pb", t->set, kind[i].what, kind[i].n);
        if ((*wrong = !access(path, F_OK)))
            snprintf(t->result->text, sizeof t->result->text, "%.40s: there is %s_%d.pb, and the model has %d %s%s",
                     strrchr(t->set, '/') + 1, kind[i].what, kind[i].n, kind[i].n, kind[i].what,
                     kind[i].n == 1 ? "" : "s");
    }
}

/* ---- one data set ---- */

static Status run_model(Check *t, const char *model, RunMode mode)
{
    const BuildOptions *o = &t->options->build;
    PartOptions part = { o, &t->devices };
    OperatorList own = { NULL, 0 };
    ImportOptions read = {
        .eval = interp_any,
        .own = &own,
        .compute = t->interpreter ? NULL : part_compute,
        .compute_user = &part,
        .file_modes = step_options(o)->file_modes,
    };

    TRY(options_operators(&own, t->arena, t->options));
    if (mode == RUN_INTERPRETED)
        return plan_evaluate(&t->output, &t->n_output, t->arena, model, &read, o, read_input, t);
    read.eval = interp_node;
    read.members = read_members;
    read.members_user = t;
    TRY(plan_import_as(&t->graph, &t->onnx, model, NULL, &read, o));
    return run_session(t, mode);
}

/* Runs a data set in one mode.  *planned: it ran as a program; *wrong: an output differs, and c->result->text says
 * which. */
static Status run_mode(const Check *c, const char *set, RunMode mode, bool *planned, bool *wrong)
{
    Check t = *c;
    char model[PATH_LENGTH];
    Status st = (t.arena = arena_create()) ? ST_OK : FAIL_NOMEM();

    t.set = set;
    snprintf(model, sizeof model, "%s/model.onnx", c->folder);
    *wrong = false;
    st = st ? st : run_model(&t, model, mode);
    st = st ? st : check_compare(&t, wrong);
    if (!st && !*wrong)
        check_more_files(&t, wrong);
    *planned = t.planned;
    session_free(t.session);
    graph_free(t.graph);
    onnx_model_free(t.onnx);
    arena_free(t.arena);
    return st;
}

/* Runs a data set as it is.  Where that gives no program, tries inputs of few elements as constants, and then the
 * interpreter. */
static Status run_set(const Check *c, const char *set, bool interpreter, bool *planned, bool *wrong)
{
    bool other_planned = false, other_wrong = false;
    Status st;

    if (interpreter)
        return run_mode(c, set, RUN_INTERPRETED, planned, wrong);
    st = run_mode(c, set, RUN_AS_IS, planned, wrong);
    if (!st && (*planned || *wrong))
        return ST_OK;
    if (!run_mode(c, set, RUN_FEW_CONSTANT, &other_planned, &other_wrong) && (st || other_planned)) {
        *planned = other_planned;
        *wrong = other_wrong;
        return ST_OK;
    }
    return st ? run_mode(c, set, RUN_INTERPRETED, planned, wrong) : ST_OK;
}

static int is_set(const struct dirent *e) { return !strncmp(e->d_name, "test_data_set_", 14); }

static Status run_sets(const Check *c, bool interpreter)
{
    struct dirent **entry;
    int n = scandir(c->folder, &entry, is_set, versionsort);
    bool all_planned = true, wrong = false;
    Status st = n > 0 ? ST_OK : FAIL(E_IO, "%s has no test_data_set_0", c->folder);

    for (int i = 0; i < n; i++) {
        char set[PATH_LENGTH];
        bool planned = false;

        snprintf(set, sizeof set, "%s/%s", c->folder, entry[i]->d_name);
        if (!st && !wrong) {
            st = run_set(c, set, interpreter, &planned, &wrong);
            all_planned = all_planned && planned;
        }
        free(entry[i]);
    }
    if (n >= 0)
        free(entry);
    c->result->planned = all_planned && !st;
    if (wrong)
        c->result->outcome = DPX_CHECK_FAILED;
    return st;
}

Status check_folder(dpx_check_result *out, const char *folder, const Options *o, bool interpreter)
{
    Check c = { .options = o, .folder = folder, .result = out, .interpreter = interpreter };
    Status st;

    if (input_options(&o->build)->n_input_value)
        return FAIL(E_INVALID, "--input-value: golden data hold every input of a model");
    if (strlen(folder) > PATH_LENGTH - 512)
        return FAIL(E_INVALID, "%.80s...: the path is too long", folder);
    *out = (dpx_check_result){ .outcome = DPX_CHECK_PASSED };
    TRY(read_tolerances(&c));
    TRY(options_devices(&c.devices, o));
    st = run_sets(&c, interpreter);
    if (st) {
        out->outcome = st == E_UNSUPPORTED ? DPX_CHECK_UNSUPPORTED : DPX_CHECK_FAILED;
        snprintf(out->text, sizeof out->text, "%s", status_message());
    }
    return ST_OK;
}
