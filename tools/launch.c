/* dpexec launch: starts the processes of a world on this machine, and waits for them.
 *
 * Every pair of them gets its two connections as pairs of sockets, made here and inherited, so there is no port at
 * which somebody else could come.  An end is open in this process only until the process that it belongs to runs, so a
 * process that dies is noticed by the others at once.
 *
 * They end with us, whatever ends us: the kernel kills them, and a pipe tells them (tools/launched.c).  When one fails
 * the others have time for their last words, then they are killed.  Ctrl-C and a closed terminal reach them from the
 * terminal; signals that come to us alone are passed on to all that still run.  Signals are blocked from before the
 * first process starts and taken one at a time, between looks at who has ended: none is lost, and none goes to a
 * process that has been waited for, whose number may be another's by then. */
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
                                 1 << 20 };

enum { MOST = 256, CHANNELS = 2, SPARE = 32 /* descriptors beside connections */, LAST_WORDS = 10 /* seconds */ };

typedef struct {
    pid_t child[MOST]; /* 0: has ended and been waited for */
    int size, living;
    int (*end)[MOST][CHANNELS]; /* [rank][other]: held for a process that does not run yet; -1: none */
    int pipe[2];                /* closes when we end */
    int failed;                 /* the first that failed; -1: none */
    struct timespec until;      /* then: when the others are killed */
    sigset_t watched, before;   /* signals: those taken by us, and what was blocked when we were started */
} Launch;

/* ---- signals ---- */

static const int passed_on[] = { SIGTERM, SIGINT, SIGHUP, SIGQUIT };

static void watch_signals(Launch *l)
{
    struct sigaction normal = { .sa_handler = SIG_DFL };

    sigemptyset(&l->watched);
    for (size_t i = 0; i < sizeof passed_on / sizeof *passed_on; i++)
        sigaddset(&l->watched, passed_on[i]);
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

/* ---- connections ---- */

/* Open at the most, before rank r starts: its own ends and those of later ranks with it and the ones before. */
static rlim_t most_open(int size)
{
    int most = 0;

    for (int r = 0; r < size; r++) {
        int now = CHANNELS * (size - 1 + (size - 1 - r) * (r + 1));

        most = now > most ? now : most;
    }
    return (rlim_t)most + SPARE;
}

static Status allow_descriptors(int size)
{
    rlim_t wanted = most_open(size);
    struct rlimit limit;

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

/* Of a rank with all that start after it. */
static Status connect_later(Launch *l, int rank)
{
    int pair[2];

    for (int r = rank + 1; r < l->size; r++)
        for (int c = 0; c < CHANNELS; c++) {
            if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair))
                return FAIL(E_DEVICE, "rank %d cannot be connected with rank %d: %s", rank, r, strerror(errno));
            l->end[rank][r][c] = pair[0];
            l->end[r][rank][c] = pair[1];
        }
    return ST_OK;
}

static void close_ends(Launch *l, int rank)
{
    for (int r = 0; r < l->size; r++)
        for (int c = 0; c < CHANNELS; c++) {
            if (l->end[rank][r][c] >= 0)
                close(l->end[rank][r][c]);
            l->end[rank][r][c] = -1;
        }
}

static Status launch_prepare(Launch *l)
{
    TRY(allow_descriptors(l->size));
    if (pipe2(l->pipe, O_CLOEXEC))
        return FAIL(E_DEVICE, "no pipe: %s", strerror(errno));
    if (!(l->end = malloc((size_t)l->size * sizeof *l->end)))
        return FAIL_NOMEM();
    for (int r = 0; r < l->size; r++)
        for (int s = 0; s < MOST; s++)
            l->end[r][s][0] = l->end[r][s][1] = -1;
    return ST_OK;
}

/* ---- starting ---- */

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

/* In the child: keeps a descriptor and adds its number to the text. */
static bool launch_keep(char *text, size_t cap, int fd, const char *after)
{
    size_t len = strlen(text);

    return !fcntl(fd, F_SETFD, 0) && snprintf(text + len, cap - len, "%d%s", fd, after) < (int)(cap - len);
}

static bool launch_tell(const Launch *l, int rank)
{
    char text[CHANNELS * MOST * 12 + 64];

    snprintf(text, sizeof text, "%d:%d:", rank, l->size);
    if (!launch_keep(text, sizeof text, l->pipe[0], ":fd="))
        return false;
    for (int r = 0; r < l->size; r++)
        for (int c = 0; c < CHANNELS && r != rank; c++)
            if (!launch_keep(text, sizeof text, l->end[rank][r][c], ","))
                return false;
    text[strlen(text) - (l->size > 1)] = '\0';
    return !setenv(LAUNCHED, text, 1);
}

/* In the child; returns only when the program cannot be executed. */
static void become(const Args *a, const Launch *l, int rank, pid_t launcher)
{
    char **argv = calloc((size_t)a->n_positional + 2, sizeof *argv);

    if (prctl(PR_SET_PDEATHSIG, SIGKILL))
        return;
    if (getppid() != launcher) /* it ended before the kernel was told */
        _exit(EXIT_FAILED);
    if (!argv || !(argv[0] = strdup("dpexec")) || !launch_tell(l, rank))
        return;
    for (int i = 0; i < a->n_positional; i++)
        if (!(argv[i + 1] = fill_in(a->positional[i], rank)))
            return;
    execv("/proc/self/exe", argv);
}

static Status start(const Args *a, Launch *l)
{
    pid_t launcher = getpid();

    TRY(launch_prepare(l));
    for (int r = 0; r < l->size; r++) {
        pid_t child;

        TRY(connect_later(l, r));
        if ((child = fork()) < 0)
            return FAIL(E_NOMEM, "process %d of %d cannot be started: %s", r, l->size, strerror(errno));
        if (!child) {
            sigprocmask(SIG_SETMASK, &l->before, NULL);
            become(a, l, r, launcher);
            fprintf(stderr, "dpexec: rank %d cannot be started: %s\n", r, strerror(errno));
            _exit(EXIT_FAILED);
        }
        l->child[r] = child;
        l->living++;
        close_ends(l, r);
    }
    return ST_OK;
}

/* ---- waiting ---- */

/* A signal that all were sent is no failure of one of them, who has kept what it had when it stopped in order. */
static bool has_failed(int status)
{
    return WIFSIGNALED(status) || (WEXITSTATUS(status) != EXIT_DONE && WEXITSTATUS(status) < 128);
}

static void note_failure(Launch *l, int rank)
{
    if (l->failed >= 0)
        return;
    l->failed = rank;
    clock_gettime(CLOCK_MONOTONIC, &l->until);
    l->until.tv_sec += LAST_WORDS;
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
        if (has_failed(status))
            note_failure(l, r);
        worst = code > worst ? code : worst;
    }
    return worst;
}

/* The next signal; 0: those that are left have had their time. */
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

/* The largest status of all. */
static int wait_for_all(Launch *l)
{
    int worst = EXIT_DONE;
    bool ended = false;

    while (l->living) {
        siginfo_t is;
        int sig = next_signal(l, &is);

        if (!sig) {
            if (!ended)
                fprintf(stderr, "dpexec: rank %d of %d failed; %d seconds later the others are ended\n", l->failed,
                        l->size, LAST_WORDS);
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
    Launch l = { .failed = -1 };
    int64_t size;
    Status st = args_int(&size, a, "n", 0, 1, MOST);

    if (!st && !args_has(a, "n"))
        st = FAIL(E_INVALID, "-n N is missing: how many processes");
    if (!st)
        st = launcher_check_one();
    if (!st) {
        l.size = (int)size;
        watch_signals(&l);
        st = start(a, &l);
    }
    if (st) {
        send_all(&l, SIGKILL);
        return args_failed(a, "dpexec", st);
    }
    free(l.end);
    return wait_for_all(&l);
}
