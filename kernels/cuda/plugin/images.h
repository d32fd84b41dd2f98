/* The files embedded in the plug-in: machine code of kernels/cuda/device for each architecture, and its headers as
 * text. */
#ifndef DPX_CUDA_IMAGES_H
#define DPX_CUDA_IMAGES_H

#include <stdbool.h>
#include <stddef.h>

typedef enum { IMAGE_cubin, IMAGE_ptx } ImageKind;

typedef struct {
    const char *source; /* "softmax": of kernels/cuda/device/softmax.cu */
    int capability;     /* 90: compute capability 9.0 */
    ImageKind kind;
    const unsigned char *data, *end;
} DeviceImage;

typedef struct {
    const char *name; /* "kernels/cuda/device/kernel.cuh", as sources include it */
    const char *text; /* ends with '\0' */
} DeviceHeader;

extern const DeviceImage device_images[];
extern const size_t n_device_images;
extern const DeviceHeader device_headers[];
extern const size_t n_device_headers;

/* Whether machine code or PTX has a kernel of this name. */
bool image_has_kernel(const void *code, size_t bytes, ImageKind kind, const char *name);

#endif
