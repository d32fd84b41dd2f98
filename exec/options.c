/* One row of `table` per option: its name, how its text is read and where the value goes. */
#include "exec/options.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "exec/parameter_list.h"
#include "graph/base/numtext.h"

static const double SCHEDULE_GAMMA = 0.1; /* unless it is said */

typedef enum { O_FLAG, O_INT, O_REAL, O_CHOICE, O_TEXT, O_CUSTOM } Kind;

typedef struct Row {
    const char *name, *metavar, *fallback, *help;
    Kind kind;
    size_t at; /* offset in Options: int64_t, double, int (choice), bool or const char * */
    double min, max;
    bool above_min;      /* the minimum itself is not allowed */
    const char *choices; /* "a|b|c" in the order of the enumeration */
    Status (*set)(Options *, const struct Row *, const char *value);
    bool repeats;
} Row;

/* ---- readers of values ---- */

static Status bad(const Row *r, const char *value, const char *expected)
{
    return FAIL(E_INVALID, "--%s: expected %s, found '%s'", r->name, expected, value);
}

static Status read_int(int64_t *out, const Row *r, const char *value)
{
    char *end, range[96];
    long long v;

    errno = 0;
    v = strtoll(value, &end, 10);
    snprintf(range, sizeof range, "a whole number from %.0f to %.4g", r->min, r->max);
    if (!*value || *end || errno || (double)v < r->min || (double)v > r->max)
        return bad(r, value, range);
    *out = v;
    return ST_OK;
}

static Status read_real(double *out, const Row *r, const char *value)
{
    char range[96];
    double v;

    snprintf(range, sizeof range, "a number %s %g%s%.4g", r->above_min ? "above" : "from", r->min,
             r->above_min ? " up to " : " to ", r->max);
    if (!text_to_float64(&v, value, strlen(value)) || !isfinite(v) || v < r->min || (r->above_min && v == r->min) ||
        v > r->max)
        return bad(r, value, range);
    *out = v;
    return ST_OK;
}

static Status read_choice(int *out, const Row *r, const char *value)
{
    const char *c = r->choices;
    size_t len = strlen(value);

    for (int i = 0; c; i++, c = strchr(c, '|') ? strchr(c, '|') + 1 : NULL)
        if (len && !strncmp(c, value, len) && (c[len] == '|' || !c[len])) {
            *out = i;
            return ST_OK;
        }
    return bad(r, value, r->choices);
}

static Status read_flag(bool *out, const Row *r, const char *value)
{
    bool yes = !*value || !strcmp(value, "true") || !strcmp(value, "1");

    if (!yes && strcmp(value, "false") && strcmp(value, "0"))
        return bad(r, value, "true or false");
    *out = yes;
    return ST_OK;
}

static Status keep_text(Options *o, const char **to, const char *value)
{
    return (*to = arena_strdup(o->arena, value)) ? ST_OK : FAIL_NOMEM();
}

/* ---- options with a syntax of their own ---- */

static Status set_loss(Options *o, const Row *r, const char *value)
{
    static const Row kinds = { .name = "loss", .choices = "none|cross-entropy|nll|mse|l1|bce|bce-logits" };
    int kind;

    if (!strncmp(value, "output:", 7) && value[7]) {
        o->build.loss = LOSS_OUTPUT;
        return keep_text(o, &o->build.loss_output, value + 7);
    }
    if (read_choice(&kind, &kinds, value))
        return bad(r, value, "cross-entropy, nll, mse, l1, bce, bce-logits, output:NAME or none");
    o->build.loss = (LossKind)kind;
    return ST_OK;
}

/* "sum", or an output's name; "output:sum" is the output of that name. */
static Status set_loss_weight(Options *o, const Row *r, const char *value)
{
    const bool named = !strncmp(value, "output:", 7) && value[7];

    if (!*value)
        return bad(r, value, "the name of an output, or sum");
    o->build.loss_is_sum = !strcmp(value, "sum");
    o->build.loss_weight = NULL;
    return o->build.loss_is_sum ? ST_OK : keep_text(o, &o->build.loss_weight, named ? value + 7 : value);
}

static Status set_class_axis(Options *o, const Row *r, const char *value)
{
    int64_t axis;

    TRY(read_int(&axis, r, value));
    if (!axis)
        return bad(r, value, "an axis from 1 on, or -1 for the last");
    o->build.class_axis = (int)axis;
    return ST_OK;
}

static Status set_metric(Options *o, const Row *r, const char *value)
{
    if (strcmp(value, "accuracy") && strcmp(value, "none"))
        return bad(r, value, "accuracy or none");
    o->build.metric_accuracy = value[0] == 'a';
    return ST_OK;
}

static Status set_ignore_index(Options *o, const Row *r, const char *value)
{
    TRY(read_int(&o->build.ignore_index, r, value));
    o->build.has_ignore_index = true;
    return ST_OK;
}

/* constant | step:EVERY[:GAMMA] | cosine[:FINAL] | linear[:FINAL]; a wrong one leaves all as it was. */
static Status set_schedule(Options *o, const Row *r, const char *value)
{
    static const Row every = { .name = "lr-schedule step:EVERY", .min = 1, .max = 1e15 };
    static const Row gamma = { .name = "lr-schedule step:EVERY:GAMMA", .min = 0, .above_min = true, .max = 1 };
    static const Row final = { .name = "lr-schedule FINAL", .min = 0, .max = 1 };
    static const Row kinds = { .name = "lr-schedule", .choices = "constant|step|cosine|linear" };
    char word[64], *arg, *second = NULL;
    double factor = SCHEDULE_GAMMA, last = 0;
    int64_t steps = 1;
    int kind;

    snprintf(word, sizeof word, "%s", value);
    if ((arg = strchr(word, ':'))) {
        *arg++ = '\0';
        if ((second = strchr(arg, ':')))
            *second++ = '\0';
    }
    if (strlen(value) >= sizeof word || read_choice(&kind, &kinds, word) || (kind == SCHEDULE_CONSTANT && arg) ||
        (kind != SCHEDULE_STEP && second) || (kind == SCHEDULE_STEP && !arg))
        return bad(r, value, "constant, step:EVERY[:GAMMA], cosine[:FINAL] or linear[:FINAL]");
    if (kind == SCHEDULE_STEP)
        TRY(read_int(&steps, &every, arg));
    else if (arg)
        TRY(read_real(&last, &final, arg));
    if (second)
        TRY(read_real(&factor, &gamma, second));
    o->schedule = (ScheduleKind)kind;
    o->schedule_every = steps;
    o->schedule_gamma = factor;
    o->schedule_final = last;
    return ST_OK;
}

static Status set_dtype(Options *o, const Row *r, const char *value)
{
    DType t = dtype_parse(value);

    if (t != DT_FLOAT32 && t != DT_FLOAT64)
        return bad(r, value, "float32 or float64");
    o->build.dtype = t;
    return ST_OK;
}

static Status set_precision(Options *o, const Row *r, const char *value)
{
    static const struct {
        const char *name;
        DType type;
        bool tf32;
    } known[] = {
        { "float32", DT_NONE, false },  { "tf32", DT_NONE, true },        { "bfloat16", DT_BFLOAT16, false },
        { "bf16", DT_BFLOAT16, false }, { "float16", DT_FLOAT16, false }, { "fp16", DT_FLOAT16, false },
    };

    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (!strcmp(known[i].name, value)) {
            o->build.precision = known[i].type;
            o->build.tf32 = known[i].tf32;
            if (!o->loss_scale_given)
                o->build.loss_scaling = known[i].type == DT_FLOAT16 ? SCALE_DYNAMIC : SCALE_NONE;
            return ST_OK;
        }
    return bad(r, value, "float32, tf32, bfloat16 (bf16) or float16 (fp16)");
}

static Status set_loss_scale(Options *o, const Row *r, const char *value)
{
    static const Row number = { .name = "loss-scale", .min = 0, .above_min = true, .max = 1e30 };
    const bool dynamic = !strcmp(value, "dynamic");

    if (!dynamic && read_real(&o->build.loss_scale, &number, value))
        return bad(r, value, "dynamic or a number above 0");
    o->build.loss_scaling = dynamic ? SCALE_DYNAMIC : o->build.loss_scale == 1 ? SCALE_NONE : SCALE_FIXED;
    o->loss_scale_given = true;
    return ST_OK;
}

static Status add_pattern(const char *const **list, int *n, Options *o, const Row *r, const char *value)
{
    const char **grown = ARENA_NEW(o->arena, const char *, *n + 1);

    if (!*value)
        return bad(r, value, "a pattern of parameter names");
    if (!grown)
        return FAIL_NOMEM();
    if (*n)
        memcpy(grown, *list, (size_t)*n * sizeof *grown);
    TRY(keep_text(o, &grown[*n], value));
    *list = grown;
    (*n)++;
    return ST_OK;
}

static Status add_freeze(Options *o, const Row *r, const char *value)
{
    return add_pattern(&o->build.freeze, &o->build.n_freeze, o, r, value);
}

static Status add_train(Options *o, const Row *r, const char *value)
{
    return add_pattern(&o->build.train, &o->build.n_train, o, r, value);
}

static Status set_parameters(Options *o, const Row *r, const char *value)
{
    return *value ? parameter_list_read(&o->build.parameters, o->arena, value) : bad(r, value, "a file");
}

static Status add_untie(Options *o, const Row *r, const char *value)
{
    return add_pattern(&o->build.untie, &o->build.n_untie, o, r, value);
}

/* "2,3,4"; "" is a scalar. */
static bool read_dims(Shape *out, const char *text)
{
    char *end;

    *out = shape_scalar();
    while (*text) {
        long long d;

        errno = 0;
        d = strtoll(text, &end, 10);
        if (end == text || errno || d < 0 || out->rank == MAX_RANK || (*end && *end != ','))
            return false;
        out->dim[out->rank++] = d;
        text = *end ? end + 1 : end;
        if (*end && !*text)
            return false;
    }
    return true;
}

static Status add_input_shape(Options *o, const Row *r, const char *value)
{
    InputShape *grown = ARENA_NEW(o->arena, InputShape, o->build.n_input_shape + 1);
    const char *eq = strrchr(value, '=');
    Shape s;

    if (!eq || eq == value || !read_dims(&s, eq + 1) || shape_check(&s, 8))
        return bad(r, value, "NAME=DIM,DIM,... of a size that fits into memory");
    if (!grown)
        return FAIL_NOMEM();
    if (o->build.n_input_shape)
        memcpy(grown, o->build.input_shape, (size_t)o->build.n_input_shape * sizeof *grown);
    grown[o->build.n_input_shape] = (InputShape){ arena_printf(o->arena, "%.*s", (int)(eq - value), value), s };
    o->build.input_shape = grown;
    o->build.n_input_shape++;
    return grown[o->build.n_input_shape - 1].name ? ST_OK : FAIL_NOMEM();
}

static Status add_batch_input(Options *o, const Row *r, const char *value)
{
    BatchInput *grown = ARENA_NEW(o->arena, BatchInput, o->build.n_batch_input + 1), *b;
    const Row axis = { .name = r->name, .min = 0, .max = MAX_RANK - 1 };
    const char *colon = strrchr(value, ':');
    int64_t a = 0;

    if (!*value || colon == value)
        return bad(r, value, "NAME[:AXIS]");
    if (!grown)
        return FAIL_NOMEM();
    if (colon && read_int(&a, &axis, colon + 1)) /* a name may hold colons */
        colon = NULL;
    if (o->build.n_batch_input)
        memcpy(grown, o->build.batch_input, (size_t)o->build.n_batch_input * sizeof *grown);
    b = &grown[o->build.n_batch_input];
    b->axis = (int)a;
    b->name = colon ? arena_printf(o->arena, "%.*s", (int)(colon - value), value) : arena_strdup(o->arena, value);
    o->build.batch_input = grown;
    o->build.n_batch_input++;
    return b->name ? ST_OK : FAIL_NOMEM();
}

/* A number of bytes, in units of 1000 when a letter follows. */
static Status set_plan_memory(Options *o, const Row *r, const char *value)
{
    static const Row number = { .name = "plan-memory", .min = 1, .max = 1e15 };
    static const char letters[] = "kMGT";
    size_t len = strlen(value);
    const char *letter = len ? strchr(letters, value[len - 1]) : NULL;
    char digits[32];
    int64_t n;

    snprintf(digits, sizeof digits, "%.*s", (int)(letter && len < sizeof digits ? len - 1 : len), value);
    if (len >= sizeof digits || read_int(&n, &number, digits))
        return bad(r, value, "a number of bytes, or one followed by k, M, G or T");
    for (const char *l = letters; letter && l <= letter; l++)
        if (__builtin_mul_overflow(n, (int64_t)1000, &n))
            return bad(r, value, "a number of bytes that can be counted");
    o->build.plan_memory = n;
    return ST_OK;
}

/* ---- the table ---- */

#define AT(field) offsetof(Options, field)
#define REAL_MAX 1e30
#define COUNT_MAX 1e15

static const Row table[] = {
    { "batch-size", "N", "", "samples of one batch, over all replicas", O_INT, AT(build.batch), 1, 1e9, 0, NULL, NULL,
      0 },
    { "loss", "KIND", "none",
      "cross-entropy (from logits), nll, mse, l1, bce, bce-logits, or output:NAME: the model's own", O_CUSTOM, 0, 0, 0,
      0, NULL, set_loss, 0 },
    { "loss-weight", "OUTPUT", "",
      "with output:NAME: the output that says what a batch weighs, or sum: batches add up; else their samples",
      O_CUSTOM, 0, 0, 0, 0, NULL, set_loss_weight, 0 },
    { "target", "NAME", "target", "name of the target among the data's arrays", O_TEXT, AT(build.target), 0, 0, 0, NULL,
      NULL, 0 },
    { "logits", "NAME", "", "the model output that the loss compares with the target; else the first", O_TEXT,
      AT(build.logits), 0, 0, 0, NULL, NULL, 0 },
    { "class-axis", "K", "", "the axis of the logits that counts the classes; else found by the targets' shape",
      O_CUSTOM, 0, 1 - MAX_RANK, MAX_RANK - 1, 0, NULL, set_class_axis, 0 },
    { "ignore-index", "N", "", "a class that counts neither in the loss nor in the metric", O_CUSTOM, 0, -1e15,
      COUNT_MAX, 0, NULL, set_ignore_index, 0 },
    { "label-smoothing", "X", "0", "share of the target spread evenly over all classes", O_REAL,
      AT(build.label_smoothing), 0, 1, 0, NULL, NULL, 0 },
    { "metric", "NAME", "none", "accuracy: the share of targets that the largest logit hits", O_CUSTOM, 0, 0, 0, 0,
      NULL, set_metric, 0 },
    { "optimizer", "NAME", "sgd", "sgd, adam or adamw", O_CHOICE, AT(build.optimizer), 0, 0, 0, "sgd|adam|adamw", NULL,
      0 },
    { "lr", "X", "0.01", "learning rate", O_REAL, AT(lr), 0, REAL_MAX, 0, NULL, NULL, 0 },
    { "momentum", "X", "0", "of sgd", O_REAL, AT(build.momentum), 0, 1, 0, NULL, NULL, 0 },
    { "nesterov", NULL, "false", "Nesterov's momentum", O_FLAG, AT(build.nesterov), 0, 0, 0, NULL, NULL, 0 },
    { "weight-decay", "X", "0", "L2 term in the gradient (sgd, adam) or decoupled decay (adamw)", O_REAL,
      AT(build.weight_decay), 0, REAL_MAX, 0, NULL, NULL, 0 },
    { "beta1", "X", "0.9", "decay of adam's first moment", O_REAL, AT(build.beta1), 0, 0.9999999999, 0, NULL, NULL, 0 },
    { "beta2", "X", "0.999", "decay of adam's second moment", O_REAL, AT(build.beta2), 0, 0.9999999999, 0, NULL, NULL,
      0 },
    { "eps", "X", "1e-8", "added to adam's denominator", O_REAL, AT(build.eps), 0, 1, 0, NULL, NULL, 0 },
    { "lr-schedule", "S", "constant",
      "constant, step:EVERY[:GAMMA], cosine[:FINAL] or linear[:FINAL] (a fraction of lr)", O_CUSTOM, 0, 0, 0, 0, NULL,
      set_schedule, 0 },
    { "warmup-steps", "N", "0", "steps over which the rate rises linearly to lr", O_INT, AT(warmup_steps), 0, COUNT_MAX,
      0, NULL, NULL, 0 },
    { "total-steps", "N", "0",
      "where cosine and linear schedules end; the command line derives it from --epochs or --steps", O_INT,
      AT(total_steps), 0, COUNT_MAX, 0, NULL, NULL, 0 },
    { "accumulate", "K", "1", "batches whose gradients make one optimizer step", O_INT, AT(accumulate), 1, 1e9, 0, NULL,
      NULL, 0 },
    { "clip-norm", "X", "0", "bound on the gradient's global norm; 0: none", O_REAL, AT(build.clip_norm), 0, REAL_MAX,
      0, NULL, NULL, 0 },
    { "devices", "LIST", "cpu:0", "cpu:0,cpu:1, cpu*4, cuda, cuda:0,cuda:1, cuda*2, or all", O_TEXT, AT(devices), 0, 0,
      0, NULL, NULL, 0 },
    { "replicas", "R", "", "logical replicas; else one per device", O_INT, AT(build.replicas), 1, MAX_REPLICAS, 0, NULL,
      NULL, 0 },
    { "threads", "N", "", "threads of each device's team; else the cores are shared out", O_INT, AT(threads), 1, 1024,
      0, NULL, NULL, 0 },
    { "split", "MODE", "balanced",
      "balanced: parts differ by at most one sample; chunk: equal parts, the last ones smaller", O_CHOICE,
      AT(build.split), 0, 0, 0, "balanced|chunk", NULL, 0 },
    { "bn", "MODE", "sync", "sync: batch-norm statistics of the whole batch; local: of each replica's part", O_CHOICE,
      AT(build.bn_local), 0, 0, 0, "sync|local", NULL, 0 },
    { "bn-variance", "KIND", "population",
      "what the running variance averages: population (ONNX) or unbiased (PyTorch)", O_CHOICE, AT(build.bn_unbiased), 0,
      0, 0, "population|unbiased", NULL, 0 },
    { "train", "PATTERN", "",
      "tensors that are parameters, whatever they look like, e.g. 'head.*' (docs/parameters.md)", O_CUSTOM, 0, 0, 0, 0,
      NULL, add_train, true },
    { "freeze", "PATTERN", "", "parameters that stay as they are, e.g. 'conv1.*'", O_CUSTOM, 0, 0, 0, 0, NULL,
      add_freeze, true },
    { "parameters", "FILE", "",
      "what is trained and nothing else: names one a line, or a .safetensors whose keys count", O_CUSTOM, 0, 0, 0, 0,
      NULL, set_parameters, 0 },
    { "untie", "PATTERN", "",
      "tensors of several readers that become one for each module that reads them (docs/onnx.md)", O_CUSTOM, 0, 0, 0, 0,
      NULL, add_untie, true },
    { "dtype", "TYPE", "", "compute in float32 or float64; else as the model says", O_CUSTOM, 0, 0, 0, 0, NULL,
      set_dtype, 0 },
    { "precision", "P", "float32",
      "of products and their surroundings: float32, tf32 (on GPUs), bfloat16 or float16; state stays float32", O_CUSTOM,
      0, 0, 0, 0, NULL, set_precision, 0 },
    { "loss-scale", "S", "",
      "with float16: dynamic (which it is unless said) or a number, what the loss is multiplied by before it is "
      "differentiated",
      O_CUSTOM, 0, 0, 0, 0, NULL, set_loss_scale, 0 },
    { "tune", NULL, "false", "measure which algorithms of convolutions and products are the fastest; GPUs only", O_FLAG,
      AT(tune), 0, 0, 0, NULL, NULL, 0 },
    { "no-capture", NULL, "false", "give a GPU every call of every step, instead of one graph a step", O_FLAG,
      AT(ways.uncaptured), 0, 0, 0, NULL, NULL, 0 },
    { "reproducible", NULL, "false",
      "add partial sums in an order that does not depend on which device holds which, on GPUs too; slower", O_FLAG,
      AT(ways.reproducible), 0, 0, 0, NULL, NULL, 0 },
    { "check-nodes", NULL, "false",
      "wait for every call of every step on a GPU, so that a failure names the node; slow", O_FLAG,
      AT(ways.check_nodes), 0, 0, 0, NULL, NULL, 0 },
    { "seed", "N", "0", "of everything random", O_INT, AT(build.seed), 0, 9e15, 0, NULL, NULL, 0 },
    { "plan-memory", "SIZE", "",
      "what planning may take, e.g. 8G; else half of the memory that the machine or its cgroup has", O_CUSTOM, 0, 0, 0,
      0, NULL, set_plan_memory, 0 },
    { "input-shape", "NAME=2,3,4", "", "shape of an input whose dimensions the model leaves open", O_CUSTOM, 0, 0, 0, 0,
      NULL, add_input_shape, true },
    { "batch-input", "NAME[:AXIS]", "", "an input that carries the batch, when it is not found rightly", O_CUSTOM, 0, 0,
      0, 0, NULL, add_batch_input, true },
};
enum { N_OPTIONS = sizeof table / sizeof *table };

/* ---- setting ---- */

static Status set_row(Options *o, const Row *r, const char *value)
{
    void *to = (char *)o + r->at;
    int64_t i;
    int choice = 0;

    switch (r->kind) {
    case O_FLAG: return read_flag(to, r, value);
    case O_REAL: return read_real(to, r, value);
    case O_TEXT: return *value ? keep_text(o, to, value) : bad(r, value, r->metavar);
    case O_CUSTOM: return r->set(o, r, value);
    case O_INT:
        TRY(read_int(&i, r, value));
        if (r->at == AT(threads) || r->at == AT(build.replicas))
            *(int *)to = (int)i;
        else
            *(int64_t *)to = i;
        return ST_OK;
    case O_CHOICE:
        TRY(read_choice(&choice, r, value));
        if (r->at == AT(build.bn_local) || r->at == AT(build.bn_unbiased))
            *(bool *)to = choice;
        else
            *(int *)to = choice;
        return ST_OK;
    }
    return FAIL(E_INTERNAL, "--%s: no reader", r->name);
}

static int find_option(const char *name)
{
    for (int i = 0; i < N_OPTIONS; i++)
        if (!strcmp(table[i].name, name))
            return i;
    return -1;
}

Status options_set(Options *o, const char *name, const char *value)
{
    int i = find_option(name);
    const char *text;

    if (i < 0)
        return FAIL(E_INVALID, "there is no option --%s", name);
    TRY(set_row(o, &table[i], value));
    text = table[i].repeats && o->text[i] ? arena_printf(o->arena, "%s;%s", o->text[i], value)
                                          : arena_strdup(o->arena, *value || table[i].kind != O_FLAG ? value : "true");
    if (!text)
        return FAIL_NOMEM();
    o->text[i] = text;
    return ST_OK;
}

Options *options_create(void)
{
    Arena *a = arena_create();
    Options *o = a ? ARENA_NEW(a, Options, 1) : NULL;

    if (!o || !(o->text = ARENA_NEW(a, const char *, N_OPTIONS)))
        goto fail;
    o->arena = a;
    for (int i = 0; i < N_OPTIONS; i++)
        if (*table[i].fallback && strcmp(table[i].name, "devices") && set_row(o, &table[i], table[i].fallback))
            goto fail;
    return o;
fail:
    arena_free(a);
    return NULL;
}

void options_free(Options *o)
{
    if (o)
        arena_free(o->arena);
}

static bool copy_patterns(Arena *a, const char *const **to, int *n_to, const char *const *from, int n)
{
    const char **list = arena_memdup(a, from, (size_t)n * sizeof *list);
    bool ok = list != NULL;

    for (int i = 0; ok && i < n; i++)
        ok = (list[i] = arena_strdup(a, from[i]));
    *to = list;
    *n_to = n;
    return ok;
}

/* What repeats, as it was parsed: its text joins values by a character that they may hold. */
static Status copy_lists(Options *copy, const Options *o)
{
    const BuildOptions *from = &o->build;
    BuildOptions *to = &copy->build;
    BatchInput *batch = arena_memdup(copy->arena, from->batch_input, (size_t)from->n_batch_input * sizeof *batch);
    InputShape *shape = arena_memdup(copy->arena, from->input_shape, (size_t)from->n_input_shape * sizeof *shape);
    bool ok = batch && shape && copy_patterns(copy->arena, &to->freeze, &to->n_freeze, from->freeze, from->n_freeze) &&
              copy_patterns(copy->arena, &to->train, &to->n_train, from->train, from->n_train) &&
              copy_patterns(copy->arena, &to->untie, &to->n_untie, from->untie, from->n_untie);

    for (int i = 0; ok && i < from->n_batch_input; i++)
        ok = (batch[i].name = arena_strdup(copy->arena, batch[i].name));
    for (int i = 0; ok && i < from->n_input_shape; i++)
        ok = (shape[i].name = arena_strdup(copy->arena, shape[i].name));
    for (int i = 0; ok && i < N_OPTIONS; i++)
        if (o->text[i] && table[i].repeats)
            ok = (copy->text[i] = arena_strdup(copy->arena, o->text[i]));
    if (!ok)
        return FAIL_NOMEM();
    to->batch_input = batch;
    to->n_batch_input = from->n_batch_input;
    to->input_shape = shape;
    to->n_input_shape = from->n_input_shape;
    return ST_OK;
}

Status options_copy(Options **out, const Options *o)
{
    Options *copy = options_create();
    Status st = copy ? ST_OK : FAIL_NOMEM();

    for (int i = 0; i < N_OPTIONS && !st; i++)
        if (o->text[i] && !table[i].repeats)
            st = options_set(copy, table[i].name, o->text[i]);
    if (!st)
        st = copy_lists(copy, o);
    if (!st && o->build.class_weights)
        st = options_set_class_weights(copy, o->build.class_weights);
    if (!st && o->build.target_shape)
        st = options_set_target_shape(copy, o->build.target_shape);
    if (!st)
        copy->world = o->world;
    if (st) {
        options_free(copy);
        return st;
    }
    *out = copy;
    return ST_OK;
}

Status options_set_class_weights(Options *o, const Tensor *weights)
{
    if (weights->shape.rank != 1 || (weights->dtype != DT_FLOAT32 && weights->dtype != DT_FLOAT64))
        return FAIL(E_INVALID, "class weights: expected a vector of float32 or float64, found rank %d of %s",
                    weights->shape.rank, dtype_name(weights->dtype));
    for (int64_t i = 0; i < tensor_numel(weights); i++)
        if (!(tensor_float(weights, i) >= 0) || isinf(tensor_float(weights, i)))
            return FAIL(E_INVALID, "class weights: weight %lld is %g", (long long)i, tensor_float(weights, i));
    o->build.class_weights = tensor_copy(o->arena, weights);
    return o->build.class_weights ? ST_OK : FAIL_NOMEM();
}

Status options_set_target_shape(Options *o, const Shape *shape)
{
    o->build.target_shape = arena_memdup(o->arena, shape, sizeof *shape);
    return o->build.target_shape ? ST_OK : FAIL_NOMEM();
}

/* ---- reading ---- */

int options_count(void) { return N_OPTIONS; }

dpx_option_info options_at(int i)
{
    const Row *r = &table[i];

    return (dpx_option_info){ r->name, r->kind == O_FLAG ? NULL : r->metavar, r->fallback, r->help, r->repeats };
}

const char *options_get(const Options *o, const char *name)
{
    int i = find_option(name);

    return i < 0 ? NULL : o->text[i] ? o->text[i] : table[i].fallback;
}

bool options_given(const Options *o, const char *name)
{
    int i = find_option(name);

    return i >= 0 && o->text[i];
}
