/* Man pages, made from the same tables as --help. */
#include "tools/man.h"

#include <stdio.h>
#include <string.h>

/* Escapes text for roff: backslashes, dashes, and a request at the beginning of a line. */
static void put_text(const char *text)
{
    if (*text == '.' || *text == '\'')
        fputs("\\&", stdout);
    for (; *text; text++)
        if (*text == '\\')
            fputs("\\e", stdout);
        else if (*text == '-')
            fputs("\\-", stdout);
        else
            putchar(*text);
}

static void put_line(const char *text)
{
    put_text(text);
    putchar('\n');
}

void man_head(const char *page, const char *synopsis, const char *summary)
{
    fputs(".TH \"", stdout);
    for (const char *c = page; *c; c++)
        putchar(*c >= 'a' && *c <= 'z' ? *c - 'a' + 'A' : *c);
    printf("\" 1 \"\" \"dpexec %s\"\n.SH NAME\n", dpx_version());
    put_text(page);
    fputs(" \\- ", stdout);
    put_line(summary);
    printf(".SH SYNOPSIS\n");
    put_line(synopsis);
}

void man_section(const char *title) { printf(".SH %s\n", title); }

void man_subsection(const char *title)
{
    printf(".SS ");
    put_line(title);
}

void man_paragraph(const char *text)
{
    printf(".PP\n");
    put_line(text);
}

void man_term(const char *name, const char *help)
{
    printf(".TP\n.B ");
    put_line(name);
    put_line(help);
}

void man_choice(const char *form, const char *help)
{
    printf(".br\n.I ");
    put_line(form);
    put_line(help);
}

void man_item(const char *name, const char *metavar, const char *help, const char *fallback)
{
    printf(".TP\n.B ");
    put_text(strlen(name) > 1 ? "--" : "-");
    put_text(name);
    if (metavar && *metavar != '[')
        putchar(' ');
    put_line(metavar ? metavar : "");
    put_text(help);
    if (fallback && *fallback) {
        fputs(" [", stdout);
        put_text(fallback);
        putchar(']');
    }
    putchar('\n');
}
