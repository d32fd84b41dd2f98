#!/bin/bash
# Standard streams that are full or closed, and the name of the process.
. "$(dirname "$0")/lib.sh"
digits=tests/oracle/data/digits.npz
train=("$dpexec" models/mlp.onnx --data "$digits" --loss cross-entropy --batch-size 10 --steps 2 --threads 1 --quiet)
golden=$DIR/golden
mkdir -p "$golden/test_data_set_0"
"${PYTHON:-/usr/bin/python3}" - "$golden" <<'PY'
import sys
import numpy as np
from onnx import TensorProto, helper, numpy_helper, save
x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2])
y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [2])
save(helper.make_model(helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", [x], [y]),
                       opset_imports=[helper.make_opsetid("", 17)]), sys.argv[1] + "/model.onnx")
for name in ("input_0", "output_0"):
    open("%s/test_data_set_0/%s.pb" % (sys.argv[1], name), "wb").write(numpy_helper.from_array(np.ones(2, "f")).SerializeToString())
PY

# lost NAME COMMAND...: exit 1 and a line that says so, when standard output is full, and when it is closed.
lost() {
    local name=$1 status
    shift
    "$@" >/dev/full 2>"$DIR/said"
    status=$?
    check "$name, full: status $status" test $status = 1
    check "$name, full" grep -qE "^$(basename "$1"): (.*: )?(cannot write|.* could not be written)" "$DIR/said"
    "$@" >&- 2>"$DIR/said"
    status=$?
    check "$name, closed: status $status" test $status = 1
    check "$name, closed" grep -qE "^$(basename "$1"): (.*: )?(cannot write|.* could not be written)" "$DIR/said"
}
lost "version" "$dpexec" --version
lost "help" "$dpexec" --help
lost "help of a command" "$dpexec" eval --help
lost "a man page" "$dpexec" --man
lost "train" "${train[@]}"
lost "eval" "$dpexec" eval models/mlp.onnx --data "$digits" --loss cross-entropy --quiet
lost "check" "$dpexec" check "$golden"
lost "dry run" "${train[@]}" --dry-run
lost "devices" "$dpexec" devices
lost "launch" "$dpexec" launch -n 1 -- eval models/mlp.onnx --data "$digits" --loss cross-entropy --quiet
lost "passes" "$graph_transform" --list-passes
lost "operators" "$graph_transform" --list-operators
lost "version" "$graph_transform" --version
lost "a graph" "$graph_transform" models/mlp.onnx --batch-size 8
refused 2 "there is no option --bogus" "$dpexec" eval models/mlp.onnx --bogus

# What is meant for closed streams lands in no file of the run.
for closed in '<&- >&- 2>&-' '>&-' '2>&-' '<&-'; do
    rm -rf "$DIR/run"
    eval "\"\${train[@]}\" --val \"\$digits\" --eval-every 1 --out \"\$DIR/run\" $closed" 2>/dev/null
    check "metrics, $closed" "${PYTHON:-/usr/bin/python3}" -c 'import json, sys
lines = [json.loads(line) for line in open(sys.argv[1] + "/run/metrics.jsonl")]
assert [("loss" in one, one["step"]) for one in lines] == [(True, 1), (False, 1), (True, 2), (False, 2)], lines
json.load(open(sys.argv[1] + "/run/args.json"))' "$DIR"
    check "a model, $closed" "$graph_transform" "$DIR/run/model.onnx" --batch-size 8 --report
done

# A process is found by its name, whatever it was started as.
name_of() {     # of the process that the command becomes, once it reads the pipe
    local name
    mkfifo "$DIR/pipe.npy"
    "$@" >/dev/null 2>&1 &
    for ((i = 0; i < 200; i++)); do
        name=$(cat /proc/$!/comm 2>/dev/null)
        [ "$name" = dpexec ] && break
        sleep 0.05
    done
    kill $! 2>/dev/null
    wait $! 2>/dev/null
    rm "$DIR/pipe.npy"
    echo "$name"
}
check "the name of the process" test "$(name_of "${train[@]/#2/1000000}")" = dpexec
finish
