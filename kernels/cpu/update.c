/* Update: a formula of elementwise operators in one pass over memory.
 *
 * The formula becomes a list of instructions, which are carried out for a block of elements at a time: operands and
 * results of a block stay in the first cache, each instruction is a loop that the compiler vectorises, and what is read
 * and written of memory are the tensors alone, once.  The team shares the blocks; no sum is taken, so its size changes
 * no bit.
 *
 * The next value of a state is written to its place at once when nothing behind reads the state, over which it may
 * lie; else it is copied there when the block is done. */
#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "graph/op.h"
#include "graph/ops/update.h"
#include "kernels/backend.h"
#include "kernels/cpu/team.h"

enum { BLOCK = 512, MOST_NODES = 64, MOST_IN = 3 };

typedef enum { DO_ADD, DO_SUB, DO_MUL, DO_DIV, DO_MAX, DO_MIN, DO_SQRT, DO_ABS, DO_SIGN, DO_NEG, DO_WHERE } Do;

/* Where a value is: a tensor of the node, of which the block has its part; a number for all elements; or a buffer. */
typedef enum { IN_TENSOR, IN_SCALAR, IN_CONST, IN_BUFFER, IN_OUTPUT } Where;
typedef struct {
    Where where;
    int i;         /* IN_TENSOR, IN_SCALAR: input; IN_BUFFER: buffer; IN_OUTPUT: output */
    double number; /* IN_CONST */
} Operand;

typedef struct {
    Do what;
    int n_in;
    Operand in[MOST_IN], out;
} Step;

typedef struct {
    Step step[MOST_NODES];
    Operand next[MOST_NODES]; /* of each output: where its value is, IN_OUTPUT when it is there already */
    int n_step, n_out, n_buffer;
} Formula;

/* ---- from the formula to instructions ---- */

static bool find_do(Do *out, const Node *n)
{
    const struct {
        const OpDef *op;
        Do what;
        int n_in;
    } known[] = {
        { &op_Add, DO_ADD, 2 },   { &op_Sub, DO_SUB, 2 }, { &op_Mul, DO_MUL, 2 },     { &op_Div, DO_DIV, 2 },
        { &op_Max, DO_MAX, 2 },   { &op_Min, DO_MIN, 2 }, { &op_Sqrt, DO_SQRT, 1 },   { &op_Abs, DO_ABS, 1 },
        { &op_Sign, DO_SIGN, 1 }, { &op_Neg, DO_NEG, 1 }, { &op_Where, DO_WHERE, 3 },
    };

    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (known[i].op == n->op && known[i].n_in == n->n_in) {
            *out = known[i].what;
            return true;
        }
    return false;
}

/* The number of the value among the body's inputs, or -1. */
static int input_number(const Graph *body, ValueId v)
{
    for (int i = 0; i < body->n_input; i++)
        if (value_eq(body->input[i], v))
            return i;
    return -1;
}

static bool supports(const Graph *g, const Node *n)
{
    const DType t = in_value(g, n, 0)->dtype;
    Graph *body;
    bool all;
    Do what;

    if (update_body(&body, g, n))
        return false;
    all = body->n_node <= MOST_NODES && n->n_out <= MOST_NODES;
    FOR_NODES(body, x) {
        all = all && find_do(&what, x) && value(body, x->out[0])->dtype == t;
        for (int i = 0; all && i < x->n_in; i++) {
            const Value *v = has_in(x, i) ? in_value(body, x, i) : NULL;
            const bool condition = x->op == &op_Where && !i;

            all = v && (condition ? v->dtype == DT_BOOL && input_number(body, x->in[i]) > n->n_out : v->dtype == t) &&
                  (v->kind != V_CONST || (shape_numel(&v->shape) == 1));
        }
    }
    graph_free(body);
    return all;
}

static Operand operand_of(const Graph *body, ValueId v, const Operand *made, int n_state)
{
    const int i = input_number(body, v);

    if (value(body, v)->kind == V_CONST)
        return (Operand){ .where = IN_CONST, .number = tensor_float(value(body, v)->init, 0) };
    return i < 0 ? made[v.i] : (Operand){ .where = i <= n_state ? IN_TENSOR : IN_SCALAR, .i = i };
}

/* Does a node behind `n` read state i? */
static bool read_later(const Graph *body, const Node *n, int i)
{
    FOR_NODES(body, x)
        for (int k = 0; x->index > n->index && k < x->n_in; k++)
            if (value_eq(x->in[k], body->input[i]))
                return true;
    return false;
}

/* The first output that is the value, where it may be written at once; else -1. */
static int output_at_once(const Graph *body, const Node *n)
{
    for (int i = 0; i < body->n_output; i++)
        if (value_eq(body->output[i].value, n->out[0]))
            return read_later(body, n, i) ? -1 : i;
    return -1;
}

static void compile(Formula *f, const Graph *body, Operand *made)
{
    f->n_out = body->n_output;
    FOR_NODES(body, x) {
        Step *s = &f->step[f->n_step++];
        const int output = output_at_once(body, x);

        find_do(&s->what, x);
        s->n_in = x->n_in;
        for (int i = 0; i < x->n_in; i++)
            s->in[i] = operand_of(body, x->in[i], made, body->n_output);
        s->out = output < 0 ? (Operand){ .where = IN_BUFFER, .i = f->n_buffer++ }
                            : (Operand){ .where = IN_OUTPUT, .i = output };
        made[x->out[0].i] = s->out;
    }
    for (int i = 0; i < f->n_out; i++)
        f->next[i] = operand_of(body, body->output[i].value, made, body->n_output);
}

static Status prepare(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    Formula *f = calloc(1, sizeof *f);
    Operand *made = NULL;
    Graph *body = NULL;
    Status st = f ? update_body(&body, g, n) : FAIL_NOMEM();
    size_t bytes;

    if (!st && !(made = calloc(body->n_value, sizeof *made)))
        st = FAIL_NOMEM();
    if (!st) {
        compile(f, body, made);
        bytes = (size_t)f->n_buffer * BLOCK * sizeof(double) * TEAM_MAX;
        ctx->scratch_bytes = bytes > ctx->scratch_bytes ? bytes : ctx->scratch_bytes;
        *state = f;
    } else {
        free(f);
    }
    free(made);
    graph_free(body);
    return st;
}

/* ---- instructions ---- */

/* One loop for operands that are arrays and for those that are one number. */
#define LOOPS(expression)                              \
    if (step_a && step_b)                              \
        for (int i = 0; i < n; i++) {                  \
            const real x = a[i], y = b[i];             \
            out[i] = expression;                       \
        }                                              \
    else if (step_a)                                   \
        for (int i = 0; i < n; i++) {                  \
            const real x = a[i], y = *b;               \
            out[i] = expression;                       \
        }                                              \
    else                                               \
        for (int i = 0; i < n; i++) {                  \
            const real x = *a, y = step_b ? b[i] : *b; \
            out[i] = expression;                       \
        }                                              \
    break

/* NaN of either operand stays. */
#define LARGER (x > y || x != x ? x : y)
#define SMALLER (x < y || x != x ? x : y)

#define real float
#define NAME(word) word##_f32
#define SQRT sqrtf
#define FABS fabsf
#include "kernels/cpu/update.inc"
#undef real
#undef NAME
#undef SQRT
#undef FABS
#define real double
#define NAME(word) word##_f64
#define SQRT sqrt
#define FABS fabs
#include "kernels/cpu/update.inc"

static Status run(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    const Formula *f = state;
    const int64_t n = tensor_numel(&in[0]);

    (in[0].dtype == DT_FLOAT32 ? run_f32 : run_f64)(f, team_size(ctx->n_threads, n), n, in, out, ctx->scratch);
    return ST_OK;
}

DEFINE_KERNEL(cpu_update, .op = &op_Update, .dtypes = DTYPES_F32_F64, .rank = 10, .supports = supports,
              .prepare = prepare, .run = run, .release = free);
