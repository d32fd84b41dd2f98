/* Warnings of changes that an exporter made to the network: those that the file shows, and those that the exporter is
 * known to make without a trace. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/base/order.h"
#include "graph/ir/traced_calls.h"
#include "graph/ops/loss.h"
#include "passes/model/parameters.h"

#define EXPORTER "the exporter"

/* Warns of parameters of one number throughout that several modules read: exporters merge equal tensors.  A module that
 * is called twice reads its own tensors twice, which counts once. */
static Status note_tied(const Graph *g, Report *report, Arena *a)
{
    uint8_t *readers = ARENA_NEW(a, uint8_t, g->n_value);
    const Node **last = ARENA_NEW(a, const Node *, g->n_value);
    const char *first = NULL;
    int n_tied = 0;

    if (!readers || !last)
        return FAIL_NOMEM();
    FOR_NODES(g, n)
        for (int i = 0; i < n->n_in; i++) {
            const Node *before = last[n->in[i].i];
            const bool same = before && before->module && n->module && !strcmp(before->module, n->module);

            readers[n->in[i].i] += readers[n->in[i].i] < 2 && before != n && !same; /* two at most */
            last[n->in[i].i] = n;
        }
    for (uint32_t i = 1; i < g->n_value; i++) {
        const Value *v = g->value[i];

        if (!v->trainable || v->next || readers[i] < 2 || v->origin != ORIGIN_INITIALIZER ||
            tensor_looks(v->init) != LOOKS_UNIFORM)
            continue;
        n_tied++;
        first = first ? first : v->name;
    }
    if (!n_tied)
        return ST_OK;
    return report_note(
        report, NOTE_EXPORTER, EXPORTER,
        "'%s'%s read by several operators and hold%s one number throughout: exporters "
        "merge equal tensors of a network that was not trained yet; here each stays one parameter (--untie '%s' makes "
        "several of it, docs/guide/export.md)",
        first, n_tied > 1 ? " and others are" : " is", n_tied > 1 ? "" : "s", first);
}

/* The first row of zeros of a table whose other rows are not all zero; -1: there is none. */
static int64_t zero_row(const Tensor *t)
{
    const int64_t rows = t->shape.dim[0], width = t->shape.dim[1];
    int64_t first = -1, n = 0;

    for (int64_t r = 0; r < rows && width; r++) {
        int64_t i = 0;

        while (i < width && tensor_float(t, r * width + i) == 0)
            i++;
        if (i < width)
            continue;
        first = first < 0 ? r : first;
        n++;
    }
    return n < rows ? first : -1;
}

/* The table whose rows the node looks up by indices of the input; NULL: none. */
static const Value *embedding_of(const Graph *g, const Node *n, const Reach *r)
{
    const Value *table = n->op->param_in & 1 && n->op->index_range && !node_int(n, "axis") ? in_value(g, n, 0) : NULL;

    if (call_is(n->call, "aten.embedding")) /* the call records padding_idx (graph/ops/index.c) */
        return NULL;
    if (!table || !table->trainable || !table->init || table->init->shape.rank != 2 || !dtype_is_float(table->dtype) ||
        r->constant[n->in[1].i])
        return NULL;
    return table;
}

/* PyTorch's Embedding(padding_idx=...) initialises its row to zeros and gives it no gradient.  A file has only the
 * zeros. */
static Status note_padding(const Graph *g, Report *report, const Reach *r, Arena *a)
{
    bool *seen = ARENA_NEW(a, bool, g->n_value);
    char others[64] = "";
    const char *first = NULL;
    int64_t row = 0;
    int n_more = 0;

    if (!seen)
        return FAIL_NOMEM();
    FOR_NODES(g, n) {
        const Value *table = embedding_of(g, n, r);
        int64_t zero;

        if (!table || seen[n->in[0].i])
            continue;
        seen[n->in[0].i] = true;
        if ((zero = zero_row(table->init)) < 0)
            continue;
        n_more += first != NULL;
        row = first ? row : zero;
        first = first ? first : table->name;
    }
    if (!first)
        return ST_OK;
    if (n_more)
        snprintf(others, sizeof others, " (and a row of %d other table%s)", n_more, n_more > 1 ? "s" : "");
    return report_note(report, NOTE_EXPORTER, EXPORTER,
                       "row %lld of '%s'%s is zero, as PyTorch's padding_idx leaves it; it is trained here, which "
                       "PyTorch does not do (docs/guide/export.md)",
                       (long long)row, first, others);
}

/* *out: are more than a tenth of the numbers equal to others?  A table that is read several times, such as a bias of
 * relative positions, repeats its rows; by chance few numbers are equal. */
static Status repeats(bool *out, const Tensor *t, Arena *a)
{
    const int64_t n = tensor_numel(t);
    double *x = ARENA_NEW(a, double, n);
    int64_t distinct = n > 0;

    if (!x)
        return FAIL_NOMEM();
    for (int64_t i = 0; i < n; i++)
        x[i] = tensor_float(t, i);
    qsort(x, (size_t)n, sizeof *x, order_doubles);
    for (int64_t i = 1; i < n; i++)
        distinct += x[i] != x[i - 1];
    *out = distinct < n - n / 10;
    return ST_OK;
}

/* Warns of trained tensors whose sources are gone: torch.export's optimizer computes exp(log_scale) and drops
 * log_scale. */
static Status note_computed(const Graph *g, Report *report, Arena *a)
{
    bool *filters = ARENA_NEW(a, bool, g->n_value);
    const char *first = NULL;
    int n_found = 0;

    if (!filters)
        return FAIL_NOMEM();
    FOR_NODES(g, n)
        if (n->op->filter_in)
            filters[n->in[1].i] = true; /* note_folded_norms reports these */
    for (uint32_t i = 1; i < g->n_value; i++) {
        const Value *v = g->value[i];
        bool found = v->trainable && v->init && v->folded_from && !filters[i];

        if (!found)
            continue;
        found = !name_is_moved(v->name);
        if (!found && strstr(v->folded_from, "'embedding"))
            TRY(repeats(&found, v->init, a));
        first = first ? first : found ? v->name : NULL;
        n_found += found;
    }
    if (!n_found)
        return ST_OK;
    return report_note(report, NOTE_EXPORTER, EXPORTER,
                       "'%s'%s computed from parameters that the file does not have, and %s trained instead of them: "
                       "export with optimize=False to train those (docs/guide/export.md)",
                       first, n_found > 1 ? " and others are" : " is", n_found > 1 ? "are" : "is");
}

/* Warns of the folds and merges that this exporter is known to make without a trace. */
static Status note_known_exporter(const Graph *g, Report *report, bool torch_export)
{
    bool folds = false;

    for (uint32_t i = 1; i < g->n_value && producer_is(g, "pytorch"); i++) {
        const Value *v = g->value[i];

        folds |= v->folded_from ||
                 (v->origin == ORIGIN_INITIALIZER && dtype_is_float(v->dtype) && !strncmp(v->name, "onnx::", 6));
    }
    if (!folds)
        return ST_OK;
    return report_note(
        report, NOTE_EXPORTER, EXPORTER,
        "%s%s%s, %s: it may have folded BatchNormalization and expressions of parameters%s and merged equal "
        "tensors without a trace in the file (docs/guide/export.md)",
        g->producer, *g->producer_version ? " " : "", g->producer_version,
        torch_export ? "torch.export with its optimizer" : "in evaluation mode",
        torch_export ? ", dropped biases of zeros" : "");
}

/* Warns of batch-norms written as formulas: there is no operator to put into training mode. */
static Status note_formulas(const Graph *g, Report *report, const Reach *r)
{
    const char *first = NULL;
    int n = 0;

    for (uint32_t i = 1; i < g->n_value; i++)
        if (r->normalises[i] && r->reach[i] && g->value[i]->kind == V_CONST) {
            first = first ? first : g->value[i]->name;
            n++;
        }
    if (!n)
        return ST_OK;
    return report_note(report, NOTE_EXPORTER, EXPORTER,
                       "batch normalisation is written as a formula of running statistics ('%s'%s): it stays as in "
                       "evaluation, whatever the data are (docs/guide/export.md)",
                       first, n > 1 ? " and others" : "");
}

/* Warns of arguments of PyTorch calls that ONNX's operators lack and the exporter drops. */
static Status note_dropped(const Graph *g, Report *report, Arena *a)
{
    static const struct {
        const char *call, *name;
        int argument;
    } dropped[] = { { "aten.avg_pool2d", "divisor_override", 6 },
                    { "aten.avg_pool3d", "divisor_override", 6 },
                    { "aten.embedding", "scale_grad_by_freq", 3 } };
    const char *list = "";
    double number;
    int n_found = 0;

    FOR_NODES(g, n)
        for (size_t k = 0; k < sizeof dropped / sizeof *dropped; k++) {
            if (!call_is(n->call, dropped[k].call) || !call_number(n->call, dropped[k].argument, &number) ||
                number == 0)
                continue;
            if (n_found++ < 3 && !(list = arena_printf(a, "%s%s%s has lost %s=%g", list, *list ? ", " : "",
                                                       node_text(g, n), dropped[k].name, number)))
                return FAIL_NOMEM();
        }
    if (!n_found)
        return ST_OK;
    if (n_found > 3 &&
        !(list = arena_printf(a, "%s and %d more node%s such arguments", list, n_found - 3, n_found > 4 ? "s" : "")))
        return FAIL_NOMEM();
    return report_note(report, NOTE_EXPORTER, EXPORTER,
                       "%s of PyTorch's calls: dpexec computes the operators without these arguments", list);
}

/* Notes a loss whose label smoothing only the PyTorch call records; ONNX Runtime computes it without. */
static Status note_smoothing(const Graph *g, Report *report)
{
    FOR_NODES(g, n)
        if (loss_smoothing(n) != 0)
            return report_note(report, NOTE_EXPORTER, EXPORTER,
                               "%s: the ONNX node has lost label_smoothing=%g of PyTorch's call; it is computed here",
                               node_text(g, n), loss_smoothing(n));
    return ST_OK;
}

/* Warns of calls such as aten.sum that the exporter wrote as Identity, because it took their tensor for one number.  A
 * tensor with axes at such an Identity has lost the call. */
static Status note_lost_calls(const Graph *g, Report *report, bool *any)
{
    static const char *const lost[] = {
        "aten.sum",          "aten.mean",        "aten.prod",
        "aten.cumsum",       "aten.cumprod",     "aten.amax",
        "aten.amin",         "aten.max",         "aten.min",
        "aten.logsumexp",    "aten.softmax",     "aten._softmax",
        "aten._log_softmax", "aten.flip",        "aten.logcumsumexp",
        "aten.norm",         "aten.log_softmax", "aten.linalg_vector_norm",
    };

    FOR_NODES(g, n) {
        const Shape *shape = n->op->same == SAME_TENSOR ? value(g, n->in[0])->shape : NULL;
        char text[SHAPE_TEXT];

        for (size_t k = 0; shape && shape->rank && k < sizeof lost / sizeof *lost; k++) {
            if (!call_is(n->call, lost[k]))
                continue;
            *any = true;
            shape_text(shape, text);
            TRY(report_note(report, NOTE_EXPORTER, EXPORTER,
                            "%s: the exporter has lost PyTorch's %s of a tensor that has shape %s here, so dpexec "
                            "trains another network (docs/guide/export.md)",
                            node_text(g, n), lost[k], text));
        }
    }
    return ST_OK;
}

/* PyTorch declares the shapes that its program computes.  An output of another rank shows that the exporter lost an
 * operator: torch 2.15's default exporter loses the sum of cross_entropy(reduction="none").  An output declared as one
 * number has a list of dimension names without any name (graph/onnx/import.c). */
static Status note_lost_sums(const Graph *g, Report *report)
{
    for (int i = 0; producer_is(g, "pytorch") && i < g->n_output; i++) {
        const Output *o = &g->output[i];
        const Shape *shape = value(g, o->value)->shape;
        char text[SHAPE_TEXT];
        bool one_number = o->dim_param != NULL;

        for (int k = 0; one_number && k < MAX_RANK; k++)
            one_number = !o->dim_param[k];
        if (!shape || !shape->rank || !one_number)
            continue;
        shape_text(shape, text);
        TRY(report_note(
            report, NOTE_EXPORTER, EXPORTER,
            "output '%s' is declared as one number, and the file's nodes compute %s: the exporter has lost an "
            "operator, such as the sum over cross_entropy(reduction=\"none\"), so dpexec trains another network "
            "(docs/guide/export.md)",
            o->name, text));
    }
    return ST_OK;
}

Status exporter_notes(const Graph *g, Report *report, const Reach *r, Arena *a)
{
    const bool torch_export = from_torch_export(g);
    bool lost_calls = false;

    TRY(note_folded_norms(g, report, torch_export));
    TRY(note_computed(g, report, a));
    TRY(note_tied(g, report, a));
    TRY(note_padding(g, report, r, a));
    TRY(note_smoothing(g, report));
    TRY(note_dropped(g, report, a));
    TRY(note_formulas(g, report, r));
    TRY(note_lost_detach(g, report));
    TRY(note_lost_calls(g, report, &lost_calls));
    if (!lost_calls)
        TRY(note_lost_sums(g, report));
    return note_known_exporter(g, report, torch_export);
}
