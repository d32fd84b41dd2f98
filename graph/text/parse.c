/* The parser of the text form: a function for each statement and each part of one.  Only bodies of nodes nest. */
#include "graph/text/parse.h"

#include <string.h>

#include "graph/ir/body.h"
#include "graph/ir/op.h"
#include "graph/text/parser.h"
#include "graph/text/print.h"

enum { MAX_PORTS = 1 << 16, MAX_NESTING = 64 };

/* Parses @r0 d1, @r0, @d1, @none or nothing. */
static Status parse_place(Parser *p, int16_t *replica, int16_t *device)
{
    bool found;

    TRY(parse_accept(p, "@", &found));
    if (!found)
        return ST_OK;
    *replica = *device = -1;
    TRY(parse_accept_word(p, "none", &found));
    if (found)
        return ST_OK;
    for (int i = 0; i < 2; i++) {
        int64_t n;
        char letter = p->tok.text[0];

        if (p->tok.kind != T_WORD || (letter != 'r' && letter != 'd') || !parse_int_text(&n, p->tok.text + 1) ||
            n < 0 || n >= (letter == 'r' ? MAX_REPLICAS : 2 * MAX_DEVICES)) {
            if (i)
                return ST_OK;
            return parse_expected(p, "r0 or d0");
        }
        *(letter == 'r' ? replica : device) = (int16_t)n;
        TRY(parse_next(p));
    }
    return ST_OK;
}

/* ---- attributes ---- */

/* Parses a list whose first element sets the type; of an empty list, a->type is set already ("floats", "strings"). */
static Status parse_list(Parser *p, Attr *a)
{
    size_t cap_i = 0, cap_f = 0, cap_s = 0;
    int64_t *ints = NULL;
    double *floats = NULL;
    const char **strings = NULL;

    TRY(parse_punct(p, "["));
    while (!at_punct(p, "]")) {
        if (a->n)
            TRY(parse_punct(p, ","));
        ints = arena_grow(p->g->arena, ints, sizeof *ints, (size_t)a->n, &cap_i);
        floats = arena_grow(p->g->arena, floats, sizeof *floats, (size_t)a->n, &cap_f);
        strings = arena_grow(p->g->arena, strings, sizeof *strings, (size_t)a->n, &cap_s);
        if (!ints || !floats || !strings)
            return FAIL_NOMEM();
        if (!a->n)
            a->type = p->tok.kind == T_STRING                                            ? A_STRINGS
                      : p->tok.kind == T_NUMBER && parse_int_text(&ints[0], p->tok.text) ? A_INTS
                                                                                         : A_FLOATS;
        if (a->type == A_STRINGS)
            TRY(parse_string(p, &strings[a->n], "a string"));
        else if (a->type == A_INTS)
            TRY(parse_integer(p, &ints[a->n]));
        else
            TRY(parse_float64(p, &floats[a->n]));
        a->n++;
    }
    a->ints = ints;
    a->floats = floats;
    a->strings = strings;
    return parse_next(p);
}

static Status body(Parser *p, Attr *a);

static Status attr_value(Parser *p, Attr *a)
{
    DType dtype;
    Shape s;
    Tensor *t;
    bool found;

    if (p->tok.kind == T_STRING) {
        a->type = A_STRING;
        return parse_string(p, &a->s, "a string");
    }
    if (p->tok.kind == T_NUMBER && parse_int_text(&a->i, p->tok.text)) {
        a->type = A_INT;
        return parse_next(p);
    }
    if (p->tok.kind == T_NUMBER || at_word(p, "nan") || at_word(p, "inf")) {
        a->type = A_FLOAT;
        return parse_float64(p, &a->f);
    }
    if (at_punct(p, "[")) {
        a->type = A_INTS;
        return parse_list(p, a);
    }
    TRY(parse_accept_word(p, "string", &found));
    a->type = A_STRING;
    if (found)
        return ST_OK;
    TRY(parse_accept_word(p, "tensor", &found));
    a->type = A_TENSOR;
    if (found)
        return ST_OK;
    TRY(parse_accept_word(p, "graph", &found));
    if (found)
        return body(p, a);
    a->type = at_word(p, "floats") ? A_FLOATS : at_word(p, "strings") ? A_STRINGS : A_NONE;
    if (a->type != A_NONE) {
        TRY(parse_next(p));
        return parse_list(p, a);
    }
    TRY(parse_type(p, &dtype, &s, NULL));
    TRY(parse_data(p, &t, dtype, &s));
    a->type = A_TENSOR;
    a->tensor = t;
    return ST_OK;
}

static Status attributes(Parser *p, Node *n)
{
    bool found;

    TRY(parse_accept(p, "{", &found));
    if (!found)
        return ST_OK;
    while (!at_punct(p, "}")) {
        Attr a = { 0 };

        if (n->n_attr)
            TRY(parse_punct(p, ","));
        if (p->tok.kind != T_WORD && p->tok.kind != T_STRING)
            return parse_expected(p, "the name of an attribute");
        a.name = p->tok.text;
        if (node_attr(n, a.name))
            return FAIL(E_MODEL, "line %d: attribute '%s' is given twice", p->tok.line, a.name);
        TRY(parse_next(p));
        TRY(parse_punct(p, "="));
        TRY(attr_value(p, &a));
        node_set_attr(p->g, n, &a);
        TRY(p->g->status);
    }
    return parse_next(p);
}

/* ---- lines ---- */

static Status new_name(Parser *p, const char **out)
{
    if (p->tok.kind != T_VALUE)
        return parse_expected(p, "%name");
    if (!*p->tok.text)
        return FAIL(E_MODEL, "line %d: an empty name", p->tok.line);
    if (has_value(graph_find(p->g, p->tok.text)))
        return FAIL(E_MODEL, "line %d: %%%s is defined twice", p->tok.line, p->tok.text);
    *out = p->tok.text;
    return parse_next(p);
}

static Status used_value(Parser *p, ValueId *out, bool may_be_absent)
{
    *out = NO_VALUE;
    if (may_be_absent && at_word(p, "_"))
        return parse_next(p);
    if (p->tok.kind != T_VALUE)
        return parse_expected(p, may_be_absent ? "%name or _" : "%name");
    *out = graph_find(p->g, p->tok.text);
    if (!has_value(*out))
        return FAIL(E_MODEL, "line %d: %%%s is not defined before it is used", p->tok.line, p->tok.text);
    return parse_next(p);
}

/* Parses of "name", of none, or nothing: then the value's own name, `own`, gives it. */
static Status logical(Parser *p, const char **out, const char *own)
{
    const char *name;
    char *copy;
    bool given, none;

    if (!(copy = arena_alloc(p->g->arena, strlen(own) + 1)))
        return FAIL_NOMEM();
    *out = text_default_logical(copy, own);
    TRY(parse_accept_word(p, "of", &given));
    if (!given)
        return ST_OK;
    *out = NULL;
    TRY(parse_accept_word(p, "none", &none));
    if (none)
        return ST_OK;
    TRY(parse_string(p, &name, "a name in quotes"));
    *out = arena_strdup(p->g->arena, name);
    return *out ? ST_OK : FAIL_NOMEM();
}

static Status parse_layout(Parser *p, Layout *out)
{
    bool found = false;

    for (int l = 0; l < N_LAYOUTS && !found; l++) {
        TRY(parse_accept_word(p, layout_name((Layout)l), &found));
        *out = found ? (Layout)l : LAYOUT_ROWS;
    }
    return ST_OK;
}

/* Parses "from 4096 of float32[80,60]", if it is there: the state holds elements 4096, 4097, ... of such a tensor. */
static Status shard(Parser *p, const Shard **out, DType dtype)
{
    Shard *s;
    DType of;
    bool given;

    TRY(parse_accept_word(p, "from", &given));
    if (!given)
        return ST_OK;
    if (!(s = ARENA_NEW(p->g->arena, Shard, 1)))
        return FAIL_NOMEM();
    TRY(parse_integer(p, &s->from));
    TRY(parse_accept_word(p, "of", &given));
    if (!given)
        return parse_expected(p, "of");
    TRY(parse_type(p, &of, &s->whole, NULL));
    *out = s;
    return of == dtype
               ? ST_OK
               : FAIL(E_MODEL, "line %d: elements of %s, expected %s", p->tok.line, dtype_name(of), dtype_name(dtype));
}

/* Parses "next" and an output's name, if it is there. */
static Status next(Parser *p, const char **out)
{
    bool found;

    TRY(parse_accept_word(p, "next", &found));
    if (!found)
        return ST_OK;
    if (p->tok.kind != T_STRING)
        return parse_expected(p, "the name of an output");
    if (!(*out = arena_strdup(p->g->arena, p->tok.text)))
        return FAIL_NOMEM();
    return parse_next(p);
}

/* Parses an input, state or constant, after that word. */
static Status declaration(Parser *p, ValueKind kind)
{
    const char *name = NULL, *params[MAX_RANK] = { NULL };
    bool has_data, trainable = false, undecayed = false, transient = false, partial = false, member = false;
    bool matrix[3] = { false };
    Tensor *init = NULL;
    Value v = { .replica = -1, .device = -1 };
    Shape shape;
    ValueId id;

    TRY(new_name(p, &name));
    if (kind == V_STATE) {
        TRY(parse_accept_word(p, "trainable", &trainable));
        TRY(parse_accept_word(p, "undecayed", &undecayed));
        TRY(parse_accept_word(p, "out_in", &matrix[0]));
        TRY(parse_accept_word(p, "in_out", &matrix[1]));
        TRY(parse_accept_word(p, "flat", &matrix[2]));
        TRY(parse_accept_word(p, "transient", &transient));
        TRY(parse_accept_word(p, "partial", &partial));
    }
    if (kind == V_INPUT)
        TRY(parse_accept_word(p, "member", &member));
    else
        TRY(next(p, &v.next));
    TRY(parse_punct(p, ":"));
    TRY(parse_type(p, &v.dtype, &shape, kind == V_INPUT ? params : NULL));
    TRY(parse_layout(p, &v.layout));
    TRY(logical(p, &v.logical, name));
    if (kind == V_STATE)
        TRY(shard(p, &v.shard, v.dtype));
    TRY(parse_place(p, &v.replica, &v.device));
    TRY(parse_accept(p, "=", &has_data));
    if (has_data)
        TRY(parse_data(p, &init, v.dtype, &shape));
    if (has_data != (kind != V_INPUT))
        return FAIL(E_MODEL, "line %d: %%%s: %s", p->tok.line, name,
                    has_data ? "an input has no data" : "expected '=' and data");
    id = kind == V_INPUT ? graph_add_input(p->g, name, v.dtype, &shape) : graph_add_const_nocopy(p->g, name, init);
    TRY(p->g->status);
    value(p->g, id)->kind = kind;
    value(p->g, id)->trainable = trainable;
    value(p->g, id)->undecayed = undecayed;
    value(p->g, id)->matrix = matrix[0] ? 1 : matrix[1] ? 2 : matrix[2] ? 3 : 0;
    value(p->g, id)->transient = transient;
    value(p->g, id)->partial = partial;
    value(p->g, id)->member = member;
    value(p->g, id)->layout = v.layout;
    value(p->g, id)->logical = v.logical;
    value(p->g, id)->next = v.next;
    value(p->g, id)->shard = v.shard;
    value(p->g, id)->replica = v.replica;
    value(p->g, id)->device = v.device;
    for (int i = 0; i < shape.rank; i++)
        if (params[i] && !value(p->g, id)->dim_param &&
            !(value(p->g, id)->dim_param = arena_memdup(p->g->arena, params, sizeof params)))
            return FAIL_NOMEM();
    return ST_OK;
}

/* Parses a node's outputs into *out [*n], fields of values: name "" for an absent one; shape NULL without a type;
 * device -2: that of the node. */
static Status outputs(Parser *p, Value **out, int *n)
{
    size_t cap = 0;
    bool more = true, given;

    for (*out = NULL, *n = 0; more; ++*n) {
        Value *v = *out = arena_grow(p->lex.arena, *out, sizeof *v, (size_t)*n, &cap);
        Shape shape;

        if (!v)
            return FAIL_NOMEM();
        v += *n;
        *v = (Value){ .name = "", .replica = -2, .device = -2 };
        if (at_word(p, "_")) {
            TRY(parse_next(p));
        } else {
            TRY(new_name(p, &v->name));
            for (int i = 0; i < *n; i++)
                if (!strcmp((*out)[i].name, v->name))
                    return FAIL(E_MODEL, "line %d: %%%s is defined twice", p->tok.line, v->name);
            TRY(parse_accept(p, ":", &given));
            if (given)
                TRY(parse_type(p, &v->dtype, &shape, NULL));
            if (given && !(v->shape = arena_memdup(p->lex.arena, &shape, sizeof shape)))
                return FAIL_NOMEM();
            TRY(parse_layout(p, &v->layout));
            TRY(logical(p, &v->logical, v->name));
            TRY(parse_place(p, &v->replica, &v->device));
        }
        if (*n > MAX_PORTS)
            return FAIL(E_MODEL, "line %d: more than %d outputs", p->tok.line, MAX_PORTS);
        TRY(parse_accept(p, ",", &more));
    }
    return ST_OK;
}

/* Parses an operator's Name, or domain.Name. */
static Status op_name(Parser *p, const OpDef **op)
{
    const char *dot;
    char domain[64] = "";
    size_t len;

    if (p->tok.kind != T_WORD)
        return parse_expected(p, "an operator");
    dot = strrchr(p->tok.text, '.');
    len = dot ? (size_t)(dot - p->tok.text) : 0;
    if (len < sizeof domain)
        memcpy(domain, p->tok.text, len);
    if (len >= sizeof domain || !(*op = op_find(domain, dot ? dot + 1 : p->tok.text)))
        return FAIL(E_MODEL, "line %d: unknown operator '%.80s'", p->tok.line, p->tok.text);
    return parse_next(p);
}

static Status inputs(Parser *p, ValueId **out, int *n)
{
    size_t cap = 0;

    *out = NULL;
    *n = 0;
    TRY(parse_punct(p, "("));
    while (!at_punct(p, ")")) {
        if (*n)
            TRY(parse_punct(p, ","));
        if (*n > MAX_PORTS)
            return FAIL(E_MODEL, "line %d: more than %d inputs", p->tok.line, MAX_PORTS);
        if (!(*out = arena_grow(p->lex.arena, *out, sizeof **out, (size_t)*n, &cap)))
            return FAIL_NOMEM();
        TRY(used_value(p, &(*out)[(*n)++], true));
    }
    return parse_next(p);
}

/* Gives the node's outputs the place, original and layout that were parsed. */
static void copy_marks(Graph *g, Node *n, const Value *out)
{
    for (int i = 0; i < n->n_out; i++) {
        const Value *parsed = &out[i];
        Value *v = has_value(n->out[i]) ? value(g, n->out[i]) : NULL;

        if (!v)
            continue;
        v->replica = parsed->device == -2 ? n->replica : parsed->replica;
        v->device = parsed->device == -2 ? n->device : parsed->device;
        v->logical = parsed->logical;
        if (parsed->layout) /* otherwise the operator sets it */
            v->layout = parsed->layout;
    }
}

static Status node(Parser *p)
{
    int16_t replica = -1, device = -1;
    const OpDef *op = NULL;
    const char **names;
    bool typed = true;
    ValueId *in;
    Value *out;
    Node *n;
    Status st;
    int n_in, n_out, line = p->tok.line;

    TRY(outputs(p, &out, &n_out));
    if (!(names = ARENA_NEW(p->lex.arena, const char *, n_out)))
        return FAIL_NOMEM();
    for (int i = 0; i < n_out; i++) {
        names[i] = out[i].name;
        typed &= !*names[i] || out[i].shape;
    }
    TRY(parse_punct(p, "="));
    TRY(op_name(p, &op));
    TRY(inputs(p, &in, &n_in));
    if (!(n = graph_add_node(p->g, op, NULL, NULL, n_in, in, n_out, names)))
        return p->g->status;
    TRY(attributes(p, n));
    n->name = NULL;
    if (p->tok.kind == T_STRING) {
        if (!(n->name = arena_strdup(p->g->arena, p->tok.text)))
            return FAIL_NOMEM();
        TRY(parse_next(p));
    }
    TRY(parse_place(p, &replica, &device));
    n->replica = replica;
    n->device = device;
    copy_marks(p->g, n, out);
    if (!n->name)
        n->name = text_default_node_name(p->g, n);
    if (!(st = node_normalise(p->g, n)) && !typed)
        st = node_infer(p->g, n);
    if (st)
        return status_prefix(st, "line %d", line);
    for (int i = 0; typed && i < n->n_out; i++)
        if (has_value(n->out[i]))
            set_out(p->g, n, i, out[i].dtype, out[i].shape);
    return p->g->status;
}

static Status update(Parser *p)
{
    ValueId state, new_state;
    int line = p->tok.line;

    TRY(used_value(p, &state, false));
    if (value(p->g, state)->kind != V_STATE && value(p->g, state)->kind != V_CONST)
        return FAIL(E_MODEL, "line %d: expected a state before ':='", line);
    TRY(parse_punct(p, ":="));
    TRY(used_value(p, &new_state, false));
    graph_add_update(p->g, state, new_state);
    return p->g->status;
}

static Status output(Parser *p)
{
    const char *name;
    ValueId v;

    TRY(parse_string(p, &name, "the output's name in quotes"));
    TRY(parse_punct(p, "="));
    TRY(used_value(p, &v, false));
    graph_add_output(p->g, name, v);
    return p->g->status;
}

static Status statement(Parser *p)
{
    static const struct {
        const char *word;
        ValueKind kind;
    } kinds[] = { { "input", V_INPUT }, { "state", V_STATE }, { "const", V_CONST } };
    bool found;

    if (p->tok.kind == T_VALUE || at_word(p, "_"))
        return node(p);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        TRY(parse_accept_word(p, kinds[i].word, &found));
        if (found)
            return declaration(p, kinds[i].kind);
    }
    TRY(parse_accept_word(p, "update", &found));
    if (found)
        return update(p);
    TRY(parse_accept_word(p, "output", &found));
    if (found)
        return output(p);
    return parse_expected(p, "input, state, const, update, output, %name or '}'");
}

/* ---- bodies ---- */

static Status body_inputs(Parser *p)
{
    TRY(parse_punct(p, "("));
    while (!at_punct(p, ")")) {
        const char *name = NULL;
        Value v = { .dtype = DT_NONE };
        Shape shape = shape_unknown();
        bool given;
        ValueId id;

        if (p->g->n_input)
            TRY(parse_punct(p, ","));
        if (p->g->n_input > MAX_PORTS)
            return FAIL(E_MODEL, "line %d: more than %d inputs", p->tok.line, MAX_PORTS);
        TRY(new_name(p, &name));
        TRY(parse_accept(p, ":", &given));
        if (given)
            TRY(parse_type(p, &v.dtype, &shape, NULL));
        TRY(parse_layout(p, &v.layout));
        id = graph_add_input(p->g, name, v.dtype, &shape);
        TRY(p->g->status);
        value(p->g, id)->layout = v.layout;
    }
    return parse_next(p);
}

static Status body_lines(Parser *p)
{
    bool found = false, more = true;
    ValueId v;

    TRY(body_inputs(p));
    TRY(parse_punct(p, "{"));
    while (!found) {
        if (p->tok.kind == T_VALUE || at_word(p, "_")) {
            TRY(node(p));
            continue;
        }
        TRY(parse_accept_word(p, "const", &found));
        if (found) {
            TRY(declaration(p, V_CONST));
            found = false;
            continue;
        }
        TRY(parse_accept_word(p, "return", &found));
        if (!found)
            return parse_expected(p, "const, %name or return");
    }
    while (more) {
        TRY(used_value(p, &v, false));
        body_return(p->g, v);
        TRY(parse_accept(p, ",", &more));
    }
    TRY(p->g->status);
    return parse_punct(p, "}");
}

/* Parses a body, after the word "graph"; that word alone means no body.  The graph around owns the body. */
static Status body(Parser *p, Attr *a)
{
    Graph *outer = p->g;
    Status st;

    a->type = A_GRAPH;
    if (!at_punct(p, "("))
        return ST_OK;
    if (p->depth == MAX_NESTING)
        return FAIL(E_MODEL, "line %d: bodies nest more than %d deep", p->tok.line, MAX_NESTING);
    if (!(p->g = graph_create("body")))
        st = FAIL_NOMEM();
    else {
        p->depth++;
        st = body_lines(p);
        p->depth--;
    }
    if (!st) {
        a->graph = body_share(outer, p->g);
        st = outer->status;
    }
    graph_free(p->g);
    p->g = outer;
    return st;
}

/* ---- the whole ---- */

static Status parse(Parser *p)
{
    const char *name;

    TRY(parse_next(p));
    if (!at_word(p, "graph"))
        return parse_expected(p, "'graph'");
    TRY(parse_next(p));
    TRY(parse_string(p, &name, "the graph's name in quotes"));
    if (!(p->g = graph_create(name)))
        return FAIL_NOMEM();
    TRY(parse_punct(p, "{"));
    while (!at_punct(p, "}"))
        TRY(statement(p));
    TRY(parse_next(p));
    return p->tok.kind == T_END ? ST_OK : parse_expected(p, "the end");
}

Status graph_parse(Graph **out, const char *text, size_t len)
{
    Parser p = { .lex = { text, text + len, 1, arena_create() } };
    Status st = p.lex.arena ? parse(&p) : FAIL_NOMEM();

    arena_free(p.lex.arena);
    if (st)
        graph_free(p.g);
    else
        *out = p.g;
    return st;
}
