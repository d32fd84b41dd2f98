/* What the tests of libdpexec_cuda.so share: the table of functions of the plug-in that was built, described devices,
 * folders. */
#ifndef DPX_TEST_PLUGIN_H
#define DPX_TEST_PLUGIN_H

#include "kernels/cuda/driver.h"
#include "tests/harness/test.h"

#define PLUGIN BUILD_DIR "/libdpexec_cuda.so"

/* The plug-in's table; a failed check and NULL when it cannot be loaded. */
const CudaDriver *plugin_driver(void);

/* A device of the data sheets' numbers, for compute capability 80 (A100), 90 (H100), 100 (B200) and others alike. */
GpuInfo plugin_gpu(int capability);
/* Opens it, with a cache in `cache_dir` or none (NULL); NULL after a failed check.  driver->runtime.close() ends it. */
GpuDevice *plugin_device(const CudaDriver *driver, int capability, const char *cache_dir);

/* The capabilities that own kernels were compiled for, ascending, ended by 0. */
extern const int plugin_capabilities[];

/* As CHECK_OK and CHECK_FAILS of the harness, with the plug-in's own message. */
#define PLUGIN_OK(driver, e) plugin_ok(__FILE__, __LINE__, (driver), (e))
int plugin_ok(const char *file, int line, const CudaDriver *driver, Status st);
#define PLUGIN_FAILS(driver, code, text, e) plugin_fails(__FILE__, __LINE__, (driver), (code), (text), (e))
int plugin_fails(const char *file, int line, const CudaDriver *driver, Status code, const char *text, Status st);

/* A fresh folder; folder_remove() removes it with the files in it. */
typedef struct {
    char path[64];
} Folder;
int folder_make(Folder *f);
void folder_remove(const Folder *f);
/* The number of files in it; the path of the first in the order of names in `path` (of PATH_MAX bytes) unless NULL. */
int folder_list(const Folder *f, char *path);
/* The same of a cache; a failed check for each file that is not a cubin behind the cache's header. */
int folder_machine_code(const Folder *f);

#endif
