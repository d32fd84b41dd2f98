#!/bin/bash
# --shard: the same bytes as without it, whatever the optimizer and the devices; checkpoints are whole, and go on with other
# devices or none cut; each device has its share of the optimizer's state and no more.
. "$(dirname "$0")/lib.sh"
data=tests/oracle/data
mlp=(models/mlp.onnx --data "$data/digits.npz" --loss cross-entropy --batch-size 10 --threads 1 --quiet)
cnn=(models/fashion_cnn.onnx --data "$data/fashion.npz" --loss cross-entropy --batch-size 7 --threads 1 --quiet)

# same NAME ARGS...: with and without; whole models and metrics.
same() {
    local name=$1 level
    shift
    check "$name" "$dpexec" "$@" --out "$DIR/all"
    for level in optimizer gradients parameters; do
        check "$name, $level in pieces" "$dpexec" "$@" --shard $level --out "$DIR/pieces"
        check "$name: the bytes with $level in pieces" same_run "$DIR/all" "$DIR/pieces"
        rm -rf "$DIR/pieces"
    done
    rm -rf "$DIR/all"
}
five=(--steps 5 --lr 0.01)
same 'adam on two devices' "${mlp[@]}" "${five[@]}" --optimizer adam --devices 'cpu*2'
same 'adam on three, clipped' "${mlp[@]}" "${five[@]}" --optimizer adam --devices 'cpu*3' --clip-norm 0.1
same 'one device' "${mlp[@]}" "${five[@]}" --optimizer adam --devices cpu --replicas 2
same 'adamw, five replicas on two devices' "${mlp[@]}" "${five[@]}" --optimizer adamw --weight-decay 0.1 --devices 'cpu*2' --replicas 5
same 'momentum, four replicas on three' "${cnn[@]}" "${five[@]}" --optimizer sgd --momentum 0.9 --nesterov --devices 'cpu*3' --replicas 4
same 'nothing beside the parameters' "${mlp[@]}" "${five[@]}" --optimizer sgd --devices 'cpu*2'
same 'a formula: lion' "${cnn[@]}" "${five[@]}" --optimizer lion --weight-decay 0.01 --devices 'cpu*3'
same 'lengths of parameters: lamb, clipped' "${mlp[@]}" "${five[@]}" --optimizer lamb --weight-decay 0.01 --clip-norm 1 --devices 'cpu*3'
same 'lengths of parameters: lars' "${cnn[@]}" "${five[@]}" --optimizer lars --momentum 0.9 --weight-decay 0.01 --devices 'cpu*2' --replicas 3
same 'a formula: rmsprop, clipped' "${mlp[@]}" "${five[@]}" --optimizer rmsprop --clip-norm 1 --devices 'cpu*2'
same 'accumulated' "${cnn[@]}" "${five[@]}" --optimizer adam --accumulate 3 --clip-norm 0.5 --devices 'cpu*3'
same 'float64' "${mlp[@]}" "${five[@]}" --optimizer adam --clip-norm 1 --dtype float64 --devices 'cpu*3'
same 'a scaled loss' "${mlp[@]}" "${five[@]}" --optimizer adam --precision float16 --clip-norm 1 --devices 'cpu*2'
same 'frozen parameters' "${mlp[@]}" "${five[@]}" --optimizer adam --freeze 'fc1.*' --devices 'cpu*2'

# A checkpoint of three devices goes on with two, with one, and without pieces; and the other way round.
whole=("${mlp[@]}" --optimizer adam --clip-norm 1 --replicas 6 --checkpoint-every 4)
check 'unbroken' "$dpexec" "${whole[@]}" --devices 'cpu*2' --steps 9 --out "$DIR/unbroken"
begin() { check "four steps $*" "$dpexec" "${whole[@]}" --steps 4 --out "$DIR/begun" "$@"; }
go_on() {
    check "goes on $*" "$dpexec" "${whole[@]}" --steps 9 --resume "$DIR/begun" "$@"
    check "the bytes of a run that goes on $*" cmp "$DIR/unbroken/model.onnx" "$DIR/begun/model.onnx"
    check "the last checkpoint of a run that goes on $*" \
        cmp "$DIR/unbroken/checkpoints/step-000000009/state.safetensors" "$DIR/begun/checkpoints/step-000000009/state.safetensors"
    rm -rf "$DIR/begun"
}
begin --devices 'cpu*3' --shard optimizer; go_on --devices 'cpu*2' --shard optimizer
begin --devices 'cpu*3' --shard optimizer; go_on --devices cpu
begin --devices 'cpu*3' --shard parameters; go_on --devices 'cpu*2' --shard gradients
begin --devices 'cpu*2' --shard gradients; go_on --devices 'cpu*2' --shard parameters
begin --devices cpu; go_on --devices 'cpu*3' --shard optimizer

# What a device holds: of mlp 17226 parameters, of adam's two moments of each half, to 4096 elements and the odd sizes of small ones.
train=(models/mlp.onnx --loss cross-entropy --optimizer adam --batch-size 8)
state() { "$graph_transform" "${train[@]}" "$@" --report --json | grep -o '"state_bytes": *[0-9]*' | grep -o '[0-9]*$'; }
shares() {
    local d=0 total=0 p=$((17226 * 4)) slack=$((2 * 4 * 4096 + 8))
    for s in $(state --devices "cpu*$1" --shard optimizer); do
        d=$((d + 1))
        total=$((total + s))
        [ "$s" -le $((p + 2 * p / $1 + slack)) ] || { echo "device $d holds $s bytes"; return 1; }
    done
    [ "$d" = "$1" ] && [ "$total" = $(($1 * (p + 8) + 2 * p)) ] || { echo "$d devices hold $total bytes"; return 1; }
}
for n in 2 3 4; do check "the shares of $n devices" shares "$n"; done

# Of 8 replicas on 3 devices, 2 of them on the last, that one has 2 of 8 pieces of what is cut, the others 3: in all one whole of
# parameters and moments, and three counters of steps.
uneven() {
    local all=0 s list
    list=$("$graph_transform" models/transformer.onnx --loss cross-entropy --optimizer adam --batch-size 8 --devices 'cpu*3' --replicas 8 \
        --shard parameters --report --json | grep -o '"state_bytes": *[0-9]*' | grep -o '[0-9]*$')
    for s in $list; do
        all=$((all + s))
        [ "$s" -gt $((3 * 4130304 * 20 / 100)) ] && [ "$s" -lt $((3 * 4130304 * 40 / 100)) ] || { echo "$s bytes"; return 1; }
    done
    [ "$all" = $((3 * 4130304 + 3 * 8)) ] || { echo "$all bytes in all: $list"; return 1; }
}
check 'parameters in pieces are nowhere twice' uneven

# The plan of a step with less whole at a time: gradients leave as they come, a parameter is whole for one use.
arena() {
    "$dpexec" train models/transformer.onnx --loss cross-entropy --optimizer adam --batch-size 4 --devices 'cpu*4' --threads 1 --dry-run "$@" 2>/dev/null |
        sed -nE 's/^  memory: [^:]*: arena ([0-9.]+) MiB, states ([0-9.]+) MiB.*/\1 \2/p' | head -1
}
less() { awk -v a="$1" -v b="$2" 'BEGIN { split(a, x, " "); split(b, y, " "); exit !(x['"$3"'] < y['"$3"'] * '"$4"') }' || { echo "$1 and $2"; return 1; }; }
mirrored=$(arena) cut=$(arena --shard optimizer) early=$(arena --shard gradients) parts=$(arena --shard parameters)
check 'half the state with the optimizer in pieces' less "$cut" "$mirrored" 2 0.51
check 'a quarter with parameters in pieces' less "$parts" "$mirrored" 2 0.27
check 'gradients that leave early' less "$early" "$cut" 1 0.9
check 'parameters that are whole for one use' less "$parts" "$cut" 1 0.9

# All parameters of mlp are small: they are put together at once for each pass, forward and backward, of each replica of a device.
gathers() {
    "$dpexec" train models/mlp.onnx --loss cross-entropy --batch-size 8 --devices 'cpu*2' --shard parameters --dry-run "$@" 2>/dev/null |
        sed '/^cpu:1/,$d' | grep -c 'AllGather '
}
check 'small parameters are put together at once' test "$(gathers) $(gathers --replicas 4)" = '2 4'
says 'as a process of its own: ' "$dpexec" train "${train[@]}" --devices 'cpu*2' --shard parameters --dry-run
says 'the sums of --accumulate stay whole' "$dpexec" "${mlp[@]/--quiet/--debug}" --steps 1 --accumulate 2 --devices 'cpu*2' --shard gradients
# As many bytes travel as without (67.3 KiB), but for biases and, with a norm, the sums of which it is made.
for norm in 0 1; do says 'sends 68.' "$graph_transform" "${train[@]}" --clip-norm $norm --devices 'cpu*2' --shard optimizer --report; done

# The graph is checked against the whole one, and is read again as it was written.
for net in mlp fashion_cnn transformer; do
    says 'agrees: the partitioned graph computes what one replica does' "$graph_transform" "models/$net.onnx" --loss cross-entropy --optimizer adam --clip-norm 1 \
        --batch-size 6 --devices 'cpu*3' --replicas 4 --shard optimizer --verify
done
cut=("${train[@]}" --devices 'cpu*3' --shard optimizer)
check 'as text' "$graph_transform" "${cut[@]}" -o "$DIR/step.txt"
check 'has pieces' grep -q 'state %fc1.weight.exp_avg@d1 : float32\[4096\].* from 4096 of float32\[128,64\]' "$DIR/step.txt"
check 'as a model' "$graph_transform" "${cut[@]}" -o "$DIR/step.onnx"
check 'read again' "$graph_transform" "$DIR/step.onnx" -o "$DIR/again.txt"
check 'the same again' cmp "$DIR/step.txt" "$DIR/again.txt"

refused 2 "--shard: expected none|optimizer|gradients|parameters, found 'all'" "$dpexec" "${mlp[@]}" --shard all
export DPEXEC_CUDA_PLUGIN=$build/libdpexec_cudasim.so DPEXEC_CACHE_DIR= DPEXEC_SIM_CACHE=${DPEXEC_SIM_CACHE:-$build/sim-cache}
refused 2 '--shard optimizer is for CPU devices' "$dpexec" "${mlp[@]}" --steps 1 --optimizer adam --devices 'cuda*2' --shard optimizer
unset DPEXEC_CUDA_PLUGIN

# Several processes: checkpoints are whole whoever holds the pieces, and go on in other numbers of processes, with pieces or without.
together() { "$dpexec" launch -n "$1" -- "${whole[@]}" --devices cpu:0 "${@:2}"; }
begin_together() { check "four steps of $*" together "$@" --steps 4 --out "$DIR/begun"; }
go_on_together() {
    check "goes on in $*" together "$@" --steps 9 --resume "$DIR/begun"
    check "the bytes of a run that goes on in $*" cmp "$DIR/unbroken/model.onnx" "$DIR/begun/model.onnx"
    check "the last checkpoint of a run that goes on in $*" \
        cmp "$DIR/unbroken/checkpoints/step-000000009/state.safetensors" "$DIR/begun/checkpoints/step-000000009/state.safetensors"
    rm -rf "$DIR/begun"
}
# Lengths of whole parameters, of which each process has a piece.
lengths() {
    local name=$1 level
    shift
    check "$name on three devices" "$dpexec" "$@" --devices 'cpu*3' --out "$DIR/lengths"
    for level in optimizer gradients parameters; do
        check "$name in three processes, $level in pieces" "$dpexec" launch -n 3 -- "$@" --devices cpu:0 --shard $level --out "$DIR/lengths-3"
        check "$name in three processes: the bytes with $level in pieces" same_run "$DIR/lengths" "$DIR/lengths-3"
        rm -rf "$DIR/lengths-3"
    done
    rm -rf "$DIR/lengths"
}
lengths lamb "${mlp[@]}" "${five[@]}" --optimizer lamb --weight-decay 0.01 --clip-norm 1
lengths lars "${cnn[@]}" "${five[@]}" --optimizer lars --momentum 0.9 --weight-decay 0.01
begin_together 3 --shard optimizer; go_on_together 2 --shard optimizer
begin_together 2 --shard optimizer; go_on_together 4
begin_together 3 --shard parameters; go_on_together 2 --shard parameters
begin_together 2 --shard gradients; go_on --devices cpu
begin_together 2; go_on_together 3 --shard optimizer
begin_together 4 --shard optimizer; go_on --devices cpu
begin --devices 'cpu*2' --shard optimizer; go_on_together 3 --shard optimizer
check 'only rank 0 has a folder' test ! -e "$DIR/begun"
finish
