/* Cache of decoded images: one mapping with a place for each image, and the state of each place.
 *
 * A place is empty, or being filled by the thread that set it to BUSY, or holds an image of the size in its state.  The
 * release of that size and the acquire of image_cache_find order the pixels between threads. */
#include "tools/data/image_cache.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tools/data/data.h"

enum { EMPTY = 0, BUSY = 1 }; /* else width << 16 | height */

struct ImageCache {
    unsigned char *pixel;
    size_t size;
    int64_t *at;          /* [n + 1] where each place begins */
    _Atomic uint32_t *is; /* [n] */
};

void image_cache_free(ImageCache *c)
{
    if (!c)
        return;
    if (c->pixel)
        munmap(c->pixel, c->size);
    free(c->at);
    free(c->is);
    free(c);
}

/* Maps memory for the cache. */
static Status map_cache(ImageCache *c, bool disk, const char *source)
{
    const long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    FILE *f = NULL;
    void *p = MAP_FAILED;

    if (disk) {
        TRY(temporary_open(&f, c->size, source));
        if (!ftruncate(fileno(f), (off_t)c->size))
            p = mmap(NULL, c->size, PROT_READ | PROT_WRITE, MAP_SHARED, fileno(f), 0);
        fclose(f);
    } else if (pages > 0 && page > 0 && c->size / (size_t)page >= (size_t)pages) {
        return FAIL(E_INVALID, "%s: cache=ram needs %zu MiB, this machine has %zu: give cache=disk", source,
                    c->size >> 20, ((size_t)pages * (size_t)page) >> 20);
    } else {
        p = mmap(NULL, c->size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    }
    if (p == MAP_FAILED)
        return FAIL(E_IO, "%s: cannot map %zu MiB for the cache: %s", source, c->size >> 20, strerror(errno));
    c->pixel = p;
    return ST_OK;
}

Status image_cache_open(ImageCache **out, const int64_t *bytes, int64_t n, bool disk, const char *source)
{
    ImageCache *c = calloc(1, sizeof *c);
    Status st;

    if (c) {
        c->at = malloc(((size_t)n + 1) * sizeof *c->at);
        c->is = calloc((size_t)n + 1, sizeof *c->is);
    }
    if (!c || !c->at || !c->is) {
        image_cache_free(c);
        return FAIL_NOMEM();
    }
    c->at[0] = 0;
    for (int64_t i = 0; i < n; i++)
        c->at[i + 1] = c->at[i] + bytes[i];
    c->size = (size_t)c->at[n] + 1;
    if ((st = map_cache(c, disk, source)))
        image_cache_free(c);
    else
        *out = c;
    return st;
}

bool image_cache_find(const ImageCache *c, int64_t i, int channels, Image *out)
{
    const uint32_t is = atomic_load_explicit(&c->is[i], memory_order_acquire);

    if (is == EMPTY || is == BUSY)
        return false;
    *out = (Image){
        .width = (int)(is >> 16), .height = (int)(is & 0xffff), .channels = channels, .pixel = c->pixel + c->at[i]
    };
    return true;
}

void image_cache_store(ImageCache *c, int64_t i, const Image *image)
{
    const size_t n = (size_t)image->width * (size_t)image->height * (size_t)image->channels;
    uint32_t empty = EMPTY;

    if (n > (size_t)(c->at[i + 1] - c->at[i]) || !atomic_compare_exchange_strong(&c->is[i], &empty, BUSY))
        return;
    memcpy(c->pixel + c->at[i], image->pixel, n);
    atomic_store_explicit(&c->is[i], (uint32_t)image->width << 16 | (uint32_t)image->height, memory_order_release);
}
