/* The parameters that a run trains: kept in its checkpoints, and compared with those of a resumed run.  They follow
 * from the file, flags and rules (docs/reference/parameters.md).  A resumed run whose rules decide otherwise is
 * refused, with the tensors and the flags that decide as before.  In checkpoints of versions that kept no list, the
 * trained parameters follow from the states. */
#include <stdlib.h>
#include <string.h>

#include "exec/api/trainer.h"
#include "graph/recipes/optimizer.h"
#include "passes/model/parameters.h"
#include "passes/options/update.h"

/* uint8: the names, each with its NUL */
#define TRAINED_NAMES TRAINED "_names"
enum { MOST_NAMES = 64 << 20 /* bytes */ };

static const BuildMode modes[] = { BUILD_TRAIN, BUILD_APPLY, BUILD_FINISH };
enum { N_MODES = sizeof modes / sizeof *modes };

static bool updates(const Program *p, const char *state)
{
    const Graph *g = p ? program_graph(p) : NULL;

    for (int i = 0; g && i < g->n_update; i++)
        if (!strcmp(value_logical_name(value(g, g->update[i].state)), state))
            return true;
    return false;
}

/* PARAM.ema of --ema or of an optimizer that averages, which evaluations read in place of PARAM, and which counts as
 * trainable once one did. */
static bool stored_decisions_is_mean(const dpx_trainer *t, const State *s)
{
    const States *states = session_states(t->session);
    const size_t n = strlen(s->name), end = strlen("." EMA_SUFFIX);
    bool found = false;

    if (!keeps_means(&t->options->build) || n <= end || strcmp(s->name + n - end, "." EMA_SUFFIX))
        return false;
    for (int i = 0; i < states_count(states) && !found; i++) {
        const char *of = states_at(states, i)->name;

        found = !strncmp(of, s->name, n - end) && !of[n - end];
    }
    return found;
}

static bool stored_decisions_is_trained(const dpx_trainer *t, const State *s)
{
    bool any = false;

    if (stored_decisions_is_mean(t, s))
        return false;
    for (int i = 0; s->trainable && !any && i < N_MODES; i++)
        any = updates(session_program(t->session, modes[i]), s->name);
    return any;
}

static bool has_programs(const dpx_trainer *t)
{
    bool any = false;

    for (int i = 0; i < N_MODES; i++)
        any = any || session_program(t->session, modes[i]);
    return any;
}

/* Before the first step nothing is known but what was resumed. */
Status trainer_keep_decisions(Arena *a, const dpx_trainer *t, NamedTensor *list, int *n)
{
    const States *states = session_states(t->session);
    const bool now = has_programs(t);
    Shape shape = SHAPE(now ? 0 : (int64_t)t->decided_bytes);
    Tensor *kept;
    char *to;

    for (int i = 0; now && i < states_count(states); i++)
        if (stored_decisions_is_trained(t, states_at(states, i)))
            shape.dim[0] += (int64_t)strlen(states_at(states, i)->name) + 1;
    if (!shape.dim[0])
        return ST_OK;
    if (!(kept = tensor_create(a, DT_UINT8, &shape)))
        return FAIL_NOMEM();
    to = kept->data;
    if (!now)
        memcpy(to, t->decided, t->decided_bytes);
    for (int i = 0; now && i < states_count(states); i++)
        if (stored_decisions_is_trained(t, states_at(states, i)))
            to = stpcpy(to, states_at(states, i)->name) + 1;
    list[(*n)++] = (NamedTensor){ TRAINED_NAMES, *kept };
    return ST_OK;
}

bool trainer_was_trained(const dpx_trainer *t, const char *name)
{
    for (size_t at = 0; at < t->decided_bytes; at += strlen(t->decided + at) + 1)
        if (!strcmp(t->decided + at, name))
            return true;
    return false;
}

static bool is_constant(const dpx_trainer *t, const char *name)
{
    const ValueId v = graph_find(t->model->graph, name);

    return has_value(v) && value(t->model->graph, v)->kind == V_CONST;
}

/* Refuses parameters that --freeze fixes now and the checkpoint's run trained, before anything is built or written. */
static Status refuse_frozen(const dpx_trainer *t, const Checkpoint *c)
{
    const BuildOptions *opt = &t->options->build;
    PROBLEMS(wrong);
    const char *pattern;

    for (size_t at = 0; at < t->decided_bytes; at += strlen(t->decided + at) + 1)
        if (pattern_rule(opt, t->decided + at, &pattern) == PATTERN_FREEZE)
            problems_add(&wrong, "'%s' was trained in that run, but --freeze '%s' fixes it now", t->decided + at,
                         pattern);
    for (int i = 0; i < c->n; i++) {
        const char *name = c->tensor[i].name;

        if (!trainer_was_trained(t, name) && is_constant(t, name) &&
            pattern_rule(opt, name, &pattern) == PATTERN_FREEZE && pattern_is_name(pattern))
            problems_add(&wrong, "the running statistic '%s' was updated in that run, but --freeze '%s' fixes it now",
                         name, pattern);
    }
    return problems_fail(&wrong, E_INVALID, "the checkpoint that was resumed from is of another run");
}

Status trainer_resume_decisions(dpx_trainer *t, const Checkpoint *c)
{
    const int i = checkpoint_find(c, TRAINED_NAMES);
    const Tensor *kept = i < 0 ? NULL : &c->tensor[i].tensor;
    size_t bytes;

    free(t->decided);
    t->decided = NULL;
    t->decided_bytes = 0;
    if (!kept)
        return ST_OK;
    bytes = tensor_bytes(kept);
    if (kept->dtype != DT_UINT8 || bytes < 1 || bytes > MOST_NAMES)
        return FAIL(E_IO, "the checkpoint's '%s' is no list of names", TRAINED_NAMES);
    if (!(t->decided = malloc(bytes)))
        return FAIL_NOMEM();
    TRY(tensor_file_read(c->file, i, t->decided, 0, bytes));
    if (t->decided[bytes - 1])
        return FAIL(E_IO, "the checkpoint's '%s' is no list of names", TRAINED_NAMES);
    t->decided_bytes = bytes;
    return refuse_frozen(t, c);
}

/* ---- what differs ---- */

void trainer_list_missing(Problems *wrong, const State *s)
{
    if (s->trainable)
        problems_add(wrong, "no '%s': it is trained now and was not in that run (--freeze '%s' keeps it fixed)",
                     s->name, s->name);
    else
        problems_add(wrong, "no '%s'", s->name);
}

void trainer_list_foreign(Problems *wrong, const dpx_trainer *t, const char *name)
{
    if (!is_constant(t, name))
        problems_add(wrong, "'%s', which this run does not have", name);
    else if (t->decided && !trainer_was_trained(t, name))
        problems_add(wrong, "the running statistic '%s' was updated in that run and is fixed now", name);
    else
        problems_add(wrong, "'%s' was trained in that run and is fixed now (--train '%s' trains it)", name, name);
}

void trainer_compare_decisions(Problems *wrong, const dpx_trainer *t)
{
    const States *states = session_states(t->session);

    for (int i = 0; t->decided && i < states_count(states); i++) {
        const State *s = states_at(states, i);
        const bool was = s->trainable && !stored_decisions_is_mean(t, s) && trainer_was_trained(t, s->name),
                   is = stored_decisions_is_trained(t, s);

        if (was && !is && !state_waits(s))
            problems_add(wrong, "'%s' was trained in that run, but no gradient reaches it now", s->name);
        if (is && !was && i < t->n_resumed)
            problems_add(wrong, "'%s' was not trained in that run and is now (--freeze '%s' keeps it fixed)", s->name,
                         s->name);
    }
}
