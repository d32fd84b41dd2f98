"""Gradients that --tensorboard logs, beside PyTorch's.

    events_gradients.py torch       prints tests/cli/events_gradients.txt: NAME, count, least, greatest, sum, sum of squares of the gradient
                                    by each parameter of models/mlp.onnx in the last of STEPS steps of SGD in float64 (PyTorch)
    events_gradients.py compare RUN the last histograms of the run's events are those
    events_gradients.py same A B    two runs have the same histograms of weights and gradients, but for rounding of sums
"""
import sys

STEPS, BATCH, RATE = 3, 10, 0.1


def torch_gradients():
    import numpy as np
    import onnx
    import torch
    from onnx import numpy_helper
    w = {t.name: torch.tensor(numpy_helper.to_array(t).astype("d"), requires_grad=True) for t in onnx.load("models/mlp.onnx").graph.initializer}
    data = np.load("tests/oracle/data/digits.npz")
    for at in range(0, STEPS * BATCH, BATCH):
        x, target = torch.tensor(data["x"][at:at + BATCH].astype("d")), torch.tensor(data["target"][at:at + BATCH])
        for k in (1, 2, 3):
            x = torch.nn.functional.linear(x if k == 1 else x.relu(), w[f"fc{k}.weight"], w[f"fc{k}.bias"])
        grads = torch.autograd.grad(torch.nn.functional.cross_entropy(x, target), list(w.values()))
        with torch.no_grad():
            for p, g in zip(w.values(), grads):
                p -= RATE * g
    for name, g in zip(w, grads):
        print(name, g.numel(), *(repr(v.item()) for v in (g.min(), g.max(), g.sum(), (g * g).sum())))


def compare(run):
    import numpy as np
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    events = EventAccumulator(f"{run}/tensorboard", size_guidance={"histograms": 0}).Reload()
    rows = [line.split() for line in open("tests/cli/events_gradients.txt")]
    assert {t for t in events.Tags()["histograms"] if t.startswith("gradients/")} == {f"gradients/{r[0]}" for r in rows}, events.Tags()
    for name, *numbers in rows:
        point = events.Histograms(f"gradients/{name}")[-1]
        h = point.histogram_value
        found, wanted = np.array([h.num, h.min, h.max, h.sum, h.sum_squares]), np.array(numbers, float)
        scale = np.sqrt(wanted[4] / wanted[0]) * np.array([0, 1, 1, wanted[0], 1]) + np.array([0, 0, 0, 0, wanted[4]])
        assert point.step == STEPS and (np.abs(found - wanted) <= 1e-9 * scale).all(), (name, found, wanted)
        assert sum(h.bucket) == h.num and h.bucket_limit[-1] == h.max


def same(*runs):
    import numpy as np
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    a, b = (EventAccumulator(f"{run}/tensorboard", size_guidance={"histograms": 0}).Reload() for run in runs)
    tags = a.Tags()["histograms"]
    assert tags == b.Tags()["histograms"] and {t.split("/")[0] for t in tags} == {"weights", "gradients"}, (tags, b.Tags())
    for tag in tags:
        x, y = a.Histograms(tag), b.Histograms(tag)
        assert [p.step for p in x] == [p.step for p in y], tag
        for p, q in zip(x, y):
            p, q = p.histogram_value, q.histogram_value
            near = 1e-12 * np.sqrt(p.sum_squares * p.num)
            assert p.bucket == q.bucket and np.allclose([p.min, p.max, p.sum, p.sum_squares], [q.min, q.max, q.sum, q.sum_squares], 1e-12, near), (tag, p, q)


{"compare": compare, "same": same, "torch": torch_gradients}[sys.argv[1]](*sys.argv[2:])
