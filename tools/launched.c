/* A process that dpexec launch has started ends with the launcher.  The kernel kills it; a pipe that only the launcher
 * can write to ends it where the kernel does not, as with programs that have capabilities of their own. */
#include "tools/launched.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/args.h"

bool launched_is(void) { return getenv(LAUNCHED) != NULL; }

/* A number and the colon after it. */
static bool read_part(int *out, const char **at, int most)
{
    char *end;
    long v;

    errno = 0;
    v = strtol(*at, &end, 10);
    if (**at < '0' || **at > '9' || errno || v > most || *end != ':')
        return false;
    *at = end + 1;
    *out = (int)v;
    return true;
}

/* Reads the variable, which launched.h describes. */
static Status read_all(int *rank, int *size, int *pipe, const char **connections)
{
    const char *text = getenv(LAUNCHED), *at = text;
    int r, n, p;
    struct stat is;

    if (!read_part(&r, &at, 255) || !read_part(&n, &at, 256) || r >= n || !read_part(&p, &at, 1 << 24))
        return FAIL(E_INVALID,
                    "environment: " LAUNCHED ": expected RANK:SIZE:PIPE:fd=N,... of dpexec launch, found '%.60s'",
                    text);
    if (fstat(p, &is) || !S_ISFIFO(is.st_mode))
        return FAIL(E_INVALID, "environment: " LAUNCHED ": descriptor %d is no pipe of dpexec launch", p);
    *rank = r;
    *size = n;
    *pipe = p;
    *connections = at;
    return ST_OK;
}

Status launched_read(int *rank, int *size, const char **connections)
{
    int pipe;

    return read_all(rank, size, &pipe, connections);
}

/* Waits until the launcher closes the pipe, to which nobody writes, and ends the process. */
static void *wait_for_end(void *arg)
{
    static const char text[] = "dpexec: the launcher has gone\n";
    int pipe = (int)(intptr_t)arg;
    char byte;
    ssize_t n;

    while ((n = read(pipe, &byte, 1)) > 0 || (n < 0 && errno == EINTR))
        ;
    (void)!write(STDERR_FILENO, text, sizeof text - 1);
    _exit(EXIT_FAILED);
}

Status launched_watch(void)
{
    const char *connections;
    pthread_t thread;
    sigset_t all, before;
    int rank, size, pipe, why;

    TRY(read_all(&rank, &size, &pipe, &connections));
    (void)fcntl(pipe, F_SETFD, FD_CLOEXEC);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* signals are for the thread that trains */
    why = pthread_create(&thread, NULL, wait_for_end, (void *)(intptr_t)pipe);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (why)
        return FAIL(E_NOMEM, "the launcher cannot be watched: %s", strerror(why));
    pthread_detach(thread);
    return ST_OK;
}
