/* Options about the inputs of a model: sizes that the model leaves open, lengths of sequences, values, and which inputs
 * carry the batch. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "exec/train/options_numbers.h"
#include "exec/train/options_store.h"
#include "graph/base/numtext.h"
#include "graph/onnx/onnx.h"
#include "passes/options/batch.h"
#include "passes/options/inputs.h"

void *options_grow(Arena *a, const void *list, size_t size, int n)
{
    char *longer = arena_alloc(a, size * ((size_t)n + 1));

    if (longer && n)
        memcpy(longer, list, size * (size_t)n);
    return longer;
}

/* The name before the last '=' or ':' of an option's value, which `end` points to. */
static const char *name_before(Arena *a, const char *value, const char *end)
{
    return arena_printf(a, "%.*s", (int)(end - value), value);
}

/* Reads sizes with commas between them: "2,3,4"; "" is a scalar. */
static bool read_dims(Shape *out, const char *text)
{
    char *end;

    *out = shape_scalar();
    while (*text) {
        long long d;

        errno = 0;
        d = strtoll(text, &end, 10);
        if (end == text || errno || d < 0 || out->rank == MAX_RANK || (*end && *end != ','))
            return false;
        out->dim[out->rank++] = d;
        text = *end ? end + 1 : end;
        if (*end && !*text)
            return false;
    }
    return true;
}

Status options_add_input_shape(const Setting *r, void *to, const char *value)
{
    Options *o = to;
    BatchOptions *b = stored_batch(o);
    InputShape *list = options_grow(o->arena, b->input_shape, sizeof *list, b->n_input_shape);
    const char *eq = strrchr(value, '='), *name;
    Shape s;

    if (!eq || eq == value || !read_dims(&s, eq + 1) || shape_check(&s, 8))
        return setting_bad(r, value, "NAME=DIM,DIM,... of a size that fits into memory");
    if (!list || !(name = name_before(o->arena, value, eq)))
        return FAIL_NOMEM();
    list[b->n_input_shape++] = (InputShape){ name, s };
    b->input_shape = list;
    return ST_OK;
}

Status options_add_input_members(const Setting *r, void *to, const char *value)
{
    static const Setting number = { .name = "input-members", .min = 0, .max = MAX_SEQUENCE };
    Options *o = to;
    InputOptions *b = stored_inputs(o);
    InputMembers *list = options_grow(o->arena, b->input_members, sizeof *list, b->n_input_members);
    const char *eq = strrchr(value, '='), *name;
    int64_t n = 1; /* present */

    if (eq && !strcmp(eq + 1, "absent"))
        n = -1;
    else if (!eq || (strcmp(eq + 1, "present") != 0 && setting_read_int(&n, &number, eq + 1)))
        eq = NULL;
    if (!eq || eq == value)
        return setting_bad(r, value, "NAME=N, NAME=present or NAME=absent");
    if (!list || !(name = name_before(o->arena, value, eq)))
        return FAIL_NOMEM();
    list[b->n_input_members++] = (InputMembers){ name, (int)n };
    b->input_members = list;
    return ST_OK;
}

/* Whether the input's type holds them is checked when the model is read (graph/onnx/input_value.c). */
bool options_are_numbers(const char *text)
{
    double unused;

    for (;; text++) {
        const size_t len = strcspn(text, ",");

        if (!text_to_float64(&unused, text, len) && !(len == 4 && !memcmp(text, "true", 4)) &&
            !(len == 5 && !memcmp(text, "false", 5)))
            return false;
        text += len;
        if (!*text)
            return true;
    }
}

Status options_add_input_value(const Setting *r, void *to, const char *value)
{
    Options *o = to;
    InputOptions *b = stored_inputs(o);
    InputValue *list = options_grow(o->arena, b->input_value, sizeof *list, b->n_input_value);
    const char *eq = strrchr(value, '='), *name, *text;

    if (!eq || eq == value || !options_are_numbers(eq + 1))
        return setting_bad(r, value, "NAME=NUMBER[,NUMBER...]");
    if (!list || !(name = name_before(o->arena, value, eq)) || !(text = arena_strdup(o->arena, eq + 1)))
        return FAIL_NOMEM();
    for (int i = 0; i < b->n_input_value; i++)
        if (!strcmp(b->input_value[i].name, name))
            return FAIL(E_INVALID, "--input-value: input '%.200s' has a value already", name);
    list[b->n_input_value++] = (InputValue){ name, text };
    b->input_value = list;
    return ST_OK;
}

Status options_add_batch_input(const Setting *r, void *to, const char *value)
{
    Options *o = to;
    BatchOptions *b = stored_batch(o);
    BatchInput *list = options_grow(o->arena, b->batch_input, sizeof *list, b->n_batch_input);
    const Setting axis = { .name = r->name, .min = -MAX_RANK, .max = MAX_RANK - 1 };
    const char *colon = strrchr(value, ':'), *name;
    int64_t a = 0;

    if (!*value || colon == value)
        return setting_bad(r, value, "NAME[:AXIS]");
    if (colon && setting_read_int(&a, &axis, colon + 1)) /* the colon belongs to the name */
        colon = NULL;
    if (!list || !(name = name_before(o->arena, value, colon ? colon : value + strlen(value))))
        return FAIL_NOMEM();
    list[b->n_batch_input++] = (BatchInput){ .name = name, .axis = (int)a };
    b->batch_input = list;
    return ST_OK;
}

/* The choice goes in front of earlier ones for the same input, because the first is used. */
Status options_set_carries(Options *o, const char *input, unsigned axes)
{
    BatchOptions *b = stored_batch(o);
    CarryChoice *list = options_grow(o->arena, b->carry_choice, sizeof *list, b->n_carry_choice);
    const char *name = arena_strdup(o->arena, input);

    if (!list || !name)
        return FAIL_NOMEM();
    memmove(list + 1, list, (size_t)b->n_carry_choice * sizeof *list);
    list[0] = (CarryChoice){ name, axes };
    b->carry_choice = list;
    b->n_carry_choice++;
    return ST_OK;
}

Status options_copy_inputs(Options *copy, const Options *o)
{
    const BatchOptions *from = batch_options(&o->build);
    const InputOptions *from_inputs = input_options(&o->build);
    BatchOptions *batch = stored_batch(copy);
    InputOptions *inputs = stored_inputs(copy);
    Arena *a = copy->arena;
    BatchInput *named;
    InputShape *shape;
    InputMembers *members;
    InputValue *given;
    bool ok;

    *batch = (BatchOptions){ .batch = batch->batch,
                             .samples = batch->samples,
                             .n_batch_input = from->n_batch_input,
                             .n_input_shape = from->n_input_shape };
    inputs->n_input_members = from_inputs->n_input_members;
    inputs->n_input_value = from_inputs->n_input_value;
    batch->batch_input = named = arena_memdup(a, from->batch_input, (size_t)batch->n_batch_input * sizeof *named);
    batch->input_shape = shape = arena_memdup(a, from->input_shape, (size_t)batch->n_input_shape * sizeof *shape);
    inputs->input_members = members =
        arena_memdup(a, from_inputs->input_members, (size_t)inputs->n_input_members * sizeof *members);
    inputs->input_value = given =
        arena_memdup(a, from_inputs->input_value, (size_t)inputs->n_input_value * sizeof *given);
    ok = named && shape && members && given;
    for (int i = 0; ok && i < batch->n_batch_input; i++)
        ok = (named[i].name = arena_strdup(a, named[i].name));
    for (int i = 0; ok && i < batch->n_input_shape; i++)
        ok = (shape[i].name = arena_strdup(a, shape[i].name));
    for (int i = 0; ok && i < inputs->n_input_members; i++)
        ok = (members[i].name = arena_strdup(a, members[i].name));
    for (int i = 0; ok && i < inputs->n_input_value; i++)
        ok = (given[i].name = arena_strdup(a, given[i].name)) && (given[i].text = arena_strdup(a, given[i].text));
    return ok ? ST_OK : FAIL_NOMEM();
}
