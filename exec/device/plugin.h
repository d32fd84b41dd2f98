/* The CUDA plug-in: it is found and loaded when a CUDA device is asked for, and not before. */
#ifndef DPX_PLUGIN_H
#define DPX_PLUGIN_H

#include "kernels/runtime.h"

/* Loads the runtime from libdpexec_cuda.so, or from the file that $DPEXEC_CUDA_PLUGIN names (graph/base/plugin.h).
 * E_DEVICE names the places that were searched, or why the file cannot be loaded: a library that it needs is missing,
 * or it has another version. */
Status plugin_cuda(const Runtime **out) CHECKED;

/* Turns a runtime's failure into an error with its message; returns ST_OK when `st` is. */
Status runtime_check(const Runtime *r, Status st) CHECKED;

/* Writes the runtime's devices for messages, "cuda:0 (NVIDIA H100), cuda:1 (...)", or "none". */
enum { PRESENT_TEXT = 512 };
void plugin_present(const Runtime *r, char text[PRESENT_TEXT]);

#endif
