/* Reference kernels of Fused and Update.  Each runs the node's body operator by operator with reference kernels, so
 * every 16-bit intermediate is rounded.  An optional ReduceSum comes last.  Results stay in scratch until the end,
 * because an output may share an input's memory. */
#include "graph/ops/fused.gen.h"
#include "graph/ops/fused.h"
#include "graph/ops/update.gen.h"
#include "graph/ops/update.h"
#include "kernels/ref/ref.h"

typedef struct {
    const Kernel *kernel;
    void *state;
    Tensor *in, *out;
    uint32_t n_in;
    uint32_t *in_value, out_value; /* of the body */
} Step;

typedef struct {
    Graph *body;
    Arena *arena;
    Step *step;
    Tensor *tensor; /* [n_value] */
    size_t *offset; /* [n_value] in scratch */
    int n_step, n_in, n_out;
    size_t kernel_scratch; /* offset of the kernels' own scratch */
} Fused;

/* The body with its sum; the caller frees it. */
static Status whole_body(Graph **out, const Graph *g, const Node *n)
{
    Status st;

    TRY(fused_body(out, g, n));
    if ((st = fused_add_sum(*out, n))) {
        graph_free(*out);
        *out = NULL;
    }
    return st;
}

/* Consumes the body. */
static bool supports_body(Graph *body)
{
    bool all = true;

    FOR_NODES(body, x)
        all = all && kernel_reference(body, x);
    graph_free(body);
    return all;
}

static void ref_fused_release(void *state)
{
    Fused *f = state;

    if (!f)
        return;
    for (int i = 0; f->step && i < f->n_step; i++)
        if (f->step[i].kernel->release && f->step[i].state)
            f->step[i].kernel->release(f->step[i].state);
    graph_free(f->body);
    arena_free(f->arena);
    free(f);
}

/* Where memory ran out for the body, preparing reports it. */
static bool supports_made(Status st, Graph *body) { return st == E_NOMEM || (!st && supports_body(body)); }

static bool ref_fused_supports(const Graph *g, const Node *n)
{
    Graph *body = NULL;
    const Status st = whole_body(&body, g, n);

    return supports_made(st, body);
}

static size_t aligned(size_t bytes) { return (bytes + 63) / 64 * 64; }

/* Raises *scratch to the bytes that the kernel needs. */
static Status prepare_step(Fused *f, Step *s, size_t *scratch, const Node *x)
{
    KernelCtx own = { .n_threads = 1 };
    const Kernel *k = kernel_reference(f->body, x);

    if (!(s->in = ARENA_NEW(f->arena, Tensor, x->n_in)) || !(s->out = ARENA_NEW(f->arena, Tensor, 1)) ||
        !(s->in_value = ARENA_NEW(f->arena, uint32_t, x->n_in)))
        return FAIL_NOMEM();
    s->n_in = (uint32_t)x->n_in;
    s->out_value = x->out[0].i;
    for (int i = 0; i < x->n_in; i++)
        s->in_value[i] = x->in[i].i;
    s->kernel = k;
    f->n_step++;
    TRY(k->prepare ? k->prepare(&s->state, &own, f->body, x) : ST_OK);
    if (*scratch < own.scratch_bytes)
        *scratch = own.scratch_bytes;
    return ST_OK;
}

static Status prepare_steps(Fused *f, KernelCtx *ctx)
{
    size_t bytes = 0, inner = 0;

    f->step = ARENA_NEW(f->arena, Step, f->body->n_node);
    f->tensor = ARENA_NEW(f->arena, Tensor, f->body->n_value);
    f->offset = ARENA_NEW(f->arena, size_t, f->body->n_value);
    if (!f->step || !f->tensor || !f->offset)
        return FAIL_NOMEM();
    f->tensor[0].shape = shape_unknown();
    for (uint32_t i = 1; i < f->body->n_value; i++) {
        const Value *v = f->body->value[i];

        f->tensor[i] = (Tensor){ v->dtype, *v->shape, v->kind == V_CONST ? v->init->data : NULL };
        f->offset[i] = bytes;
        bytes += v->kind == V_TEMP ? aligned(tensor_bytes(&f->tensor[i])) : 0;
    }
    FOR_NODES(f->body, x)
        TRY(prepare_step(f, &f->step[x->index], &inner, x));
    f->kernel_scratch = bytes;
    if (ctx->scratch_bytes < bytes + inner)
        ctx->scratch_bytes = bytes + inner;
    return ST_OK;
}

/* Consumes the body. */
static Status prepare_body(Fused **out, KernelCtx *ctx, Graph *body)
{
    Fused *f = calloc(1, sizeof *f);
    Status st;

    if (!f || !(f->arena = arena_create())) {
        free(f);
        graph_free(body);
        return FAIL_NOMEM();
    }
    f->body = body;
    f->n_in = body->n_input;
    f->n_out = body->n_output;
    if ((st = prepare_steps(f, ctx)))
        ref_fused_release(f);
    else
        *out = f;
    return st;
}

static Status ref_fused_prepare(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    Graph *body;
    Fused *f;

    TRY(whole_body(&body, g, n));
    TRY(prepare_body(&f, ctx, body));
    *state = f;
    return ST_OK;
}

static Status run_step(Fused *f, Step *s, const KernelCtx *ctx)
{
    KernelCtx inner = { .n_threads = 1, .scratch = (char *)ctx->scratch + f->kernel_scratch };

    for (uint32_t i = 0; i < s->n_in; i++)
        s->in[i] = f->tensor[s->in_value[i]];
    s->out[0] = f->tensor[s->out_value];
    return s->kernel->run(&inner, s->state, s->in, s->out);
}

static Status ref_fused_run(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    Fused *f = state;

    for (uint32_t i = 1; i < f->body->n_value; i++)
        if (f->body->value[i]->kind == V_TEMP)
            f->tensor[i].data = (char *)ctx->scratch + f->offset[i];
    for (int i = 0; i < f->n_in; i++)
        f->tensor[f->body->input[i].i].data = in[i].data;
    for (int i = 0; i < f->n_step; i++)
        TRY(run_step(f, &f->step[i], ctx));
    for (int i = 0; i < f->n_out; i++)
        if (tensor_bytes(&out[i]))
            memcpy(out[i].data, f->tensor[f->body->output[i].value.i].data, tensor_bytes(&out[i]));
    return ST_OK;
}

DEFINE_KERNEL(ref_fused, .op = &op_Fused, .supports = ref_fused_supports, .prepare = ref_fused_prepare,
              .run = ref_fused_run, .release = ref_fused_release);

/* ---- Update: the formula for one parameter after the other ---- */

typedef struct {
    UpdateForm form;
    Tensor *in, *out; /* of one parameter, as the formula has them */
    Fused *of[];      /* [count] */
} Updates;

static bool supports_update(const Graph *g, const Node *n)
{
    Graph *body = NULL;
    const Status st = update_body(&body, g, n, 0);

    return supports_made(st, body);
}

static void release_updates(void *state)
{
    Updates *u = state;

    for (int p = 0; u && p < u->form.count; p++)
        ref_fused_release(u->of[p]);
    if (u) {
        free(u->in);
        free(u->out);
    }
    free(u);
}

static Status prepare_updates(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    const UpdateForm form = update_form(n);
    Updates *u = calloc(1, sizeof *u + sizeof *u->of * (size_t)form.count);
    Graph *body;
    Status st = ST_OK;

    if (!u)
        return FAIL_NOMEM();
    u->form = form;
    u->in = calloc((size_t)(form.states + 1 + update_scalars(&form, n)), sizeof *u->in);
    u->out = calloc((size_t)form.states, sizeof *u->out);
    if (!u->in || !u->out)
        st = FAIL_NOMEM();
    for (int p = 0; p < form.count && !st; p++)
        if (!(st = update_body(&body, g, n, p)))
            st = prepare_body(&u->of[p], ctx, body);
    if (st)
        release_updates(u);
    else
        *state = u;
    return st;
}

static Status run_updates(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    const Updates *u = state;
    const UpdateForm *form = &u->form;

    for (int p = 0; p < form->count; p++) {
        Fused *f = u->of[p];

        for (int k = 0; k < form->states; k++) {
            u->in[k] = in[update_state(form, p, k)];
            u->out[k] = out[update_state(form, p, k)];
        }
        u->in[form->states] = in[update_grad(form, p)];
        for (int i = form->states + 1; i < f->n_in; i++)
            u->in[i] = in[update_scalar(form, i - form->states - 1)];
        TRY(ref_fused_run(ctx, f, u->in, u->out));
    }
    return ST_OK;
}

DEFINE_KERNEL(ref_update, .op = &op_Update, .dtypes = DTYPES_F32_F64, .supports = supports_update,
              .prepare = prepare_updates, .run = run_updates, .release = release_updates);
