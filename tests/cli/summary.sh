#!/bin/bash
# graph-transform --summary: layers, parameters, outputs and FLOPs are those of the file's own tensors.  Needs python3-onnx.
. "$(dirname "$0")/lib.sh"
python=${PYTHON:-/usr/bin/python3}
for model in resnet20 fashion_cnn; do
    check "$model" "$graph_transform" models/$model.onnx --summary --json
    cp "$DIR/check.log" "$DIR/$model.json"
    check "$model's layers" "$python" tests/cli/summary.py models/$model.onnx "$DIR/$model.json"
done
# 272,474 parameters are those of a ResNet-20 of He et al. 2015 ("0.27M") with projections at its two steps.
says "73 layers; 272,474 parameters, of which 272,474 are trained" "$graph_transform" models/resnet20.onnx --summary
says "of which 0 are trained" "$graph_transform" models/resnet20.onnx --summary --freeze '*'
"$python" - "$DIR" <<'PY'
# Scopes as PyTorch's exporter writes them.
import sys
import numpy as np
from onnx import TensorProto, helper as h, numpy_helper, save
w = [numpy_helper.from_array(np.ones((4, 4), "f"), f"layers.{i}.fc.weight") for i in range(3)]
nodes, x = [], "x"
for i in range(3):
    nodes += [h.make_node("MatMul", [x, w[i].name], [f"m{i}"], name=f"/layers/layers.{i}/fc/MatMul"),
              h.make_node("Tanh", [f"m{i}"], [f"t{i}"], name=f"/layers/layers.{i}/act/Tanh")]
    x = f"t{i}"
io = [h.make_tensor_value_info(n, TensorProto.FLOAT, ["N", 4]) for n in ("x", x)]
save(h.make_model(h.make_graph(nodes, "scopes", io[:1], io[1:], w), opset_imports=[h.make_opsetid("", 17)], ir_version=8), sys.argv[1] + "/scopes.onnx")
PY
layers() { "$graph_transform" "$DIR/scopes.onnx" --summary --json "$@" | "$python" -c "import json, sys; print(*(r['layer'] for r in json.load(sys.stdin)['layers']))"; }
check "whole names" test "$(layers)" = "layers.0.fc layers.0.act layers.1.fc layers.1.act layers.2.fc layers.2.act"
check "two components" test "$(layers --depth 2)" = "layers.0 layers.1 layers.2"
check "one" test "$(layers --depth 1)" = "layers"
says "MatMul + Tanh" "$graph_transform" "$DIR/scopes.onnx" --summary --depth 2
refused 2 "--depth N goes with --summary" "$graph_transform" models/mlp.onnx --depth 2
refused 2 "--summary prints a table and shows no graph: it does not go with: -o" "$graph_transform" models/mlp.onnx --summary -o "$DIR/x.svg"
finish
