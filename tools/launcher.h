/* What launchers tell the processes that they start: the only place that knows their variables. */
#ifndef DPX_TOOLS_LAUNCHER_H
#define DPX_TOOLS_LAUNCHER_H

#include "tools/args.h"

typedef struct {
    const char *name; /* for messages; NULL: no launcher */
    const char *mpi;  /* the library over which its processes meet; NULL: they need a rendezvous */
    int size, rank;   /* size 0: the library alone knows */
} Launcher;

/* `mpi`: the library that the user names, NULL: none; `rendezvous`: HOST:PORT is known, by a flag or by MASTER_ADDR and
 * MASTER_PORT, `named`: by a flag. */
Status launcher_find(Launcher *out, const char *mpi, bool rendezvous, bool named) CHECKED;
/* Which process of a launcher this is, for commands that one process does for all; 0: the first, or there is none. */
Status launcher_rank(int *out) CHECKED;
/* E_INVALID when this process is one of several that a launcher has started. */
Status launcher_check_one(void) CHECKED;

#endif
