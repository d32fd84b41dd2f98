/* Sets of operators: what is added is checked and copied, and becomes the OpDefs and Kernels of its roles.
 *
 * A graph points to its nodes' operators.  So a set lives as long as anything that holds graphs made with it: options,
 * models, and through them trainers. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "exec/operators/operators.h"
#include "graph/ir/grad.h"

enum { MOST_OUTPUTS = 127 };

/* ---- life ---- */

dpx_status dpx_operators_create(dpx_operators **out)
{
    dpx_operators *o;

    if (!out)
        return (dpx_status)FAIL(E_INVALID, "%s: out is NULL", __func__);
    if (!(o = calloc(1, sizeof *o)) || !(o->arena = arena_create())) {
        free(o);
        return (dpx_status)FAIL_NOMEM();
    }
    o->users = 1;
    *out = o;
    return DPX_OK;
}

void operators_keep(dpx_operators *o) { o->users++; }

void operators_release(dpx_operators *o)
{
    if (!o || --o->users > 0)
        return;
    for (int i = 0; i < o->n; i++)
        if (o->op[i]->def.destroy)
            o->op[i]->def.destroy(o->op[i]->def.user);
    arena_free(o->arena);
    free(o);
}

void dpx_operators_free(dpx_operators *o) { operators_release(o); }

void operator_text(char name[OPERATOR_TEXT], char says[OPERATOR_TEXT], const dpx_operators *o, int i)
{
    const Operator *op = o->op[i];
    const dpx_operator *d = &op->def;

    snprintf(name, OPERATOR_TEXT, "operator %s of domain %s", d->name, d->domain);
    snprintf(
        says, OPERATOR_TEXT,
        "version %d, %d-%d inputs, %d-%d outputs, flags %u, samples %d %x %x, %x %x %x, state %x %d, %d%d%d%d%d%d%d",
        d->version, d->min_inputs, d->max_inputs, d->min_outputs, d->max_outputs, d->flags, d->sample_axis,
        (unsigned)d->sample_inputs, (unsigned)d->sample_outputs, (unsigned)d->parameter_inputs,
        (unsigned)d->gradient_inputs, (unsigned)d->gradient_outputs, (unsigned)d->state_inputs, d->state_outputs,
        op->float32.apply != NULL, op->float32.gradient != NULL, op->float64.apply != NULL,
        op->float64.gradient != NULL, op->shares, op->gradient_shares, d->make_gradient != NULL);
}

/* ---- what the caller hands over ---- */

/* Members behind the end of the caller's are zero.  One that is newer must have zeros in what we do not know. */
Status operators_take_sized(void *out, size_t own, const void *from, size_t size, const char *what)
{
    for (size_t i = own; i < size; i++)
        if (((const char *)from)[i])
            return FAIL(E_INVALID, "%s: it is of a newer dpexec.h, whose members this library does not know", what);
    memset(out, 0, own);
    memcpy(out, from, size < own ? size : own);
    return ST_OK;
}

Status operators_take(void *out, size_t own, const void *from, const char *what)
{
    const size_t size = *(const size_t *)from;

    if (size < sizeof size || size > 1 << 16)
        return FAIL(E_INVALID, "%s: size is %zu, expected sizeof(%s)", what, size, what);
    return operators_take_sized(out, own, from, size, what);
}

static bool set_is_word(const char *s, bool dots)
{
    if (!s || !*s || strlen(s) > 127)
        return false;
    for (; *s; s++)
        if (!(*s == '_' || (*s >= '0' && *s <= '9') || (*s >= 'a' && *s <= 'z') || (*s >= 'A' && *s <= 'Z') ||
              (dots && (*s == '.' || *s == '-'))))
            return false;
    return true;
}

/* State is on no sample's side, and its outputs may be left out. */
static Status check_state(const dpx_operator *d)
{
    int n = 0;

    if (d->state_inputs > 0xff || d->state_inputs & d->parameter_inputs)
        return FAIL(E_INVALID, "operator %s: state_inputs %#x, expected 8 bits that are no parameter's", d->name,
                    (unsigned)d->state_inputs);
    for (int i = 0; i < 8; i++)
        n += d->state_inputs >> i & 1;
    if (n && (d->state_outputs < 1 || d->state_outputs < d->min_outputs || d->state_outputs > MOST_OUTPUTS ||
              (d->max_outputs >= 0 && d->state_outputs + n > d->max_outputs)))
        return FAIL(E_INVALID, "operator %s: state_outputs is %d, expected %d outputs that may be absent from there on",
                    d->name, d->state_outputs, n);
    for (int i = 0; n && d->flags & DPX_OPERATOR_PER_SAMPLE && i < 8; i++)
        if ((d->state_inputs >> i & 1 && carries_samples(d->sample_inputs, i)) ||
            (i < n && carries_samples(d->sample_outputs, d->state_outputs + i)))
            return FAIL(E_INVALID, "operator %s: its state carries samples, as sample_inputs and sample_outputs say",
                        d->name);
    return ST_OK;
}

static Status set_check_counts(const dpx_operator *d)
{
    if (d->min_inputs < 0 || (d->max_inputs >= 0 && d->max_inputs < d->min_inputs) || d->max_inputs > 127 ||
        d->min_outputs < 0 || (d->max_outputs >= 0 && d->max_outputs < d->min_outputs) || d->max_outputs > 127 ||
        d->min_inputs > 127 || d->min_outputs > 127 || !d->max_outputs)
        return FAIL(E_INVALID,
                    "operator %s: %d to %d inputs and %d to %d outputs, expected 0 to 127 (or -1: any number)", d->name,
                    d->min_inputs, d->max_inputs, d->min_outputs, d->max_outputs);
    if (d->sample_axis < 0 || d->sample_axis >= MAX_RANK)
        return FAIL(E_INVALID, "operator %s: sample_axis is %d, expected 0 to %d", d->name, d->sample_axis,
                    MAX_RANK - 1);
    if (d->parameter_inputs > 0xff)
        return FAIL(E_INVALID, "operator %s: parameter_inputs has more than 8 bits", d->name);
    if (d->flags & ~7u)
        return FAIL(E_INVALID, "operator %s: flags %#x are not known", d->name, d->flags & ~7u);
    return check_state(d);
}

static Status check_functions(const Operator *op)
{
    const dpx_operator *d = &op->def;
    const bool kernel = op->float32.gradient || op->float64.gradient;

    if (!d->shape)
        return FAIL(E_INVALID, "operator %s: it has no shape function", d->name);
    if (!op->float32.apply && !op->float64.apply)
        return FAIL(E_INVALID, "operator %s: it has no kernel, neither in float32 nor in float64", d->name);
    if (d->flags & DPX_OPERATOR_ZERO_GRADIENT && (kernel || d->make_gradient))
        return FAIL(E_INVALID, "operator %s: its gradient is zero, and it has one", d->name);
    if (d->make_gradient && kernel)
        return FAIL(E_INVALID, "operator %s: its gradient is a kernel and nodes, expected one of both", d->name);
    return ST_OK;
}

static Status check_name(const dpx_operators *o, const dpx_operator *d)
{
    if (!set_is_word(d->name, false))
        return FAIL(E_INVALID, "an operator's name '%s': expected letters, digits and _", d->name ? d->name : "");
    if (!set_is_word(d->domain, true) || !strcmp(d->domain, "dpexec") || !strncmp(d->domain, "ai.onnx", 7))
        return FAIL(E_INVALID, "operator %s: domain '%s', expected one of your own such as \"com.example\"", d->name,
                    d->domain ? d->domain : "");
    if (operator_find(&o->list, d->domain, d->name))
        return FAIL(E_INVALID, "operator %s of domain %s is there already", d->name, d->domain);
    return ST_OK;
}

/* ---- attributes ---- */

AttrType operators_attr_type(dpx_attribute_type t)
{
    switch (t) {
    case DPX_ATTRIBUTE_FLOAT: return A_FLOAT;
    case DPX_ATTRIBUTE_INT: return A_INT;
    case DPX_ATTRIBUTE_STRING: return A_STRING;
    case DPX_ATTRIBUTE_FLOATS: return A_FLOATS;
    case DPX_ATTRIBUTE_INTS: return A_INTS;
    }
    return A_NONE;
}

static Status take_attribute(AttrDecl *out, Arena *a, const dpx_operator *d, const dpx_attribute *from)
{
    dpx_attribute t;

    TRY(status_prefix(operators_take(&t, sizeof t, from, "dpx_attribute"), "operator %s", d->name));
    if (!set_is_word(t.name, false) || operators_attr_type(t.type) == A_NONE)
        return FAIL(E_INVALID, "operator %s: attribute '%s' of type %d", d->name, t.name ? t.name : "", (int)t.type);
    *out = (AttrDecl){ .name = arena_strdup(a, t.name),
                       .type = operators_attr_type(t.type),
                       .i = t.i,
                       .f = t.f,
                       .s = t.s ? arena_strdup(a, t.s) : NULL,
                       .rule = t.required ? ATTR_REQUIRED : ATTR_OPTIONAL };
    return out->name && (!t.s || out->s) ? ST_OK : FAIL_NOMEM();
}

#define OF_DTYPE                                             \
    {                                                        \
        ATTR_DTYPE, A_INT, .i = DT_FLOAT32, .range = R_DTYPE \
    }
#define OF_MESSAGES \
    OF_DTYPE, { ATTR_MESSAGE, A_INT, .range = R_NATURAL }, { ATTR_ANSWER, A_INT, .range = R_NATURAL }
#define OF_GRADIENT                                                                          \
    { ATTR_INPUTS, A_INT, .range = R_NATURAL }, { ATTR_OUTPUTS, A_INT, .range = R_NATURAL }, \
        { ATTR_SHAPES, A_INTS, .range = R_COUNTS },                                          \
    {                                                                                        \
        ATTR_SAMPLES, A_INT, .range = R_NATURAL                                              \
    }

static const AttrDecl apply_attrs[] = { { 0 } }, message_attrs[] = { OF_MESSAGES, { 0 } },
                      shared_attrs[] = { OF_DTYPE, { 0 } }, gradient_attrs[] = { OF_GRADIENT, { 0 } },
                      gradient_message_attrs[] = { OF_GRADIENT, OF_MESSAGES, { 0 } };

typedef struct {
    const char *suffix; /* of the operator's name */
    const AttrDecl *attrs;
} RoleKind;

static const RoleKind kinds[N_ROLES] = { [ROLE_APPLY] = { "", apply_attrs },
                                         [ROLE_COLLECT] = { "Collect", message_attrs },
                                         [ROLE_COMBINE] = { "Combine", message_attrs },
                                         [ROLE_SHARED] = { "Shared", shared_attrs },
                                         [ROLE_GRADIENT_COLLECT] = { "GradientCollect", gradient_message_attrs },
                                         [ROLE_GRADIENT_COMBINE] = { "GradientCombine", message_attrs },
                                         [ROLE_GRADIENT] = { "Gradient", gradient_attrs } };

/* The operator's, and the role's. */
static Status take_attributes(const AttrDecl **out, Arena *a, const dpx_operator *d, const AttrDecl *of_role)
{
    const char *at = (const char *)d->attributes;
    int n = 0, more = 0;
    AttrDecl *list;

    while (of_role[more].name)
        more++;
    if (d->n_attributes < 0 || d->n_attributes > 256 || (d->n_attributes && !at))
        return FAIL(E_INVALID, "operator %s: %d attributes", d->name, d->n_attributes);
    if (!(list = ARENA_NEW(a, AttrDecl, d->n_attributes + more + 1)))
        return FAIL_NOMEM();
    for (; n < d->n_attributes; at += d->attributes->size) {
        TRY(take_attribute(&list[n], a, d, (const dpx_attribute *)(const void *)at));
        for (int k = 0; k < n; k++)
            if (!strcmp(list[k].name, list[n].name))
                return FAIL(E_INVALID, "operator %s: attribute '%s' is declared twice", d->name, list[n].name);
        n++;
    }
    for (int k = 0; k < more; k++)
        list[n++] = of_role[k];
    *out = list;
    return ST_OK;
}

/* ---- roles ---- */

static bool has_role(const Operator *o, Role role)
{
    return role == ROLE_APPLY || role == ROLE_GRADIENT ||
           (role == ROLE_GRADIENT_COLLECT || role == ROLE_GRADIENT_COMBINE ? o->gradient_shares : o->shares);
}

static void set_apply(RoleDef *r, const Operator *o)
{
    const dpx_operator *d = &o->def;

    r->op.in_min = (int8_t)d->min_inputs;
    r->op.in_max = (int8_t)d->max_inputs;
    r->op.out_min = (int8_t)d->min_outputs;
    r->op.out_max = (int8_t)d->max_outputs;
    r->op.flags &= ~(unsigned)OPF_OPTIONAL_INPUTS;
    r->op.flags |= o->shares ? OPF_SHARES : 0;
    r->op.lower = o->shares ? own_lower : NULL;
    r->op.train = d->state_inputs ? own_train : NULL;
}

static void set_combine(RoleDef *r)
{
    r->op.in_min = r->op.in_max = r->op.out_min = r->op.out_max = 1;
    r->op.flags = OPF_STACKS_L | OPF_ANSWERS_L; /* pure: it may run once for a device */
    r->op.grad = grad_none;
}

/* Sets the states and the gradient of the role that computes outputs. */
static void set_states_and_gradient(RoleDef *r, const Operator *o)
{
    const dpx_operator *d = &o->def;

    r->op.param_in = (uint8_t)d->parameter_inputs;
    r->op.running_in = (uint8_t)d->state_inputs;
    r->op.running_out = (int8_t)d->state_outputs;
    if (d->flags & DPX_OPERATOR_ZERO_GRADIENT)
        r->op.flags |= OPF_ZERO_GRAD;
    r->op.grad = d->make_gradient                             ? own_grad_nodes
                 : o->float32.gradient || o->float64.gradient ? own_grad_kernel
                 : d->flags & DPX_OPERATOR_ZERO_GRADIENT      ? grad_none
                                                              : NULL;
}

static Status make_role(Operator *o, Arena *a, Role role)
{
    RoleDef *r = &o->role[role];

    *r = (RoleDef){ .of = o, .role = role, .kernel = own_kernel };
    r->op = (OpDef){ .name = arena_printf(a, "%s%s", o->def.name, kinds[role].suffix),
                     .domain = o->def.domain,
                     .doc = "an embedder's",
                     .since = o->def.version,
                     .in_max = -1,
                     .out_max = -1,
                     .flags = OPF_OPTIONAL_INPUTS | (o->def.flags & DPX_OPERATOR_IMPURE ? OPF_IMPURE : 0),
                     .precision = PREC_WIDE,
                     .infer = own_infer,
                     .place = own_place,
                     .kernel = &r->kernel };
    r->kernel.op = &r->op;
    r->kernel.name = r->op.name;
    if (!r->op.name)
        return FAIL_NOMEM();
    if (role == ROLE_APPLY)
        set_apply(r, o);
    if (role == ROLE_APPLY || role == ROLE_SHARED)
        set_states_and_gradient(r, o);
    if (role_combines(role))
        set_combine(r);
    if (role == ROLE_COLLECT)
        r->op.grad = grad_none;
    if (role_collects(role))
        r->op.out_min = 1;
    return take_attributes(&r->op.attrs, a, &o->def, kinds[role].attrs);
}

/* ---- adding ---- */

static Status take_kernels(dpx_kernels *out, const dpx_operator *d, const dpx_kernels *from)
{
    if (!from)
        return ST_OK;
    TRY(status_prefix(operators_take(out, sizeof *out, from, "dpx_kernels"), "operator %s", d->name));
    if (!out->apply)
        return FAIL(E_INVALID, "operator %s: dpx_kernels without apply", d->name);
    if (!out->collect != !out->combine || !out->gradient_collect != !out->gradient_combine)
        return FAIL(E_INVALID, "operator %s: dpx_kernels with one of %scollect and %scombine, expected both or neither",
                    d->name, !out->collect != !out->combine ? "" : "gradient_",
                    !out->collect != !out->combine ? "" : "gradient_");
    if (out->gradient_collect && (!out->collect || !out->gradient))
        return FAIL(E_INVALID, "operator %s: dpx_kernels with gradient_collect, but without %s", d->name,
                    out->gradient ? "collect" : "gradient");
    return ST_OK;
}

/* Checks the functions for copies that share: either the kernels of all types have them or none do. */
static Status check_sharing(Operator *o)
{
    const dpx_operator *d = &o->def;
    const dpx_kernels *k = o->float32.apply ? &o->float32 : &o->float64;

    o->shares = k->collect;
    o->gradient_shares = k->gradient_collect;
    if (o->float32.apply && o->float64.apply &&
        (!o->float64.collect == o->shares || !o->float64.gradient_collect == o->gradient_shares))
        return FAIL(E_INVALID, "operator %s: its copies share in one type alone, expected both or neither", d->name);
    if (o->shares && !(d->flags & DPX_OPERATOR_PER_SAMPLE))
        return FAIL(E_INVALID, "operator %s: its copies share, expected DPX_OPERATOR_PER_SAMPLE: else it has no copies",
                    d->name);
    return ST_OK;
}

static Status read_operator(Operator *to, const dpx_operators *o, const dpx_operator *from)
{
    dpx_operator *d = &to->def;

    TRY(operators_take(d, sizeof *d, from, "dpx_operator"));
    to->set = o;
    TRY(check_name(o, d));
    TRY(set_check_counts(d));
    TRY(take_kernels(&to->float32, d, d->float32));
    TRY(take_kernels(&to->float64, d, d->float64));
    TRY(check_functions(to));
    TRY(check_sharing(to));
    d->version = d->version > 0 ? d->version : 1;
    d->domain = arena_strdup(o->arena, d->domain);
    d->name = arena_strdup(o->arena, d->name);
    if (!d->domain || !d->name)
        return FAIL_NOMEM();
    for (int r = 0; r < N_ROLES; r++)
        if (has_role(to, (Role)r))
            TRY(make_role(to, o->arena, (Role)r));
    d->attributes = NULL; /* the caller's; the roles have theirs */
    d->float32 = d->float64 = NULL;
    return ST_OK;
}

static Status enlist(dpx_operators *o, Operator *op)
{
    const OpDef **list = ARENA_NEW(o->arena, const OpDef *, o->list.n + N_ROLES);
    Operator **grown = arena_grow(o->arena, o->op, sizeof *o->op, (size_t)o->n, &o->cap);
    int n = o->list.n;

    if (!list || !grown)
        return FAIL_NOMEM();
    for (int r = 0; r < N_ROLES; r++)
        if (op->role[r].of && operator_find(&o->list, op->def.domain, op->role[r].op.name))
            return FAIL(E_INVALID, "operator %s: %s of domain %s is there already", op->def.name, op->role[r].op.name,
                        op->def.domain);
    for (int i = 0; i < o->list.n; i++)
        list[i] = o->list.op[i];
    for (int r = 0; r < N_ROLES; r++)
        if (op->role[r].of)
            list[n++] = &op->role[r].op;
    o->op = grown;
    o->op[o->n++] = op;
    o->list = (OperatorList){ list, n };
    return ST_OK;
}

dpx_status dpx_operators_add(dpx_operators *o, const dpx_operator *operator_)
{
    Operator *op;
    Status st;

    if (!o || !operator_)
        return (dpx_status)FAIL(E_INVALID, "%s: %s is NULL", __func__, o ? "operator_" : "operators");
    if (o->given)
        return (dpx_status)FAIL(E_INVALID, "the set of operators has been given to options: nothing can be added");
    if (!(op = ARENA_NEW(o->arena, Operator, 1)))
        return (dpx_status)FAIL_NOMEM();
    st = read_operator(op, o, operator_);
    return (dpx_status)(st ? st : enlist(o, op));
}
