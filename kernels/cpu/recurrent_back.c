/* RecurrentGrad in float32: step by step backwards only what R carries; gradients by X, W, R and the biases are
 * products and sums over all steps at once, of the gates' gradients, which scratch keeps. */
#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "graph/ops/recurrent.gen.h"
#include "kernels/cpu/cpu_recurrent.h"

/* Parts of scratch: R packed, of all gates or of GRU's first two; of GRU's third; the gates' gradients [steps, batch,
 * gates * hidden], what stands behind r in their third part when GRU resets last [steps, batch, hidden], H' of every
 * step likewise, gradients by H and C, and of what r is multiplied by. */
enum { PANELS, PANELS_H, GATES, INNER, BEFORE, DH, DC, RESET };

/* From one row of gates to the next: were they 4 KiB apart, a column of them would fall into a few sets of the cache,
 * and its products take twice as long. */
static int64_t gates_row(const Recurrence *r) { return ((r->gates * r->hidden + 15) / 16 | 1) * 16; }
static int64_t first_gates(const Recurrence *r) { return r->cell == CELL_GRU ? 2 : r->gates; }

static Status recurrent_back_prepare(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    RecurrentPlan p = { .panels = 0 };
    const Recurrence *r = &p.r;
    size_t total = 0;
    int64_t rows, panel;
    bool gru;

    recurrence_read(&p.r, g, n);
    recurrent_divide(&p, ctx);
    rows = r->steps * r->batch;
    panel = p.panels * PANEL * r->hidden;
    gru = r->cell == CELL_GRU;
    recurrent_take(&p, PANELS, &total, panel * first_gates(r));
    recurrent_take(&p, PANELS_H, &total, gru ? panel : 0);
    recurrent_take(&p, GATES, &total, rows * gates_row(r));
    recurrent_take(&p, INNER, &total, gru && r->before_reset ? rows * r->hidden : 0);
    recurrent_take(&p, BEFORE, &total, rows * r->hidden);
    recurrent_take(&p, DH, &total, r->batch * r->hidden);
    recurrent_take(&p, DC, &total, r->batch * r->hidden);
    recurrent_take(&p, RESET, &total, gru ? r->batch * r->hidden : 0);
    if (total * sizeof(float) > ctx->scratch_bytes)
        ctx->scratch_bytes = total * sizeof(float);
    return kernel_state(state, &p, sizeof p);
}

/* ---- one step ---- */

typedef struct {
    RecurrentRun run;
    int64_t j, end;          /* units of a thread */
    const float *dy;         /* of the step, [batch, hidden]; NULL: none */
    const float *row, *last; /* of `saved`: of this step, and of the one before */
    const float *h, *c0;     /* H' of the step; the first C, or NULL */
    int64_t gates_row;
    float *gates, *inner, *dh, *dc, *reset;
} Step;

static void lstm_back(const Step *s, int64_t b, bool begins)
{
    const int64_t n = s->run.r->hidden;
    const float *row = s->row + b * s->run.row, *i = row, *o = row + n, *f = row + 2 * n, *g = row + 3 * n,
                *out = row + 5 * n, *dy = s->dy ? s->dy + b * n : NULL;
    const float *before = !begins ? s->last + b * s->run.row + LSTM_CELL * n : s->c0 ? s->c0 + b * n : NULL;
    float *restrict di = s->gates + b * s->gates_row, *restrict d_o = di + n, *restrict df = di + 2 * n,
                    *restrict dg = di + 3 * n, *restrict dh = s->dh + b * n, *restrict dc = s->dc + b * n;

#pragma omp simd
    for (int64_t j = s->j; j < s->end; j++) {
        const float h = dh[j] + (dy ? dy[j] : 0), c = before ? before[j] : 0;
        const float all = dc[j] + h * o[j] * (1 - out[j] * out[j]);

        d_o[j] = h * out[j] * o[j] * (1 - o[j]);
        di[j] = all * g[j] * i[j] * (1 - i[j]);
        df[j] = all * c * f[j] * (1 - f[j]);
        dg[j] = all * i[j] * (1 - g[j] * g[j]);
        dc[j] = all * f[j];
        dh[j] = 0;
    }
}

static void rnn_back(const Step *s, int64_t b)
{
    const int64_t n = s->run.r->hidden;
    const int kind = s->run.r->act[s->run.dir][0].kind;
    const float *h = s->row + b * s->run.row, *dy = s->dy ? s->dy + b * n : NULL;
    float *restrict d = s->gates + b * s->gates_row, *restrict dh = s->dh + b * n;

#pragma omp simd
    for (int64_t j = s->j; j < s->end; j++) {
        const float slope = kind == ACT_TANH ? 1 - h[j] * h[j] : kind == ACT_SIGMOID ? h[j] * (1 - h[j]) : h[j] > 0;

        d[j] = (dh[j] + (dy ? dy[j] : 0)) * slope;
        dh[j] = 0;
    }
}

/* All that the gradient of H alone decides; where r comes after R, that is all. */
static void gru_back(const Step *s, int64_t b)
{
    const int64_t n = s->run.r->hidden;
    const bool after = s->run.r->before_reset;
    const float *row = s->row + b * s->run.row, *z = row, *r = row + n, *g = row + 2 * n, *inner = row + 3 * n,
                *h = s->h + b * n, *dy = s->dy ? s->dy + b * n : NULL;
    float *restrict dz = s->gates + b * s->gates_row, *restrict dr = dz + n, *restrict dg = dz + 2 * n,
                    *restrict dh = s->dh + b * n, *restrict behind = s->inner + b * n;

    for (int64_t j = s->j; j < s->end; j++) {
        const float d = dh[j] + (dy ? dy[j] : 0), a = d * (1 - z[j]) * (1 - g[j] * g[j]);

        dg[j] = a;
        dz[j] = d * (h[j] - g[j]) * z[j] * (1 - z[j]);
        dh[j] = d * z[j];
        if (after) {
            dr[j] = a * inner[j] * r[j] * (1 - r[j]);
            behind[j] = a * r[j];
        }
    }
}

/* The gradient of r, and of H' through r, where r comes before R. */
static void gru_reset(const Step *s, int64_t b)
{
    const int64_t n = s->run.r->hidden;
    const float *r = s->row + b * s->run.row + n, *h = s->h + b * n, *d = s->reset + b * n;
    float *restrict dr = s->gates + b * s->gates_row + n, *restrict dh = s->dh + b * n;

#pragma omp simd
    for (int64_t j = s->j; j < s->end; j++) {
        dr[j] = d[j] * h[j] * r[j] * (1 - r[j]);
        dh[j] += d[j] * r[j];
    }
}

/* A position that the sequence does not have: nothing reaches it, and gradients by H and C pass. */
static void skip(const Step *s, int64_t b)
{
    const Recurrence *r = s->run.r;
    const size_t bytes = (size_t)(s->end - s->j) * sizeof(float);

    for (int q = 0; q < r->gates; q++)
        memset(s->gates + b * s->gates_row + q * r->hidden + s->j, 0, bytes);
    if (r->cell == CELL_GRU && r->before_reset)
        memset(s->inner + b * r->hidden + s->j, 0, bytes);
}

static void recurrent_back_begin_step(const Step *s, int64_t t)
{
    const Recurrence *r = s->run.r;

    for (int64_t b = 0; b < r->batch; b++)
        if (!recurrent_has(&s->run, b, t))
            skip(s, b);
        else if (r->cell == CELL_LSTM)
            lstm_back(s, b, recurrent_begins(&s->run, b, t));
        else if (r->cell == CELL_GRU)
            gru_back(s, b);
        else
            rnn_back(s, b);
}

/* Adds to the thread's units of `to` the product of the packed matrix, of k rows, with a. */
static void recurrent_back_add(const Step *s, int part, int64_t k, const float *a, int64_t lda, float *to)
{
    const int64_t n = s->run.r->hidden;

    for (int64_t j = s->j; j < s->end; j += PANEL)
        recurrent_add(s->run.r->batch, n - j < PANEL ? n - j : PANEL, k, a, lda, recurrent_part(&s->run, part) + j * k,
                      to + j, n);
}

static void reset_step(const Step *s, int64_t t)
{
    const Recurrence *r = s->run.r;
    const int64_t n = r->hidden;

    for (int64_t b = 0; b < r->batch; b++)
        memset(s->reset + b * n + s->j, 0, (size_t)(s->end - s->j) * sizeof(float));
    recurrent_back_add(s, PANELS_H, n, s->gates + 2 * n, s->gates_row, s->reset);
    for (int64_t b = 0; b < r->batch; b++)
        if (recurrent_has(&s->run, b, t))
            gru_reset(s, b);
}

static void end_step(const Step *s)
{
    const Recurrence *r = s->run.r;
    const int64_t n = r->hidden;

    recurrent_back_add(s, PANELS, first_gates(r) * n, s->gates, s->gates_row, s->dh);
    if (r->cell == CELL_GRU && r->before_reset)
        recurrent_back_add(s, PANELS_H, n, s->inner, n, s->dh);
}

/* ---- all steps ---- */

static void recurrent_back_pack(const RecurrentRun *k, const float *rec)
{
    const Recurrence *r = k->r;
    const int64_t n = r->hidden, rows = first_gates(r) * n;
    float *first = recurrent_part(k, PANELS), *last = recurrent_part(k, PANELS_H);

#pragma omp parallel for num_threads(k->p->team) schedule(static)
    for (int64_t i = 0; i < k->p->panels; i++) {
        recurrent_pack(first + i * PANEL * rows, rec, n, 1, rows, n, i);
        if (r->cell == CELL_GRU)
            recurrent_pack(last + i * PANEL * n, rec + rows * n, n, 1, n, n, i);
    }
}

/* H' of every position that there is; zeros elsewhere. */
static void recurrent_back_gather(const RecurrentRun *k, const float *y, const float *h0)
{
    const Recurrence *r = k->r;
    const int64_t n = r->hidden, size = r->batch * n, rows = r->steps * r->batch;
    float *to = recurrent_part(k, BEFORE);

#pragma omp parallel for num_threads(k->p->team) schedule(static)
    for (int64_t i = 0; i < rows; i++) {
        const int64_t t = i / r->batch, b = i % r->batch, before = r->backward[k->dir] ? t + 1 : t - 1;
        const bool begins = recurrent_begins(k, b, t);
        const float *from = !recurrent_has(k, b, t) ? NULL
                            : begins                ? (h0 ? h0 + b * n : NULL)
                                                    : y + before * r->dirs * size + b * n;

        if (from)
            memcpy(to + i * n, from, (size_t)n * sizeof *to);
        else
            memset(to + i * n, 0, (size_t)n * sizeof *to);
    }
}

static void all_steps(const RecurrentRun *k, const float *dy, const float *c0)
{
    const Recurrence *r = k->r;
    const int64_t size = r->batch * r->hidden;

#pragma omp parallel num_threads(k->p->team)
    {
        Step s = { .run = *k,
                   .gates_row = gates_row(r),
                   .c0 = c0,
                   .dh = recurrent_part(k, DH),
                   .dc = recurrent_part(k, DC),
                   .reset = recurrent_part(k, RESET) };

        recurrent_units(k->p, omp_get_thread_num(), omp_get_num_threads(), &s.j, &s.end);
        for (int64_t i = 0; i < r->steps; i++) {
            const int64_t t = r->backward[k->dir] ? i : r->steps - 1 - i, last = r->backward[k->dir] ? t + 1 : t - 1;

            s.dy = dy ? dy + t * r->dirs * size : NULL;
            s.row = k->saved + t * r->batch * k->row;
            s.last = last >= 0 && last < r->steps ? k->saved + last * r->batch * k->row : s.row;
            s.h = recurrent_part(k, BEFORE) + t * size;
            s.gates = recurrent_part(k, GATES) + t * r->batch * s.gates_row;
            s.inner = recurrent_part(k, INNER) + t * size;
            recurrent_back_begin_step(&s, t);
#pragma omp barrier
            if (r->cell == CELL_GRU && !r->before_reset) {
                reset_step(&s, t);
#pragma omp barrier
            }
            end_step(&s);
        }
    }
}

/* ---- gradients of what all steps share ---- */

/* Sums of the first `used` columns of x [rows, cols]. */
static void sum_rows(const RecurrentRun *k, const float *x, int64_t cols, int64_t used, float *to)
{
    const int64_t rows = k->r->steps * k->r->batch;
    const int team = k->p->team;

#pragma omp parallel for num_threads(team) schedule(static, 1)
    for (int t = 0; t < team; t++) {
        const int64_t from = team_begin(used, t, team), end = team_begin(used, t + 1, team);

        for (int64_t j = from; j < end; j++)
            to[j] = 0;
        for (int64_t i = 0; i < rows; i++)
            for (int64_t j = from; j < end; j++)
                to[j] += x[i * cols + j];
    }
}

static void bias_gradients(const RecurrentRun *k, float *db)
{
    const Recurrence *r = k->r;
    const int64_t n = r->hidden, gates = r->gates * n;

    sum_rows(k, recurrent_part(k, GATES), gates_row(r), gates, db);
    memcpy(db + gates, db, (size_t)gates * sizeof *db);
    if (r->cell == CELL_GRU && r->before_reset)
        sum_rows(k, recurrent_part(k, INNER), n, n, db + gates + 2 * n);
}

static Status products(const RecurrentRun *k, const Tensor *in, Tensor *out)
{
    const Recurrence *r = k->r;
    const int64_t n = r->hidden, rows = r->steps * r->batch, gates = r->gates * n, first = first_gates(r) * n,
                  row = gates_row(r);
    const int team = k->p->team;
    const float *d = recurrent_part(k, GATES), *h = recurrent_part(k, BEFORE), *x = in[RECG_X].data,
                *w = (const float *)in[RECG_W].data + k->dir * gates * r->inputs;
    float *dw = (float *)out[RECG_DW].data + k->dir * gates * r->inputs,
          *dr = (float *)out[RECG_DR].data + k->dir * gates * n;

    if (out[RECG_DX].data)
        TRY(sgemm_run(&(Sgemm){ false, false, rows, r->inputs, gates, row, r->inputs, r->inputs }, team, d, w,
                      k->dir ? 1 : 0, out[RECG_DX].data));
    TRY(sgemm_run(&(Sgemm){ true, false, gates, r->inputs, rows, row, r->inputs, r->inputs }, team, d, x, 0, dw));
    TRY(sgemm_run(&(Sgemm){ true, false, first, n, rows, row, n, n }, team, d, h, 0, dr));
    if (r->cell == CELL_GRU && r->before_reset)
        TRY(sgemm_run(&(Sgemm){ true, false, n, n, rows, n, n, n }, team, recurrent_part(k, INNER), h, 0,
                      dr + first * n));
    else if (r->cell == CELL_GRU)
        TRY(sgemm_run(&(Sgemm){ true, false, n, n, rows, row, k->row, n }, team, d + first, k->saved + GRU_INNER * n, 0,
                      dr + first * n));
    bias_gradients(k, (float *)out[RECG_DB].data + k->dir * 2 * gates);
    return ST_OK;
}

static const float *of_direction(const Tensor *t, int dir, int64_t n)
{
    return t->data ? (const float *)t->data + dir * n : NULL;
}

static Status run(KernelCtx *ctx, void *state, const Tensor *in_list, Tensor *out)
{
    const RecurrentPlan *p = state;
    const Recurrence *r = &p->r;
    const int64_t size = r->batch * r->hidden, row = r->planes * r->hidden;
    Tensor in[RECG_INPUTS];

    recurrent_inputs(in, r, in_list);
    TRY(recurrence_check_lengths(r, in[RECG_LENS].data));
    for (int d = 0; d < r->dirs; d++) {
        const RecurrentRun k = {
            p, r, d, in[RECG_LENS].data, row, (float *)in[RECG_SAVED].data + d * r->steps * r->batch * row, ctx->scratch
        };

        recurrent_back_pack(&k, of_direction(&in[RECG_R], d, r->gates * r->hidden * r->hidden));
        recurrent_back_gather(&k, of_direction(&in[RECG_Y], d, size), of_direction(&in[RECG_H0], d, size));
        recurrent_load(recurrent_part(&k, DH), &in[RECG_DYH], d, size);
        recurrent_load(recurrent_part(&k, DC), &in[RECG_DYC], d, size);
        all_steps(&k, of_direction(&in[RECG_DY], d, size), of_direction(&in[RECG_C0], d, size));
        TRY(products(&k, in, out));
        memcpy((float *)out[RECG_DH0].data + d * size, recurrent_part(&k, DH), (size_t)size * sizeof(float));
        memcpy((float *)out[RECG_DC0].data + d * size, recurrent_part(&k, DC), (size_t)size * sizeof(float));
    }
    memset(out[RECG_DP].data, 0, tensor_bytes(&out[RECG_DP]));
    return ST_OK;
}

DEFINE_KERNEL(cpu_recurrent_grad, .op = &op_RecurrentGrad, .dtypes = DTYPE_BIT(DT_FLOAT32), .supports = recurrent_usual,
              .prepare = recurrent_back_prepare, .run = run, .release = free);
