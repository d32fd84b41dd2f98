/* One flag of the process: devices and libraries set it, tools ask. */
#include "graph/base/left.h"

#include <stdatomic.h>

static atomic_bool left;

void set_left_behind(void) { atomic_store(&left, true); }
bool is_left_behind(void) { return atomic_load(&left); }
