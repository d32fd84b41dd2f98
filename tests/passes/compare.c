/* Two graphs that must compute the same: outputs by name, of random inputs. */
#include "tests/passes/compare.h"

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "exec/run/interp.h"
#include "exec/inspect/verify_batch.h"
#include "graph/onnx/onnx.h"
#include "graph/ir/op.h"
#include "graph/text/parse.h"
#include "passes/build_parts.h"
#include "tests/harness/target.h"
#include "tests/harness/test.h"
#include "tests/passes/step.h"

void compared_free(Compared *r)
{
    graph_free(r->g);
    arena_free(r->arena);
}

/* ---- results ---- */

static double norm(const Tensor *t)
{
    double sum = 0;

    for (int64_t i = 0; i < tensor_numel(t); i++)
        sum += pow(tensor_float(t, i), 2);
    return sqrt(sum);
}

/* |a - b| <= limit |b|, and 1e-15 of the largest output of all: a gradient may be zero but for rounding. */
static bool same(const Tensor *a, const Tensor *b, double limit, double largest)
{
    double difference = 0;

    if (!a || !b || a->dtype != b->dtype || !shape_eq(&a->shape, &b->shape))
        return false;
    if (!dtype_is_float(a->dtype))
        return !memcmp(a->data, b->data, tensor_bytes(a));
    for (int64_t i = 0; i < tensor_numel(a); i++)
        difference += pow(tensor_float(a, i) - tensor_float(b, i), 2);
    return sqrt(difference) <= limit * norm(b) + 1e-15 * largest;
}

void compare_outputs(const char *what, const Compared *found, const Compared *expected, double limit)
{
    double largest = 0;

    CU_ASSERT_EQUAL(found->g->n_output, expected->g->n_output);
    for (int i = 0; i < expected->g->n_output; i++) {
        const Tensor *t = expected->values[expected->g->output[i].value.i];

        largest = t && dtype_is_float(t->dtype) ? fmax(largest, norm(t)) : largest;
    }
    for (int i = 0; i < expected->g->n_output; i++) {
        const char *name = expected->g->output[i].name;
        ValueId v = graph_output(found->g, name);

        if (!has_value(v) ||
            !same(found->values[v.i], expected->values[expected->g->output[i].value.i], limit, largest))
            TEST_FAIL("%s: output '%s' differs", what, name);
    }
}

void compare_updates(const char *what, const Compared *found, const Compared *expected, double limit)
{
    const Graph *g = expected->g;

    CU_ASSERT_EQUAL(found->g->n_update, g->n_update);
    for (int u = 0; u < g->n_update && u < found->g->n_update; u++) {
        const char *name = value(g, g->update[u].state)->name;

        CU_ASSERT_STRING_EQUAL(value(found->g, found->g->update[u].state)->name, name);
        if (!same(found->values[found->g->update[u].next.i], expected->values[g->update[u].next.i], limit, 1))
            TEST_FAIL("%s: the next value of '%s' differs", what, name);
    }
}

/* ---- the golden graphs ---- */

static char *read_text(const char *path)
{
    FILE *f = fopen(path, "r");
    long size = f && !fseek(f, 0, SEEK_END) ? ftell(f) : -1;
    char *text = size < 0 ? NULL : calloc(1, (size_t)size + 1);

    if (text && (fseek(f, 0, SEEK_SET) || fread(text, 1, (size_t)size, f) != (size_t)size)) {
        free(text);
        text = NULL;
    }
    if (f)
        fclose(f);
    return text;
}

/* The graph behind "--- before". */
static Status open_before(Compared *r, const char *file)
{
    const char *from = strstr(file, "--- before\n"), *to = from ? strstr(from + 1, "\n---") : NULL;

    *r = (Compared){ .arena = arena_create() };
    if (!r->arena || !to)
        return FAIL(E_INVALID, "no graph before the pass");
    from += strlen("--- before\n");
    return graph_parse(&r->g, from, (size_t)(to + 1 - from));
}

/* Elements of either sign, the same for both graphs. */
static Status run_golden(Compared *r)
{
    unsigned state = 12345;

    if (!(r->values = ARENA_NEW(r->arena, const Tensor *, r->g->n_value)))
        return FAIL_NOMEM();
    for (int i = 0; i < r->g->n_input; i++) {
        const Value *v = value(r->g, r->g->input[i]);
        Tensor *t = tensor_create(r->arena, v->dtype, v->shape);

        if (!t)
            return FAIL_NOMEM();
        for (int64_t k = 0; k < tensor_numel(t); k++) {
            state = state * 1664525u + 1013904223u;
            if (dtype_is_float(v->dtype))
                tensor_set_float(t, k, (double)(state >> 8) / (1 << 23) - 1);
            else
                tensor_set_int(t, k, (long long)(state >> 24) - 128);
        }
        r->values[r->g->input[i].i] = t;
    }
    return interp_run(r->arena, r->g, r->values);
}

static void check_golden(const char *path, const Pass *pass, const BuildOptions *opt)
{
    char *file = read_text(path);
    Compared plain = { 0 }, fused = { 0 };

    CU_ASSERT_PTR_NOT_NULL_FATAL(file);
    if (CHECK_OK(open_before(&plain, file)) && CHECK_OK(open_before(&fused, file)) &&
        CHECK_OK(step_pass(fused.g, pass, opt)) && CHECK_OK(run_golden(&plain)) && CHECK_OK(run_golden(&fused)))
        compare_outputs(path, &fused, &plain, strstr(file, "bfloat16") ? 0x1p-8 : 1e-6);
    compared_free(&plain);
    compared_free(&fused);
    free(file);
}

int compare_golden(const char *name, const Pass *pass)
{
    BuildParts opt = { .build.mode = BUILD_TRAIN, .replicas.devices = 2, .backend.backend.fuses = fuses_all };
    char folder[512], path[1024];
    int found = 0;
    DIR *d;

    snprintf(folder, sizeof folder, SOURCE_DIR "/tests/passes/golden/%s", name);
    d = opendir(folder);
    for (struct dirent *e; d && (e = readdir(d));)
        if (e->d_name[0] != '.') {
            snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
            check_golden(path, pass, build_parts(&opt));
            found++;
        }
    if (d)
        closedir(d);
    return found;
}

/* ---- whole steps ---- */

Status compared_step(Compared *r, const StepCase *c)
{
    BuildParts parts = { .build.mode = c->mode,
                         .batch.batch = c->batch,
                         .types = { .dtype = DT_FLOAT64,
                                    .loss_scaling = c->loss_scale ? SCALE_FIXED : SCALE_NONE,
                                    .loss_scale = c->loss_scale },
                         .recipes = { .loss = &loss_cross_entropy, .settings = c->settings },
                         .step.keep_gradients = true,
                         .replicas = { .replicas = c->replicas, .devices = c->replicas > 1 ? 2 : 1 },
                         .batch_norm.bn = c->local_batch_norm ? BN_LOCAL : BN_SYNC,
                         .memory.chunk_rows = c->chunk_rows,
                         .backend.backend = c->target };
    const BuildOptions *opt = build_parts(&parts);
    char path[512];

    if (c->accuracy)
        parts.recipes.metric[0].def = &metric_accuracy;
    snprintf(path, sizeof path, SOURCE_DIR "/models/%s.onnx", c->name);
    *r = (Compared){ .arena = arena_create() };
    if (!r->arena)
        return FAIL_NOMEM();
    TRY(c->text ? graph_parse(&r->g, c->text, strlen(c->text))
                : onnx_import_file(&r->g, NULL, path, &(ImportOptions){ .eval = interp_node }));
    TRY(pipeline_run(r->g, opt, interp_node, NULL, NULL));
    if (!(r->values = ARENA_NEW(r->arena, const Tensor *, r->g->n_value)))
        return FAIL_NOMEM();
    TRY(verify_batch(r->arena, r->g, opt, 7, r->values));
    return interp_run(r->arena, r->g, r->values);
}
