/* Update: a formula of elementwise operators in one pass over memory, for all parameters of the node in one region of
 * the team.
 *
 * Elements that do not fill a vector of the machine code, and all elements where there is none, are computed a block at
 * a time.  No sum is taken, so no bit depends on which thread computes an element. */
#include <stdlib.h>
#include <string.h>

#include "graph/ops/update.gen.h"
#include "graph/ops/update.h"
#include "kernels/backend.h"
#include "kernels/cpu/team.h"
#include "kernels/cpu/update_steps.h"

enum { SHARE = 4096 }; /* elements that a thread takes at least */

typedef struct {
    UpdateForm form;
    Steps formula[2]; /* where the update happens; where it does not */
    StepsCode *code[2];
    int vector;                /* of the code */
    int decider;               /* scalar that says whether it happens; -1: always */
    int64_t elements, first[]; /* of parameter i; at `count`: all */
} Plan;

/* ---- preparing ---- */

static Status cpu_update_compile(Steps f[2], int *decider, const Graph *body, const UpdateForm *form)
{
    *decider = steps_decider(body, form->states + 1);
    if (*decider <= -2)
        return FAIL(E_UNSUPPORTED, "a formula has several scalars that decide");
    TRY(steps_compile(&f[0], body, form->states + 1, true));
    return *decider < 0 ? ST_OK : steps_compile(&f[1], body, form->states + 1, false);
}

/* Out of memory counts as supported: preparing, which needs as much, then reports it. */
static bool cpu_update_supports(const Graph *g, const Node *n)
{
    const UpdateForm form = update_form(n);
    Steps *f = malloc(2 * sizeof *f);
    Graph *body = NULL;
    int decider;
    Status st = f ? update_body(&body, g, n, 0) : FAIL_NOMEM();

    if (!st)
        st = cpu_update_compile(f, &decider, body, &form);
    graph_free(body);
    free(f);
    return !st || st == E_NOMEM;
}

static void cpu_update_release(void *state)
{
    Plan *p = state;

    if (!p)
        return;
    for (int i = 0; i < 2; i++)
        steps_free_code(p->code[i]);
    free(p);
}

/* In scratch: each number as a vector, and two more; each as one; buffers of each thread. */
static size_t wide_bytes(const Steps *f) { return (size_t)(f->n_number + 2) * STEPS_VECTOR; }

static size_t numbers_bytes(const Steps *f)
{
    return (wide_bytes(f) + (size_t)f->n_number * dtype_size(f->type) + 63) / 64 * 64;
}

static size_t buffer_bytes(const Steps *f) { return (size_t)f->n_buffer * STEPS_BLOCK * dtype_size(f->type); }

static void plan_scratch(KernelCtx *ctx, const Steps *f)
{
    const size_t bytes = numbers_bytes(f) + buffer_bytes(f) * TEAM_MAX;

    ctx->scratch_bytes = bytes > ctx->scratch_bytes ? bytes : ctx->scratch_bytes;
}

static Status cpu_update_prepare(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    const UpdateForm form = update_form(n);
    Plan *p = calloc(1, sizeof *p + sizeof *p->first * (size_t)(form.count + 1));
    Graph *body = NULL;
    Status st = p ? update_body(&body, g, n, 0) : FAIL_NOMEM();

    if (!st)
        st = cpu_update_compile(p->formula, &p->decider, body, &form);
    graph_free(body);
    if (st) {
        cpu_update_release(p);
        return st;
    }
    p->form = form;
    for (int i = 0; i < form.count; i++)
        p->first[i + 1] = p->first[i] + shape_numel(value(g, n->out[update_state(&form, i, 0)])->shape);
    p->elements = p->first[form.count];
    p->vector = steps_vector();
    for (int i = 0; i < (p->decider < 0 ? 1 : 2); i++) {
        p->code[i] = p->formula[i].n_step ? steps_assemble(&p->formula[i], p->vector) : NULL;
        plan_scratch(ctx, &p->formula[i]);
    }
    *state = p;
    return ST_OK;
}

/* ---- running ---- */

typedef struct {
    const Plan *p;
    const Steps *f;
    StepsCode *code;
    const Tensor *in;
    Tensor *out;
    size_t size;               /* of an element */
    const void *wide, *narrow; /* numbers: a vector of each, and one of each */
    char *buffer;              /* of thread 0 */
} Run;

/* Elements [from, to) of parameter i. */
static void run_part(const Run *s, int i, int64_t from, int64_t to, void *buffer)
{
    const UpdateForm *form = &s->p->form;
    const void *in[STEPS_ARRAYS];
    void *out[STEPS_ARRAYS];
    int64_t done = 0;

    for (int k = 0; k < form->states; k++) {
        in[k] = (const char *)s->in[update_state(form, i, k)].data + (size_t)from * s->size;
        out[k] = (char *)s->out[update_state(form, i, k)].data + (size_t)from * s->size;
    }
    in[form->states] = (const char *)s->in[update_grad(form, i)].data + (size_t)from * s->size;
    if (s->code)
        done = (to - from) * (int64_t)s->size / s->p->vector * s->p->vector;
    if (done)
        s->code(in, out, s->wide, done);
    for (int k = 0; k <= form->states; k++)
        in[k] = (const char *)in[k] + done;
    for (int k = 0; k < form->states; k++)
        out[k] = (char *)out[k] + done;
    done /= (int64_t)s->size;
    (s->size == sizeof(float) ? steps_run_f32 : steps_run_f64)(s->f, to - from - done, in, out, s->narrow, buffer);
}

/* Elements [from, to) of all parameters one behind the other. */
static void run_span(const Run *s, int64_t from, int64_t to, void *buffer)
{
    const int64_t *first = s->p->first;

    for (int i = 0; from < to; i++) {
        const int64_t end = first[i + 1] < to ? first[i + 1] : to;

        if (from >= end)
            continue;
        run_part(s, i, from - first[i], end - first[i], buffer);
        from = end;
    }
}

static void fill_number(const Run *s, int i, double v, char *wide, char *narrow)
{
    float f = (float)v;
    const void *one = s->size == sizeof f ? (const void *)&f : &v;

    for (size_t at = 0; at < (size_t)s->p->vector; at += s->size)
        memcpy(wide + (size_t)(i * s->p->vector) + at, one, s->size);
    if (i < s->f->n_number)
        memcpy(narrow + (size_t)i * s->size, one, s->size);
}

static void fill_numbers(Run *s, char *scratch)
{
    const Steps *f = s->f;
    char *narrow = scratch + wide_bytes(f);

    for (int i = 0; i < f->n_number; i++) {
        const int scalar = f->number[i].scalar;

        fill_number(s, i,
                    scalar < 0 ? f->number[i].constant : tensor_float(&s->in[update_scalar(&s->p->form, scalar)], 0),
                    scratch, narrow);
    }
    fill_number(s, f->n_number, -0.0, scratch, narrow);
    fill_number(s, f->n_number + 1, 1, scratch, narrow);
    s->wide = scratch;
    s->narrow = narrow;
    s->buffer = scratch + numbers_bytes(f);
}

static Status cpu_update_run(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    const Plan *p = state;
    const int which = p->decider >= 0 && !*(const bool *)in[update_scalar(&p->form, p->decider)].data;
    Run s = { .p = p,
              .f = &p->formula[which],
              .code = p->code[which],
              .in = in,
              .out = out,
              .size = dtype_size(p->formula[0].type) };
    const int team = team_size(ctx, p->elements);
    const int64_t shares = (p->elements + SHARE - 1) / SHARE;

    fill_numbers(&s, ctx->scratch);
    if (team == 1) {
        run_span(&s, 0, p->elements, s.buffer);
        return ST_OK;
    }
#pragma omp parallel for num_threads(team) schedule(static)
    for (int t = 0; t < team; t++) {
        const int64_t from = team_begin(shares, t, team) * SHARE, to = team_begin(shares, t + 1, team) * SHARE;

        run_span(&s, from, to < p->elements ? to : p->elements, s.buffer + (size_t)t * buffer_bytes(s.f));
    }
    return ST_OK;
}

DEFINE_KERNEL(cpu_update, .op = &op_Update, .dtypes = DTYPES_F32_F64, .rank = 10, .supports = cpu_update_supports,
              .prepare = cpu_update_prepare, .run = cpu_update_run, .release = cpu_update_release);
