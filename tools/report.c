/* dpexec report: writes the page of a run, or of several that are compared. */
#include <stdio.h>
#include <stdlib.h>

#include "tools/commands.h"
#include "tools/report/page.h"

enum { MOST_RUNS = 50 };

static const Flag flags[] = {
    { "o", "FILE.html", "the file to write [RUN/report.html, or report.html for several runs]" },
    { NULL, NULL, NULL },
};

const Command command_report = { "report",
                                 "RUN... [-o FILE.html]",
                                 "Writes a page with the curves, tables and facts of a run, or of several.",
                                 flags,
                                 NO_OPTIONS,
                                 1,
                                 MOST_RUNS,
                                 NULL };

static Status report(const Args *a)
{
    History *run[MOST_RUNS];
    char path[4200];
    int n = 0;
    Status st = ST_OK;

    for (; !st && n < a->n_positional; n += !st)
        st = history_open(&run[n], a->positional[n], NULL, NULL);
    if (args_value(a, "o"))
        snprintf(path, sizeof path, "%s", args_value(a, "o"));
    else
        snprintf(path, sizeof path, "%s%sreport.html", n == 1 ? a->positional[0] : "", n == 1 ? "/" : "");
    if (!st)
        st = page_write(path, run, n);
    if (!st && n == 1) {
        char csv[4200];

        snprintf(csv, sizeof csv, "%s/metrics.csv", a->positional[0]);
        st = history_write_csv(run[0], csv);
    }
    while (n--)
        history_free(run[n]);
    if (!st)
        printf("report: %s\n", path);
    return st;
}

int run_report(const Args *a)
{
    Status st = report(a);

    return st ? args_failed(a, "dpexec", st) : EXIT_DONE;
}
