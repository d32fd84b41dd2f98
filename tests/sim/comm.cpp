/* Collectives between simulated devices of one process.  A member's collective has arrived when it is next in its
 * stream; when all members have, it runs for all at once.  The how manyth it is of its member says which belong
 * together. */
#include "tests/sim/sim.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tests/sim/numbers.h"

using namespace sim;

namespace sim
{

struct Group {
    std::string id;
    int n_rank = 0;
    std::map<int, std::shared_ptr<Member>> member;
    std::map<uint64_t, std::map<int, std::shared_ptr<Instance>>> meeting; /* by turn, by rank */
    std::string failure;                                                  /* what comm_poll says; "": nothing */
};

struct Member {
    std::shared_ptr<Group> group;
    GpuDevice *device;
    int rank;
    uint64_t given = 0; /* collectives */
    bool gone = false;
    std::string failure;               /* of a call of its own, which stays: it fails every later one, and comm_poll */
    std::set<const void *> registered; /* allocations */
};

} // namespace sim

struct GpuComm {
    std::shared_ptr<Member> member;
};

namespace
{

std::map<std::string, std::shared_ptr<Group>> &groups()
{
    static auto *g = new std::map<std::string, std::shared_ptr<Group>>; /* outlives what runs at exit */
    return *g;
}

thread_local std::map<Group *, int> last_rank; /* that this thread drove */

/* ---- the arithmetic ---- */

/* Members are added in the order of their ranks, in float32 (float64, int64), and rounded once. */
void sum_at(const std::vector<const Collective *> &c, size_t i, void *to, size_t at)
{
    DType t = c[0]->dtype;

    if (!dtype_is_float(t)) {
        uint64_t sum = 0; /* wraps */
        for (const Collective *one : c)
            sum += (uint64_t)load_int(t, one->send, i);
        store_int(t, to, at, (int64_t)sum);
    } else if (t == DT_FLOAT64) {
        double sum = 0;
        for (const Collective *one : c)
            sum += load<double>(t, one->send, i);
        store<double>(t, to, at, sum);
    } else {
        float sum = 0;
        for (const Collective *one : c)
            sum += load<float>(t, one->send, i);
        store<float>(t, to, at, sum);
    }
}

/* Results are made aside first: send may be recv. */
void reduce(const std::vector<const Collective *> &c)
{
    size_t n = c[0]->n, size = dtype_size(c[0]->dtype), all = c[0]->what == REDUCE_SCATTER ? n * c.size() : n;
    std::vector<char> sum(all * size);

    for (size_t i = 0; i < all; i++)
        sum_at(c, i, sum.data(), i);
    for (size_t r = 0; r < c.size(); r++)
        std::memcpy(c[r]->recv, sum.data() + (c[0]->what == REDUCE_SCATTER ? r * n * size : 0), n * size);
}

void gather(const std::vector<const Collective *> &c)
{
    size_t n = c[0]->n;
    std::vector<char> all;

    if (c[0]->what == BROADCAST)
        all.assign((const char *)c[(size_t)c[0]->root]->send, (const char *)c[(size_t)c[0]->root]->send + n);
    else
        for (const Collective *one : c)
            all.insert(all.end(), (const char *)one->send, (const char *)one->send + n);
    for (const Collective *one : c)
        std::memcpy(one->recv, all.data(), all.size());
}

/* Rank r's place in what each sends is what r receives of him. */
void turn(const std::vector<const Collective *> &c)
{
    for (size_t r = 0; r < c.size(); r++)
        for (size_t k = 0; k < c.size(); k++)
            std::memcpy((char *)c[r]->recv + k * c[0]->n, (const char *)c[k]->send + r * c[0]->n, c[0]->n);
}

const char *what_name(Reduction r)
{
    static const char *const names[] = { "all_reduce_sum", "reduce_scatter_sum", "all_gather", "all_to_all",
                                         "broadcast" };

    return names[r];
}

Status check_same(const std::vector<const Collective *> &c, uint64_t turn)
{
    for (size_t r = 1; r < c.size(); r++)
        if (c[r]->what != c[0]->what || c[r]->n != c[0]->n || c[r]->dtype != c[0]->dtype || c[r]->root != c[0]->root)
            return FAIL(E_INVALID, "collective %llu: rank 0 calls %s of %zu %s, rank %zu %s of %zu %s",
                        (unsigned long long)turn, what_name(c[0]->what), c[0]->n, dtype_name(c[0]->dtype), r,
                        what_name(c[r]->what), c[r]->n, dtype_name(c[r]->dtype));
    for (size_t r = 1; r < c.size(); r++)
        if (c[r]->registered != c[0]->registered)
            return FAIL(E_INVALID, "collective %llu, %s: the memory of rank %zu is registered, that of rank %zu is not",
                        (unsigned long long)turn, what_name(c[0]->what), c[r]->registered ? r : 0,
                        c[r]->registered ? 0 : r);
    return ST_OK;
}

/* A collective that one member has captured and another has not is undefined by NCCL. */
Status check_captured(const std::map<int, std::shared_ptr<Instance>> &meeting, uint64_t turn)
{
    const auto &first = *meeting.begin();

    for (auto &[rank, one] : meeting)
        if (one->captured != first.second->captured)
            return FAIL(E_INVALID, "collective %llu, %s: rank %d has captured it, rank %d has not",
                        (unsigned long long)turn, what_name(one->op->collective.what),
                        one->captured ? rank : first.first, one->captured ? first.first : rank);
    return ST_OK;
}

} // namespace

namespace sim
{

void collective_number(Instance *i) { i->turn = i->op->collective.member->given++; }

bool collective_gone(const Op &op) { return op.collective.member->gone; }

bool collective_ready(Instance *i)
{
    const Member &m = *i->op->collective.member;

    if (m.gone) { /* aborted: over, with whatever result */
        i->done = true;
        return false;
    }
    if (i->op->collective.hang)
        return false;
    auto &meeting = m.group->meeting[i->turn];
    meeting[m.rank] = i->shared_from_this();
    return (int)meeting.size() == m.group->n_rank && m.group->failure.empty();
}

Status collective_run(Instance *i)
{
    Group &group = *i->op->collective.member->group;
    auto meeting = std::move(group.meeting[i->turn]);
    std::vector<const Collective *> c;

    group.meeting.erase(i->turn);
    for (auto &[rank, one] : meeting) {
        c.push_back(&one->op->collective);
        one->done = true;
    }
    Status st = check_same(c, i->turn);
    if (!st)
        st = check_captured(meeting, i->turn);
    if (st) {
        group.failure = status_message(); /* what the other members hear */
        return st;
    }
    if (c[0]->what == ALL_REDUCE || c[0]->what == REDUCE_SCATTER)
        reduce(c);
    else if (c[0]->what == ALL_TO_ALL)
        turn(c);
    else
        gather(c);
    return memory_check_guards(i->op->label.c_str());
}

} // namespace sim

/* ---- members ---- */

Status sim_comm_id(GpuCommId *out)
{
    Guard g(world().lock);
    static uint64_t count;

    SIM_INJECT("comm_id");
    std::memset(out, 0, sizeof *out);
    std::snprintf((char *)out->byte, sizeof out->byte, "sim-%llu", (unsigned long long)++count);
    return ST_OK;
}

/* Whether nobody will come any more is asked without the lock: others are asked in turn. */
static bool has_ended(Guard &g, const GpuCommWait *wait)
{
    if (!wait->ended)
        return false;
    g.unlock();
    bool ended = wait->ended(wait->arg);
    g.lock();
    return ended;
}

static Status wait_for_group(Guard &g, const std::shared_ptr<Group> &group, const GpuCommWait *wait)
{
    double timeout = wait->timeout, deadline = now() + timeout;

    while ((int)group->member.size() < group->n_rank && group->failure.empty() && now() < deadline) {
        if (has_ended(g, wait)) {
            group->failure = "a member has given up";
            return FAIL(E_INTERRUPTED, "comm_create: the other members have ended");
        }
        world().changed.wait_for(g, std::chrono::milliseconds(20));
    }
    if ((int)group->member.size() < group->n_rank) {
        if (group->failure.empty())
            group->failure = "a member did not come";
        return FAIL(E_DEVICE, "comm_create: %zu of %d members came within %.3g s", group->member.size(), group->n_rank,
                    timeout);
    }
    return ST_OK;
}

Status sim_comm_create(GpuComm **out, GpuDevice *d, const GpuCommId *id, int rank, int n_rank, const GpuCommWait *wait)
{
    Guard g(world().lock);
    std::string key((const char *)id->byte, sizeof id->byte);
    auto &group = groups()[key];
    How how = injected("comm_create", rank);

    TRY(device_check(d, "comm_create"));
    if (how == HOW_ERROR)
        return FAIL(E_DEVICE, "comm_create: injected failure of rank %d", rank);
    if (!group)
        group = std::make_shared<Group>();
    if (rank < 0 || rank >= n_rank || (group->n_rank && group->n_rank != n_rank) || group->member.count(rank))
        return FAIL(E_INVALID, "comm_create: rank %d of %d, when the group has %d and %zu are there", rank, n_rank,
                    group->n_rank, group->member.size());
    group->n_rank = n_rank;
    auto m = std::make_shared<Member>();
    m->group = group;
    m->device = d;
    m->rank = rank;
    if (how != HOW_HANG)
        group->member[rank] = m;
    world().changed.notify_all();
    TRY(wait_for_group(g, m->group, wait));
    d->objects++;
    *out = new GpuComm{ m };
    return ST_OK;
}

/* NCCL would wait for ever for such a graph. */
static void check_graphs(const Member &m)
{
    for (GpuGraph *g : m.device->graphs)
        for (const Graph::Node &n : g->graph->node)
            if (n.op->kind == COLLECTIVE && n.op->collective.member.get() == &m)
                misuse("ending a communicator whose collective a graph holds", g);
}

/* What waits in the member's streams is over. */
static void leave(Member &m)
{
    check_graphs(m);
    m.gone = true;
    if (m.group->failure.empty() && (int)m.group->meeting.size() > 0)
        m.group->failure = "rank " + std::to_string(m.rank) + " has left";
    for (auto &[turn, meeting] : m.group->meeting)
        meeting.erase(m.rank);
    m.device->objects--;
    world().changed.notify_all();
}

/* With a failure "hang" the others never leave. */
bool sim_comm_free(GpuComm *c, const GpuCommWait *wait)
{
    if (!c)
        return true;
    Guard g(world().lock);
    if (injected("comm_free", c->member->rank) == HOW_HANG)
        for (double deadline = now() + wait->timeout; !has_ended(g, wait) && now() < deadline;)
            world().changed.wait_for(g, std::chrono::milliseconds(20));
    leave(*c->member);
    delete c;
    return true;
}

void sim_comm_abort(GpuComm *c)
{
    Guard g(world().lock);
    if (c->member->group->failure.empty())
        c->member->group->failure = "rank " + std::to_string(c->member->rank) + " has aborted";
}

bool sim_comm_abort_end(GpuComm *c)
{
    Guard g(world().lock);
    const bool ends = injected("comm_abort", c->member->rank) != HOW_HANG;

    leave(*c->member);
    delete c;
    return ends;
}

Status sim_comm_poll(GpuComm *c)
{
    Guard g(world().lock);

    SIM_INJECT("comm_poll");
    if (!c->member->failure.empty())
        return FAIL(E_DEVICE, "%s", c->member->failure.c_str());
    if (!c->member->group->failure.empty())
        return FAIL(E_DEVICE, "%s", c->member->group->failure.c_str());
    return ST_OK;
}

Status sim_comm_alloc(GpuDevice *d, void **out, size_t bytes)
{
    Guard g(world().lock);

    if (injected("comm_alloc") == HOW_ERROR)
        return FAIL(E_NOMEM, "comm_alloc: injected failure, no memory for %zu bytes", bytes);
    TRY(device_check(d, "comm_alloc"));
    return memory_alloc(d, out, bytes, COMM_MEMORY);
}

void sim_comm_release(GpuDevice *d, GpuComm *c, void *p)
{
    Guard g(world().lock);

    if (c)
        c->member->registered.erase(p);
    for (auto &[id, group] : groups())
        for (auto &[rank, m] : group->member)
            if (!m->gone && m->device == d && m->registered.count(p))
                misuse("freeing what is registered with a communicator", p);
    memory_free(d, p, COMM_MEMORY);
}

Status sim_comm_register(GpuComm *c, void *p, size_t bytes)
{
    Guard g(world().lock);

    SIM_INJECT("comm_register");
    TRY(memory_check(c->member->device, p, bytes, true, "comm_register"));
    if (memory_block(p) != p)
        return FAIL(E_INVALID, "comm_register: %p is not where an allocation begins", p);
    c->member->registered.insert(p);
    return ST_OK;
}

/* ---- calls ---- */

/* A thread that drove several members would wait for the others in the first one's call. */
static Status check_group(const Member &m, const char *name)
{
    int &last = last_rank.emplace(m.group.get(), m.rank).first->second;

    if (last != m.rank)
        return FAIL(E_INVALID, "%s: one thread calls for ranks %d and %d", name, last, m.rank);
    return ST_OK;
}

/* Of memory that is registered and memory that is not, a collective reaches one kind. */
static Status check_registered(Collective *what, const char *name)
{
    const std::set<const void *> &registered = what->member->registered;
    bool send = registered.count(memory_block(what->send)), recv = registered.count(memory_block(what->recv));

    if (what->send && send != recv)
        return FAIL(E_INVALID, "%s: rank %d reads %sregistered memory and writes %sregistered", name,
                    what->member->rank, send ? "" : "un", recv ? "" : "un");
    what->registered = recv;
    return ST_OK;
}

static Status give(GpuComm *c, GpuStream *s, Collective what, size_t send_bytes, size_t recv_bytes)
{
    Guard g(world().lock);
    const char *name = what_name(what.what);
    How how = injected(name, c->member->rank);

    TRY(device_check(s->device, name));
    if (!c->member->failure.empty())
        return FAIL(E_DEVICE, "%s: the communicator has failed: %s", name, c->member->failure.c_str());
    if (how == HOW_ERROR) {
        c->member->failure = std::string(name) + ": injected failure of rank " + std::to_string(c->member->rank);
        return FAIL(E_DEVICE, "%s", c->member->failure.c_str());
    }
    if (how == HOW_LOST)
        c->member->group->failure = std::string(name) + ": injected loss of rank " + std::to_string(c->member->rank);
    if (s->device != c->member->device)
        return FAIL(E_INVALID, "%s: a stream of device %d for a member on device %d", name, s->device->index,
                    c->member->device->index);
    TRY(check_group(*c->member, name));
    if (what.send)
        TRY(memory_check(s->device, what.send, send_bytes, true, name));
    TRY(memory_check(s->device, what.recv, recv_bytes, true, name));
    what.member = c->member;
    TRY(check_registered(&what, name));
    what.hang = how == HOW_HANG;
    auto op = make_op(COLLECTIVE, name, {}, { memory_block(what.send), memory_block(what.recv) });
    op->collective = what;
    return submit(s, op);
}

Status sim_all_reduce_sum(GpuComm *c, GpuStream *s, const void *send, void *recv, size_t n, DType dtype)
{
    size_t bytes = n * dtype_size(dtype);

    return give(c, s, { nullptr, ALL_REDUCE, send, recv, n, dtype, 0, false }, bytes, bytes);
}

Status sim_reduce_scatter_sum(GpuComm *c, GpuStream *s, const void *send, void *recv, size_t n, DType dtype)
{
    size_t bytes = n * dtype_size(dtype);

    return give(c, s, { nullptr, REDUCE_SCATTER, send, recv, n, dtype, 0, false },
                bytes * (size_t)c->member->group->n_rank, bytes);
}

Status sim_all_gather(GpuComm *c, GpuStream *s, const void *send, void *recv, size_t bytes)
{
    return give(c, s, { nullptr, ALL_GATHER, send, recv, bytes, DT_NONE, 0, false }, bytes,
                bytes * (size_t)c->member->group->n_rank);
}

Status sim_all_to_all(GpuComm *c, GpuStream *s, const void *send, void *recv, size_t bytes)
{
    const size_t all = bytes * (size_t)c->member->group->n_rank;

    return give(c, s, { nullptr, ALL_TO_ALL, send, recv, bytes, DT_NONE, 0, false }, all, all);
}

Status sim_broadcast(GpuComm *c, GpuStream *s, const void *send, void *recv, size_t bytes, int root)
{
    if (root < 0 || root >= c->member->group->n_rank)
        return FAIL(E_INVALID, "broadcast: root %d of %d", root, c->member->group->n_rank);
    return give(c, s, { nullptr, BROADCAST, send, recv, bytes, DT_NONE, root, false },
                c->member->rank == root ? bytes : 0, bytes);
}
