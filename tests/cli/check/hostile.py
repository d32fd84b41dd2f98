"""Models whose numbers are out of range: hostile.py DIR makes a folder for each, with what must be said of it in `words`."""
import os
import sys

import numpy as np
from onnx import TensorProto, helper, numpy_helper, save

MOST, LEAST = 2**63 - 1, -(2**63)
f = np.float32
N = helper.make_node
x = np.arange(12, dtype=f).reshape(3, 4)


def info(name, dtype=TensorProto.FLOAT, shape=None):
    return helper.make_tensor_value_info(name, dtype, shape)


def refused(name, words, nodes, inputs, **attributes):
    """Inputs have the names a, b, c ...; nodes: an operator's name, or a list of nodes that makes y."""
    given = {k: np.asarray(v) for k, v in zip("abcdef", inputs) if v is not None}
    if isinstance(nodes, str):
        nodes = [N(nodes, [k if v is not None else "" for k, v in zip("abcdef", inputs)], ["y"], **attributes)]
    graph = helper.make_graph(nodes, "g", [info(k, numpy_helper.from_array(v).data_type, list(v.shape)) for k, v in given.items()], [info("y")])
    folder = os.path.join(sys.argv[1], name.replace(" ", "_"))
    data = os.path.join(folder, "test_data_set_0")
    os.makedirs(data)
    open(folder + "/words", "w").write(words)
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8), os.path.join(folder, "model.onnx"))
    for i, v in enumerate(given.values()):
        open(f"{data}/input_{i}.pb", "wb").write(numpy_helper.from_array(v).SerializeToString())
    open(f"{data}/output_0.pb", "wb").write(numpy_helper.from_array(np.zeros((), f)).SerializeToString())


def ints(*v):
    return np.array(v, np.int64)


def indices(i):
    words = f"index {i} (element %d) is outside of an axis of 3 elements"
    refused(f"Gather {i}", f"Gather_0 (output 'y'): {words % 1}", "Gather", [x, ints(0, i)])
    refused(f"GatherElements {i}", f"GatherElements_0 (output 'y'): {words % 1}", "GatherElements", [x, ints(0, i, 0, 0).reshape(1, 4)], axis=0)
    refused(f"GatherND {i}", f"GatherND_0 (output 'y'): {words % 1}", "GatherND", [x, ints(0, i).reshape(2, 1)])
    refused(f"ScatterND {i}", f"ScatterND_0 (output 'y'): {words % 0}", "ScatterND", [x, ints(i).reshape(1, 1), np.ones((1, 4), f)])
    refused(f"ScatterElements {i}", f"ScatterElements_0 (output 'y'): {words % 1}", "ScatterElements", [x, ints(0, i).reshape(2, 1), np.ones((2, 1), f)], axis=0)
    made = N("SequenceConstruct", ["a", "a", "a"], ["s"])
    refused(f"SequenceAt {i}", f"index {i} is outside of a sequence of 3", [made, N("SequenceAt", ["s", "b"], ["y"])], [x, np.int64(i)])
    refused(f"SequenceErase {i}", f"index {i} is outside of a sequence of 3",
            [made, N("SequenceErase", ["s", "b"], ["t"]), N("ConcatFromSequence", ["t"], ["y"], axis=0)], [x, np.int64(i)])


def sizes(n):
    over = "the size overflows" if n > 0 else f"is {n}"
    refused(f"ConstantOfShape {n}", over, "ConstantOfShape", [ints(n)])
    refused(f"Expand {n}", over, "Expand", [x[:, :1], ints(1, n)])
    refused(f"OneHot {n}", "the size overflows" if n > 0 else "depth must be one number >= 0", "OneHot", [ints(0), np.int64(n), x[0, :2]])
    refused(f"Tile {n}", f"{n} repeats of axis 1", "Tile", [x, ints(1, n)])
    refused(f"TopK {n}", "k must be one number from 0 to 4", [N("TopK", ["a", "b"], ["y", "i"])], [x, ints(n)])
    refused(f"Reshape {n}", "the shape overflows" if n > 0 else f"dimension 0 of the shape is {n}", "Reshape", [x, ints(n, 4)])
    refused(f"Split {n}", "part ", [N("Split", ["a", "b"], ["y", "z"], axis=1)], [x, ints(n, 4)])
    refused(f"SplitToSequence {n}", f"parts of {n} elements",
            [N("SplitToSequence", ["a", "b"], ["s"]), N("ConcatFromSequence", ["s"], ["y"], axis=0)], [x, np.int64(n)])
    refused(f"Pad {n}", f"pads {n}, 0 of axis 1", "Pad", [x, ints(0, n, 0, 0)])
    refused(f"Resize {n}", "the size overflows" if n > 0 else "a negative size", "Resize", [x, None, None, ints(3, n)], keep_aspect_ratio_policy="not_smaller")
    refused(f"Unsqueeze {n}", f"axis {n} of rank 3", "Unsqueeze", [x, ints(n)])


def flow(name, words, condition="yes", trips="m", body_outputs=2, carried=np.float32(1), m=np.int64(2), gives="w"):
    """A loop over a body of (i, on, v) that gives on and w = v + a."""
    outputs = [info("go", TensorProto.BOOL, []), info(gives), info("w2")][:body_outputs]
    body = helper.make_graph([N("Identity", ["on"], ["go"]), N("Add", ["v", "a"], ["w"]), N("Shape", ["v"], ["k"]), N("Identity", ["w"], ["w2"])], "body",
                             [info("i", TensorProto.INT64, []), info("on", TensorProto.BOOL, []), info("v")], outputs)
    yes = N("Constant", [], ["yes"], value=numpy_helper.from_array(np.array(True)))
    refused(name, words, [yes, N("Loop", [trips and "b", condition, "c"], ["y"], body=body)], [x, m, carried])


for i in (3, -4, MOST, LEAST):
    indices(i)
for i in (MOST, LEAST):
    sizes(i)
refused("ConstantOfShape overflow", "the size overflows", "ConstantOfShape", [ints(2**40, 2**40)])
for window in "Hann", "Hamming", "Blackman":
    refused(f"{window} window of -1", "a size of -1, expected 0 or more", f"{window}Window", [np.int64(-1)])
refused("Range of no step", "from 0 to 5 by 0", "Range", [np.int64(0), np.int64(5), np.int64(0)])
refused("Range of all", "from -9.22337e+18 to 9.22337e+18 by 1", "Range", [np.int64(LEAST), np.int64(MOST), np.int64(1)])
for scale in (0, -1, np.inf, -np.inf, np.nan):
    refused(f"Resize by {scale}", f"scale {scale}, expected more than 0", "Resize", [x, None, np.array([1, scale], f)])
refused("Resize by 3e38", "--plan-memory allows", "Resize", [x, None, np.array([1, 3e38], f)])
flow("trips of floats", "its trip count 'b' is of type float32, expected int64", m=np.float32(2))
flow("trips in a list", "its trip count 'b' is of shape [2], expected one number", m=ints(2, 3))
flow("condition of floats", "its condition 'c' is of type float32, expected bool", condition="c")
flow("a body of 1 output", "1 outputs, of a body of 1 that carries 1 values", body_outputs=1)
flow("carried of another type", "input 1 is float32, expected int64", carried=np.int64(1))
flow("carried becomes another type", "input 1 is float32, expected int64", gives="k")
flow("a value of nowhere", "output 'nowhere' of the subgraph is made by no node", gives="nowhere")
flow("a condition of nowhere", "input 'nowhere' is defined nowhere", condition="nowhere")
