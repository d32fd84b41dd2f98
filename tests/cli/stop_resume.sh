#!/bin/bash
# A run that is stopped, by SIGTERM, SIGINT or kill -9, and resumed writes the same bytes as one that was not.
. "$(dirname "$0")/lib.sh"
digits=tests/oracle/data/digits.npz
fashion=tests/oracle/data/fashion.npz

# What every run of a model shares: shuffled epochs, momentum, batch-norm statistics, an incomplete last batch.
mlp=(models/mlp.onnx --data "$digits" --loss cross-entropy --batch-size 4 --optimizer adam --lr-schedule cosine --seed 3 --threads 1 --quiet)
any=(models/fashion_cnn.onnx --data "$fashion" --loss cross-entropy --batch-size 9 --devices 'cpu*2' --threads 1
     --checkpoint-every 3 --val "$fashion" --metric accuracy --eval-every 5 --quiet)
cnn=("${any[@]}" --momentum 0.9)

# stop SIGNAL OUT STEPS: ends process $pid once OUT/metrics.jsonl has STEPS lines.
stop() {
    for _ in $(seq 2000); do
        [ "$(grep -c '' "$2/metrics.jsonl" 2>/dev/null || true)" -ge "$3" ] 2>/dev/null && break
        kill -0 "$pid" 2>/dev/null || break
        sleep 0.005
    done
    kill "-$1" "$pid" 2>/dev/null
    wait "$pid" 2>/dev/null
}

# interrupted SIGNAL STATUS ARGS...: run, stop, resume until it ends; compare with the folder `whole`.
interrupted() {
    local signal=$1 expected=$2 out=$DIR/$1 status
    shift 2
    "$dpexec" "$@" --out "$out" >"$DIR/log" 2>&1 &
    pid=$!
    stop "$signal" "$out" 12
    status=$?
    if [ "$status" = 0 ]; then
        fail "$signal: the run was over before it was stopped"
        return
    fi
    check "$signal: exit $status, expected $expected" test "$status" = "$expected"
    check "$signal: no model yet" test ! -e "$out/model.onnx"
    check "$signal: resume" "$dpexec" "$@" --resume "$out"
    check "$signal: the same run" same_run "$out" "$DIR/whole"
    rm -rf "$out"
}

steps=(--steps 4000 --checkpoint-every 7)
check "a whole run" "$dpexec" "${mlp[@]}" "${steps[@]}" --out "$DIR/whole"
check "repeats" "$dpexec" "${mlp[@]}" "${steps[@]}" --out "$DIR/again"
check "the same run again" same_run "$DIR/whole" "$DIR/again"
interrupted TERM 143 "${mlp[@]}" "${steps[@]}"
interrupted INT 130 "${mlp[@]}" "${steps[@]}"
interrupted KILL 137 "${mlp[@]}" "${steps[@]}"
rm -rf "$DIR/whole"

# What was done until a signal is enough: the model is written, and no step is done.
"$dpexec" "${mlp[@]}" --steps 10000000 --out "$DIR/enough" >"$DIR/log" 2>&1 &
pid=$!
stop INT "$DIR/enough" 12
done=$(ls "$DIR/enough/checkpoints" | sed 's/^step-0*//')
check "no model yet" test ! -e "$DIR/enough/model.onnx"
check "as many steps as were done" "$dpexec" "${mlp[@]}" --steps "$done" --resume "$DIR/enough"
check "write the model" test -s "$DIR/enough/model.onnx"
check "and do nothing else" test "$(grep -c '' "$DIR/enough/metrics.jsonl")" = "$done"

check "a whole run with batch-norm on two devices" "$dpexec" "${cnn[@]}" --steps 60 --out "$DIR/whole"
interrupted TERM 143 "${cnn[@]}" --steps 60
interrupted KILL 137 "${cnn[@]}" --steps 60

# With a scaled loss: accumulated, the first steps' gradients overflow and are skipped, so the first checkpoint lies among them.
half=(models/mlp.onnx --data "$digits" --loss cross-entropy --batch-size 4 --optimizer adam --threads 1 --precision float16 --accumulate 4 --quiet)
check "a whole run with a scaled loss" "$dpexec" "${half[@]}" --steps 9 --out "$DIR/half"
check "its first step is skipped" grep -qE '^\{"step":1,.*"loss_scale":65536,"skipped":true\}' "$DIR/half/metrics.jsonl"
check "its last is not" grep -qE '^\{"step":9,.*"loss_scale":[0-9]+,"skipped":false\}' "$DIR/half/metrics.jsonl"
check "the first two steps" "$dpexec" "${half[@]}" --steps 2 --out "$DIR/begun"
check "the others" "$dpexec" "${half[@]}" --steps 9 --resume "$DIR/begun"
check "the same run" same_run "$DIR/half" "$DIR/begun"

# A damaged newest checkpoint is passed over for the one before it.
cp -r "$DIR/whole" "$DIR/damaged"
rm "$DIR/damaged/model.onnx"
newest=$(find "$DIR/damaged/checkpoints" -name 'step-*' | sort | tail -1)
printf 'x' | dd of="$newest/state.safetensors" bs=1 seek=$(($(stat -c %s "$newest/state.safetensors") - 1)) conv=notrunc 2>/dev/null
says "warning: a newer checkpoint is damaged and skipped: $newest/state.safetensors: tensor '" \
    "$dpexec" "${cnn[@]}" --steps 60 --resume "$DIR/damaged"
check "told once" test "$(grep -c 'is damaged' "$DIR/says.log")" = 1
check "the same run" same_run "$DIR/damaged" "$DIR/whole"

# All are damaged: an error that names them, and the folder stays as it is.
for f in "$DIR"/damaged/checkpoints/*/manifest.json; do echo '{}' >"$f"; done
refused 1 "no checkpoint verifies" "$dpexec" "${cnn[@]}" --steps 60 --resume "$DIR/damaged"
refused 1 "of another run" "$dpexec" "${mlp[@]}" --steps 60 --resume "$DIR/whole" --out "$DIR/other"

# Another order of the data, another optimizer, other parameters: refused, and the run's args.json stays.
cp "$DIR/whole/args.json" "$DIR/args"
for other in "--seed 7" "--no-shuffle" "--accumulate 2" "--drop-last"; do
    # shellcheck disable=SC2086
    refused 2 "these cannot change within a run: ${other%% *} was" tests/cli/defaults --momentum 0.9 -- "$dpexec" "${any[@]}" $other --steps 90 --resume "$DIR/whole"
done
# A pattern that is new is judged by what it changes.
refused 2 "'conv1.weight' was trained in that run, but --freeze 'conv*' fixes it now" "$dpexec" "${cnn[@]}" --freeze 'conv*' --steps 90 --resume "$DIR/whole"
# Whatever else changes what is computed, all at once; the data by its numbers, the replicas by how many there are.
python=${PYTHON:-/usr/bin/python3}
check "other labels" "$python" - "$fashion" "$DIR/other.npz" <<'PY'
import sys, numpy as np
d = dict(np.load(sys.argv[1]))
y = next(k for k in d if d[k].dtype.kind in "iu")
d[y] = d[y].copy()
d[y][-1] = (d[y][-1] + 1) % 10
np.savez(sys.argv[2], **d)
PY
for other in "--label-smoothing 0.1" "--weight-decay 0.01" "--precision bfloat16" "--split chunk" "--bn local" "--clip-norm 1" \
             "--momentum 0.8" "--bn-variance unbiased" "--ignore-index 3"; do
    # shellcheck disable=SC2086
    refused 2 "these cannot change within a run: ${other%% *} was" tests/cli/defaults --momentum 0.9 -- "$dpexec" "${any[@]}" $other --steps 90 --resume "$DIR/whole"
done
refused 2 "these cannot change within a run: --batch-size was" "$dpexec" "${cnn[@]/#9/8}" --steps 90 --resume "$DIR/whole"
refused 2 '2 replicas on 3 devices' "$dpexec" "${cnn[@]/#cpu\*2/cpu*3}" --steps 90 --resume "$DIR/whole"
refused 2 "--data by digest was" "$dpexec" "${cnn[@]/#"$fashion"/$DIR/other.npz}" --steps 90 --resume "$DIR/whole"
refused 2 "--clip-norm was '0', is '1'" "$dpexec" "${cnn[@]}" --clip-norm 1 --split chunk --lr 0.5 --steps 90 --resume "$DIR/whole"
check "both are named" grep -q "; --split was 'balanced', is 'chunk'" "$DIR/refused.err"
check "args.json of a refused resume" cmp "$DIR/whole/args.json" "$DIR/args"

# What may be changed: the rate, which is told; the devices and threads, for the replicas are as many, and how long it runs.
cp -r "$DIR/whole" "$DIR/changed"
says "--resume: --lr was '0.01', is '0.002' from here on" "$dpexec" "${cnn[@]}" --lr 0.002 --steps 61 --resume "$DIR/changed"
check "the new rate" grep -q '^{"step":61,.*"lr":0.002' "$DIR/changed/metrics.jsonl"
says "--lr was '0.002', is '1e-2' from here on" "$dpexec" "${cnn[@]}" --lr 1e-2 --steps 62 --resume "$DIR/changed"
check "the same rate in other words" "$dpexec" "${cnn[@]}" --lr 0.01 --steps 63 --resume "$DIR/changed"
check "is not told" test ! -s "$DIR/check.log" -o -z "$(grep from "$DIR/check.log")"
check "a longer run" "$dpexec" "${cnn[@]}" --steps 70 --out "$DIR/longer"
cp -r "$DIR/whole" "$DIR/moved"
check "goes on on one device" "$dpexec" "${cnn[@]/#cpu\*2/cpu:0}" --steps 65 --resume "$DIR/moved"
check "and again, the replicas named" "$dpexec" "${cnn[@]/#cpu\*2/cpu:0}" --replicas 2 --steps 70 --resume "$DIR/moved"
check "the same run" same_run "$DIR/moved" "$DIR/longer"

# Other replicas, where they are asked for: the same but for rounding, whose last bits they change; not what each replica's batch-norms find.
cp -r "$DIR/whole" "$DIR/parts"
says "--replicas was '2', is '3' from here on: the last bits depend on it" "$dpexec" "${cnn[@]}" --replicas 3 --steps 70 --resume "$DIR/parts"
check "that is kept" grep -q '"replicas": "3"' "$DIR/parts/args.json"
check "near the same run" "$python" tests/worlds/near.py 1e-5 "$DIR/parts/checkpoints/step-000000070/state.safetensors" \
    "$DIR/longer/checkpoints/step-000000070/state.safetensors"
differ "$DIR/parts/model.onnx" "$DIR/longer/model.onnx" || fail "other replicas have the same bits"
says "--threads was '1', is '2' from here on: the last bits depend on it" "$dpexec" "${cnn[@]/#1/2}" --steps 71 --resume "$DIR/parts"
check "a run of local statistics" "$dpexec" "${cnn[@]}" --bn local --steps 3 --out "$DIR/statistics"
refused 2 "--replicas was '2', is '1'" "$dpexec" "${cnn[@]/#cpu\*2/cpu:0}" --bn local --replicas 1 --steps 4 --resume "$DIR/statistics"

cp -r "$DIR/whole" "$DIR/kept"
check "as many programs as one likes" "$dpexec" "${cnn[@]}" --programs 5 --plan-memory 4G --steps 70 --resume "$DIR/kept"
check "the same run" same_run "$DIR/kept" "$DIR/longer"

# Texts that are not UTF-8 are compared too.
check "a pattern of bytes" "$dpexec" "${mlp[@]}" --freeze $'fc[1\xff]*' --steps 2 --out "$DIR/bytes"
refused 2 "--freeze was 'fc[1\xff]*', is 'fc[1\xfe]*'" "$dpexec" "${mlp[@]}" --freeze $'fc[1\xfe]*' --steps 3 --resume "$DIR/bytes"
refused 2 "--freeze was 'fc[1\xff]*', is 'fc[1\\\\xff]*'" "$dpexec" "${mlp[@]}" --freeze 'fc[1\xff]*' --steps 3 --resume "$DIR/bytes"
check "the same pattern of bytes" "$dpexec" "${mlp[@]}" --freeze $'fc[1\xff]*' --steps 3 --resume "$DIR/bytes"

# A damaged position: one whose hash tells, and one of an earlier version, which has none.
edited() {
    rm -rf "$DIR/edited"
    cp -r "$DIR/whole" "$DIR/edited"
    sed -i -E "$1" "$DIR"/edited/checkpoints/*/manifest.json
}
edited 's/\\"batch\\":[0-9]+/\\"batch\\":-1/'
refused 1 "the hash of the note is not the manifest's" "$dpexec" "${cnn[@]}" --steps 90 --resume "$DIR/edited"
old='/note_xxh3_128/d; '
edited "$old"
check "without a hash" "$dpexec" "${cnn[@]}" --steps 61 --resume "$DIR/edited"
for at in batch:-1 batch:1000 epoch:-1 epoch:61 batch:9223372036854775807; do
    edited "$old s/\\\\\"${at%:*}\\\\\":[0-9]+/\\\\\"${at%:*}\\\\\":${at#*:}/"
    refused 1 "manifest.json: the note says ${at/:/ }" "$dpexec" "${cnn[@]}" --steps 90 --resume "$DIR/edited"
done
edited "$old s/\"note\": .*/\"note\": \"mine\",/"
refused 1 "the note is not one of dpexec train" "$dpexec" "${cnn[@]}" --steps 90 --resume "$DIR/edited"

refused 1 "no 'conv1.weight.exp_avg'" "$dpexec" "${any[@]}" --optimizer adam --steps 90 --resume "$DIR/whole"
check "args.json of a refused resume" cmp "$DIR/whole/args.json" "$DIR/args"
finish
