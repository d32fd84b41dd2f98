/* What this process may use of the machine: all of it, or what its processor mask and its group (cgroup) leave. */
#ifndef DPX_MACHINE_H
#define DPX_MACHINE_H

#include <stdint.h>

/* At least 1: the mask's, and no more than whole processors of the quota of the group or of one above it. */
int machine_cores(void);
uint64_t machine_memory(void); /* bytes: the machine's, and no more than such a group's limit; 0: not known */

/* The same by what stands below the folder in place of /proc and /sys. */
int machine_cores_below(const char *root);
uint64_t machine_memory_below(const char *root);

#endif
