/* The user's choice of trained tensors: patterns of --train and --freeze, and the keys of --parameters, each of which
 * must match a tensor of the model.
 *
 * Exporters rename the tensors that they rewrite.  A key that names no tensor is matched by its numbers, if the list is
 * a file of tensors: a digest of them survives reshaping, transposing and a change of type.  Equal tensors that an
 * exporter merged match the keys of all. */
#include <fnmatch.h>
#include <string.h>

#include "passes/model/parameters.h"
#include "passes/options/parameters.h"

/* ---- patterns ---- */

/* Number of characters that are no wildcards. */
static int literal_characters(const char *pattern)
{
    int n = 0;

    for (; *pattern; pattern++)
        n += !strchr("*?[]\\", *pattern);
    return n;
}

bool pattern_is_name(const char *pattern) { return !strpbrk(pattern, "*?[\\"); }

/* The matching pattern with the most literal characters, the first among equals; NULL: none matches. */
static const char *best_match(const char *const *pattern, int n, const char *name)
{
    const char *best = NULL;

    for (int i = 0; i < n; i++)
        if (!fnmatch(pattern[i], name, 0) && (!best || literal_characters(pattern[i]) > literal_characters(best)))
            best = pattern[i];
    return best;
}

PatternRule pattern_rule(const BuildOptions *opt, const char *name, const char **pattern)
{
    const ParameterOptions *p = parameter_options(opt);
    const char *train = best_match(p->train, p->n_train, name), *freeze = best_match(p->freeze, p->n_freeze, name);
    PatternRule rule = !train && !freeze ? PATTERN_SILENT : PATTERN_FREEZE;

    if (train && (!freeze || literal_characters(train) > literal_characters(freeze)))
        rule = PATTERN_TRAIN;
    if (pattern)
        *pattern = rule == PATTERN_TRAIN ? train : freeze;
    return rule;
}

static bool matches_any(const Graph *g, const char *pattern)
{
    for (uint32_t i = 1; i < g->n_value; i++)
        if (g->value[i]->kind == V_CONST && dtype_is_float(g->value[i]->dtype) &&
            !fnmatch(pattern, g->value[i]->name, 0))
            return true;
    FOR_NODES(g, n)
        if (n->op->running_in && !fnmatch(pattern, n->name, 0))
            return true;
    return false;
}

Status pattern_check(const BuildOptions *opt, const Graph *g)
{
    const ParameterOptions *p = parameter_options(opt);
    PROBLEMS(wrong);

    for (int i = 0; i < p->n_freeze; i++)
        if (!matches_any(g, p->freeze[i]))
            problems_add(&wrong, "--freeze '%s' matches no parameter (graph-transform --parameters lists them)",
                         p->freeze[i]);
    for (int i = 0; i < p->n_train; i++)
        if (!matches_any(g, p->train[i]))
            problems_add(&wrong, "--train '%s' matches no tensor of floats (graph-transform --parameters lists them)",
                         p->train[i]);
    return problems_fail(&wrong, E_INVALID, "parameters");
}

/* ---- the list ---- */

enum { MOST_NAMES = 16 }; /* in a message */

static bool is_candidate(const Graph *g, uint32_t i)
{
    const Value *v = g->value[i];

    return v->kind == V_CONST && dtype_is_float(v->dtype) && v->init && v->init->data;
}

/* By value id: the digest of a candidate's numbers. */
static uint64_t *find_digests(const Graph *g, Arena *a)
{
    uint64_t *digest = ARENA_NEW(a, uint64_t, g->n_value);

    for (uint32_t i = 1; digest && i < g->n_value; i++)
        if (is_candidate(g, i))
            digest[i] = tensor_digest(g->value[i]->init, false);
    return digest;
}

/* Matches all tensors with the key's numbers: initializers, or if there are none, constants of nodes.  Equal tensors
 * are indistinguishable, so the key means all of them. */
static bool take_numbers(ParameterMatch *out, const Graph *g, const uint64_t *digest, const ParameterKey *k)
{
    bool found = false;

    for (int nodes = 0; nodes < 2 && !found; nodes++)
        for (uint32_t i = 1; i < g->n_value; i++) {
            if (!is_candidate(g, i) || shape_numel(g->value[i]->shape) != k->numel)
                continue;
            if ((digest[i] != k->digest && digest[i] != k->digest_transposed) ||
                (g->value[i]->origin == ORIGIN_NODE) != (nodes == 1))
                continue;
            found = true;
            if (out->by[i])
                continue;
            out->by[i] = k->name;
            out->key[i] = k;
        }
    return found;
}

/* May the key name no tensor that is trained?  A state_dict has buffers besides parameters. */
static bool is_buffers_key(const ParameterKey *k)
{
    return (k->has_numbers && (!k->is_float || k->looks == LOOKS_MASK || k->looks == LOOKS_WAVES)) ||
           name_meaning(k->name) == MEANS_BUFFER;
}

Status parameter_list_match(ParameterMatch *out, const ParameterList *list, const Graph *g, Arena *a)
{
    const uint64_t *digest = NULL; /* computed when a key first needs them */
    PROBLEMS(unmatched);
    int n_unmatched = 0;

    out->by = ARENA_NEW(a, const char *, g->n_value);
    out->key = ARENA_NEW(a, const ParameterKey *, g->n_value);
    if (!out->by || !out->key)
        return FAIL_NOMEM();
    for (int i = 0; i < list->n; i++) {
        const ParameterKey *k = &list->key[i];
        const ValueId v = graph_find(g, k->name);
        bool found = has_value(v) && is_candidate(g, v.i);

        if (has_value(v) && value(g, v)->kind == V_CONST && !found)
            continue; /* an integer tensor is not trainable, and not missing either */
        if (found) {
            out->by[v.i] = k->name;
            out->key[v.i] = k;
        } else if (k->has_numbers && k->is_float) {
            if (!digest && !(digest = find_digests(g, a)))
                return FAIL_NOMEM();
            found = take_numbers(out, g, digest, k);
        }
        if (!found && !is_buffers_key(k) && n_unmatched++ < MOST_NAMES)
            problems_add(&unmatched, "'%s'%s", k->name,
                         k->has_numbers && k->looks == LOOKS_UNIFORM ? " (one number throughout)" : "");
    }
    if (n_unmatched > MOST_NAMES)
        problems_add(&unmatched, "and %d more", n_unmatched - MOST_NAMES);
    return problems_fail(&unmatched, E_INVALID,
                         "--parameters %s: no tensor of the model has these names%s (exporters rename, merge and "
                         "drop tensors: docs/reference/parameters.md)",
                         list->path, list->n && list->key[0].has_numbers ? " or numbers" : "");
}
