/* RUN_FLOAT alone. */
#include "kernels/typed.h"
