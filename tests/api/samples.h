/* Samples of any structure, made of numbers, for tests of what becomes of them. */
#ifndef DPX_TEST_SAMPLES_H
#define DPX_TEST_SAMPLES_H

#include "tests/api/api.h"

enum { MOST = 8 };

/* What a test has made is freed at its end by free_made. */
dpx_data *keep(dpx_data *d);
void free_made(void);
dpx_data *counted(dpx_dtype dtype, int rank, const int64_t *dim, double times);
dpx_data *scalar(float v);
dpx_data *list_of(const dpx_data *a, const dpx_data *b);
dpx_data *map_of(const char *k, const dpx_data *a, const char *l, const dpx_data *b);
dpx_data *contained(const dpx_data *content, int stack, double padding, int pad_dims, int cpu_only);
const dpx_data *collated(int each, int n, dpx_data *const *sample);

#define DIMS(...) \
    (int)(sizeof((int64_t[]){ __VA_ARGS__ }) / sizeof(int64_t)), (const int64_t[]) { __VA_ARGS__ }
#define FLOATS(times, ...) counted(DPX_FLOAT32, DIMS(__VA_ARGS__), times)
#define STACKED(content) contained(content, 1, 0, 2, 0)
#define COLLATE(each, ...) \
    collated(each, (int)(sizeof((dpx_data *[]){ __VA_ARGS__ }) / sizeof(dpx_data *)), (dpx_data *[]){ __VA_ARGS__ })

#endif
