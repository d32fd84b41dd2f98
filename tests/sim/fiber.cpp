/* The switch of stacks: written out for x86-64 and AArch64 (a few nanoseconds), by the system's contexts elsewhere. */
#include "tests/sim/fiber.h"
#include "tests/sim/asan.h"

#include <cstdint>
#include <cstdlib>
#include <cstring>

#include <sys/mman.h>

#ifdef SIM_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

/* dpx_sim_switch(&from, to): pushes what the calling convention lets the callee keep, and changes the stack pointer. */
extern "C" __attribute__((visibility("hidden"))) void dpx_sim_switch(void **from, void *to);
#if defined(__x86_64__)
enum { SAVED = 6 };
__asm__(".text\n.p2align 4\n.hidden dpx_sim_switch\n.globl dpx_sim_switch\n.type "
        "dpx_sim_switch,@function\ndpx_sim_switch:\n"
        "pushq %rbp\npushq %rbx\npushq %r12\npushq %r13\npushq %r14\npushq %r15\n"
        "movq %rsp, (%rdi)\nmovq %rsi, %rsp\n"
        "popq %r15\npopq %r14\npopq %r13\npopq %r12\npopq %rbx\npopq %rbp\nret\n"
        ".size dpx_sim_switch,.-dpx_sim_switch\n");
#elif defined(__aarch64__)
enum { SAVED = 20 };
__asm__(
    ".text\n.p2align 4\n.hidden dpx_sim_switch\n.globl dpx_sim_switch\n.type "
    "dpx_sim_switch,%function\ndpx_sim_switch:\n"
    "sub sp, sp, #160\nstp x19, x20, [sp]\nstp x21, x22, [sp, #16]\nstp x23, x24, [sp, #32]\nstp x25, x26, [sp, #48]\n"
    "stp x27, x28, [sp, #64]\nstp x29, x30, [sp, #80]\nstp d8, d9, [sp, #96]\nstp d10, d11, [sp, #112]\nstp d12, d13, "
    "[sp, #128]\n"
    "stp d14, d15, [sp, #144]\nmov x9, sp\nstr x9, [x0]\nmov sp, x1\n"
    "ldp x19, x20, [sp]\nldp x21, x22, [sp, #16]\nldp x23, x24, [sp, #32]\nldp x25, x26, [sp, #48]\nldp x27, x28, [sp, "
    "#64]\n"
    "ldp x29, x30, [sp, #80]\nldp d8, d9, [sp, #96]\nldp d10, d11, [sp, #112]\nldp d12, d13, [sp, #128]\nldp d14, d15, "
    "[sp, #144]\n"
    "add sp, sp, #160\nret\n.size dpx_sim_switch,.-dpx_sim_switch\n");
#else
#error "the simulation knows no switch of stacks for this processor"
#endif

namespace sim
{

namespace
{

Fiber *leaving; /* for the sanitizer: the stack that was left */

void prepare(Fiber *f, void (*body)())
{
    void **top = (void **)((uintptr_t)(f->stack + f->stack_bytes - 64) & ~(uintptr_t)15);

#if defined(__x86_64__)
    *--top = nullptr; /* body's return address: it does not return */
    *--top = (void *)body;
    top -= SAVED;
    std::memset(top, 0, SAVED * sizeof *top);
#else
    top -= SAVED;
    std::memset(top, 0, SAVED * sizeof *top);
    top[11] = (void *)body; /* x30 */
#endif
    f->context = top;
}

} // namespace

Fiber *fiber_create(void (*body)())
{
    const size_t bytes = 256 << 10, guard = 4096;
    void *p = mmap(nullptr, bytes + guard, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (p == MAP_FAILED)
        std::abort();
    mprotect(p, guard, PROT_NONE);
    Fiber *f = new Fiber{ nullptr, (char *)p + guard, bytes, nullptr };
    prepare(f, body);
    return f;
}

void fiber_reset(Fiber *f, void (*body)())
{
#ifdef SIM_ASAN
    ASAN_UNPOISON_MEMORY_REGION(f->stack, f->stack_bytes);
#endif
    f->asan = nullptr;
    prepare(f, body);
}

void fiber_begin()
{
#ifdef SIM_ASAN
    const void *bottom;

    __sanitizer_finish_switch_fiber(nullptr, &bottom, &leaving->stack_bytes);
    leaving->stack = (char *)const_cast<void *>(bottom);
#endif
}

void fiber_switch(Fiber *from, Fiber *to)
{
    leaving = from;
#ifdef SIM_ASAN
    __sanitizer_start_switch_fiber(&from->asan, to->stack, to->stack_bytes);
#endif
    dpx_sim_switch(&from->context, to->context);
#ifdef SIM_ASAN
    const void *bottom;
    size_t bytes;

    __sanitizer_finish_switch_fiber(from->asan, &bottom, &bytes);
    leaving->stack = (char *)const_cast<void *>(bottom);
    leaving->stack_bytes = bytes;
#endif
}

} // namespace sim
