/* The bar of progress.  It is redrawn a few times a second; a step between two redraws costs one look at the clock.  It
 * is removed by spaces, not by an escape sequence, so that it needs none. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "graph/base/numtext.h"
#include "tools/progress.h"
#include "tools/terminal.h"

enum { BAR_LEAST = 8, BAR_MOST = 30, LINE_TEXT = 512, PARTS = 3, PART_TEXT = 64 };

static const double TERMINAL_SECONDS = 0.2, PLAIN_SECONDS = 5;

const char *progress_time(char text[32], double seconds)
{
    const int64_t t = (int64_t)(seconds + 0.5);

    if (seconds < 59.95)
        text_format(text, 32, "%.1f s", seconds);
    else if (t >= 3600)
        snprintf(text, 32, "%lld:%02lld:%02lld", (long long)(t / 3600), (long long)(t / 60 % 60), (long long)(t % 60));
    else
        snprintf(text, 32, "%lld:%02lld", (long long)(t / 60), (long long)(t % 60));
    return text;
}

/* ---- time ---- */

void progress_epoch(Progress *p, int64_t epoch, int64_t epochs, int64_t done)
{
    p->epoch = epoch;
    p->epochs = epochs;
    p->epoch_start = p->pause_start = seconds_now();
    p->paused = 0;
    p->samples = 0;
    if (p->first_start > 0)
        return;
    p->first = done;
    p->first_start = p->epoch_start;
}

void progress_pause(Progress *p)
{
    if (!p->pauses++)
        p->pause_start = seconds_now();
}

void progress_resume(Progress *p)
{
    if (!--p->pauses) {
        const double paused = seconds_now() - p->pause_start;

        p->paused += paused;
        p->paused_ever += paused;
    }
}

double progress_rate(const Progress *p)
{
    const double now = p->pauses ? p->pause_start : seconds_now(), trained = now - p->epoch_start - p->paused;

    return trained > 0 ? (double)p->samples / trained : 0;
}

/* Seconds that the steps left take, with evaluations and checkpoints as often as so far. */
static double seconds_left(const Progress *p, int64_t done, int64_t total)
{
    return done > p->first ? (seconds_now() - p->first_start) / (double)(done - p->first) * (double)(total - done) : 0;
}

/* ---- drawing ---- */

/* Adds a bar of that many columns, of which done / total are full. */
static size_t add_bar(const Progress *p, char line[LINE_TEXT], size_t n, int columns, int64_t done, int64_t total)
{
    const int full = total > 0 ? (int)((double)columns * (double)done / (double)total) : 0;
    const char *mark = p->utf8 ? "\u2501" : "=", *rest = p->utf8 ? "\u2500" : "-";

    n += (size_t)snprintf(line + n, LINE_TEXT - n, "  %s", p->colour ? "\033[36m" : "");
    for (int i = 0; i < columns; i++) {
        if (i == full && p->colour)
            n += (size_t)snprintf(line + n, LINE_TEXT - n, "\033[0m\033[2m");
        n += (size_t)snprintf(line + n, LINE_TEXT - n, "%s", i < full ? mark : rest);
    }
    return n + (size_t)snprintf(line + n, LINE_TEXT - n, "%s", p->colour ? "\033[0m" : "");
}

/* Draws "HEAD  BAR  COUNT  PART  PART" over the bar that is there: the parts for which there is room. */
static void draw(Progress *p, const char *head, int64_t done, int64_t total, const char *count,
                 char part[PARTS][PART_TEXT])
{
    const int width = terminal_width(STDERR_FILENO) - 1;
    char line[LINE_TEXT];
    int used = (int)(strlen(head) + 2 + strlen(count)), kept = 0, bar;
    size_t n = (size_t)snprintf(line, sizeof line, "%s", head);

    if (used > width) {
        head = "";
        n = 0;
        used = (int)strlen(count);
    }
    for (; kept < PARTS && *part[kept]; kept++) {
        const int more = 2 + (int)strlen(part[kept]);

        if (used + more + 2 + BAR_LEAST > width)
            break;
        used += more;
    }
    bar = width - used - 2;
    bar = bar > BAR_MOST ? BAR_MOST : bar;
    if (bar >= BAR_LEAST)
        n = add_bar(p, line, n, bar, done, total);
    used += bar >= BAR_LEAST ? 2 + bar : 0;
    n += (size_t)snprintf(line + n, LINE_TEXT - n, "%s%s", n ? "  " : "", count);
    for (int i = 0; i < kept; i++)
        n += (size_t)snprintf(line + n, LINE_TEXT - n, "  %s", part[i]);
    if (used > width)
        return; /* not even the count fits */
    progress_end(p);
    fputs(line, stderr);
    fflush(stderr);
    p->drawn = used;
}

/* Whether it is time to show progress, of an evaluation or of training; a change of these shows at once. */
static bool is_due(Progress *p, bool evaluates)
{
    const double now = seconds_now();
    const bool changed = p->evaluates != evaluates && p->terminal;

    if (p->quiet || (!changed && now - p->shown < (p->terminal ? TERMINAL_SECONDS : PLAIN_SECONDS)))
        return false;
    p->shown = now;
    p->evaluates = evaluates;
    return true;
}

void progress_step(Progress *p, int64_t done, int64_t total, double loss, int64_t samples)
{
    char head[PART_TEXT], count[PART_TEXT], part[PARTS][PART_TEXT], time[32];

    p->samples += samples;
    if (!is_due(p, false))
        return;
    snprintf(head, sizeof head, "epoch %lld/%lld", (long long)p->epoch, (long long)p->epochs);
    snprintf(count, sizeof count, "%s%lld/%lld", p->terminal ? "" : "step ", (long long)done, (long long)total);
    text_format(part[0], PART_TEXT, "loss %.4f", shown_number(loss));
    snprintf(part[1], PART_TEXT, "%s left", progress_time(time, seconds_left(p, done, total)));
    text_format(part[2], PART_TEXT, "%.0f samples/s", progress_rate(p));
    if (p->terminal)
        draw(p, head, done, total, count, part);
    else
        progress_line(p, "%s  %s  %s  %s  %s", head, count, part[0], part[2], part[1]);
}

void progress_evaluation(Progress *p, int64_t done, int64_t total)
{
    char head[PART_TEXT] = "", count[PART_TEXT], part[PARTS][PART_TEXT] = { "" };

    if (!is_due(p, true))
        return;
    if (p->epochs)
        snprintf(head, sizeof head, "epoch %lld/%lld", (long long)p->epoch, (long long)p->epochs);
    snprintf(count, sizeof count, "evaluates %lld/%lld", (long long)done, (long long)total);
    if (p->terminal)
        draw(p, head, done, total, count, part);
    else
        progress_line(p, "%s%s%s", head, *head ? "  " : "", count);
}
