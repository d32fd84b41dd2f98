/* TfIdfVectorizer. */
#include "kernels/ref/ref.h"

typedef struct {
    int64_t least, most, skips;
    bool binary, weighted;
    int sizes, grams, items;
    int64_t number[]; /* [sizes + 1] where n-grams of each size begin in the pool; [grams] their columns; [items] */
} State;

static Status prepare(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    const char *mode = node_string(n, "mode");
    int sizes, grams, items;
    const int64_t *from = node_ints(n, "ngram_counts", &sizes), *index = node_ints(n, "ngram_indexes", &grams),
                  *pool = node_ints(n, "pool_int64s", &items);
    const Attr *weights = node_attr(n, "weights");
    size_t numbers = (size_t)sizes + 1 + (size_t)grams + (size_t)items;
    State *s = calloc(1, sizeof *s + numbers * sizeof(int64_t) + (size_t)grams * sizeof(double));
    double *weight;

    (void)ctx;
    (void)g;
    if (!s)
        return FAIL_NOMEM();
    *s = (State){ node_int(n, "min_gram_length"),
                  node_int(n, "max_gram_length"),
                  node_int(n, "max_skip_count"),
                  *mode == 'I',
                  strcmp(mode, "TF") && weights->n,
                  sizes,
                  grams,
                  items };
    for (int k = 0; k <= sizes; k++)
        s->number[k] = k < sizes ? from[k] : items;
    for (int i = 0; i < grams; i++)
        s->number[sizes + 1 + i] = index[i];
    for (int i = 0; i < items; i++)
        s->number[sizes + 1 + grams + i] = pool[i];
    weight = (double *)(void *)(s->number + numbers);
    for (int64_t i = 0; s->weighted && i < grams; i++)
        weight[i] = weights->floats[i];
    *state = s;
    return ST_OK;
}

/* The n-gram of the pool that `size` items of x from `at` on are, `step` apart; -1: none. */
static int64_t find(const State *s, const Tensor *x, int64_t at, int64_t size, int64_t step)
{
    const int64_t *pool = s->number + s->sizes + 1 + s->grams;
    int64_t gram = 0, k;

    for (int64_t i = 0; i + 1 < size; i++)
        gram += (s->number[i + 1] - s->number[i]) / (i + 1);
    for (int64_t p = s->number[size - 1]; p < s->number[size]; p += size, gram++) {
        for (k = 0; k < size && pool[p + k] == tensor_int(x, at + k * step); k++)
            ;
        if (k == size)
            return gram;
    }
    return -1;
}

static void count_gram(const State *s, int64_t gram, float *y)
{
    const double *weight = (const double *)(const void *)(s->number + s->sizes + 1 + s->grams + s->items);
    const float w = s->weighted ? (float)weight[gram] : 1;
    float *to = y + s->number[s->sizes + 1 + gram];

    *to = s->binary ? w : *to + w;
}

/* Of one item there is nothing to skip. */
static void count_row(const State *s, const Tensor *x, int64_t from, int64_t n, float *y)
{
    for (int64_t step = 1; step <= s->skips + 1 && step <= (n > 1 ? n : 1); step++)
        for (int64_t size = step > 1 && s->least < 2 ? 2 : s->least; size <= s->most; size++)
            for (int64_t at = 0; at < n && (size - 1) <= (n - 1 - at) / step; at++) {
                const int64_t gram = find(s, x, from + at, size, step);

                if (gram >= 0)
                    count_gram(s, gram, y);
            }
}

static Status run(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    const State *s = state;
    const int rank = in[0].shape.rank;
    const int64_t rows = rank == 2 ? in[0].shape.dim[0] : 1, n = in[0].shape.dim[rank - 1],
                  columns = out[0].shape.dim[rank - 1];

    (void)ctx;
    for (int64_t r = 0; r < rows && columns; r++) {
        float *y = (float *)out[0].data + r * columns;

        memset(y, 0, (size_t)columns * sizeof *y);
        count_row(s, &in[0], r * n, n, y);
    }
    return ST_OK;
}

DEFINE_KERNEL(ref_tfidf, .op = &op_TfIdfVectorizer, .prepare = prepare, .run = run, .release = free);
