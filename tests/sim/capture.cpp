/* Captured graphs: the pieces of work given while a stream is captured, and which must run before which; a launch runs
 * them in any order that this allows. */
#include "tests/sim/sim.h"

using namespace sim;

Status sim_capture_begin(GpuStream *s)
{
    Guard g(world().lock);

    TRY(device_check(s->device, "capture_begin"));
    if (injected_on("capture_begin", s->device) == HOW_ERROR)
        return FAIL(E_DEVICE, "capture_begin: injected failure");
    if (s->capture)
        return FAIL(E_INVALID, "capture_begin: the stream is being captured");
    s->capture = std::make_shared<Capture>();
    s->capture->origin = s;
    s->capture->streams = { s };
    s->frontier.clear();
    return ST_OK;
}

/* Every node must run before the end of the stream where the capture began. */
static Status check_joined(const Graph &graph, const std::set<int> &last)
{
    std::vector<bool> joined(graph.node.size());

    for (int i : last)
        joined[(size_t)i] = true;
    for (size_t i = graph.node.size(); i-- > 0;) {
        if (!joined[i])
            return FAIL(E_INVALID, "capture_end: %s (node %zu) was given to a stream that has not joined again",
                        graph.node[i].op->label.c_str(), i);
        for (int before : graph.node[i].after)
            joined[(size_t)before] = true;
    }
    return ST_OK;
}

static Status finish(const std::shared_ptr<Capture> &c, const std::set<int> &last)
{
    if (!c->broken.empty())
        return FAIL(E_INVALID, "capture_end: %s", c->broken.c_str());
    return check_joined(c->graph, last);
}

Status sim_capture_end(GpuStream *s, GpuGraph **out)
{
    Guard g(world().lock);
    auto c = s->capture;
    Status st;

    if (!c || c->origin != s)
        return FAIL(E_INVALID, "capture_end: no capture has begun on this stream");
    st = finish(c, s->frontier);
    c->ended = true;
    for (GpuStream *joined : c->streams) {
        joined->capture = nullptr;
        joined->frontier.clear();
    }
    TRY(st);
    TRY(device_check(s->device, "capture_end"));
    if (injected_on("capture_end", s->device) == HOW_ERROR)
        return FAIL(E_DEVICE, "capture_end: injected failure");
    s->device->objects++;
    *out = new GpuGraph{ s->device, std::make_shared<Graph>(std::move(c->graph)) };
    s->device->graphs.insert(*out);
    return ST_OK;
}

static Status check_uses(const GpuGraph *g)
{
    for (const Graph::Node &n : g->graph->node) {
        if (n.op->kind == COLLECTIVE && collective_gone(*n.op))
            return FAIL(E_INVALID, "graph_launch: %s of a communicator that has been freed", n.op->label.c_str());
        for (const void *p : n.op->uses)
            if (p && memory_block(p) != p)
                return FAIL(E_INVALID, "graph_launch: %s uses memory that has been freed", n.op->label.c_str());
    }
    return ST_OK;
}

Status sim_graph_launch(GpuGraph *g, GpuStream *s)
{
    Guard guard(world().lock);
    Entry e{};

    SIM_INJECT("graph_launch");
    TRY(device_check(s->device, "graph_launch"));
    if (s->capture)
        return FAIL(E_INVALID, "graph_launch: the stream is being captured");
    if (g->device != s->device)
        return FAIL(E_INVALID, "graph_launch: a graph of device %d on device %d", g->device->index, s->device->index);
    TRY(check_uses(g));
    e.run = std::make_shared<GraphRun>();
    e.run->graph = g->graph;
    e.run->left = g->graph->node.size();
    for (size_t i = 0; i < g->graph->node.size(); i++) {
        const Graph::Node &n = g->graph->node[i];

        e.run->inst.push_back(std::make_shared<Instance>());
        e.run->inst.back()->op = n.op;
        e.run->inst.back()->captured = true;
        if (n.op->kind == COLLECTIVE)
            collective_number(e.run->inst.back().get());
        e.run->missing.push_back((int)n.after.size());
        if (n.after.empty())
            e.run->ready.push_back((int)i);
    }
    s->queue.push_back(std::move(e));
    world().changed.notify_all();
    return ST_OK;
}

void sim_graph_free(GpuGraph *g)
{
    if (!g)
        return;
    Guard guard(world().lock);
    g->device->objects--;
    g->device->graphs.erase(g);
    delete g;
}
