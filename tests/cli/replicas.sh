#!/bin/bash
# What does not change with the mapping: the model's bytes for a fixed number of replicas on any number of devices, and the first
# 20 losses, to 1e-5, for any number of replicas.
. "$(dirname "$0")/lib.sh"
data=tests/oracle/data
fashion=(models/fashion_cnn.onnx --data "$data/fashion.npz" --loss cross-entropy --batch-size 10 --steps 8 --lr 0.01 --quiet)
sgd=(--optimizer sgd --momentum 0.9)

run() {     # run OUT ARGS...
    local out=$1
    shift
    check "$*" "$dpexec" "$@" --out "$out"
}

# bytes THREADS DEVICES...: four replicas on each number of devices.
bytes() {
    local threads=$1 first=$2
    shift
    for n in "$@"; do run "$DIR/t$threads-d$n" "${fashion[@]}" "${sgd[@]}" --replicas 4 --threads "$threads" --devices "cpu*$n"; done
    for n in "${@:2}"; do
        check "the bytes of $first and $n devices, $threads threads" same_run "$DIR/t$threads-d$first" "$DIR/t$threads-d$n"
    done
}
bytes 1 1 2 4
bytes 2 1 2
run "$DIR/adamw-1" "${fashion[@]}" --optimizer adamw --clip-norm 1 --accumulate 2 --replicas 3 --threads 1 --devices cpu
run "$DIR/adamw-3" "${fashion[@]}" --optimizer adamw --clip-norm 1 --accumulate 2 --replicas 3 --threads 1 --devices 'cpu*3'
check "the bytes of adamw with clipping and accumulation" same_run "$DIR/adamw-1" "$DIR/adamw-3"

# Parts by weight: of replicas, or of devices, whose weight is their replicas' together; measured, and kept for what goes on.
weighed=("${fashion[@]}" --threads 1 --replicas 4 --optimizer adam)
run "$DIR/weights-1" "${weighed[@]}" --split 3,0,1.5,1.5 --devices cpu
run "$DIR/weights-2" "${weighed[@]}" --split 3,0,1.5,1.5 --devices 'cpu*2'
run "$DIR/halves-2" "${weighed[@]}" --split 5,2 --devices 'cpu*2'
run "$DIR/halves-4" "${weighed[@]}" --split 2.5,2.5,1,1 --devices 'cpu*4'
check "the bytes of weights on 1 and 2 devices" same_run "$DIR/weights-1" "$DIR/weights-2"
check "the bytes of weights of devices and of replicas" same_run "$DIR/halves-2" "$DIR/halves-4"
same_run "$DIR/weights-1" "$DIR/halves-2" 2>/dev/null && fail "other weights changed nothing"
run "$DIR/auto" "${weighed[@]}" --split auto --devices 'cpu*2'
split=$(sed -n 's/.*"split": "\([0-9.,]*\)".*/\1/p' "$DIR/auto/args.json")
case $split in
*,*,*,*) ;;
*) fail "--split auto became '$split' in args.json" ;;
esac
run "$DIR/found" "${weighed[@]}" --split "$split" --devices 'cpu*4'
check "the bytes of what auto found" same_run "$DIR/auto" "$DIR/found"
run "$DIR/begun" "${weighed[@]/8/4}" --split 3,1 --devices 'cpu*2'
for how in "" "--split auto" "--split 1.5,1.5,0.5,0.5"; do
    rm -rf "$DIR/on" && cp -r "$DIR/begun" "$DIR/on"
    check "resumes with its parts: $how" "$dpexec" "${weighed[@]}" $how --devices 'cpu*4' --resume "$DIR/on"
    grep -q '"split": "1.5,1.5,0.5,0.5"' "$DIR/on/args.json" || fail "args.json after --resume $how"
done
refused 2 "--split was '1.5,1.5,0.5,0.5', is '1,1,1,1'" "$dpexec" "${weighed[@]}" --split 1,1,1,1 --devices cpu --resume "$DIR/begun"
refused 2 "--split: expected a weight for each of 2 devices or 4 replicas, found 3" "$dpexec" "${weighed[@]}" --split 1,2,3 --devices 'cpu*2'
for wrong in -1,2 0,0 1,inf nan,1 1,,2 "" 1,2, 1e16; do
    refused 2 "--split: expected" "$dpexec" "${weighed[@]}" --split "$wrong" --devices 'cpu*2'
done

# On simulated GPUs, asked for; what it costs is not worth telling where one device has all.
export DPEXEC_CUDA_PLUGIN=$build/libdpexec_cudasim.so DPEXEC_CACHE_DIR= DPEXEC_SIM_CACHE=${DPEXEC_SIM_CACHE:-$build/sim-cache}
mlp=(models/mlp.onnx --data "$data/digits.npz" --loss cross-entropy --batch-size 10 --steps 5 --clip-norm 1 --threads 1 --quiet --replicas 4)
for n in 1 2 3 4; do run "$DIR/cuda$n" "${mlp[@]}" --devices "cuda*$n" --reproducible; done
for n in 2 3 4; do check "the bytes of 1 and $n GPUs" same_run "$DIR/cuda1" "$DIR/cuda$n"; done
refused 2 '--reproducible does not go with --tune, which measures algorithms' "$dpexec" "${mlp[@]}" --devices cuda --reproducible --tune
says "added in the library's order" "$dpexec" "${mlp[@]/--quiet/--debug}" --devices 'cuda*3'
unset DPEXEC_CUDA_PLUGIN

losses() { sed -nE 's/.*"loss":([^,}]+).*/\1/p' "$1/metrics.jsonl"; }

# close A B: 20 losses, each within 1e-5 relative.
close() {
    paste <(losses "$1") <(losses "$2") |
        awk '{ d = $1 - $2; if (d < 0) d = -d; if (NF != 2 || $1 == "null" || d > 1e-5 * ($1 < 0 ? -$1 : $1)) { print NR, $1, $2; bad = 1 } }
             END { exit bad || NR != 20 }'
}

# agree NAME ARGS...: R in 2, 3, 4, 7 against R = 1; 7 replicas are more than some batches have samples.
agree() {
    local name=$1
    shift
    run "$DIR/$name-1" "$@" --threads 1 --quiet --replicas 1
    for r in 2 3 4 7; do
        run "$DIR/$name-$r" "$@" --threads 1 --quiet --replicas $r --devices "cpu*$((r > 2 ? 2 : r))"
        check "$name: $r replicas as 1" close "$DIR/$name-1" "$DIR/$name-$r"
        rm -rf "${DIR:?}/$name-$r"
    done
}
agree mlp models/mlp.onnx --data $data/digits.npz --loss cross-entropy --batch-size 10 --lr 0.01 "${sgd[@]}" --no-shuffle --steps 20
agree ignore models/mlp.onnx --data $data/digits_ignored.npz --loss cross-entropy --ignore-index -1 --class-weights $data/class_weights_10.npy \
    --batch-size 5 --lr 0.01 "${sgd[@]}" --no-shuffle --steps 20
agree chunk models/mlp.onnx --data $data/digits.npz --loss cross-entropy --split chunk --batch-size 10 --lr 0.01 --no-shuffle --steps 20
agree fashion_cnn models/fashion_cnn.onnx --data $data/fashion.npz --loss cross-entropy --batch-size 16 --lr 0.005 "${sgd[@]}" --no-shuffle --steps 20
agree fashion_cnn_10 models/fashion_cnn.onnx --data $data/fashion.npz --loss cross-entropy --batch-size 10 --lr 0.01 "${sgd[@]}" --no-shuffle --steps 20
for name in resnet20-sgd transformer-sgd unet-class-weights transformer-ignore-smoothing; do
    mapfile -t args < <("${PYTHON:-/usr/bin/python3}" tests/oracle/compare.py --args $name)
    agree $name "${args[@]}"
done
finish
