/* Compiles a body to steps, one for each node in the order of the graph; steps that no result needs are
 * dropped.  A result is put at once over the array of its number where no later step reads that array, and anything
 * else into the first buffer that no later step needs, so a step never reads a stale value.
 */
#include "kernels/cpu/update_steps.h"
#include "graph/ops/binary.gen.h"
#include "graph/ops/unary.gen.h"
#include "graph/ops/where.gen.h"

#include <stdlib.h>
#include <string.h>

#include "graph/ir/op.h"
#include "kernels/cpu/cpu_formulas.h"

/* ---- a node as a step ---- */

static bool find_do(Do *out, const Node *n)
{
    static const struct {
        const OpDef *op;
        Do what;
        int n_in;
    } known[] = {
        { &op_Add, DO_ADD, 2 }, { &op_Sub, DO_SUB, 2 },   { &op_Mul, DO_MUL, 2 },   { &op_Div, DO_DIV, 2 },
        { &op_Max, DO_MAX, 2 }, { &op_Min, DO_MIN, 2 },   { &op_Sqrt, DO_SQRT, 1 }, { &op_Abs, DO_ABS, 1 },
        { &op_Neg, DO_NEG, 1 }, { &op_Sign, DO_SIGN, 1 },
    };

    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (known[i].op == n->op && known[i].n_in == n->n_in) {
            *out = known[i].what;
            return true;
        }
    return false;
}

static int input_number(const Graph *body, ValueId v)
{
    for (int i = 0; i < body->n_input; i++)
        if (value_eq(body->input[i], v))
            return i;
    return -1;
}

int steps_decider(const Graph *body, int n_in)
{
    int decider = -1;

    FOR_NODES(body, x) {
        const int i = x->op == &op_Where && has_in(x, 0) ? input_number(body, x->in[0]) - n_in : -1;

        if (x->op != &op_Where)
            continue;
        if (i < 0 || in_value(body, x, 0)->dtype != DT_BOOL || (decider >= 0 && decider != i))
            return -2;
        decider = i;
    }
    return decider;
}

/* ---- compiling ---- */

typedef struct {
    Steps *f;
    const Graph *body;
    StepOperand *made; /* [values of body] */
    bool decided;
} Compiler;

static bool add_number(Steps *f, StepOperand *out, int scalar, double constant)
{
    for (int i = 0; i < f->n_number; i++)
        if (f->number[i].scalar == scalar && (scalar >= 0 || f->number[i].constant == constant) &&
            signbit(f->number[i].constant) == signbit(constant)) {
            *out = (StepOperand){ OF_NUMBER, i };
            return true;
        }
    if (f->n_number == STEPS_NUMBERS)
        return false;
    f->number[f->n_number].scalar = scalar;
    f->number[f->n_number].constant = constant;
    *out = (StepOperand){ OF_NUMBER, f->n_number++ };
    return true;
}

/* The operand that a value is; constants are numbers. */
static bool find_operand(Compiler *c, StepOperand *out, ValueId v)
{
    const Value *x = value(c->body, v);
    const int i = input_number(c->body, v);

    if (x->dtype != c->f->type)
        return false;
    if (x->kind == V_CONST)
        return x->init && shape_numel(x->shape) == 1 && add_number(c->f, out, -1, tensor_float(x->init, 0));
    if (i >= c->f->n_in)
        return add_number(c->f, out, i - c->f->n_in, 0);
    *out = i >= 0 ? (StepOperand){ OF_ARRAY, i } : c->made[v.i];
    return true;
}

static bool steps_add(Steps *f, StepOperand *out, Do what, int n_in, const StepOperand *in)
{
    Step *s = &f->step[f->n_step];

    if (f->n_step == STEPS_MOST)
        return false;
    *s = (Step){ .what = what, .n_in = n_in, .result = -1 };
    memcpy(s->in, in, sizeof *in * (size_t)n_in);
    *out = (StepOperand){ OF_STEP, f->n_step++ };
    return true;
}

static bool compile_node(Compiler *c, const Node *n)
{
    StepOperand in[2], *out = &c->made[n->out[0].i];
    Do what;

    for (int i = 0; i < n->n_in; i++)
        if (!has_in(n, i))
            return false;
    if (n->op == &op_Where)
        return find_operand(c, out, n->in[c->decided ? 1 : 2]);
    if (!find_do(&what, n))
        return false;
    for (int i = 0; i < n->n_in; i++)
        if (!find_operand(c, &in[i], n->in[i]))
            return false;
    return steps_add(c->f, out, what, n->n_in, in);
}

/* A result that is neither a step nor the array of its number is copied. */
static bool find_result(Compiler *c, int i)
{
    StepOperand *r = &c->f->result[i];

    if (!find_operand(c, r, c->body->output[i].value))
        return false;
    return r->where == OF_STEP || (r->where == OF_ARRAY && r->i == i) || steps_add(c->f, r, DO_COPY, 1, r);
}

/* ---- lifetimes of steps, and their buffers ---- */

static void drop_dead(Steps *f)
{
    bool needed[STEPS_MOST] = { false };
    int to[STEPS_MOST] = { 0 }, n = 0;

    for (int i = 0; i < f->n_out; i++)
        if (f->result[i].where == OF_STEP)
            needed[f->result[i].i] = true;
    for (int k = f->n_step - 1; k >= 0; k--)
        for (int i = 0; needed[k] && i < f->step[k].n_in; i++)
            if (f->step[k].in[i].where == OF_STEP)
                needed[f->step[k].in[i].i] = true;
    for (int k = 0; k < f->n_step; k++) {
        if (!needed[k])
            continue;
        to[k] = n;
        f->step[n] = f->step[k];
        for (int i = 0; i < f->step[n].n_in; i++)
            if (f->step[n].in[i].where == OF_STEP)
                f->step[n].in[i].i = to[f->step[n].in[i].i];
        n++;
    }
    f->n_step = n;
    for (int i = 0; i < f->n_out; i++)
        if (f->result[i].where == OF_STEP)
            f->result[i].i = to[f->result[i].i];
}

static bool read_behind(const Steps *f, int k, int array)
{
    for (k++; k < f->n_step; k++)
        for (int i = 0; i < f->step[k].n_in; i++)
            if (f->step[k].in[i].where == OF_ARRAY && f->step[k].in[i].i == array)
                return true;
    return false;
}

/* A result is written at once where nothing behind reads the array over which it may lie. */
static void place_steps(Steps *f)
{
    bool taken[STEPS_MOST] = { false };

    for (int k = 0; k < f->n_step; k++) {
        Step *s = &f->step[k];

        s->last = k;
        for (int i = 0; i < s->n_in; i++)
            if (s->in[i].where == OF_STEP)
                f->step[s->in[i].i].last = k;
    }
    for (int i = f->n_out - 1; i >= 0; i--)
        if (f->result[i].where == OF_STEP) {
            Step *s = &f->step[f->result[i].i];

            if (!read_behind(f, f->result[i].i, i))
                s->result = i;
            s->last = STEPS_MOST; /* to the end */
        }
    for (int k = 0; k < f->n_step; k++) {
        Step *s = &f->step[k];

        if (s->result < 0) {
            while (taken[s->buffer])
                s->buffer++;
            taken[s->buffer] = true;
            if (f->n_buffer <= s->buffer)
                f->n_buffer = s->buffer + 1;
        }
        for (int i = 0; i < k; i++)
            if (f->step[i].last == k && f->step[i].result < 0)
                taken[f->step[i].buffer] = false;
    }
}

Status steps_compile(Steps *f, const Graph *body, int n_in, bool decided)
{
    Compiler c = { f, body, calloc(body->n_value, sizeof *c.made), decided };
    bool all = n_in <= STEPS_ARRAYS && body->n_output <= STEPS_ARRAYS && n_in <= body->n_input;

    if (!c.made)
        return FAIL_NOMEM();
    memset(f, 0, sizeof *f);
    f->n_in = n_in;
    f->n_out = body->n_output;
    f->type = body->n_input ? value(body, body->input[0])->dtype : DT_NONE;
    for (uint32_t i = 0; all && i < body->n_node; i++)
        all = !body->node[i] || !body->node[i]->op || compile_node(&c, body->node[i]);
    for (int i = 0; all && i < f->n_out; i++)
        all = find_result(&c, i);
    free(c.made);
    if (!all)
        return FAIL(E_UNSUPPORTED,
                    "a formula of %u nodes has an operator without a step, or too many steps, numbers or arrays",
                    (unsigned)body->n_node);
    drop_dead(f);
    place_steps(f);
    return ST_OK;
}

/* ---- a block at a time ---- */

/* One loop for operands that are arrays and for those that are one number. */
#define LOOPS(expression)              \
    if (step_a && step_b)              \
        LOOP(i, i, expression)         \
    else if (step_a)                   \
        LOOP(i, 0, expression)         \
    else                               \
        LOOP(0, i *step_b, expression) \
    break
#define LOOP(A, B, expression)      \
    for (int i = 0; i < n; i++) {   \
        const T x = a[A], y = b[B]; \
        out[i] = expression;        \
    }

#define BODY "kernels/cpu/update_steps.inc"
#include "kernels/each_type.inc"
