/* The best evaluation of a run so far. */
#include "tools/training/best_so_far.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/training/checkpoint_note.h"

/* The run's metric of that name, else the first whose name has it before a colon: "recall" names recall:macro.  `name`
 * "": the first metric.  Metrics that are no numbers do not count.  The result's name is NULL if there is none. */
static dpx_metric_info find_metric(const Args *a, const char *name)
{
    const size_t n = strlen(name);
    dpx_metric_info m, found = { .name = NULL };

    for (int i = 0; (m = dpx_metric_at(a->options, i)).name; i++) {
        if (!m.number || strncmp(m.name, name, n))
            continue;
        if (!m.name[n])
            return m;
        if (!found.name && (!n || m.name[n] == ':'))
            found = m;
    }
    return found;
}

/* "loss, accuracy or f1": what can be monitored. */
static void list_figures(char *text, size_t size, const Args *a)
{
    size_t n = (size_t)snprintf(text, size, "loss");
    dpx_metric_info m;

    for (int i = 0; (m = dpx_metric_at(a->options, i)).name && n < size; i++)
        if (m.number)
            n += (size_t)snprintf(text + n, size - n, " or %s", m.name);
}

Status monitor_read(Monitor *out, const Args *a, bool evaluates)
{
    static const char *const need[] = { "monitor", "patience", "no-best" };
    const char *given = args_value(a, "monitor");
    const dpx_metric_info first = find_metric(a, "");
    dpx_metric_info chosen;
    char figures[512];
    PROBLEMS(wrong);
    size_t n;
    bool directed;

    *out = (Monitor){ .name = "" };
    for (size_t i = 0; i < sizeof need / sizeof *need && !evaluates; i++)
        if (args_has(a, need[i]))
            problems_add(&wrong, "--%s", need[i]);
    TRY(problems_fail(&wrong, E_INVALID, "without --val nothing is evaluated, and no best model chosen: leave out"));
    if (!evaluates)
        return ST_OK;
    if (!given) {
        snprintf(out->name, sizeof out->name, "%s", first.name ? first.name : "loss");
        out->rises = first.name && !first.falls;
        return ST_OK;
    }
    n = strlen(given);
    if (n >= MONITOR_TEXT)
        return FAIL(E_INVALID, "--monitor: expected METRIC[:max|min], found a text of %zu bytes", n);
    directed = n > 4 && (!strcmp(given + n - 4, ":max") || !strcmp(given + n - 4, ":min"));
    snprintf(out->name, sizeof out->name, "%.*s", (int)(directed ? n - 4 : n), given);
    chosen = strcmp(out->name, "loss") ? find_metric(a, out->name) : (dpx_metric_info){ "loss", 1, 1 };
    if (!chosen.name) {
        list_figures(figures, sizeof figures, a);
        return FAIL(E_INVALID, "--monitor %s: the run does not measure it; expected %s%s", out->name, figures,
                    first.name ? "" : ", or give --metric");
    }
    snprintf(out->name, sizeof out->name, "%s", chosen.name);
    out->rises = !chosen.falls;
    if (directed)
        out->rises = !strcmp(given + n - 4, ":max");
    return ST_OK;
}

void monitor_text(char text[MONITOR_TEXT + 8], const Monitor *m)
{
    snprintf(text, MONITOR_TEXT + 8, "%s:%s", m->name, m->rises ? "max" : "min");
}

Monitor monitor_metric(const Monitor *m, const Args *a)
{
    const dpx_metric_info first = find_metric(a, "");
    Monitor out = { .rises = first.name && !first.falls };

    if (!*m->name || strcmp(m->name, "loss"))
        return *m;
    snprintf(out.name, sizeof out.name, "%s", first.name ? first.name : "");
    return out;
}

#define PLATEAU "plateau"

/* Checks the MODE of a plateau in the text of --lr-schedule or --group. */
static Status check_mode(const Monitor *metric, const char *flag, const char *text)
{
    const char *plateau = strstr(text, PLATEAU);
    const bool rises = plateau && strstr(plateau, ":max"), falls = plateau && strstr(plateau, ":min-metric");

    if (!*metric->name || (!rises && !falls) || (metric->rises ? rises : falls))
        return ST_OK;
    return FAIL(E_INVALID,
                "--%s %s: its MODE is for metrics that should %s, and it follows %s, which should %s: give another "
                "--monitor, or %s",
                flag, text, rises ? "rise" : "fall", metric->name, rises ? "fall" : "rise",
                rises ? "min-metric" : "max");
}

static Status check_modes(const Monitor *m, const Args *a)
{
    const Monitor metric = monitor_metric(m, a);

    TRY(check_mode(&metric, "lr-schedule", dpx_options_get(a->options, "lr-schedule")));
    for (int i = 0; i < a->n_given; i++)
        if (!strcmp(a->given[i].name, "group"))
            TRY(check_mode(&metric, "group", a->given[i].value));
    return ST_OK;
}

/* Did the run that is resumed have this schedule, from before a plateau followed the metric by default? */
static bool is_kept(const Args *a, const char *schedule)
{
    char *was =
        args_has(a, "resume") && !args_has(a, "monitor") ? note_find(args_value(a, "resume"), "lr-schedule") : NULL;
    const bool kept = was && !strcmp(was, schedule);

    free(was);
    return kept;
}

Status monitor_lead_schedule(const Monitor *m, const Args *a)
{
    enum { BEFORE_MODE = 6 /* arguments of plateau */ };
    const char *given = dpx_options_get(a->options, "lr-schedule");
    char text[256], colons[BEFORE_MODE + 2] = "";
    int n = 0;

    for (const char *c = given; *c; c++)
        n += *c == ':';
    if (!*m->name || strncmp(given, PLATEAU, strlen(PLATEAU)) != 0 || n > BEFORE_MODE || !strcmp(m->name, "loss") ||
        is_kept(a, given))
        return check_modes(m, a);
    memset(colons, ':', (size_t)(BEFORE_MODE + 1 - n));
    snprintf(text, sizeof text, "%s%s%s", given, colons, m->rises ? "max" : "min-metric");
    TRY((Status)dpx_options_set(a->options, "lr-schedule", text));
    return check_modes(m, a);
}

bool best_take(BestSoFar *b, const Monitor *m, double value, int64_t step, int64_t epoch)
{
    const bool better = isfinite(value) && (b->step < 0 || (m->rises ? value > b->value : value < b->value));

    monitor_text(b->of, m);
    b->counted = step;
    b->since = better ? 0 : b->since + 1;
    if (!better)
        return false;
    b->step = step;
    b->epoch = epoch;
    b->value = value;
    return true;
}
