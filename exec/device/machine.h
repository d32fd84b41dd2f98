/* What this process may use of the machine: all of it, or what its processor mask and its group (cgroup) leave. */
#ifndef DPX_MACHINE_H
#define DPX_MACHINE_H

#include <stdint.h>

int machine_cores(void); /* at least 1: the mask's, and no more than whole processors of the group's quota (cpu.max) */
uint64_t machine_memory(void); /* bytes: the machine's, and no more than the group's (memory.max); 0: not known */

#endif
