/* Options about the model's inputs: shapes that it leaves open, values, and which of them carry the batch. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "exec/train/options_store.h"
#include "exec/train/options_numbers.h"
#include "graph/base/numtext.h"
#include "graph/onnx/onnx.h"
#include "passes/options/batch.h"
#include "passes/options/inputs.h"

/* "2,3,4"; "" is a scalar. */
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
    InputShape *grown = ARENA_NEW(o->arena, InputShape, batch_options(&o->build)->n_input_shape + 1);
    const char *eq = strrchr(value, '='), *name;
    Shape s;

    if (!eq || eq == value || !read_dims(&s, eq + 1) || shape_check(&s, 8))
        return setting_bad(r, value, "NAME=DIM,DIM,... of a size that fits into memory");
    if (!grown || !(name = arena_printf(o->arena, "%.*s", (int)(eq - value), value)))
        return FAIL_NOMEM();
    if (batch_options(&o->build)->n_input_shape)
        memcpy(grown, batch_options(&o->build)->input_shape,
               (size_t)batch_options(&o->build)->n_input_shape * sizeof *grown);
    grown[batch_options(&o->build)->n_input_shape] = (InputShape){ name, s };
    stored_batch(o)->input_shape = grown;
    stored_batch(o)->n_input_shape++;
    return ST_OK;
}

/* "3", "present" or "absent". */
static bool read_members(int *out, const char *text)
{
    static const Setting number = { .name = "input-members", .min = 0, .max = MAX_SEQUENCE };
    int64_t n;

    *out = !strcmp(text, "absent") ? -1 : 1;
    if (!strcmp(text, "absent") || !strcmp(text, "present"))
        return true;
    if (setting_read_int(&n, &number, text))
        return false;
    *out = (int)n;
    return true;
}

Status options_add_input_members(const Setting *r, void *to, const char *value)
{
    Options *o = to;
    InputMembers *grown = ARENA_NEW(o->arena, InputMembers, input_options(&o->build)->n_input_members + 1);
    const char *eq = strrchr(value, '='), *name;
    int n;

    if (!eq || eq == value || !read_members(&n, eq + 1))
        return setting_bad(r, value, "NAME=N, NAME=present or NAME=absent");
    if (!grown || !(name = arena_printf(o->arena, "%.*s", (int)(eq - value), value)))
        return FAIL_NOMEM();
    if (input_options(&o->build)->n_input_members)
        memcpy(grown, input_options(&o->build)->input_members,
               (size_t)input_options(&o->build)->n_input_members * sizeof *grown);
    grown[input_options(&o->build)->n_input_members] = (InputMembers){ name, n };
    stored_inputs(o)->input_members = grown;
    stored_inputs(o)->n_input_members++;
    return ST_OK;
}

/* Which numbers the input can hold its file says (graph/onnx/input_value.c). */
static bool are_numbers(const char *text)
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
    const int n = input_options(&o->build)->n_input_value;
    InputValue *grown = ARENA_NEW(o->arena, InputValue, n + 1);
    const char *eq = strrchr(value, '='), *name, *text;

    if (!eq || eq == value || !are_numbers(eq + 1))
        return setting_bad(r, value, "NAME=NUMBER[,NUMBER...]");
    if (!grown || !(name = arena_printf(o->arena, "%.*s", (int)(eq - value), value)) ||
        !(text = arena_strdup(o->arena, eq + 1)))
        return FAIL_NOMEM();
    for (int i = 0; i < n; i++)
        if (!strcmp(input_options(&o->build)->input_value[i].name, name))
            return FAIL(E_INVALID, "--input-value: input '%.200s' has a value already", name);
    if (n)
        memcpy(grown, input_options(&o->build)->input_value, (size_t)n * sizeof *grown);
    grown[n] = (InputValue){ name, text };
    stored_inputs(o)->input_value = grown;
    stored_inputs(o)->n_input_value++;
    return ST_OK;
}

Status options_add_batch_input(const Setting *r, void *to, const char *value)
{
    Options *o = to;
    BatchInput *grown = ARENA_NEW(o->arena, BatchInput, batch_options(&o->build)->n_batch_input + 1);
    const Setting axis = { .name = r->name, .min = -MAX_RANK, .max = MAX_RANK - 1 };
    const char *colon = strrchr(value, ':'), *name;
    int64_t a = 0;

    if (!*value || colon == value)
        return setting_bad(r, value, "NAME[:AXIS]");
    if (!grown)
        return FAIL_NOMEM();
    if (colon && setting_read_int(&a, &axis, colon + 1)) /* a name may hold colons */
        colon = NULL;
    name = colon ? arena_printf(o->arena, "%.*s", (int)(colon - value), value) : arena_strdup(o->arena, value);
    if (!name)
        return FAIL_NOMEM();
    if (batch_options(&o->build)->n_batch_input)
        memcpy(grown, batch_options(&o->build)->batch_input,
               (size_t)batch_options(&o->build)->n_batch_input * sizeof *grown);
    grown[batch_options(&o->build)->n_batch_input].name = name;
    grown[batch_options(&o->build)->n_batch_input].axis = (int)a;
    stored_batch(o)->batch_input = grown;
    stored_batch(o)->n_batch_input++;
    return ST_OK;
}

Status options_set_carries(Options *o, const char *input, unsigned axes)
{
    const int n = batch_options(&o->build)->n_carry_choice;
    CarryChoice *grown = ARENA_NEW(o->arena, CarryChoice, n + 1);
    const char *name = arena_strdup(o->arena, input);

    if (!grown || !name)
        return FAIL_NOMEM();
    grown[0] = (CarryChoice){ name, axes }; /* the last word is found first */
    if (n)
        memcpy(grown + 1, batch_options(&o->build)->carry_choice, (size_t)n * sizeof *grown);
    stored_batch(o)->carry_choice = grown;
    stored_batch(o)->n_carry_choice = n + 1;
    return ST_OK;
}

Status options_copy_inputs(Options *copy, const Options *o)
{
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
                             .n_batch_input = batch_options(&o->build)->n_batch_input,
                             .n_input_shape = batch_options(&o->build)->n_input_shape };
    inputs->n_input_members = input_options(&o->build)->n_input_members;
    inputs->n_input_value = input_options(&o->build)->n_input_value;
    batch->batch_input = named =
        arena_memdup(a, batch_options(&o->build)->batch_input, (size_t)batch->n_batch_input * sizeof *named);
    batch->input_shape = shape =
        arena_memdup(a, batch_options(&o->build)->input_shape, (size_t)batch->n_input_shape * sizeof *shape);
    inputs->input_members = members =
        arena_memdup(a, input_options(&o->build)->input_members, (size_t)inputs->n_input_members * sizeof *members);
    inputs->input_value = given =
        arena_memdup(a, input_options(&o->build)->input_value, (size_t)inputs->n_input_value * sizeof *given);
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
