/* Parts of PyTorch's traced program that only the metadata of its export record: buffers that it updates, and detach
 * calls that an optimizer removed from the nodes.
 *
 * A line of the signature, "add: BUFFER_MUTATION target='center'", gives a buffer's next value; if the graph still has
 * that value, the buffer gets an update.
 *
 * h * h.detach() was exported as Mul(h, h); only the call in the node's metadata, mul(%h, %detach), distinguishes the
 * inputs.  If a call has an argument named as a result of detach that no node makes any more, the argument is an input
 * of the call's nodes.  That input is
 *
 * - the one value from outside of the call that no argument names; or
 * - at a node with as many inputs as there are arguments, the input at the argument's place, if all arguments that can
 *   be found are the inputs at their places.
 *
 * That input gets a StopGradient.  If it is not found, the node is marked (Node.lost_detach), for a warning. */
#include <string.h>

#include "graph/ir/stop_gradient.h"
#include "graph/ir/traced_calls.h"
#include "graph/onnx/importer.h"
#include "graph/ops/view.gen.h"

enum { MAX_ARGUMENTS = 64 };

typedef struct {
    Importer *im;
    const Body *b;
    Scope alias;   /* the program's names of values that have another name in the file */
    Scope stopped; /* by the name of a value: its StopGradient */
    bool any;      /* a detach was restored, or one is lost */
} Program;

/* One call: its nodes and arguments. */
typedef struct {
    const char *text;
    Node **node;
    int n_node;
    TextPart arg[MAX_ARGUMENTS];
    ValueId value[MAX_ARGUMENTS]; /* NO_VALUE: nothing in the file has the name */
    int n_arg;
} Call;

/* ---- names of the program ---- */

static Status add_alias(Program *d, TextPart name, ValueId v)
{
    const char *text = arena_printf(d->im->scratch, "%.*s", TEXT_PART(name));
    ScopeEntry *e = text ? scope_add(&d->alias, text) : NULL;

    if (!e)
        return FAIL_NOMEM();
    e->value = v;
    return ST_OK;
}

static const ScopeEntry *entry_of(const Program *d, TextPart name)
{
    const char *text = arena_printf(d->im->scratch, "%.*s", TEXT_PART(name));

    return text ? scope_find(&d->b->scope, text) : NULL;
}

/* Reads aliases from the signature.  The user's inputs go by their order, because files may rename them. */
static Status read_signature(Program *d)
{
    const Graph *g = d->im->g;
    const char *at = g->signature;
    SignatureLine line;

    for (int input = 0; signature_next(&line, &at);) {
        const ScopeEntry *e = line.target.n ? entry_of(d, line.target) : NULL;

        if (text_part_is(line.kind, "USER_INPUT") && input < g->n_input)
            TRY(add_alias(d, line.name, g->input[input++]));
        else if (e && has_value(e->value))
            TRY(add_alias(d, line.name, e->value));
    }
    return ST_OK;
}

/* Reads aliases of the user's outputs, by their order, if their number is that of the graph's outputs.  The first call,
 * with `rename` false, counts them. */
static Status read_outputs(Program *d, bool rename)
{
    const Graph *g = d->im->g;
    const char *at = g->signature;
    SignatureLine line;
    int n = 0;

    while (signature_next(&line, &at)) {
        if (!text_part_is(line.kind, "USER_OUTPUT"))
            continue;
        if (rename && !call_detaches(line.name))
            TRY(add_alias(d, line.name, g->output[n].value));
        n++;
        if (n > g->n_output)
            return ST_OK;
    }
    return n == g->n_output && !rename ? read_outputs(d, true) : ST_OK;
}

/* The value with that name in the program; NO_VALUE: none. */
static ValueId value_of(const Program *d, TextPart name)
{
    const ScopeEntry *e = entry_of(d, name);
    const char *text = arena_printf(d->im->scratch, "%.*s", TEXT_PART(name));

    if (!e || !has_value(e->value))
        e = text ? scope_find(&d->alias, text) : NULL;
    return e ? e->value : NO_VALUE;
}

/* ---- a call ---- */

static bool is_of(const Call *c, const Node *n) { return n && n->op && n->call && !strcmp(n->call, c->text); }

static Status read_call(Call *c, const Program *d, const char *text)
{
    const char *at = text;

    *c = (Call){ .text = text, .node = ARENA_NEW(d->im->scratch, Node *, d->im->g->n_node) };
    if (!c->node)
        return FAIL_NOMEM();
    FOR_NODES(d->im->g, n)
        if (is_of(c, n))
            c->node[c->n_node++] = n;
    while (c->n_arg < MAX_ARGUMENTS && call_next(&c->arg[c->n_arg], &at)) {
        c->value[c->n_arg] = value_of(d, c->arg[c->n_arg]);
        c->n_arg++;
    }
    return ST_OK;
}

static bool traced_program_is_named(const Call *c, ValueId v)
{
    for (int i = 0; i < c->n_arg; i++)
        if (value_eq(c->value[i], v))
            return true;
    return false;
}

/* Is v a constant that the exporter added, and no argument of the call? */
static bool is_made_up(const Program *d, const Call *c, ValueId v)
{
    if (value(d->im->g, v)->kind != V_CONST || traced_program_is_named(c, v))
        return false;
    for (size_t i = 0; i < d->alias.cap; i++)
        if (d->alias.slot[i].name && value_eq(d->alias.slot[i].value, v))
            return false;
    return true;
}

/* The value from outside of the call that v is computed from; NO_VALUE: several. */
static ValueId outside(const Program *d, const Call *c, ValueId v)
{
    const Node *n = value(d->im->g, v)->producer;
    ValueId from = NO_VALUE;

    while (is_of(c, n)) {
        from = NO_VALUE;
        for (int i = 0; i < n->n_in; i++) {
            if (!has_value(n->in[i]) || is_made_up(d, c, n->in[i]))
                continue;
            if (has_value(from))
                return NO_VALUE;
            from = n->in[i];
        }
        if (!has_value(from))
            return NO_VALUE;
        v = from;
        n = value(d->im->g, v)->producer;
    }
    return v;
}

/* ---- the change ---- */

/* Puts a StopGradient before input i of n. */
static Status stop_input(Program *d, Node *n, int i)
{
    Graph *g = d->im->g;
    ScopeEntry *e = scope_add(&d->stopped, value(g, n->in[i])->name);

    if (!e)
        return FAIL_NOMEM();
    if (!has_value(e->value)) {
        TRY(spend_nodes(d->im, 1));
        e->value = import_emit(g, &op_StopGradient, NULL, 1, &n->in[i]);
    }
    TRY(g->status);
    node_set_input(g, n, i, e->value);
    d->any = true;
    return ST_OK;
}

/* The one value from outside that no argument names; NO_VALUE: none, or several. */
static ValueId unnamed(const Program *d, const Call *c)
{
    ValueId found = NO_VALUE;

    for (int k = 0; k < c->n_node; k++)
        for (int i = 0; i < c->node[k]->n_in; i++) {
            const ValueId v = c->node[k]->in[i];

            if (!has_value(v) || is_of(c, value(d->im->g, v)->producer) || traced_program_is_named(c, v) ||
                is_made_up(d, c, v))
                continue;
            if (has_value(found) && !value_eq(found, v))
                return NO_VALUE;
            found = v;
        }
    return found;
}

/* The input of node n that is argument `at`; -1: its inputs are not the arguments in their order. */
static int input_at(const Program *d, const Call *c, const Node *n, int at)
{
    int k = 0, found = -1;

    for (int i = 0; i < n->n_in; i++) {
        if (!has_value(n->in[i]) || is_made_up(d, c, n->in[i]))
            continue;
        if (k == c->n_arg || (has_value(c->value[k]) && !value_eq(outside(d, c, n->in[i]), c->value[k])))
            return -1;
        found = k++ == at ? i : found;
    }
    return k == c->n_arg ? found : -1;
}

static int count_lost(const Call *c)
{
    int n = 0;

    for (int i = 0; i < c->n_arg; i++)
        n += !has_value(c->value[i]);
    return n;
}

/* Stops the gradient of argument `at`, a detached value that no node makes; *done: its input was found. */
static Status stop_argument(bool *done, Program *d, const Call *c, int at)
{
    const bool only = count_lost(c) == 1 && has_value(unnamed(d, c));
    ValueId v;

    *done = false;
    for (int k = 0; k < c->n_node && !only; k++) {
        const int i = c->n_arg > 1 ? input_at(d, c, c->node[k], at) : -1;

        if (i < 0)
            continue;
        *done = true;
        TRY(stop_input(d, c->node[k], i));
    }
    if (*done)
        return ST_OK;
    v = unnamed(d, c);
    *done = has_value(v);
    for (int k = 0; k < c->n_node && *done; k++)
        for (int i = 0; i < c->node[k]->n_in; i++)
            if (value_eq(c->node[k]->in[i], v))
                TRY(stop_input(d, c->node[k], i));
    return ST_OK;
}

static bool first_of_call(const Graph *g, const Node *n)
{
    for (uint32_t i = 0; i < n->index; i++)
        if (g->node[i]->op && g->node[i]->call && !strcmp(g->node[i]->call, n->call))
            return false;
    return true;
}

/* Does the call read a value that no node makes, whose name is of that kind (NULL: of any)? */
static bool reads_lost(const Program *d, const char *call, bool (*is_kind)(TextPart name))
{
    TextPart arg;

    for (const char *at = call; call_next(&arg, &at);)
        if ((!is_kind || is_kind(arg)) && !has_value(value_of(d, arg)))
            return true;
    return false;
}

/* Stops the gradients of all detached arguments of the call that `first` belongs to. */
static Status stop_call(Program *d, const Node *first)
{
    bool done, all = true;
    Call c;

    TRY(read_call(&c, d, first->call));
    for (int i = 0; i < c.n_arg; i++)
        if (call_detaches(c.arg[i]) && !has_value(c.value[i])) {
            TRY(stop_argument(&done, d, &c, i));
            all &= done;
        }
    for (int k = 0; !all && k < c.n_node; k++)
        c.node[k]->lost_detach = k + 1 == c.n_node;
    d->any |= !all;
    return ST_OK;
}

/* Stops the gradients of outputs that the program detached. */
static Status stop_outputs(Program *d)
{
    Graph *g = d->im->g;
    const char *at = g->signature;
    SignatureLine line;

    for (int n = 0; signature_next(&line, &at);) {
        const bool is_output = text_part_is(line.kind, "USER_OUTPUT");

        if (is_output && n < g->n_output && call_detaches(line.name) && !has_value(value_of(d, line.name)) &&
            value(g, g->output[n].value)->kind != V_INPUT) {
            ValueId *v = &g->output[n].value, stop;

            TRY(spend_nodes(d->im, 1));
            stop = import_emit(g, &op_StopGradient, NULL, 1, v);
            TRY(g->status);
            *v = stop;
        }
        n += is_output;
    }
    return g->status;
}

/* ---- lost detach ---- */

/* The input that is argument `at`, which no node makes; NO_VALUE: unknown. */
static ValueId lost_value(const Program *d, const Call *c, int at)
{
    ValueId v = count_lost(c) == 1 ? unnamed(d, c) : NO_VALUE;

    for (int k = 0; k < c->n_node && !has_value(v); k++) {
        const int i = c->n_arg > 1 ? input_at(d, c, c->node[k], at) : -1;

        v = i < 0 ? NO_VALUE : c->node[k]->in[i];
    }
    return v;
}

/* Does the value have several readers, in the file or in the program? */
static bool has_readers(const Graph *g, ValueId v)
{
    const Node *from = value(g, v)->producer;
    int n = 0;

    FOR_NODES(g, reader)
        for (int i = 0; i < reader->n_in; i++)
            n += value_eq(reader->in[i], v);
    return n > 1 || (from && call_users(from->call) > 1);
}

/* Marks calls that may read a lost detach().clone(), which leaves only the clone's name, like a plain clone().  A copy
 * of a value with other readers may have been detached; a copy of a transposed value is likely a change of layout. */
static Status mark_copies(Program *d, const Node *first)
{
    const Graph *g = d->im->g;
    Call c;

    TRY(read_call(&c, d, first->call));
    for (int i = 0; i < c.n_arg; i++) {
        const ValueId v = call_copies(c.arg[i]) && !has_value(c.value[i]) ? lost_value(d, &c, i) : NO_VALUE;
        const Node *from = has_value(v) ? value(g, v)->producer : NULL;

        if (has_value(v) && value(g, v)->kind != V_INPUT && !(from && op_moves(from->op, 0)) && has_readers(g, v))
            c.node[c.n_node - 1]->lost_detach = true;
    }
    return ST_OK;
}

/* ---- buffers ---- */

/* Is it a statistic of a batch-norm, which training updates by itself? */
static bool is_statistic(const Graph *g, ValueId v)
{
    FOR_NODES(g, n)
        for (int i = 0; i < n->n_in && i < 8; i++)
            if (n->op->running_in >> i & 1 && value_eq(n->in[i], v))
                return true;
    return false;
}

static bool is_updated(const Graph *g, ValueId v)
{
    for (int i = 0; i < g->n_update; i++)
        if (value_eq(g->update[i].state, v))
            return true;
    return false;
}

/* Adds an update of the buffer by `next`, unless it has one or batch-norm updates it. */
static Status add_update(Program *d, TextPart buffer, ValueId next)
{
    Graph *g = d->im->g;
    const ScopeEntry *e = entry_of(d, buffer);

    if (!e || !has_value(e->value) || !has_value(next) || value(g, e->value)->kind != V_CONST ||
        value(g, next)->kind != V_TEMP || is_updated(g, e->value) || is_statistic(g, e->value))
        return ST_OK;
    graph_add_update(g, e->value, next);
    return g->status;
}

static Status update_buffers(Program *d)
{
    const Onnx__ModelProto *m = d->im->model;
    const char *at = d->im->g->signature;
    SignatureLine line;

    while (signature_next(&line, &at))
        if (text_part_is(line.kind, "BUFFER_MUTATION"))
            TRY(add_update(d, line.target, value_of(d, line.name)));
    for (size_t i = 0; i < m->n_metadata_props; i++) {
        const char *key = text_or(m->metadata_props[i]->key, ""), *next = text_or(m->metadata_props[i]->value, "");
        const size_t n = strlen(PROP_NEXT);

        if (!strncmp(key, PROP_NEXT, n))
            TRY(add_update(d, (TextPart){ key + n, strlen(key + n) }, value_of(d, (TextPart){ next, strlen(next) })));
    }
    return ST_OK;
}

Status traced_program_apply(Importer *im, const Body *b)
{
    Program d = { .im = im, .b = b };
    const uint32_t n_node = im->g->n_node;
    bool *reads = ARENA_NEW(im->scratch, bool, n_node), *code = ARENA_NEW(im->scratch, bool, n_node);

    bool any;

    if (!reads || !code)
        return FAIL_NOMEM();
    if (im->marked || im->run)
        return ST_OK;
    d.alias.arena = d.stopped.arena = im->scratch;
    TRY(read_signature(&d));
    TRY(read_outputs(&d, false));
    TRY(update_buffers(&d));
    FOR_NODES(im->g, n) {
        reads[n->index] = n->call && reads_lost(&d, n->call, call_detaches);
        code[n->index] = n->lost_detach;
        n->lost_detach = false;
    }
    for (uint32_t i = 0; i < n_node; i++)
        if (reads[i] && first_of_call(im->g, im->g->node[i]))
            TRY(stop_call(&d, im->g->node[i]));
    any = d.any;
    FOR_NODES(im->g, n)
        any |= op_stops(n->op);
    FOR_NODES(im->g, n) /* code that calls detach() is evidence of a lost one only if there is no other */
        n->lost_detach |= !any && n->index < n_node && code[n->index] && n->call && reads_lost(&d, n->call, NULL);
    for (uint32_t i = 0; i < n_node; i++)
        if (im->g->node[i]->op && reads_lost(&d, im->g->node[i]->call, call_copies) &&
            first_of_call(im->g, im->g->node[i]))
            TRY(mark_copies(&d, im->g->node[i]));
    return stop_outputs(&d);
}
