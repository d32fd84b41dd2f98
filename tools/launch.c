/* dpexec launch: starts the processes of a world on this machine, and waits for them.
 *
 * They meet at a port that was free a moment ago.  Ctrl-C reaches them from the terminal, so only SIGTERM, which comes
 * to us alone, is passed on: to all that still run, for those that have not met yet cannot tell each other.  Signals
 * are blocked from before the first process starts and taken one at a time, between looks at who has ended: none is
 * lost, and none goes to a process that has been waited for, whose number may be another's by then. */
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

const Command command_launch = { "launch",
                                 "-n N -- train MODEL.onnx ... --devices cuda:{rank}",
                                 "Trains in several processes of this machine.",
                                 flags,
                                 NO_OPTIONS,
                                 1,
                                 1 << 20 };

typedef struct {
    pid_t child[256]; /* 0: has ended and been waited for */
    int size, living;
    sigset_t watched, before; /* signals: those taken by us, and what was blocked when we were started */
} Launch;

static void watch_signals(Launch *l)
{
    struct sigaction normal = { .sa_handler = SIG_DFL };

    sigemptyset(&l->watched);
    sigaddset(&l->watched, SIGTERM);
    sigaddset(&l->watched, SIGINT);
    sigaddset(&l->watched, SIGCHLD);
    sigaction(SIGCHLD, &normal, NULL); /* ignored, as it may be inherited, it would hide how processes end */
    sigprocmask(SIG_BLOCK, &l->watched, &l->before);
}

static void send_all(const Launch *l, int sig)
{
    for (int r = 0; r < l->size; r++)
        if (l->child[r] > 0)
            kill(l->child[r], sig);
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
    if (setenv("MASTER_PORT", number, 1) || setenv("MASTER_ADDR", "127.0.0.1", 1) || !argv ||
        !(argv[0] = strdup("dpexec")))
        return;
    for (int i = 0; i < a->n_positional; i++)
        if (!(argv[i + 1] = fill_in(a->positional[i], rank)))
            return;
    execv("/proc/self/exe", argv);
}

static Status start(const Args *a, Launch *l)
{
    int port;

    TRY(free_port(&port));
    for (int r = 0; r < l->size; r++) {
        pid_t child = fork();

        if (child < 0) {
            int why = errno;

            send_all(l, SIGKILL);
            return FAIL(E_NOMEM, "process %d of %d cannot be started: %s", r, l->size, strerror(why));
        }
        if (!child) {
            sigprocmask(SIG_SETMASK, &l->before, NULL);
            become(a, r, l->size, port);
            fprintf(stderr, "dpexec: rank %d cannot be started: %s\n", r, strerror(errno));
            _exit(EXIT_FAILED);
        }
        l->child[r] = child;
        l->living++;
    }
    return ST_OK;
}

/* Takes note of those that have ended; returns the largest status of them and `worst`. */
static int reap(Launch *l, int worst)
{
    for (int r = 0; r < l->size; r++) {
        int status, code;

        if (!l->child[r] || waitpid(l->child[r], &status, WNOHANG) != l->child[r])
            continue;
        l->child[r] = 0;
        l->living--;
        code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
        if (WIFSIGNALED(status))
            fprintf(stderr, "dpexec: rank %d of %d was killed by signal %d\n", r, l->size, WTERMSIG(status));
        worst = code > worst ? code : worst;
    }
    return worst;
}

/* The largest status of all. */
static int wait_for_all(Launch *l)
{
    int worst = EXIT_DONE, sig;

    while (l->living) {
        if (sigwait(&l->watched, &sig))
            continue;
        if (sig == SIGTERM)
            send_all(l, sig);
        worst = reap(l, worst);
    }
    return worst;
}

int run_launch(const Args *a)
{
    Launch l = { .size = 0 };
    int64_t size;
    Status st = args_int(&size, a, "n", 0, 1, (int64_t)(sizeof l.child / sizeof *l.child));

    if (!st && !args_has(a, "n"))
        st = FAIL(E_INVALID, "-n N is missing: how many processes");
    if (!st) {
        l.size = (int)size;
        watch_signals(&l);
        st = start(a, &l);
    }
    return st ? args_failed(a, "dpexec", st) : wait_for_all(&l);
}
