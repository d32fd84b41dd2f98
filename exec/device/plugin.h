/* The plug-in that brings CUDA: found and loaded when a CUDA device is asked for, and not before. */
#ifndef DPX_PLUGIN_H
#define DPX_PLUGIN_H

#include "kernels/runtime.h"

/* The runtime of libdpexec_cuda.so, or of the file that $DPEXEC_CUDA_PLUGIN names (graph/base/plugin.h).  E_DEVICE says
 * where it was looked for, or why what was found cannot be loaded (a library that it needs is missing, another
 * version). */
Status plugin_cuda(const Runtime **out) CHECKED;

/* A runtime's failure as ours, with its message; `st` when that is ST_OK. */
Status runtime_check(const Runtime *r, Status st) CHECKED;

/* "cuda:0 (NVIDIA H100), cuda:1 (...)" of what the runtime sees, for messages; "none". */
enum { PRESENT_TEXT = 512 };
void plugin_present(const Runtime *r, char text[PRESENT_TEXT]);

#endif
