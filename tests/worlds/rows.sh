# A row of the table of worlds: a training run on one mapping.  Sourced by tests/cli/worlds.sh (a pairwise cover) and
# tests/worlds/table.sh (all).  It must give
# - the bytes of the same replicas on one device without shards: model, checkpoint, metrics;
# - in float32, after one step, what one replica gives, to 1e-5 of each tensor's norm (tests/worlds/near.py);
# - in float64 what the unpartitioned graph gives, to the limit of graph-transform --verify.
data=tests/oracle/data
python=${PYTHON:-/usr/bin/python3}

# The nets, with what makes the replicas' shares differ: labels that do not count and weights of classes, dropout, batches of fewer
# samples than there may be replicas.
net() {
    feed=()
    case $1 in
    mlp) args=(models/mlp.onnx --batch-size 10) feed=(--data $data/digits.npz) ;;
    few) args=(models/mlp.onnx --batch-size 5) feed=(--data $data/digits.npz) ;;
    ignored) args=(models/mlp.onnx --batch-size 7 --ignore-index -1 --class-weights $data/class_weights_10.npy) feed=(--data $data/digits_ignored.npz) ;;
    dropout) args=(models/exported_resnet.onnx --batch-size 6) feed=(--data $data/images32.npz) ;;
    cnn) args=(models/fashion_cnn.onnx --batch-size 9) feed=(--data $data/fashion.npz) ;;
    *) echo "there is no net '$1'" && return 1 ;;
    esac
    args+=(--loss cross-entropy --split "$2")
    [ "$3" = 0 ] || args+=(--clip-norm "$3")
}

train() { "$dpexec" "$@" --lr 0.01 --threads 1 --quiet --no-shuffle >"$DIR/row.log" 2>&1 || { head -2 "$DIR/row.log"; return 1; }; }

# kept NAME ARGS...: sets $kept to the folder of a run on one device, which is done once.
kept() {
    kept=$DIR/kept-$1
    [ -d "$kept" ] || train "${@:2}" --devices cpu --out "$kept" || { rm -rf "$kept"; return 1; }
}

same_checkpoint() { cmp "$1"/checkpoints/*/state.safetensors "$2"/checkpoints/*/state.safetensors; }

# once NAME COMMAND...: what has passed for one row is not done again for another of which it would be the same.
once() { [ -e "$DIR/once-$1" ] || { "${@:2}" && : >"$DIR/once-$1"; }; }

# One step on the mapping against one replica's: whatever the row's optimizer.
near() {
    rm -rf "$DIR/one"
    kept "${name/-$4-/-1-}-step" "${args[@]}" "${feed[@]}" --steps 1 --accumulate "$5" --replicas 1 --split balanced --optimizer sgd --momentum 0.9 || return 1
    train launch -n "$2" -- "${args[@]}" "${feed[@]}" --steps 1 --accumulate "$5" --replicas "$4" --optimizer sgd --momentum 0.9 \
        --devices "cpu*$3" --shard "$9" --out "$DIR/one" || return 1
    "$python" tests/worlds/near.py 1e-5 "$kept"/checkpoints/*/state.safetensors "$DIR"/one/checkpoints/*/state.safetensors
}

# The graphs alone: however many of the devices are a process's, and however many batches are a step's.
verified() {
    "$graph_transform" "${args[@]}" --optimizer "$8" --devices "cpu*$devices" --replicas "$4" --shard "$9" --verify >"$DIR/verify.log" 2>&1 ||
        { tail -2 "$DIR/verify.log"; return 1; }
}

# row NET PROCESSES DEVICES REPLICAS ACCUMULATE CLIP SPLIT OPTIMIZER LEVEL: DEVICES are each process's.  Says what is wrong.
row() {
    local name="$1-$4-$5-$6-$7" devices=$(($2 * $3)) split=$7 args feed
    [ "$split" != weights ] || split=$(echo 3,0,1,2,5,1,0.5,4 | cut -d, -f1-"$4")
    net "$1" "$split" "$6" || return 1
    kept "$name-$8" "${args[@]}" "${feed[@]}" --steps 3 --accumulate "$5" --replicas "$4" --optimizer "$8" || return 1
    rm -rf "$DIR/row"
    train launch -n "$2" -- "${args[@]}" "${feed[@]}" --steps 3 --accumulate "$5" --replicas "$4" --optimizer "$8" --devices "cpu*$3" \
        --shard "$9" --out "$DIR/row" || return 1
    same_run "$kept" "$DIR/row" && same_checkpoint "$kept" "$DIR/row" || return 1
    once "near-$name-$2-$3-$9" near "$@" && once "verified-$1-$4-$6-$7-$8-$devices-$9" verified "$@"
}
