/* Two batches: one is lent to the caller while the thread fills the other. */
#include "tools/feed/batch_loader.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { SLOTS = 2, LARGE = 4096 /* bytes of a sample that is worth a request of its own */ };

/* A sample with its sort keys: its length, and its place among samples of equal length. */
typedef struct {
    int64_t length, place, sample;
} Keyed;

struct Loader {
    const Dataset *data;
    Field field[MAX_FIELDS];
    int n;
    LoaderOptions options;
    int64_t *order;   /* a permutation of the samples */
    Keyed *keyed;     /* [samples] to sort them by length; NULL unless they are grouped by length */
    dpx_part part[2]; /* this process's part of a batch, and of the last, smaller one */
    LoaderRead read;
    bool shared;  /* other processes read the rest of fields that are split */
    char *sample; /* one sample, on its way to another axis than the first; NULL when none goes there */

    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    Batch slot[SLOTS];
    bool full[SLOTS];
    bool running, stop;
    int64_t next_fill, next_take; /* batch indices of this epoch */
    int lent;                     /* slot in the caller's hands, or -1 */
};

int field_rank(const Field *f)
{
    return f->kind == FIELD_SAMPLES || f->kind == FIELD_WHOLE ? f->array->rank : f->kind == FIELD_LENGTHS ? 1 : 2;
}

int field_length_axis(const Field *f) { return !f->array->row || f->kind == FIELD_LENGTHS ? -1 : f->axis ? 0 : 1; }

void field_dims(int64_t dim[DPX_MAX_RANK], const Field *f, int64_t samples, int64_t length)
{
    for (int i = 0; i < field_rank(f); i++)
        dim[i] = f->kind == FIELD_WHOLE ? f->array->dim[i]
                 : i == f->axis         ? samples
                                        : f->array->dim[i < f->axis ? i + 1 : i];
    if (field_length_axis(f) >= 0)
        dim[field_length_axis(f)] = length;
}

int64_t field_padded(const Field *f, int64_t longest)
{
    const int64_t to = f->multiple ? f->multiple : 1, n = longest ? longest : 1;

    return f->fixed ? f->fixed : (n + to - 1) / to * to;
}

int64_t field_longest(const Field *f) { return field_padded(f, f->array->rank > 1 ? f->array->dim[1] : 0); }

/* The elements of one sample in the tensor, or of all of a whole array. */
static size_t sample_elements(const Field *f, int64_t length)
{
    int64_t dim[DPX_MAX_RANK];
    size_t n = 1;

    field_dims(dim, f, 1, length);
    for (int i = 0; i < field_rank(f); i++)
        n *= (size_t)dim[i];
    return n;
}

/* A uniform number in [0, n) by splitmix64 (Steele, Lea, Flood 2014), for which every seed is good.  Draws from the
 * incomplete last multiple of n are rejected. */
static uint64_t random_below(uint64_t *state, uint64_t n)
{
    uint64_t r;

    do {
        r = *state += 0x9e3779b97f4a7c15u;
        r = (r ^ (r >> 30)) * 0xbf58476d1ce4e5b9u;
        r = (r ^ (r >> 27)) * 0x94d049bb133111ebu;
        r ^= r >> 31;
    } while (r < -n % n);
    return r % n;
}

/* Shuffles n pieces of `size` numbers; each of the n! orders is equally likely (Fisher and Yates). */
static void shuffle(int64_t *piece, int64_t n, int64_t size, uint64_t *state)
{
    for (int64_t i = n - 1; i > 0; i--) {
        const int64_t j = (int64_t)random_below(state, (uint64_t)i + 1);

        for (int64_t k = 0; k < size; k++) {
            const int64_t t = piece[i * size + k];

            piece[i * size + k] = piece[j * size + k];
            piece[j * size + k] = t;
        }
    }
}

static int compare_lengths(const void *a, const void *b)
{
    const Keyed *x = a, *y = b;

    return x->length != y->length ? (x->length > y->length) - (x->length < y->length)
                                  : (x->place > y->place) - (x->place < y->place);
}

/* Sorts the samples of full batches by length.  The rest, which forms the last batch, stays where it is, so any sample
 * of any length may be in it. */
static void group_by_length(Loader *l, uint64_t *state)
{
    const int64_t size = l->options.batch_size, batches = l->data->samples / size, n = batches * size;

    for (int64_t i = 0; i < n; i++) {
        l->keyed[i] = (Keyed){ 0, i, l->order[i] };
        for (int k = 0; k < l->n; k++) /* positions of all sequences of the sample */
            if (l->field[k].kind == FIELD_SAMPLES && l->field[k].array->row)
                l->keyed[i].length += l->field[k].array->row[l->order[i]].n;
    }
    qsort(l->keyed, (size_t)n, sizeof *l->keyed, compare_lengths);
    for (int64_t i = 0; i < n; i++)
        l->order[i] = l->keyed[i].sample;
    if (l->options.shuffle)
        shuffle(l->order, batches, size, state);
}

int64_t loader_batches(const Loader *l)
{
    int64_t n = l->data->samples, b = l->options.batch_size;

    return l->options.drop_last ? n / b : (n + b - 1) / b;
}

/* The samples of a batch that this process reads of the field. */
static dpx_part part_of(const Batch *b, const Field *f) { return f->split ? b->part : (dpx_part){ 0, b->samples }; }

/* Whether the field's file is read in parts that are announced to the kernel.  Small samples in random order are on
 * every page anyway. */
static bool is_read_ahead(const Loader *l, const Field *f)
{
    size_t bytes = array_sample_elements(f->array) * dpx_dtype_size(f->array->dtype);

    return l->shared && f->split && !f->array->unpacked && (!l->options.shuffle || bytes >= LARGE);
}

/* Copies a sequence with its padding, or writes its length or its mask. */
static void copy_sequence(const Field *f, int64_t sample, size_t elements, void *out)
{
    const size_t unit = f->kind == FIELD_SAMPLES ? array_position_elements(f->array) : 1,
                 own = (size_t)f->array->row[sample].n * unit;

    if (f->kind == FIELD_LENGTHS) {
        array_fill(f->dtype, (double)own, 1, out);
        return;
    }
    if (f->kind == FIELD_SAMPLES)
        array_gather(f->array, &sample, 1, f->dtype, out);
    else
        array_fill(f->dtype, f->kind == FIELD_MASK, own, out);
    array_fill(f->dtype, f->kind == FIELD_SAMPLES ? f->padding : f->kind == FIELD_PADDING_MASK, elements - own,
               (char *)out + own * dpx_dtype_size(f->dtype));
}

/* Fills tensor t with the samples order[] of the field, its sequences padded to `length`. */
static void fill_field(Loader *l, const Field *f, const int64_t *order, int64_t length, dpx_tensor *t)
{
    const int64_t n = t->dim[f->axis];
    const size_t elements = sample_elements(f, length), bytes = elements * dpx_dtype_size(f->dtype);
    size_t before = 1, behind = dpx_dtype_size(f->dtype); /* behind: bytes */

    for (int i = 0; i < t->rank; i++)
        if (i != f->axis)
            *(i < f->axis ? &before : &behind) *= (size_t)t->dim[i];
    if (!f->axis && !f->array->row)
        array_gather(f->array, order, n, f->dtype, t->data);
    for (int64_t s = 0; s < n && (f->axis || f->array->row); s++) {
        char *to = f->axis ? l->sample : (char *)t->data + (size_t)s * bytes;

        if (f->array->row)
            copy_sequence(f, order[s], elements, to);
        else
            array_gather(f->array, order + s, 1, f->dtype, to);
        for (size_t k = 0; f->axis && k < before; k++) /* [before, behind] into [before, samples, behind] */
            memcpy((char *)t->data + (k * (size_t)n + (size_t)s) * behind, to + k * behind, behind);
    }
}

/* Fills batch `index` of the epoch. */
static void fill_batch(Loader *l, Batch *b, int64_t index)
{
    const int64_t *whole = l->order + index * l->options.batch_size;

    b->index = index;
    b->samples = l->data->samples - index * l->options.batch_size;
    b->samples = b->samples < l->options.batch_size ? b->samples : l->options.batch_size;
    b->part = l->part[b->samples < l->options.batch_size];
    b->bytes = b->file_bytes = 0;
    for (int i = 0; i < l->n; i++) {
        const Field *f = &l->field[i];
        const dpx_part p = part_of(b, f);

        if (f->kind == FIELD_WHOLE)
            continue; /* allocate_field filled it */
        const int64_t *order = whole + p.from, n = p.to - p.from;
        int64_t bytes = 0, longest = 0, length;

        for (int64_t s = 0; f->array->row && s < b->samples; s++) /* of the whole batch, in all processes */
            longest = f->array->row[whole[s]].n > longest ? f->array->row[whole[s]].n : longest;
        length = field_padded(f, longest);
        field_dims(b->tensor[i].dim, f, n, length);
        for (int64_t s = 0; b->length[i] && s < b->samples; s++)
            b->length[i][s] = f->array->row[whole[s]].n;
        if (is_read_ahead(l, f))
            array_expect(f->array, order, n);
        fill_field(l, f, order, length, &b->tensor[i]);
        for (int64_t s = 0; f->kind == FIELD_SAMPLES && s < n; s++)
            bytes += array_sample_bytes(f->array, order[s]);
        b->bytes += bytes;
        b->file_bytes += f->array->unpacked ? 0 : bytes;
    }
}

/* The loader's thread. */
static void *fill_batches(void *arg)
{
    Loader *l = arg;

    pthread_mutex_lock(&l->lock);
    while (!l->stop && l->next_fill < loader_batches(l)) {
        int64_t index = l->next_fill;
        int s = (int)(index % SLOTS);

        if (l->full[s]) {
            pthread_cond_wait(&l->changed, &l->lock);
            continue;
        }
        pthread_mutex_unlock(&l->lock);
        fill_batch(l, &l->slot[s], index);
        pthread_mutex_lock(&l->lock);
        l->full[s] = true;
        l->next_fill++;
        pthread_cond_broadcast(&l->changed);
    }
    pthread_mutex_unlock(&l->lock);
    return NULL;
}

static void stop_thread(Loader *l)
{
    if (!l->running)
        return;
    pthread_mutex_lock(&l->lock);
    l->stop = true;
    pthread_cond_broadcast(&l->changed);
    pthread_mutex_unlock(&l->lock);
    pthread_join(l->thread, NULL);
    l->running = false;
}

/* Allocates tensor i of a batch for the samples that this process reads, and fills it if it is whole. */
static Status allocate_field(Loader *l, Batch *b, int i)
{
    const Field *f = &l->field[i];
    int64_t most = 0;
    dpx_tensor *t = &b->tensor[i];
    size_t bytes = 0;

    for (int k = 0; k < 2; k++)
        most = l->part[k].to - l->part[k].from > most ? l->part[k].to - l->part[k].from : most;
    most = f->kind == FIELD_WHOLE ? 1 : f->split ? most : l->options.batch_size;
    *t = (dpx_tensor){ .name = f->name, .dtype = f->dtype, .rank = field_rank(f) };
    field_dims(t->dim, f, most, field_longest(f));
    if (__builtin_mul_overflow((size_t)most * dpx_dtype_size(t->dtype), sample_elements(f, field_longest(f)), &bytes) ||
        !(t->data = aligned_alloc(64, (bytes + 64) / 64 * 64)))
        return FAIL(E_NOMEM, "no memory for a batch of %lld samples of '%s'", (long long)most, t->name);
    if (f->array->row && !(b->length[i] = malloc(((size_t)l->options.batch_size + 1) * sizeof *b->length[i]))) {
        free(t->data);
        return FAIL_NOMEM();
    }
    for (int64_t k = 0; f->kind == FIELD_WHOLE && k < (f->array->rank ? f->array->dim[0] : 1); k++)
        array_gather(f->array, &k, 1, f->dtype,
                     (char *)t->data + (size_t)k * array_sample_elements(f->array) * dpx_dtype_size(f->dtype));
    return ST_OK;
}

static void free_slots(Loader *l)
{
    for (int s = 0; s < SLOTS; s++) {
        for (int i = 0; i < l->slot[s].n; i++) {
            free(l->slot[s].tensor[i].data);
            free(l->slot[s].length[i]);
        }
        l->slot[s] = (Batch){ .n = 0 };
    }
}

/* Allocates the order of samples, and room for one sample that goes to another axis than the first. */
static Status allocate(Loader *l)
{
    const size_t samples = (size_t)l->data->samples;
    bool any = false;
    size_t bytes = 0;

    if (!(l->order = malloc(samples * sizeof *l->order)))
        return FAIL_NOMEM();
    for (int i = 0; i < l->n; i++) {
        const Field *f = &l->field[i];
        size_t own = sample_elements(f, field_longest(f)) * dpx_dtype_size(f->dtype);

        any |= f->array->row != NULL;
        bytes = f->axis && own >= bytes ? own + 1 : bytes; /* at least 1, for an empty sample */
    }
    if (l->options.group_by_length && !any)
        return FAIL(E_INVALID, "--group-by-length: no array of the data is of sequences (NAME beside NAME.offsets or "
                               "NAME.lengths)");
    if (l->options.group_by_length && !(l->keyed = malloc(samples * sizeof *l->keyed)))
        return FAIL_NOMEM();
    return bytes && !(l->sample = malloc(bytes)) ? FAIL_NOMEM() : ST_OK;
}

Status loader_create(Loader **out, const Dataset *d, const Field *field, int n, LoaderOptions options)
{
    Loader *l = calloc(1, sizeof *l);
    Status st;

    if (!l)
        return FAIL_NOMEM();
    if (n > MAX_FIELDS) {
        free(l);
        return FAIL(E_UNSUPPORTED, "%d inputs, at most %d can be fed from files", n, MAX_FIELDS);
    }
    pthread_mutex_init(&l->lock, NULL);
    pthread_cond_init(&l->changed, NULL);
    l->data = d;
    l->n = n;
    l->lent = -1;
    memcpy(l->field, field, (size_t)n * sizeof *field);
    if (options.batch_size > d->samples)
        options.batch_size = options.drop_last ? options.batch_size : d->samples;
    l->options = options;
    l->part[0].to = options.batch_size;
    l->part[1].to = d->samples % options.batch_size;
    for (int i = 0; i < n; i++)
        l->read.file_bytes += field[i].array->unpacked;
    if ((st = allocate(l))) {
        loader_free(l);
        return st;
    }
    *out = l;
    return ST_OK;
}

void loader_free(Loader *l)
{
    if (!l)
        return;
    stop_thread(l);
    free_slots(l);
    free(l->order);
    free(l->keyed);
    free(l->sample);
    pthread_cond_destroy(&l->changed);
    pthread_mutex_destroy(&l->lock);
    free(l);
}

Status loader_share(Loader *l, const dpx_trainer *t)
{
    int64_t n = l->options.batch_size;

    stop_thread(l);
    free_slots(l);
    TRY((Status)dpx_trainer_part(t, n, &l->part[0]));
    l->shared = true;
    for (int i = 0; i < l->n; i++)
        if (is_read_ahead(l, &l->field[i]))
            array_read_parts(l->field[i].array);
    return (Status)dpx_trainer_part(t, l->data->samples % n, &l->part[1]);
}

LoaderRead loader_take_read(Loader *l)
{
    const LoaderRead read = l->read;

    l->read = (LoaderRead){ 0 };
    return read;
}

Status loader_start(Loader *l, int64_t epoch, int64_t first)
{
    uint64_t state = l->options.seed * 0xd1342543de82ef95u + (uint64_t)epoch;
    if (epoch < 0 || first < 0 || first > loader_batches(l))
        return FAIL(E_INVALID, "epoch %lld from batch %lld: an epoch has %lld batches", (long long)epoch,
                    (long long)first, (long long)loader_batches(l));
    stop_thread(l);
    for (int s = 0; s < SLOTS; s++)
        for (; l->slot[s].n < l->n; l->slot[s].n++)
            TRY(allocate_field(l, &l->slot[s], l->slot[s].n));
    for (int64_t i = 0; i < l->data->samples; i++)
        l->order[i] = i;
    if (l->options.shuffle)
        shuffle(l->order, l->data->samples, 1, &state);
    if (l->keyed)
        group_by_length(l, &state);
    memset(l->full, 0, sizeof l->full);
    l->stop = false;
    l->lent = -1;
    l->next_fill = l->next_take = first;
    if (pthread_create(&l->thread, NULL, fill_batches, l))
        return FAIL(E_NOMEM, "cannot start the thread that prepares batches");
    l->running = true;
    return ST_OK;
}

const Batch *loader_next(Loader *l)
{
    const Batch *b = NULL;

    pthread_mutex_lock(&l->lock);
    if (l->lent >= 0)
        l->full[l->lent] = false;
    l->lent = -1;
    pthread_cond_broadcast(&l->changed);
    if (l->next_take < loader_batches(l)) {
        l->lent = (int)(l->next_take++ % SLOTS);
        while (!l->full[l->lent])
            pthread_cond_wait(&l->changed, &l->lock);
        b = &l->slot[l->lent];
        l->read.bytes += b->bytes;
        l->read.file_bytes += b->file_bytes;
    }
    pthread_mutex_unlock(&l->lock);
    return b;
}

Status loader_give_lengths(const Loader *l, const Batch *b, dpx_trainer *t)
{
    for (int i = 0; i < b->n; i++) {
        const Field *f = &l->field[i];
        const int axis = field_length_axis(f);

        if (axis >= 0 && !f->fixed)
            TRY((Status)dpx_trainer_lengths(t, f->name, axis, f->multiple ? f->multiple : 1, b->length[i], b->samples));
    }
    return ST_OK;
}

int64_t loader_sample(const Loader *l, const Batch *b, const void *at)
{
    for (int i = 0; i < b->n; i++) {
        const dpx_tensor *t = &b->tensor[i];
        const dpx_part p = part_of(b, &l->field[i]);
        size_t size = dpx_dtype_size(t->dtype), behind = 1, n = 1;
        uintptr_t offset = (uintptr_t)at - (uintptr_t)t->data;

        if (l->field[i].kind == FIELD_WHOLE)
            continue;
        for (int k = 0; k < t->rank; k++) {
            n *= (size_t)t->dim[k];
            behind *= k > l->field[i].axis ? (size_t)t->dim[k] : 1;
        }
        if (at && offset < n * size)
            return l->order[b->index * l->options.batch_size + p.from +
                            (int64_t)(offset / size / behind % (size_t)(p.to - p.from))];
    }
    return -1;
}
