"""Training steps in ONNX Runtime 1.19.2, whose last version with training it is, for bench/cpu.py.

    python3.11 -m venv ort && ort/bin/pip install onnxruntime-training-cpu==1.19.2 'numpy<2' 'onnx<1.17' torch
    ort/bin/python bench/cpu_ort.py artifacts MODEL FILE.onnx FOLDER
    ort/bin/python bench/cpu_ort.py train MODEL DATA.npz STEPS WARM THREADS FOLDER

Its optimizer is SGD without momentum, for it has none with momentum.  `train` prints what cpu_torch.py prints."""
import json
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import cpu_models


def parameters(graph):
    """Names of the float initializers that are neither constants of the exporter nor statistics of batch-norm."""
    import onnx

    fixed = {name for node in graph.node if node.op_type == "BatchNormalization" for name in node.input[3:5]}
    return [t.name for t in graph.initializer if t.data_type == onnx.TensorProto.FLOAT and t.name not in fixed
            and not t.name.startswith(("onnx::", "/"))]


def make_artifacts(path, folder):
    import onnx
    from onnxruntime.training import artifacts

    net = onnx.load(path)
    for node in net.graph.node:     # the gradient reads the statistics
        if node.op_type == "LayerNormalization" and len(node.output) == 1:
            node.output.extend([f"{node.output[0]}.mean", f"{node.output[0]}.deviation"])
    artifacts.generate_artifacts(net, requires_grad=parameters(net.graph), loss=artifacts.LossType.CrossEntropyLoss,
                                 optimizer=artifacts.OptimType.SGD, artifact_directory=folder)


def train(model, data, steps, warm, threads, folder):
    import numpy as np
    from onnxruntime import SessionOptions
    from onnxruntime.training.api import CheckpointState, Module, Optimizer

    folder, batch, arrays = pathlib.Path(folder), cpu_models.CASES[model].batch, np.load(data)
    x, target = arrays[cpu_models.input_name(model)], arrays["target"]
    options = SessionOptions()
    options.intra_op_num_threads = threads
    module = Module(str(folder / "training_model.onnx"), CheckpointState.load_checkpoint(str(folder / "checkpoint")),
                    session_options=options)
    optimizer = Optimizer(str(folder / "optimizer_model.onnx"), module)
    optimizer.set_learning_rate(0.001)
    ends = [time.monotonic()]
    for i in range(warm + steps):
        at = i * batch % len(x)
        module(x[at:at + batch], target[at:at + batch])
        optimizer.step()
        module.lazy_reset_grad()
        ends.append(time.monotonic())
    print(json.dumps({"ms": [1e3 * (b - a) for a, b in zip(ends[warm:], ends[warm + 1:])], "first_end": ends[1]}))


def main():
    what, model, path, *rest = sys.argv[1:]
    if what == "artifacts":
        return make_artifacts(path, *rest)
    steps, warm, threads, folder = rest
    return train(model, path, int(steps), int(warm), int(threads), folder)


if __name__ == "__main__":
    main()
