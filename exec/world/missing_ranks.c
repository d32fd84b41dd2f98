/* Lines about missing ranks, at growing intervals, so that a long wait does not fill a log. */
#include "exec/world/missing_ranks.h"

#include <stdarg.h>
#include <stdio.h>

#include "graph/base/numtext.h"

static const double FIRST = 10; /* seconds */

void waiting_begin(Waiting *w, const WorldOptions *opt)
{
    const double now = world_now();

    *w = (Waiting){ opt->log, opt->log_user, now, now + FIRST };
}

double waiting_until(const Waiting *w, double until) { return w->next < until ? w->next : until; }

bool waiting_is_due(const Waiting *w) { return world_now() >= w->next; }

void waiting_log(Waiting *w, int rank, const char *whom, ...)
{
    const double now = world_now();
    char name[512], line[640];
    va_list ap;

    va_start(ap, whom);
    text_vformat(name, sizeof name, whom, ap);
    va_end(ap);
    snprintf(line, sizeof line, "rank %d has waited %d seconds for %s", rank, (int)(now - w->since), name);
    while (w->next <= now)
        w->next += w->next - w->since;
    if (w->log)
        w->log(w->user, line);
}
