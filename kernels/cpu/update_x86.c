/* The steps of an Update as machine code of x86-64: one loop over vectors of 32 bytes (AVX) or 64 (AVX-512, on
 * processors that do not slow down for it), every intermediate in a register.
 *
 * The steps of kernels/cpu/update_steps.c move a block through the first cache for each operator; here an element
 * passes memory and cache once, which is what a loop written by hand comes to.  Each instruction is the operator that
 * the step is, rounded as it is there, so the bits are the same; products are not fused into sums.
 *
 *   in the order of StepsCode's parameters: rdi, rsi the arrays' addresses, rdx numbers, rcx bytes; rax counts
 *
 *   prologue   the addresses of arrays and results to registers of their own
 *   loop       arrays, each once; steps; results, stored when all is computed, so that they may lie over arrays
 *
 * Encodings: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2, "VEX prefix"
 * and "EVEX encoding". */
#include "kernels/cpu/update_steps.h"

#if defined __x86_64__ && (defined __linux__ || defined __APPLE__ || defined __FreeBSD__)
#include <string.h>
#include <sys/mman.h>

enum { CODE_BYTES = 4096, N_VECTOR = 16 };

/* General registers by their numbers; those at the end of `pointers` must be kept for the caller. */
enum { RAX, RCX, RDX, RBX, RSP, RBP, RSI, RDI, R8, R9, R10, R11, R12, R13, R14, R15 };
static const unsigned char pointers[] = { R8, R9, R10, R11, RBX, RBP, R12, R13, R14, R15 };
enum { N_POINTER = sizeof pointers, FIRST_KEPT = 4 };

/* The second bytes of the instructions, as of packed numbers. */
enum {
    LOAD = 0x10,
    STORE = 0x11,
    SQRT = 0x51,
    AND = 0x54,
    AND_NOT = 0x55,
    XOR = 0x57,
    ADD = 0x58,
    MUL = 0x59,
    SUB = 0x5c,
    MIN = 0x5d,
    DIV = 0x5e,
    MAX = 0x5f,
    COMPARE = 0xc2,
    BLEND = 0x4a,  /* by a vector as mask; one more for float64 */
    BLEND_K = 0x65 /* by a mask register */
};
enum { MAP_0F = 1, MAP_0F38 = 2, MAP_0F3A = 3 };
enum { K1 = 1, K2 = 2 };
enum { LESS = 1, UNORDERED = 3, GREATER = 14 }; /* of COMPARE */

typedef struct {
    unsigned char *code;
    size_t n;
    const Steps *f;
    int vector;                  /* bytes */
    bool f64, full, no_register; /* full: of code */
    bool taken[N_VECTOR];
    int array[STEPS_ARRAYS]; /* the vector register that an array is in; -1: not loaded yet */
    int uses[STEPS_ARRAYS];  /* by steps to come, and by results */
    int made[STEPS_MOST];
    int in[STEPS_ARRAYS], out[STEPS_ARRAYS]; /* general registers */
} Assembler;

static void update_x86_put(Assembler *a, int byte)
{
    if (a->n < CODE_BYTES)
        a->code[a->n++] = (unsigned char)byte;
    else
        a->full = true;
}

static void put32(Assembler *a, int32_t v)
{
    for (int i = 0; i < 4; i++)
        update_x86_put(a, (int)((uint32_t)v >> 8 * i & 255));
}

/* Numbers behind those of the formula. */
static int minus_zero(const Assembler *a) { return a->f->n_number; }
static int plus_one(const Assembler *a) { return a->f->n_number + 1; }

/* ---- vector instructions: dst = op(x, y) ---- */

/* The prefix of AVX, or with vectors of 64 bytes of AVX-512, masked by register k (0: not).  High bits of registers are
 * stored inverted; pp 1: the prefix 66, which means float64 in map 0F. */
static void prefix(Assembler *a, int map, int pp, int reg, int x, int index, int base, int k)
{
    const int high = (~reg >> 3 & 1) << 7 | (~index >> 3 & 1) << 6 | (~base >> 3 & 1) << 5, third = (~x & 15) << 3 | pp;

    if (a->vector == 32) {
        update_x86_put(a, 0xc4);
        update_x86_put(a, high | map);
        update_x86_put(a, third | 1 << 2);
        return;
    }
    update_x86_put(a, 0x62);
    update_x86_put(a, high | 1 << 4 | map);
    update_x86_put(a, third | 1 << 2 | (a->f64 ? 1 << 7 : 0));
    update_x86_put(a, 1 << 6 | 1 << 3 | k);
}

static int type_bits(const Assembler *a) { return a->f64 ? 1 : 0; }

static void put_registers(Assembler *a, int op, int dst, int y)
{
    update_x86_put(a, op);
    update_x86_put(a, 0xc0 | (dst & 7) << 3 | (y & 7));
}

static void op_registers(Assembler *a, int op, int dst, int x, int y)
{
    prefix(a, MAP_0F, type_bits(a), dst, x, 0, y, 0);
    put_registers(a, op, dst, y);
}

/* At number i of the pool. */
static void put_number(Assembler *a, int op, int dst, int i)
{
    update_x86_put(a, op);
    update_x86_put(a, 0x80 | (dst & 7) << 3 | RDX);
    put32(a, i * a->vector);
}

static void op_number(Assembler *a, int op, int dst, int x, int i)
{
    prefix(a, MAP_0F, type_bits(a), dst, x, 0, RDX, 0);
    put_number(a, op, dst, i);
}

/* LOAD or STORE at [pointer + rax] */
static void op_memory(Assembler *a, int op, int reg, int pointer)
{
    prefix(a, MAP_0F, type_bits(a), reg, 0, RAX, pointer, 0);
    update_x86_put(a, op);
    update_x86_put(a, 0x44 | (reg & 7) << 3);
    update_x86_put(a, RAX << 3 | (pointer & 7));
    update_x86_put(a, 0);
}

/* dst: a vector, or with vectors of 64 bytes a mask register. */
static void update_x86_compare(Assembler *a, int how, int dst, int x, int y)
{
    op_registers(a, COMPARE, dst, x, y);
    update_x86_put(a, how);
}

/* dst = mask ? yes : no */
static void blend(Assembler *a, int dst, int no, int yes, int mask)
{
    if (a->vector == 64) {
        prefix(a, MAP_0F38, 1, dst, no, 0, yes, mask);
        put_registers(a, BLEND_K, dst, yes);
        return;
    }
    prefix(a, MAP_0F3A, 1, dst, no, 0, yes, 0);
    put_registers(a, BLEND + type_bits(a), dst, yes);
    update_x86_put(a, mask << 4);
}

/* dst = mask ? 1 : 0, zero being a register of zeros */
static void choose_one(Assembler *a, int dst, int zero, int mask)
{
    if (a->vector == 32) {
        op_number(a, AND, dst, mask, plus_one(a));
        return;
    }
    prefix(a, MAP_0F38, 1, dst, zero, 0, RDX, mask);
    put_number(a, BLEND_K, dst, plus_one(a));
}

/* ---- vector registers ---- */

static int update_x86_take(Assembler *a)
{
    for (int r = 0; r < N_VECTOR; r++)
        if (!a->taken[r]) {
            a->taken[r] = true;
            return r;
        }
    a->no_register = true;
    return 0;
}

static int number_register(Assembler *a, int i)
{
    const int r = update_x86_take(a);

    op_number(a, LOAD, r, 0, i);
    return r;
}

static int array_register(Assembler *a, int i)
{
    if (a->array[i] < 0) {
        a->array[i] = update_x86_take(a);
        op_memory(a, LOAD, a->array[i], a->in[i]);
    }
    return a->array[i];
}

static int operand_register(Assembler *a, StepOperand o)
{
    switch (o.where) {
    case OF_ARRAY: return array_register(a, o.i);
    case OF_NUMBER: return number_register(a, o.i);
    case OF_STEP: break;
    }
    return a->made[o.i];
}

/* Step k has read the operand from register r, which is free when nothing else will. */
static void update_x86_release(Assembler *a, StepOperand o, int r, int k)
{
    if (o.where == OF_NUMBER || (o.where == OF_STEP && a->f->step[o.i].last == k) ||
        (o.where == OF_ARRAY && --a->uses[o.i] == 0))
        a->taken[r] = false;
}

/* ---- steps ---- */

/* A comparison's result is a vector, r, or mask register k. */
static int mask_of(const Assembler *a, int r, int k) { return a->vector == 64 ? k : r; }

/* x where it is larger (smaller) or NaN, otherwise y: the instruction's result, except where x is NaN. */
static void extreme(Assembler *a, int op, int dst, int x, int y)
{
    const int m = update_x86_take(a), mask = mask_of(a, m, K1), t = update_x86_take(a);

    op_registers(a, op, t, x, y);
    update_x86_compare(a, UNORDERED, mask, x, x);
    blend(a, dst, t, x, mask);
    a->taken[m] = a->taken[t] = false;
}

/* (x > 0) - (x < 0), or x where it is NaN */
static void sign(Assembler *a, int dst, int x)
{
    const int zero = update_x86_take(a), up = update_x86_take(a), down = update_x86_take(a);

    op_registers(a, XOR, zero, zero, zero);
    update_x86_compare(a, GREATER, mask_of(a, up, K1), x, zero);
    update_x86_compare(a, LESS, mask_of(a, down, K2), x, zero);
    choose_one(a, up, zero, mask_of(a, up, K1));
    choose_one(a, down, zero, mask_of(a, down, K2));
    op_registers(a, SUB, up, up, down);
    update_x86_compare(a, UNORDERED, mask_of(a, zero, K1), x, x);
    blend(a, dst, up, x, mask_of(a, zero, K1));
    a->taken[zero] = a->taken[up] = a->taken[down] = false;
}

static void map(Assembler *a, Do what, int dst, int x)
{
    int t;

    switch (what) {
    case DO_SQRT: op_registers(a, SQRT, dst, 0, x); break;
    case DO_NEG: op_number(a, XOR, dst, x, minus_zero(a)); break;
    case DO_SIGN: sign(a, dst, x); break;
    case DO_ABS:
        t = number_register(a, minus_zero(a));
        op_registers(a, AND_NOT, dst, t, x);
        a->taken[t] = false;
        break;
    default: op_registers(a, LOAD, dst, 0, x);
    }
}

static const unsigned char arithmetic[] = {
    [DO_ADD] = ADD, [DO_SUB] = SUB, [DO_MUL] = MUL, [DO_DIV] = DIV, [DO_MAX] = MAX, [DO_MIN] = MIN
};

static void assemble_two(Assembler *a, const Step *s, int k)
{
    StepOperand x = s->in[0], y = s->in[1];
    int rx, ry = -1;
    const bool is_extreme = s->what == DO_MAX || s->what == DO_MIN;

    if (x.where == OF_NUMBER && (s->what == DO_ADD || s->what == DO_MUL)) {
        x = s->in[1];
        y = s->in[0];
    }
    rx = operand_register(a, x);
    if (y.where != OF_NUMBER || is_extreme)
        ry = operand_register(a, y);
    if (is_extreme) {
        a->made[k] = update_x86_take(a);
        extreme(a, arithmetic[s->what], a->made[k], rx, ry);
    }
    update_x86_release(a, x, rx, k);
    if (ry >= 0)
        update_x86_release(a, y, ry, k);
    if (is_extreme)
        return;
    a->made[k] = update_x86_take(a); /* one of the operands' where they were read for the last time */
    if (ry < 0)
        op_number(a, arithmetic[s->what], a->made[k], rx, y.i);
    else
        op_registers(a, arithmetic[s->what], a->made[k], rx, ry);
}

static void assemble_step(Assembler *a, int k)
{
    const Step *s = &a->f->step[k];
    int x;

    if (s->n_in == 2) {
        assemble_two(a, s, k);
        return;
    }
    x = operand_register(a, s->in[0]);
    a->made[k] = update_x86_take(a);
    map(a, s->what, a->made[k], x);
    update_x86_release(a, s->in[0], x, k);
}

static void assemble_body(Assembler *a)
{
    const Steps *f = a->f;

    for (int k = 0; k < f->n_step; k++)
        assemble_step(a, k);
    for (int i = 0; i < f->n_out; i++)
        if (f->result[i].where == OF_ARRAY)
            array_register(a, i);
    for (int i = 0; i < f->n_out; i++)
        op_memory(a, STORE, f->result[i].where == OF_STEP ? a->made[f->result[i].i] : a->array[i], a->out[i]);
}

/* ---- around them ---- */

static void update_x86_push(Assembler *a, int r)
{
    if (r > 7)
        update_x86_put(a, 0x41);
    update_x86_put(a, 0x50 | (r & 7));
}

static void pop(Assembler *a, int r)
{
    if (r > 7)
        update_x86_put(a, 0x41);
    update_x86_put(a, 0x58 | (r & 7));
}

/* r = list[i], of pointers at rdi or rsi */
static void load_pointer(Assembler *a, int r, int list, int i)
{
    update_x86_put(a, 0x48 | (r > 7 ? 4 : 0));
    update_x86_put(a, 0x8b);
    update_x86_put(a, 0x40 | (r & 7) << 3 | list);
    update_x86_put(a, 8 * i);
}

static void assemble(Assembler *a)
{
    const Steps *f = a->f;
    const int n = f->n_in + f->n_out;
    size_t loop;

    for (int i = FIRST_KEPT; i < n; i++)
        update_x86_push(a, pointers[i]);
    for (int i = 0; i < n; i++) {
        const bool result = i >= f->n_in;

        *(result ? &a->out[i - f->n_in] : &a->in[i]) = pointers[i];
        load_pointer(a, pointers[i], result ? RSI : RDI, result ? i - f->n_in : i);
    }
    update_x86_put(a, 0x31); /* xor eax, eax */
    update_x86_put(a, 0xc0);
    loop = a->n;
    assemble_body(a);
    update_x86_put(a, 0x48); /* add rax, vector */
    update_x86_put(a, 0x83);
    update_x86_put(a, 0xc0);
    update_x86_put(a, a->vector);
    update_x86_put(a, 0x48); /* cmp rax, rcx */
    update_x86_put(a, 0x39);
    update_x86_put(a, 0xc8);
    update_x86_put(a, 0x0f); /* jb loop */
    update_x86_put(a, 0x82);
    put32(a, (int32_t)loop - (int32_t)(a->n + 4));
    update_x86_put(a, 0xc5); /* vzeroupper */
    update_x86_put(a, 0xf8);
    update_x86_put(a, 0x77);
    for (int i = n - 1; i >= FIRST_KEPT; i--)
        pop(a, pointers[i]);
    update_x86_put(a, 0xc3); /* ret */
}

static void count_uses(Assembler *a)
{
    const Steps *f = a->f;

    for (int i = 0; i < STEPS_ARRAYS; i++)
        a->array[i] = -1;
    for (int k = 0; k < f->n_step; k++)
        for (int i = 0; i < f->step[k].n_in; i++)
            if (f->step[k].in[i].where == OF_ARRAY)
                a->uses[f->step[k].in[i].i]++;
    for (int i = 0; i < f->n_out; i++)
        if (f->result[i].where == OF_ARRAY)
            a->uses[i]++;
}

/* Processors with VBMI2 keep their clock when they use vectors of 64 bytes. */
int steps_vector(void)
{
    if (__builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vbmi2"))
        return 64;
    return __builtin_cpu_supports("avx") ? 32 : 0;
}

StepsCode *steps_assemble(const Steps *f, int vector)
{
    Assembler a = { .f = f, .f64 = f->type == DT_FLOAT64, .vector = vector };
    union {
        void *memory;
        StepsCode *code;
    } page;

    if (f->n_in + f->n_out > N_POINTER || !vector)
        return NULL;
    page.memory = mmap(NULL, CODE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page.memory == MAP_FAILED)
        return NULL;
    a.code = page.memory;
    count_uses(&a);
    assemble(&a);
    if (!a.full && !a.no_register && !mprotect(page.memory, CODE_BYTES, PROT_READ | PROT_EXEC))
        return page.code;
    munmap(page.memory, CODE_BYTES);
    return NULL;
}

void steps_free_code(StepsCode *code)
{
    union {
        StepsCode *code;
        void *memory;
    } page = { code };

    if (code)
        munmap(page.memory, CODE_BYTES);
}

#else

int steps_vector(void) { return 0; }

StepsCode *steps_assemble(const Steps *f, int vector)
{
    (void)f, (void)vector;
    return NULL;
}

void steps_free_code(StepsCode *code) { (void)code; }

#endif
