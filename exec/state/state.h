/* The state of a session: parameters, moments, statistics, counters, each with a copy on every device, by the names
 * they have in the unpartitioned graph; shared by the programs of all modes and shapes. */
#ifndef DPX_STATE_H
#define DPX_STATE_H

#include "exec/device/memory.h"
#include "exec/state/safetensors.h"
#include "exec/world/world.h"

typedef struct {
    int device, replica; /* replica -1: the device's; else of a partial sum */
    void *data;
    int64_t from, count; /* the elements it holds: all, or a piece of them */
} StateCopy;

typedef struct {
    const char *name;
    DType dtype;
    Shape shape;
    Layout layout; /* of the copies; what is read and written here is row-major */
    bool trainable, transient;
    bool partial; /* the copies are partial sums of replicas, not equal copies */
    bool cut;     /* each copy is a piece: those of all processes hold all elements, row by row */
    StateCopy *copy;
    int n_copy;
    size_t cap_copy;
    void *given;      /* row-major: what the copies begin with; NULL once this process has its own */
    TensorFile *file; /* instead of `given`: where tensor number `entry` has them; likewise NULL */
    int entry;
    bool foreseen; /* it waits with the value that the first program would give it */
} State;

typedef struct States States;

/* `device`: [n_device], NULL where another process has it; at least one is not. */
Status states_create(States **out, Device *const *device, int n_device) CHECKED;
/* The processes of the world have the devices in turn, all as many; lent.  NULL: this process has all. */
void states_join(States *s, World *w);
void states_free(States *s); /* NULL is legal */
/* Allocates the missing copies of n states on one device, in one piece of exactly their bytes, so that an accelerator's
 * allocation equals the step's plan. */
Status states_reserve(States *s, const Value *const *v, int n) CHECKED;
/* The storage of this copy.  A new one begins with the present value on other devices, else with the value given, else
 * with the value's `init`, else zero.  E_SHAPE when a state of that name has another type or shape. */
Status states_storage(void **data, States *s, const Value *v) CHECKED;
/* A new state of this value, which waits for the first program that has it; until then it is read and written like any
 * other. */
Status states_give(States *s, const char *name, const Tensor *t, bool trainable) CHECKED;
/* The same of a value that the program would begin with in any case.  `data`: row-major; NULL: zeros. */
Status states_foresee(States *s, const char *name, DType dtype, const Shape *shape, const void *data,
                      bool trainable) CHECKED;
/* The same of tensor `entry` of a file, of which each copy reads what it holds, when it is made. */
Status states_give_file(States *s, TensorFile *f, int entry, bool trainable) CHECKED;
static inline bool state_waits(const State *s) { return s->given || s->file; }
/* Are pieces of it in other processes? */
bool states_spread(const States *s, const State *st);
void states_drop_waiting(States *s);
Status states_zero_transient(States *s) CHECKED;
int states_count(const States *s);
int states_begun(const States *s); /* how many of them have copies */
const State *states_at(const States *s, int i);
const State *states_find(const States *s, const char *name); /* NULL: none */
/* To or from `t`, of the state's type and shape, put together from pieces or cut into them.  A partial sum is written
 * to one copy, the others become zero.
 *
 * All processes read a state that is spread over them together, in one order: those that want it give data, the others
 * `t` without data. */
Status states_get(const States *s, const char *name, const Tensor *t) CHECKED;
/* The state's value where it lies, row-major in the host's memory, until it next changes; NULL: it has to be put
 * together or fetched with states_get. */
const void *states_lend(const States *s, const State *st);
/* The partial sum of one replica of a state; *here: this process has it. */
Status states_get_partial(bool *here, const States *s, const State *st, int replica, void *data) CHECKED;
Status states_set(States *s, const char *name, const Tensor *t) CHECKED;
/* states_set of tensor `entry` of a file, which has the state's name, type and shape: no more is read of it than what
 * is held here. */
Status states_set_file(States *s, TensorFile *f, int entry) CHECKED;
/* Sets every state NAME to the mean of the rows of "NAME.each", which has a row for each replica, and all rows to it.
 */
Status states_average(States *s) CHECKED;
/* E_INTERNAL naming the first state whose copies are not equal to the bit. */
Status states_check_mirrors(const States *s) CHECKED;

#endif
