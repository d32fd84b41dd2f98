/* Models and checkpoints to and from functions of the caller, as streams of bytes. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "exec/api/trainer.h"

/* The stream of a caller's function: the first status that is not DPX_OK ends it. */
typedef struct {
    dpx_sink_fn *write;
    dpx_source_fn *read;
    void *user;
    dpx_status status;
} Caller;

static ssize_t give(void *cookie, const char *bytes, size_t n)
{
    Caller *c = cookie;

    if (c->status || (c->status = c->write(c->user, bytes, n))) {
        errno = EIO;
        return 0;
    }
    return (ssize_t)n;
}

static ssize_t take(void *cookie, char *to, size_t room)
{
    Caller *c = cookie;
    size_t n = 0;

    if (c->status || (c->status = c->read(c->user, to, room, &n)) || n > room) {
        errno = EIO;
        return -1;
    }
    return (ssize_t)n;
}

/* Closes the stream.  A status of the caller's function comes before `st`, which follows from it. */
static Status close_caller(FILE *f, const Caller *c, Status st, const char *function)
{
    const bool lost = fclose(f) != 0;

    if (c->status)
        return FAIL(c->status < DPX_INTERRUPTED || c->status > DPX_OK ? E_IO : (Status)c->status,
                    "%s: the caller's function failed with status %d", function, (int)c->status);
    return !st && lost ? FAIL(E_IO, "%s: cannot write: %s", function, strerror(errno)) : st;
}

/* ---- writing ---- */

static Status export_to(dpx_trainer *t, dpx_sink_fn *write, void *user)
{
    Caller c = { .write = write, .user = user };
    ExportOptions how;
    Graph *g;
    FILE *f;
    Status st;

    TRY(trainer_export_graph(write ? &g : NULL, &how, t));
    if (!write)
        return ST_OK;
    if ((f = fopencookie(&c, "w", (cookie_io_functions_t){ .write = give })))
        st = close_caller(f, &c, onnx_export_stream(f, g, &how), "dpx_trainer_export_to");
    else
        st = FAIL_NOMEM();
    graph_free(g);
    return st;
}

dpx_status dpx_trainer_export_to(dpx_trainer *t, dpx_sink_fn *write, void *user)
{
    NEED(t, "trainer");
    if (!trainer_has_peers(t))
        NEED(write, "write");
    world_set_purpose(trainer_world(t), "the exported model");
    return (dpx_status)export_to(t, write, user);
}

static Status save_to(dpx_trainer *t, dpx_sink_fn *write, void *user, const char *note)
{
    Caller c = { .write = write, .user = user };
    Arena *a = arena_create();
    FILE *f = NULL;
    Status st = a ? ST_OK : FAIL_NOMEM();

    if (!st && write && !(f = fopencookie(&c, "w", (cookie_io_functions_t){ .write = give })))
        st = FAIL_NOMEM();
    if (!st)
        st = trainer_save(t, a, NULL, f, note);
    if (f)
        st = close_caller(f, &c, st, "dpx_trainer_save_to");
    arena_free(a);
    return st;
}

dpx_status dpx_trainer_save_to(dpx_trainer *t, dpx_sink_fn *write, void *user, const char *note)
{
    NEED(t, "trainer");
    if (!trainer_has_peers(t))
        NEED(write, "write");
    world_set_purpose(trainer_world(t), "the checkpoint of step %" PRId64, t->step);
    return (dpx_status)save_to(t, write, user, note);
}

/* ---- reading ---- */

/* Messages name files of the temporary folder, which say nothing to the caller. */
static Status name_stream(Status st, const char *folder)
{
    char text[1024], *at;

    if (!st)
        return ST_OK;
    snprintf(text, sizeof text, "%s", status_message());
    while ((at = strstr(text, folder))) {
        const char *rest = at + strlen(folder);

        rest += strspn(rest, "/: ");
        memmove(at, rest, strlen(rest) + 1);
    }
    return FAIL(st, "dpx_trainer_load_from: %s", text);
}

static Status load_from(dpx_trainer *t, dpx_source_fn *read, void *user, char **note)
{
    Caller c = { .read = read, .user = user };
    const char *tmp = getenv("TMPDIR");
    char folder[512];
    int64_t step;
    FILE *f;
    Status st;

    if (snprintf(folder, sizeof folder, "%s/dpexec-XXXXXX", tmp && *tmp ? tmp : "/tmp") >= (int)sizeof folder ||
        !mkdtemp(folder))
        return FAIL(E_IO, "dpx_trainer_load_from: cannot make a folder below %.400s: %s", tmp ? tmp : "/tmp",
                    strerror(errno));
    if ((f = fopencookie(&c, "r", (cookie_io_functions_t){ .read = take })))
        st = close_caller(f, &c, checkpoint_unpack(f, folder, &step), "dpx_trainer_load_from");
    else
        st = FAIL_NOMEM();
    if (!st)
        st = name_stream((Status)dpx_trainer_resume_step(t, folder, step, note), folder);
    checkpoint_unpack_remove(folder); /* what is still to be read stays open */
    return st;
}

dpx_status dpx_trainer_load_from(dpx_trainer *t, dpx_source_fn *read, void *user, char **note)
{
    NEED(t, "trainer");
    NEED(read, "read");
    return (dpx_status)load_from(t, read, user, note);
}
