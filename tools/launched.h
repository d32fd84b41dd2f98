/* The variable of the environment in which dpexec launch passes connections to the processes that it starts. */
#ifndef DPX_TOOLS_LAUNCHED_H
#define DPX_TOOLS_LAUNCHED_H

#include <stdbool.h>

#include "graph/base/status.h"

/* RANK:SIZE:PIPE:fd=N,N,...: the pipe is closed when the launcher ends; the connections are those of dpx_world_options.
 */
#define LAUNCHED "DPEXEC_LAUNCHED"

/* Whether dpexec launch has started this process; and what it passed.  *connections points into the environment. */
bool launched_is(void);
Status launched_read(int *rank, int *size, const char **connections) CHECKED;
/* Lets this process end when the launcher does. */
Status launched_watch(void) CHECKED;

#endif
