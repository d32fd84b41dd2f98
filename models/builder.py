"""A small builder of ONNX graphs: layers in, a checked ModelProto out.

Everything that is to be trained is an initializer; literals are Constant nodes, so that no tool mistakes a mask or
a scale factor for a parameter.  Names follow PyTorch (conv1.weight, bn1.running_mean).
"""
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

OPSET, IR_VERSION = 17, 8
FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64


class Net:
    """`bn_bias` is the deviation of batch-norm's initial biases: not 0 where deep ReLU networks are compared in float32,
    since the few first updates of a zero are mostly the rounding noise of activations near the kink."""

    def __init__(self, name, seed, bn_bias=0.0):
        self.name, self.rng, self.bn_bias = name, np.random.default_rng(seed), bn_bias
        self.nodes, self.inits, self.inputs, self.outputs, self.count = [], [], [], [], {}

    # ---- the graph ----

    def input(self, name, shape, dtype=FLOAT):
        self.inputs.append(helper.make_tensor_value_info(name, dtype, ["batch", *shape]))
        return name

    def output(self, name, shape, dtype=FLOAT):
        self.outputs.append(helper.make_tensor_value_info(name, dtype, ["batch", *shape]))

    def scalar_output(self, name):
        self.outputs.append(helper.make_tensor_value_info(name, FLOAT, []))

    def op(self, kind, *inputs, name=None, out=None, n_out=1, **attrs):
        """Appends a node; returns its output's name (`out`, else `name`), or the list of names if n_out > 1."""
        if name is None:
            self.count[kind] = self.count.get(kind, 0) + 1
            name = f"{kind.lower()}_{self.count[kind]}"
        outs = [out or name] if n_out == 1 else [f"{name}.{i}" for i in range(n_out)]
        self.nodes.append(helper.make_node(kind, list(inputs), outs, name=name, **attrs))
        return outs[0] if n_out == 1 else outs

    def const(self, value, dtype=np.float32):
        return self.op("Constant", value=numpy_helper.from_array(np.array(value, dtype)))

    def ints(self, *values):
        return self.const(values, np.int64)

    def param(self, name, array):
        self.inits.append(numpy_helper.from_array(np.asarray(array, np.float32), name))
        return name

    def normal(self, name, shape, std):
        return self.param(name, self.rng.standard_normal(shape) * std)

    def model(self):
        """The finished, checked model."""
        graph = helper.make_graph(self.nodes, self.name, self.inputs, self.outputs, self.inits)
        model = helper.make_model(graph, producer_name="dpexec-models", ir_version=IR_VERSION,
                                  opset_imports=[helper.make_opsetid("", OPSET)])
        onnx.checker.check_model(model, full_check=True)
        return model

    # ---- layers ----

    def relu(self, x):
        return self.op("Relu", x)

    def conv(self, x, name, cin, cout, k=3, stride=1, bias=False, out=None):
        """Convolution with "same" padding and He initialisation."""
        w = [self.normal(f"{name}.weight", (cout, cin, k, k), (2 / (cin * k * k)) ** 0.5)]
        if bias:
            w.append(self.normal(f"{name}.bias", (cout,), 0.05))
        return self.op("Conv", x, *w, name=name, out=out, kernel_shape=[k, k], strides=[stride] * 2,
                       pads=[k // 2] * 4)

    def bn(self, x, name, c, gain=1.0):
        bias = self.bn_bias * self.rng.standard_normal(c) if self.bn_bias else np.zeros(c)
        start = {"weight": np.full(c, gain), "bias": bias, "running_mean": np.zeros(c), "running_var": np.ones(c)}
        p = [self.param(f"{name}.{what}", v) for what, v in start.items()]
        return self.op("BatchNormalization", x, *p, name=name, epsilon=1e-5, momentum=0.9)

    def conv_bn(self, x, name, cin, cout, gain=1.0, **kw):
        """Convolution `conv<name>` and batch-norm `bn<name>`, whose weight starts at `gain`."""
        return self.bn(self.conv(x, f"conv{name}", cin, cout, **kw), f"bn{name}", cout, gain)

    def pool(self, x):
        return self.op("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2])

    def gemm(self, x, name, cin, cout, out=None):
        """x W^T + b with W [cout, cin]; He initialisation, or Xavier where the result is the output `out`."""
        w = self.normal(f"{name}.weight", (cout, cin), (2 / (cin + cout if out else cin)) ** 0.5)
        return self.op("Gemm", x, w, self.param(f"{name}.bias", np.zeros(cout)), name=name, out=out, transB=1)

    def linear(self, x, name, cin, cout, std):
        """x W + b over the last axis, W [cin, cout], for inputs of any rank."""
        y = self.op("MatMul", x, self.normal(f"{name}.weight", (cin, cout), std))
        return self.op("Add", y, self.param(f"{name}.bias", np.zeros(cout)), name=name)

    def layer_norm(self, x, name, c):
        return self.op("LayerNormalization", x, self.param(f"{name}.weight", np.ones(c)),
                       self.param(f"{name}.bias", np.zeros(c)), name=name, axis=-1, epsilon=1e-5)

    def gelu(self, x):
        """0.5 x (1 + erf(x / sqrt 2)), the exact form."""
        e = self.op("Add", self.op("Erf", self.op("Div", x, self.const(2 ** 0.5))), self.const(1))
        return self.op("Mul", self.op("Mul", x, self.const(0.5)), e)

    def upsample2(self, x):
        """Nearest neighbour by 2, [n,c,h,w] -> [n,c,2h,2w], in the shape arithmetic that exporters write."""
        shape, zero, one, two = self.op("Shape", x), self.ints(0), self.ints(1), self.ints(2)
        n, c, h, w = [self.op("Gather", shape, self.ints(i), axis=0) for i in range(4)]
        x = self.op("Reshape", x, self.op("Concat", n, c, h, one, w, one, axis=0))
        x = self.op("Expand", x, self.op("Concat", n, c, h, two, w, two, axis=0))
        size = self.op("Mul", self.op("Slice", shape, two, self.ints(4), zero), two)
        return self.op("Reshape", x, self.op("Concat", n, c, size, axis=0))
