/* Own kernels: the embedded images that fit a device, kernels found in them by name, launches.
 *
 * Machine code runs on devices of its major capability from its minor one on; for later devices the driver compiles the
 * newest PTX.  On a described device nothing is loaded: names are looked up in the images themselves. */
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/plugin/plugin.h"

enum { SHARED_WITHOUT_ASKING = 48 * 1024 };

static size_t image_bytes(const DeviceImage *i) { return (size_t)(i->end - i->data); }

static bool kernels_fits(const DeviceImage *i, int capability)
{
    return i->capability <= capability && (i->kind == IMAGE_ptx || i->capability / 10 == capability / 10);
}

/* Machine code before PTX, then the newer. */
static bool better(const DeviceImage *a, const DeviceImage *b)
{
    return a->kind != b->kind ? a->kind == IMAGE_cubin : a->capability > b->capability;
}

static Status none_fits(const GpuDevice *d)
{
    return FAIL(E_DEVICE, "%s: %s has compute capability %d.%d; own kernels are compiled for %d.%d and newer", d->label,
                d->info.name, d->info.capability / 10, d->info.capability % 10, device_images[0].capability / 10,
                device_images[0].capability % 10);
}

/* The images of one source stand together.  A described device for which there are none can still plan and compile. */
static Status choose_images(GpuDevice *d)
{
    if (!(d->image = calloc(n_device_images + 1, sizeof *d->image)))
        return FAIL_NOMEM();
    for (size_t i = 0; i < n_device_images;) {
        const DeviceImage *best = NULL, *first = &device_images[i];

        for (; i < n_device_images && !strcmp(device_images[i].source, first->source); i++)
            if (kernels_fits(&device_images[i], d->info.capability) && (!best || better(&device_images[i], best)))
                best = &device_images[i];
        if (best)
            d->image[d->n_image++] = best;
        else if (d->index >= 0)
            return none_fits(d);
    }
    return ST_OK;
}

Status kernels_open(GpuDevice *d)
{
    TRY(choose_images(d));
    if (d->index < 0)
        return ST_OK;
    if (!(d->library = calloc(d->n_image + 1, sizeof *d->library)))
        return FAIL_NOMEM();
    for (size_t i = 0; i < d->n_image; i++)
        TRY(status_prefix(
            cudart_check(d, "cudaLibraryLoadData",
                         cudaLibraryLoadData(&d->library[i], d->image[i]->data, NULL, NULL, 0, NULL, NULL, 0)),
            "%s", d->image[i]->source));
    return ST_OK;
}

void kernels_close(GpuDevice *d)
{
    for (size_t i = 0; d->library && i < d->n_image; i++)
        if (d->library[i])
            (void)cudaLibraryUnload(d->library[i]);
    kernel_list_free(d->kernels);
    free(d->library);
    free(d->image);
}

GpuKernel *kernel_listed(GpuKernel *list, const char *name)
{
    while (list && strcmp(list->name, name))
        list = list->next;
    return list;
}

void kernel_list_free(GpuKernel *list)
{
    while (list) {
        GpuKernel *next = list->next;

        free(list);
        list = next;
    }
}

Status kernel_from(GpuKernel **list, GpuDevice *d, cudaLibrary_t library, const char *name, GpuKernel **out)
{
    size_t len = strlen(name) + 1;
    cudaKernel_t handle = NULL;
    GpuKernel *k;

    if (library)
        TRY_CUDART(d, cudaLibraryGetKernel(&handle, library, name));
    if (!(k = malloc(sizeof *k + len)))
        return FAIL_NOMEM();
    *k = (GpuKernel){ .next = *list, .device = d, .kernel = handle };
    memcpy(k->name, name, len);
    *out = *list = k;
    return ST_OK;
}

Status kernel_find(GpuDevice *d, const char *name, GpuKernel **out)
{
    GpuKernel *known = kernel_listed(d->kernels, name);

    if (known) {
        *out = known;
        return ST_OK;
    }
    for (size_t i = 0; i < d->n_image; i++)
        if (image_has_kernel(d->image[i]->data, image_bytes(d->image[i]), d->image[i]->kind, name))
            return kernel_from(&d->kernels, d, d->library ? d->library[i] : NULL, name, out);
    if (!d->n_image && n_device_images)
        return none_fits(d);
    return FAIL(E_INTERNAL, "%s: there is no kernel \"%s\" in kernels/cuda/device", d->label, name);
}

Status kernel_shared(GpuKernel *k, size_t bytes)
{
    GpuDevice *d = k->device;

    if ((int64_t)bytes > d->info.shared_per_block)
        return FAIL(E_UNSUPPORTED, "%s: kernel %s wants %zu bytes of shared memory, a block has at most %lld", d->label,
                    k->name, bytes, (long long)d->info.shared_per_block);
    if (!k->kernel || bytes <= SHARED_WITHOUT_ASKING)
        return ST_OK;
    TRY(device_use(d));
    TRY_CUDART(d, cudaKernelSetAttributeForDevice(k->kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes,
                                                  d->index));
    return ST_OK;
}

Status kernel_launch(GpuStream *s, GpuKernel *k, const unsigned grid[3], const unsigned block[3], size_t shared,
                     void *const *args)
{
    cudaLaunchConfig_t config = {
        .gridDim = { grid[0], grid[1], grid[2] },
        .blockDim = { block[0], block[1], block[2] },
        .dynamicSmemBytes = shared,
        .stream = s->stream,
    };
    cudaError_t e;

    TRY(device_use(s->device));
    e = cudaLaunchKernelExC(&config, (const void *)k->kernel, (void **)args);
    if (e != cudaSuccess)
        return status_prefix(cudart_check(s->device, "cudaLaunchKernelExC", e),
                             "kernel %s, grid %u,%u,%u, block %u,%u,%u", k->name, grid[0], grid[1], grid[2], block[0],
                             block[1], block[2]);
    return ST_OK;
}
