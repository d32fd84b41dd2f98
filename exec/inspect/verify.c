/* Both graphs are run by the interpreter with the reference kernels: what is compared is the meaning of the graphs, not
 * the speed or the skill of a backend. */
#include "exec/inspect/verify.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "exec/run/interp.h"
#include "exec/inspect/verify_batch.h"
#include "exec/inspect/verify_noise.h"
#include "graph/base/foreign.h"
#include "graph/base/numtext.h"
#include "graph/ir/op.h"

/* ---- comparing ---- */

typedef struct {
    VerifyRow *row;
    double *diff;  /* by row: ||a - b|| */
    double *noise; /* by row: the largest ||c - b|| of runs c that differ by rounding alone */
    int n, cap;
} Rows;

enum { KIND_GRAD, KIND_STATE, KIND_OUTPUT, N_KIND };

static int kind_of(const VerifyRow *r)
{
    return r->is_state                                                  ? KIND_STATE
           : strncmp(r->name, OUT_GRAD_PREFIX, strlen(OUT_GRAD_PREFIX)) ? KIND_OUTPUT
                                                                        : KIND_GRAD;
}

/* Not a number in the same place on both sides is agreement: a loss of no samples is that. */
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

static Status add_row(Rows *rows, Arena *arena, const char *name, bool is_state, const Tensor *a, const Tensor *b)
{
    VerifyRow *last = rows->n ? &rows->row[rows->n - 1] : NULL;
    double diff, norm;
    bool not_a_number;

    TRY(distance(&diff, &norm, &not_a_number, name, a, b));
    if (last && last->is_state == is_state && !strcmp(last->name, name)) {
        last->copies++;
        rows->diff[rows->n - 1] = diff <= rows->diff[rows->n - 1] ? rows->diff[rows->n - 1] : diff;
        return ST_OK;
    }
    if (rows->n == rows->cap)
        return FAIL(E_INTERNAL, "more tensors than were counted");
    rows->row[rows->n] = (VerifyRow){
        .name = arena_strdup(arena, name), .is_state = is_state, .copies = 1, .norm = norm, .not_a_number = not_a_number
    };
    rows->diff[rows->n] = diff;
    return rows->row[rows->n++].name ? ST_OK : FAIL_NOMEM();
}

static double times(const VerifyRow *r) { return r->difference / fmax(r->noise, VERIFY_FLOOR); }

static int worse_first(const void *a, const void *b)
{
    double x = times(a), y = times(b);

    return x != x ? y != y ? 0 : -1 : y != y ? 1 : (x < y) - (x > y);
}

/* Below this fraction of all tensors together a norm is taken for the rounding of an exact zero. */
static const double zero_fraction = 1e-11;

static void verify_finish(Verify *out, Rows *rows)
{
    double total[N_KIND] = { 0 }, worst = 0;

    for (int i = 0; i < rows->n; i++)
        total[kind_of(&rows->row[i])] += rows->row[i].norm * rows->row[i].norm;
    for (int i = 0; i < rows->n; i++) {
        VerifyRow *r = &rows->row[i];
        double all = sqrt(total[kind_of(r)]), by;

        r->zero = r->norm <= zero_fraction * all;
        by = r->zero ? all : r->norm;
        r->difference = rows->diff[i] == 0 ? 0 : by > 0 ? rows->diff[i] / by : INFINITY;
        r->noise = by > 0 && isfinite(rows->noise[i]) ? rows->noise[i] / by : 0;
        worst = r->difference <= worst ? worst : r->difference;
    }
    qsort(rows->row, (size_t)rows->n, sizeof *rows->row, worse_first);
    *out = (Verify){ rows->row, rows->n, worst, rows->n ? times(&rows->row[0]) : 0 };
}

/* The sum of the copies of a partial state, which is what one replica's state is. */
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

/* A state that is cut, put together from what the devices have of it after the step. */
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

static bool is_cut(const Graph *many, const char *logical)
{
    for (int i = 0; i < many->n_update; i++) {
        const Value *copy = value(many, many->update[i].state);

        if (copy->shard && !strcmp(value_logical_name(copy), logical))
            return true;
    }
    return false;
}

static Status compare_state(Rows *rows, Arena *arena, const Graph *one, const Tensor **v1, const Graph *many,
                            const Tensor **vn, int u)
{
    const Value *state = value(one, one->update[u].state);
    const Tensor *expected = v1[one->update[u].next.i];
    Tensor *all;
    int found = 0;

    if (state->partial || is_cut(many, state->name)) {
        TRY(state->partial ? sum_copies(&all, arena, many, vn, value_logical_name(state))
                           : join_copies(&all, arena, many, vn, state));
        return add_row(rows, arena, state->name, true, all, expected);
    }
    for (int i = 0; i < many->n_update; i++) {
        if (strcmp(value_logical_name(value(many, many->update[i].state)), value_logical_name(state)))
            continue;
        TRY(add_row(rows, arena, state->name, true, vn[many->update[i].next.i], expected));
        found++;
    }
    return found ? ST_OK : FAIL(E_INTERNAL, "state '%s' is not updated by the partitioned graph", state->name);
}

/* Result i of a graph, outputs first, then states after the step. */
static const Tensor *verify_result(const Graph *g, const Tensor *const *values, int i)
{
    return values[i < g->n_output ? g->output[i].value.i : g->update[i - g->n_output].next.i];
}

/* What the samples' order changes by more than this is no rounding: the graph tells positions apart. */
static const double position_fraction = 1e-6;

/* Raises the noise of every row by what one run of rounding alone differs; with `reversed`, of none if the run differs
 * by more than rounding. */
static Status add_noise(Rows *rows, Arena *arena, const Graph *one, const Tensor **v1, const Tensor **run,
                        bool reversed)
{
    double *diff = ARENA_NEW(arena, double, rows->n), norm;
    bool not_a_number;

    if (!diff)
        return FAIL_NOMEM();
    for (int i = 0; i < rows->n; i++) {
        TRY(distance(&diff[i], &norm, &not_a_number, rows->row[i].name, verify_result(one, run, i),
                     verify_result(one, v1, i)));
        if (reversed && !(diff[i] <= position_fraction * norm) && norm > position_fraction)
            return ST_OK;
    }
    for (int i = 0; i < rows->n; i++)
        rows->noise[i] = fmax(rows->noise[i], diff[i]);
    return ST_OK;
}

/* A row for every result of `one`, in their order. */
static Status verify_compare(Rows *rows, Arena *arena, const Graph *one, const Tensor **v1, const Graph *many,
                             const Tensor **vn)
{
    *rows = (Rows){ .cap = one->n_output + one->n_update };
    rows->row = ARENA_NEW(arena, VerifyRow, rows->cap);
    rows->diff = ARENA_NEW(arena, double, rows->cap);
    rows->noise = ARENA_NEW(arena, double, rows->cap);
    if (!rows->row || !rows->diff || !rows->noise)
        return FAIL_NOMEM();
    for (int i = 0; i < one->n_output; i++) {
        const char *name = one->output[i].name;
        ValueId v = graph_output(many, name);

        if (!has_value(v))
            return FAIL(E_INTERNAL, "the partitioned graph has no output '%s'", name);
        TRY(add_row(rows, arena, name, false, vn[v.i], v1[one->output[i].value.i]));
    }
    for (int i = 0; i < one->n_update; i++)
        TRY(compare_state(rows, arena, one, v1, many, vn, i));
    return rows->n == rows->cap ? ST_OK : FAIL(E_INTERNAL, "%d tensors were compared of %d", rows->n, rows->cap);
}

/* ---- running ---- */

/* Does the state belong to a parameter, as "PARAM.momentum" does? */
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

/* What a copy has of the state's value; NULL: memory ran out. */
static const Tensor *copy_of(Arena *a, const Value *copy, const Tensor *t)
{
    Tensor *piece = copy->shard ? tensor_create(a, t->dtype, copy->shape) : NULL;

    if (piece && tensor_bytes(piece))
        memcpy(piece->data, (const char *)t->data + (size_t)copy->shard->from * dtype_size(t->dtype),
               tensor_bytes(piece));
    return copy->shard ? piece : t;
}

static Status give_moment(Arena *a, const Value *v, const Tensor **v1, const Graph *many, const Tensor **vn)
{
    Tensor *t = tensor_create(a, v->dtype, v->shape);
    uint64_t seed = 1;

    if (!t)
        return FAIL_NOMEM();
    for (int64_t i = 0; i < tensor_numel(t); i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        tensor_set_float(t, i, 1e-3 * (1 + (double)(seed >> 40) * 0x1p-24));
    }
    *v1 = t;
    for (uint32_t i = 1; i < many->n_value; i++)
        if (many->value[i]->kind == V_STATE && !strcmp(value_logical_name(many->value[i]), v->name) &&
            !(vn[i] = copy_of(a, many->value[i], t)))
            return FAIL_NOMEM();
    return ST_OK;
}

static Status verify_give_inputs(Arena *a, const Graph *one, const Tensor **v1, const Graph *many, const Tensor **vn)
{
    for (int i = 0; i < one->n_input; i++) {
        ValueId v = graph_find(many, value(one, one->input[i])->name);

        if (!has_value(v))
            return FAIL(E_INTERNAL, "the partitioned graph has no input '%s'", value(one, one->input[i])->name);
        vn[v.i] = v1[one->input[i].i];
    }
    for (uint32_t i = 1; i < one->n_value; i++)
        if (is_moment(one, one->value[i]))
            TRY(give_moment(a, one->value[i], &v1[i], many, vn));
    return ST_OK;
}

Status verify_graphs(Verify *out, Arena *a, const Graph *one, const Graph *many, const BuildOptions *opt, uint64_t seed)
{
    const Tensor **v1 = ARENA_NEW(a, const Tensor *, one->n_value), **vn = ARENA_NEW(a, const Tensor *, many->n_value);
    const Tensor **given, **run[NOISE_RUNS];
    Rows rows;
    bool reversed;
    int n;

    if (!v1 || !vn)
        return FAIL_NOMEM();
    TRY(verify_batch(a, one, opt, seed, v1));
    TRY(verify_give_inputs(a, one, v1, many, vn));
    if (!(given = arena_memdup(a, v1, one->n_value * sizeof *v1)))
        return FAIL_NOMEM();
    TRY(interp_run(a, one, v1));
    TRY(interp_run(a, many, vn));
    TRY(verify_compare(&rows, a, one, v1, many, vn));
    TRY(verify_noise(run, &n, &reversed, a, one, opt, given));
    for (int k = 0; k < n; k++)
        TRY(add_noise(&rows, a, one, v1, run[k], reversed && k == n - 1));
    verify_finish(out, &rows);
    return ST_OK;
}

static Status verify_build(Graph **out, const Graph *imported, const BuildOptions *opt, Evaluator eval)
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
    BuildOptions how = *opt;
    Graph *one = NULL, *many = NULL;
    Status st;

    how.dtype = DT_FLOAT64;
    how.keep_gradients = true;
    TRY(verify_build(&many, imported, &how, eval));
    how.replicas = how.devices = 1;
    how.device_of_replica = NULL;
    TRY_TO(done, st, verify_build(&one, imported, &how, eval));
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
