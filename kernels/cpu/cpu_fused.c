/* Fused: its program tile by tile.  A tile is a part of the elements that is so small that the cache holds what one
 * operator leaves for the next.  Each operator computes its part with the rows of its own kernel, so the bits are those
 * of the operators one after the other.  Inputs that broadcast are spread over the tile before they are read. */
#include <stdlib.h>
#include <string.h>

#include "graph/ops/batchnorm.gen.h"
#include "graph/ops/fused.gen.h"
#include "graph/ops/fused.h"
#include "kernels/cpu/cpu_batchnorm.h"
#include "kernels/cpu/cpu_elementwise.h"
#include "kernels/cpu/team.h"

#define BODY "kernels/cpu/cpu_fused.inc"
#define TYPES (OF_U8 | OF_U16 | OF_U32 | OF_U64)
#include "kernels/each_type.inc"

extern const Kernel *const kernels_cpu[]; /* of this instruction set */
extern const int kernels_cpu_len;

enum { TILE_BYTES = 1 << 13, LINE = 64, NORM_INPUTS = 4 /* mean, variance, scale, bias: behind x */ };

/* Where a value of the program is. */
typedef struct {
    enum { UNPLACED, IN_INPUT, IN_SCALAR, IN_CONST, IN_SLOT, IN_OUTPUT } kind;
    int number;       /* of the input, slot or output */
    const void *data; /* IN_CONST: the scalar */
    size_t size;      /* of an element */
} Place;

typedef struct {
    RowFn fn;
    double param[2];
    Place in[MAX_OPERANDS], out;
    const Elementwise *spread; /* of input in[0].number; NULL: an operator */
    const BatchNorm *norm;     /* of BatchNormApply; NULL: fn */
    DType dtype;               /* of BatchNormApply */
    size_t factors;            /* of BatchNormApply: where they lie in the scratch */
    int channel[NORM_INPUTS];  /* of BatchNormApply: numbers of inputs */
} Step;

typedef struct {
    Arena *arena;
    int64_t total, tile; /* elements */
    int n_step, n_slot, n_out;
    size_t shared, slot_bytes; /* scratch of all threads; of a slot, behind it, in each thread */
    Step *step;
    Place *out; /* [n_out] */
} Tiles;

/* What preparing knows of the program. */
typedef struct {
    Tiles *t;
    const Graph *body;
    Place *place; /* [values] */
    int *last;    /* [values] the node that reads it last; -1: none */
    int *taken;   /* [slots] the node that reads last what is in it */
    int input;    /* the node that reads an input of the outputs' size last */
} Layer;

static void cpu_fused_release(void *state)
{
    Tiles *t = state;

    if (t)
        arena_free(t->arena);
    free(t);
}

/* ---- what can be computed by tiles ---- */

static const Kernel *kernel_of(const Graph *body, const Node *x)
{
    const Kernel *k = kernel_find(kernels_cpu, kernels_cpu_len, body, x);

    return k && k->by_rows ? k : NULL;
}

/* Input 5 of BatchNormApply says whose statistics these are, and is not read. */
static bool is_channel_input(const Node *x, int i) { return x->op == &op_BatchNormApply && i > 0; }

static bool input_fits(const Graph *body, const Node *x, int i)
{
    const Value *v = in_value(body, x, i);

    if (is_channel_input(x, i))
        return i > NORM_INPUTS || v->kind == V_INPUT;
    return v->kind != V_CONST || shape_numel(v->shape) == 1;
}

static bool cpu_fused_fits(const Graph *body)
{
    const Shape *space = value(body, body->output[0].value)->shape;

    for (int i = 0; i < body->n_output; i++)
        if (!value(body, body->output[i].value)->producer)
            return false;
    FOR_NODES(body, x) {
        if (!kernel_of(body, x) || !shape_eq(value(body, x->out[0])->shape, space))
            return false;
        for (int i = 0; i < x->n_in; i++)
            if (has_in(x, i) && !input_fits(body, x, i))
                return false;
    }
    return shape_numel(space) > 0;
}

static bool cpu_fused_supports(const Graph *g, const Node *n)
{
    Graph *body;
    bool fits;
    Status st;

    if (fused_sums(n))
        return false;
    if ((st = fused_body(&body, g, n)))
        return st == E_NOMEM; /* preparing reports it */
    fits = cpu_fused_fits(body);
    graph_free(body);
    return fits;
}

/* ---- preparing ---- */

/* A slot that no value needs at node `at`, for one that node `last` reads last. */
static Place slot_place(Layer *l, int at, int last, size_t size)
{
    int s = 0;

    while (s < l->t->n_slot && l->taken[s] >= at)
        s++;
    if (s == l->t->n_slot)
        l->t->n_slot++;
    l->taken[s] = last;
    return (Place){ .kind = IN_SLOT, .number = s, .size = size };
}

static int input_number(const Graph *body, ValueId v)
{
    int i = 0;

    while (!value_eq(body->input[i], v))
        i++;
    return i;
}

/* Appends the step that spreads input v, which node `at` is the first to read. */
static Status spread_input(Layer *l, ValueId v, int at)
{
    static const RowFn *const rows[] = { [1] = copy_u8, [2] = copy_u16, [4] = copy_u32, [8] = copy_u64 };
    const Value *x = value(l->body, v);
    const Tensor in = { .dtype = x->dtype, .shape = *x->shape };
    const size_t size = dtype_size(x->dtype);
    Elementwise *e = ARENA_NEW(l->t->arena, Elementwise, 1);
    Step *s = &l->t->step[l->t->n_step++];

    if (!e)
        return FAIL_NOMEM();
    e->in_size[0] = e->out_size = size;
    e->walk = walk_start(value(l->body, l->body->output[0].value)->shape, 1, &in);
    e->fn = rows[size][e->walk.row > 1 && !e->walk.row_stride[0]];
    s->spread = e;
    s->in[0] = (Place){ .kind = IN_INPUT, .number = input_number(l->body, v), .size = size };
    s->out = l->place[v.i] = slot_place(l, at, l->last[v.i], size);
    return ST_OK;
}

/* Decides where v, which node `at` reads, is. */
static Status place_read(Layer *l, ValueId v, int at)
{
    const Value *x = value(l->body, v);
    Place *p = &l->place[v.i];

    if (p->kind != UNPLACED)
        return ST_OK;
    if (x->kind != V_CONST && shape_numel(x->shape) != 1 && shape_numel(x->shape) != l->t->total)
        return spread_input(l, v, at);
    p->size = dtype_size(x->dtype);
    p->kind = x->kind == V_CONST ? IN_CONST : shape_numel(x->shape) == 1 && l->t->total > 1 ? IN_SCALAR : IN_INPUT;
    if (x->kind != V_CONST)
        p->number = input_number(l->body, v);
    else if (!(p->data = arena_memdup(l->t->arena, x->init->data, p->size)))
        return FAIL_NOMEM();
    return ST_OK;
}

/* An output may share the memory of an input, and is written there at once only when no node reads inputs any more. */
static Place place_result(Layer *l, const Node *x)
{
    const ValueId y = x->out[0];
    const size_t size = dtype_size(value(l->body, y)->dtype);

    for (int o = 0; o < l->t->n_out && l->input <= (int)x->index; o++)
        if (value_eq(l->body->output[o].value, y))
            return (Place){ .kind = IN_OUTPUT, .number = o, .size = size };
    return slot_place(l, (int)x->index, l->last[y.i], size);
}

static void read_norm(Step *s, Layer *l, const Node *x, const BatchNorm *norm)
{
    s->dtype = value(l->body, x->out[0])->dtype;
    s->factors = l->t->shared;
    l->t->shared += ((size_t)norm->c * dtype_size(s->dtype) + LINE - 1) / LINE * LINE;
    for (int i = 0; i < NORM_INPUTS; i++)
        s->channel[i] = input_number(l->body, x->in[1 + i]);
}

static void read_rows(Step *s, const Node *x, const Elementwise *e)
{
    unsigned still = 0;

    for (int i = 0; i < x->n_in; i++)
        still |= (unsigned)(s->in[i].kind == IN_SCALAR || s->in[i].kind == IN_CONST) << i;
    s->fn = e->pattern[still];
    memcpy(s->param, e->param, sizeof s->param);
}

static Status push_node(Layer *l, const Node *x)
{
    const Kernel *k = kernel_of(l->body, x);
    const bool norm = x->op == &op_BatchNormApply;
    KernelCtx one = { .n_threads = 1 };
    BatchNorm *own = NULL;
    void *state = NULL;
    Step *s;

    for (int i = 0; i < x->n_in; i++)
        if (has_in(x, i) && !is_channel_input(x, i))
            TRY(place_read(l, x->in[i], (int)x->index));
    s = &l->t->step[l->t->n_step++];
    for (int i = 0; i < x->n_in && i < MAX_OPERANDS; i++)
        if (has_in(x, i) && !is_channel_input(x, i))
            s->in[i] = l->place[x->in[i].i];
    TRY(k->prepare(&state, &one, l->body, x));
    if (!norm)
        read_rows(s, x, state);
    else if ((own = arena_memdup(l->t->arena, state, sizeof *own)))
        read_norm(s, l, x, own);
    k->release(state);
    s->norm = own;
    s->out = l->place[x->out[0].i] = place_result(l, x);
    return norm && !own ? FAIL_NOMEM() : ST_OK;
}

/* Fills the tables of a Layer. */
static Status layer_begin(Layer *l, const Graph *body, Arena *scratch)
{
    const int values = (int)body->n_value;

    l->place = ARENA_NEW(scratch, Place, values);
    l->last = ARENA_NEW(scratch, int, values);
    l->taken = ARENA_NEW(scratch, int, values);
    if (!l->place || !l->last || !l->taken)
        return FAIL_NOMEM();
    for (int v = 0; v < values; v++)
        l->last[v] = -1;
    FOR_NODES(body, x)
        for (int i = 0; i < x->n_in; i++)
            if (has_in(x, i)) {
                l->last[x->in[i].i] = (int)x->index;
                if (in_value(body, x, i)->kind == V_INPUT && shape_numel(in_value(body, x, i)->shape) == l->t->total)
                    l->input = (int)x->index;
            }
    for (int o = 0; o < body->n_output; o++)
        l->last[body->output[o].value.i] = (int)body->n_node;
    return ST_OK;
}

static Status prepare_tiles(Tiles *t, const Graph *body, Arena *scratch)
{
    Layer l = { .t = t, .body = body };
    size_t widest = 1;

    t->total = shape_numel(value(body, body->output[0].value)->shape);
    t->n_out = body->n_output;
    t->step = ARENA_NEW(t->arena, Step, body->n_node + body->n_value);
    t->out = ARENA_NEW(t->arena, Place, body->n_output);
    if (!t->step || !t->out)
        return FAIL_NOMEM();
    TRY(layer_begin(&l, body, scratch));
    FOR_NODES(body, x)
        TRY(push_node(&l, x));
    for (int o = 0; o < t->n_out; o++)
        t->out[o] = l.place[body->output[o].value.i];
    for (uint32_t v = 1; v < body->n_value; v++)
        if (l.place[v].size > widest)
            widest = l.place[v].size;
    t->tile = TILE_BYTES / (int64_t)widest < t->total ? TILE_BYTES / (int64_t)widest : t->total;
    t->slot_bytes = ((size_t)t->tile * widest + LINE - 1) / LINE * LINE;
    return ST_OK;
}

static Status cpu_fused_prepare(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    Tiles *t = calloc(1, sizeof *t);
    Arena *scratch = arena_create();
    Graph *body = NULL;
    Status st;

    if (!t || !scratch || !(t->arena = arena_create()))
        st = FAIL_NOMEM();
    else if (!(st = fused_body(&body, g, n)))
        st = prepare_tiles(t, body, scratch);
    graph_free(body);
    arena_free(scratch);
    if (st) {
        cpu_fused_release(t);
        return st;
    }
    if (ctx->scratch_bytes < t->shared + (size_t)ctx->n_threads * (size_t)t->n_slot * t->slot_bytes)
        ctx->scratch_bytes = t->shared + (size_t)ctx->n_threads * (size_t)t->n_slot * t->slot_bytes;
    *state = t;
    return ST_OK;
}

/* ---- running ---- */

/* A thread at a tile. */
typedef struct {
    const Tensor *in;
    Tensor *out;
    char *shared, *slots;
    int64_t from, n;
} Tile;

static void *place_at(const Tiles *t, const Tile *at, const Place *p)
{
    switch (p->kind) {
    case IN_INPUT: return (char *)at->in[p->number].data + (size_t)at->from * p->size;
    case IN_SCALAR: return at->in[p->number].data;
    case IN_CONST: return (void *)p->data;
    case IN_SLOT: return at->slots + (size_t)p->number * t->slot_bytes;
    case IN_OUTPUT: return (char *)at->out[p->number].data + (size_t)at->from * p->size;
    default: return NULL;
    }
}

static void run_tile(const Tiles *t, const Tile *at)
{
    for (const Step *s = t->step; s < t->step + t->n_step; s++) {
        void *y = place_at(t, at, &s->out);

        if (s->spread)
            elementwise_range(s->spread, &at->in[s->in[0].number], y, at->from, at->from + at->n);
        else if (s->norm)
            batch_norm_part(s->norm, s->dtype, place_at(t, at, &s->in[0]),
                            (const void *const[]){ at->in[s->channel[0]].data, at->shared + s->factors,
                                                   at->in[s->channel[3]].data },
                            y, at->from, at->n);
        else
            s->fn(y, place_at(t, at, &s->in[0]), place_at(t, at, &s->in[1]), place_at(t, at, &s->in[2]), at->n,
                  s->param);
    }
    for (int o = 0; o < t->n_out; o++) {
        const Place own = { .kind = IN_OUTPUT, .number = o, .size = t->out[o].size };

        if (t->out[o].kind != IN_OUTPUT || t->out[o].number != o)
            memcpy(place_at(t, at, &own), place_at(t, at, &t->out[o]), (size_t)at->n * own.size);
    }
}

static Status cpu_fused_run(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    const Tiles *t = state;
    const int team = t->total < PARALLEL_ELEMENTS && !ctx->grain ? 1 : ctx->n_threads;
    const int64_t tiles = (t->total + t->tile - 1) / t->tile;

    for (const Step *s = t->step; s < t->step + t->n_step; s++)
        if (s->norm)
            batch_norm_factors(s->norm, s->dtype, in[s->channel[1]].data, in[s->channel[2]].data,
                               (char *)ctx->scratch + s->factors);
#pragma omp parallel for num_threads(team) schedule(static)
    for (int k = 0; k < team; k++) {
        const int64_t end = team_begin(tiles, k + 1, team);
        Tile at = {
            in, out,    ctx->scratch, (char *)ctx->scratch + t->shared + (size_t)k * (size_t)t->n_slot * t->slot_bytes,
            0,  t->tile
        };

        for (int64_t i = team_begin(tiles, k, team); i < end; i++) {
            at.from = i * t->tile;
            at.n = t->total - at.from < t->tile ? t->total - at.from : t->tile;
            run_tile(t, &at);
        }
    }
    return ST_OK;
}

DEFINE_KERNEL(cpu_fused, .op = &op_Fused, .layouts = kernel_same_layout, .supports = cpu_fused_supports,
              .prepare = cpu_fused_prepare, .run = cpu_fused_run, .release = cpu_fused_release, .shares = true);
