/* The order of things: what was given to streams runs when the host waits, one piece at a time, chosen at random among
 * all that streams and events allow.  What is not ordered by an event will run in the wrong order with some seed. */
#include "tests/sim/sim.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>

namespace sim
{

World::World()
{
    seed = (uint64_t)env_number("DPEXEC_SIM_SEED", 1);
    random.seed(seed);
}

World &world()
{
    static World *w = new World; /* outlives what runs at exit */
    return *w;
}

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

int64_t env_number(const char *name, int64_t otherwise)
{
    const char *text = std::getenv(name);
    char *end;
    int64_t n;

    if (!text || !*text)
        return otherwise;
    n = std::strtoll(text, &end, 0);
    return *end == 'K' ? n << 10 : *end == 'M' ? n << 20 : *end == 'G' ? n << 30 : n;
}

/* "alloc:3", "all_reduce_sum@1:2:hang": counts anew when the variable changes. */
How injected(const char *call, int rank)
{
    static std::string spec;
    static std::map<std::string, int> counts;
    const char *text = std::getenv("DPEXEC_SIM_FAIL");
    static const std::map<std::string, How> hows = {
        { "", HOW_ERROR }, { "error", HOW_ERROR }, { "async", HOW_ASYNC }, { "lost", HOW_LOST }, { "hang", HOW_HANG }
    };

    if (!text || !*text) {
        spec.clear();
        return HOW_FINE;
    }
    if (spec != text) {
        spec = text;
        counts.clear();
    }
    std::string key = rank < 0 ? call : call + ("@" + std::to_string(rank)), rest = spec + ",";
    int count = ++counts[key];
    for (size_t at = 0, end; (end = rest.find(',', at)) != std::string::npos; at = end + 1) {
        std::string item = rest.substr(at, end - at), how;
        size_t colon = item.find(':'), second = colon == std::string::npos ? colon : item.find(':', colon + 1);

        if (colon == std::string::npos || item.substr(0, colon) != key || std::atoi(item.c_str() + colon + 1) != count)
            continue;
        if (second != std::string::npos)
            how = item.substr(second + 1);
        return hows.count(how) ? hows.at(how) : HOW_ERROR;
    }
    return HOW_FINE;
}

How injected_on(const char *call, const GpuDevice *d)
{
    How any = injected(call), own = injected(call, d->index);

    return any == HOW_FINE ? own : any;
}

/* ---- errors ---- */

Status device_fail(GpuDevice *d, Status st)
{
    if (!d->error) {
        d->error = st;
        d->error_text = status_message();
    }
    for (GpuStream *s : d->streams) {
        for (Entry &e : s->queue)
            if (e.inst && e.inst->op->record)
                e.inst->op->record->done = true;
        if (!s->busy)
            s->queue.clear();
    }
    world().changed.notify_all();
    return st;
}

Status device_check(const GpuDevice *d, const char *what)
{
    if (d->error)
        return FAIL(d->error, "%s", d->error_text.c_str());
    if (d->described)
        return FAIL(E_DEVICE, "%s: %s is only described: nothing can run on it", what, d->info.name);
    return ST_OK;
}

/* ---- what can run ---- */

namespace
{

struct Candidate {
    GpuStream *stream;
    std::shared_ptr<Instance> inst;
};

bool can_run(Instance *i)
{
    switch (i->op->kind) {
    case AWAIT: return i->op->record->done;
    case COLLECTIVE: return collective_ready(i);
    default: return !i->op->hang;
    }
}

void node_done(GraphRun *run, int node)
{
    run->ready.erase(std::find(run->ready.begin(), run->ready.end(), node));
    run->left--;
    for (size_t i = 0; i < run->graph->node.size(); i++)
        for (int before : run->graph->node[i].after)
            if (before == node && !--run->missing[i])
                run->ready.push_back((int)i);
}

/* Drops what others have completed (collectives), so that what follows can run. */
void drop_done(GpuStream *s)
{
    while (!s->queue.empty() && !s->busy) {
        Entry &e = s->queue.front();

        if (e.run) {
            for (bool again = true; again;) {
                again = false;
                for (int node : e.run->ready)
                    if (e.run->inst[(size_t)node]->done) {
                        node_done(e.run.get(), node);
                        again = true;
                        break;
                    }
            }
            if (e.run->left)
                return;
        } else if (!e.inst->done) {
            return;
        }
        s->queue.pop_front();
    }
}

void collect(std::vector<Candidate> &out)
{
    out.clear();
    for (GpuDevice *d : world().devices)
        for (GpuStream *s : d->streams) {
            drop_done(s);
            if (s->queue.empty() || s->busy)
                continue;
            Entry &e = s->queue.front();
            if (!e.run && can_run(e.inst.get()))
                out.push_back({ s, e.inst });
            for (size_t k = 0; e.run && k < e.run->ready.size(); k++)
                if (auto &i = e.run->inst[(size_t)e.run->ready[k]]; can_run(i.get()))
                    out.push_back({ s, i });
        }
}

Status run_one(Guard &g, const Candidate &c)
{
    std::shared_ptr<const Op> op = c.inst->op;
    Status st = ST_OK;

    switch (op->kind) {
    case AWAIT: break;
    case RECORD:
        op->record->done = true;
        op->record->time = now();
        break;
    case COLLECTIVE: return collective_run(c.inst.get());
    case HOST:
        c.stream->busy = true;
        g.unlock();
        st = op->run();
        g.lock();
        c.stream->busy = false;
        break;
    case WORK:
        st = op->run();
        if (!st)
            st = memory_check_guards(op->label.c_str());
        break;
    }
    c.inst->done = true;
    return st;
}

/* Which candidate: at random, or for a while by a random rank of the streams, so that one may run far ahead. */
struct Chooser {
    std::map<GpuStream *, uint64_t> rank;
    int left = 0;
    bool ranked = false;

    const Candidate &choose(const std::vector<Candidate> &c)
    {
        std::mt19937_64 &r = world().random;

        if (left-- <= 0) {
            left = (int)(r() % 32);
            ranked = r() % 2;
            rank.clear();
        }
        if (!ranked)
            return c[r() % c.size()];
        for (const Candidate &one : c)
            if (!rank.count(one.stream))
                rank[one.stream] = r();
        return *std::max_element(c.begin(), c.end(), [&](const Candidate &a, const Candidate &b) {
            return rank[a.stream] < rank[b.stream];
        });
    }
};

} // namespace

/* Runs one of what was found; a failure is the device's that ran it. */
static void step(Guard &g, const std::vector<Candidate> &found, Chooser &chooser)
{
    Candidate c = chooser.choose(found);
    GpuDevice *owner = c.stream->device;
    Unlocked open;
    Status st = run_one(g, c);

    world().changed.notify_all();
    if (st)
        (void)device_fail(
            owner, FAIL(st, "%s [seed %llu]", std::string(status_message()).c_str(), (unsigned long long)world().seed));
}

Status drain_some(Guard &g, GpuDevice *d, const char *what)
{
    std::vector<Candidate> found;
    Chooser chooser;

    for (uint64_t n = world().random() % 4; n-- && !d->error;) {
        collect(found);
        if (!found.empty())
            step(g, found, chooser);
    }
    return device_check(d, what);
}

Status drain(Guard &g, GpuDevice *d, const char *what, const std::function<bool()> &until)
{
    double patience = (double)env_number("DPEXEC_SIM_TIMEOUT", 20), deadline = now() + patience;
    std::vector<Candidate> found;
    Chooser chooser;

    for (;;) {
        if (d->error)
            return device_check(d, what);
        collect(found);
        if (until())
            return ST_OK;
        if (found.empty()) {
            if (world().changed.wait_for(g, std::chrono::milliseconds(50)) == std::cv_status::timeout &&
                now() > deadline)
                return device_fail(
                    d, FAIL(E_DEVICE, "%s: nothing can run for %.0f s: a collective lacks a member", what, patience));
            continue;
        }
        deadline = now() + patience;
        step(g, found, chooser);
    }
}

std::shared_ptr<Op> make_op(Kind kind, std::string label, std::function<Status()> run, std::vector<const void *> uses)
{
    auto op = std::make_shared<Op>();

    op->kind = kind;
    op->label = std::move(label);
    op->run = std::move(run);
    op->uses = std::move(uses);
    return op;
}

Status submit(GpuStream *s, std::shared_ptr<Op> op)
{
    if (s->capture) {
        Graph &graph = s->capture->graph;

        graph.node.push_back({ std::move(op), std::vector<int>(s->frontier.begin(), s->frontier.end()) });
        s->frontier = { (int)graph.node.size() - 1 };
        return ST_OK;
    }
    Entry e{};
    e.inst = std::make_shared<Instance>();
    e.inst->op = std::move(op);
    if (e.inst->op->kind == COLLECTIVE)
        collective_number(e.inst.get());
    s->queue.push_back(std::move(e));
    world().changed.notify_all();
    return ST_OK;
}

} // namespace sim
