/* What follows a convolution (conv.cu): the same text for the engine (C) and for the device. */
#ifndef DPX_CUDA_DEVICE_CONV_H
#define DPX_CUDA_DEVICE_CONV_H

enum { CONV_GROUP = 8, CONV_THREADS = 256 }; /* elements of a thread at a time */

#endif
