"""Small models for the losses that models/*.onnx cannot show: their outputs are probabilities, or the loss itself."""
import onnx

import nets  # noqa: F401  (makes models/ importable)
from builder import INT64, Net


def body(name):
    net = Net(name, seed=6)
    x = net.relu(net.gemm(net.input("x", [64]), "fc1", 64, 32))
    return net, lambda out: net.gemm(x, "fc2", 32, 10, out=out)


def mlp_sigmoid():
    net, last = body("mlp_sigmoid")
    net.op("Sigmoid", last("logits"), out="probability")
    net.output("probability", [10])
    return net.model()


def mlp_logsoftmax():
    net, last = body("mlp_logsoftmax")
    net.op("LogSoftmax", last("logits"), out="log_probability", axis=1)
    net.output("log_probability", [10])
    return net.model()


def mlp_loss():
    """Takes the labels as an input; its output `loss` is what to minimise."""
    net, last = body("mlp_loss")
    net.op("SoftmaxCrossEntropyLoss", last("logits"), net.input("labels", [], INT64), out="loss", reduction="mean")
    net.output("logits", [10])
    net.scalar_output("loss")
    return net.model()


def save_all(folder):
    for make in (mlp_sigmoid, mlp_logsoftmax, mlp_loss):
        onnx.save(make(), str(folder / f"{make.__name__}.onnx"))
