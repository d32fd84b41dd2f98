/* Arenas of which one allocation can fail. */
#ifndef DPX_TESTS_MEMORY_H
#define DPX_TESTS_MEMORY_H

/* Of those that follow the n-th fails, counted from 1; 0: none. */
void memory_fail_at(long n);
/* Calls `seen` with the number of each; NULL: no more. */
void memory_watch(void (*seen)(long number));
/* How many there have been since. */
long memory_count(void);

#endif
