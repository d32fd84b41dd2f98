/* dpx_plan: writes what a run would execute as text.  The text is streamed, because it may be large. */
#include <stdio.h>

#include "exec/api/api.h"
#include "exec/inspect/dry_run.h"

/* The caller's functions, each with its own argument. */
typedef struct {
    dpx_write_fn *write;
    void *write_user;
    dpx_log_fn *log;
    void *log_user;
} Caller;

static void log_line(void *user, LineLevel level, const char *line)
{
    const Caller *c = user;

    c->log(c->log_user, (int)level, line);
}

static ssize_t write_text(void *cookie, const char *text, size_t n)
{
    const Caller *c = cookie;

    c->write(c->write_user, text, n);
    return (ssize_t)n;
}

dpx_status dpx_plan(const dpx_model *m, const dpx_options *options, dpx_write_fn *write, void *user, dpx_log_fn *log,
                    void *log_user)
{
    Caller caller = { write, user, log, log_user };
    FILE *f;
    Status st;

    NEED(m, "model");
    NEED(options, "options");
    NEED(write, "write");
    if ((st = model_check_attached(m, (const Options *)options)))
        return (dpx_status)st;
    if (!(f = fopencookie(&caller, "w", (cookie_io_functions_t){ .write = write_text })))
        return (dpx_status)FAIL_NOMEM();
    st = dry_run(f, m->graph, (const Options *)options, log ? log_line : NULL, &caller);
    if (fclose(f) && !st)
        st = FAIL_NOMEM();
    return (dpx_status)st;
}

dpx_status dpx_plan_memory_sized(dpx_plan_memory_result *out, const dpx_model *m, const dpx_options *options,
                                 size_t size)
{
    dpx_plan_memory_result result;
    Status st;

    NEED(out, "out");
    NEED(m, "model");
    NEED(options, "options");
    NEED_SIZE(size, dpx_plan_memory_result);
    if (!(st = model_check_attached(m, (const Options *)options)))
        st = plan_shares(&result.host, &result.accelerator, m->graph, (const Options *)options);
    if (!st)
        GIVE(out, size, result);
    return (dpx_status)st;
}
