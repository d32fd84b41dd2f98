/* Recurrent in float32: what W gives is one product over all steps; what R gives is a product of few rows for each,
 * with R packed once, fused with the gates.  Threads divide the hidden units, and meet once a step (GRU that resets
 * first: twice). */
#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cpu/cpu_recurrent.h"
#include "graph/ops/recurrent.gen.h"
#include "kernels/cpu/tile.h"
#include "kernels/cpu/vmath.h"

/* ---- shared with the backward pass ---- */

bool recurrent_usual(const Graph *g, const Node *n)
{
    const bool back = n->op == &op_RecurrentGrad;
    Recurrence r;

    recurrence_read(&r, g, n);
    for (int i = 0; i < r.dirs * r.activations; i++) {
        const int at = i % r.activations;

        if (r.cell != CELL_RNN && r.act[i / r.activations][at].kind != (at ? ACT_TANH : ACT_SIGMOID))
            return false;
    }
    return !r.slopes && !r.input_forget && !has_in(n, back ? (int)RECG_P : (int)REC_P) && r.steps > 0 && r.batch > 0 &&
           r.inputs > 0 && r.steps * r.batch <= INT32_MAX;
}

void recurrent_divide(RecurrentPlan *p, const KernelCtx *ctx)
{
    const Recurrence *r = &p->r;
    const int team = team_size(ctx, r->batch * r->gates * r->hidden * (r->hidden + r->inputs) / 8);

    p->panels = (r->hidden + PANEL - 1) / PANEL;
    p->team = team < p->panels ? team : (int)p->panels;
}

void recurrent_units(const RecurrentPlan *p, int t, int team, int64_t *j, int64_t *end)
{
    *j = team_begin(p->panels, t, team) * PANEL;
    *end = team_begin(p->panels, t + 1, team) * PANEL;
    *end = *end < p->r.hidden ? *end : p->r.hidden;
}

void recurrent_pack(float *panel, const float *b, int64_t bi, int64_t bj, int64_t k, int64_t n, int64_t at)
{
    const int64_t first = at * PANEL, cols = n - first < PANEL ? n - first : PANEL;

    for (int64_t i = 0; i < k; i++)
        for (int64_t j = 0; j < PANEL; j++)
            panel[i * PANEL + j] = j < cols ? b[i * bi + (first + j) * bj] : 0;
}

void recurrent_add(int64_t m, int64_t cols, int64_t k, const float *a, int64_t lda, const float *panel, float *c,
                   int64_t ldc)
{
    enum { ROWS = 32 };
    float sum[ROWS * PANEL];

    if (cols == PANEL) {
        tile_product(m, PANEL, k, a, lda, 1, panel, PANEL, true, c, ldc);
        return;
    }
    for (int64_t row = 0; row < m; row += ROWS) {
        const int64_t rows = m - row < ROWS ? m - row : ROWS;

        for (int64_t i = 0; i < rows; i++)
            for (int64_t j = 0; j < PANEL; j++)
                sum[i * PANEL + j] = j < cols ? c[(row + i) * ldc + j] : 0;
        tile_product(rows, PANEL, k, a + row * lda, lda, 1, panel, PANEL, true, sum, PANEL);
        for (int64_t i = 0; i < rows; i++)
            memcpy(c + (row + i) * ldc, sum + i * PANEL, (size_t)cols * sizeof *c);
    }
}

void recurrent_inputs(Tensor all[RECG_INPUTS], const Recurrence *r, const Tensor *in)
{
    for (int i = 0; i < RECG_INPUTS; i++)
        all[i] = i < r->n_in ? in[i] : (Tensor){ .data = NULL };
}

/* ---- the forward pass ---- */

enum { PANELS, BIAS, STATE, CELL };

static Status cpu_recurrent_prepare(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    RecurrentPlan p = { .panels = 0 };
    size_t total = 0;
    const Recurrence *r = &p.r;

    recurrence_read(&p.r, g, n);
    recurrent_divide(&p, ctx);
    recurrent_take(&p, PANELS, &total, p.panels * PANEL * r->gates * r->hidden);
    recurrent_take(&p, BIAS, &total, (r->gates + 1) * r->hidden);
    recurrent_take(&p, STATE, &total, 2 * r->batch * r->hidden);
    recurrent_take(&p, CELL, &total, r->batch * r->hidden);
    if (total * sizeof(float) > ctx->scratch_bytes)
        ctx->scratch_bytes = total * sizeof(float);
    return kernel_state(state, &p, sizeof p);
}

typedef struct {
    RecurrentRun run;
    int64_t j, end;  /* units of a thread */
    float *y;        /* of the step: [batch, hidden] */
    float *row;      /* of `saved`, likewise */
    const float *h;  /* H' */
    float *next, *c; /* H, and C */
} Step;

/* Adds what R's gate `gate` gives of `a` to the plane `plane`. */
static void add_gate(const Step *s, int gate, int plane, const float *a, int64_t lda)
{
    const Recurrence *r = s->run.r;
    const int64_t n = r->hidden;

    for (int64_t j = s->j; j < s->end; j += PANEL) {
        const int64_t at = j / PANEL * r->gates + gate, cols = n - j < PANEL ? n - j : PANEL;

        recurrent_add(r->batch, cols, n, a, lda, recurrent_part(&s->run, PANELS) + at * PANEL * n,
                      s->row + plane * n + j, s->run.row);
    }
}

static void lstm_cell(const Step *s, int64_t b)
{
    const int64_t n = s->run.r->hidden;
    float *row = s->row + b * s->run.row, *restrict i = row, *restrict o = row + n, *restrict f = row + 2 * n,
          *restrict g = row + 3 * n, *restrict cell = row + 4 * n, *restrict out = row + 5 * n,
          *restrict c = s->c + b * n, *restrict h = s->next + b * n, *restrict y = s->y + b * n;

#pragma omp simd
    for (int64_t j = s->j; j < s->end; j++) {
        i[j] = vsigmoidf(i[j]);
        f[j] = vsigmoidf(f[j]);
        o[j] = vsigmoidf(o[j]);
        g[j] = vtanhf(g[j]);
        cell[j] = c[j] = f[j] * c[j] + i[j] * g[j];
        out[j] = vtanhf(c[j]);
        y[j] = h[j] = o[j] * out[j];
    }
}

static void gru_gates(const Step *s, int64_t b)
{
    const int64_t n = s->run.r->hidden;
    const bool before = s->run.r->before_reset;
    float *row = s->row + b * s->run.row, *restrict z = row, *restrict r = row + n, *restrict inner = row + 3 * n;
    const float *restrict h = s->h + b * n;

#pragma omp simd
    for (int64_t j = s->j; j < s->end; j++) {
        z[j] = vsigmoidf(z[j]);
        r[j] = vsigmoidf(r[j]);
        inner[j] = before ? inner[j] : r[j] * h[j];
    }
}

static void gru_cell(const Step *s, int64_t b)
{
    const int64_t n = s->run.r->hidden;
    const bool before = s->run.r->before_reset;
    float *row = s->row + b * s->run.row, *restrict z = row, *restrict r = row + n, *restrict g = row + 2 * n,
          *restrict inner = row + 3 * n, *restrict next = s->next + b * n, *restrict y = s->y + b * n;
    const float *restrict h = s->h + b * n;

#pragma omp simd
    for (int64_t j = s->j; j < s->end; j++) {
        g[j] = vtanhf(before ? g[j] + r[j] * inner[j] : g[j]);
        y[j] = next[j] = (1 - z[j]) * g[j] + z[j] * h[j];
    }
}

static void rnn_cell(const Step *s, int64_t b)
{
    const int64_t n = s->run.r->hidden;
    const int kind = s->run.r->act[s->run.dir][0].kind;
    float *restrict g = s->row + b * s->run.row, *restrict next = s->next + b * n, *restrict y = s->y + b * n;

#pragma omp simd
    for (int64_t j = s->j; j < s->end; j++) {
        const float x = g[j], v = kind == ACT_TANH ? vtanhf(x) : kind == ACT_SIGMOID ? vsigmoidf(x) : x <= 0 ? 0 : x;

        y[j] = next[j] = g[j] = v;
    }
}

/* A position that the sequence does not have: zeros in the first planes, and the state stays. */
static void skip(const Step *s, int64_t b, int planes)
{
    const int64_t n = s->run.r->hidden;
    const size_t bytes = (size_t)(s->end - s->j) * sizeof(float);

    for (int i = 0; i < planes; i++)
        memset(s->row + b * s->run.row + i * n + s->j, 0, bytes);
    memset(s->y + b * n + s->j, 0, bytes);
    memcpy(s->next + b * n + s->j, s->h + b * n + s->j, bytes);
}

/* The part of a step that must be done before other threads read `inner`. */
static void cpu_recurrent_begin_step(const Step *s, int64_t t)
{
    const Recurrence *r = s->run.r;

    for (int q = 0; q < (r->cell == CELL_GRU ? 2 : r->gates); q++)
        add_gate(s, q, q, s->h, r->hidden);
    if (r->cell != CELL_GRU)
        return;
    if (r->before_reset)
        add_gate(s, GRU_H, GRU_INNER, s->h, r->hidden);
    for (int64_t b = 0; b < r->batch; b++)
        if (recurrent_has(&s->run, b, t))
            gru_gates(s, b);
        else
            memset(s->row + b * s->run.row + GRU_INNER * r->hidden + s->j, 0, (size_t)(s->end - s->j) * sizeof(float));
}

static void end_step(const Step *s, int64_t t)
{
    const Recurrence *r = s->run.r;

    if (r->cell == CELL_GRU && !r->before_reset)
        add_gate(s, GRU_H, GRU_H, s->row + GRU_INNER * r->hidden, s->run.row);
    for (int64_t b = 0; b < r->batch; b++)
        if (!recurrent_has(&s->run, b, t))
            skip(s, b, r->cell == CELL_GRU ? GRU_INNER : r->planes);
        else if (r->cell == CELL_LSTM)
            lstm_cell(s, b);
        else if (r->cell == CELL_GRU)
            gru_cell(s, b);
        else
            rnn_cell(s, b);
}

/* ---- before the steps ---- */

static void cpu_recurrent_pack(const RecurrentRun *k, const float *rec)
{
    const Recurrence *r = k->r;
    const int64_t n = r->hidden, panels = k->p->panels * r->gates;
    float *out = recurrent_part(k, PANELS);

#pragma omp parallel for num_threads(k->p->team) schedule(static)
    for (int64_t i = 0; i < panels; i++)
        recurrent_pack(out + i * PANEL * n, rec + i % r->gates * n * n, 1, n, n, n, i / r->gates);
}

/* The sum of the biases that each gate adds, and in a GRU the bias behind r; NULL without biases. */
static const float *sum_biases(const RecurrentRun *k, const float *bias)
{
    const Recurrence *r = k->r;
    const int64_t n = r->hidden, rows = r->gates * n;
    const bool apart = r->cell == CELL_GRU && r->before_reset;
    float *sum = recurrent_part(k, BIAS);

    for (int64_t j = 0; bias && j < rows; j++)
        sum[j] = bias[j] + (apart && j >= 2 * n ? 0 : bias[rows + j]);
    for (int64_t j = 0; j < n; j++)
        sum[rows + j] = bias && apart ? bias[rows + 2 * n + j] : 0;
    for (int64_t j = 0; !bias && j < rows; j++)
        sum[j] = 0;
    return sum;
}

/* Computes W x and adds the biases, for all steps. */
static Status cpu_recurrent_begin(const RecurrentRun *k, const Tensor *in)
{
    const Recurrence *r = k->r;
    const int64_t rows = r->steps * r->batch, gates = r->gates * r->hidden;
    const int64_t filled = gates + (r->cell == CELL_GRU ? r->hidden : 0);
    const float *bias = in[REC_B].data, *w = in[REC_W].data,
                *sum = sum_biases(k, bias ? bias + k->dir * 2 * gates : NULL);

#pragma omp parallel for num_threads(k->p->team) schedule(static)
    for (int64_t i = 0; i < rows; i++)
        memcpy(k->saved + i * k->row, sum, (size_t)filled * sizeof *sum);
    return sgemm_run(&(Sgemm){ false, true, rows, gates, r->inputs, r->inputs, r->inputs, k->row }, k->p->team,
                     in[REC_X].data, w + k->dir * gates * r->inputs, 1, k->saved);
}

void recurrent_load(float *to, const Tensor *from, int dir, int64_t n)
{
    if (from->data)
        memcpy(to, (const float *)from->data + dir * n, (size_t)n * sizeof *to);
    else
        memset(to, 0, (size_t)n * sizeof *to);
}

static void all_steps(const RecurrentRun *k, float *y)
{
    const Recurrence *r = k->r;
    const int64_t size = r->batch * r->hidden;
    const int team = k->p->team;
    float *h = recurrent_part(k, STATE);

#pragma omp parallel num_threads(team)
    {
        Step s = { .run = *k, .c = recurrent_part(k, CELL) };

        recurrent_units(k->p, omp_get_thread_num(), omp_get_num_threads(), &s.j, &s.end);
        for (int64_t i = 0; i < r->steps; i++) {
            const int64_t t = r->backward[k->dir] ? r->steps - 1 - i : i;

            s.y = y + t * r->dirs * size;
            s.row = k->saved + t * r->batch * k->row;
            s.h = h + i % 2 * size;
            s.next = h + (i + 1) % 2 * size;
            cpu_recurrent_begin_step(&s, t);
            if (r->cell == CELL_GRU && !r->before_reset) {
#pragma omp barrier
            }
            end_step(&s, t);
#pragma omp barrier
        }
    }
}

static Status run(KernelCtx *ctx, void *state, const Tensor *in_list, Tensor *out)
{
    const RecurrentPlan *p = state;
    const Recurrence *r = &p->r;
    const int64_t size = r->batch * r->hidden, plane = r->steps * r->batch * r->planes * r->hidden;
    Tensor in[RECG_INPUTS];

    recurrent_inputs(in, r, in_list);
    TRY(recurrence_check_lengths(r, in[REC_LENS].data));
    for (int d = 0; d < r->dirs; d++) {
        const RecurrentRun k = {
            p, r, d, in[REC_LENS].data, r->planes * r->hidden, (float *)out[REC_SAVED].data + d * plane, ctx->scratch
        };
        float *h = recurrent_part(&k, STATE), *c = recurrent_part(&k, CELL);

        TRY(cpu_recurrent_begin(&k, in));
        cpu_recurrent_pack(&k, (const float *)in[REC_R].data + d * r->gates * r->hidden * r->hidden);
        recurrent_load(h, &in[REC_H0], d, size);
        recurrent_load(c, &in[REC_C0], d, size);
        all_steps(&k, (float *)out[REC_Y].data + d * size);
        if (out[REC_YH].data)
            memcpy((float *)out[REC_YH].data + d * size, h + r->steps % 2 * size, (size_t)size * sizeof *h);
        if (out[REC_YC].data)
            memcpy((float *)out[REC_YC].data + d * size, c, (size_t)size * sizeof *c);
    }
    return ST_OK;
}

static bool has_y(const Graph *g, const Node *n)
{
    return has_out(n, REC_Y) && has_out(n, REC_SAVED) && recurrent_usual(g, n);
}

DEFINE_KERNEL(cpu_recurrent, .op = &op_Recurrent, .dtypes = DTYPE_BIT(DT_FLOAT32), .supports = has_y,
              .prepare = cpu_recurrent_prepare, .run = run, .release = free);
