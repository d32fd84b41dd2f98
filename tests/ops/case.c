/* Reads a case line and makes its graph, by way of the text form: attributes and their errors are the parser's. */
#include "tests/ops/case.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/tensor/layout.h"
#include "graph/text/parse.h"

/* ---- reading a line ---- */

static const char *skip(const char *s)
{
    while (*s == ' ' || *s == '\t')
        s++;
    return s;
}

static bool take(const char **s, const char *what)
{
    *s = skip(*s);
    if (strncmp(*s, what, strlen(what)))
        return false;
    *s += strlen(what);
    return true;
}

static const struct {
    const char *name;
    DType dtype;
} types[] = {
    { "f32", DT_FLOAT32 }, { "f64", DT_FLOAT64 }, { "f16", DT_FLOAT16 }, { "bf16", DT_BFLOAT16 }, { "i8", DT_INT8 },
    { "i16", DT_INT16 },   { "i32", DT_INT32 },   { "i64", DT_INT64 },   { "u8", DT_UINT8 },      { "u16", DT_UINT16 },
    { "u32", DT_UINT32 },  { "u64", DT_UINT64 },  { "b", DT_BOOL },      { "f", DT_FLOAT32 },     { "s", DT_FLOAT32 },
};

static Status read_type(const char **s, CaseArg *a)
{
    char name[8] = "";
    size_t n = strcspn(*s = skip(*s), "[");

    if (n >= sizeof name)
        return FAIL(E_INVALID, "expected a type at '%.30s'", *s);
    memcpy(name, *s, n);
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (!strcmp(types[i].name, name)) {
            a->dtype = types[i].dtype;
            a->any_float = !strcmp(name, "f");
            a->statistic = !strcmp(name, "s");
            *s += n;
            return ST_OK;
        }
    return FAIL(E_INVALID, "expected a type at '%.30s'", *s);
}

static Status read_shape(const char **s, Shape *shape)
{
    char *end;

    if (!take(s, "["))
        return FAIL(E_INVALID, "expected '[' at '%.30s'", *s);
    *shape = shape_scalar();
    while (!take(s, "]")) {
        if (shape->rank && !take(s, ","))
            return FAIL(E_INVALID, "expected ',' at '%.30s'", *s);
        if (shape->rank == MAX_RANK)
            return FAIL(E_INVALID, "more than %d dimensions", MAX_RANK);
        shape->dim[shape->rank++] = strtoll(*s, &end, 10);
        if (end == *s)
            return FAIL(E_INVALID, "expected a dimension at '%.30s'", *s);
        *s = end;
    }
    return ST_OK;
}

/* "0..4" must not be read as "0." and ".4". */
static Status read_number(const char **s, double *out)
{
    char text[64] = "", *end;
    const char *dots = strstr(*s = skip(*s), ".."), *stop;
    size_t n = dots && dots - *s < 40 ? (size_t)(dots - *s) : strlen(*s) < 40 ? strlen(*s) : 40;

    memcpy(text, *s, n);
    *out = strtod(text, &end);
    stop = *s + (end - text);
    if (stop == *s)
        return FAIL(E_INVALID, "expected a number at '%.30s'", *s);
    *s = stop;
    return ST_OK;
}

static bool number_follows(const char *s)
{
    s = skip(s);
    return isdigit((unsigned char)*s) || *s == '-' || *s == '+' || *s == '.' || !strncmp(s, "inf", 3) ||
           !strncmp(s, "nan", 3);
}

static Status read_values(const char **s, double *value, int *n)
{
    *n = 0;
    do {
        if (*n == CASE_VALUES)
            return FAIL(E_INVALID, "more than %d values", CASE_VALUES);
        TRY(read_number(s, &value[(*n)++]));
        *s = skip(*s);
    } while (**s == ',' && number_follows(*s + 1) && (*s)++);
    return ST_OK;
}

static Status read_arg(const char **s, CaseArg *a)
{
    *a = (CaseArg){ 0 };
    if (take(s, "_")) {
        a->absent = true;
        return ST_OK;
    }
    TRY(read_type(s, a));
    TRY(read_shape(s, &a->shape));
    if (take(s, "in ")) {
        a->has_range = true;
        TRY(read_number(s, &a->lo));
        if (!take(s, ".."))
            return FAIL(E_INVALID, "expected '..' at '%.30s'", *s);
        TRY(read_number(s, &a->hi));
    }
    if (take(s, "="))
        TRY(read_values(s, a->value, &a->n_value));
    if (a->n_value > 1 && a->n_value != shape_numel(&a->shape))
        return FAIL(E_INVALID, "%d values for a shape of %lld elements", a->n_value, (long long)shape_numel(&a->shape));
    return ST_OK;
}

static Status read_attrs(const char **s, char *out)
{
    const char *from = *s = skip(*s);
    int depth = 0;
    bool quoted = false;

    if (*from != '{')
        return ST_OK;
    do {
        if (!**s)
            return FAIL(E_INVALID, "the attributes have no end");
        if (**s == '\\' && (*s)[1])
            (*s)++;
        else if (**s == '"')
            quoted = !quoted;
        else if (!quoted)
            depth += (**s == '{') - (**s == '}');
        (*s)++;
    } while (depth);
    memcpy(out, from, (size_t)(*s - from));
    return ST_OK;
}

static Status read_bits(const char **s, unsigned *bits)
{
    double v[CASE_VALUES];
    int n;

    TRY(read_values(s, v, &n));
    *bits = 0;
    for (int i = 0; i < n; i++)
        if (v[i] < 0 || v[i] >= 32)
            return FAIL(E_INVALID, "index %g", v[i]);
        else
            *bits |= 1u << (unsigned)v[i];
    return ST_OK;
}

static Status read_directives(const char **s, Case *c)
{
    while (*(*s = skip(*s))) {
        if (take(s, "nograd"))
            c->nograd = true;
        else if (take(s, "nosplit"))
            c->nosplit = true;
        else if (take(s, "nostandard"))
            c->nostandard = true;
        else if (take(s, "cuda"))
            c->cuda = true;
        else if (take(s, "of="))
            TRY(read_bits(s, &c->of));
        else if (take(s, "by="))
            TRY(read_bits(s, &c->by));
        else if (take(s, "no="))
            TRY(read_bits(s, &c->no));
        else if (take(s, "tol="))
            TRY(read_number(s, &c->tol));
        else
            return FAIL(E_INVALID, "unknown directive '%.30s'", *s);
    }
    return ST_OK;
}

Status case_parse(Case *out, const char *line)
{
    static const Case empty = { .of = ~0u, .by = ~0u };
    const char *s = skip(line);
    size_t n = strcspn(s, "( ");

    *out = empty;
    if (strlen(line) >= CASE_TEXT || n >= sizeof out->op || !n)
        return FAIL(E_INVALID, "expected Op(...)");
    memcpy(out->line, line, strlen(line));
    memcpy(out->op, s, n);
    s += n;
    if (!take(&s, "("))
        return FAIL(E_INVALID, "expected '(' after %s", out->op);
    while (!take(&s, ")")) {
        if (out->n_arg && !take(&s, ","))
            return FAIL(E_INVALID, "expected ',' or ')' at '%.30s'", s);
        if (out->n_arg == CASE_ARGS)
            return FAIL(E_INVALID, "more than %d inputs", CASE_ARGS);
        TRY(read_arg(&s, &out->arg[out->n_arg++]));
    }
    TRY(read_attrs(&s, out->attrs));
    if (take(&s, "->")) {
        double v;

        TRY(read_number(&s, &v));
        out->n_out = (int)v;
    }
    if (take(&s, "=>"))
        TRY(read_values(&s, out->expected, &out->n_expected));
    if (take(&s, "|"))
        TRY(read_directives(&s, out));
    return *skip(s) ? FAIL(E_INVALID, "not understood: '%.40s'", s) : ST_OK;
}

bool case_has_f(const Case *c)
{
    for (int i = 0; i < c->n_arg; i++)
        if (c->arg[i].any_float)
            return true;
    return false;
}

/* ---- the graph ---- */

static DType arg_dtype(const CaseArg *a, DType f)
{
    return a->any_float || (a->statistic && f == DT_FLOAT64) ? f : a->dtype;
}

static void write_constant(FILE *f, const CaseArg *a)
{
    int64_t n = shape_numel(&a->shape);

    fputs(" = {", f);
    for (int64_t i = 0; i < n; i++)
        fprintf(f, "%s%.17g", i ? ", " : "", a->value[a->n_value == 1 ? 0 : i]);
    fputs("}", f);
}

static int count_outputs(const Case *c)
{
    const char *dot = strrchr(c->op, '.');
    char domain[96] = "";
    const OpDef *op;

    if (dot)
        memcpy(domain, c->op, (size_t)(dot - c->op));
    op = op_find(domain, dot ? dot + 1 : c->op);
    return c->n_out ? c->n_out : op && op->out_min > 0 ? op->out_min : 1;
}

static bool has_output(const Case *c, int i) { return i >= 32 || !(c->no >> i & 1); }

static void write_graph(FILE *f, const Case *c, DType dtype)
{
    char shape[SHAPE_TEXT];
    int n_out = count_outputs(c);

    fprintf(f, "graph \"case\" {\n");
    for (int i = 0; i < c->n_arg; i++) {
        const CaseArg *a = &c->arg[i];

        if (a->absent)
            continue;
        fprintf(f, "  %s %%x%d : %s%s", a->n_value ? "const" : "input", i, dtype_name(arg_dtype(a, dtype)),
                shape_text(&a->shape, shape));
        if (a->n_value)
            write_constant(f, a);
        fputs("\n", f);
    }
    fputs("  ", f);
    for (int i = 0; i < n_out; i++)
        has_output(c, i) ? fprintf(f, "%s%%y%d", i ? ", " : "", i) : fprintf(f, "%s_", i ? ", " : "");
    fprintf(f, " = %s(", c->op);
    for (int i = 0; i < c->n_arg; i++)
        c->arg[i].absent ? fprintf(f, "%s_", i ? ", " : "") : fprintf(f, "%s%%x%d", i ? ", " : "", i);
    fprintf(f, ") %s\n", c->attrs);
    for (int i = 0; i < n_out; i++)
        if (has_output(c, i))
            fprintf(f, "  output \"y%d\" = %%y%d\n", i, i);
    fputs("}\n", f);
}

Status case_graph(Graph **out, const Case *c, DType f)
{
    char *text = NULL;
    size_t len;
    FILE *stream = open_memstream(&text, &len);
    Status st;

    if (!stream)
        return FAIL_NOMEM();
    write_graph(stream, c, f);
    fclose(stream);
    st = graph_parse(out, text, len);
    free(text);
    return st;
}

/* ---- data ---- */

static uint64_t next_random(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u; /* splitmix64 */

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static uint64_t seed_of(const char *line, int arg)
{
    uint64_t h = 14695981039346656037u;

    for (; *line; line++)
        h = (h ^ (unsigned char)*line) * 1099511628211u;
    return h + (uint64_t)arg;
}

static void fill(Tensor *t, const CaseArg *a, uint64_t seed)
{
    bool real = dtype_is_float(t->dtype);
    double lo = a->has_range ? a->lo : real ? -2 : DTYPE_BIT(t->dtype) & DTYPES_SIGNED ? -9 : 0;
    double hi = a->has_range ? a->hi : real ? 2 : t->dtype == DT_BOOL ? 1 : 9;

    for (int64_t i = 0; i < tensor_numel(t); i++) {
        uint64_t r = next_random(&seed);

        if (real) /* exact in float32, whatever the type */
            tensor_set_float(t, i, (double)(float)(lo + (hi - lo) * ((double)(r >> 11) * 0x1p-53)));
        else
            tensor_set_int(t, i, (int64_t)lo + (int64_t)(r % (uint64_t)((int64_t)hi - (int64_t)lo + 1)));
    }
}

Status case_inputs(Tensor **in, Arena *a, const Case *c, DType f)
{
    for (int i = 0; i < c->n_arg; i++) {
        in[i] = NULL;
        if (c->arg[i].absent || c->arg[i].n_value)
            continue;
        if (!(in[i] = tensor_create(a, arg_dtype(&c->arg[i], f), &c->arg[i].shape)))
            return FAIL_NOMEM();
        fill(in[i], &c->arg[i], seed_of(c->line, i));
    }
    return ST_OK;
}

/* ---- where its values lie ---- */

bool case_set_layouts(const Graph *g, const Node *n, Layout to)
{
    bool any = false;

    for (int i = 0; i < n->n_in + n->n_out; i++) {
        ValueId v = i < n->n_in ? n->in[i] : n->out[i - n->n_in];

        if (!has_value(v) || (to != LAYOUT_ROWS && !layout_suits(to, value(g, v)->shape)))
            continue;
        value(g, v)->layout = to;
        any = true;
    }
    return any;
}

bool case_filters_by_rows(const Graph *g, const Node *n)
{
    bool any = false;

    for (int i = 0; i < n->n_in + n->n_out; i++) {
        const bool written = i >= n->n_in;
        const int at = written ? i - n->n_in : i;
        const ValueId v = written ? n->out[at] : n->in[at];

        if (at >= 8 || !((written ? n->op->filter_out : n->op->filter_in) >> at & 1) || !has_value(v))
            continue;
        any |= value(g, v)->layout != LAYOUT_ROWS;
        value(g, v)->layout = LAYOUT_ROWS;
    }
    return any;
}
