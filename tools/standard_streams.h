/* Opens and checks the standard streams when a program begins and ends. */
#ifndef DPX_TOOLS_STANDARD_STREAMS_H
#define DPX_TOOLS_STANDARD_STREAMS_H

/* To be called first of all in main.  Opens descriptors 0 to 2 where they are closed, limits how long OpenMP's threads
 * spin (tools/openmp_spin.h), which starts the program again, and gives the process its name, by which pgrep finds it.
 */
void tool_begin(const char *name, char **argv);

/* The exit status of main: `code`, or in place of EXIT_DONE EXIT_FAILED, after a line, when something printed to
 * standard output is lost. */
int tool_end(const char *name, int code);

#endif
