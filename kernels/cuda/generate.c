/* From a graph of elementwise nodes to the text of a kernel.
 *
 * The dimensions of the iteration space that all operands walk alike are merged (kernels/cuda/space.c); what is left decides
 * how an operand is read.  One that has all elements is read at the element's number, one that stretches only along rows of the innermost
 * dimension once for all of them, any other at an offset from coordinates, which 32-bit multiplications find.  A thread
 * takes as many neighbouring elements as 16 bytes hold of the largest type, and loads all of its operands before it stores,
 * so that an output may stand in the memory of an input of its size.  Sizes are parameters: nodes that differ in sizes alone
 * share their text, and so what it was compiled to.
 *
 * 16-bit floats are computed in float32.  What no other kernel sees stays in float32 from node to node, where a Cast does not
 * say otherwise: it is then no further from the exact value than what rounding in between would give. */
#include "kernels/cuda/generate.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/expr.h"
#include "kernels/cuda/space.h"

enum { VECTOR_BYTES = 16, VECTOR_MAX = 8 };

typedef enum {
    AT_NONE,            /* not read */
    AT_LITERAL,         /* a constant in the text */
    AT_SCALAR,          /* one element for all */
    AT_INDEX,           /* the element of this number */
    AT_ROW,             /* neighbours along the innermost dimension, at an offset */
    AT_SPLAT            /* one for a row of the innermost dimension, at an offset */
} Access;

typedef struct {
    const Graph *body;
    Generated *out;
    Arena *arena;
    FILE *f;
    Access *access;                             /* [n_input] */
    bool *channels, *numpy;                     /* [n_input] read as a vector of channels, as numpy broadcasts */
    bool *read;                                 /* [n_value] by a node */
    int64_t (*stride)[MAX_RANK];                /* [n_input] innermost first */
    int64_t dim[MAX_RANK];
    int rank;                                   /* of the merged dimensions, at least 1 */
    char (*text)[EXPR_TEXT];                   /* [n_value] */
} Generator;

/* ---- expressions ---- */

/* Nodes go on with what other kernels read: a 16-bit output is rounded for them too. */
static bool rounds_again(const Generator *g, ValueId v)
{
    bool output = false;

    for (int i = 0; i < g->body->n_output; i++)
        output = output || value_eq(g->body->output[i].value, v);
    return output && g->read[v.i] && strcmp(cuda_computed_type(value(g->body, v)->dtype), cuda_stored_type(value(g->body, v)->dtype));
}

static void write_node(const Generator *g, const Node *n)
{
    const CudaExpr *e = cuda_expr_find(g->body, n);
    const char *arg[GENERATED_POINTERS];
    DType type = value(g->body, n->out[0])->dtype;
    bool rounds = rounds_again(g, n->out[0]);
    int n_arg = cuda_expr_args(e, n);

    for (int i = 0; i < n_arg; i++)
        arg[i] = has_in(n, i) ? g->text[n->in[i].i] : NULL;
    fprintf(g->f, "            const %s t%u = ", cuda_computed_type(type), n->out[0].i);
    if (rounds)
        fprintf(g->f, "ew::cast<%s>(", cuda_stored_type(type));
    cuda_expr_write(g->f, e, g->body, n, arg);
    fputs(rounds ? ");\n" : ";\n", g->f);
}

/* ---- how operands are read ---- */

static int input_position(const Graph *body, ValueId v)
{
    for (int i = 0; i < body->n_input; i++)
        if (value_eq(body->input[i], v))
            return i;
    return -1;
}

static Status read_input(Generator *g, const Node *n, int i)
{
    int at = input_position(g->body, n->in[i]);

    g->read[n->in[i].i] = true;
    if (at < 0)
        return ST_OK;
    g->access[at] = value(g->body, n->in[i])->kind == V_CONST ? AT_LITERAL : AT_SCALAR;
    if (op_takes_channels(n->op, i) && value(g->body, n->out[0])->shape.rank > 2)   /* of [N, C] both are the same */
        g->channels[at] = true;
    else
        g->numpy[at] = true;
    if (g->access[at] != AT_LITERAL && g->channels[at] && g->numpy[at])
        return FAIL(E_UNSUPPORTED, "%s: input %d is not a vector of channels to other nodes", node_text(g->body, n), i);
    return ST_OK;
}

static Status find_read(Generator *g)
{
    FOR_NODES(g->body, n) {
        const CudaExpr *e = cuda_expr_find(g->body, n);

        if (!e || n->n_out != 1 || cuda_expr_args(e, n) > GENERATED_POINTERS)
            return FAIL(E_UNSUPPORTED, "%s: there is no expression for it", node_text(g->body, n));
        for (int i = 0; i < cuda_expr_args(e, n); i++)
            if (has_in(n, i))
                TRY(read_input(g, n, i));
    }
    return ST_OK;
}

static Access access_of(const Generator *g, const int64_t *stride)
{
    bool index = true, scalar = true;
    int64_t dense = 1;

    for (int i = 0; i < g->rank; dense *= g->dim[i++]) {
        scalar = scalar && !stride[i];
        index = index && stride[i] == dense;
    }
    return index ? AT_INDEX : scalar ? AT_SCALAR : stride[0] ? AT_ROW : AT_SPLAT;
}

/* An operand with all elements in another order than the output cannot be told from one that broadcasts, and would not be
 * read where the output that overwrites it is written. */
static Status merge_space(Generator *g, const Value *space, int n, const Operand *operand, int64_t (*stride)[MAX_RANK])
{
    for (int k = 0; k < n; k++)
        if (operand[k].value->layout != space->layout && shape_eq(&operand[k].value->shape, &space->shape))
            return FAIL(E_UNSUPPORTED, "operands of different layouts");
    g->rank = space_merge(space, n, operand, g->dim, stride);
    if (!space_is_even(g->rank, n, stride))
        return FAIL(E_UNSUPPORTED, "an operand is not walked evenly");
    if (g->rank > 1 && g->out->count > INT32_MAX)
        return FAIL(E_UNSUPPORTED, "%" PRId64 " elements that broadcast", g->out->count);
    if (g->rank <= 0) {                 /* one element, or none */
        g->rank = 1;
        g->dim[0] = 1;
        memset(stride, 0, sizeof *stride * (size_t)n);
    }
    return ST_OK;
}

static Status find_access(Generator *g, const Value *space)
{
    const Graph *body = g->body;
    Operand *operand = ARENA_NEW(g->arena, Operand, body->n_input);
    int64_t (*stride)[MAX_RANK] = arena_alloc(g->arena, sizeof *stride * ((size_t)body->n_input + 1));
    int n = 0;

    if (!operand || !stride)
        return FAIL_NOMEM();
    for (int i = 0; i < body->n_input; i++)
        if (g->access[i] == AT_SCALAR)
            operand[n++] = (Operand){ value(body, body->input[i]), g->channels[i] };
    TRY(merge_space(g, space, n, operand, stride));
    for (int i = n = 0; i < body->n_input; i++)
        if (g->access[i] == AT_SCALAR) {
            memcpy(g->stride[i], stride[n++], sizeof *stride);
            g->access[i] = g->out->count == 1 ? AT_INDEX : access_of(g, g->stride[i]);
        }
    return ST_OK;
}

/* 16 bytes of the largest type; where there are rows, a part of one. */
static void choose_vector(Generator *g)
{
    size_t largest = 1;
    int64_t space = g->rank > 1 ? g->dim[0] : g->out->count, v;

    for (int i = 0; i < g->body->n_input; i++)
        if (g->access[i] >= AT_INDEX && largest < dtype_size(value(g->body, g->body->input[i])->dtype))
            largest = dtype_size(value(g->body, g->body->input[i])->dtype);
    for (int i = 0; i < g->body->n_output; i++)
        if (largest < dtype_size(value(g->body, g->body->output[i].value)->dtype))
            largest = dtype_size(value(g->body, g->body->output[i].value)->dtype);
    v = VECTOR_BYTES / (int64_t)largest < VECTOR_MAX ? VECTOR_BYTES / (int64_t)largest : VECTOR_MAX;
    while (v > 1 && (g->rank > 1 ? space % v != 0 : space < v))
        v /= 2;
    g->out->vector = (int)v;
}

static Status add_number(Generated *out, uint64_t v)
{
    if (out->n_number == GENERATED_NUMBERS)
        return FAIL(E_UNSUPPORTED, "too many operands that broadcast");
    out->number[out->n_number++] = (uint32_t)v;
    return ST_OK;
}

/* size, mul, shift of all dimensions but the outermost (ew::divide), then the strides along all but the innermost. */
static Status list_numbers(Generator *g)
{
    for (int i = 0; i < g->rank - 1; i++) {
        uint64_t size = (uint64_t)(i ? g->dim[i] : g->dim[0] / g->out->vector);
        unsigned shift = 0;

        while ((uint64_t)1 << shift < size)
            shift++;
        TRY(add_number(g->out, size));
        TRY(add_number(g->out, (((uint64_t)1 << (31 + shift)) + size - 1) / size));
        TRY(add_number(g->out, shift));
    }
    for (int k = 0; k < g->body->n_input; k++)
        for (int i = 1; i < g->rank && g->access[k] >= AT_ROW; i++)
            TRY(add_number(g->out, (uint64_t)g->stride[k][i]));
    return ST_OK;
}

static Status add_pointer(Generated *out, int of, size_t align)
{
    if (out->n_pointer == GENERATED_POINTERS)
        return FAIL(E_UNSUPPORTED, "more than %d operands", GENERATED_POINTERS);
    out->of[out->n_pointer] = of;
    out->align[out->n_pointer++] = align;
    return ST_OK;
}

static Status list_pointers(Generator *g)
{
    const Graph *body = g->body;
    size_t v = (size_t)g->out->vector;

    for (int i = 0; i < body->n_input; i++)
        if (g->access[i] >= AT_SCALAR)
            TRY(add_pointer(g->out, i, (g->access[i] == AT_INDEX || g->access[i] == AT_ROW ? v : 1) *
                                           dtype_size(value(body, body->input[i])->dtype)));
    for (int i = 0; i < body->n_output; i++)
        TRY(add_pointer(g->out, -1 - i, v * dtype_size(value(body, body->output[i].value)->dtype)));
    return ST_OK;
}

/* ---- the text ---- */

static ValueId pointer_value(const Generator *g, int i)
{
    int of = g->out->of[i];

    return of >= 0 ? g->body->input[of] : g->body->output[-1 - of].value;
}

/* Sizes and strides, in the order of list_numbers. */
static void write_space(const Generator *g)
{
    if (!g->out->n_number)
        return;
    fputs("struct Space {\n", g->f);
    for (int i = 0; i < g->rank - 1; i++)
        fprintf(g->f, "    u32 size%d, mul%d, shift%d;\n", i, i, i);
    for (int k = 0; k < g->body->n_input; k++)
        for (int i = 1; i < g->rank && g->access[k] >= AT_ROW; i++)
            fprintf(g->f, "    u32 stride%d_%d;\n", k, i);
    fputs("};\n\n", g->f);
}

static void write_head(const Generator *g)
{
    fprintf(g->f, "KERNEL(%s, (", g->out->name);
    for (int i = 0; i < g->out->n_pointer; i++)
        fprintf(g->f, "%s%s *p%d, ", g->out->of[i] < 0 ? "" : "const ", cuda_stored_type(value(g->body, pointer_value(g, i))->dtype), i);
    fprintf(g->f, "i64 count, int aligned%s))\n{\n", g->out->n_number ? ", Space s" : "");
    fprintf(g->f, "    constexpr int N = %d;\n    const i64 step = (i64)gridDim.x * blockDim.x;\n", g->out->vector);
}

static void write_coordinates(const Generator *g)
{
    if (g->rank == 1)
        return;
    fputs("        const u32 q0 = (u32)group;\n", g->f);
    for (int i = 0; i < g->rank - 1; i++)
        fprintf(g->f, "        const u32 q%d = ew::divide(q%d, s.mul%d, s.shift%d), c%d = q%d - q%d * s.size%d;\n", i + 1, i, i, i,
                i, i, i + 1, i);
    fprintf(g->f, "        const u32 c%d = q%d;\n", g->rank - 1, g->rank - 1);
}

static void write_offset(const Generator *g, int k)
{
    fputs(g->access[k] == AT_ROW ? "c0 * N" : "0", g->f);
    for (int i = 1; i < g->rank; i++)
        fprintf(g->f, " + c%d * s.stride%d_%d", i, k, i);
}

/* Before the loop: what is one element for all. */
static void write_scalars(const Generator *g)
{
    for (int i = 0; i < g->out->n_pointer; i++) {
        int k = g->out->of[i];
        ValueId v = pointer_value(g, i);

        if (k < 0 || g->access[k] != AT_SCALAR)
            continue;
        fprintf(g->f, "    const %s x%u = ew::widen<%s>(p%d[0]);\n", cuda_computed_type(value(g->body, v)->dtype), v.i,
                cuda_computed_type(value(g->body, v)->dtype), i);
    }
}

static void write_loads(const Generator *g)
{
    for (int i = 0; i < g->out->n_pointer; i++) {
        int k = g->out->of[i];
        ValueId v = pointer_value(g, i);
        const char *type = cuda_computed_type(value(g->body, v)->dtype);

        if (k < 0 || g->access[k] == AT_SCALAR)
            continue;
        if (g->access[k] == AT_SPLAT) {
            fprintf(g->f, "        const %s x%u = ew::widen<%s>(p%d[", type, v.i, type, i);
            write_offset(g, k);
            fputs("]);\n", g->f);
            continue;
        }
        fprintf(g->f, "        %s x%u[N];\n        ew::load<N>(x%u, p%d + ", type, v.i, v.i, i);
        if (g->access[k] == AT_INDEX)
            fputs("at", g->f);
        else
            write_offset(g, k);
        fputs(", count - at, whole);\n", g->f);
    }
}

static void write_stores(const Generator *g)
{
    for (int i = 0; i < g->out->n_pointer; i++)
        if (g->out->of[i] < 0)
            fprintf(g->f, "        ew::store<N>(p%d + at, y%d, count - at, whole);\n", i, -1 - g->out->of[i]);
}

static void write_elements(const Generator *g)
{
    const Graph *body = g->body;

    for (int i = 0; i < body->n_output; i++)
        fprintf(g->f, "        %s y%d[N];\n", cuda_computed_type(value(body, body->output[i].value)->dtype), i);
    fputs("#pragma unroll\n        for (int k = 0; k < N; k++) {\n", g->f);
    FOR_NODES(body, n)
        write_node(g, n);
    for (int i = 0; i < body->n_output; i++)
        fprintf(g->f, "            y%d[k] = %s;\n", i, g->text[body->output[i].value.i]);
    fputs("        }\n", g->f);
}

static void write_kernel(const Generator *g)
{
    fputs("#include \"kernels/cuda/device/elementwise.cuh\"\n\n", g->f);
    write_space(g);
    write_head(g);
    write_scalars(g);
    fputs("\n    for (i64 group = (i64)blockIdx.x * blockDim.x + threadIdx.x; group * N < count; group += step) {\n"
          "        const i64 at = group * N;\n        const bool whole = aligned && at + N <= count;\n", g->f);
    write_coordinates(g);
    write_loads(g);
    write_elements(g);
    write_stores(g);
    fputs("    }\n}\n", g->f);
}

/* ---- entry ---- */

/* ew_Mul_Add_Relu: what profilers show. */
static void choose_name(Generator *g)
{
    size_t n = (size_t)snprintf(g->out->name, GENERATED_NAME, "ew");

    FOR_NODES(g->body, x)
        if (n + strlen(x->op->name) + 2 < GENERATED_NAME)
            n += (size_t)snprintf(g->out->name + n, GENERATED_NAME - n, "_%s", x->op->name);
}

static void name_values(Generator *g)
{
    for (uint32_t v = 1; v < g->body->n_value; v++)
        snprintf(g->text[v], EXPR_TEXT, "t%u", v);
    for (int i = 0; i < g->body->n_input; i++) {
        ValueId v = g->body->input[i];

        if (g->access[i] == AT_LITERAL)
            cuda_expr_literal(g->text[v.i], value(g->body, v)->init);
        else
            snprintf(g->text[v.i], EXPR_TEXT, g->access[i] == AT_INDEX || g->access[i] == AT_ROW ? "x%u[k]" : "x%u", v.i);
    }
}

static Status check_space(const Graph *body, const Value **space)
{
    if (!body->n_output)
        return FAIL(E_INTERNAL, "a body without outputs");
    *space = value(body, body->output[0].value);
    for (int i = 0; i < body->n_output; i++) {
        const Value *y = value(body, body->output[i].value);

        if (!shape_eq(&y->shape, &(*space)->shape) || y->layout != (*space)->layout)
            return FAIL(E_SHAPE, "output %d has another shape or layout than output 0", i);
    }
    return ST_OK;
}

static bool allocate(Generator *g)
{
    int n = g->body->n_input;

    g->access = ARENA_NEW(g->arena, Access, n);
    g->channels = ARENA_NEW(g->arena, bool, n);
    g->numpy = ARENA_NEW(g->arena, bool, n);
    g->read = ARENA_NEW(g->arena, bool, g->body->n_value);
    g->stride = arena_alloc(g->arena, sizeof *g->stride * ((size_t)n + 1));
    g->text = arena_alloc(g->arena, sizeof *g->text * g->body->n_value);
    return g->access && g->channels && g->numpy && g->read && g->stride && g->text;
}

static Status generate(Generator *g)
{
    const Value *space;

    TRY(check_space(g->body, &space));
    if (!allocate(g))
        return FAIL_NOMEM();
    g->out->count = shape_numel(&space->shape);
    TRY(find_read(g));
    TRY(find_access(g, space));
    choose_vector(g);
    TRY(list_pointers(g));
    TRY(list_numbers(g));
    name_values(g);
    choose_name(g);
    return ST_OK;
}

Status generate_elementwise(Generated *out, const Graph *body)
{
    Generator g = { .body = body, .out = out, .arena = arena_create() };
    size_t size;
    Status st = g.arena ? ST_OK : FAIL_NOMEM();

    memset(out, 0, sizeof *out);
    if (!st)
        st = generate(&g);
    if (!st && !(g.f = open_memstream(&out->source, &size)))
        st = FAIL_NOMEM();
    if (g.f) {
        write_kernel(&g);
        if (fclose(g.f))
            st = FAIL_NOMEM();
    }
    arena_free(g.arena);
    return st;
}
