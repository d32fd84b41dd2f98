/* oneDNN, both of its C APIs: up to 2.x with operation descriptors and memory descriptors held by value, from 3.0 on
 * without the former and with opaque ones.  The first section has the differences; the rest is the same for both. */
#include "kernels/cpu/onednn.h"

#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cpu/onednn_guard.h"

enum { MAX_ARGS = 4, ALIGN = 64 };

/* ---- what differs between the versions ---- */

/* The window as oneDNN has it.  The end padding is what makes its own formula yield the output's size: nobody reads the
 * rows beyond. */
static void conv_geometry(const Window *w, dnnl_dims_t strides, dnnl_dims_t dilates, dnnl_dims_t pad,
                          dnnl_dims_t pad_end)
{
    for (int i = WINDOW_AXES - w->rank, j = 0; j < w->rank; i++, j++) {
        strides[j] = w->stride[i];
        dilates[j] = w->dilation[i] - 1;
        pad[j] = w->pad[i];
        pad_end[j] = (w->out[i] - 1) * w->stride[i] + (w->kernel[i] - 1) * w->dilation[i] + 1 - w->in[i] - w->pad[i];
    }
}

#if DNNL_VERSION_MAJOR >= 3
typedef dnnl_memory_desc_t Md;
typedef const_dnnl_memory_desc_t ConstMd;

static ConstMd md_const(const Md *md) { return *md; }

static void md_free(Md *md)
{
    if (*md)
        dnnl_memory_desc_destroy(*md);
    *md = NULL;
}

static dnnl_status_t md_strided(Md *out, int n, const dnnl_dims_t dims, const dnnl_dims_t strides)
{
    return onednn.memory_desc_create_with_strides(out, n, dims, dnnl_f32, strides);
}

static dnnl_status_t md_tagged(Md *out, int n, const dnnl_dims_t dims, dnnl_format_tag_t tag)
{
    return onednn.memory_desc_create_with_tag(out, n, dims, dnnl_f32, tag);
}

static dnnl_status_t conv_pd(dnnl_primitive_desc_t *out, OnednnConv what, ConstMd x, ConstMd w, ConstMd b, ConstMd y,
                             const Window *win, const_dnnl_primitive_attr_t attr, dnnl_engine_t engine,
                             const_dnnl_primitive_desc_t hint)
{
    dnnl_dims_t strides = { 0 }, dilates = { 0 }, pad = { 0 }, pad_end = { 0 };

    conv_geometry(win, strides, dilates, pad, pad_end);
    switch (what) {
    case ONEDNN_CONV_FORWARD:
        return onednn.convolution_forward_primitive_desc_create(out, engine, dnnl_forward_training,
                                                                dnnl_convolution_direct, x, w, b, y, strides, dilates,
                                                                pad, pad_end, attr);
    case ONEDNN_CONV_INPUT:
        return onednn.convolution_backward_data_primitive_desc_create(out, engine, dnnl_convolution_direct, x, w, y,
                                                                      strides, dilates, pad, pad_end, hint, attr);
    default:
        return onednn.convolution_backward_weights_primitive_desc_create(
            out, engine, dnnl_convolution_direct, x, w, NULL, y, strides, dilates, pad, pad_end, hint, attr);
    }
}

static ConstMd pd_md(const_dnnl_primitive_desc_t pd, dnnl_query_t what)
{
    return dnnl_primitive_desc_query_md(pd, what, 0);
}
#else
typedef dnnl_memory_desc_t Md;
typedef const dnnl_memory_desc_t *ConstMd;

static ConstMd md_const(const Md *md) { return md; }
static void md_free(Md *md) { (void)md; }

static dnnl_status_t md_strided(Md *out, int n, const dnnl_dims_t dims, const dnnl_dims_t strides)
{
    return onednn.memory_desc_init_by_strides(out, n, dims, dnnl_f32, strides);
}

static dnnl_status_t md_tagged(Md *out, int n, const dnnl_dims_t dims, dnnl_format_tag_t tag)
{
    return onednn.memory_desc_init_by_tag(out, n, dims, dnnl_f32, tag);
}

static dnnl_status_t conv_pd(dnnl_primitive_desc_t *out, OnednnConv what, ConstMd x, ConstMd w, ConstMd b, ConstMd y,
                             const Window *win, const_dnnl_primitive_attr_t attr, dnnl_engine_t engine,
                             const_dnnl_primitive_desc_t hint)
{
    dnnl_dims_t strides = { 0 }, dilates = { 0 }, pad = { 0 }, pad_end = { 0 };
    dnnl_convolution_desc_t d;
    dnnl_status_t st;

    conv_geometry(win, strides, dilates, pad, pad_end);
    switch (what) {
    case ONEDNN_CONV_FORWARD:
        st = onednn.dilated_convolution_forward_desc_init(&d, dnnl_forward_training, dnnl_convolution_direct, x, w, b,
                                                          y, strides, dilates, pad, pad_end);
        break;
    case ONEDNN_CONV_INPUT:
        st = onednn.dilated_convolution_backward_data_desc_init(&d, dnnl_convolution_direct, x, w, y, strides, dilates,
                                                                pad, pad_end);
        break;
    default:
        st = onednn.dilated_convolution_backward_weights_desc_init(&d, dnnl_convolution_direct, x, w, NULL, y, strides,
                                                                   dilates, pad, pad_end);
    }
    return st != dnnl_success ? st : onednn.primitive_desc_create(out, &d, attr, engine, hint);
}

static ConstMd pd_md(const_dnnl_primitive_desc_t pd, dnnl_query_t what)
{
    return dnnl_primitive_desc_query_md(pd, what, 0);
}
#endif

/* ---- tensors ---- */

typedef struct {
    int n;
    dnnl_dims_t dims, strides;
    dnnl_format_tag_t tag; /* dnnl_format_tag_undef: by strides */
} Dense;

static dnnl_format_tag_t tag_of(Layout l, int rank)
{
    static const dnnl_format_tag_t tag[N_LAYOUTS][3] = {
        [LAYOUT_CHANNELS_LAST] = { dnnl_acb, dnnl_acdb, dnnl_acdeb },
        [LAYOUT_BLOCKED_8] = { dnnl_aBc8b, dnnl_aBcd8b, dnnl_aBcde8b },
        [LAYOUT_BLOCKED_16] = { dnnl_aBc16b, dnnl_aBcd16b, dnnl_aBcde16b },
    };

    return rank < 3 || rank > 5 ? dnnl_format_tag_undef : tag[l][rank - 3];
}

bool onednn_stores(Layout l) { return l == LAYOUT_ROWS || tag_of(l, 3) != dnnl_format_tag_undef; }

/* Sets of instructions are masks, and not in order: in 2.x that of AVX2 with VNNI is the larger number. */
static bool has_avx512(void)
{
    return ((unsigned)dnnl_get_effective_cpu_isa() & dnnl_cpu_isa_avx512_core) == dnnl_cpu_isa_avx512_core;
}

Layout onednn_blocked(void) { return has_avx512() ? LAYOUT_BLOCKED_16 : LAYOUT_BLOCKED_8; }

static void dense_strides(int n, const dnnl_dims_t dims, dnnl_dims_t strides)
{
    for (int i = n - 1; i >= 0; i--)
        strides[i] = i == n - 1 ? 1 : strides[i + 1] * dims[i + 1];
}

/* Describes the tensor as it is stored. */
static dnnl_status_t md_create(Md *out, const Dense *t)
{
    return t->tag != dnnl_format_tag_undef ? md_tagged(out, t->n, t->dims, t->tag)
                                           : md_strided(out, t->n, t->dims, t->strides);
}

/* ---- the object ---- */

typedef struct {
    int id; /* DNNL_ARG_ */
    bool output;
    Md plain;
    dnnl_memory_t user, own;  /* own: the primitive's layout; equal to user when that is plain */
    dnnl_primitive_t reorder; /* NULL when nothing is converted */
    size_t offset;            /* of own in the scratch */
} Arg;

struct Onednn {
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    dnnl_primitive_t primitive;
    dnnl_memory_t scratchpad;
    size_t scratchpad_offset;
    int n_arg;
    Arg arg[MAX_ARGS];
};

#define TRY_DNNL(e)                                                           \
    do {                                                                      \
        dnnl_status_t d_ = (e);                                               \
        if (d_ != dnnl_success)                                               \
            return FAIL(code_of(d_), "oneDNN: %s (status %d)%s", #e, (int)d_, \
                        d_ == dnnl_out_of_memory ? ": out of memory" : "");   \
    } while (0)

static Status code_of(dnnl_status_t st)
{
    return st == dnnl_out_of_memory ? E_NOMEM : st == dnnl_unimplemented ? E_UNSUPPORTED : E_INTERNAL;
}

void onednn_free(Onednn *d)
{
    if (!d)
        return;
    for (int i = 0; i < d->n_arg; i++) {
        Arg *a = &d->arg[i];

        dnnl_primitive_destroy(a->reorder);
        if (a->own != a->user)
            dnnl_memory_destroy(a->own);
        dnnl_memory_destroy(a->user);
        md_free(&a->plain);
    }
    dnnl_memory_destroy(d->scratchpad);
    dnnl_primitive_destroy(d->primitive);
    dnnl_stream_destroy(d->stream);
    dnnl_engine_destroy(d->engine);
    free(d);
}

static Status onednn_create(Onednn **out)
{
    Onednn *d = calloc(1, sizeof *d);

    if (!d)
        return FAIL_NOMEM();
    *out = d;
    TRY_DNNL(onednn.engine_create(&d->engine, dnnl_cpu, 0));
    TRY_DNNL(onednn.stream_create(&d->stream, d->engine, dnnl_stream_default_flags));
    return ST_OK;
}

/* Room for `bytes` in the scratch, where `used` bytes are taken. */
static size_t onednn_reserve(size_t *used, size_t bytes)
{
    size_t at = *used;

    *used = (at + bytes + ALIGN - 1) / ALIGN * ALIGN;
    return at;
}

static Status make_reorder(Onednn *d, Arg *a, ConstMd own)
{
    ConstMd from = a->output ? own : md_const(&a->plain), to = a->output ? md_const(&a->plain) : own;
    dnnl_primitive_desc_t pd;
    dnnl_status_t st;

    TRY_DNNL(onednn.reorder_primitive_desc_create(&pd, from, d->engine, to, d->engine, NULL));
    st = onednn.primitive_create(&a->reorder, pd);
    dnnl_primitive_desc_destroy(pd);
    TRY_DNNL(st);
    return ST_OK;
}

/* The argument's memories; a conversion where the primitive chose another layout than the plain one. */
static Status add_arg(Onednn *d, Arg *a, ConstMd own, size_t *used)
{
    TRY_DNNL(onednn.memory_create(&a->user, md_const(&a->plain), d->engine, DNNL_MEMORY_NONE));
    a->own = a->user;
    if (dnnl_memory_desc_equal(own, md_const(&a->plain)))
        return ST_OK;
    a->own = NULL;
    TRY_DNNL(onednn.memory_create(&a->own, own, d->engine, DNNL_MEMORY_NONE));
    a->offset = onednn_reserve(used, dnnl_memory_desc_get_size(own));
    return make_reorder(d, a, own);
}

static Status run_reorder(Onednn *d, const Arg *a)
{
    dnnl_exec_arg_t args[2] = { { DNNL_ARG_FROM, a->output ? a->own : a->user },
                                { DNNL_ARG_TO, a->output ? a->user : a->own } };

    TRY_DNNL(onednn.primitive_execute(a->reorder, d->stream, 2, args));
    return ST_OK;
}

/* data[i] belongs to arg[i]. */
static Status execute(Onednn *d, KernelCtx *ctx, void *const *data)
{
    dnnl_exec_arg_t args[MAX_ARGS + 1];
    char *scratch = ctx->scratch;

    for (int i = 0; i < d->n_arg; i++) {
        Arg *a = &d->arg[i];

        TRY_DNNL(onednn.memory_set_data_handle(a->user, data[i]));
        if (a->reorder)
            TRY_DNNL(onednn.memory_set_data_handle(a->own, scratch + a->offset));
        if (a->reorder && !a->output)
            TRY(run_reorder(d, a));
        args[i] = (dnnl_exec_arg_t){ a->id, a->own };
    }
    if (d->scratchpad)
        TRY_DNNL(onednn.memory_set_data_handle(d->scratchpad, scratch + d->scratchpad_offset));
    args[d->n_arg] = (dnnl_exec_arg_t){ DNNL_ARG_SCRATCHPAD, d->scratchpad };
    TRY_DNNL(onednn.primitive_execute(d->primitive, d->stream, d->n_arg + (d->scratchpad != NULL), args));
    for (int i = 0; i < d->n_arg; i++)
        if (d->arg[i].reorder && d->arg[i].output)
            TRY(run_reorder(d, &d->arg[i]));
    TRY_DNNL(onednn.stream_wait(d->stream));
    return ST_OK;
}

/* ---- convolution ---- */

/* The dimensions of an argument; `sizes`: spatial ones, of which the last `rank` count. */
static int conv_dims(dnnl_dims_t dims, int64_t group, int64_t a, int64_t b, const int64_t *sizes, int rank)
{
    int n = 0;

    if (group > 1)
        dims[n++] = group;
    dims[n++] = a;
    dims[n++] = b;
    for (int i = WINDOW_AXES - rank; i < WINDOW_AXES; i++)
        dims[n++] = sizes[i];
    return n;
}

static void conv_shapes(Dense t[MAX_ARGS], const OnednnConvShape *s)
{
    int rank = s->win.rank;

    t[0].n = conv_dims(t[0].dims, 1, s->batch, s->in_channels, s->win.in, rank);
    t[1].n = conv_dims(t[1].dims, s->group, s->out_channels / s->group, s->in_channels / s->group, s->win.kernel, rank);
    t[2].n = 1;
    t[2].dims[0] = s->out_channels;
    t[3].n = conv_dims(t[3].dims, 1, s->batch, s->out_channels, s->win.out, rank);
    for (int i = 0; i < MAX_ARGS; i++)
        dense_strides(t[i].n, t[i].dims, t[i].strides);
    t[1].tag = t[2].tag = dnnl_format_tag_undef;
    t[0].tag = tag_of(s->x, t[0].n);
    t[3].tag = tag_of(s->y, t[3].n);
}

static Status conv_choose(dnnl_primitive_desc_t *out, Onednn *d, OnednnConv what, const Md *md,
                          const OnednnConvShape *s)
{
    ConstMd b = s->bias ? md_const(&md[2]) : NULL;
    dnnl_primitive_desc_t hint = NULL;
    dnnl_primitive_attr_t attr = NULL;
    dnnl_status_t st;

    TRY_DNNL(onednn.primitive_attr_create(&attr));
    st = onednn.primitive_attr_set_scratchpad_mode(attr, dnnl_scratchpad_mode_user);
    if (st == dnnl_success && what != ONEDNN_CONV_FORWARD)
        st = conv_pd(&hint, ONEDNN_CONV_FORWARD, md_const(&md[0]), md_const(&md[1]), NULL, md_const(&md[3]), &s->win,
                     attr, d->engine, NULL);
    if (st == dnnl_success)
        st =
            conv_pd(out, what, md_const(&md[0]), md_const(&md[1]), b, md_const(&md[3]), &s->win, attr, d->engine, hint);
    dnnl_primitive_desc_destroy(hint);
    dnnl_primitive_attr_destroy(attr);
    TRY_DNNL(st);
    return ST_OK;
}

/* Arguments and primitive from a chosen description. */
static Status conv_finish(Onednn *d, KernelCtx *ctx, OnednnConv what, dnnl_primitive_desc_t pd, const Dense *t,
                          bool bias)
{
    static const dnnl_query_t query[3][MAX_ARGS] = {
        { dnnl_query_src_md, dnnl_query_weights_md, dnnl_query_exec_arg_md, dnnl_query_dst_md },
        { dnnl_query_diff_src_md, dnnl_query_weights_md, dnnl_query_exec_arg_md, dnnl_query_diff_dst_md },
        { dnnl_query_src_md, dnnl_query_diff_weights_md, dnnl_query_exec_arg_md, dnnl_query_diff_dst_md }
    };
    static const int id[3][MAX_ARGS] = { { DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_BIAS, DNNL_ARG_DST },
                                         { DNNL_ARG_DIFF_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_BIAS, DNNL_ARG_DIFF_DST },
                                         { DNNL_ARG_SRC, DNNL_ARG_DIFF_WEIGHTS, DNNL_ARG_BIAS, DNNL_ARG_DIFF_DST } };
    static const int result[3] = { 3, 0, 1 };
    size_t used = 0;
    ConstMd pad = pd_md(pd, dnnl_query_scratchpad_md);

    for (int i = 0; i < MAX_ARGS; i++) {
        Arg *a = &d->arg[d->n_arg];

        if (i == 2 && !bias)
            continue;
        a->id = id[what][i];
        a->output = i == result[what];
        TRY_DNNL(md_create(&a->plain, &t[i]));
        d->n_arg++;
        TRY(add_arg(d, a, i == 2 ? md_const(&a->plain) : pd_md(pd, query[what][i]), &used));
    }
    TRY_DNNL(onednn.primitive_create(&d->primitive, pd));
    d->scratchpad_offset = onednn_reserve(&used, dnnl_memory_desc_get_size(pad));
    TRY_DNNL(onednn.memory_create(&d->scratchpad, pad, d->engine, DNNL_MEMORY_NONE));
    if (used > ctx->scratch_bytes)
        ctx->scratch_bytes = used;
    return ST_OK;
}

/* Which of the primitives for a tensor is asked for. */
typedef enum {
    AS_STORED, /* a tensor in a primitive's layout is taken as it is; others get what the primitive prefers */
    AS_PREFERRED,
    CHANNELS_LAST /* data; filters get what the primitive prefers */
} Wish;

static dnnl_status_t wished_md(Md *out, const Dense *t, int i, Wish wish)
{
    const bool data = i == 0 || i == 3;

    if (i == 2 || (t->tag != dnnl_format_tag_undef && wish == AS_STORED))
        return md_create(out, t);
    return md_tagged(out, t->n, t->dims,
                     wish == CHANNELS_LAST && data ? tag_of(LAYOUT_CHANNELS_LAST, t->n) : dnnl_format_tag_any);
}

/* Chooses the primitive.  Biases are taken as they are stored. */
static Status conv_choose_for(dnnl_primitive_desc_t *out, Onednn *d, OnednnConv what, const OnednnConvShape *s,
                              const Dense *t, Wish wish)
{
    Md md[MAX_ARGS] = { 0 };
    Status st = ST_OK;

    for (int i = 0; i < MAX_ARGS && !st; i++)
        if (wished_md(&md[i], &t[i], i, wish) != dnnl_success)
            st = FAIL(E_UNSUPPORTED, "oneDNN: a tensor description of %d dimensions", t[i].n);
    if (!st)
        st = conv_choose(out, d, what, md, s);
    for (int i = 0; i < MAX_ARGS; i++)
        md_free(&md[i]);
    return st;
}

/* Is the primitive a loop over groups, of matrix products or of plain C? */
static bool goes_by_groups(const_dnnl_primitive_desc_t pd)
{
    const char *name = NULL;

    return dnnl_primitive_desc_query(pd, dnnl_query_impl_info_str, 0, &name) == dnnl_success && name &&
           (strstr(name, "gemm") || strstr(name, "ref"));
}

/* Many groups of few channels are slow one by one; where oneDNN has no other primitive for the layout it prefers, it
 * may have one for channels last. */
static void conv_avoid_groups(dnnl_primitive_desc_t *pd, Onednn *d, OnednnConv what, const OnednnConvShape *s,
                              const Dense *t)
{
    dnnl_primitive_desc_t other = NULL;

    if (s->group == 1 || !goes_by_groups(*pd) || conv_choose_for(&other, d, what, s, t, CHANNELS_LAST))
        return;
    if (!goes_by_groups(other)) {
        dnnl_primitive_desc_destroy(*pd);
        *pd = other;
    } else {
        dnnl_primitive_desc_destroy(other);
    }
}

static Status conv_build(Onednn *d, KernelCtx *ctx, OnednnConv what, const OnednnConvShape *s)
{
    dnnl_primitive_desc_t pd = NULL;
    Dense t[MAX_ARGS];
    Status st;

    conv_shapes(t, s);
    st = conv_choose_for(&pd, d, what, s, t, AS_STORED);
    if (st == E_UNSUPPORTED && (s->x != LAYOUT_ROWS || s->y != LAYOUT_ROWS))
        st = conv_choose_for(&pd, d, what, s, t, AS_PREFERRED);
    if (!st) {
        conv_avoid_groups(&pd, d, what, s, t);
        st = conv_finish(d, ctx, what, pd, t, s->bias);
    }
    dnnl_primitive_desc_destroy(pd);
    return st;
}

/* Between the two calls the team has the size that primitives are made for and run by. */
static int enter_team(const KernelCtx *ctx)
{
    int before = omp_get_max_threads();

    if (before != ctx->n_threads)
        omp_set_num_threads(ctx->n_threads);
    return before;
}

static void leave_team(const KernelCtx *ctx, int before)
{
    if (before != ctx->n_threads)
        omp_set_num_threads(before);
}

Status onednn_conv(Onednn **out, KernelCtx *ctx, OnednnConv what, const OnednnConvShape *s)
{
    Onednn *d = NULL;
    int team = enter_team(ctx);
    Status st = onednn_create(&d);

    if (!st)
        st = conv_build(d, ctx, what, s);
    leave_team(ctx, team);
    if (st)
        onednn_free(d);
    else
        *out = d;
    return st;
}

Status onednn_conv_run(Onednn *d, KernelCtx *ctx, void *x, void *w, void *b, void *y)
{
    void *with[MAX_ARGS] = { x, w, b, y }, *without[] = { x, w, y };
    void *const *data = b ? with : without;
    int team = enter_team(ctx);
    Status st = execute(d, ctx, data);

    leave_team(ctx, team);
    return st;
}

/* ---- another layout ---- */

static Status reorder_build(Onednn *d, KernelCtx *ctx, const Shape *s, Layout from, Layout to)
{
    Arg *x = &d->arg[0], *y = &d->arg[1];
    Dense t = { .n = s->rank };
    dnnl_primitive_desc_t pd = NULL;
    dnnl_status_t st;

    (void)ctx;
    for (int i = 0; i < s->rank; i++)
        t.dims[i] = s->dim[i];
    dense_strides(t.n, t.dims, t.strides);
    *x = (Arg){ .id = DNNL_ARG_FROM };
    *y = (Arg){ .id = DNNL_ARG_TO, .output = true };
    d->n_arg = 2;
    t.tag = tag_of(from, t.n);
    TRY_DNNL(md_create(&x->plain, &t));
    t.tag = tag_of(to, t.n);
    TRY_DNNL(md_create(&y->plain, &t));
    TRY_DNNL(onednn.memory_create(&x->user, md_const(&x->plain), d->engine, DNNL_MEMORY_NONE));
    x->own = x->user;
    TRY_DNNL(onednn.memory_create(&y->user, md_const(&y->plain), d->engine, DNNL_MEMORY_NONE));
    y->own = y->user;
    TRY_DNNL(onednn.reorder_primitive_desc_create(&pd, md_const(&x->plain), d->engine, md_const(&y->plain), d->engine,
                                                  NULL));
    st = onednn.primitive_create(&d->primitive, pd);
    dnnl_primitive_desc_destroy(pd);
    TRY_DNNL(st);
    return ST_OK;
}

Status onednn_reorder(Onednn **out, KernelCtx *ctx, const Shape *s, Layout from, Layout to)
{
    Onednn *d = NULL;
    int team = enter_team(ctx);
    Status st = onednn_create(&d);

    if (!st)
        st = reorder_build(d, ctx, s, from, to);
    leave_team(ctx, team);
    if (st)
        onednn_free(d);
    else
        *out = d;
    return st;
}

Status onednn_reorder_run(Onednn *d, KernelCtx *ctx, void *x, void *y)
{
    void *const data[] = { x, y };
    int team = enter_team(ctx);
    Status st = execute(d, ctx, data);

    leave_team(ctx, team);
    return st;
}

/* ---- matrix product ---- */

/* A product is thin for oneDNN where 1 / rows + 1 / columns is this or more. */
static double thin_from(void) { return has_avx512() ? 0.00196 : 0.0038; }

/* Both operands of a product that is large in rows and columns are copied into blocks, whose depth follows from k
 * alone, and threads divide rows and columns.  The sums of all others are cut where tiles are fewer than threads, and
 * which of its algorithms oneDNN takes for them depends on the number of threads.  How large is large stands in
 * oneDNN's gemm_driver.cpp; a share of SHARE for each thread keeps away from what it takes for thin there. */
int64_t onednn_sgemm_threads(int64_t m, int64_t n, int64_t k)
{
    enum { SHARE = 32 };
    int64_t least = m < n ? m : n;

    least = k < least ? k : least;
    return 1.0 / (double)m + 1.0 / (double)n >= thin_from() || least < 2 * SHARE ? 1 : least / SHARE;
}

/* As nocopy_checker of oneDNN's gemm_driver.cpp (2.6.3 to 3.13.1) decides for one thread.  Matrices are stored by
 * columns there, so the operands change places. */
bool onednn_sgemm_copies(bool trans_a, bool trans_b, int64_t m, int64_t n, int64_t k, int64_t lda, int64_t ldb,
                         int64_t ldc)
{
    enum {
        LIMIT = 378, /* rows and columns */
        NARROW = 28,
        BAD = 256, /* a row length that is a multiple of it */
        VERY_BAD = 1024
    };
    const bool wide = has_avx512();
    const bool thin = 1.0 / (double)m + 1.0 / (double)n >= thin_from();

    if (wide && !trans_a && trans_b && n > 100 &&
        ((n < 1200 && m < 200 && k < 1200) || (lda % BAD == 0 && ldb % BAD == 0)))
        return true;
    if (wide && !trans_a && !trans_b && ldb % VERY_BAD == 0 && k > 500 && m > 100)
        return true;
    if (thin && !(wide && trans_a && !trans_b && ldb % VERY_BAD == 0))
        return false;
    if (wide && (lda % BAD == 0 || ldb % BAD == 0 || ldc % BAD == 0) && n >= 32 &&
        (m > 16 || (m == 16 && (k >= 6400 || trans_b || n == 4096))))
        return true;
    if (k >= LIMIT && ((n <= LIMIT && m <= LIMIT) || n >= LIMIT))
        return true;
    if (k <= (wide || trans_a ? 1 : 2))
        return false;
    if (wide)
        return m > NARROW && (n > NARROW || (trans_a && n < m));
    return (n > 128 || m > 128) && m > (trans_a ? 1 : 16) && (trans_a || n > 64);
}

Status onednn_sgemm(KernelCtx *ctx, bool trans_a, bool trans_b, int64_t m, int64_t n, int64_t k, float alpha,
                    const float *a, int64_t lda, const float *b, int64_t ldb, float beta, float *c, int64_t ldc)
{
    int team = enter_team(ctx);
    dnnl_status_t st =
        onednn.sgemm(trans_a ? 'T' : 'N', trans_b ? 'T' : 'N', m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);

    leave_team(ctx, team);
    TRY_DNNL(st);
    return ST_OK;
}
