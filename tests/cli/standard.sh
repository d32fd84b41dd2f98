#!/bin/bash
# --standard: a step in ONNX's own operators, run by the interpreter, which knows nothing of where it came from, against numpy.
. "$(dirname "$0")/lib.sh"
python=${PYTHON:-/usr/bin/python3}

# step NAME MODEL OPTIONS...
step() {
    local name=$1 model=$2
    shift 2
    check "$name" "$graph_transform" "$model" --standard -o "$DIR/$name.onnx" "$@"
}
step sgd models/mlp.onnx --loss cross-entropy --lr 0.1 --momentum 0.9
check "five steps are numpy's" "$python" tests/cli/standard.py "$DIR" "$dpexec" tests/oracle/data/digits.npz

for model in fashion_cnn transformer; do
    step $model models/$model.onnx --loss cross-entropy --optimizer adamw --clip-norm 1
    check "$model: ONNX's operators alone" "$python" -c "
import onnx
model = onnx.load('$DIR/$model.onnx')
assert not any(n.domain for n in model.graph.node) and [o.domain for o in model.opset_import] == ['']"
done
check "one size, that is asked for" "$graph_transform" models/mlp.onnx --loss cross-entropy --batch-size 8 --standard -o "$DIR/eight.onnx"
check "is in the file" "$python" -c "
import onnx
inputs = onnx.load('$DIR/eight.onnx').graph.input
assert [[d.dim_value for d in i.type.tensor_type.shape.dim] for i in inputs[:2]] == [[8, 64], [8]]"
check "a mean over pairs of samples" "$python" -c "
import onnx.parser
onnx.save(onnx.helper.make_model(onnx.parser.parse_graph('''
g (float[N,4] x) => (float y) <float[4,4] w = {1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16}> {
    h = MatMul(x, w)
    t = Transpose<perm=[1,0]>(h)
    all = MatMul(h, t)
    y = ReduceMean<keepdims=0>(all)
}'''), opset_imports=[onnx.helper.make_opsetid('', 17)]), '$DIR/pairs.onnx')"
refused 1 "follow the batch size by no known function (give --batch-size to write a graph of one size): " \
    "$graph_transform" "$DIR/pairs.onnx" --gradient-of y --with-respect-to w -o "$DIR/none.onnx"
check "of one size" "$graph_transform" "$DIR/pairs.onnx" --batch-size 4 --gradient-of y --with-respect-to w -o "$DIR/pairs4.onnx"
check "labels that count samples" "$python" tests/cli/standard_pairs.py make "$DIR/self.onnx"
check "of any size" "$graph_transform" "$DIR/self.onnx" --gradient-of loss --with-respect-to w -o "$DIR/self_gradients.onnx"
check "are numpy's" "$python" tests/cli/standard_pairs.py check "$DIR/self_gradients.onnx" "$dpexec"
check "a sixth" "$python" -c "
import onnx.parser
onnx.save(onnx.helper.make_model(onnx.parser.parse_graph('''
g (float[N,4] x) => (float[N,4] y) { y = HardSigmoid<alpha=0.16666667, beta=0.5>(x) }'''), opset_imports=[onnx.helper.make_opsetid('', 17)]), '$DIR/sixth.onnx')"
check "in float64" "$graph_transform" "$DIR/sixth.onnx" --dtype float64 --gradient-of y --with-respect-to x -o "$DIR/sixth64.onnx"
check "is a constant, for attributes are float32" "$python" -c "
import onnx.numpy_helper
graph = onnx.load('$DIR/sixth64.onnx').graph
assert any((onnx.numpy_helper.to_array(t) == 1 / 6).any() for t in graph.initializer) and all(n.op_type != 'HardSigmoid' for n in graph.node)"
for precision in fp16 bf16; do
    for model in fashion_cnn transformer; do
        check "$model in $precision" "$graph_transform" models/$model.onnx --loss cross-entropy --precision $precision --standard \
            -o "$DIR/$precision.onnx"
    done
done
check "a grid" "$python" -c "
import onnx.parser
onnx.save(onnx.helper.make_model(onnx.parser.parse_graph('''
g (float[N,1,4,4] x, float[N,2,2,2] grid) => (float[N,1,2,2] y) { y = GridSample<mode=\"bicubic\">(x, grid) }'''), opset_imports=[onnx.helper.make_opsetid('', 17)]), '$DIR/grid.onnx')"
check "its gradients" "$graph_transform" "$DIR/grid.onnx" --gradient-of y --with-respect-to x,grid -o "$DIR/none.onnx"
for opset in 17 22; do
    check "maxima of regions, determinants" "$python" tests/cli/standard_maxima.py make "$DIR/maxima.onnx" $opset
    check "their gradients" "$graph_transform" "$DIR/maxima.onnx" --dtype float64 --gradient-of y --with-respect-to x -o "$DIR/maxima_gradients.onnx"
    check "are differences, opset $opset" "$python" tests/cli/standard_maxima.py check "$DIR/maxima_gradients.onnx" "$dpexec"
done
check "linear attention" "$python" tests/cli/standard_attention.py make "$DIR/linear.onnx"
check "is loops over its positions" "$graph_transform" "$DIR/linear.onnx" --gradient-of y --with-respect-to q,k,v,s,g,b -o "$DIR/linear_gradients.onnx"
check "which are numpy's" "$python" tests/cli/standard_attention.py check "$DIR/linear_gradients.onnx" "$dpexec"
check "what cannot be written" "$python" -c "
import onnx.parser
onnx.save(onnx.helper.make_model(onnx.parser.parse_graph('''
g (float[2,1,257,257] x) => (float[M] y) <float[2,4] regions = {0,0,8,8,4,4,30,30},
    int64[2] which = {0, 1}, int64[1] all = {-1}> {
    d = Det(x)
    a = RoiAlign<mode=\"max\", output_height=8, output_width=8, sampling_ratio=4096>(x, regions, which)
    d1 = Reshape(d, all)
    a1 = Reshape(a, all)
    y = Concat<axis=0>(d1, a1) }'''), opset_imports=[onnx.helper.make_opsetid('', 17)]), '$DIR/unwritten.onnx')"
for of in Det_0 RoiAlign_1; do    # all of them at once
    refused 1 "gradient of $of (output " "$graph_transform" "$DIR/unwritten.onnx" --batch-size 2 --gradient-of y --with-respect-to x -o "$DIR/none.onnx"
done
check "dropout" "$graph_transform" models/exported_resnet.onnx --loss cross-entropy --batch-size 4 --standard -o "$DIR/dropout.onnx"

refused 2 "--standard writes a training step: give --loss" "$graph_transform" models/mlp.onnx --standard -o "$DIR/none.onnx"
refused 2 "--standard: expected -o FILE.onnx" "$graph_transform" models/mlp.onnx --loss cross-entropy --standard
refused 2 "--standard writes a whole step: it does not go with: --until" "$graph_transform" models/mlp.onnx --loss cross-entropy --standard \
    --until dce -o "$DIR/none.onnx"
refused 2 "the step of one replica, found 2" "$graph_transform" models/mlp.onnx --loss cross-entropy --standard --batch-size 8 --replicas 2 \
    -o "$DIR/none.onnx"
gradients=("$graph_transform" models/mlp.onnx)
check "gradients" "${gradients[@]}" --gradient-of logits --with-respect-to x --with-respect-to fc1.weight -o "$DIR/gradients.onnx"
check "gradients are numpy's" "$python" tests/cli/standard_gradients.py "$DIR" "$dpexec" tests/oracle/data/digits.npz
refused 2 "--gradient-of scores: the model has no output of that name" "${gradients[@]}" --gradient-of scores --with-respect-to x -o "$DIR/none.onnx"
refused 2 "'y' is neither" "${gradients[@]}" --gradient-of logits --with-respect-to x,y -o "$DIR/none.onnx"
refused 2 "give --with-respect-to NAME" "${gradients[@]}" --gradient-of logits -o "$DIR/none.onnx"
refused 2 "--with-respect-to: give --gradient-of OUTPUT" "${gradients[@]}" --with-respect-to x -o "$DIR/none.txt"
refused 2 "expected -o FILE.onnx" "${gradients[@]}" --gradient-of logits --with-respect-to x -o "$DIR/none.txt"

finish
