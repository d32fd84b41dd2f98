/* Parameters that stay fixed although their name, the file or a flag calls them parameters: warnings that name them,
 * and errors for flags that train nothing.
 *
 * A tensor that no derivative reaches is fixed whatever calls it a parameter.  passes/train/no_gradient.c reports
 * parameters that the model uses but the loss does not. */
#include <stdio.h>
#include <string.h>

#include "passes/model/parameters.h"
#include "passes/options/parameters.h"

static bool is_decided(const Parameters *p, uint32_t i)
{
    const Value *v = p->g->value[i];

    return p->verdict[i].reason && !v->tied && v->evidence != EVIDENCE_JOINED;
}

static NameForm form_of(const Parameters *p, uint32_t i) { return name_form(p->g, p->g->value[i], p->torch_export); }

/* Is the key a parameter?  A state_dict has buffers, too. */
static bool key_means_parameter(const ParameterKey *key)
{
    return !key->has_numbers || (name_meaning(key->name) != MEANS_BUFFER && key->looks != LOOKS_MASK &&
                                 key->looks != LOOKS_SWITCH && key->looks != LOOKS_WAVES);
}

/* Is it called a parameter, by anything but a pattern with wildcards?  *by_name: by its name only. */
static bool is_called_parameter(const Parameters *p, uint32_t i, bool *by_name)
{
    const Value *v = p->g->value[i];
    const BuildOptions *opt = p->ctx->opt;
    const char *pattern;
    const PatternRule rule = pattern_rule(opt, v->name, &pattern);
    const NameForm form = form_of(p, i);

    *by_name = false;
    if (rule == PATTERN_FREEZE)
        return false;
    if (rule == PATTERN_TRAIN && pattern_is_name(pattern))
        return true;
    if (v->origin != ORIGIN_INITIALIZER)
        return false;
    if (parameter_options(opt)->parameters && rule == PATTERN_SILENT)
        return p->list.key[i] && key_means_parameter(p->list.key[i]);
    if (v->evidence != EVIDENCE_NONE)
        return v->evidence == EVIDENCE_TRAINED || v->evidence == EVIDENCE_PARAMETER || v->evidence == EVIDENCE_HEAD;
    *by_name = true;
    return form == NAME_VARIABLE || (form != NAME_MADE && name_meaning(v->name) == MEANS_PARAMETER);
}

/* Is value i a mask: zeros and ones that a comparison or a Cast converts to booleans?  GPT-2's causal mask is called
 * bias. */
static bool is_mask(const Parameters *p, uint32_t i, const Node *reader)
{
    return reader && p->g->value[reader->out[0].i]->dtype == DT_BOOL &&
           tensor_looks(p->g->value[i]->init) == LOOKS_SWITCH;
}

/* Warns of a parameter that stays fixed.  Neither an operator's setting nor a mask is a parameter by its name alone. */
static Status warn_fixed(const Parameters *p, uint32_t i)
{
    const Value *v = p->g->value[i];
    char shape[SHAPE_TEXT];
    bool by_name;
    WayEnd end;

    if (p->verdict[i].trained || p->reach.reach[i] & ~REACH_SETTING || !strcmp(p->verdict[i].reason, REASON_QAT_OFF) ||
        !is_called_parameter(p, i, &by_name))
        return ST_OK;
    shape_text(v->shape, shape);
    if (p->reach.reach[i] || !p->read[i])
        return report_note(p->ctx->report, NOTE_NO_GRADIENT, v->name, "shape %s: %s", shape, p->verdict[i].reason);
    TRY(report_way_end(&end, p->g, (ValueId){ i }, p->ctx->scratch));
    if (by_name && (end.setting || is_mask(p, i, end.node)))
        return ST_OK;
    return report_note(
        p->ctx->report, NOTE_NO_GRADIENT, v->name, "shape %s: not trained: the path to the loss ends at %s%s", shape,
        end.node ? node_text(p->g, end.node) : "an output", end.setting ? ", for which it is a setting" : "");
}

/* Adds an error if all tensors that the flag decides stay fixed, and warns if some do.  `pattern`: of --train; NULL:
 * --parameters.  The warning leaves out numbers of the code and statistics. */
static Status check_flag(Problems *wrong, const Parameters *p, const char *pattern)
{
    int n_trained = 0, n_fixed = 0, n_shown = 0;
    int n_updated = 0;  /* running statistics, which --train sets free (passes/train/prepare_training.c) */
    uint32_t first = 0; /* that stays fixed */
    WayEnd end = { 0 };
    char names[256] = "", why[512];
    size_t len = 0;

    for (uint32_t i = 1; i < p->g->n_value; i++) {
        const Value *v = p->g->value[i];
        const char *by;
        const PatternRule rule = pattern_rule(p->ctx->opt, v->name, &by);

        if (!is_decided(p, i) ||
            !(pattern ? rule == PATTERN_TRAIN && by == pattern
                      : rule == PATTERN_SILENT && p->list.key[i] && key_means_parameter(p->list.key[i])))
            continue;
        n_trained += p->verdict[i].trained;
        n_updated += pattern && p->reach.reach[i] & REACH_STATISTIC;
        if (p->verdict[i].trained)
            continue;
        first = first ? first : i;
        if (v->origin != ORIGIN_INITIALIZER || form_of(p, i) == NAME_MADE || p->reach.reach[i] & REACH_STATISTIC)
            continue;
        n_fixed++;
        if (len + strlen(v->name) + 4 < sizeof names)
            len += (size_t)snprintf(names + len, sizeof names - len, "%s'%s'", n_shown++ ? ", " : "", v->name);
    }
    if (!n_trained && !n_updated && first) {
        if (!p->reach.reach[first] && p->read[first])
            TRY(report_way_end(&end, p->g, (ValueId){ first }, p->ctx->scratch));
        if (end.node)
            snprintf(why, sizeof why, "no gradient reaches it: its path to the outputs ends at %s%s",
                     node_text(p->g, end.node), end.setting ? ", for which it is a setting" : "");
        else
            snprintf(why, sizeof why, "%s", p->verdict[first].reason);
        problems_add(wrong, "%s%s%s%s trains nothing: '%s': %s", pattern ? "--train" : "--parameters ",
                     pattern ? " '" : "", pattern ? pattern : parameter_options(p->ctx->opt)->parameters->path,
                     pattern ? "'" : "", p->g->value[first]->name, why);
    }
    if (!pattern || !n_trained || !n_fixed)
        return ST_OK;
    return report_note(p->ctx->report, NOTE_OTHER, "--train",
                       "'%s' also matches tensors that no gradient reaches; they stay fixed: %s%s", pattern, names,
                       n_fixed > n_shown ? " and others" : "");
}

/* Lists the tensors that --qat off fixes. */
static Status note_quantised(const Parameters *p)
{
    char names[512] = "";
    size_t len = 0;
    int n = 0, n_shown = 0;

    for (uint32_t i = 1; p->quantised && i < p->g->n_value; i++) {
        const char *name = p->g->value[i]->name;

        if (!is_decided(p, i) || strcmp(p->verdict[i].reason, REASON_QAT_OFF))
            continue;
        n++;
        if (len + strlen(name) + 4 < sizeof names)
            len += (size_t)snprintf(names + len, sizeof names - len, "%s'%s'", n_shown++ ? ", " : "", name);
    }
    return !n ? ST_OK
              : report_note(p->ctx->report, NOTE_OTHER, "parameters", "fixed by --qat off: %s%s", names,
                            n > n_shown ? " and others" : "");
}

Status parameters_obeyed(const Parameters *p)
{
    const BuildOptions *opt = p->ctx->opt;
    const ParameterOptions *parameters = parameter_options(opt);
    PROBLEMS(wrong);

    if (build_mode(opt) < BUILD_TRAIN)
        return ST_OK;
    for (int i = 0; i < parameters->n_train; i++)
        TRY(check_flag(&wrong, p, parameters->train[i]));
    if (parameters->parameters)
        TRY(check_flag(&wrong, p, NULL));
    TRY(problems_fail(&wrong, E_INVALID, "parameters"));
    TRY(note_quantised(p));
    for (uint32_t i = 1; i < p->g->n_value; i++)
        if (is_decided(p, i))
            TRY(warn_fixed(p, i));
    return ST_OK;
}
