/* Kernels compiled at run time by NVRTC, with the headers of kernels/cuda/device at hand, kept on disk.
 *
 * The key of the cache is all that decides the machine code: NVRTC's version, the architecture and options, all
 * headers, the source. For a device newer than NVRTC the result is PTX, which the driver compiles. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/plugin/plugin.h"

struct GpuModule {
    GpuDevice *device;
    cudaLibrary_t library; /* NULL when described */
    void *code;            /* owned */
    size_t n_code;
    ImageKind kind;
    GpuKernel *kernels;
};

typedef struct {
    ImageKind kind;
    char arch[48];    /* "--gpu-architecture=sm_90" */
    const char *fmad; /* "--fmad=true" */
} Target;

/* The newest architecture that NVRTC knows and the device is not older than; its machine code when the device runs
 * that. */
static Status target_of(Target *t, const GpuDevice *d)
{
    int n, best = 0, *known;
    Status st;

    TRY(nvrtc_check("nvrtcGetNumSupportedArchs", nvrtcGetNumSupportedArchs(&n)));
    if (!(known = calloc((size_t)n + 1, sizeof *known)))
        return FAIL_NOMEM();
    if (!(st = nvrtc_check("nvrtcGetSupportedArchs", nvrtcGetSupportedArchs(known))))
        for (int i = 0; i < n; i++)
            if (known[i] <= d->info.capability && known[i] > best)
                best = known[i];
    free(known);
    TRY(st);
    if (!best)
        return FAIL(E_DEVICE, "%s: NVRTC compiles for no device of compute capability %d", d->label,
                    d->info.capability);
    t->kind = best / 10 == d->info.capability / 10 ? IMAGE_cubin : IMAGE_ptx;
    snprintf(t->arch, sizeof t->arch, "--gpu-architecture=%s_%d", t->kind == IMAGE_cubin ? "sm" : "compute", best);
    return ST_OK;
}

/* All that the code depends on, as one text; malloc'ed. */
static Status key_of(char **out, const Target *t, const char *source)
{
    int major, minor;
    size_t size = 128 + strlen(source), len;
    char *key;

    TRY(nvrtc_check("nvrtcVersion", nvrtcVersion(&major, &minor)));
    for (size_t i = 0; i < n_device_headers; i++)
        size += strlen(device_headers[i].name) + strlen(device_headers[i].text) + 2;
    if (!(key = malloc(size)))
        return FAIL_NOMEM();
    len = (size_t)snprintf(key, size, "NVRTC %d.%d %s %s\n", major, minor, t->arch, t->fmad);
    for (size_t i = 0; i < n_device_headers; i++)
        len += (size_t)snprintf(key + len, size - len, "%s\n%s\n", device_headers[i].name, device_headers[i].text);
    snprintf(key + len, size - len, "%s", source);
    *out = key;
    return ST_OK;
}

/* E_INTERNAL with the first line of NVRTC's log that reports an error. */
static Status compile_error(nvrtcProgram program, const char *name, nvrtcResult e)
{
    size_t n = 0;
    char *text = NULL, *line = NULL;
    Status st;

    if (nvrtcGetProgramLogSize(program, &n) == NVRTC_SUCCESS && n && (text = calloc(n + 1, 1)) &&
        nvrtcGetProgramLog(program, text) == NVRTC_SUCCESS)
        line = strstr(text, "error");
    while (line && line > text && line[-1] != '\n')
        line--;
    if (line)
        line[strcspn(line, "\n")] = '\0';
    st = FAIL(E_INTERNAL, "%s: NVRTC: %s", name, line ? line : nvrtcGetErrorString(e));
    free(text);
    return st;
}

static Status result_of(nvrtcProgram program, ImageKind kind, void **out, size_t *n)
{
    bool cubin = kind == IMAGE_cubin;
    size_t size;
    char *code;
    Status st;

    TRY(nvrtc_check("nvrtcGetCUBINSize", cubin ? nvrtcGetCUBINSize(program, &size) : nvrtcGetPTXSize(program, &size)));
    if (!(code = malloc(size + 1)))
        return FAIL_NOMEM();
    code[size] = '\0';
    if ((st = nvrtc_check("nvrtcGetCUBIN", cubin ? nvrtcGetCUBIN(program, code) : nvrtcGetPTX(program, code)))) {
        free(code);
        return st;
    }
    *out = code;
    *n = size;
    return ST_OK;
}

static Status compile_source(const Target *t, const char *source, const char *name, void **out, size_t *n)
{
    const char *const options[] = { t->arch, t->fmad, "--std=c++17" };
    const char **text = calloc(2 * (n_device_headers + 1), sizeof *text),
               **path = text ? text + n_device_headers + 1 : NULL;
    nvrtcProgram program = NULL;
    nvrtcResult e;
    Status st;

    if (!text)
        return FAIL_NOMEM();
    for (size_t i = 0; i < n_device_headers; i++) {
        text[i] = device_headers[i].text;
        path[i] = device_headers[i].name;
    }
    TRY_TO(done, st,
           nvrtc_check("nvrtcCreateProgram",
                       nvrtcCreateProgram(&program, source, name, (int)n_device_headers, text, path)));
    e = nvrtcCompileProgram(program, sizeof options / sizeof *options, options);
    TRY_TO(done, st,
           e == NVRTC_ERROR_COMPILATION ? compile_error(program, name, e) : nvrtc_check("nvrtcCompileProgram", e));
    st = result_of(program, t->kind, out, n);
done:
    nvrtcDestroyProgram(&program);
    free(text);
    return st;
}

/* From the cache, or compiled and put there. */
static Status code_of(GpuModule *m, const Target *t, const char *source, const char *name)
{
    GpuDevice *d = m->device;
    char *key;
    Status st;

    TRY(key_of(&key, t, source));
    TRY_TO(done, st, cache_read(d, "kernel", key, strlen(key), &m->code, &m->n_code));
    if (m->code)
        goto done;
    TRY_TO(done, st, compile_source(t, source, name, &m->code, &m->n_code));
    cache_write(d, "kernel", key, strlen(key), m->code, m->n_code);
done:
    free(key);
    return st;
}

Status module_compile(GpuDevice *d, const char *source, const char *name, GpuModule **out)
{
    GpuModule *m = calloc(1, sizeof *m);
    Target t;
    Status st;

    if (!m)
        return FAIL_NOMEM();
    m->device = d;
    TRY_TO(fail, st, target_of(&t, d));
    t.fmad = d->exact ? "--fmad=false" : "--fmad=true";
    m->kind = t.kind;
    TRY_TO(fail, st, code_of(m, &t, source, name));
    if (d->index >= 0) {
        TRY_TO(fail, st, device_use(d));
        TRY_TO(fail, st,
               cudart_check(d, "cudaLibraryLoadData",
                            cudaLibraryLoadData(&m->library, m->code, NULL, NULL, 0, NULL, NULL, 0)));
    }
    *out = m;
    return ST_OK;
fail:
    module_free(m);
    return st;
}

Status module_kernel(GpuModule *m, const char *name, GpuKernel **out)
{
    GpuKernel *known = kernel_listed(m->kernels, name);

    if (known) {
        *out = known;
        return ST_OK;
    }
    if (!image_has_kernel(m->code, m->n_code, m->kind, name))
        return FAIL(E_INTERNAL, "%s: the compiled source has no kernel \"%s\"", m->device->label, name);
    return kernel_from(&m->kernels, m->device, m->library, name, out);
}

void module_free(GpuModule *m)
{
    if (!m)
        return;
    if (m->library && device_frees(m->device))
        (void)cudaLibraryUnload(m->library);
    kernel_list_free(m->kernels);
    free(m->code);
    free(m);
}
