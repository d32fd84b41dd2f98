#!/bin/bash
# --fuse changes which nodes a step has, and not a byte of what they compute: on one device, on several, on replicas that take turns,
# with blocked layouts, with parts of a batch, and where a step is full of scalars (float16, clipping).
. "$(dirname "$0")/lib.sh"
/usr/bin/python3 - "$DIR" <<'END'
import sys

import numpy as np

rng, to = np.random.default_rng(5), sys.argv[1]


def write(name, target_shape=(), classes=10, **x):
    n = len(next(iter(x.values())))
    np.savez(f"{to}/{name}.npz", target=rng.integers(0, classes, (n, *target_shape)), **x)


write("images", image=rng.standard_normal((20, 3, 32, 32), dtype=np.float32))
write("masks", (64, 64), 2, image=rng.standard_normal((6, 3, 64, 64), dtype=np.float32))
write("tokens", (64,), 256, tokens=rng.integers(0, 256, (8, 64)))
END

# nodes ARGS...: the nodes of a training step, or of its parts together.
nodes() { "$dpexec" "$@" --dry-run 2>/dev/null | sed -n 's/^[a-z ]*: \([0-9]*\) nodes.*/\1/p' | awk '{ n += $1 } END { print n }'; }
# alike TITLE ARGS...: three steps with --fuse are those without, by fewer nodes.
alike() {
    local title=$1 apart fused
    shift
    local args=(--loss cross-entropy --threads 2 --quiet --steps 3 "$@")
    rm -rf "$DIR/apart" "$DIR/fused"
    check "$title" "$dpexec" "${args[@]}" --out "$DIR/apart"
    check "$title, fused" "$dpexec" "${args[@]}" --fuse --out "$DIR/fused"
    check "$title: the same run" same_run "$DIR/apart" "$DIR/fused"
    apart=$(nodes "${args[@]}") fused=$(nodes "${args[@]}" --fuse)
    check "$title: $apart nodes, fused $fused" test "$fused" -lt "$apart"
}
alike "batch norms and Relu" models/resnet20.onnx --data "$DIR/images.npz" --batch-size 8
alike "batch norms and Clip, depthwise" models/exported_mobilenet.onnx --data "$DIR/images.npz" --batch-size 8
alike "in blocks of channels" models/resnet20.onnx --data "$DIR/images.npz" --batch-size 8 --blocks
alike "float64" models/exported_mobilenet.onnx --data "$DIR/images.npz" --batch-size 4 --dtype float64
alike "masks" models/unet.onnx --data "$DIR/masks.npz" --batch-size 2 --optimizer adam
alike "two devices" models/exported_mobilenet.onnx --data "$DIR/images.npz" --batch-size 7 --devices 'cpu*2' --bn sync
alike "replicas in turns" models/resnet20.onnx --data "$DIR/images.npz" --batch-size 10 --replicas 5 --bn local
alike "in pieces, in parts" models/resnet20.onnx --data "$DIR/images.npz" --batch-size 10 --devices 'cpu*2' --shard optimizer --accumulate 2
alike "tokens" models/transformer.onnx --data "$DIR/tokens.npz" --batch-size 4 --optimizer adamw --clip-norm 1
alike "scalars of a step" models/mlp.onnx --data tests/oracle/data/digits.npz --batch-size 10 --lr 0.01 --optimizer adam --precision float16 \
    --clip-norm 1 --devices 'cpu*2'

# What is fused is chosen anew when a run goes on.
digits=(--data tests/oracle/data/digits.npz --loss cross-entropy --batch-size 10 --threads 1 --quiet --optimizer adam --lr 0.01)
check "begun apart" "$dpexec" models/mlp.onnx "${digits[@]}" --steps 4 --checkpoint-every 2 --out "$DIR/begun"
check "goes on fused" "$dpexec" resume "$DIR/begun" --steps 8 --fuse
check "apart throughout" "$dpexec" models/mlp.onnx "${digits[@]}" --steps 8 --checkpoint-every 2 --out "$DIR/whole"
check "the same model" cmp "$DIR/begun/model.onnx" "$DIR/whole/model.onnx"
finish
