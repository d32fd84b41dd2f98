/* How many images a second the reading of images:DIR makes, without training: bench_images SOURCE SIZE WORKERS EPOCHS
 * [AUGMENT].  Prints one JSON object; bench/images.py compares with PyTorch. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "tools/feed/batch_loader.h"

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static Status measure(const char *source, int size, int workers, int epochs, const char *augment)
{
    const dpx_info in = { .name = "x", .dtype = DPX_FLOAT32, .rank = 4, .dim = { -1, 3, size, size } };
    const SourceContext c = { .input = &in,
                              .inputs = 1,
                              .training = true,
                              .augment = augment,
                              .norm = { 3, 1, { 0.485, 0.456, 0.406 }, { 0.229, 0.224, 0.225 } } };
    Dataset *d;
    Loader *l;

    TRY(dataset_open(&d, source, &c));
    const Field field[] = { { .name = "x", .array = &d->array[0], .dtype = DPX_FLOAT32 },
                            { .name = "target", .array = &d->array[1], .dtype = DPX_INT64 } };
    TRY(loader_create(&l, d, field, 2,
                      (LoaderOptions){ .batch_size = 64, .shuffle = true, .training = true, .workers = workers }));
    printf("{\"images\":%lld,\"seconds\":[", (long long)d->samples);
    for (int e = 0; e < epochs; e++) {
        const double start = now();

        TRY(loader_start(l, e, 0));
        while (loader_next(l)) {}
        TRY(loader_status(l));
        printf("%s%.4f", e ? "," : "", now() - start);
    }
    printf("]}\n");
    loader_free(l);
    dataset_free(d);
    return ST_OK;
}

int main(int argc, char **argv)
{
    if (argc < 5) {
        fprintf(stderr, "usage: bench_images SOURCE SIZE WORKERS EPOCHS [AUGMENT]\n");
        return 2;
    }
    if (measure(argv[1], atoi(argv[2]), atoi(argv[3]), atoi(argv[4]), argc > 5 ? argv[5] : NULL)) {
        fprintf(stderr, "bench_images: %s\n", status_message());
        return 1;
    }
    return 0;
}
