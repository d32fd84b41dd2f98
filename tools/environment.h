/* What a run was computed on. */
#ifndef DPX_TOOLS_ENVIRONMENT_H
#define DPX_TOOLS_ENVIRONMENT_H

#include <jansson.h>

/* {"started": "2026-01-31 12:00:00 +0100", "host": ..., "system": ..., "processor": ..., "cores": 8, "memory": "31.2
 * GiB", "isa": as given}; NULL: out of memory. */
json_t *environment_json(const char *isa);

#endif
