/* One row of `table` per option: its name, how its text is read and where the value goes. */
#include "exec/train/stored_options.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "exec/operators/operators.h"
#include "exec/train/options_families.h"
#include "exec/train/options_groups.h"
#include "exec/train/options_numbers.h"
#include "exec/train/options_parameters.h"
#include "exec/train/options_presets.h"
#include "exec/train/options_types.h"
#include "exec/train/session.h"
#include "kernels/backend.h"
#include "passes/options/batch.h"
#include "passes/options/recipes.h"
#include "passes/options/target.h"

/* ---- options with a syntax of their own ---- */

/* A number of bytes, in units of 1000 when a letter follows. */
static Status set_plan_memory(const Setting *r, void *to, const char *value)
{
    Options *o = to;
    static const Setting number = { .name = "plan-memory", .min = 1, .max = 1e15 };
    static const char letters[] = "kMGT";
    size_t len = strlen(value);
    const char *letter = len ? strchr(letters, value[len - 1]) : NULL;
    char digits[32];
    int64_t n;

    snprintf(digits, sizeof digits, "%.*s", (int)(letter && len < sizeof digits ? len - 1 : len), value);
    if (len >= sizeof digits || setting_read_int(&n, &number, digits))
        return setting_bad(r, value, "a number of bytes, or one followed by k, M, G or T");
    for (const char *l = letters; letter && l <= letter; l++)
        if (__builtin_mul_overflow(n, (int64_t)1000, &n))
            return setting_bad(r, value, "a number of bytes that can be counted");
    stored_memory(o)->plan_memory = n;
    return ST_OK;
}

/* One of the instruction sets that kernels are compiled for and this processor runs. */
static Status set_isa(const Setting *r, void *to, const char *value)
{
    const char *isa = cpu_kernels(strcmp(value, "auto") ? value : NULL).isa;
    char expected[128] = "auto";

    for (int i = 0; cpu_kernels_at(i).isa; i++)
        snprintf(expected + strlen(expected), sizeof expected - strlen(expected), "|%s", cpu_kernels_at(i).isa);
    if (!isa)
        return setting_bad(r, value, expected);
    ((Options *)to)->ways.isa = isa;
    return ST_OK;
}

/* Reads nothing: take_recipes reads a recipe together with its flags. */
static Status is_recipe(const Setting *r, void *to, const char *value)
{
    (void)r, (void)to, (void)value;
    return ST_OK;
}

/* ---- the table ---- */

static const Setting table[] = {
    { "batch-size", "N", "",
      "samples of one batch, over all replicas [train, eval 32]; train: auto[:SHARE], the largest power of two whose "
      "step needs at most SHARE (0.5) of the free memory",
      SETTING_OF(StoredOptions, parts.batch.batch), .min = 1, .max = 1e9, .on_resume = RESUME_ELSEWHERE },
    { "loss", "KIND", "none", "the loss that training minimises; none: the model is not trained", .set = is_recipe },
    { "loss-weight", "OUTPUT", "",
      "with --loss output:NAME: the output with the weight of a batch, or sum: batches add up; else its samples",
      .set = options_set_loss_weight },
    { "criterion", "FILE.onnx", "",
      "the loss as a graph of its own: inputs are outputs of the model and targets by their names, its output is the "
      "loss; what is exported is the model alone",
      SETTING_OF(Options, criterion), .on_resume = RESUME_ELSEWHERE },
    { "preprocess", "FILE.onnx", "",
      "a graph in front of the model: its outputs are inputs of the model by their names, its inputs those of the "
      "data; not differentiated, and not exported",
      SETTING_OF(Options, preprocess), .on_resume = RESUME_ELSEWHERE },
    { "augment-graph", "FILE.onnx", "",
      "a graph that changes inputs of the model in training only: its outputs take the place of inputs by their names; "
      "its random numbers follow the seed and the step; not differentiated, and not exported",
      SETTING_OF(Options, augment), .on_resume = RESUME_ELSEWHERE, .trains = true },
    { "operators", "LIB.so", "", "a library of operators (docs/guide/own-operators.md)", .set = options_add_library,
      .repeats = true, .on_resume = RESUME_TOLD },
    { "compat", "SYSTEM", "none",
      "another system's defaults, which single options override: dp (torch.nn.DataParallel), ddp "
      "(DistributedDataParallel) or encoding (PyTorch-Encoding)",
      SETTING_CHOICE_OF(Options, compat, "none|dp|ddp|encoding") },
    { "loss-scaling", "HOW", "exact",
      "the loss of a batch: exact, the mean over its samples, or mean-of-means, the mean of the replicas' means",
      SETTING_CHOICE_OF(StoredOptions, parts.target.mean_of_means, "exact|mean-of-means"), .trains = true },
    { "mean-over", "PARTS", "all",
      "which parts mean-of-means is over: all, those without samples adding 0, or filled, those that have some",
      SETTING_CHOICE_OF(StoredOptions, parts.target.mean_over, "all|filled"), .trains = true },
    { "target", "NAME", "target", "name of the target among the data's arrays",
      SETTING_OF(StoredOptions, parts.target.target) },
    { "logits", "NAME", "", "the model output that the loss compares with the target; else the first",
      SETTING_OF(StoredOptions, parts.target.logits) },
    { "class-axis", "K", "", "the axis of the logits that counts the classes; else found by the targets' shape",
      .set = options_set_class_axis, .min = 1 - MAX_RANK, .max = MAX_RANK - 1, .on_resume = RESUME_ELSEWHERE },
    { "metric", "NAME", "none", "metric to measure besides the loss", .set = is_recipe, .repeats = true,
      .on_resume = RESUME_FREE },
    { "optimizer", "NAME", "sgd", "optimizer that updates the parameters", .set = is_recipe, .trains = true },
    { "plain-defaults", NULL, "false",
      "--lr 0.01, no momentum and no weight decay, unless they are given, whatever the optimizer; so with --compat",
      SETTING_OF(Options, plain_defaults), .trains = true },
    { "lr", "X", "0.01", "learning rate", SETTING_OF(Options, lr), .max = SETTING_REAL_MAX, .trains = true,
      .on_resume = RESUME_TOLD },
    { "lr-schedule", "S", "constant", "learning rate schedule: the fraction of lr that each step uses",
      .set = is_recipe, .trains = true, .on_resume = RESUME_TOLD },
    { "warmup-steps", "N", "0", "steps over which the rate rises linearly to lr", SETTING_OF(Options, warmup_steps),
      .max = SETTING_COUNT_MAX, .trains = true, .on_resume = RESUME_TOLD },
    { "total-steps", "N", "0", "where schedules end that do; the command line has it from --epochs or --steps",
      SETTING_OF(Options, total_steps), .max = SETTING_COUNT_MAX, .trains = true, .on_resume = RESUME_TOLD,
      .derived = true },
    { "samples", "N", "0", "samples of an epoch whose last batch is trained; the command line has it from --data",
      SETTING_OF(StoredOptions, parts.batch.samples), .max = SETTING_COUNT_MAX, .on_resume = RESUME_FREE,
      .derived = true },
    { "evaluation", NULL, "false",
      "a trainer plans an evaluation in advance, not a training step, and measures auc and average-precision without "
      "bins; dpexec eval sets it",
      SETTING_OF(StoredOptions, parts.recipes.exact), .on_resume = RESUME_FREE, .derived = true },
    { "no-decay", "KINDS", "", "parameters without weight decay, in all groups: norm, bias or norm,bias",
      .set = options_set_no_decay, .trains = true },
    { "accumulate", "K", "1", "batches whose gradients make one optimizer step", SETTING_OF(Options, accumulate),
      .min = 1, .max = 1e9, .trains = true },
    { "accumulate-across-epochs", NULL, "false",
      "an epoch's last group goes on in the next epoch: only the run's last may be incomplete",
      SETTING_OF(Options, across_epochs), .trains = true },
    { "clip-norm", "X[:P|:inf]", "0",
      "bound on the norm of all gradients together, of powers P [2] or the largest element; 0: none",
      .set = options_set_clip_norm, .trains = true },
    { "clip-value", "X", "0", "bound on each element of every gradient; 0: none",
      SETTING_OF(StoredOptions, parts.update.clip.value), .max = SETTING_REAL_MAX, .trains = true },
    { "ema", "DECAY", "0", "decay of a mean of each parameter over the steps, which is state of its own; 0: none",
      SETTING_OF(StoredOptions, parts.update.ema), .max = 0.9999999999, .trains = true },
    { "eval-weights", "WHICH", "trained",
      "parameters of evaluations and predictions; ema: the means of --ema, or of an optimizer that averages",
      SETTING_CHOICE_OF(StoredOptions, parts.update.eval_means, "trained|ema"), .trains = true,
      .on_resume = RESUME_FREE },
    { "export-weights", "WHICH", "trained",
      "trained: as the last step left them; ema: their mean of --ema, or of an optimizer that averages",
      SETTING_CHOICE_OF(Options, export_ema, "trained|ema"), .trains = true, .on_resume = RESUME_FREE },
    { "export-preprocess", "FILE.onnx", "",
      "join this graph in front of the exported models: its outputs are the model's inputs by their names",
      SETTING_OF(Options, export_preprocess), .trains = true, .on_resume = RESUME_FREE },
    { "group", "PATTERN:KEY=VALUE,...", "",
      "settings of the parameters whose names match: lr, schedule, optimizer and its flags, loss, clip-norm, "
      "clip-value; the first pattern that matches counts, e.g. 'backbone.*:lr=0.001,weight-decay=0'",
      .set = options_add_group, .repeats = true, .trains = true },
    { "turns", NULL, "false",
      "groups with losses of their own are updated one after another in a step, each by its loss as it is then",
      SETTING_OF(StoredOptions, parts.update.turns), .trains = true },
    { "groups", "FILE", "", "a file of groups, one a line", .set = options_add_groups, .repeats = true, .trains = true,
      .on_resume = RESUME_FREE },
    { "devices", "LIST", "cpu:0", "cpu:0,cpu:1, cpu*4, cuda, cuda:0,cuda:1, cuda*2, or all",
      SETTING_OF(Options, devices), .on_resume = RESUME_FREE },
    { "replicas", "R", "", "logical replicas; else one per device", SETTING_OF(StoredOptions, parts.replicas.replicas),
      .min = 1, .max = MAX_REPLICAS, .on_resume = RESUME_BITS },
    { "threads", "N", "", "threads of each device's team; else the cores are shared out", SETTING_OF(Options, threads),
      .min = 1, .max = 1024, .on_resume = RESUME_BITS },
    { "isa", "SET", "auto",
      "instruction set of the CPU kernels: native, or x86-64-v2, -v3 or -v4, as far as this build has it and this "
      "processor runs it; auto: the fastest",
      .set = set_isa, .on_resume = RESUME_BITS },
    { "loader-threads", "N", "0",
      "cores that are left to the threads which make samples; the command line has it from --workers",
      SETTING_OF(Options, loader_threads), .max = 1024, .on_resume = RESUME_FREE, .derived = true },
    { "split", "MODE", "balanced",
      "balanced: parts differ by at most one sample; chunk: equal parts, the last ones smaller; W1,W2,...: as these "
      "weights of the devices, or of the replicas; auto: by how fast each device is found to be",
      .set = options_set_split },
    { "links", "FILE", "",
      "speed of the devices and of the links between them, as devices --links writes it, or auto: measured when the "
      "run begins; buckets of gradients are as large as is cheapest",
      .set = options_set_links, .on_resume = RESUME_TOLD },
    { "bucket-mb", "X", "",
      "MiB of gradients that are summed at once, and 1 of the first; else 25, or as --links finds",
      .set = options_set_bucket, .on_resume = RESUME_FREE },
    { "strategy", "WHOSE", "mirrored",
      "mirrored: every device has and updates the parameters; master: the first does, which sends them to the others "
      "for each step and sums gradients; CPU devices",
      SETTING_CHOICE_OF(StoredOptions, parts.collectives.master, "mirrored|master"), .on_resume = RESUME_FREE },
    { "output-device", "D", "0",
      "where outputs of replicas are put together: the number of a device, counted from 0, or host (-1, cpu), as all "
      "are handed out there; each: nowhere, replica 2's part of OUTPUT is OUTPUT@r2",
      .set = options_set_output_device, .on_resume = RESUME_FREE },
    { "chunk-loss", "ROWS", "off",
      "rows of a cross-entropy's scores that are computed at once: off, all of them; auto, all where they take less "
      "than 512 MiB, else as many as take 256 MiB; or a number",
      .set = options_set_chunk_loss, .on_resume = RESUME_BITS },
    { "loss-at", "WHERE", "parts",
      "where losses are computed: parts, each replica's where it lies; outputs, of all outputs, on the output device "
      "(CPU devices)",
      SETTING_CHOICE_OF(StoredOptions, parts.outputs.loss_gathered, "parts|outputs"), .on_resume = RESUME_BITS },
    { "scalar-outputs", "HOW", "whole",
      "outputs of one number, in inference: whole, of all samples, or each, a vector of what each replica has of its "
      "own",
      SETTING_CHOICE_OF(StoredOptions, parts.outputs.numbers_apart, "whole|each"), .on_resume = RESUME_FREE },
    { "output-axis", "A", "placed",
      "where outputs of replicas are put together, in inference: placed, along the axis that has the samples; an axis, "
      "or inputs, the one of the inputs: an output that has no samples there is what each replica has of its own, "
      "joined there",
      .set = options_set_output_axis, .on_resume = RESUME_FREE },
    { "mix", "HOW", "auto",
      "operators that mix samples of the batch: gather, every device gets all samples and computes the whole; "
      "exchange, each gets a slice of all samples, where the operator is independent along another axis; auto: the "
      "cheaper one (CPU devices; else gather)",
      SETTING_CHOICE_OF(StoredOptions, parts.collectives.mix, "auto|gather|exchange"), .on_resume = RESUME_BITS },
    { "reduce-dtype", "TYPE", "own",
      "the type in which gradients are summed over devices: own, bf16 or fp16, to which they are rounded before",
      .set = options_set_reduce_dtype, .trains = true },
    { "shard", "WHAT", "none",
      "state of which each device keeps only a piece: optimizer, the optimizer's state; gradients, their sums over "
      "replicas as well; parameters, these as well; CPU devices",
      SETTING_CHOICE_OF(StoredOptions, parts.collectives.shard, "none|optimizer|gradients|parameters"),
      .on_resume = RESUME_FREE },
    { "bn", "MODE", "sync",
      "sync: batch-norm statistics of the whole batch; local: of each replica's part; average: of each part, and the "
      "running ones the mean of the replicas'",
      SETTING_CHOICE_OF(StoredOptions, parts.batch_norm.bn, "sync|local|average"), .trains = true },
    { "bn-group", "G", "",
      "with --bn sync: statistics of G replicas in a row, the last ones may be fewer; running ones are the first "
      "group's",
      SETTING_OF(StoredOptions, parts.batch_norm.bn_group), .min = 1, .max = MAX_REPLICAS, .trains = true },
    { "broadcast-buffers", "true|false", "true",
      "with --bn local: replicas begin each step with the first's running statistics; false: each keeps its own",
      SETTING_CHOICE_OF(StoredOptions, parts.batch_norm.own_buffers, "true|false"), .trains = true },
    { "bn-eps", "HOW", "add",
      "epsilon is added to the variance, or several replicas clamp it: the larger of both (jactorch's)",
      SETTING_CHOICE_OF(StoredOptions, parts.batch_norm.bn_clamp, "add|clamp"), .trains = true },
    { "bn-variance", "KIND", "population",
      "variance that the running variance averages: population (ONNX) or unbiased (PyTorch)",
      SETTING_CHOICE_OF(StoredOptions, parts.batch_norm.bn_unbiased, "population|unbiased"), .trains = true },
    { "train", "PATTERN", "",
      "tensors that are parameters, whatever they look like, e.g. 'head.*' (docs/reference/parameters.md)",
      .set = options_add_pattern, .repeats = true },
    { "freeze", "PATTERN", "", "parameters that are not trained, e.g. 'conv1.*'", .set = options_add_pattern,
      .repeats = true },
    { "parameters", "FILE", "", "the only tensors to train: names, one a line, or a .safetensors whose keys count",
      .set = options_set_parameters, .on_resume = RESUME_ELSEWHERE },
    { "untie", "PATTERN", "",
      "tensors of several readers that become one for each module that reads them (docs/reference/onnx.md)",
      .set = options_add_pattern, .repeats = true },
    { "head", "N|NAME=N", "",
      "give the last layer N outputs and new weights, for N classes of your own: the last Gemm, MatMul or 1x1 Conv in "
      "front of the output that the loss reads, or the layer NAME",
      .set = options_set_head, .trains = true },
    { "stop-gradient", "PATTERN", "",
      "values, or VALUE>NODE[:INPUT] where a node reads them, that no gradient passes, e.g. 'target.*' "
      "(docs/reference/parameters.md)",
      .set = options_add_pattern, .repeats = true },
    { "qat", "on|off", "on",
      "gradients pass QuantizeLinear and DequantizeLinear straight through; off: what stands behind them is fixed",
      SETTING_CHOICE_OF(StoredOptions, parts.parameters.qat_off, "on|off"), .trains = true },
    { "state", "BUFFER=VALUE", "", "a buffer of the model that each step sets to a value of the graph",
      .set = options_add_state, .repeats = true },
    { "dtype", "TYPE", "", "compute in float32 or float64; else as the model says", .set = options_set_dtype },
    { "precision", "P", "float32",
      "type of matrix products and their surroundings: float32, tf32 (on GPUs), bfloat16 or float16; state stays "
      "float32",
      .set = options_set_precision },
    { "loss-scale", "S", "",
      "with float16: factor of the loss before it is differentiated: a number, or "
      "dynamic[:FIRST[:GROWTH[:BACKOFF[:INTERVAL]]]] (the default, 65536:2:0.5:2000)",
      .set = options_set_loss_scale, .trains = true },
    { "training", NULL, "false",
      "run and check: batch-norm and dropout in the mode that the file says; else all by running statistics, and "
      "nothing is dropped",
      SETTING_OF(StoredOptions, parts.step.file_modes), .on_resume = RESUME_FREE },
    { "blocks", NULL, "false",
      "store what convolutions of float32 on CPUs work on in blocks of channels: faster where batch norms and "
      "elementwise operators alone stand between them, slower with pools, Clip and convolutions by channel",
      SETTING_OF(StoredOptions, parts.backend.blocks) },
    { "tune", NULL, "false", "measure which algorithms of convolutions and products are the fastest; GPUs only",
      SETTING_OF(Options, tune), .on_resume = RESUME_BITS },
    { "no-capture", NULL, "false", "give a GPU every call of every step, instead of one graph a step",
      SETTING_OF(Options, ways.uncaptured), .on_resume = RESUME_FREE },
    { "reproducible", NULL, "false",
      "add partial sums in an order that does not depend on which device holds which, on GPUs too; slower",
      SETTING_OF(Options, ways.reproducible), .on_resume = RESUME_BITS },
    { "reduce", "BY", "tree",
      "sums of CPU devices over processes: by dpexec's tree, whose bits do not depend on the mapping, or by the MPI "
      "library",
      SETTING_CHOICE_OF(Options, ways.library_sums, "tree|library"), .on_resume = RESUME_BITS },
    { "check-nodes", NULL, "false",
      "wait for every call of every step on a GPU, so that a failure names the node; slow",
      SETTING_OF(Options, ways.check_nodes), .on_resume = RESUME_FREE },
    { "seed", "N", "0", "seed of all random numbers", SETTING_OF(StoredOptions, parts.step.seed), .max = 9e15 },
    { "plan-memory", "SIZE", "",
      "memory that planning may take, e.g. 8G; else half of what the machine or its cgroup has", .set = set_plan_memory,
      .on_resume = RESUME_FREE },
    { "max-nodes", "N", "300000",
      "nodes that a model may have with functions inlined and loops unrolled, or run by the interpreter",
      SETTING_OF(StoredOptions, parts.memory.max_nodes), .min = 1, .max = 1e9, .on_resume = RESUME_FREE },
    { "pad-to", "WHOSE", "auto",
      "length to which samples are padded: step, the longest of all replicas, or replica, the longest of each; auto: "
      "replica for groups of dpx_data, else step",
      SETTING_CHOICE_OF(Options, pad_to, "auto|step|replica"), .on_resume = RESUME_TOLD },
    { "programs", "N", "32",
      "programs that are kept, one for each mode and set of input shapes; the one not used for longest goes",
      SETTING_OF(Options, programs), .min = SESSION_LEAST_PROGRAMS, .max = 1e6, .on_resume = RESUME_FREE },
    { "input-shape", "NAME=2,3,4", "", "shape of an input whose dimensions the model leaves open",
      .set = options_add_input_shape, .repeats = true },
    { "input-members", "NAME=N", "",
      "number of tensors of an input that is a sequence; present or absent for an optional input",
      .set = options_add_input_members, .repeats = true },
    { "input-value", "NAME=NUMBER", "",
      "an input that is this number for the whole run, or these, NAME=1,2,3: a constant, which decides branches; "
      "model.onnx no longer has it as an input",
      .set = options_add_input_value, .repeats = true },
    { "batch-input", "NAME[:AXIS]", "",
      "an input that carries the batch, when it is not found rightly; of its axes [0] negative ones count from the end",
      .set = options_add_batch_input, .repeats = true, .on_resume = RESUME_ELSEWHERE },
};
enum { N_TABLE = sizeof table / sizeof *table };

/* ---- recipes: their flags are options too, behind the option that chooses among them ---- */

enum { MAX_OPTIONS = 512 };

static void add_flags(const Setting *all[MAX_OPTIONS], int *n, const Family *f)
{
    for (const Recipe *const *r = f->list; *r; r++)
        for (const Setting *s = (*r)->flags; s && s->name; s++)
            if (family_first_with(s->name, NULL) == *r) {
                assert(*n < MAX_OPTIONS);
                all[(*n)++] = s;
            }
}

/* All options in order: the table's, and behind a family's the flags of its recipes, each where it is declared first.
 * A thread makes its list once. */
static const Setting *const *all_options(int *count)
{
    static _Thread_local const Setting *all[MAX_OPTIONS];
    static _Thread_local int n;

    *count = n;
    if (n)
        return all;
    for (int i = 0; i < N_TABLE; i++) {
        assert(n < MAX_OPTIONS);
        all[n++] = &table[i];
        if (family_of(table[i].name))
            add_flags(all, &n, family_of(table[i].name));
    }
    *count = n;
    return all;
}

static const Setting *option_at(int i)
{
    int n;
    const Setting *const *all = all_options(&n);

    return i >= 0 && i < n ? all[i] : NULL;
}

static const Setting *find_option(const char *name, int *index)
{
    int n;
    const Setting *const *all = all_options(&n);

    for (*index = 0; *index < n; ++*index)
        if (!strcmp(all[*index]->name, name))
            return all[*index];
    return NULL;
}

/* Is it a recipe's? */
static bool is_flag(const Setting *s)
{
    for (int i = 0; i < N_TABLE; i++)
        if (s == &table[i])
            return false;
    return true;
}

/* The option of the table; NULL for a recipe's. */
static const Setting *table_find(const char *name)
{
    int unused;
    const Setting *s = find_option(name, &unused);

    return s && !is_flag(s) ? s : NULL;
}

static const char *text_of(const Options *o, const char *name)
{
    int i;
    const Setting *s = find_option(name, &i);

    return o->text[i] ? o->text[i] : options_unset(o, s);
}

/* The k-th recipe that the options choose of a family, or NULL: none. */
static const Recipe *options_chosen(const Options *o, const Family *f, int k)
{
    return family_recipe(f, text_of(o, f->option), k);
}

/* The recipe whose default holds: the first of those chosen that has the flag, else the first. */
static const Recipe *owner(const Options *o, const char *flag)
{
    const Recipe *r;

    for (int i = 0; i < N_FAMILIES; i++)
        for (int k = 0; (r = options_chosen(o, &families[i], k)); k++)
            if (recipe_flag(r, flag))
                return r;
    return family_first_with(flag, NULL);
}

static bool is_chosen(const Options *o, const Recipe *r)
{
    const Recipe *chosen;
    bool any = false;

    for (int i = 0; i < N_FAMILIES; i++)
        for (int k = 0; (chosen = options_chosen(o, &families[i], k)); k++)
            any = any || chosen == r;
    return any;
}

/* "momentum=0.9;beta1=0.8;": the flags of recipes that are given, then those of presets. */
static const char *given_flags(const Options *o)
{
    const char *all = "", *preset = options_preset_flags(o);
    const Setting *s;

    for (int i = 0; all && (s = option_at(i)); i++)
        if (is_flag(s) && o->text[i])
            all = arena_printf(o->arena, "%s%s=%s;", all, s->name, *o->text[i] ? o->text[i] : "true");
    return all && preset ? arena_printf(o->arena, "%s%s", all, preset) : NULL; /* the first of a name counts */
}

/* Sets the recipes that the texts choose, with their settings; on failure nothing changes. */
static Status take_recipes(Options *o)
{
    const Recipe *r[N_FAMILIES] = { NULL };
    const char *args[N_FAMILIES] = { NULL }, *flags = given_flags(o);
    MetricChoice metric[MAX_METRICS + 1];
    RecipeSettings s[N_FAMILIES];

    if (!flags)
        return FAIL_NOMEM();
    for (int i = 0; i < N_FAMILIES; i++) {
        const char *text = text_of(o, families[i].option);

        if (i == OF_METRIC) {
            TRY(family_read_metrics(metric, text, flags, o->arena));
            continue;
        }
        r[i] = recipe_find(families[i].list, text);
        args[i] = recipe_args(text);
        if (!r[i] && !(families[i].or_none && !strcmp(text, "none")))
            return family_unknown(&families[i], text);
        if (r[i])
            TRY(recipe_read(&s[i], r[i], families[i].option, args[i], flags, o->arena));
    }
    stored_recipes(o)->loss = (const LossDef *)(const void *)r[OF_LOSS];
    stored_recipes(o)->loss_args = args[OF_LOSS];
    memcpy(stored_recipes(o)->metric, metric, sizeof metric);
    stored_recipes(o)->optimizer = (const OptimizerDef *)(const void *)r[OF_OPTIMIZER];
    stored_recipes(o)->optimizer_args = args[OF_OPTIMIZER];
    o->schedule = (const ScheduleDef *)(const void *)r[OF_SCHEDULE];
    o->schedule_settings = s[OF_SCHEDULE];
    stored_recipes(o)->settings = flags;
    return options_take_groups(o);
}

Status options_check_recipes(const Options *o)
{
    PROBLEMS(wrong);
    const Family *f = NULL, *of = NULL;
    const Setting *s;

    for (int i = 0; (s = option_at(i)); i++) {
        if (!is_flag(s) || !o->text[i])
            continue;
        family_first_with(s->name, &f);
        if (!is_chosen(o, owner(o, s->name)) && options_chosen(o, f, 0)) {
            of = of ? of : f;
            problems_add(&wrong, "--%s", s->name);
        }
    }
    TRY(problems_fail(&wrong, E_INVALID, "--%s %s does not have", of ? of->option : "",
                      of ? text_of(o, of->option) : ""));
    for (int i = 0; i < N_FAMILIES; i++) {
        const Recipe *r = options_chosen(o, &families[i], 0);
        RecipeSettings settings;

        if (r && families[i].list != metric_list)
            TRY(recipe_take(&settings, r, families[i].option, recipe_args(text_of(o, families[i].option)),
                            recipe_options(&o->build)->settings, o->arena));
    }
    for (const MetricChoice *m = recipe_options(&o->build)->metric; m->def; m++) {
        RecipeSettings settings;

        TRY(recipe_take(&settings, &m->def->recipe, "metric", m->args, recipe_options(&o->build)->settings, o->arena));
    }
    return ST_OK;
}

/* ---- setting ---- */

/* The text of option i; what recipes make of it is taken over, or all stays as it was. */
static Status options_keep(Options *o, int i, const char *text, bool of_recipes)
{
    const char *before = o->text[i];
    Status st = ST_OK;

    o->text[i] = text;
    if (of_recipes && (st = take_recipes(o)))
        o->text[i] = before;
    return st;
}

/* Is the value added to the text of option i?  "none" is no member of a list of recipes. */
static bool adds(const Options *o, const Setting *s, int i, const char *value)
{
    return s->repeats && o->text[i] && !(family_of(s->name) && (!strcmp(value, "none") || !strcmp(o->text[i], "none")));
}

Status options_set(Options *o, const char *name, const char *value)
{
    int i;
    const Setting *s = find_option(name, &i);
    RecipeSettings unused;
    const char *text;

    if (!s)
        return FAIL(E_INVALID, "there is no option --%s", name);
    if (is_flag(s))
        s = recipe_flag(owner(o, name), name);
    TRY(setting_set(s, is_flag(s) ? (void *)&unused : (void *)o, o->arena, value));
    text = adds(o, s, i, value) ? arena_printf(o->arena, "%s;%s", o->text[i], value)
                                : arena_strdup(o->arena, *value || s->kind != SETTING_FLAG ? value : "true");
    TRY(text ? options_keep(o, i, text, is_flag(s) || family_of(name) || options_have_presets(name)) : FAIL_NOMEM());
    return options_take_presets(o, name, table_find);
}

Options *options_create(void)
{
    Arena *a = arena_create();
    StoredOptions *stored = a ? ARENA_NEW(a, StoredOptions, 1) : NULL;
    Options *o = stored ? &stored->options : NULL;

    if (!o || !(o->text = ARENA_NEW(a, const char *, options_count())))
        goto fail;
    build_parts_copy(&stored->parts, &o->build);
    o->build = stored->parts.build;
    o->arena = a;
    for (int i = 0; i < N_TABLE; i++)
        if (*table[i].fallback && strcmp(table[i].name, "devices") &&
            setting_set(&table[i], o, o->arena, table[i].fallback))
            goto fail;
    if (take_recipes(o))
        goto fail;
    return o;
fail:
    arena_free(a);
    return NULL;
}

void options_free(Options *o)
{
    if (!o)
        return;
    for (int i = 0; i < o->n_operators; i++)
        operators_release(o->operators[i]);
    arena_free(o->arena);
}

/* Copies the options that repeat as they were parsed: their text joins values by a character that these may hold. */
static Status copy_lists(Options *copy, const Options *o)
{
    bool ok = true;

    TRY(options_copy_patterns(copy, o));
    for (int i = 0; ok && i < options_count(); i++)
        if (o->text[i] && option_at(i)->repeats)
            ok = (copy->text[i] = arena_strdup(copy->arena, o->text[i]));
    return ok ? options_copy_inputs(copy, o) : FAIL_NOMEM();
}

Status options_copy(Options **out, const Options *o)
{
    const TargetOptions *target = target_options(&o->build);
    const BatchOptions *batch = batch_options(&o->build);
    Options *copy = options_create();
    Status st = copy ? ST_OK : FAIL_NOMEM();

    for (int i = 0, n = options_count(); i < n && !st; i++) {
        const Setting *s = option_at(i);

        if (o->text[i] && !is_flag(s) && !s->repeats && !family_of(s->name))
            st = options_set(copy, s->name, o->text[i]);
        else if (o->text[i] && (!s->repeats || family_of(s->name)))
            st = (copy->text[i] = arena_strdup(copy->arena, o->text[i])) ? ST_OK : FAIL_NOMEM();
    }
    if (!st)
        st = take_recipes(copy);
    if (!st)
        st = options_take_presets(copy, "optimizer", table_find);
    if (!st)
        st = copy_lists(copy, o);
    if (!st)
        st = options_copy_groups(copy, o);
    if (!st && target->class_weights)
        st = options_set_class_weights(copy, target->class_weights);
    for (int i = batch->n_carry_choice; i-- > 0 && !st;)
        st = options_set_carries(copy, batch->carry_choice[i].name, batch->carry_choice[i].carries);
    if (!st && target->target_shape)
        st = options_set_target_shape(copy, target->target_shape);
    if (!st)
        copy->world = o->world;
    for (int i = 0; i < o->n_operators && !st; i++)
        st = options_set_operators(copy, o->operators[i]);
    if (!st)
        st = options_set_replication(copy, &o->replication);
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
    stored_target(o)->class_weights = tensor_copy(o->arena, weights);
    return stored_target(o)->class_weights ? ST_OK : FAIL_NOMEM();
}

void options_set_members(Options *o, int (*members)(void *user, const char *input, int sequence, int optional),
                         void *user)
{
    stored_inputs(o)->members = members;
    stored_inputs(o)->members_user = user;
}

Status options_set_target_shape(Options *o, const Shape *shape)
{
    stored_target(o)->target_shape = arena_memdup(o->arena, shape, sizeof *shape);
    return stored_target(o)->target_shape ? ST_OK : FAIL_NOMEM();
}

/* ---- reading ---- */

int options_count(void)
{
    int n;

    (void)all_options(&n);
    return n;
}

dpx_option_info options_at(int i)
{
    static const dpx_on_resume on_resume[] = { [RESUME_FIXED] = DPX_RESUME_FIXED,
                                               [RESUME_TOLD] = DPX_RESUME_TOLD,
                                               [RESUME_FREE] = DPX_RESUME_FREE,
                                               [RESUME_ELSEWHERE] = DPX_RESUME_ELSEWHERE,
                                               [RESUME_BITS] = DPX_RESUME_BITS };
    const Setting *s = option_at(i);

    const Family *f = NULL;

    if (!s->trains)
        family_first_with(s->name, &f);
    return (dpx_option_info){ .name = s->name,
                              .metavar = s->metavar,
                              .fallback = s->fallback,
                              .help = s->help,
                              .repeats = s->repeats,
                              .trains = s->trains || (f && f->trains),
                              .on_resume = on_resume[s->on_resume],
                              .derived = s->derived };
}

const char *options_get(const Options *o, const char *name)
{
    int i;
    const Setting *s = find_option(name, &i);

    if (s && !o->text[i] && is_flag(s))
        s = recipe_flag(owner(o, name), name);
    return !s ? NULL : o->text[i] ? o->text[i] : options_unset(o, s);
}

bool options_given(const Options *o, const char *name)
{
    int i;

    return find_option(name, &i) && o->text[i];
}

const char *options_choices(const char *name)
{
    for (int i = 0; i < N_TABLE; i++)
        if (!strcmp(table[i].name, name) && table[i].choices)
            return table[i].choices;
    return "";
}

const char *options_choice_default(const char *option, const char *choice, const char *flag)
{
    const Family *f = family_of(option);
    const Recipe *r = f ? recipe_find(f->list, choice) : NULL;
    const Setting *s = r ? recipe_flag(r, flag) : NULL, *of_table = table_find(flag);

    if (s || !r || !of_table || (f->list == optimizer_list && ((const OptimizerDef *)(const void *)r)->of_file))
        return s ? s->fallback : NULL;
    return options_preset_default(option, r->name, of_table);
}
