/* Generates the text of a kernel from a graph of elementwise nodes.
 *
 * Neighbouring dimensions of the iteration space that every operand walks with one stride are merged
 * (kernels/cuda/space.c); those that are left decide how an operand is read.  One that has all elements is read at the
 * element's number, one that stretches only along rows of the innermost dimension once for all of them, any other at an
 * offset from coordinates, which 32-bit multiplications find.  A thread takes as many neighbouring elements as 16 bytes
 * hold of the largest type, and loads all of its operands before it stores, so that an output may stand in the memory
 * of an input of its size.  Sizes are parameters: nodes that differ in sizes alone share their text, and so what it was
 * compiled to.
 *
 * Where the last output is summed a thread takes the elements in the order of a reduction instead
 * (kernels/cuda/axes.h), as many neighbours at a time as divide its innermost axis: all are there, and each is taken
 * once.
 *
 * Over many tensors, which all have their elements in the same order, a block works on a part of one of them, whose
 * addresses it reads from a table; a thread takes neighbours as above.
 *
 * 16-bit floats are computed in float32.  A value that no other kernel sees stays in float32 from node to node, unless
 * a Cast says otherwise: it is then no further from the exact value than what rounding in between would give. */
#include <inttypes.h>
#include <string.h>

#include "kernels/cuda/device/update.h"
#include "kernels/cuda/generator.h"
#include "kernels/cuda/space.h"

enum { VECTOR_BYTES = 16, VECTOR_MAX = 8 };

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
    if (value(g->body, n->in[i])->kind == V_CONST && shape_numel(value(g->body, n->in[i])->shape) != 1)
        return FAIL(E_UNSUPPORTED, "%s: input %d is a constant of many elements", node_text(g->body, n), i);
    if (at < 0)
        return ST_OK;
    g->access[at] = value(g->body, n->in[i])->kind == V_CONST ? AT_LITERAL : AT_SCALAR;
    if (op_takes_channels(n->op, i) && value(g->body, n->out[0])->shape->rank > 2) /* of [N, C] both are the same */
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
            return FAIL(E_UNSUPPORTED, "%s: no expression computes it", node_text(g->body, n));
        for (int i = 0; i < cuda_expr_args(e, n); i++)
            if (has_in(n, i))
                TRY(read_input(g, n, i));
    }
    if (g->sum)
        g->read[g->body->output[g->n_stored].value.i] = true;
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

/* An operand with all elements in another order than the output looks like one that broadcasts, and would not be read
 * where the output that overwrites it is written. */
static Status merge_space(Generator *g, const Value *space, int n, const SpaceOperand *operand,
                          int64_t (*stride)[MAX_RANK])
{
    for (int k = 0; k < n; k++)
        if (operand[k].value->layout != space->layout && shape_eq(operand[k].value->shape, space->shape))
            return FAIL(E_UNSUPPORTED, "operands of different layouts");
    g->rank = space_merge(space, n, operand, g->dim, stride);
    if (!space_is_even(g->rank, n, stride))
        return FAIL(E_UNSUPPORTED, "an operand does not advance by one element along the innermost axis");
    if ((g->rank > 1 || g->sum) && g->out->count > INT32_MAX)
        return FAIL(E_UNSUPPORTED, "%" PRId64 " elements that broadcast or are summed", g->out->count);
    if (g->rank <= 0) { /* one element, or none */
        g->rank = 1;
        g->dim[0] = 1;
        memset(stride, 0, sizeof *stride * (size_t)n);
    }
    return ST_OK;
}

static Status find_access(Generator *g, const Value *space)
{
    const Graph *body = g->body;
    SpaceOperand *operand = ARENA_NEW(g->arena, SpaceOperand, body->n_input);
    int64_t(*stride)[MAX_RANK] = arena_alloc(g->arena, sizeof *stride * ((size_t)body->n_input + 1));
    int n = 0;

    if (!operand || !stride)
        return FAIL_NOMEM();
    for (int i = 0; i < body->n_input; i++)
        if (g->access[i] == AT_SCALAR)
            operand[n++] = (SpaceOperand){ value(body, body->input[i]), g->channels[i] };
    TRY(merge_space(g, space, n, operand, stride));
    for (int i = n = 0; i < body->n_input; i++)
        if (g->access[i] == AT_SCALAR) {
            memcpy(g->stride[i], stride[n++], sizeof *stride);
            g->access[i] = g->out->count == 1 ? AT_INDEX : access_of(g, g->stride[i]);
        }
    return ST_OK;
}

/* Are v elements at a time never more than there are? */
static bool vector_fits(const Generator *g, int64_t v)
{
    if (g->rank > 1 && g->dim[0] % v)
        return false;
    return g->sum ? g->inner % v == 0 : g->rank > 1 || g->out->count >= v;
}

/* 16 bytes of the largest type; where there are rows, a part of one. */
static void choose_vector(Generator *g)
{
    size_t largest = 1;
    int64_t v;

    for (int i = 0; i < g->body->n_input; i++)
        if (g->access[i] >= AT_INDEX && largest < dtype_size(value(g->body, g->body->input[i])->dtype))
            largest = dtype_size(value(g->body, g->body->input[i])->dtype);
    for (int i = 0; i < g->n_stored; i++)
        if (largest < dtype_size(value(g->body, g->body->output[i].value)->dtype))
            largest = dtype_size(value(g->body, g->body->output[i].value)->dtype);
    v = VECTOR_BYTES / (int64_t)largest < VECTOR_MAX ? VECTOR_BYTES / (int64_t)largest : VECTOR_MAX;
    while (v > 1 && !vector_fits(g, v))
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
            TRY(add_pointer(g->out, i,
                            (g->access[i] == AT_INDEX || g->access[i] == AT_ROW ? v : 1) *
                                dtype_size(value(body, body->input[i])->dtype)));
    for (int i = 0; i < g->n_stored; i++)
        TRY(add_pointer(g->out, -1 - i, v * dtype_size(value(body, body->output[i].value)->dtype)));
    return ST_OK;
}

/* ---- entry ---- */

/* ew_Mul_Add_Relu, sum_Mul: what profilers show. */
static void choose_name(Generator *g)
{
    size_t n = (size_t)snprintf(g->out->name, GENERATED_NAME, g->sum ? "sum" : g->n_array ? "many" : "ew");

    FOR_NODES(g->body, x)
        if (n + strlen(x->op->name) + 2 < GENERATED_NAME)
            n += (size_t)snprintf(g->out->name + n, GENERATED_NAME - n, "_%s", x->op->name);
}

static void name_values(Generator *g)
{
    for (uint32_t v = 1; v < g->body->n_value; v++)
        if (g->body->value[v]->kind == V_CONST && shape_numel(g->body->value[v]->shape) == 1)
            cuda_expr_literal(g->text[v], g->body->value[v]->init);
        else
            snprintf(g->text[v], EXPR_TEXT, "t%u", v);
    for (int i = 0; i < g->body->n_input; i++) {
        ValueId v = g->body->input[i];

        if (g->access[i] != AT_LITERAL)
            snprintf(g->text[v.i], EXPR_TEXT, g->access[i] == AT_INDEX || g->access[i] == AT_ROW ? "x%u[k]" : "x%u",
                     v.i);
    }
}

static Status check_space(const Graph *body, const Value **space)
{
    if (!body->n_output)
        return FAIL(E_INTERNAL, "a body without outputs");
    *space = value(body, body->output[0].value);
    for (int i = 0; i < body->n_output; i++) {
        const Value *y = value(body, body->output[i].value);

        if (!shape_eq(y->shape, (*space)->shape) || y->layout != (*space)->layout)
            return FAIL(E_SHAPE, "output %d has another shape or layout than output 0", i);
    }
    return ST_OK;
}

static bool cuda_generate_allocate(Generator *g)
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

/* Operands of a kernel over many tensors: the table's at the element's number, of which any tensor may have many. */
static void take_arrays(Generator *g)
{
    for (int i = 0; i < g->n_array; i++)
        if (g->access[i] == AT_SCALAR)
            g->access[i] = AT_INDEX;
    g->out->count = UPDATE_WORK;
    g->rank = 1;
}

static Status cuda_generate_generate(Generator *g)
{
    const Value *space;

    TRY(check_space(g->body, &space));
    if (!cuda_generate_allocate(g))
        return FAIL_NOMEM();
    g->out->count = shape_numel(space->shape);
    TRY(find_read(g));
    if (g->n_array)
        take_arrays(g);
    else
        TRY(find_access(g, space));
    choose_vector(g);
    TRY(list_pointers(g));
    TRY(list_numbers(g));
    name_values(g);
    choose_name(g);
    return ST_OK;
}

static Status generate_text(Generator *g)
{
    size_t size;

    if (!(g->f = open_memstream(&g->out->source, &size)))
        return FAIL_NOMEM();
    generator_write(g);
    return fclose(g->f) ? FAIL_NOMEM() : ST_OK;
}

static Status generate_into(Generated *out, Generator *g)
{
    Status st;

    memset(out, 0, sizeof *out);
    g->out = out;
    if (!(g->arena = arena_create()))
        return FAIL_NOMEM();
    st = cuda_generate_generate(g);
    if (!st)
        st = generate_text(g);
    arena_free(g->arena);
    return st;
}

Status generate_elementwise(Generated *out, const Graph *body)
{
    Generator g = { .body = body, .n_stored = body->n_output };

    return generate_into(out, &g);
}

Status generate_many(Generated *out, const Graph *body, int n_array)
{
    Generator g = { .body = body, .n_stored = body->n_output, .n_array = n_array };

    return generate_into(out, &g);
}

Status generate_sum(Generated *out, const Graph *body, DType sum, bool columns, int64_t inner)
{
    Generator g = { .body = body, .n_stored = body->n_output - 1, .sum = sum, .columns = columns, .inner = inner };

    return generate_into(out, &g);
}
