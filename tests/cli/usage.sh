#!/bin/bash
# Command lines: help, version, devices, unknown flags and impossible values (exit 2), missing and unwritable files (exit 1).
. "$(dirname "$0")/lib.sh"
digits=tests/oracle/data/digits.npz
train=(tests/cli/defaults --loss cross-entropy --batch-size 10 --steps 2 --threads 1 -- "$dpexec" models/mlp.onnx --data "$digits")

for command in train resume export eval run data check devices; do
    says "usage: dpexec $command" "$dpexec" $command --help
done
says "usage: dpexec [train] MODEL.onnx" "$dpexec" --help
says "dpexec 0." "$dpexec" --version
says "cpu:0" "$dpexec" devices
check "no arguments" test "$("$dpexec" >/dev/null 2>&1; echo $?)" = 2

refused 2 "there is no option --bogus" "${train[@]}" --bogus
refused 2 "there is no option -q" "${train[@]}" -q
refused 2 "there is no option --batchsize (did you mean --batch-size?)" "${train[@]}" --batchsize 3
refused 2 "there is no option --optimiser (did you mean --optimizer?)" "${train[@]}" --optimiser sgd
# What other programs call a flag leads to the flag; what is near nothing leads to none.
while read -r typed meant; do
    refused 2 "there is no option --$typed${meant:+ (did you mean $meant?)}" "${train[@]}" "--$typed"
    [ -n "$meant" ] || check "--$typed: no guess" test -z "$(grep mean "$DIR/refused.err")"
done <<'TYPED'
bs --batch-size
batch --batch-size
learning-rate --lr
wd --weight-decay
early-stopping --patience
num-workers --workers
worker --workers
device --devices
gpus --devices cuda
optim --optimizer
optimzer --optimizer
epoch --epochs
max-steps --steps
iters --steps
scheduler --lr-schedule
grad-clip --clip-norm
max-grad-norm --clip-norm
gradient-accumulation-steps --accumulate
train-data --data
validation --val
validation-split --val-split
output --out
output-dir --out
resume-from-checkpoint --resume
save-steps --checkpoint-every
eval-iters --eval-batches
eval-interval --eval-every
limit-val-batches --eval-batches
eval-metric --metric
metric-for-best-model --monitor
fp16 --precision float16
mixed-precision --precision
warmup --warmup-steps
label-smooting --label-smoothing
plot
test
save
log
name
b1
dropout
TYPED
refused 2 "there is no option -o (did you mean --out?)" "${train[@]}" -o model.onnx
refused 2 "there is no option -lr (did you mean --lr?)" "${train[@]}" -lr 0.1
refused 2 "there is no option --output (did you mean -o?)" "$dpexec" export "$DIR" --output m.onnx
refused 2 "there is no option --patience" "$dpexec" eval models/mlp.onnx --data "$digits" --patience 3
check "eval has nothing like it" test -z "$(grep mean "$DIR/refused.err")"
refused 2 "--split 0.1: one weight, expected one for each device (did you mean --val-split 0.1?)" "${train[@]}" --split 0.1
refused 2 "--split 0.1: one weight, expected one for each device" "$dpexec" eval models/mlp.onnx --data "$digits" --split 0.1
check "eval has no --val-split" test -z "$(grep mean "$DIR/refused.err")"

# Flags that contradict each other are refused before model and data are read, and folders before the training is planned.
refused 2 "--val and --val-split do not go together: leave one out" "$dpexec" none.onnx --data none.npz --loss mse --val none.npz \
    --val-split 0.1
refused 2 "--balanced draws samples: leave out --no-shuffle" "$dpexec" none.onnx --data none.npz --loss mse --balanced --no-shuffle
refused 1 "--resume $DIR/none: No such file or directory" "$dpexec" none.onnx --data none.npz --loss mse --resume "$DIR/none"
mkdir "$DIR/trained" && touch "$DIR/trained/model.onnx"
refused 1 "$DIR/trained already holds a run: continue it with --resume, or choose another --out" "$dpexec" none.onnx --data none.npz \
    --loss mse --out "$DIR/trained"
# All that can be refused without data is, at once.
refused 2 "--keep: expected a whole number from 1, or all, found '0'; --val and --val-split do not go together: leave one out" \
    "$dpexec" none.onnx --data none.npz --loss mse --val none.npz --val-split 0.1 --keep 0 --bn-group 2 --bn local --loss-scale 8 --warmup-steps 5 \
    --steps 3 --criterion loss.onnx --class-weights w.npy --augment spin
for said in "--augment" "--warmup-steps 5 is more than the 3 steps of the run" "--loss-scale needs --precision float16" \
    "--bn-group needs --bn sync, found --bn local" "none.onnx: cannot read: No such file" "--criterion loss.onnx: cannot read" \
    "--class-weights w.npy: cannot read" "none.npz: cannot open: No such file"; do
    check "refused at once: $said" grep -qF -- "$said" "$DIR/refused.err"
done
check "one line" test "$(grep -c '' "$DIR/refused.err")" = 1
# So are flags that cannot be read.
refused 2 "train: --lr: expected a number from 0 to 1e+30, found 'x'; none.onnx: cannot read: No such file or directory; --config none.json: " \
    "$dpexec" train none.onnx --lr x --data none.npz --config none.json --criterion loss.onnx
for said in "--criterion loss.onnx: cannot read" "none.npz: cannot open: No such file"; do
    check "with the flags: $said" grep -qF -- "$said" "$DIR/refused.err"
done
refused 2 "--loss is missing: " "$dpexec" train none.onnx --data none.npz
check "and the files" grep -qF "none.npz: cannot open" "$DIR/refused.err"
refused 2 "found 'x'; none.onnx: cannot read: No such file or directory; none.npz: cannot open" "$dpexec" eval none.onnx --lr x --data none.npz
refused 2 "--class-weights 1,3: expected FILE.npy with a vector of weights, or balanced" "$dpexec" "$root/models/mlp.onnx" --data "$root/tests/oracle/data/digits.npz" \
    --loss cross-entropy --class-weights 1,3
refused 2 "found 'x'; none.onnx: cannot read: No such file or directory; none.npz: cannot open" "$dpexec" run none.onnx none.npz --threads x
refused 2 "there is no option --dat (did you mean --data?); unexpected argument 'none.npz'; none.onnx: cannot read" "$dpexec" train none.onnx \
    --dat none.npz
refused 1 "none.onnx: cannot read: No such file or directory; none.npz: cannot open: No such file" "$dpexec" eval none.onnx --data none.npz --loss mse
refused 1 "none.onnx: cannot read: No such file or directory; none.npz: cannot open: No such file or directory; -o " \
    "$dpexec" run none.onnx none.npz -o "$DIR/none/none.csv"
refused 1 "images: cannot open: No such file" "$dpexec" models/mlp.onnx --data idx:images,labels --loss mse
refused 1 "tokenizer none.json: cannot open: No such file" "$dpexec" models/mlp.onnx --data text:README.md,tokenizer=none.json --loss mse
refused 2 "--lr-schedule plateau follows evaluations: give --val or --val-split" "$dpexec" none.onnx --data none.npz --loss mse \
    --lr-schedule plateau:0.1:10:0:rel:0:0:max --metric mae

# Completions, from the table that --help prints.
completed() { # WORD...: what bash completes the last word to
    bash -c 'eval "$("$1" completion bash)"; shift; COMP_WORDS=(dpexec "$@"); COMP_CWORD=$#; _dpexec; printf "%s\n" "${COMPREPLY[@]}"' - "$dpexec" "$@"
}
check "a command" test "$(completed tok)" = tokenize
check "a flag of a command" test "$(completed train --lr-s)" = --lr-schedule
check "of a command alone" test -z "$(completed data --lr-s)"
check "a flag where a model trains" test "$(completed models/mlp.onnx --lr-s)" = --lr-schedule
check "a choice" test "$(completed train --loss h)" = huber
check "a file" test "$(completed train models/ml)" = models/mlp.onnx
check "every flag that train --help shows" diff <("$dpexec" train --help | grep -oE '^  --?[a-z0-9-]+' | tr -d ' ' | grep -vx -e --debug | sort) \
    <(completed train - | grep -vx -e --help | sort)
check "bash reads that for zsh" bash -n <("$dpexec" completion zsh)
says "complete -c dpexec -n '__fish_seen_subcommand_from train' -l lr-schedule -r" "$dpexec" completion fish
refused 2 "completion: expected bash, zsh or fish, found 'csh'" "$dpexec" completion csh
says "usage: dpexec eval" "$dpexec" help eval
says "dpexec export" "$dpexec" help
refused 2 "there is no command evil: 'dpexec help' lists them" "$dpexec" help evil

# A flag that is no list is given once.
refused 2 "--lr is given twice, '0.1' and '0.2': give it once" "$dpexec" none.onnx --data none.npz --loss mse --lr 0.1 --lr=0.2
refused 2 "--data is given twice, 'a.npz' and 'b.npz': give it once; --quiet is given twice: give it once" "$dpexec" none.onnx --data a.npz \
    --quiet --data b.npz --loss mse --quiet
refused 2 "--compat is given twice, 'ddp' and 'dp': give it once" "$graph_transform" models/mlp.onnx --compat ddp --compat dp
echo fc1.weight >"$DIR/names"
refused 2 "--parameters is given twice, '$DIR/names' and '$DIR/names': give it once" "$graph_transform" models/mlp.onnx \
    "--parameters=$DIR/names" "--parameters=$DIR/names" --parameters
check "the flag goes with the option of its name" "$graph_transform" models/mlp.onnx "--parameters=$DIR/names" --parameters
check "lists are given as often as one likes" "${train[@]}" --freeze 'fc1.*' --freeze fc2.bias --out "$DIR/listed"
check "both are taken" grep -q '"freeze": "fc1.\*;fc2.bias"' "$DIR/listed/args.json"
echo '{"lr": 0.1, "freeze": ["fc1.*", "fc2.bias"], "loss": "cross-entropy", "steps": 2, "quiet": true, "threads": 1}' >"$DIR/config.json"
check "a flag beside --config wins" "$dpexec" models/mlp.onnx --data "$digits" --config "$DIR/config.json" --lr 0.3 --quiet --out "$DIR/configured"
check "and is no repetition" grep -q '"lr": "0.3"' "$DIR/configured/args.json"
check "lists of --config" grep -q '"freeze": "fc1.\*;fc2.bias"' "$DIR/configured/args.json"
check "a list replaces that of --config" "$dpexec" models/mlp.onnx --data "$digits" --config "$DIR/config.json" --freeze fc3.bias --out "$DIR/replaced"
check "it is the whole list" grep -q '"freeze": "fc3.bias"' "$DIR/replaced/args.json"
echo '{"lr": [0.1, 0.2], "loss": "cross-entropy"}' >"$DIR/twice.json"
refused 2 "--lr is given twice, '0.1' and '0.2': give it once" "$dpexec" models/mlp.onnx --data "$digits" --config "$DIR/twice.json"
refused 2 "--steps is given twice, '3' and '4': give it once" "$dpexec" resume "$DIR/configured" --steps 3 --steps 4
# Earlier versions took the last of several values, and stored all of them.
sed -i 's/"lr": "0.3"/"lr": ["0.7", "0.3"]/' "$DIR/configured/args.json"
check "a run that was given a flag twice goes on" "$dpexec" resume "$DIR/configured" --steps 4
check "with the last value" grep -q '"lr": "0.3"' "$DIR/configured/args.json"
check "what is near nothing is not guessed" test -z "$("${train[@]}" --bogus 2>&1 | grep mean)"
refused 2 "there is no command evaluate, nor a file: did you mean eval?" "$dpexec" evaluate models/mlp.onnx --data "$digits"
refused 2 "there is no command predict, nor a file of that name; commands: train, resume, eval, run, generate, export, report, check, data, launch, devices" "$dpexec" predict models/mlp.onnx
refused 2 "there is no command rum, nor a file: did you mean run?" "$dpexec" rum models/mlp.onnx
refused 2 "--steps needs a value" "$dpexec" models/mlp.onnx --data "$digits" --steps
refused 2 "--quiet takes no value" "${train[@]}" --quiet=yes
refused 2 "--total-steps cannot be given, dpexec derives it: where schedules end" "${train[@]}" --total-steps 3
refused 2 "--steps 4611686018427387903: of --accumulate 3 batches each, expected at most 1537228672809129301" "${train[@]}" \
    --steps 4611686018427387903 --accumulate 3
refused 2 "--steps 4611686018427387903: of --accumulate 3 batches each" "${train[@]}" --steps 4611686018427387903 --accumulate 3 \
    --accumulate-across-epochs
check "nor is it shown" test -z "$("$dpexec" train --help | grep -e '--total-steps ')"
refused 2 "unexpected argument 'second.onnx'" "${train[@]}" second.onnx
refused 2 "expected train MODEL.onnx" "$dpexec" train --data "$digits"
refused 2 "--loss is missing: bce, bce-logits, cross-entropy, huber" "$dpexec" models/mlp.onnx --data "$digits"
refused 2 "--data is missing: csv:FILE, idx:IMAGES,LABELS, " "$dpexec" models/mlp.onnx --loss mse
refused 2 "dpexec: invalid argument, at " "${train[@]}" --debug --seed -1
refused 1 "dpexec: i/o error, at mapped.c:" "$dpexec" run nothing.onnx --out "$DIR/out" --debug
refused 1 " < import.c:" "$graph_transform" --debug nothing.onnx
check "without it nothing is told of the sources" test -z "$("$graph_transform" nothing.onnx 2>&1 | grep '\.c:')"
# What only training reads is not shown by the commands that do not train; it may be given.
check "eval --help shows what eval reads" test "$("$dpexec" eval --help | grep -cE -- '^  --(loss|devices|label-smoothing|lr|optimizer|clip-norm) ')" = 3
refused 2 "--out DIR is missing" "$dpexec" run models/mlp.onnx
refused 2 "unexpected argument" "$dpexec" devices now

while read -r flag value; do
    refused 2 "$flag" "${train[@]}" "--$flag" "$value"
done <<'VALUES'
batch-size 0
batch-size -3
batch-size 10x
batch-size 99999999999999999999
steps 0
steps 1e3
epochs -1
lr nan
lr inf
lr -0.1
lr fast
momentum 1.5
weight-decay -1
beta1 1
beta2 1.5
eps -1
label-smoothing 2
clip-norm -1
accumulate 0
replicas 0
replicas 5000
threads 0
threads x
seed -1
optimizer sgdd
loss hinge
loss output:
metric f2
metric top-k:0
metric f1:mean
metric mean-iou:2
lr-schedule step
lr-schedule step:0
lr-schedule cosine:2
lr-schedule linear:0.1:0.2
split even
bn global
bn-eps drop
bn-group 0
output-device second
output-device -2
strategy boss
reduce-dtype int8
bucket-mb 0
bucket-mb -1
bucket-mb many
chunk-loss 0
chunk-loss -1
chunk-loss on
broadcast-buffers no
compat dpp
loss-scaling mean
mean-over some
bn-variance sample
dtype float16
dtype int64
devices cpu:x
devices cpu*0
devices tpu:0
devices ,
input-shape x
input-shape x=2,-3
input-shape x=9999999999,9999999999,9999999999
input-shape nothing=2,3
batch-input :1
freeze nothing*
ignore-index x
loss-scale 0
loss-scale -1
loss-scale automatic
loss-scale dynamic:0
loss-scale dynamic:8:1
loss-scale dynamic:8:2:1
loss-scale dynamic:8:2:0.5:0
loss-scale dynamic:8:2:0.5:1:1
loss-scale dynamic2
checkpoint-every 0
eval-every 0
eval-batches 0
VALUES

refused 2 "--freeze 'nothing*' matches no parameter (graph-transform --parameters lists them)" "${train[@]}" --freeze 'nothing*'
refused 2 "optimizer" "${train[@]}" --optimizer sgdd --lr fast         # all that is wrong, in one message
check "both are named" grep -q "lr" "$DIR/refused.err"
refused 2 "--optimizer adam does not have: --momentum; --nesterov" "${train[@]}" --optimizer adam --momentum 0.9 --nesterov
refused 2 "--optimizer sgd does not have: --eps; --beta1; --beta2" "${train[@]}" --beta1 0.9 --beta2 0.9 --eps 1e-6
refused 2 "--mean and --std are for images: --data $digits holds arrays" "${train[@]}" --mean 0.5
refused 2 "--mean and --std are for images: --data $digits holds arrays" "${train[@]}" --std 0.5
refused 2 "--mean and --std are for images" "$dpexec" eval models/mlp.onnx --data "$digits" --loss cross-entropy --mean 0.5
refused 2 "--batch-input x:2: the data's array has rank 2" "${train[@]}" --batch-input x:2
refused 2 "--batch-input x:-3: the data's array has rank 2" "${train[@]}" --batch-input x:-3
refused 2 "--batch-input target:1: the input has rank 1" "${train[@]}" --batch-input x --batch-input target:1
refused 2 "--batch-input x:2: the input has shape [?,64]" "$graph_transform" models/mlp.onnx --batch-size 8 --batch-input x:2
refused 2 "--batch-input x:1: the input has shape [?,64], in which another axis is open" "$graph_transform" models/mlp.onnx --batch-size 8 \
    --batch-input x:1
refused 2 "--batch-input y: the model has no such input" "$graph_transform" models/mlp.onnx --batch-size 8 --batch-input y
refused 2 "--batch-input y: the model has no such input" "$graph_transform" models/mlp.onnx --batch-size 8 --batch-input y --loss cross-entropy --replicas 2
check "the target may be named" "${train[@]}" --batch-input x --batch-input target --replicas 2
refused 2 "--strategy master keeps all parameters on the first device: --shard optimizer" "${train[@]}" --shard optimizer --strategy master
refused 2 "--output-device 2: expected one of 2 devices, counted from 0, or host" "${train[@]}" --devices 'cpu*2' --output-device 2
refused 2 "--bn-group needs --bn sync, found --bn local" "${train[@]}" --bn-group 2 --compat ddp
refused 2 "--broadcast-buffers false needs --bn local, found --bn sync" "${train[@]}" --broadcast-buffers false
refused 2 "--mean-over filled needs --loss-scaling mean-of-means, found exact" "${train[@]}" --mean-over filled --compat dp
refused 2 "--loss-scale needs --precision float16" "${train[@]}" --loss-scale 1024
refused 2 "--loss-scale needs --precision float16" "${train[@]}" --loss-scale dynamic --precision bfloat16
refused 2 "--tune is for GPUs: --devices names cpu:0" "${train[@]}" --tune
refused 2 "--no-capture is for GPUs: --devices names cpu:1" "${train[@]}" --no-capture --devices cpu:1
refused 2 "--tune measures on a GPU that is there: cuda:0 is only described" "${train[@]}" --tune --devices cuda@tests/devices/h100.json
refused 2 "--tune: expected true or false, found 'fast'" "${train[@]}" --tune=fast
refused 2 "--checkpoint-every needs a folder, but --out none writes nothing" "${train[@]}" --checkpoint-every 1 --out none

refused 1 "none.onnx" "$dpexec" none.onnx --data "$digits" --loss cross-entropy
refused 1 "none.npz" "$dpexec" models/mlp.onnx --data none.npz --loss cross-entropy
refused 1 "models" "$dpexec" models --data "$digits" --loss cross-entropy
refused 1 "README.md" "$dpexec" README.md --data "$digits" --loss cross-entropy
refused 1 "none.npy" "$dpexec" run models/mlp.onnx --input x=none.npy --out "$DIR/o"
refused 2 "--input y: the model has no such input; it has 'x'" "$dpexec" run models/mlp.onnx --input y=none.npy --out "$DIR/o"
refused 1 "none" "${train[@]}" --resume "$DIR/none"
refused 2 "--logits y: the model has no such output; it has 'logits'" "${train[@]}" --logits y
refused 2 "--loss output:y: the model has no such output; it has 'logits'" "$dpexec" models/mlp.onnx --data "$digits" --loss output:y

# An evaluation plans no training step, and tells of none.
"$dpexec" eval models/mlp.onnx --data "$digits" --loss cross-entropy --batch-size 10 --verbose >"$DIR/eval.json" 2>"$DIR/eval.log"
check "an evaluation tells of what it evaluates alone" test "$(cut -d: -f1 "$DIR/eval.log" | paste -sd ' ')" = "x target"

# Output folders that cannot be written: below a file, on a full disk (a limit on the size of files stands in for it).
touch "$DIR/file"
refused 1 "--out $DIR/file: is a file, expected a folder" "${train[@]}" --out "$DIR/file"
refused 1 "--out $DIR/file: is a file, expected a folder" "$dpexec" run models/mlp.onnx --input x=none.npy --out "$DIR/file"
refused 1 "cannot" "${train[@]}" --out "$DIR/file/below"
refused 1 "cannot create: Not a directory" "${train[@]}" --out "$root/README.md/below"
refused 1 "" bash -c 'trap "" XFSZ; ulimit -f 16; exec "$@"' - "${train[@]}" --out "$DIR/full"
check "a full disk leaves no model" test ! -e "$DIR/full/model.onnx"
check "a full disk leaves no checkpoint" test -z "$(ls -A "$DIR/full/checkpoints" 2>/dev/null)"
check "a full disk leaves no other half files" test -z "$(find "$DIR/full" -name '*tmp*')"

# A folder that holds a run is not overwritten.
check "train" "${train[@]}" --out "$DIR/run"
cp -r "$DIR/run" "$DIR/copy"
refused 1 "already holds a run" "${train[@]}" --out "$DIR/run"
check "the run is untouched" diff -r "$DIR/run" "$DIR/copy"
# What a run without --val ends with, and what it warns of.
untested=("$dpexec" train models/mlp.onnx --data tests/oracle/data/digits.npz --batch-size 32 --steps 60 --lr 0.5 --threads 1 --quiet)
says "warning: --metric accuracy is measured on training batches alone: --val is not given" "${untested[@]}" --loss cross-entropy --metric accuracy --out "$DIR/untested"
loss=$(sed -n '$s/.*"loss":\([^,]*\).*/\1/p' "$DIR/untested/metrics.jsonl")
check "the last loss" grep -qE "^trained 60 steps in [0-9.]+ s, loss $(printf %.6g "$loss")\$" "$DIR/says.log"
# One name for the metric of --val: as in metrics.jsonl, but for the _.
digits=tests/oracle/data/digits.npz
"$dpexec" models/mlp.onnx --data $digits --val $digits --loss cross-entropy --metric accuracy --batch-size 43 --threads 1 --out "$DIR/named" >"$DIR/named.txt" 2>&1
check "while it runs" grep -qE '^epoch 1/1: .*; eval loss [0-9.]+, eval accuracy [0-9.]+; [0-9]+ samples/s, [0-9.]+ s; best$' "$DIR/named.txt"
check "of the training batches" grep -qE '^epoch 1/1: train loss [0-9.]+, train accuracy [0-9.]+; ' "$DIR/named.txt"
check "at the end" grep -qE '^trained 1 step in [0-9.]+ s: eval loss [0-9.]+, eval accuracy [0-9.]+$' "$DIR/named.txt"
check "in the file" grep -qE '"eval_loss":[0-9.]+,"eval_accuracy":[0-9.]+' "$DIR/named/metrics.jsonl"
says "warning: the loss is negative: --loss nll expects log-probabilities; for logits use --loss cross-entropy" "${untested[@]/#60/3}" --loss nll
check "once" test "$(grep -c 'is negative' "$DIR/says.log")" = 1
finish
