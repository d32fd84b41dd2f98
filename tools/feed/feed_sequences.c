/* Sequences of unequal length: how they are padded, and which inputs of the model get their lengths or masks. */
#include <stdlib.h>
#include <string.h>

#include "graph/base/foreign.h"
#include "graph/base/numtext.h"
#include "tools/feed/feed.h"

enum { IGNORED = -100 }; /* the default of --ignore-index: class losses leave this class out */

/* The flags, and the names of inputs that are recognised: those of PyTorch and transformers. */
static const struct {
    FieldKind kind;
    const char *flag, *names[5], *meaning;
} kinds[] = {
    { FIELD_LENGTHS, "lengths", { "lengths", "seq_lengths" }, "gets their lengths" },
    { FIELD_MASK, "mask", { "attention_mask" }, "gets 1 at their positions, 0 at their padding" },
    { FIELD_PADDING_MASK,
      "padding-mask",
      { "padding_mask", "key_padding_mask", "src_key_padding_mask", "tgt_key_padding_mask" },
      "gets 1 at their padding, 0 at their positions" },
};
enum { KINDS = sizeof kinds / sizeof *kinds };

/* Whether `text` is the name, or NAME=VALUE; *value is NULL without a value. */
static bool names(const char **value, const char *text, const char *name)
{
    const size_t n = strlen(name);

    *value = !strncmp(text, name, n) && text[n] == '=' ? text + n + 1 : NULL;
    return *value || !strcmp(text, name);
}

bool feed_is_extent(FieldKind *kind, const char **of, const Feed *f, const Args *a, const char *input)
{
    bool any = false;
    for (int k = 0; k < KINDS; k++)
        for (int i = 0; args_nth(a, kinds[k].flag, i); i++)
            if (names(of, args_nth(a, kinds[k].flag, i), input)) {
                *kind = kinds[k].kind;
                return true;
            }
    for (int i = 0; i < f->data->n; i++)
        any |= f->data->array[i].row != NULL;
    if (feed_array(f, a, input) || !any)
        return false;
    *of = NULL;
    for (int k = 0; k < KINDS; k++)
        for (int i = 0; kinds[k].names[i]; i++)
            if (!strcmp(kinds[k].names[i], input)) {
                *kind = kinds[k].kind;
                return true;
            }
    *kind = FIELD_LENGTHS;
    for (int i = 0; i < f->data->n && !*of; i++) { /* "x.lengths", where x has sequences */
        const char *name = f->data->array[i].name;
        const size_t n = strlen(name);

        if (f->data->array[i].row && !strncmp(input, name, n) && !strcmp(input + n, ".lengths"))
            *of = name;
    }
    return *of != NULL;
}

bool feed_names_extent(const Args *a, const char *input)
{
    bool found = ends_with(input, ".lengths");
    const char *of;

    for (int k = 0; k < KINDS; k++) {
        for (int i = 0; args_nth(a, kinds[k].flag, i); i++)
            found |= names(&of, args_nth(a, kinds[k].flag, i), input);
        for (int i = 0; kinds[k].names[i]; i++)
            found |= !strcmp(kinds[k].names[i], input);
    }
    return found;
}

static bool same_lengths(const Array *a, const Array *b)
{
    bool same = a->dim[0] == b->dim[0];

    for (int64_t i = 0; same && i < a->dim[0]; i++)
        same = a->row[i].n == b->row[i].n;
    return same;
}

/* The array whose lengths the input gets: `of`, or without a name the sequences of any other input.  NULL, which is
 * reported: there is none, or there are several with different lengths. */
static const Array *find_sequences(const Feed *f, const char *flag, const char *input, const char *of, Problems *wrong)
{
    const Array *found = of ? dataset_find(f->data, of) : NULL;

    if (of && (!found || !found->row)) {
        problems_add(wrong,
                     "--%s %s=%s: the data has no sequences of that name ('%s' with '%s.offsets' or '%s.lengths')",
                     flag, input, of, of, of, of);
        return NULL;
    }
    for (int i = 0; !of && i < f->n; i++) {
        const Array *x = f->field[i].array;

        if (!x->row)
            continue;
        if (found && !same_lengths(found, x)) {
            problems_add(
                wrong,
                "'%s' and '%s' have different lengths: name the sequences that input '%s' is for with --%s %s=NAME",
                found->name, x->name, input, flag, input);
            return NULL;
        }
        found = found ? found : x;
    }
    if (!found)
        problems_add(wrong, "input '%s' (--%s): no other input is fed with sequences", input, flag);
    return found;
}

/* Adds a field for an input that gets lengths or a mask. */
static void add_extent(Feed *f, const Args *a, const dpx_info *in, FieldKind kind, const char *of, Problems *wrong)
{
    const char *flag = "";
    Field field = { .name = in->name, .dtype = feed_dtype(a, in->dtype), .kind = kind };

    for (int k = 0; k < KINDS; k++)
        flag = kinds[k].kind == kind ? kinds[k].flag : flag;
    field.axis = feed_axis(f->model, a, in->name, in->rank);
    field.split = dpx_batch_splits(f->model, a->options, in->name);
    if (!(field.array = find_sequences(f, flag, in->name, of, wrong)))
        return;
    if (in->rank >= 0 && in->rank != field_rank(&field))
        problems_add(wrong, "input '%s' has rank %d, but --%s gives rank %d", in->name, in->rank, flag,
                     field_rank(&field));
    else if (!array_holds(field.dtype, kind == FIELD_LENGTHS ? (double)field.array->dim[1] : 1))
        problems_add(wrong, "input '%s' is %s, which --%s cannot fill", in->name, dpx_dtype_name(field.dtype), flag);
    else
        feed_add(f, field, wrong);
}

/* ---- padding ---- */

/* Reads --padding. */
static void read_paddings(Feed *f, const Args *a, Problems *wrong)
{
    for (int i = 0; args_nth(a, "padding", i); i++) {
        const char *text = args_nth(a, "padding", i), *value = NULL;
        Field *field = NULL;

        for (int k = 0; k < f->n && !field; k++)
            if (f->field[k].array->row && f->field[k].kind == FIELD_SAMPLES && names(&value, text, f->field[k].name))
                field = &f->field[k];

        if (!field)
            problems_add(wrong, "--padding %s: no input or target of that name has sequences of unequal length", text);
        else if (!value || !text_to_float64(&field->padding, value, strlen(value)))
            problems_add(wrong, "--padding %s: expected NAME=VALUE, a number", text);
        else if (!array_holds(field->dtype, field->padding))
            problems_add(wrong, "--padding %s: '%s' is %s, which has no such number", text, field->name,
                         dpx_dtype_name(field->dtype));
    }
}

/* Pads a target of classes with --ignore-index, which class losses leave out; other losses cannot leave padding out. */
static void pad_target(Feed *f, const Args *a, Problems *wrong)
{
    char text[NUMBER_TEXT];
    const char *number;
    Field *t = NULL;
    dpx_info in;

    for (int i = 0; f->target && i < f->n; i++)
        if (!strcmp(f->field[i].name, f->target) && f->field[i].array->row)
            t = &f->field[i];
    if (!t || feed_input(&in, f->model, f->target))
        return; /* a model that computes its loss itself has --padding for its input */
    if (dpx_target(a->options) != DPX_TARGET_CLASSES) {
        problems_add(wrong,
                     "target '%s' has sequences of unequal length, whose padding --loss %s cannot leave out: "
                     "cross-entropy and nll can, or a model that computes its loss itself (--loss output:NAME)",
                     f->target, dpx_options_get(a->options, "loss"));
        return;
    }
    for (int i = 0; args_nth(a, "padding", i); i++) {
        const char *value;

        if (names(&value, args_nth(a, "padding", i), f->target))
            problems_add(wrong, "--padding %s: a target of classes is padded with --ignore-index",
                         args_nth(a, "padding", i));
    }
    if (!*dpx_options_get(a->options, "ignore-index")) {
        snprintf(text, sizeof text, "%d", IGNORED);
        if (dpx_options_set(a->options, "ignore-index", text))
            problems_add(wrong, "%s", dpx_error());
    }
    number = dpx_options_get(a->options, "ignore-index");
    if (!text_to_float64(&t->padding, number, strlen(number)) || !array_holds(t->dtype, t->padding))
        problems_add(wrong, "--ignore-index %s: target '%s' cannot be padded with it", number, f->target);
}

void feed_add_sequences(Feed *f, const Args *a, Problems *wrong)
{
    int64_t multiple;

    for (int i = 0; i < dpx_model_count(f->model, DPX_INPUT); i++) {
        FieldKind kind;
        const char *of;
        dpx_info in;

        if (!dpx_model_info(f->model, DPX_INPUT, i, &in) && feed_is_extent(&kind, &of, f, a, in.name))
            add_extent(f, a, &in, kind, of, wrong);
    }
    for (int k = 0; k < KINDS; k++)
        for (int i = 0; args_nth(a, kinds[k].flag, i); i++) {
            const char *value;
            bool is_input = false;
            dpx_info in;

            for (int m = 0; m < dpx_model_count(f->model, DPX_INPUT); m++)
                is_input |= !dpx_model_info(f->model, DPX_INPUT, m, &in) &&
                            names(&value, args_nth(a, kinds[k].flag, i), in.name);
            if (!is_input)
                problems_add(wrong, "--%s %s: the model has no such input", kinds[k].flag,
                             args_nth(a, kinds[k].flag, i));
        }
    read_paddings(f, a, wrong);
    pad_target(f, a, wrong);
    for (int i = 0; i < f->n;
         i++) /* a number of positions that the model fixes holds for all sequences of that length */
        for (int k = 0; k < f->n && f->field[i].array->row; k++)
            if (f->field[k].array->row && f->field[k].fixed > f->field[i].fixed &&
                same_lengths(f->field[i].array, f->field[k].array))
                f->field[i].fixed = f->field[k].fixed;
    if (args_int(&multiple, a, "pad-multiple", 1, 1, 1 << 20))
        problems_add(wrong, "%s", dpx_error());
    for (int i = 0; i < f->n; i++)
        f->field[i].multiple = multiple;
}

/* The number of lengths to which batches may be padded; 0: no memory to count them. */
static int64_t count_lengths(const Field *f)
{
    const int64_t multiple = f->multiple ? f->multiple : 1, most = field_longest(f) / multiple;
    unsigned char *seen = f->fixed ? NULL : calloc((size_t)most + 1, 1);
    int64_t n = 0;

    for (int64_t i = 0; seen && i < f->array->dim[0]; i++) {
        unsigned char *one = &seen[field_padded(f, f->array->row[i].n) / multiple];

        n += !*one;
        *one = 1;
    }
    free(seen);
    return n;
}

enum { SOURCE_TEXT = 200 };

/* "--val val.npz: ", for --val may have other lengths than --data; "" without a source. */
static const char *source_text(char text[SOURCE_TEXT], const Feed *f)
{
    *text = '\0';
    if (*f->source)
        snprintf(text, SOURCE_TEXT, "--%.40s %.150s: ", f->flag, f->source);
    foreign_clean(text);
    return text;
}

/* Warns when there are more lengths than programs are kept: each length is a program, and with --pad-to replica each
 * pair of lengths that two replicas may have. */
static void warn_of_lengths(const Feed *f, const Args *a, Progress *log)
{
    const bool apart = !strcmp(dpx_options_get(a->options, "pad-to"), "replica");
    const int64_t kept = strtoll(dpx_options_get(a->options, "programs"), NULL, 10);
    int64_t most = 0;
    char of[SOURCE_TEXT];

    source_text(of, f);
    for (int i = 0; i < f->n; i++) {
        const int64_t n = f->field[i].array->row ? count_lengths(&f->field[i]) : 0;

        most = n > most ? n : most;
    }
    if (apart && most * most > kept)
        progress_line(log,
                      "dpexec: warning: %s--pad-to replica: sequences have %lld lengths, each combination of lengths "
                      "over the replicas compiles a program, and %lld are kept (--programs), so most steps will "
                      "compile one: --pad-multiple makes fewer lengths",
                      of, (long long)most, (long long)kept);
    else if (most > kept)
        progress_line(log,
                      "dpexec: warning: %ssequences have %lld lengths, each compiles a program, and %lld are kept "
                      "(--programs), so some will be compiled again and again: --pad-multiple makes fewer lengths",
                      of, (long long)most, (long long)kept);
}

void feed_log_sequences(const Feed *f, const Args *a, Progress *log)
{
    bool extent_given = false, any = false;
    char line[512], of[SOURCE_TEXT];

    for (int i = 0; i < f->data->n; i++)
        extent_given |= f->data->array[i].describes && !f->data->array[i].data; /* an input that the user gives */
    for (int i = 0; log && !log->quiet && i < f->n; i++) {
        const Field *field = &f->field[i];

        any |= field->array->row && (!f->target || strcmp(field->name, f->target));
        for (int k = 0; k < KINDS && field->kind != FIELD_SAMPLES; k++)
            if (kinds[k].kind == field->kind) {
                snprintf(line, sizeof line, "%sthe sequences of '%s': input '%s' %s", source_text(of, f),
                         field->array->name, field->name, kinds[k].meaning);
                foreign_clean(line);
                progress_line(log, "%s", line);
                extent_given = true;
            }
    }
    if (any)
        warn_of_lengths(f, a, log);
    if (any && !extent_given)
        progress_line(log,
                      "dpexec: warning: sequences of unequal length are padded, but no input of the model gets their "
                      "lengths (--lengths, --mask, --padding-mask): the model cannot tell padding from data");
}
