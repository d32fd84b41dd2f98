/* Roles of the inputs and the target: which hold samples, and along which axis, and which are the same for all.  They
 * are kept in checkpoints, and compared with those of a resumed run.
 *
 * Roles follow from the model, --batch-input and the data (passes/batch_axis.h).  A run whose data or rules decide
 * otherwise would train another network, so it is refused by the input's name.  Checkpoints of versions that kept no
 * roles are taken with a warning. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "exec/api/trainer.h"
#include "passes/batch_axis.h"
#include "passes/options/target.h"

/* uint8: for each input and for the target "NAME=AXES" with its NUL, where AXES are bits, 0 of an input that is given
 * whole */
#define ROLES TRAINED "_inputs"
enum { MOST_ROLES = 64 << 20 /* bytes */ };

/* Bits of the axes along which it has samples. */
static unsigned axes_of(const dpx_trainer *t, const Value *v, const char *name)
{
    const Graph *g = t->model->graph;
    const BuildOptions *opt = &t->options->build;
    unsigned axes;
    int axis;

    if (v && known_batch_axes(&axes, g, opt, v))
        return axes;
    axis = data_split_axis(g, opt, name);
    return axis < 0 ? 0 : 1u << axis;
}

static size_t add_role(char *to, const dpx_trainer *t, const Value *v, const char *name)
{
    char number[16];

    snprintf(number, sizeof number, "%u", axes_of(t, v, name));
    if (to)
        stpcpy(stpcpy(stpcpy(to, name), "="), number);
    return strlen(name) + 1 + strlen(number) + 1;
}

/* The bytes that all roles take; `to` NULL: they are counted alone. */
static size_t write_roles(char *to, const dpx_trainer *t)
{
    const Graph *g = t->model->graph;
    const BuildOptions *opt = &t->options->build;
    size_t n = 0;

    for (int i = 0; i < g->n_input; i++) {
        const Value *v = value(g, g->input[i]);

        n += add_role(to ? to + n : NULL, t, v, v->name);
    }
    if (loss_has_target(opt))
        n += add_role(to ? to + n : NULL, t, NULL, target_name(opt));
    return n;
}

Status trainer_keep_roles(Arena *a, const dpx_trainer *t, NamedTensor *list, int *n)
{
    const Shape shape = SHAPE((int64_t)write_roles(NULL, t));
    Tensor *kept;

    if (!shape.dim[0])
        return ST_OK;
    if (!(kept = tensor_create(a, DT_UINT8, &shape)))
        return FAIL_NOMEM();
    write_roles(kept->data, t);
    list[(*n)++] = (NamedTensor){ ROLES, *kept };
    return ST_OK;
}

static const char *role_text(char text[64], unsigned axes, bool now)
{
    const int axis = only_axis(axes);

    if (axis >= 0)
        snprintf(text, 64, "%s samples along axis %d", now ? "has" : "had", axis);
    else if (axes)
        snprintf(text, 64, "%s samples along several axes", now ? "has" : "had");
    else
        snprintf(text, 64, "%s given whole", now ? "is" : "was");
    return text;
}

static void compare_axes(Problems *wrong, const char *what, const char *name, unsigned now, unsigned then)
{
    char was[64], is[64];

    if (then != now)
        problems_add(wrong, "%s '%s' %s now and %s in that run", what, name, role_text(is, now, true),
                     role_text(was, then, false));
}

/* `last`: it ends the list, as the target does, whatever its array was called. */
static void compare_role(Problems *wrong, const dpx_trainer *t, const char *kept, bool last)
{
    const Graph *g = t->model->graph;
    const BuildOptions *opt = &t->options->build;
    const char *eq = strrchr(kept, '=');
    const size_t length = eq ? (size_t)(eq - kept) : 0;
    const unsigned then = eq ? (unsigned)strtoul(eq + 1, NULL, 10) : 0;

    for (int i = 0; i < g->n_input && eq; i++) {
        const Value *v = value(g, g->input[i]);

        if (strlen(v->name) == length && !memcmp(v->name, kept, length)) {
            compare_axes(wrong, "input", v->name, axes_of(t, v, v->name), then);
            return;
        }
    }
    if (last && eq && loss_has_target(opt))
        compare_axes(wrong, "target", target_name(opt), axes_of(t, NULL, target_name(opt)), then);
}

static void warn_of_none(const dpx_trainer *t)
{
    if (t->log && write_roles(NULL, t))
        t->log(
            t->log_user, DPX_LOG_WARNING,
            "the checkpoint, of an older version, does not say along which axes inputs and target had their samples: "
            "whether this run has them along the same ones is not compared");
}

Status trainer_compare_roles(const dpx_trainer *t, Arena *a, const Checkpoint *c)
{
    const int i = checkpoint_find(c, ROLES);
    const Tensor *kept = i < 0 ? NULL : &c->tensor[i].tensor;
    const size_t bytes = kept ? tensor_bytes(kept) : 0;
    PROBLEMS(wrong);
    char *text;

    if (scores_exactly(t))
        return ST_OK;
    if (!kept) {
        warn_of_none(t);
        return ST_OK;
    }
    if (kept->dtype != DT_UINT8 || bytes < 1 || bytes > MOST_ROLES)
        return FAIL(E_IO, "the checkpoint's '%s' is no list of inputs", ROLES);
    if (!(text = ARENA_NEW(a, char, bytes)))
        return FAIL_NOMEM();
    TRY(tensor_file_read(c->file, i, text, 0, bytes));
    if (text[bytes - 1])
        return FAIL(E_IO, "the checkpoint's '%s' is no list of inputs", ROLES);
    for (size_t at = 0; at < bytes; at += strlen(text + at) + 1)
        compare_role(&wrong, t, text + at, at + strlen(text + at) + 1 == bytes);
    return problems_fail(&wrong, E_INVALID,
                         "the checkpoint is of another run (--batch-input names the inputs that have samples, "
                         "NAME:AXIS)");
}
