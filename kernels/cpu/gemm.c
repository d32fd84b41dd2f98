/* The usual blocked product (Goto, van de Geijn 2008): blocks of A and B are copied into the order in which a small
 * kernel, which keeps MR x NR sums in registers, reads them.  Copying absorbs the transposes and pads the edges with
 * zeros. */
#include "kernels/cpu/gemm.h"

#include <string.h>

enum { MR = 4, NR = 8, MC = DGEMM_MC, KC = DGEMM_KC, NC = DGEMM_NC };

static int64_t min(int64_t a, int64_t b) { return a < b ? a : b; }

/* Strips of `width` rows of x (element (i, k) at i * si + k * sk), k outermost in each. */
static void gemm_pack(double *out, const double *x, int64_t si, int64_t sk, int64_t rows, int64_t depth, int width)
{
    for (int64_t i = 0; i < rows; i += width)
        for (int64_t k = 0; k < depth; k++)
            for (int r = 0; r < width; r++)
                *out++ = i + r < rows ? x[(i + r) * si + k * sk] : 0;
}

typedef double V4 __attribute__((vector_size(32)));

static void strip(const double *a, const double *b, int64_t depth, double sum[MR][NR])
{
    const V4 *v = (const V4 *)b; /* packed: aligned */
    V4 s[MR][2] = { { { 0 } } };

    for (int64_t k = 0; k < depth; k++, a += MR, v += 2)
        for (int i = 0; i < MR; i++) {
            s[i][0] += a[i] * v[0];
            s[i][1] += a[i] * v[1];
        }
    memcpy(sum, s, sizeof s);
}

static void block(const double *a, const double *b, int64_t m, int64_t n, int64_t depth, double alpha, double *c,
                  int64_t ldc)
{
    double sum[MR][NR];

    for (int64_t j = 0; j < n; j += NR)
        for (int64_t i = 0; i < m; i += MR) {
            strip(a + i * depth, b + j * depth, depth, sum);
            for (int64_t r = 0; r < min(MR, m - i); r++)
                for (int64_t q = 0; q < min(NR, n - j); q++)
                    c[(i + r) * ldc + j + q] += alpha * sum[r][q];
        }
}

static void scale(double *c, int64_t ldc, int64_t m, int64_t n, double beta)
{
    for (int64_t i = 0; i < m && beta != 1; i++)
        for (int64_t j = 0; j < n; j++)
            c[i * ldc + j] = beta == 0 ? 0 : beta * c[i * ldc + j];
}

void dgemm(void *scratch, bool trans_a, bool trans_b, int64_t m, int64_t n, int64_t k, double alpha, const double *a,
           int64_t lda, const double *b, int64_t ldb, double beta, double *c, int64_t ldc)
{
    double *pa = scratch, *pb = pa + (size_t)MC * KC;
    int64_t ai = trans_a ? 1 : lda, ak = trans_a ? lda : 1, bk = trans_b ? 1 : ldb, bj = trans_b ? ldb : 1;

    scale(c, ldc, m, n, beta);
    for (int64_t j = 0; j < n; j += NC)
        for (int64_t l = 0; l < k; l += KC) {
            int64_t nc = min(NC, n - j), kc = min(KC, k - l);

            gemm_pack(pb, b + l * bk + j * bj, bj, bk, nc, kc, NR);
            for (int64_t i = 0; i < m; i += MC) {
                int64_t mc = min(MC, m - i);

                gemm_pack(pa, a + i * ai + l * ak, ai, ak, mc, kc, MR);
                block(pa, pb, mc, nc, kc, alpha, c + i * ldc + j, ldc);
            }
        }
}
