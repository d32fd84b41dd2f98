/* Strided copies: one loop for each element size copies lines, and the team divides the axes around them. */
#include "kernels/cpu/cpu_strided.h"

#include <string.h>

#include "kernels/cpu/team.h"

static void lines_flat(const StridedBox *b, char *to, const char *from, int64_t count)
{
    const size_t bytes = (size_t)b->n * b->size;

    for (int64_t i = 0; i < count; i++)
        copy_row(to + i * b->to[0], from + i * b->from[0], bytes);
}

#define BODY "kernels/cpu/cpu_strided.inc"
#define TYPES (OF_U8 | OF_U16 | OF_U32 | OF_U64)
#include "kernels/each_type.inc"

static StridedLines *lines_of(const StridedBox *b)
{
    const bool fill = b->to_step == 1 && b->from_step == 0;

    if (b->to_step == 1 && b->from_step == 1)
        return lines_flat;
    switch (b->size) {
    case 1: return fill ? fill_u8 : strided_u8;
    case 2: return fill ? fill_u16 : strided_u16;
    case 4: return fill ? fill_u32 : strided_u32;
    default: return fill ? fill_u64 : strided_u64;
    }
}

StridedBox strided_box(size_t size, int rank, const int64_t *dim, const int64_t *ts, const int64_t *fs)
{
    StridedBox b = { .size = size, .lines = 1, .n = 1, .to_step = 1, .from_step = 1 };
    int n = -1; /* axes taken so far; -1: the line is still empty */

    for (int i = rank - 1; i >= 0; i--) {
        int64_t *d = n < 1 ? &b.n : &b.dim[n - 1];
        const int64_t t = n < 1 ? b.to_step : b.to[n - 1], f = n < 1 ? b.from_step : b.from[n - 1];

        if (dim[i] == 1)
            continue;
        if (n >= 0 && ts[i] == *d * t && fs[i] == *d * f) {
            *d *= dim[i];
        } else if (n < 0) {
            b.n = dim[i];
            b.to_step = ts[i];
            b.from_step = fs[i];
            n = 0;
        } else {
            b.dim[n] = dim[i];
            b.to[n] = ts[i];
            b.from[n++] = fs[i];
        }
    }
    b.rank = n < 0 ? 0 : n;
    for (int i = 0; i < b.rank; i++) {
        b.to[i] *= (int64_t)size;
        b.from[i] *= (int64_t)size;
        b.lines *= b.dim[i];
    }
    b.lines = b.n ? b.lines : 0;
    b.copy = lines_of(&b);
    return b;
}

/* Lines [first, last). */
static void copy_lines(const StridedBox *b, char *to, const char *from, int64_t first, int64_t last)
{
    int64_t at[BOX_RANK] = { 0 }, left = first;

    for (int i = 0; i < b->rank; i++) {
        at[i] = left % b->dim[i];
        left /= b->dim[i];
        to += at[i] * b->to[i];
        from += at[i] * b->from[i];
    }
    while (first < last) {
        const int64_t rest = b->rank ? b->dim[0] - at[0] : 1, count = rest < last - first ? rest : last - first;

        b->copy(b, to, from, count);
        if (!(first += count, first < last))
            return;
        to -= at[0] * b->to[0];
        from -= at[0] * b->from[0];
        at[0] = 0;
        for (int i = 1; i < b->rank; i++) {
            to += b->to[i];
            from += b->from[i];
            if (++at[i] < b->dim[i])
                break;
            to -= at[i] * b->to[i];
            from -= at[i] * b->from[i];
            at[i] = 0;
        }
    }
}

void strided_copy(const StridedBox *b, void *to, const void *from, const KernelCtx *ctx)
{
    const int64_t bytes = b->n * (int64_t)b->size;
    const int team = team_size(ctx, b->lines * b->n);

    if (team < 2) {
        if (b->lines)
            copy_lines(b, to, from, 0, b->lines);
        return;
    }
    if (b->lines == 1 && b->copy == lines_flat) { /* by pieces of it */
#pragma omp parallel for num_threads(team) schedule(static)
        for (int t = 0; t < team; t++)
            memcpy((char *)to + team_begin(bytes, t, team), (const char *)from + team_begin(bytes, t, team),
                   (size_t)(team_begin(bytes, t + 1, team) - team_begin(bytes, t, team)));
        return;
    }
#pragma omp parallel for num_threads(team) schedule(static)
    for (int t = 0; t < team; t++)
        copy_lines(b, to, from, team_begin(b->lines, t, team), team_begin(b->lines, t + 1, team));
}
