/* Matches arrays to inputs by name, and without names where only one match is possible.  All mismatches are reported
 * together. */
#include "tools/feed/feed.h"

#include <stdlib.h>
#include <string.h>

#include "graph/base/foreign.h"

enum { LIST_TEXT = 800, REMEDY_TEXT = 256 };

static bool needs_target(const Args *a) { return dpx_target(a->options) != DPX_TARGET_NONE; }

bool feed_input(dpx_info *out, const dpx_model *m, const char *name)
{
    for (int i = 0; i < dpx_model_count(m, DPX_INPUT); i++)
        if (!dpx_model_info(m, DPX_INPUT, i, out) && !strcmp(out->name, name))
            return true;
    return false;
}

static const char *dims_text(int rank, const int64_t *dim, char buf[160])
{
    int n = snprintf(buf, 160, "[");

    for (int i = 0; i < rank && n < 130; i++)
        n += dim[i] < 0 ? snprintf(buf + n, 160 - (size_t)n, "%s?", i ? "," : "")
                        : snprintf(buf + n, 160 - (size_t)n, "%s%lld", i ? "," : "", (long long)dim[i]);
    snprintf(buf + n, 160 - (size_t)n, "]");
    return buf;
}

/* "[100,3,32,32] float32", with ? for open dimensions. */
static const char *array_text(int rank, const int64_t *dim, dpx_dtype dtype, char buf[192])
{
    char dims[160];

    snprintf(buf, 192, "%s %s", rank < 0 ? "of any shape," : dims_text(rank, dim, dims), dpx_dtype_name(dtype));
    return buf;
}

/* Whether the dimensions of a sample are those of the input, where these are known. */
static bool fits_shape(const dpx_info *in, const Field *f)
{
    int64_t dim[DPX_MAX_RANK];
    const bool whole = f->kind == FIELD_WHOLE;
    bool fits = (whole || (f->axis >= 0 && f->axis < field_rank(f))) && (in->rank < 0 || in->rank == field_rank(f));

    if (fits)
        field_dims(dim, f, 0, f->array->rank > 1 ? f->array->dim[1] : 0);
    for (int i = 0; fits && i < in->rank; i++)
        fits = (!whole && i == f->axis) || in->dim[i] < 0 || in->dim[i] == dim[i] ||
               (i == field_length_axis(f) && in->dim[i] > dim[i]);
    return fits;
}

/* The input with the axis of samples moved to the front, as files have it. */
static void samples_first(dpx_info *out, const dpx_info *in, int axis)
{
    *out = *in;
    for (int i = 0; i < in->rank && i <= axis; i++)
        out->dim[i] = in->dim[i ? i - 1 : axis < in->rank ? axis : 0];
}

/* Whether the array fits if its axis `from` is moved to `to`; order[]: the resulting order of its axes. */
static bool fits_turned(int order[DPX_MAX_RANK], const dpx_info *expected, const Array *x, int from, int to)
{
    bool fits = expected->dim[to] >= 0;

    for (int i = 0, k = 0; i < x->rank; i++) {
        k += k == from;
        order[i] = i == to ? from : k++;
    }
    for (int i = 1; fits && i < x->rank; i++)
        fits = expected->dim[i] < 0 || expected->dim[i] == x->dim[order[i]];
    return fits;
}

/* The change that makes an array of another shape fit, if that is evident; otherwise "".  `expected` has its samples
 * first. */
static const char *hint(char text[REMEDY_TEXT], const dpx_info *expected, const Array *x)
{
    const int rank = x->rank;
    int order[DPX_MAX_RANK];
    bool same = rank == expected->rank + 1 && rank > 1;
    size_t n;

    *text = '\0';
    for (int i = 1; same && i < rank; i++)
        same = expected->dim[i - 1] == x->dim[i];
    if (same)
        snprintf(text, REMEDY_TEXT,
                 ": the model has no axis for the samples: export it with a batch as its first axis");
    if (rank != expected->rank || rank < 3 ||
        (!fits_turned(order, expected, x, rank - 1, 1) && !fits_turned(order, expected, x, 1, rank - 1)))
        return text;
    n = (size_t)snprintf(text, REMEDY_TEXT, ": its axes are in another order, transpose(0");
    for (int i = 1; i < rank; i++)
        n += (size_t)snprintf(text + n, REMEDY_TEXT - n, ",%d", order[i]);
    snprintf(text + n, REMEDY_TEXT - n, ") makes it fit");
    return text;
}

/* How to make an array fit an input with fixed sizes: by naming the axis that is the batch, or by exporting the model
 * with an open axis; "" if neither helps. */
static const char *export_open(char text[REMEDY_TEXT], const dpx_info *in, const Array *x)
{
    int axis = 0, i = 1;

    *text = '\0';
    for (int k = 1; !axis && in->rank == x->rank && in->dim[0] >= 0 && k < x->rank; k++) {
        dpx_info first;
        bool fits = true;

        samples_first(&first, in, k);
        for (int d = 1; d < x->rank; d++)
            fits = fits && (first.dim[d] < 0 || first.dim[d] == x->dim[d]);
        axis = fits ? k : 0;
    }
    while (i < x->rank && (in->dim[i] < 0 || in->dim[i] == x->dim[i] || (i == 1 && x->row && in->dim[i] > x->dim[i])))
        i++;
    if (axis)
        snprintf(text, REMEDY_TEXT, ": it fits if axis %d of the input is the batch: --batch-input %.80s:%d", axis,
                 in->name, axis);
    else if (in->rank == x->rank && i < x->rank)
        snprintf(
            text, REMEDY_TEXT,
            ": the file fixes axis %d to %lld; if the network takes other sizes, export it with that axis open, in "
            "PyTorch by optimize=False, dynamic_shapes=({0: Dim(\"batch\"), %d: Dim(\"size\")},)",
            i, (long long)in->dim[i], i);
    return text;
}

static void check_shape(const dpx_info *in, const Field *f, Problems *wrong)
{
    char want[160], have[160], help[REMEDY_TEXT];
    dpx_info expected;

    if (fits_shape(in, f))
        return;
    if (f->kind == FIELD_WHOLE) {
        problems_add(wrong,
                     "input '%s' %s is given whole to every batch, because it need not grow with the batch, but the "
                     "data's array is %s; name the inputs that have samples with --batch-input",
                     in->name, dims_text(in->rank, in->dim, want), dims_text(f->array->rank, f->array->dim, have));
        return;
    }
    if (f->axis < 0 || f->axis >= f->array->rank)
        return; /* feed_add reports it */
    samples_first(&expected, in, f->axis);
    if (!*hint(help, &expected, f->array) && !f->axis)
        export_open(help, in, f->array);
    problems_add(wrong, "input '%s' is %s%s, the data's array is %s%s%s", in->name,
                 dims_text(expected.rank, expected.dim, want), f->axis ? " with its samples first" : "",
                 f->array->row ? "of sequences, at most " : "", dims_text(f->array->rank, f->array->dim, have), help);
}

void feed_add(Feed *f, Field field, Problems *wrong)
{
    if (f->n == MAX_FIELDS)
        problems_add(wrong, "more than %d inputs", MAX_FIELDS);
    else if (field.kind == FIELD_WHOLE && field.array->fetch)
        problems_add(wrong, "input '%s' is given whole to every batch, but the source reads '%s' sample by sample",
                     field.name, field.array->name);
    else if ((field.kind == FIELD_SAMPLES || field.kind == FIELD_WHOLE) &&
             array_check_share(field.array, field.dtype, field.name, f->share))
        problems_add(wrong, "%s", dpx_error());
    else if (field.kind != FIELD_WHOLE && (field.axis < 0 || field.axis >= field_rank(&field)))
        problems_add(wrong, "--batch-input %s:%d: the data's array has rank %d", field.name, field.axis,
                     field_rank(&field));
    else
        f->field[f->n++] = field;
}

dpx_dtype feed_dtype(const Args *a, dpx_dtype t)
{
    const char *dtype = dpx_options_get(a->options, "dtype");

    if ((t == DPX_FLOAT32 || t == DPX_FLOAT64 || t == DPX_FLOAT16 || t == DPX_BFLOAT16) && *dtype)
        return !strcmp(dtype, "float64") ? DPX_FLOAT64 : DPX_FLOAT32;
    return t;
}

int feed_axis(const dpx_model *m, const Args *a, const char *name, int rank)
{
    const int axis = dpx_batch_axis(m, a->options, name);

    return axis < 0 && axis >= -rank ? axis + rank : axis;
}

static bool is_fed(const Feed *f, const Array *a)
{
    for (int i = 0; i < f->n; i++)
        if (f->field[i].array == a)
            return true;
    return false;
}

/* "'x' [43,64] float32, ...": the arrays that feed nothing, or all of them. */
static const char *list_arrays(char text[LIST_TEXT], const Feed *f, bool all)
{
    char one[192];
    size_t len = 0;

    *text = '\0';
    for (int i = 0; i < f->data->n; i++) {
        const Array *a = &f->data->array[i];

        if ((is_fed(f, a) || a->describes) && !all)
            continue;
        if (len > LIST_TEXT - 300) {
            snprintf(text + len, LIST_TEXT - len, ", ...");
            break;
        }
        len += (size_t)snprintf(text + len, LIST_TEXT - len, *a->name ? "%s'%.80s' %s" : "%s(no name)%s %s",
                                len ? ", " : "", a->name, array_text(a->rank, a->dim, a->dtype, one));
    }
    return text;
}

/* Counts the arrays that fit the model's only input, whose name none has, and gives the last of them.  All must fit its
 * shape; with `convert` their elements must fit its type, too.  All processes must find the same, so each checks all
 * samples. */
static const Array *find_fitting(int *count, const Feed *f, const Args *a, const dpx_info *in, bool convert)
{
    const char *name = args_value(a, "target");
    const Array *target = needs_target(a) ? dataset_find(f->data, name ? name : "target") : NULL, *found = NULL;

    *count = 0;
    for (int i = 0; i < f->data->n; i++) {
        const Array *x = &f->data->array[i];

        if (x == target || x->describes ||
            !fits_shape(in, &(Field){ .array = x, .axis = feed_axis(f->model, a, in->name, x->rank) }))
            continue;
        if (convert && array_check_convert(x, feed_dtype(a, in->dtype), in->name))
            continue;
        found = x;
        ++*count;
    }
    return found;
}

/* Whether `in` is the model's only input, apart from one that takes the target. */
static bool is_only_input(const Args *a, const dpx_model *m, const dpx_info *in)
{
    const char *target = !needs_target(a) ? NULL : args_value(a, "target") ? args_value(a, "target") : "target";
    dpx_info taken;
    bool takes_target = target && feed_input(&taken, m, target);

    return dpx_model_count(m, DPX_INPUT) == 1 + takes_target && !(takes_target && !strcmp(in->name, target));
}

/* Reports an input without an array, with a hint if there is one.  `only`: it is the model's only one, and `fitting`
 * arrays fit it. */
static void report_missing(const Feed *f, const Args *a, const dpx_info *in, bool only, int fitting, Problems *wrong)
{
    dpx_dtype dtype = feed_dtype(a, in->dtype);
    const Array *shaped;
    int n_shaped;
    char want[192], help[REMEDY_TEXT], more[2 * REMEDY_TEXT] = "";
    dpx_info expected;
    bool number = in->rank >= 0;

    samples_first(&expected, in, feed_axis(f->model, a, in->name, in->rank));
    array_text(expected.rank, expected.dim, dtype, want);
    for (int i = 0; i < in->rank; i++)
        number &= in->dim[i] == 1;
    if (!only && number)
        snprintf(more, sizeof more, "; --input-value %.80s=NUMBER gives it one number for the whole run", in->name);
    for (int i = 0; only && i < f->data->n && !*more; i++)
        if (*hint(help, &expected, &f->data->array[i]))
            snprintf(more, sizeof more, "; '%.80s'%s", f->data->array[i].name, help);
    if (!only)
        problems_add(wrong, "no array for input '%s' %s%s", in->name, want, more);
    else if (fitting)
        problems_add(wrong, "no array has the name of input '%s' %s, and %d arrays fit", in->name, want, fitting);
    else if ((shaped = find_fitting(&n_shaped, f, a, in, false)) && n_shaped == 1 &&
             array_check_convert(shaped, dtype, shaped->name))
        problems_add(wrong, "no array for input '%s' %s: the only one of its shape does not fit: %s", in->name, want,
                     dpx_error());
    else
        problems_add(wrong, "no array for input '%s' %s: none has its name or fits%s", in->name, want, more);
}

/* The array for an input: the one of its name.  The only input also takes images, which have no name, or the one array
 * that fits.  NULL: there is none, which is reported. */
static const Array *find_array(Feed *f, const Args *a, const dpx_model *m, const dpx_info *in, Problems *wrong)
{
    const Array *x = feed_array(f, a, in->name);
    bool only = is_only_input(a, m, in);
    const Array *fit = NULL;
    int fitting = 0;

    if (x || (only && (x = dataset_find(f->data, ""))))
        return x;
    if (only)
        fit = find_fitting(&fitting, f, a, in, true);
    if (fitting == 1)
        return f->guessed = fit;
    report_missing(f, a, in, only, fitting, wrong);
    return NULL;
}

static void add_input(Feed *f, const Args *a, const dpx_info *in, const Array *array, int64_t samples, Problems *wrong)
{
    const bool whole = feed_is_whole(f, a, in, array, samples, wrong);
    Field field = { .name = in->name,
                    .array = array,
                    .dtype = feed_dtype(a, in->dtype),
                    .axis = whole ? 0 : feed_axis(f->model, a, in->name, array->rank),
                    .split = !whole && dpx_batch_splits(f->model, a->options, in->name),
                    .kind = whole ? FIELD_WHOLE : FIELD_SAMPLES };
    const int length_axis = field_length_axis(&field);

    check_shape(in, &field, wrong);
    if (length_axis >= 0 && in->rank > length_axis && in->dim[length_axis] > 0)
        field.fixed = in->dim[length_axis];
    else if (length_axis >= 0)
        field.fixed = array->pad_to;
    field.padding = array->row && array_holds(field.dtype, array->padding) ? array->padding : 0;
    feed_add(f, field, wrong);
}

/* Adds a field for every input.  Predictions can do without inputs that only a loss of the model's own needs; the
 * trainer knows these. */
static void match_inputs(Feed *f, const Args *a, const dpx_model *m, Problems *wrong)
{
    const bool may_lack =
        args_has(a, "predictions") && !needs_target(a) && strcmp(dpx_options_get(a->options, "loss"), "none") != 0;
    const int64_t samples = feed_samples(f, a);
    char text[LIST_TEXT];
    bool all = true;

    for (int i = 0; i < dpx_model_count(m, DPX_INPUT); i++) {
        FieldKind kind;
        const char *of;
        dpx_info in;
        const Array *array;

        if (dpx_model_info(m, DPX_INPUT, i, &in) || feed_is_extent(&kind, &of, f, a, in.name))
            continue;
        if (may_lack && !feed_array(f, a, in.name) && !is_only_input(a, m, &in)) {
            f->lacks = true;
            continue;
        }
        if ((array = find_array(f, a, m, &in, wrong)))
            add_input(f, a, &in, array, samples, wrong);
        else
            all = false;
    }
    if (!all)
        problems_add(wrong, "the data has %s", list_arrays(text, f, true));
}

/* The array that --target names; without the flag, the only one that feeds no input. */
static const Array *find_target(const Feed *f, const Args *a, Problems *wrong)
{
    const char *name = args_value(a, "target");
    const Array *left = NULL;
    char text[LIST_TEXT];
    int n = 0;

    if (name || dataset_find(f->data, "target")) {
        left = dataset_find(f->data, name ? name : "target");
        if (!left)
            problems_add(wrong, "no array '%s' for the target; the data has %s", name, list_arrays(text, f, true));
        return left;
    }
    for (int i = 0; i < f->data->n; i++)
        if (!is_fed(f, &f->data->array[i]) && !f->data->array[i].describes && f->data->array[i].rank &&
            f->data->array[i].dim[0] == feed_samples(f, a)) {
            left = &f->data->array[i];
            n++;
        }
    if (!n)
        problems_add(wrong, "no array is left for the target; the data has %s", list_arrays(text, f, true));
    else if (n > 1 && !wrong->n) /* else one of them may be for an input */
        problems_add(wrong, "%d arrays could be the target, name one with --target: %s", n,
                     list_arrays(text, f, false));
    return n == 1 ? left : NULL;
}

/* Have the targets one element along an axis where the scores have classes?  Such as [N,1] beside [N,C]. */
static bool has_single_class(const Array *x, const dpx_info *scores)
{
    bool single = false;

    for (int i = 1; i < x->rank && x->rank == scores->rank; i++)
        single |= x->dim[i] == 1 && scores->dim[i] > 1;
    return single;
}

/* Whether the targets of a class loss are class probabilities: as in PyTorch, if they have the rank of the scores;
 * but those of [N,1] are class numbers.  Where the file does not give that rank, floats are probabilities if
 * --soft-labels says so or if they are not whole numbers. */
static bool is_soft_target(const Args *a, const dpx_model *m, const Array *x, Problems *wrong)
{
    const bool takes = !strcmp(dpx_options_get(a->options, "loss"), "cross-entropy"), floats = array_is_float(x);
    const bool given = takes && !strcmp(dpx_options_get(a->options, "soft-labels"), "true");
    const char *logits = dpx_options_get(a->options, "logits");
    int rank = -1; /* of the scores */
    bool single = false;
    char have[192];
    dpx_info out;

    for (int i = dpx_model_count(m, DPX_OUTPUT) - 1; i >= 0; i--) /* the first that fits stays */
        if (!dpx_model_info(m, DPX_OUTPUT, i, &out) && (!*logits || !strcmp(out.name, logits))) {
            rank = out.rank;
            single = has_single_class(x, &out);
        }

    if (floats && rank >= 0 && x->rank > rank)
        problems_add(wrong, "target '%s' %s has more axes than the model's scores, which have %d", x->name,
                     array_text(x->rank, x->dim, x->dtype, have), rank);
    if (single || x->row ||
        (rank >= 0 ? x->rank != rank : !floats || (!given && !array_check_convert(x, DPX_INT64, x->name))))
        return false;
    if (!takes)
        problems_add(wrong,
                     "target '%s' %s has an axis of classes, and --loss %s takes class numbers: --loss cross-entropy "
                     "takes class probabilities, beside logits",
                     x->name, array_text(x->rank, x->dim, x->dtype, have), dpx_options_get(a->options, "loss"));
    else if (!floats)
        problems_add(wrong,
                     "target '%s' %s has an axis of classes: expected class probabilities as floats, or class numbers "
                     "without that axis (the argmax along it, where the target is one-hot)",
                     x->name, array_text(x->rank, x->dim, x->dtype, have));
    return true;
}

static void match_target(Feed *f, const Args *a, const dpx_model *m, Problems *wrong)
{
    const Array *array = find_target(f, a, wrong);
    bool classes;
    dpx_info in;
    int axis;

    if (!array)
        return;
    f->target = array->name;
    if (array->shares && !feed_input(&in, m, array->name))
        array = dataset_find(f->data, array->shares);
    if (feed_input(&in, m, f->target))
        return; /* the model takes the target itself */
    if (dpx_options_set(a->options, "target", f->target))
        problems_add(wrong, "%s", dpx_error());
    classes = dpx_target(a->options) == DPX_TARGET_CLASSES && !is_soft_target(a, m, array, wrong);
    dpx_dtype wanted = classes ? DPX_INT64 : feed_dtype(a, DPX_FLOAT32);
    if (!classes && !*dpx_options_get(a->options, "dtype") && dpx_model_count(m, DPX_OUTPUT) &&
        !dpx_model_info(m, DPX_INPUT, 0, &in) && in.dtype == DPX_FLOAT64)
        wanted = DPX_FLOAT64;
    axis = feed_axis(m, a, f->target, array->rank);
    feed_add(f,
             (Field){ .name = f->target,
                      .array = array,
                      .dtype = wanted,
                      .axis = axis < array->rank ? axis : 0,
                      .split = dpx_batch_splits(m, a->options, f->target) },
             wrong);
}

/* Warns of arrays NAME.K of a sequence that the model, as it was loaded, has no input for. */
static void warn_of_unused(const Feed *f, const char *flag, const char *source, Progress *log)
{
    char line[512];

    for (int i = 0; log && !log->quiet && i < f->data->n; i++) {
        const char *name = f->data->array[i].name, *dot = strrchr(name, '.');
        const int k = dot && dot[1] && !dot[1 + strspn(dot + 1, "0123456789")] ? (int)strtol(dot + 1, NULL, 10) : 0;
        dpx_info in;

        if (k < 1 || is_fed(f, &f->data->array[i]))
            continue;
        snprintf(line, sizeof line, "%.*s.%d", (int)(dot - name), name, k - 1);
        if (!feed_input(&in, f->model, line))
            continue;
        snprintf(line, sizeof line,
                 "dpexec: warning: --%.40s %.80s: array '%.80s' is not used: the model has inputs to '%.80s'", flag,
                 source, name, in.name);
        foreign_clean(line);
        progress_line(log, "%s", line);
    }
}

/* Notes that an array feeds the model's only input, though it has another name. */
static void log_guessed(const Feed *f, const char *flag, const char *source, Progress *log)
{
    char line[512];

    for (int i = 0; log && !log->quiet && i < f->n; i++)
        if (f->field[i].array == f->guessed) {
            snprintf(line, sizeof line, "--%s %s: input '%s' is read from array '%s', the only one that fits", flag,
                     source, f->field[i].name, f->guessed->name);
            foreign_clean(line);
            progress_line(log, "%s", line);
        }
}

Status feed_open(Feed *out, const Args *a, const char *flag, const dpx_model *model, Share share, Progress *log)
{
    Feed f = { .model = model, .share = share, .world = out->world };
    PROBLEMS(wrong);
    const char *source = out->data ? out->data->source.text : args_value(a, flag);
    bool plain = false, channels = false, with_channel;
    dpx_info in;
    Status st;

    if (dpx_model_is_step(model))
        return FAIL(E_MODEL, "the model is a step that graph-transform exported: give the model that it was made from");
    f.adds_up = !strcmp(dpx_options_get(a->options, "loss-weight"), "sum");
    TRY(feed_read(out, a, flag, model));
    f.data = out->data;
    f.fitted = out->fitted;
    out->data = NULL;
    out->fitted = NULL;
    st = feed_choose_samples(&f, a, flag);
    if (f.data->note && log)
        progress_line(log, "dpexec: warning: --%s: %s", flag, f.data->note);
    if (st) {
        feed_close(&f);
        return st;
    }
    for (int i = 0; i < dpx_model_count(model, DPX_INPUT); i++)
        if (!dpx_model_info(model, DPX_INPUT, i, &in)) {
            plain |= in.rank == 3;
            channels |= in.rank == 4;
        }
    with_channel = f.data->source.format->scaled && (channels || !plain);
    for (int i = 0; with_channel && i < f.data->n; i++)
        if (f.data->array[i].rank == 3 &&
            !f.data->array[i].fetch) /* grey images, which files hold without a channel axis */
            array_add_channel(&f.data->array[i]);
    match_inputs(&f, a, model, &wrong);
    if (needs_target(a))
        match_target(&f, a, model, &wrong);
    feed_add_sequences(&f, a, &wrong);
    feed_check_channels(&f, &wrong);
    if (!(st = feed_check_samples(&f, source)))
        st = problems_fail(&wrong, E_INVALID, "--%s %s", flag, source);
    if (st) {
        feed_close(&f);
        return st;
    }
    log_guessed(&f, flag, source, log);
    warn_of_unused(&f, flag, source, log);
    f.flag = flag;
    f.source = source;
    feed_log_sequences(&f, a, log);
    feed_warn_of_roles(&f, a, log);
    if ((st = feed_check_classes(&f, a, log))) {
        feed_close(&f);
        return st;
    }
    *out = f;
    return ST_OK;
}

Status feed_check_target(const Feed *f, const Feed *train)
{
    return !f->target || !train->target || !strcmp(f->target, train->target)
               ? ST_OK
               : FAIL(E_INVALID, "--%s %s: the target is array '%s', but in --%s %s it is '%s': give both one name",
                      f->flag, f->source, f->target, train->flag, train->source, train->target);
}

Status feed_sequences(Feed *out, const Args *a, const dpx_model *model, Dataset *data, const char *what, Progress *log)
{
    Feed f = { .flag = what, .source = "", .data = data, .model = model, .share = SHARE_ALL };
    PROBLEMS(wrong);
    dpx_info in;

    *out = f;
    for (int i = 0; i < data->n; i++)
        if (data->array[i].row && feed_input(&in, model, data->array[i].name))
            add_input(&f, a, &in, &data->array[i], data->array[i].dim[0], &wrong);
    feed_add_sequences(&f, a, &wrong);
    TRY(problems_fail(&wrong, E_INVALID, "%s", what));
    feed_log_sequences(&f, a, log);
    *out = f;
    return ST_OK;
}

Status feed_input_shapes(const Args *a, const Feed *f, int64_t batch_size)
{
    for (int i = 0; i < f->n; i++) {
        const Field *field = &f->field[i];
        int64_t dim[DPX_MAX_RANK];
        const size_t length = strlen(field->name);
        const char *at = dpx_options_get(a->options, "input-shape");
        bool open, given = false;
        char text[512];
        dpx_info in;
        int n;

        if (!feed_input(&in, f->model, field->name))
            continue;
        open = in.rank < 0;
        for (int k = 0; k < in.rank; k++)
            open |= (field->kind == FIELD_WHOLE || k != field->axis) && in.dim[k] < 0;
        for (; at && *at; at = strchr(at, ';') ? strchr(at, ';') + 1 : NULL)
            given |= !strncmp(at, field->name, length) && at[length] == '=';
        /* with a fixed size of samples and no axis named for them, the open axis may be theirs */
        if (!open || given || dpx_batch_role(f->model, a->options, in.name) == DPX_ROLE_UNCLEAR)
            continue;
        field_dims(dim, field, batch_size, field_longest(field));
        n = snprintf(text, sizeof text, "%.256s=", field->name);
        for (int k = 0; k < field_rank(field); k++)
            n += snprintf(text + n, sizeof text - (size_t)n, "%s%lld", k ? "," : "", (long long)dim[k]);
        TRY((Status)dpx_options_set(a->options, "input-shape", text));
    }
    return ST_OK;
}

Status feed_target_shape(const Args *a, const Feed *f, int64_t batch_size)
{
    for (int i = 0; f->target && i < f->n; i++) {
        dpx_tensor t = { .name = f->target, .rank = f->field[i].array->rank };

        if (strcmp(f->field[i].name, f->target) ||
            (f->field[i].array->row && *dpx_options_get(a->options, "input-shape")))
            continue; /* the user gives input shapes, whose length may be another */
        field_dims(t.dim, &f->field[i], batch_size, field_longest(&f->field[i]));
        return (Status)dpx_options_set_target_shape(a->options, &t);
    }
    return ST_OK;
}

Status feed_name_sample(Status st, const Feed *f, const Loader *l, const Batch *b)
{
    int64_t sample = st ? loader_sample(l, b, status_element()) : -1;

    if (sample < 0)
        return st;
    return FAIL(st, "--%s %s: sample %lld: %s", f->flag, f->source, (long long)sample, status_element_text());
}
