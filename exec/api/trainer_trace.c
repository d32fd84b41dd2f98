/* Timings of a trainer: its trace and its profile. */
#include "exec/api/memory_text.h"
#include "exec/api/trainer.h"
#include "exec/inspect/profile.h"
#include "exec/plan/trace.h"
#include "graph/base/outfile.h"

/* Lets the session time steps for the profile, which passes the events on, or else for the trace. */
static void set_traces(const dpx_trainer *t)
{
    Trace *own = t->profile ? profile_trace(t->profile) : NULL;

    session_set_trace(t->session, own ? own : t->trace, t->trace != NULL);
}

/* ---- trace ---- */

dpx_status dpx_trainer_trace(dpx_trainer *t, uint32_t events)
{
    Trace *fresh = NULL;
    Status st;

    NEED(t, "trainer");
    if ((st = events ? trace_create(&fresh, events) : ST_OK))
        return (dpx_status)st;
    trace_free(t->trace);
    t->trace = fresh;
    set_traces(t);
    return DPX_OK;
}

dpx_status dpx_trainer_write_trace(const dpx_trainer *t, const char *path)
{
    OutFile *file;
    Status st;

    NEED(t, "trainer");
    NEED(path, "path");
    if (!t->trace)
        return (dpx_status)FAIL(E_INVALID, "nothing was timed: call dpx_trainer_trace first");
    if ((st = outfile_open(&file, path)))
        return (dpx_status)st;
    trace_write(t->trace, outfile_stream(file));
    return (dpx_status)outfile_close(file, ST_OK);
}

/* ---- profile ---- */

dpx_status dpx_trainer_profile(dpx_trainer *t, int on)
{
    Profile *fresh = NULL;
    Status st;

    NEED(t, "trainer");
    if ((st = on ? profile_create(&fresh, session_runs_ahead(t->session)) : ST_OK))
        return (dpx_status)st;
    profile_free(t->profile);
    t->profile = fresh;
    set_traces(t);
    return DPX_OK;
}

double trainer_profile_begin(dpx_trainer *t)
{
    profile_begin_run(t->profile);
    return world_now();
}

Status trainer_profile_run(dpx_trainer *t, BuildMode mode, const SessionStep *step, double begun)
{
    const ProfileRun run = { .trains = mode >= BUILD_TRAIN,
                             .runs = session_step_runs(step),
                             .forgotten = session_forgotten(t->session),
                             .seconds = world_now() - begun,
                             .also = t->trace };

    return profile_take(t->profile, &run);
}

dpx_status dpx_trainer_profile_step(dpx_trainer *t, double seconds, double data)
{
    Status st;

    NEED(t, "trainer");
    if (!t->profile)
        return (dpx_status)FAIL(E_INVALID, "there is no profile: call dpx_trainer_profile first");
    st = profile_end_step(t->profile, seconds, data);
    set_traces(t);
    return (dpx_status)st;
}

dpx_status dpx_trainer_write_profile(dpx_trainer *t, int json, dpx_write_fn *write, void *user)
{
    MemoryText text = { 0 };
    DeviceList list;
    Status st;
    FILE *f;

    NEED(t, "trainer");
    NEED(write, "write");
    if (!t->profile)
        return (dpx_status)FAIL(E_INVALID, "there is no profile: call dpx_trainer_profile first");
    if ((st = options_devices(&list, t->options)) || (st = profile_measure(t->profile, &list.device[0])))
        return (dpx_status)st;
    if (!(f = memory_text_open(&text)))
        return (dpx_status)FAIL_NOMEM();
    st = json ? profile_print_json(t->profile, f) : profile_print(t->profile, f);
    if (!(st = memory_text_close(f, st)))
        write(user, text.data, text.n);
    memory_text_free(&text);
    return (dpx_status)st;
}
