/* dpexec check: runs folders of golden data, each in a process of its own, so that a crash or a hang is one failure. */
#include <dirent.h>
#include <errno.h>
#include <jansson.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "graph/base/heap_array.h"
#include "graph/base/jsontext.h"
#include "graph/base/outfile.h"
#include "tools/commands.h"
#include "tools/progress.h"

static const Flag flags[] = {
    { "interpreter", NULL, "run node by node with the reference kernels, not as dpexec run does" },
    { "json", "FILE", "write the result of each folder" },
    { "timeout", "N", "seconds for each folder [60]" },
    { "verbose", NULL, "print a line for every folder, not only for failures" },
    { "quiet", NULL, "print nothing but failures and the result" },
    { NULL, NULL, NULL },
};

const Command command_check = { "check",
                                "DIR... [options]",
                                "Compares what models compute with golden data, in the layout of ONNX's own tests.",
                                flags,
                                OPTIONS_TO_RUN,
                                1,
                                1 << 20,
                                NULL };

enum { MAX_PATH = 4096, DEPTH = 16 };
enum { SECONDS = 60, SECONDS_MOST = 86400 };

typedef struct {
    const Args *args;
    int64_t timeout; /* seconds */
    char **folder;
    size_t n, room;
    json_t *tests; /* NULL: not asked for */
    size_t count[3], planned;
    double start, shown; /* seconds: of the first folder; of the last line of progress */
    bool terminal, open; /* open: a line of progress stands on the terminal */
} Checks;

static const char *const outcome_name[] = { "passed", "failed", "unsupported" };

/* ---- folders ---- */

static int is_visible(const struct dirent *e) { return e->d_name[0] != '.'; }

/* Adds the folder, if it holds a model or data, or else the folders within it. */
static Status find_folders(Checks *c, const char *path, int depth)
{
    char part[MAX_PATH + 32];
    struct dirent **entry;
    Status st = ST_OK;
    bool is_test;
    int n;

    snprintf(part, sizeof part, "%s/model.onnx", path);
    is_test = !access(part, F_OK);
    snprintf(part, sizeof part, "%s/test_data_set_0", path);
    if (is_test || !access(part, F_OK)) {
        char **more = heap_reserve(c->folder, sizeof *more, c->n + 1, &c->room);

        if (!more)
            return FAIL_NOMEM();
        c->folder = more;
        return (c->folder[c->n] = strdup(path)) ? (c->n++, ST_OK) : FAIL_NOMEM();
    }
    if (depth == DEPTH || (n = scandir(path, &entry, is_visible, alphasort)) < 0)
        return depth ? ST_OK : FAIL(E_IO, "%s: cannot be read: %s", path, strerror(errno));
    for (int i = 0; i < n; i++) {
        char below[MAX_PATH];
        struct stat s;

        if (!st && snprintf(below, sizeof below, "%s/%s", path, entry[i]->d_name) < MAX_PATH && !lstat(below, &s) &&
            S_ISDIR(s.st_mode))
            st = find_folders(c, below, depth + 1);
        free(entry[i]);
    }
    free(entry);
    return st;
}

static Status find_all(Checks *c)
{
    for (int i = 0; i < c->args->n_positional; i++) {
        char path[MAX_PATH];
        size_t before = c->n, len = strlen(c->args->positional[i]);

        while (len > 1 && c->args->positional[i][len - 1] == '/')
            len--;
        if (len >= sizeof path - 512)
            return FAIL(E_INVALID, "%.80s...: the path is too long", c->args->positional[i]);
        snprintf(path, sizeof path, "%.*s", (int)len, c->args->positional[i]);
        TRY(find_folders(c, path, 0));
        if (c->n == before)
            return FAIL(
                E_INVALID,
                "%s: expected a folder with model.onnx and test_data_set_0, or a folder of such folders, found neither",
                path);
    }
    return ST_OK;
}

/* ---- one folder ---- */

/* In the child: writes the result to `to` and ends. */
static void run_child(const Checks *c, const char *folder, int to)
{
    dpx_check_result r;
    ssize_t written;

    memset(&r, 0, sizeof r);
    if (dpx_check(folder, c->args->options, args_has(c->args, "interpreter"), &r)) {
        r.outcome = DPX_CHECK_FAILED;
        snprintf(r.text, sizeof r.text, "%s", dpx_error());
    }
    written = write(to, &r, sizeof r);
    _exit(written == sizeof r ? EXIT_DONE : EXIT_FAILED);
}

/* Reads a whole result; false when there is none.  *late: it did not come in time. */
static bool read_result(dpx_check_result *r, int from, double until, bool *late)
{
    size_t have = 0;

    while (have < sizeof *r) {
        double left = until - seconds_now();
        struct pollfd p = { .fd = from, .events = POLLIN };
        int ready = poll(&p, 1, left > 0 ? (int)(left * 1000) + 1 : 0);
        ssize_t got;

        if (ready < 0 && errno == EINTR)
            continue;
        if ((*late = ready == 0))
            return false;
        if ((got = read(from, (char *)r + have, sizeof *r - have)) <= 0)
            return false;
        have += (size_t)got;
    }
    return true;
}

/* Runs a folder in a process of its own.  A crash or a timeout is a result. */
static Status run_in_process(const Checks *c, const char *folder, dpx_check_result *r)
{
    bool late = false, there;
    int ends[2], status = 0;
    pid_t child;

    if (pipe(ends))
        return FAIL(E_IO, "pipe: %s", strerror(errno));
    fflush(NULL);
    if ((child = fork()) < 0) {
        close(ends[0]);
        close(ends[1]);
        return FAIL(E_IO, "fork: %s", strerror(errno));
    }
    if (!child) {
        close(ends[0]);
        run_child(c, folder, ends[1]);
    }
    close(ends[1]);
    there = read_result(r, ends[0], seconds_now() + (double)c->timeout, &late);
    close(ends[0]);
    if (!there)
        kill(child, SIGKILL);
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    if (there)
        return ST_OK;
    *r = (dpx_check_result){ .outcome = DPX_CHECK_FAILED };
    if (late)
        snprintf(r->text, sizeof r->text, "took longer than %lld s", (long long)c->timeout);
    else if (WIFSIGNALED(status))
        snprintf(r->text, sizeof r->text, "crashed: %s", strsignal(WTERMSIG(status)));
    else
        snprintf(r->text, sizeof r->text, "ended with status %d and no result", WEXITSTATUS(status));
    return ST_OK;
}

/* ---- all folders ---- */

/* "120 of 1072": a line that is redrawn on a terminal, elsewhere a new line every few seconds. */
static void show_progress(Checks *c, size_t done)
{
    const double seconds = seconds_now();
    const double left = done ? (seconds - c->start) / (double)done * (double)(c->n - done) : 0;

    if (args_has(c->args, "quiet") || seconds - c->shown < (c->terminal ? 0.2 : 10))
        return;
    c->shown = seconds;
    fprintf(stderr, c->terminal ? "\r%zu of %zu folders, %.0f s left \033[K" : "%zu of %zu folders, %.0f s left\n",
            done, c->n, left);
    c->open = c->terminal;
}

static void hide_progress(Checks *c)
{
    if (c->open)
        fputs("\r\033[K", stderr);
    c->open = false;
}

/* Counts a result, prints it if it failed, and adds it to the JSON. */
static Status note_result(Checks *c, const char *folder, const dpx_check_result *r, double seconds)
{
    c->count[r->outcome]++;
    c->planned += r->outcome == DPX_CHECK_PASSED && r->planned;
    if (r->outcome == DPX_CHECK_FAILED || args_has(c->args, "verbose")) {
        hide_progress(c);
        printf("%s: %s%s%s\n", r->outcome == DPX_CHECK_FAILED ? "FAILED" : outcome_name[r->outcome], folder,
               *r->text ? ": " : "", r->text);
    }
    if (!c->tests)
        return ST_OK;
    return json_array_append_new(c->tests, json_pack("{s:o, s:s, s:b, s:f, s:o}", "folder", json_of_text(folder),
                                                     "outcome", outcome_name[r->outcome], "planned", r->planned,
                                                     "seconds", seconds, "text", json_of_text(r->text)))
               ? FAIL_NOMEM()
               : ST_OK;
}

static Status write_json(const Checks *c)
{
    const char *path = args_value(c->args, "json");
    json_t *j;
    OutFile *f;
    char *text;
    Status st;

    if (!path)
        return ST_OK;
    j = json_pack("{s:I, s:I, s:I, s:I, s:O}", "passed", (json_int_t)c->count[DPX_CHECK_PASSED], "failed",
                  (json_int_t)c->count[DPX_CHECK_FAILED], "unsupported", (json_int_t)c->count[DPX_CHECK_UNSUPPORTED],
                  "planned", (json_int_t)c->planned, "tests", c->tests);
    text = j ? json_text(j, JSON_INDENT(1)) : NULL;
    json_decref(j);
    if (!text)
        return FAIL_NOMEM();
    if (!(st = outfile_open(&f, path))) {
        fprintf(outfile_stream(f), "%s\n", text);
        st = outfile_close(f, ST_OK);
    }
    free(text);
    return st;
}

static Status check_run(Checks *c)
{
    const char *path = args_value(c->args, "json");

    TRY(args_int(&c->timeout, c->args, "timeout", SECONDS, 1, SECONDS_MOST));
    if (path) {
        TRY(outfile_check(path));
        if (!(c->tests = json_array()))
            return FAIL_NOMEM();
    }
    TRY(find_all(c));
    for (size_t i = 0; i < c->n; i++) {
        dpx_check_result r;
        double start = seconds_now();

        TRY(run_in_process(c, c->folder[i], &r));
        TRY(note_result(c, c->folder[i], &r, seconds_now() - start));
        show_progress(c, i + 1);
    }
    hide_progress(c);
    return write_json(c);
}

/* The counts, and in the last line what they mean. */
static void print_verdict(const Checks *c)
{
    const size_t passed = c->count[DPX_CHECK_PASSED], failed = c->count[DPX_CHECK_FAILED],
                 unsupported = c->count[DPX_CHECK_UNSUPPORTED];

    printf("%zu passed (%zu planned throughout), %zu failed, %zu unsupported\n", passed, c->planned, failed,
           unsupported);
    if (failed)
        printf("differs: %zu of %zu folders failed\n", failed, c->n);
    else if (!passed)
        puts("undecided: dpexec supports none of the folders");
    else if (unsupported)
        printf("agrees: %zu folders compute what is expected; %zu are unsupported\n", passed, unsupported);
    else
        printf("agrees: %s what is expected\n", passed > 1 ? "all folders compute" : "the folder computes");
}

int run_check(const Args *a)
{
    Checks c = { .args = a, .start = seconds_now(), .shown = seconds_now(), .terminal = isatty(STDERR_FILENO) };
    Status st = check_run(&c);
    int code = st ? args_failed(a, "dpexec", st) : c.count[DPX_CHECK_FAILED] ? EXIT_FAILED : EXIT_DONE;

    if (!st)
        print_verdict(&c);
    for (size_t i = 0; i < c.n; i++)
        free(c.folder[i]);
    free(c.folder);
    json_decref(c.tests);
    return code;
}
