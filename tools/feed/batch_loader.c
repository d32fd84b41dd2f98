/* A ring of batches: one is lent to the caller while threads fill the others.
 *
 * A thread prepares a batch (its samples, shapes, lengths), and all threads then take pieces of its samples.  So does
 * the caller while it waits for a batch whose samples are made, which takes longer than copying.  A sample goes to the
 * place that its number in the batch gives it, and a sample that is made depends on its row, seed and epoch alone, so
 * neither the number of threads nor their order changes a byte.
 *
 * In place of a broken sample comes the next one by number that is good, with all of its arrays.  Each process finds
 * that out for the samples that it needs, and finds the same as any other would. */
#include "tools/feed/batch_loader.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "graph/base/hash.h"

enum { MAX_SLOTS = 4, LARGE = 4096 /* bytes of a sample that is worth a request of its own */ };
enum { PIECES = 4 /* of a batch for each thread */, MOST_WORKERS = 256, SHOWN_BROKEN = 5, REASON_TEXT = 512 };

/* A sample with its sort keys: its length, and its place among samples of equal length. */
typedef struct {
    int64_t length, place, sample;
} Keyed;

/* Broken samples of a piece or of a batch. */
typedef struct {
    int64_t n, at;        /* how many; the first's place in the batch */
    int64_t row, instead; /* its row, and that of the sample in its place */
    char why[REASON_TEXT];
} Broken;

typedef struct {
    Batch batch;               /* first, so that a batch leads to its slot */
    int64_t *row;              /* [samples] the row of each sample in the arrays */
    int64_t to, claimed, left; /* samples [claimed, to) wait for a thread; `left` are not filled yet */
    int64_t piece;             /* samples that a thread takes at once */
    bool open, full;           /* threads may take pieces; all is filled */
    Broken broken;
} Slot;

typedef struct {
    Loader *loader;
    pthread_t thread;
    char *sample;  /* one sample on its way to another axis than the first, or out of the batch */
    char *scratch; /* one sample as its source makes it */
    Broken broken; /* of the piece that the thread fills */
} Worker;

struct Loader {
    const Dataset *data;
    Field field[MAX_FIELDS];
    int n;
    LoaderOptions options;
    int64_t *order;   /* the samples of the epoch: a permutation, or drawn with replacement */
    Keyed *keyed;     /* [samples] to sort them by length; NULL unless they are grouped by length */
    dpx_part part[2]; /* this process's part of a batch, and of the last, smaller one */
    LoaderRead read;
    bool shared;   /* other processes read the rest of fields that are split */
    bool makes;    /* samples are made */
    int helps;     /* threads that fill a batch: the workers, and the caller if samples are made */
    bool replaces; /* broken samples are replaced */
    SampleKey key;

    pthread_mutex_t lock;
    pthread_cond_t changed;
    Slot slot[MAX_SLOTS];
    Worker *worker; /* [options.workers + 1]: the last one is the caller's */
    int slots, running;
    bool stop;
    int64_t next_prepare, next_take; /* batch indices of this epoch */
    int lent;                        /* slot in the caller's hands, or -1 */
    Status failed;                   /* of the first piece that failed, by its place in the epoch; ST_OK: none */
    int64_t failed_at;               /* its first sample's place */
    char why[REASON_TEXT];
    int filling;      /* pieces that threads fill */
    int64_t replaced; /* broken samples of batches that were lent */
    bool told;        /* the log has their number */
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
        r = hash_mix(*state += HASH_GOLDEN);
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
                l->keyed[i].length += l->field[k].array->row[dataset_row(l->data, l->order[i])].n;
    }
    qsort(l->keyed, (size_t)n, sizeof *l->keyed, compare_lengths);
    for (int64_t i = 0; i < n; i++)
        l->order[i] = l->keyed[i].sample;
    if (l->options.shuffle)
        shuffle(l->order, batches, size, state);
}

int64_t loader_epoch_samples(int64_t all, int64_t batch_size, int64_t most)
{
    return most && most <= all / batch_size ? most * batch_size : all;
}

static int64_t epoch_samples(const Loader *l)
{
    return loader_epoch_samples(l->data->samples, l->options.batch_size, l->options.most_batches);
}

/* Orders the first epoch_samples, sample i being number i * all / epoch_samples of the data. */
static void order_evenly(Loader *l)
{
    const int64_t n = epoch_samples(l), all = l->data->samples;
    int64_t at = 0, rest = 0;

    for (int64_t i = 0; i < n; i++) {
        l->order[i] = at;
        at += all / n;
        if ((rest += all % n) >= n) {
            rest -= n;
            at++;
        }
    }
}

int64_t loader_batches(const Loader *l)
{
    int64_t n = epoch_samples(l), b = l->options.batch_size;

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
static void copy_sequence(const Field *f, int64_t row, size_t elements, void *out)
{
    const size_t unit = f->kind == FIELD_SAMPLES ? array_position_elements(f->array) : 1,
                 own = (size_t)f->array->row[row].n * unit;

    if (f->kind == FIELD_LENGTHS) {
        array_fill(f->dtype, (double)own, 1, out);
        return;
    }
    if (f->kind == FIELD_SAMPLES)
        array_gather(f->array, &row, 1, f->dtype, out);
    else
        array_fill(f->dtype, f->kind == FIELD_MASK, own, out);
    array_fill(f->dtype, f->kind == FIELD_SAMPLES ? f->padding : f->kind == FIELD_PADDING_MASK, elements - own,
               (char *)out + own * dpx_dtype_size(f->dtype));
}

/* Copies sample `at` of tensor t, in `from`, to its place along the axis of samples: [before, behind] into
 * [before, samples, behind]. */
static void place_sample(const Field *f, const dpx_tensor *t, int64_t at, const char *from)
{
    size_t before = 1, behind = dpx_dtype_size(f->dtype); /* behind: bytes */

    for (int i = 0; i < t->rank; i++)
        if (i != f->axis)
            *(i < f->axis ? &before : &behind) *= (size_t)t->dim[i];
    for (size_t k = 0; k < before; k++)
        memcpy((char *)t->data + (k * (size_t)t->dim[f->axis] + (size_t)at) * behind, from + k * behind, behind);
}

/* Fills samples [from, to) of tensor t with those rows of the field's array, which are not made. */
static void fill_field(const Worker *w, const Field *f, const int64_t *row, int64_t from, int64_t to, dpx_tensor *t)
{
    const int length_axis = field_length_axis(f);
    const size_t elements = sample_elements(f, length_axis >= 0 ? t->dim[length_axis] : 0),
                 bytes = elements * dpx_dtype_size(f->dtype);

    if (!f->axis && !f->array->row)
        array_gather(f->array, row, to - from, f->dtype, (char *)t->data + (size_t)from * bytes);
    for (int64_t s = from; s < to && (f->axis || f->array->row); s++) {
        char *out = f->axis ? w->sample : (char *)t->data + (size_t)s * bytes;

        if (f->array->row)
            copy_sequence(f, row[s - from], elements, out);
        else
            array_gather(f->array, row + (s - from), 1, f->dtype, out);
        if (f->axis)
            place_sample(f, t, s, out);
    }
}

/* Makes sample `at` of the batch for all fields whose samples are made.  A broken one is replaced, in s->row too. */
static Status make_sample(Worker *w, Slot *s, int64_t at)
{
    const Loader *l = w->loader;
    const int64_t first = l->order[s->batch.index * l->options.batch_size + at], broken = s->row[at];
    Status st = ST_OK;

    for (int64_t k = 0; k < l->data->samples; k++) {
        st = ST_OK;
        s->row[at] = dataset_row(l->data, (first + k) % l->data->samples);
        for (int i = 0; i < l->n && !st; i++) {
            const Field *f = &l->field[i];
            const dpx_part p = part_of(&s->batch, f);
            const bool mine = at >= p.from && at < p.to;
            dpx_tensor *t = &s->batch.tensor[i];
            char *out = w->sample;

            if (!f->array->fetch || f->kind != FIELD_SAMPLES)
                continue;
            if (mine && !f->axis)
                out = (char *)t->data + (size_t)(at - p.from) * sample_elements(f, 0) * dpx_dtype_size(f->dtype);
            st = array_take(f->array, s->row[at], &l->key, f->dtype, out, w->scratch);
            if (!st && mine && f->axis)
                place_sample(f, t, at - p.from, out);
        }
        if (st != E_IO || !l->replaces)
            break;
        if (!k && !w->broken.n++)
            snprintf(w->broken.why, REASON_TEXT, "%s", status_message());
    }
    if (w->broken.n == 1 && w->broken.at < 0) {
        w->broken.at = at;
        w->broken.row = broken;
        w->broken.instead = s->row[at];
    }
    return st == E_IO && l->replaces ? FAIL(E_IO, "every sample is broken: %s", w->broken.why) : st;
}

/* Fills samples [from, to) of the batch. */
static Status fill_piece(Worker *w, Slot *s, int64_t from, int64_t to)
{
    const Loader *l = w->loader;

    w->broken = (Broken){ .at = -1 };
    for (int64_t i = from; i < to && l->makes; i++)
        TRY(make_sample(w, s, i));
    for (int i = 0; i < l->n; i++) {
        const Field *f = &l->field[i];
        const dpx_part p = part_of(&s->batch, f);
        const int64_t a = from > p.from ? from : p.from, b = to < p.to ? to : p.to;

        if (a < b && f->kind != FIELD_WHOLE && !f->array->fetch)
            fill_field(w, f, s->row + a, a - p.from, b - p.from, &s->batch.tensor[i]);
    }
    return ST_OK;
}

/* Prepares batch `index` of the epoch: which samples it has, its tensors' shapes, the lengths of its sequences. */
static void prepare_batch(Loader *l, Slot *s, int64_t index)
{
    Batch *b = &s->batch;
    bool all = false; /* a field is not split: all samples are needed */

    b->index = index;
    b->samples = epoch_samples(l) - index * l->options.batch_size;
    b->samples = b->samples < l->options.batch_size ? b->samples : l->options.batch_size;
    b->part = l->part[b->samples < l->options.batch_size];
    b->bytes = b->file_bytes = 0;
    for (int64_t i = 0; i < b->samples; i++)
        s->row[i] = dataset_row(l->data, l->order[index * l->options.batch_size + i]);
    for (int i = 0; i < l->n; i++) {
        const Field *f = &l->field[i];
        const dpx_part p = part_of(b, f);
        const int64_t *row = s->row + p.from, n = p.to - p.from;
        int64_t bytes = 0, longest = 0;

        if (f->kind == FIELD_WHOLE)
            continue; /* allocate_field filled it */
        all |= !f->split;
        for (int64_t k = 0; f->array->row && k < b->samples; k++) /* of the whole batch, in all processes */
            longest = f->array->row[s->row[k]].n > longest ? f->array->row[s->row[k]].n : longest;
        field_dims(b->tensor[i].dim, f, n, field_padded(f, longest));
        for (int64_t k = 0; b->length[i] && k < b->samples; k++)
            b->length[i][k] = f->array->row[s->row[k]].n;
        if (is_read_ahead(l, f))
            array_expect(f->array, row, n);
        for (int64_t k = 0; f->kind == FIELD_SAMPLES && k < n; k++)
            bytes += array_sample_bytes(f->array, row[k]);
        b->bytes += bytes;
        b->file_bytes += f->array->unpacked || f->array->fetch ? 0 : bytes;
    }
    s->claimed = all ? 0 : b->part.from;
    s->to = all ? b->samples : b->part.to;
    s->left = s->to - s->claimed;
    s->piece = l->helps > 1 ? s->left / (PIECES * l->helps) + 1 : s->left;
    s->broken = (Broken){ .at = -1 };
}

/* ---- the threads ---- */

static Slot *slot_of(Loader *l, int64_t index) { return &l->slot[index % l->slots]; }

/* Adds the broken samples of a piece to those of its batch, of which the first is kept. */
static void add_broken(Broken *all, const Broken *piece)
{
    const int64_t n = all->n + piece->n;

    if (piece->n && (all->at < 0 || piece->at < all->at))
        *all = *piece;
    all->n = n;
}

/* Notes the failure of a piece.  Pieces are taken in order, so an earlier one that fails, too, is being filled already:
 * the reason is the same for any number of threads once all have ended. */
static void piece_failed(Loader *l, Status st, int64_t at)
{
    if (l->failed && l->failed_at < at)
        return;
    l->failed = st;
    l->failed_at = at;
    snprintf(l->why, sizeof l->why, "%s", status_message());
    l->stop = true;
}

/* Takes a piece of an open batch and fills it; called and left with the lock held.  false: no batch has one. */
static bool work_on_piece(Worker *w)
{
    Loader *l = w->loader;

    for (int64_t index = l->next_take; index < l->next_prepare && !l->failed; index++) {
        Slot *s = slot_of(l, index);
        int64_t from, n;
        Status st;

        if (!s->open || s->full || s->claimed == s->to)
            continue;
        from = s->claimed;
        n = s->piece < s->to - from ? s->piece : s->to - from;
        s->claimed += n;
        l->filling++;
        pthread_mutex_unlock(&l->lock);
        st = fill_piece(w, s, from, from + n);
        pthread_mutex_lock(&l->lock);
        add_broken(&s->broken, &w->broken);
        if (st)
            piece_failed(l, st, index * l->options.batch_size + from);
        l->filling--;
        s->left -= n;
        s->full = !s->left;
        if (s->full || l->failed)
            pthread_cond_broadcast(&l->changed);
        return true;
    }
    return false;
}

/* Whether each batch of the epoch is open, so that a thread which finds no piece will find none later. */
static bool all_open(Loader *l)
{
    return l->next_prepare == loader_batches(l) &&
           (l->next_take == l->next_prepare || slot_of(l, l->next_prepare - 1)->open);
}

/* A thread of the loader, for one epoch. */
static void *fill_batches(void *arg)
{
    Worker *w = arg;
    Loader *l = w->loader;

    pthread_mutex_lock(&l->lock);
    while (!l->stop) {
        const int64_t index = l->next_prepare;
        const bool room = index < loader_batches(l) && index - l->next_take < l->slots - (l->lent >= 0);
        Slot *s = slot_of(l, index);

        if (work_on_piece(w))
            continue;
        if (all_open(l))
            break;
        if (!room) {
            pthread_cond_wait(&l->changed, &l->lock);
            continue;
        }
        l->next_prepare++;
        s->open = s->full = false;
        pthread_mutex_unlock(&l->lock);
        prepare_batch(l, s, index);
        pthread_mutex_lock(&l->lock);
        s->open = true;
        s->full = !s->left;
        if (s->full || l->helps > 1) /* else this thread fills it */
            pthread_cond_broadcast(&l->changed);
    }
    pthread_mutex_unlock(&l->lock);
    return NULL;
}

static void stop_threads(Loader *l)
{
    pthread_mutex_lock(&l->lock);
    l->stop = true;
    pthread_cond_broadcast(&l->changed);
    pthread_mutex_unlock(&l->lock);
    for (; l->running; l->running--)
        pthread_join(l->worker[l->running - 1].thread, NULL);
}

/* Allocates tensor i of a batch for the samples that this process reads, and fills it if it is whole. */
static Status allocate_field(Loader *l, Slot *s, int i)
{
    Batch *b = &s->batch;
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
    for (int s = 0; s < l->slots; s++) {
        for (int i = 0; i < l->slot[s].batch.n; i++) {
            free(l->slot[s].batch.tensor[i].data);
            free(l->slot[s].batch.length[i]);
        }
        free(l->slot[s].row);
        l->slot[s] = (Slot){ .row = NULL };
    }
}

/* Allocates the order of samples, and for each thread room for one sample. */
static Status allocate(Loader *l)
{
    const size_t samples = (size_t)l->data->samples;
    bool any = false;
    size_t bytes = 0, scratch = 0;

    if (!(l->order = malloc(samples * sizeof *l->order)) ||
        !(l->worker = calloc((size_t)l->options.workers + 1, sizeof *l->worker)))
        return FAIL_NOMEM();
    for (int i = 0; i < l->n; i++) {
        const Field *f = &l->field[i];
        const size_t own = sample_elements(f, field_longest(f)) * dpx_dtype_size(f->dtype),
                     made = array_scratch(f->array, f->dtype);

        any |= f->array->row != NULL;
        l->makes |= f->array->fetch != NULL;
        bytes = (f->axis || f->array->fetch) && own >= bytes ? own + 1 : bytes; /* at least 1, for an empty sample */
        scratch = made > scratch ? made : scratch;
    }
    l->helps = l->options.workers + l->makes;
    l->replaces = !any; /* a sequence in the place of another may be longer */
    if (l->options.group_by_length && !any)
        return FAIL(E_INVALID, "--group-by-length: no array of the data is of sequences (NAME beside NAME.offsets or "
                               "NAME.lengths)");
    if (l->options.group_by_length && !(l->keyed = malloc(samples * sizeof *l->keyed)))
        return FAIL_NOMEM();
    for (int i = 0; i <= l->options.workers; i++) {
        Worker *w = &l->worker[i];

        w->loader = l;
        if ((bytes && !(w->sample = malloc(bytes))) || (scratch && !(w->scratch = malloc(scratch))))
            return FAIL_NOMEM();
    }
    return ST_OK;
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
    options.workers = options.workers < 1 ? 1 : options.workers > MOST_WORKERS ? MOST_WORKERS : options.workers;
    l->slots = options.workers > 1 ? MAX_SLOTS : 2;
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
    stop_threads(l);
    free_slots(l);
    for (int i = 0; l->worker && i <= l->options.workers; i++) {
        free(l->worker[i].sample);
        free(l->worker[i].scratch);
    }
    free(l->worker);
    free(l->order);
    free(l->keyed);
    pthread_cond_destroy(&l->changed);
    pthread_mutex_destroy(&l->lock);
    free(l);
}

void loader_take_part(Loader *l, dpx_part full, dpx_part last)
{
    stop_threads(l);
    free_slots(l);
    l->part[0] = full;
    l->part[1] = last;
    l->shared = true;
    for (int i = 0; i < l->n; i++)
        if (is_read_ahead(l, &l->field[i]))
            array_read_parts(l->field[i].array);
}

Status loader_share(Loader *l, const dpx_trainer *t)
{
    const int64_t n = l->options.batch_size;
    dpx_part full, last;

    TRY((Status)dpx_trainer_part(t, n, &full));
    TRY((Status)dpx_trainer_part(t, l->data->samples % n, &last));
    loader_take_part(l, full, last);
    return ST_OK;
}

LoaderRead loader_take_read(Loader *l)
{
    const LoaderRead read = l->read;

    l->read = (LoaderRead){ 0 };
    return read;
}

/* Draws all samples of an epoch with replacement: each class that has samples is equally likely, and so is each sample
 * of a class. */
static void draw_balanced(Loader *l, uint64_t *state)
{
    const Strata *by = l->options.balanced;

    for (int64_t i = 0; i < l->data->samples; i++) {
        int64_t c, n;

        do {
            c = (int64_t)random_below(state, (uint64_t)by->classes);
            n = by->begin[c + 1] - by->begin[c];
        } while (!n);
        l->order[i] = by->sample[by->begin[c] + (int64_t)random_below(state, (uint64_t)n)];
    }
}

Status loader_start(Loader *l, int64_t epoch, int64_t first)
{
    uint64_t state = l->options.seed * 0xd1342543de82ef95u + (uint64_t)epoch;
    if (epoch < 0 || first < 0 || first > loader_batches(l))
        return FAIL(E_INVALID, "epoch %lld from batch %lld: an epoch has %lld batches", (long long)epoch,
                    (long long)first, (long long)loader_batches(l));
    stop_threads(l);
    TRY(loader_status(l));
    for (int k = 0; k < l->slots; k++) {
        Slot *s = &l->slot[k];

        if (!s->row && !(s->row = malloc((size_t)l->options.batch_size * sizeof *s->row + 1)))
            return FAIL_NOMEM();
        for (; s->batch.n < l->n; s->batch.n++)
            TRY(allocate_field(l, s, s->batch.n));
        s->open = s->full = false;
    }
    if (l->data->samples)
        order_evenly(l);
    if (l->options.balanced)
        draw_balanced(l, &state);
    else if (l->options.shuffle)
        shuffle(l->order, l->data->samples, 1, &state);
    if (l->keyed)
        group_by_length(l, &state);
    l->key = (SampleKey){ .seed = l->options.seed, .epoch = epoch, .training = l->options.training };
    l->stop = false;
    l->lent = -1;
    l->next_prepare = l->next_take = first;
    for (; l->running < l->options.workers; l->running++)
        if (pthread_create(&l->worker[l->running].thread, NULL, fill_batches, &l->worker[l->running])) {
            stop_threads(l);
            return FAIL(E_NOMEM, "cannot start the threads that prepare batches");
        }
    return ST_OK;
}

/* Logs the first broken sample of a batch, for the first batches that have one; with b NULL, at the end of the first
 * epoch in which there were more, how many. */
static void log_broken(Loader *l, const Broken *b)
{
    char line[2 * REASON_TEXT];

    if (!l->options.log || (b ? !b->n || l->replaced - b->n >= SHOWN_BROKEN : l->told || l->replaced <= SHOWN_BROKEN))
        return;
    if (b)
        snprintf(line, sizeof line, "sample %lld is broken, and sample %lld takes its place: %s", (long long)b->row,
                 (long long)b->instead, b->why);
    else
        snprintf(line, sizeof line, "%lld broken samples so far, in whose place others came", (long long)l->replaced);
    l->told = !b;
    l->options.log(l->options.user, DPX_LOG_WARNING, line);
}

const Batch *loader_next(Loader *l)
{
    const Batch *b = NULL;

    pthread_mutex_lock(&l->lock);
    l->lent = -1;
    pthread_cond_broadcast(&l->changed);
    if (l->next_take < loader_batches(l)) {
        Slot *s = slot_of(l, l->next_take);

        while (l->failed ? l->filling > 0 : !(l->next_take < l->next_prepare && s->open && s->full))
            if (l->failed || !l->makes || !work_on_piece(&l->worker[l->options.workers]))
                pthread_cond_wait(&l->changed, &l->lock);
        if (!l->failed) {
            l->lent = (int)(l->next_take++ % l->slots);
            b = &s->batch;
            l->read.bytes += b->bytes;
            l->read.file_bytes += b->file_bytes;
        }
    }
    pthread_mutex_unlock(&l->lock);
    if (b) {
        const Broken *broken = &((const Slot *)(const void *)b)->broken;

        l->replaced += broken->n;
        log_broken(l, broken);
    } else if (!l->failed) {
        log_broken(l, NULL);
    }
    return b;
}

Status loader_status(const Loader *l) { return l->failed ? FAIL(l->failed, "%s", l->why) : ST_OK; }

int64_t loader_replaced(const Loader *l) { return l->replaced; }

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
            return ((const Slot *)(const void *)b)
                ->row[p.from + (int64_t)(offset / size / behind % (size_t)(p.to - p.from))];
    }
    return -1;
}
