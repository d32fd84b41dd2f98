/* Plug-ins: libraries that are installed with dpexec and loaded when they are needed. */
#ifndef DPX_BASE_PLUGIN_H
#define DPX_BASE_PLUGIN_H

#include "graph/base/status.h"

typedef struct {
    const char *what;     /* "the CUDA plug-in", for messages */
    const char *file;     /* "libdpexec_cuda.so" */
    const char *variable; /* environment variable that may give the path of the file */
    const char *symbol;   /* the function that the file must have, a PluginEntry */
    int mode;             /* of dlopen */
    int abi;              /* required value of the table's first member, an int */
} Plugin;

typedef const void *PluginEntry(void); /* returns the table; NULL: this version has none */

/* Loads the plug-in, at the first call of the process; it is never unloaded.  The first of these is taken: the file
 * that the variable names (then no other is tried), the file in folder $DPEXEC_PLUGIN_DIR, in the folder of this
 * library or program, in the library folder of the same installation, or in a folder `dpexec` of one of these two.
 * E_DEVICE lists the folders, or says why the file cannot be loaded (a library that it needs is missing, another
 * version). */
Status plugin_load(const void **table, const Plugin *p) CHECKED;

#endif
