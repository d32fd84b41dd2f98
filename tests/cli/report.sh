#!/bin/bash
# report.html and metrics.csv: what they show is what metrics.jsonl and the model's predictions say, after interruptions, too; pages of any
# length stay small.
. "$(dirname "$0")/lib.sh"
python=${PYTHON:-/usr/bin/python3}
py() { "$python" tests/cli/report.py "$@"; }

"$python" - "$DIR" <<'PY'
import sys
import numpy as np
from onnx import TensorProto, helper, numpy_helper, save
r = np.random.default_rng(3)
for name, n in (("train", 160), ("val", 90)):
    target = r.integers(0, 10, n)
    x = (r.standard_normal((n, 1, 28, 28)) + 1.5 * np.eye(28)[target * 2][:, None, None, :]).astype("f")
    np.savez(f"{sys.argv[1]}/{name}.npz", x=x, target=target)
    x = r.standard_normal((n, 8)).astype("f")
    np.savez(f"{sys.argv[1]}/{name}_values.npz", x=x, target=(x[:, :1] - x[:, 1:2] ** 2).astype("f"))
mask = (r.random((12, 16, 16)) * 3).astype("i8")
np.savez(f"{sys.argv[1]}/masks.npz", image=(mask[:, None] + r.random((12, 3, 16, 16))).astype("f"), target=np.where(r.random(mask.shape) < .05, 255, mask))
w = [numpy_helper.from_array(r.standard_normal(s).astype("f") / 3, n) for n, s in (("w1", (8, 16)), ("w2", (16, 1)))]
graph = helper.make_graph([helper.make_node("MatMul", ["x", "w1"], ["a"]), helper.make_node("Tanh", ["a"], ["b"]),
                           helper.make_node("MatMul", ["b", "w2"], ["y"])], "values",
                          [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 8])],
                          [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 1])], w)
save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), f"{sys.argv[1]}/values.onnx")
for name, n in (("train", 160), ("val", 90)):
    with open(f"{sys.argv[1]}/{name}.csv", "w") as f:
        f.write("age,city,height,target\n")
        for i in range(n):
            f.write(f"{r.integers(1, 99) if i % 7 else ''},{r.choice(['Oslo', 'Bergen', 'Trondheim & <b>'])},{r.normal(170, 9):.1f},{r.choice(['yes', 'no'])}\n")
words = r.choice(["never", "a", "word", "löß", "of", "it", "\n"], 9000)
open(f"{sys.argv[1]}/book.txt", "w").write(" ".join(words))
PY

# ---- what a page shows ----
flags=(models/fashion_cnn.onnx --data "$DIR/train.npz" --val "$DIR/val.npz" --loss cross-entropy --metric accuracy --metric confusion-matrix
    --batch-size 16 --lr 0.003 --threads 1 --quiet)
check "a run writes its page" "$dpexec" "${flags[@]}" --epochs 3 --out "$DIR/whole"
check "with each step and evaluation" py curves "$DIR/whole"
check "predictions" "$dpexec" eval "$DIR/whole/model.onnx" --data "$DIR/val.npz" --loss cross-entropy --predictions "$DIR/predicted" --quiet
check "with what the model gets wrong" py classes "$DIR/whole" "$DIR/predicted" "$DIR/val.npz"
check "a run of values" "$dpexec" "$DIR/values.onnx" --data "$DIR/train_values.npz" --val "$DIR/val_values.npz" --loss mse --epochs 2 --quiet --out "$DIR/values"
check "its predictions" "$dpexec" eval "$DIR/values/model.onnx" --data "$DIR/val_values.npz" --loss mse --predictions "$DIR/values/predicted" --quiet
check "beside its targets" py values "$DIR/values" "$DIR/values/predicted" "$DIR/val_values.npz"
check "a network for a table" "$dpexec" new mlp --inputs 5 --outputs 2 -o "$DIR/mlp.onnx"
check "a run on it" "$dpexec" "$DIR/mlp.onnx" --data "$DIR/train.csv" --val "$DIR/val.csv" --loss cross-entropy --epochs 2 --quiet --out "$DIR/table"
check "its predictions" "$dpexec" eval "$DIR/table/model.onnx" --data "$DIR/val.csv" --loss cross-entropy --predictions "$DIR/table/predicted" --quiet
check "the rows that are worst" py rows "$DIR/table" "$DIR/table/predicted" "$DIR/val.csv"
check "a run that ends early" "$dpexec" "$DIR/mlp.onnx" --data "$DIR/train.csv" --val "$DIR/val.csv" --loss cross-entropy --lr 0.1 --epochs 200 --patience 4 --quiet --out "$DIR/early"
check "its last evaluation" py ended "$DIR/early"
check "a run with an AUC" "$dpexec" "$DIR/mlp.onnx" --data "$DIR/train.csv" --val "$DIR/val.csv" --loss cross-entropy --metric auc --epochs 2 --quiet --out "$DIR/auc"
check "its bound" py bounds "$DIR/auc"
check "without validation" "$dpexec" "$DIR/mlp.onnx" --data "$DIR/train.csv" --loss cross-entropy --metric confusion-matrix --epochs 1 --quiet --out "$DIR/alone"
check "its classes have names" py names "$DIR/alone" no yes
check "a network for a text" "$dpexec" new gpt --layers 1 --width 16 --heads 2 --block 64 -o "$DIR/gpt.onnx"
check "a run on it" py measured "$DIR/peak" "$dpexec" train "$DIR/gpt.onnx" --data "text:$DIR/book.txt,limit=24" --val "text:$DIR/book.txt" \
    --loss cross-entropy --steps 2 --threads 1 --quiet --out "$DIR/text"
check "one that writes more than the network reads" "$dpexec" train "$DIR/gpt.onnx" --data "text:$DIR/book.txt,limit=24" --loss cross-entropy --steps 2 \
    --threads 1 --sample-every 1 --out "$DIR/writes"
check "its texts" py written "$DIR/writes" 1 2
writes=("$DIR/gpt.onnx" --data "text:$DIR/book.txt,limit=24" --val "text:$DIR/book.txt,limit=4" --loss cross-entropy --batch-size 4 --threads 1 --sample-every 2 --eval-every 4)
check "one that is stopped" "$dpexec" train "${writes[@]}" --steps 10 --checkpoint-every 8 --out "$DIR/texts"
rm -r "$DIR/texts/checkpoints/step-000000010"
check "and resumed from before" "$dpexec" train "${writes[@]}" --steps 16 --resume "$DIR/texts"
check "has each text once" py written "$DIR/texts" 2 16
check "a network for masks" "$dpexec" new unet --classes 3 --layers 1 --width 4 --size 16 -o "$DIR/unet.onnx"
check "a run on it" "$dpexec" train "$DIR/unet.onnx" --data "$DIR/masks.npz" --val "$DIR/masks.npz" --loss cross-entropy --ignore-index 255 --epochs 2 --batch-size 4 \
    --threads 1 --quiet --out "$DIR/masked"
check "its predictions" "$dpexec" eval "$DIR/masked/model.onnx" --data "$DIR/masks.npz" --loss cross-entropy --ignore-index 255 --predictions "$DIR/masked/predicted" --quiet
check "masks beside pictures" py masks "$DIR/masked" "$DIR/masked/predicted" "$DIR/masks.npz"
check "its predictions" "$dpexec" eval "$DIR/text/model.onnx" --data "text:$DIR/book.txt" --loss cross-entropy --predictions "$DIR/text/predicted" --quiet
check "the texts that are worst" py texts "$DIR/text" "$DIR/text/predicted" "$DIR/book.txt"
check "and the memory" py memory "$DIR/text" "$DIR/peak"

# ---- interrupted and resumed, and in several processes ----
check "stopped within an epoch" "$dpexec" "${flags[@]}" --epochs 3 --checkpoint-every 7 --steps 14 --out "$DIR/half"
check "and resumed" "$dpexec" "${flags[@]}" --epochs 3 --resume "$DIR/half"
check "has each step once" py once "$DIR/half"
check "the whole, with a longer end cut off" cp -r "$DIR/whole" "$DIR/rewound"
check "resumed from before" "$dpexec" "${flags[@]}" --epochs 4 --resume "$DIR/rewound"
check "once, too" py once "$DIR/rewound"
check "three processes" "$dpexec" launch -n 3 -- train "${flags[@]}" --epochs 2 --out "$DIR/three"
check "write one page" py once "$DIR/three"
check "predictions" "$dpexec" eval "$DIR/three/model.onnx" --data "$DIR/val.npz" --loss cross-entropy --predictions "$DIR/three/predicted" --quiet
check "with the worst of all" py classes "$DIR/three" "$DIR/three/predicted" "$DIR/val.npz"
check "three processes with values" "$dpexec" launch -n 3 -- train "$DIR/values.onnx" --data "$DIR/train_values.npz" --val "$DIR/val_values.npz" --loss mse \
    --epochs 1 --quiet --out "$DIR/values three"
check "their predictions" "$dpexec" eval "$DIR/values three/model.onnx" --data "$DIR/val_values.npz" --loss mse --predictions "$DIR/values three/predicted" --quiet
check "all beside their targets" py values "$DIR/values three" "$DIR/values three/predicted" "$DIR/val_values.npz"
cp "$DIR/whole/report.html" "$DIR/before.html"
says "report: $DIR/whole/report.html" "$dpexec" report "$DIR/whole"
check "made again, it is the same" cmp "$DIR/before.html" "$DIR/whole/report.html"

# ---- long runs, odd names, several runs ----
check "100,000 steps" py long_run "$DIR/long"
check "their page" "$dpexec" report "$DIR/long"
check "is below 1 MB, with the extremes" py thinned "$DIR/long"
printf '{"form": 1, "fitted": {"classes": ["</script><script>alert(1)</script>", "<!-- \\"'"'"'é"]}}' >"$DIR/long/data.json"
check "names that look like HTML" "$dpexec" report "$DIR/long"
check "stay names" py names "$DIR/long" '</script><script>alert(1)</script>' "<!-- \"'é"
check "two runs" "$dpexec" report "$DIR/whole" "$DIR/values" -o "$DIR/both.html"
check "beside each other" py compared "$DIR/both.html" "$DIR/whole" "$DIR/values"

# ---- what is no run ----
refused 1 "$DIR/nowhere/metrics.jsonl: cannot read: No such file or directory" "$dpexec" report "$DIR/nowhere"
cp "$DIR/long/metrics.jsonl" "$DIR/lines"
printf '{"step":100001,"loss"' >>"$DIR/long/metrics.jsonl"
check "a line that is being written is left out" "$dpexec" report "$DIR/long"
printf '\n' >>"$DIR/long/metrics.jsonl"
refused 1 "metrics.jsonl: the line at byte $(stat -c %s "$DIR/lines") is no JSON object" "$dpexec" report "$DIR/long"
finish
