/* The parser's tokens with their error messages, numbers, tensors and types.  A short text cannot make the parser
 * allocate much: the number of a tensor's elements is checked against the length of the remaining text, and "all" has a
 * limit. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "graph/base/numtext.h"
#include "graph/text/parser.h"

enum { MAX_ALL_BYTES = 1 << 30 };

/* ---- tokens ---- */

Status parse_next(Parser *p) { return lex_next(&p->lex, &p->tok); }

Status parse_expected(const Parser *p, const char *what)
{
    if (p->tok.kind == T_END)
        return FAIL(E_MODEL, "line %d: expected %s, found the end", p->tok.line, what);
    return FAIL(E_MODEL, "line %d: expected %s, found '%.80s'", p->tok.line, what, p->tok.text);
}

bool at_punct(const Parser *p, const char *s) { return p->tok.kind == T_PUNCT && !strcmp(p->tok.text, s); }

bool at_word(const Parser *p, const char *s) { return p->tok.kind == T_WORD && !strcmp(p->tok.text, s); }

Status parse_punct(Parser *p, const char *s)
{
    char what[8] = { '\'', s[0], s[1] ? s[1] : '\'', s[1] ? '\'' : 0 };

    return at_punct(p, s) ? parse_next(p) : parse_expected(p, what);
}

Status parse_accept(Parser *p, const char *s, bool *found)
{
    *found = at_punct(p, s);
    return *found ? parse_next(p) : ST_OK;
}

Status parse_accept_word(Parser *p, const char *s, bool *found)
{
    *found = at_word(p, s);
    return *found ? parse_next(p) : ST_OK;
}

Status parse_string(Parser *p, const char **out, const char *what)
{
    if (p->tok.kind != T_STRING)
        return parse_expected(p, what);
    *out = p->tok.text;
    return parse_next(p);
}

bool parse_int_text(int64_t *out, const char *s)
{
    char *end;

    errno = 0;
    *out = strtoll(s, &end, 10);
    return *s && !*end && !errno;
}

Status parse_integer(Parser *p, int64_t *out)
{
    if (p->tok.kind != T_NUMBER || !parse_int_text(out, p->tok.text))
        return parse_expected(p, "an integer");
    return parse_next(p);
}

/* ---- numbers of tensors and attributes ---- */

/* Parses, after the word "nan", a colon and the NaN's bits; without a colon they are `usual`. */
static Status nan_bits(Parser *p, uint64_t *bits, uint64_t usual)
{
    char *end;
    bool given;

    *bits = usual;
    TRY(parse_accept(p, ":", &given));
    if (!given)
        return ST_OK;
    errno = 0;
    *bits = strtoull(p->tok.text, &end, 16);
    if ((p->tok.kind != T_NUMBER && p->tok.kind != T_WORD) || *end || errno || p->tok.text[0] == '-')
        return parse_expected(p, "the bits of a NaN in hexadecimal");
    return parse_next(p);
}

Status parse_float64(Parser *p, double *out)
{
    uint64_t bits;

    if (at_word(p, "nan")) {
        TRY(parse_next(p));
        TRY(nan_bits(p, &bits, 0x7ff8000000000000));
        memcpy(out, &bits, 8);
        return ST_OK;
    }
    if ((p->tok.kind != T_NUMBER && !at_word(p, "inf")) || !text_to_float64(out, p->tok.text, p->tok.len))
        return parse_expected(p, "a number");
    return parse_next(p);
}

static Status float32(Parser *p, float *out)
{
    uint64_t bits;
    uint32_t low;

    if (at_word(p, "nan")) {
        TRY(parse_next(p));
        TRY(nan_bits(p, &bits, 0x7fc00000));
        low = (uint32_t)bits;
        memcpy(out, &low, 4);
        return ST_OK;
    }
    if ((p->tok.kind != T_NUMBER && !at_word(p, "inf")) || !text_to_float32(out, p->tok.text, p->tok.len))
        return parse_expected(p, "a number");
    return parse_next(p);
}

static Status float16(Parser *p, uint16_t *out, DType dtype)
{
    uint64_t bits;
    double v;
    float f;

    if (at_word(p, "nan")) {
        TRY(parse_next(p));
        TRY(nan_bits(p, &bits, dtype == DT_FLOAT16 ? 0x7e00 : 0x7fc0));
        *out = (uint16_t)bits;
        return ST_OK;
    }
    if (dtype == DT_FLOAT16) {
        TRY(parse_float64(p, &v));
        *out = half_from_double(v);
    } else {
        TRY(float32(p, &f));
        *out = bfloat_from_float(f);
    }
    return ST_OK;
}

static Status int_element(Parser *p, Tensor *t, int64_t i)
{
    char *end;
    uint64_t u;
    int64_t v;

    if (t->dtype == DT_UINT64) {
        errno = 0;
        u = strtoull(p->tok.text, &end, 10);
        if (p->tok.kind != T_NUMBER || *end || errno || p->tok.text[0] == '-')
            return parse_expected(p, "an unsigned integer");
        ((uint64_t *)t->data)[i] = u;
        return parse_next(p);
    }
    if (p->tok.kind != T_NUMBER || !parse_int_text(&v, p->tok.text))
        return parse_expected(p, "an integer");
    if (dtype_is_small_float(t->dtype)) { /* printed as its bits */
        ((uint8_t *)t->data)[i] = (uint8_t)v;
        if (v < 0 || v >> dtype_bits(t->dtype))
            return FAIL(E_MODEL, "line %d: %s are no bits of %s", p->tok.line, p->tok.text, dtype_name(t->dtype));
        return parse_next(p);
    }
    tensor_set_int(t, i, v);
    if (tensor_int(t, i) != v || (t->dtype == DT_BOOL && v != 0 && v != 1))
        return FAIL(E_MODEL, "line %d: %s is no %s", p->tok.line, p->tok.text, dtype_name(t->dtype));
    return parse_next(p);
}

static Status parse_data_element(Parser *p, Tensor *t, int64_t i)
{
    switch (t->dtype) {
    case DT_FLOAT32: return float32(p, (float *)t->data + i);
    case DT_FLOAT64: return parse_float64(p, (double *)t->data + i);
    case DT_FLOAT16:
    case DT_BFLOAT16: return float16(p, (uint16_t *)t->data + i, t->dtype);
    case DT_COMPLEX64:
        TRY(float32(p, (float *)t->data + 2 * i));
        TRY(parse_punct(p, ","));
        return float32(p, (float *)t->data + 2 * i + 1);
    case DT_COMPLEX128:
        TRY(parse_float64(p, (double *)t->data + 2 * i));
        TRY(parse_punct(p, ","));
        return parse_float64(p, (double *)t->data + 2 * i + 1);
    default: return int_element(p, t, i);
    }
}

/* ---- tensors ---- */

static Status all_data(Parser *p, Tensor **out, DType dtype, const Shape *s, int64_t n)
{
    size_t size = dtype_size(dtype);
    Tensor *t;

    if (!n || !size || (uint64_t)n > MAX_ALL_BYTES / size)
        return FAIL(E_MODEL, "line %d: 'all' for %" PRId64 " elements: expected 1 to %zu", p->tok.line, n,
                    MAX_ALL_BYTES / (size ? size : 1));
    if (!(t = tensor_create(p->g->arena, dtype, s)))
        return FAIL_NOMEM();
    TRY(parse_data_element(p, t, 0));
    for (int64_t i = 1; i < n; i++)
        memcpy((char *)t->data + (size_t)i * size, t->data, size);
    *out = t;
    return ST_OK;
}

static Status listed_data(Parser *p, Tensor **out, DType dtype, const Shape *s, int64_t n)
{
    Tensor *t;

    if (!dtype_size(dtype) || dtype == DT_STRING)
        n = 0;
    if (n > p->lex.end - p->lex.at + 1)
        return FAIL(E_MODEL, "line %d: %" PRId64 " elements expected, the text ends before", p->tok.line, n);
    if (!(t = tensor_create(p->g->arena, dtype, s)))
        return FAIL_NOMEM();
    TRY(parse_punct(p, "{"));
    for (int64_t i = 0; i < n; i++) {
        if (i)
            TRY(parse_punct(p, ","));
        if (at_punct(p, "..."))
            return FAIL(E_MODEL, "line %d: the data was cut when it was printed", p->tok.line);
        TRY(parse_data_element(p, t, i));
    }
    TRY(parse_punct(p, "}"));
    *out = t;
    return ST_OK;
}

Status parse_data(Parser *p, Tensor **out, DType dtype, const Shape *s)
{
    bool all;

    if (!shape_known(s))
        return FAIL(E_MODEL, "line %d: data of unknown shape", p->tok.line);
    TRY(parse_accept_word(p, "all", &all));
    return (all ? all_data : listed_data)(p, out, dtype, s, shape_numel(s));
}

/* ---- types ---- */

static Status dimension(Parser *p, Shape *s, const char **param)
{
    bool unknown;

    if (s->rank == MAX_RANK)
        return FAIL(E_MODEL, "line %d: more than %d dimensions", p->tok.line, MAX_RANK);
    *param = NULL;
    if (p->tok.kind == T_STRING || p->tok.kind == T_WORD) {
        if (!(*param = arena_strdup(p->g->arena, p->tok.text)))
            return FAIL_NOMEM();
        TRY(parse_next(p));
        TRY(parse_punct(p, "="));
    }
    TRY(parse_accept(p, "?", &unknown));
    s->dim[s->rank] = -1;
    if (!unknown) {
        TRY(parse_integer(p, &s->dim[s->rank]));
        if (s->dim[s->rank] < 0)
            return FAIL(E_MODEL, "line %d: dimension %" PRId64 " is negative", p->tok.line, s->dim[s->rank]);
    }
    s->rank++;
    return ST_OK;
}

Status parse_type(Parser *p, DType *dtype, Shape *s, const char **params)
{
    const char *param = NULL;
    bool found;

    if (p->tok.kind != T_WORD || ((*dtype = dtype_parse(p->tok.text)) == DT_NONE && !at_word(p, "none")))
        return parse_expected(p, "a type");
    TRY(parse_next(p));
    TRY(parse_punct(p, "["));
    *s = shape_unknown();
    TRY(parse_accept(p, "*", &found));
    if (found)
        return parse_punct(p, "]");
    s->rank = 0;
    while (!at_punct(p, "]")) {
        if (s->rank)
            TRY(parse_punct(p, ","));
        TRY(dimension(p, s, &param));
        if (param && !params)
            return FAIL(E_MODEL, "line %d: only inputs name their dimensions", p->tok.line);
        if (params)
            params[s->rank - 1] = param;
    }
    if (shape_known(s)) {
        Status st = shape_check(s, dtype_size(*dtype));

        if (st)
            return status_prefix(st, "line %d", p->tok.line);
    }
    return parse_next(p);
}
