/* --profile: tells the trainer how long steps took, and prints the profile at the end. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "graph/base/outfile.h"
#include "tools/training/training.h"

Status profile_open(Run *r)
{
    r->clock.on = args_has(r->args, "profile");
    return r->clock.on ? (Status)dpx_trainer_profile(r->trainer, true) : ST_OK;
}

void profile_restart(Run *r)
{
    r->clock.since = seconds_now();
    r->clock.paused = r->progress.paused_ever;
    r->clock.data = 0;
    r->clock.leave_out = false;
}

const Batch *profile_next_batch(Run *r)
{
    const double before = seconds_now();
    const Batch *b = loader_next(r->loader);

    r->clock.data += seconds_now() - before;
    return b;
}

Status profile_step(Run *r)
{
    const StepClock *c = &r->clock;
    const double seconds = seconds_now() - c->since - (r->progress.paused_ever - c->paused), data = c->data;

    if (!c->on)
        return ST_OK;
    TRY((Status)dpx_trainer_profile_step(r->trainer, c->leave_out ? NAN : seconds, data));
    profile_restart(r);
    return ST_OK;
}

/* ---- the result ---- */

/* A dpx_write_fn: prints whole lines; `user` is a Run. */
static void print_lines(void *user, const char *text, size_t bytes)
{
    Run *r = user;
    char line[512];

    for (size_t at = 0; at < bytes;) {
        const char *end = memchr(text + at, '\n', bytes - at);
        const size_t n = end ? (size_t)(end - text) - at : bytes - at;

        snprintf(line, sizeof line, "%.*s", (int)(n < sizeof line ? n : sizeof line - 1), text + at);
        progress_result(&r->progress, line);
        at += n + 1;
    }
}

/* A dpx_write_fn: `user` is a stream. */
static void write_text(void *user, const char *text, size_t bytes) { fwrite(text, 1, bytes, user); }

Status profile_finish(Run *r)
{
    char path[4096];
    OutFile *file;

    if (!r->clock.on || r->world.rank)
        return ST_OK;
    progress_end(&r->progress);
    TRY((Status)dpx_trainer_write_profile(r->trainer, false, print_lines, r));
    if (!r->has_dir)
        return ST_OK;
    TRY(outfile_open(&file, run_dir_file(&r->dir, "profile.json", path)));
    return outfile_close(file, (Status)dpx_trainer_write_profile(r->trainer, true, write_text, outfile_stream(file)));
}
