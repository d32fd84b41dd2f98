/* Walks the tables of flags, options and data formats in the order of help_groups, and prints them as text or roff. */
#include "tools/help.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "graph/base/numtext.h"
#include "tools/data/data.h"
#include "tools/help_groups.h"
#include "tools/man.h"
#include "tools/terminal.h"

enum { COLUMN = 28, NARROW = 70, WIDEST = 100 }; /* where texts begin; not so below this width; they end here */

/* How a page is printed.  An item's fallback, and its metavar, may be NULL. */
typedef struct {
    void (*title)(const char *text);
    void (*item)(const char *name, const char *metavar, const char *help, const char *fallback);
    void (*choice)(const char *form, const char *help);
} Writer;

/* ---- text ---- */

/* Columns of a line: those of the terminal, else of the environment's COLUMNS, else 80. */
static int page_width(void)
{
    const char *columns = getenv("COLUMNS");
    const int terminal = terminal_width(STDOUT_FILENO);
    int64_t given;

    if (terminal)
        return terminal < WIDEST ? terminal : WIDEST;
    return columns && text_to_int64(&given, columns) && given > 0 && given < 10000 ? (int)given : 80;
}

void help_words(const char *text, int at, int begin) { terminal_wrap(stdout, text, at, begin, page_width()); }

void help_usage(const char *before, const char *line)
{
    fputs(before, stdout);
    help_words(line, (int)strlen(before), (int)strlen(before) + 4);
}

/* Prints a name and the text beside it, or below it where there is no room. */
static void put_row(const char *left, int indent, const char *text)
{
    const int width = page_width(), column = width < NARROW ? indent + 4 : COLUMN, n = indent + (int)strlen(left);

    printf("%*s%s", indent, "", left);
    if (n + 2 > column)
        printf("\n%*s", column, "");
    else
        printf("%*s", column - n, "");
    help_words(text, column, column);
}

static void text_title(const char *text)
{
    const bool bold = terminal_colour(STDOUT_FILENO);

    printf("\n%s%s%s\n", bold ? "\033[1m" : "", text, bold ? "\033[0m" : "");
}

static void text_item(const char *name, const char *metavar, const char *help, const char *fallback)
{
    char left[80], text[1024];
    const bool has = fallback && *fallback;

    snprintf(left, sizeof left, "%s%s%s%s", strlen(name) > 1 ? "--" : "-", name, metavar && *metavar != '[' ? " " : "",
             metavar ? metavar : "");
    snprintf(text, sizeof text, "%s%s%s%s", help, has ? " [" : "", has ? fallback : "", has ? "]" : "");
    put_row(left, 2, text);
}

static void text_choice(const char *form, const char *help) { put_row(form, 6, help); }

static const Writer as_text = { text_title, text_item, text_choice };

/* ---- roff ---- */

static const Writer as_man = { man_subsection, man_item, man_choice };

/* ---- the tables ---- */

static const char debug_help[] = "print where in the sources a failure arose";

/* "adam, adamw 0.999; lion 0.99": the choices that have the option, with its default for each; NULL when it belongs to
 * no choice. */
static const char *defaults_by_choice(char text[256], const Command *c, const char *flag)
{
    int n = 0;

    *text = '\0';
    for (int i = 0; c->takes && i < dpx_option_count(); i++) {
        const char *option = dpx_option_at(i).name, *before = NULL;

        for (int k = 0; dpx_choice_at(option, k).name; k++) {
            const char *name = dpx_choice_at(option, k).name, *value = dpx_choice_default(option, name, flag);

            if (!value || n > 200)
                continue;
            if (before && strcmp(before, value))
                n += snprintf(text + n, 256 - (size_t)n, "%s%s", *before ? " " : "", before);
            n += snprintf(text + n, 256 - (size_t)n, "%s%s",
                          !n                                 ? ""
                          : before && !strcmp(before, value) ? ", "
                                                             : "; ",
                          name);
            before = value;
        }
        if (before && *before)
            n += snprintf(text + n, 256 - (size_t)n, " %s", before);
    }
    return n ? text : NULL;
}

/* The number of the library's option that --help shows; -1: it shows none of this name. */
static int shown_option(const Command *c, const char *name)
{
    for (int i = 0; c->takes && i < dpx_option_count(); i++)
        if (!strcmp(dpx_option_at(i).name, name))
            return args_shows(c, i) ? i : -1;
    return -1;
}

static void write_option(const Writer *w, const Command *c, dpx_option_info o)
{
    char text[256], several[80];
    const char *by_choice = defaults_by_choice(text, c, o.name);
    const size_t n = strlen(o.help);
    const bool told = n && o.help[n - 1] == ']'; /* the help ends with the default, "[one per device]" */

    snprintf(several, sizeof several, "%s%s", o.metavar ? o.metavar : "",
             o.repeats && !metavar_repeats(o.metavar) ? "..." : "");
    w->item(o.name, o.metavar ? several : NULL, o.help,
            told        ? NULL
            : by_choice ? by_choice
            : o.metavar ? o.fallback
                        : NULL);
    for (int k = 0; dpx_choice_at(o.name, k).name; k++)
        w->choice(dpx_choice_at(o.name, k).form, dpx_choice_at(o.name, k).help);
}

/* Whether --help of the command shows a flag or option of this name. */
static bool has_flag(const Command *c, const char *name)
{
    return args_flag(c, name) || shown_option(c, name) >= 0 || !strcmp(name, "debug");
}

/* Prints a flag or option that the command has. */
static void write_flag(const Writer *w, const Command *c, const char *name)
{
    const Flag *flag = args_flag(c, name);

    if (flag)
        w->item(name, flag->metavar, flag->help, NULL);
    else if (shown_option(c, name) >= 0)
        write_option(w, c, dpx_option_at(shown_option(c, name)));
    else
        w->item(name, NULL, debug_help, NULL);
}

/* Prints options as they stand behind a source: "SRC,limit=N". */
static void write_source_options(const Writer *w, const char *source, const DataOption *o)
{
    char text[64];

    for (; o && o->name; o++) {
        snprintf(text, sizeof text, "%s,%s=%s", source, o->name, o->metavar);
        w->choice(text, o->help);
    }
}

/* Prints each format of data with its options, and the options of all. */
static void write_sources(const Writer *w)
{
    for (const DataFormat *const *k = data_formats; *k; k++) {
        w->choice((*k)->form, (*k)->help);
        write_source_options(w, "  ", (*k)->options);
    }
    write_source_options(w, "SRC", source_options);
}

/* ---- groups ---- */

/* Takes the next of the group's names; false: there are no more. */
static bool next_name(char name[64], const char **names)
{
    const size_t n = strcspn(*names, " ");

    snprintf(name, 64, "%.*s", (int)n, *names);
    *names += n + ((*names)[n] == ' ');
    return n > 0;
}

static bool in_group(const HelpGroup *g, const char *name)
{
    char one[64];

    for (const char *rest = g->flags; next_name(one, &rest);)
        if (!strcmp(one, name))
            return true;
    return false;
}

/* Whether the group stands for the formats of --data. */
static bool is_sources(const HelpGroup *g) { return !*g->flags; }

/* Whether the command has groups, and something in this one. */
static bool has_group(const Command *c, const HelpGroup *g)
{
    char name[64];

    if (!c->takes || is_sources(g))
        return c->takes && args_flag(c, "data");
    for (const char *rest = g->flags; next_name(name, &rest);)
        if (has_flag(c, name))
            return true;
    return false;
}

/* Prints the group's flags that the command has, below its title. */
static void write_group(const Writer *w, const Command *c, const HelpGroup *g)
{
    char name[64];

    w->title(g->title);
    if (is_sources(g))
        write_sources(w);
    for (const char *rest = g->flags; next_name(name, &rest);)
        if (has_flag(c, name))
            write_flag(w, c, name);
}

/* Whether a group of the command has the flag. */
static bool is_grouped(const Command *c, const char *name)
{
    for (const HelpGroup *g = help_groups; c->takes && g->name; g++)
        if (in_group(g, name))
            return true;
    return false;
}

/* Prints the title before the first flag below it. */
static void write_title(const Writer *w, const char **title)
{
    if (*title)
        w->title(*title);
    *title = NULL;
}

/* Prints the names of which the first argument is one. */
static void write_first(const Writer *w, const Command *c)
{
    char help[512];

    if (c->first)
        w->title(c->first->title);
    for (int i = 0; c->first && c->first->at(i, help); i++)
        w->choice(c->first->at(i, help), help);
}

/* Prints the flags and options that are in no group, and then the groups. */
static void write_all(const Writer *w, const Command *c)
{
    const char *title = c->takes ? "This command" : "Flags"; /* NULL once it is printed */

    for (const Flag *f = c->flags; f->name; f++) {
        if (is_grouped(c, f->name))
            continue;
        write_title(w, &title);
        write_flag(w, c, f->name);
    }
    for (int i = 0; i < dpx_option_count(); i++) {
        if (!args_shows(c, i) || is_grouped(c, dpx_option_at(i).name))
            continue;
        write_title(w, &title);
        write_option(w, c, dpx_option_at(i));
    }
    if (!c->takes) {
        write_title(w, &title);
        w->item("debug", NULL, debug_help, NULL);
    }
    for (const HelpGroup *g = help_groups; g->name; g++)
        if (has_group(c, g))
            write_group(w, c, g);
    write_first(w, c);
}

/* The group of this name that the command has; NULL: there is none. */
static const HelpGroup *find_group(const Command *c, const char *name)
{
    for (const HelpGroup *g = help_groups; g->name; g++)
        if (!strcmp(g->name, name) && has_group(c, g))
            return g;
    return NULL;
}

bool help_has(const Command *c, const char *name) { return find_group(c, name) || has_flag(c, name); }

void help_group_names(char text[512], const Command *c)
{
    size_t n = 0;

    *text = '\0';
    for (const HelpGroup *g = help_groups; g->name; g++)
        if (has_group(c, g))
            n += (size_t)snprintf(text + n, 512 - n, "%s%s", n ? ", " : "", g->name);
}

/* ---- pages ---- */

/* The note on flags that may be repeated; NULL: the command has none. */
static const char *repeats_note(const Command *c)
{
    bool any = c->takes;

    for (const Flag *f = c->flags; f->name; f++)
        any |= metavar_repeats(f->metavar);
    return any ? "Flags whose value ends with ... may be repeated." : NULL;
}

static void print_man(const Command *c, const char *program)
{
    char page[64], line[512];
    const char *space = *c->name ? " " : "";

    snprintf(page, sizeof page, "%s%s%s", program, *c->name ? "-" : "", c->name);
    snprintf(line, sizeof line, "%s%s%s %s", program, space, c->name, c->synopsis);
    man_head(page, line, c->summary);
    man_section("OPTIONS");
    man_item("help", "[=GROUP]", "print what the command takes", NULL);
    man_item("man", NULL, "print this page, as roff", NULL);
    write_all(&as_man, c);
    if (repeats_note(c)) {
        man_section("NOTES");
        man_paragraph(repeats_note(c));
    }
}

/* Prints the most used flags, a line each. */
static void print_short(const Command *c, const ShortHelp *most_used)
{
    for (const ShortHelp *s = most_used; s->help; s++) {
        const Flag *flag = s->flag ? args_flag(c, s->flag) : NULL;

        if (!s->flag)
            text_title(s->help);
        else
            text_item(s->flag, flag ? flag->metavar : dpx_option_at(shown_option(c, s->flag)).metavar, s->help, NULL);
    }
}

/* Prints the way to the other flags. */
static void print_hint(const Args *a, const char *program)
{
    char groups[512], text[700];
    const Command *c = a->command;

    help_group_names(groups, c);
    if (!*groups)
        return;
    putchar('\n');
    if (a->help == HELP_SHORT)
        snprintf(text, sizeof text, "%s%s%s --help prints all flags, --help GROUP or --help FLAG some. Groups: %s.",
                 program, *c->name ? " " : "", c->name, groups);
    else
        snprintf(text, sizeof text, "--help GROUP or --help FLAG prints a part of this. Groups: %s.", groups);
    help_words(text, 0, 0);
}

void help_print(const Args *a, const char *program)
{
    const Command *c = a->command;
    char line[512];
    const HelpGroup *group = a->topic ? find_group(c, a->topic) : NULL;
    const ShortHelp *most_used = a->help == HELP_SHORT ? help_most_used(c->name) : NULL;

    if (a->help == HELP_MAN) {
        print_man(c, program);
    } else if (group) {
        write_group(&as_text, c, group);
    } else if (a->topic) {
        write_flag(&as_text, c, a->topic);
    } else {
        snprintf(line, sizeof line, "%s%s%s %s", program, *c->name ? " " : "", c->name, c->synopsis);
        help_usage("usage: ", line);
        putchar('\n');
        help_words(c->summary, 0, 0);
        if (most_used) {
            print_short(c, most_used);
        } else {
            write_all(&as_text, c);
            if (repeats_note(c))
                printf("\n%s\n", repeats_note(c));
        }
        print_hint(a, program);
    }
}
