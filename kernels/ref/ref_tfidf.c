/* TfIdfVectorizer.  Strings are looked up in the pool first, and are then numbers as well. */
#include "graph/ops/tfidf.gen.h"
#include "graph/tensor/strings.h"
#include "kernels/ref/ref.h"

typedef struct {
    Text text;
    int64_t number; /* of the first item of the pool with this text */
} Word;

typedef struct {
    int64_t least, most, skips;
    bool binary, weighted;
    int sizes, grams, items;
    Word *word;       /* [items] of a pool of strings, sorted; else NULL */
    int64_t number[]; /* [sizes + 1] where n-grams of each size begin in the pool; [grams] their columns; [items] */
} State;

static int by_text(const void *a, const void *b)
{
    const Word *x = a, *y = b;
    const int c = text_compare(x->text, y->text);

    return c ? c : (x->number > y->number) - (x->number < y->number);
}

static int by_text_alone(const void *a, const void *b)
{
    return text_compare(((const Word *)a)->text, ((const Word *)b)->text);
}

/* Items that say the same get one number, which the pool has instead of them. */
static Status number_words(State *s, const Attr *pool, int64_t *item)
{
    if (!(s->word = calloc((size_t)s->items + 1, sizeof *s->word)))
        return FAIL_NOMEM();
    for (int i = 0; i < s->items; i++)
        s->word[i] = (Word){ text_of(pool->strings[i]), i };
    qsort(s->word, (size_t)s->items, sizeof *s->word, by_text);
    for (int i = 0; i < s->items; i++) {
        const bool again = i && text_same(s->word[i].text, s->word[i - 1].text);

        item[s->word[i].number] = again ? s->word[i - 1].number : s->word[i].number;
        s->word[i].number = item[s->word[i].number];
    }
    return ST_OK;
}

/* The numbers of a tensor's strings; -1: the pool does not have it. */
static Tensor numbered(const State *s, const Tensor *x, int64_t *room)
{
    for (int64_t i = 0; i < tensor_numel(x); i++) {
        const Word key = { text_at(x, i), 0 },
                   *found = bsearch(&key, s->word, (size_t)s->items, sizeof key, by_text_alone);

        room[i] = found ? found->number : -1;
    }
    return (Tensor){ DT_INT64, x->shape, room };
}

static void ref_tfidf_release(void *state)
{
    State *s = state;

    free(s->word);
    free(s);
}

static Status ref_tfidf_prepare(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    const char *mode = node_string(n, "mode");
    int sizes, grams, items;
    const int64_t *from = node_ints(n, "ngram_counts", &sizes), *index = node_ints(n, "ngram_indexes", &grams),
                  *pool = node_ints(n, "pool_int64s", &items);
    const bool strings = in_value(g, n, 0)->dtype == DT_STRING;
    const Attr *weights = node_attr(n, "weights"), *texts = node_attr(n, "pool_strings");
    size_t numbers;
    State *s;
    double *weight;

    items = strings ? texts->n : items;
    numbers = (size_t)sizes + 1 + (size_t)grams + (size_t)items;
    s = calloc(1, sizeof *s + numbers * sizeof(int64_t) + (size_t)grams * sizeof(double));
    if (!s)
        return FAIL_NOMEM();
    *s = (State){ node_int(n, "min_gram_length"),
                  node_int(n, "max_gram_length"),
                  node_int(n, "max_skip_count"),
                  *mode == 'I',
                  strcmp(mode, "TF") && weights->n,
                  sizes,
                  grams,
                  items,
                  NULL };
    for (int k = 0; k <= sizes; k++)
        s->number[k] = k < sizes ? from[k] : items;
    for (int i = 0; i < grams; i++)
        s->number[sizes + 1 + i] = index[i];
    *state = s;
    if (strings)
        TRY(number_words(s, texts, s->number + sizes + 1 + grams));
    for (int i = 0; i < items && !strings; i++)
        s->number[sizes + 1 + grams + i] = pool[i];
    ctx->scratch_bytes = strings ? (size_t)shape_numel(in_value(g, n, 0)->shape) * sizeof(int64_t) : 0;
    weight = (double *)(void *)(s->number + numbers);
    for (int64_t i = 0; s->weighted && i < grams; i++)
        weight[i] = weights->floats[i];
    return ST_OK;
}

/* The n-gram of the pool that `size` items of x from `at` on are, `step` apart; -1: none. */
static int64_t ref_tfidf_find(const State *s, const Tensor *x, int64_t at, int64_t size, int64_t step)
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

/* Counts the n-grams of a row.  An n-gram of one item skips nothing. */
static void count_row(const State *s, const Tensor *x, int64_t from, int64_t n, float *y)
{
    for (int64_t step = 1; step <= s->skips + 1 && step <= (n > 1 ? n : 1); step++)
        for (int64_t size = step > 1 && s->least < 2 ? 2 : s->least; size <= s->most; size++)
            for (int64_t at = 0; at < n && (size - 1) <= (n - 1 - at) / step; at++) {
                const int64_t gram = ref_tfidf_find(s, x, from + at, size, step);

                if (gram >= 0)
                    count_gram(s, gram, y);
            }
}

static Status ref_tfidf_run(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    const State *s = state;
    const int rank = in[0].shape.rank;
    const int64_t rows = rank == 2 ? in[0].shape.dim[0] : 1, n = in[0].shape.dim[rank - 1],
                  columns = out[0].shape.dim[rank - 1];
    const Tensor x = s->word ? numbered(s, &in[0], ctx->scratch) : in[0];

    for (int64_t r = 0; r < rows && columns; r++) {
        float *y = (float *)out[0].data + r * columns;

        memset(y, 0, (size_t)columns * sizeof *y);
        count_row(s, &x, r * n, n, y);
    }
    return ST_OK;
}

DEFINE_KERNEL(ref_tfidf, .op = &op_TfIdfVectorizer, .prepare = ref_tfidf_prepare, .run = ref_tfidf_run,
              .release = ref_tfidf_release);
