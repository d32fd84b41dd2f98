/* Checks a partitioned graph against an unpartitioned one.  The interpreter runs both with the reference kernels: what
 * is compared is the meaning of the graphs, not a backend. */
#include "exec/inspect/verify.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "exec/inspect/verify_batch.h"
#include "exec/inspect/verify_noise.h"
#include "exec/run/interp.h"
#include "graph/base/foreign.h"
#include "graph/base/numtext.h"
#include "graph/ir/op.h"
#include "passes/build_options.h"
#include "passes/options/replicas.h"
#include "passes/options/step.h"
#include "passes/options/types.h"

/* ---- comparing ---- */

enum { KIND_GRAD, KIND_STATE, KIND_OUTPUT, N_KIND };

static int kind_of(const VerifyRow *r)
{
    return r->is_state                                                  ? KIND_STATE
           : strncmp(r->name, OUT_GRAD_PREFIX, strlen(OUT_GRAD_PREFIX)) ? KIND_OUTPUT
                                                                        : KIND_GRAD;
}

/* *diff = ||a - b||, *norm = ||b||.  NaN in the same place of both counts as equal, and sets *not_a_number: the mean
 * loss of no samples is NaN. */
static Status distance(double *diff, double *norm, bool *not_a_number, const char *name, const Tensor *a,
                       const Tensor *b)
{
    char ta[SHAPE_TEXT], tb[SHAPE_TEXT];

    if (!a || !b)
        return FAIL(E_INTERNAL, "'%s' was not computed", name);
    if (a->dtype != b->dtype || !shape_eq(&a->shape, &b->shape))
        return FAIL(E_INTERNAL, "'%s' is %s, partitioned %s", name, shape_text(&b->shape, tb),
                    shape_text(&a->shape, ta));
    *diff = *norm = 0;
    *not_a_number = false;
    for (int64_t i = 0; i < tensor_numel(a); i++) {
        double x = tensor_float(a, i), y = tensor_float(b, i);

        *not_a_number |= isnan(x) && isnan(y);
        if (x == y || (isnan(x) && isnan(y)))
            continue;
        *diff += (x - y) * (x - y);
    }
    for (int64_t i = 0; i < tensor_numel(b); i++)
        *norm += isnan(tensor_float(b, i)) ? 0 : tensor_float(b, i) * tensor_float(b, i);
    *diff = sqrt(*diff);
    *norm = sqrt(*norm);
    return ST_OK;
}

/* How many results a graph has: outputs and states after the step. */
static int results_of(const Graph *g) { return g->n_output + g->n_update; }

/* Adds a row, or another copy to the last row if that has the same name.  Until finish_rows a difference is
 * ||a - b||. */
static Status add_row(Verify *v, Arena *arena, const Graph *one, const char *name, bool is_state, const Tensor *a,
                      const Tensor *b)
{
    VerifyRow *last = v->n_row ? &v->row[v->n_row - 1] : NULL;
    double diff, norm;
    bool not_a_number;

    TRY(distance(&diff, &norm, &not_a_number, name, a, b));
    if (last && last->is_state == is_state && !strcmp(last->name, name)) {
        last->copies++;
        last->difference = diff <= last->difference ? last->difference : diff;
        return ST_OK;
    }
    if (v->n_row == results_of(one))
        return FAIL(E_INTERNAL, "more tensors than were counted");
    v->row[v->n_row] = (VerifyRow){ .name = arena_strdup(arena, name),
                                    .is_state = is_state,
                                    .copies = 1,
                                    .difference = diff,
                                    .norm = norm,
                                    .not_a_number = not_a_number };
    return v->row[v->n_row++].name ? ST_OK : FAIL_NOMEM();
}

/* The difference in units of what rounding does. */
static double times(const VerifyRow *r) { return r->difference / fmax(r->noise, VERIFY_FLOOR); }

static int worse_first(const void *a, const void *b)
{
    double x = times(a), y = times(b);

    return x != x ? y != y ? 0 : -1 : y != y ? 1 : (x < y) - (x > y);
}

/* A norm below this fraction of the norm of all tensors of its kind counts as the rounding of an exact zero. */
static const double zero_fraction = 1e-11;

/* Makes differences and noise relative, and sorts the rows. */
static void finish_rows(Verify *v)
{
    double total[N_KIND] = { 0 };

    v->worst = 0;
    for (int i = 0; i < v->n_row; i++)
        total[kind_of(&v->row[i])] += v->row[i].norm * v->row[i].norm;
    for (int i = 0; i < v->n_row; i++) {
        VerifyRow *r = &v->row[i];
        double all = sqrt(total[kind_of(r)]), by;

        r->zero = r->norm <= zero_fraction * all;
        by = r->zero ? all : r->norm;
        r->difference = r->difference == 0 ? 0 : by > 0 ? r->difference / by : INFINITY;
        r->noise = by > 0 && isfinite(r->noise) ? r->noise / by : 0;
        v->worst = r->difference <= v->worst ? v->worst : r->difference;
    }
    qsort(v->row, (size_t)v->n_row, sizeof *v->row, worse_first);
    v->times = v->n_row ? times(&v->row[0]) : 0;
}

/* The sum of the copies of a partial state; it equals the state of one replica. */
static Status sum_copies(Tensor **out, Arena *arena, const Graph *many, const Tensor **values, const char *logical)
{
    *out = NULL;
    for (int i = 0; i < many->n_update; i++) {
        const Tensor *t = values[many->update[i].next.i];

        if (strcmp(value_logical_name(value(many, many->update[i].state)), logical) || !t)
            continue;
        if (!*out) {
            if (!(*out = tensor_copy(arena, t)))
                return FAIL_NOMEM();
            continue;
        }
        for (int64_t k = 0; k < tensor_numel(t) && shape_eq(&t->shape, &(*out)->shape); k++)
            tensor_set_float(*out, k, tensor_float(*out, k) + tensor_float(t, k));
    }
    return ST_OK;
}

/* A sharded state after the step, joined from the slices of the devices. */
static Status join_copies(Tensor **out, Arena *arena, const Graph *many, const Tensor **values, const Value *state)
{
    const size_t size = dtype_size(state->dtype);
    int64_t held = 0;

    if (!(*out = tensor_create(arena, state->dtype, state->shape)))
        return FAIL_NOMEM();
    for (int i = 0; i < many->n_update; i++) {
        const Value *copy = value(many, many->update[i].state);
        const Tensor *t = values[many->update[i].next.i];

        if (!copy->shard || strcmp(value_logical_name(copy), state->name) || !t)
            continue;
        if (!shape_eq(&copy->shard->whole, state->shape) || !shape_eq(&t->shape, copy->shape))
            return FAIL(E_INTERNAL, "state '%s' is cut otherwise than it is updated", state->name);
        if (tensor_bytes(t))
            memcpy((char *)(*out)->data + (size_t)copy->shard->from * size, t->data, tensor_bytes(t));
        held += tensor_numel(t);
    }
    return held == tensor_numel(*out) ? ST_OK
                                      : FAIL(E_INTERNAL, "the pieces of state '%s' have %lld elements, expected %lld",
                                             state->name, (long long)held, (long long)tensor_numel(*out));
}

/* Compares state u after the step with all its copies. */
static Status compare_state(Verify *v, Arena *arena, const Graph *one, const Tensor **of_one, const Graph *many,
                            const Tensor **of_many, int u)
{
    const Value *state = value(one, one->update[u].state);
    const Tensor *expected = of_one[one->update[u].next.i];
    bool sharded = false;
    Tensor *all;
    int found = 0;

    for (int i = 0; i < many->n_update; i++) {
        const Value *copy = value(many, many->update[i].state);

        sharded |= copy->shard && !strcmp(value_logical_name(copy), state->name);
    }
    if (state->partial || sharded) {
        TRY(state->partial ? sum_copies(&all, arena, many, of_many, value_logical_name(state))
                           : join_copies(&all, arena, many, of_many, state));
        return add_row(v, arena, one, state->name, true, all, expected);
    }
    for (int i = 0; i < many->n_update; i++) {
        if (strcmp(value_logical_name(value(many, many->update[i].state)), value_logical_name(state)))
            continue;
        TRY(add_row(v, arena, one, state->name, true, of_many[many->update[i].next.i], expected));
        found++;
    }
    return found ? ST_OK : FAIL(E_INTERNAL, "state '%s' is not updated by the partitioned graph", state->name);
}

/* Result i of a graph: outputs come first, then states after the step. */
static const Tensor *result_of(const Graph *g, const Tensor *const *values, int i)
{
    return values[i < g->n_output ? g->output[i].value.i : g->update[i - g->n_output].next.i];
}

/* A relative change by more than this, when samples are reversed, is no rounding: the graph depends on positions. */
static const double position_fraction = 1e-6;

/* Raises the noise of every row, until finish_rows an absolute one, to the difference of one run `run`, which differs
 * from of_one by rounding alone.  A `reversed` run that differs by more than rounding is not counted. */
static Status add_noise(Verify *v, Arena *arena, const Graph *one, const Tensor **of_one, const Tensor **run,
                        bool reversed)
{
    double *diff = ARENA_NEW(arena, double, v->n_row), norm;
    bool not_a_number;

    if (!diff)
        return FAIL_NOMEM();
    for (int i = 0; i < v->n_row; i++) {
        TRY(distance(&diff[i], &norm, &not_a_number, v->row[i].name, result_of(one, run, i),
                     result_of(one, of_one, i)));
        if (reversed && !(diff[i] <= position_fraction * norm) && norm > position_fraction)
            return ST_OK;
    }
    for (int i = 0; i < v->n_row; i++)
        v->row[i].noise = fmax(v->row[i].noise, diff[i]);
    return ST_OK;
}

/* Makes a row for every result of `one`, in its order. */
static Status compare_results(Verify *out, Arena *arena, const Graph *one, const Tensor **of_one, const Graph *many,
                              const Tensor **of_many)
{
    *out = (Verify){ .row = ARENA_NEW(arena, VerifyRow, results_of(one)) };
    if (!out->row)
        return FAIL_NOMEM();
    for (int i = 0; i < one->n_output; i++) {
        const char *name = one->output[i].name;
        ValueId v = graph_output(many, name);

        if (!has_value(v))
            return FAIL(E_INTERNAL, "the partitioned graph has no output '%s'", name);
        TRY(add_row(out, arena, one, name, false, of_many[v.i], of_one[one->output[i].value.i]));
    }
    for (int i = 0; i < one->n_update; i++)
        TRY(compare_state(out, arena, one, of_one, many, of_many, i));
    return out->n_row == results_of(one)
               ? ST_OK
               : FAIL(E_INTERNAL, "%d tensors were compared of %d", out->n_row, results_of(one));
}

/* ---- running ---- */

/* Whether the state belongs to a parameter, as "PARAM.momentum" does. */
static bool is_moment(const Graph *g, const Value *v)
{
    const char *dot = strrchr(v->name, '.');

    if (v->kind != V_STATE || v->trainable || v->partial || !dtype_is_float(v->dtype) || !dot)
        return false;
    for (uint32_t i = 1; i < g->n_value; i++) {
        const Value *w = g->value[i];

        if (w->kind == V_STATE && w->trainable && strlen(w->name) == (size_t)(dot - v->name) &&
            !strncmp(w->name, v->name, strlen(w->name)))
            return true;
    }
    return false;
}

/* The slice of state t that a copy holds, or t itself where the state is not sharded; NULL: out of memory. */
static const Tensor *slice_of(Arena *a, const Value *copy, const Tensor *t)
{
    Tensor *piece = copy->shard ? tensor_create(a, t->dtype, copy->shape) : NULL;

    if (piece && tensor_bytes(piece))
        memcpy(piece->data, (const char *)t->data + (size_t)copy->shard->from * dtype_size(t->dtype),
               tensor_bytes(piece));
    return copy->shard ? piece : t;
}

/* Gives state v of `one`, and its copies in `many`, small random numbers. */
static Status give_moment(Arena *a, const Value *v, const Tensor **of_one, const Graph *many, const Tensor **of_many)
{
    Tensor *t = tensor_create(a, v->dtype, v->shape);
    uint64_t seed = 1;

    if (!t)
        return FAIL_NOMEM();
    for (int64_t i = 0; i < tensor_numel(t); i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        tensor_set_float(t, i, 1e-3 * (1 + (double)(seed >> 40) * 0x1p-24));
    }
    *of_one = t;
    for (uint32_t i = 1; i < many->n_value; i++)
        if (many->value[i]->kind == V_STATE && !strcmp(value_logical_name(many->value[i]), v->name) &&
            !(of_many[i] = slice_of(a, many->value[i], t)))
            return FAIL_NOMEM();
    return ST_OK;
}

Status verify_graphs(Verify *out, Arena *a, const Graph *one, const Graph *many, const BuildOptions *opt, uint64_t seed)
{
    const Tensor **of_one = ARENA_NEW(a, const Tensor *, one->n_value),
                 **of_many = ARENA_NEW(a, const Tensor *, many->n_value);
    const Tensor **given, **run[NOISE_RUNS];
    Verify v;
    bool reversed;
    int n;

    if (!of_one || !of_many)
        return FAIL_NOMEM();
    TRY(verify_batch(a, one, opt, seed, of_one));
    for (int i = 0; i < one->n_input; i++) {
        const char *name = value(one, one->input[i])->name;
        const ValueId v = graph_find(many, name);

        if (!has_value(v))
            return FAIL(E_INTERNAL, "the partitioned graph has no input '%s'", name);
        of_many[v.i] = of_one[one->input[i].i];
    }
    for (uint32_t i = 1; i < one->n_value; i++)
        if (is_moment(one, one->value[i]))
            TRY(give_moment(a, one->value[i], &of_one[i], many, of_many));
    if (!(given = arena_memdup(a, of_one, one->n_value * sizeof *of_one)))
        return FAIL_NOMEM();
    TRY(interp_run(a, one, of_one));
    TRY(interp_run(a, many, of_many));
    TRY(compare_results(&v, a, one, of_one, many, of_many));
    TRY(verify_noise(run, &n, &reversed, a, one, opt, given));
    for (int k = 0; k < n; k++)
        TRY(add_noise(&v, a, one, of_one, run[k], reversed && k == n - 1));
    finish_rows(&v);
    *out = v;
    return ST_OK;
}

static Status build_graph(Graph **out, const Graph *imported, const BuildOptions *opt, Evaluator eval)
{
    Status st;

    TRY(graph_clone(out, imported));
    if ((st = model_repair(*out, opt, eval, NULL)) || (st = pipeline_run(*out, opt, eval, NULL, NULL))) {
        graph_free(*out);
        *out = NULL;
    }
    return st;
}

Status verify_partition(Verify *out, Arena *a, const Graph *imported, const BuildOptions *opt, Evaluator eval,
                        uint64_t seed)
{
    TypeOptions types = *type_options(opt);
    StepOptions step = *step_options(opt);
    ReplicaOptions alone = *replica_options(opt);
    BuildOptions how = *opt;
    Graph *one = NULL, *many = NULL;
    Status st;

    types.dtype = DT_FLOAT64;
    how.types = &types;
    step.keep_gradients = true;
    how.step = &step;
    TRY(build_graph(&many, imported, &how, eval));
    alone.replicas = alone.devices = 1;
    alone.device_of_replica = NULL;
    how.replicas = &alone;
    TRY_TO(done, st, build_graph(&one, imported, &how, eval));
    TRY_TO(done, st, verify_graphs(out, a, one, many, opt, seed));
done:
    graph_free(one);
    graph_free(many);
    return st;
}

Status verify_print(const Verify *v, FILE *to, int most)
{
    int n = most > 0 && most < v->n_row ? most : v->n_row;

    fprintf(to, "%-12s %-12s %-12s %-6s %s\n", "difference", "rounding", "norm", "copies", "tensor");
    for (int i = 0; i < n; i++) {
        text_print(to, "%-12.3e %-12.3e %-12.5e %-6d %s", v->row[i].difference, v->row[i].noise, v->row[i].norm,
                   v->row[i].copies, v->row[i].is_state ? "new state " : "");
        foreign_print(to, v->row[i].name);
        fprintf(to, "%s%s\n", v->row[i].zero ? "  (zero but for rounding)" : "",
                v->row[i].not_a_number ? "  (NaN in both)" : "");
    }
    text_print(to, "largest relative difference of %d tensor%s: %.3e\n", v->n_row, v->n_row == 1 ? "" : "s", v->worst);
    return ferror(to) ? FAIL(E_IO, "the table could not be written") : ST_OK;
}
