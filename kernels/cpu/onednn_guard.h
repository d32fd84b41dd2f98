/* oneDNN's functions behind a guard that returns their C++ exceptions as a status.
 *
 * oneDNN is written in C++ and lets std::bad_alloc pass through its C functions, into frames that cannot catch it,
 * which ends the process.  `onednn.F(...)` is dnnl_F(...) with dnnl_out_of_memory for a bad_alloc, dnnl_runtime_error
 * for anything else thrown.  An exception inside a parallel region of oneDNN's cannot be caught outside of it, by the
 * rules of OpenMP: that still ends the process. Functions that give no status allocate nothing, and are called as they
 * are. */
#ifndef DPX_CPU_ONEDNN_GUARD_H
#define DPX_CPU_ONEDNN_GUARD_H

#include <dnnl.h>

#if DNNL_VERSION_MAJOR >= 3
#define ONEDNN_GUARDED_OF_VERSION(X)                   \
    X(memory_desc_create_with_strides)                 \
    X(memory_desc_create_with_tag)                     \
    X(convolution_forward_primitive_desc_create)       \
    X(convolution_backward_data_primitive_desc_create) \
    X(convolution_backward_weights_primitive_desc_create)
#else
#define ONEDNN_GUARDED_OF_VERSION(X)               \
    X(memory_desc_init_by_strides)                 \
    X(memory_desc_init_by_tag)                     \
    X(primitive_desc_create)                       \
    X(dilated_convolution_forward_desc_init)       \
    X(dilated_convolution_backward_data_desc_init) \
    X(dilated_convolution_backward_weights_desc_init)
#endif
#define ONEDNN_GUARDED_ENGINE(X) \
    X(engine_create)             \
    X(stream_create)             \
    X(stream_wait)               \
    X(sgemm)
#define ONEDNN_GUARDED_PRIMITIVE(X)       \
    X(memory_create)                      \
    X(memory_set_data_handle)             \
    X(primitive_attr_create)              \
    X(primitive_attr_set_scratchpad_mode) \
    X(reorder_primitive_desc_create)      \
    X(primitive_create)                   \
    X(primitive_execute)
#define ONEDNN_GUARDED(X) ONEDNN_GUARDED_ENGINE(X) ONEDNN_GUARDED_PRIMITIVE(X) ONEDNN_GUARDED_OF_VERSION(X)

typedef struct {
#define X(F) __typeof__(&dnnl_##F) F;
    ONEDNN_GUARDED(X)
#undef X
} OnednnGuarded;

#ifdef __cplusplus
extern "C" const OnednnGuarded onednn;
#else
extern const OnednnGuarded onednn;
#endif

#endif
