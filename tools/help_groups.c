/* Lists of flags for --help and -h.  tests/cli/help.sh checks that every flag of dpexec train is in one group. */
#include "tools/help_groups.h"

#include <stddef.h>
#include <string.h>

const HelpGroup help_groups[] = {
    { "data", "Data",
      "data val val-split map target batch-size workers no-shuffle drop-last balanced class-weights augment "
      "augment-graph mean std skip-broken" },
    { "sources", "Sources of data (SRC)", "" },
    { "sequences", "Sequences of unequal length",
      "padding pad-multiple pad-to group-by-length lengths mask padding-mask" },
    { "loss", "Loss",
      "loss logits class-axis ignore-index label-smoothing soft-labels loss-weight criterion loss-scaling mean-over" },
    { "metrics", "Metrics and the best model",
      "metric threshold eval-every eval-batches sample-every sample-prompt monitor patience no-best" },
    { "run", "Length and files of a run",
      "epochs steps time-limit seed out checkpoint-every keep resume config export-preprocess tensorboard trace "
      "profile "
      "dry-run verbose quiet debug" },
    { "optimizer", "Optimizer",
      "optimizer lr weight-decay no-decay momentum nesterov dampening beta1 beta2 amsgrad eps alpha centered lr-decay "
      "initial-sum trust beta2-decay eps1 eps2 clip-threshold ns-steps adjust-lr average-power average-lr-power "
      "plain-defaults accumulate accumulate-across-epochs clip-norm clip-value ema eval-weights export-weights group "
      "groups turns" },
    { "schedule", "Learning rate schedule", "lr-schedule warmup-steps lr-find" },
    { "model", "The model, and what is trained of it",
      "head freeze train parameters untie stop-gradient state qat training preprocess operators input-shape "
      "input-members input-value batch-input max-nodes" },
    { "batch-norm", "Batch norm", "bn bn-group broadcast-buffers bn-eps bn-variance" },
    { "devices", "Devices and replicas",
      "devices replicas threads isa split links compat strategy output-device output-axis scalar-outputs loss-at mix "
      "bucket-mb reduce-dtype shard" },
    { "speed", "Precision, speed and memory",
      "precision loss-scale dtype tune blocks fuse no-capture chunk-loss programs plan-memory reproducible reduce "
      "check-nodes" },
    { "processes", "Several processes", "world mpi rank rendezvous world-secret world-timeout" },
    { NULL, NULL, NULL },
};

static const ShortHelp of_train[] = {
    { NULL, "Data" },
    { "data", "images:DIR, FILE.csv, FILE.npz, text:FILE, ..." },
    { "val", "data to evaluate on after each epoch" },
    { "val-split", "evaluate on a part of --data: 0.1 for a tenth" },
    { "batch-size", "samples of a batch [32]" },
    { "augment", "random changes of images: crop,flip,color:0.4, ..." },
    { "workers", "threads that read samples" },
    { NULL, "Training" },
    { "loss", "cross-entropy, bce-logits, mse, l1, output:NAME, ..." },
    { "metric", "accuracy, f1, auc, r2, mae, perplexity, ..." },
    { "epochs", "passes over the data [1]" },
    { "steps", "optimizer steps, in place of --epochs" },
    { "optimizer", "sgd, adam, adamw, lion, ... [sgd]" },
    { "lr", "learning rate [sgd 0.01, adam 0.001]" },
    { "lr-schedule", "constant, cosine, linear, one-cycle, plateau, ..." },
    { "warmup-steps", "steps over which the rate rises to --lr [0]" },
    { "weight-decay", "weight decay [sgd 0, adamw 0.01]" },
    { "accumulate", "batches whose gradients make one step [1]" },
    { "patience", "stop after N evaluations without a better one" },
    { "seed", "seed of all random numbers [0]" },
    { NULL, "Model and devices" },
    { "head", "new last layer for N classes of your own" },
    { "freeze", "parameters that are not trained: 'conv1.*'" },
    { "devices", "cpu:0, cuda, cuda*2, all, ... [cpu:0]" },
    { NULL, "Files" },
    { "out", "folder for what the run writes [runs/MODEL-N]" },
    { "checkpoint-every", "steps (500), epochs (1e) or a time (10m)" },
    { "resume", "continue the run in DIR" },
    { "quiet", "print only warnings, errors and the result" },
    { NULL, NULL },
};

static const ShortHelp of_eval[] = {
    { NULL, "The most used flags" },
    { "data", "images:DIR, FILE.csv, FILE.npz, text:FILE, ..." },
    { "loss", "cross-entropy, bce-logits, mse, l1, output:NAME, ..." },
    { "metric", "accuracy, f1, auc, r2, mae, perplexity, ..." },
    { "at", "best, last or a step, where MODEL.onnx is a run" },
    { "predictions", "folder for the predictions of all samples" },
    { "batch-size", "samples of a batch [32]" },
    { "workers", "threads that read samples" },
    { "devices", "cpu:0, cuda, cuda*2, all, ... [cpu:0]" },
    { "quiet", "print only warnings, errors and the result" },
    { NULL, NULL },
};

static const ShortHelp of_run[] = {
    { NULL, "The most used flags" },
    { "input", "array for an input of the model" },
    { "out", "folder for the outputs, an array each" },
    { "o", "predictions for the samples of SRC, a line each" },
    { "at", "best, last or a step, where MODEL.onnx is a run" },
    { "workers", "threads that read samples" },
    { "devices", "cpu:0, cuda, cuda*2, all, ... [cpu:0]" },
    { "quiet", "print only warnings, errors and the result" },
    { NULL, NULL },
};

const ShortHelp *help_most_used(const char *command)
{
    if (!strcmp(command, "train") || !strcmp(command, "resume"))
        return of_train;
    if (!strcmp(command, "eval"))
        return of_eval;
    return strcmp(command, "run") ? NULL : of_run;
}
