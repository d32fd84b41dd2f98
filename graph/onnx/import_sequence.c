/* Operators on sequences of tensors, resolved as the file is read, so that the graph holds only tensors.
 *
 * Exporters write chunk and split as SplitToSequence and SequenceAt.  If the sizes of the parts are constants, a part
 * is an output of Split.  If one size is given for all parts, their number depends on a shape that may be unknown, and
 * a part is a Slice.  Sequences that depend on more are refused by name.  A sequence that is an output of the model
 * becomes one output for each of its tensors. */
#include <string.h>

#include "graph/ir/emit.h"
#include "graph/onnx/importer.h"
#include "graph/ops/concat.gen.h"
#include "graph/ops/view.gen.h"

/* A list of n tensors or, if n is -1, the parts of `whole` along an axis: `part` elements each, the last maybe fewer.
 */
struct Sequence {
    int n;
    ValueId *item;
    ValueId whole;
    int64_t axis, part;
    bool squeezed; /* parts have one element, and lose the axis */
};

/* Allocates a sequence with room for n tensors. */
static Status import_sequence_make(Sequence **out, Importer *im, int n)
{
    Sequence *s = ARENA_NEW(im->scratch, Sequence, 1);

    if (n > MAX_SEQUENCE)
        return FAIL(E_UNSUPPORTED, "a sequence of more than %d tensors", MAX_SEQUENCE);
    TRY(spend_nodes(im, n > 0 ? (size_t)n / 4 : 0)); /* each list is a copy */
    if (!s || (n > 0 && !(s->item = ARENA_NEW(im->scratch, ValueId, n))))
        return FAIL_NOMEM();
    s->n = n;
    *out = s;
    return ST_OK;
}

static void entry_set_sequence(ScopeEntry *e, const Sequence *s)
{
    e->value = NO_VALUE;
    e->sequence = s;
    e->problem = "it is a sequence, which only operators of sequences read";
}

Status sequence_set(ScopeEntry *e, Importer *im, int n, const ValueId *item)
{
    Sequence *s;

    TRY(import_sequence_make(&s, im, n));
    if (n)
        memcpy(s->item, item, (size_t)n * sizeof *item);
    entry_set_sequence(e, s);
    return ST_OK;
}

/* The entry of the node's input i; NULL: absent. */
static ScopeEntry *import_sequence_entry(const Body *b, const Onnx__NodeProto *p, size_t i)
{
    return i < p->n_input && *p->input[i] ? body_find(b, p->input[i]) : NULL;
}

/* The sequence that is the node's input 0. */
static Status sequence_input(const Sequence **out, const Body *b, const Onnx__NodeProto *p)
{
    const ScopeEntry *e = import_sequence_entry(b, p, 0);

    if (!e || !e->sequence)
        return FAIL(E_UNSUPPORTED, "%s",
                    e && e->problem ? e->problem : "input 0 is no sequence that the file itself gives");
    *out = e->sequence;
    return ST_OK;
}

/* The constant number that is the node's input i. */
static Status const_input(int64_t *out, Importer *im, const Body *b, const Onnx__NodeProto *p, size_t i)
{
    ValueId v;
    int n;

    TRY(tensor_input(&v, b, p, i));
    TRY(value_const_ints(im->g, v, out, 1, &n));
    return n == 1 ? ST_OK : FAIL(E_MODEL, "input %zu is empty", i);
}

static Status int_attr(int64_t *out, Importer *im, const Body *b, const Onnx__NodeProto *p, const char *name,
                       int64_t absent)
{
    Attr *attrs;

    TRY(attributes_decode(&attrs, im, b, p));
    *out = absent;
    for (; attrs->name; attrs++)
        if (!strcmp(attrs->name, name) && attrs->type == A_INT)
            *out = attrs->i;
    return ST_OK;
}

/* Emits a Split of x into n parts; `sizes` is a tensor of n integers. */
static Status split_by_sizes(Sequence **out, Importer *im, ValueId x, ValueId sizes, int n, int64_t axis)
{
    Node *split;

    TRY(import_sequence_make(out, im, n));
    if (!n)
        return FAIL(E_MODEL, "there are no sizes of parts, expected at least one");
    TRY(spend_nodes(im, (size_t)n)); /* outputs cost as much */
    if (!(split =
              graph_add_node(im->g, &op_Split, NULL, ATTRS(INT("axis", axis)), 2, (ValueId[]){ x, sizes }, n, NULL)))
        return im->g->status;
    for (int i = 0; i < n; i++)
        (*out)->item[i] = split->out[i];
    return node_normalise(im->g, split);
}

static Status split_to_sequence(Sequence **out, Importer *im, Body *b, const Onnx__NodeProto *p)
{
    int64_t axis, keepdims, part = 1;
    ValueId x, sizes = NO_VALUE;
    bool given = import_sequence_entry(b, p, 1) != NULL;

    TRY(int_attr(&axis, im, b, p, "axis", 0));
    TRY(int_attr(&keepdims, im, b, p, "keepdims", 1));
    TRY(tensor_input(&x, b, p, 0));
    if (axis < -MAX_RANK || axis >= MAX_RANK)
        return FAIL(E_MODEL, "axis %lld, expected -8 to 7", (long long)axis);
    if (given) {
        const Tensor *t;

        TRY(tensor_input(&sizes, b, p, 1));
        if (!(t = value_const(im->g, sizes)) || !dtype_is_int(t->dtype) || t->shape.rank > 1 ||
            tensor_numel(t) > MAX_SEQUENCE)
            return FAIL(E_UNSUPPORTED, "the sizes of the parts must be constant integers");
        if (t->shape.rank == 1)
            return split_by_sizes(out, im, x, sizes, (int)tensor_numel(t), axis);
        part = tensor_int(t, 0);
        if (part < 1 || part > INT32_MAX)
            return FAIL(E_MODEL, "parts of %lld elements, expected 1 or more", (long long)part);
    }
    TRY(import_sequence_make(out, im, -1));
    (*out)->whole = x;
    (*out)->axis = axis;
    (*out)->part = part;
    (*out)->squeezed = !given && !keepdims;
    return ST_OK;
}

/* Checks an index into n tensors, or with `end` the end as well, and counts a negative one from the end. */
static Status check_index(int64_t *i, int64_t n, bool end)
{
    if (*i < -n || *i >= n + end)
        return FAIL(E_MODEL, "index %lld is outside of a sequence of %lld tensors", (long long)*i, (long long)n);
    *i += *i < 0 ? n : 0;
    return ST_OK;
}

/* Names the sequence's length in the message about other sizes; NULL: no memory. */
static const char *length_text(Importer *im, const Onnx__NodeProto *p)
{
    return arena_printf(im->scratch, "%s: the length of '%.100s'", proto_text(im, p), text_or(p->input[0], "?"));
}

static Status sequence_at(ValueId *out, Importer *im, Body *b, const Onnx__NodeProto *p)
{
    Graph *g = im->g;
    const Sequence *s;
    int64_t i, size, from, to;
    ValueId starts, ends, axes;

    TRY(sequence_input(&s, b, p));
    TRY(const_input(&i, im, b, p, 1));
    if (s->n >= 0) {
        TRY(check_index(&i, s->n, false));
        *out = s->item[i];
        return ST_OK;
    }
    TRY(known_size(&size, im, s->whole, s->axis));
    if (size >= 0 && i < 0)
        TRY(decided_size(im, s->whole, s->axis, size, length_text(im, p)));
    if (size >= 0)
        TRY(check_index(&i, size ? (size - 1) / s->part + 1 : 0, false));
    if (i < 0 || i > MAX_SEQUENCE)
        return FAIL(E_UNSUPPORTED, "part %lld: how many parts there are depends on a shape", (long long)i);
    from = i * s->part;
    to = from + s->part;
    starts = emit_ints(g, 1, &from);
    ends = emit_ints(g, 1, &to);
    axes = emit_ints(g, 1, &s->axis);
    *out = import_emit(g, &op_Slice, NULL, 4, (ValueId[]){ s->whole, starts, ends, axes });
    if (s->squeezed)
        *out = import_emit(g, &op_Squeeze, NULL, 2, (ValueId[]){ *out, axes });
    if (has_value(*out))
        graph_rename(g, *out, body_name(im, b, p->output[0]));
    return g->status;
}

/* Lists all parts of s, whose axis has that size; the last may be smaller. */
static Status split_evenly(Sequence **out, Importer *im, const Sequence *s, int64_t size)
{
    int n = size ? (int)((size - 1) / s->part + 1) : 0;
    int64_t *sizes = ARENA_NEW(im->scratch, int64_t, n);
    ValueId axes;

    if (!sizes)
        return FAIL_NOMEM();
    if (!n)
        return import_sequence_make(out, im, 0);
    for (int i = 0; i < n; i++)
        sizes[i] = i < n - 1 ? s->part : size - s->part * (n - 1);
    TRY(split_by_sizes(out, im, s->whole, emit_ints(im->g, n, sizes), n, s->axis));
    axes = s->squeezed ? emit_ints(im->g, 1, &s->axis) : NO_VALUE;
    for (int i = 0; i < n && s->squeezed; i++)
        (*out)->item[i] = import_emit(im->g, &op_Squeeze, NULL, 2, (ValueId[]){ (*out)->item[i], axes });
    return im->g->status;
}

/* Replaces a sequence of parts by a list, if the file fixes their number; `what` names that in messages. */
static Status list_parts(const Sequence **s, Importer *im, const char *what)
{
    Sequence *list;
    int64_t size;

    if ((*s)->n >= 0)
        return ST_OK;
    TRY(known_size(&size, im, (*s)->whole, (*s)->axis));
    if (size < !im->run || size > (im->run ? (*s)->part : 1) * MAX_SEQUENCE)
        return FAIL(E_UNSUPPORTED, "how many parts the sequence has depends on a shape");
    TRY(decided_size(im, (*s)->whole, (*s)->axis, size, what));
    TRY(split_evenly(&list, im, *s, size));
    *s = list;
    return ST_OK;
}

Status sequence_items(const ValueId **item, int *n, Importer *im, const Sequence *s, const char *what)
{
    TRY(list_parts(&s, im, what));
    *item = s->item;
    *n = s->n;
    return ST_OK;
}

static Status concat(ValueId *out, Importer *im, Body *b, const Onnx__NodeProto *p)
{
    int64_t axis, new_axis;
    const Sequence *s;
    ValueId *items;

    TRY(int_attr(&axis, im, b, p, "axis", 0));
    TRY(int_attr(&new_axis, im, b, p, "new_axis", 0));
    TRY(sequence_input(&s, b, p));
    if (s->n < 0 && axis == s->axis && !new_axis && !s->squeezed) {
        *out = s->whole; /* all parts in their order */
        return ST_OK;
    }
    TRY(list_parts(&s, im, length_text(im, p)));
    if (!s->n || axis < -MAX_RANK || axis >= MAX_RANK)
        return FAIL(E_MODEL, "%d tensors along axis %lld, expected 1 or more along axis -8 to 7", s->n,
                    (long long)axis);
    if (!(items = ARENA_NEW(im->scratch, ValueId, s->n)))
        return FAIL_NOMEM();
    for (int i = 0; i < s->n; i++)
        items[i] =
            new_axis ? import_emit(im->g, &op_Unsqueeze, NULL, 2, (ValueId[]){ s->item[i], emit_ints(im->g, 1, &axis) })
                     : s->item[i];
    *out = import_emit(im->g, &op_Concat, ATTRS(INT("axis", axis)), s->n, items);
    return im->g->status;
}

static Status length(ValueId *out, Importer *im, Body *b, const Onnx__NodeProto *p)
{
    Shape scalar = shape_scalar();
    const Sequence *s;
    Tensor t = { DT_INT64, scalar, NULL };
    int64_t n;

    TRY(sequence_input(&s, b, p));
    TRY(list_parts(&s, im, length_text(im, p)));
    n = s->n;
    t.data = &n;
    *out = graph_add_const(im->g, body_name(im, b, p->output[0]), &t);
    return im->g->status;
}

/* SequenceInsert, or SequenceErase.  Without an index, the tensor is added at, or removed from, the end. */
static Status edit(Sequence **out, Importer *im, Body *b, const Onnx__NodeProto *p, bool insert)
{
    size_t at_input = insert ? 2 : 1;
    const Sequence *s;
    int64_t at;

    TRY(sequence_input(&s, b, p));
    TRY(list_parts(&s, im, length_text(im, p)));
    at = insert ? s->n : -1;
    if (import_sequence_entry(b, p, at_input))
        TRY(const_input(&at, im, b, p, at_input));
    TRY(check_index(&at, s->n, insert));
    TRY(import_sequence_make(out, im, s->n + (insert ? 1 : -1)));
    for (int i = 0, j = 0; i < (*out)->n; i++) {
        j += !insert && j == at;
        if (insert && i == at)
            TRY(tensor_input(&(*out)->item[i], b, p, 1));
        else
            (*out)->item[i] = s->item[j++];
    }
    return ST_OK;
}

/* Sets *s or *v to the sequence or tensor that the node makes. */
static Status import_sequence_resolve(Sequence **s, ValueId *v, Importer *im, Body *b, const Onnx__NodeProto *p)
{
    if (!strcmp(p->op_type, "SplitToSequence"))
        return split_to_sequence(s, im, b, p);
    if (!strcmp(p->op_type, "SequenceConstruct")) {
        TRY(import_sequence_make(s, im, p->n_input > MAX_SEQUENCE ? MAX_SEQUENCE + 1 : (int)p->n_input));
        for (size_t i = 0; i < p->n_input; i++)
            TRY(tensor_input(&(*s)->item[i], b, p, i));
        return ST_OK;
    }
    if (!strcmp(p->op_type, "SequenceEmpty"))
        return import_sequence_make(s, im, 0);
    if (!strcmp(p->op_type, "SequenceInsert"))
        return edit(s, im, b, p, true);
    if (!strcmp(p->op_type, "SequenceErase"))
        return edit(s, im, b, p, false);
    if (!strcmp(p->op_type, "SequenceAt"))
        return sequence_at(v, im, b, p);
    if (!strcmp(p->op_type, "ConcatFromSequence"))
        return concat(v, im, b, p);
    return length(v, im, b, p);
}

Status import_sequence_output(Importer *im, const char *name, const Sequence *s)
{
    TRY(list_parts(&s, im, arena_printf(im->scratch, "output '%.100s': its length", name)));
    for (int i = 0; i < s->n; i++) {
        const char *item = arena_printf(im->scratch, "%s.%d", name, i);

        if (!item)
            return FAIL_NOMEM();
        graph_add_output(im->g, item, s->item[i]);
    }
    return im->g->status;
}

bool is_sequence_operator(const char *name)
{
    return !strncmp(name, "Sequence", 8) || !strcmp(name, "SplitToSequence") || !strcmp(name, "ConcatFromSequence");
}

Status import_sequence(Importer *im, Body *b, const Onnx__NodeProto *p)
{
    Sequence *s = NULL;
    ValueId v = NO_VALUE;
    ScopeEntry *e;

    if (p->n_output != 1 || !*p->output[0])
        return FAIL(E_MODEL, "%s: expected one output", proto_text(im, p));
    TRY(status_prefix(import_sequence_resolve(&s, &v, im, b, p), "%s", proto_text(im, p)));
    e = scope_find(&b->scope, p->output[0]);
    e->value = v;
    if (s)
        entry_set_sequence(e, s);
    return im->g->status;
}
