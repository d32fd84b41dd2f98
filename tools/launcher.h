/* Reads the variables that launchers set in the processes they start; no other file knows them. */
#ifndef DPX_TOOLS_LAUNCHER_H
#define DPX_TOOLS_LAUNCHER_H

#include "tools/args.h"

typedef struct {
    const char *name; /* for messages; NULL: no launcher */
    const char *mpi;  /* the library that connects its processes; NULL: they need a rendezvous */
    int size, rank;   /* size 0: only the library knows */
} Launcher;

/* Finds the launcher of this process.  `mpi`: the library that the user names; NULL: none.  `rendezvous`: HOST:PORT is
 * known, by a flag (`named`) or by MASTER_ADDR and MASTER_PORT. */
Status launcher_find(Launcher *out, const char *mpi, bool rendezvous, bool named) CHECKED;
/* The rank of this process, for commands that one process runs for all; 0: the first, or there is no launcher. */
Status launcher_rank(int *out) CHECKED;
/* E_INVALID when this process is one of several that a launcher has started. */
Status launcher_check_one(void) CHECKED;

#endif
