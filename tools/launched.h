/* What dpexec launch tells the processes that it starts, in one variable of their environment. */
#ifndef DPX_TOOLS_LAUNCHED_H
#define DPX_TOOLS_LAUNCHED_H

#include <stdbool.h>

#include "graph/base/status.h"

/* RANK:SIZE:PIPE:fd=N,N,...: the pipe ends when the launcher does, and the connections are those of
 * dpx_world_options. */
#define LAUNCHED "DPEXEC_LAUNCHED"

/* false: this process was not started by dpexec launch.  The connections are a part of the environment's text. */
bool launched_is(void);
Status launched_read(int *rank, int *size, const char **connections) CHECKED;
/* From now on this process ends when the launcher has gone. */
Status launched_watch(void) CHECKED;

#endif
