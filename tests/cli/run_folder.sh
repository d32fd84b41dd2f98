#!/bin/bash
# The folder of a run from outside: where it lies without --out, its args.json, runs that go on by `resume`, --resume auto and --config,
# models of its checkpoints, and its log.
. "$(dirname "$0")/lib.sh"
python=${PYTHON:-/usr/bin/python3}
digits=$root/tests/oracle/data/digits.npz
mkdir "$DIR/work"
cp models/mlp.onnx "$DIR/work/net.onnx"
cd "$DIR/work" || exit 1
unset DPEXEC_RUNS
train=(net.onnx --data "$digits" --loss cross-entropy --batch-size 10 --threads 1)
val=(--val "$digits" --metric accuracy)

# ---- where it lies ----
says "model: runs/net-1/model.onnx" "$dpexec" "${train[@]}" --steps 3
check "the run is said" grep -qx "run        runs/net-1" "$DIR/says.log"
says "model: runs/net-2/model.onnx" "$dpexec" launch -n 3 -- train "${train[@]}" --steps 3 --quiet
check "two folders" test "$(ls runs | paste -sd' ')" = "net-1 net-2"
check "nothing" "$dpexec" "${train[@]}" --steps 3 --out none --quiet
check "is written" test "$(ls . runs | paste -sd' ')" = ".: net.onnx runs  runs: net-1 net-2"
check "elsewhere" env DPEXEC_RUNS=else "$dpexec" "${train[@]}" --steps 1 --quiet
check "by the environment" test -s else/net-1/model.onnx
for i in 1 2 3 4; do "$dpexec" "${train[@]}" --steps 2 --quiet >"$DIR/at-$i" 2>&1 & done
wait
check "four at once have four" test "$(cat "$DIR"/at-* | grep -o 'runs/net-[0-9]*/model.onnx' | sort -u | wc -l)" = 4
check "a folder below others that are not there" "$dpexec" "${train[@]}" --steps 1 --quiet --out below/some/others/run
check "is made with them" test -s below/some/others/run/model.onnx
check "folders of runs, too" env DPEXEC_RUNS=below/more/runs "$dpexec" "${train[@]}" --steps 1 --quiet
check "are made" test -s below/more/runs/net-1/model.onnx
check "and of predictions" "$dpexec" eval below/some/others/run --data "$digits" --predictions below/predicted/all --quiet
check "are made, too" test -s below/predicted/all/"$(ls below/predicted/all | head -1)"
"$python" -c 'import numpy, sys; numpy.save("x.npy", numpy.load(sys.argv[1])["x"])' "$digits"
check "and of outputs" "$dpexec" run net.onnx --input x=x.npy --out below/outputs/all
check "are made as well" test -s below/outputs/all/"$(ls below/outputs/all | head -1)"
printf x >file
refused 1 "file/below: cannot create: Not a directory" "$dpexec" "${train[@]}" --steps 1 --out file/below/run
refused 1 "file/below: cannot create: Not a directory" env DPEXEC_RUNS=file/below "$dpexec" "${train[@]}" --steps 1

# ---- args.json, and runs that go on by it ----
all=("${train[@]}" "${val[@]}" --optimizer adam --lr 0.02 --freeze 'fc1.*' --freeze fc1.bias --seed 5 --no-shuffle)
check "a whole run" "$dpexec" "${all[@]}" --epochs 4 --quiet --out whole
check "flags by name" "$python" - whole/args.json <<'PY'
import json, sys
a = json.load(open(sys.argv[1]))
assert a["arguments"] == ["net.onnx"] and a["flags"]["lr"] == "0.02" and a["flags"]["freeze"] == ["fc1.*", "fc1.bias"]
assert a["flags"]["no-shuffle"] is True and a["flags"]["quiet"] is True and a["flags"]["epochs"] == "4"
assert ["lr", "0.02"] in a["given"] and a["options"]["optimizer"] == "adam"
PY
check "half a run" "$dpexec" "${all[@]}" --epochs 2 --quiet --out half
cp -r half old
check "goes on" "$dpexec" resume half --epochs 4
check "to the same end" same_run whole half
check "with the same best" cmp whole/best.onnx half/best.onnx
cp -r half again
check "goes on again" "$dpexec" resume again
"$python" - old/args.json <<'PY'
import json, sys
a = json.load(open(sys.argv[1]))
del a["flags"]
json.dump(a, open(sys.argv[1], "w"))
PY
check "one of an earlier version" "$dpexec" resume old --epochs 4
check "goes on to the same end" same_run whole old
check "three processes" "$dpexec" launch -n 3 -- train "${all[@]}" --replicas 3 --epochs 2 --quiet --out three
check "go on as three" "$dpexec" launch -n 3 -- resume three --epochs 3
check "and as one" "$dpexec" resume three --epochs 4
check "three replicas" "$dpexec" "${all[@]}" --replicas 3 --epochs 4 --quiet --out alone
check "are the same run" same_run three alone
refused 2 "--seed was '5', is '6'" "$dpexec" resume half --seed 6
refused 1 "runs: there is no run in this folder: it has no args.json" "$dpexec" resume runs
refused 2 "leave out --resume and --config" "$dpexec" resume half --resume old
sed 's/"lr":/"lrr":/' half/args.json >"$DIR/args.json"
cp "$DIR/args.json" old/args.json
refused 2 "old/args.json: there is no option 'lrr'" "$dpexec" resume old

# ---- begin or go on ----
for epochs in 1 3 4; do check "auto to $epochs" "$dpexec" "${all[@]}" --epochs $epochs --quiet --out auto --resume auto; done
check "is the same run" same_run whole auto
refused 2 "--resume auto needs --out DIR" "$dpexec" "${all[@]}" --resume auto

# ---- flags from a file ----
cat >flags.json <<'JSON'
{"loss": "cross-entropy", "batch-size": 10, "threads": 1, "metric": "accuracy", "optimizer": "adam", "lr": 0.02,
 "freeze": ["fc1.*", "fc1.bias"], "seed": 5, "no-shuffle": true, "drop-last": false, "epochs": 9, "quiet": true}
JSON
check "a file of flags" "$dpexec" net.onnx --config flags.json --epochs 4 --data "$digits" --val "$digits" --out config
check "is the same run" same_run whole config
check "the args.json of a run" "$dpexec" net.onnx --config whole/args.json --out copied
check "is one, too" same_run whole copied
echo '{"loss": "mse", "los": 1, "rate": 2, "seed": {}}' >wrong.json
refused 2 "wrong.json: there is no option 'los'; there is no option 'rate'; seed: expected a text" "$dpexec" net.onnx --config wrong.json --data "$digits"
echo '[1]' >wrong.json
refused 1 'wrong.json: expected {"NAME": value, ...}' "$dpexec" net.onnx --config wrong.json --data "$digits"
refused 1 "nothing.json: cannot read: No such file" "$dpexec" net.onnx --config nothing.json --data "$digits"

# ---- models of checkpoints ----
# checkpoints RUN N: "20; 19; 18", the newest N.
checkpoints() { ls -dr "$1"/checkpoints/step-* | head -n "$2" | sed 's/.*step-0*//' | paste -sd';' | sed 's/;/; /g'; }
check "kept" "$dpexec" "${all[@]}" --epochs 4 --eval-every 2 --checkpoint-every 1 --keep all --quiet --out kept
check "the last" "$dpexec" export kept --at last -o last.onnx
check "is the model" cmp last.onnx kept/model.onnx
check "the best" "$dpexec" export kept -o best.onnx
check "is the best" cmp best.onnx kept/best.onnx
check "of a step" "$dpexec" export kept --at 7 -o seven.onnx
check "that many steps" "$dpexec" "${all[@]}" --steps 7 --quiet --out seven
check "are the same model" cmp seven.onnx seven/model.onnx
refused 1 "there is no checkpoint of step 70; the newest are of steps: $(checkpoints kept 8)" "$dpexec" export kept --at 70 -o none.onnx
refused 2 "--at: expected best, last or a step, found 'first'" "$dpexec" export kept --at first -o none.onnx
refused 2 "-o FILE.onnx is missing" "$dpexec" export kept
refused 1 "runs/net-1: there is no best model" "$dpexec" export runs/net-1 --at best -o none.onnx
# With batch-norm, moving averages and graphs around the model.
fashion=$root/tests/oracle/data/fashion.npz
check "batch-norm and averages" "$dpexec" "$root/models/fashion_cnn.onnx" --data "$fashion" --loss cross-entropy --batch-size 9 --devices 'cpu*2' \
    --threads 1 --steps 4 --ema 0.9 --export-weights ema --quiet --out averaged
check "exported" "$dpexec" export averaged -o averaged.onnx
check "are the model" cmp averaged.onnx averaged/model.onnx

# ---- eval and run of a folder ----
evaluated_as() { "$dpexec" eval "$@" --data "$digits" --quiet; }
check "eval of a run" test "$(evaluated_as kept)" = "$(evaluated_as kept/best.onnx --loss cross-entropy --metric accuracy --batch-size 10)"
check "of its last model" test "$(evaluated_as kept --at last)" = "$(evaluated_as kept/model.onnx --loss cross-entropy --metric accuracy --batch-size 10)"
check "of a step" test "$(evaluated_as kept --at 7)" = "$(evaluated_as seven.onnx --loss cross-entropy --metric accuracy --batch-size 10)"
check "flags win" test "$(evaluated_as kept --metric top-k:3)" = "$(evaluated_as best.onnx --loss cross-entropy --metric top-k:3 --batch-size 10)"
check "the figure of its metrics" "$python" - kept/metrics.jsonl "$(evaluated_as kept)" <<'PY'
import json, sys
best = max(m["eval_accuracy"] for m in map(json.loads, open(sys.argv[1])) if "eval_loss" in m)
assert json.loads(sys.argv[2])["eval_accuracy"] == best
PY
"$python" -c "import numpy as np; np.save('x.npy', np.load('$digits')['x'][:5])"
check "run of a run" "$dpexec" run kept --input x.npy --out by-run
check "run of its model" "$dpexec" run kept/best.onnx --input x.npy --out by-model
check "the same outputs" cmp by-run/logits.npy by-model/logits.npy
refused 2 "--at is for the folder of a run, found net.onnx" "$dpexec" run net.onnx --at best --input x.npy --out none
refused 1 "runs: there is no run in this folder" "$dpexec" eval runs --data "$digits"
check "nothing is left" test -z "$(ls kept/.export-* 2>/dev/null)"

# ---- the log ----
"$dpexec" "${train[@]}" "${val[@]}" --epochs 2 --out logged >"$DIR/out" 2>"$DIR/err"
check "what was printed" diff <(cat "$DIR/err" "$DIR/out" | sort) <(sort logged/log.txt)
"$dpexec" resume logged --epochs 3 >"$DIR/out" 2>>"$DIR/err"
check "and what the run prints that goes on" test "$(grep -c '' logged/log.txt)" -gt "$(grep -c '' "$DIR/err")"
"$dpexec" resume logged --epochs 9 --lr 1e30 >"$DIR/out" 2>"$DIR/err"
check "errors, too" grep -qxF "$(tail -1 "$DIR/err")" logged/log.txt
finish
