/* The formula of an Update as a list of steps, which kernels/cpu/update_steps.inc carries out for a block of
 * elements at a time, and kernels/cpu/update_x86.c turns into machine code where it can.
 *
 * Arrays are read and written once, an element's results after all that is read of it, so that a result may lie over
 * an array of its number. */
#ifndef DPX_KERNELS_CPU_UPDATE_STEPS_H
#define DPX_KERNELS_CPU_UPDATE_STEPS_H

#include "graph/ir/graph.h"

enum { STEPS_MOST = 64, STEPS_ARRAYS = 16, STEPS_NUMBERS = 64, STEPS_BLOCK = 512 };

typedef enum { DO_COPY, DO_ADD, DO_SUB, DO_MUL, DO_DIV, DO_MAX, DO_MIN, DO_SQRT, DO_ABS, DO_SIGN, DO_NEG } Do;

/* An element of an array that is read, a number for all elements, or the result of a step. */
typedef enum { OF_ARRAY, OF_NUMBER, OF_STEP } Where;
typedef struct {
    Where where;
    int i;
} StepOperand;

typedef struct {
    Do what;
    int n_in;
    StepOperand in[2];
    int last;   /* the step that reads it last; itself when none does */
    int result; /* its value goes at once to this result; -1: to `buffer` */
    int buffer;
} Step;

typedef struct {
    Step step[STEPS_MOST];
    StepOperand result[STEPS_ARRAYS]; /* OF_STEP; or OF_ARRAY i: result i is array i as it is */
    int n_step, n_in, n_out, n_buffer, n_number;
    struct {
        int scalar; /* the body's scalar input, counted from the first; -1: `constant` */
        double constant;
    } number[STEPS_NUMBERS];
    DType type;
} Steps;

/* Compiles a body with types: its first `n_in` inputs are arrays of one shape, the others scalars; result i may lie
 * over array i.  A scalar bool that decides (Where) is taken to be `decided`; there is at most one.  E_UNSUPPORTED for
 * an unknown step, and where the formula has no room for all. */
Status steps_compile(Steps *f, const Graph *body, int n_in, bool decided) CHECKED;
/* The scalar bool that decides, counted as Steps.number's; -1: there is none, -2: there are several. */
int steps_decider(const Graph *body, int n_in);

/* n elements from in[i] to out[i]; numbers: as the type has them; buffer: n_buffer blocks. */
void steps_run_f32(const Steps *f, int64_t n, const void *const *in, void *const *out, const void *numbers,
                   void *buffer);
void steps_run_f64(const Steps *f, int64_t n, const void *const *in, void *const *out, const void *numbers,
                   void *buffer);

/* ---- machine code ---- */

enum { STEPS_VECTOR = 64 };
/* Bytes that machine code takes at a time on this processor; 0: it cannot be had. */
int steps_vector(void);
/* `bytes` of each array, a multiple of the vector; each number fills a vector, and behind them stand -0 and 1. */
typedef void StepsCode(const void *const *in, void *const *out, const void *numbers, int64_t bytes);
/* NULL where the system does not let it, or registers do not suffice. */
StepsCode *steps_assemble(const Steps *f, int vector);
void steps_free_code(StepsCode *code);

#endif
