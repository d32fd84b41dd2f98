/* Kernels compiled at run time for devices that are not there, and their cache on disk: hits, damage, several
 * writers. */
#include "tests/plugin/plugin.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* As the engine generates them: a header, an expression, a loop over the grid. */
static const char *const source =
    "#include \"kernels/cuda/device/kernel.cuh\"\n"
    "KERNEL(chain_f16, (const f16 *a, const float *b, f16 *y, i64 n)) {\n"
    "    for (i64 i = blockIdx.x * (i64)blockDim.x + threadIdx.x; i < n; i += (i64)gridDim.x * blockDim.x)\n"
    "        y[i] = from_float<f16>(tanhf(to_float(a[i]) * b[i]));\n"
    "}\n"
    "KERNEL(copy_bf16, (const bf16 *x, bf16 *y, i64 n)) {\n"
    "    __shared__ float tile[256];\n"
    "    tile[threadIdx.x] = to_float(x[threadIdx.x]);\n"
    "    __syncthreads();\n"
    "    if (threadIdx.x < n) y[threadIdx.x] = from_float<bf16>(__shfl_xor_sync(0xffffffffu, tile[threadIdx.x], 1));\n"
    "}\n";

static int compile_both(const CudaDriver *driver, GpuDevice *d)
{
    GpuModule *m = NULL;
    GpuKernel *chain = NULL, *copy = NULL, *none = NULL;
    int good = d && PLUGIN_OK(driver, driver->compile(d, source, "sample", &m));

    if (!good)
        return 0;
    good = PLUGIN_OK(driver, driver->module_kernel(m, "chain_f16", &chain)) &&
           PLUGIN_OK(driver, driver->module_kernel(m, "copy_bf16", &copy));
    CU_ASSERT_PTR_NOT_EQUAL(chain, copy);
    PLUGIN_FAILS(driver, E_INTERNAL, "chain_f32", driver->module_kernel(m, "chain_f32", &none));
    driver->module_free(m);
    return good;
}

static void test_architectures(void)
{
    const CudaDriver *driver = plugin_driver();
    Folder cache;
    int n = 0;

    if (!driver || !folder_make(&cache))
        return;
    for (; plugin_capabilities[n]; n++) {
        GpuDevice *d = plugin_device(driver, plugin_capabilities[n], cache.path);

        compile_both(driver, d);
        driver->runtime.close(d);
    }
    CU_ASSERT_EQUAL(folder_list(&cache, NULL), n); /* one's code is never taken for another's */
    folder_remove(&cache);
}

/* Every header can be included alone. */
static void test_headers(void)
{
    const CudaDriver *driver = plugin_driver();
    GpuDevice *d = driver ? plugin_device(driver, plugin_capabilities[0], NULL) : NULL;
    FILE *list = popen("cd '" SOURCE_DIR "' && ls kernels/cuda/device/*.cuh", "r");
    char path[256], text[512];
    GpuModule *m;
    int n = 0;

    for (; d && list && fscanf(list, "%255s", path) == 1; n++) {
        snprintf(text, sizeof text, "#include \"%s\"\nextern \"C\" __global__ void k(int *x) { *x = 1; }\n", path);
        if (driver->compile(d, text, "header", &m))
            TEST_FAIL("%s", driver->runtime.message());
        else
            driver->module_free(m);
    }
    CU_ASSERT_TRUE(n > 0 && list && !pclose(list));
    if (driver)
        driver->runtime.close(d);
}

static void test_errors(void)
{
    const CudaDriver *driver = plugin_driver();
    GpuDevice *d = driver ? plugin_device(driver, plugin_capabilities[0], NULL) : NULL;
    GpuModule *m = NULL;

    if (!d)
        return;
    PLUGIN_FAILS(driver, E_INTERNAL, "wrong(2): error: identifier \"y\" is undefined",
                 driver->compile(d, "// a comment\n__global__ void k(int *x) { *x = y; }\n", "wrong", &m));
    PLUGIN_FAILS(driver, E_INTERNAL, "missing.cuh", driver->compile(d, "#include \"missing.cuh\"\n", "wrong", &m));
    PLUGIN_FAILS(driver, E_INTERNAL, "error", driver->compile(d, "}", "wrong", &m));
    CU_ASSERT_PTR_NULL(m);
    driver->runtime.close(d);
}

/* ---- the cache ---- */

typedef struct {
    char path[PATH_MAX];
    char *data;
    size_t n;
    ino_t inode;
} Entry;

/* The one file of a cache, with its bytes. */
static int entry_read(Entry *e, const Folder *cache)
{
    struct stat info;
    FILE *f;

    *e = (Entry){ .data = NULL };
    if (folder_list(cache, e->path) != 1 || stat(e->path, &info) || !(f = fopen(e->path, "rb"))) {
        TEST_FAIL("expected one file in %s", cache->path);
        return 0;
    }
    e->n = (size_t)info.st_size;
    e->inode = info.st_ino;
    e->data = malloc(e->n + 1);
    e->n = e->data ? fread(e->data, 1, e->n, f) : 0;
    fclose(f);
    return 1;
}

static void entry_write(const Entry *e, size_t n)
{
    FILE *f = fopen(e->path, "wb");

    CU_ASSERT_TRUE(f && fwrite(e->data, 1, n, f) == n);
    if (f)
        fclose(f);
}

/* What is written anew is another file. */
static void test_hit(void)
{
    const CudaDriver *driver = plugin_driver();
    GpuDevice *d;
    Folder cache;
    Entry first, second;

    if (!driver || !folder_make(&cache))
        return;
    d = plugin_device(driver, plugin_capabilities[0], cache.path);
    if (compile_both(driver, d) && entry_read(&first, &cache) && compile_both(driver, d) &&
        entry_read(&second, &cache)) {
        CU_ASSERT_EQUAL(first.inode, second.inode);
        free(first.data);
        free(second.data);
    }
    driver->runtime.close(d);
    folder_remove(&cache);
}

/* Does damage `kind` to the entry; false when there are no more kinds. */
static bool damage(Entry *e, int kind)
{
    switch (kind) {
    case 0: entry_write(e, 0); return true;
    case 1: entry_write(e, 20); return true;
    case 2: entry_write(e, e->n - 1); return true;
    case 3: e->data[e->n / 2] ^= 1; break;
    case 4: e->data[0] ^= 1; break;
    case 5: e->data[12] ^= 1; break;              /* the hash of the key */
    case 6: memset(e->data + 24, 0xff, 8); break; /* the length */
    case 7: e->data[33] ^= 0x40; break;           /* the hash of the code */
    default: return false;
    }
    entry_write(e, e->n);
    return true;
}

static void test_damage(void)
{
    const CudaDriver *driver = plugin_driver();
    GpuDevice *d;
    Folder cache;
    Entry whole, broken, mended;
    bool more = true;

    if (!driver || !folder_make(&cache))
        return;
    d = plugin_device(driver, plugin_capabilities[0], cache.path);
    more = compile_both(driver, d) && entry_read(&whole, &cache);
    for (int kind = 0; more; kind++) {
        if (!entry_read(&broken, &cache) || !(more = damage(&broken, kind)) || !compile_both(driver, d) ||
            !entry_read(&mended, &cache))
            break;
        CU_ASSERT_TRUE(mended.n == whole.n && !memcmp(mended.data, whole.data, whole.n));
        free(broken.data);
        free(mended.data);
    }
    CU_ASSERT_FALSE(more);
    free(broken.data);
    free(whole.data);
    driver->runtime.close(d);
    folder_remove(&cache);
}

/* Processes that compile the same at once: each gets its code, one whole file is left and no draft. */
static void test_writers(void)
{
    enum { WRITERS = 4 };
    const CudaDriver *driver = plugin_driver();
    Folder cache;
    Entry e;
    pid_t child[WRITERS];

    if (!driver || !folder_make(&cache))
        return;
    for (int i = 0; i < WRITERS; i++)
        if (!(child[i] = fork())) {
            GpuDevice *d = plugin_device(driver, plugin_capabilities[0], cache.path);
            int good = compile_both(driver, d) && compile_both(driver, d);

            _exit(!good);
        }
    for (int i = 0; i < WRITERS; i++) {
        int status = -1;

        CU_ASSERT_TRUE(waitpid(child[i], &status, 0) == child[i] && WIFEXITED(status) && !WEXITSTATUS(status));
    }
    if (entry_read(&e, &cache))
        free(e.data);
    folder_remove(&cache);
}

/* Does the code for a multiplication and an addition, as it lies in the cache, hold the text?  Of a device newer than
 * NVRTC it is PTX. */
static void check_sum(const CudaDriver *driver, bool exact, const char *text)
{
    GpuInfo info = plugin_gpu(990);
    GpuDevice *d = NULL;
    GpuModule *m;
    Folder cache;
    const GpuOptions opt = { .described = &info, .description = "{}", .exact = exact, .cache_dir = cache.path };
    Entry e;

    if (!folder_make(&cache))
        return;
    if (PLUGIN_OK(driver, driver->runtime.open(&d, 0, &opt)) &&
        PLUGIN_OK(driver, driver->compile(d, "extern \"C\" __global__ void k(float *x) { *x = x[1] * x[2] + x[3]; }\n",
                                          "sum", &m))) {
        driver->module_free(m);
        if (entry_read(&e, &cache)) {
            if (!e.data || !memmem(e.data, e.n, text, strlen(text)))
                TEST_FAIL("%s: no %s in the code", exact ? "exact" : "not exact", text);
            free(e.data);
        }
    }
    driver->runtime.close(d);
    folder_remove(&cache);
}

/* Exact: no multiplication and addition are one instruction.  Else they are. */
static void test_exact(void)
{
    const CudaDriver *driver = plugin_driver();

    if (!driver)
        return;
    check_sum(driver, false, "fma.rn.f32");
    check_sum(driver, true, "mul.rn.f32");
    check_sum(driver, true, "add.rn.f32");
}

/* A folder that cannot be made only costs time. */
static void test_no_folder(void)
{
    const CudaDriver *driver = plugin_driver();
    GpuDevice *d = driver ? plugin_device(driver, plugin_capabilities[0], "/dev/null/cache") : NULL;

    compile_both(driver, d);
    if (driver)
        driver->runtime.close(d);
}

/* Folders on the way are made. */
static void test_deep_folder(void)
{
    const CudaDriver *driver = plugin_driver();
    char path[128];
    Folder top, deep;
    GpuDevice *d;

    if (!driver || !folder_make(&top))
        return;
    snprintf(path, sizeof path, "%s/a", top.path);
    snprintf(deep.path, sizeof deep.path, "%.40s/a/b", top.path);
    d = plugin_device(driver, plugin_capabilities[0], deep.path);
    compile_both(driver, d);
    CU_ASSERT_EQUAL(folder_list(&deep, NULL), 1);
    driver->runtime.close(d);
    folder_remove(&deep);
    rmdir(path);
    folder_remove(&top);
}

DEFINE_SUITE(compile, { "each architecture", test_architectures }, { "each header", test_headers },
             { "errors", test_errors }, { "exact", test_exact }, { "hit", test_hit }, { "damage", test_damage },
             { "writers", test_writers }, { "no folder", test_no_folder }, { "deep folder", test_deep_folder });
