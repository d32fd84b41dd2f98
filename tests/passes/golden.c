/* tests/passes/golden/PASS/NAME.txt: a graph before and after a pass, in the text form.
 *
 *   # what it shows
 *   --- options            optional: mode=train batch=4 dtype=float64 precision=bfloat16 loss-scale=dynamic clip=1
 *                          fuse=yes channels_last=yes accelerator=yes lacks=Sigmoid freeze=conv* train=conv2*
 *                          loss=cross-entropy replicas=2 devices=2 bucket=BYTES reduce=bfloat16
 *                          scalar-outputs=each standard=yes loss-scaling=mean-of-means mean-over=filled chunk=ROWS
 *                          metric=accuracy settings=FLAG=VALUE;... logits=NAME target=NAME target-shape=8,5
 *                          class-axis=2 class-weights=1,0.5 loss-weight=NAME|sum
 *                          clip-power=3 clip-value=1 keep-gradients=yes shard=optimizer turns=yes
 *                          group=PATTERN:LOSS:CLIP input-shape=NAME:3,4 qat=off
 *                          batch-input=NAME:1 output-axis=inputs|1
 *                          stop=PATTERN untie=PATTERN producer=NAME
 *                          window=TOKENS new-tokens=1
 *                          bn=sync|local|average bn-group=2 bn-clamp=yes own-buffers=yes head=NAME=N
 *   --- before
 *   graph "g" { ... }      types of outputs may be left out: they are inferred
 *   --- after              or: --- error TEXT
 *   graph "g" { ... }
 *   --- notes              optional: what the pass reports, a line "SUBJECT: TEXT" each
 *   --- marked             optional: a line "NAME: axis K", "NAME: nowhere" or "NAME: unknown" for each value, where it
 *                          has the batch
 *   --- carried            optional: for each input "NAME: axes 0 1", "NAME: whole" or "NAME: whole, may carry", and
 *                          for each output "NAME: axis K", "NAME: nowhere" or "NAME: unknown", as find-batch decides
 *
 * As in the pipeline a pass does nothing in a mode that it has no part in.  The result is verified.  Passes that are
 * idempotent are run again.  GOLDEN_WRITE=1 in the environment writes the result into the file:
 * read the difference before believing it. */
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "exec/run/interp.h"
#include "graph/base/numtext.h"
#include "graph/ops/activation.gen.h"
#include "graph/text/parse.h"
#include "graph/text/print.h"
#include "graph/ir/verify.h"
#include "passes/report.h"
#include "passes/build_parts.h"
#include "tests/harness/target.h"
#include "tests/harness/test.h"

#define DIRECTORY SOURCE_DIR "/tests/passes/golden"

/* ---- the file ---- */

static char *read_file(const char *path)
{
    FILE *f = fopen(path, "r");
    char *text = NULL;
    size_t cap = 0;

    if (!f)
        return NULL;
    if (getdelim(&text, &cap, '\0', f) < 0) {
        free(text);
        text = NULL;
    }
    fclose(f);
    return text;
}

/* The text behind the line "--- word", up to the next "---" or the end; NULL when there is none.  The caller frees
 * it. */
static char *section(const char *text, const char *word)
{
    char mark[32];
    const char *from, *to;

    snprintf(mark, sizeof mark, "--- %s", word);
    if (!(from = strstr(text, mark)))
        return NULL;
    from += strlen(mark);
    to = strstr(from, "\n---");
    return strndup(from, to ? (size_t)(to + 1 - from) : strlen(from));
}

/* ---- options ---- */

typedef struct {
    BuildParts parts;
    const char *freeze[4], *train[4], *stop[4], *untie[4];
    const char *producer; /* of the file; NULL: unknown */
    UpdateGroup group[4];
    Clip clip[4];
    InputShape input[2];
    BatchInput batch_input[2];
    Shape target;
    double weight[8];
    Tensor class_weights;
} Options;

static int choice(const char *const *names, const char *value)
{
    for (int i = 0; names[i]; i++)
        if (!strcmp(names[i], value))
            return i;
    return -1;
}

/* In any locale; 0 for a text that is no number. */
static double number(const char *text)
{
    double v;

    return text_to_float64(&v, text, strlen(text)) ? v : 0;
}

static bool set_loss_scale(TypeOptions *t, const char *value)
{
    t->loss_scaling = strcmp(value, "dynamic") ? SCALE_FIXED : SCALE_DYNAMIC;
    t->loss_scale = number(value);
    return t->loss_scaling == SCALE_DYNAMIC || t->loss_scale > 0;
}

/* group=PATTERN:LOSS:CLIP, where LOSS may be empty and CLIP left out */
static bool add_group(Options *o, char *value)
{
    const int k = o->parts.update.n_group;
    char *loss = strchr(value, ':'), *clip = loss ? strchr(loss + 1, ':') : NULL;

    if (!loss || k == 4)
        return false;
    *loss++ = '\0';
    if (clip) {
        *clip++ = '\0';
        o->clip[k].norm = number(clip);
    }
    o->group[k] = (UpdateGroup){ .pattern = value,
                                 .optimizer = &optimizer_sgd,
                                 .settings = "momentum=0",
                                 .loss = *loss ? loss : NULL,
                                 .clip = clip ? &o->clip[k] : NULL };
    o->parts.update.n_group++;
    return true;
}

/* Options of the update.  False: there is no such option. */
static bool set_update_option(Options *o, const char *word, char *value)
{
    Clip *clip = &o->parts.update.clip;

    if (!strcmp(word, "clip"))
        return (clip->norm = number(value)) != 0;
    if (!strcmp(word, "clip-power"))
        return (clip->power = number(value)) > 0;
    if (!strcmp(word, "clip-value"))
        return (clip->value = number(value)) != 0;
    if (!strcmp(word, "group"))
        return add_group(o, value);
    if (!strcmp(word, "turns"))
        return o->parts.update.turns = !strcmp(value, "yes");
    if (!strcmp(word, "keep-gradients"))
        return o->parts.step.keep_gradients = !strcmp(value, "yes");
    return !strcmp(word, "shard") && (o->parts.collectives.shard = SHARD_OPTIMIZER, !strcmp(value, "optimizer"));
}

/* class-weights=1,0.5 */
static bool set_class_weights(Options *o, char *value)
{
    char *rest;
    int n = 0;

    for (char *at = strtok_r(value, ",", &rest); at && n < 8; at = strtok_r(NULL, ",", &rest))
        o->weight[n++] = number(at);
    o->class_weights = (Tensor){ DT_FLOAT64, SHAPE(n), o->weight };
    o->parts.target.class_weights = &o->class_weights;
    return n > 0;
}

/* target-shape=8,5 */
static bool set_target_shape(Options *o, char *value)
{
    for (char *end = value; *end && o->target.rank < MAX_RANK; value = end + 1)
        o->target.dim[o->target.rank++] = strtoll(value, &end, 10);
    o->parts.target.target_shape = &o->target;
    return true;
}

/* input-shape=NAME:3,4 */
static bool set_input_shape(Options *o, char *value)
{
    InputShape *given = &o->input[o->parts.batch.n_input_shape];
    char *at = strchr(value, ':');

    if (!at || o->parts.batch.n_input_shape == 2)
        return false;
    *at = '\0';
    given->name = value;
    do
        given->shape.dim[given->shape.rank++] = strtoll(at + 1, &at, 10);
    while (*at == ',' && given->shape.rank < MAX_RANK);
    o->parts.batch.input_shape = o->input;
    o->parts.batch.n_input_shape++;
    return true;
}

/* batch-input=NAME:1 */
static bool set_batch_input(Options *o, char *value)
{
    char *at = strchr(value, ':');

    if (!at || o->parts.batch.n_batch_input == 2)
        return false;
    *at = '\0';
    o->batch_input[o->parts.batch.n_batch_input++] = (BatchInput){ value, atoi(at + 1) };
    o->parts.batch.batch_input = o->batch_input;
    return true;
}

/* output-axis=inputs, output-axis=-1 */
static bool set_output_axis(OutputOptions *outputs, const char *value)
{
    outputs->join = strcmp(value, "inputs") ? JOIN_AXIS : JOIN_INPUTS;
    outputs->join_axis = atoi(value);
    return true;
}

/* Options of inputs, outputs and batch-norms.  False: there is no such option. */
static bool set_input_option(Options *o, const char *word, char *value)
{
    static const char *const norms[] = { "sync", "local", "average", NULL };
    BatchNormOptions *norm = &o->parts.batch_norm;

    if (!strcmp(word, "input-shape"))
        return set_input_shape(o, value);
    if (!strcmp(word, "batch-input"))
        return set_batch_input(o, value);
    if (!strcmp(word, "output-axis"))
        return set_output_axis(&o->parts.outputs, value);
    if (!strcmp(word, "bn"))
        return (norm->bn = (BatchNormMode)choice(norms, value), choice(norms, value) >= 0);
    if (!strcmp(word, "bn-group"))
        return (norm->bn_group = atoi(value)) > 0;
    if (!strcmp(word, "bn-clamp"))
        return norm->bn_clamp = !strcmp(value, "yes");
    if (!strcmp(word, "own-buffers"))
        return norm->own_buffers = !strcmp(value, "yes");
    return !strcmp(word, "qat") && (o->parts.parameters.qat_off = !strcmp(value, "off"));
}

/* Options of the criterion.  False: there is no such option. */
static bool set_target_option(Options *o, const char *word, char *value)
{
    RecipeOptions *recipes = &o->parts.recipes;
    TargetOptions *target = &o->parts.target;

    if (!strcmp(word, "metric"))
        return (recipes->metric[0].def = (const MetricDef *)(const void *)recipe_find(metric_list, value)) != NULL;
    if (!strcmp(word, "settings"))
        return (recipes->settings = value) != NULL;
    if (!strcmp(word, "logits"))
        return (target->logits = value) != NULL;
    if (!strcmp(word, "target"))
        return (target->target = value) != NULL;
    if (!strcmp(word, "target-shape"))
        return set_target_shape(o, value);
    if (!strcmp(word, "class-axis"))
        return (target->class_axis = atoi(value)) != 0;
    if (!strcmp(word, "class-weights"))
        return set_class_weights(o, value);
    if (!strcmp(word, "loss-weight") && !strcmp(value, "sum"))
        return target->loss_is_sum = true;
    if (!strcmp(word, "loss-weight"))
        return (target->loss_weight = value) != NULL;
    if (!strcmp(word, "loss-scaling"))
        return (target->mean_of_means = !strcmp(value, "mean-of-means"));
    return !strcmp(word, "mean-over") && (target->mean_over = MEAN_OVER_FILLED, !strcmp(value, "filled"));
}

/* means=yes */
static bool has_mean_of_w(const void *states, const char *param)
{
    (void)states;
    return !strcmp(param, "w");
}

/* lacks=Sigmoid */
static bool computes_no_sigmoid(const Graph *g, const Node *n)
{
    (void)g;
    return n->op != &op_Sigmoid;
}

/* freeze=, train=, stop= and untie=PATTERN, producer=NAME, head=N, head=NAME=N.  False: there is no such option. */
static bool set_parameter_option(Options *o, const char *word, char *value)
{
    ParameterOptions *p = &o->parts.parameters;
    char *eq = strrchr(value, '=');

    if (!strcmp(word, "freeze") && p->n_freeze < 4)
        return (o->freeze[p->n_freeze++] = value) != NULL;
    if (!strcmp(word, "train") && p->n_train < 4)
        return (o->train[p->n_train++] = value) != NULL;
    if (!strcmp(word, "stop") && p->n_stop < 4)
        return (o->stop[p->n_stop++] = value) != NULL;
    if (!strcmp(word, "untie") && p->n_untie < 4)
        return (o->untie[p->n_untie++] = value) != NULL;
    if (!strcmp(word, "producer"))
        return (o->producer = value) != NULL;
    if (strcmp(word, "head") != 0)
        return false;
    if (eq)
        *eq = '\0';
    p->head_name = eq ? value : NULL;
    return (p->head_outputs = atoi(eq ? eq + 1 : value)) > 0;
}

static bool set_option(Options *o, char *word)
{
    static const char *const modes[] = { "infer",      "predict", "continue", "eval", "train",
                                         "accumulate", "apply",   "finish",   NULL };
    char *value = strchr(word, '=');

    if (!value)
        return false;
    *value++ = '\0';
    if (set_target_option(o, word, value) || set_update_option(o, word, value) || set_input_option(o, word, value))
        return true;
    if (!strcmp(word, "window"))
        return (o->parts.tokens = (TokenOptions){ atoi(value), 1 }).window > 0;
    if (!strcmp(word, "new-tokens"))
        return (o->parts.tokens.tokens = atoi(value)) > 0;
    if (!strcmp(word, "mode"))
        return (o->parts.build.mode = (BuildMode)choice(modes, value), choice(modes, value) >= 0);
    if (!strcmp(word, "loss"))
        o->parts.recipes.loss_args = recipe_args(value);
    if (!strcmp(word, "loss"))
        return (o->parts.recipes.loss = (const LossDef *)(const void *)recipe_find(loss_list, value)) != NULL;
    if (!strcmp(word, "optimizer"))
        return (o->parts.recipes.optimizer = (const OptimizerDef *)(const void *)recipe_find(optimizer_list, value)) !=
               NULL;
    if (!strcmp(word, "batch"))
        return (o->parts.batch.batch = atoi(value)) > 0;
    if (!strcmp(word, "replicas"))
        return (o->parts.replicas.replicas = atoi(value)) > 0;
    if (!strcmp(word, "scalar-outputs"))
        return (o->parts.outputs.numbers_apart = !strcmp(value, "each"));
    if (!strcmp(word, "reduce"))
        return (o->parts.collectives.reduce = dtype_parse(value)) != DT_NONE;
    if (!strcmp(word, "bucket"))
        return (o->parts.collectives.bucket_bytes = atoi(value)) > 0;
    if (!strcmp(word, "chunk"))
        return (o->parts.memory.chunk_rows = atoi(value)) > 0;
    if (!strcmp(word, "devices"))
        return (o->parts.replicas.devices = atoi(value)) > 0;
    if (!strcmp(word, "dtype"))
        return (o->parts.types.dtype = dtype_parse(value)) != DT_NONE;
    if (!strcmp(word, "channels_last"))
        return (o->parts.backend.backend.layouts = prefers_channels_last, !strcmp(value, "yes"));
    if (!strcmp(word, "precision"))
        return (o->parts.types.precision = dtype_parse(value)) != DT_NONE;
    if (!strcmp(word, "fuse"))
        return (o->parts.backend.backend.fuses = fuses_all, !strcmp(value, "yes"));
    if (!strcmp(word, "standard"))
        return o->parts.step.standard = !strcmp(value, "yes");
    if (!strcmp(word, "accelerator"))
        return (o->parts.backend.backend.accelerator = !strcmp(value, "yes"));
    if (!strcmp(word, "lacks"))
        return (o->parts.backend.backend.computes = computes_no_sigmoid, !strcmp(value, "Sigmoid"));
    if (!strcmp(word, "loss-scale"))
        return set_loss_scale(&o->parts.types, value);
    if (!strcmp(word, "means"))
        return (o->parts.update.has_mean = has_mean_of_w, !strcmp(value, "yes"));
    return set_parameter_option(o, word, value);
}

static void read_options(Options *o, char *text)
{
    *o = (Options){ .parts.replicas = { .replicas = 1, .devices = 1 } };
    for (char *word = text ? strtok(text, " \n") : NULL; word; word = strtok(NULL, " \n"))
        if (!set_option(o, word))
            TEST_FAIL("unknown option '%s'", word);
    o->parts.parameters.freeze = o->freeze;
    o->parts.parameters.train = o->train;
    o->parts.parameters.stop = o->stop;
    o->parts.parameters.untie = o->untie;
    o->parts.update.group = o->group;
}

/* ---- running ---- */

static const Pass *find_pass(const char *name)
{
    for (int i = 0; i < pipeline_len; i++)
        if (!strcmp(pipeline[i]->name, name))
            return pipeline[i];
    for (int i = 0; i < model_passes_len; i++)
        if (!strcmp(model_passes[i]->name, name))
            return model_passes[i];
    return NULL;
}

/* *changed: the pass's count of what it changed. */
static Status run_pass(Graph *g, const Pass *pass, const BuildOptions *opt, Report *report, int *changed)
{
    PassCtx ctx = { .scratch = arena_create(), .opt = opt, .eval = interp_node, .report = report };
    const bool applies = !pass->modes || pass->modes >> build_mode(opt) & 1;
    Status st = ctx.scratch ? (applies ? pass->run(g, &ctx) : ST_OK) : FAIL_NOMEM();

    *changed = ctx.n_changed;
    arena_free(ctx.scratch);
    TRY(st);
    return graph_verify(g);
}

static char *canonical(const Graph *g)
{
    char *text = NULL;

    CHECK_OK(graph_text(&text, g, &(PrintOptions){ .no_node_names = true }));
    return text;
}

static char *canonical_text(const char *text)
{
    Graph *g = NULL;
    char *out = CHECK_OK(graph_parse(&g, text, strlen(text))) ? canonical(g) : NULL;

    graph_free(g);
    return out;
}

static void write_result(const char *path, const char *file, const char *result)
{
    const char *after = strstr(file, "--- after"), *behind = strstr(file, "--- notes");
    FILE *f = fopen(path, "w");

    if (!f)
        return;
    behind = behind ? behind : strstr(file, "--- marked");
    behind = behind ? behind : strstr(file, "--- carried");
    after = after ? after : behind;
    fprintf(f, "%.*s--- after\n%s%s", (int)(after ? after - file : (long)strlen(file)), file, result,
            behind ? behind : "");
    fclose(f);
}

static void check_again(Graph *g, const Pass *pass, const BuildOptions *opt, const char *once)
{
    char *twice;
    int changed;

    if (!pass->idempotent || !CHECK_OK(run_pass(g, pass, opt, NULL, &changed)))
        return;
    if (changed)
        TEST_FAIL("%s run again counts %d changes of\n%s", pass->name, changed, once);
    twice = canonical(g);
    if (twice && strcmp(once, twice))
        TEST_FAIL("%s run again changes\n%s\ninto\n%s", pass->name, once, twice);
    free(twice);
}

/* Does the file have the section, it holds these lines. */
static void check_lines(const char *file, const char *section_line, const char *found)
{
    char *expected = section(file, section_line);

    if (expected)
        CHECK_STR(expected, found);
    free(expected);
}

static void check_notes(const char *file, const Report *r)
{
    char *text = NULL;
    size_t n;
    FILE *f = open_memstream(&text, &n);

    for (int i = 0; i < r->n_note; i++)
        fprintf(f, "%s: %s\n", r->note[i].subject, r->note[i].text);
    fclose(f);
    check_lines(file, "notes\n", text);
    free(text);
}

static void check_marks(const char *file, const Graph *g)
{
    char *text = NULL;
    size_t n;
    FILE *f = open_memstream(&text, &n);

    for (uint32_t i = 1; i < g->n_value; i++) {
        const int mark = g->value[i]->batch_axis;

        fprintf(f, "%s: ", g->value[i]->name);
        fprintf(f, mark > 0 ? "axis %d\n" : mark == BATCH_NONE ? "nowhere\n" : "unknown\n", mark - 1);
    }
    fclose(f);
    check_lines(file, "marked\n", text);
    free(text);
}

static void check_carried(const char *file, const Graph *g)
{
    char *text = NULL;
    size_t n;
    FILE *f = open_memstream(&text, &n);

    for (int i = 0; i < g->n_input; i++) {
        const Value *v = value(g, g->input[i]);

        fprintf(f, "%s: %s", v->name, v->carries ? "axes" : v->may_carry ? "whole, may carry" : "whole");
        for (int a = 0; a < MAX_RANK; a++)
            if (v->carries >> a & 1)
                fprintf(f, " %d", a);
        fputc('\n', f);
    }
    for (int i = 0; i < g->n_output; i++) {
        const int axis = g->output[i].batch_axis;

        fprintf(f, "%s: ", g->output[i].name);
        fprintf(f, axis > 0 ? "axis %d\n" : axis == BATCH_NONE ? "nowhere\n" : "unknown\n", axis - 1);
    }
    fclose(f);
    check_lines(file, "carried\n", text);
    free(text);
}

/* Checks that the pass counts changes, which the report shows, if it made any.  Some passes count none. */
static void check_count(const char *file, const Pass *pass, int changed, bool another)
{
    static const char *const uncounted[] = { "follow-file", "infer-shapes", "keep-buffers", "partition", "schedule" };
    char *marked = section(file, "marked\n"); /* marks are no part of the text */
    bool counts = !marked;

    for (size_t i = 0; i < sizeof uncounted / sizeof *uncounted; i++)
        counts &= strcmp(pass->name, uncounted[i]) != 0;
    if (changed < 0 || (counts && (changed > 0) != another))
        TEST_FAIL("%s counts %d changes, and makes of the graph %s", pass->name, changed,
                  another ? "another" : "the same");
    free(marked);
}

static void check_graph(Graph *g, const Pass *pass, const BuildOptions *opt, const char *path, const char *file)
{
    char *after = section(file, "after\n"), *error = section(file, "error "), *before = canonical(g), *found, *expected;
    Report *report = report_create();
    int changed;

    if (error) {
        Status st = run_pass(g, pass, opt, report, &changed);

        error[strcspn(error, "\n")] = '\0';
        if (!st || !strstr(status_message(), error))
            TEST_FAIL("expected an error with \"%s\", found \"%s\"", error, st ? status_message() : "success");
    } else if (CHECK_OK(run_pass(g, pass, opt, report, &changed)) && (found = canonical(g))) {
        if (getenv("GOLDEN_WRITE"))
            write_result(path, file, found);
        check_notes(file, report);
        check_marks(file, g);
        check_carried(file, g);
        expected = after ? canonical_text(after) : NULL;
        CHECK_STR(expected ? expected : "", found);
        check_count(file, pass, changed, before && strcmp(before, found) != 0);
        check_again(g, pass, opt, found);
        free(expected);
        free(found);
    }
    report_free(report);
    free(before);
    free(after);
    free(error);
}

/* Constants are then initializers of the file. */
static void set_producer(Graph *g, const char *producer)
{
    for (uint32_t i = 1; i < g->n_value && producer; i++)
        if (g->value[i]->kind == V_CONST)
            g->value[i]->origin = ORIGIN_INITIALIZER;
    g->producer = producer ? producer : g->producer;
}

/* The test's name is PASS/NAME. */
static void run_golden(void)
{
    const char *name = CU_get_current_test()->pName;
    char path[1024], pass_name[64] = "", *file, *before, *options;
    const Pass *pass;
    Graph *g = NULL;
    Options o;

    snprintf(path, sizeof path, DIRECTORY "/%s.txt", name);
    memcpy(pass_name, name, strcspn(name, "/") < sizeof pass_name ? strcspn(name, "/") : 0);
    file = read_file(path);
    before = file ? section(file, "before\n") : NULL;
    options = file ? section(file, "options\n") : NULL;
    pass = find_pass(pass_name);
    read_options(&o, options);
    if (!before || !pass)
        TEST_FAIL("%s: %s", path, pass ? "no section 'before'" : "the folder is not called like a pass");
    else if (CHECK_OK(graph_parse(&g, before, strlen(before)))) {
        set_producer(g, o.producer);
        check_graph(g, pass, build_parts(&o.parts), path, file);
    }
    graph_free(g);
    free(file);
    free(before);
    free(options);
}

/* Model passes have suites of their own. */
static void every_pass_has_texts(void)
{
    for (int i = 0; i < pipeline_len; i++) {
        char path[1024];

        snprintf(path, sizeof path, DIRECTORY "/%s", pipeline[i]->name);
        if (access(path, F_OK))
            TEST_FAIL("%s: expected golden texts of the pass", path);
    }
}

/* ---- finding ---- */

static int is_shown(const struct dirent *d) { return d->d_name[0] != '.'; }

static TestCase *add_folder(TestCase *cases, size_t *n, const char *folder)
{
    struct dirent **entry = NULL;
    char path[1024];
    int count;

    snprintf(path, sizeof path, DIRECTORY "/%s", folder);
    count = scandir(path, &entry, is_shown, alphasort);
    for (int i = 0; i < count; i++) {
        size_t len = strlen(entry[i]->d_name);
        char *name;
        TestCase *grown = realloc(cases, (*n + 2) * sizeof *cases);

        if (grown && len > 4 && asprintf(&name, "%s/%.*s", folder, (int)len - 4, entry[i]->d_name) > 0) {
            grown[(*n)++] = (TestCase){ name, run_golden };
            grown[*n] = (TestCase){ NULL, NULL };
        }
        cases = grown ? grown : cases;
        free(entry[i]);
    }
    free(entry);
    return cases;
}

static const TestCase *list(void)
{
    struct dirent **entry = NULL;
    int count = scandir(DIRECTORY, &entry, is_shown, alphasort);
    static TestCase *cases; /* lives as long as the program */
    size_t n = 0;

    cases = calloc(2, sizeof *cases);
    if (cases)
        cases[n++] = (TestCase){ "every pass has texts", every_pass_has_texts };
    for (int i = 0; i < count && cases; i++) {
        cases = add_folder(cases, &n, entry[i]->d_name);
        free(entry[i]);
    }
    free(entry);
    return cases;
}

DEFINE_SUITE_LIST(golden, list);
