/* The handler asks the kernel which file lies at the address: so it serves whoever mapped it, and nothing keeps a list.
 * It calls only what may be called in a signal handler. */
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

static void say(const char *s, size_t n)
{
    while (n) {
        ssize_t done = write(STDERR_FILENO, s, n);

        if (done < 0 && errno != EINTR)
            return;
        s += done > 0 ? done : 0;
        n -= done > 0 ? (size_t)done : 0;
    }
}

/* Hexadecimal digits; moves *s behind them. */
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

/* A line of /proc/self/maps: "FROM-TO permissions offset device inode   /path".  Its path, when the address is in
 * it. */
static const char *path_at(const char *line, uintptr_t address)
{
    const char *s = line;
    uintptr_t from = hex(&s), to;

    if (*s++ != '-')
        return NULL;
    to = hex(&s);
    return address >= from && address < to ? strchr(s, '/') : NULL;
}

/* True when the file has been named. */
static bool name_file(const char *line, uintptr_t address)
{
    static const char why[] = ": the file became shorter while it was read\n";
    const char *path = path_at(line, address);

    if (!path)
        return false;
    say(program_invocation_short_name, strlen(program_invocation_short_name));
    say(": ", 2);
    for (const char *s = path; *s; s++)
        say((unsigned char)*s < ' ' || *s == 127 ? "?" : s, 1);
    say(why, sizeof why - 1);
    return true;
}

static bool find_file(uintptr_t address)
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
        found = name_file(line, address);
    }
    if (maps >= 0)
        close(maps);
    return found;
}

/* What is no mapped file happens again, and then ends the process as it would have. */
static void on_bus_error(int sig, siginfo_t *info, void *context)
{
    (void)sig;
    (void)context;
    if (info->si_code == BUS_ADRERR && find_file((uintptr_t)info->si_addr))
        _exit(EXIT_FAILED);
}

void catch_shrunk_files(void)
{
    struct sigaction a = { .sa_sigaction = on_bus_error, .sa_flags = SA_SIGINFO | (int)SA_RESETHAND };

    sigaction(SIGBUS, &a, NULL);
}
