/* C++ for what oneDNN throws: see the header. */
#include "kernels/cpu/onednn_guard.h"

#include <new>

namespace
{

template <auto F> struct Guard;

template <class... A, dnnl_status_t (*F)(A...)> struct Guard<F> {
    static dnnl_status_t call(A... a) noexcept
    {
        try {
            return F(a...);
        } catch (const std::bad_alloc &) {
            return dnnl_out_of_memory;
        } catch (...) {
            return dnnl_runtime_error;
        }
    }
};

} // namespace

const OnednnGuarded onednn = {
#define X(F) Guard<&dnnl_##F>::call,
    ONEDNN_GUARDED(X)
#undef X
};
