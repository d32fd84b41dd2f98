#!/bin/bash
# docs/guide/from-*.md: every command line that a page shows runs as it stands there, and every piece of C is compiled as it stands, linked with a
# program that calls it (tests/cli/from_pages/PAGE.c) and run.  Without GPUs 'cuda*4' of the pages is 'cpu*4' here, which is all that is changed.
. "$(dirname "$0")/lib.sh"
python=${PYTHON:-/usr/bin/python3}
cc=$(sed -n 's/^CMAKE_C_COMPILER:[A-Z]*=//p' "$build/CMakeCache.txt")
sanitize=$(sed -n 's/^DPX_SANITIZE:[A-Z]*=//p' "$build/CMakeCache.txt")
export PATH=$build:$PATH LD_LIBRARY_PATH=$build
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
export PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe       # the same of Open MPI 5
here=$root/tests/cli/from_pages
"$dpexec" devices | grep -q '^cuda:3' && device=cuda || device=cpu

# What the pages call net.onnx, train.npz and val.npz, of a kind that suits the page.
check "models and data" "$python" - "$DIR" <<'PY'
import os, sys
import numpy as np, onnx
from onnx import TensorProto as T, helper as H, numpy_helper as N
d, r = sys.argv[1], np.random.default_rng(0)
def put(page, model, train, val=None):
    os.makedirs(f"{d}/{page}")
    onnx.save(model, f"{d}/{page}/net.onnx")
    np.savez(f"{d}/{page}/train.npz", **train)
    if val:
        np.savez(f"{d}/{page}/val.npz", **val)
cnn, labels = onnx.load("models/fashion_cnn.onnx"), r.integers(0, 10, 270)
images = dict(image=r.normal(size=(270, 1, 28, 28)).astype("f"), target=labels)
put("from-ddp", cnn, images)
some = {k: v[:43] for k, v in images.items()}
put("from-torch-dp", cnn, some)
put("from-jactorch", cnn, some)
mask = r.integers(0, 2, (10, 64, 64))
mask[r.random(mask.shape) < 0.2] = 255
put("from-encoding", onnx.load("models/unet.onnx"), dict(image=r.normal(size=(10, 3, 64, 64)).astype("f"), target=mask))
for old, new in ("image", "img"),:                 # as mmcv's pipelines call it
    cnn.graph.input[0].name = new
    for n in cnn.graph.node:
        n.input[:] = [new if i == old else i for i in n.input]
put("from-mmcv", cnn, {})
x = r.random(size=(70, 64)).astype("f")
mlp = onnx.load("models/mlp.onnx")
mlp.graph.input.append(H.make_tensor_value_info("y", T.INT64, ["batch"]))
mlp.graph.node.append(H.make_node("SoftmaxCrossEntropyLoss", ["logits", "y"], ["loss"]))
mlp.graph.output.append(H.make_tensor_value_info("loss", T.FLOAT, []))
put("from-onnxruntime-training", onnx.load("models/mlp.onnx"), dict(x=x, target=labels[:70]), dict(x=x[:9], target=labels[:9]))
put("from-mmengine", mlp, dict(x=x, y=labels[:70]), dict(x=x[:9], y=labels[:9]))
PY

# Every page begins with the same lines, up to the first empty line behind an eval: export, save, train, evaluate.  They run once, on digits.
begin() { sed -n '3,/^    dpexec eval/p' "docs/guide/$1.md"; }
rest() { sed '1,/^    dpexec eval/d' "docs/guide/$1.md"; }
begin from-pytorch >"$DIR/begin"
check "they begin with eight lines" test "$(grep -cE '^[a-z ]' "$DIR/begin")" = 8
mkdir "$DIR/from-pytorch"
check "data of the first lines" "$python" - "$DIR/from-pytorch" <<'PY'
import sys
import numpy as np
digits = np.load("tests/oracle/data/digits.npz")
for name in "train", "val":
    np.savez(f"{sys.argv[1]}/{name}.npz", x=digits["x"], target=digits["target"])
PY
cp models/mlp.onnx "$DIR/from-pytorch/net.onnx"
check "the first lines run" bash -c "cd '$DIR/from-pytorch' && set -e; $(sed -n 's/^    \(.*\)/\1/p' "$DIR/begin" | grep -v '^ .*batch")')"
cp "$DIR/check.log" "$DIR/first-lines"
check "and end with an evaluation" grep -q '"eval_accuracy":' "$DIR/first-lines"

# The indented lines of a page that are commands; those of others' tools and of Python are the user's old ones, or the export.
commands() { rest "$1" | sed -n 's/^    \([a-z]\)/\1/p' | awk '/^```c$/ { c = 1 } /^```$/ { c = 0 } !c' | grep -E '^(dpexec|mpirun|graph-transform) '; }
others() { rest "$1" | awk '/^```/ { code = !code } !code' | grep -E '^    [^ ]' | grep -vE '^    (dpexec|mpirun|graph-transform) ' | grep -vE '^    (torchrun|torch\.onnx\.export)'; }

# one PAGE COMMAND: in the page's folder, as a user's shell runs it.
one() { (cd "$DIR/$1" && timeout 300 bash -c "${2//cuda\*/$device*}"); }

run=0
for page in docs/guide/from-*.md; do
    page=$(basename "$page" .md)
    check "$page: the first lines" cmp <(begin "$page") "$DIR/begin"
    check "$page: no line is of another kind" test -z "$(others "$page")"
    : >"$DIR/$page.txt"
    while read -r line; do
        [[ $line != mpirun* || -e $build/libdpexec_openmpi.so ]] || { skip "$page: mpirun" "the plug-in of Open MPI is not built"; continue; }
        run=$((run + 1))
        check "$page: $line" one "$page" "$line"
        cp "$DIR/check.log" "$DIR/said-$run"
        grep -E '^trained ' "$DIR/check.log" | sed -E 's/ in [0-9.]+ s//' >>"$DIR/$page.txt"
    done < <(commands "$page")
done
check "commands of five pages" test $run -ge 6
check "one process with four devices and four processes: the same run" test "$(sort -u "$DIR/from-ddp.txt" | grep -c 'loss')" = 1
check "the metric of the page" grep -q 'train mean-iou' "$DIR"/said-*
check "an evaluation" grep -qE 'eval loss [0-9.]+$' "$DIR/from-mmengine.txt"

# built PAGE: its C, as it stands but for the device, in front of the program that calls it.
built() {
    awk '/^```c$/ { on = 1; next } /^```/ { on = 0 } on' "docs/guide/$1.md" | sed "s/cuda\*/$device*/" >"$DIR/$1.h"
    "$cc" -std=c11 -D_GNU_SOURCE -Wall -Wextra -Wpedantic -Werror -Wno-unknown-pragmas ${sanitize:+-fsanitize=$sanitize} -I. -Iinclude -I"$DIR" \
        "$here/$1.c" -L"$build" -ldpexec -lm -o "$DIR/$1.program"
}
for page in from-torch-dp from-mmcv from-mmengine; do
    check "$page: compile" built $page
    check "$page: run" "$DIR/$page.program" "$DIR/$page/net.onnx"
done
# The new lines of the tables of C and C++: statements, calls that must succeed, and calls that free something.
check "from-onnxruntime-training: lines" "$python" - "$DIR" <<'PY'
import json, sys
sys.path.append("tests/oracle")
import onnxruntime_training as page
lines = {"c": page.cells("C", 1), "cpp": page.cells("C++", 1)}
assert min(map(len, lines.values())) > 14, lines
for kind, all in lines.items():
    with open(f"{sys.argv[1]}/from-onnxruntime-training-lines.{kind}", "w") as f:
        f.writelines(f"    {x};\n" if kind == "cpp" or " = " in x or "_free(" in x else f"    EXPECT(!{x});\n" for x in all)
with open(sys.argv[1] + "/evaluation", "w") as f:
    print(json.loads(page.stored.read_text())["page"]["value"][0], file=f)
PY
# new_lines PROGRAM: ends at the evaluation that ONNX Runtime ended at.
new_lines() { (cd "$DIR/from-onnxruntime-training" && rm -rf saved && "$1" "$(cat "$DIR/evaluation")"); }
check "from-onnxruntime-training: compile" built from-onnxruntime-training
check "from-onnxruntime-training: run" new_lines "$DIR/from-onnxruntime-training.program"
mv "$DIR/from-onnxruntime-training/inference.onnx" "$DIR/by-c.onnx"
cxx=$(sed -n 's/^CMAKE_CXX_COMPILER:[A-Z]*=//p' "$build/CMakeCache.txt")
check "from-onnxruntime-training: compile C++" "$cxx" -std=c++17 -Wall -Wextra -Wpedantic -Werror \
    ${sanitize:+-fsanitize=$sanitize} -I. -Iinclude -I"$DIR" "$here/from-onnxruntime-training.cpp" -L"$build" -ldpexec -o "$DIR/cpp"
check "from-onnxruntime-training: run C++" new_lines "$DIR/cpp"
check "C and C++ export the same bytes" cmp "$DIR/by-c.onnx" "$DIR/from-onnxruntime-training/inference.onnx"
check "no other page has C" test "$(grep -lx '```c' docs/guide/from-*.md | wc -l)" = 4
# Options that the tables name are there.
{ for c in train eval launch; do "$dpexec" $c --help; done; "$graph_transform" --help; } >"$DIR/help.txt" 2>&1
gone=$(grep -v '^    torchrun' docs/guide/from-*.md | grep -ohE -- '--[a-z]+[a-z-]*' | sort -u | while read -r flag; do
    grep -qE -- "(^|[^a-z-])$flag([^a-z-]|\$)" "$DIR/help.txt" || echo "$flag"
done)
check "options that the pages name are there: $gone" test -z "$gone"
finish
