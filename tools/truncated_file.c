/* Handler for SIGBUS, which a mapped file raises when another process has made it shorter.  The handler looks the
 * address up in /proc/self/maps, so nobody has to keep a list of mapped files.  It calls only async-signal-safe
 * functions. */
#include "tools/truncated_file.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "tools/commands.h"

enum { LINE_BYTES = 4200 };

static void write_error(const char *s, size_t n)
{
    while (n) {
        ssize_t done = write(STDERR_FILENO, s, n);

        if (done < 0 && errno != EINTR)
            return;
        s += done > 0 ? done : 0;
        n -= done > 0 ? (size_t)done : 0;
    }
}

/* Reads hexadecimal digits and moves *s behind them. */
static uintptr_t hex(const char **s)
{
    uintptr_t v = 0;

    for (;; (*s)++) {
        char c = **s;

        if (c >= '0' && c <= '9')
            v = v << 4 | (uintptr_t)(c - '0');
        else if (c >= 'a' && c <= 'f')
            v = v << 4 | (uintptr_t)(c - 'a' + 10);
        else
            return v;
    }
}

/* Prints the path in a line of /proc/self/maps, "FROM-TO permissions offset device inode   /path", if the address lies
 * in it.  Returns whether it did. */
static bool name_mapped_file(const char *line, uintptr_t address)
{
    static const char why[] = ": the file became shorter while it was read\n";
    const char *s = line, *path;
    uintptr_t from = hex(&s), to;

    if (*s++ != '-')
        return false;
    to = hex(&s);
    if (address < from || address >= to || !(path = strchr(s, '/')))
        return false;
    write_error(program_invocation_short_name, strlen(program_invocation_short_name));
    write_error(": ", 2);
    for (s = path; *s; s++)
        write_error((unsigned char)*s < ' ' || *s == 127 ? "?" : s, 1);
    write_error(why, sizeof why - 1);
    return true;
}

static bool name_truncated_file(uintptr_t address)
{
    int maps = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    char line[LINE_BYTES];
    bool found = false;
    size_t n = 0;
    char c;

    while (maps >= 0 && !found && read(maps, &c, 1) == 1) {
        if (c != '\n') {
            line[n] = c;
            n += n + 2 < sizeof line;
            continue;
        }
        line[n] = '\0';
        n = 0;
        found = name_mapped_file(line, address);
    }
    if (maps >= 0)
        close(maps);
    return found;
}

/* Any other bus error happens again after this handler, which is then reset, and ends the process as usual. */
static void on_bus_error(int sig, siginfo_t *info, void *context)
{
    (void)sig;
    (void)context;
    if (info->si_code == BUS_ADRERR && name_truncated_file((uintptr_t)info->si_addr))
        _exit(EXIT_FAILED);
}

void report_truncated_files(void)
{
    struct sigaction a = { .sa_sigaction = on_bus_error, .sa_flags = SA_SIGINFO | (int)SA_RESETHAND };

    sigaction(SIGBUS, &a, NULL);
}
