/* From a cuDNN graph to a plan: engines by heuristics, the first that keeps our promises about numbers and fits.
 *
 * Engines describe what they do by numerical notes.  Refused are always those that may give other bits in another run
 * (NONDETERMINISTIC), that add 16-bit products in 16 bits (REDUCED_PRECISION_REDUCTION), and Winograd or Fourier
 * transforms that lose more than rounding the inputs does; for float32 without TF32 also those that use tensor cores or
 * convert inputs down; where a NaN must stay one, those that lose it (cudnn_probe.c).  The others differ from the
 * definition only by the order of float32 (float64) additions. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/plugin/cudnn_tune.h"

enum { ENGINES = 64 }; /* of one answer of the heuristics */

/* ---- running ---- */

static void *cudnn_plan_address(const CudnnBinding *b, void *const *buffers, void *workspace)
{
    switch (b->kind) {
    case BIND_BUFFER: return buffers[b->buffer];
    case BIND_SCALAR: return (void *)&b->value; /* read on the host, when the plan is executed */
    default: return (char *)workspace + b->offset;
    }
}

static Status cudnn_plan_run(GpuPlan *plan, GpuStream *s, void *const *buffers, void *workspace)
{
    CudnnPlan *p = (CudnnPlan *)plan;
    cudnnHandle_t handle = plan->device->cudnn->handle;
    CudnnGraph g = { .status = ST_OK };
    CudnnDescriptor pack = CUDNN_NEW(&g, VARIANT_PACK);
    void *at[CUDNN_BINDINGS], *library = (char *)workspace + p->own;

    for (int i = 0; i < p->n; i++)
        at[i] = cudnn_plan_address(&p->bind[i], buffers, workspace);
    CUDNN_SET(&g, pack, VARIANT_PACK_UNIQUE_IDS, INT64, p->n, p->id);
    CUDNN_SET(&g, pack, VARIANT_PACK_DATA_POINTERS, VOID_PTR, p->n, at);
    CUDNN_SET(&g, pack, VARIANT_PACK_WORKSPACE, VOID_PTR, 1, &library);
    cudnn_finalize(&g, pack, "the buffers");
    if (!g.status)
        g.status = cudnn_check(plan->device, "cudnnSetStream", cudnnSetStream(handle, s->stream));
    if (!g.status)
        g.status = cudnn_check(plan->device, "cudnnBackendExecute", cudnnBackendExecute(handle, p->execution, pack));
    cudnn_graph_free(&g);
    return g.status;
}

static void cudnn_plan_release(GpuPlan *plan)
{
    CudnnPlan *p = (CudnnPlan *)plan;

    if (!p->shared)
        cudnnBackendDestroyDescriptor(p->execution);
    free(p);
}

static const GpuPlanClass cudnn_class = { cudnn_plan_run, cudnn_plan_release };

/* Makes a CudnnPlan that owns the finalized execution plan until it is shared; NULL when out of memory. */
static CudnnPlan *wrap(GpuDevice *d, const CudnnGraph *g, CudnnDescriptor execution, int64_t library)
{
    CudnnPlan *p = calloc(1, sizeof *p);

    if (!p)
        return NULL;
    p->plan = (GpuPlan){ &cudnn_class, d };
    p->execution = execution;
    p->own = g->scratch;
    p->workspace = g->scratch + (size_t)library;
    p->n = g->n_bind;
    for (int i = 0; i < g->n_bind; i++) {
        p->bind[i] = g->bind[i];
        p->id[i] = g->bind[i].id;
    }
    return p;
}

/* ---- engines ---- */

static bool noted(const cudnnBackendNumericalNote_t *note, int64_t n, cudnnBackendNumericalNote_t which)
{
    for (int64_t i = 0; i < n; i++)
        if (note[i] == which)
            return true;
    return false;
}

static bool harms(const GpuDevice *d, DType dtype, const cudnnBackendNumericalNote_t *note, int64_t n)
{
    static const cudnnBackendNumericalNote_t never[] = {
        CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC,
        CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION,
        CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_6x6,
        CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_13x13,
        CUDNN_NUMERICAL_NOTE_FFT,
    };

    for (size_t i = 0; i < sizeof never / sizeof *never; i++)
        if (noted(note, n, never[i]))
            return true;
    if (dtype != DT_FLOAT32)
        return noted(note, n, CUDNN_NUMERICAL_NOTE_WINOGRAD);
    return !d->tf32 && (noted(note, n, CUDNN_NUMERICAL_NOTE_TENSOR_CORE) ||
                        noted(note, n, CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS));
}

typedef struct {
    GpuDevice *device;
    const CudnnGraph *graph;
    const CudnnRequest *request;
    int offered, harmful, refused; /* engines: by the heuristics; of these, not acceptable; failed to build or to run */
    bool lost_nan;                 /* the best that was found makes a number of a NaN */
    int wanted;                    /* plans to find */
    CudnnPlan *found[CUDNN_CANDIDATES]; /* within the preferred workspace, best first */
    int n_found;
    CudnnPlan *large; /* the one of least workspace beyond it */
    char why[192];    /* cuDNN's words on the last that failed to build */
} Search;

static bool compiles(CudnnDescriptor engine)
{
    cudnnBackendBehaviorNote_t note[CUDNN_BEHAVIOR_NOTE_TYPE_COUNT];
    int64_t n = 0;

    if (cudnnBackendGetAttribute(engine, CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE, CUDNN_TYPE_BEHAVIOR_NOTE,
                                 CUDNN_BEHAVIOR_NOTE_TYPE_COUNT, &n, note))
        return true;
    for (int64_t i = 0; i < n; i++)
        if (note[i] == CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION)
            return true;
    return false;
}

/* Whether the engine of a configuration keeps our promises; one whose notes cannot be read does not.  Sets *index to
 * its index; -1: none. */
static bool acceptable(const Search *s, CudnnDescriptor config, int64_t *index)
{
    cudnnBackendNumericalNote_t note[CUDNN_NUMERICAL_NOTE_TYPE_COUNT];
    CudnnDescriptor engine = NULL;
    int64_t n = 0;
    bool ok;

    *index = -1;
    if (cudnnBackendCreateDescriptor(CUDNN_BACKEND_ENGINE_DESCRIPTOR, &engine))
        return false;
    ok =
        !cudnnBackendGetAttribute(config, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &n, &engine) &&
        !cudnnBackendGetAttribute(engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
                                  CUDNN_NUMERICAL_NOTE_TYPE_COUNT, &n, note) &&
        !harms(s->device, s->request->dtype, note, n) && !(s->request->keeps_nan && compiles(engine));
    if (ok && cudnnBackendGetAttribute(engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1, &n, index))
        *index = -1;
    cudnnBackendDestroyDescriptor(engine);
    return ok;
}

/* Where the device remembers that the engine loses a NaN; NULL: nowhere. */
static bool *loses_nan(const Search *s, int64_t engine)
{
    return engine >= 0 && engine < CUDNN_ENGINES ? &s->device->cudnn->loses_nan[s->request->dtype][engine] : NULL;
}

static int64_t plan_workspace(CudnnDescriptor plan)
{
    int64_t n, bytes = 0;

    return cudnnBackendGetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &n, &bytes)
               ? -1
               : bytes;
}

static void plan_release(CudnnPlan *p)
{
    if (p)
        cudnn_plan_release(&p->plan);
}

/* Does the plan keep NaNs?  A plan that cannot be run, for lack of memory say, may not be taken: that is no
 * error. */
static bool passes(Search *s, CudnnPlan *p, int64_t engine)
{
    bool *loses = loses_nan(s, engine), kept;

    if (!s->request->keeps_nan || s->device->index < 0)
        return true;
    if (cudnn_keeps_nan(&kept, p, s->request)) {
        s->refused++;
        snprintf(s->why, sizeof s->why, "%s", status_message());
        return false;
    }
    s->lost_nan = !kept;
    if (loses && !kept)
        *loses = true;
    return kept;
}

/* Builds the plan of a configuration.  One that cuDNN refuses is counted, not an error. */
static Status try_config(Search *s, CudnnDescriptor config, int64_t engine)
{
    CudnnDescriptor plan = NULL;
    CudnnPlan *p;
    int64_t bytes;

    if (cudnnBackendCreateDescriptor(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, &plan) ||
        cudnnBackendSetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
                                 &config) ||
        cudnnBackendFinalize(plan) || (bytes = plan_workspace(plan)) < 0) {
        s->refused++;
        cudnnGetLastErrorString(s->why, sizeof s->why);
        if (plan)
            cudnnBackendDestroyDescriptor(plan);
        return ST_OK;
    }
    if (!(p = wrap(s->device, s->graph, plan, bytes))) {
        cudnnBackendDestroyDescriptor(plan);
        return FAIL_NOMEM();
    }
    if (!passes(s, p, engine))
        plan_release(p);
    else if (p->workspace <= s->request->workspace)
        s->found[s->n_found++] = p;
    else if (!s->large || p->workspace < s->large->workspace) {
        plan_release(s->large);
        s->large = p;
    } else
        plan_release(p);
    return ST_OK;
}

/* An engine that the heuristics offer. */
static Status try_engine(Search *s, CudnnDescriptor config)
{
    const bool *loses;
    int64_t engine;

    s->offered++;
    if (!acceptable(s, config, &engine)) {
        s->harmful++;
        return ST_OK;
    }
    loses = loses_nan(s, engine);
    if (s->request->keeps_nan && loses && *loses) {
        s->lost_nan = true;
        return ST_OK;
    }
    return try_config(s, config, engine);
}

/* Asks the heuristics in one mode and tries their answers until there are enough plans.  None is tried behind one that
 * loses a NaN, because a slower plan costs more than it saves. */
static Status cudnn_plan_search(Search *s, CudnnDescriptor graph, cudnnBackendHeurMode_t mode)
{
    CudnnGraph g = { .status = ST_OK };
    CudnnDescriptor heuristics = CUDNN_NEW(&g, ENGINEHEUR), config[ENGINES];
    int64_t n = 0;
    Status st = ST_OK;

    CUDNN_SET(&g, heuristics, ENGINEHEUR_OPERATION_GRAPH, BACKEND_DESCRIPTOR, 1, &graph);
    CUDNN_SET(&g, heuristics, ENGINEHEUR_MODE, HEUR_MODE, 1, &mode);
    if (s->device->cudnn->described)
        CUDNN_SET(&g, heuristics, ENGINEHEUR_DEVICEPROP, BACKEND_DESCRIPTOR, 1, &s->device->cudnn->described);
    cudnn_finalize(&g, heuristics, "heuristics");
    for (int i = 0; i < ENGINES; i++)
        config[i] = CUDNN_NEW(&g, ENGINECFG);
    if (!g.status && !cudnnBackendGetAttribute(heuristics, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                                               ENGINES, &n, config))
        for (int64_t i = 0; i < n && i < ENGINES && s->n_found < s->wanted && !s->lost_nan && !st; i++)
            st = try_engine(s, config[i]);
    cudnn_graph_free(&g);
    return st;
}

/* The graph's operations as one descriptor. */
static CudnnDescriptor operation_graph(GpuDevice *d, CudnnGraph *g)
{
    CudnnDescriptor graph = CUDNN_NEW(g, OPERATIONGRAPH);

    CUDNN_SET(g, graph, OPERATIONGRAPH_OPS, BACKEND_DESCRIPTOR, g->n_op, g->op);
    if (d->cudnn->handle)
        CUDNN_SET(g, graph, OPERATIONGRAPH_HANDLE, HANDLE, 1, &d->cudnn->handle);
    return cudnn_finalize(g, graph, "the graph of operations");
}

static Status cudnn_plan_choose(Search *s, GpuPlan **out, size_t *workspace)
{
    CudnnPlan *best = s->n_found ? s->found[0] : s->large;

    if (!best && s->lost_nan)
        return FAIL(E_UNSUPPORTED, "cuDNN %d makes a number of a NaN in %s on %s", (int)cudnnGetVersion(),
                    s->request->key, s->device->info.name);
    if (!best)
        return FAIL(E_UNSUPPORTED,
                    "cuDNN %d has no engine for %s on %s: %d offered, %d of them could change results, %d failed to "
                    "build%s%.*s",
                    (int)cudnnGetVersion(), s->request->key, s->device->info.name, s->offered, s->harmful, s->refused,
                    s->refused ? ": " : "", (int)strcspn(s->why, "\n"), s->why);
    if (s->n_found > 1)
        (void)!cudnn_fastest(&best, s->found,
                             s->n_found); /* not measured, for lack of memory say: the heuristics' first */
    for (int i = 0; i < s->n_found; i++)
        if (s->found[i] != best)
            plan_release(s->found[i]);
    if (s->large != best)
        plan_release(s->large);
    s->n_found = 0;
    s->large = NULL;
    *workspace = best->workspace;
    *out = &best->plan;
    return ST_OK;
}

/* ---- plans made before: by this process, on disk ---- */

enum { KEY_SIZE = 1024 };

/* A plan for a described device is for properties that are guessed in part, and may never have been loaded: not for the
 * device.  A call that is too long for a key gets "", which nothing is kept under. */
static void cache_key(char key[KEY_SIZE], const GpuDevice *d, const CudnnRequest *r)
{
    int n = snprintf(key, KEY_SIZE, "%s|%s%s|sm%d|%d|tf32 %d|tune %d|cudnn %d", r->key, d->info.name,
                     d->index < 0 ? " described" : "", d->info.capability, d->info.multiprocessors, d->tf32, d->tune,
                     (int)cudnnGetVersion());

    if (n >= KEY_SIZE)
        key[0] = '\0';
}

/* The plan that this process made before for the same call. */
static Status from_memory(GpuDevice *d, const CudnnGraph *g, const char *key, CudnnPlan **out)
{
    CudnnExecution *e = d->cudnn->made;

    *out = NULL;
    while (e && strcmp(e->key, key))
        e = e->next;
    if (!e || !*key)
        return ST_OK;
    if (!(*out = wrap(d, g, e->plan, e->workspace)))
        return FAIL_NOMEM();
    (*out)->shared = true;
    return ST_OK;
}

/* Without memory for the copy the plan stays its own. */
static void to_memory(CudnnPlan *p, const char *key)
{
    CudnnState *c = p->plan.device->cudnn;
    CudnnExecution *e = *key ? malloc(sizeof *e + strlen(key) + 1) : NULL;

    if (!e)
        return;
    *e = (CudnnExecution){ c->made, p->execution, (int64_t)(p->workspace - p->own) };
    memcpy(e->key, key, strlen(key) + 1);
    c->made = e;
    p->shared = true;
}

static Status from_cache(GpuDevice *d, const CudnnGraph *g, const char *key, CudnnPlan **out)
{
    CudnnDescriptor plan = NULL;
    CudnnState *c = d->cudnn;
    void *json = NULL;
    size_t n = 0;
    int64_t bytes = -1;

    *out = NULL;
    if (!*key)
        return ST_OK;
    TRY(cache_read(d, "cudnn", key, strlen(key), &json, &n));
    if (json && !cudnnBackendCreateDescriptor(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, &plan) &&
        !(c->handle ? cudnnBackendSetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &c->handle)
                    : cudnnBackendSetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP,
                                               CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &c->described)) &&
        !cudnnBackendSetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, (int64_t)n,
                                  json) &&
        !cudnnBackendFinalize(plan))
        bytes = plan_workspace(plan);
    free(json);
    if (bytes >= 0 && (*out = wrap(d, g, plan, bytes)))
        return ST_OK;
    if (plan)
        cudnnBackendDestroyDescriptor(plan);
    return bytes >= 0 ? FAIL_NOMEM() : ST_OK;
}

static void to_cache(const GpuDevice *d, const CudnnPlan *p, const char *key)
{
    int64_t n = 0;
    char *json;

    if (!*key ||
        cudnnBackendGetAttribute(p->execution, CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, 0, &n,
                                 NULL) ||
        n <= 0 || !(json = malloc((size_t)n)))
        return;
    if (!cudnnBackendGetAttribute(p->execution, CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, n, &n,
                                  json))
        cache_write(d, "cudnn", key, strlen(key), json, (size_t)n);
    free(json);
}

/* ---- */

Status cudnn_plan_make(GpuDevice *d, CudnnGraph *g, const CudnnRequest *r, GpuPlan **out, size_t *workspace)
{
    Search s = { .device = d, .graph = g, .request = r, .wanted = d->tune && d->index >= 0 ? CUDNN_CANDIDATES : 1 };
    CudnnDescriptor graph;
    CudnnPlan *known;
    Status st;
    char key[KEY_SIZE];

    TRY(cudnn_open(d));
    if (g->status)
        return g->status;
    cache_key(key, d, r);
    TRY(from_memory(d, g, key, &known));
    if (!known) {
        TRY(from_cache(d, g, key, &known));
        if (known)
            to_memory(known, key);
    }
    if (known) {
        *workspace = known->workspace;
        *out = &known->plan;
        return ST_OK;
    }
    graph = operation_graph(d, g);
    if (g->status)
        return status_prefix(g->status, "%s", r->key);
    st = cudnn_plan_search(&s, graph, CUDNN_HEUR_MODE_A);
    if (!st && s.n_found < s.wanted && !s.lost_nan)
        st = cudnn_plan_search(&s, graph, CUDNN_HEUR_MODE_FALLBACK);
    if (!st)
        st = cudnn_plan_choose(&s, out, workspace);
    if (!st) {
        to_cache(d, (CudnnPlan *)*out, key);
        to_memory((CudnnPlan *)*out, key);
    }
    for (int i = 0; i < s.n_found; i++)
        plan_release(s.found[i]);
    plan_release(s.large);
    return st;
}
