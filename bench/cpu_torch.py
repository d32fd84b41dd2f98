"""Training steps in PyTorch for bench/cpu.py, as a process of its own.

    bench/cpu_torch.py export MODEL FILE.onnx
    bench/cpu_torch.py eager|channels_last|compile MODEL DATA.npz STEPS WARM THREADS

Prints a JSON object: milliseconds of each step after the first WARM, the monotonic clock at the end of the first step,
and the peak memory of the process when torch was imported, in MiB."""
import json
import pathlib
import resource
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import cpu_models


def peak_mib():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def loss_of(net, case):
    import torch.nn.functional as F

    def loss(x, target):
        scores = net(x)
        if case.layout == "ntv":
            return F.cross_entropy(scores.flatten(0, 1), target.flatten())
        return F.cross_entropy(scores, target)

    return loss


def train(how, model, data, steps, warm, threads):
    import numpy as np
    import torch

    imported = peak_mib()
    torch.set_num_threads(threads)
    case, arrays = cpu_models.CASES[model], np.load(data)
    x, target = (torch.from_numpy(arrays[k]) for k in (cpu_models.input_name(model), "target"))
    net = cpu_models.make_net(model).train()
    if how == "channels_last":
        net, x = net.to(memory_format=torch.channels_last), x.contiguous(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(net.parameters(), 0.001, momentum=0.9, fused=True)
    loss = loss_of(net, case)
    if how == "compile":
        loss = torch.compile(loss)
    ends = [time.monotonic()]
    for i in range(warm + steps):
        at = i * case.batch % len(x)
        optimizer.zero_grad(set_to_none=True)
        loss(x[at:at + case.batch], target[at:at + case.batch]).backward()
        optimizer.step()
        ends.append(time.monotonic())
    print(json.dumps({"ms": [1e3 * (b - a) for a, b in zip(ends[warm:], ends[warm + 1:])], "first_end": ends[1],
                      "import_mib": imported}))


def main():
    what, model, path, *numbers = sys.argv[1:]
    if what == "export":
        return cpu_models.export(model, path)
    return train(what, model, path, *map(int, numbers))


if __name__ == "__main__":
    main()
