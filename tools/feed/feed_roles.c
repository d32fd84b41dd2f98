/* Roles of arrays: which hold samples, and which a model takes whole.
 *
 * The model says which of its inputs carry the batch (dpx_batch_role).  Where it leaves that open, the array's shape
 * decides: an array with as many rows as there are samples, for an input that fixes another number, must be samples. */
#include <string.h>

#include "graph/base/foreign.h"
#include "tools/feed/feed.h"

/* The role of an input.  Where the user names axes for other inputs only, its samples are taken to lie along the first
 * axis until shapes are needed. */
static int role_of(const Feed *f, const Args *a, const char *input)
{
    const int role = dpx_batch_role(f->model, a->options, input);

    return role == DPX_ROLE_UNCLEAR ? DPX_ROLE_UNKNOWN : role;
}

/* The first array that feeds an input of this role; NULL: none does. */
static const Array *array_of_role(const Feed *f, const Args *a, int role)
{
    for (int i = 0; i < dpx_model_count(f->model, DPX_INPUT); i++) {
        dpx_info in;
        const Array *x = dpx_model_info(f->model, DPX_INPUT, i, &in) ? NULL : feed_array(f, a, in.name);

        if (x && x->rank && !x->describes && role_of(f, a, in.name) == role)
            return x;
    }
    return NULL;
}

/* The rows that were samples before --val-split held some back. */
static int64_t rows_of_all(const Feed *f) { return f->data->samples + (f->held ? f->held->samples : 0); }

int64_t feed_samples(const Feed *f, const Args *a)
{
    const Array *x = array_of_role(f, a, DPX_ROLE_SAMPLES);
    const char *target = args_value(a, "target");

    if (!x && dpx_target(a->options) != DPX_TARGET_NONE)
        x = dataset_find(f->data, target ? target : "target");
    x = x ? x : array_of_role(f, a, DPX_ROLE_UNKNOWN);
    return x && x->rank ? x->dim[0] : rows_of_all(f);
}

/* Whether the array has the input's shape as it is. */
static bool fits_whole(const dpx_info *in, const Array *x)
{
    bool fits = !x->row && (in->rank < 0 || in->rank == x->rank);

    for (int i = 0; fits && i < in->rank; i++)
        fits = in->dim[i] < 0 || in->dim[i] == x->dim[i];
    return fits;
}

bool feed_is_whole(const Feed *f, const Args *a, const dpx_info *in, const Array *array, int64_t samples,
                   Problems *wrong)
{
    const int role = role_of(f, a, in->name);
    bool whole;

    if (array->row)
        return false;
    if (role == DPX_ROLE_WHOLE || role == DPX_ROLE_ORDERED)
        return true;
    if (role == DPX_ROLE_EITHER)
        whole = fits_whole(in, array) || array->dim[0] != samples;
    else if (array->dim[0] == samples && array->rank)
        whole = false;
    else /* one row is the same for all samples; so is the input's own shape where nothing else decides */
        whole = fits_whole(in, array) &&
                (role == DPX_ROLE_UNKNOWN ? in->rank >= 0 && in->dim[0] == array->dim[0] : array->dim[0] == 1);
    if (whole != (role == DPX_ROLE_EITHER) &&
        dpx_options_set_role(a->options, in->name, whole ? DPX_ROLE_WHOLE : DPX_ROLE_SAMPLES))
        problems_add(wrong, "%s", dpx_error());
    return whole;
}

/* A hint where one array may be offsets with the total at the end, as EmbeddingBag has them with include_last_offset;
 * otherwise "". */
static const char *offsets_remedy(char text[512], const Array *a, const Array *b)
{
    const Array *longer = a->dim[0] > b->dim[0] ? a : b;
    const bool whole_numbers = longer->dtype == DPX_INT64 || longer->dtype == DPX_INT32;

    *text = '\0';
    if (longer->rank == 1 && whole_numbers && longer->dim[0] == (longer == a ? b : a)->dim[0] + 1)
        snprintf(text, 512,
                 "; if '%.200s' ends with the number of all rows (EmbeddingBag with include_last_offset=True), export "
                 "with include_last_offset=False and leave that number out",
                 longer->name);
    return text;
}

Status feed_check_samples(Feed *f, const char *source)
{
    const Array *first = NULL;
    char help[512];

    for (int i = 0; i < f->n; i++) {
        const Array *a = f->field[i].array;

        if (f->field[i].kind == FIELD_WHOLE)
            continue;
        if (!a->rank)
            return FAIL(E_IO, "%s: array '%s' has no axis of samples", source, a->name);
        first = first ? first : a;
        if (a->dim[0] != first->dim[0])
            return FAIL(
                E_IO,
                "%s: array '%s' has %lld sample%s along its first axis, '%s' has %lld; all arrays hold the same "
                "samples, and hold them along the first axis%s%s",
                source, a->name, (long long)a->dim[0], a->dim[0] == 1 ? "" : "s", first->name, (long long)first->dim[0],
                a->row || first->row ? "" : ", or have their NAME.offsets beside them", offsets_remedy(help, a, first));
    }
    if (!f->data->index)
        f->data->samples = first ? first->dim[0] : f->data->samples;
    return ST_OK;
}

void feed_warn_of_roles(const Feed *f, const Args *a, Progress *log)
{
    for (int i = 0; log && i < f->n; i++) {
        const Field *x = &f->field[i];
        char line[512];

        if (x->kind == FIELD_WHOLE && x->array->rank && x->array->dim[0] == rows_of_all(f) &&
            dpx_batch_role(f->model, a->options, x->name) == DPX_ROLE_EITHER) {
            snprintf(line, sizeof line,
                     "dpexec: warning: input '%.200s' is given whole to every batch, because it need not grow with the "
                     "batch; if its %lld rows are the samples, name it and the others that have samples with "
                     "--batch-input",
                     x->name, (long long)x->array->dim[0]);
            foreign_clean(line);
            progress_line(log, "%s", line);
        }
    }
}

Status feed_check_order(const Feed *f, const Args *a, int64_t batch_size, bool shuffled)
{
    for (int i = 0; i < f->n; i++) {
        const Field *x = &f->field[i];
        const bool parts = f->data->samples > batch_size || f->data->index;

        if (x->kind != FIELD_WHOLE || dpx_batch_role(f->model, a->options, x->name) != DPX_ROLE_ORDERED ||
            (!parts && !shuffled))
            continue;
        return FAIL(E_INVALID,
                    "--%s %s: input '%s' refers to samples by position, as an adjacency matrix or the offsets of bags "
                    "do, so all samples are one batch in their order: give --no-shuffle and --batch-size %lld",
                    f->flag, f->source, x->name, (long long)f->data->samples);
    }
    return ST_OK;
}
