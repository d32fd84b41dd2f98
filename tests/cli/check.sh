#!/bin/bash
# dpexec check: the official tests of ONNX, of which the number that passes may only rise, and what it says of golden data that is
# wrong, damaged, unsupported or endless.
. "$(dirname "$0")/lib.sh"

data=$(sed -n 's/^DPX_ONNX_TESTDATA[^=]*=//p' "$build/CMakeCache.txt")
# How many pass of those of the version of ONNX that Debian has; how many of them without the interpreter; how many pass with it alone.
version=$(/usr/bin/python3 -c 'import onnx; print(".".join(onnx.__version__.split(".")[:2]))')
case $version in
1.12) passed=1062 planned=1014 interpreted=1062 ;;      # Debian 12
1.17) passed=1390 planned=1324 interpreted=1390 ;;      # Debian 13
*) fail "how many tests of ONNX $version pass is not known here" passed=0 planned=0 interpreted=0 ;;
esac

# counts FILE: "PASSED PLANNED", and the folders that fail, sorted.
counts() { python3 -c 'import json, sys; j = json.load(open(sys.argv[1])); print(j["passed"], j["planned"])' "$1"; }
failures() {
    python3 -c 'import json, os, sys
for t in json.load(open(sys.argv[1]))["tests"]:
    if t["outcome"] == "failed": print(os.path.basename(t["folder"]))' "$1" | sort
}

"$dpexec" check "$data" --training --quiet --json "$DIR/all.json" >"$DIR/all.log" 2>&1
read -r p q <<<"$(counts "$DIR/all.json")"
check "$p official tests pass, at least $passed" test "$p" -ge $passed
check "$q of them are planned, at least $planned" test "$q" -ge $planned
"$dpexec" check "$data" --training --quiet --interpreter --json "$DIR/interpreted.json" >"$DIR/interpreted.log" 2>&1
read -r p q <<<"$(counts "$DIR/interpreted.json")"
check "$p official tests pass in the interpreter, at least $interpreted" test "$p" -ge $interpreted
check "of them none is planned" test "$q" = 0
/usr/bin/python3 docs/reference/operators.py "$graph_transform" "$DIR/all.json" >"$DIR/operators.md"
# The last column and the list behind the table count tests of Debian 12.
page() { if [ "$version" = 1.12 ]; then cat "$1"; else sed -E "/^The file's reader/,\$d; /^\| [A-Z][A-Za-z0-9]* \| [0-9]/s/[^|]*\|\$//" "$1"; fi; }
check "docs/reference/operators.md is what docs/reference/operators.py writes" diff <(page docs/reference/operators.md) <(page "$DIR/operators.md")
awk -v version="$version" '/^test_/ && ("," $2 ",") ~ ("," version ",") { print $1 }' tests/cli/check/differ.txt | sort >"$DIR/known"
failures "$DIR/all.json" >"$DIR/found"
failures "$DIR/interpreted.json" >"$DIR/found_interpreted"
check "no other fails" diff "$DIR/known" "$DIR/found"
check "no other fails in the interpreter" diff "$DIR/known" "$DIR/found_interpreted"

# passes SCRIPT WHAT: the folders that tests/cli/check/SCRIPT makes, by both paths.
passes() {
    mkdir "$DIR/folders"
    /usr/bin/python3 "tests/cli/check/$1" "$DIR/folders"
    for how in "" --interpreter; do
        check "$2${how:+, }$how" "$dpexec" check "$DIR/folders" $how
    done
    rm -r "$DIR/folders"
}
passes made.py "made data"                      # what NumPy computes
passes edges.py "edges of definitions"          # worked out, and compared with ONNX Runtime when the script is asked to
# Numbers out of range: one line for each, which has the words that stand in its folder; then the counts and the verdict.
mkdir "$DIR/hostile"
/usr/bin/python3 tests/cli/check/hostile.py "$DIR/hostile"
for how in "" --interpreter; do
    "$dpexec" check "$DIR/hostile" --plan-memory 100M --timeout 300 --verbose $how >"$DIR/said" 2>&1
    check "a line for each of what is out of range${how:+, }$how" test "$(wc -l <"$DIR/said")" = $(($(find "$DIR/hostile" -name words | wc -l) + 2))
    check "70 of them${how:+, }$how" grep -qx "0 passed (0 planned throughout), 70 failed, 0 unsupported" "$DIR/said"
    for m in "$DIR"/hostile/*; do
        if grep -E "^(FAILED|unsupported): $m: " "$DIR/said" | grep -qF -- "$(cat "$m/words")"; then pass; else
            fail "expected '$(cat "$m/words")'${how:+, }$how: $m"
            grep -F "$m: " "$DIR/said"
        fi
    done
done
rm -r "$DIR/hostile"
# What data decide: as Python and, when the script is asked to, ONNX Runtime compute it.
mkdir "$DIR/dynamic"
/usr/bin/python3 tests/cli/check/dynamic.py "$DIR/dynamic"
for how in "" --interpreter; do
    check "control flow, sequences and shapes by data${how:+, }$how" "$dpexec" check "$DIR/dynamic" $how
done
# The same by dpexec run.
/usr/bin/python3 - "$DIR/dynamic" <<'END2'
import sys
import numpy as np, onnx
from onnx import numpy_helper
for name in ("loop_17_100_50", "loop_sequence"):
    path = sys.argv[1] + "/" + name
    model = onnx.load(path + "/model.onnx")
    for i, v in enumerate(model.graph.input):
        t = onnx.TensorProto(); t.ParseFromString(open("%s/test_data_set_0/input_%d.pb" % (path, i), "rb").read())
        a = numpy_helper.to_array(t)
        np.save("%s/%s.npy" % (path, v.name), a.astype(np.float64) if a.dtype == np.float32 else a)
END2
m=$DIR/dynamic/loop_17_100_50
check "a loop by data" "$dpexec" run "$m/model.onnx" --input "x=$m/x.npy" --input "limit=$m/limit.npy" --input "m=$m/m.npy" --out "$m/out"
m=$DIR/dynamic/loop_sequence
check "a sequence of tensors by data" "$dpexec" run "$m/model.onnx" --input "x=$m/x.npy" --input "m=$m/m.npy" --out "$m/out"
check "what they give" /usr/bin/python3 - "$DIR/dynamic" <<'END2'
import sys
import numpy as np
m = sys.argv[1] + "/loop_17_100_50/"
x, numbers = np.load(m + "x.npy").astype(np.float32), np.load(m + "out/numbers.npy")
y = x * np.float32(2) ** len(numbers)
assert y.sum() >= 100 > y.sum() / 2 and np.array_equal(y, np.load(m + "out/y.npy")), numbers
m = sys.argv[1] + "/loop_sequence/"
x = np.load(m + "x.npy").astype(np.float32)
for i in range(4):
    assert np.array_equal(np.load(m + "out/y.%d.npy" % i), x[:i])
END2
refused 2 "input 'm' was not given" "$dpexec" run "$m/model.onnx" --input "x=$m/x.npy" --out "$m/out"
refused 1 "input 'm' is [5,2], expected []" "$dpexec" run "$m/model.onnx" --input "x=$m/x.npy" --input "m=$m/x.npy" --out "$m/out"
refused 2 "3 inputs are given, and the model has only 2 of them" "$dpexec" run "$m/model.onnx" --input "x=$m/x.npy" --input "m=$m/m.npy" --input "n=$m/m.npy" --out "$m/out"
rm -r "$DIR/dynamic"

# The mode that the file says, where it is asked for: golden data by dpexec run.
m=$data/node/test_batchnorm_example_training_mode
/usr/bin/python3 - "$m" "$DIR" <<'END2'
import sys
import numpy as np, onnx
from onnx import numpy_helper
m, out = sys.argv[1:]
for i, v in enumerate(onnx.load(m + "/model.onnx").graph.input):
    t = onnx.TensorProto(); t.ParseFromString(open("%s/test_data_set_0/input_%d.pb" % (m, i), "rb").read())
    np.save("%s/%s.npy" % (out, v.name), numpy_helper.to_array(t))
END2
inputs=()
for v in x s bias mean var; do inputs+=(--input "$v=$DIR/$v.npy"); done
check "running statistics unless asked for" "$dpexec" run "$m/model.onnx" "${inputs[@]}" --out "$DIR/inference"
check "the batch's with --training" "$dpexec" run "$m/model.onnx" "${inputs[@]}" --training --out "$DIR/training"
check "what both are" /usr/bin/python3 - "$DIR" <<'END2'
import sys
import numpy as np
load = lambda name: np.load("%s/%s.npy" % (sys.argv[1], name)).astype(np.float64)
x, s, b, mean, var = (load(v) for v in ("x", "s", "bias", "mean", "var"))
by = lambda m, v: (x - m.reshape(1, -1, 1, 1)) / np.sqrt(v.reshape(1, -1, 1, 1) + 1e-5) * s.reshape(1, -1, 1, 1) + b.reshape(1, -1, 1, 1)
assert np.allclose(load("inference/y"), by(mean, var), atol=1e-5)
assert np.allclose(load("training/y"), by(x.mean((0, 2, 3)), x.var((0, 2, 3))), atol=1e-5)
assert np.allclose(load("training/output_var"), 0.9 * var + 0.1 * x.var((0, 2, 3)), atol=1e-5)
END2
refused 2 "--training is for run and check" "$graph_transform" "$m/model.onnx" --training --loss mse --batch-size 2

# Strings, by Python; what of them is refused says so by the words that the folder is called.
mkdir "$DIR"/{strings,refused}
/usr/bin/python3 tests/cli/check/strings.py "$DIR/strings" "$DIR/refused"
for how in "" --interpreter; do
    check "strings${how:+, }$how" "$dpexec" check "$DIR/strings" $how
    "$dpexec" check "$DIR/refused" --plan-memory 100M --timeout 300 --verbose $how >"$DIR/said" 2>&1
    for m in "$DIR"/refused/*; do
        words=$(basename "$m")
        check "refused${how:+, }$how: $words" grep -qE "^(FAILED|unsupported): $DIR/refused/[^:]*: .*: .*$(sed 's/[][().+]/\\&/g' <<<"${words% }")" "$DIR/said"
    done
done
check "twenty of them" test "$(find "$DIR/refused" -name model.onnx | wc -l)" = 20
m=$DIR/strings/classifier
"$dpexec" check "$m" --verbose >"$DIR/said"
refused 1 "string tensors are supported only by the interpreter, without training" "$dpexec" "$m/model.onnx" --data tests/oracle/data/digits.npz --loss mse
refused 1 "string tensors are supported only by the interpreter, without training" "$graph_transform" "$m/model.onnx"
/usr/bin/python3 - "$DIR" <<'END2'
import sys
import numpy as np
np.save(sys.argv[1] + "/words.npy", np.array([["The", "CAT"]]))
np.save(sys.argv[1] + "/swapped.npy", np.array([["The", "CAT"]]).astype(">U3"))
np.save(sys.argv[1] + "/columns.npy", np.asfortranarray([["ab", "c"], ["日本", ""]]))
np.save(sys.argv[1] + "/more.npy", np.array(["é\0x", "", "\U0001f600", "a", "bc", "def", " "]))
np.save(sys.argv[1] + "/one.npy", np.array(["\0ß"]))
END2
for words in words swapped; do
    check "dpexec run, $words" "$dpexec" run "$m/model.onnx" --input "x0=$DIR/$words.npy" --out "$DIR/ran" --quiet
    check "what it wrote" /usr/bin/python3 -c '
import sys
import numpy as np
y0, y1 = (np.load("%s/ran/y%d.npy" % (sys.argv[1], i)) for i in range(2))
assert y0.tolist() == [[12, 15, 18]] and y1.tolist() == [["12", "15", "18"]] and y1.dtype == "<U2"' "$DIR"
done
check "dpexec run on other strings" "$dpexec" run "$DIR/strings/concat/model.onnx" --input "x0=$DIR/more.npy" --input "x1=$DIR/one.npy" --out "$DIR/ran" --quiet
check "what that wrote" /usr/bin/python3 -c '
import sys
import numpy as np
x = np.load(sys.argv[1] + "/more.npy")
assert np.load(sys.argv[1] + "/ran/y0.npy").tolist() == [s + "\0ß" for s in x.tolist()]' "$DIR"
refused 1 "columns.npy: strings in Fortran order" "$dpexec" run "$m/model.onnx" --input "x0=$DIR/columns.npy" --out "$DIR/ran" --quiet
rm -r "$DIR/strings" "$DIR/refused"
# Gradients that a file asks for, in closed form.
mkdir "$DIR/gradients"
/usr/bin/python3 tests/cli/check/gradients.py "$DIR/gradients"
for how in "" --interpreter; do
    check "gradients${how:+, }$how" "$dpexec" check "$DIR/gradients" $how
done
refused 1 "a model that computes gradients itself is trained by its training_info: give --optimizer file" "$graph_transform" \
    "$DIR/gradients/held/model.onnx" --loss output:dv --batch-size 3 --report

# Types of 8 bits and fewer, by their definition.
mkdir "$DIR/small"
/usr/bin/python3 tests/cli/check/small.py "$DIR/small"
for how in "" --interpreter; do
    check "small types${how:+, }$how" "$dpexec" check "$DIR/small" $how
done
/usr/bin/python3 - "$DIR/small/from_21_0" <<'END2'
import sys
import onnx
path = sys.argv[1] + "/test_data_set_0/input_0.pb"
t = onnx.TensorProto()
t.ParseFromString(open(path, "rb").read())
t.raw_data = t.raw_data[:-1]
open(path, "wb").write(t.SerializeToString())
END2
mv "$DIR/small/from_21_0" "$DIR/short"
for kind in 17 22 23 25; do
    m=$DIR/small/Concat_$kind
    check "type $kind is written" "$graph_transform" "$m/model.onnx" -o "$m/model.onnx"
    check "type $kind as written" "$dpexec" check "$m"
done
rm -r "$DIR/small"

# Golden data of a user's own.
cp -rL "$data/node/test_softmax_axis_0" "$DIR/golden"
set=$DIR/golden/test_data_set_0
says "1 passed (1 planned throughout), 0 failed, 0 unsupported" "$dpexec" check "$DIR/golden/"
says "agrees: the folder computes what is expected" "$dpexec" check "$DIR/golden/"
says "passed: $DIR/golden" "$dpexec" check "$DIR/golden" --verbose
/usr/bin/python3 - "$set" "$DIR" <<'END2'
import sys
import numpy as np, onnx
from onnx import helper, numpy_helper
path, out = sys.argv[1:]
t = onnx.TensorProto(); t.ParseFromString(open(path + "/output_0.pb", "rb").read())
y = numpy_helper.to_array(t).copy()
y.flat[7] *= 1.002
open(path + "/output_0.pb", "wb").write(numpy_helper.from_array(y).SerializeToString())

import os
def model(name, nodes, inputs, outputs, x):
    folder = out + "/" + name
    os.makedirs(folder + "/test_data_set_0")
    onnx.save(helper.make_model(helper.make_graph(nodes, name, inputs, outputs), opset_imports=[helper.make_opsetid("", 17)]), folder + "/model.onnx")
    for i, a in enumerate(x):
        open("%s/test_data_set_0/input_%d.pb" % (folder, i), "wb").write(numpy_helper.from_array(a).SerializeToString())
f = lambda n, s: helper.make_tensor_value_info(n, 1, s)
model("unknown", [helper.make_node("NoSuchOperator", ["x"], ["y"])], [f("x", [2])], [f("y", [2])], [np.ones(2, np.float32)])
model("no_output", [helper.make_node("Relu", ["x"], ["y"])], [f("x", [2])], [f("y", [2])], [np.ones(2, np.float32)])
body = helper.make_graph([helper.make_node("Add", ["v", "v"], ["w"]), helper.make_node("Identity", ["c"], ["go"])], "body",
    [helper.make_tensor_value_info("i", 7, []), helper.make_tensor_value_info("c", 9, []), f("v", None)], [helper.make_tensor_value_info("go", 9, []), f("w", None)])
model("endless", [helper.make_node("Not", ["no"], ["yes"]), helper.make_node("Loop", ["", "yes", "x"], ["y"], body=body)],
    [f("x", [2]), helper.make_tensor_value_info("no", 9, [])], [f("y", [2])], [np.ones(2, np.float32), np.array(False)])
const = lambda name, v: helper.make_node("Constant", [], [name], value=numpy_helper.from_array(np.array(v)))
huge = [helper.make_node("Cast", ["x"], ["d"], to=11), helper.make_node("ReduceMax", ["d"], ["most"], keepdims=0), const("million", 1e6), const("one", [1]), const("zero", 0), const("step", 1),
    helper.make_node("Mul", ["most", "million"], ["m"]), helper.make_node("Cast", ["m"], ["n"], to=7), helper.make_node("Reshape", ["n", "one"], ["k"]), helper.make_node("Concat", ["k", "k"], ["kk"], axis=0),
    const("none", [0])]
bombs = {
    "range": [const("hundred", 100), helper.make_node("Mul", ["n", "hundred"], ["nn"]), helper.make_node("Range", ["zero", "nn", "step"], ["y"])],
    "tile": [helper.make_node("Tile", ["u", "kk"], ["y"])],
    "expand": [helper.make_node("Expand", ["most", "kk"], ["y"])],
    "constant": [helper.make_node("ConstantOfShape", ["kk"], ["y"])],
    "pad": [helper.make_node("Concat", ["none", "none", "kk"], ["p"], axis=0), helper.make_node("Pad", ["u", "p"], ["y"])],
    "resize": [helper.make_node("Resize", ["u", "", "", "kk"], ["y"])],
}
for name, nodes in bombs.items():
    model("bomb_" + name, huge + [helper.make_node("Unsqueeze", ["x", "none"], ["u"])] + nodes, [f("x", [200])], [helper.make_tensor_value_info("y", 7 if name == "range" else 1, None)],
        [np.full(200, 4, np.float32)[:200]])
# Shapes that no data decide; and trips that a plan would have to unroll.
fixed = [const("large", 1 << 13), const("wide", [1 << 13, 1 << 13]), const("u", np.float32([[4]])), const("none", [0]), const("zero", 0), const("one", 1)]
planned = {
    "range": [const("limit", 1 << 26), helper.make_node("Range", ["zero", "limit", "one"], ["r"]), helper.make_node("Cast", ["r"], ["w"], to=1)],
    "tile": [helper.make_node("Tile", ["u", "wide"], ["w"])],
    "expand": [helper.make_node("Expand", ["u", "wide"], ["w"])],
    "constant": [helper.make_node("ConstantOfShape", ["wide"], ["w"])],
    "pad": [const("p", [0, 0, 1 << 13, 1 << 13]), helper.make_node("Pad", ["u", "p"], ["w"])],
    "resize": [helper.make_node("Resize", ["u", "", "", "wide"], ["w"])],
}
for name, nodes in planned.items():
    model("bomb_fixed_" + name, fixed + nodes + [helper.make_node("ReduceMax", ["x"], ["most"], keepdims=0), helper.make_node("Mul", ["w", "most"], ["y"])],
        [f("x", [200])], [f("y", None)], [np.full(200, 4, np.float32)])
def repeated(inner, name):
    names = [name + n for n in ("i", "c", "v", "go", "w")]
    return helper.make_graph(inner(names[2], names[4]) + [helper.make_node("Identity", [names[1]], [names[3]])], name,
        [helper.make_tensor_value_info(names[0], 7, []), helper.make_tensor_value_info(names[1], 9, []), f(names[2], None)],
        [helper.make_tensor_value_info(names[3], 9, []), f(names[4], None)])
trips = lambda level: lambda v, w: [helper.make_node("Add", [v, v], [w])] if not level else [
    helper.make_node("Loop", ["m", "yes", v], [w], body=repeated(trips(level - 1), "l%d" % level))]
model("bomb_trips", [const("m", 60), helper.make_node("Not", ["no"], ["yes"]), helper.make_node("Loop", ["m", "yes", "x"], ["y"], body=repeated(
    lambda v, w: [helper.make_node("Concat", [v, v], [w], axis=0)], "d"))],
    [f("x", [2]), helper.make_tensor_value_info("no", 9, [])], [f("y", None)], [np.ones(2, np.float32), np.array(False)])
model("nested", [const("m", 60), const("five", np.float32(5)), helper.make_node("ReduceMax", ["x"], ["most"], keepdims=0),
    helper.make_node("Greater", ["most", "five"], ["yes"])] + trips(4)("x", "y"), [f("x", [200])], [f("y", [200])], [np.ones(200, np.float32)])
open(out + "/nested/test_data_set_0/output_0.pb", "wb").write(numpy_helper.from_array(np.ones(200, np.float32)).SerializeToString())
f_ = helper.make_function("local", "F", ["u"], ["v"], [helper.make_node("F", ["u"], ["v"], domain="local")], [helper.make_opsetid("local", 1)])
model("recursive", [helper.make_node("Relu", ["x"], ["y"])], [f("x", [2])], [f("y", [2])], [np.ones(2, np.float32)])
onnx.save(helper.make_model(helper.make_graph([helper.make_node("F", ["x"], ["y"], domain="local")], "recursive", [f("x", [2])], [f("y", [2])]),
    functions=[f_], opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("local", 1)]), out + "/recursive/model.onnx")
model("bomb_doubling", [helper.make_node("Not", ["no"], ["yes"]), helper.make_node("Loop", ["", "yes", "x"], ["y"], body=helper.make_graph(
    [helper.make_node("Concat", ["v", "v"], ["w"], axis=0), helper.make_node("Identity", ["c"], ["go"])], "body",
    [helper.make_tensor_value_info("i", 7, []), helper.make_tensor_value_info("c", 9, []), f("v", None)], [helper.make_tensor_value_info("go", 9, []), f("w", None)]))],
    [f("x", [2]), helper.make_tensor_value_info("no", 9, [])], [f("y", None)], [np.ones(2, np.float32), np.array(False)])
model("other_type", [helper.make_node("Relu", ["x"], ["y"])], [f("x", [2])], [f("y", [2])], [np.ones(2, np.float64)])
END2
# expect STATUS TEXT ARGUMENT...: within 20 s of a processor's time, which other work does not lengthen.
expect() { local want=$1 text=$2; shift 2
    (ulimit -t 20 && exec "$dpexec" check "$@") >"$DIR/said" 2>&1
    local status=$?
    if [ $status = "$want" ] && grep -qF -- "$text" "$DIR/said"; then pass; else fail "exit $status, expected $want and '$text': $*"; cat "$DIR/said"; fi
}
expect 1 "FAILED: $DIR/golden: test_data_set_0: output 'y': 1 of 60 elements differ, first number 7: " "$DIR/golden"
expect 1 "0 passed (0 planned throughout), 1 failed, 0 unsupported" "$DIR/golden"
echo '{"rtol": 0.01}' >"$DIR/golden/data.json"
expect 0 "1 passed" "$DIR/golden"
for kind in input output; do
    more=${kind}_$(find "$set" -name "${kind}_*.pb" | wc -l).pb
    cp "$set/${kind}_0.pb" "$set/$more"
    expect 1 "FAILED: $DIR/golden: test_data_set_0: there is $more, and the model has" "$DIR/golden"
    expect 1 "test_data_set_0: there is $more" "$DIR/golden" --interpreter
    rm "$set/$more"
done
mkdir -p "$DIR/several/whole" "$DIR/several/without/test_data_set_0"
cp -r "$DIR/golden/." "$DIR/several/whole"
expect 1 "FAILED: $DIR/several/without: $DIR/several/without/model.onnx: No such file or directory" "$DIR/several"
rm -r "$DIR/several"
echo '{"rtol": "much"}' >"$DIR/golden/data.json"
expect 1 "data.json: rtol: expected a number from 0" "$DIR/golden"
echo '{"rtol": 0.01' >"$DIR/golden/data.json"
expect 1 "data.json:" "$DIR/golden"
rm "$DIR/golden/data.json"
truncate -s 20 "$set/output_0.pb"
expect 1 "FAILED: $DIR/golden: $set/output_0.pb" "$DIR/golden"
expect 0 "0 passed (0 planned throughout), 0 failed, 1 unsupported" "$DIR/unknown"
expect 0 "undecided: dpexec supports none of the folders" "$DIR/unknown"
expect 0 "unsupported: $DIR/unknown" "$DIR/unknown" --verbose
expect 1 "output_0.pb" "$DIR/no_output"
expect 1 "raw_data of 7 bytes, expected 8" "$DIR/short"
expect 1 "input 'x' is float64, expected float32" "$DIR/other_type"
expect 1 "0 passed (0 planned throughout), 3 failed, 1 unsupported" "$DIR"/{golden,no_output,other_type,unknown}
rm -r "$DIR/unknown"
expect 1 "more than 300000 nodes (--max-nodes) with functions inlined and loops run" "$DIR/endless"
for how in "" --interpreter; do
    expect 1 "more than 100 nodes (--max-nodes)" "$DIR/endless" --max-nodes 100 $how
    expect 1 "function 'F' calls itself" "$DIR/recursive" --timeout 300 $how
    expect 0 "1 passed" "$DIR/nested" --timeout 300 $how
    # A signal ends one process (here that of its second of the processor): one failure, and the others run.
    (ulimit -S -t 1 && ulimit -c 0 && exec "$dpexec" check "$data/node/test_relu" "$DIR/endless" "$data/node/test_exp" $how \
        --max-nodes 1000000000 --plan-memory 4G --timeout 300 --verbose --json "$DIR/crash.json") >"$DIR/said" 2>&1
    status=$?
    check "a crash is one failure${how:+, }$how" test $status = 1
    check "what is said of it${how:+, }$how" diff "$DIR/said" - <<END2
passed: $data/node/test_relu
FAILED: $DIR/endless: crashed: CPU time limit exceeded
passed: $data/node/test_exp
2 passed ($([ "$how" ] && echo 0 || echo 2) planned throughout), 1 failed, 0 unsupported
differs: 1 of 3 folders failed
END2
    check "what is written of it${how:+, }$how" /usr/bin/python3 -c 'import json, sys
tests = json.load(open(sys.argv[1]))["tests"]
assert [t["outcome"] for t in tests] == ["passed", "failed", "passed"] and tests[1]["text"].startswith("crashed: "), tests' "$DIR/crash.json"
done
rm -r "$DIR/recursive" "$DIR/nested"
for bomb in "$DIR"/bomb_*; do
    rm -rf "$bomb/test_data_set_0/output_0.pb"
    for how in "" --interpreter; do
        expect 1 "--plan-memory allows: 100.000 MB allowed" "$bomb" --plan-memory 100M --timeout 300 $how
    done
    rm -r "$bomb"
done
mkfifo "$DIR/no_output/test_data_set_0/output_0.pb"
expect 1 "FAILED: $DIR/no_output" "$DIR/no_output" --timeout 1
refused 2 "expected a folder with model.onnx" "$dpexec" check "$build/CMakeFiles"
refused 1 "cannot be read" "$dpexec" check "$DIR/none"
refused 2 "--timeout" "$dpexec" check "$DIR/golden" --timeout 0
refused 1 "$DIR/none/x.json" "$dpexec" check "$DIR/golden" --json "$DIR/none/x.json"
finish
