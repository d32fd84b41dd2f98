/* dpexec launch: starts the processes of a world on this machine, and waits for them.
 *
 * Every pair of processes gets its two connections as pairs of sockets, which are made here and inherited, so there is
 * no port to which others could connect.  The launcher keeps an end open only until the process that owns it runs, so
 * the others notice at once when a process dies.
 *
 * The processes end with the launcher, whatever ends it: the kernel kills them, and a pipe is closed
 * (tools/launched.c). When one fails, the others have some seconds to report, then they are killed.  Ctrl-C and a
 * closed terminal reach the processes from the terminal; signals to the launcher alone are passed on to all that still
 * run.  Signals are blocked before the first process starts, and taken one at a time between checks for processes that
 * have ended.  So none is lost, and none goes to a process that has been waited for, whose number may belong to another
 * by then. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tools/commands.h"
#include "tools/launched.h"
#include "tools/launcher.h"

static const Flag flags[] = {
    { "n", "N", "how many processes, 1 to 256; \"{rank}\" in an argument becomes 0 to N-1" },
    { NULL, NULL, NULL },
};

const Command command_launch = { "launch",
                                 "-n N -- train MODEL.onnx ... --devices cuda:{rank}",
                                 "Trains in several processes of this machine.",
                                 flags,
                                 NO_OPTIONS,
                                 1,
                                 1 << 20,
                                 NULL };

enum { MOST = 256, CHANNELS = 2, SPARE = 32 /* descriptors beside connections */, REPORT_SECONDS = 10 /* seconds */ };

typedef struct {
    pid_t child[MOST]; /* 0: has ended and been waited for */
    int size, living;
    int (*end)[MOST][CHANNELS]; /* [rank][other]: held for a process that does not run yet; -1: none */
    int pipe[2];                /* is closed when the launcher ends */
    int failed;                 /* the first rank that failed; -1: none */
    struct timespec until;      /* after a failure: when the others are killed */
    sigset_t watched, before;   /* the signals that the launcher takes; those that were blocked when it was started */
} Launch;

/* ---- signals ---- */

static const int passed_on[] = { SIGTERM, SIGINT, SIGHUP, SIGQUIT };

static void send_all(const Launch *l, int sig)
{
    for (int r = 0; r < l->size; r++)
        if (l->child[r] > 0)
            kill(l->child[r], sig);
}

/* ---- connections ---- */

/* Raises the limit of open files.  Before rank r starts, its own ends are open, and those between later ranks and the
 * ranks up to r. */
static Status allow_descriptors(int size)
{
    rlim_t wanted = 0;
    struct rlimit limit;

    for (int r = 0; r < size; r++) {
        const rlim_t open_now = (rlim_t)(CHANNELS * (size - 1 + (size - 1 - r) * (r + 1)));

        wanted = open_now > wanted ? open_now : wanted;
    }
    wanted += SPARE;

    if (getrlimit(RLIMIT_NOFILE, &limit))
        return FAIL(E_DEVICE, "the limit of open files is not known: %s", strerror(errno));
    if (limit.rlim_max < wanted)
        return FAIL(E_INVALID, "-n %d: needs %llu open files at a time, this process may have %llu (ulimit -Hn)", size,
                    (unsigned long long)wanted, (unsigned long long)limit.rlim_max);
    if (limit.rlim_cur >= wanted)
        return ST_OK;
    limit.rlim_cur = wanted;
    return setrlimit(RLIMIT_NOFILE, &limit) ? FAIL(E_DEVICE, "-n %d: %llu open files are not granted: %s", size,
                                                   (unsigned long long)wanted, strerror(errno))
                                            : ST_OK;
}

/* ---- starting ---- */

/* Copies the argument with every "{rank}" replaced; never freed, because it is passed to exec. */
static char *replace_rank(const char *arg, int rank)
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

/* In the child: lets exec keep a descriptor, and adds its number to the text. */
static bool pass_descriptor(char *text, size_t cap, int fd, const char *after)
{
    size_t len = strlen(text);

    return !fcntl(fd, F_SETFD, 0) && snprintf(text + len, cap - len, "%d%s", fd, after) < (int)(cap - len);
}

/* In the child: sets the environment variable LAUNCHED (launched.h). */
static bool set_environment(const Launch *l, int rank)
{
    char text[CHANNELS * MOST * 12 + 64];

    snprintf(text, sizeof text, "%d:%d:", rank, l->size);
    if (!pass_descriptor(text, sizeof text, l->pipe[0], ":fd="))
        return false;
    for (int r = 0; r < l->size; r++)
        for (int c = 0; c < CHANNELS && r != rank; c++)
            if (!pass_descriptor(text, sizeof text, l->end[rank][r][c], ","))
                return false;
    text[strlen(text) - (l->size > 1)] = '\0';
    return !setenv(LAUNCHED, text, 1);
}

/* In the child: executes the program; returns only when that fails. */
static void execute(const Args *a, const Launch *l, int rank, pid_t launcher)
{
    char **argv = calloc((size_t)a->n_positional + 2, sizeof *argv);

    if (prctl(PR_SET_PDEATHSIG, SIGKILL))
        return;
    if (getppid() != launcher) /* it ended before prctl took effect */
        _exit(EXIT_FAILED);
    if (!argv || !(argv[0] = strdup("dpexec")) || !set_environment(l, rank))
        return;
    for (int i = 0; i < a->n_positional; i++)
        if (!(argv[i + 1] = replace_rank(a->positional[i], rank)))
            return;
    execv("/proc/self/exe", argv);
}

/* Starts all processes, each connected to those that start after it. */
static Status start(const Args *a, Launch *l)
{
    pid_t launcher = getpid();

    TRY(allow_descriptors(l->size));
    if (pipe2(l->pipe, O_CLOEXEC))
        return FAIL(E_DEVICE, "no pipe: %s", strerror(errno));
    if (!(l->end = malloc((size_t)l->size * sizeof *l->end)))
        return FAIL_NOMEM();
    for (int r = 0; r < l->size; r++)
        for (int s = 0; s < MOST; s++)
            l->end[r][s][0] = l->end[r][s][1] = -1;
    for (int r = 0; r < l->size; r++) {
        int pair[2];
        pid_t child;

        for (int k = 0; k < CHANNELS * (l->size - 1 - r); k++) {
            const int later = r + 1 + k / CHANNELS, c = k % CHANNELS;

            if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair))
                return FAIL(E_DEVICE, "rank %d cannot be connected with rank %d: %s", r, later, strerror(errno));
            l->end[r][later][c] = pair[0];
            l->end[later][r][c] = pair[1];
        }
        if ((child = fork()) < 0)
            return FAIL(E_NOMEM, "process %d of %d cannot be started: %s", r, l->size, strerror(errno));
        if (!child) {
            sigprocmask(SIG_SETMASK, &l->before, NULL);
            execute(a, l, r, launcher);
            fprintf(stderr, "dpexec: rank %d cannot be started: %s\n", r, strerror(errno));
            _exit(EXIT_FAILED);
        }
        l->child[r] = child;
        l->living++;
        for (int k = 0; k < CHANNELS * l->size; k++) {
            int *end = &l->end[r][k / CHANNELS][k % CHANNELS];

            if (*end >= 0)
                close(*end);
            *end = -1;
        }
    }
    return ST_OK;
}

/* ---- waiting ---- */

/* Handles the processes that have ended; returns the largest exit status of them and `worst`. */
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
        /* 128 and more: a regular exit after a signal that all processes got */
        if ((WIFSIGNALED(status) || (code != EXIT_DONE && code < 128)) && l->failed < 0) {
            l->failed = r;
            clock_gettime(CLOCK_MONOTONIC, &l->until);
            l->until.tv_sec += REPORT_SECONDS;
        }
        worst = code > worst ? code : worst;
    }
    return worst;
}

/* Waits for the next signal; 0: the remaining processes have used up their time. */
static int next_signal(const Launch *l, siginfo_t *is)
{
    struct timespec now, left;
    int sig;

    do {
        clock_gettime(CLOCK_MONOTONIC, &now);
        left = (struct timespec){ l->until.tv_sec - now.tv_sec, l->until.tv_nsec - now.tv_nsec };
        if (left.tv_nsec < 0)
            left = (struct timespec){ left.tv_sec - 1, left.tv_nsec + 1000000000 };
        if (l->failed >= 0 && left.tv_sec < 0)
            return 0;
        sig = l->failed < 0 ? sigwaitinfo(&l->watched, is) : sigtimedwait(&l->watched, is, &left);
    } while (sig < 0);
    return sig;
}

/* Waits for all processes; returns the largest exit status. */
static int wait_for_all(Launch *l)
{
    int worst = EXIT_DONE;
    bool ended = false;

    while (l->living) {
        siginfo_t is;
        int sig = next_signal(l, &is);

        if (!sig) {
            if (!ended)
                fprintf(stderr,
                        "dpexec: rank %d of %d failed; the other ranks still run %d seconds later and are killed\n",
                        l->failed, l->size, REPORT_SECONDS);
            ended = true;
            send_all(l, SIGKILL);
            l->until.tv_sec++;
        } else if (sig != SIGCHLD && is.si_code != SI_KERNEL) {
            send_all(l, sig);
        }
        worst = reap(l, worst);
    }
    return worst;
}

int run_launch(const Args *a)
{
    const struct sigaction normal = { .sa_handler = SIG_DFL };
    Launch l = { .failed = -1 };
    int64_t size;
    Status st = args_int(&size, a, "n", 0, 1, MOST);

    if (!st && !args_has(a, "n"))
        st = FAIL(E_INVALID, "-n N is missing: how many processes");
    if (!st)
        st = launcher_check_one();
    if (!st) {
        l.size = (int)size;
        sigemptyset(&l.watched);
        for (size_t i = 0; i < sizeof passed_on / sizeof *passed_on; i++)
            sigaddset(&l.watched, passed_on[i]);
        sigaddset(&l.watched, SIGCHLD);
        sigaction(SIGCHLD, &normal, NULL); /* if it was inherited as ignored, exit statuses would be lost */
        sigprocmask(SIG_BLOCK, &l.watched, &l.before);
        st = start(a, &l);
    }
    if (st) {
        send_all(&l, SIGKILL);
        return args_failed(a, "dpexec", st);
    }
    free(l.end);
    return wait_for_all(&l);
}
