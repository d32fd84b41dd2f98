/* The part of the machine that this process may use: its processor mask and its control groups limit it. */
#ifndef DPX_MACHINE_H
#define DPX_MACHINE_H

#include <stdint.h>

/* The cores of the processor mask, but no more than the whole processors of a group's quota; at least 1. */
int machine_cores(void);
/* Bytes that programs can have without swapping (MemAvailable of /proc/meminfo), but no more than machine_memory();
 * 0: unknown. */
uint64_t machine_memory_free(void);
uint64_t machine_memory(void); /* bytes of the machine, but no more than a group's limit; 0: unknown */

/* The same with /proc and /sys below the folder `root`. */
int machine_cores_below(const char *root);
uint64_t machine_memory_below(const char *root);
uint64_t machine_memory_free_below(const char *root);

#endif
