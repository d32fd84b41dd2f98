/* Samples of any structure for tests. */
#include "tests/api/samples.h"

/* What a test has made, freed at its end. */
static dpx_data *made[256];
static int n_made;

dpx_data *keep(dpx_data *d)
{
    CU_ASSERT_FATAL(d != NULL && n_made < 256);
    return made[n_made++] = d;
}

void free_made(void)
{
    while (n_made)
        dpx_data_free(made[--n_made]);
}

/* 1, 2, 3 ... times `times`. */
dpx_data *counted(dpx_dtype dtype, int rank, const int64_t *dim, double times)
{
    static double f64[4096];
    static float f32[4096];
    static int64_t i64[4096];
    static uint8_t u8[4096];
    dpx_tensor t = { .dtype = dtype, .rank = rank };
    dpx_data *d = NULL;

    for (int i = 0; i < rank; i++)
        t.dim[i] = dim[i];
    for (int i = 0; i < 4096; i++) {
        f64[i] = times * (i + 1);
        f32[i] = (float)f64[i];
        i64[i] = (int64_t)f64[i];
        u8[i] = (uint8_t)(f64[i] < 256 ? f64[i] : 0);
    }
    t.data = dtype == DPX_FLOAT64   ? (void *)f64
             : dtype == DPX_FLOAT32 ? (void *)f32
             : dtype == DPX_INT64   ? (void *)i64
                                    : (void *)u8;
    CHECK_DPX(dpx_data_tensor(&d, &t));
    return keep(d);
}

dpx_data *scalar(float v)
{
    dpx_data *d = NULL;

    CHECK_DPX(dpx_data_tensor(&d, &(dpx_tensor){ .dtype = DPX_FLOAT32, .data = &v }));
    return keep(d);
}

dpx_data *list_of(const dpx_data *a, const dpx_data *b)
{
    dpx_data *d = NULL;

    CHECK_DPX(dpx_data_list(&d, (const dpx_data *[]){ a, b }, !!a + !!b));
    return keep(d);
}

dpx_data *map_of(const char *k, const dpx_data *a, const char *l, const dpx_data *b)
{
    dpx_data *d = NULL;

    CHECK_DPX(dpx_data_map(&d, (const char *[]){ k, l }, (const dpx_data *[]){ a, b }, 1 + !!b));
    return keep(d);
}

/* How a test's containers are; what is not said is the default. */
dpx_data *contained(const dpx_data *content, int stack, double padding, int pad_dims, int cpu_only)
{
    dpx_data *d = NULL;
    dpx_container how = DPX_CONTAINER_DEFAULTS;

    how.stack = stack;
    how.padding_value = padding;
    how.pad_dims = pad_dims;
    how.cpu_only = cpu_only;
    CHECK_DPX(dpx_data_container(&d, content, &how));
    return keep(d);
}

const dpx_data *collated(int each, int n, dpx_data *const *sample)
{
    dpx_data *d = NULL;

    CHECK_DPX(dpx_collate(&d, (const dpx_data *const *)sample, n, each));
    return keep(d);
}
