/* What a run keeps: checkpoints, the best model, and what a resumed run takes from them. */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/training/training.h"

/* Removes older checkpoints, where this process writes them. */
static Status keep_newest(Run *r)
{
    char *damage;

    if (!r->has_dir)
        return ST_OK;
    TRY(run_dir_keep(&r->dir, r->step, r->keep, r->at.best.step, &damage));
    if (damage)
        progress_line(&r->progress, "dpexec: warning: the new checkpoint is damaged, so no older one is removed: %s",
                      damage);
    free(damage);
    return ST_OK;
}

Status save(Run *r)
{
    char *note, path[4096];
    Status st;

    r->save_due = false;
    if (!r->keeps || r->saved_step == r->step)
        return ST_OK;
    progress_pause(&r->progress);
    note = note_write(&r->facts, r->at);
    st = note ? (Status)dpx_trainer_save(r->trainer, r->has_dir ? run_dir_file(&r->dir, "checkpoints", path) : NULL,
                                         note)
              : FAIL_NOMEM();
    free(note);
    TRY(st);
    r->saved_step = r->step;
    r->saved_at = seconds_now();
    TRY(keep_newest(r));
    progress_resume(&r->progress);
    return ST_OK;
}

/* ---- the best model ---- */

/* checkpoints/best comes first: best.onnx is of the step that it names or, after a crash in between, of an earlier
 * one.  The checkpoint of that step is then the newest, and a resumed run writes best.onnx from it. */
Status write_best(Run *r)
{
    char path[4096];

    if (r->has_dir)
        TRY(run_dir_write_best(&r->dir, r->at.best.step));
    return (Status)dpx_trainer_export(r->trainer, r->has_dir ? run_dir_file(&r->dir, "best.onnx", path) : NULL);
}

/* What a resumed run has to do that best.onnx is the model of its best step. */
enum { BEST_GOOD, BEST_REMOVE, BEST_WRITE, BEST_LOAD };

static int inspect_best(Run *r, const char *from)
{
    const int64_t best = r->at.best.step;
    char path[PATH_MAX];

    if (!r->has_dir || args_has(r->args, "no-best"))
        return BEST_GOOD;
    if (best == r->step)
        return BEST_WRITE;
    if (best == r->dir.best && (best < 0 || !access(run_dir_file(&r->dir, "best.onnx", path), F_OK)))
        return BEST_GOOD;
    if (best < 0)
        return BEST_REMOVE;
    snprintf(path, sizeof path, "%s/checkpoints", from);
    if (!dpx_checkpoint_verify(path, best))
        return BEST_LOAD;
    progress_line(&r->progress,
                  "dpexec: warning: the checkpoint of the best step, %" PRId64
                  ", cannot be read: the best model is chosen among later evaluations: %s",
                  best, dpx_error());
    return BEST_REMOVE;
}

/* Rolls best.onnx back to the best step before the checkpoint that the run resumes from; `what` is alike in all
 * processes. */
static Status restore_best(Run *r, int what, const char *from, bool same)
{
    char path[PATH_MAX], file[4096], *note = NULL;
    Status st = ST_OK;

    if (what == BEST_WRITE && !same)
        TRY(save(r));
    if (what == BEST_WRITE)
        return write_best(r);
    if (what == BEST_REMOVE) {
        r->at.best.step = -1;
        return r->has_dir ? run_dir_write_best(&r->dir, -1) : ST_OK;
    }
    if (what != BEST_LOAD)
        return ST_OK;
    snprintf(path, sizeof path, "%s/checkpoints", from);
    TRY((Status)dpx_trainer_resume_step(r->trainer, path, r->at.best.step, &note));
    if (!same) /* it is the best one's checkpoint in the new folder, too */
        st = (Status)dpx_trainer_save(r->trainer, r->has_dir ? run_dir_file(&r->dir, "checkpoints", file) : NULL, note);
    free(note);
    TRY(st);
    TRY(write_best(r));
    return (Status)dpx_trainer_resume_step(r->trainer, path, r->step, NULL);
}

/* ---- resuming ---- */

Status resume(Run *r, const char *from, bool same)
{
    char path[PATH_MAX], *note = NULL;
    Status st;

    snprintf(path, sizeof path, "%s/checkpoints", from);
    TRY((Status)dpx_trainer_resume(r->trainer, path, &note));
    r->resumed = true;
    r->step = dpx_trainer_step_count(r->trainer);
    r->saved_step = same ? r->step : -1; /* a new folder gets a checkpoint of its own */
    snprintf(path, sizeof path, "%s/checkpoints/step-%09" PRId64 "/manifest.json", from, r->step);
    st = note_read(&r->at, &r->facts, note, r->step, path, r->world.rank ? NULL : report_log, &r->progress);
    free(note);
    TRY(st);
    if (!r->progress.quiet)
        progress_line(&r->progress, "resumed at step %" PRId64 " of epoch %" PRId64 ", %d replica%s", r->step,
                      r->at.epoch + 1, r->facts.replicas, r->facts.replicas == 1 ? "" : "s");
    return ST_OK;
}

Status rewind_run(Run *r, const char *from, bool same)
{
    bool evaluated = false;
    int what;

    if (r->has_dir)
        TRY(run_dir_rewind(&r->dir, r->step, r->val.data, &evaluated));
    evaluated |= r->val.data && r->at.best.counted == r->step; /* the line may have been lost */
    what = inspect_best(r, from) * 2 + evaluated;
    tool_set_purpose(&r->world, "whether step %" PRId64 " is evaluated again", r->step);
    TRY(world_most(&what, &r->world, what));
    TRY(restore_best(r, what / 2, from, same));
    return what % 2 ? evaluate_now(r) : ST_OK;
}
