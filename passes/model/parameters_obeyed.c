/* Parameters by their name, the file or a flag that are not trained: warnings that name them, and errors of flags that
 * train nothing.
 *
 * A tensor that no derivative reaches is fixed, whatever calls it a parameter.  Parameters that are used, and not for
 * the loss, are told by passes/train/no_gradient.c. */
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

/* A key of a state_dict may be that of a buffer. */
static bool key_means_parameter(const ParameterKey *key)
{
    return !key->has_numbers || (name_meaning(key->name) != MEANS_BUFFER && key->looks != LOOKS_MASK &&
                                 key->looks != LOOKS_SWITCH && key->looks != LOOKS_WAVES);
}

/* Does anything but a pattern with wildcards call it a parameter?  `by_name`: nothing but its name does. */
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
        return v->evidence == EVIDENCE_TRAINED || v->evidence == EVIDENCE_PARAMETER;
    *by_name = true;
    return form == NAME_VARIABLE || (form != NAME_MADE && name_meaning(v->name) == MEANS_PARAMETER);
}

/* Is value i a mask: zeros and ones that a comparison or a Cast makes booleans of?  GPT-2's causal mask is called
 * bias. */
static bool is_mask(const Parameters *p, uint32_t i, const Node *reader)
{
    return reader && p->g->value[reader->out[0].i]->dtype == DT_BOOL &&
           tensor_looks(p->g->value[i]->init) == LOOKS_SWITCH;
}

/* A name alone makes no parameter of a node's setting, nor of a mask. */
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
        p->ctx->report, NOTE_NO_GRADIENT, v->name, "shape %s: not trained: the way to the loss ends at %s%s", shape,
        end.node ? node_text(p->g, end.node) : "an output", end.setting ? ", for which it is a setting" : "");
}

/* Why it stays fixed. */
static Status reason_of(char *text, size_t size, const Parameters *p, uint32_t i)
{
    WayEnd end = { 0 };

    if (!p->reach.reach[i] && p->read[i])
        TRY(report_way_end(&end, p->g, (ValueId){ i }, p->ctx->scratch));
    if (end.node)
        snprintf(text, size, "no derivative reaches it: its way to the outputs ends at %s%s", node_text(p->g, end.node),
                 end.setting ? ", for which it is a setting" : "");
    else
        snprintf(text, size, "%s", p->verdict[i].reason);
    return ST_OK;
}

/* The tensors that a pattern of --train (NULL: --parameters) decides. */
typedef struct {
    const char *pattern;
    int n_trained, n_fixed, n_shown;
    uint32_t first; /* that stays fixed */
    char names[256];
} Obeyed;

static bool decides(const Parameters *p, const Obeyed *o, uint32_t i)
{
    const char *pattern;
    const PatternRule rule = pattern_rule(p->ctx->opt, p->g->value[i]->name, &pattern);

    if (!o->pattern)
        return rule == PATTERN_SILENT && p->list.key[i] && key_means_parameter(p->list.key[i]);
    return rule == PATTERN_TRAIN && pattern == o->pattern;
}

/* Numbers of the code and what training updates in another way are no news. */
static bool is_news(const Parameters *p, uint32_t i)
{
    return p->g->value[i]->origin == ORIGIN_INITIALIZER && form_of(p, i) != NAME_MADE &&
           !(p->reach.reach[i] & REACH_STATISTIC);
}

static void parameters_obeyed_count(Obeyed *o, const Parameters *p)
{
    size_t len = 0;
    int n_news = 0;

    for (uint32_t i = 1; i < p->g->n_value; i++) {
        const char *name = p->g->value[i]->name;

        if (!is_decided(p, i) || !decides(p, o, i))
            continue;
        o->n_trained += p->verdict[i].trained;
        if (p->verdict[i].trained)
            continue;
        o->first = o->first ? o->first : i;
        if (!is_news(p, i))
            continue;
        n_news++;
        if (len + strlen(name) + 4 < sizeof o->names)
            len += (size_t)snprintf(o->names + len, sizeof o->names - len, "%s'%s'", o->n_shown++ ? ", " : "", name);
    }
    o->n_fixed = n_news;
}

static Status check_flag(Problems *wrong, const Parameters *p, const char *pattern)
{
    Obeyed o = { .pattern = pattern };
    char why[512];

    parameters_obeyed_count(&o, p);
    if (!o.n_trained && o.first) {
        TRY(reason_of(why, sizeof why, p, o.first));
        problems_add(wrong, "%s%s%s%s trains nothing: '%s': %s", pattern ? "--train" : "--parameters ",
                     pattern ? " '" : "", pattern ? pattern : parameter_options(p->ctx->opt)->parameters->path,
                     pattern ? "'" : "", p->g->value[o.first]->name, why);
    }
    if (!pattern || !o.n_trained || !o.n_fixed)
        return ST_OK;
    return report_note(p->ctx->report, NOTE_OTHER, "--train",
                       "'%s' matches what no derivative reaches and stays fixed: %s%s", pattern, o.names,
                       o.n_fixed > o.n_shown ? " and others" : "");
}

/* Tensors that --qat off fixes, by name. */
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
              : report_note(p->ctx->report, NOTE_OTHER, "what is trained", "fixed by --qat off: %s%s", names,
                            n > n_shown ? " and others" : "");
}

Status parameters_obeyed(const Parameters *p)
{
    const BuildOptions *opt = p->ctx->opt;
    Problems wrong = { 0 };

    if (build_mode(opt) < BUILD_TRAIN)
        return ST_OK;
    for (int i = 0; i < parameter_options(opt)->n_train; i++)
        TRY(check_flag(&wrong, p, parameter_options(opt)->train[i]));
    if (parameter_options(opt)->parameters)
        TRY(check_flag(&wrong, p, NULL));
    TRY(problems_fail(&wrong, E_INVALID, "what is trained"));
    TRY(note_quantised(p));
    for (uint32_t i = 1; i < p->g->n_value; i++)
        if (is_decided(p, i))
            TRY(warn_fixed(p, i));
    return ST_OK;
}
