/* Memory of the simulated devices: one reserved range of addresses for all, which the host may touch only while work
 * runs. Every allocation stands between guards; freed memory is garbage until it is given out again. */
#include "tests/sim/asan.h"
#include "tests/sim/sim.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <sys/mman.h>

#ifdef SIM_ASAN
#include <sanitizer/asan_interface.h>
#define NO_ASAN __attribute__((no_sanitize("address")))
#else
#define NO_ASAN
#define ASAN_POISON_MEMORY_REGION(p, n) ((void)(p), (void)(n))
#define ASAN_UNPOISON_MEMORY_REGION(p, n) ((void)(p), (void)(n))
#endif

namespace sim
{

namespace
{

constexpr size_t ALIGN = 256, GUARD = 256, RANGE = size_t(64) << 30;
constexpr size_t PAGE = 2 << 20; /* large ones, where there are any: to open and close many small ones takes long */
constexpr unsigned char GUARD_BYTE = 0xa5, GARBAGE_BYTE = 0xff; /* floats of garbage are NaN */

struct Memory {
    char *base = nullptr;
    size_t top = 0; /* bytes from base that were ever used, whole pages */
    int unlocked = 0;
    std::map<const char *, Block> blocks; /* by address, all kinds */
};

Memory &memory()
{
    static Memory m;
    return m;
}

size_t rounded(size_t n, size_t to) { return (n + to - 1) / to * to; }
bool in_range(const void *p)
{
    const Memory &m = memory();
    return m.base && (const char *)p >= m.base && (const char *)p < m.base + RANGE;
}

void protect(bool open)
{
    Memory &m = memory();

    if (m.top)
        mprotect(m.base, m.top, open ? PROT_READ | PROT_WRITE : PROT_NONE);
}

/* A gap for `bytes` with guards; NULL when the range is full. */
char *find_gap(size_t bytes)
{
    Memory &m = memory();
    size_t need = GUARD + rounded(bytes, ALIGN) + GUARD;
    char *at = m.base;

    for (auto &[p, b] : m.blocks) {
        if (b.where == PINNED_MEMORY)
            continue;
        if ((size_t)(p - GUARD - at) >= need && p - GUARD >= at)
            break;
        at = const_cast<char *>(p) + rounded(b.bytes, ALIGN) + GUARD;
    }
    return at + need <= m.base + RANGE ? at + GUARD : nullptr;
}

void set_guards(char *p, size_t bytes)
{
    size_t behind = rounded(bytes, ALIGN) - bytes + GUARD;

    ASAN_UNPOISON_MEMORY_REGION(p - GUARD, GUARD + bytes + behind);
    std::memset(p - GUARD, GUARD_BYTE, GUARD);
    std::memset(p, 0, bytes);
    std::memset(p + bytes, GUARD_BYTE, behind);
    ASAN_POISON_MEMORY_REGION(p - GUARD, GUARD);
    ASAN_POISON_MEMORY_REGION(p + bytes, behind);
}

Status device_alloc(void **out, size_t bytes)
{
    Memory &m = memory();
    char *p;

    if (!m.base) {
        void *range = mmap(nullptr, RANGE + PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

        if (range == MAP_FAILED)
            return FAIL(E_NOMEM, "no addresses for simulated memory");
        m.base = (char *)rounded((size_t)range, PAGE);
        (void)madvise(m.base, RANGE, MADV_HUGEPAGE);
    }
    if (!(p = find_gap(bytes)))
        return FAIL(E_NOMEM, "simulated memory is full");
    size_t top = rounded((size_t)(p - m.base) + rounded(bytes, ALIGN) + GUARD, PAGE);
    if (top > m.top) {
        m.top = top;
        if (m.unlocked)
            protect(true);
    }
    Unlocked open;
    set_guards(p, bytes);
    *out = p;
    return ST_OK;
}

/* Where one of `bytes` ends lies still within it, and not another one of the host's. */
size_t pinned_size(size_t bytes) { return rounded(bytes + 1, ALIGN); }

} // namespace

void misuse(const char *what, const void *p)
{
    std::fprintf(stderr, "cudasim: misuse: %s (%p)\n", what, p);
    std::abort();
}

Unlocked::Unlocked()
{
    if (!memory().unlocked++)
        protect(true);
}

Unlocked::~Unlocked()
{
    if (!--memory().unlocked)
        protect(false);
}

Status memory_alloc(GpuDevice *d, void **out, size_t bytes, Where where)
{
    void *p = nullptr;

    if (where != PINNED_MEMORY && memory_used(d->index) + bytes > (size_t)d->info.memory)
        return FAIL(E_NOMEM, "%s has %lld bytes, %zu of them in use: no memory for %zu bytes", d->info.name,
                    (long long)d->info.memory, memory_used(d->index), bytes);
    if (where == PINNED_MEMORY) {
        if (!(p = std::aligned_alloc(ALIGN, pinned_size(bytes))))
            return FAIL(E_NOMEM, "no host memory for %zu bytes", bytes);
        std::memset(p, 0, bytes);
        ASAN_POISON_MEMORY_REGION((char *)p + bytes, pinned_size(bytes) - bytes);
    } else {
        TRY(device_alloc(&p, bytes ? bytes : 1));
    }
    memory().blocks[(char *)p] = Block{ bytes ? bytes : 1, where, d };
    *out = p;
    return ST_OK;
}

void memory_free(GpuDevice *d, void *p, Where where)
{
    Memory &m = memory();
    auto it = m.blocks.find((char *)p);

    if (!p)
        return;
    if (it == m.blocks.end() || it->second.where != where || it->second.owner != d)
        misuse("freeing what was not allocated so, here", p);
    if (where == PINNED_MEMORY) {
        ASAN_UNPOISON_MEMORY_REGION(p, pinned_size(it->second.bytes));
        std::free(p);
    } else {
        Unlocked open;
        std::memset(p, GARBAGE_BYTE, it->second.bytes);
        ASAN_POISON_MEMORY_REGION(p, it->second.bytes);
    }
    m.blocks.erase(it);
}

const void *memory_block(const void *p)
{
    const Memory &m = memory();
    auto it = m.blocks.upper_bound((const char *)p);

    if (it == m.blocks.begin())
        return nullptr;
    --it;
    return (const char *)p <= it->first + it->second.bytes ? it->first : nullptr;
}

bool memory_is_host(const void *p) { return !in_range(p) && !memory_block(p); }

Status memory_check(const GpuDevice *d, const void *p, size_t bytes, bool device_only, const char *what)
{
    const char *block = (const char *)memory_block(p);

    if (!bytes && !p)
        return ST_OK;
    if (!p)
        return FAIL(E_INVALID, "%s: NULL for %zu bytes", what, bytes);
    if (!block && (in_range(p) || device_only))
        return FAIL(E_INVALID, "%s: %p is no memory of a device%s", what, p, in_range(p) ? " any more" : "");
    if (!block)
        return ST_OK;
    const Block &b = memory().blocks[block];
    if ((const char *)p + bytes > block + b.bytes)
        return FAIL(E_INVALID, "%s: %zu bytes at offset %td of an allocation of %zu", what, bytes,
                    (const char *)p - block, b.bytes);
    if (device_only && b.where != PINNED_MEMORY && b.owner->index != d->index)
        return FAIL(E_INVALID, "%s: memory of device %d on device %d", what, b.owner->index, d->index);
    return ST_OK;
}

/* The guards are poisoned, and modules are not instrumented. */
NO_ASAN Status memory_check_guards(const char *after)
{
    for (auto &[p, b] : memory().blocks) {
        size_t behind = rounded(b.bytes, ALIGN) - b.bytes + GUARD;

        if (b.where == PINNED_MEMORY)
            continue;
        for (size_t i = 1; i <= GUARD; i++)
            if ((unsigned char)p[-(ptrdiff_t)i] != GUARD_BYTE)
                return FAIL(E_INTERNAL, "%s has written %zu bytes before an allocation of %zu bytes", after, i,
                            b.bytes);
        for (size_t i = 0; i < behind; i++)
            if ((unsigned char)p[b.bytes + i] != GUARD_BYTE)
                return FAIL(E_INTERNAL, "%s has written at byte %zu of an allocation of %zu bytes", after, b.bytes + i,
                            b.bytes);
    }
    return ST_OK;
}

size_t memory_used(int device_index)
{
    size_t sum = 0;

    for (auto &[p, b] : memory().blocks)
        if (b.where != PINNED_MEMORY && b.owner->index == device_index)
            sum += rounded(b.bytes, ALIGN);
    return sum;
}

size_t memory_count(const GpuDevice *d)
{
    size_t n = 0;

    for (auto &[p, b] : memory().blocks)
        n += b.owner == d;
    return n;
}

} // namespace sim
