/* Products of float32 that are small enough to stay in the cache, for one thread: no copies, nothing to set up.
 *
 * Sums of a tile are kept in registers while B passes by rows; A is read element by element, so that it may be
 * transposed.  Sums over k are added in order, each by a fused multiplication where the processor has one. */
#ifndef DPX_CPU_TILE_H
#define DPX_CPU_TILE_H

#include <stdbool.h>
#include <stdint.h>

#if defined(__AVX512F__) || (defined(__AVX2__) && defined(__FMA__))
#include <immintrin.h>
#endif

#if defined(__AVX512F__)
typedef __m512 TileVec;
enum { TILE_LANES = 16 };
#define TILE_LOAD(p) _mm512_loadu_ps(p)
#define TILE_STORE(p, v) _mm512_storeu_ps((p), (v))
#define TILE_ALL(x) _mm512_set1_ps(x)
#define TILE_ADD(x, y, sum) _mm512_fmadd_ps((x), (y), (sum))
#elif defined(__AVX2__) && defined(__FMA__)
typedef __m256 TileVec;
enum { TILE_LANES = 8 };
#define TILE_LOAD(p) _mm256_loadu_ps(p)
#define TILE_STORE(p, v) _mm256_storeu_ps((p), (v))
#define TILE_ALL(x) _mm256_set1_ps(x)
#define TILE_ADD(x, y, sum) _mm256_fmadd_ps((x), (y), (sum))
#else
typedef float TileVec;
enum { TILE_LANES = 1 };
#define TILE_LOAD(p) (*(p))
#define TILE_STORE(p, v) (*(p) = (v))
#define TILE_ALL(x) (x)
#define TILE_ADD(x, y, sum) ((x) * (y) + (sum))
#endif

enum { TILE_ROWS = TILE_LANES == 16 ? 8 : 6, TILE_COLUMNS = 2 * TILE_LANES };

/* c (or zero) + a b for a tile of constant size. */
__attribute__((always_inline)) static inline void tile_add(const int rows, const int vecs, int64_t k, const float *a,
                                                           int64_t ai, int64_t ak, const float *b, int64_t ldb,
                                                           bool more, float *c, int64_t ldc)
{
    TileVec sum[TILE_ROWS][2];

    for (int r = 0; r < rows; r++)
        for (int v = 0; v < vecs; v++)
            sum[r][v] = more ? TILE_LOAD(c + r * ldc + v * TILE_LANES) : TILE_ALL(0.0f);
    for (int64_t i = 0; i < k; i++, a += ak, b += ldb)
        for (int r = 0; r < rows; r++)
            for (int v = 0; v < vecs; v++)
                sum[r][v] = TILE_ADD(TILE_ALL(a[r * ai]), TILE_LOAD(b + v * TILE_LANES), sum[r][v]);
    for (int r = 0; r < rows; r++)
        for (int v = 0; v < vecs; v++)
            TILE_STORE(c + r * ldc + v * TILE_LANES, sum[r][v]);
}

/* The same of up to TILE_ROWS rows. */
static inline void tile_rows(int64_t rows, const int vecs, int64_t k, const float *a, int64_t ai, int64_t ak,
                             const float *b, int64_t ldb, bool more, float *c, int64_t ldc)
{
    switch (rows) {
    case 1: tile_add(1, vecs, k, a, ai, ak, b, ldb, more, c, ldc); break;
    case 2: tile_add(2, vecs, k, a, ai, ak, b, ldb, more, c, ldc); break;
    case 3: tile_add(3, vecs, k, a, ai, ak, b, ldb, more, c, ldc); break;
    case 4: tile_add(4, vecs, k, a, ai, ak, b, ldb, more, c, ldc); break;
    case 5: tile_add(5, vecs, k, a, ai, ak, b, ldb, more, c, ldc); break;
    case 6: tile_add(6, vecs, k, a, ai, ak, b, ldb, more, c, ldc); break;
    case 7: tile_add(TILE_ROWS - 1, vecs, k, a, ai, ak, b, ldb, more, c, ldc); break;
    default: tile_add(TILE_ROWS, vecs, k, a, ai, ak, b, ldb, more, c, ldc); break;
    }
}

/* c [m, n] = a b, or c + a b when `more`: element (i, k) of a stands at i * ai + k * ak, rows of b and c are
 * contiguous, n is a multiple of TILE_LANES.  Rows are divided evenly among tiles. */
static inline void tile_product(int64_t m, int64_t n, int64_t k, const float *a, int64_t ai, int64_t ak, const float *b,
                                int64_t ldb, bool more, float *c, int64_t ldc)
{
    const int64_t tiles = (m + TILE_ROWS - 1) / TILE_ROWS;

    for (int64_t j = 0; j < n;) {
        const bool wide = j + TILE_COLUMNS <= n;

        for (int64_t t = 0, i = 0, rows; t < tiles; t++, i += rows) {
            rows = (m - i + tiles - t - 1) / (tiles - t);
            if (wide)
                tile_rows(rows, 2, k, a + i * ai, ai, ak, b + j, ldb, more, c + i * ldc + j, ldc);
            else
                tile_rows(rows, 1, k, a + i * ai, ai, ak, b + j, ldb, more, c + i * ldc + j, ldc);
        }
        j += wide ? TILE_COLUMNS : TILE_LANES;
    }
}

#endif
