/* --dry-run: prints what a run would execute on each device and what memory it needs.  It runs nothing and reads no
 * data. */
#include <stdio.h>
#include <string.h>

#include "tools/commands.h"
#include "tools/feed/feed.h"
#include "tools/progress.h"

static void write_out(void *user, const char *text, size_t bytes)
{
    (void)user;
    (void)!fwrite(text, 1, bytes, stdout); /* tool_end reports a failure */
}

Status print_plan(const Args *a, bool quiet)
{
    dpx_model *model;
    Progress progress;
    Status st;

    progress_start(&progress, quiet);
    if (!*dpx_options_get(a->options, "batch-size"))
        TRY((Status)dpx_options_set(a->options, "batch-size", "32"));      /* training's default */
    TRY((Status)dpx_options_set(a->options, "total-steps", "1000000000")); /* changes no plan */
    TRY(feed_plan_workers(a));
    if (args_has(a, "class-weights"))
        TRY(feed_class_weights(a, NULL, NULL));
    TRY((Status)dpx_model_load_within(&model, a->positional[0], a->options));
    st = (Status)dpx_plan(model, a->options, write_out, NULL, report_log, &progress);
    dpx_model_free(model);
    return st;
}
