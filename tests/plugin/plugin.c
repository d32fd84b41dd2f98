/* What tests/plugin/plugin.h declares. */
#include "tests/plugin/plugin.h"

#include <dirent.h>
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const int plugin_capabilities[] = { CUDA_CAPABILITIES, 0 };

const CudaDriver *plugin_driver(void)
{
    void *library = dlopen(PLUGIN, RTLD_NOW | RTLD_LOCAL), *symbol;
    CudaDriverEntry *entry;

    if (!library || !(symbol = dlsym(library, CUDA_DRIVER_SYMBOL))) {
        TEST_FAIL("%s", dlerror());
        return NULL;
    }
    memcpy(&entry, &symbol, sizeof entry);
    return entry();
}

int plugin_ok(const char *file, int line, const CudaDriver *driver, Status st)
{
    if (st)
        test_fail(file, line, "%s: %s", status_name(st), driver->runtime.message());
    return st == ST_OK;
}

int plugin_fails(const char *file, int line, const CudaDriver *driver, Status code, const char *text, Status st)
{
    int good = st == code && strstr(driver->runtime.message(), text);

    if (!good)
        test_fail(file, line, "expected %s with \"%s\", found %s: %s", status_name(code), text, status_name(st),
                  driver->runtime.message());
    return good;
}

/* NVIDIA's data sheets of A100 SXM 80 GB, H100 SXM, B200; the programming guide's table for shared memory. */
GpuInfo plugin_gpu(int capability)
{
    GpuInfo g = { .name = "NVIDIA H100 80GB HBM3",
                  .capability = capability,
                  .multiprocessors = 132,
                  .warp_size = 32,
                  .max_threads_per_block = 1024,
                  .max_threads_per_multiprocessor = 2048,
                  .memory = INT64_C(80) << 30,
                  .l2 = 50 << 20,
                  .shared_per_block = 227 << 10,
                  .shared_per_multiprocessor = 228 << 10 };

    if (capability < 90) {
        snprintf(g.name, sizeof g.name, "NVIDIA A100-SXM4-80GB");
        g.multiprocessors = 108;
        g.l2 = 40 << 20;
        g.shared_per_block = 163 << 10;
        g.shared_per_multiprocessor = 164 << 10;
    } else if (capability >= 100) {
        snprintf(g.name, sizeof g.name, "NVIDIA B200");
        g.multiprocessors = 148;
        g.l2 = 126 << 20;
        g.memory = INT64_C(180) << 30;
    }
    return g;
}

GpuDevice *plugin_device(const CudaDriver *driver, int capability, const char *cache_dir)
{
    GpuInfo info = plugin_gpu(capability);
    GpuOptions opt = { .described = &info, .description = "{}", .cache_dir = cache_dir };
    GpuDevice *d = NULL;

    return PLUGIN_OK(driver, driver->runtime.open(&d, 0, &opt)) ? d : NULL;
}

int folder_make(Folder *f)
{
    snprintf(f->path, sizeof f->path, "/tmp/dpexec-plugin-XXXXXX");
    if (mkdtemp(f->path))
        return 1;
    TEST_FAIL("no folder %s", f->path);
    return 0;
}

static int visible(const struct dirent *e) { return e->d_name[0] != '.'; }

int folder_list(const Folder *f, char *path)
{
    struct dirent **found;
    int n = scandir(f->path, &found, visible, alphasort);

    for (int i = 0; i < n; i++) {
        if (!i && path)
            snprintf(path, PATH_MAX, "%s/%s", f->path, found[i]->d_name);
        free(found[i]);
    }
    if (n >= 0)
        free(found);
    return n;
}

void folder_remove(const Folder *f)
{
    struct dirent **found;
    int n = scandir(f->path, &found, visible, NULL);

    for (int i = 0; i < n; i++) {
        char path[PATH_MAX];

        snprintf(path, sizeof path, "%s/%s", f->path, found[i]->d_name);
        remove(path);
        free(found[i]);
    }
    if (n >= 0)
        free(found);
    rmdir(f->path);
}

static bool is_machine_code(const char *path)
{
    char data[128] = { 0 };
    FILE *f = fopen(path, "rb");
    size_t n = f ? fread(data, 1, sizeof data, f) : 0;

    if (f)
        fclose(f);
    return memmem(data, n, "\177ELF", 4);
}

int folder_machine_code(const Folder *f)
{
    struct dirent **found;
    int n = scandir(f->path, &found, visible, NULL);

    for (int i = 0; i < n; i++) {
        char path[PATH_MAX];

        snprintf(path, sizeof path, "%s/%s", f->path, found[i]->d_name);
        if (!is_machine_code(path))
            TEST_FAIL("%s is no machine code", path);
        free(found[i]);
    }
    if (n >= 0)
        free(found);
    return n;
}
