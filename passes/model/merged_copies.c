/* Recognition of copies that a simplifier merged: which readers of one tensor meant copies of it.
 *
 * onnxsim, onnxslim, onnxoptimizer and ONNX Runtime keep one of several equal tensors and drop the exporter's metadata.
 * A network that was never trained has many equal tensors: the layers of nn.TransformerEncoder are copies of one.
 * Two kinds of evidence remain:
 *
 * - onnxsim's lists.  A reader in module b of a tensor "a.weight" meant "b.weight" if that was removed.
 * - Scopes in names of nodes, and a reader's other tensors.  "/b/Gemm" belongs to module b, and so does a Gemm that
 *   reads "b.weight" and "a.bias".  Two modules that share a tensor of one number are taken for copies.  Two that share
 *   another tensor are copies if they, or the modules that they are parts of, have two tensors at least, all shared or
 *   equal.  If one tensor differs, the modules share a parameter.  A module that is called twice has one scope, and
 *   shares its parameters with itself.
 *
 * A file that holds two equal tensors was not simplified: a tensor with several readers is one parameter there. */
#include "passes/model/merged_copies.h"

#include <fnmatch.h>
#include <string.h>

#include "graph/ir/simplifier_traces.h"
#include "passes/names.h"
#include "passes/options/parameters.h"
#include "passes/report.h"

#define EXPORTER "the exporter"

enum { MOST_HASHED = 4096, FEW = 3 };

/* ---- onnxsim's lists ---- */

/* *out: the next entry of the list at *s, up to `end`; NULL: there is none, or "... (+5 more)". */
static Status next_entry(char **out, const char **s, const char *end, SimplifierTrace *t, Arena *a)
{
    const char *stop = strstr(*s, end);
    size_t len = stop ? (size_t)(stop - *s) : strlen(*s);

    *out = NULL;
    if (!**s)
        return ST_OK;
    if (!strncmp(*s, "... (+", 6)) {
        t->cut = true;
        return ST_OK;
    }
    if (!(*out = arena_printf(a, "%.*s", (int)len, *s)))
        return FAIL_NOMEM();
    *s += len + (stop ? strlen(end) : 0);
    return ST_OK;
}

static int count_entries(const char *list)
{
    int n = 1;

    for (; (list = strstr(list, ", ")); list += 2)
        n++;
    return n;
}

/* Splits "Gemm (/b/Gemm". */
static void split_node(Removed *out, char *text)
{
    char *open = strstr(text, " ("), *close = open ? strrchr(open, ')') : NULL;

    out->op = text;
    out->name = open ? open + 2 : "";
    if (open)
        *open = '\0';
    if (close && !close[1])
        *close = '\0';
}

Status trace_read(SimplifierTrace *out, const Graph *g, Arena *a)
{
    const char *nodes = simplified_text(g, REMOVED_NODES), *changed = simplified_text(g, CHANGED_NODES),
               *values = simplified_text(g, REMOVED_VALUES);
    Removed of;
    char *text;

    *out = (SimplifierTrace){ .listed = !strcmp(simplified_text(g, SIMPLIFIER), ONNXSIM) };
    out->node = ARENA_NEW(a, Removed, count_entries(nodes));
    out->changed = ARENA_NEW(a, const char *, count_entries(changed));
    out->value = ARENA_NEW(a, const char *, count_entries(values));
    if (!out->node || !out->changed || !out->value)
        return FAIL_NOMEM();
    for (const char *at = nodes;;) {
        TRY(next_entry(&text, &at, "), ", out, a));
        if (!text)
            break;
        split_node(&out->node[out->n_node++], text);
    }
    for (const char *at = changed;;) {
        TRY(next_entry(&text, &at, "), ", out, a));
        if (!text)
            break;
        if (strstr(text, ") -> "))
            *strstr(text, ") -> ") = '\0';
        split_node(&of, text);
        out->changed[out->n_changed++] = of.name;
    }
    for (const char *at = values;;) {
        TRY(next_entry(&text, &at, ", ", out, a));
        if (!text)
            break;
        out->value[out->n_value++] = text;
    }
    return ST_OK;
}

bool trace_changed(const SimplifierTrace *t, const char *node)
{
    bool found = false;

    for (int i = 0; i < t->n_changed && !found; i++)
        found = !strcmp(t->changed[i], node);
    return found;
}

static bool is_parameters_name(const char *name)
{
    const char *last = names_last(name);

    return last != name && *name != '/' && !names_made_up(name) && strcmp(last, "num_batches_tracked");
}

bool trace_lacks(const SimplifierTrace *t, const Graph *g, const char *name)
{
    for (int i = 0; i < t->n_value; i++)
        if (!strcmp(t->value[i], name))
            return is_parameters_name(name) && !has_value(graph_find(g, name));
    return false;
}

/* ---- modules ---- */

const char *place_name(const Node *n, int in)
{
    int before = 0;

    if (in < 8 && n->op->running_in >> in & 1)
        return in == 3 ? "running_mean" : "running_var";
    if (in >= 8 || !(n->op->param_in >> in & 1) || n->op->flags & OPF_PARAM_MAYBE)
        return NULL;
    for (int i = 1; i < in; i++) /* either factor of a product may be the weight */
        before += n->op->param_in >> i & 1;
    return before == 0 ? "weight" : before == 1 ? "bias" : NULL;
}

/* "/layer1/layer1.0/conv1/Conv" gives layer1.0.conv1: an entry of a Sequential repeats the path of the list. */
Status node_scope(const char **out, const Node *n, Arena *a)
{
    const char *s = n->name, *end = strrchr(n->name, '/');
    char *path;
    size_t len = 0, last = 0;

    *out = n->module;
    if (n->module || *s != '/')
        return ST_OK;
    if (!(path = arena_alloc(a, strlen(s) + 1)))
        return FAIL_NOMEM();
    for (s++; s < end; s++) {
        size_t word = strcspn(s, "/"), before = len - last;

        if (len && word > before && !strncmp(s, path + last, before) && s[before] == '.')
            len = last;
        else if (len)
            path[len++] = '.';
        last = len;
        memcpy(path + len, s, word);
        len += word;
        s += word;
    }
    path[len] = '\0';
    *out = path;
    return ST_OK;
}

typedef struct {
    const Graph *g;
    const Uses *r;
    const SimplifierTrace *t;
    Arena *a;
    const char **module; /* [node] NULL: unknown */
    int64_t least_equal; /* size of the smallest tensor that equals another; -1: not computed yet */
    ValueId id;          /* the tensor and the reader of it that are judged */
    const Reader *reader;
} Find;

/* The float constant of rank 1 or more at the input; NULL: another value. */
static const Value *tensor_at(const Graph *g, const Node *n, int in)
{
    const Value *v = has_value(n->in[in]) ? value(g, n->in[in]) : NULL;

    return v && v->kind == V_CONST && !v->next && v->init && dtype_is_float(v->dtype) && v->init->shape.rank > 0 ? v
                                                                                                                 : NULL;
}

/* Is `call` the module's path, possibly with numbered parts ("layer_1" for "layer")?  PyTorch's older exporter numbers
 * the calls of a module. */
static bool is_call_of(const char *call, const char *module)
{
    for (;; call++, module++) {
        size_t a = strcspn(call, "."), b = strcspn(module, ".");

        if (a < b || strncmp(call, module, b) ||
            (a > b && (call[b] != '_' || a == b + 1 || strspn(call + b + 1, "0123456789") < a - b - 1)))
            return false;
        call += a;
        module += b;
        if (!*call || !*module)
            return !*call && !*module;
    }
}

static bool merged_copies_within(const char *part, const char *whole)
{
    size_t n = strlen(whole);

    return !n || (!strncmp(part, whole, n) && (!part[n] || part[n] == '.'));
}

/* ---- evidence ---- */

/* Sets least_equal. */
static void count_equal(Find *f)
{
    const Graph *g = f->g;

    f->least_equal = INT64_MAX;
    for (uint32_t i = 1; i < g->n_value; i++) {
        const Tensor *a = g->value[i]->kind == V_CONST ? g->value[i]->init : NULL;

        if (!a || !a->shape.rank || !is_parameters_name(g->value[i]->name) || tensor_numel(a) > MOST_HASHED ||
            tensor_numel(a) >= f->least_equal)
            continue;
        for (uint32_t k = 1; k < i; k++) {
            const Value *other = g->value[k];

            if (other->kind == V_CONST && other->init && is_parameters_name(other->name) && !other->idle &&
                tensor_same(a, other->init))
                f->least_equal = tensor_numel(a);
        }
    }
}

/* *out: the number of module o's tensors that m reads as well, or that equal m's own; -1: one differs from m's.  The
 * names are the first o_len and m_len characters. */
static Status count_shared(int *out, const Find *f, const char *o, size_t o_len, const char *m, size_t m_len)
{
    const char *module = arena_printf(f->a, "%.*s", (int)m_len, m);

    *out = 0;
    for (uint32_t i = 1; i < f->g->n_value && module; i++) {
        const Value *v = f->g->value[i];
        const char *name, *part;
        ValueId twin;

        if (v->kind != V_CONST || !v->init || !v->init->shape.rank || !dtype_is_float(v->dtype) ||
            strncmp(v->name, o, o_len) || v->name[o_len] != '.')
            continue;
        if (!(name = arena_printf(f->a, "%s%s", module, v->name + o_len)))
            return FAIL_NOMEM();
        twin = graph_find(f->g, name);
        if (has_value(twin) && value(f->g, twin)->kind == V_CONST) {
            if (!tensor_same(v->init, value(f->g, twin)->init)) {
                *out = -1;
                return ST_OK;
            }
            ++*out;
            continue;
        }
        /* Read in the same part of m: "o.0.weight" by a node of "m.0"? */
        if (!(part = arena_printf(f->a, "%.*s", (int)(names_last(name) - name - 1), name)))
            return FAIL_NOMEM();
        if (i == f->id.i && !strcmp(f->module[f->reader->n->index], part)) { /* the usual case, without a search */
            ++*out;
            continue;
        }
        for (uint32_t k = f->r->first[i]; k < f->r->first[i + 1]; k++) {
            const char *reader = f->module[f->r->reader[k].n->index];

            if (reader && !strcmp(reader, part)) {
                ++*out;
                break;
            }
        }
    }
    return module ? ST_OK : FAIL_NOMEM();
}

/* *out: 1 if the modules are copies, -1 if they share a parameter, 0 if the file does not show which.  If their own
 * tensors do not, the modules that they are the same parts of are compared. */
static Status judge_copies(int *out, const Find *f, const char *o, const char *m)
{
    size_t o_len = strlen(o), m_len = strlen(m), o_whole = o_len;
    int n;

    TRY(count_shared(&n, f, o, o_len, m, m_len));
    *out = n < 0 ? -1 : n > 1;
    while (o_len && m_len) {
        size_t k = 0;

        while (k < o_len && k < m_len && o[o_len - 1 - k] == m[m_len - 1 - k] && o[o_len - 1 - k] != '.')
            k++;
        if (k >= o_len || k >= m_len || o[o_len - 1 - k] != '.' || m[m_len - 1 - k] != '.')
            break;
        o_len -= k + 1;
        m_len -= k + 1;
    }
    if (*out || o_len == o_whole)
        return ST_OK;
    TRY(count_shared(&n, f, o, o_len, m, m_len));
    *out = n < 0 ? -1 : n > 1;
    return ST_OK;
}

/* ---- readers ---- */

/* Sets *out if the reader, outside of the module `owner` that the tensor is named after, means a copy.  `home`: the
 * reader in that module. */
static Status judge_reader(Meant *out, Find *f, ValueId id, const Reader *reader, const Reader *home, const char *owner)
{
    const char *m = f->module[reader->n->index], *name;
    const Value *v = value(f->g, id);
    int copies;

    if (!m || merged_copies_within(m, owner) || merged_copies_within(owner, m) || reader->n->op != home->n->op ||
        reader->in != home->in)
        return ST_OK;
    if (!(name = arena_printf(f->a, "%s.%s", m, names_last(v->name))))
        return FAIL_NOMEM();
    if (has_value(graph_find(f->g, name)))
        return ST_OK;
    if (trace_lacks(f->t, f->g, name)) {
        out->name = name;
        return ST_OK;
    }
    if (is_call_of(m, owner) || (f->t->listed && !f->t->cut && *reader->n->name == '/'))
        return ST_OK;
    if (f->least_equal < 0)
        count_equal(f);
    if (f->least_equal <= tensor_numel(v->init))
        return ST_OK;
    copies = 1;
    f->id = id;
    f->reader = reader;
    if (!tensor_is_filled(v->init))
        TRY(judge_copies(&copies, f, owner, m));
    out->name = copies > 0 && (!reader->n->module || !names_are_siblings(v->name, name)) ? name : NULL;
    out->open = copies == 0 && !reader->n->module;
    return ST_OK;
}

static Status judge_value(Meant *meant, Find *f, ValueId id)
{
    const Value *v = value(f->g, id);
    const char *last = names_last(v->name), *owner;
    const Reader *home = NULL; /* the first in the module that the tensor is named after */

    if (v->kind != V_CONST || v->next || !v->init || !v->init->shape.rank || !dtype_is_float(v->dtype) ||
        f->r->first[id.i + 1] - f->r->first[id.i] < 2 || !is_parameters_name(v->name))
        return ST_OK;
    if (!(owner = arena_printf(f->a, "%.*s", (int)(last - v->name - 1), v->name)))
        return FAIL_NOMEM();
    for (uint32_t i = f->r->first[id.i]; i < f->r->first[id.i + 1] && !home; i++) {
        const char *m = f->module[f->r->reader[i].n->index];

        home = m && !strcmp(m, owner) ? &f->r->reader[i] : NULL;
    }
    if (!home)
        return ST_OK;
    for (uint32_t i = f->r->first[id.i]; i < f->r->first[id.i + 1]; i++)
        if (f->r->reader[i].n != home->n)
            TRY(judge_reader(&meant[i], f, id, &f->r->reader[i], home, owner));
    return ST_OK;
}

/* Without scopes: if onnxsim changed as many readers of tensors "...word" as it removed tensors "...word", matches the
 * two in order. */
static Status by_changes(Meant *meant, const Find *f, const char *word)
{
    int n_lost = 0, n_changed = 0, next = 0;

    for (int turn = 0; turn < 2; turn++) {
        for (uint32_t i = 1; i < f->g->n_value; i++)
            for (uint32_t k = f->r->first[i]; k < f->r->first[i + 1]; k++) {
                const Reader *reader = &f->r->reader[k];
                const Value *v = tensor_at(f->g, reader->n, reader->in);

                if (!v || strcmp(names_last(v->name), word) || reader->n->module || *reader->n->name == '/' ||
                    f->r->first[i + 1] - f->r->first[i] < 2 || !trace_changed(f->t, reader->n->name))
                    continue;
                n_changed += !turn;
                while (turn && next < f->t->n_value &&
                       (strcmp(names_last(f->t->value[next]), word) || !trace_lacks(f->t, f->g, f->t->value[next])))
                    next++;
                if (turn && next < f->t->n_value)
                    meant[k] = (Meant){ .name = f->t->value[next++] };
            }
        for (int i = 0; !turn && i < f->t->n_value; i++)
            n_lost += !strcmp(names_last(f->t->value[i]), word) && trace_lacks(f->t, f->g, f->t->value[i]);
        if (n_lost != n_changed)
            return ST_OK;
    }
    return ST_OK;
}

Status copies_find(Meant **out, const Graph *g, const Uses *r, const SimplifierTrace *t, Arena *a)
{
    Find f = { .g = g, .r = r, .t = t, .a = a, .module = ARENA_NEW(a, const char *, g->n_node), .least_equal = -1 };
    Meant *meant = ARENA_NEW(a, Meant, r->first[g->n_value]);

    if (!f.module || !meant)
        return FAIL_NOMEM();
    FOR_NODES(g, n) { /* by the scope, or by the weight that the node reads */
        const char **module = &f.module[n->index];

        TRY(node_scope(module, n, a));
        for (int i = 0; i < n->n_in && !*module; i++) {
            const Value *v = tensor_at(g, n, i);
            const char *last = v ? names_last(v->name) : "";

            if (v && is_parameters_name(v->name) && !strcmp(last, "weight") &&
                !(*module = arena_printf(a, "%.*s", (int)(last - v->name - 1), v->name)))
                return FAIL_NOMEM();
        }
    }
    for (uint32_t i = 1; i < g->n_value; i++)
        TRY(judge_value(meant, &f, (ValueId){ i }));
    for (int i = 0; i < t->n_value && !t->cut; i++) {
        bool first = trace_lacks(t, g, t->value[i]);

        for (int k = 0; k < i && first; k++)
            first = strcmp(names_last(t->value[k]), names_last(t->value[i])) || !trace_lacks(t, g, t->value[k]);
        if (first)
            TRY(by_changes(meant, &f, names_last(t->value[i])));
    }
    *out = meant;
    return ST_OK;
}

/* ---- warnings ---- */

/* Appends the name to *list, the first few of *n names. */
static Status merged_copies_add_name(const char **list, int *n, Arena *a, const char *name)
{
    if ((*n)++ < FEW && !(*list = arena_printf(a, "%s%s'%s'", *n > 1 ? *list : "", *n > 1 ? ", " : "", name)))
        return FAIL_NOMEM();
    return ST_OK;
}

/* Says how many of n names the list leaves out. */
static const char *and_more(int n, Arena *a)
{
    const char *text = n > FEW ? arena_printf(a, " and %d more", n - FEW) : "";

    return text ? text : "";
}

static bool looks_up(const Reader *r) { return r->n->op->param_in & 1 && r->n->op->index_range && !r->in; }

/* Do several nodes read the tensor, and does the file not show whether they mean copies? */
static bool merged_copies_is_open(const Graph *g, const Uses *r, const Meant *meant, const SimplifierTrace *t,
                                  uint32_t i)
{
    const Value *v = g->value[i];
    bool open = false, copied = false, scoped = false;

    if (v->kind != V_CONST || v->next || !v->init || !v->init->shape.rank || !dtype_is_float(v->dtype) ||
        r->first[i + 1] - r->first[i] < 2 || looks_up(&r->reader[r->first[i]]))
        return false;
    for (uint32_t k = r->first[i]; k < r->first[i + 1]; k++) {
        open |= meant[k].open;
        copied |= meant[k].name != NULL;
        scoped |= r->reader[k].n->module || *r->reader[k].n->name == '/';
    }
    return open || (*simplified_text(g, SIMPLIFIER) && (!t->listed || t->cut) && !copied && !scoped &&
                    is_parameters_name(v->name) && !tensor_is_filled(v->init));
}

static Status warn_open(const Graph *g, const Uses *r, const Meant *meant, const SimplifierTrace *t, PassCtx *ctx)
{
    const ParameterOptions *p = parameter_options(ctx->opt);

    for (uint32_t i = 1; i < g->n_value; i++) {
        const Node *last;
        bool untied = false;

        for (int k = 0; k < p->n_untie && !untied; k++)
            untied = !fnmatch(p->untie[k], g->value[i]->name, 0);
        if (untied || !merged_copies_is_open(g, r, meant, t, i))
            continue;
        last = r->reader[r->first[i + 1] - 1].n;
        TRY(report_note(ctx->report, NOTE_EXPORTER, EXPORTER,
                        "'%s' is read by '%s' and '%s'%s: one parameter of both, or copies that a tool merged; it is "
                        "trained as one (--untie '%s' makes several of it, docs/guide/export.md)",
                        g->value[i]->name, r->reader[r->first[i]].n->name, last->name,
                        r->first[i + 1] - r->first[i] > 2 ? " and others" : "", g->value[i]->name));
    }
    return ST_OK;
}

/* Warns of tensors that onnxsim removed and that no reader is known to mean. */
static Status warn_lost(const Graph *g, const Uses *r, const Meant *meant, const SimplifierTrace *t, PassCtx *ctx)
{
    const char *lost = "";
    int n_lost = 0;

    for (int i = 0; i < t->n_value; i++) {
        bool found = !trace_lacks(t, g, t->value[i]);

        for (uint32_t k = 0; k < r->first[g->n_value] && !found; k++)
            found = meant[k].name && !strcmp(meant[k].name, t->value[i]);
        if (!found)
            TRY(merged_copies_add_name(&lost, &n_lost, ctx->scratch, t->value[i]));
    }
    if (!n_lost)
        return ST_OK;
    return report_note(ctx->report, NOTE_EXPORTER, EXPORTER,
                       "onnxsim removed %s%s from the file: equal to other tensors, or folded into them, they are not "
                       "trained as parameters of their own (docs/guide/export.md tells how to keep them)",
                       lost, and_more(n_lost, ctx->scratch));
}

/* Returns 2 for "node_linear_2" and sets *base to the length of "node_linear"; 0: the name has no number. */
static int numbered(const char *name, size_t *base)
{
    const char *end = strrchr(name, '_');
    int n = 0;

    *base = strlen(name);
    if (strncmp(name, "node_", 5) || !end || !end[1] || strspn(end + 1, "0123456789") != strlen(end + 1) ||
        strlen(end + 1) > 6)
        return 0;
    *base = (size_t)(end - name);
    for (end++; *end; end++)
        n = n * 10 + *end - '0';
    return n;
}

static bool has_parameter(const Graph *g, const Node *n)
{
    bool any = false;

    for (int i = 0; i < n->n_in && !any; i++) {
        const Value *v = tensor_at(g, n, i);

        any = v && is_parameters_name(v->name);
    }
    return any;
}

/* *gap: the name with the number before the node's, if no node has it: that node may have been merged with *of, a node
 * of the same operator with parameters and several readers.  NULL: there is no gap. */
static Status find_gap(const char **gap, const Node **of, const Graph *g, const Uses *r, const Node *n, Arena *a)
{
    size_t base, other;
    int number = numbered(n->name, &base), k;

    *gap = NULL;
    *of = NULL;
    if (number < 1)
        return ST_OK;
    FOR_NODES(g, m) {
        k = numbered(m->name, &other);
        if (other != base || strncmp(m->name, n->name, base))
            continue;
        if (k == number - 1)
            return ST_OK;
        if (m->op == n->op && has_parameter(g, m) && uses_count(r, m->out[0]) > 1)
            *of = m;
    }
    if (*of && !(*gap = number > 1 ? arena_printf(a, "%.*s_%d", (int)base, n->name, number - 1)
                                   : arena_printf(a, "%.*s", (int)base, n->name)))
        return FAIL_NOMEM();
    return ST_OK;
}

static Status warn_gaps(const Graph *g, const Uses *r, const SimplifierTrace *t, PassCtx *ctx)
{
    if (!*simplified_text(g, SIMPLIFIER) || t->listed)
        return ST_OK;
    FOR_NODES(g, n) {
        const char *gap;
        const Node *of;

        if (!has_parameter(g, n))
            continue;
        TRY(find_gap(&gap, &of, g, r, n, ctx->scratch));
        if (gap)
            TRY(report_note(ctx->report, NOTE_EXPORTER, EXPORTER,
                            "%s made one of equal nodes: the file has '%s' and none called '%s', which may have "
                            "been a copy of '%s'; they are trained as one (docs/guide/export.md)",
                            simplified_text(g, SIMPLIFIER), n->name, gap, of->name));
    }
    return ST_OK;
}

/* A tool that merged equal tensors may have merged equal nodes without a trace: warns of nodes with several readers. */
static Status warn_nodes(const Graph *g, const Uses *r, const Meant *meant, const SimplifierTrace *t, PassCtx *ctx)
{
    const char *shared = "";
    int n_shared = 0;
    bool merged = false; /* a reader without the exporter's own record means a copy */

    for (uint32_t k = 0; k < r->first[g->n_value] && !merged; k++)
        merged = meant[k].name && !r->reader[k].n->module && !r->reader[k].n->n_read_as;
    if (t->listed || !merged)
        return ST_OK;
    FOR_NODES(g, n)
        if (*n->name == '/' && has_parameter(g, n) && uses_count(r, n->out[0]) > 1)
            TRY(merged_copies_add_name(&shared, &n_shared, ctx->scratch, n->name));
    if (!n_shared)
        return ST_OK;
    return report_note(ctx->report, NOTE_EXPORTER, EXPORTER,
                       "a tool merged equal tensors of this file, and nodes that were equal leave no trace: if %s%s, "
                       "which several nodes read, stood for copies of a layer too, these are trained as one "
                       "(docs/guide/export.md)",
                       shared, and_more(n_shared, ctx->scratch));
}

Status copies_warn(const Graph *g, const Uses *r, const Meant *meant, const SimplifierTrace *t, PassCtx *ctx)
{
    TRY(warn_open(g, r, meant, t, ctx));
    TRY(warn_lost(g, r, meant, t, ctx));
    TRY(warn_gaps(g, r, t, ctx));
    return warn_nodes(g, r, meant, t, ctx);
}
