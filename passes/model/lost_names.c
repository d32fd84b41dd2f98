/* Weights whose names are not their module's, so that patterns of the module's names do not reach them.
 *
 * PyTorch's exporters, unless told otherwise, call the transposed weight of a Linear "val_88" or "onnx::MatMul_104",
 * and likewise those of an LSTM.  `--freeze 'backbone.*'` then stops the biases alone.  The module is known all the
 * same, by metadata of the node that reads the weight or by the node's name. */
#include <string.h>

#include "passes/model/merged_copies.h"
#include "passes/model/parameters.h"
#include "passes/update_groups.h"
#include "passes/options/parameters.h"
#include "passes/options/update.h"

typedef struct {
    const Parameters *p;
    const char **key; /* by value id: the name that the module has for it, "head.weight"; NULL: unknown, or its own */
} Lost;

static bool owns(const char *module, const char *name)
{
    const size_t n = strlen(module);

    return !strncmp(name, module, n) && name[n] == '.';
}

/* A weight's first reader of a known module gives the name.  A tied weight has that of one of its modules. */
static Status find_keys(Lost *l)
{
    const Graph *g = l->p->g;
    Arena *a = l->p->ctx->scratch;

    FOR_NODES(g, n)
        for (int i = 0; i < n->n_in; i++) {
            const Value *v = has_value(n->in[i]) ? value(g, n->in[i]) : NULL;
            const char *module, *place = place_name(n, i);

            if (!v || l->key[n->in[i].i] || !l->p->verdict[n->in[i].i].reason)
                continue;
            TRY(node_scope(&module, n, a));
            if (!module || !*module ||
                (name_form(g, v, l->p->torch_export) != NAME_MADE && (!place || owns(module, v->name))))
                continue;
            if (!(l->key[n->in[i].i] = arena_printf(a, "%s.%s", module, place ? place : "weight")))
                return FAIL_NOMEM();
        }
    return ST_OK;
}

/* Would the pattern decide the tensor, had it the module's name? */
typedef bool Misses(const Parameters *p, uint32_t i, const char *key, int k);

static bool rule_misses(const Parameters *p, uint32_t i, const char *key, const char *pattern, PatternRule rule)
{
    const char *by_key, *by_name;
    const PatternRule of_name = pattern_rule(p->ctx->opt, p->g->value[i]->name, &by_name);

    return pattern_rule(p->ctx->opt, key, &by_key) == rule && by_key == pattern && of_name != rule &&
           !(of_name != PATTERN_SILENT && pattern_is_name(by_name));
}

static bool freeze_misses(const Parameters *p, uint32_t i, const char *key, int k)
{
    return p->verdict[i].trained && rule_misses(p, i, key, parameter_options(p->ctx->opt)->freeze[k], PATTERN_FREEZE);
}

static bool train_misses(const Parameters *p, uint32_t i, const char *key, int k)
{
    return !p->verdict[i].trained && rule_misses(p, i, key, parameter_options(p->ctx->opt)->train[k], PATTERN_TRAIN);
}

static bool group_misses(const Parameters *p, uint32_t i, const char *key, int k)
{
    const BuildOptions *opt = p->ctx->opt;
    const int of_name = update_group_of(opt, p->g->value[i]->name);

    return p->verdict[i].trained && update_group_of(opt, key) == k + 1 && of_name != k + 1 &&
           !(of_name && pattern_is_name(update_options(opt)->group[of_name - 1].pattern));
}

static Status note_pattern(const Lost *l, const char *flag, const char *pattern, Misses *misses, int k)
{
    enum { MOST = 8 };
    const Graph *g = l->p->g;
    const char *list = "";
    int n = 0;

    for (uint32_t i = 1; i < g->n_value; i++)
        if (l->key[i] && misses(l->p, i, l->key[i], k) && n++ < MOST &&
            !(list = arena_printf(l->p->ctx->scratch, "%s%s'%s' of '%.*s'", list, *list ? ", " : "", g->value[i]->name,
                                  (int)(strrchr(l->key[i], '.') - l->key[i]), l->key[i])))
            return FAIL_NOMEM();
    if (!n)
        return ST_OK;
    return report_note(l->p->ctx->report, NOTE_EXPORTER, "the exporter",
                       "%s '%s' does not reach %s%s, which ha%s in the file: name %s too, or export with the "
                       "modules' names (docs/export.md)",
                       flag, pattern, list, n > MOST ? " and others" : "", n > 1 ? "ve other names" : "s another name",
                       n > 1 ? "them" : "it");
}

Status note_lost_names(const Parameters *p)
{
    const BuildOptions *opt = p->ctx->opt;
    Lost l = { p, NULL };

    if (!p->ctx->report ||
        (!parameter_options(opt)->n_freeze && !parameter_options(opt)->n_train && !update_options(opt)->n_group))
        return ST_OK;
    if (!(l.key = ARENA_NEW(p->ctx->scratch, const char *, p->g->n_value)))
        return FAIL_NOMEM();
    TRY(find_keys(&l));
    for (int k = 0; k < parameter_options(opt)->n_freeze; k++)
        TRY(note_pattern(&l, "--freeze", parameter_options(opt)->freeze[k], freeze_misses, k));
    for (int k = 0; k < parameter_options(opt)->n_train; k++)
        TRY(note_pattern(&l, "--train", parameter_options(opt)->train[k], train_misses, k));
    for (int k = 0; k < update_options(opt)->n_group; k++)
        TRY(note_pattern(&l, "--group", update_options(opt)->group[k].pattern, group_misses, k));
    return ST_OK;
}
