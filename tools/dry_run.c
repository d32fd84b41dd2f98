/* --dry-run: prints what a run would execute on each device and what memory it needs, and runs nothing.  No data is
 * read. */
#include <stdio.h>
#include <string.h>

#include "tools/commands.h"
#include "tools/feed.h"
#include "tools/progress.h"

static void write_out(void *user, const char *text, size_t bytes)
{
    (void)user;
    (void)!fwrite(text, 1, bytes, stdout); /* told by tool_end */
}

/* What the options leave open gets what training takes by default; a schedule's last step changes no plan. */
static Status fill_options(const Args *a)
{
    if (!*dpx_options_get(a->options, "batch-size"))
        TRY((Status)dpx_options_set(a->options, "batch-size", "32"));
    TRY((Status)dpx_options_set(a->options, "total-steps", "1000000000"));
    return args_has(a, "class-weights") ? feed_class_weights(a, NULL) : ST_OK;
}

Status print_plan(const Args *a, bool quiet)
{
    dpx_model *model;
    Progress progress;
    Status st;

    progress_start(&progress, quiet);
    TRY(fill_options(a));
    TRY((Status)dpx_model_load_within(&model, a->positional[0], a->options));
    st = (Status)dpx_plan(model, a->options, write_out, NULL, report_log, &progress);
    dpx_model_free(model);
    return st;
}
