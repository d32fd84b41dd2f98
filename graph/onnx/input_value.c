/* Inputs that --input-value turns into constants of their declared type and shape.  They exist before any node is read,
 * so that an If on one is resolved like an If on an initializer.
 *
 * The numbers are checked here and not where options are read, because only the file gives their type and shape.  If an
 * input has an initializer, its default, the given numbers replace it. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "graph/base/numtext.h"
#include "graph/onnx/evaluate.h"

static const char *find_text(const Importer *im, const char *name)
{
    return im->input_value && name ? im->input_value(im->input_value_user, name) : NULL;
}

bool input_is_given(const Importer *im, const char *name) { return find_text(im, name) != NULL; }

/* ---- numbers ---- */

static int64_t count_numbers(const char *text)
{
    int64_t n = 1;

    for (; (text = strchr(text, ',')); text++)
        n++;
    return n;
}

/* Parses an integer into element i; false: it is none, or the type cannot hold it.  Integers up to 2^53 may be written
 * as floats, "1e3". */
static bool set_integer(Tensor *t, int64_t i, const char *s, size_t len)
{
    int64_t v;
    char *end;
    double d;

    errno = 0;
    if (t->dtype == DT_UINT64 && *s != '-') {
        ((uint64_t *)t->data)[i] = strtoull(s, &end, 10);
        if (end == s + len && !errno)
            return true;
    }
    errno = 0;
    v = strtoll(s, &end, 10);
    if (end != s + len || errno) {
        if (!text_to_float64(&d, s, len) || !(fabs(d) <= 0x1p53) || d != floor(d))
            return false;
        v = (int64_t)d;
    }
    if (v < 0 && DTYPE_BIT(t->dtype) & (DTYPES_UNSIGNED | DTYPE_BIT(DT_UINT4) | DTYPE_BIT(DT_UINT2)))
        return false;
    tensor_set_int(t, i, v);
    return tensor_int(t, i) == v;
}

/* Parses a float into element i.  Types of 16 bits and more round, but neither to infinity nor to 0; narrower types
 * must hold the number exactly. */
static bool set_float(Tensor *t, int64_t i, const char *s, size_t len)
{
    double v, is;

    if (!text_to_float64(&v, s, len))
        return false;
    tensor_set_float(t, i, v);
    if (t->dtype == DT_FLOAT32 && !text_to_float32(&((float *)t->data)[i], s, len))
        return false;
    is = tensor_float(t, i);
    return is == v || (dtype_bits(t->dtype) >= 16 && isfinite(is) && is != 0);
}

static bool set_bool(Tensor *t, int64_t i, const char *s, size_t len)
{
    static const char *const words[] = { "0", "1", "false", "true" };

    for (int k = 0; k < 4; k++)
        if (len == strlen(words[k]) && !memcmp(s, words[k], len)) {
            tensor_set_int(t, i, k & 1);
            return true;
        }
    return false;
}

static bool set_number(Tensor *t, int64_t i, const char *s, size_t len)
{
    if (t->dtype == DT_BOOL)
        return set_bool(t, i, s, len);
    return dtype_is_float(t->dtype) ? set_float(t, i, s, len) : set_integer(t, i, s, len);
}

/* ---- the constant ---- */

/* Fixes the dimensions that the file leaves open so that the shape has n elements; false: impossible.  A single open
 * dimension gets the length that fits, several get length 1.  For 6 numbers, [?, 3] becomes [2, 3]. */
static bool close_shape(Shape *s, int64_t n)
{
    int64_t fixed = 1;
    int open = 0, last = 0;

    if (s->rank < 0)
        *s = n == 1 ? shape_scalar() : shape_of(1, &n);
    for (int i = 0; i < s->rank; i++) {
        if (s->dim[i] < 0) {
            s->dim[i] = 1;
            last = i;
            open++;
        } else if (__builtin_mul_overflow(fixed, s->dim[i], &fixed)) {
            return false;
        }
    }
    if (open == 1 && fixed > 0 && n % fixed == 0)
        s->dim[last] = n / fixed;
    return shape_numel(s) == n;
}

static Status make_constant(Tensor **out, const Importer *im, const char *name, DType dtype, const Shape *declared)
{
    const char *at = find_text(im, name);
    const int64_t n = count_numbers(at);
    Shape shape = *declared;
    char as[SHAPE_TEXT];
    size_t len;
    Tensor *t;

    shape_text(declared, as);
    if (!close_shape(&shape, n))
        return FAIL(E_INVALID, "--input-value: input '%s' is %s%s, found %" PRId64 " number%s", name, dtype_name(dtype),
                    as, n, n == 1 ? "" : "s");
    if (!(t = tensor_create(im->g->arena, dtype, &shape)))
        return FAIL_NOMEM();
    for (int64_t i = 0; i < n; i++, at += len + 1) {
        len = strcspn(at, ",");
        if (!set_number(t, i, at, len))
            return FAIL(E_INVALID, "--input-value: input '%s' is %s%s, which cannot hold %.*s%s", name,
                        dtype_name(dtype), as, len < 40 ? (int)len : 40, at,
                        dtype == DT_BOOL ? " (expected 0, 1, false or true)" : "");
    }
    *out = t;
    return ST_OK;
}

Status import_given_input(Importer *im, ScopeEntry *e, const Onnx__ValueInfoProto *p)
{
    const Onnx__TypeProto__Tensor *type =
        p->type->value_case == ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE ? p->type->tensor_type : NULL;
    const char *problem = type ? tensor_type_problem(type->elem_type, false) : "it is no tensor", **params = NULL;
    Shape shape = shape_unknown();
    Tensor *t;

    if (problem)
        return FAIL(E_INVALID, "--input-value: input '%s': %s", p->name, problem);
    if (type->shape)
        TRY(status_prefix(type_shape_decode(&shape, &params, im->scratch, type->shape, p->name), "input"));
    TRY(make_constant(&t, im, p->name, (DType)type->elem_type, &shape));
    e->value = graph_add_const_nocopy(im->g, p->name, t);
    TRY(im->g->status);
    value(im->g, e->value)->origin = ORIGIN_INITIALIZER;
    return im->run ? evaluate_fix(im, e->value, t) : ST_OK;
}

Status import_given_default(Importer *im, const ScopeEntry *e)
{
    Value *v = has_value(e->value) ? value(im->g, e->value) : NULL;
    Tensor *t;

    if (!input_is_given(im, e->name))
        return ST_OK;
    if (!v)
        return FAIL(E_INVALID, "--input-value: input '%s': %s", e->name, e->problem);
    TRY(make_constant(&t, im, e->name, v->dtype, v->shape));
    v->init = t;
    return ST_OK;
}

void given_inputs_fix(const Importer *im, const Body *b)
{
    const Onnx__GraphProto *gp = im->model->graph;

    for (size_t i = 0; i < gp->n_input; i++) {
        const ScopeEntry *e = input_is_given(im, gp->input[i]->name) ? scope_find(&b->scope, gp->input[i]->name) : NULL;

        if (e && has_value(e->value) && value(im->g, e->value)->kind == V_CONST)
            value(im->g, e->value)->evidence = EVIDENCE_GIVEN;
    }
}
