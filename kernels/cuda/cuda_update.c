/* Update: its formula as one generated kernel, all parameters in one launch by a table in memory
 * (kernels/cuda/tensors.h). */
#include "graph/ops/update.gen.h"
#include "graph/ops/update.h"

#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/cuda.h"
#include "kernels/cuda/cuda_fused.h"
#include "kernels/cuda/cuda_generate.h"
#include "kernels/cuda/tensors.h"

typedef struct {
    GeneratedCode code;
    UpdateForm form;
    TableSize size;
} Launch;

/* Generates the kernel from parameter 0, which stands for all; the caller frees k->source. */
static Status cuda_update_generate(Generated *k, const Graph *g, const Node *n)
{
    const UpdateForm form = update_form(n);
    Graph *body;
    Status st;

    TRY(update_body(&body, g, n, 0));
    for (int s = 0; s < update_scalars(&form, n); s++)
        fused_take_constant(body, form.states + 1 + s, g, n->in[update_scalar(&form, s)]);
    st = generate_many(k, body, form.states + 1);
    graph_free(body);
    return st;
}

/* Where a parameter's values lie in another order than its states' the elements would not meet. */
static bool lie_alike(const Graph *g, const Node *n)
{
    const UpdateForm form = update_form(n);

    for (int p = 0; p < form.count; p++) {
        const Layout first = in_value(g, n, update_state(&form, p, 0))->layout;

        for (int k = 0; k < form.states; k++)
            if (in_value(g, n, update_state(&form, p, k))->layout != first ||
                value(g, n->out[update_state(&form, p, k)])->layout != first)
                return false;
        if (in_value(g, n, update_grad(&form, p))->layout != first)
            return false;
    }
    return true;
}

/* Out of memory counts as supported: preparing, which needs as much, then reports it. */
static bool cuda_update_supports(const Graph *g, const Node *n)
{
    Generated *k;
    Status st;

    if (!lie_alike(g, n))
        return false;
    k = calloc(1, sizeof *k);
    st = k ? cuda_update_generate(k, g, n) : FAIL_NOMEM();
    generated_free(k);
    return !st || st == E_NOMEM;
}

/* ---- preparing ---- */

static bool in_table(const UpdateForm *form, int of) { return of <= form->states; }

static Status cuda_update_compile(Launch *l, KernelCtx *ctx, const Generated *k)
{
    for (int i = 0; i < k->n_pointer; i++)
        l->size.pointers += in_table(&l->form, k->of[i]);
    ctx->table_bytes = table_bytes(&l->size);
    return generated_compile(&l->code, ctx, k, l->size.n);
}

static Status cuda_update_prepare(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    Generated *k = calloc(1, sizeof *k);
    Launch *l = calloc(1, sizeof *l);
    Status st = k && l ? cuda_update_generate(k, g, n) : FAIL_NOMEM();

    if (!st) {
        l->form = update_form(n);
        for (int p = 0; p < l->form.count; p++)
            count_tensor(&l->size, shape_numel(in_value(g, n, update_grad(&l->form, p))->shape));
        st = cuda_update_compile(l, ctx, k);
    }
    if (st)
        generated_release(l);
    else
        *state = l;
    generated_free(k);
    return st;
}

/* ---- running ---- */

/* The address of parameter p's tensor: the body's input `of`, or its output -1 - of. */
static const void *cuda_update_address(const UpdateForm *form, int p, int of, const Tensor *in, const Tensor *out)
{
    if (of < 0)
        return out[update_state(form, p, -1 - of)].data;
    return in[of < form->states ? update_state(form, p, of) : update_grad(form, p)].data;
}

static void tabulate(void *table, const void *state, const Tensor *in, const Tensor *out)
{
    const Launch *l = state;
    TableFill to = table_fill(table, &l->size);

    for (int p = 0; p < l->form.count; p++) {
        const int64_t count = tensor_numel(&in[update_grad(&l->form, p)]);
        const void **at = count ? (const void **)&add_tensor(&to, count)->g : NULL;

        for (int i = 0; at && i < l->code.n_pointer; i++)
            if (in_table(&l->form, l->code.of[i]))
                *at++ = cuda_update_address(&l->form, p, l->code.of[i], in, out);
    }
}

static Status cuda_update_run(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    const Launch *l = state;
    UpdateTable t = table_at(ctx->table, &l->size);
    void *pointer[GENERATED_POINTERS], *args[GENERATED_POINTERS + 2] = { &t.tensor, &t.which };
    int n = 2;

    (void)out;
    for (int i = 0; i < l->code.n_pointer; i++)
        if (!in_table(&l->form, l->code.of[i])) {
            pointer[i] = in[update_scalar(&l->form, l->code.of[i] - l->form.states - 1)].data;
            args[n++] = &pointer[i];
        }
    return l->size.n ? cuda_launch(ctx, l->code.kernel, l->size.blocks, UPDATE_THREADS, 0, args) : ST_OK;
}

DEFINE_KERNEL(cuda_update, .op = &op_Update, .dtypes = DTYPES_F32_F64, .layouts = kernel_channels_last,
              .supports = cuda_update_supports, .prepare = cuda_update_prepare, .tabulate = tabulate,
              .run = cuda_update_run, .release = generated_release);
