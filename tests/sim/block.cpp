/* Runs a launch: block after block, the threads of a block as fibers.  A thread runs until it must wait for others; one
 * that never does costs no switch.  Between two barriers threads run forwards, backwards or in random order, so that a
 * missing barrier shows. */
#include "tests/sim/sim.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>

#include "tests/sim/fiber.h"
#include "tests/sim/shim.h"

namespace sim
{

namespace
{

enum ThreadState { NEW, AT_BARRIER, AT_WARP, RELEASED, DONE };

struct Thread {
    ThreadState state;
    Fiber *fiber;
    const char *file; /* where it waits */
    int line;
    dpx_sim::WarpOp op;
    unsigned mask;
    unsigned long long value;
    unsigned long long *all;
    int vote;
};

/* The block that runs. */
struct Engine {
    dpx_sim::State state{};
    Fiber host{};
    std::vector<Fiber *> idle, used;
    std::vector<Thread> thread;
    std::vector<unsigned> order;
    size_t next = 0; /* of `order`, to be started */
    unsigned current = 0;
    int votes = 0;
    std::string error;
    const char *name = "";
    void (*call)(void *const *) = nullptr;
    void *const *args = nullptr;
    std::vector<unsigned char> shared;
};

Engine &engine()
{
    static Engine &e = *new Engine;
    return e;
}

void enter(unsigned t)
{
    Engine &e = engine();
    const dim3 &dim = e.state.block_dim;

    e.current = t;
    e.state.thread = { t % dim.x, t / dim.x % dim.y, t / (dim.x * dim.y) };
    e.state.lane = t % 32;
}

/* Back to the scheduler until this thread is let go on. */
void pause(ThreadState s, const char *file, int line)
{
    Engine &e = engine();
    unsigned t = e.current;
    Thread &me = e.thread[t];

    me.state = s;
    me.file = file;
    me.line = line;
    fiber_switch(me.fiber, &e.host);
    enter(t);
}

Fiber *running;

/* The life of a fiber: starts threads as long as there are new ones; one that has to wait keeps it. */
void body()
{
    fiber_begin();
    for (;;) {
        Engine &e = engine();
        Fiber *me = running;

        while (e.next < e.order.size()) {
            unsigned t = e.order[e.next++];

            e.thread[t].fiber = me;
            enter(t);
            e.call(e.args);
            e.thread[t].state = DONE;
            running = me;
        }
        e.idle.push_back(me);
        fiber_switch(me, &e.host);
    }
}

Fiber *take_fiber()
{
    Engine &e = engine();

    if (e.idle.empty()) {
        e.idle.push_back(fiber_create(body));
        e.used.push_back(e.idle.back());
    }
    Fiber *f = e.idle.back();
    e.idle.pop_back();
    return f;
}

void resume(Fiber *f)
{
    running = f;
    fiber_switch(&engine().host, f);
}

/* ---- what kernels call ---- */

void sync_block(const char *file, int line) { pause(AT_BARRIER, file, line); }

int vote_block(int predicate, const char *file, int line)
{
    Engine &e = engine();

    e.thread[e.current].vote = predicate;
    pause(AT_BARRIER, file, line);
    return e.votes;
}

void sync_warp(dpx_sim::WarpOp op, unsigned mask, unsigned long long value, unsigned long long all[32],
               const char *file, int line)
{
    Engine &e = engine();
    Thread &me = e.thread[e.current];

    me.op = op;
    me.mask = mask;
    me.value = value;
    me.all = all;
    pause(AT_WARP, file, line);
}

const dpx_sim::Services table = { &engine().state, sync_block, sync_warp, vote_block };
struct Connect {
    Connect()
    {
        dpx_sim::services = &table;
        dpx_sim::state = table.state;
    }
} connect;

/* ---- who may go on ---- */

std::string where(const Thread &t)
{
    const char *slash = t.file ? std::strrchr(t.file, '/') : nullptr;

    return std::string(slash ? slash + 1 : t.file ? t.file : "?") + ":" + std::to_string(t.line);
}

bool same_place(const Thread &a, const Thread &b)
{
    return a.line == b.line && (a.file == b.file || !std::strcmp(a.file, b.file));
}

void error(const std::string &text)
{
    if (engine().error.empty())
        engine().error = text;
}

/* All that `first` waits for in its warp; true when it let them go. */
bool release_warp(unsigned first)
{
    Engine &e = engine();
    Thread &me = e.thread[first];
    unsigned base = first / 32 * 32, end = std::min<unsigned>(base + 32, (unsigned)e.thread.size());

    if (!(me.mask >> (first - base) & 1))
        error("thread " + std::to_string(first) + " is not in its own mask at " + where(me));
    for (unsigned t = base; t < end; t++) {
        const Thread &other = e.thread[t];

        if (!(me.mask >> (t - base) & 1) || other.state == DONE)
            continue;
        if (other.state != AT_WARP)
            return false;
        if (other.op != me.op || other.mask != me.mask || !same_place(other, me))
            error("threads " + std::to_string(first) + " and " + std::to_string(t) +
                  " of a warp disagree: " + where(me) + " and " + where(other));
    }
    unsigned long long all[32];
    std::memset(all, 0xff, sizeof all); /* what absent lanes hold: NaN */
    for (unsigned t = base; t < end; t++)
        if ((me.mask >> (t - base) & 1) && e.thread[t].state == AT_WARP)
            all[t - base] = e.thread[t].value;
    for (unsigned t = base; t < end; t++)
        if ((me.mask >> (t - base) & 1) && e.thread[t].state == AT_WARP) {
            std::memcpy(e.thread[t].all, all, sizeof all);
            e.thread[t].state = RELEASED;
        }
    return true;
}

bool release_barrier()
{
    Engine &e = engine();
    const Thread &first = e.thread[0];

    e.votes = 0;
    for (size_t t = 0; t < e.thread.size(); t++) {
        if (e.thread[t].state != AT_BARRIER)
            return false;
        if (!same_place(e.thread[t], first))
            error("thread 0 waits at " + where(first) + ", thread " + std::to_string(t) + " at " + where(e.thread[t]));
        e.votes += e.thread[t].vote;
    }
    for (Thread &t : e.thread)
        t.state = RELEASED;
    return true;
}

/* Why nobody can go on. */
void report_stuck()
{
    Engine &e = engine();
    size_t waits = 0, other = 0;

    while (e.thread[waits].state != AT_BARRIER && e.thread[waits].state != AT_WARP)
        waits++;
    while (other < e.thread.size() && e.thread[other].state == e.thread[waits].state)
        other++;
    std::string text = "thread " + std::to_string(waits) + " waits at " + where(e.thread[waits]);
    if (other < e.thread.size())
        text += ", thread " + std::to_string(other) +
                (e.thread[other].state == DONE ? " has ended" : " waits at " + where(e.thread[other]));
    error(text);
}

/* True when some threads may go on; sets `over` when all have ended. */
bool release(bool *over)
{
    Engine &e = engine();
    bool any = false;

    *over = true;
    for (unsigned t = 0; t < e.thread.size(); t++) {
        *over = *over && e.thread[t].state == DONE;
        if (e.thread[t].state == AT_WARP)
            any = release_warp(t) || any;
        else if (e.thread[t].state == RELEASED)
            any = true;
    }
    return any || release_barrier();
}

/* The threads' order until the next barrier. */
void shuffle_order()
{
    Engine &e = engine();

    switch (world().random() % 3) {
    case 0: std::iota(e.order.begin(), e.order.end(), 0u); break;
    case 1: std::iota(e.order.rbegin(), e.order.rend(), 0u); break;
    default: std::shuffle(e.order.begin(), e.order.end(), world().random); break;
    }
}

void run_block()
{
    Engine &e = engine();
    bool over = false;

    std::memset(e.shared.data(), 0xff, e.shared.size());
    e.thread.assign(e.order.size(), Thread{});
    shuffle_order();
    for (e.next = 0; e.next < e.order.size();)
        resume(take_fiber());
    while (e.error.empty()) {
        if (!release(&over)) {
            if (!over)
                report_stuck();
            break;
        }
        if (!e.error.empty())
            break;
        shuffle_order();
        for (unsigned t : e.order)
            if (e.thread[t].state == RELEASED)
                resume(e.thread[t].fiber);
    }
}

/* Threads that will never go on: their fibers begin anew. */
void forget_fibers()
{
    Engine &e = engine();

    e.idle = e.used;
    for (Fiber *f : e.used)
        fiber_reset(f, body);
}

} // namespace

#ifdef SIM_OWN_UBSAN
/* A thread has touched what lies where its type must not. */
static void misaligned(const void *p, const char *file, unsigned line, size_t align)
{
    const char *slash = std::strrchr(file, '/');
    char text[160];

    std::snprintf(text, sizeof text, "%p is no multiple of %zu at %s:%u", p, align, slash ? slash + 1 : file, line);
    error("thread " + std::to_string(engine().current) + " has touched a misaligned address: " + text);
}
#endif

Status run_blocks(const char *name, void (*call)(void *const *), const Launch &l, void *const *args)
{
    Engine &e = engine();
    size_t blocks = (size_t)l.grid[0] * l.grid[1] * l.grid[2], first = world().random(),
           stride = world().random() % 2 ? 1 : blocks - 1;

    e.error.clear();
    e.name = name;
    e.call = call;
    e.args = args;
    e.shared.resize(l.shared + 16);
    e.order.resize((size_t)l.block[0] * l.block[1] * l.block[2]);
    std::iota(e.order.begin(), e.order.end(), 0u);
    e.state.block_dim = dim3(l.block[0], l.block[1], l.block[2]);
    e.state.grid_dim = dim3(l.grid[0], l.grid[1], l.grid[2]);
    e.state.dynamic_shared = e.shared.data();
    e.state.dynamic_bytes = l.shared;
    for (size_t i = 0, b = first % blocks; i < blocks && e.error.empty(); i++, b = (b + stride) % blocks) {
        e.state.block = { (unsigned)(b % l.grid[0]), (unsigned)(b / l.grid[0] % l.grid[1]),
                          (unsigned)(b / l.grid[0] / l.grid[1]) };
        run_block();
        for (size_t k = 0; k < 16 && e.error.empty(); k++)
            if (e.shared[l.shared + k] != 0xff)
                error("writes behind its " + std::to_string(l.shared) + " bytes of dynamic shared memory");
    }
    if (e.error.empty())
        return ST_OK;
    forget_fibers();
    return FAIL(E_INTERNAL, "kernel %s, block (%u, %u, %u): %s", name, e.state.block.x, e.state.block.y,
                e.state.block.z, e.error.c_str());
}

} // namespace sim

#ifdef SIM_OWN_UBSAN
/* What code compiled with -fsanitize=alignment calls before such an access, in place of the sanitizer's library. */
extern "C" {
struct TypeMismatch {
    const char *file;
    unsigned line, column;
    const void *type;
    unsigned char log_align, kind;
};
__attribute__((visibility("hidden"))) void __ubsan_handle_type_mismatch_v1(TypeMismatch *what, uintptr_t p)
{
    sim::misaligned(reinterpret_cast<const void *>(p), what->file, what->line, size_t(1) << what->log_align);
}
}
#endif
