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
      "samples of one batch, over all replicas; train: auto[:SHARE] takes the largest power of two whose step needs at "
      "most SHARE (0.5) of the free memory [train and eval 32, else by the model]",
      SETTING_OF(StoredOptions, parts.batch.batch), .min = 1, .max = 1e9, .on_resume = RESUME_ELSEWHERE },
    { "loss", "KIND", "none", "loss that training minimises; none: the model is not trained", .set = is_recipe },
    { "loss-weight", "OUTPUT", "",
      "with --loss output:NAME: output that holds the weight of a batch; sum: the losses of batches add up [number of "
      "samples]",
      .set = options_set_loss_weight },
    { "criterion", "FILE.onnx", "",
      "loss as a graph of its own: its inputs are outputs of the model and targets, by name; its output is the loss; "
      "not exported",
      SETTING_OF(Options, criterion), .on_resume = RESUME_ELSEWHERE },
    { "preprocess", "FILE.onnx", "",
      "graph in front of the model: its inputs are arrays of the data, its outputs are inputs of the model, by name; "
      "not differentiated, not exported",
      SETTING_OF(Options, preprocess), .on_resume = RESUME_ELSEWHERE },
    { "augment-graph", "FILE.onnx", "",
      "graph that changes inputs of the model in training only: its outputs replace inputs, by name; its random "
      "numbers follow the seed and the step; not differentiated, not exported",
      SETTING_OF(Options, augment), .on_resume = RESUME_ELSEWHERE, .trains = true },
    { "operators", "LIB.so", "", "shared library of own operators (docs/guide/own-operators.md)",
      .set = options_add_library, .repeats = true, .on_resume = RESUME_TOLD },
    { "compat", "SYSTEM", "none",
      "another system's defaults, which single options override: dp (torch.nn.DataParallel), ddp "
      "(DistributedDataParallel) or encoding (PyTorch-Encoding)",
      SETTING_CHOICE_OF(Options, compat, "none|dp|ddp|encoding") },
    { "loss-scaling", "HOW", "exact",
      "loss of a batch: exact, the mean over its samples; mean-of-means, the mean of the replicas' means",
      SETTING_CHOICE_OF(StoredOptions, parts.target.mean_of_means, "exact|mean-of-means"), .trains = true },
    { "mean-over", "PARTS", "all",
      "parts that mean-of-means averages: all, where a part without samples counts as 0; filled, only parts with "
      "samples",
      SETTING_CHOICE_OF(StoredOptions, parts.target.mean_over, "all|filled"), .trains = true },
    { "target", "NAME", "target", "name of the target among the data's arrays",
      SETTING_OF(StoredOptions, parts.target.target) },
    { "logits", "NAME", "", "model output that the loss compares with the target [the first]",
      SETTING_OF(StoredOptions, parts.target.logits) },
    { "class-axis", "K", "", "axis of the logits that counts the classes [by the targets' shape]",
      .set = options_set_class_axis, .min = 1 - MAX_RANK, .max = MAX_RANK - 1, .on_resume = RESUME_ELSEWHERE },
    { "metric", "NAME", "none", "metric to measure besides the loss", .set = is_recipe, .repeats = true,
      .on_resume = RESUME_FREE },
    { "optimizer", "NAME", "sgd", "optimizer that updates the parameters", .set = is_recipe, .trains = true },
    { "plain-defaults", NULL, "false",
      "every optimizer has --lr 0.01, no momentum and no weight decay, unless they are given; --compat does the same",
      SETTING_OF(Options, plain_defaults), .trains = true },
    { "lr", "X", "0.01", "learning rate", SETTING_OF(Options, lr), .max = SETTING_REAL_MAX, .trains = true,
      .on_resume = RESUME_TOLD },
    { "lr-schedule", "S", "constant", "learning rate schedule: the fraction of lr that each step uses",
      .set = is_recipe, .trains = true, .on_resume = RESUME_TOLD },
    { "warmup-steps", "N", "0", "steps over which the rate rises linearly to lr", SETTING_OF(Options, warmup_steps),
      .max = SETTING_COUNT_MAX, .trains = true, .on_resume = RESUME_TOLD },
    { "total-steps", "N", "0", "where schedules end that do; the command line has it from --epochs or --steps",
      SETTING_OF(StoredOptions, parts.step.total_steps), .max = SETTING_COUNT_MAX, .trains = true,
      .on_resume = RESUME_TOLD, .derived = true },
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
    { "accumulate-across-epochs", NULL, "false", "an epoch's last, incomplete group goes on in the next epoch",
      SETTING_OF(Options, across_epochs), .trains = true },
    { "clip-norm", "X[:P|:inf]", "0",
      "bound on the norm of all gradients together: of power P (2), or inf, the largest element; 0: none",
      .set = options_set_clip_norm, .trains = true },
    { "clip-value", "X", "0", "bound on each element of every gradient; 0: none",
      SETTING_OF(StoredOptions, parts.update.clip.value), .max = SETTING_REAL_MAX, .trains = true },
    { "ema", "DECAY", "0", "decay of the exponential moving average (EMA) of each parameter; 0: no average",
      SETTING_OF(StoredOptions, parts.update.ema), .max = 0.9999999999, .trains = true },
    { "eval-weights", "WHICH", "trained",
      "parameters of evaluations and predictions: trained, as the last step left them; ema, the averages of --ema or "
      "of the optimizer",
      SETTING_CHOICE_OF(StoredOptions, parts.update.eval_means, "trained|ema"), .trains = true,
      .on_resume = RESUME_FREE },
    { "export-weights", "WHICH", "trained",
      "parameters of exported models: trained, as the last step left them; ema, the averages of --ema or of the "
      "optimizer",
      SETTING_CHOICE_OF(Options, export_ema, "trained|ema"), .trains = true, .on_resume = RESUME_FREE },
    { "export-preprocess", "FILE.onnx", "",
      "put this graph in front of exported models: its outputs are the model's inputs, by name",
      SETTING_OF(Options, export_preprocess), .trains = true, .on_resume = RESUME_FREE },
    { "group", "PATTERN:KEY=VALUE,...", "",
      "settings of parameters whose names match: lr, schedule, optimizer and its flags, loss, clip-norm, clip-value; "
      "the first match counts, e.g. 'backbone.*:lr=0.001,weight-decay=0'",
      .set = options_add_group, .repeats = true, .trains = true },
    { "turns", NULL, "false",
      "in a step, update groups with losses of their own one after another; each loss sees the updates before it",
      SETTING_OF(StoredOptions, parts.update.turns), .trains = true },
    { "groups", "FILE", "", "file of groups, one per line", .set = options_add_groups, .repeats = true, .trains = true,
      .on_resume = RESUME_FREE },
    { "devices", "LIST", "cpu:0", "cpu:0,cpu:1, cpu*4, cuda, cuda:0,cuda:1, cuda*2, or all",
      SETTING_OF(Options, devices), .on_resume = RESUME_FREE },
    { "replicas", "R", "", "logical replicas [one per device]", SETTING_OF(StoredOptions, parts.replicas.replicas),
      .min = 1, .max = MAX_REPLICAS, .on_resume = RESUME_BITS },
    { "threads", "N", "", "CPU threads of each device [an equal share of the cores]", SETTING_OF(Options, threads),
      .min = 1, .max = 1024, .on_resume = RESUME_BITS },
    { "isa", "SET", "auto",
      "instruction set of the CPU kernels: native, x86-64-v2, x86-64-v3 or x86-64-v4, if this build has it and this "
      "processor runs it; auto: the fastest",
      .set = set_isa, .on_resume = RESUME_BITS },
    { "loader-threads", "N", "0",
      "cores that are left to the threads which make samples; the command line has it from --workers",
      SETTING_OF(Options, loader_threads), .max = 1024, .on_resume = RESUME_FREE, .derived = true },
    { "split", "MODE", "balanced",
      "how a batch is divided: balanced, parts differ by at most one sample; chunk, equal parts, the last ones "
      "smaller; W1,W2,..., by weights of the devices or replicas; auto, by the measured speed of each device",
      .set = options_set_split },
    { "links", "FILE", "",
      "speed of the devices and the links between them, which chooses the size of gradient buckets: a file of dpexec "
      "devices --links, or auto, measured when the run begins",
      .set = options_set_links, .on_resume = RESUME_TOLD },
    { "bucket-mb", "X", "", "MiB of gradients in one all-reduce; the first has 1 MiB [25, or the cheapest by --links]",
      .set = options_set_bucket, .on_resume = RESUME_FREE },
    { "strategy", "WHOSE", "mirrored",
      "who updates the parameters: mirrored, every device; master, the first device, which sums gradients and sends "
      "parameters to the others in each step (CPU devices)",
      SETTING_CHOICE_OF(StoredOptions, parts.collectives.master, "mirrored|master"), .on_resume = RESUME_FREE },
    { "output-device", "D", "0",
      "where outputs of replicas are joined: a device's number, from 0, or host (-1, cpu); each: nowhere, OUTPUT@r2 is "
      "replica 2's part of OUTPUT",
      .set = options_set_output_device, .on_resume = RESUME_FREE },
    { "chunk-loss", "ROWS", "off",
      "rows of scores that cross-entropy computes at once: off, all; auto, all if they take less than 512 MiB, else "
      "256 MiB of them; or a number",
      .set = options_set_chunk_loss, .on_resume = RESUME_BITS },
    { "loss-at", "WHERE", "parts",
      "where losses are computed: parts, on each replica from its own samples; outputs, on the output device from all "
      "samples (CPU devices)",
      SETTING_CHOICE_OF(StoredOptions, parts.outputs.loss_gathered, "parts|outputs"), .on_resume = RESUME_BITS },
    { "scalar-outputs", "HOW", "whole",
      "outputs of one number, in inference: whole, computed from all samples; each, a vector with the number of each "
      "replica's own samples",
      SETTING_CHOICE_OF(StoredOptions, parts.outputs.numbers_apart, "whole|each"), .on_resume = RESUME_FREE },
    { "output-axis", "A", "placed",
      "axis along which outputs of replicas are joined, in inference: placed, the axis of the samples; a number, or "
      "inputs, the batch axis of the inputs: an output without samples there is each replica's own, joined along it",
      .set = options_set_output_axis, .on_resume = RESUME_FREE },
    { "mix", "HOW", "auto",
      "operators that mix samples of the batch: gather, every device gets all samples and computes the whole; "
      "exchange, each gets a slice of all samples, where the operator is independent along another axis (CPU devices); "
      "auto, the cheaper one",
      SETTING_CHOICE_OF(StoredOptions, parts.collectives.mix, "auto|gather|exchange"), .on_resume = RESUME_BITS },
    { "reduce-dtype", "TYPE", "own",
      "type in which gradients are summed over devices: own; bf16 or fp16, to which they are rounded first",
      .set = options_set_reduce_dtype, .trains = true },
    { "shard", "WHAT", "none",
      "state that is divided over the devices: optimizer, the optimizer's state; gradients, summed gradients too; "
      "parameters, parameters too (CPU devices)",
      SETTING_CHOICE_OF(StoredOptions, parts.collectives.shard, "none|optimizer|gradients|parameters"),
      .on_resume = RESUME_FREE },
    { "bn", "MODE", "sync",
      "batch-norm statistics: sync, of the whole batch; local, of each replica's part; average, of each part, with "
      "running statistics averaged over replicas",
      SETTING_CHOICE_OF(StoredOptions, parts.batch_norm.bn, "sync|local|average"), .trains = true },
    { "bn-group", "G", "",
      "with --bn sync: statistics of each G consecutive replicas; the running statistics are the first group's",
      SETTING_OF(StoredOptions, parts.batch_norm.bn_group), .min = 1, .max = MAX_REPLICAS, .trains = true },
    { "broadcast-buffers", "true|false", "true",
      "with --bn local: all replicas begin each step with the first one's running statistics; false: each keeps its "
      "own",
      SETTING_CHOICE_OF(StoredOptions, parts.batch_norm.own_buffers, "true|false"), .trains = true },
    { "bn-eps", "HOW", "add",
      "add: epsilon is added to the variance; clamp: several replicas take the larger of the two, as jactorch does",
      SETTING_CHOICE_OF(StoredOptions, parts.batch_norm.bn_clamp, "add|clamp"), .trains = true },
    { "bn-variance", "KIND", "population",
      "variance that enters the running variance: population (ONNX) or unbiased (PyTorch)",
      SETTING_CHOICE_OF(StoredOptions, parts.batch_norm.bn_unbiased, "population|unbiased"), .trains = true },
    { "train", "PATTERN", "",
      "tensors that are parameters, whatever they look like, e.g. 'head.*' (docs/reference/parameters.md)",
      .set = options_add_pattern, .repeats = true },
    { "freeze", "PATTERN", "", "parameters that are not trained, e.g. 'conv1.*'", .set = options_add_pattern,
      .repeats = true },
    { "parameters", "FILE", "",
      "the only tensors to train: a file of names, one per line, or a .safetensors, by its keys",
      .set = options_set_parameters, .on_resume = RESUME_ELSEWHERE },
    { "untie", "PATTERN", "",
      "tensors that several modules read, which become one parameter for each (docs/reference/onnx.md)",
      .set = options_add_pattern, .repeats = true },
    { "head", "N|NAME=N", "",
      "give the last layer N outputs and new weights, for N classes of your own: the last Gemm, MatMul or 1x1 Conv "
      "before the output that the loss reads, or the layer NAME",
      .set = options_set_head, .trains = true },
    { "stop-gradient", "PATTERN", "",
      "values that no gradient passes, e.g. 'target.*'; VALUE>NODE[:INPUT]: only where that node reads it "
      "(docs/reference/parameters.md)",
      .set = options_add_pattern, .repeats = true },
    { "qat", "on|off", "on",
      "on: gradients pass QuantizeLinear and DequantizeLinear unchanged (straight-through); off: no gradient passes, "
      "and parameters behind them are frozen",
      SETTING_CHOICE_OF(StoredOptions, parts.parameters.qat_off, "on|off"), .trains = true },
    { "state", "BUFFER=VALUE", "", "buffer of the model that each step sets to a value of the graph",
      .set = options_add_state, .repeats = true },
    { "dtype", "TYPE", "", "compute in float32 or float64 [the model's type]", .set = options_set_dtype },
    { "precision", "P", "float32",
      "type of matrix products and the operators around them: float32, tf32 (GPUs), bfloat16 or float16; state stays "
      "float32",
      .set = options_set_precision },
    { "loss-scale", "S", "",
      "with --precision float16: factor of the loss before it is differentiated: a number, or "
      "dynamic[:FIRST[:GROWTH[:BACKOFF[:INTERVAL]]]] [dynamic:65536:2:0.5:2000]",
      .set = options_set_loss_scale, .trains = true },
    { "training", NULL, "false",
      "run, check: batch-norm and dropout in the mode that the file gives them, instead of inference mode",
      SETTING_OF(StoredOptions, parts.step.file_modes), .on_resume = RESUME_FREE },
    { "blocks", NULL, "false",
      "CPUs store the tensors of float32 convolutions in blocks of channels: faster with only batch norms and "
      "elementwise operators between them, slower with pools, Clip and depthwise convolutions",
      SETTING_OF(StoredOptions, parts.backend.blocks) },
    { "fuse", NULL, "false",
      "CPUs compute chains of elementwise operators, and a Relu's gradient with batch-norm's, in one pass over memory: "
      "the same numbers, faster behind batch norms and with chains of operators",
      SETTING_OF(StoredOptions, parts.backend.fuse), .on_resume = RESUME_FREE },
    { "tune", NULL, "false", "measure which algorithms of convolutions and matrix products are the fastest (GPUs)",
      SETTING_OF(Options, tune), .on_resume = RESUME_BITS },
    { "no-capture", NULL, "false",
      "launch every kernel of a step on its own, instead of one CUDA graph per step (GPUs)",
      SETTING_OF(Options, ways.uncaptured), .on_resume = RESUME_FREE },
    { "reproducible", NULL, "false",
      "add partial sums in an order that does not depend on the devices that hold them, on GPUs too; slower",
      SETTING_OF(Options, ways.reproducible), .on_resume = RESUME_BITS },
    { "reduce", "BY", "tree",
      "how processes add sums of CPU devices: tree, whose bits do not depend on the mapping of replicas to devices; "
      "library, by the MPI library",
      SETTING_CHOICE_OF(Options, ways.library_sums, "tree|library"), .on_resume = RESUME_BITS },
    { "check-nodes", NULL, "false", "wait for every kernel of every step, so that an error names its node; slow (GPUs)",
      SETTING_OF(Options, ways.check_nodes), .on_resume = RESUME_FREE },
    { "seed", "N", "0", "seed of all random numbers", SETTING_OF(StoredOptions, parts.step.seed), .max = 9e15 },
    { "plan-memory", "SIZE", "", "memory that planning may take, e.g. 8G [half of the machine's or the cgroup's]",
      .set = set_plan_memory, .on_resume = RESUME_FREE },
    { "max-nodes", "N", "300000",
      "most nodes of a model with functions inlined and loops unrolled, or run by the interpreter",
      SETTING_OF(StoredOptions, parts.memory.max_nodes), .min = 1, .max = 1e9, .on_resume = RESUME_FREE },
    { "pad-to", "WHOSE", "auto",
      "length to which samples are padded: step, the longest of all replicas; replica, the longest of each replica; "
      "auto, replica for groups of dpx_data, else step",
      SETTING_CHOICE_OF(Options, pad_to, "auto|step|replica"), .on_resume = RESUME_TOLD },
    { "programs", "N", "32",
      "compiled programs to keep, one for each mode and set of input shapes; the least recently used is dropped first",
      SETTING_OF(Options, programs), .min = SESSION_LEAST_PROGRAMS, .max = 1e6, .on_resume = RESUME_FREE },
    { "input-shape", "NAME=2,3,4", "", "shape of an input whose dimensions the model leaves open",
      .set = options_add_input_shape, .repeats = true },
    { "input-members", "NAME=N", "",
      "number of tensors of an input that is a sequence; present or absent for an optional input",
      .set = options_add_input_members, .repeats = true },
    { "input-value", "NAME=NUMBER", "",
      "value of an input for the whole run, one number or several (NAME=1,2,3): it becomes a constant, may decide "
      "branches, and is no input of model.onnx any more",
      .set = options_add_input_value, .repeats = true },
    { "batch-input", "NAME[:AXIS]", "",
      "input that carries the batch and its axis (0; negative from the end), where dpexec finds it wrongly",
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
