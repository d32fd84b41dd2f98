#!/bin/bash
# Batch-norm of every rank, with and without affine, on parts that are uneven, empty or of one value; how many samples each replica has.
. "$(dirname "$0")/lib.sh"
python=${PYTHON:-/usr/bin/python3}

check "models and data" "$python" - "$DIR" <<'PY'
import sys

import numpy as np
import onnx
from onnx import TensorProto as T
from onnx import helper as h
from onnx import numpy_helper as nh

rng = np.random.default_rng(1)


def save(shape, affine):
    """Scale and bias of a module without affine are Constant nodes, as PyTorch's exporter writes them."""
    channels, name = shape[1], f"{len(shape)}{'affine' if affine else 'plain'}"
    arrays = {"bn.running_mean": rng.normal(size=channels), "bn.running_var": rng.uniform(0.5, 2, channels),
              "head.weight": rng.normal(size=(int(np.prod(shape[1:])), 3))}
    scale = {"bn.weight": rng.uniform(0.5, 1.5, channels), "bn.bias": rng.normal(size=channels)} if affine else {
        "ones": np.ones(channels), "zeros": np.zeros(channels)}
    nodes = [] if affine else [h.make_node("Constant", [], [n], value=nh.from_array(a)) for n, a in scale.items()]
    nodes += [h.make_node("BatchNormalization", ["x", *scale, "bn.running_mean", "bn.running_var"], ["b"], name="bn"), h.make_node("Tanh", ["b"], ["t"]),
              h.make_node("Flatten", ["t"], ["f"]), h.make_node("MatMul", ["f", "head.weight"], ["y"])]
    inits = [nh.from_array(a, n) for n, a in {**arrays, **(scale if affine else {})}.items()]
    graph = h.make_graph(nodes, name, [h.make_tensor_value_info("x", T.DOUBLE, shape)], [h.make_tensor_value_info("y", T.DOUBLE, ["N", 3])], inits)
    model = h.make_model(graph, producer_name="pytorch", opset_imports=[h.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model, full_check=True)
    onnx.save(model, f"{sys.argv[1]}/{name}.onnx")


for shape in (["N", 4], ["N", 4, 3], ["N", 4, 3, 2], ["N", 4, 3, 2, 2], ["N", 4, 3, 2, 1, 2]):
    save(shape, True)
    save(shape, False)
for n in (1, 2):
    np.savez(f"{sys.argv[1]}/{n}.npz", x=rng.normal(size=(n, 4)), target=rng.normal(size=(n, 3)))
PY
for rank in 2 3 4 5 6; do
    for kind in affine plain; do
        check "rank $rank, $kind" "$graph_transform" "$DIR/$rank$kind.onnx" --loss mse --batch-size 7 --replicas 4 --verify
        check "rank $rank, $kind, empty parts" "$graph_transform" "$DIR/$rank$kind.onnx" --loss mse --batch-size 3 --replicas 5 --verify
    done
    says "trains $((4 * 3 * (rank < 3 ? 1 : rank < 4 ? 3 : rank < 5 ? 6 : 12))) parameters in 1 tensor; 2 constants are fixed" \
        "$graph_transform" "$DIR/${rank}plain.onnx" --parameters
done

# One value per channel has no variance where it is all there is; a part of one value does.
train=("$dpexec" train "$DIR/2affine.onnx" --loss mse --batch-size 2 --steps 2 --quiet)
for replicas in 1 2 3; do
    refused 1 "the whole batch has one value per channel" "${train[@]}" --data "$DIR/1.npz" --replicas $replicas
    check "the node is named once" test "$(grep -o 'BatchNormMerge bn' "$DIR/refused.err" | wc -l)" = 1
    check "two values" "${train[@]}" --data "$DIR/2.npz" --replicas $replicas
done

# torch.chunk's parts.
parts() { "$graph_transform" "$DIR/2affine.onnx" --loss mse --batch-size $1 --replicas 4 --split chunk --report; }
says "batch of 5 over 4 replicas: 2 2 1 0" parts 5
says "batch of 3 over 4 replicas: 1 1 1 0" parts 3
says "batch of 10 over 4 replicas: 3 3 3 1" parts 10
finish
