#!/bin/bash
# What a terminal must not obey, and what a run must not replace: names with escape sequences, outputs that are devices, pipes or
# links, mapped data that becomes shorter while it is read.
. "$(dirname "$0")/lib.sh"
python=${PYTHON:-/usr/bin/python3}
cd "$DIR" || exit 1
check "models and data" "$python" - <<'PY'
import numpy as np
from onnx import helper as H, TensorProto as T, numpy_helper as N
rng = np.random.default_rng(0)
evil = "w\x1b[2J\x1b]0;title\x07\u202e\u009b31m"
def model(w):
    inits = [N.from_array(rng.normal(size=(4, 3)).astype("f"), w), N.from_array(rng.normal(size=3).astype("f"), w + "b"),
             N.from_array(np.ones(3, "f"), w + "unused")]
    nodes = [H.make_node("Gemm", ["x", w, w + "b"], [w + "h"], name=w + "node"), H.make_node("Relu", [w + "h"], ["y"])]
    return H.make_model(H.make_graph(nodes, "g", [H.make_tensor_value_info("x", T.FLOAT, ["N", 4])],
                                     [H.make_tensor_value_info("y", T.FLOAT, ["N", 3])], inits),
                        opset_imports=[H.make_opsetid("", 17)], ir_version=8)
open("evil.onnx", "wb").write(model(evil).SerializeToString())
open("plain.onnx", "wb").write(model("w").SerializeToString())
bad = model(evil)
bad.graph.node[0].op_type = "Nonsense\x1b[31m"
open("bad.onnx", "wb").write(bad.SerializeToString())
np.savez("d.npz", x=rng.normal(size=(20, 4)).astype("f"), target=rng.integers(0, 3, 20))
PY
train=(--loss cross-entropy --batch-size 10 --steps 2 --threads 1)

# tame NAME COMMAND...: whatever it ends with, none of its bytes is a control but newline (a tab of text would be one too many),
# none a mark of direction.
tame() {
    local name=$1
    shift
    "$@" >tame.out 2>&1
    if [ -s tame.out ] && ! LC_ALL=C grep -qP '[\x00-\x09\x0b-\x1f\x7f]|\xc2[\x80-\x9f]|\xe2\x80[\x8e\x8f\xa8-\xae]|\xe2\x81[\xa6-\xa9]' tame.out; then
        pass
    else
        fail "$name: control characters, or nothing"
        LC_ALL=C cat -v tame.out | head -5
    fi
}
tame "training" "$dpexec" evil.onnx --data d.npz "${train[@]}" --out evil
tame "a plan" "$dpexec" evil.onnx "${train[@]}" --dry-run
tame "an error" "$dpexec" bad.onnx --data d.npz "${train[@]}"
tame "a report" "$graph_transform" evil.onnx --loss cross-entropy --batch-size 4 --replicas 2 --report
for format in txt json dot; do
    "$graph_transform" evil.onnx --loss cross-entropy --batch-size 4 --replicas 2 -o evil.$format
    tame "$format" cat evil.$format
done
tame "verify" "$graph_transform" evil.onnx --loss cross-entropy --batch-size 4 --replicas 2 --verify
check "a trace of such names is JSON" "$dpexec" evil.onnx --data d.npz "${train[@]}" --quiet --trace t.json
check "and reads back" "$python" -c 'import json; json.load(open("t.json"))'

# What is no regular file is written as it is.
write=("$graph_transform" plain.onnx --loss cross-entropy --batch-size 4)
check "/dev/null" "${write[@]}" -o /dev/null
check "is a device still" test -c /dev/null
ln -s real.txt link.txt
check "through a link that leads nowhere yet" "${write[@]}" -o link.txt
check "which stays a link" test -L link.txt -a -f real.txt -a -s real.txt
mkfifo pipe
timeout 20 cat pipe >piped.txt &
check "a pipe" timeout 20 "${write[@]}" -o pipe
wait $!
check "has carried the same" cmp piped.txt real.txt
check "and is a pipe still" test -p pipe
check "nothing is left over" test -z "$(find . -name '*tmp*')"
refused 1 "cannot write: No such file or directory" "${write[@]}" -o none/a.txt
refused 1 "cannot write: No space left on device" "${write[@]}" -o /dev/full

# 400 MB without a single block on the disk; cut while it is trained on.
check "large data" "$python" - <<'PY'
import numpy as np
np.lib.format.open_memmap("x.npy", mode="w+", dtype="f", shape=(25000000, 4))
np.lib.format.open_memmap("target.npy", mode="w+", dtype="i8", shape=(25000000,))
import os; os.mkdir("big"); os.rename("x.npy", "big/x.npy"); os.rename("target.npy", "big/target.npy")
PY
"$dpexec" plain.onnx --data big --loss cross-entropy --batch-size 10 --epochs 1 --threads 1 --quiet 2>shrunk.err &
trained=$!
for _ in $(seq 100); do
    grep -q 'big/x.npy' /proc/$trained/maps 2>/dev/null && break
    sleep 0.05
done
sleep 0.3
truncate -s 4096 big/x.npy
(sleep 30; kill $trained 2>/dev/null) &
guard=$!
wait $trained
status=$?
kill $guard 2>/dev/null
if [ $status = 1 ] && grep -q 'big/x.npy: the file became shorter while it was read' shrunk.err; then
    pass
else
    fail "mapped data that becomes shorter: exit $status, $(head -2 shrunk.err)"
fi
finish
