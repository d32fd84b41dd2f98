/* dpexec launch: starts the processes of a world on this machine, and waits for them.
 *
 * They meet at a port that was free a moment ago.  Ctrl-C reaches them from the terminal, so only SIGTERM, which comes to us alone,
 * is passed on: to one of them, which stops the others. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/commands.h"

static const Flag flags[] = {
    { "n", "N", "how many processes; \"{rank}\" in an argument becomes 0 to N-1" },
    { NULL, NULL, NULL },
};

const Command command_launch = { "launch", "-n N -- train MODEL.onnx ... --devices cuda:{rank}",
                                 "Trains in several processes of this machine.", flags, false, 1, 1 << 20 };

static volatile sig_atomic_t first_child;

static void pass_on(int sig)
{
    if (first_child > 0)
        kill((pid_t)first_child, sig);
}

static Status free_port(int *out)
{
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t n = sizeof at;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool good = fd >= 0 && !bind(fd, (struct sockaddr *)&at, n) && !getsockname(fd, (struct sockaddr *)&at, &n);
    int why = errno;

    if (fd >= 0)
        close(fd);
    *out = ntohs(at.sin_port);
    return good ? ST_OK : FAIL(E_DEVICE, "no port of this machine is free: %s", strerror(why));
}

/* The argument with every "{rank}" replaced; never freed, as it is passed to exec. */
static char *fill_in(const char *arg, int rank)
{
    static const char mark[] = "{rank}";
    size_t cap = 12 * strlen(arg) + 1, len = 0;
    char *out = malloc(cap);

    for (const char *at; out && (at = strstr(arg, mark)); arg = at + strlen(mark))
        len += (size_t)snprintf(out + len, cap - len, "%.*s%d", (int)(at - arg), arg, rank);
    if (out)
        snprintf(out + len, cap - len, "%s", arg);
    return out;
}

/* In the child; returns only when the program cannot be executed. */
static void become(const Args *a, int rank, int size, int port)
{
    char **argv = calloc((size_t)a->n_positional + 2, sizeof *argv), number[16];

    snprintf(number, sizeof number, "%d", rank);
    if (setenv("RANK", number, 1))
        return;
    snprintf(number, sizeof number, "%d", size);
    if (setenv("WORLD_SIZE", number, 1))
        return;
    snprintf(number, sizeof number, "%d", port);
    if (setenv("MASTER_PORT", number, 1) || setenv("MASTER_ADDR", "127.0.0.1", 1) || !argv || !(argv[0] = strdup("dpexec")))
        return;
    for (int i = 0; i < a->n_positional; i++)
        if (!(argv[i + 1] = fill_in(a->positional[i], rank)))
            return;
    execv("/proc/self/exe", argv);
}

static Status start(const Args *a, int size, pid_t *child)
{
    int port;

    TRY(free_port(&port));
    for (int r = 0; r < size; r++) {
        if ((child[r] = fork()) < 0) {
            int why = errno;

            for (int k = 0; k < r; k++)
                kill(child[k], SIGKILL);
            return FAIL(E_NOMEM, "process %d of %d cannot be started: %s", r, size, strerror(why));
        }
        if (!child[r]) {
            become(a, r, size, port);
            fprintf(stderr, "dpexec: rank %d cannot be started: %s\n", r, strerror(errno));
            _exit(EXIT_FAILED);
        }
    }
    first_child = (sig_atomic_t)child[0];
    return ST_OK;
}

/* The largest status of all. */
static int wait_for_all(const pid_t *child, int size)
{
    int worst = EXIT_DONE;

    for (int r = 0; r < size; r++) {
        int status = 0, code;

        while (waitpid(child[r], &status, 0) < 0 && errno == EINTR)
            ;
        code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
        if (WIFSIGNALED(status))
            fprintf(stderr, "dpexec: rank %d of %d was killed by signal %d\n", r, size, WTERMSIG(status));
        worst = code > worst ? code : worst;
    }
    return worst;
}

int run_launch(const Args *a)
{
    struct sigaction forward = { .sa_handler = pass_on }, ignore = { .sa_handler = SIG_IGN };
    pid_t child[256];
    int64_t size;
    Status st = args_int(&size, a, "n", 0, 1, 256);

    if (!st && !args_has(a, "n"))
        st = FAIL(E_INVALID, "-n N is missing: how many processes");
    if (!st)
        st = start(a, (int)size, child);
    if (st)
        return report_failure(st);
    sigaction(SIGTERM, &forward, NULL);
    sigaction(SIGINT, &ignore, NULL);
    return wait_for_all(child, (int)size);
}
