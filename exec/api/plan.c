/* dpx_plan: what a run would execute, as text, through memory to the caller. */
#include <stdio.h>

#include "exec/api/api.h"
#include "exec/api/text.h"
#include "exec/inspect/dry_run.h"
#include "exec/plan/plan_budget.h"

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
    const Options *o = (const Options *)options;
    Log l = { log, log_user };
    MemoryText text = { 0 };
    FILE *f;
    Status st;

    NEED(m, "model");
    NEED(options, "options");
    NEED(write, "write");
    if (!(text.budget = plan_budget(o->build.plan_memory)) || !(f = memory_text_open(&text))) {
        memory_budget_free(text.budget);
        return (dpx_status)FAIL_NOMEM();
    }
    st = dry_run(f, m->graph, o, log ? forward : NULL, &l);
    st = memory_budget_explain(text.budget, memory_text_close(f, st));
    if (text.n)
        write(user, text.data, text.n);
    memory_text_free(&text);
    memory_budget_free(text.budget);
    return (dpx_status)st;
}
