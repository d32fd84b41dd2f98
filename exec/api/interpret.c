/* dpx_interpret: tensors, and lists of them, in and out. */
#include <stdio.h>
#include <string.h>

#include "exec/api/data.h"
#include "exec/plan/plan_budget.h"
#include "exec/run/interp.h"
#include "exec/train/interpreted_part.h"
#include "passes/options/step.h"

static Status check_fits(const char *name, const Tensor *t, const OnnxType *type)
{
    char found[SHAPE_TEXT], expected[SHAPE_TEXT];
    bool fits = type->shape.rank < 0 || type->shape.rank == t->shape.rank;

    for (int i = 0; fits && i < type->shape.rank; i++)
        fits = type->shape.dim[i] < 0 || type->shape.dim[i] == t->shape.dim[i];
    return fits ? ST_OK
                : FAIL(E_SHAPE, "input '%s' is %s, expected %s", name, shape_text(&t->shape, found),
                       shape_text(&type->shape, expected));
}

typedef struct {
    const dpx_data *map;
    int used; /* of its members */
} GivenInputs;

enum { MAX_NAME = 512 };

/* Floats become those that the model declares. */
static Status take_tensor(const Tensor **out, Arena *arena, const char *name, const dpx_data *from,
                          const OnnxType *type)
{
    Tensor *t;

    if (from->kind != DPX_DATA_TENSOR)
        return FAIL(E_INVALID, "input '%s' holds %s, expected tensors", name, data_kind_name(from));
    *out = &from->tensor;
    TRY(check_fits(name, *out, type));
    if (!dtype_is_float(from->tensor.dtype) || !dtype_is_float(type->dtype) || from->tensor.dtype == type->dtype)
        return ST_OK;
    if (!(t = tensor_create(arena, type->dtype, &from->tensor.shape)))
        return FAIL_NOMEM();
    for (int64_t i = 0; i < tensor_numel(t); i++)
        tensor_set_float(t, i, tensor_float(&from->tensor, i));
    *out = t;
    return ST_OK;
}

static const dpx_data *interpret_find(GivenInputs *g, const char *name)
{
    const dpx_data *found = dpx_data_find(g->map, name);

    if (!found && g->map->n == 1 && !*g->map->key[0] && !g->used)
        found = g->map->member[0];
    g->used += found != NULL;
    return found;
}

/* Member k of a sequence: of a list, or what is called NAME.k; NULL: there are no more. */
static const dpx_data *find_member(const GivenInputs *g, const dpx_data *list, const char *name, int k)
{
    char member[MAX_NAME];

    if (list)
        return k < list->n ? list->member[k] : NULL;
    snprintf(member, sizeof member, "%s.%d", name, k);
    return dpx_data_find(g->map, member);
}

static Status take_sequence(OnnxValue *out, Arena *arena, GivenInputs *g, const char *name, const OnnxType *type)
{
    const dpx_data *list = interpret_find(g, name);
    const Tensor **item;
    int n = 0;

    if (list && list->kind != DPX_DATA_LIST)
        return FAIL(E_INVALID, "input '%s' is %s, expected a list of tensors", name, data_kind_name(list));
    while (find_member(g, list, name, n))
        n++;
    *out = (OnnxValue){ .type = *type, .nothing = !list && !n && type->optional, .n = n };
    if (!list && !n && !type->optional)
        return FAIL(E_INVALID, "input '%s' was not given, as a list or as '%s.0', '%s.1' ...", name, name, name);
    if (!(item = ARENA_NEW(arena, const Tensor *, n)))
        return FAIL_NOMEM();
    out->item = item;
    g->used += list ? 0 : n;
    for (int k = 0; k < n; k++)
        TRY(take_tensor(&item[k], arena, name, find_member(g, list, name, k), type));
    return ST_OK;
}

/* An OnnxInput. */
static Status take_input(void *user, OnnxValue *out, Arena *arena, int i, const char *name, const OnnxType *type)
{
    const dpx_data *given;
    const Tensor **item;

    (void)i;
    if (type->sequence)
        return take_sequence(out, arena, user, name, type);
    given = interpret_find(user, name);
    *out = (OnnxValue){ .type = *type, .nothing = !given && type->optional, .n = given != NULL };
    if (!given)
        return type->optional ? ST_OK : FAIL(E_INVALID, "input '%s' was not given", name);
    if (!(item = ARENA_NEW(arena, const Tensor *, 1)))
        return FAIL_NOMEM();
    out->item = item;
    return take_tensor(item, arena, name, given, type);
}

static Status give_tensor(const dpx_data **out, const Tensor *t)
{
    dpx_data *d;

    TRY(data_copy_tensor(&d, t));
    *out = d;
    return ST_OK;
}

static Status give_value(const dpx_data **out, const OnnxValue *v)
{
    dpx_data *list;

    if (!v->type.sequence)
        return give_tensor(out, v->item[0]);
    TRY(data_create(&list, DPX_DATA_LIST, v->n));
    *out = list;
    for (int i = 0; i < v->n; i++)
        TRY(give_tensor(&list->member[i], v->item[i]));
    return ST_OK;
}

static Status give_outputs(dpx_data *to, const OnnxNamedValue *from, int n)
{
    to->n = 0;
    for (int i = 0; i < n; i++) {
        if (from[i].value.nothing)
            continue;
        TRY(data_set_key(to, to->n++, from[i].name));
        TRY(give_value(&to->member[to->n - 1], &from[i].value));
    }
    return ST_OK;
}

static Status interpret(dpx_data **out, Arena *a, const char *path, const Options *o, const dpx_data *inputs)
{
    OperatorList own = { NULL, 0 };
    DeviceList devices;
    PartOptions part = { &o->build, &devices };
    ImportOptions how = { .eval = interp_any,
                          .own = &own,
                          .compute = part_compute,
                          .compute_user = &part,
                          .file_modes = step_options(&o->build)->file_modes };
    GivenInputs given = { inputs, 0 };
    OnnxNamedValue *value;
    dpx_data *map;
    Status st;
    int n;

    if (inputs->kind != DPX_DATA_MAP)
        return FAIL(E_INVALID, "the inputs are %s, expected a map", data_kind_name(inputs));
    TRY(options_operators(&own, a, o));
    TRY(options_devices(&devices, o));
    TRY(plan_evaluate(&value, &n, a, path, &how, &o->build, take_input, &given));
    if (given.used < inputs->n)
        return FAIL(E_INVALID, "%d inputs are given, and the model has only %d of them", inputs->n, given.used);
    TRY(data_create(&map, DPX_DATA_MAP, n));
    if ((st = give_outputs(map, value, n)))
        data_release(map);
    else
        *out = map;
    return st;
}

dpx_status dpx_interpret(dpx_data **outputs, const char *path, const dpx_options *options, const dpx_data *inputs)
{
    Arena *a;
    Status st;

    NEED(outputs, "outputs");
    NEED(path, "path");
    NEED(options, "options");
    NEED(inputs, "inputs");
    a = arena_create();
    st = a ? interpret(outputs, a, path, (const Options *)options, inputs) : FAIL_NOMEM();
    arena_free(a);
    return (dpx_status)st;
}
