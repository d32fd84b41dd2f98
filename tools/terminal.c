/* The kernel says the width of a terminal, and the environment the rest: the process keeps the C locale. */
#include "tools/terminal.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

int terminal_width(int fd)
{
    struct winsize size;

    if (!isatty(fd))
        return 0;
    return !ioctl(fd, TIOCGWINSZ, &size) && size.ws_col ? size.ws_col : 80;
}

bool terminal_moves(int fd)
{
    const char *term = getenv("TERM");

    return isatty(fd) && term && *term && strcmp(term, "dumb") != 0;
}

bool terminal_colour(int fd)
{
    const char *no = getenv("NO_COLOR");

    return terminal_moves(fd) && !(no && *no);
}

bool terminal_utf8(void)
{
    static const char *const names[] = { "LC_ALL", "LC_CTYPE", "LANG" }; /* the first that is set counts */

    for (int i = 0; i < 3; i++) {
        const char *value = getenv(names[i]);

        if (value && *value)
            return strstr(value, ".UTF-8") || strstr(value, ".utf8") || strstr(value, ".utf-8") ||
                   strstr(value, ".UTF8");
    }
    return false;
}

/* The columns of n bytes of UTF-8. */
static int columns_of(const char *text, int n)
{
    int columns = 0;

    for (int i = 0; i < n; i++)
        columns += (text[i] & 0xc0) != 0x80;
    return columns;
}

void terminal_wrap(FILE *to, const char *text, int at, int begin, int width)
{
    for (bool first = true; *text; first = false) {
        const int n = (int)strcspn(text, " "), columns = columns_of(text, n);

        if (!first && width && at + 1 + columns > width)
            at = fprintf(to, "\n%*s", begin, "") - 1;
        else if (!first)
            at += fprintf(to, " ");
        fprintf(to, "%.*s", n, text);
        at += columns;
        text += n + (text[n] == ' ');
    }
    fputc('\n', to);
}
