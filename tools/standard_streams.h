/* Standard streams of a program: checked and opened when it begins, flushed when it ends. */
#ifndef DPX_TOOLS_STANDARD_STREAMS_H
#define DPX_TOOLS_STANDARD_STREAMS_H

/* Must be called first in main.  Opens descriptors 0 to 2 where they are closed, limits the spinning of OpenMP's
 * threads (tools/openmp_spin.h), which starts the program again, and gives the process its name, by which pgrep finds
 * it. */
void tool_begin(const char *name, char **argv);

/* Returns the exit status of main: `code`, or EXIT_FAILED in place of EXIT_DONE, after a message, when something
 * printed to standard output was lost. */
int tool_end(const char *name, int code);

#endif
