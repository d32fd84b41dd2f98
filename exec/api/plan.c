/* dpx_plan: what a run would execute, as text, through memory to the caller. */
#include <stdio.h>
#include <stdlib.h>

#include "exec/api/api.h"
#include "exec/dry_run.h"

typedef struct {
    dpx_log_fn *log;
    void *user;
} Log;

static void forward(void *user, bool warning, const char *line)
{
    const Log *l = user;

    l->log(l->user, warning ? DPX_LOG_WARNING : DPX_LOG_INFO, line);
}

dpx_status dpx_plan(const dpx_model *m, const dpx_options *options, dpx_write_fn *write, void *user, dpx_log_fn *log,
                    void *log_user)
{
    Log l = { log, log_user };
    size_t bytes = 0;
    char *text = NULL;
    FILE *f;
    Status st;

    NEED(m, "model");
    NEED(options, "options");
    NEED(write, "write");
    if (!(f = open_memstream(&text, &bytes)))
        return (dpx_status)FAIL_NOMEM();
    st = dry_run(f, m->graph, (const Options *)options, log ? forward : NULL, &l);
    if (fclose(f) && !st)
        st = FAIL_NOMEM();
    if (text && bytes)
        write(user, text, bytes);
    free(text);
    return (dpx_status)st;
}
