/* The printer of the text form: a line for each input, state, constant, node, update and output, in this order.  Bodies
 * of nodes stand within the node's line.
 *
 * Attributes with their default and default node names are left out, because the parser fills them in.  Numbers read
 * back to the same bits. */
#include "graph/text/print.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "graph/base/foreign.h"
#include "graph/base/numtext.h"
#include "graph/ir/op.h"

enum { SPLAT_FROM = 5 }; /* this many equal elements are written once */

typedef struct {
    FILE *f;
    const Graph *g;
    PrintOptions opt;
    bool body; /* a node's body: no ends of lines, and no unknown types */
} Printer;

/* ---- names ---- */

static void print_quoted(FILE *f, const char *s)
{
    putc('"', f);
    for (int n; *s; s += n ? n : 1) {
        n = foreign_length(s);
        if (*s == '"' || *s == '\\')
            fprintf(f, "\\%c", *s);
        else if (n)
            fwrite(s, 1, (size_t)n, f);
        else
            fprintf(f, "\\x%02x", (unsigned char)*s);
    }
    putc('"', f);
}

/* isalnum would depend on the locale. */
#define LETTERS_AND_DIGITS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"

/* Does the name need no quotes?  It may have letters, digits and characters of `also`. */
static bool is_bare(const char *s, const char *also)
{
    if (!*s)
        return false;
    for (; *s; s++)
        if (!strchr(LETTERS_AND_DIGITS, *s) && !strchr(also, *s))
            return false;
    return true;
}

static void print_value(Printer *p, ValueId v)
{
    const char *name;

    if (!has_value(v)) {
        putc('_', p->f);
        return;
    }
    putc('%', p->f);
    name = value(p->g, v)->name;
    is_bare(name, "_./-@") ? (void)fputs(name, p->f) : print_quoted(p->f, name);
}

/* ---- types ---- */

static void print_type(Printer *p, DType dtype, const Shape *s, const char *const *dim_param)
{
    fputs(dtype_name(dtype), p->f);
    if (s->rank < 0) {
        fputs("[*]", p->f);
        return;
    }
    putc('[', p->f);
    for (int i = 0; i < s->rank; i++) {
        if (i)
            putc(',', p->f);
        if (dim_param && dim_param[i]) {
            print_quoted(p->f, dim_param[i]);
            putc('=', p->f);
        }
        if (s->dim[i] < 0)
            putc('?', p->f);
        else
            fprintf(p->f, "%" PRId64, s->dim[i]);
    }
    putc(']', p->f);
}

static void print_layout(Printer *p, const Value *v)
{
    if (v->layout != LAYOUT_ROWS)
        fprintf(p->f, " %s", layout_name(v->layout));
}

static void print_place(Printer *p, int replica, int device)
{
    if (replica >= 0)
        fprintf(p->f, " @r%d", replica);
    if (device >= 0)
        fprintf(p->f, replica >= 0 ? " d%d" : " @d%d", device);
}

const char *text_default_logical(char *out, const char *name)
{
    const char *at = strrchr(name, '@');

    if (!at || at == name || (at[1] != 'r' && at[1] != 'd') || !at[2] || strspn(at + 2, "0123456789") != strlen(at + 2))
        return NULL;
    memcpy(out, name, (size_t)(at - name));
    out[at - name] = '\0';
    return out;
}

const char *text_default_node_name(const Graph *g, const Node *n)
{
    for (int i = 0; i < n->n_out; i++)
        if (has_value(n->out[i]))
            return value_logical_name(value(g, n->out[i]));
    return n->op->name;
}

/* Prints which value v is a copy of, unless its name shows it. */
static Status print_logical(Printer *p, const Value *v)
{
    char *prefix = malloc(strlen(v->name) + 1);
    const char *expected;

    if (!prefix)
        return FAIL_NOMEM();
    expected = text_default_logical(prefix, v->name);
    if (!v->logical && expected)
        fputs(" of none", p->f);
    if (v->logical && (!expected || strcmp(v->logical, expected))) {
        fputs(" of ", p->f);
        print_quoted(p->f, v->logical);
    }
    free(prefix);
    return ST_OK;
}

/* ---- data ---- */

/* Prints the bits of a NaN only if they are not the usual ones. */
static void print_nan(FILE *f, uint64_t bits, uint64_t usual)
{
    fputs("nan", f);
    if (bits != usual)
        fprintf(f, ":%" PRIx64, bits);
}

/* Prints a float; for a float16 or bfloat16, `usual_16` is its usual NaN and `bits_of_16` its bits, otherwise both are
 * 0. */
static void print_f32(FILE *f, const void *at, uint64_t bits_of_16, uint64_t usual_16)
{
    char text[NUMBER_TEXT];
    uint32_t bits;
    float v;

    memcpy(&v, at, 4);
    memcpy(&bits, at, 4);
    if (!isnan(v))
        fputs(text_float32(text, v), f);
    else
        usual_16 ? print_nan(f, bits_of_16, usual_16) : print_nan(f, bits, 0x7fc00000);
}

static void print_f64(FILE *f, const void *at)
{
    char text[NUMBER_TEXT];
    uint64_t bits;
    double v;

    memcpy(&v, at, 8);
    memcpy(&bits, at, 8);
    isnan(v) ? print_nan(f, bits, 0x7ff8000000000000) : (void)fputs(text_float64(text, v), f);
}

static void print_element(FILE *f, const Tensor *t, int64_t i)
{
    static const char zero[16];
    const char *at = t->data ? (const char *)t->data + (size_t)i * dtype_size(t->dtype) : zero;
    const Tensor one = { t->dtype, { 0 }, (void *)(uintptr_t)at };
    uint16_t half = 0;
    float v;

    if (t->dtype == DT_FLOAT16 || t->dtype == DT_BFLOAT16)
        memcpy(&half, at, 2);
    switch (t->dtype) {
    case DT_FLOAT16:
        v = half_to_float(half);
        print_f32(f, &v, half, 0x7e00);
        break;
    case DT_BFLOAT16:
        v = bfloat_to_float(half);
        print_f32(f, &v, half, 0x7fc0);
        break;
    case DT_FLOAT32: print_f32(f, at, 0, 0); break;
    case DT_FLOAT64: print_f64(f, at); break;
    case DT_COMPLEX64:
        print_f32(f, at, 0, 0);
        fputs(", ", f);
        print_f32(f, at + 4, 0, 0);
        break;
    case DT_COMPLEX128:
        print_f64(f, at);
        fputs(", ", f);
        print_f64(f, at + 8);
        break;
    case DT_UINT64: fprintf(f, "%" PRIu64, (uint64_t)tensor_int(&one, 0)); break;
    case DT_FLOAT8E4M3FN: /* their bits, as NaN has several */
    case DT_FLOAT8E4M3FNUZ:
    case DT_FLOAT8E5M2:
    case DT_FLOAT8E5M2FNUZ:
    case DT_FLOAT4E2M1:
    case DT_FLOAT8E8M0: fprintf(f, "%d", *(const uint8_t *)at); break;
    default: fprintf(f, "%" PRId64, tensor_int(&one, 0)); break;
    }
}

static bool is_splat(const Tensor *t, int64_t n)
{
    size_t size = dtype_size(t->dtype);

    return n >= SPLAT_FROM && size && t->dtype != DT_COMPLEX64 && t->dtype != DT_COMPLEX128 &&
           (!t->data || !memcmp(t->data, (const char *)t->data + size, (size_t)(n - 1) * size));
}

static void print_data(Printer *p, const Tensor *t)
{
    int64_t n = dtype_size(t->dtype) && t->dtype != DT_STRING ? tensor_numel(t) : 0;
    int64_t shown = p->opt.max_elements && n > p->opt.max_elements ? p->opt.max_elements : n;

    if (is_splat(t, n)) {
        fputs("all ", p->f);
        print_element(p->f, t, 0);
        return;
    }
    putc('{', p->f);
    for (int64_t i = 0; i < shown; i++) {
        if (i)
            fputs(", ", p->f);
        print_element(p->f, t, i);
    }
    fputs(shown < n ? ", ...}" : "}", p->f);
}

/* ---- attributes ---- */

static Status print_body(const Printer *outer, const Graph *body);

/* Prints a float attribute, with ".0" if it would look like an integer. */
static void print_float(FILE *f, double v)
{
    char text[NUMBER_TEXT];

    print_f64(f, &v);
    if (!isnan(v) && !strpbrk(text_float64(text, v), ".einf"))
        fputs(".0", f);
}

static void print_list(Printer *p, const Attr *a)
{
    if (!a->n && a->type != A_INTS)
        fputs(a->type == A_FLOATS ? "floats" : "strings", p->f);
    putc('[', p->f);
    for (int i = 0; i < a->n; i++) {
        if (i)
            putc(',', p->f);
        if (a->type == A_INTS)
            fprintf(p->f, "%" PRId64, a->ints[i]);
        else if (a->type == A_FLOATS)
            print_float(p->f, a->floats[i]);
        else
            print_quoted(p->f, a->strings[i]);
    }
    putc(']', p->f);
}

static Status print_attr_value(Printer *p, const Attr *a)
{
    switch (a->type) {
    case A_INT: fprintf(p->f, "%" PRId64, a->i); break;
    case A_FLOAT: print_float(p->f, a->f); break;
    case A_STRING: a->s ? print_quoted(p->f, a->s) : (void)fputs("string", p->f); break;
    case A_INTS:
    case A_FLOATS:
    case A_STRINGS: print_list(p, a); break;
    case A_TENSOR:
        if (!a->tensor) {
            fputs("tensor", p->f);
            break;
        }
        print_type(p, a->tensor->dtype, &a->tensor->shape, NULL);
        putc(' ', p->f);
        print_data(p, a->tensor);
        break;
    case A_GRAPH:
        if (a->graph)
            return print_body(p, a->graph);
        fputs("graph", p->f);
        break;
    case A_NONE: fputs("none", p->f); break;
    }
    return ST_OK;
}

/* Is it the declared default, to the bit?  attr_is_default of graph/ir/op.h takes -0 for 0. */
static bool is_default(const AttrDecl *d, const Attr *a)
{
    if (d->rule == ATTR_REQUIRED || d->type != a->type)
        return false;
    switch (a->type) {
    case A_INT: return a->i == d->i;
    case A_FLOAT: return !memcmp(&a->f, &d->f, sizeof a->f);
    case A_STRING: return a->s && d->s ? !strcmp(a->s, d->s) : a->s == d->s;
    case A_TENSOR: return !a->tensor;
    case A_GRAPH: return !a->graph;
    default: return !a->n;
    }
}

static Status print_attr(Printer *p, const Attr *a, int *n)
{
    fputs((*n)++ ? ", " : " {", p->f);
    is_bare(a->name, "_") && !isdigit((unsigned char)a->name[0]) ? (void)fputs(a->name, p->f)
                                                                 : print_quoted(p->f, a->name);
    putc('=', p->f);
    return print_attr_value(p, a);
}

/* Prints attributes in the order of their declaration, then those that are not declared. */
static Status print_attrs(Printer *p, const Node *n)
{
    int shown = 0;

    for (const AttrDecl *d = n->op->attrs; d && d->name; d++) {
        const Attr *a = node_attr(n, d->name);

        if (a && !is_default(d, a))
            TRY(print_attr(p, a, &shown));
    }
    for (int i = 0; i < n->n_attr; i++)
        if (!op_attr_decl(n->op, n->attr[i].name))
            TRY(print_attr(p, &n->attr[i], &shown));
    if (shown)
        putc('}', p->f);
    return ST_OK;
}

/* ---- lines ---- */

static Status print_declaration(Printer *p, const char *word, ValueId id)
{
    static const char *const matrix[] = { "", " out_in", " in_out", " flat" };
    const Value *v = value(p->g, id);

    fprintf(p->f, p->body ? " %s " : "  %s ", word);
    print_value(p, id);
    if (v->kind == V_STATE)
        fprintf(p->f, "%s%s%s%s%s", v->trainable ? " trainable" : "", v->undecayed ? " undecayed" : "",
                matrix[v->matrix], v->transient ? " transient" : "", v->partial ? " partial" : "");
    if (v->member)
        fputs(" member", p->f);
    if (v->next) {
        fputs(" next ", p->f);
        print_quoted(p->f, v->next);
    }
    fputs(" : ", p->f);
    print_type(p, v->dtype, v->shape, v->dim_param);
    print_layout(p, v);
    TRY(print_logical(p, v));
    if (v->shard) {
        fprintf(p->f, " from %" PRId64 " of ", v->shard->from);
        print_type(p, v->dtype, &v->shard->whole, NULL);
    }
    print_place(p, v->replica, v->device);
    if (v->init && !p->opt.no_init) {
        fputs(" = ", p->f);
        print_data(p, v->init);
    }
    if (!p->body)
        putc('\n', p->f);
    return ST_OK;
}

static void print_known_type(Printer *p, const Value *v)
{
    if (!p->body || v->dtype != DT_NONE || shape_known(v->shape)) {
        fputs(" : ", p->f);
        print_type(p, v->dtype, v->shape, NULL);
    }
    print_layout(p, v);
}

static Status print_outputs(Printer *p, const Node *n)
{
    fputs(p->body ? " " : "  ", p->f);
    for (int i = 0; i < n->n_out; i++) {
        const Value *v = has_value(n->out[i]) ? value(p->g, n->out[i]) : NULL;

        if (i)
            fputs(", ", p->f);
        print_value(p, n->out[i]);
        if (!v)
            continue;
        print_known_type(p, v);
        TRY(print_logical(p, v));
        if (v->replica == n->replica && v->device == n->device)
            continue;
        if (v->replica < 0 && v->device < 0)
            fputs(" @none", p->f);
        print_place(p, v->replica, v->device);
    }
    fputs(n->n_out ? " = " : "_ = ", p->f);
    return ST_OK;
}

static Status print_node(Printer *p, const Node *n)
{
    TRY(print_outputs(p, n));
    if (n->op->domain)
        fprintf(p->f, "%s.", n->op->domain);
    fprintf(p->f, "%s(", n->op->name);
    for (int i = 0; i < n->n_in; i++) {
        if (i)
            fputs(", ", p->f);
        print_value(p, n->in[i]);
    }
    putc(')', p->f);
    TRY(print_attrs(p, n));
    if (!p->opt.no_node_names && strcmp(text_default_node_name(p->g, n), n->name)) {
        putc(' ', p->f);
        print_quoted(p->f, n->name);
    }
    print_place(p, n->replica, n->device);
    if (!p->body)
        putc('\n', p->f);
    return ST_OK;
}

/* Prints states and constants. */
static Status print_kept(Printer *p)
{
    const Graph *g = p->g;

    for (uint32_t i = 1; i < g->n_value; i++)
        if (g->value[i]->kind == V_STATE || g->value[i]->kind == V_CONST)
            TRY(print_declaration(p, g->value[i]->kind == V_STATE ? "state" : "const", (ValueId){ i }));
    return ST_OK;
}

/* Prints a body: graph(%x, %y) { %z = Add(%x, %y) return %z } */
static Status print_body(const Printer *outer, const Graph *body)
{
    Printer p = { .f = outer->f, .g = body, .opt = outer->opt, .body = true };

    fputs("graph(", p.f);
    for (int i = 0; i < body->n_input; i++) {
        fputs(i ? ", " : "", p.f);
        print_value(&p, body->input[i]);
        print_known_type(&p, value(body, body->input[i]));
    }
    fputs(") {", p.f);
    TRY(print_kept(&p));
    FOR_NODES(body, n)
        TRY(print_node(&p, n));
    for (int i = 0; i < body->n_output; i++) {
        fputs(i ? ", " : " return ", p.f);
        print_value(&p, body->output[i].value);
    }
    fputs(" }", p.f);
    return ST_OK;
}

Status graph_print(FILE *f, const Graph *g, const PrintOptions *opt)
{
    Printer p = { .f = f, .g = g, .opt = opt ? *opt : (PrintOptions){ 0 } };

    fputs("graph ", f);
    print_quoted(f, g->name);
    fputs(" {\n", f);
    for (int i = 0; i < g->n_input; i++)
        TRY(print_declaration(&p, "input", g->input[i]));
    TRY(print_kept(&p));
    FOR_NODES(g, n)
        TRY(print_node(&p, n));
    for (int i = 0; i < g->n_update; i++) {
        fputs("  update ", f);
        print_value(&p, g->update[i].state);
        fputs(" := ", f);
        print_value(&p, g->update[i].next);
        putc('\n', f);
    }
    for (int i = 0; i < g->n_output; i++) {
        fputs("  output ", f);
        print_quoted(f, g->output[i].name);
        fputs(" = ", f);
        print_value(&p, g->output[i].value);
        putc('\n', f);
    }
    fputs("}\n", f);
    return ferror(f) ? FAIL(E_IO, "writing the text of graph '%s' failed", g->name) : ST_OK;
}

Status graph_text(char **out, const Graph *g, const PrintOptions *opt)
{
    char *text = NULL;
    size_t len;
    FILE *f = open_memstream(&text, &len);
    Status st;

    if (!f)
        return FAIL_NOMEM();
    st = graph_print(f, g, opt);
    if (fclose(f) && !st)
        st = FAIL_NOMEM();
    if (st) {
        free(text);
        return st;
    }
    *out = text;
    return ST_OK;
}
