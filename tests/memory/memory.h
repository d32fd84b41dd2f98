/* Arenas of which one allocation can fail. */
#ifndef DPX_TESTS_MEMORY_H
#define DPX_TESTS_MEMORY_H

/* Of those that follow the n-th fails, counted from 1; 0: none. */
void memory_fail_at(long n);
/* How many there have been since. */
long memory_count(void);

#endif
