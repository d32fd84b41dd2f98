/* How long OpenMP's threads wait by spinning. */
#ifndef DPX_OPENMP_SPIN_H
#define DPX_OPENMP_SPIN_H

/* To be called first of all: gives the OpenMP library at most 50 microseconds of spinning, unless the environment says
 * how it should wait.  The library reads that when it is loaded, before main; so the program starts itself again,
 * once. */
void limit_spinning(char **argv);

#endif
