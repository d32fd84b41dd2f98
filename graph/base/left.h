/* What a process cannot end: a kernel that hangs, a library's thread that waits for it. */
#ifndef DPX_LEFT_H
#define DPX_LEFT_H

#include <stdbool.h>

/* Something goes on beside the process, and what libraries do at exit would wait for it: who ends the process does so
 * by _exit, with its output flushed.  A library does not end its host; the tools do. */
void set_left_behind(void);
bool is_left_behind(void);

#endif
