/* Kernels compiled at run time: by the host's C++ compiler into a shared object that is loaded and kept. */
#ifndef DPX_TESTS_SIM_MODULE_H
#define DPX_TESTS_SIM_MODULE_H

#include <string>

#include "tests/sim/shim.h"

extern "C" {
#include "graph/base/status.h"
}

namespace sim
{

/* The kernels of `source`, taken from `cache_dir` ("": a folder of its own) when it was compiled before. */
Status module_build(const dpx_sim::KernelEntry **out, const char *source, const char *name,
                    const std::string &cache_dir);

} // namespace sim

#endif
