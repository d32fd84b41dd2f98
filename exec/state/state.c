/* State by logical name, its copies in chunks of each device's memory.  Addresses never move, so programs keep them. */
#include "exec/state/state.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "graph/base/hash.h"

enum { CHUNK = 1 << 20 };

typedef struct {
    Device *device;
    char *base;
    size_t bytes, used;
} Chunk;

struct States {
    pthread_mutex_t lock; /* of states_storage and states_reserve, which sessions that share them call at any time */
    Arena *arena;
    Device *const *device;
    int n_device;
    World *world;
    State **state;
    size_t n, cap;
    uint32_t *slot; /* [n_slot] by name, open addressing: 1 + the state, 0: none */
    size_t n_slot;
    Chunk *chunk;
    size_t n_chunk, cap_chunk;
    size_t *open; /* [n_device] the chunk being filled, from 1; 0: none */
};

Status states_create(States **out, Device *const *device, int n_device)
{
    Arena *a = arena_create();
    States *s = a ? ARENA_NEW(a, States, 1) : NULL;

    if (!s || !(s->open = ARENA_NEW(a, size_t, n_device))) {
        arena_free(a);
        return FAIL_NOMEM();
    }
    pthread_mutex_init(&s->lock, NULL);
    s->arena = a;
    s->device = device;
    s->n_device = n_device;
    *out = s;
    return ST_OK;
}

void states_join(States *s, World *w) { s->world = w; }

void states_free(States *s)
{
    if (!s)
        return;
    states_drop_waiting(s);
    for (size_t i = 0; i < s->n_chunk; i++)
        memory_close(s->chunk[i].device, s->chunk[i].base, s->chunk[i].bytes);
    pthread_mutex_destroy(&s->lock);
    arena_free(s->arena);
}

static size_t aligned(const States *s, int device, size_t bytes)
{
    const size_t align = device_align(s->device[device]);

    return (bytes + align - 1) & ~(align - 1);
}

static Status open_chunk(Chunk **out, States *s, int device, size_t bytes)
{
    Chunk *grown = arena_grow(s->arena, s->chunk, sizeof *grown, s->n_chunk, &s->cap_chunk);
    void *base;

    if (!grown)
        return FAIL_NOMEM();
    s->chunk = grown;
    TRY(memory_open(&base, s->device[device], bytes));
    s->chunk[s->n_chunk++] = (Chunk){ s->device[device], base, bytes, 0 };
    *out = &s->chunk[s->n_chunk - 1];
    return ST_OK;
}

static Status state_allocate(void **data, States *s, int device, size_t bytes)
{
    Chunk *c = s->open[device] ? &s->chunk[s->open[device] - 1] : NULL;

    bytes = aligned(s, device, bytes);
    if (!c || c->bytes - c->used < bytes) {
        TRY(open_chunk(&c, s, device, bytes > CHUNK ? bytes : CHUNK));
        if (bytes < CHUNK)
            s->open[device] = s->n_chunk;
    }
    *data = c->base + c->used;
    c->used += bytes;
    return ST_OK;
}

/* The slot that the name is in, or belongs in; n_slot is a power of two, and some are free. */
static uint32_t *state_slot_of(const States *s, const char *name)
{
    size_t i = (size_t)hash_text(HASH_BEGIN, name) & (s->n_slot - 1);

    while (s->slot[i] && strcmp(s->state[s->slot[i] - 1]->name, name))
        i = (i + 1) & (s->n_slot - 1);
    return &s->slot[i];
}

static State *state_find(const States *s, const char *name)
{
    const uint32_t *slot = s->n_slot ? state_slot_of(s, name) : NULL;

    return slot && *slot ? s->state[*slot - 1] : NULL;
}

static void fill_slots(States *s)
{
    if (s->n_slot)
        memset(s->slot, 0, s->n_slot * sizeof *s->slot);
    for (size_t i = 0; i < s->n; i++)
        *state_slot_of(s, s->state[i]->name) = (uint32_t)i + 1;
}

/* Slots for one state more. */
static Status reserve_slot(States *s)
{
    size_t n = s->n_slot ? 2 * s->n_slot : 64;
    uint32_t *slot;

    if (s->n_slot >= 2 * (s->n + 1))
        return ST_OK;
    if (!(slot = ARENA_NEW(s->arena, uint32_t, n)))
        return FAIL_NOMEM();
    s->slot = slot;
    s->n_slot = n;
    fill_slots(s);
    return ST_OK;
}

static size_t bytes_of(const State *st) { return layout_bytes(st->dtype, LAYOUT_ROWS, &st->shape); }

static size_t stored_bytes(const State *st) { return layout_bytes(st->dtype, st->layout, &st->shape); }

static size_t state_copy_bytes(const State *st, const StateCopy *c)
{
    return st->cut ? (size_t)c->count * dtype_size(st->dtype) : bytes_of(st);
}

/* Where in row-major data of the whole state the copy's elements begin. */
static size_t copy_at(const State *st, const StateCopy *c) { return (size_t)c->from * dtype_size(st->dtype); }

/* Between the layout of the copies, `stored_bytes(st)`, and row-major order, `bytes_of(st)`, both in the host's memory.
 */
static void reorder(const State *st, void *to, const void *from, bool stored)
{
    layout_convert(to, from, &st->shape, dtype_size(st->dtype), st->layout, stored);
}

/* Writes what the copy holds of row-major data of the state. */
static Status write_copy(States *s, const State *st, const StateCopy *c, const void *data)
{
    void *buffer;
    Status code;

    if (st->layout == LAYOUT_ROWS)
        return memory_write(s->device[c->device], c->data, (const char *)data + copy_at(st, c),
                            state_copy_bytes(st, c));
    if (!(buffer = calloc(stored_bytes(st) + 1, 1)))
        return FAIL_NOMEM();
    reorder(st, buffer, data, true);
    code = memory_write(s->device[c->device], c->data, buffer, stored_bytes(st));
    free(buffer);
    return code;
}

/* Reads what the copy holds to its place in row-major data of the state. */
static Status read_copy(const States *s, const State *st, const StateCopy *c, void *data)
{
    void *buffer;
    Status code;

    if (st->layout == LAYOUT_ROWS)
        return memory_read(s->device[c->device], (char *)data + copy_at(st, c), c->data, state_copy_bytes(st, c));
    if (!(buffer = malloc(stored_bytes(st) + 1)))
        return FAIL_NOMEM();
    if (!(code = memory_read(s->device[c->device], buffer, c->data, stored_bytes(st))))
        reorder(st, data, buffer, false);
    free(buffer);
    return code;
}

/* ---- what a state begins with ---- */

static void forget_given(State *st)
{
    free(st->given);
    tensor_file_release(st->file);
    st->foreseen = false;
    st->given = NULL;
    st->file = NULL;
}

/* `bytes` bytes, from byte `from` on, of what the state waits with. */
static Status state_read_given(const State *st, void *to, size_t from, size_t bytes)
{
    if (st->file)
        return tensor_file_read(st->file, st->entry, to, from, bytes);
    if (bytes)
        memcpy(to, (const char *)st->given + from, bytes);
    return ST_OK;
}

/* Writes what the copy holds of it: read to its place where the host may write there. */
static Status write_given(States *s, const State *st, const StateCopy *c)
{
    const bool whole = st->layout != LAYOUT_ROWS;
    const size_t bytes = whole ? bytes_of(st) : state_copy_bytes(st, c), from = whole ? 0 : copy_at(st, c);
    void *buffer;
    Status code;

    if (!whole && !device_runtime(s->device[c->device]))
        return state_read_given(st, c->data, from, bytes);
    if (!(buffer = malloc(bytes + 1)))
        return FAIL_NOMEM();
    code = state_read_given(st, buffer, from, bytes);
    if (!code)
        code = whole ? write_copy(s, st, c, buffer) : memory_write(s->device[c->device], c->data, buffer, bytes);
    free(buffer);
    return code;
}

static Status check_fits(const State *st, DType dtype, const Shape *shape)
{
    char want[SHAPE_TEXT], have[SHAPE_TEXT];

    if (st->dtype != dtype || !shape_eq(&st->shape, shape))
        return FAIL(E_SHAPE, "state '%s' is %s%s, found %s%s", st->name, dtype_name(st->dtype),
                    shape_text(&st->shape, want), dtype_name(dtype), shape_text(shape, have));
    return ST_OK;
}

static Status state_add_state(State **out, States *s, const char *name, DType dtype, const Shape *shape)
{
    State *st = ARENA_NEW(s->arena, State, 1), **grown;

    if (!st || !(grown = arena_grow(s->arena, s->state, sizeof *grown, s->n, &s->cap)))
        return FAIL_NOMEM();
    s->state = grown;
    *st = (State){ .name = arena_strdup(s->arena, name), .dtype = dtype, .shape = *shape };
    if (!st->name)
        return FAIL_NOMEM();
    TRY(reserve_slot(s));
    s->state[s->n++] = st;
    *state_slot_of(s, name) = (uint32_t)s->n;
    *out = st;
    return ST_OK;
}

/* Notes the facts about a state that only a program holds. */
static void state_describe(State *st, const Value *v)
{
    st->layout = v->layout;
    st->transient = v->transient;
    st->partial = v->partial;
    st->cut = v->shard != NULL;
}

/* The shape of the state of which the value is a copy. */
static const Shape *whole_shape(const Value *v) { return v->shard ? &v->shard->whole : v->shape; }

/* Have all elements that this process holds a place? */
static bool is_complete(const States *s, const State *st)
{
    int local = 0;

    for (int d = 0; d < s->n_device; d++)
        local += s->device[d] != NULL;
    return st->n_copy >= (st->cut ? local : 1);
}

static int device_of(const Value *v) { return v->device < 0 ? 0 : v->device; }

/* The copy that the value names, or NULL. */
static StateCopy *find_copy(const State *st, const Value *v)
{
    for (int i = 0; i < st->n_copy; i++)
        if (st->copy[i].device == device_of(v) && (!st->partial || st->copy[i].replica == v->replica))
            return &st->copy[i];
    return NULL;
}

static Status reserve_chunk(States *s, const Value *const *v, int n)
{
    size_t bytes = 0;
    Chunk *c;

    if (!n || !device_runtime(s->device[device_of(v[0])]))
        return ST_OK;
    for (int i = 0; i < n; i++) {
        const State *st = state_find(s, value_logical_name(v[i]));

        if (!st || !find_copy(st, v[i]))
            bytes += aligned(s, device_of(v[i]), layout_bytes(v[i]->dtype, v[i]->layout, v[i]->shape));
    }
    if (!bytes)
        return ST_OK;
    TRY(open_chunk(&c, s, device_of(v[0]), bytes));
    s->open[device_of(v[0])] = s->n_chunk;
    return ST_OK;
}

Status states_reserve(States *s, const Value *const *v, int n)
{
    Status st;

    pthread_mutex_lock(&s->lock);
    st = reserve_chunk(s, v, n);
    pthread_mutex_unlock(&s->lock);
    return st;
}

/* A copy of the present value, of the value given, of the program's; else zeros. */
static Status begin_copy(States *s, const State *st, const StateCopy *c, const Value *v)
{
    const size_t bytes = state_copy_bytes(st, c);
    const void *init = v->init ? v->init->data : NULL;
    Device *d = s->device[c->device];

    if (!bytes)
        return ST_OK;
    if (st->n_copy && !st->partial && !st->cut)
        return memory_copy(d, c->data, s->device[st->copy[0].device], st->copy[0].data, bytes);
    if (state_waits(st))
        return write_given(s, st, c);
    if (init && st->cut) /* a piece's */
        return memory_write(d, c->data, init, bytes);
    return init ? write_copy(s, st, c, init) : memory_zero(d, c->data, bytes);
}

static Status add_copy(StateCopy **out, States *s, State *st, const Value *v)
{
    StateCopy *grown = arena_grow(s->arena, st->copy, sizeof *grown, (size_t)st->n_copy, &st->cap_copy), *c;

    if (!grown)
        return FAIL_NOMEM();
    st->copy = grown;
    c = &st->copy[st->n_copy];
    *c = (StateCopy){ .device = device_of(v), .replica = st->partial ? v->replica : -1 };
    c->from = v->shard ? v->shard->from : 0;
    c->count = shape_numel(v->shape);
    TRY(state_allocate(&c->data, s, c->device, state_copy_bytes(st, c)));
    TRY(begin_copy(s, st, c, v));
    st->n_copy++;
    if (is_complete(s, st))
        forget_given(st);
    *out = c;
    return ST_OK;
}

static Status find_storage(void **data, States *s, const Value *v)
{
    State *st = state_find(s, value_logical_name(v));
    StateCopy *c;

    if (!st)
        TRY(state_add_state(&st, s, value_logical_name(v), v->dtype, whole_shape(v)));
    TRY(check_fits(st, v->dtype, whole_shape(v)));
    if (!st->n_copy)
        state_describe(st, v);
    if (st->layout != v->layout)
        return FAIL(E_INTERNAL, "state '%s' is stored in another layout than its program expects", st->name);
    if (!(c = find_copy(st, v)))
        TRY(add_copy(&c, s, st, v));
    if (st->cut != (v->shard != NULL) || c->from != (v->shard ? v->shard->from : 0) ||
        c->count != shape_numel(v->shape))
        return FAIL(E_INTERNAL, "state '%s' is cut otherwise than its program expects", st->name);
    st->trainable |= v->trainable;
    *data = c->data;
    return ST_OK;
}

Status states_storage(void **data, States *s, const Value *v)
{
    Status st;

    pthread_mutex_lock(&s->lock);
    st = find_storage(data, s, v);
    pthread_mutex_unlock(&s->lock);
    return st;
}

Status states_give(States *s, const char *name, const Tensor *t, bool trainable)
{
    size_t bytes = tensor_bytes(t);
    void *given = malloc(bytes + 1);
    State *st;
    Status code = given ? state_add_state(&st, s, name, t->dtype, &t->shape) : FAIL_NOMEM();

    if (code) {
        free(given);
        return code;
    }
    if (bytes)
        memcpy(given, t->data, bytes);
    st->given = given;
    st->trainable = trainable;
    return ST_OK;
}

Status states_foresee(States *s, const char *name, DType dtype, const Shape *shape, const void *data, bool trainable)
{
    Tensor zeros = { dtype, *shape, NULL };
    void *made = data ? NULL : calloc(1, tensor_bytes(&zeros) + 1);
    Status st;

    zeros.data = data ? (void *)(uintptr_t)data : made;
    st = zeros.data ? states_give(s, name, &zeros, trainable) : FAIL_NOMEM();
    free(made);
    if (!st)
        state_find(s, name)->foreseen = true;
    return st;
}

Status states_give_file(States *s, TensorFile *f, int entry, bool trainable)
{
    int n;
    const NamedTensor *t = &tensor_file_list(f, &n)[entry];
    State *st;

    TRY(state_add_state(&st, s, t->name, t->tensor.dtype, &t->tensor.shape));
    st->file = tensor_file_share(f);
    st->entry = entry;
    st->trainable = trainable;
    return ST_OK;
}

void states_drop_waiting(States *s)
{
    size_t kept = 0;

    for (size_t i = 0; i < s->n; i++) {
        if (state_waits(s->state[i]))
            forget_given(s->state[i]);
        else
            s->state[kept++] = s->state[i];
    }
    s->n = kept;
    fill_slots(s);
}

Status states_zero_transient(States *s)
{
    for (size_t i = 0; i < s->n; i++)
        for (int c = 0; s->state[i]->transient && c < s->state[i]->n_copy; c++)
            TRY(memory_zero(s->device[s->state[i]->copy[c].device], s->state[i]->copy[c].data,
                            state_copy_bytes(s->state[i], &s->state[i]->copy[c])));
    return ST_OK;
}

int states_count(const States *s) { return (int)s->n; }

int states_begun(const States *s)
{
    int n = 0;

    for (size_t i = 0; i < s->n; i++)
        n += s->state[i]->n_copy > 0;
    return n;
}

const State *states_at(const States *s, int i) { return s->state[i]; }
const State *states_find(const States *s, const char *name) { return state_find(s, name); }

static Status find_fitting(State **out, const States *s, const char *name, const Tensor *t)
{
    State *st = state_find(s, name);

    if (!st)
        return FAIL(E_INVALID, "there is no state '%s'", name);
    TRY(check_fits(st, t->dtype, &t->shape));
    *out = st;
    return ST_OK;
}

bool states_spread(const States *s, const State *st) { return st->cut && !state_waits(st) && world_size(s->world) > 1; }

/* ---- pieces of several processes ----
 *
 * First each process sends to all which state it will read, which elements it has and whether it wants the whole; then
 * the pieces go to those that want it. */

typedef struct {
    uint64_t what; /* of the state's name, type and shape */
    int64_t wants;
    int64_t from[MAX_DEVICES], count[MAX_DEVICES];
} Holding;

typedef struct {
    Holding mine, *of; /* [size] of all */
    Parcel *send, *recv;
    struct iovec *piece; /* [2 * size * MAX_DEVICES] */
} Gathering;

static void gathering_free(Gathering *x)
{
    free(x->of);
    free(x->send);
    free(x->recv);
    free(x->piece);
}

static uint64_t hash_what(const State *st)
{
    uint64_t h = hash_text(HASH_BEGIN, st->name) + (uint64_t)st->dtype;

    for (int i = 0; i < st->shape.rank; i++)
        h = hash_int(h, st->shape.dim[i]);
    return h;
}

static Status gathering_begin(Gathering *x, const States *s, const State *st, bool wants)
{
    const size_t size = (size_t)world_size(s->world);

    *x = (Gathering){ .mine = { .what = hash_what(st), .wants = wants },
                      .of = calloc(size, sizeof *x->of),
                      .send = calloc(size, sizeof *x->send),
                      .recv = calloc(size, sizeof *x->recv),
                      .piece = calloc(2 * size * MAX_DEVICES, sizeof *x->piece) };
    if (!x->of || !x->send || !x->recv || !x->piece)
        return FAIL_NOMEM();
    for (int i = 0; i < st->n_copy; i++) {
        x->mine.from[i] = st->copy[i].from;
        x->mine.count[i] = st->copy[i].count;
    }
    for (size_t r = 0; r < size; r++) {
        x->send[r] = (Parcel){ x->piece + 2 * r * MAX_DEVICES, 1 };
        x->recv[r] = (Parcel){ x->piece + (2 * r + 1) * MAX_DEVICES, 1 };
        x->send[r].piece[0] = (struct iovec){ &x->mine, sizeof x->mine };
        x->recv[r].piece[0] = (struct iovec){ &x->of[r], sizeof *x->of };
    }
    TRY(world_exchange(s->world, x->send, x->recv, NULL));
    x->of[world_rank(s->world)] = x->mine;
    return ST_OK;
}

/* Each element comes from one process, and all speak of one state. */
static Status gathering_check(const Gathering *x, const States *s, const State *st)
{
    int64_t held = 0;

    for (int r = 0; r < world_size(s->world); r++) {
        if (x->of[r].what != x->mine.what)
            return FAIL(E_INVALID, "rank %d reads another state or goes on with its steps", r);
        for (int i = 0; i < MAX_DEVICES; i++) {
            int64_t from = x->of[r].from[i], count = x->of[r].count[i];

            if (from < 0 || count < 0 || from > shape_numel(&st->shape) || count > shape_numel(&st->shape) - from)
                return FAIL(E_INTERNAL, "rank %d has no such piece", r);
            held += count;
        }
    }
    return held == shape_numel(&st->shape) ? ST_OK : FAIL(E_INTERNAL, "some elements are nowhere, or twice");
}

static Status gathering_exchange(Gathering *x, const States *s, const State *st, char *data)
{
    const size_t size = dtype_size(st->dtype);

    for (int r = 0; r < world_size(s->world); r++) {
        x->send[r].n = x->recv[r].n = 0;
        for (int i = 0; i < st->n_copy && x->of[r].wants; i++)
            x->send[r].piece[x->send[r].n++] = (struct iovec){ st->copy[i].data, (size_t)st->copy[i].count * size };
        for (int i = 0; i < MAX_DEVICES && data; i++)
            if (x->of[r].count[i])
                x->recv[r].piece[x->recv[r].n++] =
                    (struct iovec){ data + (size_t)x->of[r].from[i] * size, (size_t)x->of[r].count[i] * size };
    }
    return world_exchange(s->world, x->send, x->recv, NULL);
}

static Status state_gather(const States *s, const State *st, void *data)
{
    Gathering x;
    Status code = gathering_begin(&x, s, st, data != NULL);

    if (!code)
        code = gathering_check(&x, s, st);
    if (!code)
        code = gathering_exchange(&x, s, st, data);
    gathering_free(&x);
    for (int i = 0; i < st->n_copy && data && !code; i++)
        code = read_copy(s, st, &st->copy[i], data);
    return code ? status_prefix(code, "state '%s' is in pieces that all processes read together", st->name) : ST_OK;
}

/* ---- reading and writing ---- */

Status states_get(const States *s, const char *name, const Tensor *t)
{
    State *st;

    TRY(find_fitting(&st, s, name, t));
    if (st->partial && st->n_copy > 1)
        return FAIL(E_UNSUPPORTED, "state '%s' is spread over replicas as partial sums", name);
    if (states_spread(s, st))
        return state_gather(s, st, t->data);
    if (!t->data)
        return ST_OK;
    if (state_waits(st))
        return state_read_given(st, t->data, 0, bytes_of(st));
    for (int i = 0; i < (st->cut ? st->n_copy : 1); i++)
        TRY(read_copy(s, st, &st->copy[i], t->data));
    return ST_OK;
}

const void *states_lend(const States *s, const State *st)
{
    const bool here = st->n_copy && !st->partial && !st->cut && !states_spread(s, st);

    if (state_waits(st))
        return st->given;
    return here && st->layout == LAYOUT_ROWS && !device_runtime(s->device[st->copy[0].device]) ? st->copy[0].data
                                                                                               : NULL;
}

Status states_get_partial(bool *here, const States *s, const State *st, int replica, void *data)
{
    *here = false;
    for (int i = 0; i < st->n_copy && !*here; i++)
        if ((*here = st->copy[i].replica < 0 || st->copy[i].replica == replica))
            TRY(read_copy(s, st, &st->copy[i], data));
    return ST_OK;
}

Status states_set(States *s, const char *name, const Tensor *t)
{
    State *st;

    TRY(find_fitting(&st, s, name, t));
    if (state_waits(st)) {
        void *given = malloc(bytes_of(st) + 1);

        if (!given)
            return FAIL_NOMEM();
        if (bytes_of(st))
            memcpy(given, t->data, bytes_of(st));
        forget_given(st);
        st->given = given;
    }
    for (int i = 0; i < st->n_copy; i++) {
        Device *d = s->device[st->copy[i].device];

        TRY(i && st->partial ? memory_zero(d, st->copy[i].data, bytes_of(st))
                             : write_copy(s, st, &st->copy[i], t->data));
    }
    return ST_OK;
}

/* A state whose copies are pieces takes them from the file as a new one does. */
static Status set_pieces(States *s, State *st, TensorFile *f, int entry)
{
    Status code = ST_OK;

    st->file = tensor_file_share(f);
    st->entry = entry;
    for (int i = 0; i < st->n_copy && !code; i++)
        code = write_given(s, st, &st->copy[i]);
    forget_given(st);
    return code;
}

Status states_set_file(States *s, TensorFile *f, int entry)
{
    int n;
    const NamedTensor *from = &tensor_file_list(f, &n)[entry];
    Tensor t = from->tensor;
    State *st;
    Status code;

    TRY(find_fitting(&st, s, from->name, &t));
    if (st->cut && !state_waits(st))
        return set_pieces(s, st, f, entry);
    if (!(t.data = malloc(bytes_of(st) + 1)))
        return FAIL_NOMEM();
    code = tensor_file_read(f, entry, t.data, 0, bytes_of(st));
    if (!code)
        code = states_set(s, from->name, &t);
    free(t.data);
    return code;
}

/* The copy as the host can read it: in place, or read into `buffer`. */
static Status host_view(const void **out, const States *s, const State *st, int copy, void *buffer)
{
    Device *d = s->device[st->copy[copy].device];

    if (device_runtime(d))
        TRY(memory_read(d, buffer, st->copy[copy].data, bytes_of(st)));
    *out = device_runtime(d) ? buffer : st->copy[copy].data;
    return ST_OK;
}

static Status check_copies(const States *s, const State *st, char *buffer)
{
    const void *first, *other;

    TRY(host_view(&first, s, st, 0, buffer));
    for (int c = 1; c < st->n_copy; c++) {
        TRY(host_view(&other, s, st, c, buffer + bytes_of(st)));
        if (memcmp(first, other, bytes_of(st)))
            return FAIL(E_INTERNAL, "state '%s' differs between %s and %s", st->name,
                        device_name(s->device[st->copy[0].device]), device_name(s->device[st->copy[c].device]));
    }
    return ST_OK;
}

static bool on_accelerator(const States *s)
{
    for (int d = 0; d < s->n_device; d++)
        if (s->device[d] && device_runtime(s->device[d]))
            return true;
    return false;
}

Status states_check_mirrors(const States *s)
{
    size_t most = 0;
    char *buffer;
    Status st = ST_OK;

    for (size_t i = 0; i < s->n && on_accelerator(s); i++)
        most = bytes_of(s->state[i]) > most ? bytes_of(s->state[i]) : most;
    if (!(buffer = malloc(2 * most + 1)))
        return FAIL_NOMEM();
    for (size_t i = 0; i < s->n && !st; i++)
        if (!s->state[i]->partial && !s->state[i]->cut && !state_waits(s->state[i]) && bytes_of(s->state[i]))
            st = check_copies(s, s->state[i], buffer);
    free(buffer);
    return st;
}

/* ---- running statistics of each replica ---- */

/* The state that all rows of `each` are to become; NULL: it is no such state. */
static const State *mean_of(const States *s, const State *each)
{
    const size_t len = strlen(each->name), skip = strlen(STATE_EACH);
    const State *of = NULL;

    for (size_t i = 0; i < s->n && len > skip && !strcmp(each->name + len - skip, STATE_EACH); i++)
        if (strlen(s->state[i]->name) == len - skip && !strncmp(s->state[i]->name, each->name, len - skip))
            of = s->state[i];
    return of && !each->trainable && of->dtype == each->dtype && each->shape.rank == of->shape.rank + 1 &&
                   each->shape.dim[0] * shape_numel(&of->shape) == shape_numel(&each->shape)
               ? of
               : NULL;
}

static Status average(States *s, const State *each, const State *of)
{
    Arena *a = arena_create();
    Tensor *rows = a ? tensor_create(a, each->dtype, &each->shape) : NULL, row;
    Status st;

    if (!rows) {
        arena_free(a);
        return FAIL_NOMEM();
    }
    row = (Tensor){ of->dtype, of->shape, rows->data };
    st = states_get(s, of->name, &row);
    for (int64_t r = 1; r < each->shape.dim[0] && !st; r++)
        memcpy((char *)rows->data + (size_t)r * tensor_bytes(&row), rows->data, tensor_bytes(&row));
    if (!st)
        st = states_set(s, each->name, rows);
    arena_free(a);
    return st;
}

Status states_average(States *s)
{
    for (size_t i = 0; i < s->n; i++) {
        const State *of = mean_of(s, s->state[i]);

        if (of)
            TRY(average(s, s->state[i], of));
    }
    return ST_OK;
}
