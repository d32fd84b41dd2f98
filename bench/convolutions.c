/* bench_convolutions: oneDNN's convolutions alone, in the layouts that oneDNN chooses, in blocks and channels last.
 *
 *     ONEDNN_VERBOSE=1 bench_convolutions THREADS REPEAT < SHAPES
 *
 * A line of SHAPES has 19 numbers: batch, groups, channels in and out; height and width of input, output, kernel,
 * stride and dilation, and of the pads at the begin and at the end; 1 if the gradient of the input is wanted.
 * Prints "@ LINE forward|input|weight" before a primitive runs REPEAT times, once for each layout.  oneDNN prints the
 * time of each run behind it, conversions of layouts on lines of their own.  bench/convolutions.py adds the times up.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "kernels/cpu/onednn.h"

enum { ALIGNMENT = 64, BLOCK = 16 };

/* Zeros would be fast for no processor: every number is 1. */
static float *ones(int64_t n)
{
    float *x = aligned_alloc(ALIGNMENT, ((size_t)n * sizeof *x + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT);

    for (int64_t i = 0; x && i < n; i++)
        x[i] = 1;
    return x;
}

/* oneDNN stores a last block of fewer channels with zeros behind it. */
static int64_t whole_blocks(int64_t channels) { return (channels + BLOCK - 1) / BLOCK * BLOCK; }

static Status run(KernelCtx *ctx, OnednnConv what, const OnednnConvShape *s, int repeat)
{
    float *x = ones(s->batch * whole_blocks(s->in_channels) * window_numel(s->win.in)), *scratch = NULL;
    float *y = ones(s->batch * whole_blocks(s->out_channels) * window_numel(s->win.out));
    float *w = ones(s->out_channels * (s->in_channels / s->group) * window_numel(s->win.kernel));
    Onednn *d = NULL;
    Status st = x && y && w ? ST_OK : FAIL_NOMEM();

    ctx->scratch_bytes = 0;
    if (!st)
        st = onednn_conv(&d, ctx, what, s);
    if (!st && !(ctx->scratch = scratch = ones((int64_t)(ctx->scratch_bytes / sizeof *scratch) + 1)))
        st = FAIL_NOMEM();
    for (int i = 0; i < repeat && !st; i++)
        st = onednn_conv_run(d, ctx, x, w, NULL, y);
    onednn_free(d);
    free(scratch);
    free(x);
    free(y);
    free(w);
    return st;
}

static bool read_shape(OnednnConvShape *s, bool *input)
{
    Window *w = &s->win;
    int64_t *pair[] = { w->in, w->out, w->kernel, w->stride, w->dilation, w->pad, w->pad_end };
    int wanted;

    *s = (OnednnConvShape){ .win = { .rank = 2, .in = { 1 }, .out = { 1 }, .kernel = { 1 }, .stride = { 1 } } };
    w->dilation[0] = 1;
    if (scanf("%" SCNd64 "%" SCNd64 "%" SCNd64 "%" SCNd64, &s->batch, &s->group, &s->in_channels, &s->out_channels) !=
        4)
        return false;
    for (size_t i = 0; i < sizeof pair / sizeof *pair; i++)
        if (scanf("%" SCNd64 "%" SCNd64, &pair[i][1], &pair[i][2]) != 2)
            return false;
    if (scanf("%d", &wanted) != 1)
        return false;
    *input = wanted;
    return true;
}

/* Every layout that has a primitive; the one of rows has one always: oneDNN chooses for it. */
static Status run_layouts(KernelCtx *ctx, OnednnConv what, OnednnConvShape s, int line, int repeat)
{
    static const char *const name[] = { "forward", "input", "weight" };
    const Layout layout[] = { LAYOUT_ROWS, onednn_blocked(), LAYOUT_CHANNELS_LAST };

    for (size_t i = 0; i < sizeof layout / sizeof *layout; i++) {
        Status st;

        s.x = s.y = layout[i];
        printf("@ %d %s\n", line, name[what]);
        st = run(ctx, what, &s, repeat);
        if (st && (st != E_UNSUPPORTED || layout[i] == LAYOUT_ROWS))
            return st;
    }
    return ST_OK;
}

int main(int argc, char **argv)
{
    KernelCtx ctx = { .n_threads = argc == 3 ? atoi(argv[1]) : 0 };
    OnednnConvShape s;
    bool input;

    if (ctx.n_threads < 1) {
        fprintf(stderr, "usage: bench_convolutions THREADS REPEAT < SHAPES\n");
        return 2;
    }
    for (int line = 0; read_shape(&s, &input); line++)
        for (int what = ONEDNN_CONV_FORWARD; what <= ONEDNN_CONV_WEIGHT; what++)
            if ((what != ONEDNN_CONV_INPUT || input) && run_layouts(&ctx, (OnednnConv)what, s, line, atoi(argv[2]))) {
                fprintf(stderr, "bench_convolutions: %s\n", status_message());
                return 1;
            }
    return 0;
}
