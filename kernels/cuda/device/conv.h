/* The launch constants of the convolution epilogue (conv.cu), shared by the engine (C) and the device. */
#ifndef DPX_CUDA_DEVICE_CONV_H
#define DPX_CUDA_DEVICE_CONV_H

enum { CONV_GROUP = 8, CONV_THREADS = 256 }; /* elements of a thread at a time */

#endif
