/* The guard in C++ that turns oneDNN's exceptions into a status: see the header. */
#include "kernels/cpu/onednn_guard.h"

#include <new>
#include <sys/mman.h>
#include <type_traits>

namespace
{

/* oneDNN's code generator uses memory even when its allocation failed, so nothing is created unless the next few
 * megabytes are available.  Pages that are not touched cost nothing. */
bool has_room()
{
    constexpr size_t bytes = size_t{ 16 } << 20;
    void *p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    return p != MAP_FAILED && !munmap(p, bytes);
}

template <auto F> struct Guard;

template <class... A, dnnl_status_t (*F)(A...)> struct Guard<F> {
    static dnnl_status_t call(A... a) noexcept
    {
        if (std::is_same_v<decltype(F), decltype(&dnnl_primitive_create)> && !has_room())
            return dnnl_out_of_memory;
        try {
            const dnnl_status_t st = F(a...);

            /* oneDNN 3 catches this one itself, and calls it an invalid device; CPUs are always there. */
            return std::is_same_v<decltype(F), decltype(&dnnl_engine_create)> && st == dnnl_runtime_error
                       ? dnnl_out_of_memory
                       : st;
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
