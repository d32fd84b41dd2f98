/* The table of epochs on a terminal: its columns are those for which there is room. */
#include <string.h>
#include <unistd.h>

#include "tools/progress.h"
#include "tools/terminal.h"

enum { LEAST_WIDTH = 8, GAP = 2, BEST_WIDTH = 4, MOST_COLUMNS = 64 };

/* Columns of numbers have room for most of these, so that the table stays as it is. */
static int width_of(const ProgressCell *c)
{
    const int name = (int)strlen(c->name), text = (int)strlen(c->text), most = name > text ? name : text;

    return most > LEAST_WIDTH || !c->rank ? most : LEAST_WIDTH;
}

/* Marks the columns that fit into `width`: all but those of the greatest ranks. */
static void choose_columns(bool kept[MOST_COLUMNS], const ProgressCell *cell, int n, int width)
{
    int used = BEST_WIDTH;

    for (int i = 0; i < n; i++) {
        kept[i] = true;
        used += width_of(&cell[i]) + GAP;
    }
    while (used > width) {
        int last = -1;

        for (int i = 1; i < n; i++)
            if (kept[i] && (last < 0 || cell[i].rank >= cell[last].rank))
                last = i;
        if (last < 0)
            return;
        kept[last] = false;
        used -= width_of(&cell[last]) + GAP;
    }
}

/* The first column stands left, the others right. */
static size_t add_cell(char *line, size_t size, size_t n, int i, int width, const char *text)
{
    if (n + (size_t)width + GAP + 1 > size)
        return n;
    return n + (size_t)snprintf(line + n, size - n, "%*s%*s", i ? GAP : 0, "", i ? width : -width, text);
}

void progress_row(Progress *p, const ProgressCell *cell, int n, bool best)
{
    char heading[HEADING_TEXT] = "", line[HEADING_TEXT] = "";
    size_t in_heading = 0, in_line = 0;
    bool kept[MOST_COLUMNS];

    n = n < MOST_COLUMNS ? n : MOST_COLUMNS;
    choose_columns(kept, cell, n, terminal_width(STDERR_FILENO) - 1);
    for (int i = 0; i < n; i++) {
        if (!kept[i])
            continue;
        in_heading = add_cell(heading, sizeof heading, in_heading, i, width_of(&cell[i]), cell[i].name);
        in_line = add_cell(line, sizeof line, in_line, i, width_of(&cell[i]), cell[i].text);
    }
    progress_end(p);
    if (strcmp(heading, p->heading) != 0)
        fprintf(stderr, "%s%s%s\n", p->colour ? "\033[2m" : "", heading, p->colour ? "\033[0m" : "");
    memcpy(p->heading, heading, sizeof heading);
    fprintf(stderr, "%s", line);
    if (best)
        fprintf(stderr, "%*s%s%s%s", GAP, "", p->colour ? "\033[32m" : "", "best", p->colour ? "\033[0m" : "");
    fputc('\n', stderr);
}
