/* Stands in for the CUDA driver (libcuda.so.1) on a machine that has none, for described devices.
 *
 * cuDNN compiles some of its engines at run time, attention among them, and then loads their code.  It needs no device
 * for the compiling, but asks the driver to load.  Here loading succeeds and gives handles that nothing can be done
 * with; everything else says that there is no device.  Built as a library of the driver's name, which the plug-in loads
 * only when the real one is missing (cudnn.c).  The functions are those that cuDNN 9 looks up; arguments that are not
 * looked at are left out of the definitions, as the calling convention allows. */

#define DRIVER __attribute__((visibility("default")))
enum { SUCCESS = 0, NO_DEVICE = 100 }; /* CUresult */

DRIVER int cuLibraryLoadData(void **library, void *code);
DRIVER int cuLibraryGetKernel(void **kernel, void *library);
DRIVER int cuLibraryUnload(void);
DRIVER int cuDriverGetVersion(int *version);

int cuLibraryLoadData(void **library, void *code)
{
    *library = code;
    return SUCCESS;
}

int cuLibraryGetKernel(void **kernel, void *library)
{
    *kernel = library;
    return SUCCESS;
}

int cuLibraryUnload(void) { return SUCCESS; }

int cuDriverGetVersion(int *version)
{
    *version = 0;
    return SUCCESS;
}

#define WITHOUT_DEVICE(name) \
    DRIVER int name(void);   \
    int name(void) { return NO_DEVICE; }
WITHOUT_DEVICE(cuInit)
WITHOUT_DEVICE(cuCtxGetCurrent)
WITHOUT_DEVICE(cuCtxGetLimit)
WITHOUT_DEVICE(cuCtxPopCurrent)
WITHOUT_DEVICE(cuCtxPushCurrent)
WITHOUT_DEVICE(cuDeviceGet)
WITHOUT_DEVICE(cuDeviceGetAttribute)
WITHOUT_DEVICE(cuDeviceGetCount)
WITHOUT_DEVICE(cuFuncGetName)
WITHOUT_DEVICE(cuFuncSetAttribute)
WITHOUT_DEVICE(cuGetErrorName)
WITHOUT_DEVICE(cuGetErrorString)
WITHOUT_DEVICE(cuKernelGetAttribute)
WITHOUT_DEVICE(cuKernelSetAttribute)
WITHOUT_DEVICE(cuLaunchCooperativeKernel)
WITHOUT_DEVICE(cuLaunchKernel)
WITHOUT_DEVICE(cuLaunchKernelEx)
WITHOUT_DEVICE(cuLibraryLoadFromFile)
WITHOUT_DEVICE(cuLinkAddData)
WITHOUT_DEVICE(cuLinkComplete)
WITHOUT_DEVICE(cuLinkCreate)
WITHOUT_DEVICE(cuLinkDestroy)
WITHOUT_DEVICE(cuModuleLoadData)
WITHOUT_DEVICE(cuOccupancyMaxActiveClusters)
WITHOUT_DEVICE(cuOccupancyMaxPotentialClusterSize)
WITHOUT_DEVICE(cuStreamGetCtx)
