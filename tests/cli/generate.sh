#!/bin/bash
# dpexec generate and --sample-every: the likeliest tokens are those of ONNX Runtime, which computes all scores anew; draws repeat by their
# seed; writing changes no byte of a training.  ONNX Runtime is in BUILD_DIR/python: tests/interop/install.sh BUILD_DIR.
. "$(dirname "$0")/lib.sh"
if ! cmp -s tests/interop/requirements.txt "$build/python/requirements.txt"; then
    fail "no ONNX Runtime: tests/interop/install.sh $build installs it"
    finish
fi
python=$build/python/bin/python
"$python" - "$DIR" <<'PY'
# Two language models of 40 tokens and one layer of attention, whose length is fixed, and open with a mask and positions: scores [N,T,V], [N,V,T].
import sys
import numpy as np
from onnx import TensorProto as T, helper as h, numpy_helper, save

def model(name, length, extra):
    r = np.random.default_rng(2)
    init, nodes = {}, []
    for key, shape in (("wte", (40, 16)), ("wpe", (64, 16)), ("q", (16, 16)), ("k", (16, 16)), ("v", (16, 16)), ("head", (16, 40))):
        init[key] = (r.standard_normal(shape) * .8).astype("f")
    def op(kind, *inputs, **attributes):
        nodes.append(h.make_node(kind, list(inputs), [f"t{len(nodes)}"], **attributes))
        return nodes[-1].output[0]
    def constant(x):
        init[f"c{len(init)}"] = np.array(x)
        return f"c{len(init) - 1}"
    if extra:
        positions = "position_ids"
    else:
        shape = op("Shape", "tokens")
        positions = op("Range", constant(0), op("Gather", shape, constant(1)), constant(1))
    x = op("Add", op("Gather", "wte", "tokens"), op("Gather", "wpe", positions))
    q, k, v = (op("MatMul", x, w) for w in "qkv")
    a = op("MatMul", q, op("Transpose", k, perm=[0, 2, 1]))
    size = op("Gather", op("Shape", "tokens"), constant(1))
    line = op("Range", constant(0), size, constant(1))
    seen = op("LessOrEqual", op("Unsqueeze", line, constant([0])), op("Unsqueeze", line, constant([1])))
    a = op("Softmax", op("Where", seen, a, constant(np.float32(-1e9))), axis=-1)
    y = op("MatMul", op("Add", x, op("MatMul", a, v)), "head")
    if extra:
        y = op("Mul", y, op("Cast", op("Unsqueeze", "attention_mask", constant([2])), to=T.FLOAT))
        y = op("Transpose", y, perm=[0, 2, 1])
    nodes[-1].output[0] = "scores"
    inputs = [h.make_tensor_value_info(n, T.INT64, ["N", length]) for n in ["tokens"] + ["attention_mask", "position_ids"] * extra]
    out = h.make_tensor_value_info("scores", T.FLOAT, ["N", 40, length] if extra else ["N", length, 40])
    graph = h.make_graph(nodes, name, inputs, [out], [numpy_helper.from_array(x, k) for k, x in init.items()])
    save(h.make_model(graph, opset_imports=[h.make_opsetid("", 17)], ir_version=8), f"{sys.argv[1]}/{name}.onnx")

def spelled(name, opset=17):
    """Tokens [1,T] to scores, in other spellings of attention, and with what no cache of keys and values allows."""
    r = np.random.default_rng(3)
    init, nodes = {}, []
    def weight(*shape):
        init[f"w{len(init)}"] = (r.standard_normal(shape) * .7).astype("f")
        return f"w{len(init) - 1}"
    def constant(x):
        init[f"c{len(init)}"] = np.array(x)
        return f"c{len(init) - 1}"
    def op(kind, *inputs, **attributes):
        nodes.append(h.make_node(kind, [i if isinstance(i, str) else constant(i) for i in inputs], [f"t{len(nodes)}"], **attributes))
        return nodes[-1].output[0]
    size = op("Gather", op("Shape", "tokens"), 1)
    line = op("Range", 0, size, 1)
    x = op("Gather", weight(40, 16), "tokens")
    if name == "turned":        # counts positions from the end
        x = op("Add", x, op("Gather", weight(64, 16), op("Sub", op("Sub", size, 1), line)))
    if name == "sliced":
        x = op("Add", x, op("Slice", weight(40, 16), [0], op("Reshape", size, [1]), [0]))
    def heads(x, n):
        return op("Transpose", op("Reshape", x, [0, 0, n, 8]), perm=[0, 2, 1, 3])
    def turn(x):                # rotary embedding
        angle = op("Mul", op("Unsqueeze", op("Cast", line, to=T.FLOAT), [1]), np.float32([1, .3, .1, .03]))
        angle = op("Concat", angle, angle, axis=1)
        turned = op("Concat", op("Neg", op("Slice", x, [4], [8], [3])), op("Slice", x, [0], [4], [3]), axis=3)
        return op("Add", op("Mul", x, op("Cos", angle)), op("Mul", turned, op("Sin", angle)))
    q, k, v = op("MatMul", x, weight(16, 16)), op("MatMul", x, weight(16, 8)), op("MatMul", x, weight(16, 8))
    if name == "attention":
        a = op("Attention", q, k, v, q_num_heads=2, kv_num_heads=1, is_causal=1)
    else:
        k, v = turn(heads(k, 1)), heads(v, 1)
        k, v = (op("Expand", z, op("Concat", [1, 2], op("Reshape", size, [1]), [8], axis=0)) for z in (k, v))
        a = op("Div", op("MatMul", turn(heads(q, 2)), op("Transpose", k, perm=[0, 1, 3, 2])), np.float32(8 ** .5))
        later = op("Trilu", op("Expand", np.float32(-1e9), op("Concat", op("Reshape", size, [1]), op("Reshape", size, [1]), axis=0)),
                   2 if name == "ahead" else 1, upper=1)
        a = op("MatMul", op("Softmax", op("Add", a, later), axis=-1), v)
        a = op("Reshape", op("Transpose", a, perm=[0, 2, 1, 3]), [0, 0, 16])
    x = op("Add", x, op("MatMul", a, weight(16, 16)))
    if name == "mean":
        x = op("Sub", x, op("ReduceMean", x, axes=[1]))
    op("MatMul", x, weight(16, 40))
    nodes[-1].output[0] = "scores"
    graph = h.make_graph(nodes, name, [h.make_tensor_value_info("tokens", T.INT64, [1, "T"])],
                         [h.make_tensor_value_info("scores", T.FLOAT, [1, "T", 40])], [numpy_helper.from_array(x, k) for k, x in init.items()])
    save(h.make_model(graph, opset_imports=[h.make_opsetid("", opset)], ir_version=8), f"{sys.argv[1]}/{name}.onnx")

model("fixed", 24, False)
model("open", "T", True)
spelled("rotary")
spelled("attention", 23)
spelled("ahead")        # reads the next token, too
spelled("mean")         # of all tokens
spelled("turned")
model("square", 40, False)      # as many tokens as classes
model("rows", "T", False)       # 64 positions, which the file does not say: an index fails
spelled("sliced")               # 40 positions: a shape does
PY

# likeliest MODEL PROMPT N: what ONNX Runtime writes, the window moving over the end of the text.
likeliest() {
    "$python" - "$DIR/$1.onnx" "$2" "$3" "${4:-24}" <<'PY'
import sys
import numpy as np
import onnxruntime
net = onnxruntime.InferenceSession(sys.argv[1])
text, window = list(sys.argv[2].encode()), int(sys.argv[4])
names = [i.name for i in net.get_inputs()]
for _ in range(int(sys.argv[3])):
    seen = text[-window:]
    n = len(seen)
    length = window if isinstance(net.get_inputs()[0].shape[1], int) else n
    x = {"tokens": seen + [0] * (length - n), "attention_mask": [1] * n, "position_ids": range(n)}
    y = net.run(None, {k: np.array([x[k]], np.int64) for k in names})[0][0]
    text.append(int((y if len(names) == 1 else y.T)[n - 1].argmax()))
sys.stdout.buffer.write(bytes(text) + b"\n")
PY
}
prompt=$'\x01\x09\x11\x21'
for model in fixed open; do
    likeliest $model "$prompt" 40 >"$DIR/$model.expected"
    "$dpexec" generate "$DIR/$model.onnx" --prompt "$prompt" --tokens 40 --temperature 0 --window 24 --quiet >"$DIR/$model.written" 2>"$DIR/err" || cat "$DIR/err"
    check "$model: the likeliest tokens" cmp "$DIR/$model.written" "$DIR/$model.expected"
done

# ---- keys and values of earlier tokens ----

# writes MODEL: 60 tokens in a window of 64; what is said is in $DIR/said.
writes() { "$dpexec" generate "$DIR/$1.onnx" --prompt "$prompt" --tokens 60 --temperature 0 --window 64 2>"$DIR/said"; }
for model in fixed open rotary attention; do
    window=64
    [ $model != fixed ] || window=24
    likeliest $model "$prompt" 60 $window >"$DIR/$model.expected"
    "$dpexec" generate "$DIR/$model.onnx" --prompt "$prompt" --tokens 60 --temperature 0 --window $window >"$DIR/$model.written" 2>"$DIR/said"
    check "$model: the likeliest of 60 tokens" cmp "$DIR/$model.written" "$DIR/$model.expected"
    check "$model: earlier tokens are kept" test "$(grep -c anew "$DIR/said")" = 0
done
long=$prompt$prompt$prompt$prompt$prompt$prompt$prompt$prompt    # longer than the window
for model in fixed rotary; do
    likeliest $model "$long" 30 24 >"$DIR/$model.expected"
    "$dpexec" generate "$DIR/$model.onnx" --prompt "$long" --tokens 30 --temperature 0 --window 24 --quiet >"$DIR/$model.written"
    check "$model: a prompt longer than the window" cmp "$DIR/$model.written" "$DIR/$model.expected"
done
for model in ahead mean; do
    check "$model: writes" writes $model
    check "$model: no earlier token is kept" grep -q 'computed anew for each new one: .* mixes tokens of different times' "$DIR/said"
done
check "turned: writes" writes turned
check "turned: kept tokens give other scores" grep -q 'warning: the key-value cache changes the scores of token 4 by' "$DIR/said"
likeliest square "$prompt" 60 40 >"$DIR/square.expected"
"$dpexec" generate "$DIR/square.onnx" --prompt "$prompt" --tokens 60 --temperature 0 --class-axis 2 --quiet >"$DIR/square.written"
check "square: the likeliest tokens" cmp "$DIR/square.written" "$DIR/square.expected"
refused 2 "40 tokens and as many classes: give --class-axis 2" "$dpexec" generate "$DIR/square.onnx" --prompt "$prompt$prompt$prompt$prompt$prompt$prompt$prompt$prompt$prompt"
likeliest open "$prompt" 60 64 >"$DIR/long.expected"      # the window grows past as many tokens as classes
"$dpexec" generate "$DIR/open.onnx" --prompt "$prompt" --tokens 60 --temperature 0 --window 40 --quiet | head -c 41 >"$DIR/long.written"
check "open, as long as the vocabulary" cmp "$DIR/long.written" <(head -c 41 "$DIR/long.expected")
check "the model repeats no single token" test "$(tail -c 30 "$DIR/fixed.expected" | od -An -v -tx1 -w1 | sort -u | wc -l)" -gt 3
draw() { "$dpexec" generate "$DIR/open.onnx" --prompt "$prompt" --tokens 60 --quiet "$@"; }
draw --sample-seed 1 >"$DIR/one"; draw --sample-seed 1 >"$DIR/one again"; draw --sample-seed 2 >"$DIR/two"
check "a seed repeats its text" cmp "$DIR/one" "$DIR/one again"
check "another seed, another text" differ "$DIR/one" "$DIR/two"
draw --top-k 1 >"$DIR/first"; draw --temperature 0 >"$DIR/likeliest"
check "the first of one is the likeliest" cmp "$DIR/first" "$DIR/likeliest"

# ---- files that do not say how many tokens they read ----
for case in "rows 64" "sliced 32"; do
    read -r model window <<<"$case"
    likeliest $model "$prompt" 100 $window >"$DIR/$model.expected"
    "$dpexec" generate "$DIR/$model.onnx" --prompt "$prompt" --tokens 100 --temperature 0 >"$DIR/$model.written" 2>"$DIR/said"
    check "$model: slides over its text" cmp "$DIR/$model.written" "$DIR/$model.expected"
    check "$model: says so" grep -qE "warning: the model cannot read [0-9]+ tokens \(.*\): it sees the last $window" "$DIR/said"
done
refused 1 "do not broadcast" "$dpexec" generate "$DIR/sliced.onnx" --prompt "$prompt" --window 50

# ---- in training ----
"$python" -c "import sys, numpy as np; open(sys.argv[1], 'wb').write(bytes(np.random.default_rng(0).integers(0, 40, 4000).astype('u1')))" "$DIR/low.txt"
flags=("$DIR/fixed.onnx" --data "text:$DIR/low.txt" --loss cross-entropy --batch-size 8 --steps 12 --threads 1)
check "a training" "$dpexec" "${flags[@]}" --out "$DIR/plain" --quiet
check "that writes" "$dpexec" "${flags[@]}" --out "$DIR/writes" --sample-every 5 --sample-prompt $'\x03\x04'
check "is the same" same_run "$DIR/plain" "$DIR/writes"
check "every five steps" test "$(grep -ac 'the model writes' "$DIR/writes/log.txt")" = 2
check "that writes what the model cannot read" "$dpexec" "${flags[@]}" --out "$DIR/cannot" --sample-every 5 --sample-prompt "$(printf '\310')"
check "goes on" same_run "$DIR/plain" "$DIR/cannot"
check "and says so once" test "$(grep -c "warning: --sample-every: no more texts are written: .*is 200, not one of 40" "$DIR/cannot/log.txt")" = 1
check "no text is longer than those of training" "$dpexec" "$DIR/rows.onnx" --data "text:$DIR/low.txt,block=24" "${flags[@]:3}" --out "$DIR/rows" --sample-every 12
check "so that positions suffice" test "$(grep -ac 'the model writes' "$DIR/rows/log.txt") $(grep -c warning "$DIR/rows/log.txt")" = "1 0"
check "a run's folder" "$dpexec" generate "$DIR/writes" --prompt $'\x03' --tokens 5

# ---- what is refused ----
refused 2 "--prompt has no token" "$dpexec" generate "$DIR/fixed.onnx" --prompt ''
refused 2 "--temperature: expected a number from 0 on, found -1" "$dpexec" generate "$DIR/fixed.onnx" --temperature -1
refused 2 "--top-p: expected a number above 0, up to 1, found 1.5" "$dpexec" generate "$DIR/fixed.onnx" --top-p 1.5
refused 2 "input 'x' does not take tokens [batch, T]" "$dpexec" generate models/mlp.onnx
refused 1 "none.json: No such file or directory" "$dpexec" generate "$DIR/fixed.onnx" --tokenizer none.json
refused 2 "--sample-prompt needs --sample-every N" "$dpexec" "${flags[@]}" --sample-prompt a
refused 2 "--sample-every: input 'x' does not take tokens [batch, T]" "$dpexec" models/mlp.onnx --data tests/oracle/data/digits.npz --loss cross-entropy --sample-every 1 --steps 1
finish
