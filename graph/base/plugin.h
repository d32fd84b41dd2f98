/* Finding and loading the libraries that come with this one and are loaded when they are asked for. */
#ifndef DPX_BASE_PLUGIN_H
#define DPX_BASE_PLUGIN_H

#include "graph/base/status.h"

typedef struct {
    const char *what;     /* "the CUDA plug-in", for messages */
    const char *file;     /* "libdpexec_cuda.so" */
    const char *variable; /* of the environment, that may name the file itself */
    const char *symbol;   /* the function that the file must have */
    int mode;             /* of dlopen */
    int abi;              /* what the first member of its table, an int, must be */
} Plugin;

typedef const void *PluginEntry(void); /* returns the table; NULL: this version has none */

/* Loaded by the first call of the process and never unloaded.  Looked for in, first found first taken: the file that
 * the variable names (then nowhere else), the folder $DPEXEC_PLUGIN_DIR, the folder of this library or program, the
 * library folder of the same installation.  E_DEVICE says where it was looked for, or why what was found cannot be
 * loaded (a library that it needs is missing, another version). */
Status plugin_load(const void **table, const Plugin *p) CHECKED;

#endif
