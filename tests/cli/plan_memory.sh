#!/bin/bash
# What planning may take: a model whose constants fold to more than --plan-memory is refused by a line that names the flag and the node,
# by graph-transform, --dry-run and a run alike; with more room it is planned.
. "$(dirname "$0")/lib.sh"
check "models" "${PYTHON:-/usr/bin/python3}" - "$DIR" <<'PY'
import sys, numpy as np, onnx
from onnx import helper as h, numpy_helper as nh, TensorProto as T
nodes, last = [], "x"
for i in range(16):         # each a constant of 16 MB
    one = nh.from_array(np.array([i + 1], np.float32))
    nodes += [h.make_node("ConstantOfShape", ["shape"], [f"c{i}"], f"fill{i}", value=one), h.make_node("Add", [last, f"c{i}"], [f"p{i}"])]
    last = f"p{i}"
g = h.make_graph(nodes, "folds", [h.make_tensor_value_info("x", T.FLOAT, ["n", 1])], [h.make_tensor_value_info(last, T.FLOAT, None)],
                 [nh.from_array(np.array([1, (1 << 22) - 1], np.int64), "shape")])
onnx.save(h.make_model(g, opset_imports=[h.make_opsetid("", 17)], ir_version=8), sys.argv[1] + "/folds.onnx")
g = h.make_graph([h.make_node("MatMul", ["x", "x"], ["y"], "products")], "batches", [h.make_tensor_value_info("x", T.FLOAT, ["n", 1, 1])],
                 [h.make_tensor_value_info("y", T.FLOAT, None)])
onnx.save(h.make_model(g, opset_imports=[h.make_opsetid("", 17)], ir_version=8), sys.argv[1] + "/batches.onnx")
np.save(sys.argv[1] + "/x.npy", np.ones((1, 1), np.float32))
PY
says="planning needs more memory than --plan-memory allows: 100.000 MB"
refused 1 "$says" "$graph_transform" "$DIR/folds.onnx" --batch-size 1 --plan-memory 100M -o "$DIR/folds.txt"
check "the pass and the node are named" grep -q "pass fold-constants: ConstantOfShape fill" "$DIR/refused.err"
check "nothing is written" test ! -e "$DIR/folds.txt"
refused 1 "$says" "$dpexec" run "$DIR/folds.onnx" --input "x=$DIR/x.npy" --plan-memory 100M --dry-run --out "$DIR/out"
refused 1 "$says" "$dpexec" run "$DIR/folds.onnx" --input "x=$DIR/x.npy" --plan-memory 100000k --out "$DIR/out"
check "within a GB" "$graph_transform" "$DIR/folds.onnx" --batch-size 1 --plan-memory 1G --until fold-constants -o "$DIR/folds.onnx.onnx"
# What kernels prepare for a shape: a place for each of 2^29 products.
refused 1 "1.000 GB allowed" "$dpexec" run "$DIR/batches.onnx" --input "x=$DIR/x.npy" --batch-size 536870912 --plan-memory 1G --dry-run \
    --out "$DIR/out"
check "the flag is named" grep -q "planning needs more memory than --plan-memory allows" "$DIR/refused.err"
train=("$dpexec" models/mlp.onnx --data tests/oracle/data/digits.npz --loss cross-entropy --steps 1 --threads 1)
refused 1 "planning needs more memory than --plan-memory allows: 10.000 kB" "${train[@]}" --plan-memory 10k
check "a small model in 20 MB" "${train[@]}" --plan-memory 20M
for wrong in "" 0 -1 5X 1e3 10000000T 99999999999999999999; do
    refused 2 "--plan-memory: expected a number of bytes" "${train[@]}" --plan-memory "$wrong"
done
finish
