/* find-parameters: decides for every float constant of the model whether it is trained, and records the reason.
 *
 * The first evidence decides, in this order: a constant without a derivative is fixed; the user's patterns; the user's
 * list; the file; rules.  The rules use the name (if the producer's names are known), the tensor's origin, its numbers
 * and its place in the model.  Where the rules cannot distinguish two cases, they choose one; that decision is a guess,
 * and a note warns of it.  All modes make the same decisions, because a session shares the states between its graphs.
 */
#include "passes/model/parameters.h"

#include <stdio.h>
#include <string.h>

#include "graph/ops/quantize.h"
#include "passes/options/parameters.h"
#include "passes/options/recipes.h"
#include "passes/options/update.h"
#include "passes/update_groups.h"

#define TRAINED(why) ((Verdict){ true, false, (why) })
#define FIXED(why) ((Verdict){ false, false, (why) })
#define REASON_BUFFERS_NAME "has the name of a buffer"
#define GUESS(trained, why) ((Verdict){ (trained), true, (why) })

/* ---- rules ---- */

/* The evidence about one constant. */
typedef struct {
    const Value *v;
    uint16_t reach; /* REACH_; REACH_SETTING only alone */
    NameForm form;
    NameMeaning meaning;
    Looks looks;
    int64_t numel;
    bool literal;                       /* a number of the code, to judge by its node */
    bool spread, by_instance, rescales; /* as in Reach */
} Facts;

/* Is the constant from a Constant node, or (ORIGIN_NONE) from a function's body? */
static bool in_node(const Value *v) { return v->origin != ORIGIN_INITIALIZER; }

/* Was the initializer a Constant node before a simplifier ran?  PyTorch's older exporter names these
 * "/norm/Constant_1_output_0". */
static bool was_in_node(const Graph *g, const Value *v)
{
    const char *s = strrchr(v->name, '/');

    if (!s || !producer_is(g, "pytorch") || strncmp(s, "/Constant_", strlen("/Constant_")))
        return false;
    s += strlen("/Constant_");
    if (*s >= '0' && *s <= '9') {
        s += strspn(s, "0123456789");
        if (*s++ != '_')
            return false;
    }
    return !strcmp(s, "output_0");
}

static bool in_weights_place(const Facts *f) { return f->reach & (REACH_WEIGHT | REACH_NORM); }

/* A number of the code may have the place of a parameter: GroupNorm is exported as InstanceNormalization with constant
 * scales. */
static Verdict judge_literal(const Parameters *p, const Facts *f)
{
    if (f->reach & REACH_CELL)
        return TRAINED("weights of a recurrent cell, which the exporter computed");
    if (producer_is(p->g, "pytorch"))
        return FIXED("a Constant node: PyTorch keeps parameters as initializers");
    if (f->numel == 1)
        return FIXED("one number in a Constant node");
    if (f->looks == LOOKS_UNIFORM)
        return FIXED("the same number throughout, in a Constant node of a file whose weights are initializers");
    return in_weights_place(f)
               ? GUESS(true, "stands where weights do, but in a Constant node of a file whose weights are initializers")
               : GUESS(false, "a Constant node of a file whose weights are initializers");
}

static Verdict judge_number(const Facts *f)
{
    if (f->form == NAME_VARIABLE || (f->form == NAME_KEY && f->meaning == MEANS_PARAMETER))
        return TRAINED("one number that has a parameter's name");
    if (f->form == NAME_KEY && f->meaning == MEANS_BUFFER)
        return GUESS(false, REASON_BUFFERS_NAME);
    if (f->form == NAME_KEY && f->v->origin == ORIGIN_INITIALIZER)
        return GUESS(true, "one number with a name of the module: a parameter, or a buffer");
    /* The 3 that a Hardswish adds to all channels is no bias. */
    if (f->v->shape->rank > 0 && f->reach & (REACH_BIAS | REACH_WEIGHT | REACH_NORM) &&
        !((in_node(f->v) || f->form == NAME_MADE) && f->spread))
        return TRAINED("a bias or weight of one number");
    return FIXED("one number");
}

/* A bound or a filling value is a number of the code, unless its name makes it a parameter. */
static Verdict judge_setting(const Facts *f)
{
    if (f->meaning != MEANS_BUFFER && f->v->origin == ORIGIN_INITIALIZER) {
        if (f->form == NAME_VARIABLE)
            return TRAINED("a variable by its name");
        if (f->form == NAME_KEY && f->meaning == MEANS_PARAMETER)
            return TRAINED("a parameter by its name");
        if (f->form == NAME_KEY || (f->form == NAME_PLAIN && f->meaning == MEANS_PARAMETER))
            return GUESS(true, "a bound or filling value with a name of the module: a parameter, or a buffer");
    }
    return FIXED("a bound or a filling value that nothing calls a parameter");
}

/* A constant at an input where no operator declares a parameter. */
static Verdict judge_term(const Facts *f)
{
    if (f->form == NAME_VARIABLE)
        return TRAINED("a variable by its name");
    if (f->form == NAME_KEY)
        return f->meaning == MEANS_PARAMETER ? TRAINED("a parameter by its name")
                                             : GUESS(true, "has a name of the module: a parameter, or a buffer");
    if (f->reach & REACH_BIAS)
        return TRAINED("a bias");
    if (f->form == NAME_MADE && in_node(f->v) && f->reach & (REACH_TERM | REACH_FLOW))
        return f->looks == LOOKS_UNIFORM && !(f->reach & REACH_TERM)
                   ? GUESS(false, "the same number throughout, in a Constant node")
                   : GUESS(true, "in a Constant node: a parameter, or a number of the code");
    if (f->form == NAME_MADE)
        return f->looks == LOOKS_UNIFORM && !(f->reach & REACH_TERM)
                   ? GUESS(false, "the same number throughout, of a name that the exporter made up")
                   : GUESS(true, "computed by the exporter: from a parameter, or from a constant");
    if (f->reach & REACH_TERM)
        return TRAINED("added or multiplied");
    if (f->reach & REACH_FLOW)
        return f->looks == LOOKS_UNIFORM
                   ? GUESS(false, "becomes data, and is one number throughout: a start state, or a fresh parameter")
                   : GUESS(true, "becomes data: a parameter, or a table");
    return FIXED("a divisor or exponent");
}

/* Judges by the numbers alone.  False: they show nothing. */
static bool judge_looks(Verdict *out, const Facts *f)
{
    if (f->looks == LOOKS_MASK)
        *out = FIXED("a mask: zeros and large negative numbers");
    else if (f->looks == LOOKS_SWITCH && !in_weights_place(f))
        *out = FIXED("a mask: zeros and ones");
    else if (f->looks == LOOKS_WAVES)
        *out = GUESS(false, "a table of sines and cosines");
    else if (f->looks == LOOKS_WINDOW)
        *out = GUESS(false, "a filter that takes a mean: not negative, sum 1");
    else
        return false;
    return true;
}

/* A constant that the exporter computed from recorded sources. */
static Verdict judge_folded(const Parameters *p, const Facts *f)
{
    NameMeaning of = folded_meaning(p->g, f->v->folded_from);
    Verdict verdict;

    if (folded_beside(p->g, f->v->folded_from))
        return GUESS(false, "the exporter computed it from a parameter that the model has, by no formula known here");
    if (of == MEANS_PARAMETER)
        return TRAINED("the exporter computed it from a parameter");
    if (of == MEANS_BUFFER)
        return FIXED("the exporter computed it from buffers and constants");
    if (judge_looks(&verdict, f))
        return verdict;
    if (f->looks == LOOKS_UNIFORM && f->reach & REACH_NORM)
        return FIXED("the same number throughout, made by the exporter for a norm that has none");
    return GUESS(f->v->shape->rank > 0, "the exporter computed it, from a parameter or from a constant");
}

static Verdict judge_by_rules(const Parameters *p, const Facts *f, bool normalises)
{
    const bool named = f->form == NAME_VARIABLE || (f->form == NAME_KEY && f->meaning == MEANS_PARAMETER);
    Verdict verdict;

    if (f->reach == REACH_SETTING)
        return judge_setting(f);
    if (normalises && !(named && f->meaning == MEANS_PARAMETER))
        return GUESS(false, "mean or variance of a batch normalisation that is written as a formula, out of training");

    if (f->rescales && f->form != NAME_VARIABLE && producer_is(p->g, "pytorch"))
        return GUESS(false, "scale or shift of a batch normalisation that is written as a formula, as a frozen one is");
    if (f->literal)
        return judge_literal(p, f);
    if (f->by_instance && in_node(f->v) && f->looks == LOOKS_UNIFORM && producer_is(p->g, "pytorch"))
        return FIXED("the same number throughout, for an InstanceNormalization that has none of its own");
    if (f->v->folded_from)
        return judge_folded(p, f);
    if (f->form == NAME_KEY && name_is_power_iteration(p->g, f->v->name))
        return FIXED("a vector of spectral_norm's power iteration, beside the weight that it belongs to");
    if (f->reach & REACH_WEIGHT && tensor_is_fixed_filter(f->v->init))
        return GUESS(false, "a filter that nobody learned: one kernel for all channels, or kernels of few magnitudes");
    if (named && in_weights_place(f))
        return TRAINED("a parameter by its name and place");
    if (judge_looks(&verdict, f))
        return verdict;
    if (f->reach == REACH_COLOUR && !named)
        return f->meaning == MEANS_BUFFER || in_node(f->v) || (f->numel == 1 && f->form != NAME_KEY)
                   ? FIXED("few numbers that meet the input before any weights: mean or deviation of colours")
                   : GUESS(false, "few numbers that meet the input before any weights: mean or deviation of colours");
    if (f->numel == 1)
        return judge_number(f);
    if (f->meaning == MEANS_BUFFER && !(f->reach & REACH_NORM))
        return GUESS(false, REASON_BUFFERS_NAME);
    if (f->form == NAME_KEY && f->looks == LOOKS_STEPS &&
        (f->meaning != MEANS_PARAMETER || !(f->reach & (REACH_WEIGHT | REACH_NORM | REACH_BIAS))))
        return GUESS(false, "evenly spaced, as positions and grids are");
    if (in_weights_place(f))
        return f->form == NAME_KEY ? GUESS(true, "stands where weights do; a parameter, or a buffer")
                                   : TRAINED("stands where weights do");
    return judge_term(f);
}

/* ---- the order of evidence ---- */

static Verdict judge_listed(const Parameters *p, uint32_t i, const Facts *f)
{
    const ParameterKey *key = p->list.key[i];
    Verdict looks;

    if (!key)
        return FIXED("not in the list of --parameters");
    if (f->reach == REACH_SETTING && strcmp(key->name, f->v->name))
        return FIXED("a bound or a filling value whose numbers are in the list of --parameters");
    if (key->has_numbers && (f->v->evidence == EVIDENCE_BUFFER || f->v->evidence == EVIDENCE_FIXED))
        return FIXED("in the list of --parameters, but a buffer by the file");
    if (key->has_numbers && judge_looks(&looks, f))
        return GUESS(false, "in the list of --parameters, but it looks like a buffer");
    if (key->has_numbers && name_meaning(key->name) == MEANS_BUFFER)
        return GUESS(false, "in the list of --parameters, with the name of a buffer");
    return TRAINED(strcmp(key->name, f->v->name) ? "its numbers are in the list of --parameters"
                                                 : "in the list of --parameters");
}

static bool judge_by_file(Verdict *out, const Value *v, Looks looks)
{
    switch (v->evidence) {
    case EVIDENCE_TRAINED: *out = TRAINED("the file says that it is trained"); return true;
    case EVIDENCE_HEAD: *out = TRAINED("new weights of --head"); return true;
    case EVIDENCE_FIXED: *out = FIXED(REASON_FIXED_BY_FILE); return true;
    case EVIDENCE_PARAMETER:
        *out = looks == LOOKS_WAVES
                   ? GUESS(true, "a parameter by the exporter, but sines and cosines: it may be frozen")
                   : TRAINED("the exporter says that it is a parameter");
        return true;
    case EVIDENCE_BUFFER: *out = FIXED("the exporter says that it is a buffer"); return true;
    case EVIDENCE_GIVEN:
    case EVIDENCE_JOINED:
    case EVIDENCE_NONE: break;
    }
    return false;
}

static Verdict judge(const Parameters *p, uint32_t i)
{
    const Value *v = p->g->value[i];
    const BuildOptions *opt = p->ctx->opt;
    Facts f = { v,
                p->reach.reach[i] == REACH_SETTING ? REACH_SETTING : p->reach.reach[i] & ~REACH_SETTING,
                name_form(p->g, v, p->torch_export),
                name_meaning(v->name),
                LOOKS_PLAIN,
                shape_numel(v->shape),
                !p->literal_weights &&
                    (v->origin == ORIGIN_NODE || (v->origin == ORIGIN_NONE && producer_is(p->g, "pytorch")) ||
                     was_in_node(p->g, v)), /* a function's weights have no origin either */
                p->reach.spread[i],
                p->reach.by_instance[i],
                p->reach.rescales[i] };
    const char *pattern;
    PatternRule rule = pattern_rule(opt, v->name, &pattern);
    Verdict verdict;

    if (f.reach & REACH_STATISTIC)
        return FIXED("a running mean or variance: updated, not trained");
    if (!f.reach && p->quantised && p->quantised[i])
        return FIXED(REASON_QAT_OFF);
    if (!f.reach)
        return FIXED(p->read[i] ? "no output depends on it by a derivative" : REASON_NOT_READ);
    if (v->evidence == EVIDENCE_JOINED)
        return FIXED("of a graph beside the model, whose constants stay as they are");
    if (v->evidence == EVIDENCE_GIVEN)
        return FIXED("an input of the model: --input-value");
    if (rule == PATTERN_FREEZE)
        return FIXED("--freeze");
    /* A wildcard does not match the code's own bounds, such as those of a ReLU6. */
    if (rule == PATTERN_TRAIN && (f.reach != REACH_SETTING || pattern_is_name(pattern) ||
                                  (v->origin == ORIGIN_INITIALIZER && f.form != NAME_MADE)))
        return TRAINED("--train");
    if (!(v->evidence == EVIDENCE_NONE && in_weights_place(&f) && f.meaning == MEANS_PARAMETER))
        f.looks = tensor_looks(v->init);
    if (parameter_options(opt)->parameters && v->evidence != EVIDENCE_HEAD)
        return judge_listed(p, i, &f);
    if (judge_by_file(&verdict, v, f.looks))
        return verdict;
    if (p->reach.both[i])
        return FIXED("one number that scales both factors of a product");
    verdict = judge_by_rules(p, &f, p->reach.normalises[i]);
    if (verdict.trained && p->reach.weighs[i])
        return GUESS(false, "only multiplies the terms of a loss, as weights of classes and samples do");
    verdict.guess |= verdict.trained && p->reach.of_loss[i];
    return verdict;
}

/* ---- the pass ---- */

/* Are most matrices and filters in the place of weights from Constant nodes?  PyTorch writes weights so only for a
 * frozen script, which has no initializer with a name of the module. */
static bool has_literal_weights(const Parameters *p)
{
    const bool torch = producer_is(p->g, "pytorch");
    int literal = 0, initializer = 0;

    for (uint32_t i = 1; i < p->g->n_value; i++) {
        const Value *v = p->g->value[i];
        const bool node = in_node(v) || was_in_node(p->g, v);

        if (v->kind != V_CONST || !dtype_is_float(v->dtype) || !p->reach.reach[i])
            continue;
        if (torch && !node && name_form(p->g, v, p->torch_export) == NAME_KEY)
            return false;
        if (p->reach.reach[i] & REACH_WEIGHT && v->shape->rank > 1) {
            literal += node;
            initializer += !node;
        }
    }
    return literal > initializer;
}

/* Sets p->read. */
static Status find_read(Parameters *p)
{
    const Graph *g = p->g;

    if (!(p->read = ARENA_NEW(p->ctx->scratch, bool, g->n_value)))
        return FAIL_NOMEM();
    for (int i = 0; i < g->n_output; i++)
        p->read[g->output[i].value.i] = true;
    FOR_NODES(g, n)
        for (int i = 0; p->reach.live[n->index] && i < n->n_in; i++)
            p->read[n->in[i].i] = true;
    return ST_OK;
}

/* With --qat off, no derivative passes a quantiser.  Sets p->quantised for the values whose derivative it stops. */
static Status find_quantised(Parameters *p)
{
    const Graph *g = p->g;

    if (!parameter_options(p->ctx->opt)->qat_off)
        return ST_OK;
    if (!(p->quantised = ARENA_NEW(p->ctx->scratch, bool, g->n_value)))
        return FAIL_NOMEM();
    for (uint32_t k = g->n_node; k-- > 0;) {
        const Node *n = g->node[k];
        bool any = n->op && quant_role(n) == QUANT_FROM;

        if (any)
            p->quantised[n->in[0].i] = true;
        for (int i = 0; n->op && !any && i < n->n_out; i++)
            any = p->quantised[n->out[i].i];
        for (int i = 0; any && quant_role(n) == QUANT_NONE && i < n->n_in; i++)
            p->quantised[n->in[i].i] |= !(i < 8 && (n->op->setting_in | n->op->tunable_in) >> i & 1);
    }
    return ST_OK;
}

/* The optimizer of a parameter of this group. */
static const OptimizerDef *optimizer_of(const BuildOptions *opt, int group)
{
    return group ? update_options(opt)->group[group - 1].optimizer : recipe_options(opt)->optimizer;
}

/* Sets v->matrix where the parameter's optimizer asks for it, and adds that to the reason for training it. */
static Status decide_matrix(Value *v, Verdict *verdict, const Parameters *p, uint8_t matrix, int group)
{
    const OptimizerDef *def = optimizer_of(p->ctx->opt, group);

    if (!verdict->trained || !def || !def->others)
        return ST_OK;
    v->matrix = matrix & 3;
    if (p->ctx->report && !(verdict->reason = arena_printf(p->ctx->report->arena, "%s; updated by %s", verdict->reason,
                                                           matrix ? def->recipe.name : def->others)))
        return FAIL_NOMEM();
    return ST_OK;
}

static Status decide(Parameters *p)
{
    const BuildOptions *opt = p->ctx->opt;
    const unsigned undecayed = update_options(opt)->undecayed;
    unsigned char *kind;
    uint8_t *matrix;

    TRY(parameter_kinds(&kind, &p->reach, p->ctx->scratch));
    TRY(hidden_matrices_find(&matrix, &p->reach, p->ctx->scratch));
    for (uint32_t i = 1; i < p->g->n_value; i++) {
        Value *v = p->g->value[i];
        Verdict verdict;
        int group;

        if (v->kind != V_CONST || !dtype_is_float(v->dtype))
            continue;
        verdict = p->verdict[i] = judge(p, i);
        group = verdict.trained ? update_group_of(opt, v->name) : 0;
        if (group && p->ctx->report &&
            !(verdict.reason = arena_printf(p->ctx->report->arena, "%s; group %d, '%s'", verdict.reason, group,
                                            update_options(opt)->group[group - 1].pattern)))
            return FAIL_NOMEM();
        if (verdict.trained && kind[i] & undecayed && p->ctx->report &&
            !(verdict.reason = arena_printf(p->ctx->report->arena, "%s; no weight decay", verdict.reason)))
            return FAIL_NOMEM();
        TRY(decide_matrix(v, &verdict, p, matrix[i], group));
        TRY(report_decision(p->ctx->report, v, verdict.trained, verdict.guess, verdict.reason,
                            p->reach.reach[i] & REACH_STATISTIC  ? DECISION_STATISTIC
                            : p->reach.reach[i] & ~REACH_SETTING ? DECISION_DATA
                                                                 : DECISION_UNUSED));
        if (!verdict.trained)
            continue;
        v->kind = V_STATE;
        v->trainable = true;
        v->undecayed = (kind[i] & undecayed) != 0;
        p->ctx->n_changed++;
    }
    return ST_OK;
}

/* Lists all guesses of one kind in one note. */
static Status note_guesses(const Report *r, Report *to, bool trained)
{
    char names[512] = "";
    size_t len = 0;
    int n = 0, shown = 0;

    for (int i = 0; i < r->n_decision; i++) {
        const Decision *d = &r->decision[i];

        if (!d->guess || d->trained != trained)
            continue;
        n++;
        if (len + strlen(d->name) + 4 >= sizeof names)
            continue;
        len += (size_t)snprintf(names + len, sizeof names - len, "%s'%s'", shown++ ? ", " : "", d->name);
    }
    if (!n)
        return ST_OK;
    if (trained)
        return report_note(to, NOTE_GUESS, "parameters", "guessed to be parameters: %s%s; --freeze keeps them fixed",
                           names, n > shown ? " and others" : "");
    return report_note(to, NOTE_GUESS, "parameters", "guessed to be constants: %s%s; --train trains them", names,
                       n > shown ? " and others" : "");
}

static Status parameters_run(Graph *g, PassCtx *ctx)
{
    const ParameterOptions *parameters = parameter_options(ctx->opt);
    Parameters p = { .g = g, .ctx = ctx };

    TRY(pattern_check(ctx->opt, g));
    TRY(reach_find(&p.reach, g, ctx->scratch));
    TRY(loss_weights_find(&p.reach, ctx->opt, ctx->scratch));
    if (!(p.verdict = ARENA_NEW(ctx->scratch, Verdict, g->n_value)))
        return FAIL_NOMEM();
    if (parameters->parameters)
        TRY(parameter_list_match(&p.list, parameters->parameters, g, ctx->scratch));
    TRY(find_read(&p));
    TRY(find_quantised(&p));
    p.torch_export = from_torch_export(g);
    p.literal_weights = has_literal_weights(&p);
    TRY(decide(&p));
    TRY(parameters_obeyed(&p));
    if (!ctx->report)
        return ST_OK;
    TRY(note_guesses(ctx->report, ctx->report, true));
    TRY(note_guesses(ctx->report, ctx->report, false));
    TRY(note_lost_names(&p));
    return exporter_notes(g, ctx->report, &p.reach, ctx->scratch);
}

const Pass pass_find_parameters = { .name = "find-parameters",
                                    .summary = "decide which constants are parameters, make those state",
                                    .run = parameters_run };
