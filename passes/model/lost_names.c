/* Warnings of patterns that match a module's name but miss its weights, because an exporter renamed the weights.
 *
 * By default PyTorch's exporters call the transposed weight of a Linear or an LSTM "val_88" or "onnx::MatMul_104".
 * `--freeze 'backbone.*'` then freezes only the biases.  The module is still known: from metadata of the node that
 * reads the weight, or from the node's name. */
#include <string.h>

#include "passes/model/merged_copies.h"
#include "passes/model/parameters.h"
#include "passes/options/parameters.h"
#include "passes/options/update.h"
#include "passes/update_groups.h"

/* key[value id]: the name that the module has for a weight, "head.weight"; NULL: unknown, or the weight has it.  The
 * first reader of a known module gives the name, so a tied weight has that of one of its modules. */
static Status lost_names_find_keys(const char **key, const Parameters *p)
{
    const Graph *g = p->g;
    Arena *a = p->ctx->scratch;

    FOR_NODES(g, n)
        for (int i = 0; i < n->n_in; i++) {
            const Value *v = has_value(n->in[i]) ? value(g, n->in[i]) : NULL;
            const char *module, *place = place_name(n, i);
            size_t len;

            if (!v || key[n->in[i].i] || !p->verdict[n->in[i].i].reason)
                continue;
            TRY(node_scope(&module, n, a));
            if (!module || !*module)
                continue;
            len = strlen(module);
            if (name_form(g, v, p->torch_export) != NAME_MADE &&
                (!place || (!strncmp(v->name, module, len) && v->name[len] == '.')))
                continue;
            if (!(key[n->in[i].i] = arena_printf(a, "%s.%s", module, place ? place : "weight")))
                return FAIL_NOMEM();
        }
    return ST_OK;
}

/* Does the k-th pattern of a flag match the key of tensor i, though another rule decides the tensor? */
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

static Status note_pattern(const Parameters *p, const char *const *key, const char *flag, const char *pattern,
                           Misses *misses, int k)
{
    enum { MOST = 8 };
    const Graph *g = p->g;
    const char *list = "";
    int n = 0;

    for (uint32_t i = 1; i < g->n_value; i++)
        if (key[i] && misses(p, i, key[i], k) && n++ < MOST &&
            !(list = arena_printf(p->ctx->scratch, "%s%s'%s' of '%.*s'", list, *list ? ", " : "", g->value[i]->name,
                                  (int)(strrchr(key[i], '.') - key[i]), key[i])))
            return FAIL_NOMEM();
    if (!n)
        return ST_OK;
    return report_note(p->ctx->report, NOTE_EXPORTER, "the exporter",
                       "%s '%s' does not reach %s%s, which ha%s in the file: name %s too, or export with the "
                       "modules' names (docs/guide/export.md)",
                       flag, pattern, list, n > MOST ? " and others" : "", n > 1 ? "ve other names" : "s another name",
                       n > 1 ? "them" : "it");
}

Status note_lost_names(const Parameters *p)
{
    const BuildOptions *opt = p->ctx->opt;
    const UpdateOptions *updates = update_options(opt);
    const ParameterOptions *parameters = parameter_options(opt);
    const char **key;

    if (!p->ctx->report || (!parameters->n_freeze && !parameters->n_train && !updates->n_group))
        return ST_OK;
    if (!(key = ARENA_NEW(p->ctx->scratch, const char *, p->g->n_value)))
        return FAIL_NOMEM();
    TRY(lost_names_find_keys(key, p));
    for (int k = 0; k < parameters->n_freeze; k++)
        TRY(note_pattern(p, key, "--freeze", parameters->freeze[k], freeze_misses, k));
    for (int k = 0; k < parameters->n_train; k++)
        TRY(note_pattern(p, key, "--train", parameters->train[k], train_misses, k));
    for (int k = 0; k < updates->n_group; k++)
        TRY(note_pattern(p, key, "--group", updates->group[k].pattern, group_misses, k));
    return ST_OK;
}
