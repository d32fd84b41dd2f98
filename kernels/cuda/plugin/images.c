/* Embeds the files that images.list (written by cmake/cuda.cmake) names, each ended by a zero byte: PTX and headers are
 * text.
 *
 * By the assembler's .incbin: gcc and clang both have it, and no tool has to write megabytes of C. */
#include "kernels/cuda/plugin/images.h"

#define EMBED(ident, path)                                                                                           \
    __asm__(".pushsection .rodata\n\t.balign 64\nembedded_" #ident ":\n\t.incbin \"" path "\"\nembedded_end_" #ident \
            ":\n\t"                                                                                                  \
            ".byte 0\n\t.popsection");                                                                               \
    extern const unsigned char embedded_##ident[], embedded_end_##ident[];

#define IMAGE(ident, source, capability, kind, path) EMBED(ident, path)
#define HEADER(ident, name, path) EMBED(header_##ident, path)
#include "images.list"
#undef IMAGE
#undef HEADER

#define IMAGE(ident, source, capability, kind, path) \
    { source, capability, IMAGE_##kind, embedded_##ident, embedded_end_##ident },
#define HEADER(ident, name, path)
const DeviceImage device_images[] = {
#include "images.list"
    { 0 }
};
#undef IMAGE
#undef HEADER

#define IMAGE(ident, source, capability, kind, path)
#define HEADER(ident, name, path) { name, (const char *)embedded_header_##ident },
const DeviceHeader device_headers[] = {
#include "images.list"
    { 0 }
};

const size_t n_device_images = sizeof device_images / sizeof *device_images - 1;
const size_t n_device_headers = sizeof device_headers / sizeof *device_headers - 1;
