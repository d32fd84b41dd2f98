/* Streams, events and the simple work: the table's functions on them. */
#include "tests/sim/sim.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>

using namespace sim;

static void misuse(const char *what)
{
    std::fprintf(stderr, "cudasim: misuse: %s\n", what);
    std::abort();
}

/* ---- streams ---- */

Status sim_stream_create(GpuDevice *d, GpuStream **out, bool urgent)
{
    Guard g(world().lock);

    (void)urgent;
    SIM_INJECT("stream_create");
    TRY(device_check(d, "stream_create"));
    GpuStream *s = new GpuStream{};
    s->device = d;
    d->streams.insert(s);
    *out = s;
    return ST_OK;
}

void sim_stream_free(GpuStream *s)
{
    if (!s)
        return;
    Guard g(world().lock);
    if (s->capture)
        misuse("freeing a stream within a capture");
    (void)drain(g, s->device, "stream_free", [&] { return s->queue.empty() && !s->busy; });
    while (s->busy)
        world().changed.wait(g);
    s->device->streams.erase(s);
    delete s;
}

Status sim_stream_wait(GpuStream *s)
{
    Guard g(world().lock);

    SIM_INJECT("stream_wait");
    TRY(device_check(s->device, "stream_wait"));
    if (s->capture) {
        s->capture->broken = "the host has waited for a stream within the capture";
        return FAIL(E_INVALID, "stream_wait: the stream is being captured");
    }
    return drain(g, s->device, "stream_wait", [&] { return s->queue.empty() && !s->busy; });
}

/* ---- events ---- */

Status sim_event_create(GpuDevice *d, GpuEvent **out, bool timed)
{
    Guard g(world().lock);

    SIM_INJECT("event_create");
    TRY(device_check(d, "event_create"));
    d->objects++;
    *out = new GpuEvent{ d, timed, nullptr };
    return ST_OK;
}

void sim_event_free(GpuEvent *e)
{
    if (!e)
        return;
    Guard g(world().lock);
    e->device->objects--;
    delete e;
}

Status sim_event_record(GpuEvent *e, GpuStream *s)
{
    Guard g(world().lock);

    SIM_INJECT("event_record");
    TRY(device_check(s->device, "event_record"));
    if (e->device->index != s->device->index)
        return FAIL(E_INVALID, "event_record: an event of device %d on a stream of device %d", e->device->index,
                    s->device->index);
    e->last = std::make_shared<Record>();
    e->last->timed = e->timed;
    if (s->capture) {
        e->last->capture = s->capture;
        e->last->nodes = s->frontier;
        return ST_OK;
    }
    auto op = make_op(RECORD, "event_record");
    op->record = e->last;
    return submit(s, op);
}

static Status await_captured(GpuEvent *e, GpuStream *s)
{
    auto capture = e->last->capture;

    if (capture->ended)
        return FAIL(E_INVALID, "event_await: the event was recorded in a capture that has ended");
    if (s->capture && s->capture != capture)
        return FAIL(E_INVALID, "event_await: the event and the stream belong to different captures");
    if (!s->capture) {
        s->capture = capture;
        s->frontier.clear();
        capture->streams.insert(s);
    }
    s->frontier.insert(e->last->nodes.begin(), e->last->nodes.end());
    return ST_OK;
}

Status sim_event_await(GpuEvent *e, GpuStream *s)
{
    Guard g(world().lock);

    SIM_INJECT("event_await");
    TRY(device_check(s->device, "event_await"));
    if (!e->last)
        return ST_OK;
    if (e->last->capture)
        return await_captured(e, s);
    if (s->capture) {
        s->capture->broken = "a stream of the capture awaits an event recorded outside";
        return FAIL(E_INVALID, "event_await: the stream is being captured, the event was recorded outside");
    }
    auto op = make_op(AWAIT, "event_await");
    op->record = e->last;
    return submit(s, op);
}

Status sim_event_wait(GpuEvent *e)
{
    Guard g(world().lock);

    SIM_INJECT("event_wait");
    TRY(device_check(e->device, "event_wait"));
    if (!e->last)
        return ST_OK;
    if (e->last->capture) {
        e->last->capture->broken = "the host has waited for an event of the capture";
        return FAIL(E_INVALID, "event_wait: the event was recorded in a capture");
    }
    auto record = e->last;
    return drain(g, e->device, "event_wait", [&] { return record->done; });
}

Status sim_event_query(GpuEvent *e, bool *done)
{
    Guard g(world().lock);

    SIM_INJECT("event_query");
    TRY(device_check(e->device, "event_query"));
    if (e->last && e->last->capture)
        return FAIL(E_INVALID, "event_query: the event was recorded in a capture");
    auto record = e->last;
    TRY(drain_some(g, e->device, "event_query"));
    *done = !record || record->done;
    return ST_OK;
}

Status sim_event_elapsed(GpuEvent *from, GpuEvent *to, double *seconds)
{
    Guard g(world().lock);

    if (!from->timed || !to->timed)
        return FAIL(E_INVALID, "event_elapsed: the events are not timed");
    if (!from->last || !to->last || !from->last->done || !to->last->done)
        return FAIL(E_INVALID, "event_elapsed: an event has not happened");
    *seconds = to->last->time - from->last->time;
    return ST_OK;
}

/* ---- work ---- */

/* A host's address is fine outside of captures, whose copies would read it again and again. */
static Status check_end(GpuStream *s, const void *p, size_t bytes, const char *what)
{
    TRY(memory_check(s->device, p, bytes, false, what));
    if (s->capture && bytes && memory_is_host(p))
        return FAIL(E_INVALID, "%s: host memory that is not pinned cannot be captured", what);
    return ST_OK;
}

Status sim_zero(GpuStream *s, void *p, size_t bytes)
{
    Guard g(world().lock);

    SIM_INJECT("zero");
    TRY(device_check(s->device, "zero"));
    TRY(memory_check(s->device, p, bytes, true, "zero"));
    return submit(s, make_op(WORK, "zero",
                             [=] {
                                 std::memset(p, 0, bytes);
                                 return ST_OK;
                             },
                             { memory_block(p) }));
}

Status sim_copy(GpuStream *s, void *to, const void *from, size_t bytes)
{
    return sim_copy_rows(s, to, bytes, from, bytes, bytes, 1);
}

Status sim_copy_rows(GpuStream *s, void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width,
                     size_t rows)
{
    Guard g(world().lock);

    SIM_INJECT("copy");
    TRY(device_check(s->device, "copy"));
    if (!width || !rows)
        return ST_OK;
    if (rows > 1 && (to_pitch < width || from_pitch < width))
        return FAIL(E_INVALID, "copy_rows: a pitch of %zu and %zu for rows of %zu bytes", to_pitch, from_pitch, width);
    TRY(check_end(s, to, (rows - 1) * to_pitch + width, "copy to"));
    TRY(check_end(s, from, (rows - 1) * from_pitch + width, "copy from"));
    return submit(s, make_op(WORK, "copy",
                             [=] {
                                 for (size_t i = 0; i < rows; i++)
                                     std::memmove((char *)to + i * to_pitch, (const char *)from + i * from_pitch,
                                                  width);
                                 return ST_OK;
                             },
                             { memory_block(to), memory_block(from) }));
}

Status sim_host_call(GpuStream *s, void (*fn)(void *), void *arg)
{
    Guard g(world().lock);

    SIM_INJECT("host_call");
    TRY(device_check(s->device, "host_call"));
    return submit(s, make_op(HOST, "host_call", [=] {
                      fn(arg);
                      return ST_OK;
                  }));
}
