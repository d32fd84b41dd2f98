#include "tests/passes/random_networks.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

/* A chain under construction.  Its present value is [batch, length, width]. */
typedef struct {
    FILE *f;
    uint32_t random;
    int last;  /* number of the last value */
    int batch; /* number of the value that holds the batch's size, int64 [1] */
    int v;     /* number of the present value */
    int length, width;
} Chain;

/* A size of a shape: times, or times * batch. */
typedef struct {
    int times;
    bool batch;
} Size;

#define N(times) ((Size){ (times), true })
#define K(times) ((Size){ (times), false })
#define SIZES(c, ...) sizes(c, (int)(sizeof((Size[]){ __VA_ARGS__ }) / sizeof(Size)), (Size[]){ __VA_ARGS__ })

static uint32_t draw(Chain *c, uint32_t below)
{
    c->random = c->random * 1664525u + 1013904223u;
    return (c->random >> 8) % below;
}

/* ---- nodes ---- */

__attribute__((format(printf, 2, 3))) static int node(Chain *c, const char *format, ...)
{
    va_list args;

    fprintf(c->f, "  %%v%d = ", ++c->last);
    va_start(args, format);
    vfprintf(c->f, format, args);
    va_end(args);
    fputc('\n', c->f);
    return c->last;
}

/* Writes a tensor of `count` numbers, multiples of 1/16 about 0. */
static int weights(Chain *c, const char *shape, int count)
{
    fprintf(c->f, "  const %%v%d : float32[%s] = {", ++c->last, shape);
    for (int i = 0; i < count; i++)
        fprintf(c->f, "%s%g", i ? ", " : "", ((int)draw(c, 17) - 8) / 16.0);
    fputs("}\n", c->f);
    return c->last;
}

static int matrix(Chain *c, int rows, int columns)
{
    char shape[32];

    snprintf(shape, sizeof shape, "%d,%d", rows, columns);
    return weights(c, shape, rows * columns);
}

/* int64 [1] */
static int integer(Chain *c, int value)
{
    fprintf(c->f, "  const %%v%d : int64[1] = {%d}\n", ++c->last, value);
    return c->last;
}

/* An int64 list that the network computes from the batch's size. */
static int sizes(Chain *c, int count, const Size *size)
{
    int part[8];

    for (int i = 0; i < count; i++) {
        part[i] = size[i].batch ? c->batch : integer(c, size[i].times);
        if (size[i].batch && size[i].times != 1)
            part[i] = node(c, "Mul(%%v%d, %%v%d)", c->batch, integer(c, size[i].times));
    }
    if (count == 1)
        return part[0];
    fprintf(c->f, "  %%v%d = Concat(", ++c->last);
    for (int i = 0; i < count; i++)
        fprintf(c->f, "%s%%v%d", i ? ", " : "", part[i]);
    fputs(") {axis=0}\n", c->f);
    return c->last;
}

static int reshape(Chain *c, int v, int to) { return node(c, "Reshape(%%v%d, %%v%d)", v, to); }

static int transpose(Chain *c, int v, const char *perm) { return node(c, "Transpose(%%v%d) {perm=[%s]}", v, perm); }

/* [length, batch, width] */
static int length_first(Chain *c) { return transpose(c, c->v, "1,0,2"); }

/* 0, 1 ... batch - 1, int64 [batch] */
static int samples(Chain *c)
{
    const int zero = integer(c, 0);
    const int from = node(c, "Squeeze(%%v%d, %%v%d)", zero, zero),
              to = node(c, "Squeeze(%%v%d, %%v%d)", c->batch, zero);

    return node(c, "Range(%%v%d, %%v%d, %%v%d)", from, to, node(c, "Squeeze(%%v%d, %%v%d)", integer(c, 1), zero));
}

/* Adds rows [batch, width] to every step. */
static void add_rows(Chain *c, int rows)
{
    const int one = integer(c, 1);

    c->v = node(c, "Add(%%v%d, %%v%d)", c->v, node(c, "Unsqueeze(%%v%d, %%v%d)", rows, one));
}

/* softmax(q qT) q, with q [any, steps, any]. */
static int attend(Chain *c, int q)
{
    const int scores = node(c, "MatMul(%%v%d, %%v%d)", q, transpose(c, q, "0,2,1"));

    return node(c, "MatMul(%%v%d, %%v%d)", node(c, "Softmax(%%v%d)", scores), q);
}

/* ---- Reshape ---- */

static void heads(Chain *c)
{
    const int w = c->width / 2;
    const int split = reshape(c, c->v, SIZES(c, N(1), K(c->length), K(2), K(w)));
    const int q = transpose(c, split, "0,2,1,3"), k = transpose(c, split, "0,2,3,1");
    const int p = node(c, "Softmax(%%v%d)", node(c, "MatMul(%%v%d, %%v%d)", q, k));
    const int mixed = transpose(c, node(c, "MatMul(%%v%d, %%v%d)", p, q), "0,2,1,3");

    c->v = reshape(c, mixed, SIZES(c, N(1), K(c->length), K(2 * w)));
}

/* As nn.MultiheadAttention: heads of [length, batch, width] are [length, 2 batch, width / 2]. */
static void heads_behind_batch(Chain *c)
{
    const int w = c->width / 2;
    const int apart = SIZES(c, K(c->length), N(2), K(w)), split = reshape(c, length_first(c), apart);
    const int mixed = attend(c, transpose(c, split, "1,0,2"));
    const int whole = SIZES(c, K(c->length), N(1), K(2 * w)), joined = reshape(c, transpose(c, mixed, "1,0,2"), whole);

    c->v = transpose(c, joined, "1,0,2");
}

/* A dense layer on [batch length, width]. */
static void rows(Chain *c)
{
    const int flat = reshape(c, c->v, SIZES(c, N(c->length), K(c->width)));
    const int w = 2 + 2 * (int)draw(c, 2);
    const int y = node(c, "MatMul(%%v%d, %%v%d)", flat, matrix(c, c->width, w));

    c->v = reshape(c, y, SIZES(c, N(1), K(c->length), K(w)));
    c->width = w;
}

/* The same of [length batch, width]. */
static void rows_by_step(Chain *c)
{
    const int two_axes = SIZES(c, N(c->length), K(c->width)), flat = reshape(c, length_first(c), two_axes);
    const int w = 2 + 2 * (int)draw(c, 2);
    const int y = node(c, "Gemm(%%v%d, %%v%d)", flat, matrix(c, c->width, w));

    c->v = transpose(c, reshape(c, y, SIZES(c, K(c->length), N(1), K(w))), "1,0,2");
    c->width = w;
}

static void windows(Chain *c)
{
    const int part = reshape(c, c->v, SIZES(c, N(1), K(c->length / 2), K(2), K(c->width)));
    const int each = reshape(c, part, SIZES(c, N(c->length / 2), K(2), K(c->width)));
    const int whole = SIZES(c, N(1), K(c->length), K(c->width));

    c->v = reshape(c, attend(c, each), whole);
}

static void groups(Chain *c)
{
    const int part = reshape(c, c->v, SIZES(c, N(1), K(2), K(-1)));
    const int whole = SIZES(c, N(1), K(c->length), K(-1));

    c->v = reshape(c, node(c, "Softmax(%%v%d)", part), whole);
}

/* The batch is the last axis, and a dense layer multiplies from the left. */
static void batch_last(Chain *c)
{
    const int two_axes = SIZES(c, K(c->length * c->width), N(1));
    const int columns = reshape(c, transpose(c, c->v, "1,2,0"), two_axes);
    const int y = node(c, "MatMul(%%v%d, %%v%d)", matrix(c, c->width, c->length * c->width), columns);

    add_rows(c, transpose(c, y, "1,0"));
}

/* [length, batch width] */
static void joined_width(Chain *c)
{
    const int two_axes = SIZES(c, K(c->length), N(c->width)), joined = reshape(c, length_first(c), two_axes);
    const int y = node(c, "Softmax(%%v%d) {axis=0}", joined);

    c->v = transpose(c, reshape(c, y, SIZES(c, K(c->length), N(1), K(c->width))), "1,0,2");
}

/* ---- constants that are expanded to the batch ---- */

static int expanded(Chain *c, int row, int to) { return node(c, "Expand(%%v%d, %%v%d)", row, to); }

static void token(Chain *c)
{
    char shape[32];
    int row;

    snprintf(shape, sizeof shape, "1,1,%d", c->width);
    row = weights(c, shape, c->width);
    c->v = node(c, "Concat(%%v%d, %%v%d) {axis=1}", expanded(c, row, SIZES(c, N(1), K(1), K(c->width))), c->v);
    c->length++;
}

static void positions(Chain *c)
{
    char shape[32];
    int row;

    snprintf(shape, sizeof shape, "1,%d,%d", c->length, c->width);
    row = weights(c, shape, c->length * c->width);
    c->v = node(c, "Add(%%v%d, %%v%d)", c->v, expanded(c, row, SIZES(c, N(1), K(c->length), K(c->width))));
}

static void tiled(Chain *c)
{
    char shape[32];
    int row;

    snprintf(shape, sizeof shape, "1,1,%d", c->width);
    row = weights(c, shape, c->width);
    c->v = node(c, "Mul(%%v%d, %%v%d)", c->v, node(c, "Tile(%%v%d, %%v%d)", row, SIZES(c, N(1), K(c->length), K(1))));
}

static void zeros(Chain *c)
{
    const int none = node(c, "ConstantOfShape(%%v%d)", SIZES(c, N(1), K(1), K(c->width)));

    c->v = node(c, "Concat(%%v%d, %%v%d) {axis=1}", c->v, none);
    c->length++;
}

/* A causal mask of every sample. */
static void masked(Chain *c)
{
    const int scores = node(c, "MatMul(%%v%d, %%v%d)", c->v, transpose(c, c->v, "0,2,1"));
    int triangle, least, p;

    fprintf(c->f, "  const %%v%d : bool[1,%d,%d] = {", triangle = ++c->last, c->length, c->length);
    for (int i = 0; i < c->length * c->length; i++)
        fprintf(c->f, "%s%d", i ? ", " : "", i % c->length <= i / c->length);
    fprintf(c->f, "}\n  const %%v%d : float32[] = {-1e9}\n", least = ++c->last);
    triangle = expanded(c, triangle, SIZES(c, N(1), K(c->length), K(c->length)));
    p = node(c, "Softmax(%%v%d)", node(c, "Where(%%v%d, %%v%d, %%v%d)", triangle, scores, least));
    c->v = node(c, "MatMul(%%v%d, %%v%d)", p, c->v);
}

/* One initial state is zeros, the other a parameter. */
static void lstm(Chain *c)
{
    char shape[32];
    const int h = c->width, zero = node(c, "ConstantOfShape(%%v%d)", SIZES(c, K(1), N(1), K(h)));
    int w, r, to, state, y;

    snprintf(shape, sizeof shape, "1,%d,%d", 4 * h, h);
    w = weights(c, shape, 4 * h * h);
    r = weights(c, shape, 4 * h * h);
    snprintf(shape, sizeof shape, "1,1,%d", h);
    to = SIZES(c, K(1), N(1), K(h));
    state = expanded(c, weights(c, shape, h), to);
    y = node(c, "LSTM(%%v%d, %%v%d, %%v%d, _, _, %%v%d, %%v%d) {hidden_size=%d}", length_first(c), w, r, zero, state,
             h);
    c->v = transpose(c, node(c, "Squeeze(%%v%d, %%v%d)", y, integer(c, 1)), "1,0,2");
}

/* ---- sizes ---- */

static void pairs(Chain *c)
{
    const int each = node(c, "Unsqueeze(%%v%d, %%v%d)", c->v, integer(c, 2));
    const int wide = expanded(c, each, SIZES(c, N(1), K(c->length), K(c->length), K(c->width)));
    const int apart = node(c, "Sub(%%v%d, %%v%d)", wide, transpose(c, wide, "0,2,1,3"));

    c->v = node(c, "ReduceMax(%%v%d, %%v%d) {keepdims=0}", apart, integer(c, 2));
}

static void resized(Chain *c)
{
    const int axis = integer(c, 1), picture = node(c, "Unsqueeze(%%v%d, %%v%d)", c->v, axis);
    const int up =
        node(c, "Resize(%%v%d, _, _, %%v%d)", picture, SIZES(c, N(1), K(1), K(2 * c->length), K(2 * c->width)));
    const int small = SIZES(c, N(1), K(1), K(c->length), K(c->width));
    const int down = node(c, "Resize(%%v%d, _, _, %%v%d) {mode=\"linear\"}", node(c, "Sin(%%v%d)", up), small);

    c->v = node(c, "Add(%%v%d, %%v%d)", c->v, node(c, "Squeeze(%%v%d, %%v%d)", down, axis));
}

static void cropped(Chain *c)
{
    c->width += 2;
    c->v = node(c, "CenterCropPad(%%v%d, %%v%d)", c->v, SIZES(c, N(1), K(c->length), K(c->width)));
}

/* ---- rows of the batch ---- */

/* Steps of [length batch, width]: the first and the last as ranges. */
static void first_and_last(Chain *c)
{
    const int two_axes = SIZES(c, N(c->length), K(c->width)), flat = reshape(c, length_first(c), two_axes);
    const int zero = integer(c, 0), first = node(c, "Slice(%%v%d, %%v%d, %%v%d)", flat, zero, SIZES(c, N(1)));
    const int from = SIZES(c, N(c->length - 1)), to = SIZES(c, N(c->length));

    add_rows(c, node(c, "Sub(%%v%d, %%v%d)", first, node(c, "Slice(%%v%d, %%v%d, %%v%d)", flat, from, to)));
}

/* Row `step` of each sample of [batch length, width], by a list. */
static void listed(Chain *c)
{
    const int flat = reshape(c, c->v, SIZES(c, N(c->length), K(c->width)));
    const int steps = integer(c, c->length), first = node(c, "Mul(%%v%d, %%v%d)", samples(c), steps);
    const int at = node(c, "Add(%%v%d, %%v%d)", first, integer(c, (int)draw(c, (uint32_t)c->length)));

    add_rows(c, node(c, "Gather(%%v%d, %%v%d)", flat, at));
}

/* Two steps of [length batch, width], by a list. */
static void listed_by_step(Chain *c)
{
    const int two_axes = SIZES(c, N(c->length), K(c->width)), flat = reshape(c, length_first(c), two_axes);
    const int first = samples(c), later = SIZES(c, N((int)draw(c, (uint32_t)c->length - 1) + 1));
    const int list = node(c, "Concat(%%v%d, %%v%d) {axis=0}", node(c, "Add(%%v%d, %%v%d)", first, later), first);
    const int apart = SIZES(c, K(2), N(1), K(c->width));
    const int two = reshape(c, node(c, "Gather(%%v%d, %%v%d)", flat, list), apart);

    add_rows(c, node(c, "ReduceMax(%%v%d, %%v%d) {keepdims=0}", two, integer(c, 0)));
}

/* x[arange(batch), step] */
static void listed_pairs(Chain *c)
{
    const int column = SIZES(c, N(1), K(1)), of = reshape(c, samples(c), column);
    const int to = SIZES(c, N(1), K(1)), step = expanded(c, integer(c, (int)draw(c, (uint32_t)c->length)), to);
    const int at = node(c, "Concat(%%v%d, %%v%d) {axis=1}", of, step);

    add_rows(c, node(c, "GatherND(%%v%d, %%v%d)", c->v, at));
}

/* The same of [length, batch, width], two steps of each sample: x[steps, arange(batch)]. */
static void listed_pairs_by_step(Chain *c)
{
    const int column = SIZES(c, N(1), K(1)), of = reshape(c, samples(c), column);
    const int to_early = SIZES(c, N(1), K(1)), early = expanded(c, integer(c, 0), to_early);
    const int to_late = SIZES(c, N(1), K(1)), late = expanded(c, integer(c, c->length - 1), to_late);
    const int first = node(c, "Concat(%%v%d, %%v%d) {axis=1}", early, of);
    const int two = node(c, "Concat(%%v%d, %%v%d) {axis=1}", first, node(c, "Concat(%%v%d, %%v%d) {axis=1}", late, of));
    const int at = reshape(c, two, SIZES(c, N(1), K(2), K(2)));
    const int taken = node(c, "GatherND(%%v%d, %%v%d)", length_first(c), at);

    add_rows(c, node(c, "ReduceMax(%%v%d, %%v%d) {keepdims=0}", taken, integer(c, 1)));
}

/* x[arange(batch), x.argmax(1)[:, 0]] */
static int chosen_step(Chain *c)
{
    const int best = node(c, "ArgMax(%%v%d) {axis=1, keepdims=0}", c->v);

    return node(c, "Gather(%%v%d, %%v%d) {axis=1}", best, integer(c, 0));
}

static void chosen(Chain *c)
{
    const int column = SIZES(c, N(1), K(1)), of = reshape(c, samples(c), column);
    const int at = node(c, "Concat(%%v%d, %%v%d) {axis=1}", of, chosen_step(c));

    add_rows(c, node(c, "GatherND(%%v%d, %%v%d)", c->v, at));
}

/* The same of [batch length, width]. */
static void chosen_flat(Chain *c)
{
    const int flat = reshape(c, c->v, SIZES(c, N(c->length), K(c->width)));
    const int steps = integer(c, c->length), first = node(c, "Mul(%%v%d, %%v%d)", samples(c), steps);
    const int one = integer(c, 1), step = node(c, "Squeeze(%%v%d, %%v%d)", chosen_step(c), one);

    add_rows(c, node(c, "Gather(%%v%d, %%v%d)", flat, node(c, "Add(%%v%d, %%v%d)", first, step)));
}

/* Two views of each sample, one behind the other. */
static void halves(Chain *c)
{
    const int both = node(c, "Concat(%%v%d, %%v%d) {axis=0}", c->v, node(c, "Sin(%%v%d)", c->v));
    const int zero = integer(c, 0), half = SIZES(c, N(1)), end = SIZES(c, N(2));
    const int first = node(c, "Slice(%%v%d, %%v%d, %%v%d, %%v%d)", both, zero, half, zero);

    c->v = node(c, "Mul(%%v%d, %%v%d)", first, node(c, "Slice(%%v%d, %%v%d, %%v%d, %%v%d)", both, half, end, zero));
}

/* ---- chains ---- */

typedef enum { ANY, EVEN_LENGTH, EVEN_WIDTH, LONG } Needs;

static const struct {
    void (*add)(Chain *c);
    Needs needs;
    FileBatch shows;
} part_list[] = {
    { heads, EVEN_WIDTH, FILE_OPEN },
    { heads_behind_batch, EVEN_WIDTH, FILE_OPEN },
    { rows, ANY, FILE_OPEN },
    { rows_by_step, ANY, FILE_OPEN },
    { windows, EVEN_LENGTH, FILE_OPEN },
    { groups, EVEN_WIDTH, FILE_OPEN },
    { batch_last, ANY, FILE_OPEN },
    { joined_width, ANY, FILE_OPEN },
    { token, ANY, FILE_OPEN },
    { positions, ANY, FILE_OPEN },
    { tiled, ANY, FILE_OPEN },
    { zeros, ANY, FILE_OPEN },
    { masked, ANY, FILE_OPEN },
    { lstm, ANY, FILE_OPEN },
    { pairs, ANY, FILE_OPEN },
    { resized, ANY, FILE_OPEN },
    { cropped, ANY, FILE_ONE },
    { first_and_last, LONG, FILE_OPEN },
    { listed, LONG, FILE_OPEN },
    { listed_by_step, LONG, FILE_OPEN },
    { listed_pairs, LONG, FILE_OPEN },
    { listed_pairs_by_step, LONG, FILE_OPEN },
    { chosen, LONG, FILE_SEVERAL },
    { chosen_flat, LONG, FILE_SEVERAL },
    { halves, ANY, FILE_ONE },
};
enum { PARTS = sizeof part_list / sizeof *part_list };

static bool fits(const Chain *c, int part, FileBatch file)
{
    switch (part_list[part].needs) {
    case EVEN_LENGTH:
        if (c->length % 2)
            return false;
        break;
    case EVEN_WIDTH:
        if (c->width % 2)
            return false;
        break;
    case LONG:
        if (c->length < 2)
            return false;
        break;
    case ANY: break;
    }
    return file >= part_list[part].shows && c->length < 8 && c->width < 8;
}

static void begin(Chain *c, bool mask, bool table)
{
    int zero;

    fprintf(c->f, "graph \"g\" {\n  input %%x : float32[?,%d,%d]\n", c->length, c->width);
    if (mask)
        fprintf(c->f, "  input %%mask : float32[?,%d]\n", c->length);
    if (table)
        fprintf(c->f, "  input %%table : float32[%d,%d]\n", c->length, c->width);
    zero = integer(c, 0);
    c->batch = node(c, "Gather(%%v%d, %%v%d)", node(c, "Shape(%%x)"), zero);
    c->v = node(c, "Identity(%%x)");
    if (table)
        c->v = node(c, "Add(%%v%d, %%table)", c->v);
    if (mask)
        c->v =
            node(c, "Mul(%%v%d, %%v%d)", c->v, node(c, "Reshape(%%mask, %%v%d)", SIZES(c, N(1), K(c->length), K(1))));
}

static void end(Chain *c)
{
    c->v = reshape(c, c->v, SIZES(c, N(1), K(c->length * c->width)));
    fprintf(c->f, "  output \"y\" = %%v%d\n}\n", c->v);
    fclose(c->f);
}

char *random_network(uint32_t seed, FileBatch file)
{
    char *text = NULL;
    size_t n;
    Chain c = { .f = open_memstream(&text, &n), .random = seed * 2654435761u + 1 };
    bool mask, table;

    if (!c.f)
        return NULL;
    c.length = 2 + (int)draw(&c, 5);
    c.width = 2 + (int)draw(&c, 5);
    mask = draw(&c, 3) == 0;
    table = draw(&c, 4) == 0;
    begin(&c, mask, table);
    for (int left = 2 + (int)draw(&c, 3); left > 0; left--) {
        const int part = (int)draw(&c, PARTS);

        if (fits(&c, part, file))
            part_list[part].add(&c);
    }
    end(&c);
    return text;
}

char *part_network(int part, FileBatch file)
{
    char *text = NULL;
    size_t n;
    Chain c = {
        .f = part < PARTS ? open_memstream(&text, &n) : NULL, .random = (uint32_t)part, .length = 4, .width = 6
    };

    if (!c.f)
        return NULL;
    begin(&c, false, false);
    if (fits(&c, part, file))
        part_list[part].add(&c);
    end(&c);
    return text;
}
