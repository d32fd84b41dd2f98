/* Limits how long OpenMP's threads spin. */
#ifndef DPX_OPENMP_SPIN_H
#define DPX_OPENMP_SPIN_H

/* Must be called first in main.  Limits the spinning of the OpenMP library to 50 microseconds, unless the environment
 * sets how it waits.  The library reads the environment when it is loaded, before main, so the program executes itself
 * again, once. */
void limit_spinning(char **argv);

#endif
